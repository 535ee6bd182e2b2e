//! Unwinding with all registers: for the rare function whose frame is found through a register other than the stack or
//! frame pointer. Starts where it is called, so that every register is known, and walks out through the agent's own frames.

use crate::unwind::cfi::{self, BP, BX, CfaRule, RA, REGISTERS, RegisterRule, SP};
use crate::unwind::expression;
use crate::unwind::frame_pointer;
use crate::unwind::memory::StackWindow;
use crate::unwind::objects;
use crate::unwind::walk::FrameState;
use core::arch::asm;

/// The registers of one frame, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub struct Registers([Option<u64>; REGISTERS]);

impl Registers {
    /// The registers here. Registers that the calling function has saved are found like all others.
    #[inline(always)]
    pub fn here() -> Self {
        let (bx, bp, sp, r12, r13, r14, r15, pc): (u64, u64, u64, u64, u64, u64, u64, u64);
        // SAFETY: only reads registers.
        unsafe {
            asm!(
                "mov {bx}, rbx", "mov {bp}, rbp", "mov {sp}, rsp", "lea {pc}, [rip]",
                bx = out(reg) bx, bp = out(reg) bp, sp = out(reg) sp, pc = out(reg) pc,
                options(nostack, nomem, preserves_flags)
            );
            asm!(
                "mov {r12}, r12", "mov {r13}, r13", "mov {r14}, r14", "mov {r15}, r15",
                r12 = out(reg) r12, r13 = out(reg) r13, r14 = out(reg) r14, r15 = out(reg) r15,
                options(nostack, nomem, preserves_flags)
            );
        }
        let mut registers = [None; REGISTERS];
        let known = [(BX, bx), (BP, bp), (SP, sp), (12, r12), (13, r13), (14, r14), (15, r15), (RA, pc + 1)];
        for (register, value) in known {
            registers[register] = Some(value);
        }
        Self(registers)
    }

    /// The part of the frame that the usual walk knows.
    pub fn state(&self) -> Option<FrameState> {
        Some(FrameState { pc: self.0[RA]?, sp: self.0[SP]?, bp: self.0[BP].unwrap_or(0) })
    }

    /// The frame of the caller; `None` if there is none or it cannot be found.
    pub fn caller(&self, window: &StackWindow) -> Option<Self> {
        let address = self.0[RA]?.wrapping_sub(1);
        let object = objects::find(address);
        // SAFETY: the tables of a loaded module.
        let Some(row) = object.as_ref().and_then(|object| unsafe { cfi::row_at(&object.tables, address) }) else {
            frame_pointer::rule_at(address, object.as_ref())?;
            return self.caller_by_frame_pointer(window);
        };
        let known = |register: usize| self.0.get(register).copied().flatten();
        let read = |address: u64| window.word(address);
        let cfa = match row.cfa {
            CfaRule::Register(register, offset) => known(register)?.wrapping_add(offset as u64),
            CfaRule::Expression(expression) => expression::evaluate(&expression, None, known, read)?,
        };
        let mut caller = [None; REGISTERS];
        for (register, rule) in row.registers.iter().enumerate() {
            caller[register] = match rule {
                RegisterRule::Same => known(register),
                RegisterRule::Undefined => None,
                RegisterRule::At(offset) => window.word(cfa.wrapping_add(*offset as u64)),
                RegisterRule::Is(offset) => Some(cfa.wrapping_add(*offset as u64)),
                RegisterRule::Register(other) => known(*other),
                RegisterRule::AtExpression(at) => expression::evaluate(at, Some(cfa), known, read).and_then(read),
                RegisterRule::IsExpression(is) => expression::evaluate(is, Some(cfa), known, read),
            };
        }
        let pc = caller[RA].filter(|&pc| pc != 0)?;
        // A return address lies after the call; the address of an interrupted instruction does not.
        caller[RA] = Some(if row.signal { pc + 1 } else { pc });
        Some(Self(caller))
    }

    /// The frame of the caller of code without tables. Such code may have changed all registers but these.
    fn caller_by_frame_pointer(&self, window: &StackWindow) -> Option<Self> {
        let FrameState { pc, sp, bp } = frame_pointer::step(self.0[SP]?, self.0[BP]?, window)?;
        let mut caller = [None; REGISTERS];
        [(RA, pc), (SP, sp), (BP, bp)].into_iter().for_each(|(register, value)| caller[register] = Some(value));
        (pc != 0).then_some(Self(caller))
    }
}
