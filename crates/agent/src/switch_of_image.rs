//! The switch of an injected agent: a page of the image, which the attacher has made the kernel wipe on fork. Zero is off: a forked child has no shared memory.

use core::sync::atomic::{AtomicU64, Ordering};
use highwater_shm::attach_v1::{MODE_BEGIN, MODE_EXACT, MODE_OFF, MODE_SAMPLED, SwitchPage};

/// What the process does with its allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentMode {
    /// The attacher has asked for a session that has not begun.
    New,
    /// Records nothing.
    Off,
    /// Records every allocation.
    Exact,
    /// Records a sample of the allocations.
    Sampled,
}

/// The page. The attacher writes it from outside.
#[used]
#[unsafe(link_section = ".highwater.switch")]
pub static SWITCH: SwitchPage = SwitchPage { mode: AtomicU64::new(MODE_OFF) };

/// The page, by an address that needs no loader.
#[inline(always)]
fn switch() -> &'static SwitchPage {
    let switch: *const SwitchPage;
    // SAFETY: computes the address of the static, which other code sees as this type too.
    unsafe {
        core::arch::asm!("lea {0}, [rip + {1}]", out(reg) switch, sym SWITCH, options(pure, nomem, nostack, preserves_flags));
        &*switch
    }
}

/// The mode of this process.
#[inline(always)]
pub fn mode() -> AgentMode {
    match switch().mode.load(Ordering::Acquire) {
        MODE_BEGIN => AgentMode::New,
        MODE_EXACT => AgentMode::Exact,
        MODE_SAMPLED => AgentMode::Sampled,
        _ => AgentMode::Off,
    }
}

/// Changes the mode, unless the attacher has switched the agent off: then it stays off.
pub fn set_mode(mode: AgentMode) {
    let wanted = match mode {
        AgentMode::New => MODE_BEGIN,
        AgentMode::Off => MODE_OFF,
        AgentMode::Exact => MODE_EXACT,
        AgentMode::Sampled => MODE_SAMPLED,
    };
    let _ = switch().mode.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| (now != MODE_OFF).then_some(wanted));
}

/// The attacher has prepared the page.
pub fn prepare_switch() -> bool {
    true
}
