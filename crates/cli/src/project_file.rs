//! `highwater.toml`: what a project knows about its own functions.
//!
//! ```toml
//! [names]
//! allocators = ["my_alloc", "arena::*"]
//! ```
//!
//! The table `[budget]` may be in the same file: [`highwater_query::budget`] reads it.
//!
//! The file is that of the current folder, or of the nearest folder above it that has one. It must be a regular file: a pipe would be waited for.

use crate::failure::{Failure, reason};
use crate::permitted;
use highwater_model::AllocatorName;
use highwater_query::parse_toml;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The file's name.
const NAME: &str = "highwater.toml";
/// A longer file is none of ours.
const MOST_BYTES: u64 = 1 << 20;

/// The contents of a project's file.
#[derive(Debug, Default, PartialEq)]
pub struct ProjectFile {
    /// Functions that only pass memory on.
    pub allocators: Vec<AllocatorName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(default)]
    names: Names,
    /// Limits, which '--budget' reads.
    #[serde(default, rename = "budget")]
    _budget: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    #[serde(default)]
    allocators: Vec<NameText>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct NameText(AllocatorName);

impl TryFrom<String> for NameText {
    type Error = highwater_model::NoAllocatorName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl ProjectFile {
    /// The file of the current folder, or of the nearest one above it; `None` if there is none.
    pub fn find() -> Result<Option<Self>, Failure> {
        // A folder that was removed, or that may not be read, has no project.
        let Ok(folder) = std::env::current_dir() else { return Ok(None) };
        Self::find_from(&folder)
    }

    fn find_from(folder: &Path) -> Result<Option<Self>, Failure> {
        for folder in folder.ancestors() {
            // An assistant's questions are answered with files below its folders only.
            if !permitted::is_permitted(folder) {
                break;
            }
            let path: PathBuf = folder.join(NAME);
            let mut text = String::new();
            let file = permitted::open_regular(&path);
            match file.and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text)) {
                Ok(_) if text.len() as u64 > MOST_BYTES => {
                    return Err(Failure::in_file(&path, "it is longer than 1 MiB"));
                }
                Ok(_) => return Self::parse(&path, &text).map(Some),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {}
                Err(error) => return Err(Failure::in_file(&path, format_args!("cannot read: {}", reason(&error)))),
            }
        }
        Ok(None)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let contents: Contents = parse_toml(text).map_err(|error| Failure::in_file(path, error))?;
        Ok(Self { allocators: contents.names.allocators.into_iter().map(|name| name.0).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let file = ProjectFile::parse(Path::new("highwater.toml"), text).map_err(|error| format!("{error:?}"))?;
        Ok(file.allocators.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_project_names_its_allocators() {
        let names = parsed("# ours\n[names]\nallocators = [\"my_alloc\", \"arena::*\"]\n").unwrap();
        assert_eq!(names, ["my_alloc", "arena::*"]);
        assert_eq!(parsed("").unwrap(), [""; 0]);
        assert_eq!(parsed("[budget]\nmax-peak = 5\n[names]\nallocators = [\"a\"]\n").unwrap(), ["a"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, part) in [
            ("[names]\nallocator = []\n", "allocator"),
            ("[name]\n", "name"),
            ("[names]\nallocators = [\"*\"]\n", "names no allocator"),
            ("[names]\nallocators = 7\n", "line 2"),
            ("[names\n", "line 1"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(
                error.contains("highwater.toml") && error.contains(part) && error.contains("line"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn the_nearest_folder_above_counts() {
        let root = std::env::temp_dir().join(format!("highwater-project-file-{}", std::process::id()));
        let deep = root.join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(root.join(NAME), "[names]\nallocators = [\"outer\"]\n").unwrap();
        let found = |folder: &Path| ProjectFile::find_from(folder).unwrap().unwrap().allocators[0].to_string();
        assert_eq!(found(&deep), "outer");
        std::fs::write(root.join("a").join(NAME), "[names]\nallocators = [\"inner\"]\n").unwrap();
        assert_eq!(found(&deep), "inner");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
