//! The system API of the Internet Computer: the functions that canisters import from `ic0`, one file per group.
//!
//! The same calls always give a canister the same inputs: its time does not change during a message and moves only when a call lets time pass, and its
//! randomness comes from a seed.

mod calls;
mod canister;
mod functions;
mod messages;
pub mod stable;
mod storage;

pub use functions::provide;

use stable::StableMemory;

/// The purpose for which a canister's code runs. It decides which functions the code may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageMode {
    /// The module's start function.
    #[default]
    Start,
    /// The canister's initialization.
    Init,
    /// A message that may change the state.
    Update,
    /// A message that may not change the state.
    Query,
    /// A query that may call other canisters.
    CompositeQuery,
    /// The reply to a call that the canister made.
    Reply,
    /// The refusal of a call that the canister made.
    Reject,
    /// After a trap in one of these two callbacks.
    Cleanup,
    /// A timer or a heartbeat.
    Timer,
    /// Decides whether to accept a message from outside.
    Inspect,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanisterResponse {
    /// A reply: bytes, usually in Candid.
    Reply(Vec<u8>),
    /// A refusal.
    Reject {
        /// Its kind: 1 to 6, as on the Internet Computer.
        code: u32,
        /// The reason.
        message: String,
    },
}

/// No such canister.
pub const DESTINATION_INVALID: u32 = 3;
/// The canister refused the call.
pub const CANISTER_REJECT: u32 = 4;
/// The canister trapped, or did not answer.
pub const CANISTER_ERROR: u32 = 5;

/// A function in the table, and its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closure {
    /// Its index in the table.
    pub function: u64,
    /// Its argument.
    pub environment: u64,
}

/// A call that a canister makes.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The principal of the called canister.
    pub callee: Vec<u8>,
    /// The name of the method.
    pub method: String,
    /// The argument of the call.
    pub argument: Vec<u8>,
    /// Callback for the reply.
    pub on_reply: Closure,
    /// Callback for a refusal.
    pub on_reject: Closure,
    /// Called when one of these two traps.
    pub on_cleanup: Option<Closure>,
    /// Cycles that are sent with it.
    pub cycles: u128,
}

/// The current message.
#[derive(Debug, Default)]
pub struct CanisterMessage {
    /// Its purpose.
    pub mode: MessageMode,
    /// Its argument.
    pub argument: Vec<u8>,
    /// The principal of the sender.
    pub caller: Vec<u8>,
    /// The method; for [`MessageMode::Inspect`].
    pub method: String,
    /// The bytes of the reply so far.
    pub reply: Vec<u8>,
    /// The answer, once it is given.
    pub response: Option<CanisterResponse>,
    /// True if the call that it belongs to is answered already.
    pub is_answered: bool,
    /// Why a call that the canister made was refused.
    pub reject: Option<(u32, String)>,
    /// Cycles that came with the message and are not accepted yet.
    pub cycles_available: u128,
    /// Cycles that were returned.
    pub cycles_refunded: u128,
    /// The call that is being built.
    pub draft: Option<Outgoing>,
    /// Calls that are sent when the message has ended well.
    pub sent: Vec<Outgoing>,
    /// True if the canister accepts the message from outside.
    pub is_accepted: bool,
}

/// The state that messages change besides memory. It is undone with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// When the timer is due, in nanoseconds since 1970; 0 for never.
    pub timer_ns: u64,
    /// The certified data.
    pub certified: Vec<u8>,
    /// Its cycles.
    pub cycles: u128,
}

/// The state of a canister outside of its module.
#[derive(Debug, Default)]
pub struct System {
    /// Its principal.
    pub id: Vec<u8>,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// How often its state may have changed.
    pub version: u64,
    /// The state that messages change.
    pub settings: Settings,
    /// Its stable memory.
    pub stable: StableMemory,
    /// The current message.
    pub message: CanisterMessage,
    /// Lines printed since the last [`System::take_printed`], and their bytes.
    pub printed: Vec<String>,
    pub(crate) printed_bytes: usize,
    /// How often it read the performance counter.
    pub performance: u64,
}

/// Printed bytes that are kept for one call.
const MOST_PRINTED: usize = 1 << 20;

impl System {
    /// Keeps a text that the canister printed.
    fn print(&mut self, text: &[u8]) {
        if self.printed_bytes + text.len() <= MOST_PRINTED {
            self.printed_bytes += text.len();
            self.printed.push(String::from_utf8_lossy(text).into_owned());
        } else if self.printed_bytes < MOST_PRINTED {
            self.printed_bytes = MOST_PRINTED;
            self.printed.push("… what it printed after this is left out".into());
        }
    }

    /// Takes the lines printed since the last call of this function.
    pub fn take_printed(&mut self) -> Vec<String> {
        self.printed_bytes = 0;
        std::mem::take(&mut self.printed)
    }
}
