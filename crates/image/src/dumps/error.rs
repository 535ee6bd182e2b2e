//! Why a dump could not be read.

use std::borrow::Cow;
use std::io;

/// Why a dump could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Unreadable(#[from] io::Error),
    /// The content is not what the format says.
    #[error("damaged at byte {offset}: {what}")]
    Damaged {
        /// Where, in the decompressed file.
        offset: u64,
        /// What is wrong, as a sentence.
        what: Cow<'static, str>,
    },
    /// There is more of something than numbers of 32 bits can count.
    #[error("too large: it has {count} {what}, and at most {limit} can be read")]
    TooLarge {
        /// What there is too much of, in the plural.
        what: &'static str,
        /// The number of them.
        count: u64,
        /// The limit.
        limit: u64,
    },
}

impl DumpError {
    /// Damage at an offset of the decompressed file.
    pub fn damaged(offset: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Self::Damaged { offset, what: what.into() }
    }
}
