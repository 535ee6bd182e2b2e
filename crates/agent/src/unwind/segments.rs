//! Walks stacks that have little in common with the last one: several frames at a time.
//!
//! If a program jumps between deep stacks, [`Remembered`](super::walk::Remembered) finds no common frames, and each frame takes a rule, a word of the stack
//! that depends on it, and a node: one after the other. But most runs of frames were met before. A *segment* is a run of a few frames with the words that were
//! read from one to the next. It is stored relative to its stack pointer, so that it holds wherever the run is met. To recognize one, its words are compared: their
//! offsets are known beforehand, so that the processor reads them all at once.
//!
//! A segment that holds leads to the same frames as the rules would: the rules depend on the return addresses alone, and all words that they read are compared.
//! A lookup by a hash gives a guess, which is compared like any other.
//!
//! A segment's frames have one node for each node outside of them. That is cached as well (*joins*), so that nodes are looked up once per segment and not per frame.

use super::memory::StackWindow;
use super::rules::{self, Rule};
use super::walk::FrameState;
use crate::private_memory::{self, AreaUse};
use crate::session::Session;
use crate::trie;

/// The maximum number of frames of a segment.
const MOST_FRAMES: usize = 12;
/// The maximum number of words of a segment: a return address for each frame, and the frame pointers that decide where others lie.
const MOST_WORDS: usize = 16;
const SEGMENTS: usize = 1 << 12;
const GUESSES: usize = 1 << 13;
const JOINS: usize = 1 << 16;
/// The maximum number of segments of a stack. A deeper stack is walked frame by frame.
const MOST_SEGMENTS: usize = 64;

/// What comes after a segment's frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// Another frame.
    Frame,
    /// Nothing: it is the outermost one of the stack.
    Nothing,
}

/// Consecutive frames of a stack, and the words by which they are recognized.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct StackSegment {
    /// The return address into its innermost frame.
    pc: u64,
    /// Return addresses first, from the inside out; frame pointers, less the stack pointer, after them.
    values: [u64; MOST_WORDS],
    /// Their offsets: words above the stack pointer.
    offsets: [u16; MOST_WORDS],
    /// The frame pointer less the stack pointer, if it matters.
    bp: u64,
    /// Distinguishes it from all other segments that were ever stored in this slot.
    serial: u32,
    bp_matters: bool,
    after: After,
    frames: u8,
    addresses: u8,
    words: u8,
    /// Where the frame pointer for the frames outside of it was saved, plus one; 0 if it is unchanged.
    saved_bp: u16,
    /// Words above the stack pointer to the end of the last return address, which lies above all others.
    reach: u32,
    /// The segment that followed it the last time.
    next: u16,
}

/// The node of a segment's innermost frame, if its outermost one was called by `parent`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Join {
    parent: u32,
    serial: u32,
    node: u32,
}

/// A thread's segments, and the indexes by which they are found.
#[repr(C)]
struct SegmentTables {
    segments: [StackSegment; SEGMENTS],
    /// By the innermost frame and its caller: a segment that began in the same way, and so has its words at likely offsets. 0 is none.
    alike: [u16; GUESSES],
    /// By the words at the offsets of another segment that began in the same way: the segment found there. 0 is none.
    exact: [u16; GUESSES],
    joins: [Join; JOINS],
}

/// The segments that a thread knows. Takes memory when it is first used.
pub struct Segments {
    tables: *mut SegmentTables,
    next: usize,
    serial: u32,
    /// The innermost segment of the last stack.
    first: u16,
}

/// Where a segment was looked for in vain.
struct Tried {
    start: usize,
    slots: [usize; MOST_TRIES],
    count: usize,
}

const MOST_TRIES: usize = 3;

/// A stack that was put together from segments.
pub struct SegmentedStack {
    /// Its node.
    pub node: u32,
    /// The node that its innermost segment stands on.
    pub ground: u32,
}

impl StackSegment {
    /// Reads a word.
    ///
    /// SAFETY: the word lies in the thread's window.
    #[inline(always)]
    unsafe fn word(&self, index: usize, sp: u64) -> u64 {
        // SAFETY: the caller's.
        unsafe { ((sp + u64::from(self.offsets[index]) * 8) as *const u64).read_volatile() }
    }

    /// How far above the stack pointer the last of its words ends.
    #[inline(always)]
    fn reach(&self) -> u64 {
        u64::from(self.reach) * 8
    }

    /// Whether the frames at a state are those of this segment.
    #[inline(always)]
    fn holds(&self, at: &FrameState, window: &StackWindow) -> bool {
        if self.pc != at.pc
            || (self.bp_matters && self.bp != at.bp.wrapping_sub(at.sp))
            || !window.spans(at.sp, at.sp.saturating_add(self.reach()))
        {
            return false;
        }
        let (addresses, words) = (usize::from(self.addresses).min(MOST_WORDS), usize::from(self.words).min(MOST_WORDS));
        // SAFETY: no word lies beyond the reach, which is in the window.
        unsafe {
            (0..addresses).all(|index| self.word(index, at.sp) == self.values[index])
                && (addresses..words).all(|index| self.word(index, at.sp).wrapping_sub(at.sp) == self.values[index])
        }
    }

    /// The state after its frames, if it holds.
    #[inline(always)]
    fn end(&self, at: &FrameState) -> FrameState {
        // A segment that another frame follows has a return address.
        let last = usize::from(self.addresses).wrapping_sub(1) % MOST_WORDS;
        let bp = match self.saved_bp {
            0 => at.bp,
            // SAFETY: below the last return address, and so in the window.
            offset => unsafe { ((at.sp + u64::from(offset - 1) * 8) as *const u64).read_volatile() },
        };
        FrameState { pc: self.values[last], sp: at.sp + self.reach(), bp }
    }

    /// A hash that segments with the same words share, computed from the words at a stack pointer.
    ///
    /// SAFETY: the words lie in the thread's window.
    #[inline(always)]
    unsafe fn hash_at(&self, at: &FrameState) -> usize {
        let mut sum = at.pc;
        for (index, factor) in FACTORS.iter().enumerate().take(usize::from(self.addresses)) {
            // Each word has its own factor, so that no multiplication waits for another.
            // SAFETY: the caller's.
            sum = sum.wrapping_add(unsafe { self.word(index, at.sp) }.wrapping_mul(*factor));
        }
        (sum.wrapping_mul(MULTIPLIER) >> 40) as usize % GUESSES
    }
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTORS: [u64; MOST_FRAMES] = {
    let mut factors = [1; MOST_FRAMES];
    let mut index = 1;
    while index < MOST_FRAMES {
        factors[index] = u64::wrapping_mul(factors[index - 1], 0xd134_2543_de82_ef95);
        index += 1;
    }
    factors
};

#[inline(always)]
fn hash_of_start(pc: u64, caller: u64) -> usize {
    ((pc ^ caller.rotate_left(23)).wrapping_mul(MULTIPLIER) >> 40) as usize % GUESSES
}

/// Segments end at these return addresses, once they have a few frames: so that stacks that meet reach the same segments.
#[inline(always)]
fn is_boundary(pc: u64) -> bool {
    pc.wrapping_mul(MULTIPLIER) >> 62 == 0
}

const FEW_FRAMES: u8 = 6;

impl Segments {
    /// Without any segments.
    pub const fn new() -> Self {
        Self { tables: core::ptr::null_mut(), next: 0, serial: 0, first: 0 }
    }

    /// Forgets everything: addresses have a new meaning now.
    pub fn forget(&mut self) {
        self.first = 0;
        if !self.tables.is_null() {
            // SAFETY: the tables are there, and only this thread uses them. Zero is a valid guess: none.
            unsafe {
                (&raw mut (*self.tables).alike).write_bytes(0, 1);
                (&raw mut (*self.tables).exact).write_bytes(0, 1);
            }
        }
    }

    /// The stack that begins at a state in the thread's own window; `None` if it cannot be put together from segments.
    pub fn walk(&mut self, at: FrameState, window: &StackWindow, session: &Session) -> Option<SegmentedStack> {
        let (met, count) = self.segments(at, window)?;
        let (mut node, mut ground) = (trie::ROOT, trie::ROOT);
        for index in met[..count].iter().rev() {
            ground = node;
            node = self.join(node, *index, session);
        }
        Some(SegmentedStack { node, ground })
    }

    /// The segments of a stack, from the inside out, and their number.
    #[inline(always)]
    fn segments(&mut self, at: FrameState, window: &StackWindow) -> Option<([u16; MOST_SEGMENTS], usize)> {
        if self.tables.is_null() {
            self.tables = private_memory::take(size_of::<SegmentTables>(), AreaUse::Various)?.cast();
        }
        let mut met = [0u16; MOST_SEGMENTS];
        let mut count = 0;
        let (mut state, mut guess) = (at, self.first);
        loop {
            // SAFETY: the guess is an index of a segment.
            let is_guessed = guess != 0 && unsafe { (*self.tables).segments[usize::from(guess)].holds(&state, window) };
            let index = if is_guessed { guess } else { self.segment_at(&state, window)? };
            if !is_guessed {
                let link = match met[..count].last() {
                    // SAFETY: an index of a segment.
                    Some(last) => unsafe { &mut (*self.tables).segments[usize::from(*last)].next },
                    None => &mut self.first,
                };
                *link = index;
            }
            *met.get_mut(count)? = index;
            count += 1;
            // SAFETY: an index of a segment.
            let segment = unsafe { &(*self.tables).segments[usize::from(index)] };
            if segment.after == After::Nothing {
                break;
            }
            state = segment.end(&state);
            guess = segment.next;
        }
        Some((met, count))
    }

    /// The segment of the frames at a state; made if it is new.
    #[inline(always)]
    fn segment_at(&mut self, at: &FrameState, window: &StackWindow) -> Option<u16> {
        let rule = rules::get(at.pc)?;
        let caller = if rule.is_simple() {
            let cfa = rule.cfa(at.sp, at.bp);
            let is_sound = cfa > at.sp && cfa & 7 == 0 && window.spans(at.sp, cfa);
            // SAFETY: the word lies in the window.
            is_sound.then(|| unsafe { ((cfa - 8) as *const u64).read_volatile() })?
        } else if rule.is_outermost() {
            0
        } else {
            return None;
        };
        let start = hash_of_start(at.pc, caller);
        let mut tried = Tried { start, slots: [0; MOST_TRIES], count: 0 };
        // SAFETY: the tables are there; the guesses are indexes of segments.
        unsafe {
            let tables = &*self.tables;
            let mut guess = tables.alike[start];
            while guess != 0 {
                let segment = &tables.segments[usize::from(guess)];
                if segment.holds(at, window) {
                    return Some(guess);
                }
                if tried.count == MOST_TRIES || !window.spans(at.sp, at.sp.saturating_add(segment.reach())) {
                    break;
                }
                let slot = segment.hash_at(at);
                tried.slots[tried.count] = slot;
                tried.count += 1;
                let next = tables.exact[slot];
                guess = if next == guess { 0 } else { next };
            }
        }
        self.make(at, window, &tried)
    }

    /// Walks the frames at a state by their rules, and stores them as a segment.
    #[cold]
    fn make(&mut self, at: &FrameState, window: &StackWindow, tried: &Tried) -> Option<u16> {
        let mut segment = StackSegment {
            pc: at.pc,
            values: [0; MOST_WORDS],
            offsets: [0; MOST_WORDS],
            bp: at.bp.wrapping_sub(at.sp),
            serial: 0,
            bp_matters: false,
            after: After::Frame,
            frames: 0,
            addresses: 0,
            words: 0,
            saved_bp: 0,
            reach: 0,
            next: 0,
        };
        let FrameState { mut pc, mut sp, mut bp } = *at;
        // Frame pointers that decided where a frame lies, and where they were saved.
        let (mut pointers, mut pointer_count) = ([(0u16, 0u64); MOST_WORDS], 0);
        let mut is_noted = true;
        loop {
            let rule = rules::get(pc)?;
            segment.frames += 1;
            if rule.is_outermost() {
                segment.after = After::Nothing;
                break;
            }
            if rule.goes_by_bp() {
                match segment.saved_bp {
                    0 => segment.bp_matters = true,
                    offset if !is_noted => {
                        *pointers.get_mut(pointer_count)? = (offset - 1, bp.wrapping_sub(at.sp));
                        pointer_count += 1;
                        is_noted = true;
                    }
                    _ => {}
                }
            }
            let next = self.step(rule, FrameState { pc, sp, bp }, window)?;
            let offset_of = |address: u64| u16::try_from((address - at.sp) / 8).ok();
            segment.values[usize::from(segment.addresses)] = next.pc;
            segment.offsets[usize::from(segment.addresses)] = offset_of(next.sp - 8)?;
            segment.reach = u32::from(segment.offsets[usize::from(segment.addresses)]) + 1;
            segment.addresses += 1;
            if rule.saved_bp() != 0 {
                // The offset plus one: 0 means that none was saved.
                segment.saved_bp = offset_of(next.sp - rule.saved_bp())?.checked_add(1)?;
                is_noted = false;
            }
            FrameState { pc, sp, bp } = next;
            if pc == 0 {
                if rule.is_assumed() {
                    return None;
                }
                segment.after = After::Nothing;
                break;
            }
            let is_full = usize::from(segment.frames) == MOST_FRAMES
                || usize::from(segment.addresses) + pointer_count + 2 > MOST_WORDS
                || (segment.frames >= FEW_FRAMES && is_boundary(pc));
            if is_full {
                break;
            }
        }
        segment.words = segment.addresses;
        for (offset, value) in &pointers[..pointer_count] {
            let index = usize::from(segment.words);
            (*segment.offsets.get_mut(index)?, *segment.values.get_mut(index)?) = (*offset, *value);
            segment.words += 1;
        }
        Some(self.keep(segment, at, tried))
    }

    /// A step by a simple rule, in the window.
    fn step(&self, rule: Rule, FrameState { sp, bp, .. }: FrameState, window: &StackWindow) -> Option<FrameState> {
        let (cfa, saved) = (rule.is_simple().then(|| rule.cfa(sp, bp))?, rule.saved_bp());
        let is_sound = cfa > sp && cfa & 7 == 0 && cfa.checked_sub(saved)? >= sp && window.spans(sp, cfa);
        // SAFETY: both words lie in the window.
        is_sound.then(|| unsafe {
            let bp = if saved == 0 { bp } else { ((cfa - saved) as *const u64).read_volatile() };
            FrameState { pc: ((cfa - 8) as *const u64).read_volatile(), sp: cfa, bp }
        })
    }

    fn keep(&mut self, mut segment: StackSegment, at: &FrameState, tried: &Tried) -> u16 {
        if self.serial == u32::MAX {
            // Joins of this serial may still be there.
            // SAFETY: the tables are there. No segment has the serial 0.
            unsafe { (&raw mut (*self.tables).joins).write_bytes(0, 1) };
            self.serial = 0;
        }
        self.serial += 1;
        segment.serial = self.serial;
        // The first one is never used: 0 stands for none.
        self.next = self.next % (SEGMENTS - 1) + 1;
        // SAFETY: the tables are there; the words of the segment were just read.
        unsafe {
            let tables = &mut *self.tables;
            tables.segments[self.next] = segment;
            // An earlier segment with the same beginning stays the first guess: others are likely to have their words at its offsets.
            let alike = &mut tables.alike[tried.start];
            if *alike == 0 || tables.segments[usize::from(*alike)].pc != at.pc {
                *alike = self.next as u16;
            }
            for slot in tried.slots[..tried.count].iter().copied().chain([segment.hash_at(at)]) {
                tables.exact[slot] = self.next as u16;
            }
        }
        self.next as u16
    }

    /// The node of a segment that was called from `parent`.
    #[inline(always)]
    fn join(&mut self, parent: u32, index: u16, session: &Session) -> u32 {
        // SAFETY: the tables are there, and the index is that of a segment.
        unsafe {
            let tables = &mut *self.tables;
            let segment = &tables.segments[usize::from(index)];
            let mixed = (u64::from(parent) << 32 | u64::from(segment.serial)).wrapping_mul(MULTIPLIER);
            let slot = (mixed >> 40) as usize % JOINS;
            for slot in [slot, slot ^ 1] {
                let join = &tables.joins[slot];
                if join.serial == segment.serial && join.parent == parent {
                    return join.node;
                }
            }
            let mut node = parent;
            for frame in (0..usize::from(segment.frames).min(MOST_FRAMES)).rev() {
                let pc = if frame == 0 { segment.pc } else { segment.values[frame - 1] };
                node = trie::intern(session, node, pc, node + 1);
            }
            let pair = &mut tables.joins[slot & !1..][..2];
            // The older one of the two is replaced.
            pair.swap(0, 1);
            pair[0] = Join { parent, serial: segment.serial, node };
            node
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::super::cfi::{BP, CfaRule, CfiRow, RA, RegisterRule, SP};
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const FUNCTIONS: u64 = 40;
    const WORDS: usize = 4096;

    /// A function as the compiler describes it: where its frame ends, counted from the stack or frame pointer, and whether it saves the latter.
    #[derive(Clone, Copy)]
    struct Function {
        pc: u64,
        by_frame_pointer: bool,
        words: u64,
        saved: Option<u64>,
    }

    impl Function {
        fn of(number: u64) -> Self {
            let kind = number % 4;
            Self {
                pc: 0x5555_0000_0005 + number * 0x40,
                by_frame_pointer: kind == 2,
                words: 3 + number % 9,
                saved: (kind != 0).then_some(2 + number % 2),
            }
        }

        fn rule(&self) -> Rule {
            let base = if self.by_frame_pointer { BP } else { SP };
            let mut row = CfiRow {
                cfa: CfaRule::Register(base, self.words as i64 * 8),
                registers: [RegisterRule::Same; 17],
                signal: false,
            };
            row.registers[RA] = RegisterRule::At(-8);
            row.registers[SP] = RegisterRule::Is(0);
            if let Some(saved) = self.saved {
                row.registers[BP] = RegisterRule::At(-8 * saved as i64);
            }
            Rule::of(&row)
        }
    }

    /// Memory with a stack in it, the state in its innermost frame, and the return addresses into all frames.
    struct Stack {
        memory: Vec<u64>,
        at: FrameState,
        frames: Vec<u64>,
    }

    impl Stack {
        /// The frames of these functions, from the inside out, in memory that earlier stacks have used: old return addresses lie everywhere. Random
        /// choices come from `noise`.
        fn of(functions: &[u64], lowest: usize, noise: u64, mut memory: Vec<u64>) -> Self {
            let base = memory.as_ptr() as u64;
            let mut at = FrameState { pc: 0, sp: base + lowest as u64 * 8, bp: noise };
            let (mut sp, mut frames) = (at.sp, Vec::new());
            // The function that decides the frame pointer's value, and whether that is settled.
            let (mut holder, mut is_settled) = (None, false);
            let mut last_address = None;
            for (index, number) in functions.iter().enumerate() {
                let mut function = Function::of(*number);
                if function.by_frame_pointer && is_settled {
                    // It would need a frame pointer other than that of a frame inside of it.
                    function = Function::of(number - 2);
                }
                let extra = if function.by_frame_pointer { (noise >> (index % 32)) % 2 } else { 0 };
                let end = sp + (function.words + extra) * 8;
                if (end - base) / 8 >= WORDS as u64 {
                    break;
                }
                if function.by_frame_pointer {
                    let bp = end - function.words * 8;
                    match holder {
                        Some(word) => memory[word] = bp,
                        None => at.bp = bp,
                    }
                    is_settled = true;
                }
                match last_address {
                    Some(word) => memory[word] = function.pc,
                    None => at.pc = function.pc,
                }
                if let Some(saved) = function.saved {
                    (holder, is_settled) = (Some(((end - base) / 8 - saved) as usize), false);
                }
                last_address = Some(((end - base) / 8 - 1) as usize);
                frames.push(function.pc);
                sp = end;
            }
            if let Some(word) = last_address {
                memory[word] = 0;
            }
            Self { memory, at, frames }
        }

        fn window(&self) -> StackWindow {
            let low = self.memory.as_ptr() as u64;
            StackWindow::over(low, low + WORDS as u64 * 8)
        }
    }

    impl Segments {
        /// The return addresses of all frames.
        fn frames(&mut self, stack: &Stack) -> Option<Vec<u64>> {
            let window = stack.window();
            let (met, count) = self.segments(stack.at, &window)?;
            let mut frames = Vec::new();
            for index in &met[..count] {
                // SAFETY: an index of a segment.
                let segment = unsafe { &(*self.tables).segments[usize::from(*index)] };
                frames.push(segment.pc);
                frames.extend(&segment.values[..usize::from(segment.frames) - 1]);
            }
            Some(frames)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Stacks that have more or less in common, at different addresses, are all found correctly.
        #[test]
        fn a_stack_of_segments_has_the_frames_of_the_stack(
            first in prop::collection::vec(0..FUNCTIONS, 1..120),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..FUNCTIONS, 0usize..3, any::<u64>()), 1..300),
        ) {
            assert!(rules::prepare());
            for function in (0..FUNCTIONS).map(Function::of) {
                rules::put(function.pc, function.rule());
            }
            let mut segments = Segments::new();
            let mut functions = first;
            let mut memory = vec![0; WORDS];
            for (index, other, lowest, noise) in changes {
                let index = index.index(functions.len());
                functions[index] = other;
                let stack = Stack::of(&functions, lowest, noise, memory);
                prop_assert_eq!(segments.frames(&stack), Some(stack.frames.clone()));
                // The same once more: now it is cached.
                prop_assert_eq!(segments.frames(&stack), Some(stack.frames.clone()));
                if noise % 50 == 0 {
                    segments.forget();
                }
                memory = stack.memory;
            }
        }
    }

    #[test]
    fn what_no_rule_is_known_for_or_lies_outside_the_window_is_left_to_others() {
        assert!(rules::prepare());
        let function = Function::of(4);
        rules::put(function.pc, function.rule());
        let mut segments = Segments::new();
        let stack = Stack::of(&[4, 4, 4, 4], 0, 7, vec![0; WORDS]);
        assert_eq!(segments.frames(&stack), Some(vec![function.pc; 4]));
        let unknown =
            Stack { at: FrameState { pc: 0x7777_0000_0001, ..stack.at }, ..Stack::of(&[4], 0, 7, vec![0; WORDS]) };
        assert_eq!(segments.frames(&unknown), None);
        let high = stack.memory.as_ptr() as u64 + WORDS as u64 * 8;
        let outside = Stack { at: FrameState { sp: high - 8, ..stack.at }, ..stack };
        assert_eq!(segments.frames(&outside), None);
    }
}
