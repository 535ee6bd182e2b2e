//! The shared memory of one recorded process.
//!
//! ```text
//!  0                 HEADER_BYTES        ring headers        modules          stacks            rings
//! ┌────────────────┬───────────────────┬───────────────────┬────────────────┬─────────────────┬─────────── ─ ─
//! │ Header         │ (rest of page)    │ RingHeader × n    │ log of modules │ Node × n        │ ring × n
//! └────────────────┴───────────────────┴───────────────────┴────────────────┴─────────────────┴─────────── ─ ─
//! ```
//!
//! The object is sparse: pages that are not touched take no memory. Its size never changes.

use crate::agent_memory_v1::AgentMemory;
use crate::ring_v1::RingHeader;
use crate::stacks_v1::TrieNode;
use crate::unrecorded_v1::UnrecordedCounts;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// The first word of the header.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HWshm_v1");

/// The header has a page of its own.
pub const HEADER_BYTES: u64 = 4096;

/// Room for the log of modules.
pub const MODULE_BYTES: u64 = 4 << 20;

/// Bytes of a large ring.
pub const LARGEST_RING: u64 = 1 << 20;
/// The number of large rings: most programs have no more busy threads, and programs that do should not pay for it in memory.
const LARGE_RINGS: u32 = 16;
/// Bytes of the others.
const SMALL_RING: u64 = 256 << 10;

/// Bytes of a ring, a power of two.
#[inline]
pub fn ring_bytes(ring: u32) -> u64 {
    if ring < LARGE_RINGS { LARGEST_RING } else { SMALL_RING }
}

/// Offset of a ring from the beginning of all rings.
fn ring_offset(ring: u32) -> u64 {
    let large = ring.min(LARGE_RINGS);
    u64::from(large) * LARGEST_RING + u64::from(ring - large) * SMALL_RING
}

/// How events are stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AgentClock {
    /// Nanoseconds of the system's monotonic clock.
    Monotonic = 0,
    /// Ticks of the processor's time-stamp counter.
    Counter = 1,
}

/// Bit of [`Header::provides`]: the recorder provides the memory of rings.
pub const PROVIDES_RINGS: u32 = 1;
/// Bit of [`Header::provides`]: the recorder knows records of the kind [`RETURN`](crate::ring_v1::kind::RETURN). Older ones do not. A library that a program is
/// linked with may be newer than the recorder, so it writes such records only if this bit is set.
pub const READS_RETURNS: u32 = 2;

/// The shared header.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`], written last by the agent.
    pub magic: AtomicU64,
    /// The process.
    pub pid: AtomicU32,
    /// An [`AgentClock`].
    pub clock: AtomicU32,
    /// The clock when the agent began; stamps count from here.
    pub start: AtomicU64,
    /// The system's monotonic clock at that moment, in nanoseconds.
    pub start_monotonic: AtomicU64,
    /// The maximum number of rings.
    pub ring_capacity: AtomicU32,
    /// The maximum number of stack nodes.
    pub node_capacity: AtomicU32,
    /// Rings that were ever used are numbered below this.
    pub rings: AtomicU32,
    /// Stack nodes are numbered below this; number 0 is the root.
    pub nodes: AtomicU32,
    /// Bytes of the log of modules.
    pub module_bytes: AtomicU32,
    /// Stacks that were truncated because they were too deep or could not be walked to their end.
    pub cut_stacks: AtomicU32,
    /// Stacks that were stored without their innermost frames because the table of nodes was full.
    pub lost_nodes: AtomicU32,
    /// Events that could not be recorded: inside the agent, or when no ring was available.
    pub missed: AtomicU32,
    /// Not used: older recorders slept on it. 0.
    pub reserved: AtomicU32,
    /// Written by the recorder: 1 asks the agent to stop for good.
    pub stop: AtomicU32,
    /// Written by the recorder: 1 while events are wanted, for an agent that began dormant. (Others do not read it.)
    pub go: AtomicU32,
    /// Written by the recorder: [`PROVIDES_RINGS`] and [`READS_RETURNS`]; not 0 if it provides the memory of rings. A writer then takes none by itself: beyond the provided part of its ring, it waits as if the
    /// ring were full. So a program close to its container's limit does not grow by our rings after the kernel has ended its recorder.
    pub provides: AtomicU32,
    /// Written by the agent: why it stopped by itself ([`Reason`](crate::unrecorded_v1::Reason)), 0 while it did not.
    pub ended: AtomicU32,
    /// When it did, in the clock's ticks since the start.
    pub ended_at: AtomicU64,
    /// Programs that the process started and that are not recorded.
    pub unrecorded: UnrecordedCounts,
    /// The agent's private memory.
    pub agent_memory: AgentMemory,
}

const _: () = assert!(size_of::<Header>() as u64 <= HEADER_BYTES);

/// The size of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Rings.
    pub rings: u32,
    /// Stack nodes.
    pub nodes: u32,
}

impl Capacity {
    /// From generous to small: a program may limit its address space.
    pub const CHOICES: [Self; 3] =
        [Self { rings: 4096, nodes: 1 << 26 }, Self { rings: 512, nodes: 1 << 22 }, Self { rings: 32, nodes: 1 << 18 }];

    /// The same for a live process, which runs for long and writes no events: fewer stacks, and only the headers of rings are used.
    pub const LIVE_CHOICES: [Self; 3] =
        [Self { rings: 4096, nodes: 1 << 24 }, Self { rings: 512, nodes: 1 << 22 }, Self { rings: 32, nodes: 1 << 18 }];

    /// Whether a reader accepts it.
    pub fn is_sound(&self) -> bool {
        (1..=1 << 16).contains(&self.rings) && (2..=1 << 28).contains(&self.nodes)
    }

    /// Offset of the ring headers.
    pub fn ring_headers(&self) -> u64 {
        HEADER_BYTES
    }

    /// Offset of the log of modules.
    pub fn modules(&self) -> u64 {
        page(self.ring_headers() + u64::from(self.rings) * size_of::<RingHeader>() as u64)
    }

    /// Offset of the stack nodes.
    pub fn stacks(&self) -> u64 {
        self.modules() + MODULE_BYTES
    }

    /// Offset of a ring.
    pub fn ring_data(&self, ring: u32) -> u64 {
        page(self.stacks() + u64::from(self.nodes) * size_of::<TrieNode>() as u64) + ring_offset(ring)
    }

    /// Size of the whole.
    pub fn bytes(&self) -> u64 {
        self.ring_data(self.rings)
    }
}

fn page(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_that_were_added_later_did_not_move_others() {
        assert_eq!(core::mem::offset_of!(Header, unrecorded), 96);
        // bench/own.py reads it there.
        assert_eq!(core::mem::offset_of!(Header, agent_memory), 2216);
    }
}
