//! The resident memory of a process at the instant of a cut: its pages against the blocks of its table.
//!
//! Pages are read by another thread, beginning with the cut, and the cut does not wait for them: to read a table of a million blocks takes milliseconds, and
//! the pages of some gigabytes a hundred times longer. A process may execute another program meanwhile, so the pages count only if it still maps its table
//! afterwards.

use crate::process::shares;
use crate::protocol::CutInfo;
use crate::table::LiveTable;
use crate::take::SnapshotSubject;
use highwater_model::{StackId, TagId, usable_of_size};
use highwater_resident::{LiveBlock, LiveMapping, LiveMemory, PageScan, ScanError, ScanOptions};
use highwater_shm::table_v1::{FLAG_FORKED, FLAG_USABLE_SIZES};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The proportional set size of a process is read unasked up to this RSS: its `mmap` then waits some milliseconds at most.
const SMALL: u64 = 128 << 20;
const PAGE: u64 = 4096;
/// Stands for the stack of blocks that are older than the table.
pub const OLDER_NODE: u32 = u32::MAX;

/// How much of a process's pages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageDetail {
    /// All pages; the proportional set size only if the process is small.
    Rows,
    /// The proportional set size in any case.
    Proportional,
}

impl PageDetail {
    /// Its key in messages.
    pub fn key(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Proportional => "proportional",
        }
    }

    /// The detail with this key. Keys of newer versions mean the rows.
    pub fn from_key(key: &str) -> Self {
        if key == Self::Proportional.key() { Self::Proportional } else { Self::Rows }
    }

    /// How to read a process.
    pub fn options(self, pid: u32) -> ScanOptions {
        ScanOptions { proportional: self == Self::Proportional || rss(pid).is_some_and(|rss| rss <= SMALL) }
    }
}

/// The RSS of a process, as the kernel counts it.
fn rss(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(PAGE)
}

/// The pages of a process that were read.
#[derive(Debug)]
pub struct ReadPages {
    pub scan: PageScan,
    pub time: Duration,
}

/// Reads the pages of the process of a snapshot.
pub fn read_pages(subject: SnapshotSubject<'_>, detail: PageDetail) -> Result<ReadPages, ScanError> {
    if subject.gone.is_some() {
        return Err(ScanError::Ended);
    }
    let (begin, pid) = (Instant::now(), subject.about.pid);
    let scan = PageScan::read(pid, detail.options(pid))?;
    let time = begin.elapsed();
    if shares(pid, subject.table) { Ok(ReadPages { scan, time }) } else { Err(ScanError::Replaced) }
}

/// Whether the table has every live block of the process.
pub fn knows_every_block(table: &LiveTable, cut: &CutInfo) -> bool {
    // Without usable sizes only a part of the program reports its blocks, such as its Rust code. Blocks that were born before a fork are in the parent's table,
    // and those that were born before an attach in none.
    table.has_flag(FLAG_USABLE_SIZES)
        && !table.is_attached()
        && !table.has_flag(FLAG_FORKED)
        && table.rates().iter().all(|&rate| rate == 0)
        && table.session().header().missed.load(Ordering::Relaxed) == 0
        && cut.exact
        && cut.untracked == 0
}

/// Collects the live memory of a table.
#[derive(Debug)]
pub struct LiveMemoryBuilder {
    memory: LiveMemory,
    has_usable_sizes: bool,
    /// For each node, of its blocks and of its mappings: the index of the owner plus one; 0 if it has none.
    owner_of: Vec<[u32; 2]>,
    /// The node of each owner, and whether it owns mappings.
    nodes: Vec<(u32, bool)>,
}

impl LiveMemoryBuilder {
    /// Empty memory of a table with this number of nodes.
    pub fn new(table: &LiveTable, nodes: u32) -> Self {
        Self {
            memory: LiveMemory { agent: table.session().agent_ranges(), ..LiveMemory::default() },
            has_usable_sizes: table.has_flag(FLAG_USABLE_SIZES),
            owner_of: vec![[0; 2]; nodes.max(1) as usize],
            nodes: Vec::new(),
        }
    }

    /// Adds a block or a mapping. Unknown nodes count as number 0.
    pub fn add(&mut self, (address, size, surplus): (u64, u64, i32), node: u32, is_mapping: bool) {
        let node = if (node as usize) < self.owner_of.len() { node } else { 0 };
        let known = &mut self.owner_of[node as usize][usize::from(is_mapping)];
        if *known == 0 {
            self.nodes.push((node, is_mapping));
            *known = self.nodes.len() as u32;
        }
        let owner = *known - 1;
        if is_mapping {
            self.memory.mappings.push(LiveMapping { start: address, end: address.saturating_add(size), owner });
        } else {
            let usable = usable_of_size(size).saturating_add_signed(surplus.into()).max(size);
            let usable = if self.has_usable_sizes { usable } else { size };
            self.memory.blocks.push(LiveBlock { address, size, usable, owner });
        }
    }

    /// Adds a block that is older than the table. Its size is its usable one.
    pub fn add_older(&mut self, (address, size): (u64, u64)) {
        let owner = match self.nodes.iter().position(|&(node, _)| node == OLDER_NODE) {
            Some(owner) => owner,
            None => {
                self.nodes.push((OLDER_NODE, false));
                self.nodes.len() - 1
            }
        };
        self.memory.blocks.push(LiveBlock { address, size, usable: size, owner: owner as u32 });
    }

    /// The memory, with its owners as stacks and tags.
    pub fn finish(mut self, owner: impl FnMut((u32, bool)) -> (StackId, TagId), knows_every_block: bool) -> LiveMemory {
        self.memory.owners = self.nodes.into_iter().map(owner).collect();
        self.memory.knows_every_block = knows_every_block;
        self.memory
    }
}
