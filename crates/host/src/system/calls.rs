//! Calls that a canister makes: `call_*`. They are sent when the message has ended well.

use super::functions::{Context, SystemCallResult};
use super::messages::wide;
use super::{Closure, Outgoing};
use crate::engine::Trap;

/// The most calls that one message may make.
const MOST_CALLS: usize = 500;
/// The longest argument.
const LONGEST_ARGUMENT: usize = 4 << 20;

fn draft<'a>(context: &'a mut Context<'_>) -> Result<&'a mut Outgoing, Trap> {
    context.system.message.draft.as_mut().ok_or_else(|| Trap("no call was begun".into()))
}

pub fn begin(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    drop_draft(context);
    let callee = context.bytes(numbers[0], numbers[1])?.to_vec();
    let method = String::from_utf8_lossy(context.bytes(numbers[2], numbers[3])?).into_owned();
    context.system.message.draft = Some(Outgoing {
        callee,
        method,
        argument: Vec::new(),
        on_reply: Closure { function: numbers[4], environment: numbers[5] },
        on_reject: Closure { function: numbers[6], environment: numbers[7] },
        on_cleanup: None,
        cycles: 0,
    });
    Ok(None)
}

/// Drops a call that was begun and not made: its cycles are returned.
fn drop_draft(context: &mut Context<'_>) {
    if let Some(draft) = context.system.message.draft.take() {
        context.system.settings.cycles += draft.cycles;
    }
}

pub fn on_cleanup(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let draft = draft(context)?;
    if draft.on_cleanup.is_some() {
        return Err(Trap("the call has a cleanup already".into()));
    }
    draft.on_cleanup = Some(Closure { function: numbers[0], environment: numbers[1] });
    Ok(None)
}

pub fn append(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let part = context.bytes(numbers[0], numbers[1])?.to_vec();
    let argument = &mut draft(context)?.argument;
    if argument.len() + part.len() > LONGEST_ARGUMENT {
        return Err(Trap(format!("the argument of a call is longer than {LONGEST_ARGUMENT} bytes")));
    }
    argument.extend(part);
    Ok(None)
}

fn attach(context: &mut Context<'_>, cycles: u128) -> SystemCallResult {
    draft(context)?;
    let left = context.system.settings.cycles.checked_sub(cycles);
    context.system.settings.cycles = left.ok_or_else(|| Trap("has not that many cycles".into()))?;
    draft(context)?.cycles += cycles;
    Ok(None)
}

pub fn add_cycles(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    attach(context, u128::from(numbers[0]))
}

pub fn add_cycles_wide(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    attach(context, wide(numbers[0], numbers[1]))
}

/// Sets no timeout: every call is answered before it would end.
pub fn best_effort(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    draft(context).map(|_| None)
}

pub fn perform(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    draft(context)?;
    if context.system.message.sent.len() >= MOST_CALLS {
        drop_draft(context);
        return Ok(Some(2));
    }
    let call = context.system.message.draft.take();
    context.system.message.sent.extend(call);
    Ok(Some(0))
}
