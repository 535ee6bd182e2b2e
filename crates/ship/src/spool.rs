//! Slots that wait to be sent, on disk.
//!
//! ```text
//!  SPOOL/lock           held while a shipper runs
//!  SPOOL/boot           see BootClock
//!  SPOOL/last           the slots that were taken: the last one, then runs of them
//!  SPOOL/target         the target that parcels have reached
//!  SPOOL/waiting/SLOT   one batch each
//!  SPOOL/parcels/ID/SLOT  batches that are sent together, under this id
//! ```
//!
//! A slot is in `waiting` from the rename that ends its writing until the rename that makes it part of a parcel. A parcel is sent when all its slots are in its folder; what a
//! killed shipper left of one is a parcel of fewer slots.

use crate::spool_file::{SpoolFileError, decode_batch, encode_batch, sync_folder, write_durably};
use crate::taken_slots::TakenSlots;
use highwater_lake::rows::Batch;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why the spool cannot be used. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another shipper uses it.
    #[error("{0}: another 'highwater ship' uses this spool; name another one with --spool")]
    InUse(PathBuf),
    /// A slot is larger than the whole spool may be.
    #[error("it has {bytes} bytes, and the spool may have {most}; allow more with --spool-bytes")]
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// Those of the spool.
        most: u64,
    },
    /// A system call failed.
    #[error("{path}: {error}")]
    System {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// The spool. Slots are added by one thread and sent by another.
#[derive(Debug)]
pub struct ShipSpool {
    root: PathBuf,
    most_bytes: u64,
    state: Mutex<SpoolState>,
    _lock: File,
}

#[derive(Debug, Default)]
struct SpoolState {
    taken: TakenSlots,
    /// By slot: bytes of its file.
    waiting: BTreeMap<i64, u64>,
    /// By first slot and id: slots with the bytes of their files.
    parcels: BTreeMap<(i64, String), BTreeMap<i64, u64>>,
    /// The parcel that is being sent.
    in_flight: Option<(i64, String)>,
    dropped: u64,
    losses: u64,
}

impl SpoolState {
    fn bytes(&self) -> u64 {
        self.waiting.values().chain(self.parcels.values().flat_map(BTreeMap::values)).sum()
    }

    fn slots(&self) -> usize {
        self.waiting.len() + self.parcels.values().map(BTreeMap::len).sum::<usize>()
    }
}

/// The spool of a target if the user names none: a folder of its own in the user's folder of states. `None` if there is no such folder.
pub fn default_spool(target: &str) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")))?;
    let whole = match std::path::absolute(target) {
        Ok(path) if !target.contains("://") => path.display().to_string(),
        _ => target.to_owned(),
    };
    let last: String = whole.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default().chars().take(40).collect();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    let hash: String =
        Sha256::digest(whole.trim_end_matches('/'))[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    Some(state.join("highwater/ship").join(format!("{}-{hash}", last.chars().map(plain).collect::<String>())))
}

/// A parcel of the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpooledParcel {
    /// Its id.
    pub id: String,
    /// Its slots, in order.
    pub slots: Vec<i64>,
}

impl ShipSpool {
    /// Opens a spool, and makes it if it is not there. Holds its lock until it is dropped. At most `most_bytes` are kept.
    pub fn open(root: &Path, most_bytes: u64) -> Result<Self, SpoolError> {
        for folder in [root, &root.join("waiting"), &root.join("parcels")] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| system(folder, error))?;
        }
        let path = root.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| system(&path, error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(SpoolError::InUse(root.to_owned())),
            Err(error) => return Err(system(&path, error.into())),
        }
        let mut state = SpoolState { waiting: slots_in(&root.join("waiting"))?, ..SpoolState::default() };
        let parcels = root.join("parcels");
        for entry in fs::read_dir(&parcels).map_err(|error| system(&parcels, error))?.flatten() {
            let Ok(id) = entry.file_name().into_string() else { continue };
            let slots = slots_in(&entry.path())?;
            match slots.first_key_value() {
                Some((&first, _)) => _ = state.parcels.insert((first, id), slots),
                // A shipper was killed when it had made the folder, or when it had deleted all slots.
                None => _ = fs::remove_dir(entry.path()),
            }
        }
        let stored = fs::read_to_string(root.join("last")).unwrap_or_default();
        state.taken = TakenSlots::parse(&stored);
        // A shipper that was killed has not stored its last one.
        let spooled = state.waiting.keys().chain(state.parcels.values().flat_map(BTreeMap::keys));
        let mut is_changed = false;
        for slot in spooled.copied().collect::<BTreeSet<i64>>() {
            if state.taken.first_free(slot, 1) == slot {
                state.taken.note(slot);
                is_changed = true;
            }
        }
        if is_changed {
            // Now: once it is sent, a shipper that is killed again would take it again.
            let last = root.join("last");
            write_durably(&last, state.taken.to_string().as_bytes()).map_err(|error| system(&last, error))?;
        }
        Ok(Self { root: root.to_owned(), most_bytes, state: Mutex::new(state), _lock: lock })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The slots that were added, also by an earlier shipper.
    pub fn taken(&self) -> TakenSlots {
        self.state().taken.clone()
    }

    /// How many slots there are, and how many were dropped because there were too many bytes.
    pub fn counts(&self) -> (usize, u64) {
        let state = self.state();
        (state.slots(), state.dropped)
    }

    /// Counts losses of rows that were added: slots that were dropped, damaged, or taken by no target. Names that were sent with them must be sent again.
    pub fn losses(&self) -> u64 {
        self.state().losses
    }

    /// Notes that rows were lost.
    pub fn note_loss(&self) {
        self.state().losses += 1;
    }

    /// Adds a slot, which is durable when this returns. Returns how many old slots were dropped for it.
    pub fn add(&self, slot: i64, batch: &Batch) -> Result<u64, SpoolError> {
        let file = self.root.join("waiting").join(file_name(slot));
        let bytes = encode_batch(batch).map_err(|error| system(&file, error))?;
        if bytes.len() as u64 > self.most_bytes {
            return Err(SpoolError::TooLarge { bytes: bytes.len() as u64, most: self.most_bytes });
        }
        // Old slots go once the new one is there: on a full disk it is not, and they are worth keeping.
        write_durably(&file, &bytes).map_err(|error| system(&file, error))?;
        let dropped = self.drop_oldest(bytes.len() as u64);
        let mut state = self.state();
        state.waiting.insert(slot, bytes.len() as u64);
        state.taken.note(slot);
        let taken = state.taken.to_string();
        drop(state);
        let last = self.root.join("last");
        write_durably(&last, taken.as_bytes()).map_err(|error| system(&last, error))?;
        Ok(dropped)
    }

    /// Notes a slot that has no rows.
    pub fn pass(&self, slot: i64) {
        self.state().taken.note(slot);
    }

    /// Whether parcels have reached a target before, also those of an earlier shipper.
    pub fn is_target_known(&self, name: &str) -> bool {
        fs::read_to_string(self.root.join("target")).is_ok_and(|known| known.trim_end_matches('\n') == name)
    }

    /// Notes that a parcel has reached a target.
    pub fn note_target(&self, name: &str) -> Result<(), SpoolError> {
        let file = self.root.join("target");
        write_durably(&file, format!("{name}\n").as_bytes()).map_err(|error| system(&file, error))
    }

    /// The next parcel to send: one that exists, or a new one of the oldest slots. `count` decides how many of the waiting slots, each with its bytes, make a parcel; 0 for none
    /// yet.
    pub fn next_parcel(&self, count: impl Fn(&[(i64, u64)]) -> usize) -> Result<Option<SpooledParcel>, SpoolError> {
        let mut state = self.state();
        while state.parcels.is_empty() {
            let waiting: Vec<(i64, u64)> = state.waiting.iter().map(|(slot, bytes)| (*slot, *bytes)).collect();
            let chosen = &waiting[..count(&waiting).min(waiting.len())];
            let Some(&(first, _)) = chosen.first() else { return Ok(None) };
            let id = random_id().map_err(|error| system(Path::new("/dev/urandom"), error))?;
            let folder = self.root.join("parcels").join(&id);
            DirBuilder::new().mode(0o700).create(&folder).map_err(|error| system(&folder, error))?;
            for &(slot, bytes) in chosen {
                let (from, to) = (self.root.join("waiting").join(file_name(slot)), folder.join(file_name(slot)));
                match fs::rename(&from, &to) {
                    // Deleted by hand: it would hold up all others.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        state.waiting.remove(&slot);
                        state.losses += 1;
                        continue;
                    }
                    renamed => renamed.map_err(|error| system(&from, error))?,
                }
                state.waiting.remove(&slot);
                state.parcels.entry((first, id.clone())).or_default().insert(slot, bytes);
            }
            for changed in [folder.as_path(), &self.root.join("parcels"), &self.root.join("waiting")] {
                sync_folder(changed).map_err(|error| system(changed, error))?;
            }
            if state.parcels.is_empty() {
                fs::remove_dir(&folder).map_err(|error| system(&folder, error))?;
            }
        }
        let Some((key, slots)) = state.parcels.first_key_value() else { return Ok(None) };
        let parcel = SpooledParcel { id: key.1.clone(), slots: slots.keys().copied().collect() };
        state.in_flight = Some(key.clone());
        Ok(Some(parcel))
    }

    /// The rows of a parcel, and a line for each file that cannot be used. Those are deleted.
    pub fn read(&self, parcel: &SpooledParcel) -> (Batch, Vec<String>) {
        let (mut whole, mut lines) = (Batch::default(), Vec::new());
        for slot in &parcel.slots {
            let file = self.root.join("parcels").join(&parcel.id).join(file_name(*slot));
            match fs::read(&file).map_err(SpoolFileError::Io).and_then(|bytes| decode_batch(&bytes)) {
                Ok(batch) => {
                    whole.processes.extend(batch.processes);
                    whole.sites.extend(batch.sites);
                    whole.stacks.extend(batch.stacks);
                    whole.frames.extend(batch.frames);
                }
                Err(error) => lines.push(format!("{}: {error}; the slot is skipped", file.display())),
            }
        }
        self.state().losses += lines.len() as u64;
        (whole, lines)
    }

    /// Deletes a parcel that was sent, or that the target does not take.
    pub fn remove(&self, parcel: &SpooledParcel) -> Result<(), SpoolError> {
        let first = parcel.slots.first().copied().unwrap_or_default();
        let mut state = self.state();
        state.parcels.remove(&(first, parcel.id.clone()));
        state.in_flight = None;
        drop(state);
        let folder = self.root.join("parcels").join(&parcel.id);
        // Not file by file: a shipper that is killed meanwhile would send a part of the rows again, under the same id. The store has them all.
        let gone = self.root.join("parcels").join(format!("{}.sent", parcel.id));
        fs::rename(&folder, &gone).and_then(|()| fs::remove_dir_all(&gone)).map_err(|error| system(&folder, error))
    }

    /// Notes that the parcel in flight was not sent.
    pub fn put_back(&self) {
        self.state().in_flight = None;
    }

    /// Makes room by deleting the oldest slots, except those that are being sent. A parcel goes as a whole: the target may have a part of it. Returns how many slots were
    /// deleted.
    fn drop_oldest(&self, more: u64) -> u64 {
        let mut state = self.state();
        let before = state.dropped;
        while state.bytes().saturating_add(more) > self.most_bytes {
            let is_idle = |key: &&(i64, String)| state.in_flight.as_ref() != Some(*key);
            let parcel = state.parcels.keys().find(is_idle).cloned();
            match (parcel, state.waiting.first_key_value().map(|(slot, _)| *slot)) {
                (Some(key), waiting) if waiting.is_none_or(|slot| key.0 < slot) => {
                    let slots = state.parcels.remove(&key).map_or(0, |slots| slots.len());
                    state.dropped += slots as u64;
                    let _ = fs::remove_dir_all(self.root.join("parcels").join(&key.1));
                }
                (_, Some(slot)) => {
                    state.waiting.remove(&slot);
                    state.dropped += 1;
                    let _ = fs::remove_file(self.root.join("waiting").join(file_name(slot)));
                }
                _ => break,
            }
        }
        let dropped = state.dropped - before;
        state.losses += dropped;
        dropped
    }

    fn state(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_name(slot: i64) -> String {
    format!("{slot}.slot")
}

/// The slots of a folder with the bytes of their files. Files that are not finished are deleted.
fn slots_in(folder: &Path) -> Result<BTreeMap<i64, u64>, SpoolError> {
    let mut slots = BTreeMap::new();
    let is_sent = folder.extension().is_some_and(|extension| extension == "sent");
    for entry in fs::read_dir(folder).map_err(|error| system(folder, error))?.flatten() {
        let name = entry.file_name();
        let slot = name.to_str().and_then(|name| name.strip_suffix(".slot")?.parse().ok());
        match (slot, entry.metadata()) {
            (Some(slot), Ok(about)) if about.is_file() && !is_sent => _ = slots.insert(slot, about.len()),
            _ => _ = fs::remove_file(entry.path()),
        }
    }
    Ok(slots)
}

fn random_id() -> io::Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

fn system(path: &Path, error: io::Error) -> SpoolError {
    SpoolError::System { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_lake::rows::{LakeProcess, ProcessRow};
    use std::sync::Arc;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("highwater-spool-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn batch(slot: i64) -> Batch {
        let row = ProcessRow {
            slot,
            process: Arc::new(LakeProcess::default()),
            sample_period: 0,
            live_bytes: slot,
            live_blocks: 1,
            rss_bytes: None,
            limit_bytes: Some(7),
        };
        Batch { processes: vec![row], ..Batch::default() }
    }

    fn slots_of(spool: &ShipSpool, parcel: &SpooledParcel) -> Vec<i64> {
        spool.read(parcel).0.processes.iter().map(|row| row.slot).collect()
    }

    #[test]
    fn a_parcel_keeps_its_id_until_it_was_sent() {
        let folder = Folder::new("id");
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        for slot in [60, 120, 180] {
            assert_eq!(spool.add(slot, &batch(slot)).unwrap(), 0);
        }
        assert_eq!(spool.next_parcel(|_| 0).unwrap(), None);
        let first = spool.next_parcel(|waiting| waiting.len() - 1).unwrap().unwrap();
        assert_eq!((slots_of(&spool, &first), first.slots.as_slice()), (vec![60, 120], &[60, 120][..]));
        // Killed, and started again.
        drop(spool);
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        assert_eq!(spool.taken().last(), Some(180));
        assert_eq!(spool.next_parcel(|_| 1).unwrap().as_ref(), Some(&first));
        spool.remove(&first).unwrap();
        let second = spool.next_parcel(|waiting| waiting.len()).unwrap().unwrap();
        assert_eq!(second.slots, [180]);
        spool.remove(&second).unwrap();
        drop(spool);
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        assert_eq!(
            (spool.taken().last(), spool.counts(), spool.next_parcel(|_| 1).unwrap()),
            (Some(180), (0, 0), None)
        );
    }

    #[test]
    fn one_shipper_at_a_time() {
        let folder = Folder::new("lock");
        let _first = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        let error = ShipSpool::open(&folder.0, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("another 'highwater ship' uses this spool"), "{error}");
    }

    #[test]
    fn what_is_half_written_is_skipped_and_said() {
        let folder = Folder::new("half");
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        spool.add(60, &batch(60)).unwrap();
        spool.add(120, &batch(120)).unwrap();
        drop(spool);
        let file = folder.0.join("waiting/60.slot");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        fs::write(folder.0.join("waiting/180.unfinished"), b"x").unwrap();
        fs::create_dir(folder.0.join("parcels/empty")).unwrap();
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        assert!(!folder.0.join("waiting/180.unfinished").exists() && !folder.0.join("parcels/empty").exists());
        let parcel = spool.next_parcel(|waiting| waiting.len()).unwrap().unwrap();
        let (rows, lines) = spool.read(&parcel);
        assert_eq!(rows.processes.len(), 1);
        assert!(lines.len() == 1 && lines[0].contains("60.slot: is incomplete or damaged"), "{lines:?}");
    }

    #[test]
    fn the_oldest_slots_go_when_there_are_too_many_bytes() {
        let folder = Folder::new("bound");
        let one = encode_batch(&batch(60)).unwrap().len() as u64;
        let spool = ShipSpool::open(&folder.0, one * 4 + one / 2).unwrap();
        for slot in (60..=240).step_by(60) {
            assert_eq!(spool.add(slot, &batch(slot)).unwrap(), 0, "{slot}");
        }
        let flying = spool.next_parcel(|_| 1).unwrap().unwrap();
        assert_eq!(spool.add(300, &batch(300)).unwrap(), 1);
        // The one in flight stays; the oldest of the others went.
        assert_eq!(slots_of(&spool, &flying), [60]);
        spool.put_back();
        assert_eq!(spool.add(360, &batch(360)).unwrap(), 1);
        let rest = spool.next_parcel(|waiting| waiting.len()).unwrap().unwrap();
        assert_eq!((rest.slots.as_slice(), spool.counts()), (&[180, 240, 300, 360][..], (4, 2)));
    }

    #[test]
    fn a_slot_that_cannot_be_kept_drops_no_other() {
        let folder = Folder::new("kept");
        let one = encode_batch(&batch(60)).unwrap().len() as u64;
        let spool = ShipSpool::open(&folder.0, one * 2 + one / 2).unwrap();
        spool.add(60, &batch(60)).unwrap();
        spool.add(120, &batch(120)).unwrap();
        // As on a full disk.
        fs::create_dir(folder.0.join("waiting/180.slot")).unwrap();
        assert!(spool.add(180, &batch(180)).is_err());
        assert_eq!((spool.counts(), spool.losses()), ((2, 0), 0));
        // Labels that cannot be compressed to less than the whole spool.
        let mut dice = 1u64;
        let text: String = (0..16 * one)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'!' + ((dice >> 33) % 90) as u8)
            })
            .collect();
        let labels = highwater_lake::rows::Labels { version: text, ..Default::default() };
        let mut large = batch(240);
        large.processes[0].process = Arc::new(LakeProcess { labels, ..LakeProcess::default() });
        let line = spool.add(240, &large).unwrap_err().to_string();
        assert!(line.contains("the spool may have") && line.contains("--spool-bytes"), "{line}");
        assert_eq!((spool.counts(), spool.losses()), ((2, 0), 0));
        let parcel = spool.next_parcel(|waiting| waiting.len()).unwrap().unwrap();
        assert_eq!(slots_of(&spool, &parcel), [60, 120]);
    }

    #[test]
    fn a_slot_that_was_deleted_holds_up_no_other() {
        let folder = Folder::new("vanished");
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        (60..=180).step_by(60).for_each(|slot| _ = spool.add(slot, &batch(slot)).unwrap());
        fs::remove_file(folder.0.join("waiting/60.slot")).unwrap();
        // The first alone makes no parcel: the next one does.
        let parcel = spool.next_parcel(|waiting| waiting.len().min(1)).unwrap().unwrap();
        assert_eq!((parcel.slots.as_slice(), spool.counts().0, spool.losses()), (&[120][..], 2, 1));
        assert_eq!(fs::read_dir(folder.0.join("parcels")).unwrap().count(), 1);
    }

    #[test]
    fn a_slot_that_cannot_be_written_leaves_nothing() {
        let folder = Folder::new("unwritten");
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        fs::create_dir(folder.0.join("waiting/60.slot")).unwrap();
        assert!(spool.add(60, &batch(60)).is_err());
        assert!(!folder.0.join("waiting/60.unfinished").exists());
        assert_eq!((spool.taken().last(), spool.counts().0), (None, 0));
    }

    #[test]
    fn a_target_is_known_once_it_was_reached() {
        let folder = Folder::new("target");
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        assert!(!spool.is_target_known("/lake"));
        spool.note_target("/lake").unwrap();
        drop(spool);
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        assert!(spool.is_target_known("/lake") && !spool.is_target_known("/other"));
    }

    #[test]
    fn a_slot_that_was_spooled_and_sent_between_two_kills_is_not_taken_again() {
        let folder = Folder::new("two-kills");
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        spool.add(60, &batch(60)).unwrap();
        spool.add(120, &batch(120)).unwrap();
        drop(spool);
        // Killed before it had noted the second slot.
        fs::write(folder.0.join("last"), "60\n60 60\n").unwrap();
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        let parcel = spool.next_parcel(|waiting| waiting.len()).unwrap().unwrap();
        spool.remove(&parcel).unwrap();
        drop(spool);
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        assert_eq!((spool.counts().0, spool.taken().first_free(60, 60)), (0, 180));
    }

    #[test]
    fn a_killed_deletion_is_not_sent_again() {
        let folder = Folder::new("sent");
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        spool.add(60, &batch(60)).unwrap();
        let parcel = spool.next_parcel(|_| 1).unwrap().unwrap();
        drop(spool);
        let parcels = folder.0.join("parcels");
        fs::rename(parcels.join(&parcel.id), parcels.join(format!("{}.sent", parcel.id))).unwrap();
        let spool = ShipSpool::open(&folder.0, 1 << 20).unwrap();
        assert_eq!((spool.next_parcel(|_| 1).unwrap(), spool.taken().last()), (None, Some(60)));
        assert_eq!(fs::read_dir(&parcels).unwrap().count(), 0);
    }
}
