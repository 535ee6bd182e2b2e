//! Compressed mini symbol tables: an ELF file inside a stripped ELF file, in the section `.gnu_debugdata`, packed with xz.
//!
//! Fedora and its relatives ship their programs like this ("MiniDebugInfo" in the manual of gdb). The inner file has a symbol table with the
//! functions that the dynamic symbol table lacks, at the addresses of the outer file, and nothing else.

use std::io::Read;

use lzma_rust2::XzReader;
use object::{Object, ObjectSection};

use crate::elf::{ElfImage, parse};
use crate::file_parts::FileParts;

const SECTION: &str = ".gnu_debugdata";

/// A larger inner file is not read: it would not be a symbol table.
const LARGEST_FILE: u64 = 256 << 20;
/// The memory of the decoder, in KiB: the dictionary of `xz -9`, with some room.
const DECODER_MEMORY_KIB: u32 = 80 << 10;

/// The inner file, if there is one and it is whole.
pub(crate) fn mini_debug_file(image: &ElfImage) -> Option<FileParts> {
    image.elf()?.section_by_name(SECTION)?;
    let outer = image.with_sections(|_, section| section.name() == Ok(SECTION)).ok()?;
    let compressed = parse(&outer).ok()?.section_by_name(SECTION)?.data().ok()?.to_vec();
    FileParts::of_bytes(&decompressed(&compressed)?).ok()
}

/// `None` if the bytes are damaged, or stand for too many others.
fn decompressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut inner = Vec::new();
    let decoder = XzReader::new_mem_limit(bytes, false, DECODER_MEMORY_KIB);
    let length = decoder.take(LARGEST_FILE + 1).read_to_end(&mut inner).ok()?;
    (length as u64 <= LARGEST_FILE).then_some(inner)
}
