//! Lines of a whole recording: event lines that lead back to exactly the same recording.
//!
//! A program that writes event lines knows addresses; the ledger decides what they mean. A recording holds these decisions. Its lines therefore name
//! blocks by allocation number, and contain what was counted besides: `note` and `evict`. The first line is `{"event":"recording","version":1}`.
//!
//! Stacks are written once, call by call: `frame` and `stack` lines, referred to by number. A recording of millions of events has few of them, and no
//! recursion is too deep for the length of a line.
//!
//! A recording may continue from a state that its events do not lead to: a stream was joined late, or a part is damaged. Such a state is written with
//! all its figures, from a `state` line to a `continue` line.

mod reader;
mod state_lines;
mod writer;

pub use reader::{RecordedItem, RecordedLinesReader};
pub use writer::RecordedLinesWriter;

/// The version of these lines.
const VERSION: u64 = 1;

/// True if the first line that is neither empty nor a comment begins the lines of a recording.
pub fn looks_like_recorded_events(first_bytes: &[u8]) -> bool {
    let text = first_bytes.strip_prefix(super::sniff::BYTE_ORDER_MARK).unwrap_or(first_bytes);
    let mut lines = text.split(|&byte| byte == b'\n').map(|line| line.trim_ascii());
    lines.find(|line| !super::sniff::is_skipped(line)).is_some_and(|line| {
        let line = std::str::from_utf8(line).unwrap_or_default();
        super::fields::Fields::parse(line).is_ok_and(|fields| fields.text("event") == Ok("recording"))
    })
}
