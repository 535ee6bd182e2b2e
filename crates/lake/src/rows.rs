//! The rows of the lake's tables, as structs. [`Batch`] has rows of all tables.

use std::sync::Arc;

/// Who a process is, in words that all hosts share. A label that is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels {
    /// The service: what the processes of one program on all hosts have in common.
    pub service: String,
    /// The version of the program.
    pub version: String,
    /// The region or zone of the host.
    pub region: String,
    /// The host.
    pub host: String,
    /// The container or pod.
    pub container: String,
}

/// A process, as rows of `sites` and `processes` repeat it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LakeProcess {
    /// Its labels.
    pub labels: Labels,
    /// Its pid on its host.
    pub pid: i32,
    /// When it started, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// Its identity: [`process_id`](crate::identity::process_id).
    pub process_id: i64,
}

/// A row of `processes`: one process at one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// The slot: seconds since the Unix epoch, a multiple of the shipping interval.
    pub slot: i64,
    /// The process.
    pub process: Arc<LakeProcess>,
    /// Mean bytes per sample; 0 if every block is counted.
    pub sample_period: i64,
    /// Live bytes.
    pub live_bytes: i64,
    /// Live blocks.
    pub live_blocks: i64,
    /// The resident set, if known.
    pub rss_bytes: Option<i64>,
    /// The memory limit of its cgroup, if there is one.
    pub limit_bytes: Option<i64>,
}

/// A row of `sites`: one stack of one process at one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRow {
    /// The slot, as in [`ProcessRow::slot`].
    pub slot: i64,
    /// The process.
    pub process: Arc<LakeProcess>,
    /// The stack's identity: [`stack_id`](crate::identity::stack_id).
    pub stack_id: i64,
    /// The identity of its names: [`site_id`](crate::identity::site_id).
    pub site_id: i64,
    /// Mean bytes per sample; 0 if every block is counted.
    pub sample_period: i64,
    /// Live bytes.
    pub live_bytes: i64,
    /// Live blocks.
    pub live_blocks: i64,
    /// Bytes ever allocated, where the source counts them.
    pub alloc_bytes: Option<i64>,
    /// Blocks ever allocated, where the source counts them.
    pub alloc_blocks: Option<i64>,
}

/// A row of `stacks`: a stack that a service has, once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackRow {
    /// The stack.
    pub stack_id: i64,
    /// The identity of its names.
    pub site_id: i64,
    /// The service in which it was seen.
    pub service: String,
    /// The function that names the site: the innermost one that is not plumbing.
    pub function: String,
    /// The type of its blocks, if the stack shows it; otherwise empty.
    pub type_name: String,
    /// The names of all frames, outermost first, separated by semicolons.
    pub stack: String,
}

/// A row of `frames`: one frame of a stack, once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameRow {
    /// The stack.
    pub stack_id: i64,
    /// The identity of the stack's names. Hosts with and without debug files give one stack two lists of names: both are in the table.
    pub site_id: i64,
    /// Its place in the stack; 0 is the innermost frame.
    pub depth: i32,
    /// The function, or the module and offset if it has no name.
    pub function: String,
    /// The source file; empty if unknown.
    pub file: String,
    /// The line; 0 if unknown.
    pub line: i32,
    /// The file name of its module.
    pub module: String,
    /// The build id of its module, in hexadecimal digits.
    pub build_id: String,
}

/// Rows of all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Rows of `processes`.
    pub processes: Vec<ProcessRow>,
    /// Rows of `sites`.
    pub sites: Vec<SiteRow>,
    /// Rows of `stacks`: those that this writer has not written before.
    pub stacks: Vec<StackRow>,
    /// Rows of `frames`, of the same stacks.
    pub frames: Vec<FrameRow>,
}

/// A frame with the service of its stack: a row of the files of `frames`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceFrame {
    /// The service in which the stack was seen.
    pub service: String,
    /// The frame.
    pub frame: FrameRow,
}

/// A row of `sites_hour`: one stack of one process in one hour. Rows of the same stack, process and hour add up: files that arrive late have rows of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourRow {
    /// The first second of the hour.
    pub hour: i64,
    /// The process.
    pub process: Arc<LakeProcess>,
    /// The stack.
    pub stack_id: i64,
    /// The identity of its names.
    pub site_id: i64,
    /// The largest mean of bytes per sample in the hour; 0 if every block is counted.
    pub sample_period: i64,
    /// Slots in which the stack had live blocks.
    pub n: i64,
    /// The fewest live bytes of these slots.
    pub min_bytes: i64,
    /// The most live bytes.
    pub max_bytes: i64,
    /// The sum of live bytes.
    pub sum_bytes: i64,
    /// The sum of live blocks.
    pub sum_blocks: i64,
    /// The sum of `x`: seconds since the beginning of the hour.
    pub sx: i64,
    /// The sum of `x²`.
    pub sxx: i64,
    /// The sum of `x` times live blocks, unless it has more than 63 bits.
    pub sxy: Option<i64>,
    /// The sum of squares of live blocks, unless it has more than 63 bits.
    pub syy: Option<i64>,
}
