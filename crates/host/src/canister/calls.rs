//! The calls that a canister makes, and its answers.

use super::{Canister, MANAGEMENT, Origin, QueuedMessage};
use crate::system::{CANISTER_ERROR, CanisterResponse, DESTINATION_INVALID, Outgoing};

impl Canister {
    pub(super) fn respond(&mut self, context: u64, response: CanisterResponse) {
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
                self.tasks.push_back(QueuedMessage::Callback { context, call, response, refund });
            }
        }
    }

    /// Closes a call that waits for no more answers. If it was never answered, its caller gets a refusal.
    pub(super) fn close_if_done(&mut self, context: u64) {
        let Some(about) = self.contexts.get(&context) else { return };
        if about.waits_for > 0 {
            return;
        }
        if !about.is_answered {
            let message = "the canister did not answer".to_owned();
            self.respond(context, CanisterResponse::Reject { code: CANISTER_ERROR, message });
        }
        self.contexts.remove(&context);
    }

    /// Sends a call that the canister makes: queues its message, or the answer of the management canister.
    pub(super) fn send(&mut self, context: u64, call: Outgoing) {
        let call = Box::new(call);
        if call.callee == self.id() {
            let (method, argument) = (call.method.clone(), call.argument.clone());
            let cycles = call.cycles;
            let (context, caller) = (self.open(Origin::Own { context, call }, cycles), self.id().to_vec());
            self.tasks.push_back(QueuedMessage::Method { context, method, argument, caller });
            return;
        }
        let response = if call.callee == MANAGEMENT && call.method == "raw_rand" {
            CanisterResponse::Reply(self.random_bytes())
        } else if call.callee == MANAGEMENT {
            let message = format!("this host has no {} of the management canister", call.method);
            CanisterResponse::Reject { code: CANISTER_ERROR, message }
        } else {
            let name = crate::candid::principal_text(&call.callee);
            CanisterResponse::Reject { code: DESTINATION_INVALID, message: format!("there is no canister {name} here") }
        };
        let refund = call.cycles;
        self.tasks.push_back(QueuedMessage::Callback { context, call, response, refund });
    }

    /// 32 bytes as Candid's `blob`, from SplitMix64: the same seed gives the same bytes.
    pub(super) fn random_bytes(&mut self) -> Vec<u8> {
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
