//! The agent's configuration, parsed from [`hello_v1::VARIABLE`](highwater_shm::hello_v1::VARIABLE).

use crate::private_memory::{self, AreaUse};
use crate::session::AgentMode;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use highwater_shm::hello_v1::{
    FLAG_CHILDREN, FLAG_CONTENTS, FLAG_COUNTER, FLAG_DORMANT, FLAG_FREE_STACKS, FLAG_LIVE, FLAG_LOSSY, FLAG_NO_ARGS,
    FLAG_NO_MMAP, VARIABLE,
};

const LONGEST_PATH: usize = 108;

/// The configuration. Written once, before anything is recorded; in a static, hence the atomics.
pub struct Config {
    counts_ticks: AtomicBool,
    follows_children: AtomicBool,
    lossy: AtomicBool,
    leaves_out_mappings: AtomicBool,
    live: AtomicBool,
    allows_contents: AtomicBool,
    knows_usable_sizes: AtomicBool,
    dormant: AtomicBool,
    leaves_out_arguments: AtomicBool,
    records_free_stacks: AtomicBool,
    sample_bytes: AtomicU64,
    most_blocks: AtomicU64,
    socket: [AtomicU8; LONGEST_PATH],
    socket_length: AtomicUsize,
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// The default: records everything, does not follow children.
    pub const fn new() -> Self {
        Self {
            counts_ticks: AtomicBool::new(false),
            follows_children: AtomicBool::new(false),
            lossy: AtomicBool::new(false),
            leaves_out_mappings: AtomicBool::new(false),
            live: AtomicBool::new(false),
            allows_contents: AtomicBool::new(false),
            knows_usable_sizes: AtomicBool::new(false),
            dormant: AtomicBool::new(false),
            leaves_out_arguments: AtomicBool::new(false),
            records_free_stacks: AtomicBool::new(false),
            sample_bytes: AtomicU64::new(0),
            most_blocks: AtomicU64::new(0),
            socket: [const { AtomicU8::new(0) }; LONGEST_PATH],
            socket_length: AtomicUsize::new(0),
        }
    }

    /// For a process that reads its own events.
    pub fn for_ourselves(counts_ticks: bool, sample_bytes: u64) -> Self {
        let config = Self::new();
        config.counts_ticks.store(counts_ticks, Ordering::Relaxed);
        config.sample_bytes.store(sample_bytes, Ordering::Relaxed);
        config
    }

    /// The same, beginning dormant.
    pub fn dormant(self) -> Self {
        self.dormant.store(true, Ordering::Relaxed);
        self
    }

    /// The same, without the program's arguments.
    pub fn without_arguments(self) -> Self {
        self.leaves_out_arguments.store(true, Ordering::Relaxed);
        self
    }

    /// The same, dropping events when a ring is full, without forked children and without mappings: for an agent that was injected.
    #[cfg(feature = "injected")]
    pub fn lossy_without_children(self) -> Self {
        self.lossy.store(true, Ordering::Relaxed);
        self.follows_children.store(false, Ordering::Relaxed);
        self.leaves_out_mappings.store(true, Ordering::Relaxed);
        self
    }

    /// The same, with the stacks of frees.
    #[cfg(feature = "injected")]
    pub fn with_free_stacks(self) -> Self {
        self.records_free_stacks.store(true, Ordering::Relaxed);
        self
    }

    /// For a process that keeps a live table of its own accord, and whose collector listens at `socket`. With an empty path there is no collector.
    pub fn for_live(counts_ticks: bool, sample_bytes: u64, most_blocks: u64, contents: bool, socket: &[u8]) -> Self {
        let config = Self::for_ourselves(counts_ticks, sample_bytes);
        config.live.store(true, Ordering::Relaxed);
        config.follows_children.store(true, Ordering::Relaxed);
        config.most_blocks.store(most_blocks, Ordering::Relaxed);
        config.allows_contents.store(contents, Ordering::Relaxed);
        config.set_socket(socket);
        config
    }

    /// The same, in a process whose hooks know how much blocks can really hold.
    pub fn with_usable_sizes(self) -> Self {
        self.knows_usable_sizes.store(true, Ordering::Relaxed);
        self
    }

    /// The configuration that a recorder passes in the variable's value; `None` if it is not one.
    pub fn from_value(value: &[u8]) -> Option<Self> {
        let config = Self::new();
        config.parse(value).map(|()| config)
    }

    /// Copies the settings of another configuration.
    pub fn copy_from(&self, other: &Self) {
        for (mine, theirs) in [
            (&self.counts_ticks, &other.counts_ticks),
            (&self.follows_children, &other.follows_children),
            (&self.lossy, &other.lossy),
            (&self.leaves_out_mappings, &other.leaves_out_mappings),
            (&self.live, &other.live),
            (&self.allows_contents, &other.allows_contents),
            (&self.knows_usable_sizes, &other.knows_usable_sizes),
            (&self.dormant, &other.dormant),
            (&self.leaves_out_arguments, &other.leaves_out_arguments),
            (&self.records_free_stacks, &other.records_free_stacks),
        ] {
            mine.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.sample_bytes.store(other.sample_bytes(), Ordering::Relaxed);
        self.most_blocks.store(other.most_blocks(), Ordering::Relaxed);
        self.set_socket(other.socket());
    }

    /// Whether stamps are ticks of the processor's counter.
    pub fn counts_ticks(&self) -> bool {
        self.counts_ticks.load(Ordering::Relaxed)
    }

    /// Whether forked children are recorded too.
    pub fn follows_children(&self) -> bool {
        self.follows_children.load(Ordering::Relaxed)
    }

    /// Whether events are dropped when a ring is full, instead of waiting.
    pub fn is_lossy(&self) -> bool {
        self.lossy.load(Ordering::Relaxed)
    }

    /// Whether mappings are recorded.
    pub fn records_mappings(&self) -> bool {
        !self.leaves_out_mappings.load(Ordering::Relaxed)
    }

    /// Whether a live table is kept.
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed)
    }

    /// Whether the collector may read the contents of blocks.
    pub fn allows_contents(&self) -> bool {
        self.allows_contents.load(Ordering::Relaxed)
    }

    /// Whether events are recorded only while the reader asks for it.
    pub fn is_dormant(&self) -> bool {
        self.dormant.load(Ordering::Relaxed)
    }

    /// Whether the program's arguments are not reported.
    pub fn leaves_out_arguments(&self) -> bool {
        self.leaves_out_arguments.load(Ordering::Relaxed)
    }

    /// Whether the stacks of frees and of unmapping are recorded.
    pub fn records_free_stacks(&self) -> bool {
        self.records_free_stacks.load(Ordering::Relaxed)
    }

    /// Reads the program and its arguments, each ended by a zero; returns their length in bytes. If arguments are left out, reads only the program's
    /// name. A name with a space is a title that the program gave itself, with anything in it; the executable's name is used instead.
    pub fn read_command(&self, buffer: &mut [u8]) -> usize {
        let length = sys::read_file(c"/proc/self/cmdline", buffer).unwrap_or(0);
        if !self.leaves_out_arguments() {
            return length;
        }
        let end = buffer[..length].iter().position(|&byte| byte == 0).map_or(length, |end| end + 1);
        if buffer[..end].contains(&b' ') { 0 } else { end }
    }

    /// Whether it is known how much blocks can really hold: true if the C library's functions are the ones called.
    pub fn knows_usable_sizes(&self) -> bool {
        self.knows_usable_sizes.load(Ordering::Relaxed)
    }

    /// The maximum number of blocks in a live table, 0 for no limit.
    pub fn most_blocks(&self) -> u64 {
        self.most_blocks.load(Ordering::Relaxed)
    }

    /// Mean bytes per sample, 0 to record everything.
    pub fn sample_bytes(&self) -> u64 {
        self.sample_bytes.load(Ordering::Relaxed)
    }

    /// The mode while recording: exact or sampled.
    pub fn recording_mode(&self) -> AgentMode {
        if self.sample_bytes() == 0 { AgentMode::Exact } else { AgentMode::Sampled }
    }

    /// The path of the recorder's socket.
    pub fn socket(&self) -> &[u8] {
        let length = self.socket_length.load(Ordering::Relaxed).min(LONGEST_PATH);
        // SAFETY: atomic bytes have the layout of bytes, and are not written any more.
        unsafe { core::slice::from_raw_parts(self.socket.as_ptr().cast(), length) }
    }

    /// Reads the process's environment as it was when the program began: nothing of the C library needs to be ready for that.
    /// False if it has no configuration for the agent, or if the process has more rights than the user who chose the environment.
    pub fn read_from_environment(&self) -> bool {
        const MOST: usize = 4 << 20;
        if sys::has_more_rights() {
            return false;
        }
        let Some(memory) = private_memory::take_area(MOST, AreaUse::Various) else { return false };
        // SAFETY: new memory of that size, given back below.
        let buffer = unsafe { core::slice::from_raw_parts_mut(memory, MOST) };
        let length = sys::read_file(c"/proc/self/environ", buffer).unwrap_or(0);
        let found = buffer[..length].split(|&byte| byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
            self.parse(value)
        });
        // SAFETY: nothing refers to it any more.
        unsafe { private_memory::give_back_area(memory, MOST) };
        found.is_some()
    }

    fn set_socket(&self, path: &[u8]) {
        let path = if path.len() < LONGEST_PATH { path } else { &[] };
        for (cell, &byte) in self.socket.iter().zip(path) {
            cell.store(byte, Ordering::Relaxed);
        }
        self.socket_length.store(path.len(), Ordering::Relaxed);
    }

    fn parse(&self, value: &[u8]) -> Option<()> {
        let mut fields = value.splitn(5, |&byte| byte == b';');
        if fields.next()? != b"v2" {
            return None;
        }
        let flags = fields.next()?;
        for (flag, setting) in [
            (FLAG_COUNTER, &self.counts_ticks),
            (FLAG_CHILDREN, &self.follows_children),
            (FLAG_LOSSY, &self.lossy),
            (FLAG_NO_MMAP, &self.leaves_out_mappings),
            (FLAG_LIVE, &self.live),
            (FLAG_CONTENTS, &self.allows_contents),
            (FLAG_DORMANT, &self.dormant),
            (FLAG_NO_ARGS, &self.leaves_out_arguments),
            (FLAG_FREE_STACKS, &self.records_free_stacks),
        ] {
            setting.store(flags.contains(&flag), Ordering::Relaxed);
        }
        self.sample_bytes.store(number(fields.next()?)?, Ordering::Relaxed);
        self.most_blocks.store(number(fields.next()?)?, Ordering::Relaxed);
        let socket = fields.next().filter(|path| (1..LONGEST_PATH).contains(&path.len()))?;
        self.set_socket(socket);
        self.knows_usable_sizes.store(true, Ordering::Relaxed);
        Some(())
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}
