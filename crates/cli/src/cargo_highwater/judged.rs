//! What all programs of one call of cargo have together: a program with limits of its own must be one of them, and a baseline must be a recording of one of them.
//! Each is judged when it ends, by `highwater record --ran FILE`, which notes these facts in the file.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

/// The file, removed when this is dropped.
pub struct JudgedPrograms(PathBuf);

impl JudgedPrograms {
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("cargo-highwater-{}", std::process::id()));
        // A file of a process that was killed may have the name; one of another user is not ours to remove.
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What no program kept, one sentence each.
    pub fn problems(&self) -> Result<Vec<String>, String> {
        let noted = std::fs::read_to_string(&self.0);
        Ok(problems(&noted.map_err(|error| format!("{}: {error}", self.0.display()))?))
    }
}

impl Drop for JudgedPrograms {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn problems(noted: &str) -> Vec<String> {
    let all = |kind: &str| -> BTreeSet<&str> {
        noted.lines().filter_map(|line| line.split_once(' ')).filter(|line| line.0 == kind).map(|line| line.1).collect()
    };
    let (ran, used) = (all("ran"), all("used"));
    if ran.is_empty() {
        return vec!["no program was recorded, so no limit is checked".to_owned()];
    }
    let names = ran.iter().copied().collect::<Vec<_>>().join(", ");
    let absent = all("absent").into_iter().filter(|name| !ran.contains(name));
    let absent = absent.map(|name| {
        format!("the budget has limits for '{name}', and no recorded process has this name; there are {names}")
    });
    let unused = all("unused").into_iter().filter(|file| !used.contains(file));
    let unused = unused.map(|file| format!("{file} is a baseline of none of these programs: {names}"));
    absent.chain(unused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_program_has_is_missing_in_none() {
        let noted = "ran a\nabsent b\nunused /x/b.hw\nran b\nabsent a\nused /x/b.hw\n";
        assert_eq!(problems(noted), [""; 0]);
        let noted = "ran a\nran sh\nabsent c\nunused /x y.hw\n";
        assert_eq!(
            problems(noted),
            [
                "the budget has limits for 'c', and no recorded process has this name; there are a, sh",
                "/x y.hw is a baseline of none of these programs: a, sh"
            ]
        );
        assert_eq!(problems(""), ["no program was recorded, so no limit is checked"]);
    }
}
