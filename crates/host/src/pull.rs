//! Pulls a snapshot into a file: in parts, so that an interrupted pull can resume; by number and hash, so that two snapshots never mix.
//!
//! ```text
//!  x.img.part        the bytes that have arrived
//!  x.img.part.json   the snapshot (number, length, hash), and how many bytes have arrived
//!  x.img             once all bytes have arrived and the hash is right
//!  x.img.stable      the stable memory of a canister, pulled in the same way, if there is any
//! ```

use crate::client::{HostClient, HostClientError};
use crate::image::hash_zeros;
use crate::protocol::{Description, WhichMemory};
use crate::transport::Transport;
use highwater_image::{Sidecar, hexadecimal};
use highwater_model::rfc3339;
use highwater_store::{create_new_file, rename_to_free_name, write_in_place_of};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How many bytes may have to be fetched again after an interruption.
const NOTED_EVERY: u64 = 16 << 20;
/// Bytes that arrived before are read in pieces of this size.
const PIECE: usize = 1 << 20;

/// Why a snapshot could not be pulled.
#[derive(Debug)]
pub enum PullError {
    /// The host could not be reached, or refused.
    Client(HostClientError),
    /// The snapshot was replaced meanwhile.
    Gone(String),
    /// The bytes that arrived are not those that were sent.
    Damaged(String),
    /// A file cannot be written.
    File(PathBuf, io::Error),
    /// Another file got the name meanwhile; the image has another name.
    Taken(PathBuf, PathBuf),
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Gone(why) => write!(f, "{why}; nothing of it was kept, pull again"),
            Self::Damaged(why) => write!(f, "{why}; nothing of it was kept, pull again"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Taken(path, got) => write!(
                f,
                "{}: was made by another program meanwhile; {} was written instead",
                path.display(),
                got.display()
            ),
        }
    }
}

impl std::error::Error for PullError {}

impl From<HostClientError> for PullError {
    fn from(error: HostClientError) -> Self {
        Self::Client(error)
    }
}

/// The result of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The bytes that had arrived before.
    pub resumed_at: u64,
    /// The bytes received by this pull.
    pub received: u64,
}

/// The name of a file for a snapshot: module and time.
pub fn default_name(description: &Description) -> String {
    let name = description.sidecar.module_name.as_deref().unwrap_or_default();
    let module: String = name
        .strip_suffix(".wasm")
        .unwrap_or(name)
        .chars()
        .map(|character| if character.is_alphanumeric() || "-_.".contains(character) { character } else { '_' })
        .collect();
    format!("{module}_{}.img", utc(description.info.time_unix_ns))
}

/// `2026-11-15T12-30-05Z`, which sorts by time and is a valid file name everywhere.
pub fn utc(unix_ns: u64) -> String {
    const TO_SECONDS: usize = "2026-11-15T12:30:05".len();
    format!("{}Z", rfc3339(unix_ns)[..TO_SECONDS].replace(':', "-"))
}

/// Pulls a snapshot into a file, and replaces an existing file only if `replace` is set. `progress` gets the bytes present and the total.
pub fn pull<T: Transport>(
    client: &mut HostClient<T>,
    description: &Description,
    target: &Path,
    replace: bool,
    mut progress: impl FnMut(u64, u64),
) -> Result<Pulled, PullError> {
    let id = description.info.id;
    let main = MemoryPart { id, memory: WhichMemory::Main, bytes: description.info.bytes, sha256: &description.sha256 };
    let stable = description.stable.as_ref().filter(|stable| stable.bytes > 0).map(|stable| MemoryPart {
        id,
        memory: WhichMemory::Stable,
        bytes: stable.bytes,
        sha256: &stable.sha256,
    });
    let total = main.bytes + stable.as_ref().map_or(0, |stable| stable.bytes);
    let mut pulled = Pulled { resumed_at: 0, received: 0 };
    let stable_path = Sidecar::stable_path_of(target);
    let stable = stable
        .map(|stable| stable.receive(client, &stable_path, &mut pulled, |done| progress(done, total)))
        .transpose()?;
    let before = total - main.bytes;
    let main = main.receive(client, target, &mut pulled, |done| progress(before + done, total))?;
    finish(main, stable, target, &description.sidecar, replace)?;
    Ok(pulled)
}

/// A memory of a snapshot.
struct MemoryPart<'a> {
    id: u64,
    memory: WhichMemory,
    bytes: u64,
    sha256: &'a str,
}

impl MemoryPart<'_> {
    /// Receives what has not arrived yet, and checks the hash of all of it.
    fn receive<T: Transport>(
        &self,
        client: &mut HostClient<T>,
        target: &Path,
        pulled: &mut Pulled,
        mut progress: impl FnMut(u64),
    ) -> Result<Partial, PullError> {
        let mut partial = Partial::open(self, target)?;
        pulled.resumed_at += partial.received;
        let mut hasher = partial.hash_received()?;
        let mut noted_at = partial.received;
        while partial.received < self.bytes {
            let at = partial.received;
            let chunk = match client.chunk(self.id, self.memory, at) {
                Ok(chunk) => chunk,
                Err(HostClientError::Failed(failed)) => {
                    partial.remove();
                    return Err(PullError::Gone(failed.line));
                }
                Err(error) => {
                    partial.note()?;
                    return Err(error.into());
                }
            };
            let length = chunk.bytes.len() as u64;
            let end = at
                .checked_add(chunk.zeros)
                .and_then(|begin| begin.checked_add(length))
                .filter(|&end| end > at && end <= self.bytes);
            let Some(end) = end else {
                partial.remove();
                return Err(PullError::Damaged("the host sent a part that does not fit".into()));
            };
            partial.write(at + chunk.zeros, &chunk.bytes)?;
            hash_zeros(&mut hasher, chunk.zeros);
            hasher.update(&chunk.bytes);
            pulled.received += length;
            partial.received = end;
            if end - noted_at >= NOTED_EVERY {
                partial.note()?;
                noted_at = end;
            }
            progress(end);
        }
        if hexadecimal(&hasher.finalize()) != self.sha256 {
            partial.remove();
            return Err(PullError::Damaged("what arrived is not what was sent: the hashes differ".into()));
        }
        partial.note()?;
        Ok(partial)
    }
}

/// Gives the files their names, and writes the sidecar. If the name was taken meanwhile and may not be replaced, the image gets another one.
fn finish(
    main: Partial,
    stable: Option<Partial>,
    target: &Path,
    sidecar: &Sidecar,
    replace: bool,
) -> Result<(), PullError> {
    let cannot = |error| PullError::File(target.to_owned(), error);
    let got = if replace {
        std::fs::rename(&main.path, target).map_err(cannot)?;
        target.to_owned()
    } else {
        rename_to_free_name(&main.path, target).map_err(cannot)?
    };
    let stable_path = Sidecar::stable_path_of(&got);
    match &stable {
        Some(stable) => {
            std::fs::rename(&stable.path, &stable_path).map_err(|error| PullError::File(stable_path, error))?;
        }
        // One of the image that was replaced.
        None => drop(std::fs::remove_file(&stable_path)),
    }
    let beside = Sidecar::path_of(&got);
    write_in_place_of(&beside, sidecar.to_text().as_bytes()).map_err(|error| PullError::File(beside, error))?;
    for partial in [Some(main), stable].into_iter().flatten() {
        let _ = std::fs::remove_file(&partial.about_path);
    }
    if got == target { Ok(()) } else { Err(PullError::Taken(target.to_owned(), got)) }
}

/// Opens the file for arriving bytes: a new one, or our own from an earlier pull. A file that another user placed there is never written to.
fn open_part(path: &Path) -> io::Result<File> {
    match create_new_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(no_follow).open(path)?;
    let there = file.metadata()?;
    if !there.is_file() || there.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("is not a file of this user"));
    }
    file.set_permissions(Permissions::from_mode(there.mode() & 0o600))?;
    Ok(file)
}

/// The part of a snapshot that has arrived.
struct Partial {
    file: File,
    path: PathBuf,
    about_path: PathBuf,
    about: Value,
    received: u64,
}

impl Partial {
    /// Resumes an earlier pull of the same snapshot, or starts anew.
    fn open(part: &MemoryPart<'_>, target: &Path) -> Result<Self, PullError> {
        let path = target.with_added_extension("part");
        let about_path = target.with_added_extension("part.json");
        let about = json!({
            "version": 1,
            "snapshot": part.id,
            "bytes": part.bytes,
            "sha256": part.sha256,
        });
        let cannot = |error| PullError::File(path.clone(), error);
        let file = open_part(&path).map_err(cannot)?;
        let there = file.metadata().map_err(cannot)?.len();
        let noted = std::fs::read(&about_path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let received = noted.and_then(|mut noted| {
            let received = noted.as_object_mut()?.remove("received")?.as_u64()?;
            (noted == about && received <= there && received <= part.bytes).then_some(received)
        });
        let received = received.unwrap_or(0);
        // Bytes after this offset may be of another snapshot, or half written.
        file.set_len(received).map_err(cannot)?;
        let partial = Self { file, path, about_path, about, received };
        partial.note()?;
        Ok(partial)
    }

    fn error(&self) -> impl FnOnce(io::Error) -> PullError {
        let path = self.path.clone();
        move |error| PullError::File(path, error)
    }

    /// Records how much has arrived.
    fn note(&self) -> Result<(), PullError> {
        self.file.set_len(self.received).map_err(self.error())?;
        let mut about = self.about.clone();
        about["received"] = self.received.into();
        write_in_place_of(&self.about_path, format!("{about}\n").as_bytes())
            .map_err(|error| PullError::File(self.about_path.clone(), error))
    }

    fn hash_received(&self) -> Result<Sha256, PullError> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; PIECE];
        let mut at = 0;
        while at < self.received {
            let part = &mut buffer[..(self.received - at).min(PIECE as u64) as usize];
            self.file.read_exact_at(part, at).map_err(self.error())?;
            hasher.update(&part);
            at += part.len() as u64;
        }
        Ok(hasher)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), PullError> {
        self.file.write_all_at(bytes, offset).map_err(self.error())
    }

    /// Removes the files of a pull that can never be completed.
    fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.about_path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0), "1970-01-01T00-00-00Z");
        assert_eq!(utc(951_782_399_000_000_000), "2000-02-28T23-59-59Z");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29T00-00-00Z");
        assert_eq!(utc(1_794_745_805_000_000_000), "2026-11-15T12-30-05Z");
    }
}
