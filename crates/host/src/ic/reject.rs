//! Refusals, with the codes that the network gives them.

use super::cbor::Cbor;
use crate::canister::CallError;
use wasmi::TrapCode;

/// The network's numbers of errors. The hundreds are the reject code: 1 fatal, 2 transient, 3 no such destination, 4 refused, 5 the canister's fault.
pub mod code {
    /// The host has as many canisters as it takes.
    pub const TOO_MANY_CANISTERS: u16 = 102;
    /// There is no such canister.
    pub const CANISTER_NOT_FOUND: u16 = 301;
    /// There is no such snapshot.
    pub const SNAPSHOT_NOT_FOUND: u16 = 305;
    /// The canister, or the management canister, refused the message.
    pub const REJECTED: u16 = 406;
    /// The management canister has no such method.
    pub const UNKNOWN_METHOD: u16 = 407;
    /// The argument of a method of the management canister is not what it takes.
    pub const INVALID_ARGUMENT: u16 = 408;
    /// The snapshot was taken of a canister, so nothing can be added to it.
    pub const SNAPSHOT_IMMUTABLE: u16 = 409;
    /// The code trapped.
    pub const TRAPPED: u16 = 502;
    /// The code called `ic0.trap`.
    pub const CALLED_TRAP: u16 = 503;
    /// The code, or an installation, broke a rule.
    pub const CONTRACT_VIOLATION: u16 = 504;
    /// The module is not one.
    pub const INVALID_WASM: u16 = 505;
    /// The canister did not reply.
    pub const DID_NOT_REPLY: u16 = 506;
    /// The canister is stopped.
    pub const STOPPED: u16 = 508;
    /// The canister is not stopped.
    pub const NOT_STOPPED: u16 = 510;
    /// The caller is not a controller.
    pub const NOT_A_CONTROLLER: u16 = 512;
    /// The canister already has code.
    pub const NOT_EMPTY: u16 = 514;
    /// The instruction limit was reached.
    pub const TOO_MANY_INSTRUCTIONS: u16 = 522;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: u16 = 536;
    /// The canister has no code.
    pub const NO_MODULE: u16 = 537;
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// One of [`code`].
    pub error: u16,
    /// The reject code; not always the hundreds of the error.
    pub reject_code: u64,
    /// The reason.
    pub message: String,
}

impl Reject {
    /// A refusal.
    pub fn new(error: u16, message: impl Into<String>) -> Self {
        Self { error, reject_code: u64::from(error / 100), message: message.into() }
    }

    /// Of a canister that refused a call, or trapped.
    pub fn by_canister(canister: &str, reject_code: u32, message: &str) -> Self {
        let error = match reject_code {
            5 => error_of(message),
            _ => code::REJECTED,
        };
        let message = match error {
            code::REJECTED => message.to_owned(),
            _ => format!("Error from Canister {canister}: {message}"),
        };
        Self { error, reject_code: reject_code.into(), message }
    }

    /// Of a call that could not be made.
    pub fn of_call(canister: &str, problem: &CallError) -> Self {
        let error = match problem {
            CallError::NoMethod(..) => code::METHOD_NOT_FOUND,
            CallError::Refused(_) => code::REJECTED,
            CallError::Endless => code::TOO_MANY_INSTRUCTIONS,
            CallError::Host(stop) => error_of(&stop.to_string()),
        };
        Self::new(error, format!("Error from Canister {canister}: {problem}"))
    }

    /// Of code that ran during an installation.
    pub fn of_run(canister: &str, problem: &crate::engine::RunError) -> Self {
        let text = problem.to_string();
        Self::new(error_of(&text), format!("Error from Canister {canister}: {text}"))
    }

    /// `IC0301`
    pub fn error_text(&self) -> String {
        format!("IC{:04}", self.error)
    }

    /// The answer to a call that was not even begun.
    pub fn response(&self) -> Cbor {
        self.with_status("non_replicated_rejection")
    }

    /// The refusal of a query.
    pub fn query_response(&self) -> Cbor {
        self.with_status("rejected")
    }

    fn with_status(&self, status: &str) -> Cbor {
        Cbor::map([
            ("status", Cbor::text(status)),
            ("reject_code", Cbor::Unsigned(self.reject_code)),
            ("reject_message", Cbor::text(&self.message)),
            ("error_code", Cbor::text(&self.error_text())),
        ])
    }
}

/// The network's number for the end of a message that the engine describes in words.
fn error_of(message: &str) -> u16 {
    const TRAPS: [TrapCode; 9] = [
        TrapCode::UnreachableCodeReached,
        TrapCode::MemoryOutOfBounds,
        TrapCode::TableOutOfBounds,
        TrapCode::IndirectCallToNull,
        TrapCode::IntegerDivisionByZero,
        TrapCode::IntegerOverflow,
        TrapCode::BadConversionToInteger,
        TrapCode::StackOverflow,
        TrapCode::BadSignature,
    ];
    match message.strip_prefix("trapped: ") {
        Some(trap) if TRAPS.iter().any(|code| trap.starts_with(code.trap_message())) => code::TRAPPED,
        Some(_) => code::CALLED_TRAP,
        None if message.starts_with("did not end within") => code::TOO_MANY_INSTRUCTIONS,
        None if message.contains("did not answer") => code::DID_NOT_REPLY,
        None if message.starts_with("no method is called") => code::METHOD_NOT_FOUND,
        None => code::CONTRACT_VIOLATION,
    }
}
