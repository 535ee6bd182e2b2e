//! The reader of an agent that was injected into a running process: keeps it alive, and provides its memory.
//!
//! The kernel charges a page to the group of the process that touches it first. A program that did not ask for us must not be ended because of our table, so this
//! process allocates what the agent will write next, ahead of it. How much the agent has written is the word of the process, which may be wrong: what is
//! allocated here is limited by the memory that the process really has.

use crate::process_identity::status_field;
use crate::table::LiveTable;
use highwater_session::{AttachedCounts, AttachedEnd, AttachedMemory, ModuleWatch};
use highwater_shm::attach_v1::SESSION;
use highwater_shm::session_v1::MODULE_BYTES;
use highwater_shm::stacks_v1::TrieNode;
use highwater_shm::table_v1::{CHUNK, SHARDS, TableCapacity, TableRecord, ThreadEntry};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far ahead of the agent stacks, modules and threads are allocated.
const AHEAD: u64 = 256 << 10;
/// How far ahead of the agent records are allocated, at least. A program that holds much gets as much again, up to [`MOST_RECORDS_AHEAD`].
const LEAST_RECORDS_AHEAD: u64 = 2 << 20;
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
    duties: Mutex<Duties>,
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
        if wanted > self.provided && (wanted - self.provided >= ahead / 4 || wanted == self.bytes) {
            memory.allocate(self.start + self.provided, wanted - self.provided);
            self.provided = wanted;
        }
    }
}

impl AttachedReader {
    /// For the agent whose table this is.
    pub fn new(pid: u32, memory: AttachedMemory) -> Self {
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
        Self { pid, memory, duties: Mutex::new(duties) }
    }

    /// To be called many times a second.
    pub fn keep(&self, table: &LiveTable) {
        self.memory.keep_alive();
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
            AttachedEnd::Damaged => "the program has written into the agent's memory; 'highwater attach' begins anew",
        })
    }
}

/// How much of private memory and of records is allocated for a process.
fn limit_of(pid: u32) -> u64 {
    let highest = status_field(pid, "VmHWM:").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    FOR_ANY.saturating_add(highest.unwrap_or(0).saturating_mul(2 << 10))
}

impl fmt::Debug for AttachedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedReader").finish_non_exhaustive()
    }
}
