//! Stable memory: `stable_*` and `stable64_*`. Addresses of 32 bits are already widened.

use super::functions::{Context, SystemCallResult};
use crate::engine::Trap;

/// The most pages that 32-bit addresses can reach.
const MOST_NARROW: u64 = 1 << 16;

pub fn size(context: &mut Context<'_>, _: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.stable.pages()))
}

pub fn grow(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let stable = &mut context.system.stable;
    if stable.pages().saturating_add(numbers[0]) > MOST_NARROW {
        return Ok(Some(u64::MAX));
    }
    Ok(Some(stable.grow(numbers[0]).unwrap_or(u64::MAX)))
}

pub fn grow_wide(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    Ok(Some(context.system.stable.grow(numbers[0]).unwrap_or(u64::MAX)))
}

fn beyond() -> Trap {
    Trap("an address beyond the end of stable memory".into())
}

pub fn read(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let &[address, offset, length] = numbers else { return Err(beyond()) };
    context.bytes(address, length)?;
    let target = &mut context.memory[address as usize..(address + length) as usize];
    context.system.stable.read(offset, target).ok_or_else(beyond)?;
    Ok(None)
}

pub fn write(context: &mut Context<'_>, numbers: &[u64]) -> SystemCallResult {
    let &[offset, address, length] = numbers else { return Err(beyond()) };
    context.bytes(address, length)?;
    let bytes = &context.memory[address as usize..(address + length) as usize];
    context.system.stable.write(offset, bytes).ok_or_else(beyond)?;
    Ok(None)
}
