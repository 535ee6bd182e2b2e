//! Types of a program that a log lacks: the ones to track next.

use super::read::in_file;
use crate::error::QueryError;
use highwater_formats::json::SCHEMA;
use highwater_formats::objlog::Matcher;
use highwater_image::wasm::unpacked;
use highwater_model::SourceKind;
use highwater_symbols::types::{ProgramType, ProgramTypes, types_in};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// The types of a program, without those in a log.
#[derive(Debug)]
pub struct UntrackedTypes {
    /// The types that are not in the log, in the order of the program's types.
    pub types: Vec<ProgramType>,
    /// The number of the program's types that are in the log.
    pub tracked: usize,
    /// The number of types in the log.
    pub in_log: usize,
    /// True if sizes are known, and order the types; else the number of functions does.
    pub has_sizes: bool,
    /// The number of functions with a name.
    pub functions: u64,
    /// True if the program has more types than could be looked at.
    pub is_truncated: bool,
}

impl UntrackedTypes {
    /// Compares the types of a module with those of a log.
    pub fn of(module: &Path, log: &Matcher) -> Result<Self, QueryError> {
        let bytes = std::fs::read(module).map_err(|error| super::read::cannot_read(module, error))?;
        let bytes = unpacked(&bytes).map_err(|error| in_file(module, error))?;
        let program = ProgramTypes::of(&bytes).map_err(|error| in_file(module, error))?;
        let names: BTreeSet<_> = log.sites().map(|(site, _)| log.type_of(site)).collect();
        let logged = LoggedTypes::of(names.iter().map(|name| &**name));
        let all = program.types.len();
        let mut types = program.types;
        types.retain(|each| !logged.has(&each.name));
        let ProgramTypes { has_sizes, functions, is_truncated, .. } = program;
        Ok(Self { tracked: all - types.len(), in_log: names.len(), types, has_sizes, functions, is_truncated })
    }
}

/// The types that the names in a log mention, by the last part of their paths.
struct LoggedTypes(FxHashMap<String, Vec<String>>);

impl LoggedTypes {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut types: FxHashMap<String, Vec<String>> = FxHashMap::default();
        for path in names.flat_map(types_in) {
            types.entry(last_part(&path).to_owned()).or_default().push(path);
        }
        Self(types)
    }

    /// A log may name a type with its whole path, with a part of it, or without one.
    fn has(&self, path: &str) -> bool {
        let is_end_of = |short: &str, long: &str| {
            long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
        };
        let same_last = self.0.get(last_part(path));
        same_last.is_some_and(|logged| logged.iter().any(|each| is_end_of(each, path) || is_end_of(path, each)))
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The document about the types that a log lacks, with at most `most_rows` of them.
pub fn untracked_document(log: &Path, module: &Path, most_rows: usize, found: &UntrackedTypes) -> Value {
    let row = |each: &ProgramType| {
        json!({
            "type": each.name,
            "size_bytes": each.size,
            "variants": each.variants,
            "functions": each.functions,
            "dropped": each.is_dropped,
            "in_containers": each.is_held,
        })
    };
    json!({
        "schema": SCHEMA,
        "command": "objects",
        "source": {"kind": SourceKind::OBJLOG.key(), "file": log.display().to_string()},
        "untracked": {
            "module": module.display().to_string(),
            "sizes": found.has_sizes,
            "order": if found.has_sizes { "size" } else { "functions" },
            "functions": found.functions,
            "types_in_log": found.in_log,
            "tracked": found.tracked,
            "untracked": found.types.len(),
            "truncated": found.is_truncated,
            "types": found.types.iter().take(most_rows).map(row).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_the_same_with_any_part_of_its_path() {
        let logged = LoggedTypes::of(
            ["Proof", "my::Foo<other::Bar, 4>", "prover::keys::Key", "alloc::vec::Vec<a::Item>"].into_iter(),
        );
        for tracked in ["leaky::Proof", "my::Foo", "app::my::Foo", "Key", "keys::Key", "a::Item", "deep::other::Bar"] {
            assert!(logged.has(tracked), "{tracked}");
        }
        for missing in ["leaky::ProofOf", "leaky::Pro", "your::Foo", "other::keys::Key", "Items"] {
            assert!(!logged.has(missing), "{missing}");
        }
    }
}
