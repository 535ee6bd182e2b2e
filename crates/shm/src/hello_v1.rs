//! How agent and recorder find each other: the environment gives the agent its configuration and the recorder's socket; the agent
//! connects, sends a [`Hello`] with the shared memory's descriptor attached, and closes the socket. It keeps nothing open.

use crate::unrecorded_v1::Reason;

/// The variable with the agent's configuration: fields separated by `;`, the path last because it may contain anything.
///
/// `v2;FLAGS;SAMPLE;LIMIT;/path/of/socket`: flags are letters ([`FLAG_COUNTER`] …), the sample rate is in bytes, 0 for exact; the limit is the maximum
/// number of blocks in a live table, 0 for as many as there is room for.
pub const VARIABLE: &str = "HIGHWATER_AGENT";
/// Stamp with the processor's counter.
pub const FLAG_COUNTER: u8 = b'c';
/// Follow children.
pub const FLAG_CHILDREN: u8 = b'f';
/// Drop events instead of waiting when a ring is full.
pub const FLAG_LOSSY: u8 = b'l';
/// Leave mappings out.
pub const FLAG_NO_MMAP: u8 = b'm';
/// Keep a live table, for a collector, instead of recording.
pub const FLAG_LIVE: u8 = b't';
/// Let the collector read the contents of blocks.
pub const FLAG_CONTENTS: u8 = b'r';

/// Begin dormant: record only while the recorder asks for it.
pub const FLAG_DORMANT: u8 = b'd';

/// Leave the program's arguments out: only its name is sent.
pub const FLAG_NO_ARGS: u8 = b'a';

/// Record the stacks of frees and of unmapping too.
pub const FLAG_FREE_STACKS: u8 = b's';

/// The agent's first message. After it come the path of the executable, a zero, and the arguments, each ended by a zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its process id, as it sees it itself.
    pub pid: u32,
    /// The process it was forked from without an exec, 0 if it was not.
    pub forked_from: u32,
    /// Why nothing will be recorded of it; it then shares no memory.
    pub unrecorded: Option<Reason>,
    /// Its parent, as it sees it itself; 0 if not known, or if nothing will be recorded. A short process may be gone before the recorder can look.
    pub parent: u32,
}

/// Bytes of a [`Hello`].
pub const HELLO_BYTES: usize = 20;
/// The longest text after a [`Hello`].
pub const LONGEST_HELLO_TEXT: usize = 16 << 10;
const MAGIC: [u8; 8] = *b"HWhallo2";
/// The bits of a reason in the last word, and the largest parent beside it: process ids have at most 22 bits.
const REASON_BITS: u32 = 8;
const MOST_PARENT: u32 = u32::MAX >> REASON_BITS;

impl Hello {
    /// As bytes.
    pub fn to_bytes(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.pid.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.forked_from.to_le_bytes());
        // The parent lies above the reason, which is 0 then: a recorder that does not know of parents takes it for no reason.
        let parent = if self.parent <= MOST_PARENT { self.parent << REASON_BITS } else { 0 };
        bytes[16..].copy_from_slice(&self.unrecorded.map_or(parent, |reason| reason as u32).to_le_bytes());
        bytes
    }

    /// From bytes; `None` if they are something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let whole = bytes.len() >= HELLO_BYTES && bytes.starts_with(&MAGIC);
        let last = word(16)?;
        let parent = if last & ((1 << REASON_BITS) - 1) == 0 { last >> REASON_BITS } else { 0 };
        whole.then_some(Self { pid: word(8)?, forked_from: word(12)?, unrecorded: Reason::from_number(last), parent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_as_it_was_written() {
        for parent in [0, 1, 4711, MOST_PARENT] {
            let hello = Hello { pid: 12, forked_from: 7, unrecorded: None, parent };
            assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
        }
        for reason in Reason::ALL {
            assert!((reason as u32) < 1 << REASON_BITS);
            let hello = Hello { pid: 12, forked_from: 0, unrecorded: Some(reason), parent: 0 };
            assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
        }
    }
}
