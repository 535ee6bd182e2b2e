//! A canister: a module whose exported functions run as messages, one after the other, as on the Internet Computer.
//!
//! ```text
//!  a call from outside ─▶ queue ─▶ message ─ ends well ─▶ state kept, answer given, calls of its own ─▶ queue
//!                           ▲         └───── traps ─────▶ state as before the message, the caller is refused
//!                           └── replies and refusals of its own calls, timers that are due
//! ```
//!
//! A canister can call itself, and the management canister for randomness; any other callee does not exist.

mod calls;
mod messages;
mod outcome;
mod upgrade;

pub use outcome::{CallError, CallOutcome};
pub use upgrade::UpgradeOptions;

use crate::engine::{Machine, MachineLimits, RunError};
use crate::module::{HostModule, MemoryKind};
use crate::system::{CanisterMessage, CanisterResponse, Closure, MessageMode, Outgoing, Settings, System, provide};
use std::collections::{BTreeMap, VecDeque};
use wasmi::ValType;

/// The principals of the canister itself, of the outside caller, and of the management canister.
pub(crate) const SELF: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1];
const OUTSIDE: [u8; 1] = [4];
const MANAGEMENT: [u8; 0] = [];
/// Messages that one call from outside may cause. A canister that causes more is assumed to call itself for ever.
const MOST_MESSAGES: u32 = 10_000;
/// The cycles that a canister begins with.
pub(crate) const CYCLES: u128 = 100_000_000_000_000;

/// The inputs of a canister besides its calls.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// The time at the beginning, in nanoseconds since 1970. It advances by one nanosecond with each message, and when a call lets time pass.
    pub time_ns: u64,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Default for World {
    /// The launch of the Internet Computer.
    fn default() -> Self {
        Self { time_ns: 1_620_328_630_000_000_000, seed: 0 }
    }
}

/// A call that is not finished: it must still be answered, or its own calls are not answered yet.
#[derive(Debug)]
struct CallContext {
    /// Destination of its answer.
    origin: Origin,
    is_answered: bool,
    /// The number of its own calls that are not answered yet.
    waits_for: usize,
    cycles: u128,
}

#[derive(Debug)]
enum Origin {
    Outside,
    /// The canister itself: the call of its own that this answers.
    Own {
        context: u64,
        call: Box<Outgoing>,
    },
    /// No caller waits for an answer.
    System,
}

/// A message that waits for its turn.
#[derive(Debug)]
enum QueuedMessage {
    Method { context: u64, method: String, argument: Vec<u8>, caller: Vec<u8> },
    Callback { context: u64, call: Box<Outgoing>, response: CanisterResponse, refund: u128 },
}

/// A canister: runs its messages one after the other, and keeps or undoes the changes of each.
pub struct Canister {
    machine: Machine<System>,
    contexts: BTreeMap<u64, CallContext>,
    next_context: u64,
    tasks: VecDeque<QueuedMessage>,
    answer: Option<CanisterResponse>,
    troubles: Vec<String>,
    messages: u32,
    random: u64,
}

/// The code that one message runs.
enum MessageCode {
    Export(String),
    Table(Closure),
}

impl Canister {
    /// Starts a canister: runs its start function, then `canister_init` with an argument.
    pub fn new(module: HostModule, limits: MachineLimits, world: World, argument: &[u8]) -> Result<Self, RunError> {
        let mut canister = Self::idle(module, limits, world)?;
        canister.begin("canister_init", &SELF, argument)?;
        Ok(canister)
    }

    /// Runs the start function of an idle canister, then the function that begins its life, with its caller and an argument.
    pub(crate) fn begin(&mut self, export: &str, caller: &[u8], argument: &[u8]) -> Result<(), RunError> {
        let started = self.machine.start();
        self.settle(&started)?;
        started?;
        if self.machine.function_type(export).is_some() {
            let message = CanisterMessage {
                argument: argument.to_vec(),
                caller: caller.to_vec(),
                ..self.message(MessageMode::Init)
            };
            self.execute(message, &MessageCode::Export(export.into()), true)?;
            let sent = std::mem::take(&mut self.machine.system().message.sent);
            debug_assert!(sent.is_empty(), "calls cannot be made in {export}");
        }
        Ok(())
    }

    /// A canister of which no code has run.
    pub fn idle(module: HostModule, limits: MachineLimits, world: World) -> Result<Self, RunError> {
        let word = match module.facts.memory {
            MemoryKind::Memory32 => ValType::I32,
            MemoryKind::Memory64 => ValType::I64,
        };
        let system = System {
            id: SELF.to_vec(),
            time_ns: world.time_ns,
            settings: Settings { cycles: CYCLES, ..Settings::default() },
            ..System::default()
        };
        let machine = Machine::new(module, limits, system, |linker, import| provide(linker, import, word))?;
        Ok(Self {
            machine,
            contexts: BTreeMap::new(),
            next_context: 0,
            tasks: VecDeque::new(),
            answer: None,
            troubles: Vec::new(),
            messages: 0,
            random: world.seed,
        })
    }

    /// The running module, and its memory.
    pub fn machine(&self) -> &Machine<System> {
        &self.machine
    }

    /// The same, mutable: to continue from another memory.
    pub fn machine_mut(&mut self) -> &mut Machine<System> {
        &mut self.machine
    }

    /// Its principal.
    pub fn id(&self) -> &[u8] {
        &self.machine.system_ref().id
    }

    /// The methods that can be called from outside.
    pub fn methods(&self) -> Vec<String> {
        let names = self.machine.function_names();
        let methods = names.iter().filter_map(|name| {
            let (kind, method) = name.split_once(' ')?;
            ["canister_update", "canister_query", "canister_composite_query"].contains(&kind).then(|| method.to_owned())
        });
        let mut methods: Vec<String> = methods.collect();
        methods.sort();
        methods
    }

    /// Calls a method from outside, and runs all messages that follow from it.
    pub fn call(&mut self, method: &str, argument: &[u8]) -> Result<CallOutcome, CallError> {
        self.call_from(&OUTSIDE, method, argument)
    }

    /// The same for a caller with this principal.
    pub fn call_from(&mut self, caller: &[u8], method: &str, argument: &[u8]) -> Result<CallOutcome, CallError> {
        let Some((mode, _)) = self.find(method) else {
            let own = |name: &String| !name.starts_with("__motoko") && !name.starts_with('@');
            return Err(CallError::NoMethod(method.to_owned(), self.methods().into_iter().filter(own).collect()));
        };
        self.messages = 0;
        if mode == MessageMode::Update {
            self.inspect(caller, method, argument)?;
        }
        let context = self.open(Origin::Outside, 0);
        self.tasks.push_back(QueuedMessage::Method {
            context,
            method: method.to_owned(),
            argument: argument.to_vec(),
            caller: caller.to_vec(),
        });
        self.come_to_rest()?;
        self.run_timers()?;
        Ok(self.answered())
    }

    /// Calls a query. Nothing of the canister changes, not even its time.
    pub fn query_from(&mut self, caller: &[u8], method: &str, argument: &[u8]) -> Result<CallOutcome, CallError> {
        if !matches!(self.find(method), Some((MessageMode::Query | MessageMode::CompositeQuery, _))) {
            return Err(CallError::NoMethod(method.to_owned(), Vec::new()));
        }
        self.messages = 0;
        let before = (self.machine.system_ref().time_ns, self.machine.system_ref().performance, self.random);
        let context = self.open(Origin::Outside, 0);
        let (method, argument, caller) = (method.to_owned(), argument.to_vec(), caller.to_vec());
        self.tasks.push_back(QueuedMessage::Method { context, method, argument, caller });
        let done = self.come_to_rest();
        let system = self.machine.system();
        (system.time_ns, system.performance, self.random) = before;
        done?;
        Ok(self.answered())
    }

    /// Lets time pass: timers that become due are run, and the heartbeat once.
    pub fn pass(&mut self, nanoseconds: u64) -> Result<CallOutcome, CallError> {
        self.messages = 0;
        let end = self.machine.system_ref().time_ns.saturating_add(nanoseconds);
        loop {
            let timer = self.machine.system_ref().settings.timer_ns;
            if timer == 0 || timer > end {
                break;
            }
            let now = self.machine.system_ref().time_ns;
            self.machine.system().time_ns = now.max(timer);
            self.run_timers()?;
        }
        let now = self.machine.system_ref().time_ns;
        self.machine.system().time_ns = now.max(end);
        if self.machine.function_type("canister_heartbeat").is_some() {
            self.run_for_system("canister_heartbeat", "the heartbeat")?;
            self.run_timers()?;
        }
        Ok(self.answered())
    }

    fn answered(&mut self) -> CallOutcome {
        CallOutcome {
            response: self.answer.take(),
            printed: self.machine.system().take_printed(),
            troubles: std::mem::take(&mut self.troubles),
        }
    }

    /// The mode of a method, and the name of its function.
    fn find(&self, method: &str) -> Option<(MessageMode, String)> {
        let kinds = [
            (MessageMode::Update, "canister_update"),
            (MessageMode::Query, "canister_query"),
            (MessageMode::CompositeQuery, "canister_composite_query"),
        ];
        let named = kinds.map(|(mode, kind)| (mode, format!("{kind} {method}")));
        named.into_iter().find(|(_, name)| self.machine.function_type(name).is_some())
    }

    fn inspect(&mut self, caller: &[u8], method: &str, argument: &[u8]) -> Result<(), CallError> {
        let code = "canister_inspect_message";
        if self.machine.function_type(code).is_none() {
            return Ok(());
        }
        let message = CanisterMessage {
            argument: argument.to_vec(),
            caller: caller.to_vec(),
            method: method.to_owned(),
            ..self.message(MessageMode::Inspect)
        };
        let done = self.execute(message, &MessageCode::Export(code.into()), false);
        match done {
            Ok(_) if self.machine.system_ref().message.is_accepted => Ok(()),
            Ok(_) => Err(CallError::Refused(method.to_owned())),
            Err(stop) => {
                self.troubles.push(format!("{code} {stop}"));
                Err(CallError::Refused(method.to_owned()))
            }
        }
    }

    fn message(&self, mode: MessageMode) -> CanisterMessage {
        CanisterMessage { mode, caller: self.id().to_vec(), ..CanisterMessage::default() }
    }

    fn open(&mut self, origin: Origin, cycles: u128) -> u64 {
        self.next_context += 1;
        let context = CallContext { origin, is_answered: false, waits_for: 0, cycles };
        self.contexts.insert(self.next_context, context);
        self.next_context
    }
}
