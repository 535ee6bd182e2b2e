//! The canister itself and its environment: its principal, cycles, time, timer, certified data, prints and traps.

use super::MessageMode;
use super::functions::{Context, SystemCallResult};
use super::messages::wide;
use crate::engine::Trap;

/// The principal of the subnet: there is none, but its length is right.
const SUBNET: [u8; 29] = [0; 29];
/// The longest certified data.
const LONGEST_CERTIFIED: u64 = 32;

pub fn id_size(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.id.len() as u64))
}

pub fn id_copy(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let id = context.system.id.clone();
    context.copy(&id, numbers[0], numbers[1], numbers[2])
}

/// Always 1: running.
pub fn status(_: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(1))
}

pub fn version(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.version))
}

pub fn cycles(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(u64::try_from(context.system.settings.cycles).unwrap_or(u64::MAX)))
}

pub fn cycles_wide(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let cycles = context.system.settings.cycles;
    context.write_wide(numbers[0], cycles)
}

pub fn burn(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let burnt = wide(numbers[0], numbers[1]).min(context.system.settings.cycles);
    context.system.settings.cycles -= burnt;
    context.write_wide(numbers[2], burnt)
}

pub fn subnet_size(_: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(SUBNET.len() as u64))
}

pub fn subnet_copy(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    context.copy(&SUBNET, numbers[0], numbers[1], numbers[2])
}

/// Always 1: every caller counts as a controller.
pub fn is_controller(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    context.bytes(numbers[0], numbers[1])?;
    Ok(Some(1))
}

pub fn is_replicated(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(u64::from(!matches!(context.system.message.mode, MessageMode::Query | MessageMode::CompositeQuery))))
}

pub fn time(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.time_ns))
}

pub fn set_timer(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    Ok(Some(std::mem::replace(&mut context.system.settings.timer_ns, numbers[0])))
}

/// Returns how often it was called, instead of instructions: those depend on the engine, and would be in images, because runtimes store them.
pub fn performance(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    if numbers[0] > 1 {
        return Err(Trap(format!("there is no performance counter {}", numbers[0])));
    }
    context.system.performance += 1;
    Ok(Some(context.system.performance))
}

pub fn certify(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    if numbers[1] > LONGEST_CERTIFIED {
        return Err(Trap(format!("certified data are longer than {LONGEST_CERTIFIED} bytes")));
    }
    context.system.settings.certified = context.bytes(numbers[0], numbers[1])?.to_vec();
    Ok(None)
}

pub fn has_certificate(_: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(0))
}

/// Traps: this host cannot certify data.
pub fn certificate(_: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Err(Trap("there is no certificate".into()))
}

pub fn print(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let text = context.bytes(numbers[0], numbers[1])?.to_vec();
    context.system.print(&text);
    Ok(None)
}

pub fn trap(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    Err(Trap(String::from_utf8_lossy(context.bytes(numbers[0], numbers[1])?).into_owned()))
}
