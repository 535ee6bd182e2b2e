//! The commit that the sources are of. A part of the build script, in a file of its own so that tests can include it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A commit.
#[derive(Debug, Default)]
pub struct Commit {
    /// Its first digits and its day: `5afd1a3567, 2026-11-19`.
    pub text: String,
    /// The files that change with every commit and every checkout.
    pub changes_with: Vec<PathBuf>,
}

/// The commit that is checked out in a folder. None if the folder is not the top of a checkout, as an unpacked archive, or without git.
pub fn of(root: &Path) -> Option<Commit> {
    // Git would also find the checkout of something else, around an archive that is unpacked there.
    if !root.join(".git").exists() {
        return None;
    }
    let ask = |arguments: &[&str]| {
        let mut git = Command::new("git");
        // In a hook of git, these name another repository.
        git.arg("-C").arg(root).args(arguments).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        let answer = git.output().ok().filter(|answer| answer.status.success())?;
        let text = String::from_utf8(answer.stdout).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let text = ask(&["show", "--no-patch", "--no-show-signature", "--abbrev=10", "--format=%h, %cs", "HEAD"])?;
    let files = ["HEAD", "logs/HEAD"].into_iter().filter_map(|file| ask(&["rev-parse", "--git-path", file]));
    // Cargo would run the script every time for a file that does not exist.
    let changes_with = files.map(|file| root.join(file)).filter(|file| file.exists()).collect();
    Some(Commit { text, changes_with })
}
