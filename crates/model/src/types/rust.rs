//! Types of blocks that Rust's standard library allocates, from the names of its functions.
//!
//! A container allocates through a chain of library functions: `RawVec` → `Vec` → `String`. Each has type arguments, and the outermost function
//! of the chain knows best: the inner ones may serve several types, since compilers merge functions with equal code. The chain ends with the first
//! function that is not a part of it.
//!
//! A function shows its place in the library by its path, `alloc::vec::Vec<app::Point>::push`, or, if it was inlined and there are only line tables, by its
//! source file alone: `push<app::Point, alloc::alloc::Global>` in `library/alloc/src/vec/mod.rs`.

use super::text::{generic, qualified, split};
use super::{primitive_size, spelling};

/// The parts of the library that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Allocator,
    Buffer,
    Vec,
    Slice,
    Deque,
    Heap,
    Text,
    Path(&'static str),
    Box,
    Counted(&'static str),
    Table,
    Map,
    Set,
    Tree,
    List,
    Channel,
    Other,
}

/// A function of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RustFrame {
    kind: Kind,
    method: String,
    /// The type arguments: those of the container, or else those of the function, as spelled in the name.
    arguments: Vec<String>,
    /// True if the arguments are those of the container itself.
    of_container: bool,
    /// True if the source file is known: then inlined functions have frames of their own.
    shows_inlined: bool,
}

/// Methods of slices whose result has other elements than the slice.
const JOINING: [&str; 3] = ["concat", "join", "connect"];
/// Functions whose argument is the type in the box, if line tables have only the function's own argument. That of a conversion is the element of a slice.
const BOXING: [&str; 9] =
    ["new", "new_in", "pin", "try_new", "new_uninit", "new_uninit_in", "new_zeroed", "box_new", "box_new_uninit"];

/// A type that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The type, as a programmer writes it.
    pub name: String,
    /// The type of the elements, as its size is listed; none if a block has one element.
    pub element: Option<String>,
    /// How many elements a block has.
    pub holds: Holds,
    /// What shows the type.
    pub shown_by: ShownBy,
}

/// What shows a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShownBy {
    /// A function that makes nothing else.
    Itself,
    /// A library function that is inlined into the program's own.
    Inlined,
    /// A library function that the program calls.
    #[default]
    Called,
    /// The same, and only its symbol is known.
    Symbol,
}

/// How many elements a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// One.
    One,
    /// As many as fit.
    Array,
    /// A hash table's buckets: an element and a byte each, and sixteen bytes more.
    Table,
    /// Not known.
    Unknown,
}

impl RustFrame {
    /// The library function of this name in this source file; `None` if it is not one.
    pub fn of(function: &str, file: &str) -> Option<Self> {
        if is_allocator_symbol(function) {
            return Some(Self::plain(Kind::Allocator));
        }
        let parts = NameParts::of(function)?;
        let module = match parts.module() {
            Some(module) => module,
            None if parts.path.is_empty() => module_of_file(file).or_else(|| parts.module_of_primitive())?,
            None => return None,
        };
        let kind = kind_of(&module, &parts);
        // The first argument of these is an iterator, or nothing that an element could be.
        const ITERATING: [&str; 3] = ["alloc::vec::splice", "alloc::vec::extract_if", "alloc::vec::in_place_collect"];
        let is_silent = parts.method.starts_with('{')
            || ITERATING.contains(&module.as_str())
            || kind == Kind::Slice && JOINING.contains(&parts.method)
            || kind == Kind::Box && parts.own_alone() && !BOXING.contains(&parts.method);
        let (arguments, of_container) = if is_silent { Default::default() } else { parts.arguments() };
        Some(Self { kind, method: parts.method.to_owned(), arguments, of_container, shows_inlined: !file.is_empty() })
    }

    /// True if it only passes a request on.
    pub fn is_allocator(&self) -> bool {
        self.kind == Kind::Allocator
    }

    fn plain(kind: Kind) -> Self {
        Self { kind, method: String::new(), arguments: Vec::new(), of_container: false, shows_inlined: true }
    }

    /// A type argument that is a type, and not a parameter.
    fn argument(&self, index: usize) -> Option<&str> {
        self.arguments.get(index).map(String::as_str).filter(|text| is_type(text))
    }
}

/// The type whose method a function is, if it is generic and its arguments are known.
pub fn method_of(function: &str) -> Option<String> {
    let parts = NameParts::of(function)?;
    let (name, arguments) = generic(parts.container?)?;
    let is_known = !arguments.is_empty() && arguments.iter().all(|text| is_type(text));
    (is_known && parts.of_trait.is_none()).then(|| {
        let arguments: Vec<String> = arguments.iter().map(|text| spelling::rust(text)).collect();
        let path: Vec<&str> = parts.path.iter().copied().chain([name]).collect();
        format!("{}<{}>", path.join("::"), arguments.join(", "))
    })
}

fn is_allocator_symbol(function: &str) -> bool {
    let symbol = function.strip_prefix("__rustc::").unwrap_or(function);
    ["__rust_", "__rdl_", "__rg_"].iter().any(|prefix| symbol.starts_with(prefix))
}

/// False for parameters (`T`, `[T]`), unknown types and those that compilers leave out.
fn is_type(text: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || matches!(character, '_' | ':');
    let is_parameter = |word: &str| {
        word.len() <= 2
            && word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    let is_allocator = matches!(text, "alloc::alloc::Global" | "std::alloc::Global" | "Global");
    let is_known = !text.is_empty() && text != "_" && !text.starts_with("impl ") && !text.contains('…');
    is_known && !is_allocator && !text.split(|character| !is_word(character)).any(is_parameter)
}

/// True for types whose values own no memory.
fn is_plain(text: &str) -> bool {
    primitive_size(text).is_some() || text == "char" || text.starts_with('&') || text.starts_with('*')
}

/// The parts of a Rust function's name.
struct NameParts<'a> {
    /// The path before the container's name, or before the function.
    path: Vec<&'a str>,
    /// The container, with its arguments.
    container: Option<&'a str>,
    of_trait: Option<&'a str>,
    method: &'a str,
    /// The function's own arguments.
    own: Vec<&'a str>,
}

impl<'a> NameParts<'a> {
    fn of(function: &'a str) -> Option<Self> {
        if function.starts_with('<') {
            return Self::of_qualified(function);
        }
        let mut segments = split(function, "::")?;
        let own = match segments.last() {
            Some(last) if last.starts_with('<') && !last.starts_with("<impl") => generic(segments.pop()?)?.1,
            _ => Vec::new(),
        };
        if let Some(at) = segments.iter().position(|segment| segment.starts_with("<impl ")) {
            let inner = segments[at].strip_prefix("<impl ")?.strip_suffix('>')?;
            let container = inner.split_once(" for ").map_or(inner, |(_, subject)| subject);
            let method = segments.get(at + 1).copied().unwrap_or_default();
            return Some(Self {
                path: segments[..at].to_vec(),
                container: Some(container),
                of_trait: None,
                method,
                own,
            });
        }
        let is_container =
            |segment: &&str| segment.contains('<') || segment.starts_with(|first: char| first.is_ascii_uppercase());
        let at = segments.iter().take(segments.len() - 1).position(is_container);
        let (path, container) = match at {
            Some(at) => (segments[..at].to_vec(), Some(segments[at])),
            None => (segments[..segments.len() - 1].to_vec(), None),
        };
        let method = segments[at.map_or(segments.len() - 1, |at| at + 1)];
        // An inlined function in line tables: `push<app::Point>`.
        let (method, more) = generic(method).unwrap_or((method, Vec::new()));
        let own = if own.is_empty() { more } else { own };
        Some(Self { path, container, of_trait: None, method, own })
    }

    fn of_qualified(function: &'a str) -> Option<Self> {
        let (inner, rest) = qualified(function)?;
        let parts = split(inner, " as ")?;
        let (subject, of_trait) = (parts[0], parts.get(1).copied());
        let rest = split(rest, "::")?;
        let own = rest.get(1).filter(|segment| segment.starts_with('<')).and_then(|segment| generic(segment));
        let segments = if subject.starts_with(['[', '(', '&', '*']) { vec![subject] } else { split(subject, "::")? };
        let (container, path) = segments.split_last()?;
        let own = own.map(|(_, arguments)| arguments).unwrap_or_default();
        Some(Self { path: path.to_vec(), container: Some(container), of_trait, method: rest[0], own })
    }

    /// True if there are no type arguments but the function's own.
    fn own_alone(&self) -> bool {
        let of_container = self.container.and_then(generic).map(|(_, arguments)| arguments).unwrap_or_default();
        !of_container.iter().any(|text| is_type(text))
    }

    /// The module of methods of primitive types, whose names have no path: `<[app::Key]>::to_vec`, `<str>::repeat`.
    fn module_of_primitive(&self) -> Option<String> {
        let is_slice =
            self.container?.starts_with('[') || self.of_trait.is_some_and(|path| path.ends_with("::ConvertVec"));
        match self.container? {
            _ if is_slice => Some("alloc::slice".to_owned()),
            "str" => Some("alloc::str".to_owned()),
            _ => None,
        }
    }

    /// The module of the library in which the function is.
    fn module(&self) -> Option<String> {
        let in_library = |path: &[&str]| matches!(path.first(), Some(&("alloc" | "core" | "std" | "hashbrown")));
        if in_library(&self.path) {
            return Some(self.path.join("::"));
        }
        let is_simple = self.path.is_empty() && self.container.is_some();
        let of_trait = split(self.of_trait?, "::")?;
        // A method of a library's trait is the library's own only for types without a path, and for traits that are private to it.
        let is_private = self.of_trait.is_some_and(|path| path.contains("::spec_") || path.contains("::hack::"));
        (in_library(&of_trait) && (is_simple || is_private)).then(|| of_trait[..of_trait.len() - 1].join("::"))
    }

    /// The type arguments, and whether they are the container's.
    fn arguments(&self) -> (Vec<String>, bool) {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let container = self.container.unwrap_or_default();
        if let Some(element) = container.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            return (vec![element.to_owned()], true);
        }
        let of_container = generic(container).map(|(_, arguments)| arguments).unwrap_or_default();
        // A private trait of the library for the elements: `<u32 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem`.
        let of_element =
            self.of_trait.is_some_and(|path| path.ends_with("::ConvertVec") || path.ends_with("::SpecFromElem"));
        if of_element || of_container.is_empty() && self.of_trait.is_some() && self.own.is_empty() {
            let subject = self.path.iter().chain(&self.container).copied().collect::<Vec<_>>().join("::");
            return (vec![subject], false);
        }
        match of_container.iter().any(|text| is_type(text)) {
            true => (owned(&of_container), true),
            false => (owned(&self.own), false),
        }
    }
}

/// The module of a source file of the library: `alloc::vec` of `/rustc/…/library/alloc/src/vec/mod.rs`.
fn module_of_file(file: &str) -> Option<String> {
    let after = |marker: &str| file.find(marker).map(|at| &file[at + marker.len()..]);
    let is_rust = file.starts_with("/rustc/") || file.contains("/rustlib/src/rust/");
    let standard = ["alloc", "core", "std"]
        .iter()
        .find_map(|name| is_rust.then(|| after(&format!("/library/{name}/src/")).map(|rest| (*name, rest))).flatten());
    let hashbrown =
        || after("/hashbrown-").and_then(|rest| rest.split_once("/src/")).map(|(_, rest)| ("hashbrown", rest));
    let (name, rest) = standard.or_else(hashbrown)?;
    let path = rest.strip_suffix("/mod.rs").or_else(|| rest.strip_suffix(".rs"))?;
    Some(format!("{name}::{}", path.replace('/', "::")))
}

/// The first rule whose module the function is in.
const KINDS: [(&str, Kind); 37] = [
    ("alloc::alloc", Kind::Allocator),
    ("core::alloc", Kind::Allocator),
    ("std::alloc", Kind::Allocator),
    ("std::sys::alloc", Kind::Allocator),
    ("std::sys::pal::unix::alloc", Kind::Allocator),
    ("core::ptr", Kind::Allocator),
    ("core::intrinsics", Kind::Allocator),
    ("hashbrown::raw::alloc", Kind::Allocator),
    ("hashbrown::alloc", Kind::Allocator),
    ("alloc::raw_vec", Kind::Buffer),
    ("alloc::vec", Kind::Vec),
    ("alloc::slice", Kind::Slice),
    ("alloc::collections::vec_deque", Kind::Deque),
    ("alloc::collections::binary_heap", Kind::Heap),
    ("alloc::string", Kind::Text),
    ("alloc::str", Kind::Text),
    ("alloc::fmt", Kind::Text),
    ("alloc::borrow", Kind::Text),
    ("std::path", Kind::Path("PathBuf")),
    ("std::ffi::os_str", Kind::Path("OsString")),
    ("std::sys::os_str", Kind::Path("OsString")),
    ("alloc::ffi::c_str", Kind::Path("CString")),
    ("alloc::boxed", Kind::Box),
    ("alloc::rc", Kind::Counted("Rc")),
    ("alloc::sync", Kind::Counted("Arc")),
    ("hashbrown::raw", Kind::Table),
    ("hashbrown::map", Kind::Map),
    ("hashbrown::rustc_entry", Kind::Map),
    ("hashbrown::set", Kind::Set),
    ("std::collections::hash::map", Kind::Map),
    ("std::collections::hash::set", Kind::Set),
    ("alloc::collections::btree::set", Kind::Other),
    ("alloc::collections::btree", Kind::Tree),
    ("alloc::collections::linked_list", Kind::List),
    ("std::sync::mpmc", Kind::Channel),
    ("std::sync::mpsc", Kind::Channel),
    ("core", Kind::Other),
];

fn kind_of(module: &str, parts: &NameParts<'_>) -> Kind {
    let is_in =
        |prefix: &str| module.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let kind = KINDS.iter().find(|(prefix, _)| is_in(prefix)).map_or(Kind::Other, |(_, kind)| *kind);
    // `<str as alloc::borrow::ToOwned>` makes a string; the same trait of a slice makes a vector.
    if kind == Kind::Text && parts.container.is_some_and(|container| container.starts_with('[')) {
        Kind::Slice
    } else {
        kind
    }
}

/// What is known while a chain is followed outwards.
#[derive(Clone, Debug, Default)]
pub struct RustChain {
    state: Option<State>,
    is_over: bool,
    shown_by: ShownBy,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// `RawVec`, `Vec` and what is made of them.
    Array {
        name: &'static str,
        element: Option<String>,
        method: String,
    },
    Text,
    Path(&'static str),
    Boxed(Option<String>),
    Counted(&'static str, Option<String>),
    Table {
        pair: Option<String>,
        key: Option<String>,
        value: Option<String>,
        is_set: bool,
    },
    Tree(Option<(String, String)>),
    List(Option<String>),
    Channel(Option<String>),
    /// The function may contain others that allocate for other types.
    Ambiguous,
}

impl RustChain {
    /// Takes the next function outwards into account. False if the chain ended before it.
    pub fn step(&mut self, frame: &RustFrame, is_in_program: bool) -> bool {
        if self.is_over {
            return false;
        }
        let state = self.state.take();
        let next = next_state(state.clone(), frame);
        self.is_over = next.is_none() && state.is_some();
        if next.is_some() && frame.argument(0).is_some() {
            self.shown_by = match (frame.shows_inlined, is_in_program) {
                (false, _) => ShownBy::Symbol,
                (true, true) => ShownBy::Inlined,
                (true, false) => ShownBy::Called,
            };
        }
        self.state = next.or(state);
        !self.is_over
    }

    /// The type that the chain found.
    pub fn found(self) -> Option<Found> {
        let shown_by = self.shown_by;
        self.state.and_then(found).map(|found| Found { shown_by, ..found })
    }
}

/// The state after one more function; `None` if it is not a part of the chain.
fn next_state(state: Option<State>, frame: &RustFrame) -> Option<State> {
    let element = || frame.argument(0).map(spelling::rust);
    // Without debug information, the elements' own functions and closures may be inlined into a container's function, and allocate there.
    let is_ambiguous = || {
        let is_pure = matches!(frame.kind, Kind::Allocator | Kind::Buffer | Kind::Table | Kind::Text);
        !frame.shows_inlined && !is_pure && !frame.arguments.iter().all(|text| is_plain(text) || !is_type(text))
    };
    match (state, frame.kind) {
        (None, Kind::Allocator | Kind::Other) => None,
        (None, _) if is_ambiguous() => Some(State::Ambiguous),
        (state, Kind::Allocator) => state,
        (None, Kind::Buffer) => Some(State::Array { name: "Vec", element: element(), method: String::new() }),
        (None, Kind::Vec | Kind::Slice) => {
            Some(State::Array { name: "Vec", element: element(), method: frame.method.clone() })
        }
        (None, Kind::Box) => Some(State::Boxed(element())),
        (None, Kind::Counted(name)) => Some(State::Counted(name, counted(frame, None))),
        (None, Kind::Table) => Some(table(None, frame)),
        (None, Kind::Tree) => Some(State::Tree(None)),
        (None, _) => None,
        (Some(State::Array { name, element: inner, method }), kind) => array(name, inner, method, kind, frame),
        (Some(State::Text), Kind::Text) => Some(State::Text),
        (Some(State::Text), Kind::Path(name)) | (Some(State::Path(_)), Kind::Path(name)) => Some(State::Path(name)),
        (Some(State::Path(name)), Kind::Text) => Some(State::Path(name)),
        (Some(State::Boxed(inner)), kind) => boxed(inner, kind, frame),
        (Some(State::Counted(name, inner)), Kind::Counted(other)) if name == other => {
            Some(State::Counted(name, counted(frame, inner)))
        }
        (Some(state @ State::Table { .. }), Kind::Table | Kind::Map | Kind::Set) => Some(table(Some(state), frame)),
        (Some(State::Tree(inner)), Kind::Tree) => inner_tree(inner, frame),
        (Some(State::List(inner)), Kind::List) => Some(State::List(inner.or_else(element))),
        (Some(State::Channel(inner)), Kind::Channel) => Some(State::Channel(inner.or_else(element))),
        _ => None,
    }
}

/// Functions that make a copy of a container: a container inside of another one is copied by a function of the same kind.
const COPIES: [&str; 7] = ["clone", "clone_from", "from", "default", "to_vec", "to_owned", "from_iter"];

fn array(name: &'static str, inner: Option<String>, method: String, kind: Kind, frame: &RustFrame) -> Option<State> {
    let outer = frame.argument(0).map(spelling::rust);
    let is_bytes = inner.as_deref().is_none_or(|inner| inner == "u8");
    match kind {
        Kind::Buffer | Kind::Vec | Kind::Slice => {
            let holds_inner = inner
                .as_deref()
                .zip(outer.as_deref())
                .is_some_and(|(inner, outer)| inner != outer && outer.contains(&format!("{name}<{inner}>")));
            if holds_inner && COPIES.contains(&method.as_str()) {
                return None;
            }
            if name != "Vec" {
                return None;
            }
            Some(State::Array { name, element: outer.or(inner), method: frame.method.clone() })
        }
        Kind::Deque if matches!(name, "Vec" | "VecDeque") => {
            Some(State::Array { name: "VecDeque", element: outer.or(inner), method: frame.method.clone() })
        }
        Kind::Heap if matches!(name, "Vec" | "BinaryHeap") => {
            Some(State::Array { name: "BinaryHeap", element: outer.or(inner), method: frame.method.clone() })
        }
        Kind::Text if is_bytes && name == "Vec" => Some(State::Text),
        Kind::Path(path) if is_bytes && name == "Vec" => Some(State::Path(path)),
        // The chain of an array that a reference-counted slice is made from ends before: it is another block.
        Kind::Channel if inner.as_deref().is_some_and(|inner| inner.starts_with("mpmc::")) => {
            Some(State::Channel(channel_element(&inner?)))
        }
        _ => None,
    }
}

fn boxed(inner: Option<String>, kind: Kind, frame: &RustFrame) -> Option<State> {
    match kind {
        Kind::Box => {
            // A box in a box is another block: its function is met with a complete type inside.
            let outer = frame.argument(0).map(spelling::rust);
            let is_other = inner
                .as_deref()
                .zip(outer.as_deref())
                .is_some_and(|(inner, outer)| outer != inner && outer.contains(&format!("Box<{inner}>")));
            (!is_other).then(|| State::Boxed(outer.filter(|outer| !outer.starts_with("MaybeUninit<")).or(inner)))
        }
        Kind::Counted(name) => {
            let from_box = inner.as_deref().and_then(|inner| {
                let (shell, arguments) = generic(inner)?;
                shell.ends_with("Inner").then(|| arguments.first().map(|text| (*text).to_owned())).flatten()
            });
            Some(State::Counted(name, counted(frame, from_box)))
        }
        Kind::Tree => Some(State::Tree(inner.as_deref().and_then(node).or_else(|| tree(frame)))),
        Kind::List => Some(State::List(
            inner
                .as_deref()
                .and_then(|inner| {
                    let (shell, arguments) = generic(inner)?;
                    (shell == "Node").then(|| arguments.first().map(|text| (*text).to_owned())).flatten()
                })
                .or_else(|| frame.argument(0).map(spelling::rust)),
        )),
        Kind::Channel => Some(State::Channel(
            inner.as_deref().and_then(channel_element).or_else(|| frame.argument(0).map(spelling::rust)),
        )),
        _ => None,
    }
}

/// The type in a reference-counted pointer. With line tables only, functions for slices are known by their names.
fn counted(frame: &RustFrame, inner: Option<String>) -> Option<String> {
    const OF_SLICES: [&str; 4] = ["allocate_for_slice", "copy_from_slice", "from_iter_exact", "new_uninit_slice"];
    let outer = frame.argument(0).map(spelling::rust);
    if frame.of_container {
        return outer.or(inner);
    }
    let is_of_slice = OF_SLICES.iter().any(|method| frame.method.starts_with(method));
    match (is_of_slice, outer) {
        (_, Some(slice)) if slice.starts_with('[') && !slice.contains(';') => Some(slice),
        (true, Some(element)) => Some(format!("[{element}]")),
        // Only a conversion to `str` has no argument.
        (_, None) if frame.method == "from" && inner.as_deref() == Some("[u8]") => Some("str".to_owned()),
        // Conversions have the element as their argument.
        (_, Some(_)) if inner.as_deref().is_some_and(|inner| inner.starts_with('[')) => inner,
        (_, outer) => inner.or(outer),
    }
}

fn table(state: Option<State>, frame: &RustFrame) -> State {
    let (mut pair, mut key, mut value, mut is_set) = match state {
        Some(State::Table { pair, key, value, is_set }) => (pair, key, value, is_set),
        _ => (None, None, None, false),
    };
    match frame.kind {
        Kind::Table => pair = frame.argument(0).map(spelling::rust).or(pair),
        Kind::Map => {
            key = frame.argument(0).map(spelling::rust).or(key);
            // The value may be of any type; an argument that is missing is not `()`.
            value = frame.argument(1).filter(|text| !text.ends_with("RandomState")).map(spelling::rust).or(value);
        }
        _ => {
            key = frame.argument(0).map(spelling::rust).or(key);
            is_set = true;
        }
    }
    State::Table { pair, key, value, is_set }
}

/// The key and value of a B-tree's node.
fn node(text: &str) -> Option<(String, String)> {
    let (shell, arguments) = generic(text)?;
    let name = shell.rsplit("::").next()?;
    let [key, value] = arguments.as_slice() else { return None };
    matches!(name, "LeafNode" | "InternalNode").then(|| ((*key).to_owned(), (*value).to_owned()))
}

/// The key and value from a function of a B-tree. A reference to a node has a marker before them.
fn tree(frame: &RustFrame) -> Option<(String, String)> {
    let nested =
        frame.argument(0).filter(|text| text.contains("NodeRef<")).and_then(|text| generic(split(text, "::")?.pop()?));
    if let Some((_, arguments)) = nested {
        let [_, key, value, ..] = arguments.as_slice() else { return None };
        return (is_type(key) && is_type(value)).then(|| (spelling::rust(key), spelling::rust(value)));
    }
    let first = usize::from(frame.argument(0).is_some_and(|text| text.contains("::marker::")));
    Some((spelling::rust(frame.argument(first)?), spelling::rust(frame.argument(first + 1)?)))
}

/// The outer function of a B-tree knows best, unless it is that of another tree: a tree in a tree is copied by a function of the same kind.
fn inner_tree(inner: Option<(String, String)>, frame: &RustFrame) -> Option<State> {
    let outer = tree(frame);
    let holds_inner = inner.as_ref().zip(outer.as_ref()).is_some_and(|((key, value), (_, outer))| {
        outer.contains(&format!("BTreeMap<{key}, {value}>")) || outer.contains(&format!("BTreeSet<{key}>"))
    });
    (!holds_inner).then(|| State::Tree(outer.or(inner)))
}

/// The element of a channel, from the type of one of its blocks.
fn channel_element(text: &str) -> Option<String> {
    let mut text = text;
    for _ in 0..4 {
        let (shell, arguments) = generic(text)?;
        let first = arguments.first()?;
        if matches!(shell.rsplit("::").next()?, "Block" | "Slot" | "Channel") {
            return Some((*first).to_owned());
        }
        text = first;
    }
    None
}

fn found(state: State) -> Option<Found> {
    let one = |name: String| Found { name, element: None, holds: Holds::One, shown_by: ShownBy::Called };
    let unknown = |name: String| Found { name, element: None, holds: Holds::Unknown, shown_by: ShownBy::Called };
    Some(match state {
        State::Array { name, element: Some(element), .. } => match in_array(name, &element) {
            Some(other) => unknown(other),
            None => Found {
                name: format!("{name}<{element}>"),
                element: Some(element),
                holds: Holds::Array,
                shown_by: ShownBy::Called,
            },
        },
        State::Text => unknown("String".to_owned()),
        State::Path(name) => unknown(name.to_owned()),
        State::Boxed(Some(inner)) => in_box(&inner),
        State::Counted(name, Some(inner)) => match inner.as_str() {
            "str" => unknown(format!("{name}<str>")),
            slice if slice.starts_with('[') => unknown(format!("{name}<{slice}>")),
            _ => one(format!("{name}<{inner}>")),
        },
        State::Table { pair, key, value, is_set } => return hash_table(pair, key, value, is_set),
        State::Tree(Some((key, value))) if value == "SetValZST" => unknown(format!("BTreeSet<{key}>")),
        State::Tree(Some((key, value))) => unknown(format!("BTreeMap<{key}, {value}>")),
        State::List(Some(element)) => one(format!("LinkedList<{element}>")),
        State::Channel(Some(element)) => unknown(format!("mpsc::channel<{element}>")),
        _ => return None,
    })
}

/// Containers that keep their elements in a `Vec`.
fn in_array(name: &str, element: &str) -> Option<String> {
    let (shell, arguments) = generic(element)?;
    match shell {
        "indexmap::Bucket" if name == "Vec" => Some(format!("indexmap::IndexMap<{}>", arguments.join(", "))),
        "mpmc::Slot" => Some(format!("mpsc::channel<{}>", arguments.first()?)),
        _ => None,
    }
}

fn in_box(inner: &str) -> Found {
    let name = format!("Box<{inner}>");
    let (one, unknown) = (Holds::One, Holds::Unknown);
    let (name, holds) = match generic(inner) {
        Some((shell, arguments)) if !arguments.is_empty() => match shell {
            // A task that the runtime tokio runs; the first argument is its future.
            "tokio::runtime::task::core::Cell" => (format!("tokio::task<{}>", arguments[0]), one),
            "LeafNode" | "InternalNode" if arguments.len() == 2 && arguments[1] == "SetValZST" => {
                (format!("BTreeSet<{}>", arguments[0]), unknown)
            }
            "LeafNode" | "InternalNode" if arguments.len() == 2 => {
                (format!("BTreeMap<{}, {}>", arguments[0], arguments[1]), unknown)
            }
            _ if shell.starts_with("mpmc::") => {
                (channel_element(inner).map_or(name, |element| format!("mpsc::channel<{element}>")), unknown)
            }
            _ => (name, one),
        },
        _ if inner.starts_with('[') && !inner.contains(';') || inner == "str" => (name, unknown),
        _ => (name, one),
    };
    Found { name, element: None, holds, shown_by: ShownBy::Called }
}

fn hash_table(pair: Option<String>, key: Option<String>, value: Option<String>, is_set: bool) -> Option<Found> {
    let of_pair = pair.as_deref().and_then(|pair| {
        let parts = split(pair.strip_prefix('(')?.strip_suffix(')')?, ",")?;
        let [key, value] = parts.as_slice() else { return None };
        Some((key.trim().to_owned(), value.trim().to_owned()))
    });
    let (pair_key, pair_value) = of_pair.clone().unzip();
    let (key, value) = (key.or(pair_key), value.or(pair_value));
    let name = match (key, value) {
        (Some(key), _) if is_set => format!("HashSet<{key}>"),
        (Some(key), Some(value)) if value == "()" => format!("HashSet<{key}>"),
        (Some(key), Some(value)) => format!("HashMap<{key}, {value}>"),
        // A table that another container than a map is made of.
        _ => format!("HashTable<{}>", pair.as_ref().filter(|_| of_pair.is_none())?),
    };
    Some(Found { name, element: pair, holds: Holds::Table, shown_by: ShownBy::Called })
}
