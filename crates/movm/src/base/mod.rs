//! The base library, as far as scripts have it: `mo:base/…` and `mo:core/…`.
//!
//! A module is a table of native functions, or a source in Motoko. Functions of both libraries are in one table where their names do not collide. The table
//! of a type is also what its values have as methods: `xs.map(f)` is `Array.map(xs, f)`.

mod arguments;
mod array;
mod blob;
mod buffer;
mod character;
mod debug;
mod float;
mod hash_map;
mod iter;
mod iterators;
mod map;
mod number;
mod set;
mod text;

use crate::value::{Evaluated, Module, Native, NativeFunction, Value, refuse};

/// The native modules.
static MODULES: [&Module; 28] = [
    &array::ARRAY,
    &array::VAR_ARRAY,
    &blob::BLOB,
    &buffer::BUFFER,
    &character::CHAR,
    &debug::BOOL,
    &debug::DEBUG,
    &debug::RUNTIME,
    &debug::HASH,
    &debug::ORDER,
    &float::FLOAT,
    &hash_map::HASH_MAP,
    &hash_map::TRIE_MAP,
    &iter::ITER,
    &map::MAP,
    &number::NAT,
    &number::INT,
    &number::NAT8,
    &number::NAT16,
    &number::NAT32,
    &number::NAT64,
    &number::INT8,
    &number::INT16,
    &number::INT32,
    &number::INT64,
    &set::SET,
    &text::TEXT,
    &buffer::LIST,
];

/// The modules in Motoko: name, library (`base`, `core`, or both), text.
static SOURCES: [(&str, &str, &str); 3] = [
    ("Option", "", include_str!("Option.mo")),
    ("Result", "", include_str!("Result.mo")),
    ("List", "base", include_str!("List.mo")),
];

/// What an import finds.
pub enum Imported {
    /// A native module.
    Native(&'static Module),
    /// A name and a text in Motoko.
    Source(&'static str, &'static str),
}

/// Finds a module.
pub fn import(path: &str) -> Evaluated<Imported> {
    let Some((library @ ("base" | "core"), name)) = path.strip_prefix("mo:").and_then(|path| path.split_once('/'))
    else {
        return refuse(format!("'{path}' is not here; a script imports mo:base/… and mo:core/…, not files"));
    };
    let source = SOURCES.iter().find(|(known, of, _)| *known == name && (of.is_empty() || *of == library));
    if let Some((name, _, text)) = source {
        return Ok(Imported::Source(name, text));
    }
    match MODULES.iter().find(|module| module.name == name) {
        Some(module) => Ok(Imported::Native(module)),
        None => refuse(format!("there is no {path} here; {}", instead(name))),
    }
}

/// What to import instead of a module that scripts do not have.
fn instead(name: &str) -> String {
    match name {
        "RBTree" | "OrderedMap" | "AssocList" | "Trie" | "BTree" => "write import Map \"mo:core/Map\"".into(),
        "TrieSet" | "OrderedSet" => "write import Set \"mo:core/Set\"".into(),
        "Deque" | "Stack" | "Queue" => "write import Buffer \"mo:base/Buffer\"".into(),
        "Time" | "Random" | "Timer" => {
            "a script has no time and no chance: its result depends on the image only".into()
        }
        _ => {
            let mut names: Vec<&str> = MODULES.iter().map(|module| module.name).collect();
            names.extend(SOURCES.iter().map(|(name, ..)| *name));
            names.sort_unstable();
            names.dedup();
            format!("there are {}", names.join(", "))
        }
    }
}

/// True if a module has this name.
pub fn has_module(name: &str) -> bool {
    MODULES.iter().any(|module| module.name == name) || SOURCES.iter().any(|(known, ..)| *known == name)
}

/// The module of the functions that take a value first.
fn module_of(value: &Value) -> Option<&'static Module> {
    let name = match value {
        Value::Array(_) | Value::Numbers(_) => "Array",
        Value::Iterator(_) => "Iter",
        other => other.type_name(),
    };
    MODULES.iter().copied().find(|module| module.name == name)
}

/// A method of a value.
pub fn method(value: &Value, name: &str) -> Option<&'static Native> {
    module_of(value)?.function(name).filter(|native| !native.is_constant())
}

/// The names of the methods of a value.
pub fn methods_of(value: &Value) -> Vec<&'static str> {
    let mut names = match value {
        Value::Host(host) => host.methods().to_vec(),
        _ => Vec::new(),
    };
    if let Some(module) = module_of(value) {
        names.extend(module.names());
    }
    names.sort_unstable();
    names.dedup();
    names
}

impl Module {
    /// A function of the module.
    pub fn function(&self, name: &str) -> Option<&'static Native> {
        self.functions.iter().find(|native| native.name == name)
    }

    /// The names of its functions.
    pub fn names(&self) -> Vec<&'static str> {
        self.functions.iter().map(|native| native.name).collect()
    }
}

/// The number of arguments of a constant: its function runs when it is named.
const CONSTANT: (usize, usize) = (usize::MAX, 0);

impl Native {
    /// True for a value of a module that is no function.
    pub fn is_constant(&self) -> bool {
        self.arguments == CONSTANT
    }
}

/// A function that takes a number of arguments.
const fn native(name: &'static str, arguments: usize, function: NativeFunction) -> Native {
    Native { name, arguments: (arguments, arguments), function }
}

/// A function whose last arguments can be left out.
const fn ranged(name: &'static str, arguments: (usize, usize), function: NativeFunction) -> Native {
    Native { name, arguments, function }
}

/// A constant of a module.
const fn constant(name: &'static str, function: NativeFunction) -> Native {
    Native { name, arguments: CONSTANT, function }
}
