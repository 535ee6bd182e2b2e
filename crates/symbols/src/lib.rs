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
//! * *No network unless it is asked for.* Files are looked for beside the program, in the directories given, and below `/usr/lib/debug`. Servers
//!   are asked only by [`Symbolizer::for_user`], and only those that the user names ([`debuginfod`]).
//!
//! Also read: parts of debug information that lie in other files (`.gnu_debugaltlink` of `dwz`; split DWARF in `.dwo` files and `.dwp` packages),
//! and compressed mini symbol tables inside stripped programs (`.gnu_debugdata`).
//!
//! Limits: 64-bit little-endian ELF only. The needed sections are read into memory, and nothing is mapped. If another program shortens or rewrites a
//! file meanwhile, nothing is known from that file.
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
pub mod debuginfod;
#[cfg(feature = "names")]
mod demangle;
mod elf;
#[cfg(feature = "names")]
mod error;
mod file_parts;
#[cfg(feature = "names")]
mod function_entry;
mod lookup;
#[cfg(feature = "names")]
mod made_type;
#[cfg(feature = "names")]
mod mini_debug_info;
#[cfg(feature = "names")]
mod module;
#[cfg(feature = "names")]
mod name_interner;
pub mod perf_map;
mod segments;
#[cfg(feature = "names")]
mod split_dwarf;
#[cfg(feature = "names")]
mod symbol_table;
#[cfg(feature = "names")]
mod symbol_tables;
#[cfg(feature = "names")]
mod symbolizer;
#[cfg(feature = "names")]
mod type_words;
#[cfg(feature = "names")]
mod typed_name;
#[cfg(feature = "types")]
pub mod types;

pub use allocator::allocator_in;
#[cfg(feature = "catalog")]
pub use catalog::{Symbolized, add_type_facts, frame_text, mapping_of, resolve_frames};
#[cfg(feature = "names")]
pub use debuginfod::DebuginfodServers;
#[cfg(feature = "names")]
pub use demangle::demangle;
pub use elf::{ModuleIdentity, build_id_of};
#[cfg(feature = "names")]
pub use error::SymbolError;
pub use lookup::{forbid_lookup, is_lookup_forbidden};
#[cfg(feature = "names")]
pub use module::{ModuleSymbols, SourceFrame, TypeSize};
#[cfg(feature = "names")]
pub use symbolizer::{ModuleMapping, Symbolizer, foreign_root};
