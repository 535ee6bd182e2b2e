//! Following the stack, and remembering it.
//!
//! A [`State`] is what is known in a frame: the return address into it, and the stack and frame pointer it will have
//! after that return. The rule for the address turns it into the caller's state, reading a word or two of the stack. So
//! a state and the words that were read decide everything further out. A thread keeps the states of its last stack,
//! with the words read on the way from each to the next ("checks"). The next time it walks only until it comes to
//! a state that it remembers, and compares the remembered words from there outwards: if they are what they were, the
//! rest of the stack is what it was, and so is its node in the trie. This is exact, not a heuristic: walking on would read
//! the same words and apply the same rules.
//!
//! Invariants: `frames[0]` is the outermost; stack pointers fall from one to the next; `frames[i].checks` is how many of
//! the checks, from the first on, belong to the frames `0 ..= i`; every check lies in the thread's own window.

use super::cfi::{self, BP, CfaRule, RA, RegisterRule, SP};
use super::expression;
use super::full::Registers;
use super::memory::Window;
use super::objects;
use super::rules::{self, Rule};
use crate::session::Session;
use crate::{modules, sys, trie};

/// A frame, seen from the one it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// The return address into it, or one more than the address at which it was interrupted.
    pub pc: u64,
    /// Its stack pointer after the return.
    pub sp: u64,
    /// Its frame pointer register.
    pub bp: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Frame {
    state: State,
    node: u32,
    checks: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Check {
    slot: u64,
    value: u64,
}

/// A frame that was walked now: `checks` is the end of its checks among the new ones.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fresh {
    state: State,
    checks: u32,
}

/// The deepest stack that is stored whole.
pub const DEEPEST: usize = 1 << 17;
const FIRST_DEPTH: usize = 1 << 10;
/// Checks of one frame, at the most.
const MOST_CHECKS: usize = 8;
/// Room for checks, on average per frame.
const CHECKS_PER_FRAME: usize = 3;

/// What a thread remembers of its stack.
pub struct Remembered {
    frames: *mut Frame,
    checks: *mut Check,
    fresh: *mut Fresh,
    fresh_checks: *mut Check,
    room: usize,
    length: usize,
}

/// What a step found beside the caller's state.
struct Step {
    next: Option<State>,
    /// It depends on more than the state and the checks.
    unsure: bool,
}

impl Remembered {
    /// Takes memory for a stack of the usual depth.
    pub fn new() -> Option<Self> {
        let mut new = Self {
            frames: core::ptr::null_mut(),
            checks: core::ptr::null_mut(),
            fresh: core::ptr::null_mut(),
            fresh_checks: core::ptr::null_mut(),
            room: 0,
            length: 0,
        };
        new.grow(FIRST_DEPTH).then_some(new)
    }

    /// Forgets the stack, for instance because its addresses mean something else now.
    pub fn forget(&mut self) {
        self.length = 0;
    }

    #[cold]
    fn grow(&mut self, room: usize) -> bool {
        let bytes = |room: usize| {
            [
                room * size_of::<Frame>(),
                room * CHECKS_PER_FRAME * size_of::<Check>(),
                room * size_of::<Fresh>(),
                room * CHECKS_PER_FRAME * size_of::<Check>(),
            ]
        };
        let parts = bytes(room);
        let Some(memory) = sys::map_private(parts.iter().sum()) else { return false };
        let old_parts = bytes(self.room);
        let old = [self.frames.cast::<u8>(), self.checks.cast(), self.fresh.cast(), self.fresh_checks.cast()];
        let mut new = [memory; 4];
        for index in 1..4 {
            // SAFETY: within the new mapping.
            new[index] = unsafe { new[index - 1].add(parts[index - 1]) };
        }
        if self.room > 0 {
            for index in 0..4 {
                // SAFETY: the new part is longer than the old one.
                unsafe { core::ptr::copy_nonoverlapping(old[index], new[index], old_parts[index]) };
            }
            // SAFETY: everything was copied.
            unsafe { sys::unmap(old[0], old_parts.iter().sum()) };
        }
        (self.frames, self.checks, self.fresh, self.fresh_checks) =
            (new[0].cast(), new[1].cast(), new[2].cast(), new[3].cast());
        self.room = room;
        true
    }

    /// The trie's node for the stack that begins at `at`.
    #[inline]
    pub fn walk(&mut self, at: State, window: &Window, session: &Session) -> u32 {
        // The same stack again: nothing to walk.
        if self.length > 0 {
            // SAFETY: `length` frames are there.
            let innermost = unsafe { *self.frames.add(self.length - 1) };
            if innermost.state == at && self.first_change(0, innermost.checks as usize).is_none() {
                return innermost.node;
            }
        }
        self.walk_on(at, window, session)
    }

    /// The first check from `first` on, and before `end`, that does not hold any more.
    #[inline]
    fn first_change(&self, first: usize, end: usize) -> Option<usize> {
        // SAFETY: `end` is a frame's count of checks; slots lie in the thread's window.
        (first..end).find(|&index| unsafe {
            let check = *self.checks.add(index);
            (check.slot as *const u64).read_volatile() != check.value
        })
    }

    fn walk_on(&mut self, at: State, window: &Window, session: &Session) -> u32 {
        let own_stack = window.reach(at.sp);
        let (mut state, mut walked, mut checks) = (at, 0, 0);
        // Frames that may still be met, checks known to hold, and frames that cannot be remembered.
        let (mut candidates, mut held, mut unsure) = (self.length, 0, 0);
        let mut whole = true;
        loop {
            // SAFETY: `candidates` is at most `length`.
            unsafe {
                while candidates > 0 && (*self.frames.add(candidates - 1)).state.sp < state.sp {
                    candidates -= 1;
                }
                if candidates > 0 {
                    let frame = *self.frames.add(candidates - 1);
                    if frame.state == state {
                        match self.first_change(held, frame.checks as usize) {
                            None => break,
                            Some(changed) => {
                                held = changed;
                                while candidates > 0 && (*self.frames.add(candidates - 1)).checks as usize > changed {
                                    candidates -= 1;
                                }
                            }
                        }
                    }
                }
            }
            let full = walked + 1 >= self.room || checks + MOST_CHECKS > self.room * CHECKS_PER_FRAME;
            if full && (self.room >= DEEPEST || !self.grow(self.room * 2)) {
                whole = false;
                candidates = 0;
                break;
            }
            let step = self.step(&state, window, session, at, &mut checks);
            if window.was_left() || step.as_ref().is_some_and(|step| step.unsure) {
                unsure = walked + 1;
            }
            // SAFETY: there is room for one more.
            unsafe { *self.fresh.add(walked) = Fresh { state, checks: checks as u32 } };
            walked += 1;
            match step.map(|step| step.next) {
                Some(Some(next)) => state = next,
                end => {
                    // Above a stack's beginning is nothing: the loader's first code has no tables.
                    whole = end.is_some() || window.is_beginning(state.sp);
                    candidates = 0;
                    break;
                }
            }
        }
        if !whole {
            session.count_cut_stack();
        }
        self.put_together(candidates, walked, unsure, whole, own_stack, session)
    }

    /// Puts the walked frames inside of the first `kept` remembered ones; the node of the whole.
    fn put_together(
        &mut self,
        kept: usize,
        walked: usize,
        unsure: usize,
        whole: bool,
        own_stack: bool,
        session: &Session,
    ) -> u32 {
        // SAFETY: `kept` is at most `length`, `walked` frames and their checks were written, and there is room for all.
        unsafe {
            let mut node = match kept {
                0 if whole => trie::ROOT,
                0 => trie::intern(session, trie::ROOT, trie::CUT),
                _ => (*self.frames.add(kept - 1)).node,
            };
            let mut remember = own_stack && kept + walked < self.room;
            let (mut length, mut checks) = (kept, if kept == 0 { 0 } else { (*self.frames.add(kept - 1)).checks });
            for index in (0..walked).rev() {
                let Fresh { state, checks: end } = *self.fresh.add(index);
                node = trie::intern(session, node, state.pc);
                let start = if index == 0 { 0 } else { (*self.fresh.add(index - 1)).checks };
                let enough = (checks + (end - start)) as usize <= self.room * CHECKS_PER_FRAME;
                remember &= index >= unsure && enough;
                if remember {
                    for check in start..end {
                        *self.checks.add(checks as usize) = *self.fresh_checks.add(check as usize);
                        checks += 1;
                    }
                    *self.frames.add(length) = Frame { state, node, checks };
                    length += 1;
                }
            }
            if own_stack {
                self.length = length;
            }
            node
        }
    }

    /// The step from a frame to its caller; `None` if it cannot be found. What was read is added to the new checks.
    #[inline(always)]
    fn step(
        &mut self,
        state: &State,
        window: &Window,
        session: &Session,
        start: State,
        checks: &mut usize,
    ) -> Option<Step> {
        let rule = match rules::get(state.pc) {
            Some(rule) => rule,
            None => learn(state.pc, session)?,
        };
        if !rule.is_simple() {
            if rule.is_outermost() {
                return Some(Step { next: None, unsure: false });
            }
            return self.complex_step(state, window, start, checks);
        }
        let cfa = rule.cfa(state.sp, state.bp);
        if cfa <= state.sp {
            return None;
        }
        let pc = self.read(cfa - 8, window, checks)?;
        let saved = rule.saved_bp();
        let bp = if saved == 0 { state.bp } else { self.read(cfa.wrapping_sub(saved), window, checks)? };
        let next = (pc != 0).then_some(State { pc, sp: cfa, bp });
        Some(Step { next, unsure: false })
    }

    /// Reads a word of the stack and notes what it was.
    #[inline(always)]
    fn read(&mut self, slot: u64, window: &Window, checks: &mut usize) -> Option<u64> {
        let value = window.word(slot)?;
        // SAFETY: the caller has made room for `MOST_CHECKS`.
        unsafe { *self.fresh_checks.add(*checks) = Check { slot, value } };
        *checks += 1;
        Some(value)
    }

    #[cold]
    fn complex_step(&mut self, state: &State, window: &Window, start: State, checks: &mut usize) -> Option<Step> {
        let before = *checks;
        if let Some(next) = self.step_by_tables(state, window, checks) {
            return Some(Step { next: (next.pc != 0).then_some(next), unsure: false });
        }
        *checks = before;
        // With all registers, from here outwards to that frame and one further.
        let mut registers = Registers::here();
        let mut found = false;
        for _ in 0..DEEPEST {
            let here = registers.state()?;
            found |= here.pc == start.pc && here.sp == start.sp;
            if found && here.pc == state.pc && here.sp == state.sp {
                let next = registers.caller(window).and_then(|caller| caller.state());
                return Some(Step { next, unsure: true });
            }
            registers = registers.caller(window)?;
        }
        None
    }

    /// A step that needs nothing but the stack and frame pointer, by the whole row.
    fn step_by_tables(&mut self, state: &State, window: &Window, checks: &mut usize) -> Option<State> {
        let address = state.pc.wrapping_sub(1);
        let object = objects::find(address)?;
        // SAFETY: the tables of a loaded module.
        let row = unsafe { cfi::row_at(&object.tables, address) }?;
        let known = |register: usize| match register {
            SP => Some(state.sp),
            BP => Some(state.bp),
            _ => None,
        };
        let last = *checks + MOST_CHECKS;
        let mut read = |slot: u64| if *checks < last { self.read(slot, window, checks) } else { None };
        let cfa = match row.cfa {
            CfaRule::Register(register, offset) => known(register)?.wrapping_add(offset as u64),
            CfaRule::Expression(expression) => expression::evaluate(&expression, None, known, &mut read)?,
        };
        let mut find = |register: usize| match row.registers[register] {
            RegisterRule::Same => known(register),
            RegisterRule::Undefined => (register == BP).then_some(state.bp),
            RegisterRule::At(offset) => read(cfa.wrapping_add(offset as u64)),
            RegisterRule::Is(offset) => Some(cfa.wrapping_add(offset as u64)),
            RegisterRule::Register(other) => known(other),
            RegisterRule::AtExpression(at) => {
                let slot = expression::evaluate(&at, Some(cfa), known, &mut read)?;
                read(slot)
            }
            RegisterRule::IsExpression(is) => expression::evaluate(&is, Some(cfa), known, &mut read),
        };
        let (pc, sp, bp) = (find(RA)?, find(SP)?, find(BP)?);
        // Return addresses stand behind the call; the address of an interrupted instruction does not.
        Some(State { pc: if row.signal { pc.wrapping_add(1) } else { pc }, sp, bp })
    }
}

/// Reads the tables for an address met for the first time, and makes its module known.
#[cold]
fn learn(pc: u64, session: &Session) -> Option<Rule> {
    let object = objects::find(pc.wrapping_sub(1))?;
    modules::announce(session, &object);
    // SAFETY: the tables of a loaded module.
    let row = unsafe { cfi::row_at(&object.tables, pc.wrapping_sub(1)) };
    let rule = match row {
        Some(row) => Rule::of(&row),
        // The function to which a coroutine returns at its end: its address was put there by hand, and no call stands before it.
        // SAFETY: as above.
        None if unsafe { cfi::begins_at(&object.tables, pc) } => Rule::OUTERMOST,
        None => return None,
    };
    rules::put(pc, rule);
    Some(rule)
}
