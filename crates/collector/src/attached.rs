//! The reader of an agent that was injected into a running process: keeps it alive, and provides its memory.
//!
//! The kernel charges a page to the group of the process that touches it first. A program that did not ask for us must not be ended because of our table, so this
//! process allocates what the agent will write next, ahead of it. How much the agent has written is the word of the process, which may be wrong: what is
//! allocated here is limited by the memory that the process really has.

use crate::older::{OlderList, OlderLost, OlderNow};
use crate::process_identity::status_field;
use crate::protocol::ChildOrders;
use crate::table::{LiveTable, Overclaimed};
use highwater_session::{AttachedCounts, AttachedEnd, AttachedMemory, BEFORE_ATTACH, ModuleWatch};
use highwater_shm::attach_v1::SESSION;
use highwater_shm::session_v1::MODULE_BYTES;
use highwater_shm::stacks_v1::TrieNode;
use highwater_shm::table_v1::{CHUNK, SHARDS, TableCapacity, TableRecord, ThreadEntry};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How far ahead of the agent stacks, modules and threads are allocated.
const AHEAD: u64 = 256 << 10;
/// How far ahead of the agent records are allocated, at least: 260,000 blocks, until the next beat. A program that holds much gets as much again, up to
/// [`MOST_RECORDS_AHEAD`]. Blocks that find no record are counted as untracked.
const LEAST_RECORDS_AHEAD: u64 = 8 << 20;
const MOST_RECORDS_AHEAD: u64 = 64 << 20;
/// Of private memory and of records each, this much is allocated for any process, and more for one that has been larger: twice its highest RSS.
const FOR_ANY: u64 = 128 << 20;
/// How often the modules of the process are compared with those it had.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The records of all shards at one height of the table.
const STRIPE_BYTES: u64 = SHARDS as u64 * CHUNK as u64 * size_of::<TableRecord>() as u64;

/// What a collector has of an injected agent beside its table.
pub struct AttachedReader {
    pid: u32,
    memory: AttachedMemory,
    children: Option<ChildOrders>,
    lost_children: AtomicU64,
    duties: Mutex<Duties>,
    older: Mutex<OlderState>,
}

/// What is known of blocks that are older than the attach.
#[derive(Debug, Default)]
enum OlderState {
    #[default]
    Unknown,
    Known(OlderList),
    Lost(OlderLost),
}

/// The same at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OlderBlocksNow {
    /// They were not read.
    Unknown,
    /// These.
    Known(OlderNow),
    /// They were known.
    Lost(OlderLost),
}

/// What was done until now.
struct Duties {
    stacks: Part,
    modules: Part,
    threads: Part,
    records: Part,
    watch: ModuleWatch,
    last_look: Instant,
    limit: u64,
}

/// A part of the object that the agent fills from its beginning.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    bytes: u64,
    provided: u64,
}

impl Part {
    fn new(start: u64, bytes: u64) -> Self {
        Self { start, bytes, provided: 0 }
    }

    fn keep_ahead(&mut self, memory: &AttachedMemory, used: u64, ahead: u64, limit: u64) {
        let wanted = used.saturating_add(ahead).min(self.bytes).min(limit);
        // In steps: each system call is worth it.
        let is_due = wanted > self.provided && (wanted - self.provided >= ahead / 4 || wanted == self.bytes);
        if is_due && memory.allocate(self.start + self.provided, wanted - self.provided) {
            self.provided = wanted;
        }
    }
}

impl AttachedReader {
    /// For the agent whose table this is.
    pub fn new(pid: u32, memory: AttachedMemory, children: Option<ChildOrders>) -> Self {
        let layout = memory.layout();
        let capacity = layout.capacity;
        let table = layout.table_capacity.unwrap_or(TableCapacity { shard_records: 0, threads: 0 });
        // Everything before the log of modules is small.
        memory.allocate(SESSION, capacity.modules());
        let duties = Duties {
            stacks: Part::new(SESSION + capacity.stacks(), u64::from(capacity.nodes) * size_of::<TrieNode>() as u64),
            modules: Part::new(SESSION + capacity.modules(), MODULE_BYTES),
            threads: Part::new(
                layout.table + table.threads(),
                u64::from(table.threads) * size_of::<ThreadEntry>() as u64,
            ),
            records: Part::new(layout.table + table.records(), table.bytes() - table.records()),
            watch: ModuleWatch::of(pid),
            last_look: Instant::now(),
            limit: limit_of(pid),
        };
        memory.limit_private(duties.limit);
        let lost_children = AtomicU64::new(0);
        Self { pid, memory, children, lost_children, duties: Mutex::new(duties), older: Mutex::default() }
    }

    /// How to attach to the children of the process.
    pub fn child_orders(&self) -> Option<ChildOrders> {
        self.children
    }

    /// A child had ended before it could be attached to, or could not be.
    pub fn note_lost_child(&self) {
        self.lost_children.fetch_add(1, Ordering::Relaxed);
    }

    /// What a snapshot says of the attach.
    pub fn in_words(&self, older: &OlderBlocksNow) -> String {
        let counts = self.memory.counts();
        let mut text = beginning_in_words(&counts, older);
        for line in counts.in_words() {
            text.push(' ');
            text.push_str(&line);
        }
        match self.lost_children.load(Ordering::Relaxed) {
            0 => {}
            1 => text.push_str(" 1 child was not attached to, most likely because it ended too soon."),
            lost => {
                text.push_str(&format!(
                    " {lost} children were not attached to, most likely because they ended too soon."
                ));
            }
        }
        text
    }

    /// A client has found the older blocks. What the table has was recorded.
    pub fn set_older(&self, mut list: OlderList, table: &LiveTable) -> Result<(), Overclaimed> {
        table.addresses()?.for_each(|address| list.remove(address));
        *self.its_older() = OlderState::Known(list);
        Ok(())
    }

    fn its_older(&self) -> MutexGuard<'_, OlderState> {
        self.older.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks that are older than the attach; each of them with `with_list`.
    pub fn older(&self, table: &LiveTable, with_list: bool) -> OlderBlocksNow {
        let mut state = self.its_older();
        self.follow(&mut state, table);
        match &*state {
            OlderState::Unknown => OlderBlocksNow::Unknown,
            OlderState::Known(list) => OlderBlocksNow::Known(list.now(with_list)),
            OlderState::Lost(why) => OlderBlocksNow::Lost(*why),
        }
    }

    /// An older block is not live: another one has its address.
    pub fn remove_older(&self, addresses: impl Iterator<Item = u64>) {
        if let OlderState::Known(list) = &mut *self.its_older() {
            addresses.for_each(|address| list.remove(address));
        }
    }

    /// Whether frees of older blocks are followed: then [`keep`](Self::keep) is to be called more often.
    pub fn follows_older(&self) -> bool {
        matches!(*self.its_older(), OlderState::Known(_))
    }

    fn follow(&self, state: &mut OlderState, table: &LiveTable) {
        let OlderState::Known(list) = state else { return };
        let is_exact = table.header().rates.load(Ordering::Relaxed) <= 1 && table.sample_bytes() == 0;
        let followed = if is_exact { list.follow(self.memory.unknown_frees()) } else { Err(OlderLost::Sampling) };
        if let Err(why) = followed {
            *state = OlderState::Lost(why);
        }
    }

    /// To be called many times a second.
    pub fn keep(&self, table: &LiveTable) {
        self.memory.keep_alive();
        self.follow(&mut self.its_older(), table);
        let mut duties = self.duties.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = duties.limit;
        let (session, header) = (table.session().header(), table.header());
        let nodes = u64::from(session.nodes.load(Ordering::Relaxed)) * size_of::<TrieNode>() as u64;
        duties.stacks.keep_ahead(&self.memory, nodes, AHEAD, limit);
        duties.modules.keep_ahead(&self.memory, session.module_bytes.load(Ordering::Relaxed).into(), AHEAD, limit);
        let threads = u64::from(header.threads.load(Ordering::Relaxed)) * size_of::<ThreadEntry>() as u64;
        duties.threads.keep_ahead(&self.memory, threads, AHEAD / 4, limit);
        let used = table.shards().iter().map(|shard| shard.used.load(Ordering::Relaxed)).max().unwrap_or(0);
        let used = u64::from(used.div_ceil(CHUNK)) * STRIPE_BYTES;
        duties.records.keep_ahead(&self.memory, used, used.clamp(LEAST_RECORDS_AHEAD, MOST_RECORDS_AHEAD), limit);
        self.memory.provide_records(duties.records.provided);
        if duties.last_look.elapsed() >= LOOK_EVERY {
            duties.last_look = Instant::now();
            if duties.watch.has_lost_any() {
                self.memory.note_unload();
            }
            duties.limit = limit_of(self.pid);
            self.memory.limit_private(duties.limit);
        }
    }

    /// The process is gone: memory that only the agent used is given back.
    pub fn give_back(&self) {
        self.memory.give_back_private();
    }

    /// What the agent counts beside its table.
    pub fn counts(&self) -> AttachedCounts {
        self.memory.counts()
    }

    /// Why the agent has ended by itself, if it has.
    pub fn ended(&self) -> Option<&'static str> {
        Some(match self.memory.ended()? {
            AttachedEnd::NoReader => {
                "its agent ended because no collector gave a sign for 10 s; 'highwater attach' begins anew"
            }
            AttachedEnd::Asked => "its agent was asked to end; 'highwater attach' begins anew",
            AttachedEnd::Filter => {
                "its agent ended when the program installed a seccomp filter; 'highwater attach' says whether that permits it"
            }
            AttachedEnd::Damaged => "the program has written into the agent's memory; 'highwater attach' begins anew",
        })
    }
}

/// How much of private memory and of records is allocated for a process.
fn limit_of(pid: u32) -> u64 {
    let highest = status_field(pid, "VmHWM:").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    FOR_ANY.saturating_add(highest.unwrap_or(0).saturating_mul(2 << 10))
}

/// What a snapshot of a process that was attached to says of the blocks from before.
fn beginning_in_words(counts: &AttachedCounts, older: &OlderBlocksNow) -> String {
    let AttachedCounts { unknown_frees, unknown_bytes, .. } = counts;
    let since = match older {
        OlderBlocksNow::Known(OlderNow { all, live, .. }) => {
            let (blocks, freed) = (all.blocks, all.blocks - live.blocks);
            let freed = match freed {
                0 => String::new(),
                _ => format!("; {freed} of them, of {} bytes, were freed since", all.bytes - live.bytes),
            };
            format!("{blocks} blocks of glibc's heap from before, of {} bytes, are {BEFORE_ATTACH}{freed}.", all.bytes)
        }
        OlderBlocksNow::Lost(why) => format!("Blocks from before are in no figure any more: {}.", why.in_words()),
        OlderBlocksNow::Unknown => {
            let freed = match unknown_frees {
                0 => String::new(),
                _ => format!(" {unknown_frees} of them, of {unknown_bytes} bytes, were freed since."),
            };
            format!("Blocks from before are in no figure.{freed}")
        }
    };
    format!("Highwater attached to this process while it ran. {since}")
}

impl fmt::Debug for AttachedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedReader").finish_non_exhaustive()
    }
}
