//! Messages from the receiver of a stream to its sender, in lines of text.
//!
//! | line | meaning |
//! |---|---|
//! | `highwater: receiving` | the stream has begun to be kept, and a word about its end will follow |
//! | `highwater: kept` | the stream has ended, and all of it is kept |
//! | `highwater: REASON` | it is not kept, and why |
//! | `HWtoken …` | a token where none is asked for; ignored |
//! | anything else | the stream must end |
//!
//! Other receivers, such as netcat, say nothing: then it is enough that they close the connection after the stream's end and not before.

use super::token::TOKEN_WORD;
use std::io::{self, Write};

/// The start of each of these lines.
const OURS: &str = "highwater: ";
const RECEIVING: &str = "receiving";
const KEPT: &str = "kept";

/// A line that a receiver sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverMessage {
    /// The stream has begun to be kept. Only for senders that expect answers: others never read, and a connection that is closed with
    /// unread bytes loses the bytes sent last.
    Receiving,
    /// The stream has ended, and all of it is kept.
    Kept,
}

impl ReceiverMessage {
    /// Sends it.
    pub fn send(self, mut to: impl Write) -> io::Result<()> {
        let word = match self {
            Self::Receiving => RECEIVING,
            Self::Kept => KEPT,
        };
        to.write_all(format!("{OURS}{word}\n").as_bytes())
    }
}

/// The messages of a receiver so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// A message about the end will follow.
    pub is_receiving: bool,
    /// All of it is kept.
    pub is_kept: bool,
    /// Why it is not kept.
    pub refusal: Option<String>,
    /// The stream must end.
    pub asks_to_end: bool,
}

/// Parses the messages. The last line may be incomplete.
pub fn understand(words: &[u8]) -> ReceiverStatus {
    let mut status = ReceiverStatus::default();
    let mut lines = words.split(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_whole = lines.peek().is_some();
        if !is_whole && (line.is_empty() || may_become(line, TOKEN_WORD) || may_become(line, OURS)) {
            break;
        }
        let text = String::from_utf8_lossy(line);
        match text.strip_prefix(OURS) {
            Some(RECEIVING) => status.is_receiving = true,
            // The rest of the word may be in transit.
            Some(start) if !is_whole && RECEIVING.starts_with(start) => {}
            Some(KEPT) => status.is_kept = true,
            Some(reason) => {
                status.refusal.get_or_insert_with(|| reason.to_owned());
                status.asks_to_end = true;
            }
            None if text.starts_with(TOKEN_WORD) => {}
            None => status.asks_to_end = true,
        }
    }
    status
}

/// Whether an incomplete line may become one that begins with `word`.
fn may_become(line: &[u8], word: &str) -> bool {
    line.len() <= word.len() && word.as_bytes().starts_with(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_word_of_ours_asks_for_the_end() {
        for nothing in ["", "H", "HWtoken ", "HWtoken abc", "HWtoken abc\n", "high", "highwater: ", "highwater: recei"]
        {
            assert_eq!(understand(nothing.as_bytes()), ReceiverStatus::default(), "{nothing:?}");
        }
        for end in ["\n", "x", "bye", "HWtoken abc\nx", "HWtokens", "highwater"] {
            let ends = understand(format!("{end}\n").as_bytes()).asks_to_end;
            assert!(ends, "{end:?}");
        }
        let greeted = ReceiverStatus { is_receiving: true, ..ReceiverStatus::default() };
        assert_eq!(understand(b"HWtoken abc\nhighwater: receiving\n"), greeted);
        assert!(understand(b"highwater: receiving\n\n").asks_to_end);
        let kept = understand(b"highwater: receiving\nhighwater: kept\n");
        assert_eq!(kept, ReceiverStatus { is_receiving: true, is_kept: true, ..ReceiverStatus::default() });
        let refused = understand(b"highwater: receiving\nhighwater: the disk is full\nhighwater: x\n");
        assert_eq!(refused.refusal.as_deref(), Some("the disk is full"));
        assert!(refused.asks_to_end && !refused.is_kept);
        assert_eq!(understand(b"highwater: no").refusal.as_deref(), Some("no"));
    }
}
