//! From code addresses to functions, inlined frames and source lines.
//!
//! A recording says where each *module* (the program or a shared library) was mapped; [`ModulePlace`] is that fact.
//! A [`Symbolizer`] opens the module, finds its debug information, and turns addresses into [`SourceFrame`]s:
//!
//! ```text
//!   address ── minus bias ──▶ link-time address ─┬─▶ DWARF: functions, inlined frames, lines ─┐
//!            (ELF segments)                      └─▶ symbol table: the function's name ───────┴─▶ frames, innermost first
//! ```
//!
//! What can be relied on:
//!
//! * *No wrong names.* If the build id was recorded, only files with that build id are used: a program that was rebuilt
//!   since gives [`SymbolError::OtherBuild`]. A separate debug file is used only if its build id, or its checksum, is right.
//! * *No panics.* Whatever is damaged in a file is not known; the rest of it is used.
//! * *No network.* Files are looked for beside the program, in the directories given, and below `/usr/lib/debug`.
//!
//! Limits: 64-bit little-endian ELF only; no split DWARF (`.dwo`, `.dwp`); no compressed mini symbol tables
//! (`.gnu_debugdata`). The sections that are needed are read into memory, and nothing is mapped: a file that another program shortens or rewrites
//! meanwhile is one of which nothing is known.
//!
//! ```
//! use highwater_symbols::{ModulePlace, Symbolizer, demangle};
//! use std::path::Path;
//!
//! assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
//!
//! let mut symbolizer = Symbolizer::new();
//! let place = ModulePlace { path: Path::new("[vdso]"), build_id: "", start: 0x7fff_0000, file_offset: 0 };
//! let reason = symbolizer.module(&place).err().unwrap();
//! assert_eq!(reason.to_string(), "[vdso] is not a file, but memory that the kernel provides");
//! ```
#![forbid(unsafe_code)]

mod allocator;
mod cache;
mod debug_info;
mod debug_search;
mod debug_sections;
mod demangle;
mod elf;
mod error;
mod file_parts;
mod module;
mod names;
mod segments;
mod symbol_table;
mod symbolizer;

pub use allocator::allocator_in;
pub use demangle::demangle;
pub use elf::build_id_of;
pub use error::SymbolError;
pub use module::{ModuleSymbols, SourceFrame};
pub use symbolizer::{ModulePlace, Symbolizer};
