//! Whether a process's loader is at work: then an allocator of it may not be there yet, and would not be hooked.

use crate::elf::{PT_DYNAMIC, u64_at};
use crate::look::examine;
use crate::mappings::AddressSpace;
use crate::modules::{TargetModule, read_modules};
use crate::target_memory::TargetMemory;

/// Whether the loader maps the libraries of a process, as it does when a program begins. Nothing in the process is touched. False if that cannot be found out.
pub fn is_loading(pid: i32) -> bool {
    let Ok(memory) = examine(pid) else { return false };
    let Ok(space) = AddressSpace::read(pid) else { return false };
    let modules = read_modules(pid, &memory, &space);
    let program = modules.iter().find(|module| module.is_program && module.has_interpreter);
    program.is_some_and(|program| state_of_loader(&memory, program) != Some(CONSISTENT))
}

/// `r_state` of `struct r_debug`: the list of libraries is complete.
const CONSISTENT: u32 = 0;

/// What the loader says to debuggers, through an entry of the program's dynamic section. `None` if it has said nothing yet.
fn state_of_loader(memory: &TargetMemory, program: &TargetModule) -> Option<u32> {
    const DT_NULL: u64 = 0;
    const DT_DEBUG: u64 = 21;
    /// Offset in `struct r_debug`.
    const R_STATE: u64 = 24;
    let segment = program.segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let at = program.bias.wrapping_add(segment.address);
    let dynamic = memory.read_vec(at, segment.memory_bytes.min(1 << 16) as usize).ok()?;
    let entries = dynamic.chunks_exact(16).map_while(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?)));
    let Some((_, debug)) = entries.take_while(|(tag, _)| *tag != DT_NULL).find(|(tag, _)| *tag == DT_DEBUG) else {
        // A program without the entry: nothing can be found out.
        return Some(CONSISTENT);
    };
    if debug == 0 { None } else { memory.read_u32(debug.checked_add(R_STATE)?).ok() }
}
