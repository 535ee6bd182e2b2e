//! One call stack, walked without a session: for a program that measures its own allocations.
//!
//! Nothing is remembered but rules. They are in a cache of their own: an address in the session's cache has announced its module, and nothing here
//! announces any.

use super::frame_pointer;
use super::memory::StackWindow;
use super::objects;
use super::rules::{Rule, RuleCache};
use super::walk::{self, FrameState};
use crate::arch::registers::Registers;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};

static RULES: RuleCache = RuleCache::new();
/// The number of modules that had been unloaded when the cache was last known to be right.
static UNLOADED: AtomicU64 = AtomicU64::new(0);

/// Prepares for walks; false if there is no memory. A module that is unloaded after this call, and replaced by another one at the same address, is walked by
/// the old rules until the next call: the stack may then be cut, and is never read outside of its memory.
pub fn prepare() -> bool {
    objects::prepare();
    if !RULES.prepare() {
        return false;
    }
    let unloaded = objects::unload_count();
    if UNLOADED.swap(unloaded, Ordering::Relaxed) != unloaded {
        RULES.forget();
    }
    true
}

/// The window of the calling thread's stack.
pub fn window_of_this_thread() -> StackWindow {
    StackWindow::of_this_thread(sys::thread_id() == sys::process_id())
}

/// Writes the return addresses of the calling thread, innermost first, and returns how many there are. The first ones lie in here. If there are more than fit,
/// the outermost ones are left out. [`prepare`] has succeeded; the window is the calling thread's.
#[inline(never)]
pub fn call_stack(window: &StackWindow, frames: &mut [u64]) -> usize {
    let registers = Registers::here();
    let Some(at) = registers.state() else { return 0 };
    window.reach(at.sp);
    by_rules(at, window, frames).unwrap_or_else(|| by_registers(registers, window, frames))
}

/// Walks by the rules; `None` if a frame needs registers that rules do not follow.
fn by_rules(at: FrameState, window: &StackWindow, frames: &mut [u64]) -> Option<usize> {
    let (mut at, mut assumed) = (at, false);
    for (count, frame) in frames.iter_mut().enumerate() {
        *frame = at.pc;
        let known = RULES.get(at.pc);
        let Some(rule) = known.or_else(|| learn(at.pc, assumed, window)) else {
            // Where a frame pointer led to no code, there is no frame.
            return Some(if assumed { count } else { count + 1 });
        };
        if rule.is_outermost() {
            return Some(count + 1);
        }
        if !rule.is_simple() {
            return None;
        }
        assumed = rule.is_assumed();
        match caller(&at, rule, window) {
            Some(next) if next.pc != 0 => at = next,
            _ => return Some(count + 1),
        }
    }
    Some(frames.len())
}

fn learn(pc: u64, assumed: bool, window: &StackWindow) -> Option<Rule> {
    let mut is_in_module = false;
    let rule = walk::read_rule(pc, assumed, window, |_| is_in_module = true)?;
    if is_in_module {
        RULES.put(pc, rule);
    }
    Some(rule)
}

/// The caller's state by a simple rule.
fn caller(at: &FrameState, rule: Rule, window: &StackWindow) -> Option<FrameState> {
    if rule.is_assumed() {
        return frame_pointer::step(at.sp, at.bp, window);
    }
    let cfa = rule.cfa(at.sp, at.bp);
    if cfa <= at.sp {
        return None;
    }
    let saved = rule.saved_bp();
    let bp = if saved == 0 { at.bp } else { window.word(cfa.wrapping_sub(saved))? };
    Some(FrameState { pc: window.word(cfa - 8)?, sp: cfa, bp })
}

/// Walks with all registers.
#[cold]
fn by_registers(registers: Registers, window: &StackWindow, frames: &mut [u64]) -> usize {
    let mut next = Some(registers);
    let mut count = 0;
    while let Some((frame, registers)) = frames.get_mut(count).zip(next) {
        let Some(at) = registers.state() else { break };
        *frame = at.pc;
        count += 1;
        next = registers.caller(window);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn at_depth(depth: usize, frames: &mut [u64], window: &StackWindow) -> [usize; 2] {
        if depth > 0 {
            return core::hint::black_box(at_depth(depth - 1, frames, window));
        }
        let by_rules = call_stack(window, frames);
        let mut others = [0; 256];
        let registers = Registers::here();
        let by_registers = by_registers(registers, window, &mut others);
        // The two innermost frames are those of the two walks.
        assert_eq!(frames[2..by_rules], others[1..by_registers]);
        [by_rules, by_registers]
    }

    #[test]
    fn both_walks_find_the_same_frames_at_every_depth() {
        assert!(prepare());
        let window = window_of_this_thread();
        let mut frames = [0; 256];
        let [shallow, _] = at_depth(0, &mut frames, &window);
        for depth in 1..20 {
            assert_eq!(at_depth(depth, &mut frames, &window)[0], shallow + depth);
        }
        assert_eq!(call_stack(&window, &mut frames[..3]), 3, "the outermost frames are left out");
    }
}
