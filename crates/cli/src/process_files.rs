//! The recordings of several processes: those of a program's children, and those in a folder.

use highwater_recorder::children_of;
use std::path::{Path, PathBuf};

/// The recordings of the children of the program whose recording this is, in order.
pub fn recordings_of_children(path: &Path) -> Vec<PathBuf> {
    let mut children = children_of(path);
    children.sort();
    children
}

/// The recordings in a folder, in order; none if it is a file, or a folder of something else.
pub fn recordings_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_recording = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "hw") && path.is_file();
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_recording).collect();
    found.sort();
    found
}
