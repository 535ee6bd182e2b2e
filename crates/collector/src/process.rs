//! A registered process: its table and its state.

use crate::attached::{AttachedReader, OlderBlocksNow};
use crate::gauges::{ProcessGauges, survivors};
use crate::older::{BlockCount, OlderList, OlderNow};
use crate::process_identity::{ProcessIdentity, exists};
use crate::protocol::{ChildOrders, ProcessInfo, ProcessState};
use crate::table::{CounterValues, LiveTable, count_of};
use crate::take::{LiveSnapshot, NotTaken, SnapshotRequest, SnapshotSubject, take};
use crate::timeline::{ProcessTimeline, TimelineInfo, TimelineReading};
use highwater_model::Nanos;
use highwater_session::{AttachedMemory, Reason, allocator_of, reason_in_words};
use highwater_shm::live_hello_v1::VERSION;
use highwater_shm::table_v1::{Count, FLAG_CONTENTS, FLAG_USABLE_SIZES};
use std::io::{self, BufRead, BufReader};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long to wait until a program has applied new settings: it reads them when it allocates.
const SETTINGS_PATIENCE: Duration = Duration::from_millis(200);
const NAP: Duration = Duration::from_millis(1);
/// The bit of the control word that says that a snapshot is being taken.
const ACTIVE: u64 = 1 << 16;
/// The kernel counts resident memory in pages.
const PAGE: u64 = 4096;
/// The counts of blocks that samples stand for are in units of 1/`UNITS`.
const UNITS: u64 = 256;

/// A process that registered, or was found.
#[derive(Debug)]
pub struct Process {
    about: ProcessIdentity,
    table: LiveTable,
    version: u32,
    since_unix_ns: u64,
    gone: OnceLock<Gone>,
    /// An allocator linked into the program. Then only the C library's blocks are seen.
    allocator: Option<&'static str>,
    timeline: Mutex<ProcessTimeline>,
    /// For a process that did not start with an agent.
    attached: Option<AttachedReader>,
}

/// When a process was found to be gone.
#[derive(Clone, Copy, Debug)]
struct Gone {
    /// In its own time.
    at: Nanos,
    unix_ns: u64,
}

impl Process {
    /// Takes a process over. A snapshot that another collector had begun is ended.
    pub fn new(about: ProcessIdentity, table: LiveTable, version: u32) -> Self {
        let allocator = if table.has_flag(FLAG_USABLE_SIZES) { allocator_of(about.pid) } else { None };
        Self::with(about, table, version, allocator, None)
    }

    /// Becomes the reader of an agent that was injected into a running process. It has hooks in every allocator.
    pub fn attached(
        about: ProcessIdentity,
        table: LiveTable,
        memory: AttachedMemory,
        children: Option<ChildOrders>,
    ) -> Self {
        let reader = AttachedReader::new(about.pid, memory, children);
        reader.keep(&table);
        Self::with(about, table, VERSION, None, Some(reader))
    }

    fn with(
        about: ProcessIdentity,
        table: LiveTable,
        version: u32,
        allocator: Option<&'static str>,
        attached: Option<AttachedReader>,
    ) -> Self {
        let control = table.control();
        if control.load().active_epoch() != 0 {
            control.word.fetch_and(!ACTIVE, Ordering::SeqCst);
        }
        control.collector.store(std::process::id(), Ordering::Relaxed);
        let since_unix_ns = table.stamps().start_unix_ns();
        let process = Self {
            about,
            table,
            version,
            since_unix_ns,
            gone: OnceLock::new(),
            allocator,
            timeline: Mutex::default(),
            attached,
        };
        process.add_to_timeline(1);
        process
    }

    /// Its identity.
    pub fn about(&self) -> &ProcessIdentity {
        &self.about
    }

    /// Its shared table.
    pub fn table(&self) -> &LiveTable {
        &self.table
    }

    /// Notes that it is gone, or runs another program.
    pub fn note_gone(&self) {
        self.gone.get_or_init(|| {
            if let Some(attached) = &self.attached {
                attached.give_back();
            }
            self.add_last_reading();
            Gone { at: self.table.stamps().now(), unix_ns: unix_ns() }
        });
    }

    /// Whether it was noted to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.get().is_some()
    }

    /// Whether its agent was injected while it ran.
    pub fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// How to attach to its children.
    pub fn child_orders(&self) -> Option<ChildOrders> {
        self.attached.as_ref()?.child_orders()
    }

    /// A child could not be attached to.
    pub fn note_lost_child(&self) {
        self.attached.iter().for_each(AttachedReader::note_lost_child);
    }

    /// Does a reader's duties towards an injected agent: to be called many times a second.
    pub fn keep_alive(&self) {
        if let Some(attached) = &self.attached {
            attached.keep(&self.table);
        }
    }

    /// Takes the list of the blocks that it had before it was attached to. Returns how many of them are live, and their bytes.
    pub fn set_older(&self, list: OlderList) -> Result<BlockCount, String> {
        let pid = self.about.pid;
        let attached = self.attached.as_ref().ok_or_else(|| format!("process {pid} was not attached to"))?;
        attached.set_older(list, &self.table).map_err(|problem| format!("process {pid}: {problem}"))?;
        Ok(self.older().map_or(BlockCount::default(), |older| older.live))
    }

    /// Whether frees of older blocks are followed.
    pub fn follows_older(&self) -> bool {
        self.attached.as_ref().is_some_and(AttachedReader::follows_older)
    }

    /// Blocks from before it was attached to, if they are known.
    fn older(&self) -> Option<OlderNow> {
        match self.attached.as_ref()?.older(&self.table, false) {
            OlderBlocksNow::Known(older) => Some(older),
            OlderBlocksNow::Unknown | OlderBlocksNow::Lost(_) => None,
        }
    }

    /// Allows another collector to take it over.
    pub fn release(&self) {
        let collector = &self.table.control().collector;
        let _ = collector.compare_exchange(std::process::id(), 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it permits reading its blocks' contents.
    pub fn allows_contents(&self) -> bool {
        self.table.has_flag(FLAG_CONTENTS)
    }

    /// Whether the process with this pid still maps this memory: one that has started another program does not.
    pub fn still_shares(&self) -> bool {
        shares(self.about.pid, &self.table)
    }

    /// Takes a snapshot; `after_cut` is called once the cut is made.
    pub fn snapshot(&self, wanted: SnapshotRequest, after_cut: impl FnOnce()) -> Result<LiveSnapshot, NotTaken> {
        if let Some(why) = self.untruth() {
            return Err(NotTaken::Untrue(why));
        }
        let gone = self.gone.get().map(|gone| gone.at);
        let subject =
            SnapshotSubject { table: &self.table, about: &self.about, gone, attached: self.attached.as_ref() };
        take(subject, wanted, after_cut)
    }

    /// Makes the program take samples, or record every block if `sample_bytes` is 0. Returns the previous value, and whether the program has
    /// already applied the new one.
    pub fn set_sample_bytes(&self, sample_bytes: u64) -> (u64, bool) {
        let (control, header) = (self.table.control(), self.table.header());
        let (before, number) = self.table.between_cuts(|| {
            let before = self.table.sample_bytes();
            control.sample_bytes.store(sample_bytes, Ordering::SeqCst);
            control.change_settings();
            (before, control.load().settings())
        });
        let begin = Instant::now();
        loop {
            let applied = header.settings.load(Ordering::Acquire) == number;
            if applied || self.is_gone() || begin.elapsed() > SETTINGS_PATIENCE {
                return (before, applied);
            }
            std::thread::sleep(NAP);
        }
    }

    /// Why the table does not show the process's memory, if so.
    fn untruth(&self) -> Option<String> {
        if let Some(allocator) = self.allocator {
            return Some(format!("{allocator} is linked into it, so almost none of its blocks are seen"));
        }
        if let Some(why) = self.attached.as_ref().and_then(AttachedReader::ended) {
            return Some(why.to_owned());
        }
        let header = self.table.session().header();
        match Reason::from_number(header.ended.load(Ordering::Acquire))? {
            Reason::Filter => Some("it installed a seccomp filter, and is not followed since".to_owned()),
            reason => Some(format!("it is not followed any more: {}", reason_in_words(reason))),
        }
    }

    fn its_timeline(&self) -> MutexGuard<'_, ProcessTimeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds its present figures to its timeline, which is one of `processes` timelines. The counters are not from one instant: no cut is made.
    pub fn add_to_timeline(&self, processes: usize) {
        let reading = self.reading(&self.table.counts(), resident_bytes(self.about.pid));
        let mut timeline = self.its_timeline();
        timeline.share(processes);
        timeline.add(reading);
    }

    /// Adds the figures with which it ended. Nothing of it is resident any more, so the resident set is that of the reading before.
    fn add_last_reading(&self) {
        let rss = self.its_timeline().last().map_or(0, |last| last.rss_bytes.last);
        let reading = self.reading(&self.table.counts(), rss);
        self.its_timeline().add(reading);
    }

    /// Its figures, from its counters.
    fn reading(&self, counts: &CounterValues, rss_bytes: u64) -> TimelineReading {
        let of = |count| count_of(counts, count);
        let live = |came, went| of(came).saturating_sub(of(went));
        let more_blocks = live(Count::MoreAllocations, Count::MoreFrees);
        let more_bytes = live(Count::MoreAllocatedBytes, Count::MoreFreedBytes);
        let sample_bytes = self.table.sample_bytes();
        let OlderNow { all: older, live: older_live, .. } = self.older().unwrap_or_default();
        let recorded_bytes = live(Count::AllocatedBytes, Count::FreedBytes).saturating_add(more_bytes);
        let recorded_blocks = live(Count::Allocations, Count::Frees).saturating_add(more_blocks / UNITS);
        let allocations = of(Count::Allocations).saturating_add(of(Count::MoreAllocations) / UNITS);
        TimelineReading {
            at_unix_ns: unix_ns(),
            since_boot_ns: since_boot_ns(),
            live_bytes: recorded_bytes.saturating_add(older_live.bytes),
            live_blocks: recorded_blocks.saturating_add(older_live.blocks),
            allocations: allocations.saturating_add(older.blocks),
            rss_bytes,
            sample_bytes,
            is_estimate: sample_bytes != 0 || more_blocks != 0 || more_bytes != 0,
        }
    }

    /// Its timeline since a time.
    pub fn timeline(&self, since_unix_ns: u64, most: usize) -> TimelineInfo {
        let (width_ns, bins) = self.its_timeline().since(since_unix_ns, most);
        TimelineInfo { pid: self.about.pid, since_unix_ns: self.since_unix_ns, width_ns, bins }
    }

    /// Its present figures, and with an age how much of its memory is at least that old; `None` if it is gone, runs another program, or cannot be read.
    pub fn gauges(&self, survivor_age: Option<Duration>) -> Option<ProcessGauges> {
        if self.is_gone() || self.untruth().is_some() || !self.still_shares() {
            return None;
        }
        let survivors = survivor_age.and_then(|age| survivors(&self.table, age).ok());
        let counts = self.table.counts();
        let reading = self.reading(&counts, 0);
        let of = |count| count_of(&counts, count);
        Some(ProcessGauges {
            pid: self.about.pid,
            since_unix_ns: self.since_unix_ns,
            name: self.about.name(),
            live_bytes: reading.live_bytes,
            live_blocks: reading.live_blocks,
            allocated_bytes: of(Count::AllocatedBytes)
                .saturating_add(of(Count::MoreAllocatedBytes))
                .saturating_add(self.older().map_or(0, |older| older.all.bytes)),
            allocated_blocks: reading.allocations,
            untracked: of(Count::Untracked),
            sample_bytes: reading.sample_bytes,
            is_estimate: reading.is_estimate,
            survivors,
        })
    }

    /// Its current state.
    pub fn info(&self) -> ProcessInfo {
        let counts = self.table.counts();
        let of = |count| count_of(&counts, count);
        let TimelineReading { live_bytes, live_blocks, sample_bytes, is_estimate, .. } = self.reading(&counts, 0);
        let (gone, untruth) = (self.gone.get(), self.untruth());
        let older = self.attached.as_ref().map(AttachedReader::counts);
        ProcessInfo {
            pid: self.about.pid,
            forked_from: self.about.forked_from,
            name: self.about.name(),
            command: self.about.command.clone(),
            state: match &untruth {
                _ if gone.is_some() => ProcessState::Exited,
                Some(_) => ProcessState::Refused,
                None => ProcessState::Live,
            },
            since_unix_ns: self.since_unix_ns,
            exited_unix_ns: gone.map_or(0, |gone| gone.unix_ns),
            live_bytes,
            live_blocks,
            sample_bytes,
            is_estimate,
            table_bytes: self.table.record_bytes(),
            untracked: of(Count::Untracked),
            unknown_frees: of(Count::UnknownFrees).saturating_add(older.map_or(0, |older| older.unknown_frees)),
            allows_contents: self.allows_contents(),
            version: self.version,
            problem: untruth.unwrap_or_default(),
            is_attached: self.is_attached(),
        }
    }
}

/// The resident set of a process; 0 if it is not known.
fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(PAGE)
}

/// Whether a process maps the memory of a table, as far as its mappings may be read.
pub(crate) fn shares(pid: u32, table: &LiveTable) -> bool {
    has_mapping(pid, &|line: &[u8]| is_mapping_of(line, table))
}

/// The same. An error if its mappings may not be read.
pub(crate) fn shares_readably(pid: u32, table: &LiveTable) -> io::Result<bool> {
    let maps = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(maps.split(|&byte| byte == b'\n').any(|line| is_mapping_of(line, table)))
}

fn is_mapping_of(line: &[u8], table: &LiveTable) -> bool {
    let (_, inode) = table.identity();
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty()).skip(4);
    let is_same = fields.next().is_some_and(|field| field == inode.to_string().as_bytes());
    is_same && contains(line, table.object_name().to_bytes())
}

/// Whether `is_wanted` holds for a line of a process's `/proc/PID/maps`. Also true if that file may not be read but the process exists.
pub(crate) fn has_mapping(pid: u32, is_wanted: &dyn Fn(&[u8]) -> bool) -> bool {
    let file = match std::fs::File::open(format!("/proc/{pid}/maps")) {
        Ok(file) => file,
        Err(error) => return error.kind() == io::ErrorKind::PermissionDenied && exists(pid),
    };
    let (mut lines, mut line) = (BufReader::with_capacity(64 << 10, file), Vec::new());
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => return false,
            Ok(_) if is_wanted(&line) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::PermissionDenied && exists(pid),
        }
    }
}

/// Whether a line contains these bytes.
pub(crate) fn contains(line: &[u8], wanted: &[u8]) -> bool {
    line.windows(wanted.len()).any(|window| window == wanted)
}

/// Nanoseconds since the system started, with the time that it was suspended.
fn since_boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// The time now, in nanoseconds since the Unix epoch.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
