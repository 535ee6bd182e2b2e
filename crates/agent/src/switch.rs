//! The switch that every hook reads. It lies on a page that the kernel wipes on fork: a forked child finds it zero, whatever kind of fork made it.

use crate::private_memory::{self, AreaUse};
use crate::sys;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What a process does with its allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AgentMode {
    /// Not decided yet: the process has just started, or was just forked.
    New = 0,
    /// Records nothing.
    Off = 1,
    /// Records every allocation.
    Exact = 2,
    /// Records a sample of the allocations.
    Sampled = 3,
}

/// The page that the kernel wipes on fork.
#[repr(C)]
struct Switch {
    mode: AtomicU32,
}

static FIRST_SWITCH: Switch = Switch { mode: AtomicU32::new(0) };
static SWITCH: AtomicPtr<Switch> = AtomicPtr::new((&raw const FIRST_SWITCH).cast_mut());

/// The mode of this process.
#[inline(always)]
pub fn mode() -> AgentMode {
    // SAFETY: points to a switch at all times.
    match unsafe { (*SWITCH.load(Ordering::Relaxed)).mode.load(Ordering::Relaxed) } {
        0 => AgentMode::New,
        2 => AgentMode::Exact,
        3 => AgentMode::Sampled,
        _ => AgentMode::Off,
    }
}

/// Changes the mode.
pub fn set_mode(mode: AgentMode) {
    // SAFETY: as above.
    unsafe { (*SWITCH.load(Ordering::Relaxed)).mode.store(mode as u32, Ordering::Release) };
}

/// Moves the switch to a page that the kernel wipes on fork.
pub fn prepare_switch() -> bool {
    const PAGE: usize = 4096;
    if SWITCH.load(Ordering::Relaxed) != (&raw const FIRST_SWITCH).cast_mut() {
        return true;
    }
    let Some(page) = private_memory::take(PAGE, AreaUse::Various) else { return false };
    if !sys::wipe_on_fork(page, PAGE) {
        return false;
    }
    SWITCH.store(page.cast(), Ordering::Release);
    true
}
