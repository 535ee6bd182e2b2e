//! Runs messages: the changes of each are kept as a whole, or not at all.

use super::{CallError, Canister, MOST_MESSAGES, MessageCode, Origin, QueuedMessage};
use crate::engine::RunError;
use crate::system::{CANISTER_ERROR, CanisterMessage, CanisterResponse, MessageMode, Outgoing};

impl Canister {
    /// Runs messages until the queue is empty.
    pub(super) fn come_to_rest(&mut self) -> Result<(), CallError> {
        while let Some(task) = self.tasks.pop_front() {
            self.messages += 1;
            if self.messages > MOST_MESSAGES {
                self.tasks.clear();
                self.contexts.clear();
                self.answered();
                return Err(CallError::Endless);
            }
            match task {
                QueuedMessage::Method { context, method, argument, caller } => {
                    self.run_method(context, &method, argument, caller)?;
                }
                QueuedMessage::Callback { context, call, response, refund } => {
                    self.run_callback(context, &call, response, refund)?;
                }
            }
        }
        Ok(())
    }

    /// Runs the timer as long as it is due.
    pub(super) fn run_timers(&mut self) -> Result<(), CallError> {
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

    pub(super) fn run_for_system(&mut self, export: &str, what: &str) -> Result<(), CallError> {
        self.messages += 1;
        if self.messages > MOST_MESSAGES {
            return Err(CallError::Endless);
        }
        let context = self.open(Origin::System, 0);
        let message = self.message(MessageMode::Timer);
        if let Err(stop) = self.execute_in(context, message, &MessageCode::Export(export.into()), true) {
            self.troubles.push(format!("{what} {stop}"));
        }
        self.close_if_done(context);
        self.come_to_rest()
    }

    fn run_method(&mut self, context: u64, method: &str, argument: Vec<u8>, caller: Vec<u8>) -> Result<(), CallError> {
        let Some((mode, export)) = self.find(method) else {
            let message = format!("no method is called '{method}'");
            self.respond(context, CanisterResponse::Reject { code: CANISTER_ERROR, message });
            self.close_if_done(context);
            return Ok(());
        };
        let cycles_available = self.contexts.get(&context).map_or(0, |context| context.cycles);
        let message = CanisterMessage { argument, caller, cycles_available, ..self.message(mode) };
        let done = self.execute_in(context, message, &MessageCode::Export(export), mode == MessageMode::Update);
        if let Err(stop) = done {
            self.respond(context, CanisterResponse::Reject { code: CANISTER_ERROR, message: stop.to_string() });
        }
        self.close_if_done(context);
        Ok(())
    }

    fn run_callback(
        &mut self,
        context: u64,
        call: &Outgoing,
        response: CanisterResponse,
        refund: u128,
    ) -> Result<(), CallError> {
        self.machine.system().settings.cycles += refund;
        if let Some(context) = self.contexts.get_mut(&context) {
            context.waits_for -= 1;
        }
        let (mode, closure, argument, reject) = match response {
            CanisterResponse::Reply(bytes) => (MessageMode::Reply, call.on_reply, bytes, None),
            CanisterResponse::Reject { code, message } => {
                (MessageMode::Reject, call.on_reject, Vec::new(), Some((code, message)))
            }
        };
        let about = self.contexts.get(&context);
        let message = CanisterMessage {
            argument,
            reject,
            cycles_refunded: refund,
            is_answered: about.is_none_or(|context| context.is_answered),
            cycles_available: about.map_or(0, |context| context.cycles),
            ..self.message(mode)
        };
        if let Err(stop) = self.execute_in(context, message, &MessageCode::Table(closure), true) {
            let answered = self.contexts.get(&context).is_none_or(|context| context.is_answered);
            if answered {
                self.troubles.push(format!("a callback {stop}"));
            } else {
                self.respond(context, CanisterResponse::Reject { code: CANISTER_ERROR, message: stop.to_string() });
            }
            if let Some(cleanup) = call.on_cleanup {
                let message = self.message(MessageMode::Cleanup);
                if let Err(stop) = self.execute_in(context, message, &MessageCode::Table(cleanup), true) {
                    self.troubles.push(format!("a cleanup {stop}"));
                }
            }
        }
        self.close_if_done(context);
        Ok(())
    }

    /// Runs a message that belongs to a call, then delivers its answer and queues the calls that it made.
    fn execute_in(
        &mut self,
        context: u64,
        message: CanisterMessage,
        code: &MessageCode,
        keeps: bool,
    ) -> Result<(), RunError> {
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

    /// Runs a message. Its changes are kept if it ends well and `keeps` is set; otherwise all of them are undone.
    pub(super) fn execute(
        &mut self,
        message: CanisterMessage,
        code: &MessageCode,
        keeps: bool,
    ) -> Result<CanisterMessage, RunError> {
        let before = {
            let system = self.machine.system();
            system.time_ns += 1;
            system.message = message;
            system.settings.clone()
        };
        let done = match code {
            MessageCode::Export(name) => self.machine.call(name, &[]).map(|_| ()),
            MessageCode::Table(closure) => self.machine.call_in_table(closure.function, closure.environment),
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
        // `inspect` reads this flag after the message has ended.
        let accepted = system.message.is_accepted;
        let mut message = std::mem::take(&mut system.message);
        system.message.is_accepted = accepted;
        if let Some(draft) = message.draft.take() {
            system.settings.cycles += draft.cycles;
        }
        Ok(message)
    }

    /// Keeps or undoes the changes of the start function.
    pub(super) fn settle(&mut self, done: &Result<(), RunError>) -> Result<(), RunError> {
        if done.is_ok() { self.machine.commit() } else { self.machine.restore() }
    }
}
