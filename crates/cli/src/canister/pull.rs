//! Downloads a snapshot of a canister. The folder has its name only when it is complete.

use super::{Canister, NetworkSnapshot};
use crate::failure::{Failure, reason};
use highwater_host::pull::utc;
use highwater_image::canister::SnapshotFolder;
use std::path::{Path, PathBuf};

impl Canister {
    /// The snapshot with an id, or the newest.
    pub fn snapshot(&self, id: Option<&str>) -> Result<NetworkSnapshot, Failure> {
        let mut snapshots = self.snapshots()?;
        match id {
            Some(id) => snapshots.into_iter().find(|snapshot| snapshot.id.eq_ignore_ascii_case(id)).ok_or_else(|| {
                Failure::fault(format_args!("{} has no snapshot {id}; 'highwater image info' lists them", self.name))
            }),
            None => snapshots.pop().ok_or_else(|| {
                Failure::fault(format_args!("{} has no snapshot yet; 'highwater image create' makes one", self.name))
            }),
        }
    }

    /// The name of a folder for a snapshot: canister and time.
    pub fn folder_name(&self, snapshot: &NetworkSnapshot) -> PathBuf {
        let is_plain = |character: char| character.is_alphanumeric() || "-_.".contains(character);
        let name: String =
            self.name.chars().map(|character| if is_plain(character) { character } else { '_' }).collect();
        let when = snapshot.taken_at_ns.map_or_else(|| snapshot.id.clone(), utc);
        format!("{name}_{when}").into()
    }

    /// Downloads a snapshot into a folder that does not exist yet. What arrives lies in `FOLDER.ID.part` until all of it is there; another call completes it.
    pub fn pull(&self, snapshot: &NetworkSnapshot, target: &Path) -> Result<SnapshotFolder, Failure> {
        if target.symlink_metadata().is_ok() {
            return Err(Failure::in_file(target, "exists; nothing is overwritten: choose another folder"));
        }
        let part = target.with_added_extension(format!("{}.part", snapshot.id));
        let cannot = |path: &Path, error: &std::io::Error| Failure::in_file(path, reason(error));
        match std::fs::create_dir(&part) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(cannot(&part, &error)),
            _ => {}
        }
        if SnapshotFolder::open(&part).is_err() {
            self.download(&snapshot.id, &part)?;
        }
        SnapshotFolder::open(&part).map_err(Failure::fault)?;
        std::fs::rename(&part, target).map_err(|error| cannot(target, &error))?;
        SnapshotFolder::open(target).map_err(Failure::fault)
    }
}
