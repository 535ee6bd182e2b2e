//! The answer: rows that add up to the resident memory, and everything beside them.

use highwater_formats::json::{FrameAnswer, StackTableAnswer};
use serde::Serialize;

/// Where the resident memory of a process is, at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Rss"))]
pub struct RssAnswer {
    /// The instant.
    pub at_ns: u64,
    /// Why it was recorded: `request`, `rss-peak`, `mark` or `end`.
    pub reason: &'static str,
    /// False if not every live block is known. Then sites are a part, and free memory inside the allocator is not known.
    pub knows_every_block: bool,
    /// The rows, in a fixed order. Each resident byte is in one of them.
    pub rows: Vec<RssRowAnswer>,
    /// The resident bytes of all rows.
    pub sum_bytes: u64,
    /// The kernel's RSS before the pages were read.
    pub rss_bytes: u64,
    /// The kernel's RSS afterwards.
    pub rss_after_bytes: u64,
    /// The highest RSS of the process so far.
    pub rss_peak_bytes: u64,
    /// How far the sum may be off because the process changed while it was read.
    pub uncertain_bytes: u64,
    /// What would be resident without Highwater's agent.
    pub without_agent_bytes: u64,
    /// Free memory inside the allocator that is resident; null if it is not known.
    pub free_bytes: Option<u64>,
    /// Live blocks that are neither resident nor swapped out: never touched, or given back.
    pub untouched_block_bytes: u64,
    /// Mappings of the program that are neither resident nor swapped out.
    pub untouched_mapping_bytes: u64,
    /// The kernel's figures that are not part of the sum.
    pub beside: RssBeside,
    /// The allocator.
    pub allocator: RssAllocator,
    /// How many sites there are, also those that are not in `sites`.
    pub site_count: usize,
    /// Sites of live blocks and mappings.
    pub sites: Vec<RssSite>,
    /// What the rows of `groups` are: `type`, `function` …
    pub by: &'static str,
    /// How many groups there are, also those that are not in `groups`.
    pub group_count: usize,
    /// The same blocks and mappings, by type or another grouping.
    pub groups: Vec<RssGroup>,
    /// How many files there are, also those that are not in `files`.
    pub file_count: usize,
    /// Files and shared memory objects, the largest first.
    pub files: Vec<RssFile>,
    /// What stands out, and what would help.
    pub findings: Vec<RssFinding>,
    /// All instants of which this is known, in order.
    pub instants: Vec<RssInstant>,
    /// The stacks of sites.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub stacks: StackTableAnswer,
}

/// A row of the resident memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "RssRow"))]
pub struct RssRowAnswer {
    /// What it is: `live_blocks`, `slack`, `free_top` …
    pub key: &'static str,
    /// Its name, for people.
    pub name: &'static str,
    /// The group of rows it belongs to: `heap`, `mappings`, `stacks`, `files`, `shared`, `other` or `agent`.
    pub group: &'static str,
    /// Bytes in RAM.
    pub resident_bytes: u64,
    /// Bytes of address space, resident or not.
    pub size_bytes: u64,
    /// Bytes that were swapped out.
    pub swapped_bytes: u64,
}

/// The kernel's figures of the process that are not part of the sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssBeside {
    /// The proportional set size: pages that several processes share count in part. Null if it was not read.
    pub pss_bytes: Option<u64>,
    /// Anonymous memory in RAM.
    pub anonymous_bytes: u64,
    /// Private writable address space.
    pub data_bytes: u64,
    /// Swapped out.
    pub swap_bytes: u64,
    /// The kernel's page tables for this process.
    pub page_table_bytes: u64,
    /// Anonymous memory in transparent huge pages.
    pub huge_bytes: u64,
    /// Its share of the RSS, from 0 to 1.
    pub huge_share: f64,
    /// Pages that the program offered to the kernel and that are still in RAM. Null if it was not read.
    pub lazily_free_bytes: Option<u64>,
    /// Threads.
    pub threads: u64,
    /// The memory limit of the process's control group; null if there is none.
    pub limit: Option<RssLimit>,
}

/// The memory limit of a control group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssLimit {
    /// The limit.
    pub bytes: u64,
    /// What the group uses: all its processes, and the kernel's memory for them.
    pub used_bytes: u64,
    /// What is left.
    pub left_bytes: u64,
    /// The used share, from 0 to 1.
    pub used_share: f64,
}

/// The allocator of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssAllocator {
    /// Its name; null if it was not recognized.
    pub name: Option<String>,
    /// The number of its arenas; null if it is not known.
    pub arenas: Option<u64>,
    /// What `malloc_trim(0)` would return to the kernel; null if that is not known.
    pub trim_bytes: Option<u64>,
    /// True if it would return that much at most.
    pub trim_is_upper_bound: bool,
    /// Free memory at the tops of other arenas than the main one, which `malloc_trim` does not return.
    pub other_top_bytes: u64,
}

/// The pages of a site: of its blocks, or of its mappings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssSite {
    /// The number of its stack in the recording.
    pub id: u32,
    /// Its name, for people.
    pub key: String,
    /// The frame that names it.
    pub frame: Option<FrameAnswer>,
    /// The pool that took the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub pool: Option<&'static str>,
    /// Where another would look the same: what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub detail: Option<String>,
    /// The number of its stack.
    #[cfg_attr(test, ts(type = "Frame[]"))]
    pub stack: Option<u32>,
    /// The type of its blocks, as far as it is known.
    pub type_name: String,
    /// True for memory that the program mapped by itself, false for blocks of the malloc family.
    pub is_mapping: bool,
    /// Its figures.
    #[serde(flatten)]
    #[cfg_attr(test, ts(flatten))]
    pub figures: RssFigures,
}

/// The pages of all sites of a type, function or another group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssGroup {
    /// Its name, for people.
    pub key: String,
    /// Its figures. Pages that several sites of the group pin together are not in `pinned_bytes`.
    #[serde(flatten)]
    #[cfg_attr(test, ts(flatten))]
    pub figures: RssFigures,
}

/// Figures of live blocks, or of mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssFigures {
    /// Live blocks or mappings.
    pub blocks: u64,
    /// The bytes that were requested.
    pub live_bytes: u64,
    /// Those of them that are in RAM.
    pub resident_bytes: u64,
    /// Usable bytes beyond those that were requested.
    pub slack_bytes: u64,
    /// Bytes of pages that could be returned to the kernel if only these were freed.
    pub pinned_bytes: u64,
}

/// The resident pages of a file, or of a shared memory object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssFile {
    /// Its path.
    pub path: String,
    /// Pages of the page cache, which other processes may share.
    pub shared_bytes: u64,
    /// Private pages.
    pub private_bytes: u64,
}

/// Something that stands out, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssFinding {
    /// What it is: `trim`, `slack`, `arenas` …
    pub key: &'static str,
    /// One sentence, for people.
    pub sentence: String,
    /// The bytes that it is about.
    pub bytes: u64,
    /// How the figure was computed.
    pub how: &'static str,
    /// The `id` of the site that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub site: Option<u32>,
}

/// An instant of which the resident memory is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RssInstant {
    /// When.
    pub at_ns: u64,
    /// Why it was recorded: `request`, `rss-peak`, `mark` or `end`.
    pub reason: &'static str,
    /// The mark at which it was recorded; null if there is none.
    pub mark: Option<String>,
    /// The RSS.
    pub rss_bytes: u64,
}
