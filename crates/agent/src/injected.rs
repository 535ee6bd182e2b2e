//! An agent that was injected into a running process.
//!
//! It is a flat image without imports (crate `inject`). The attacher has mapped it from outside and written an [`AttachHeader`] into it; everything else is in
//! an object that attacher and agent share. The agent opens no descriptor, maps nothing, and calls two functions of the process besides those that it hooks:
//! `_dl_find_object`, which takes no lock, and the kernel's clock. [`attach_v1`](highwater_shm::attach_v1) is the agreement.
//!
//! A hook begins with [`enter`]. The calls that an allocator makes to itself come to hooks as well: they find that the thread is inside, and pass on.
//!
//! Few system calls are made, and `attach` asks the program's seccomp filters about each before it hooks anything (`attach/src/seccomp.rs` lists them).

use crate::config::Config;
use crate::session::{self, AgentMode};
use crate::{clock, modules, tls};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use highwater_shm::attach_v1::{
    AttachHeader, AttachPage, ENDED_BY_FILTER, ENDED_BY_READER, ENDED_NO_READER, FLAG_CONTENTS, FLAG_COUNTER,
    FLAG_FREE_STACKS, FLAG_LIVE, FLAG_NO_ARGS, PASSING, RECORDING, ThreadSlot, UNKNOWN_FREES, UnknownFreeLog,
};

/// A thread looks at the reader's words once in this number of hooked calls: a power of two.
const CALLS_BETWEEN_LOOKS: u64 = 1024;

#[repr(transparent)]
struct HeaderCell(UnsafeCell<AttachHeader>);
// SAFETY: written from outside only, while the switch is off.
unsafe impl Sync for HeaderCell {}

#[used]
#[unsafe(link_section = ".highwater.header")]
// SAFETY: a header is numbers, for which zeros are valid.
static HEADER: HeaderCell = HeaderCell(UnsafeCell::new(unsafe { core::mem::zeroed() }));

/// The heartbeat that was seen last, and when it was seen first.
static HEARTBEAT: AtomicU64 = AtomicU64::new(0);
static HEARTBEAT_SINCE: AtomicU64 = AtomicU64::new(0);
static UNLOADS: AtomicU64 = AtomicU64::new(0);

/// What the attacher has written.
#[inline(always)]
pub fn header() -> &'static AttachHeader {
    let header: *const AttachHeader;
    // The compiler must not know which static this is: no code stores into it, so it would take the zeros for what is there.
    // SAFETY: computes an address.
    unsafe {
        core::arch::asm!("lea {0}, [rip + {1}]", out(reg) header, sym HEADER, options(pure, nomem, nostack, preserves_flags));
        &*header
    }
}

/// The words that a reader and this agent share.
#[inline(always)]
pub fn page() -> &'static AttachPage {
    // SAFETY: the object begins with it, and is mapped while the switch is on.
    unsafe { &*(header().shared as *const AttachPage) }
}

/// The image's own addresses: where its code is, and the table that unwinds it.
pub fn own_code() -> (core::ops::Range<u64>, u64) {
    let (start, end, tables): (u64, u64, u64);
    // SAFETY: computes addresses. The linker script defines the symbols.
    unsafe {
        core::arch::asm!(
            "lea {0}, [rip + highwater_image]",
            "lea {1}, [rip + highwater_data]",
            "lea {2}, [rip + highwater_eh_frame_hdr]",
            out(reg) start, out(reg) end, out(reg) tables,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    (start..end, tables)
}

/// A frame of the image on the calling thread's stack, until this is dropped: it is counted, since the image must stay mapped for as long as there is one. A real
/// function that is called below a frame must be called while this lives.
pub struct Frame(FrameKind);

enum FrameKind {
    /// Hooks record, or pass on, and the calls that the real function makes are passed on.
    Recording(&'static ThreadSlot),
    /// Calls that the real function makes are recorded.
    Passing(&'static ThreadSlot),
    /// The thread has a frame that is counted.
    Nested,
    /// The thread has no slot.
    Unslotted,
}

impl Frame {
    /// Whether the call is the program's own, in a thread with a slot: it may be recorded.
    #[inline(always)]
    pub fn may_record(&self) -> bool {
        matches!(self.0, FrameKind::Recording(_))
    }

    #[inline(always)]
    fn unslotted() -> Self {
        page().unslotted_frames.fetch_add(1, Ordering::Relaxed);
        Self(FrameKind::Unslotted)
    }
}

/// The calling thread enters a hook.
#[inline(always)]
pub fn enter() -> Frame {
    let Some(slot) = tls::slot() else {
        page().unslotted.fetch_add(1, Ordering::Relaxed);
        return Frame::unslotted();
    };
    let depth = slot.depth.load(Ordering::Relaxed);
    if depth & RECORDING != 0 {
        return Frame(FrameKind::Nested);
    }
    slot.depth.store(depth | 1, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let calls = slot.calls.load(Ordering::Relaxed).wrapping_add(1);
    slot.calls.store(calls, Ordering::Relaxed);
    tls::check_owner(slot, calls);
    if calls.is_multiple_of(CALLS_BETWEEN_LOOKS) {
        look_at_reader();
    }
    Frame(FrameKind::Recording(slot))
}

/// The calling thread calls a real function under which the program's calls are recorded.
pub fn pass() -> Frame {
    let Some(slot) = tls::slot() else { return Frame::unslotted() };
    slot.depth.store(slot.depth.load(Ordering::Relaxed) + PASSING, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    Frame(FrameKind::Passing(slot))
}

impl Drop for Frame {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        match self.0 {
            FrameKind::Recording(slot) => {
                slot.depth.store(slot.depth.load(Ordering::Relaxed) & !RECORDING, Ordering::Relaxed)
            }
            FrameKind::Passing(slot) => {
                slot.depth.store(slot.depth.load(Ordering::Relaxed).wrapping_sub(PASSING), Ordering::Relaxed)
            }
            FrameKind::Nested => (),
            FrameKind::Unslotted => {
                page().unslotted_frames.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// The program is about to install a seccomp filter, which may kill it for a call of ours. The agent ends: it makes no system call from then on.
#[cold]
pub fn end_before_filter() {
    if session::mode() == AgentMode::Off {
        return;
    }
    page().ended.store(ENDED_BY_FILTER, Ordering::Relaxed);
    session::end_before_filter();
}

/// Ends recording if the reader is gone or asks for it, and finds out about modules that were unloaded.
#[cold]
#[inline(never)]
fn look_at_reader() {
    if !matches!(session::mode(), AgentMode::Exact | AgentMode::Sampled) {
        return;
    }
    let (page, session) = (page(), session::session());
    if session.end_if_requested() {
        page.ended.store(ENDED_BY_READER, Ordering::Relaxed);
        return;
    }
    if !has_reader() {
        page.ended.store(ENDED_NO_READER, Ordering::Relaxed);
        return session.end();
    }
    let unloads = page.unloads.load(Ordering::Acquire);
    if UNLOADS.swap(unloads, Ordering::Relaxed) != unloads {
        modules::check_after_unload(session);
    }
}

/// Whether the heartbeat has changed lately.
pub fn has_reader() -> bool {
    let (page, now) = (page(), clock::before_next(session::session()));
    let patience = page.patience.load(Ordering::Relaxed);
    let beat = page.heartbeat.load(Ordering::Relaxed);
    // In this order: who sees the beat also sees a time that is not earlier than it.
    if HEARTBEAT.load(Ordering::Acquire) != beat {
        HEARTBEAT_SINCE.store(now, Ordering::Relaxed);
        HEARTBEAT.store(beat, Ordering::Release);
        return true;
    }
    patience == 0 || now.saturating_sub(HEARTBEAT_SINCE.load(Ordering::Relaxed)) <= patience
}

/// Begins the session that the attacher has asked for. Returns the new mode.
#[cold]
#[inline(never)]
pub fn begin() -> AgentMode {
    let mode = session::begin_attached(header(), page());
    HEARTBEAT.store(page().heartbeat.load(Ordering::Relaxed), Ordering::Relaxed);
    HEARTBEAT_SINCE.store(clock::before_next(session::session()), Ordering::Relaxed);
    mode
}

/// A block that is older than the live table is about to be freed, or was resized.
#[cold]
pub fn note_unknown_free(block: *mut u8, bytes: usize) {
    page().unknown_frees.fetch_add(1, Ordering::Relaxed);
    page().unknown_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    // SAFETY: the object has a log there, and is mapped while the switch is on.
    let log = unsafe { &*((header().shared + UNKNOWN_FREES) as *const UnknownFreeLog) };
    log.append(block as u64);
}

/// Whether there is a live table: only then an unknown free must be noted.
#[inline(always)]
pub fn has_table() -> bool {
    header().table != 0
}

/// A module may have been unloaded.
pub fn check_modules() {
    if matches!(session::mode(), AgentMode::Exact | AgentMode::Sampled) {
        modules::check_after_unload(session::session());
    }
}

/// The configuration that the header has. Recordings are lossy: a program that did not ask for us never waits for a reader.
pub fn configure(config: &Config, header: &AttachHeader) {
    let has = |flag: u64| header.flags & flag != 0;
    let wanted = if has(FLAG_LIVE) {
        Config::for_live(has(FLAG_COUNTER), header.sample_bytes, header.most_blocks, has(FLAG_CONTENTS), b"")
    } else {
        Config::for_ourselves(has(FLAG_COUNTER), header.sample_bytes)
    };
    let wanted = wanted.with_usable_sizes().lossy_without_children();
    let wanted = if has(FLAG_FREE_STACKS) { wanted.with_free_stacks() } else { wanted };
    config.copy_from(&if has(FLAG_NO_ARGS) { wanted.without_arguments() } else { wanted });
}
