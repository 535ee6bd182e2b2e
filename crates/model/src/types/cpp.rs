//! Types of blocks that C++'s standard library allocates, from the names of its functions: libstdc++ and libc++.
//!
//! A container asks `std::allocator<X>` for memory, and X is the node or the element. The innermost function that shows X decides; the functions around
//! it show which container it is for. `operator new` in the program itself has no library function: what it makes is known from debug information only.

use super::rust::{Found, Holds, ShownBy};
use super::spelling;
use super::text::{generic, split, without_signature};

/// A function of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CppFrame {
    /// The class, or the function if it is in none, without arguments.
    name: String,
    arguments: Vec<String>,
    /// The first argument of the function itself.
    own: Option<String>,
    /// True if the source file is known: then inlined functions have frames of their own.
    shows_inlined: bool,
}

impl CppFrame {
    /// The library function of this name; `None` if it is not one.
    pub fn of(function: &str, file: &str) -> Option<Self> {
        let is_bare = !function.is_empty() && (!function.contains("::") || function.contains(":<lambda"));
        if is_bare && file.contains("/include/c++/") {
            return Some(Self::of_file(file));
        }
        let name = without_signature(function);
        let segments = split(name, "::")?;
        let has_signature = function.ends_with(')') || function.ends_with(") const");
        let is_library = match segments.as_slice() {
            ["__gnu_cxx", ..] => true,
            // Rust's library has the same name, but no functions and templates directly in it.
            ["std", first, ..] => has_signature || first.contains('<') || first.starts_with("__"),
            _ => false,
        };
        if !is_library {
            return None;
        }
        let inner = |part: &&str| {
            !matches!(*part, "std" | "__gnu_cxx" | "__cxx11" | "__1" | "__detail" | "pmr" | "ranges" | "chrono")
        };
        let named = segments.iter().copied().filter(inner);
        // The first part with arguments is the class; of nested classes the inner one matters.
        let mut chosen: Option<(&str, Vec<&str>)> = None;
        for part in named {
            let part = part.split("[abi:").next().unwrap_or(part);
            let (name, arguments) = generic(part)?;
            let is_better =
                chosen.as_ref().is_none_or(|(known, _)| NESTED.contains(known) && NESTED_IN.contains(&name));
            if is_better {
                chosen = Some((name, arguments));
            }
        }
        let (name, arguments) = chosen?;
        let own = segments
            .last()
            .and_then(|last| generic(last))
            .and_then(|(_, own)| own.first().map(|text| (*text).to_owned()));
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        Some(Self { name: name.to_owned(), arguments, own, shows_inlined: !file.is_empty() })
    }

    /// A function that only one file can call, such as one for a lambda, may have a bare name. Its header shows what it belongs to.
    fn of_file(file: &str) -> Self {
        let name = if file.ends_with("/std_function.h") { "function" } else { "" };
        Self { name: name.to_owned(), arguments: Vec::new(), own: None, shows_inlined: true }
    }

    fn argument(&self, index: usize) -> Option<&str> {
        self.arguments.get(index).map(String::as_str).filter(|text| !text.contains('…'))
    }
}

/// Classes whose inner classes show the type.
const NESTED: [&str; 2] = ["any", "_Function_base"];
const NESTED_IN: [&str; 2] = ["_Manager_external", "_Base_manager"];

/// What is known while the library's functions are followed outwards.
#[derive(Clone, Debug, Default)]
pub struct CppChain {
    /// What the allocator was asked for.
    asked: Option<String>,
    found: Option<Found>,
    /// Whether a function shows that keys may occur more than once.
    is_multiple: bool,
    /// The innermost function may contain others that allocate for other types.
    is_over: bool,
    shown_by: ShownBy,
}

impl CppChain {
    /// Takes the next function outwards into account.
    pub fn step(&mut self, frame: &CppFrame, is_in_program: bool) {
        let before = (self.asked.is_some(), self.found.is_some());
        self.look_at(frame);
        if before != (self.asked.is_some(), self.found.is_some()) {
            self.shown_by = if is_in_program { ShownBy::Inlined } else { ShownBy::Called };
        }
    }

    fn look_at(&mut self, frame: &CppFrame) {
        self.is_multiple |=
            matches!(frame.name.as_str(), "multimap" | "multiset" | "unordered_multimap" | "unordered_multiset");
        if self.found.is_some() || self.is_over {
            return;
        }
        match (&self.asked, allocator_argument(frame)) {
            (None, Some(asked)) => {
                self.found = node(asked);
                self.asked = Some(asked.to_owned());
            }
            (None, None) if self.is_ambiguous(frame) => self.is_over = true,
            _ => self.found = self.container(frame),
        }
    }

    /// The type that was found.
    pub fn found(self) -> Option<Found> {
        let mut found = Found { shown_by: self.shown_by, ..self.found? };
        if self.is_multiple {
            for (single, multiple) in [
                ("std::map<", "std::multimap<"),
                ("std::set<", "std::multiset<"),
                ("std::unordered_map<", "std::unordered_multimap<"),
                ("std::unordered_set<", "std::unordered_multiset<"),
            ] {
                if let Some(rest) = found.name.strip_prefix(single) {
                    found.name = format!("{multiple}{rest}");
                    break;
                }
            }
        }
        Some(found)
    }

    /// Without debug information, the elements' constructors may be inlined into a container's function, and allocate there.
    fn is_ambiguous(&self, frame: &CppFrame) -> bool {
        let is_plain = |text: &String| {
            let text = spelling::cpp(text);
            super::primitive_size(&text).is_some()
                || matches!(text.as_str(), "char" | "bool" | "")
                || text.starts_with("std::allocator<")
                || text.starts_with("std::char_traits<")
        };
        !frame.shows_inlined && !frame.arguments.is_empty() && !frame.arguments.iter().all(is_plain)
    }

    /// The container that a function belongs to.
    fn container(&self, frame: &CppFrame) -> Option<Found> {
        let element = || frame.argument(0).map(spelling::cpp);
        let unknown = |name: String| Found { name, element: None, holds: Holds::Unknown, shown_by: ShownBy::Called };
        let one = |name: String| Found { name, element: None, holds: Holds::One, shown_by: ShownBy::Called };
        let array = |container: &str, element: String| Found {
            name: format!("std::{container}<{element}>"),
            element: Some(element),
            holds: Holds::Array,
            shown_by: ShownBy::Called,
        };
        let asked = self.asked.as_deref().map(spelling::cpp);
        Some(match frame.name.as_str() {
            "_Bvector_base" | "_Bit_alloc_traits" => unknown("std::vector<bool>".to_owned()),
            "vector" | "_Vector_base" | "__split_buffer"
                if element().as_deref() == Some("bool") && asked.as_deref() == Some("unsigned long") =>
            {
                unknown("std::vector<bool>".to_owned())
            }
            "vector" | "_Vector_base" => array("vector", asked.or_else(element)?),
            // A deque has blocks of elements and a table of pointers to them.
            "deque" | "_Deque_base" => unknown(format!("std::deque<{}>", element()?)),
            "basic_string" => unknown(string(&element()?)),
            "basic_stringbuf" | "basic_ostringstream" | "basic_stringstream" => unknown(string(&element()?)),
            "_Hashtable_alloc" => return hash_node(&allocated(frame.argument(0)?)?),
            "_Hashtable" | "_Map_base" | "__hash_table" => return hash_table(frame),
            "unordered_map" | "unordered_multimap" => {
                unknown(format!("std::unordered_map<{}, {}>", element()?, spelling::cpp(frame.argument(1)?)))
            }
            "unordered_set" | "unordered_multiset" => unknown(format!("std::unordered_set<{}>", element()?)),
            "make_unique" | "make_unique_for_overwrite" if self.asked.is_none() => match element()? {
                // The size of an array's element is known by its name.
                made if made.ends_with("[]") => Found {
                    element: made.strip_suffix("[]").map(str::to_owned),
                    name: made,
                    holds: Holds::Array,
                    shown_by: ShownBy::Called,
                },
                made => one(made),
            },
            // The constructor has the type of the pointer that it was given.
            "__shared_count" if self.asked.is_none() => {
                let pointed = spelling::cpp(frame.own.as_deref().filter(|text| !text.contains('…'))?);
                one(format!("std::shared_ptr<{}> counts", pointed.strip_suffix('*')?))
            }
            "_Function_base" | "_Base_manager" | "function" if self.asked.is_none() => one("std::function".to_owned()),
            "_Manager_external" => one(format!("std::any<{}>", element()?)),
            "valarray" => array("valarray", element()?),
            _ => return None,
        })
    }
}

/// X of the allocator's functions.
fn allocator_argument(frame: &CppFrame) -> Option<&str> {
    match frame.name.as_str() {
        "__new_allocator" | "new_allocator" | "allocator" | "malloc_allocator" | "polymorphic_allocator" => {
            frame.argument(0)
        }
        "allocator_traits" | "__alloc_traits" => {
            let (_, arguments) = generic(frame.argument(0)?)?;
            arguments.first().copied()
        }
        _ => None,
    }
}

/// X of `std::allocator<X>`.
fn allocated(allocator: &str) -> Option<String> {
    let (_, arguments) = generic(allocator)?;
    arguments.first().map(|text| (*text).to_owned())
}

/// The container whose node has this type.
fn node(asked: &str) -> Option<Found> {
    let last = split(asked, "::")?.pop()?;
    let (name, arguments) = generic(last)?;
    let one = |name: String| Found { name, element: None, holds: Holds::One, shown_by: ShownBy::Called };
    let element = || arguments.first().map(|text| spelling::cpp(text)).filter(|text| !text.contains('…'));
    Some(match name {
        "_Rb_tree_node" => match pair(arguments.first()?) {
            Some((key, value)) => one(format!("std::map<{key}, {value}>")),
            None => one(format!("std::set<{}>", element()?)),
        },
        "__tree_node" => match value_type(arguments.first()?) {
            Some((key, value)) => one(format!("std::map<{key}, {value}>")),
            None => one(format!("std::set<{}>", element()?)),
        },
        "_Hash_node" | "__hash_node" => return hash_node(asked),
        "_List_node" | "__list_node" => one(format!("std::list<{}>", element()?)),
        "_Fwd_list_node" | "__forward_list_node" => one(format!("std::forward_list<{}>", element()?)),
        "_Sp_counted_ptr_inplace" | "__shared_ptr_emplace" => one(format!("std::make_shared<{}>", element()?)),
        _ => return None,
    })
}

fn hash_node(node: &str) -> Option<Found> {
    let (name, arguments) = generic(split(node, "::")?.pop()?)?;
    let of = arguments.first().filter(|text| !text.contains('…'))?;
    let one = |name: String| Some(Found { name, element: None, holds: Holds::Unknown, shown_by: ShownBy::Called });
    match (name, pair(of), value_type(of)) {
        ("_Hash_node" | "__hash_node", Some((key, value)), _) | ("__hash_node", None, Some((key, value))) => {
            one(format!("std::unordered_map<{key}, {value}>"))
        }
        ("_Hash_node" | "__hash_node", None, _) => one(format!("std::unordered_set<{}>", spelling::cpp(of))),
        _ => None,
    }
}

/// Functions of hash tables have the key and the value among their arguments.
fn hash_table(frame: &CppFrame) -> Option<Found> {
    let unknown = |name: String| Some(Found { name, element: None, holds: Holds::Unknown, shown_by: ShownBy::Called });
    let second = if frame.name == "__hash_table" { frame.argument(0)? } else { frame.argument(1)? };
    match pair(second).or_else(|| value_type(second)) {
        Some((key, value)) => unknown(format!("std::unordered_map<{key}, {value}>")),
        None => unknown(format!("std::unordered_set<{}>", spelling::cpp(frame.argument(0)?))),
    }
}

/// K and V of `std::pair<K const, V>`.
fn pair(text: &str) -> Option<(String, String)> {
    let (name, arguments) = generic(text)?;
    let [key, value] = arguments.as_slice() else { return None };
    let key = spelling::cpp(key);
    let key = key.strip_suffix(" const").filter(|_| name == "std::pair" || name == "std::__1::pair")?;
    Some((key.to_owned(), spelling::cpp(value)))
}

/// K and V of libc++'s `__value_type<K, V>`.
fn value_type(text: &str) -> Option<(String, String)> {
    let (name, arguments) = generic(text)?;
    let [key, value] = arguments.as_slice() else { return None };
    let is_it = name.ends_with("__value_type") || name.ends_with("__hash_value_type");
    is_it.then(|| (spelling::cpp(key), spelling::cpp(value)))
}

fn string(character: &str) -> String {
    spelling::cpp(&format!("std::basic_string<{character}>"))
}
