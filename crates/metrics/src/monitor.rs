//! What is known of all processes, and when it was read.

use crate::labels::ProcessLabels;
use crate::negotiation::TextFormat;
use crate::page::MetricsPage;
use crate::series::{ProcessSeries, write};
use crate::sites::{SeriesKey, SiteBoard, key_of};
use crate::source::{MetricsSource, SourceError};
use highwater_collector::{ProcessGauges, Survivors};
use highwater_model::MemoryLimit;
use highwater_resident::MemoryParts;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most processes on a page: those that have lived longest, so that no series comes and goes.
const MOST_PROCESSES: usize = 1000;

/// Settings of the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct MetricsOptions {
    /// Blocks of at least this age are survivors.
    pub survivor_age: Duration,
    /// The shortest time between two counts of survivors, and of sites.
    pub scan_every: Duration,
    /// The number of sites of each process that have a series; 0 for none.
    pub sites: usize,
    /// The memory limit of processes whose control group has none.
    pub limit: Option<u64>,
}

/// The figures of all processes, and caches of what is expensive to read.
pub struct Monitor {
    source: Box<dyn MetricsSource>,
    options: MetricsOptions,
    known: Mutex<KnownProcesses>,
    board: Mutex<SiteBoard>,
    /// Set by a scrape: sites are read only if a client wants them.
    wants_sites: Mutex<bool>,
    scraped: Condvar,
}

/// What outlasts a scrape.
#[derive(Default)]
struct KnownProcesses {
    labels: HashMap<SeriesKey, ProcessLabels>,
    survivors: HashMap<SeriesKey, Survivors>,
    scanned: Option<Instant>,
    scan_time: Duration,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitor {
    /// A monitor that has read nothing yet.
    pub fn new(source: Box<dyn MetricsSource>, options: MetricsOptions) -> Self {
        Self {
            source,
            options,
            known: Mutex::default(),
            board: Mutex::default(),
            wants_sites: Mutex::default(),
            scraped: Condvar::new(),
        }
    }

    /// The figures now, without scanning.
    pub fn gauges(&self) -> Result<Vec<ProcessGauges>, SourceError> {
        self.source.gauges(None)
    }

    /// A heap profile of a process.
    pub fn profile(&self, pid: u32) -> Result<Vec<u8>, SourceError> {
        self.source.profile(pid)
    }

    /// The page of metrics.
    pub fn page(&self, format: TextFormat) -> Result<String, SourceError> {
        if self.options.sites > 0 {
            *locked(&self.wants_sites) = true;
            self.scraped.notify_all();
        }
        let (mut gauges, mut known) = self.read()?;
        let processes = gauges.len();
        gauges.sort_by_key(|one| (one.since_unix_ns, one.pid));
        gauges.truncate(MOST_PROCESSES);
        let scan_age = known.scanned.map(|at| at.elapsed()).unwrap_or_default();
        let board = locked(&self.board);
        let shown: Vec<ProcessSeries> = gauges
            .into_iter()
            .filter_map(|gauges| {
                let key = key_of(&gauges);
                let labels = known.labels.entry(key).or_insert_with(|| ProcessLabels::of(gauges.pid)).clone();
                let survivors = known.survivors.get(&key).map(|survivors| (*survivors, scan_age));
                let memory = self.memory_of(gauges.pid)?;
                Some(ProcessSeries { gauges, labels, memory, survivors, sites: board.of(key) })
            })
            .collect();
        let mut page = MetricsPage::new(format);
        write(&mut page, &shown, processes, known.scan_time);
        Ok(page.finish())
    }

    /// The figures now, and what is known beside them, after a scan if it is time for one. One scrape at a time.
    fn read(&self) -> Result<(Vec<ProcessGauges>, MutexGuard<'_, KnownProcesses>), SourceError> {
        let mut known = locked(&self.known);
        let is_due = known.scanned.is_none_or(|at| at.elapsed() >= self.options.scan_every);
        if !is_due {
            return Ok((self.source.gauges(None)?, known));
        }
        let begin = Instant::now();
        let gauges = self.source.gauges(Some(self.options.survivor_age))?;
        known.scan_time = begin.elapsed();
        known.scanned = Some(Instant::now());
        known.survivors = gauges.iter().filter_map(|one| Some((key_of(one), one.survivors?))).collect();
        let live: std::collections::HashSet<SeriesKey> = gauges.iter().map(key_of).collect();
        known.labels.retain(|key, _| live.contains(key));
        Ok((gauges, known))
    }

    /// The resident memory of a process; `None` if the process has ended since.
    fn memory_of(&self, pid: u32) -> Option<MemoryParts> {
        let mut memory = MemoryParts::of(pid).ok()?;
        if let (None, Some(bytes)) = (memory.limit, self.options.limit) {
            memory.limit = Some(MemoryLimit { bytes, used: memory.resident });
        }
        Some(memory)
    }

    /// Reads sites whenever they were asked for, but not more often than is allowed. Never returns.
    pub fn read_sites(&self) -> ! {
        loop {
            let mut wanted = locked(&self.wants_sites);
            while !*wanted {
                wanted = self.scraped.wait(wanted).unwrap_or_else(PoisonError::into_inner);
            }
            *wanted = false;
            drop(wanted);
            if let Ok(gauges) = self.source.gauges(None) {
                // Names may take seconds: the board is not locked meanwhile.
                let mut board = locked(&self.board).clone();
                board.refresh(&*self.source, &gauges, self.options.sites, Instant::now());
                *locked(&self.board) = board;
            }
            std::thread::sleep(self.options.scan_every);
        }
    }
}
