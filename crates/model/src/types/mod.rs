//! Types of blocks, from the names of the functions that allocated them.
//!
//! Containers allocate through functions of their library, and the names of those have the types: `alloc::vec::Vec<app::Point>::push`,
//! `std::_Rb_tree<int, …>::_M_create_node`. So the stack of a block shows its type, in programs that nobody changed, as far as symbols and debug
//! information have the names: see docs/names.md.
//!
//! Where nothing is known, the type says so, `[C block] in parse_config`. A guess is never shown as a type:
//!
//! * Merged functions claim no type: the symbolizer replaces their type arguments by `…`.
//! * What `operator new` makes is known from debug information, and only if the blocks have the size of the type.
//! * The type is that at the time of the allocation. A conversion that keeps the memory (`into_bytes`, an in-place `collect`) does not show.

mod cpp;
mod libraries;
mod rust;
mod spelling;
mod text;

use crate::catalog::{Catalog, FrameText};
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
        if let Some(found) = self.known(catalog, stack) {
            return found;
        }
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
        let innermost = catalog.stacks.frame_ids_of(stack).next().map(|id| self.role(catalog, id));
        let name = unknown_name(&frames, innermost.as_deref());
        let unknown = Arc::new(SiteType { name, is_known: false, elements: Elements::Unknown });
        self.known.insert(stack, Arc::clone(&unknown));
        unknown
    }

    /// The type if it is known, without a description otherwise.
    pub fn known(&mut self, catalog: &Catalog, stack: StackId) -> Option<Arc<SiteType>> {
        if let Some(known) = self.known.get(&stack) {
            return Some(Arc::clone(known)).filter(|known| known.is_known);
        }
        let mut roles: Vec<Arc<Role>> = Vec::new();
        let mut own = None;
        for id in catalog.stacks.frame_ids_of(stack).take(MOST_FRAMES) {
            let role = self.role(catalog, id);
            if *role == Role::Own {
                own = Some(id);
                break;
            }
            roles.push(role);
        }
        let found = Arc::new(self.find(catalog, &roles, own)?);
        self.known.insert(stack, Arc::clone(&found));
        Some(found)
    }

    /// The type that functions of libraries show, and the function of the program that calls them.
    fn find(&self, catalog: &Catalog, roles: &[Arc<Role>], own: Option<FrameId>) -> Option<SiteType> {
        if let Some(found) = by_library(roles) {
            return Some(self.site_type(found));
        }
        let made = roles.iter().find_map(|role| match &**role {
            Role::Makes(made) => Some(made.clone()),
            _ => None,
        });
        if let Some(name) = made {
            return Some(self.site_type(Found { name, element: None, holds: Holds::Unknown }));
        }
        if **roles.last()? != Role::New {
            return None;
        }
        // What `operator new` makes: the size of the type was compared with the blocks when the fact was added.
        let name = spelling::cpp(catalog.strings.get(catalog.types.made_at(own?)?));
        let (element, holds) = match name.strip_suffix("[]") {
            Some(element) => (Some(element.to_owned()), Holds::Array),
            None => (None, Holds::One),
        };
        Some(self.site_type(Found { name, element, holds }))
    }

    fn role(&mut self, catalog: &Catalog, id: FrameId) -> Arc<Role> {
        let Some(frame) = catalog.stacks.frame(id) else { return Arc::new(Role::Own) };
        let role = self.roles.entry((frame.function, frame.file));
        Arc::clone(role.or_insert_with(|| Arc::new(role_of(&catalog.frame_text(frame)))))
    }

    fn site_type(&self, found: Found) -> SiteType {
        let Found { name, element, holds } = found;
        let size = element.as_ref().and_then(|element| self.size_of(element));
        let elements = match (holds, size) {
            (Holds::One, _) => Elements::One,
            (Holds::Array, Some(size)) => Elements::Array { size },
            (Holds::Table, Some(size)) => Elements::Table { size },
            _ => Elements::Unknown,
        };
        SiteType { name, is_known: true, elements }
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
    if let Some(cpp) = CppFrame::of(function, frame.file) {
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
fn unknown_name(frames: &[FrameText<'_>], innermost: Option<&Role>) -> String {
    if frames.is_empty() {
        return "[unknown]".to_owned();
    }
    let own = &frames[leading_plumbing(frames).min(frames.len() - 1)];
    let kind = match innermost {
        Some(Role::New | Role::Cpp(_)) => "C++ block",
        Some(Role::Rust(_)) => "Rust block",
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
