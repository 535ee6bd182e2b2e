//! Allocators that are linked into a program. Their blocks are not the C library's, so hooks on the C library do not see them.

use crate::elf::{Elf, ElfImage, parse};
use memchr::memmem;
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::Path;

/// Functions that identify an allocator, whatever else it is called in a program, and its name.
const FUNCTIONS: [(&str, &str); 13] = [
    ("__asan_init", "AddressSanitizer"),
    ("__hwasan_init", "AddressSanitizer"),
    ("__lsan_init", "LeakSanitizer"),
    ("__tsan_init", "ThreadSanitizer"),
    ("__msan_init", "MemorySanitizer"),
    ("_rjem_malloc", "jemalloc"),
    ("je_malloc", "jemalloc"),
    ("mi_malloc", "mimalloc"),
    ("tc_malloc", "tcmalloc"),
    ("TCMallocInternalMalloc", "tcmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("sn_malloc", "snmalloc"),
    ("sn_rust_alloc", "snmalloc"),
];

/// For programs whose functions have no names any more: the beginnings of messages. Each is in two parts, so that this program does not contain it.
const MESSAGES: [([&str; 2], &str); 3] = [
    (["<jemal", "loc>: "], "jemalloc"),
    (["mimal", "loc: warning: "], "mimalloc"),
    (["tcmal", "loc: large alloc "], "tcmalloc"),
];

/// The section of the C library's archive that stays in a program: its hooks see the blocks, whatever allocator is linked into the program.
const LINKED_LIBRARY: &str = ".note.highwater";

/// The allocator linked into the program at `path`, if it is a known one whose blocks are not seen.
pub fn allocator_in(path: &Path) -> Option<&'static str> {
    let image = ElfImage::open(path).ok()?;
    let is_linked = image.elf()?.section_by_name(LINKED_LIBRARY).is_some();
    let is_named = image.elf()?.section_by_name(".symtab").is_some();
    let wanted: &[&str] = if is_named { &[".symtab", ".strtab"] } else { &[".rodata"] };
    let parts = image.with_sections(|_, section| section.name().is_ok_and(|name| wanted.contains(&name))).ok()?;
    let elf = parse(&parts).ok()?;
    let found = if is_named { by_functions(&elf) } else { by_messages(&elf) };
    found.filter(|name| !is_linked || name.ends_with("Sanitizer"))
}

fn by_functions(elf: &Elf<'_>) -> Option<&'static str> {
    let names = elf.section_by_name(".strtab").and_then(|names| names.data().ok())?;
    // Most programs have none of these: searching for the names is faster than checking each symbol.
    let listed: Vec<(&str, &'static str)> = FUNCTIONS
        .into_iter()
        .filter(|(function, _)| memmem::find(names, format!("\0{function}\0").as_bytes()).is_some())
        .collect();
    if listed.is_empty() {
        return None;
    }
    let defined = elf.symbols().filter(|symbol| symbol.is_definition()).filter_map(|symbol| symbol.name().ok());
    let found: Vec<&str> = defined.filter(|name| listed.iter().any(|(function, _)| function == name)).collect();
    listed.into_iter().find(|(function, _)| found.contains(function)).map(|(_, allocator)| allocator)
}

fn by_messages(elf: &Elf<'_>) -> Option<&'static str> {
    let constants = elf.section_by_name(".rodata").and_then(|section| section.data().ok())?;
    let says = |parts: [&str; 2]| memmem::find(constants, parts.concat().as_bytes()).is_some();
    MESSAGES.into_iter().find(|&(parts, _)| says(parts)).map(|(_, allocator)| allocator)
}
