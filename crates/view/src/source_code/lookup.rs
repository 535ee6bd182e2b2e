//! Where the file of a frame may be: where it was recorded, or in a tree that was moved.

use super::SourceFileError;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// The most components of a path that are looked for in a folder: the last ones. Real paths have fewer.
const MOST_COMPONENTS: usize = 64;

/// A folder with sources: `DIR`, or `OLD=NEW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceDir {
    /// A tree that holds files of another tree: the longest end of a recorded path that exists in it is the file.
    Tree(PathBuf),
    /// What began with `old` begins with `new`.
    Moved {
        /// The beginning of recorded paths.
        old: PathBuf,
        /// The folder that has taken its place.
        new: PathBuf,
    },
}

/// Why a text does not name a folder with sources.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{folder}' is no folder: {reason}")]
pub struct NoSourceDir {
    folder: String,
    reason: String,
}

impl FromStr for SourceDir {
    type Err = NoSourceDir;

    fn from_str(text: &str) -> Result<Self, NoSourceDir> {
        // A folder may have a `=` in its name.
        if let Some((old, new)) = text.split_once('=').filter(|(old, _)| !old.is_empty() && !Path::new(text).is_dir()) {
            return Ok(Self::Moved { old: old.into(), new: folder(new)? });
        }
        Ok(Self::Tree(folder(text)?))
    }
}

/// The whole path of a folder, without links: an editor may run in another working directory.
fn folder(text: &str) -> Result<PathBuf, NoSourceDir> {
    let wrong = |reason: String| NoSourceDir { folder: text.to_owned(), reason };
    let path = std::fs::canonicalize(text).map_err(|error| {
        let reason = error.to_string();
        wrong(reason.split(" (os error").next().unwrap_or(&reason).to_owned())
    })?;
    if path.is_dir() { Ok(path) } else { Err(wrong("it is a file".to_owned())) }
}

/// The paths at which a file may be, in the order in which they count: where a prefix was moved to, where it was recorded, and in the trees, the longest end of
/// its path first.
pub fn candidates(recorded: &str, dirs: &[SourceDir]) -> Result<Vec<PathBuf>, SourceFileError> {
    let path = Path::new(recorded);
    let mut found: Vec<PathBuf> = Vec::new();
    if !dirs.is_empty() {
        let parts = plain_parts(path)?;
        let plain: PathBuf = path.is_absolute().then_some(Component::RootDir).into_iter().chain(parts).collect();
        for dir in dirs {
            if let SourceDir::Moved { old, new } = dir
                && let Ok(rest) = plain.strip_prefix(old)
            {
                found.push(new.join(rest));
            }
        }
    }
    // A relative path means nothing here: it was relative to the folder of a compiler, not to that of this server.
    if path.is_absolute() {
        found.push(path.to_owned());
    }
    let trees: Vec<&PathBuf> =
        dirs.iter().filter_map(|dir| if let SourceDir::Tree(tree) = dir { Some(tree) } else { None }).collect();
    if !trees.is_empty() {
        let parts = plain_parts(path)?;
        for from in parts.len().saturating_sub(MOST_COMPONENTS)..parts.len() {
            let end: PathBuf = parts[from..].iter().collect();
            found.extend(trees.iter().map(|tree| tree.join(&end)));
        }
    }
    Ok(found)
}

/// The components of a path without `.` and `..`; an error if it leads out of where it begins.
fn plain_parts(path: &Path) -> Result<Vec<Component<'_>>, SourceFileError> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(_) => parts.push(part),
            Component::ParentDir => drop(parts.pop().ok_or(SourceFileError::Outside)?),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(recorded: &str, dirs: &[SourceDir]) -> Vec<String> {
        candidates(recorded, dirs).unwrap().iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_longest_end_of_a_path_comes_first() {
        let dirs = [SourceDir::Tree("/mine".into()), SourceDir::Moved { old: "/build/x".into(), new: "/new".into() }];
        assert_eq!(
            paths("/build/x/obj/../src/a.c", &dirs),
            [
                "/new/src/a.c",
                "/build/x/obj/../src/a.c",
                "/mine/build/x/src/a.c",
                "/mine/x/src/a.c",
                "/mine/src/a.c",
                "/mine/a.c"
            ]
        );
        assert_eq!(paths("/build/xy/a.c", &dirs[1..]), ["/build/xy/a.c"], "a prefix ends between components");
        assert_eq!(paths("src/a.c", &[]), Vec::<String>::new(), "a relative path is relative to nothing");
    }

    #[test]
    fn no_path_leads_out_of_a_folder() {
        let tree = [SourceDir::Tree("/mine".into())];
        let moved = [SourceDir::Moved { old: "/build".into(), new: "/mine".into() }];
        for path in ["../a.c", "src/../../a.c", "/../etc/a.c", "/build/../../a.c"] {
            assert_eq!(candidates(path, &tree), Err(SourceFileError::Outside), "{path}");
            assert_eq!(candidates(path, &moved), Err(SourceFileError::Outside), "{path}");
        }
        assert_eq!(
            paths("/build/../a.c", &moved),
            ["/build/../a.c"],
            "what is no longer below the prefix is not moved"
        );
    }
}
