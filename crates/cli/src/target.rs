//! Writes a file so that it is either complete or absent, and so that no existing file is lost.
//!
//! Files with a program's data are readable by their owner only (mode 0600). Without `--force` nothing is replaced: neither a file that existed when
//! the command began, nor one created meanwhile.

use crate::failure::{Failure, reason};
use clap::Args;
use highwater_store::{behind_links, create_unfinished_file, is_special, open_special, rename_to_free_name};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Whether a file may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct Overwrite {
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

impl Overwrite {
    /// For commands whose purpose is to change the file.
    pub const YES: Self = Self { force: true };

    /// Fails if the file exists and must not be replaced, so that the user learns it before the work and not after it.
    pub fn check(self, path: &Path) -> Result<(), Failure> {
        if self.force || !would_be_replaced(path) { Ok(()) } else { Err(exists(path)) }
    }
}

/// Whether a new file would replace something at this path: a file, or a link, even a dangling one.
fn would_be_replaced(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok() && !is_special(path) && !path.is_dir()
}

/// The failure for a file that must not be replaced.
pub fn exists(path: &Path) -> Failure {
    Failure::fault(format_args!("{} exists; --force replaces it", path.display()))
}

/// Lets `write` fill a temporary file beside `path`, which is renamed only when it is complete. Anything but a regular file (a device, a pipe) is
/// written directly.
pub fn create_file<T>(
    path: &Path,
    overwrite: Overwrite,
    write: impl FnOnce(File) -> Result<T, Failure>,
) -> Result<T, Failure> {
    overwrite.check(path)?;
    let cannot_write = |error: std::io::Error| Failure::writing_file(path, &error);
    if let Some(special) = open_special(path).map_err(cannot_write)? {
        return write(special);
    }
    if path.is_dir() {
        return Err(cannot_write(rustix::io::Errno::ISDIR.into()));
    }
    // A link stays a link: its target is replaced.
    let target = if overwrite.force { behind_links(path).map_err(cannot_write)? } else { path.to_owned() };
    let (unfinished, file) = create_unfinished_file(&target).map_err(cannot_write)?;
    let written = write(file).and_then(|result| {
        if overwrite.force {
            fs::rename(&unfinished, &target).map_err(cannot_write)?;
            return Ok(result);
        }
        let got = rename_to_free_name(&unfinished, &target).map_err(cannot_write)?;
        if got == target {
            return Ok(result);
        }
        Err(Failure::in_file(
            path,
            format_args!("was made by another program meanwhile; {} was written instead", got.display()),
        ))
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Writes a file through [`create_file`].
pub fn write_file(
    path: &Path,
    overwrite: Overwrite,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    create_file(path, overwrite, |file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush().map_err(|error| Failure::writing_file(path, &error))
    })
}

/// The failure for a recording that cannot be created.
pub fn cannot_be_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::in_file(path, format_args!("cannot be written: {}", reason(error)))
}
