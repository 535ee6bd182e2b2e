//! Tables of objects that are of interest in one kind of heap only: strings, detached nodes, closures.

/// A table of objects, or of groups of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Highlight {
    /// Its title, in the plural: `detached nodes`.
    pub title: &'static str,
    /// Its rows, the most important one first.
    pub rows: Vec<HighlightRow>,
    /// The number of all objects that the table is of, including those that are in no row.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An object, or a group of equal objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HighlightRow {
    /// What it is: the text of a string, a function and where it is defined.
    pub what: String,
    /// One of the objects.
    pub object: u64,
    /// The number of objects.
    pub count: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// Their retained bytes.
    pub retained_bytes: u64,
}
