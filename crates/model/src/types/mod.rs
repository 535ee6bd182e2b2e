//! Types of blocks, from the names of the functions that allocated them.
//!
//! Containers allocate through functions of their library, and the names of those have the types: `alloc::vec::Vec<app::Point>::push`,
//! `std::_Rb_tree<int, …>::_M_create_node`. So the stack of a block shows its type, in programs that nobody changed, as far as symbols and debug
//! information have the names: see docs/names.md.
//!
//! Where nothing is known, the type says so, `[C block] in parse_config`. A guess is never shown as a type:
//!
//! * Merged functions claim no type: the symbolizer replaces their type arguments by `…`.
//! * What `operator new` makes is known from debug information; the size of the blocks must be that of the type.
//! * The type is that at the time of the allocation. A conversion that keeps the memory (`into_bytes`, an in-place `collect`) does not show.

mod cpp;
mod libraries;
mod rust;
mod spelling;
mod text;

use crate::catalog::{Catalog, FrameText};
use crate::figures::Figures;
use crate::ids::{FrameId, StackId, StringId};
use crate::plumbing::{is_plumbing, leading_plumbing};
use cpp::{CppChain, CppFrame};
use rust::{Found, Holds, RustChain, RustFrame};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The number of innermost frames, inlined ones included, that are looked at: no library goes through more functions.
const MOST_FRAMES: usize = 96;

/// The type of the blocks of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteType {
    /// The type, as a programmer writes it; a description in brackets if it is not known.
    pub name: String,
    /// True if the type is known.
    pub is_known: bool,
    elements: Elements,
    /// The size of every block, if the type is right.
    size: Option<u64>,
    /// The description that takes its place if the blocks have other sizes.
    otherwise: String,
}

/// How many elements blocks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elements {
    Unknown,
    One,
    Array { size: u64 },
    Table { size: u64 },
}

impl SiteType {
    /// The number of elements that this number of bytes in this number of blocks has room for; `None` if the size of an element is not known.
    pub fn elements(&self, bytes: u64, blocks: u64) -> Option<u64> {
        match self.elements {
            Elements::Unknown => None,
            Elements::One => Some(blocks),
            Elements::Array { size: 0 } => None,
            Elements::Array { size } => bytes.is_multiple_of(size).then(|| bytes / size),
            // A bucket is an element and a byte; a table ends with sixteen bytes more.
            Elements::Table { size } => Some(bytes.checked_sub(blocks.checked_mul(16)?)? / size.checked_add(1)?),
        }
    }

    /// The type of blocks that have these bytes together. Debug information shows what `operator new` may make at a place; only blocks of that size
    /// are it.
    pub fn name_of(&self, bytes: u64, blocks: u64) -> &str {
        let fits = self.size.is_none_or(|size| size.checked_mul(blocks) == Some(bytes));
        if fits { &self.name } else { &self.otherwise }
    }

    /// The type of all blocks that a site allocated.
    pub fn name_of_all(&self, figures: &Figures) -> &str {
        self.name_of(figures.allocated_bytes, figures.allocations + figures.reallocations)
    }
}

/// Finds the types of sites; each name is analysed once.
#[derive(Clone, Debug, Default)]
pub struct SiteTypes {
    roles: FxHashMap<(StringId, StringId), Arc<Role>>,
    /// The sizes of types, by their spelling; `None` if types of different sizes are spelled alike.
    sizes: FxHashMap<String, Option<u64>>,
    known: FxHashMap<StackId, Arc<SiteType>>,
}

/// The part that a function plays on the way from the allocator to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    /// Passes a request for memory on.
    Allocator,
    /// `operator new`.
    New,
    Rust(RustFrame),
    Cpp(CppFrame),
    /// A function that says what it makes.
    Makes(String),
    /// A function of the program, or of another library.
    Own,
}

impl SiteTypes {
    /// Finder for the sites of a catalog.
    pub fn new(catalog: &Catalog) -> Self {
        let mut types = Self::default();
        for entry in catalog.types.sizes() {
            let name = catalog.strings.get(entry.name);
            for spelled in [spelling::rust(name), spelling::cpp(name)] {
                let known = types.sizes.entry(spelled).or_insert(Some(entry.size));
                *known = known.filter(|size| *size == entry.size);
            }
        }
        types
    }

    /// The type of the blocks that were allocated with this stack.
    pub fn of(&mut self, catalog: &Catalog, stack: StackId) -> Arc<SiteType> {
        if let Some(known) = self.known.get(&stack) {
            return Arc::clone(known);
        }
        let ids: Vec<FrameId> = catalog.stacks.frame_ids_of(stack).take(MOST_FRAMES).collect();
        let found = Arc::new(self.find(catalog, &ids));
        self.known.insert(stack, Arc::clone(&found));
        found
    }

    fn find(&mut self, catalog: &Catalog, ids: &[FrameId]) -> SiteType {
        let frames: Vec<FrameText<'_>> =
            ids.iter().filter_map(|id| catalog.stacks.frame(*id)).map(|frame| catalog.frame_text(frame)).collect();
        let roles: Vec<Arc<Role>> = ids.iter().map(|id| self.role(catalog, *id)).collect();
        let unknown = unknown_name(&frames, &roles);
        let library = roles.iter().position(|role| **role == Role::Own).unwrap_or(roles.len());
        if let Some(found) = by_library(&roles[..library]) {
            return self.site_type(found, unknown);
        }
        if let Some(made) = roles[..library].iter().find_map(|role| match &**role {
            Role::Makes(made) => Some(made.clone()),
            _ => None,
        }) {
            return self.site_type(Found { name: made, element: None, holds: Holds::Unknown }, unknown);
        }
        let is_after_new = library > 0 && *roles[library - 1] == Role::New;
        let made = ids.get(library).filter(|_| is_after_new).and_then(|id| catalog.types.made_at(*id));
        if let Some(name) = made.map(|name| spelling::cpp(catalog.strings.get(name))) {
            return self.made(&name, unknown);
        }
        SiteType { name: unknown.clone(), is_known: false, elements: Elements::Unknown, size: None, otherwise: unknown }
    }

    fn role(&mut self, catalog: &Catalog, id: FrameId) -> Arc<Role> {
        let Some(frame) = catalog.stacks.frame(id) else { return Arc::new(Role::Own) };
        let role = self.roles.entry((frame.function, frame.file));
        Arc::clone(role.or_insert_with(|| Arc::new(role_of(&catalog.frame_text(frame)))))
    }

    fn site_type(&self, found: Found, otherwise: String) -> SiteType {
        let Found { name, element, holds } = found;
        let size = element.as_ref().and_then(|element| self.size_of(element));
        let elements = match (holds, size) {
            (Holds::One, _) => Elements::One,
            (Holds::Array, Some(size)) => Elements::Array { size },
            (Holds::Table, Some(size)) => Elements::Table { size },
            _ => Elements::Unknown,
        };
        SiteType { name, is_known: true, elements, size: None, otherwise }
    }

    /// What `operator new` makes, if the size of the type is known: only then can it be compared with the blocks.
    fn made(&self, name: &str, otherwise: String) -> SiteType {
        let element = name.strip_suffix("[]");
        let size = self.size_of(element.unwrap_or(name));
        let (is_known, elements, size) = match (element, size) {
            (Some(_), Some(size)) => (true, Elements::Array { size }, None),
            (Some(_), None) => (true, Elements::Unknown, None),
            (None, Some(size)) => (true, Elements::One, Some(size)),
            (None, None) => (false, Elements::Unknown, None),
        };
        let name = if is_known { name.to_owned() } else { otherwise.clone() };
        SiteType { name, is_known, elements, size, otherwise }
    }

    fn size_of(&self, spelled: &str) -> Option<u64> {
        self.sizes.get(spelled).copied().flatten().or_else(|| primitive_size(spelled))
    }
}

fn role_of(frame: &FrameText<'_>) -> Role {
    let function = frame.function;
    if function.starts_with("operator new") {
        return Role::New;
    }
    if let Some(cpp) = CppFrame::of(function) {
        return Role::Cpp(cpp);
    }
    if function.starts_with("std::sys::") && function.contains("::stack_overflow::") {
        return Role::Makes("signal stack".to_owned());
    }
    if let Some(rust) = RustFrame::of(function, frame.file) {
        return Role::Rust(rust);
    }
    if let Some(made) = libraries::made_by(function).map(str::to_owned).or_else(|| libraries::qt_container(function)) {
        return Role::Makes(made);
    }
    if is_plumbing(function) { Role::Allocator } else { Role::Own }
}

/// What the functions of a language's library show.
fn by_library(roles: &[Arc<Role>]) -> Option<Found> {
    let (mut rust, mut cpp) = (RustChain::default(), CppChain::default());
    for role in roles {
        match &**role {
            Role::Rust(frame) if !rust.step(frame) => break,
            Role::Cpp(frame) => cpp.step(frame),
            _ => {}
        }
    }
    rust.found().or_else(|| cpp.found())
}

/// The description of a block whose type is not known: what allocated it, and the function that names its site.
fn unknown_name(frames: &[FrameText<'_>], roles: &[Arc<Role>]) -> String {
    if frames.is_empty() {
        return "[unknown]".to_owned();
    }
    let own = &frames[leading_plumbing(frames).min(frames.len() - 1)];
    let kind = match &*roles[0] {
        Role::New | Role::Cpp(_) => "C++ block",
        Role::Rust(_) => "Rust block",
        _ if own.file.ends_with(".rs") => "Rust block",
        _ if frames[0].function.starts_with("mmap") || frames[0].function.starts_with("mremap") => "mapping",
        _ => "C block",
    };
    let place = match own.unnamed_code() {
        Some(code) => code.to_string(),
        None if own.function.is_empty() => return format!("[{kind}]"),
        None => own.function.to_owned(),
    };
    format!("[{kind}] in {place}")
}

/// The sizes of types that need no debug information.
fn primitive_size(name: &str) -> Option<u64> {
    Some(match name {
        "u8" | "i8" | "bool" | "char8_t" | "unsigned char" | "signed char" => 1,
        "u16" | "i16" | "short" | "unsigned short" | "char16_t" => 2,
        "u32" | "i32" | "f32" | "int" | "unsigned int" | "float" | "wchar_t" | "char32_t" => 4,
        "u64" | "i64" | "f64" | "usize" | "isize" | "long" | "unsigned long" | "long long" | "unsigned long long" | "double" => 8,
        "u128" | "i128" | "long double" | "__int128" => 16,
        _ if name.ends_with('*') => 8,
        _ => return None,
    })
}
