//! Where the recordings of a program's children lie: in a folder beside its own, `app.children` beside `app.hw`.

use crate::course::About;
use std::io;
use std::path::{Path, PathBuf};

/// The ending of a recording's name.
const ENDING: &str = "hw";

/// The folder for the children's recordings of a program whose own is `output`.
pub fn children_folder(output: &Path) -> PathBuf {
    output.with_extension("children")
}

/// The recordings of the children of the program whose recording is `output`.
pub fn children_of(output: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(children_folder(output)) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| is_ours(path)).collect()
}

/// Whether a file has a name as they are given here: `4711-cc1plus.hw`.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbered =
        name.split_once('-').is_some_and(|(pid, _)| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()));
    numbered && path.extension().is_some_and(|ending| ending == ENDING)
}

/// Gives out names in the folder.
pub struct ChildFiles {
    output: PathBuf,
    folder: PathBuf,
    is_ready: bool,
}

impl ChildFiles {
    /// Those of the program whose recording is `output`. An earlier recording of that name is overwritten, and its children's go with it.
    pub fn of(output: &Path) -> Self {
        children_of(output).into_iter().for_each(|path| _ = std::fs::remove_file(path));
        Self { output: output.to_owned(), folder: children_folder(output), is_ready: false }
    }

    /// A name for another process: `app.children/1234-child.hw`. The folder is made when it is needed; where it cannot be, the name is beside the
    /// program's recording.
    pub fn path_for(&mut self, about: &About) -> PathBuf {
        let name = sound_name(&about.name());
        let fork = if about.forked { "-fork" } else { "" };
        let is_there = self.is_ready || self.make().is_ok();
        let folder = if is_there { self.folder.as_path() } else { self.output.parent().unwrap_or(Path::new("")) };
        (0u32..)
            .map(|again| if again == 0 { String::new() } else { format!("-{again}") })
            .map(|again| folder.join(format!("{}-{name}{fork}{again}.{ENDING}", about.pid)))
            .find(|path| !path.exists())
            .unwrap_or_default()
    }

    fn make(&mut self) -> io::Result<()> {
        match std::fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => self.is_ready = true,
        }
        Ok(())
    }

    /// Removes the folder if nothing is in it.
    pub fn remove_if_empty(&self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// A program's name as a part of a file's name: titles that programs give themselves may have anything in them.
fn sound_name(name: &str) -> String {
    const LONGEST: usize = 48;
    let sound = |letter: char| if letter.is_alphanumeric() || "._+-".contains(letter) { letter } else { '_' };
    let name: String = name.chars().map(sound).take(LONGEST).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_were_given_here_are_taken_for_childrens() {
        for (name, ours) in
            [("12-cc1.hw", true), ("cc1.hw", false), ("-cc1.hw", false), ("12-cc1.txt", false), ("1x-a.hw", false)]
        {
            assert_eq!(is_ours(Path::new(name)), ours, "{name}");
        }
    }

    #[test]
    fn any_title_gives_a_file_name() {
        assert_eq!(sound_name("nginx: worker/process"), "nginx__worker_process");
        assert_eq!(sound_name(""), "unknown");
        assert_eq!(sound_name(&"é".repeat(100)).chars().count(), 48);
    }
}
