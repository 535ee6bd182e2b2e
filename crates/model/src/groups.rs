//! Grouping a snapshot's figures: the rows of every report.

use crate::catalog::{Catalog, FrameText};
use crate::code_offset::CodeOffset;
use crate::figures::Figures;
use crate::heap::Heap;
use crate::ids::{FrameId, StackId, StringId, ThreadId};
use crate::naming::Naming;
use crate::snapshot::Snapshot;
use crate::stack_numbers::StackNumbers;
use crate::types::SiteTypes;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
    /// Source lines.
    Line,
    /// Threads.
    Thread,
    /// Types.
    Type,
    /// Heaps.
    Heap,
    /// Tasks.
    Task,
}

impl GroupBy {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Site,
        Self::Function,
        Self::File,
        Self::Module,
        Self::Line,
        Self::Thread,
        Self::Type,
        Self::Heap,
        Self::Task,
    ];

    /// Its name on the command line, in JSON and in the API: one such row.
    pub fn key(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Function => "function",
            Self::File => "file",
            Self::Module => "module",
            Self::Line => "line",
            Self::Thread => "thread",
            Self::Type => "type",
            Self::Heap => "heap",
            Self::Task => "task",
        }
    }

    /// The name of the list that holds such rows in a JSON document.
    pub fn list_key(self) -> &'static str {
        match self {
            Self::Site => "sites",
            Self::Function => "functions",
            Self::File => "files",
            Self::Module => "modules",
            Self::Line => "lines",
            Self::Thread => "threads",
            Self::Type => "types",
            Self::Heap => "heaps",
            Self::Task => "tasks",
        }
    }

    /// What it means, for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::Site => "Call sites: whole stacks",
            Self::Function => "Functions: what they allocated themselves, and with all they called",
            Self::File => "Source files",
            Self::Module => "Executables and libraries",
            Self::Line => "Source lines",
            Self::Thread => "Threads",
            Self::Type => "Types: those that the source names, or those that the names of library functions show",
            Self::Heap => "Heaps: malloc's, and what the program mapped itself",
            Self::Task => "Tasks that the program names, whichever threads run them",
        }
    }

    /// True if a row's own figures are only a part of it: it also includes the frames that it called.
    pub fn has_callees(self) -> bool {
        matches!(self, Self::Function | Self::File | Self::Module | Self::Line)
    }

    /// True for groupings that figures by stack cannot answer.
    pub fn is_by_owner(self) -> bool {
        matches!(self, Self::Thread | Self::Type | Self::Heap | Self::Task)
    }
}

/// The figure that is measured, and by which rows are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Bytes live at the instant.
    #[default]
    Live,
    /// Bytes live at the instant within the window that has the most live bytes.
    Peak,
    /// The most bytes that the row ever held. Rows reach it at different times.
    OwnPeak,
    /// Bytes allocated.
    Allocated,
    /// Blocks allocated, reallocations included.
    Allocations,
    /// Bytes freed.
    Freed,
    /// Bytes of blocks that were allocated in the window and never freed.
    Leaked,
    /// Blocks freed before their thread allocated anything else.
    Temporary,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Live,
        Self::Peak,
        Self::OwnPeak,
        Self::Allocated,
        Self::Allocations,
        Self::Freed,
        Self::Leaked,
        Self::Temporary,
    ];

    /// Its name on the command line, in JSON and in the API.
    pub fn key(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Peak => "peak",
            Self::OwnPeak => "own-peak",
            Self::Allocated => "allocated",
            Self::Allocations => "allocations",
            Self::Freed => "freed",
            Self::Leaked => "leaked",
            Self::Temporary => "temporary",
        }
    }

    /// What it means, for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::Live => "Bytes live at the instant",
            Self::Peak => "Bytes live when the most bytes were live",
            Self::OwnPeak => "The most bytes that each row ever held; rows reach it at different times",
            Self::Allocated => "Bytes ever allocated until then",
            Self::Allocations => "Blocks ever allocated until then",
            Self::Freed => "Bytes ever freed until then",
            Self::Leaked => "Bytes allocated in the window and never freed",
            Self::Temporary => {
                "Blocks freed before their thread allocated anything else; not known of sampled recordings"
            }
        }
    }

    /// The figure in words: "live bytes".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Live => "live bytes",
            Self::Peak => "bytes live at the peak",
            Self::OwnPeak => "bytes at each row's own peak",
            Self::Allocated => "allocated bytes",
            Self::Allocations => "allocations",
            Self::Freed => "freed bytes",
            Self::Leaked => "bytes never freed",
            Self::Temporary => "temporary allocations",
        }
    }

    /// The value of this figure.
    pub fn of(self, figures: &Figures) -> u64 {
        match self {
            Self::Live | Self::Peak | Self::Leaked => figures.live_bytes(),
            Self::OwnPeak => figures.peak_bytes,
            Self::Allocated => figures.allocated_bytes,
            Self::Allocations => figures.allocations + figures.reallocations,
            Self::Freed => figures.freed_bytes,
            Self::Temporary => figures.temporary_allocations,
        }
    }

    /// True for bytes, false for a count.
    pub fn is_bytes(self) -> bool {
        !matches!(self, Self::Allocations | Self::Temporary)
    }

    /// True for metrics of blocks that are live at some instant.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::Peak | Self::Leaked)
    }
}

/// The row of blocks that belong to no task, in a source where others do.
pub const NO_TASK: &str = "[no task]";

/// The subject of a row. Ordered, so that rows with equal figures have a stable order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// A call stack.
    Site(StackId),
    /// A function, file, module, type, heap or task; empty if the source does not name it.
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

/// Amounts that rows add up.
pub trait Addend: Copy + Default {
    /// Adds another amount.
    fn add(&mut self, other: &Self);
}

impl Addend for Figures {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row<T = Figures> {
    /// The subject of the row.
    pub key: GroupKey,
    /// Its own figures. For functions, files, modules and lines: those of the stacks whose innermost frame it is, not counting
    /// [plumbing](crate::is_plumbing).
    pub figures: T,
    /// For functions, files, modules and lines: the figures of all stacks it occurs in, each counted once. Otherwise the
    /// same as `figures`.
    pub inclusive: T,
}

impl<T> Row<T> {
    /// The stack that it stands for, if it is a site.
    pub fn site(&self) -> Option<StackId> {
        match self.key {
            GroupKey::Site(stack) => Some(stack),
            _ => None,
        }
    }
}

/// A filter on texts; `None` keeps everything. A stack is kept if any of its functions, files or modules is, a thread, type, heap or task if its name is.
/// Code without a name is matched as `module+0x1234`.
pub type Keep<'a> = Option<&'a dyn Fn(&str) -> bool>;

/// The rows of a snapshot, largest first by `metric`, without empty rows. Functions are named by the rules alone, without what a user adds.
pub fn rows(snapshot: &Snapshot, by: GroupBy, metric: Metric, keep: Keep<'_>) -> Vec<Row> {
    rows_named(snapshot, by, metric, keep, &Naming::default())
}

/// The rows of a snapshot. `naming` decides to which function memory belongs.
pub fn rows_named(snapshot: &Snapshot, by: GroupBy, metric: Metric, keep: Keep<'_>, naming: &Naming) -> Vec<Row> {
    let catalog = &*snapshot.catalog;
    let accounts = &snapshot.accounts;
    let mut rows = match by {
        GroupBy::Site => sites(snapshot, keep).map(|(stack, figures)| row(GroupKey::Site(stack), figures)).collect(),
        GroupBy::Function | GroupBy::File | GroupBy::Module | GroupBy::Line => {
            let sites = sites(snapshot, keep).map(|(stack, figures)| (stack, *figures));
            let grouped = rows_by_frame(catalog, naming, by, sites, usize::MAX, || Ok::<_, Infallible>(()));
            grouped.unwrap_or_else(|never| match never {})
        }
        GroupBy::Thread => accounts
            .threads()
            .iter()
            .filter(|thread| {
                keep.is_none_or(|keep| keep(catalog.thread_name(thread.id)) || keep(&thread.id.0.to_string()))
            })
            .map(|thread| row(GroupKey::Thread(thread.id), &thread.figures))
            .collect(),
        GroupBy::Type => by_type(snapshot, keep, naming),
        GroupBy::Heap => by_heap(snapshot, keep),
        GroupBy::Task => by_task(snapshot, metric, keep),
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
    /// A source line.
    Line(&'a str, u32),
}

impl<'a> FrameKey<'a> {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self::Name("");

    /// The row whose own figures a stack counts for. Its frames are innermost first.
    pub fn own(frames: &[FrameText<'a>], naming: &Naming, by: GroupBy) -> Self {
        frames.get(naming.passing_frames(frames)).map_or(Self::UNKNOWN, |frame| frame.key_by(by))
    }
}

impl<'a> FrameText<'a> {
    /// Its row in a table. Only groupings by frame have one.
    pub fn key_by(&self, by: GroupBy) -> FrameKey<'a> {
        match by {
            GroupBy::File => FrameKey::Name(self.file),
            GroupBy::Module => FrameKey::Name(self.module),
            GroupBy::Line if self.line == 0 => FrameKey::Name(self.file),
            GroupBy::Line => FrameKey::Line(self.file, self.line),
            _ => self.function_key(),
        }
    }

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
            FrameKey::Line(file, line) => Self::Name(format!("{file}:{line}")),
        }
    }
}

/// The rows that a stack counts for in a table by function, file, module or line.
#[derive(Clone, Debug)]
pub struct StackKeys<'a> {
    /// The row whose own figures it counts for.
    pub own: FrameKey<'a>,
    /// All rows that it occurs in, each once, sorted.
    pub all: Vec<FrameKey<'a>>,
}

impl<'a> StackKeys<'a> {
    /// The rows of a stack, whose frames are innermost first.
    pub fn of(frames: &[FrameText<'a>], naming: &Naming, by: GroupBy) -> Self {
        let own = FrameKey::own(frames, naming, by);
        let mut all: Vec<FrameKey<'_>> = frames.iter().map(|frame| frame.key_by(by)).collect();
        if all.is_empty() {
            all.push(FrameKey::UNKNOWN);
        }
        all.sort_unstable();
        all.dedup();
        Self { own, all }
    }
}

/// Rows by function, file, module or line, in no particular order. Of each stack, the `most_frames` innermost frames count. `go_on` is called before
/// each stack, and its error ends the work.
pub fn rows_by_frame<T: Addend, E>(
    catalog: &Catalog,
    naming: &Naming,
    by: GroupBy,
    sites: impl Iterator<Item = (StackId, T)>,
    most_frames: usize,
    mut go_on: impl FnMut() -> Result<(), E>,
) -> Result<Vec<Row<T>>, E> {
    let mut groups: BTreeMap<FrameKey<'_>, (T, T)> = BTreeMap::new();
    for (stack, amount) in sites {
        go_on()?;
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(most_frames).collect();
        let keys = StackKeys::of(&frames, naming, by);
        groups.entry(keys.own).or_default().0.add(&amount);
        for key in keys.all {
            groups.entry(key).or_default().1.add(&amount);
        }
    }
    let row = |(key, (figures, inclusive)): (FrameKey<'_>, _)| Row { key: key.into(), figures, inclusive };
    Ok(groups.into_iter().map(row).collect())
}

/// Blocks have the types that their source names. If it names none, the stacks show them.
fn by_type(snapshot: &Snapshot, keep: Keep<'_>, naming: &Naming) -> Vec<Row> {
    if snapshot.has_site_types() {
        return by_site_type(snapshot, keep, naming);
    }
    let mut groups: BTreeMap<&str, Figures> = BTreeMap::new();
    for (tag, figures) in snapshot.catalog.tags().iter().zip(snapshot.accounts.tags()) {
        let name = snapshot.catalog.strings.get(tag.type_name);
        if !figures.is_empty() && !name.is_empty() && keep.is_none_or(|keep| keep(name)) {
            groups.entry(name).or_default().add(figures);
        }
    }
    groups.into_iter().map(|(name, figures)| row(GroupKey::Name(name.to_owned()), &figures)).collect()
}

fn by_site_type(snapshot: &Snapshot, keep: Keep<'_>, naming: &Naming) -> Vec<Row> {
    let mut types = SiteTypes::new(&snapshot.catalog, naming);
    let mut groups: BTreeMap<String, Figures> = BTreeMap::new();
    for (stack, figures) in snapshot.accounts.sites().iter().filter(|(_, figures)| !figures.is_empty()) {
        let found = types.of(&snapshot.catalog, stack);
        let name = &*found.name;
        if keep.is_some_and(|keep| !keep(name)) {
            continue;
        }
        match groups.get_mut(name) {
            Some(known) => known.add(figures),
            None => _ = groups.insert(name.to_owned(), *figures),
        }
    }
    groups.into_iter().map(|(name, figures)| row(GroupKey::Name(name), &figures)).collect()
}

fn by_task(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>) -> Vec<Row> {
    let mut tasks: BTreeMap<&str, Figures> = BTreeMap::new();
    for (task, figures) in snapshot.figures_by_task() {
        // What the rest held at most is not known: it is the difference of two figures.
        if task != StringId::EMPTY {
            tasks.entry(snapshot.catalog.strings.get(task)).or_default().add(&figures);
        } else if metric != Metric::OwnPeak {
            tasks.entry(NO_TASK).or_default().add(&figures);
        }
    }
    let wanted = |task: &str| keep.is_none_or(|keep| keep(task));
    tasks
        .into_iter()
        .filter(|(task, _)| wanted(task))
        .map(|(task, figures)| row(GroupKey::Name(task.to_owned()), &figures))
        .collect()
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
