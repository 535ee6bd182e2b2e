//! The message with which a live process registers with the collector, with two descriptors attached: its memory
//! ([`session_v1`](crate::session_v1) and, after it, [`table_v1`](crate::table_v1)) and its [control page](crate::control_v1).
//!
//! The descriptors stay open in the process under these names, so that a collector that starts later finds them.

/// The version of everything that is shared: a collector that only knows a smaller one cannot read it.
pub const VERSION: u32 = 1;

/// The name of the memory object.
pub const MEMORY_NAME: &core::ffi::CStr = c"highwater-live-v1";
/// The name of the control page's object.
pub const CONTROL_NAME: &core::ffi::CStr = c"highwater-control-v1";
/// The prefix of memory objects' names in all versions.
pub const ANY_MEMORY_NAME: &str = "highwater-live-v";

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Registers the process. After it come the path of the executable, a zero, and the arguments, each ended by a zero.
    Register = 1,
    /// Asks for a snapshot of the process now, to be kept. After it comes its name. The answer is one byte once the cut was made:
    /// [`DONE`], or another byte if no snapshot was taken.
    NamedSnapshot = 2,
}

/// The answer to a program that asked for a snapshot.
pub const DONE: u8 = b'+';
/// The longest name of a snapshot.
pub const LONGEST_NAME: usize = 1024;
/// How long a program waits for the answer, in nanoseconds.
pub const PATIENCE_NS: u64 = 5_000_000_000;

/// The beginning of every message of a live process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveHello {
    /// [`VERSION`] of the process.
    pub version: u32,
    /// A [`Purpose`].
    pub purpose: u32,
    /// Its process id, as it sees it itself.
    pub pid: u32,
    /// The process it was forked from without an exec, 0 if it was not.
    pub forked_from: u32,
}

/// Bytes of a [`LiveHello`].
pub const LIVE_HELLO_BYTES: usize = 24;
const MAGIC: [u8; 8] = *b"HWliving";

impl LiveHello {
    /// As bytes.
    pub fn to_bytes(&self) -> [u8; LIVE_HELLO_BYTES] {
        let mut bytes = [0; LIVE_HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let fields = [self.version, self.purpose, self.pid, self.forked_from];
        for (field_bytes, field) in bytes[8..].chunks_exact_mut(4).zip(fields) {
            field_bytes.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// From bytes; `None` if they are something else. Later versions begin with the same fields.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let field = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let ours = bytes.starts_with(&MAGIC);
        ours.then_some(Self { version: field(8)?, purpose: field(12)?, pid: field(16)?, forked_from: field(20)? })
    }
}
