//! Names that only the module knows: labels of fields and variants, functions, variables.

use super::types::StableTypes;
use crate::wasm::{Instruction, WasmModule};
use rustc_hash::FxHashMap;

/// Names that the module states. Without a module, only the well-known labels.
#[derive(Debug, Default)]
pub struct MotokoNames {
    labels: FxHashMap<u32, String>,
    functions: FxHashMap<u64, String>,
    /// The names of captured variables, by the index of the function in the table.
    captured: FxHashMap<u64, Vec<Captured>>,
    types: StableTypes,
}

/// A variable that a function captured: its index in the closure, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Captured {
    index: u64,
    name: String,
}

/// The hash by which the compiler sorts and finds labels.
pub fn label_hash(label: &str) -> u32 {
    label.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(223).wrapping_add(byte.into())) & 0x7fff_ffff
}

/// Common labels, known without a module: those of options, lists and results.
const WELL_KNOWN: [&str; 12] =
    ["ok", "err", "some", "none", "head", "tail", "left", "right", "leaf", "node", "key", "value"];

impl MotokoNames {
    /// The names of a module, if there is one, whose objects have this layout.
    pub fn of(module: Option<&WasmModule>, is_wide: bool, header: u64) -> Self {
        let mut names = Self::default();
        let known =
            WELL_KNOWN.into_iter().chain(module.iter().flat_map(|module| module.labels.iter().map(String::as_str)));
        for label in known {
            names.labels.insert(label_hash(label), label.to_owned());
        }
        let Some(module) = module else { return names };
        names.types = StableTypes::of(&module.stable_types);
        for (index, function) in module.functions_in_table() {
            if let Some(name) = module.function_name(function) {
                names.functions.insert(index, name.to_owned());
            }
            let captured = captured_variables(module, function, is_wide, header);
            if !captured.is_empty() {
                names.captured.insert(index, captured);
            }
        }
        names
    }

    /// The label with a hash; `_123_` if it is not known.
    pub fn label(&self, hash: u32) -> String {
        self.labels.get(&hash).cloned().unwrap_or_else(|| format!("_{hash}_"))
    }

    /// The name of the function at an index of the table, if it is known.
    pub fn function(&self, index: u64) -> Option<&str> {
        self.functions.get(&index).map(String::as_str)
    }

    /// The types of stable variables.
    pub(super) fn types(&self) -> &StableTypes {
        &self.types
    }

    /// The name of a variable that a function captured, given its index in the closure. Not known if two have the same name.
    pub fn captured(&self, function: u64, index: u64) -> Option<&str> {
        let all = self.captured.get(&function)?;
        let name = &all.iter().find(|captured| captured.index == index)?.name;
        (all.iter().filter(|captured| captured.name == *name).count() == 1).then_some(name)
    }
}

/// The variables that a function captured. Compiled code begins by loading each one from the closure, its first parameter, into a local, whose name the
/// module states.
fn captured_variables(module: &WasmModule, function: u32, is_wide: bool, header: u64) -> Vec<Captured> {
    let word = if is_wide { 8 } else { 4 };
    // References are one less than the address.
    let forward = word + 1;
    let first = (header + 2) * word + 1;
    let mut found: Vec<Captured> = Vec::new();
    let Some(mut code) = module.instructions_in(function) else { return found };
    while code.next() == Some(Instruction::LocalGet(0)) {
        let mut loaded = None;
        let local = loop {
            match code.next() {
                // The forwarding pointer is followed first, more than once.
                Some(Instruction::Load { offset }) if header == 2 && offset == forward && loaded.is_none() => {}
                Some(Instruction::Load { offset }) if loaded.is_none() => loaded = Some(offset),
                Some(Instruction::LocalSet(local) | Instruction::LocalTee(local)) => break Some(local),
                _ => break None,
            }
        };
        let index = loaded.and_then(|offset| offset.checked_sub(first)).filter(|past| past.is_multiple_of(word));
        let (Some(local), Some(index)) = (local, index.map(|past| past / word)) else { break };
        if let Some(name) = module.local_name(function, local).map(source_name).filter(|name| is_identifier(name)) {
            found.push(Captured { index, name: name.to_owned() });
        }
    }
    found
}

/// The name in the source: the compiler calls the second `$name/1` to tell variables of the same name apart.
fn source_name(mut name: &str) -> &str {
    while let Some((inner, _)) = name.strip_prefix('$').and_then(|inner| inner.rsplit_once('/')) {
        name = inner;
    }
    name
}

/// True for a name that a path can contain. Variables of the compiler's own have others.
fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && name.chars().all(|character| character.is_alphanumeric() || character == '_')
}

/// A variable of the program: where the compiled code finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its index among the static variables (64 bits), or the address of its box (32 bits).
    pub location: u64,
}

/// The stable variables of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// All of them.
    pub list: Vec<Variable>,
    /// The hashes of their names, sorted.
    pub hashes: Vec<u32>,
    /// Where those hashes are stored: the index among the static variables of a blob (64 bits), or the address of an array (32 bits).
    pub hashes_at: Option<u64>,
}

/// The stable variables, found in the code of `@get_actor_to_persist`: it loads each variable and stores it into a field of a record, whose fields are
/// sorted by the hash of their names. Empty if the code is not as expected.
pub fn variables(module: &WasmModule, is_wide: bool, header: u64) -> Variables {
    let mut names = stable_names(&module.stable_types);
    names.sort_by_key(|name| label_hash(name));
    let Some(code) = module.instructions_of("@get_actor_to_persist") else { return Variables::default() };
    let getter = module.function_named("get_static_variable");
    let word = if is_wide { 8 } else { 4 };
    // References are one less than the address.
    let first_field = (header + if is_wide { 1 } else { 2 }) * word + 1;
    let hashes_offset = first_field - word;
    let (mut loaded, mut in_local) = (None, FxHashMap::default());
    let (mut found, mut hashes_at) = (Vec::new(), None);
    for (at, &instruction) in code.iter().enumerate() {
        let next = code.get(at + 1);
        match instruction {
            Instruction::Constant(index) if is_wide => {
                let is_loaded = matches!(next, Some(Instruction::Call(function)) if Some(*function) == getter);
                loaded = loaded.or(is_loaded.then_some(index as u64));
            }
            Instruction::Constant(reference) if loaded.is_none() => loaded = Some((reference as u64).wrapping_add(1)),
            Instruction::LocalSet(local) => {
                if let Some(location) = loaded.take() {
                    in_local.insert(local, location);
                }
            }
            Instruction::Store { offset } => {
                let stored = match code[..at] {
                    [.., Instruction::LocalGet(local)] => local,
                    [.., Instruction::Constant(index), Instruction::Call(_)] => {
                        hashes_at = hashes_at.or((offset == hashes_offset && is_wide).then_some(index as u64));
                        continue;
                    }
                    [.., Instruction::Constant(reference)] => {
                        let location = (reference as u64).wrapping_add(1);
                        hashes_at = hashes_at.or((offset == hashes_offset && !is_wide).then_some(location));
                        continue;
                    }
                    _ => continue,
                };
                let field =
                    offset.checked_sub(first_field).filter(|past| past.is_multiple_of(word)).map(|past| past / word);
                let name = field.and_then(|field| names.get(usize::try_from(field).ok()?));
                if let (Some(name), Some(&location)) = (name, in_local.get(&stored)) {
                    found.push(Variable { name: name.clone(), location });
                }
            }
            _ => {}
        }
    }
    Variables { list: found, hashes: names.iter().map(|name| label_hash(name)).collect(), hashes_at }
}

/// The names of stable variables: the words after `stable` or `stable var` in the actor's type.
fn stable_names(types: &str) -> Vec<String> {
    let declared = |line: &str| {
        let rest = line.trim_start().strip_prefix("stable ")?;
        let rest = rest.strip_prefix("var ").unwrap_or(rest);
        let name = rest.split([' ', ':']).next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    types.lines().filter_map(declared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_hashed_as_the_compiler_does() {
        assert_eq!(label_hash("node"), 0x490a_0a02);
        assert_eq!(label_hash("id"), 23515);
        let names = MotokoNames::of(None, true, 2);
        assert_eq!((names.label(label_hash("head")), names.label(7)), ("head".to_owned(), "_7_".to_owned()));
    }

    #[test]
    fn names_are_as_in_the_source() {
        assert_eq!(
            ["ending", "$ending/0", "$$name/0/12", "$x", "a/b"].map(source_name),
            ["ending", "ending", "name", "$x", "a/b"]
        );
        assert_eq!(
            ["a_1", "_", "été", "1a", "", "@x", "$x", "a/b"].map(is_identifier),
            [true, true, true, false, false, false, false, false]
        );
    }

    #[test]
    fn stable_variables_are_read_from_their_types() {
        let types = "type T = {stable : Nat};\nactor {\n  stable var tree :\n    {#leaf};\n  stable limit : Nat\n};";
        assert_eq!(stable_names(types), ["tree", "limit"]);
    }
}
