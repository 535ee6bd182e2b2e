//! Faults of a line that begins with `@`.

use std::fmt;

/// Why a line that begins with `@` could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectLineFault {
    /// `@` stands alone, or no space follows it.
    NoVerb,
    /// The verb is unknown.
    UnknownVerb,
    /// The size is missing, is no whole number, or does not fit in 64 bits.
    Size,
    /// There is no `file:line`.
    Place,
    /// There is no type.
    Type,
    /// The id is missing, is no whole number, or does not fit in 64 bits.
    Id,
    /// A mark without a label.
    Label,
    /// The line is in the JSON form but not JSON.
    Json,
    /// The line is in the JSON form, and one of its members has an invalid value.
    Member,
    /// The line is longer than the limit.
    TooLong,
    /// The last line has no line end, and its content does not fit: it was truncated.
    Cut,
}

impl ObjectLineFault {
    /// All faults.
    pub const ALL: [Self; 11] = [
        Self::NoVerb,
        Self::UnknownVerb,
        Self::Size,
        Self::Place,
        Self::Type,
        Self::Id,
        Self::Label,
        Self::Json,
        Self::Member,
        Self::TooLong,
        Self::Cut,
    ];

    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::NoVerb => "no_verb",
            Self::UnknownVerb => "unknown_verb",
            Self::Size => "size",
            Self::Place => "place",
            Self::Type => "type",
            Self::Id => "id",
            Self::Label => "label",
            Self::Json => "json",
            Self::Member => "member",
            Self::TooLong => "too_long",
            Self::Cut => "cut",
        }
    }
}

impl fmt::Display for ObjectLineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoVerb => "no verb follows the '@'",
            Self::UnknownVerb => "the verb is none of ALLOCATE, DROP, RESIZE, MEMORY, MARK",
            Self::Size => "the size is missing or no number",
            Self::Place => "no file:line",
            Self::Type => "no type",
            Self::Id => "the id is missing or no number",
            Self::Label => "a mark without a label",
            Self::Json => "not JSON",
            Self::Member => "a member of the JSON object is missing or not what it should be",
            Self::TooLong => "longer than 1 MiB",
            Self::Cut => "the last line, cut: it has no line end, and what it says does not fit",
        })
    }
}
