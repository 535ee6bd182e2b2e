//! The table of modules for an agent whose C library has no `_dl_find_object`: musl, older glibc, static programs. Without it no stack could be unwound by tables.
//!
//! It has the modules at the attach. Those that the program loads later are not in it.

use crate::elf::PT_GNU_EH_FRAME;
use crate::modules::TargetModule;
use highwater_shm::attach_v1::{MODULES, MOST_MODULES, ModuleEntry, ModuleTable, UNKNOWN_FREES};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;

const PAGE: u64 = 4096;
/// Paths follow the table, up to the next part of the object.
const PATHS: u64 = MODULES + size_of::<ModuleTable>() as u64;

/// Writes the table into the object, which the process has at `shared`. The agent has not begun.
pub(crate) fn write_module_table(object: &File, shared: u64, modules: &[TargetModule]) -> io::Result<()> {
    let mut listed: Vec<&TargetModule> = modules.iter().filter(|module| !module.range.is_empty()).collect();
    listed.sort_by_key(|module| module.range.start);
    listed.truncate(MOST_MODULES);
    let mut table = vec![0; offset_of!(ModuleTable, modules) + listed.len() * size_of::<ModuleEntry>()];
    let mut put = |at: usize, value: u64| table[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(offset_of!(ModuleTable, count), listed.len() as u64);
    // The program itself has an empty path, as in the loader's list.
    let mut paths = vec![0_u8];
    for (index, module) in listed.into_iter().enumerate() {
        let entry = offset_of!(ModuleTable, modules) + index * size_of::<ModuleEntry>();
        let tables = module.segments.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME);
        let path = if module.is_vdso { "linux-vdso.so.1" } else { &module.path };
        let has_room = PATHS + (paths.len() + path.len() + 1) as u64 <= UNKNOWN_FREES;
        let at = if module.is_program || !has_room { 0 } else { paths.len() };
        if at > 0 {
            paths.extend_from_slice(path.as_bytes());
            paths.push(0);
        }
        put(entry + offset_of!(ModuleEntry, start), module.range.start);
        put(entry + offset_of!(ModuleEntry, end), module.range.end.next_multiple_of(PAGE));
        put(entry + offset_of!(ModuleEntry, bias), module.bias);
        let tables = tables.map_or(0, |tables| module.bias.wrapping_add(tables.address));
        put(entry + offset_of!(ModuleEntry, unwind_tables), tables);
        put(entry + offset_of!(ModuleEntry, path), shared + PATHS + at as u64);
    }
    object.write_all_at(&paths, PATHS)?;
    object.write_all_at(&table, MODULES)
}
