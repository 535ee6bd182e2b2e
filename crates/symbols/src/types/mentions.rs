//! Types in the names of functions and of other types: which of them are dropped, and which lie in containers.

use super::{LONGEST_NAME, MOST_TYPES};
use rustc_hash::{FxHashMap, FxHashSet};

/// Crates and namespaces whose types are not the program's own: the standard library's, what it is made of, the glue of WASM, and Highwater's own.
const OUTSIDE: [&str; 22] = [
    "__cxxabiv1",
    "__gnu_cxx",
    "alloc",
    "compiler_builtins",
    "core",
    "dlmalloc",
    "hashbrown",
    "highwater",
    "highwater_tracked",
    "js_sys",
    "panic_abort",
    "panic_unwind",
    "proc_macro",
    "rustc_demangle",
    "rustc_std_workspace_alloc",
    "rustc_std_workspace_core",
    "std",
    "std_detect",
    "test",
    "unwind",
    "wasm_bindgen",
    "web_sys",
];

/// Crates that the standard library is built with to show its own stacks. A program that uses them itself shows their types only in its DWARF.
const OF_BACKTRACES: [&str; 6] = ["addr2line", "adler2", "gimli", "memchr", "miniz_oxide", "object"];

/// Containers that keep their elements on the heap, by the last part of their names: of Rust, of wasm-bindgen, of C++.
const CONTAINERS: [&str; 37] = [
    "Arc",
    "ArcInner",
    "BTreeMap",
    "BTreeSet",
    "BinaryHeap",
    "Box",
    "HashMap",
    "HashSet",
    "InPlaceDstDataSrcBufDrop",
    "InternalNode",
    "IntoIter",
    "LeafNode",
    "LinkedList",
    "NodeRef",
    "RawTable",
    "RawVec",
    "Rc",
    "RcBox",
    "RcInner",
    "RefMutFromWasmAbi",
    "Vec",
    "VecDeque",
    "WasmRefCell",
    "deque",
    "forward_list",
    "list",
    "map",
    "multimap",
    "multiset",
    "new_allocator",
    "set",
    "shared_ptr",
    "unique_ptr",
    "unordered_map",
    "unordered_multimap",
    "unordered_set",
    "vector",
];

/// What the names of a program say of a type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mention {
    pub functions: u64,
    pub is_dropped: bool,
    pub is_held: bool,
    /// A class of C++, known by its constructor or destructor: its name needs no path.
    is_class: bool,
}

impl Mention {
    /// True if the names of functions alone show that it is a type: a path, or a class of C++. A name without a path may be a type parameter.
    pub fn is_named(&self, name: &str) -> bool {
        self.functions > 0 && (name.contains("::") || self.is_class) && !OF_BACKTRACES.contains(&root_of(name))
    }
}

/// All types that are mentioned, by their paths without parameters.
#[derive(Default)]
pub(super) struct Mentions {
    types: FxHashMap<String, Mention>,
    traits: FxHashSet<String>,
    /// The number of functions with a name.
    pub functions: u64,
    /// True once there are too many types to keep.
    pub is_full: bool,
}

impl Mentions {
    /// Adds a function of the program by its readable name.
    pub fn add_function(&mut self, name: &str) {
        self.functions += 1;
        self.add(name, Counted::Once);
    }

    /// Adds the name of a function that debug information has, perhaps one that was added already.
    pub fn add_inlined_function(&mut self, name: &str) {
        self.add(name, Counted::No);
    }

    /// Adds the name of a type: what its parameters say of other types.
    pub fn add_type(&mut self, name: &str) {
        if name.contains('<') {
            self.each_token(name, Counted::No);
        }
    }

    /// Adds a member function of a class: constructors and destructors count.
    pub fn add_member(&mut self, class: &str, name: &str) {
        let own = class.rsplit("::").next().unwrap_or(class);
        let own = base_of(own);
        if name == own || name.strip_prefix('~') == Some(&own) {
            self.note(&base_of(class), |mention| {
                mention.is_class = true;
                mention.is_dropped |= name.starts_with('~');
                mention.is_held = true;
            });
        }
    }

    /// Values of a type are on the heap.
    pub fn hold(&mut self, name: &str) {
        self.note(name, |mention| mention.is_held = true);
    }

    /// All types of the program, without the traits.
    pub fn types(self) -> FxHashMap<String, Mention> {
        let Self { mut types, traits, .. } = self;
        types.retain(|name, _| !traits.contains(name) && is_program_path(name));
        types
    }

    fn add(&mut self, name: &str, counted: Counted) {
        let name = without_hashes(name);
        let counts_already = self.each_token(&name, counted);
        self.own_type(&name, counted, &counts_already);
    }

    /// The type whose method a function is: `a::Type::new`, and `Type::~Type()` of C++.
    fn own_type(&mut self, name: &str, counted: Counted, counts_already: &[&str]) {
        let path = name.split('(').next().unwrap_or(name);
        if path.starts_with('<') {
            return;
        }
        let path = base_of(path);
        let path = path.split("::{").next().unwrap_or(&path);
        let Some((owner, method)) = path.rsplit_once("::") else { return };
        let own = owner.rsplit("::").next().unwrap_or(owner);
        let counted = if counts_already.contains(&owner) { 0 } else { counted as u64 };
        let (is_destructor, is_constructor) = (method.strip_prefix('~') == Some(own), method == own);
        if name.contains('(') && (is_destructor || is_constructor) {
            self.note(owner, |mention| {
                mention.is_class = true;
                mention.functions += counted;
                mention.is_dropped |= is_destructor;
                mention.is_held = true;
            });
        } else if is_type_name(own) && owner.contains("::") {
            self.note(owner, |mention| mention.functions += counted);
        }
    }

    /// Adds what stands in brackets, and returns the types that were counted.
    fn each_token<'n>(&mut self, name: &'n str, counted: Counted) -> Vec<&'n str> {
        let drops = name.ends_with("as core::ops::drop::Drop>::drop");
        let mut seen = Vec::new();
        for token in tokens(name) {
            if token.role == Role::Trait {
                if self.traits.len() < MOST_TYPES && token.path.len() <= LONGEST_NAME {
                    self.traits.insert(token.path.to_owned());
                }
                continue;
            }
            if token.inside == Inside::Nothing || !is_type_path(token.path) {
                continue;
            }
            let is_first = !seen.contains(&token.path);
            self.note(token.path, |mention| {
                mention.functions += if is_first { counted as u64 } else { 0 };
                mention.is_dropped |= token.inside == Inside::Drop || drops && token.inside == Inside::Own;
                mention.is_held |= token.inside == Inside::Container;
            });
            if is_first && seen.len() < MOST_SEEN {
                seen.push(token.path);
            }
        }
        seen
    }

    fn note(&mut self, name: &str, change: impl FnOnce(&mut Mention)) {
        if let Some(known) = self.types.get_mut(name) {
            return change(known);
        }
        if self.types.len() >= MOST_TYPES {
            self.is_full = true;
        } else if name.len() <= LONGEST_NAME && is_program_path(name) {
            change(self.types.entry(name.to_owned()).or_default());
        }
    }
}

/// Types of one name that are compared with each other so that none counts twice.
const MOST_SEEN: usize = 64;

/// Whether a name counts as one of a function.
#[derive(Clone, Copy)]
enum Counted {
    No = 0,
    Once = 1,
}

/// The types in a text, parameters included, by their paths: `my::Map<K, other::V>` has `my::Map`, `K` and `other::V`.
pub fn types_in(text: &str) -> impl Iterator<Item = String> {
    let text = without_hashes(text);
    let paths: Vec<String> =
        tokens(&text).into_iter().filter(|token| token.role == Role::Type).map(|token| token.path.to_owned()).collect();
    paths.into_iter()
}

/// True for the path of a type that belongs to the program.
pub(super) fn is_program_path(path: &str) -> bool {
    let begins = path.starts_with(|first: char| first.is_alphabetic() || first == '_');
    begins && !is_outside(path) && !path.contains(['{', '}', '&', '*', '(', '[']) && !path.contains("::_")
}

fn is_type_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_uppercase())
}

/// True for a path whose last part looks as a type does, and not as a type parameter.
fn is_type_path(path: &str) -> bool {
    let last = path.rsplit("::").next().unwrap_or(path);
    is_type_name(last) && (path.len() > last.len() || last.len() > 1)
}

/// A path without type parameters: `a::B` for `a::B<c::D>`.
pub(super) fn base_of(path: &str) -> String {
    let (mut base, mut depth, mut previous) = (String::with_capacity(path.len()), 0u32, ' ');
    for each in path.chars() {
        match each {
            '<' => depth += 1,
            '>' if previous == '-' => {}
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => base.push(each),
            _ => {}
        }
        previous = each;
    }
    base.trim_end_matches("::").trim().to_owned()
}

/// Without the hashes that distinguish crates (`name[0123abcd]`) and functions (`name::h0123456789abcdef`).
fn without_hashes(name: &str) -> String {
    const HASH: usize = 16;
    let name = match name.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest,
        _ => name,
    };
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        kept.push_str(before);
        let of_name = before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        match after.split_once(']') {
            Some((hash, after)) if of_name && !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                rest = after;
            }
            _ => {
                kept.push('[');
                rest = after;
            }
        }
    }
    kept + rest
}

/// What a path in a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Type,
    Trait,
}

/// Where a path stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// Not inside anything: the name of the function.
    Nothing,
    /// `<…>` of any other kind.
    Brackets,
    /// `<T as …>` or `<T>::…`: the type whose function it is.
    Own,
    /// `drop_in_place<…>` or `drop_glue<…>`, or what is a part of such a value.
    Drop,
    /// The parameters of a container.
    Container,
}

#[derive(Debug)]
struct Token<'a> {
    path: &'a str,
    role: Role,
    inside: Inside,
}

/// Splits a name into paths. Brackets are kept on a stack; those that do not match do no harm.
fn tokens(name: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut stack: Vec<Inside> = Vec::new();
    let mut inside = Inside::Nothing;
    let mut role = Role::Type;
    // The path that ended where this character begins.
    let mut before = "";
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|each: char| !is_path_character(each)).unwrap_or(rest.len());
        if length > 0 {
            let (word, after) = rest.split_at(length);
            rest = after;
            before = word.trim_end_matches("::");
            match before {
                "as" | "dyn" | "impl" => role = Role::Trait,
                "for" => role = Role::Type,
                "const" | "mut" | "unsafe" | "extern" | "fn" | "" => {}
                path => {
                    // What follows a bracket is a part of what is inside it.
                    if !path.starts_with("::") {
                        found.push(Token { path, role, inside });
                    }
                    role = Role::Type;
                }
            }
            continue;
        }
        rest = &rest[first.len_utf8()..];
        match first {
            '<' | '(' | '[' => {
                stack.push(inside);
                inside = entered(first, before, inside);
            }
            '>' if before == "-" => {}
            '>' | ')' | ']' => inside = stack.pop().unwrap_or(Inside::Nothing),
            '\'' => {
                // A lifetime.
                let end = rest.find(|each: char| !each.is_alphanumeric() && each != '_').unwrap_or(rest.len());
                rest = &rest[end..];
            }
            '+' => role = Role::Trait,
            _ => {}
        }
        before = if first == '-' { "-" } else { "" };
    }
    found
}

fn entered(bracket: char, before: &str, outer: Inside) -> Inside {
    let last = before.rsplit("::").next().unwrap_or(before);
    match bracket {
        // Parameters of a function are not parts of a value.
        '(' if !before.is_empty() => Inside::Brackets,
        '(' | '[' => outer,
        // What drops a value has another name since Rust 1.97.
        _ if matches!(last, "drop_in_place" | "drop_glue") => Inside::Drop,
        // It holds nothing.
        _ if last == "PhantomData" => Inside::Brackets,
        _ if CONTAINERS.contains(&last) => Inside::Container,
        _ if before.is_empty() && outer == Inside::Nothing => Inside::Own,
        // `Option<T>` and the like are their parameters; of other types, a parameter may be a mere marker.
        _ if is_outside(before) && outer != Inside::Nothing => outer,
        _ => Inside::Brackets,
    }
}

fn is_outside(path: &str) -> bool {
    OUTSIDE.contains(&root_of(path))
}

fn root_of(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

fn is_path_character(each: char) -> bool {
    each.is_alphanumeric() || matches!(each, '_' | ':' | '{' | '}' | '#' | '~' | '$' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Vec<(String, u64, bool, bool)> {
        let mut mentions = Mentions::default();
        names.iter().for_each(|name| mentions.add_function(name));
        let mut types: Vec<_> = mentions
            .types()
            .into_iter()
            .filter(|(name, each)| each.is_named(name))
            .map(|(name, each)| (name, each.functions, each.is_dropped, each.is_held))
            .collect();
        types.sort();
        types
    }

    fn row(name: &str, functions: u64, is_dropped: bool, is_held: bool) -> (String, u64, bool, bool) {
        (name.to_owned(), functions, is_dropped, is_held)
    }

    #[test]
    fn what_is_dropped_and_what_lies_in_containers_is_found_in_names() {
        let names = [
            "core::ptr::drop_in_place<leaky::Proof>::h0123456789abcdef",
            "core[0123abcd]::ptr::drop_glue::<leaky[0123abcd]::Cache>",
            "alloc::vec::Vec<core::marker::PhantomData<leaky::Marker>>::push",
            "core::ptr::drop_in_place::<core::option::Option<leaky::Session>>",
            "core::ptr::drop_in_place<alloc::vec::Vec<leaky[0123abcd]::Point<leaky::Field>>>",
            "<leaky::Guard<leaky::Field> as core[0123abcd]::ops::drop::Drop>::drop",
            "leaky::Witness::new::h0123456789abcdef",
            "alloc::vec::Vec<T,A>::push",
        ];
        assert_eq!(
            found(&names),
            [
                row("leaky::Cache", 1, true, false),
                row("leaky::Field", 2, false, false),
                row("leaky::Guard", 1, true, false),
                row("leaky::Marker", 1, false, false),
                row("leaky::Point", 1, false, true),
                row("leaky::Proof", 1, true, false),
                row("leaky::Session", 1, true, false),
                row("leaky::Witness", 1, false, false),
            ]
        );
    }

    #[test]
    fn traits_closures_and_the_standard_library_are_no_types_of_the_program() {
        let names = [
            "<leaky::Proof as leaky::Prove>::prove",
            "leaky::Prove::prove_all",
            "core::ptr::drop_in_place<alloc::boxed::Box<dyn leaky::Handler + core::marker::Send>>",
            "leaky::run::{{closure}}",
            "core::ptr::drop_in_place<leaky::run::{{closure}}>",
            "core::ptr::drop_in_place<std::io::Error>",
            "leaky::_::<impl serde::de::Deserialize for leaky::Proof>::deserialize",
        ];
        assert_eq!(found(&names), [row("leaky::Proof", 2, false, false)]);
    }

    #[test]
    fn classes_are_known_by_constructors_and_destructors() {
        let names = [
            "demo::Buffer::Buffer(unsigned int)",
            "demo::Buffer::~Buffer()",
            "Mesh<float>::Mesh(Mesh<float> const&)",
            "std::vector<demo::Item, std::allocator<demo::Item> >::push_back(demo::Item const&)",
            "std::string::~string()",
            "main",
        ];
        assert_eq!(
            found(&names),
            [row("Mesh", 1, false, true), row("demo::Buffer", 2, true, true), row("demo::Item", 1, false, true)]
        );
    }

    #[test]
    fn a_path_is_the_same_with_and_without_parameters() {
        assert_eq!(base_of("a::B<c::D, fn() -> e::F>"), "a::B");
        assert_eq!(base_of("a::B::<c::D>"), "a::B");
        assert_eq!(base_of("a<b>::C"), "a::C");
        let types: Vec<String> = types_in("my::Map<K, &'a [other::V; 4]>").collect();
        assert_eq!(types, ["my::Map", "K", "other::V", "4"]);
    }

    #[test]
    fn brackets_that_do_not_match_do_no_harm() {
        for text in [">>>", "<<<<a::B", "a::B>", "operator<<(a::B)", "()>]", "->", "'", "::", "a::", "drop_in_place<"] {
            let _ = found(&[text]);
            let _ = base_of(text);
        }
    }
}
