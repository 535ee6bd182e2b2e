//! The system API of the Internet Computer: the functions that canisters import from `ic0`, one file per group.
//!
//! What is given to a canister is always the same for the same calls: its time stands still during a message and moves only when it is told
//! to, its randomness has a seed.

mod calls;
mod canister;
mod functions;
mod messages;
pub mod stable;
mod storage;

pub use functions::provide;

use stable::StableMemory;

/// What a piece of a canister's code is run for. It decides which functions it may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The module's start function.
    #[default]
    Start,
    /// Its beginning.
    Init,
    /// A message that may change its state.
    Update,
    /// A message that may not.
    Query,
    /// A query that may ask others.
    CompositeQuery,
    /// The answer to a call of its own.
    Reply,
    /// The refusal of a call of its own.
    Reject,
    /// After the trap of one of these two.
    Cleanup,
    /// A timer or a heartbeat.
    Timer,
    /// Whether a message from outside is welcome.
    Inspect,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// A reply: bytes, in Candid by custom.
    Reply(Vec<u8>),
    /// A refusal.
    Reject {
        /// Of which kind: 1 to 6, as the Internet Computer has them.
        code: u32,
        /// Why.
        message: String,
    },
}

/// No such canister.
pub const DESTINATION_INVALID: u32 = 3;
/// The canister said no.
pub const CANISTER_REJECT: u32 = 4;
/// The canister trapped, or did not answer.
pub const CANISTER_ERROR: u32 = 5;

/// A function in the table, and what it is to be called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closure {
    /// Its index in the table.
    pub function: u64,
    /// What it is given.
    pub environment: u64,
}

/// A call that a canister makes.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Whom it calls.
    pub callee: Vec<u8>,
    /// Which method.
    pub method: String,
    /// With what.
    pub argument: Vec<u8>,
    /// Where the reply goes.
    pub on_reply: Closure,
    /// Where a refusal goes.
    pub on_reject: Closure,
    /// What is called when one of these two traps.
    pub on_cleanup: Option<Closure>,
    /// Cycles that go with it.
    pub cycles: u128,
}

/// The message that is run.
#[derive(Debug, Default)]
pub struct Message {
    /// What for.
    pub mode: Mode,
    /// What came with it.
    pub argument: Vec<u8>,
    /// Who sent it.
    pub caller: Vec<u8>,
    /// The method; for [`Mode::Inspect`].
    pub method: String,
    /// What the reply consists of so far.
    pub reply: Vec<u8>,
    /// The answer, once it is given.
    pub response: Option<Response>,
    /// True if the call that it belongs to was answered before.
    pub is_answered: bool,
    /// Why a call of the canister's own was refused.
    pub reject: Option<(u32, String)>,
    /// Cycles that came with the message and were not taken yet.
    pub cycles_available: u128,
    /// Cycles that came back.
    pub cycles_refunded: u128,
    /// The call that is being put together.
    pub draft: Option<Outgoing>,
    /// Calls that go out when the message has ended well.
    pub sent: Vec<Outgoing>,
    /// True if a message from outside is welcome.
    pub is_accepted: bool,
}

/// What changes with messages, apart from memory, and is undone with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// When the timer is due, in nanoseconds since 1970; 0 for never.
    pub timer_ns: u64,
    /// What the canister has certified.
    pub certified: Vec<u8>,
    /// Its cycles.
    pub cycles: u128,
}

/// Everything about a canister but its module.
#[derive(Debug, Default)]
pub struct System {
    /// Its name.
    pub id: Vec<u8>,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// How often its state may have changed.
    pub version: u64,
    /// What changes with messages.
    pub settings: Settings,
    /// Its stable memory.
    pub stable: StableMemory,
    /// The message that is run.
    pub message: Message,
    /// What it printed since it was last asked, and how many bytes that is.
    pub printed: Vec<String>,
    pub(crate) printed_bytes: usize,
    /// How often it asked how much it has done.
    pub performance: u64,
}

/// Bytes of prints that are kept for one call.
const MOST_PRINTED: usize = 1 << 20;

impl System {
    /// Takes down what the canister printed.
    fn print(&mut self, text: &[u8]) {
        if self.printed_bytes + text.len() <= MOST_PRINTED {
            self.printed_bytes += text.len();
            self.printed.push(String::from_utf8_lossy(text).into_owned());
        } else if self.printed_bytes < MOST_PRINTED {
            self.printed_bytes = MOST_PRINTED;
            self.printed.push("… what it printed after this is left out".into());
        }
    }

    /// What was printed since the last time.
    pub fn take_printed(&mut self) -> Vec<String> {
        self.printed_bytes = 0;
        std::mem::take(&mut self.printed)
    }
}
