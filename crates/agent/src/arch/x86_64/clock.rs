//! Stamps: ticks since the session began.

use crate::session::Session;
use crate::sys;
use core::arch::x86_64::{_mm_lfence, _rdtsc};

/// Ticks of the session's clock, not earlier than anything that the thread has seen.
///
/// Needed where the thread has just observed another thread's work, as by an allocation, which may return a block that another thread has freed:
/// the fence keeps the counter from being read before that. With only one thread it would cost ten nanoseconds for nothing;
/// and a thread that sees another thread's work also sees that there is one.
#[inline(always)]
pub fn now(session: &Session) -> u64 {
    if session.has_several_threads() && session.counts_ticks() {
        // SAFETY: an instruction of every x86-64 processor.
        unsafe { _mm_lfence() };
    }
    before_next(session)
}

/// Ticks of the session's clock, taken before other threads see anything that this thread does next: enough for a free, and cheaper.
#[inline(always)]
pub fn before_next(session: &Session) -> u64 {
    if session.counts_ticks() {
        // SAFETY: an instruction of every x86-64 processor; stores after it become visible after it was done.
        unsafe { _rdtsc().saturating_sub(session.start()) }
    } else {
        sys::monotonic_ns().saturating_sub(session.start())
    }
}
