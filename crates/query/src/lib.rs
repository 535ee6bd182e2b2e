//! Questions about memory, and their answers.
//!
//! A [`Query`] says what a question is about: a [`History`](highwater_store::history::History), a window, an instant, a [`Metric`], and
//! [filters](Filter). Each question is one function here, and each answer is one `Serialize` struct: the terminal, `--json` and the viewer's API show the
//! same ones, and the page's TypeScript types are generated from them (`tests/types.rs`).
//!
//! | question | function |
//! |---|---|
//! | a table by site, function, file, module, line, thread, type or heap | [`rows`] |
//! | live memory over time | [`timeline`] |
//! | the same, stacked by function, thread, type, … | [`bands`] |
//! | where the most is live within the window | [`peak`] |
//! | key figures and top lists | [`overview`] |
//! | the first things to know | [`headline`] |
//! | a flame graph, or the callers and callees of one function | [`tree`], [`focus`], [`callers`] |
//! | the same as a profile for `go tool pprof` | [`pprof`](fn@pprof) |
//! | single blocks, and how large and how old they are | [`blocks`], [`histograms`] |
//! | the life of one block, and what lay at its address before and after | [`biography`](fn@biography) |
//! | what is live at an instant and how old it is | [`leaks`] |
//! | what grows steadily | [`growth`] |
//! | what changed between two instants | [`compare`] |
//! | how the sites of a live process grew | [`site_growth`](fn@site_growth) |
//! | the memory of the lines of a source file | [`source_lines`](fn@source_lines), [`source_changes`] |
//! | where the resident memory is, and who keeps its pages | [`rss`](fn@rss), [`rss_map`] |
//! | whether a recording keeps its limits | [`budget`] |
//! | how long freed blocks lived | [`lifetimes`] |
//! | several processes on one time axis | [`processes`](fn@processes), [`processes_held`] |
//! | objects by type, from a log; the heap of a memory image | [`objects`], [`images`] |
//! | the part of a snapshot that filters select | [`filtered_snapshot`] |
//!
//! # Design
//!
//! * *Figures where they are enough.* Filters on stacks are one bit for each stack, derived from the bit of its caller, and need nothing but figures. All
//!   other filters need single blocks: those of a snapshot, or the block events of the window.
//! * *Filters see a block as it is at the time that counts*: when it is allocated, freed or live. So filters that let everything pass change nothing. Where
//!   filters on deaths select births, blocks are counted when they die, in their last state: to remember every size that a block ever had would take memory
//!   without bound.
//! * *Answers are bounded by the screen and by limits that are errors* ([`QueryError::TooLarge`]): stacks are a table that has each call once, trees have the
//!   largest nodes, curves have the requested number of points.
//! * *Growth by survivors*: blocks that are live at the end have their time of birth. Of a leak about as many bytes survive from each part of the window, so
//!   its curve is a line; curves of caches rise early or late. One snapshot is enough for this, where figures at many instants would take many.
#![forbid(unsafe_code)]

mod band_curves;
mod band_lives;
mod bands;
mod biography;
mod block_states;
mod blocks;
pub mod budget;
mod call_trie;
mod callers;
mod compare;
mod compiled_filter;
mod error;
mod figures;
mod filter;
mod filtered;
#[cfg(test)]
mod fixture;
mod foreign_filters;
mod frame_tree;
mod grouping;
mod growth;
mod headline;
mod histograms;
pub mod images;
mod leaks;
mod learned;
mod life_events;
mod lifetimes;
mod lives;
mod measure;
mod names;
pub mod objects;
mod occupants;
mod overview;
mod peak;
mod population;
mod pprof;
mod processes;
#[allow(clippy::module_inception, reason = "the subject of every question is in the file of its name")]
mod query;
mod row_numbers;
mod rows;
mod rss;
mod site_growth;
mod slot_states;
mod source_lines;
mod stacks;
mod teardown;
mod timeline;
mod toml;
mod tree;
mod tree_stacks;
#[cfg(test)]
mod types;
pub mod units;

pub use bands::{BandAnswer, BandCurve, BandsAnswer, BandsOptions, RestBand, bands};
pub use biography::{BiographyAnswer, BlockChoice, LifeEventAnswer, OccupantAnswer, biography};
pub use blocks::{BlockAnswer, BlockOrder, BlocksAnswer, BlocksOptions, blocks};
pub use callers::{CallersAnswer, NeighbourAnswer, callers};
pub use compare::{ChangeAnswer, CompareAnswer, CompareOptions, CompareSide, WholeChange, compare};
pub use compiled_filter::CompiledFilter;
pub use error::{NoMetric, QueryError};
pub use figures::{FigureMap, RowAnswer};
pub use filter::{BlockTest, Filter, NameTest, NumberRange, parse_bytes};
pub use filtered::filtered_snapshot;
pub use foreign_filters::foreign_filters;
pub use growth::{GrowthAnswer, GrowthOptions, GrowthSite, growth};
pub use headline::{HeadlineAnswer, HeadlineFunction, HeadlineSite, SteadyGrowth, headline, judged_before_teardown};
pub use highwater_formats::json::{FrameAnswer, StackTableAnswer};
pub use highwater_model::groups::{GroupBy, Metric};
pub use histograms::{BarAnswer, HistogramsAnswer, TimeBarAnswer, histograms};
pub use leaks::{LeakSite, LeaksAnswer, LeaksOptions, leaks, oldest_births};
pub use learned::learned_wrappers;
pub use lifetimes::lifetimes;
pub use names::{Search, is_found, key_text, label};
pub use overview::{OverviewAnswer, TopRows, overview};
pub use peak::{PeakAnswer, PeakInstant, peak};
pub use pprof::{ShownStacks, pprof};
pub use processes::{
    HighestTotal, ProcessAnswer, ProcessFile, ProcessHeld, ProcessProblem, ProcessesAnswer, ProcessesHeld,
    ProcessesOptions, Relation, StackedProcess, are_related, processes, processes_held,
};
pub use query::{Query, metrics_of, moment, no_times, time_of};
pub use rows::{FoundAnswer, RowOrder, RowsAnswer, RowsOptions, rows};
pub use rss::{
    RssAllocator, RssAnswer, RssArea, RssBeside, RssCell, RssFigures, RssFile, RssFinding, RssGroup, RssInstant,
    RssLimit, RssMapAnswer, RssMapOptions, RssMapSite, RssMoment, RssOptions, RssOrder, RssRowAnswer, RssSite,
    SiteNames, rss, rss_map, rss_map_of, rss_of,
};
pub use site_growth::{GrowingRowAnswer, SiteGrowthAnswer, SiteGrowthOptions, SiteGrowthOrder, site_growth};
pub use source_lines::{
    LineChange, LineFigures, SourceLineAnswer, SourceLinesAnswer, names_file, source_changes, source_lines,
};
pub use timeline::{GaugeAnswer, LiveSpans, MarkAnswer, TimelineAnswer, TimelineEffort, timeline};
pub use toml::{BadToml, parse_toml};
pub use tree::{FocusAnswer, LeftOutNodes, TreeAnswer, TreeOptions, focus, tree};

/// A window in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WindowAnswer {
    /// Its first instant.
    pub from_ns: u64,
    /// Its last instant.
    pub to_ns: u64,
}

/// Bytes and blocks in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct BytesAndBlocks {
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}
