//! Remembers the image that was pulled last: a path in a file of the user.

use highwater_store::write_in_place_of;
use std::path::{Path, PathBuf};

/// The path of that file.
fn note() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
    Some(state.join("highwater/latest-image"))
}

/// Stores the path of an image. Does nothing if the user has no home directory.
pub fn remember(image: &Path) {
    let Some(note) = note() else { return };
    let Ok(image) = std::path::absolute(image) else { return };
    if let Some(directory) = note.parent()
        && std::fs::create_dir_all(directory).is_ok()
    {
        let _ = write_in_place_of(&note, image.as_os_str().as_encoded_bytes());
    }
}

/// The image that was pulled last, if there was one.
pub fn recall() -> Option<PathBuf> {
    let path = std::fs::read_to_string(note()?).ok()?;
    Some(PathBuf::from(path.trim_end())).filter(|path| path.is_absolute())
}
