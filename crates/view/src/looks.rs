//! Looks at live processes: figures by site, taken every few seconds while a page watches.
//!
//! A process may be watched for days. Of its looks are kept: the first, the last few with their names, and some between as files. When there are too many of
//! these, every second one is dropped. So their number and their bytes are bounded, and they lie evenly over the time.

use crate::sources::{Loaded, ProcessKey, TakenLook};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of latest looks that are kept with their names: growth is shown since any of them.
pub const RECENT: u64 = 12;
/// The most looks between the first and the latest ones.
const MOST_BETWEEN: usize = 64;
/// The most bytes of their files, for one process.
const MOST_BYTES: usize = 32 << 20;
/// The most processes whose looks are kept. The one that was not looked at for the longest time is dropped.
const MOST_PROCESSES: usize = 4;

/// A look that is kept.
#[derive(Clone)]
pub struct Look {
    /// Counts the looks at the process, from 0.
    pub number: u64,
    /// When it was taken, in nanoseconds since the Unix epoch.
    pub at_unix_ns: u64,
    /// Bytes that were live.
    pub live_bytes: u64,
    /// Blocks that were live.
    pub live_blocks: u64,
    /// True if both are estimates.
    pub is_estimate: bool,
    /// Whether the figures equal the process's own counts at that instant.
    pub is_verified: bool,
    /// Whether the process had ended.
    pub has_exited: bool,
    /// Mean bytes per sample; 0 for every block.
    pub sample_bytes: u64,
    /// The snapshot as a file.
    pub file: Arc<[u8]>,
    /// The same with names: of the first look and the latest ones.
    pub loaded: Option<Arc<Loaded>>,
}

impl Look {
    fn new(number: u64, taken: TakenLook) -> Self {
        let TakenLook { file, snapshot, is_verified, has_exited, sample_bytes } = taken;
        let totals = snapshot.snapshot.accounts.totals().figures;
        let is_estimate = snapshot.snapshot.is_estimate();
        let at_unix_ns = snapshot.snapshot.source.start_unix_ns.saturating_add(snapshot.snapshot.at.0);
        let loaded = Arc::new(Loaded::of_live(snapshot));
        Self {
            number,
            at_unix_ns,
            live_bytes: totals.live_bytes(),
            live_blocks: totals.live_blocks(),
            is_estimate,
            is_verified,
            has_exited,
            sample_bytes,
            file,
            loaded: Some(loaded),
        }
    }
}

/// The looks at one process, oldest first.
struct WatchedProcess {
    process: ProcessKey,
    looks: Vec<Look>,
    next: u64,
    /// Of the looks between, those with a multiple of this number are kept.
    step: u64,
}

impl WatchedProcess {
    fn add(&mut self, taken: TakenLook) {
        self.looks.push(Look::new(self.next, taken));
        self.next += 1;
        self.thin();
        while self.between().count() > MOST_BETWEEN || self.bytes() > MOST_BYTES && self.between().count() > 0 {
            self.step = self.step.saturating_mul(2);
            self.thin();
        }
    }

    /// Drops what is neither the first look, nor one of the latest, nor a multiple of the step.
    fn thin(&mut self) {
        let (recent, step) = (self.next.saturating_sub(RECENT), self.step);
        self.looks.retain(|look| look.number >= recent || look.number % step == 0);
        for look in self.looks.iter_mut().filter(|look| look.number != 0 && look.number < recent) {
            look.loaded = None;
        }
    }

    fn between(&self) -> impl Iterator<Item = &Look> {
        let recent = self.next.saturating_sub(RECENT);
        self.looks.iter().filter(move |look| look.number != 0 && look.number < recent)
    }

    fn bytes(&self) -> usize {
        self.between().map(|look| look.file.len()).sum()
    }
}

/// The looks at all processes that are watched.
#[derive(Default)]
pub struct Looks {
    /// The process that was looked at last comes last.
    watched: Mutex<Vec<WatchedProcess>>,
}

impl Looks {
    fn watched(&self) -> MutexGuard<'_, Vec<WatchedProcess>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a look.
    pub fn add(&self, process: ProcessKey, taken: TakenLook) {
        let mut watched = self.watched();
        let known = watched.iter().position(|known| known.process == process).map(|at| watched.remove(at));
        let mut one = known.unwrap_or(WatchedProcess { process, looks: Vec::new(), next: 0, step: 1 });
        one.add(taken);
        watched.push(one);
        if watched.len() > MOST_PROCESSES {
            watched.remove(0);
        }
    }

    /// The kept looks at a process, oldest first.
    pub fn of(&self, process: ProcessKey) -> Vec<Look> {
        let watched = self.watched();
        watched.iter().find(|known| known.process == process).map_or_else(Vec::new, |known| known.looks.clone())
    }

    /// Drops all looks at a process.
    pub fn forget(&self, process: ProcessKey) {
        self.watched().retain(|known| known.process != process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::LiveSnapshot;
    use highwater_model::{Accounts, Catalog, Nanos, Snapshot, Source};

    const PROCESS: ProcessKey = ProcessKey { pid: 7, since_unix_ns: 1 };

    fn look(file: &Arc<[u8]>) -> TakenLook {
        let snapshot = Snapshot {
            source: Source { snapshot: true, aggregated: true, start_unix_ns: 5, ..Source::default() },
            at: Nanos(3),
            accounts: Accounts::default(),
            catalog: Arc::new(Catalog::default()),
        };
        let snapshot = LiveSnapshot { snapshot, breakdown: None, name: String::new() };
        TakenLook { file: Arc::clone(file), snapshot, is_verified: true, has_exited: false, sample_bytes: 0 }
    }

    #[test]
    fn a_day_of_looks_keeps_the_first_the_last_and_some_between() {
        let looks = Looks::default();
        let file: Arc<[u8]> = vec![0; 1000].into();
        let mut most = 0;
        for number in 0..100_000u64 {
            looks.add(PROCESS, look(&file));
            if number % 997 == 0 || number < 300 {
                let kept = looks.of(PROCESS);
                most = most.max(kept.len());
                assert_eq!((kept[0].number, kept.last().unwrap().number), (0, number));
                let with_names = kept.iter().filter(|look| look.loaded.is_some()).count() as u64;
                assert!(with_names <= RECENT + 1 && with_names >= RECENT.min(number + 1), "{number}: {with_names}");
                assert!(kept.iter().rev().take(RECENT as usize).all(|look| look.loaded.is_some()));
            }
        }
        assert!(most <= MOST_BETWEEN + RECENT as usize + 1, "{most}");
        // Every kept look holds the file, and nothing else does.
        let kept = looks.of(PROCESS);
        assert_eq!(Arc::strong_count(&file), 1 + 2 * kept.len());
        let between: Vec<u64> =
            kept.iter().map(|look| look.number).filter(|number| *number < 100_000 - RECENT).collect();
        let step = between[1] - between[0];
        assert!(between.windows(2).all(|pair| pair[1] - pair[0] == step), "{between:?}");
        assert!(between.len() > MOST_BETWEEN / 2);
    }

    #[test]
    fn large_looks_are_fewer_and_processes_are_few() {
        let looks = Looks::default();
        let file: Arc<[u8]> = vec![0; MOST_BYTES / 8].into();
        (0..500).for_each(|_| looks.add(PROCESS, look(&file)));
        let kept = looks.of(PROCESS);
        assert!(kept.len() <= 8 + RECENT as usize + 1, "{}", kept.len());
        assert_eq!((kept[0].number, kept.last().unwrap().number), (0, 499));
        // A look that alone is too large is still the first, or the last.
        let larger: Arc<[u8]> = vec![0; 2 * MOST_BYTES].into();
        (0..50).for_each(|_| looks.add(PROCESS, look(&larger)));
        assert_eq!(looks.of(PROCESS).len(), RECENT as usize + 1);
        let small: Arc<[u8]> = vec![0; 1].into();
        for pid in 0..10 {
            looks.add(ProcessKey { pid, since_unix_ns: 2 }, look(&small));
        }
        assert_eq!(Arc::strong_count(&small), 1 + MOST_PROCESSES);
        assert!(looks.of(PROCESS).is_empty());
        looks.forget(ProcessKey { pid: 9, since_unix_ns: 2 });
        assert_eq!(Arc::strong_count(&small), MOST_PROCESSES);
    }
}
