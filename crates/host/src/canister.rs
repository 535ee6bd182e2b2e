//! A canister: a module whose exported functions are run as messages, one after the other, as the Internet Computer does.
//!
//! ```text
//!  a call from outside ─▶ queue ─▶ message ─ ends well ─▶ state kept, answer given, calls of its own ─▶ queue
//!                           ▲         └───── traps ─────▶ state as before the message, the caller is refused
//!                           └── replies and refusals of its own calls, timers that are due
//! ```
//!
//! A canister can call itself, and the management canister for randomness; any other callee does not exist.

use crate::engine::{Limits, Machine, Stop};
use crate::module::{MemoryKind, Module};
use crate::system::{
    CANISTER_ERROR, Closure, DESTINATION_INVALID, Message, Mode, Outgoing, Response, Settings, System, provide,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use wasmi::ValType;

/// The canister's own name, that of whoever calls it, and that of the system's own canister.
const SELF: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1];
const OUTSIDE: [u8; 1] = [4];
const MANAGEMENT: [u8; 0] = [];
/// Messages that one call from outside may cause: more is a canister that calls itself for ever.
const MOST_MESSAGES: u32 = 10_000;
/// The cycles that a canister begins with.
const CYCLES: u128 = 100_000_000_000_000;

/// What a canister's world is.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// The time at the beginning, in nanoseconds since 1970. It goes on by one nanosecond with each message, and as it is told to.
    pub time_ns: u64,
    /// From which all randomness comes.
    pub seed: u64,
}

impl Default for World {
    /// The beginning of the Internet Computer.
    fn default() -> Self {
        Self { time_ns: 1_620_328_630_000_000_000, seed: 0 }
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The answer; none where only time passed.
    pub response: Option<Response>,
    /// What the canister printed.
    pub printed: Vec<String>,
    /// What went wrong beside the call itself: traps in timers and callbacks.
    pub troubles: Vec<String>,
}

/// Why a call could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no such method; those that are there.
    NoMethod(String, Vec<String>),
    /// It is not to be called from outside.
    Refused(String),
    /// Messages follow each other without end.
    Endless,
    /// The host itself failed.
    Host(Stop),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMethod(name, there) if there.is_empty() => {
                write!(f, "no method is called '{name}'; there are none")
            }
            Self::NoMethod(name, there) => write!(f, "no method is called '{name}'; there are: {}", there.join(", ")),
            Self::Refused(name) => write!(f, "'{name}' was refused by canister_inspect_message"),
            Self::Endless => write!(f, "the canister did not come to rest within {MOST_MESSAGES} messages"),
            Self::Host(stop) => stop.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl From<Stop> for CallError {
    fn from(stop: Stop) -> Self {
        Self::Host(stop)
    }
}

/// A call that is not finished: it waits for its answer, or for answers to calls of its own.
#[derive(Debug)]
struct CallContext {
    /// Where its answer goes.
    origin: Origin,
    is_answered: bool,
    /// Calls of its own that are not answered yet.
    waits_for: usize,
    cycles: u128,
}

#[derive(Debug)]
enum Origin {
    Outside,
    /// The canister itself: which call of its own this is an answer to.
    Own {
        context: u64,
        call: Box<Outgoing>,
    },
    /// Nobody waits.
    System,
}

#[derive(Debug)]
enum Task {
    Method { context: u64, method: String, argument: Vec<u8>, caller: Vec<u8> },
    Callback { context: u64, call: Box<Outgoing>, response: Response, refund: u128 },
}

/// See the module's text.
pub struct Canister {
    machine: Machine<System>,
    contexts: BTreeMap<u64, CallContext>,
    next_context: u64,
    tasks: VecDeque<Task>,
    answer: Option<Response>,
    troubles: Vec<String>,
    messages: u32,
    random: u64,
}

/// What the code of one message is.
enum Code {
    Export(String),
    Table(Closure),
}

impl Canister {
    /// Begins a canister: its start function, then `canister_init` with an argument.
    pub fn new(module: Module, limits: Limits, world: World, argument: &[u8]) -> Result<Self, Stop> {
        let mut canister = Self::idle(module, limits, world)?;
        let kept = canister.machine.start();
        canister.settle(&kept)?;
        kept?;
        if canister.machine.function_type("canister_init").is_some() {
            let message = Message { argument: argument.to_vec(), ..canister.message(Mode::Init) };
            canister.execute(message, &Code::Export("canister_init".into()), true)?;
            let sent = std::mem::take(&mut canister.machine.system().message.sent);
            debug_assert!(sent.is_empty(), "calls cannot be made in canister_init");
        }
        Ok(canister)
    }

    /// A canister none of whose code has run.
    pub fn idle(module: Module, limits: Limits, world: World) -> Result<Self, Stop> {
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

    /// The module that runs, and its memory.
    pub fn machine(&self) -> &Machine<System> {
        &self.machine
    }

    /// The same, to continue from another memory.
    pub fn machine_mut(&mut self) -> &mut Machine<System> {
        &mut self.machine
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

    /// Calls a method from outside, and does everything that follows from it.
    pub fn call(&mut self, method: &str, argument: &[u8]) -> Result<Answered, CallError> {
        let Some((mode, _)) = self.find(method) else {
            let own = |name: &String| !name.starts_with("__motoko") && !name.starts_with('@');
            return Err(CallError::NoMethod(method.to_owned(), self.methods().into_iter().filter(own).collect()));
        };
        self.messages = 0;
        if mode == Mode::Update {
            self.inspect(method, argument)?;
        }
        let context = self.open(Origin::Outside, 0);
        self.tasks.push_back(Task::Method {
            context,
            method: method.to_owned(),
            argument: argument.to_vec(),
            caller: OUTSIDE.to_vec(),
        });
        self.come_to_rest()?;
        self.run_timers()?;
        Ok(self.answered())
    }

    /// Lets time pass: timers that become due are run, and the heartbeat once.
    pub fn pass(&mut self, nanoseconds: u64) -> Result<Answered, CallError> {
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

    fn answered(&mut self) -> Answered {
        Answered {
            response: self.answer.take(),
            printed: self.machine.system().take_printed(),
            troubles: std::mem::take(&mut self.troubles),
        }
    }

    /// How a method is called, and the function that does it.
    fn find(&self, method: &str) -> Option<(Mode, String)> {
        let kinds = [
            (Mode::Update, "canister_update"),
            (Mode::Query, "canister_query"),
            (Mode::CompositeQuery, "canister_composite_query"),
        ];
        let named = kinds.map(|(mode, kind)| (mode, format!("{kind} {method}")));
        named.into_iter().find(|(_, name)| self.machine.function_type(name).is_some())
    }

    fn inspect(&mut self, method: &str, argument: &[u8]) -> Result<(), CallError> {
        let code = "canister_inspect_message";
        if self.machine.function_type(code).is_none() {
            return Ok(());
        }
        let message = Message {
            argument: argument.to_vec(),
            caller: OUTSIDE.to_vec(),
            method: method.to_owned(),
            ..self.message(Mode::Inspect)
        };
        let done = self.execute(message, &Code::Export(code.into()), false);
        match done {
            Ok(_) if self.machine.system_ref().message.is_accepted => Ok(()),
            Ok(_) => Err(CallError::Refused(method.to_owned())),
            Err(stop) => {
                self.troubles.push(format!("{code} {stop}"));
                Err(CallError::Refused(method.to_owned()))
            }
        }
    }

    fn message(&self, mode: Mode) -> Message {
        Message { mode, caller: SELF.to_vec(), ..Message::default() }
    }

    fn open(&mut self, origin: Origin, cycles: u128) -> u64 {
        self.next_context += 1;
        let context = CallContext { origin, is_answered: false, waits_for: 0, cycles };
        self.contexts.insert(self.next_context, context);
        self.next_context
    }

    /// Runs until nothing is left to do.
    fn come_to_rest(&mut self) -> Result<(), CallError> {
        while let Some(task) = self.tasks.pop_front() {
            self.messages += 1;
            if self.messages > MOST_MESSAGES {
                self.tasks.clear();
                self.contexts.clear();
                self.answered();
                return Err(CallError::Endless);
            }
            match task {
                Task::Method { context, method, argument, caller } => {
                    self.run_method(context, &method, argument, caller)?;
                }
                Task::Callback { context, call, response, refund } => {
                    self.run_callback(context, &call, response, refund)?;
                }
            }
        }
        Ok(())
    }

    /// Runs the timer for as long as it is due.
    fn run_timers(&mut self) -> Result<(), CallError> {
        loop {
            let system = self.machine.system();
            let timer = system.settings.timer_ns;
            if timer == 0 || timer > system.time_ns {
                return Ok(());
            }
            system.settings.timer_ns = 0;
            if self.machine.function_type("canister_global_timer").is_none() {
                return Ok(());
            }
            self.run_for_system("canister_global_timer", "a timer")?;
        }
    }

    fn run_for_system(&mut self, export: &str, what: &str) -> Result<(), CallError> {
        self.messages += 1;
        if self.messages > MOST_MESSAGES {
            return Err(CallError::Endless);
        }
        let context = self.open(Origin::System, 0);
        let message = self.message(Mode::Timer);
        if let Err(stop) = self.execute_in(context, message, &Code::Export(export.into()), true) {
            self.troubles.push(format!("{what} {stop}"));
        }
        self.close_if_done(context);
        self.come_to_rest()
    }

    fn run_method(&mut self, context: u64, method: &str, argument: Vec<u8>, caller: Vec<u8>) -> Result<(), CallError> {
        let Some((mode, export)) = self.find(method) else {
            let message = format!("no method is called '{method}'");
            self.respond(context, Response::Reject { code: CANISTER_ERROR, message });
            self.close_if_done(context);
            return Ok(());
        };
        let cycles_available = self.contexts.get(&context).map_or(0, |context| context.cycles);
        let message = Message { argument, caller, cycles_available, ..self.message(mode) };
        let done = self.execute_in(context, message, &Code::Export(export), mode == Mode::Update);
        if let Err(stop) = done {
            self.respond(context, Response::Reject { code: CANISTER_ERROR, message: stop.to_string() });
        }
        self.close_if_done(context);
        Ok(())
    }

    fn run_callback(
        &mut self,
        context: u64,
        call: &Outgoing,
        response: Response,
        refund: u128,
    ) -> Result<(), CallError> {
        self.machine.system().settings.cycles += refund;
        if let Some(context) = self.contexts.get_mut(&context) {
            context.waits_for -= 1;
        }
        let (mode, closure, argument, reject) = match response {
            Response::Reply(bytes) => (Mode::Reply, call.on_reply, bytes, None),
            Response::Reject { code, message } => (Mode::Reject, call.on_reject, Vec::new(), Some((code, message))),
        };
        let about = self.contexts.get(&context);
        let message = Message {
            argument,
            reject,
            cycles_refunded: refund,
            is_answered: about.is_none_or(|context| context.is_answered),
            cycles_available: about.map_or(0, |context| context.cycles),
            ..self.message(mode)
        };
        if let Err(stop) = self.execute_in(context, message, &Code::Table(closure), true) {
            let answered = self.contexts.get(&context).is_none_or(|context| context.is_answered);
            if answered {
                self.troubles.push(format!("a callback {stop}"));
            } else {
                self.respond(context, Response::Reject { code: CANISTER_ERROR, message: stop.to_string() });
            }
            if let Some(cleanup) = call.on_cleanup {
                let message = self.message(Mode::Cleanup);
                if let Err(stop) = self.execute_in(context, message, &Code::Table(cleanup), true) {
                    self.troubles.push(format!("a cleanup {stop}"));
                }
            }
        }
        self.close_if_done(context);
        Ok(())
    }

    /// Runs a message that belongs to a call, and passes on its answer and the calls that it made.
    fn execute_in(&mut self, context: u64, message: Message, code: &Code, keeps: bool) -> Result<(), Stop> {
        let done = self.execute(message, code, keeps)?;
        if let Some(context) = self.contexts.get_mut(&context) {
            context.cycles = done.cycles_available;
            context.waits_for += done.sent.len();
        }
        if let Some(response) = done.response {
            self.respond(context, response);
        }
        for call in done.sent {
            self.send(context, call);
        }
        Ok(())
    }

    /// Runs a message. If it ends well what it changed is kept, if it is to be; if not, nothing of it is left.
    fn execute(&mut self, message: Message, code: &Code, keeps: bool) -> Result<Message, Stop> {
        let before = {
            let system = self.machine.system();
            system.time_ns += 1;
            system.message = message;
            system.settings.clone()
        };
        let done = match code {
            Code::Export(name) => self.machine.call(name, &[]).map(|_| ()),
            Code::Table(closure) => self.machine.call_in_table(closure.function, closure.environment),
        };
        let is_kept = done.is_ok() && keeps;
        if is_kept {
            self.machine.commit()?;
            let system = self.machine.system();
            system.stable.commit();
            system.version += 1;
        } else {
            self.machine.restore()?;
            let system = self.machine.system();
            system.stable.restore();
            system.settings = before;
        }
        done?;
        let system = self.machine.system();
        // Whoever asks whether the message was welcome looks at it afterwards.
        let accepted = system.message.is_accepted;
        let mut message = std::mem::take(&mut system.message);
        system.message.is_accepted = accepted;
        if let Some(draft) = message.draft.take() {
            system.settings.cycles += draft.cycles;
        }
        Ok(message)
    }

    /// The start function's end.
    fn settle(&mut self, done: &Result<(), Stop>) -> Result<(), Stop> {
        if done.is_ok() { self.machine.commit() } else { self.machine.restore() }
    }

    fn respond(&mut self, context: u64, response: Response) {
        let Some(about) = self.contexts.get_mut(&context) else { return };
        if std::mem::replace(&mut about.is_answered, true) {
            return;
        }
        let refund = std::mem::take(&mut about.cycles);
        match &about.origin {
            Origin::Outside => self.answer = Some(response),
            Origin::System => {}
            Origin::Own { context, call } => {
                let (context, call) = (*context, call.clone());
                self.tasks.push_back(Task::Callback { context, call, response, refund });
            }
        }
    }

    /// A call that waits for nothing any more is over; who still waits for its answer is refused.
    fn close_if_done(&mut self, context: u64) {
        let Some(about) = self.contexts.get(&context) else { return };
        if about.waits_for > 0 {
            return;
        }
        if !about.is_answered {
            let message = "the canister did not answer".to_owned();
            self.respond(context, Response::Reject { code: CANISTER_ERROR, message });
        }
        self.contexts.remove(&context);
    }

    /// A call of the canister's own.
    fn send(&mut self, context: u64, call: Outgoing) {
        let call = Box::new(call);
        if call.callee == SELF {
            let (method, argument) = (call.method.clone(), call.argument.clone());
            let cycles = call.cycles;
            let context = self.open(Origin::Own { context, call }, cycles);
            self.tasks.push_back(Task::Method { context, method, argument, caller: SELF.to_vec() });
            return;
        }
        let response = if call.callee == MANAGEMENT && call.method == "raw_rand" {
            Response::Reply(self.random_bytes())
        } else if call.callee == MANAGEMENT {
            let message = format!("this host has no {} of the management canister", call.method);
            Response::Reject { code: CANISTER_ERROR, message }
        } else {
            let name = crate::candid::principal_text(&call.callee);
            Response::Reject { code: DESTINATION_INVALID, message: format!("there is no canister {name} here") }
        };
        let refund = call.cycles;
        self.tasks.push_back(Task::Callback { context, call, response, refund });
    }

    /// 32 bytes as Candid's `blob`: the same for the same seed, by SplitMix64.
    fn random_bytes(&mut self) -> Vec<u8> {
        let mut reply = b"DIDL\x01\x6d\x7b\x01\x00\x20".to_vec();
        for _ in 0..4 {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = self.random;
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            reply.extend((word ^ word >> 31).to_le_bytes());
        }
        reply
    }
}
