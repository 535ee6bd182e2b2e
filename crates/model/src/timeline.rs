//! The timeline of a recording.

use crate::ids::Nanos;

/// Live memory at the end of a short span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelinePoint {
    /// The end of the span.
    pub time: Nanos,
    /// Bytes live then.
    pub live_bytes: u64,
    /// Blocks live then.
    pub live_blocks: u64,
    /// The most bytes live within the span.
    pub highest_bytes: u64,
}

/// A named instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInstant {
    /// When.
    pub time: Nanos,
    /// How many events had happened, this one included.
    pub event: u64,
    /// Its name.
    pub name: String,
}

/// A measured value at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaugeReading {
    /// When.
    pub time: Nanos,
    /// What was measured.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// Names of the gauges that the recorder writes.
pub mod gauge {
    /// The resident set of the process.
    pub const RSS: &str = "rss";
    /// Address space that the program reserved and cannot touch (`PROT_NONE`).
    pub const RESERVED: &str = "reserved bytes";
    /// All of them, in the order in which they are shown.
    pub const ALL: [&str; 7] = [RSS, MAPPED, RETURNED, SLACK, FREE_RESIDENT, RESERVED, FILES];
    /// Mapped files.
    pub const FILES: &str = "mapped file bytes";
    /// Memory that the program mapped by itself and can touch. Live bytes less these are the heap's.
    pub const MAPPED: &str = "mapped bytes";
    /// Usable bytes of live blocks, beyond those that were requested, that are in RAM.
    pub const SLACK: &str = "slack bytes";
    /// Memory that is free inside the allocator and in RAM.
    pub const FREE_RESIDENT: &str = "free resident bytes";
    /// Bytes of mappings that the program gave back and may touch again.
    pub const RETURNED: &str = "returned bytes";
}

/// Live memory, marks and gauges of a recording over time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// When it begins: 0, or the time at which a stream was joined.
    pub start: Nanos,
    /// Live memory, in time order.
    pub points: Vec<TimelinePoint>,
    /// The marks, in time order.
    pub marks: Vec<NamedInstant>,
    /// The gauges, in time order.
    pub gauges: Vec<GaugeReading>,
}
