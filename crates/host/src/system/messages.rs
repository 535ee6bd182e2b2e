//! The current message and its answer: `msg_*`, `accept_message`.

use super::functions::{Context, SystemCallResult};
use super::{CANISTER_REJECT, CanisterResponse};
use crate::engine::Trap;

/// The longest reply, somewhat more than on the Internet Computer.
const LONGEST_REPLY: usize = 4 << 20;

pub fn argument_size(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.message.argument.len() as u64))
}

pub fn argument_copy(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let argument = std::mem::take(&mut context.system.message.argument);
    let copied = context.copy(&argument, numbers[0], numbers[1], numbers[2]);
    context.system.message.argument = argument;
    copied
}

pub fn caller_size(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.message.caller.len() as u64))
}

pub fn caller_copy(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let caller = context.system.message.caller.clone();
    context.copy(&caller, numbers[0], numbers[1], numbers[2])
}

pub fn method_size(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.message.method.len() as u64))
}

pub fn method_copy(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let method = context.system.message.method.clone();
    context.copy(method.as_bytes(), numbers[0], numbers[1], numbers[2])
}

pub fn accept(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    if std::mem::replace(&mut context.system.message.is_accepted, true) {
        return Err(Trap("accepts the message twice".into()));
    }
    Ok(None)
}

fn must_be_unanswered(context: &Context<'_>) -> Result<(), Trap> {
    let message = &context.system.message;
    if message.is_answered || message.response.is_some() {
        return Err(Trap("answers a call twice".into()));
    }
    Ok(())
}

pub fn reply_append(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    must_be_unanswered(context)?;
    let part = context.bytes(numbers[0], numbers[1])?.to_vec();
    let reply = &mut context.system.message.reply;
    if reply.len() + part.len() > LONGEST_REPLY {
        return Err(Trap(format!("the reply is longer than {LONGEST_REPLY} bytes")));
    }
    reply.extend(part);
    Ok(None)
}

pub fn reply(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    must_be_unanswered(context)?;
    let message = &mut context.system.message;
    message.response = Some(CanisterResponse::Reply(std::mem::take(&mut message.reply)));
    message.cycles_available = 0;
    Ok(None)
}

pub fn reject(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    must_be_unanswered(context)?;
    let text = String::from_utf8_lossy(context.bytes(numbers[0], numbers[1])?).into_owned();
    let message = &mut context.system.message;
    message.response = Some(CanisterResponse::Reject { code: CANISTER_REJECT, message: text });
    message.cycles_available = 0;
    Ok(None)
}

pub fn reject_code(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.message.reject.as_ref().map_or(0, |(code, _)| u64::from(*code))))
}

fn reject_text(context: &Context<'_>) -> String {
    context.system.message.reject.as_ref().map_or_else(String::new, |(_, text)| text.clone())
}

pub fn reject_size(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(reject_text(context).len() as u64))
}

pub fn reject_copy(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let text = reject_text(context);
    context.copy(text.as_bytes(), numbers[0], numbers[1], numbers[2])
}

/// Always 0: no call has a deadline, because all are answered as soon as possible.
pub fn deadline(_: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(0))
}

fn narrow(cycles: u128) -> SystemCallResult {
    u64::try_from(cycles).map(Some).map_err(|_| Trap("the amount of cycles does not fit into 64 bits".into()))
}

/// 128 bits from their two halves.
pub fn wide(high: u64, low: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

pub fn cycles_available(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    narrow(context.system.message.cycles_available)
}

pub fn cycles_available_wide(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let cycles = context.system.message.cycles_available;
    context.write_wide(numbers[0], cycles)
}

pub fn cycles_refunded(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    narrow(context.system.message.cycles_refunded)
}

pub fn cycles_refunded_wide(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let cycles = context.system.message.cycles_refunded;
    context.write_wide(numbers[0], cycles)
}

fn take_cycles(context: &mut Context<'_>, most: u128) -> u128 {
    let taken = most.min(context.system.message.cycles_available);
    context.system.message.cycles_available -= taken;
    context.system.settings.cycles = context.system.settings.cycles.saturating_add(taken);
    taken
}

pub fn cycles_accept(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    narrow(take_cycles(context, u128::from(numbers[0])))
}

pub fn cycles_accept_wide(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let taken = take_cycles(context, wide(numbers[0], numbers[1]));
    context.write_wide(numbers[2], taken)
}
