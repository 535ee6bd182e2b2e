//! The contents of blocks as files: one for each block, named by its address.

use crate::failure::Failure;
use crate::open::cannot_read;
use crate::print::bytes::{bytes, counted};
use highwater_collector::contents::read_contents_into;
use highwater_model::Snapshot;
use highwater_store::create_new_file;
use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Fails if the directory has files already: they would be mistaken for blocks.
pub fn check(directory: &Path) -> Result<(), Failure> {
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                Err(Failure::in_file(directory, "is not empty; --contents-dir needs an empty or a new directory"))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot_read(directory, &error)),
    }
}

/// Writes the files, for their owner only. Returns a line for the user.
pub fn write(directory: &Path, contents: impl Read, snapshot: &Snapshot) -> Result<String, Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| Failure::writing_file(directory, &error))?;
    // Blocks that a filter leaves out have no file. At one address, the longest contents count: a mapping includes the block at its beginning.
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    for block in snapshot.accounts.blocks() {
        let size = sizes.entry(snapshot.address_of(&block)).or_default();
        *size = (*size).max(block.size);
    }
    let (mut written, mut total) = (HashMap::<u64, u64>::new(), 0);
    let read = read_contents_into(contents, |address, bytes| {
        let Some(&size) = sizes.get(&address) else { return Ok(()) };
        let bytes = &bytes[..bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
        let path = directory.join(format!("{address:#x}"));
        let known = written.get(&address).copied();
        match known {
            Some(known) if known >= bytes.len() as u64 => return Ok(()),
            Some(_) => fs::remove_file(&path)?,
            None => {}
        }
        create_new_file(&path)?.write_all(bytes)?;
        total += bytes.len() as u64 - known.unwrap_or(0);
        written.insert(address, bytes.len() as u64);
        Ok(())
    });
    read.map_err(|error| Failure::writing_file(directory, &error))?;
    let blocks = counted(written.len() as u64, "block");
    Ok(format!("{}: the contents of {blocks}, {}", directory.display(), bytes(total)))
}
