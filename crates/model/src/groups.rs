//! Grouping a snapshot's figures: the rows of every report.

use crate::catalog::{Catalog, FrameText};
use crate::code_offset::CodeOffset;
use crate::figures::Figures;
use crate::heap::Heap;
use crate::ids::{FrameId, StackId, ThreadId};
use crate::plumbing::leading_plumbing;
use crate::snapshot::Snapshot;
use crate::stack_numbers::StackNumbers;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// What the rows of a report are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// Whole call stacks.
    #[default]
    Site,
    /// Functions.
    Function,
    /// Source files.
    File,
    /// Executables and libraries.
    Module,
    /// Threads.
    Thread,
    /// Types.
    Type,
    /// Heaps.
    Heap,
}

/// The figure by which rows are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Bytes live at the instant.
    #[default]
    Live,
    /// The most bytes the row ever held.
    Peak,
    /// Bytes ever allocated.
    Allocated,
    /// Blocks ever allocated, reallocations included.
    Allocations,
    /// Blocks freed before their thread allocated anything else.
    Temporary,
}

impl Metric {
    /// The value of this figure.
    pub fn of(self, figures: &Figures) -> u64 {
        match self {
            Self::Live => figures.live_bytes(),
            Self::Peak => figures.peak_bytes,
            Self::Allocated => figures.allocated_bytes,
            Self::Allocations => figures.allocations + figures.reallocations,
            Self::Temporary => figures.temporary_allocations,
        }
    }

    /// True for bytes, false for a count.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::Live | Self::Peak | Self::Allocated)
    }
}

/// The subject of a row. Ordered, so that rows with equal figures have a stable order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// A call stack.
    Site(StackId),
    /// A function, file, module, type or heap; empty if the source does not name it.
    Name(String),
    /// Code without a function's name, among functions: a [`CodeOffset`].
    Code {
        /// The module's build id, empty where it has none.
        build_id: String,
        /// The module's path.
        module: String,
        /// The offset in the module's file.
        offset: u64,
    },
    /// A thread.
    Thread(ThreadId),
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The subject of the row.
    pub key: GroupKey,
    /// Its own figures. For functions, files and modules: those of the stacks whose innermost frame it is, not counting
    /// [plumbing](crate::is_plumbing).
    pub figures: Figures,
    /// For functions, files and modules: the figures of all stacks it occurs in, each counted once. Otherwise the
    /// same as `figures`.
    pub inclusive: Figures,
}

/// A filter on texts; `None` keeps everything. A stack is kept if any of its functions, files or modules is, a thread, type or heap if its name is.
/// Code without a name is matched as `module+0x1234`.
pub type Keep<'a> = Option<&'a dyn Fn(&str) -> bool>;

/// The rows of a snapshot, largest first by `metric`, without empty rows.
pub fn rows(snapshot: &Snapshot, by: GroupBy, metric: Metric, keep: Keep<'_>) -> Vec<Row> {
    let catalog = &*snapshot.catalog;
    let accounts = &snapshot.accounts;
    let mut rows = match by {
        GroupBy::Site => sites(snapshot, keep).map(|(stack, figures)| row(GroupKey::Site(stack), figures)).collect(),
        GroupBy::Function => by_frame(snapshot, keep, |frame| frame.function_key()),
        GroupBy::File => by_frame(snapshot, keep, |frame| FrameKey::Name(frame.file)),
        GroupBy::Module => by_frame(snapshot, keep, |frame| FrameKey::Name(frame.module)),
        GroupBy::Thread => accounts
            .threads()
            .iter()
            .filter(|thread| {
                keep.is_none_or(|keep| keep(catalog.thread_name(thread.id)) || keep(&thread.id.0.to_string()))
            })
            .map(|thread| row(GroupKey::Thread(thread.id), &thread.figures))
            .collect(),
        GroupBy::Type => by_type(snapshot, keep),
        GroupBy::Heap => by_heap(snapshot, keep),
    };
    rows.retain(|row| !row.inclusive.is_empty());
    rows.sort_by(|a, b| {
        let rank = |row: &Row| (metric.of(&row.figures), metric.of(&row.inclusive));
        rank(b).cmp(&rank(a)).then_with(|| a.key.cmp(&b.key))
    });
    rows
}

fn row(key: GroupKey, figures: &Figures) -> Row {
    Row { key, figures: *figures, inclusive: *figures }
}

/// The sites that ever allocated and that pass `keep`.
pub fn sites<'a>(snapshot: &'a Snapshot, keep: Keep<'a>) -> impl Iterator<Item = (StackId, &'a Figures)> {
    let mut wanted = WantedStacks::default();
    snapshot.accounts.sites().iter().filter(move |(stack, figures)| {
        !figures.is_empty() && keep.is_none_or(|keep| wanted.has(&snapshot.catalog, *stack, keep))
    })
}

/// The result of a filter for each stack. Each frame and each call is tested once, however many stacks share it.
#[derive(Default)]
struct WantedStacks {
    frames: FxHashMap<FrameId, bool>,
    /// 1 for stacks that pass the filter.
    stacks: StackNumbers,
}

impl WantedStacks {
    fn has(&mut self, catalog: &Catalog, stack: StackId, keep: &dyn Fn(&str) -> bool) -> bool {
        let Self { frames, stacks } = self;
        let is_wanted = |id: FrameId| {
            let Some(frame) = catalog.stacks.frame(id).map(|frame| catalog.frame_text(frame)) else { return false };
            let is_code_wanted = || frame.unnamed_code().is_some_and(|code| keep(&code.to_string()));
            keep(frame.function) || keep(frame.file) || keep(frame.module) || is_code_wanted()
        };
        let number = stacks.number(&catalog.stacks, stack, |outer, frame| {
            let is_wanted = outer == 1 || *frames.entry(frame).or_insert_with(|| is_wanted(frame));
            Ok::<u32, Infallible>(is_wanted.into())
        });
        number == Ok(1)
    }
}

/// The row of a frame in a table by function, file or module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameKey<'a> {
    /// A name; empty if the source does not name it.
    Name(&'a str),
    /// Code without a function's name.
    Code(CodeOffset<'a>),
}

impl FrameKey<'_> {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self::Name("");
}

impl<'a> FrameText<'a> {
    /// Its row among functions: its function, or else the location of its code.
    pub fn function_key(&self) -> FrameKey<'a> {
        self.unnamed_code().map_or(FrameKey::Name(self.function), FrameKey::Code)
    }
}

impl From<FrameKey<'_>> for GroupKey {
    fn from(key: FrameKey<'_>) -> Self {
        match key {
            FrameKey::Name(name) => Self::Name(name.to_owned()),
            FrameKey::Code(CodeOffset { build_id, module, offset }) => {
                Self::Code { build_id: build_id.to_owned(), module: module.to_owned(), offset }
            }
        }
    }
}

fn by_frame(snapshot: &Snapshot, keep: Keep<'_>, key: impl for<'a> Fn(&FrameText<'a>) -> FrameKey<'a>) -> Vec<Row> {
    let mut groups: BTreeMap<FrameKey<'_>, (Figures, Figures)> = BTreeMap::new();
    for (stack, figures) in sites(snapshot, keep) {
        let frames: Vec<FrameText<'_>> = snapshot.catalog.frame_texts(stack).collect();
        let own = frames.get(leading_plumbing(&frames)).map_or(FrameKey::UNKNOWN, &key);
        groups.entry(own).or_default().0.add(figures);
        let mut keys: Vec<FrameKey<'_>> = frames.iter().map(&key).collect();
        if keys.is_empty() {
            keys.push(FrameKey::UNKNOWN);
        }
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            groups.entry(key).or_default().1.add(figures);
        }
    }
    let row = |(key, (figures, inclusive)): (FrameKey<'_>, _)| Row { key: key.into(), figures, inclusive };
    groups.into_iter().map(row).collect()
}

fn by_type(snapshot: &Snapshot, keep: Keep<'_>) -> Vec<Row> {
    let mut groups: BTreeMap<&str, Figures> = BTreeMap::new();
    for (tag, figures) in snapshot.catalog.tags().iter().zip(snapshot.accounts.tags()) {
        let name = snapshot.catalog.strings.get(tag.type_name);
        if !figures.is_empty() && !name.is_empty() && keep.is_none_or(|keep| keep(name)) {
            groups.entry(name).or_default().add(figures);
        }
    }
    groups.into_iter().map(|(name, figures)| row(GroupKey::Name(name.to_owned()), &figures)).collect()
}

fn by_heap(snapshot: &Snapshot, keep: Keep<'_>) -> Vec<Row> {
    let wanted = |heap: Heap| keep.is_none_or(|keep| keep(heap.name()));
    snapshot
        .figures_by_heap()
        .into_iter()
        .filter(|(heap, _)| wanted(*heap))
        .map(|(heap, figures)| row(GroupKey::Name(heap.name().to_owned()), &figures))
        .collect()
}
