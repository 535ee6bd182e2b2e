//! Files for the recordings of a program's children: in a folder beside its own recording, `app.children` beside `app.hw`.

use crate::process_recording::RecordedProcess;
use highwater_store::create_new_file;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The extension of a recording's file name.
const ENDING: &str = "hw";
/// The maximum number of names tried.
const MOST_NAMES: u32 = 10_000;

/// The folder for recordings of the children of a program whose own recording is `output`.
pub fn children_folder(output: &Path) -> PathBuf {
    output.with_extension("children")
}

/// The recordings of the children of the program whose recording is `output`. The recorder makes no links, so none is followed: a link may lead anywhere.
pub fn children_of(output: &Path) -> Vec<PathBuf> {
    let folder = children_folder(output);
    if !std::fs::symlink_metadata(&folder).is_ok_and(|about| about.is_dir()) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files.map(|entry| entry.path()).filter(|path| is_ours(path)).collect()
}

/// Removes these recordings: for a new recording that replaces another, whose children's recordings are removed too.
pub fn remove_children_of(output: &Path) {
    children_of(output).into_iter().for_each(|path| _ = std::fs::remove_file(path));
}

/// Whether a file is named as recordings of children are: `4711-cc1plus.hw`.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbered =
        name.split_once('-').is_some_and(|(pid, _)| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()));
    numbered && path.extension().is_some_and(|ending| ending == ENDING)
}

/// Creates files in the folder.
pub struct ChildFiles {
    output: PathBuf,
    folder: PathBuf,
    is_ready: bool,
}

impl ChildFiles {
    /// The files for the program whose recording is `output`.
    pub fn of(output: &Path) -> Self {
        Self { output: output.to_owned(), folder: children_folder(output), is_ready: false }
    }

    /// A file for another process: `app.children/1234-child.hw`. The folder is created when it is needed; if that fails, the file is created beside the
    /// program's recording.
    pub fn create(&mut self, about: &RecordedProcess) -> io::Result<(PathBuf, File)> {
        let created = self.names_for(about).find_map(|path| match create_new_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            created => Some(created.map(|file| (path, file))),
        });
        created.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
    }

    /// A path for such a file that does not exist yet.
    pub fn free_path_for(&mut self, about: &RecordedProcess) -> PathBuf {
        self.names_for(about).find(|path| std::fs::symlink_metadata(path).is_err()).unwrap_or_default()
    }

    fn names_for(&mut self, about: &RecordedProcess) -> impl Iterator<Item = PathBuf> {
        let name = sound_name(&about.name());
        let fork = if about.forked { "-fork" } else { "" };
        let is_there = self.is_ready || self.make().is_ok();
        let folder = if is_there { &self.folder } else { self.output.parent().unwrap_or(Path::new("")) }.to_owned();
        let pid = about.pid;
        (0..MOST_NAMES)
            .map(|again| if again == 0 { String::new() } else { format!("-{again}") })
            .map(move |again| folder.join(format!("{pid}-{name}{fork}{again}.{ENDING}")))
    }

    fn make(&mut self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // In a directory that every user may write to, another user may have created it, or a link.
                let there = std::fs::symlink_metadata(&self.folder)?;
                if !there.is_dir() || there.uid() != rustix::process::geteuid().as_raw() {
                    return Err(error);
                }
            }
            made => made?,
        }
        self.is_ready = true;
        Ok(())
    }

    /// Removes the folder if it is empty.
    pub fn remove_if_empty(&self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Makes a program's name safe as a part of a file name: titles that programs give themselves may contain anything.
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
    fn links_in_the_folder_or_in_its_place_are_no_children() {
        let root = std::env::temp_dir().join(format!("highwater-children-{}", std::process::id()));
        std::fs::create_dir_all(root.join("app.children")).unwrap();
        std::fs::write(root.join("app.children/1-a.hw"), "").unwrap();
        std::fs::write(root.join("secret.hw"), "").unwrap();
        std::os::unix::fs::symlink("../secret.hw", root.join("app.children/2-b.hw")).unwrap();
        std::os::unix::fs::symlink("app.children", root.join("other.children")).unwrap();
        assert_eq!(children_of(&root.join("app.hw")), [root.join("app.children/1-a.hw")]);
        assert_eq!(children_of(&root.join("other.hw")), Vec::<PathBuf>::new());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn any_title_gives_a_file_name() {
        assert_eq!(sound_name("nginx: worker/process"), "nginx__worker_process");
        assert_eq!(sound_name(""), "unknown");
        assert_eq!(sound_name(&"é".repeat(100)).chars().count(), 48);
    }
}
