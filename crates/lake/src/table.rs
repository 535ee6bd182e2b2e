//! The tables of a lake and their columns: what every file is checked against.

use std::fmt;

/// A table of the lake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// One row for each stack of each process and slot.
    Sites,
    /// One row for each stack of each process and hour. Made by compaction, so it has no incoming files.
    SitesHour,
    /// One row for each process and slot.
    Processes,
    /// One row for each stack.
    Stacks,
    /// One row for each frame of each stack.
    Frames,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum ColumnKind {
    /// INT64.
    Long,
    /// INT64, TIMESTAMP in microseconds, UTC.
    Time,
    /// INT32.
    Int,
    /// UTF-8.
    Text,
    /// INT64, may be null.
    OptionalLong,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct ColumnSpec {
    pub name: &'static str,
    pub kind: ColumnKind,
    /// Neighbours differ by little: DELTA_BINARY_PACKED instead of a dictionary.
    pub is_delta: bool,
}

impl ColumnSpec {
    /// Bytes of a number of this column.
    pub(crate) const fn width(&self) -> usize {
        if matches!(self.kind, ColumnKind::Int) { 4 } else { 8 }
    }
}

const fn ids(name: &'static str) -> ColumnSpec {
    ColumnSpec { name, kind: ColumnKind::Long, is_delta: false }
}

const fn count(name: &'static str) -> ColumnSpec {
    ColumnSpec { name, kind: ColumnKind::Long, is_delta: true }
}

const fn maybe(name: &'static str) -> ColumnSpec {
    ColumnSpec { name, kind: ColumnKind::OptionalLong, is_delta: true }
}

const fn text(name: &'static str) -> ColumnSpec {
    ColumnSpec { name, kind: ColumnKind::Text, is_delta: false }
}

const fn int(name: &'static str) -> ColumnSpec {
    ColumnSpec { name, kind: ColumnKind::Int, is_delta: false }
}

const fn time(name: &'static str) -> ColumnSpec {
    ColumnSpec { name, kind: ColumnKind::Time, is_delta: false }
}

/// The last column of incoming files. In compacted files it is a part of the path.
pub(crate) const SERVICE: ColumnSpec = text("service");

/// The columns of names in the file of one snapshot.
pub(crate) const NAMES: &[ColumnSpec] =
    &[text("function"), text("type_name"), text("stack"), text("file"), int("line")];

const SITES: &[ColumnSpec] = &[
    count("slot"),
    text("version"),
    text("region"),
    text("host"),
    int("pid"),
    time("start"),
    ids("process_id"),
    ids("stack_id"),
    ids("site_id"),
    ids("sample_period"),
    count("live_bytes"),
    count("live_blocks"),
    maybe("alloc_bytes"),
    maybe("alloc_blocks"),
];

const SITES_HOUR: &[ColumnSpec] = &[
    count("hour"),
    text("version"),
    text("region"),
    text("host"),
    int("pid"),
    time("start"),
    ids("process_id"),
    ids("stack_id"),
    ids("site_id"),
    ids("sample_period"),
    ids("n"),
    count("min_bytes"),
    count("max_bytes"),
    count("sum_bytes"),
    count("sum_blocks"),
    ids("sx"),
    ids("sxx"),
    maybe("sxy"),
    maybe("syy"),
];

const PROCESSES: &[ColumnSpec] = &[
    count("slot"),
    text("version"),
    text("region"),
    text("host"),
    text("container"),
    int("pid"),
    time("start"),
    ids("process_id"),
    ids("sample_period"),
    count("live_bytes"),
    count("live_blocks"),
    maybe("rss_bytes"),
    maybe("limit_bytes"),
];

const STACKS: &[ColumnSpec] = &[ids("stack_id"), ids("site_id"), text("function"), text("type_name"), text("stack")];

const FRAMES: &[ColumnSpec] = &[
    ids("stack_id"),
    ids("site_id"),
    int("depth"),
    text("function"),
    text("file"),
    int("line"),
    text("module"),
    text("build_id"),
];

impl Table {
    /// All tables.
    pub const ALL: [Self; 5] = [Self::Sites, Self::SitesHour, Self::Processes, Self::Stacks, Self::Frames];

    /// The tables that hosts write.
    pub const INCOMING: [Self; 4] = [Self::Sites, Self::Processes, Self::Stacks, Self::Frames];

    /// Its name: of its folder, and in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sites => "sites",
            Self::SitesHour => "sites_hour",
            Self::Processes => "processes",
            Self::Stacks => "stacks",
            Self::Frames => "frames",
        }
    }

    /// The table with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// True if its rows belong to an instant. Rows of the others are facts about stacks, whenever they were seen.
    pub const fn has_slots(self) -> bool {
        !matches!(self, Self::Stacks | Self::Frames)
    }

    pub(crate) const fn columns(self) -> &'static [ColumnSpec] {
        match self {
            Self::Sites => SITES,
            Self::SitesHour => SITES_HOUR,
            Self::Processes => PROCESSES,
            Self::Stacks => STACKS,
            Self::Frames => FRAMES,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
