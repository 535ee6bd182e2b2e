//! Evaluates the expressions that unwind tables use where a register and an offset are not enough: signal frames, linkage
//! stubs, functions with realigned stacks.

use super::bytes::ByteCursor;
use super::cfi::Expression;

const STACK: usize = 32;
const MOST_STEPS: usize = 256;

/// The value of an expression whose stack begins with `first`, if given. `register` and `read` may return `None`.
pub fn evaluate(
    expression: &Expression,
    first: Option<u64>,
    mut register: impl FnMut(usize) -> Option<u64>,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let end = expression.start.checked_add(u64::from(expression.length))?;
    let mut code = ByteCursor::new(expression.start, end)?;
    let mut stack = Stack { values: [0; STACK], depth: 0 };
    if let Some(first) = first {
        stack.push(first)?;
    }
    for _ in 0..MOST_STEPS {
        let Some(operation) = code.u8() else { return stack.pop() };
        let value = match operation {
            0x03 => code.u64()?,
            // deref
            0x06 => read(stack.pop()?)?,
            0x08 => u64::from(code.u8()?),
            0x09 => code.u8()? as i8 as u64,
            0x0a => u64::from(code.u16()?),
            0x0b => code.u16()? as i16 as u64,
            0x0c => u64::from(code.u32()?),
            0x0d => code.u32()? as i32 as u64,
            0x0e | 0x0f => code.u64()?,
            0x10 => code.uleb()?,
            0x11 => code.sleb()? as u64,
            // dup, drop, over, pick, swap, rot
            0x12 => stack.pick(0)?,
            0x13 => {
                stack.pop()?;
                continue;
            }
            0x14 => stack.pick(1)?,
            0x15 => stack.pick(usize::from(code.u8()?))?,
            0x16 => {
                let (top, second) = (stack.pop()?, stack.pop()?);
                stack.push(top)?;
                second
            }
            0x19 => (stack.pop()? as i64).wrapping_abs() as u64,
            0x1f => (stack.pop()? as i64).wrapping_neg() as u64,
            0x20 => !stack.pop()?,
            0x1a | 0x1b | 0x1c | 0x1d | 0x1e | 0x21 | 0x22 | 0x24..=0x27 | 0x29..=0x2e => {
                let (top, second) = (stack.pop()?, stack.pop()?);
                binary(operation, second, top)?
            }
            0x23 => stack.pop()?.wrapping_add(code.uleb()?),
            // bra, skip: forwards or backwards; bounded by the steps
            0x28 | 0x2f => {
                let distance = code.u16()? as i16 as u64;
                if operation == 0x2f || stack.pop()? != 0 {
                    let target = code.position().wrapping_add(distance);
                    if target < expression.start || target > end {
                        return None;
                    }
                    code = ByteCursor::new(target, end)?;
                }
                continue;
            }
            0x30..=0x4f => u64::from(operation - 0x30),
            0x70..=0x8f => {
                let base = register(usize::from(operation - 0x70))?;
                base.wrapping_add(code.sleb()? as u64)
            }
            0x92 => {
                let base = register(code.uleb()? as usize)?;
                base.wrapping_add(code.sleb()? as u64)
            }
            0x96 => continue,
            _ => return None,
        };
        stack.push(value)?;
    }
    None
}

fn binary(operation: u8, left: u64, right: u64) -> Option<u64> {
    let (signed_left, signed_right) = (left as i64, right as i64);
    Some(match operation {
        0x1a => left & right,
        0x1b => signed_left.checked_div(signed_right)? as u64,
        0x1c => left.wrapping_sub(right),
        0x1d => left.checked_rem(right)?,
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x22 => left.wrapping_add(right),
        0x24 => left.checked_shl(u32::try_from(right).ok()?).unwrap_or(0),
        0x25 => left.checked_shr(u32::try_from(right).ok()?).unwrap_or(0),
        0x26 => (signed_left >> right.min(63)) as u64,
        0x27 => left ^ right,
        0x29 => u64::from(left == right),
        0x2a => u64::from(signed_left >= signed_right),
        0x2b => u64::from(signed_left > signed_right),
        0x2c => u64::from(signed_left <= signed_right),
        0x2d => u64::from(signed_left < signed_right),
        0x2e => u64::from(left != right),
        _ => return None,
    })
}

struct Stack {
    values: [u64; STACK],
    depth: usize,
}

impl Stack {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.depth)? = value;
        self.depth += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.depth = self.depth.checked_sub(1)?;
        Some(self.values[self.depth])
    }

    fn pick(&self, below_top: usize) -> Option<u64> {
        Some(self.values[self.depth.checked_sub(1)?.checked_sub(below_top)?])
    }
}
