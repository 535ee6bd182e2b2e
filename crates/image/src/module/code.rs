//! Function bodies, as far as they show where data is.

use super::reader::Reader;

/// An instruction that the lenses use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// A constant is pushed.
    Constant(i64),
    /// A function is called.
    Call(u64),
    /// A local is pushed.
    LocalGet(u64),
    /// A local is set.
    LocalSet(u64),
    /// A global is pushed.
    GlobalGet(u64),
    /// Memory is written, at an offset from the address.
    Store {
        /// The offset.
        offset: u64,
    },
    /// Any other instruction.
    Other,
}

/// The instructions of a body, up to the first unknown one.
pub struct Instructions<'a> {
    body: Reader<'a>,
}

impl<'a> Instructions<'a> {
    /// The instructions of a body in the code section.
    pub fn of(body: &'a [u8]) -> Option<Self> {
        let mut body = Reader::new(body);
        for _ in 0..body.number()? {
            body.number()?;
            body.byte()?;
        }
        Some(Self { body })
    }

    fn read(&mut self) -> Option<Instruction> {
        let body = &mut self.body;
        let opcode = body.byte()?;
        Some(match opcode {
            0x41 | 0x42 => Instruction::Constant(body.signed()?),
            0x10 | 0x12 => Instruction::Call(body.number()?),
            0x20 => Instruction::LocalGet(body.number()?),
            0x21 => Instruction::LocalSet(body.number()?),
            0x23 => Instruction::GlobalGet(body.number()?),
            0x36..=0x3e => {
                body.number()?;
                Instruction::Store { offset: body.number()? }
            }
            _ => {
                skip(opcode, body)?;
                Instruction::Other
            }
        })
    }
}

impl Iterator for Instructions<'_> {
    type Item = Instruction;

    fn next(&mut self) -> Option<Instruction> {
        if self.body.is_empty() { None } else { self.read() }
    }
}

/// Skips the operands of an instruction.
fn skip(opcode: u8, body: &mut Reader<'_>) -> Option<()> {
    match opcode {
        // Blocks have a type.
        0x02..=0x04 => drop(body.signed()?),
        0x0c | 0x0d | 0x22 | 0x24..=0x26 | 0x3f | 0x40 | 0xd2 => drop(body.number()?),
        0x0e => {
            for _ in 0..=body.number()? {
                body.number()?;
            }
        }
        0x11 | 0x13 | 0x28..=0x35 => {
            body.number()?;
            body.number()?;
        }
        0x1c => {
            for _ in 0..body.number()? {
                body.byte()?;
            }
        }
        0x43 => drop(body.bytes(4)?),
        0x44 => drop(body.bytes(8)?),
        0xd0 => drop(body.signed()?),
        0xfc => match body.number()? {
            0..=7 => {}
            8 | 10 | 12 | 14 => {
                body.number()?;
                body.number()?;
            }
            9 | 11 | 13 | 15..=17 => drop(body.number()?),
            _ => return None,
        },
        0x00 | 0x01 | 0x05 | 0x0b | 0x0f | 0x1a | 0x1b | 0x45..=0xc4 | 0xd1 => {}
        _ => return None,
    }
    Some(())
}
