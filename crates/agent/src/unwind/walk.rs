//! Walking the stack, and remembering it.
//!
//! A [`FrameState`] is what is known in a frame: the return address into it, and the stack and frame pointer it will have
//! after that return. The rule for the address turns it into the caller's state, reading a word or two of the stack. So
//! a state and the words that were read decide everything further out. A thread keeps the states of its last stack,
//! with the words read on the way from each to the next ("checks"). The next walk stops at the first state
//! that the thread remembers, and compares the remembered words from there outwards. If they are unchanged, the
//! rest of the stack is unchanged, and so is its node in the trie. This is exact, not a heuristic: walking on would read
//! the same words and apply the same rules.
//!
//! The frame pointer is mostly an ordinary register, and then its value says nothing about the stack. It *matters* in a frame if the
//! frame's rule uses it, or leaves it unchanged for a caller in which it matters. Where it does not matter, neither the register is compared nor the word
//! from which it was read.
//!
//! Functions that allocate in several places, or call others that do, alternate between a few stacks that differ only in their innermost frames.
//! So the last few such *tips* are remembered too: the state they began in, the checks of their own frames, and how many of the remembered
//! frames they stand on. A tip goes when one of those is replaced.
//!
//! If a program jumps between deep stacks that have little in common, none of this helps: such stacks are put together from segments (`segments.rs`).
//!
//! Invariants: `frames[0]` is the outermost; stack pointers fall from one to the next; `frames[i].checks` is how many of
//! the checks, from the first on, belong to the frames `0 ..= i`; every check lies in the thread's own window.

use super::cfi::{self, BP, CfaRule, RA, RegisterRule, SP};
use super::expression;
use super::frame_pointer;
use super::memory::StackWindow;
use super::objects::{self, LoadedModule};
use super::rules::{self, Rule};
use super::segments::{SegmentedStack, Segments};
use crate::arch::registers::Registers;
use crate::private_memory::{self, AreaUse};
use crate::session::Session;
use crate::{modules, trie};

/// A frame, as seen from its callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FrameState {
    /// The return address into it, or one more than the address at which it was interrupted.
    pub pc: u64,
    /// Its stack pointer after the return.
    pub sp: u64,
    /// Its frame pointer register.
    pub bp: u64,
}

/// A frame of the remembered stack.
#[derive(Clone, Copy)]
#[repr(C)]
struct RememberedFrame {
    state: FrameState,
    node: u32,
    /// The number of checks, and in the highest bit whether the frame pointer matters.
    checks: u32,
}

const BP_MATTERS: u32 = 1 << 31;

impl RememberedFrame {
    #[inline(always)]
    fn checks(&self) -> usize {
        (self.checks & !BP_MATTERS) as usize
    }

    /// Whether a frame in this state has the same callers, if the checks hold.
    #[inline(always)]
    fn is(&self, pc: u64, sp: u64, bp: u64) -> bool {
        self.state.pc == pc && self.state.sp == sp && (self.checks & BP_MATTERS == 0 || self.state.bp == bp)
    }
}

/// A word of the stack that must still have its value.
#[derive(Clone, Copy)]
#[repr(C)]
struct FrameCheck {
    slot: u64,
    value: u64,
}

/// A frame of the current walk. The words that its rule read follow from it and the next frame's state, unless the rule is complex: then `checks` is
/// the end of its checks among the new ones.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fresh {
    state: FrameState,
    rule: Rule,
    checks: u32,
}

/// The innermost frames of a stack, on top of remembered ones.
#[derive(Clone, Copy)]
struct Tip {
    state: FrameState,
    bp_matters: bool,
    /// The number of remembered frames that it stands on, and the number of their checks; no tip if 0.
    kept: usize,
    kept_checks: usize,
    /// Its own checks, outermost first.
    checks: [FrameCheck; MOST_TIP_CHECKS],
    count: usize,
    node: u32,
}

const TIPS: usize = 8;
const MOST_TIP_CHECKS: usize = 6;

impl Tip {
    const NONE: Self = Self {
        state: FrameState { pc: 0, sp: 0, bp: 0 },
        bp_matters: false,
        kept: 0,
        kept_checks: 0,
        checks: [FrameCheck { slot: 0, value: 0 }; MOST_TIP_CHECKS],
        count: 0,
        node: 0,
    };

    /// Whether a stack that begins in this state ends in this tip, if the frames below the tip are unchanged.
    #[inline(always)]
    fn is(&self, at: &FrameState) -> bool {
        self.state.pc == at.pc
            && self.state.sp == at.sp
            && (!self.bp_matters || self.state.bp == at.bp)
            && self.kept > 0
            // SAFETY: the slots lie in the thread's window.
            && self.checks[..self.count].iter().rev().all(|check| unsafe { (check.slot as *const u64).read_volatile() } == check.value)
    }
}

/// A stack is strange, with little in common with the remembered one, if at least this number of its frames differ.
const STRANGE_FRAMES: usize = 16;
/// After this number of strange stacks in a row, stacks are put together from segments.
const STRANGE_STACKS: i32 = 2;
/// The number of strange stacks that are walked frame by frame after one that could not be put together from segments.
const NOT_TRIED: i32 = 64;

/// Below this address the kernel maps nothing. The cache of rules does not distinguish such addresses.
const LOWEST_CODE: u64 = 1 << 16;
/// The deepest stack that is stored whole.
pub const DEEPEST: usize = 1 << 17;
const FIRST_DEPTH: usize = 1 << 10;
/// The maximum number of checks of one frame.
const MOST_CHECKS: usize = 8;
/// Room for checks, on average per frame.
const CHECKS_PER_FRAME: usize = 3;

/// The stack that a thread remembers.
pub struct Remembered {
    frames: *mut RememberedFrame,
    checks: *mut FrameCheck,
    fresh: *mut Fresh,
    fresh_checks: *mut FrameCheck,
    room: usize,
    length: usize,
    /// The node of the last walked stack.
    last_node: u32,
    tips: [Tip; TIPS],
    next_tip: usize,
    segments: Segments,
    /// The number of strange stacks in a row; below zero while segments are not tried.
    strange: i32,
    /// For the last stack that was put together from segments: the node that its innermost segment stands on.
    ground: u32,
}

/// Where a walk ended.
struct WalkEnd {
    /// The number of frames walked.
    frames: usize,
    /// The number of remembered frames outside of them.
    kept: usize,
    /// The state after the last frame: that of the innermost kept frame, or one without a return address.
    end: FrameState,
    /// Frames with an index below this cannot be remembered: they depend on more than states and checks.
    unsure: usize,
    /// The walk reached the end of the stack.
    whole: bool,
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
            last_node: 0,
            tips: [Tip::NONE; TIPS],
            next_tip: 0,
            segments: Segments::new(),
            strange: 0,
            ground: 0,
        };
        new.grow(FIRST_DEPTH).then_some(new)
    }

    /// Forgets the stack, for instance because its addresses mean something else now.
    pub fn forget(&mut self) {
        self.length = 0;
        self.last_node = 0;
        self.tips = [Tip::NONE; TIPS];
        self.segments.forget();
    }

    #[cold]
    fn grow(&mut self, room: usize) -> bool {
        let bytes = |room: usize| {
            [
                room * size_of::<RememberedFrame>(),
                room * CHECKS_PER_FRAME * size_of::<FrameCheck>(),
                room * size_of::<Fresh>(),
                room * CHECKS_PER_FRAME * size_of::<FrameCheck>(),
            ]
        };
        let parts = bytes(room);
        let Some(memory) = private_memory::take(parts.iter().sum(), AreaUse::Various) else { return false };
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
            unsafe { private_memory::give_back(old[0], old_parts.iter().sum()) };
        }
        (self.frames, self.checks, self.fresh, self.fresh_checks) =
            (new[0].cast(), new[1].cast(), new[2].cast(), new[3].cast());
        self.room = room;
        true
    }

    /// The trie's node for the stack that begins at `at`.
    #[inline]
    pub fn walk(&mut self, at: FrameState, window: &StackWindow, session: &Session) -> u32 {
        let mut held = 0;
        // The same stack again: nothing to walk.
        if self.length > 0 {
            // SAFETY: `length` frames are there.
            let innermost = unsafe { &*self.frames.add(self.length - 1) };
            if innermost.is(at.pc, at.sp, at.bp) {
                match self.first_change(0, innermost.checks()) {
                    None => return innermost.node,
                    Some(changed) => held = changed,
                }
            }
        }
        if let Some(node) = self.tip(&at, held) {
            return node;
        }
        self.walk_on(at, held, window, session)
    }

    /// The node of a remembered tip that the stack has now; the first `held` checks are known to hold.
    #[inline(always)]
    fn tip(&self, at: &FrameState, held: usize) -> Option<u32> {
        for tip in &self.tips {
            if tip.is(at) && (tip.kept_checks <= held || self.first_change(held, tip.kept_checks).is_none()) {
                return Some(tip.node);
            }
        }
        None
    }

    /// Remembers the tip of `walked`, whose frames have just been put in place. Forgets tips that stood on replaced frames.
    fn remember_tip(&mut self, walked: &WalkEnd, length: usize, node: u32) {
        for tip in &mut self.tips {
            if tip.kept > walked.kept {
                tip.kept = 0;
            }
        }
        if walked.kept == 0 || length != walked.kept + walked.frames {
            return;
        }
        // SAFETY: `length` frames are there.
        let (innermost, ground) = unsafe { (&*self.frames.add(length - 1), &*self.frames.add(walked.kept - 1)) };
        let count = innermost.checks() - ground.checks();
        if count > MOST_TIP_CHECKS {
            return;
        }
        let tip = &mut self.tips[self.next_tip % TIPS];
        self.next_tip = self.next_tip.wrapping_add(1);
        for index in 0..count {
            // SAFETY: these are the innermost frame's last checks.
            tip.checks[index] = unsafe { *self.checks.add(ground.checks() + index) };
        }
        tip.state = innermost.state;
        tip.bp_matters = innermost.checks & BP_MATTERS != 0;
        (tip.kept, tip.kept_checks, tip.count, tip.node) = (walked.kept, ground.checks(), count, node);
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

    /// Walks a stack; the first `held` remembered checks are known to hold.
    fn walk_on(&mut self, at: FrameState, held: usize, window: &StackWindow, session: &Session) -> u32 {
        let own_stack = window.reach(at.sp);
        if self.strange >= STRANGE_STACKS && own_stack {
            match self.segments.walk(at, window, session) {
                Some(SegmentedStack { node, ground }) => {
                    if ground == self.ground {
                        // Stacks have much in common again: they are remembered from the next one on.
                        self.strange = 0;
                    }
                    self.ground = ground;
                    return node;
                }
                None => self.strange = -NOT_TRIED,
            }
        }
        let walked = self.follow(at, held, window, session);
        self.strange = match walked.frames >= STRANGE_FRAMES {
            true => self.strange.saturating_add(1),
            false => self.strange.min(0),
        };
        if !walked.whole {
            session.count_cut_stack();
        }
        self.put_together(&walked, own_stack, session)
    }

    /// Walks until it finds a remembered frame that still has the same callers, or the end of the stack.
    fn follow(&mut self, at: FrameState, mut held: usize, window: &StackWindow, session: &Session) -> WalkEnd {
        let FrameState { mut pc, mut sp, mut bp } = at;
        let (mut frames, mut checks, mut unsure) = (0, 0, 0);
        // Remembered frames that the walk may still meet.
        let mut kept = self.length;
        let end_at = |frames, unsure, whole, end| WalkEnd { frames, kept: 0, end, unsure, whole };
        loop {
            // SAFETY: `kept` is at most `length`.
            unsafe {
                while kept > 0 && (*self.frames.add(kept - 1)).state.sp < sp {
                    kept -= 1;
                }
                if kept > 0 && (*self.frames.add(kept - 1)).is(pc, sp, bp) {
                    match self.first_change(held, (*self.frames.add(kept - 1)).checks()) {
                        None => return WalkEnd { frames, kept, end: FrameState { pc, sp, bp }, unsure, whole: true },
                        Some(changed) => {
                            held = changed;
                            while kept > 0 && (*self.frames.add(kept - 1)).checks() > changed {
                                kept -= 1;
                            }
                        }
                    }
                }
            }
            let full = frames + 1 >= self.room || checks + MOST_CHECKS > self.room * CHECKS_PER_FRAME;
            if full && (self.room >= DEEPEST || !self.grow(self.room * 2)) {
                return end_at(frames, unsure, false, FrameState { pc, sp, bp });
            }
            let rule = match rules::get(pc) {
                Some(rule) => Some(rule),
                None => self.learn(frames, pc, window, session),
            };
            // SAFETY: there is room for one more. Written field by field: a struct that is assembled in memory first would have to be read back
            // before it is written.
            unsafe {
                let fresh = &mut *self.fresh.add(frames);
                fresh.state.pc = pc;
                fresh.state.sp = sp;
                fresh.state.bp = bp;
                // Where there is no rule, there is nothing to check.
                fresh.rule = rule.unwrap_or(Rule::OUTERMOST);
                fresh.checks = checks as u32;
            }
            frames += 1;
            let caller = match rule {
                Some(rule) if rule.is_simple() => {
                    let cfa = rule.cfa(sp, bp);
                    let saved = rule.saved_bp();
                    if cfa > sp && cfa & 7 == 0 && window.spans(cfa - saved.max(8), cfa) {
                        // SAFETY: within the window.
                        unsafe {
                            pc = ((cfa - 8) as *const u64).read_volatile();
                            if saved != 0 {
                                bp = ((cfa - saved) as *const u64).read_volatile();
                            }
                        }
                        sp = cfa;
                        if pc == 0 {
                            return self.end_without_caller(frames, unsure, sp, bp);
                        }
                        continue;
                    }
                    // On a stack other than the thread's own: it may not be mapped the next time.
                    unsure = frames;
                    Self::simple_elsewhere(sp, bp, rule, window)
                }
                Some(rule) if rule.is_outermost() => return end_at(frames, unsure, true, FrameState { pc: 0, sp, bp }),
                Some(_) => {
                    let caller =
                        self.complex_step(FrameState { pc, sp, bp }, window, at, &mut checks, frames, &mut unsure);
                    // SAFETY: just written.
                    unsafe { (*self.fresh.add(frames - 1)).checks = checks as u32 };
                    caller
                }
                None => None,
            };
            match caller {
                Some(next) if next.pc != 0 => FrameState { pc, sp, bp } = next,
                Some(end) => return self.end_without_caller(frames, unsure, end.sp, end.bp),
                None => return self.end_at_unknown_caller(frames, window),
            }
        }
    }

    /// The end of a walk after a frame whose return address is 0. A frame pointer alone does not prove that the stack ends there.
    #[cold]
    #[inline(never)]
    fn end_without_caller(&self, frames: usize, unsure: usize, sp: u64, bp: u64) -> WalkEnd {
        let whole = !self.is_assumed(frames);
        let end = FrameState { pc: 0, sp, bp };
        WalkEnd { frames, kept: 0, end, unsure: if whole { unsure } else { frames }, whole }
    }

    /// The end of a walk after a frame whose caller cannot be found.
    #[cold]
    #[inline(never)]
    fn end_at_unknown_caller(&self, frames: usize, window: &StackWindow) -> WalkEnd {
        // SAFETY: this frame was walked.
        let Fresh { state: at, rule, .. } = unsafe { *self.fresh.add(frames - 1) };
        // A frame without a rule counts as the outermost.
        let is_code = at.pc >= LOWEST_CODE && !rule.is_outermost();
        // If a frame pointer led to no code, that was not a frame.
        let frames = if is_code || !self.is_assumed(frames - 1) { frames } else { frames - 1 };
        // There is nothing above a stack's beginning: the loader's first code has no tables.
        let whole = window.is_beginning(at.sp);
        WalkEnd { frames, kept: 0, end: FrameState { pc: 0, ..at }, unsure: frames, whole }
    }

    /// The rule of an address that has none in the cache, after this number of walked frames.
    #[cold]
    #[inline(never)]
    fn learn(&self, frames: usize, pc: u64, window: &StackWindow, session: &Session) -> Option<Rule> {
        learn(pc, self.is_assumed(frames), window, session)
    }

    /// Whether the frame inside of a walked frame, which is counted from the innermost, led there by its frame pointer alone.
    fn is_assumed(&self, frame: usize) -> bool {
        // SAFETY: frames inside of a walked one were walked.
        frame > 0 && unsafe { (*self.fresh.add(frame - 1)).rule.is_assumed() }
    }

    /// Adds the walked frames to the remembered frames that were kept. Returns the node of the whole stack.
    fn put_together(&mut self, walked: &WalkEnd, own_stack: bool, session: &Session) -> u32 {
        let kept = walked.kept;
        // SAFETY: `kept` is at most `length`, the walked frames and their checks were written, and there is room for all.
        unsafe {
            let mut node = match kept {
                0 if walked.whole => trie::ROOT,
                0 => trie::intern(session, trie::ROOT, trie::CUT, 1),
                _ => (*self.frames.add(kept - 1)).node,
            };
            let mut remember = own_stack && kept + walked.frames < self.room;
            let (mut length, mut checks, mut matters) = (kept, 0, false);
            if kept > 0 {
                let outer = &*self.frames.add(kept - 1);
                (checks, matters) = (outer.checks(), outer.checks & BP_MATTERS != 0);
            }
            let mut caller = walked.end;
            // The node that was made after the last stack's node is often the one needed now: stacks recur in the order in which they were first met.
            let mut guess = self.last_node + 1;
            for index in (0..walked.frames).rev() {
                let Fresh { state, rule, checks: end } = *self.fresh.add(index);
                node = trie::intern(session, node, state.pc, guess);
                // A stack that was new once got all its nodes in a row.
                guess = node + 1;
                remember &= index >= walked.unsure && checks + MOST_CHECKS <= self.room * CHECKS_PER_FRAME;
                if remember {
                    if rule.is_simple() {
                        self.checks.add(checks).write(FrameCheck { slot: caller.sp - 8, value: caller.pc });
                        checks += 1;
                        let saved = rule.saved_bp();
                        if saved != 0 && matters {
                            self.checks.add(checks).write(FrameCheck { slot: caller.sp - saved, value: caller.bp });
                            checks += 1;
                        }
                        matters = rule.goes_by_bp() || (saved == 0 && matters);
                    } else if rule.is_outermost() {
                        matters = false;
                    } else {
                        let start = if index == 0 { 0 } else { (*self.fresh.add(index - 1)).checks };
                        for check in start..end {
                            *self.checks.add(checks) = *self.fresh_checks.add(check as usize);
                            checks += 1;
                        }
                        matters = true;
                    }
                    let bit = if matters { BP_MATTERS } else { 0 };
                    self.frames.add(length).write(RememberedFrame { state, node, checks: checks as u32 | bit });
                    length += 1;
                }
                caller = state;
            }
            if own_stack {
                self.length = length;
                self.remember_tip(walked, length, node);
            }
            self.last_node = node;
            node
        }
    }

    /// A step by a simple rule where reading the stack may need the kernel's check.
    #[cold]
    fn simple_elsewhere(sp: u64, bp: u64, rule: Rule, window: &StackWindow) -> Option<FrameState> {
        if rule.is_assumed() {
            return frame_pointer::step(sp, bp, window);
        }
        let cfa = rule.cfa(sp, bp);
        if cfa <= sp {
            return None;
        }
        let pc = window.word(cfa - 8)?;
        let saved = rule.saved_bp();
        let bp = if saved == 0 { bp } else { window.word(cfa.wrapping_sub(saved))? };
        Some(FrameState { pc, sp: cfa, bp })
    }

    /// Reads a word of the stack and remembers its value as a check.
    #[inline(always)]
    fn read(&mut self, slot: u64, window: &StackWindow, checks: &mut usize) -> Option<u64> {
        let value = window.word(slot)?;
        // SAFETY: the caller has made room for `MOST_CHECKS`.
        unsafe { *self.fresh_checks.add(*checks) = FrameCheck { slot, value } };
        *checks += 1;
        Some(value)
    }

    /// A step for which the tables must be read again; `frames` is the number of the frame it leaves, counted from one.
    #[cold]
    fn complex_step(
        &mut self,
        state: FrameState,
        window: &StackWindow,
        start: FrameState,
        checks: &mut usize,
        frames: usize,
        unsure: &mut usize,
    ) -> Option<FrameState> {
        if state.pc < LOWEST_CODE {
            return None;
        }
        let before = *checks;
        window.was_left();
        if let Some(next) = self.step_by_tables(&state, window, checks) {
            if window.was_left() {
                *unsure = frames;
            }
            return Some(next);
        }
        *checks = before;
        *unsure = frames;
        // With all registers, from here outwards to that frame and one further.
        let mut registers = Registers::here();
        let mut found = false;
        for _ in 0..DEEPEST {
            let here = registers.state()?;
            found |= here.pc == start.pc && here.sp == start.sp;
            if found && here.pc == state.pc && here.sp == state.sp {
                return match registers.caller(window) {
                    Some(caller) => caller.state(),
                    None => Some(FrameState { pc: 0, ..state }),
                };
            }
            registers = registers.caller(window)?;
        }
        None
    }

    /// A step that needs only the stack and frame pointer, by the whole row of the table.
    fn step_by_tables(&mut self, state: &FrameState, window: &StackWindow, checks: &mut usize) -> Option<FrameState> {
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
        // A return address lies after the call; the address of an interrupted instruction does not.
        Some(FrameState { pc: if row.signal { pc.wrapping_add(1) } else { pc }, sp, bp })
    }
}

/// Reads the tables for an address met for the first time, and announces its module. `assumed` says that the address was found by a frame pointer alone.
fn learn(pc: u64, assumed: bool, window: &StackWindow, session: &Session) -> Option<Rule> {
    let mut is_in_module = false;
    let rule = read_rule(pc, assumed, window, |object| {
        modules::announce(session, object);
        is_in_module = true;
    })?;
    // Elsewhere a module may be loaded later.
    if is_in_module {
        rules::put(pc, rule);
    }
    Some(rule)
}

/// The rule of an address by the tables of its module, which `in_module` is called with, or by the frame pointer if there are none.
pub(super) fn read_rule(
    pc: u64,
    assumed: bool,
    window: &StackWindow,
    in_module: impl FnOnce(&LoadedModule),
) -> Option<Rule> {
    let Some(object) = objects::find(pc.wrapping_sub(1)) else {
        // The stack itself has no code.
        return (!window.contains(pc)).then(|| frame_pointer::rule_at(pc.wrapping_sub(1), None))?;
    };
    // SAFETY: the tables of a loaded module.
    let row = unsafe { cfi::row_at(&object.tables, pc.wrapping_sub(1)) };
    if assumed && !frame_pointer::is_return_address(pc, row.is_some(), &object) {
        return None;
    }
    in_module(&object);
    match row {
        Some(row) => Some(Rule::of(&row)),
        // The function to which a coroutine returns at its end: its address was put there by hand, and no call precedes it.
        // SAFETY: as above.
        None if unsafe { cfi::begins_at(&object.tables, pc) } => Some(Rule::OUTERMOST),
        None => frame_pointer::rule_at(pc.wrapping_sub(1), Some(&object)),
    }
}
