//! From code addresses to functions, inlined frames and source lines.
//!
//! A recording says where each *module* (the program or a shared library) was mapped; a [`ModuleMapping`] holds this.
//! A [`Symbolizer`] opens the module, finds its debug information, and turns addresses into [`SourceFrame`]s:
//!
//! ```text
//!   address ── minus bias ──▶ link-time address ─┬─▶ DWARF: functions, inlined frames, lines ─┐
//!            (ELF segments)                      └─▶ symbol table: the function's name ───────┴─▶ frames, innermost first
//! ```
//!
//! Guarantees:
//!
//! * *No wrong names.* If the build id was recorded, only files with that build id are used: a program that was rebuilt
//!   since gives [`SymbolError::OtherBuild`]. A separate debug file is used only if its build id, or its checksum, is right.
//! * *No panics.* Damaged parts of a file count as unknown; the rest of it is used.
//! * *No network.* Files are looked for beside the program, in the directories given, and below `/usr/lib/debug`.
//!
//! Limits: 64-bit little-endian ELF only; no split DWARF (`.dwo`, `.dwp`); no compressed mini symbol tables (`.gnu_debugdata`). The needed sections
//! are read into memory, and nothing is mapped. If another program shortens or rewrites a file meanwhile, nothing is known from that file.
//!
//! ```
//! use highwater_symbols::{ModuleMapping, Symbolizer, demangle};
//! use std::path::Path;
//!
//! assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
//!
//! let mut symbolizer = Symbolizer::new();
//! let mapping = ModuleMapping { path: Path::new("[vdso]"), build_id: "", start: 0x7fff_0000, file_offset: 0 };
//! let reason = symbolizer.module(&mapping).err().unwrap();
//! assert_eq!(reason.to_string(), "[vdso] is not a file, but memory that the kernel provides");
//! ```
#![forbid(unsafe_code)]
// Without the feature `names`, only a part of the code that reads ELF files is used.
#![cfg_attr(not(feature = "names"), allow(dead_code))]

mod allocator;
#[cfg(feature = "names")]
mod cache;
#[cfg(feature = "catalog")]
mod catalog;
#[cfg(feature = "names")]
mod debug_info;
#[cfg(feature = "names")]
mod debug_search;
#[cfg(feature = "names")]
mod debug_sections;
#[cfg(feature = "names")]
mod demangle;
mod elf;
#[cfg(feature = "names")]
mod error;
mod file_parts;
#[cfg(feature = "names")]
mod module;
#[cfg(feature = "names")]
mod name_interner;
pub mod perf_map;
mod segments;
#[cfg(feature = "names")]
mod symbol_table;
#[cfg(feature = "names")]
mod symbolizer;
#[cfg(feature = "types")]
pub mod types;

pub use allocator::allocator_in;
#[cfg(feature = "catalog")]
pub use catalog::{Symbolized, frame_text, mapping_of, resolve_frames};
#[cfg(feature = "names")]
pub use demangle::demangle;
pub use elf::{ModuleIdentity, build_id_of};
#[cfg(feature = "names")]
pub use error::SymbolError;
#[cfg(feature = "names")]
pub use module::{ModuleSymbols, SourceFrame};
#[cfg(feature = "names")]
pub use symbolizer::{ModuleMapping, Symbolizer};
