//! Types of blocks, from the names of the functions that allocated them.
//!
//! Containers allocate through functions of their library, and the names of those have the types: `alloc::vec::Vec<app::Point>::push`,
//! `std::_Rb_tree<int, …>::_M_create_node`. So the stack of a block shows its type, in programs that nobody changed, as far as symbols and debug
//! information have the names: see docs/names.md.
//!
//! Where nothing is known, the type says so, `[C block] in parse_config`. A guess is never shown as a type:
//!
//! * Merged functions claim no type: the symbolizer replaces their type arguments by `…`. Compilers also merge functions without a trace in the symbols.
//!   So a type that a library function claims must be one that its caller deals with, according to debug information; else it is not shown.
//! * Without debug information, or if the linker has optimised the program as a whole, nothing confirms a claim: `[perhaps Vec<app::Point>]`.
//! * What `operator new` makes is known from debug information, and only if the blocks have the size of the type.
//! * The type is that at the time of the allocation. A conversion that keeps the memory (`into_bytes`, an in-place `collect`) does not show.

mod cpp;
mod details;
mod libraries;
mod rust;
mod spelling;
mod text;

use crate::catalog::{Catalog, FrameText};
use crate::frame_roles::FrameRoles;
use crate::ids::{FrameId, StackId, StringId};
use crate::naming::Naming;
use crate::plumbing::{is_plumbing, own_allocator};
use crate::wrappers::is_wrapper;
use cpp::{CppChain, CppFrame};
pub use details::{ElementSum, TypeDetails, type_details};
use rust::{Found, Holds, RustChain, RustFrame, ShownBy};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The number of innermost frames, inlined ones included, that are looked at: no library goes through more functions.
const MOST_FRAMES: usize = 96;

/// Longer names are not analysed: compilers make them, but no person reads them.
const LONGEST_NAME: usize = 8192;

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
    fn unknown(name: String) -> Self {
        Self { name, is_known: false, elements: Elements::Unknown }
    }

    /// The number of elements that this number of bytes in this number of blocks has room for; `None` if the size of an element is not known.
    pub fn elements(&self, bytes: u64, blocks: u64) -> Option<u64> {
        match self.elements {
            Elements::Unknown => None,
            Elements::One => Some(blocks),
            Elements::Array { size: 0 } => None,
            Elements::Array { size } => bytes.is_multiple_of(size).then(|| bytes / size),
            // A bucket is an element and a byte; a table ends with sixteen bytes more. Tables of few small elements also have a gap.
            Elements::Table { size } => {
                let (buckets, bucket) = (bytes.checked_sub(blocks.checked_mul(16)?)?, size.checked_add(1)?);
                buckets.is_multiple_of(bucket).then(|| buckets / bucket)
            }
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
    /// The modules that the linker has optimised as a whole.
    linked_whole: FxHashSet<u32>,
    /// Names the sites of blocks of unknown types.
    naming: Naming,
    frame_roles: FrameRoles,
    /// The types of blocks of unknown types, by the frames that describe them.
    unknown: FxHashMap<(FrameId, FrameId), Arc<SiteType>>,
    /// The role of all functions of a Rust program's own allocator.
    allocator: Arc<Role>,
}

/// The part that a function plays on the way from the allocator to the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Role {
    /// Passes a request for memory on.
    #[default]
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
    /// Finder for the sites of a catalog. Blocks of unknown types are described by the names of their sites.
    pub fn new(catalog: &Catalog, naming: &Naming) -> Self {
        let mut types = Self { naming: naming.clone(), ..Self::default() };
        // Functions of the library that are compiled already: only the linker can inline them.
        let shims = catalog
            .stacks
            .frames()
            .iter()
            .filter(|frame| frame.inlined && is_compiled_library(catalog.strings.get(frame.function)));
        types.linked_whole = shims.map(|frame| frame.module).collect();
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
        let path = self.library_path(catalog, stack);
        let found = self.find(catalog, &path).map(|found| (path.certainty(catalog, &found), found));
        let site_type = match found {
            Some((Certainty::Known, found)) => Arc::new(self.site_type(found)),
            Some((Certainty::Perhaps, found)) => Arc::new(SiteType::unknown(format!("[perhaps {}]", found.name))),
            _ => self.unknown(catalog, stack),
        };
        self.known.insert(stack, Arc::clone(&site_type));
        site_type
    }

    /// The text for blocks of an unknown type: it depends on the innermost frame and on the one that names the site.
    fn unknown(&mut self, catalog: &Catalog, stack: StackId) -> Arc<SiteType> {
        let ids = || catalog.stacks.frame_ids_of(stack).take(MOST_FRAMES);
        let Some(innermost) = ids().next() else { return Arc::new(SiteType::unknown("[unknown]".to_owned())) };
        let site = self.frame_roles.site(catalog, &self.naming, stack, MOST_FRAMES);
        if let Some(pool) = site.pool {
            return Arc::new(SiteType::unknown(format!("[{pool}]")));
        }
        let own = ids().nth(site.passing).or_else(|| ids().last()).unwrap_or(innermost);
        if let Some(known) = self.unknown.get(&(innermost, own)) {
            return Arc::clone(known);
        }
        let role = self.role(catalog, innermost);
        let text = |id| catalog.stacks.frame(id).map(|frame| catalog.frame_text(frame)).unwrap_or_default();
        let name = unknown_name(&self.naming, &text(innermost), &text(own), &role);
        let made = Arc::new(SiteType::unknown(name));
        self.unknown.insert((innermost, own), Arc::clone(&made));
        made
    }

    /// The types that a library function claims, if nothing in the stack confirms them, and the place in the program that calls it. If the program deals
    /// with other types there, the claim is wrong: the compiler has merged the library function with the same one for other types.
    pub fn claim(&mut self, catalog: &Catalog, stack: StackId) -> Option<TypeClaim> {
        let path = self.library_path(catalog, stack);
        let found = self.find(catalog, &path)?;
        let (caller, recorded) = (path.caller?, path.recorded?);
        let words = words_of(&found.name);
        let is_claim = !path.is_confirmed(&found) && !words.is_empty();
        let (by_variables, is_optimized) = (path.is_linked_whole, path.is_optimized);
        is_claim.then_some(TypeClaim { caller, recorded, words, by_variables, is_optimized })
    }

    /// The functions of libraries from the allocator to the program.
    fn library_path(&mut self, catalog: &Catalog, stack: StackId) -> LibraryPath {
        let mut ids = catalog.stacks.frame_ids_of(stack);
        let mut of_allocator = own_allocator(|_| Some(self.frame_roles.is_rust_symbol(catalog, ids.next()?)));
        let mut path = LibraryPath::default();
        for recorded in catalog.stacks.recorded_frames_of(stack).take(MOST_FRAMES) {
            let ids = catalog.stacks.frame_ids(recorded);
            path.first_in_program = path.roles.len();
            for id in ids.clone().map(FrameId) {
                if of_allocator > 0 {
                    of_allocator -= 1;
                    path.roles.push(Arc::clone(&self.allocator));
                    continue;
                }
                let role = self.role(catalog, id);
                if *role == Role::Own {
                    (path.own, path.caller, path.recorded) = (Some(id), Some(FrameId(ids.start)), Some(recorded));
                    let module = catalog.stacks.frame(id).map(|frame| frame.module);
                    path.is_linked_whole = module.is_some_and(|module| self.linked_whole.contains(&module));
                    return path;
                }
                path.roles.push(role);
            }
            path.is_optimized = ids.len() > 1;
        }
        path.first_in_program = path.roles.len();
        path
    }

    /// The type that functions of libraries show.
    fn find(&self, catalog: &Catalog, path: &LibraryPath) -> Option<Found> {
        if let Some(found) = path.shown() {
            return Some(found);
        }
        let made = path.roles.iter().find_map(|role| match &**role {
            Role::Makes(made) => Some(made.clone()),
            _ => None,
        });
        if let Some(name) = made {
            return Some(Found { name, element: None, holds: Holds::Unknown, shown_by: ShownBy::Itself });
        }
        if let Some(container) =
            path.own.and_then(|own| container_of_crate(catalog, own)).filter(|_| path.is_allocator())
        {
            return Some(Found { name: container, element: None, holds: Holds::Unknown, shown_by: ShownBy::Called });
        }
        if **path.roles.last()? != Role::New {
            return None;
        }
        // What `operator new` makes: the size of the type was compared with the blocks when the fact was added.
        let name = spelling::cpp(catalog.strings.get(catalog.types.made_at(path.own?)?));
        let (element, holds) = match name.strip_suffix("[]") {
            Some(element) => (Some(element.to_owned()), Holds::Array),
            None => (None, Holds::One),
        };
        Some(Found { name, element, holds, shown_by: ShownBy::Itself })
    }

    fn role(&mut self, catalog: &Catalog, id: FrameId) -> Arc<Role> {
        let Some(frame) = catalog.stacks.frame(id) else { return Arc::new(Role::Own) };
        let role = self.roles.entry((frame.function, frame.file));
        Arc::clone(role.or_insert_with(|| Arc::new(role_of(&catalog.frame_text(frame)))))
    }

    fn site_type(&self, found: Found) -> SiteType {
        let Found { name, element, holds, .. } = found;
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
    if function.len() > LONGEST_NAME {
        return Role::Own;
    }
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
    if is_plumbing(function) || is_wrapper(function) { Role::Allocator } else { Role::Own }
}

/// What a library function claims of the blocks that it allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeClaim {
    /// The innermost function at the place in the program that calls the library function.
    pub caller: FrameId,
    /// The same place as it was recorded.
    pub recorded: FrameId,
    /// The names of the types, without paths.
    pub words: Vec<String>,
    /// True if only the variables of the caller can confirm the claim: the functions that are inlined into it may have been merged before.
    pub by_variables: bool,
    /// True if functions are inlined into the one that the program calls. Compilers that do not optimise merge nothing.
    pub is_optimized: bool,
}

/// How certain a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Known,
    /// Nothing contradicts it, and nothing confirms it.
    Perhaps,
    /// It is more likely wrong.
    Doubtful,
}

/// The functions of libraries between the allocator and the program.
#[derive(Default)]
struct LibraryPath {
    roles: Vec<Arc<Role>>,
    /// From here on, the functions are inlined into the program's own.
    first_in_program: usize,
    own: Option<FrameId>,
    caller: Option<FrameId>,
    recorded: Option<FrameId>,
    is_optimized: bool,
    /// The linker has optimised the program as a whole: functions may have been merged first and inlined then.
    is_linked_whole: bool,
}

impl LibraryPath {
    /// The type that the functions of a language's library show.
    fn shown(&self) -> Option<Found> {
        let (mut rust, mut cpp) = (RustChain::default(), CppChain::default());
        for (at, role) in self.roles.iter().enumerate() {
            let is_in_program = at >= self.first_in_program;
            match &**role {
                Role::Rust(frame) if !rust.step(frame, is_in_program) => break,
                Role::Cpp(frame) => cpp.step(frame, is_in_program),
                _ => {}
            }
        }
        rust.found().or_else(|| cpp.found())
    }

    /// True if Rust's allocator is called without a container of the standard library.
    fn is_allocator(&self) -> bool {
        !self.roles.is_empty()
            && self.roles.iter().all(|role| match &**role {
                Role::Rust(frame) => frame.is_allocator(),
                role => *role == Role::Allocator,
            })
    }

    fn is_confirmed(&self, found: &Found) -> bool {
        match found.shown_by {
            ShownBy::Itself => true,
            ShownBy::Inlined => !self.is_linked_whole,
            ShownBy::Called | ShownBy::Symbol => false,
        }
    }

    fn certainty(&self, catalog: &Catalog, found: &Found) -> Certainty {
        let is_doubtful = self.caller.is_some_and(|caller| catalog.types.is_doubtful(caller));
        match found.shown_by {
            _ if self.is_confirmed(found) || words_of(&found.name).is_empty() => Certainty::Known,
            ShownBy::Symbol => Certainty::Perhaps,
            _ if !catalog.types.is_checked() => Certainty::Perhaps,
            _ if is_doubtful && self.is_linked_whole => Certainty::Perhaps,
            _ if is_doubtful => Certainty::Doubtful,
            _ => Certainty::Known,
        }
    }
}

/// The type whose method a function of another crate is, such as `smallvec::SmallVec<[u64; 4]>`: containers of crates call the allocator themselves. The
/// program's own types may do so for any purpose.
fn container_of_crate(catalog: &Catalog, own: FrameId) -> Option<String> {
    let frame = catalog.frame_text(catalog.stacks.frame(own)?);
    let is_of_crate = frame.file.contains("/registry/src/");
    is_of_crate.then(|| rust::method_of(frame.function)).flatten()
}

/// True for functions of Rust's library that have no type parameters and that every program calls.
fn is_compiled_library(function: &str) -> bool {
    let name = function.strip_prefix("__rustc::").unwrap_or(function);
    name.starts_with("__rdl_") || function == "std::rt::lang_start_internal"
}

/// The names in the type arguments of a type, without paths. The container itself is left out: merged functions are those of one container.
fn words_of(name: &str) -> Vec<String> {
    let arguments = name.split_once('<').map_or("", |(_, arguments)| arguments);
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let words = arguments.split(|character| !is_word(character)).filter(|word| {
        word.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && !matches!(*word, "std" | "const" | "mut" | "dyn")
    });
    // One type has two names.
    let mut words: Vec<String> =
        words.map(|word| if word.ends_with("string") { "basic_string".to_owned() } else { word.to_owned() }).collect();
    // Paths are spelled differently in places; the last part is not.
    words.retain(|word| !arguments.contains(&format!("{word}::")));
    words.sort_unstable();
    words.dedup();
    words
}

/// The description of a block whose type is not known: what allocated it, and the function that names its site.
fn unknown_name(naming: &Naming, innermost: &FrameText<'_>, own: &FrameText<'_>, role: &Role) -> String {
    let kind = match role {
        Role::New | Role::Cpp(_) => "C++ block",
        Role::Rust(_) => "Rust block",
        _ if own.file.ends_with(".rs") => "Rust block",
        _ if innermost.function.starts_with("mmap") || innermost.function.starts_with("mremap") => "mapping",
        _ => "C block",
    };
    let place = match own.unnamed_code() {
        Some(code) => code.to_string(),
        None if own.function.is_empty() => return format!("[{kind}]"),
        None => naming.shown(own.function).into_owned(),
    };
    format!("[{kind}] in {place}")
}

/// The sizes of types that need no debug information.
fn primitive_size(name: &str) -> Option<u64> {
    Some(match name {
        "u8" | "i8" | "bool" | "char8_t" | "unsigned char" | "signed char" => 1,
        "u16" | "i16" | "short" | "unsigned short" | "char16_t" => 2,
        "u32" | "i32" | "f32" | "int" | "unsigned int" | "float" | "wchar_t" | "char32_t" => 4,
        "u64" | "i64" | "f64" | "usize" | "isize" | "long" | "unsigned long" | "long long" | "unsigned long long"
        | "double" => 8,
        "u128" | "i128" | "long double" | "__int128" => 16,
        _ if name.ends_with('*') => 8,
        _ => return None,
    })
}
