//! The switch: whether there is a sink, and which one.
//!
//! One word holds the state: 0 before the environment has been read, 1 when off, and a new number for each sink. Each thread caches the sink
//! together with its number. So an event takes no lock, and that word is the only shared memory it touches.

use crate::event::ObjectEvent;
use crate::sink::{Sink, lose};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The environment has not been read yet.
const UNDECIDED: u32 = 0;
/// There is no sink.
const OFF: u32 = 1;

static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);
static SINK: Mutex<CurrentSink> = Mutex::new(CurrentSink { number: OFF, sink: None });

/// The current sink and its number.
struct CurrentSink {
    number: u32,
    sink: Option<Arc<dyn Sink>>,
}

/// The cached state of a thread.
struct CachedSink {
    number: Cell<u32>,
    sink: RefCell<Option<Arc<dyn Sink>>>,
    /// The thread is inside a sink.
    busy: Cell<bool>,
}

thread_local! {
    static KNOWN: CachedSink = const { CachedSink { number: Cell::new(UNDECIDED), sink: RefCell::new(None), busy: Cell::new(false) } };
}

/// False if there is no sink. This load is then the only cost of an object.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// True if there is a sink and this thread is not inside it: a sink's own objects are not reported.
pub(crate) fn is_receiving() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        UNDECIDED => decide() && !is_busy(),
        _ => !is_busy(),
    }
}

fn is_busy() -> bool {
    KNOWN.try_with(|known| known.busy.get()).unwrap_or(false)
}

#[cfg(not(target_family = "wasm"))]
fn chosen() -> MutexGuard<'static, CurrentSink> {
    SINK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries again and again: the main thread of a browser must not wait, a blocking wait there is a trap. The lock is held for a few instructions only.
#[cfg(target_family = "wasm")]
fn chosen() -> MutexGuard<'static, CurrentSink> {
    use std::sync::TryLockError;
    loop {
        match SINK.try_lock() {
            Ok(chosen) => return chosen,
            Err(TryLockError::Poisoned(poisoned)) => return PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
}

/// Sets the sink; `None` removes it.
pub(crate) fn set(sink: Option<Arc<dyn Sink>>) {
    let mut chosen = chosen();
    let number = match sink {
        None => OFF,
        // Numbers of sinks count up from 2, and start again at 2 after an overflow.
        Some(_) => STATE.load(Ordering::Relaxed).max(chosen.number).checked_add(1).unwrap_or(2).max(2),
    };
    let old = std::mem::replace(&mut chosen.sink, sink);
    chosen.number = chosen.number.max(number);
    STATE.store(number, Ordering::Release);
    drop(chosen);
    // Dropped outside the lock: the sink may own tracked objects.
    drop(old);
}

/// Reads the environment once. True if there is a sink afterwards.
#[cold]
fn decide() -> bool {
    #[cfg(not(target_family = "wasm"))]
    if let Some(wanted) = crate::environment::variable("HIGHWATER_OBJECTS") {
        let opened = match wanted.to_str() {
            Some("-" | "stderr") => {
                crate::to_stderr();
                Ok(())
            }
            _ => crate::to_file(&wanted),
        };
        match opened {
            Ok(()) => return true,
            Err(error) => eprintln!("highwater: HIGHWATER_OBJECTS={}: {error}", wanted.display()),
        }
    }
    // Has no effect if another thread has decided already.
    let _ = STATE.compare_exchange(UNDECIDED, OFF, Ordering::Relaxed, Ordering::Relaxed);
    is_on()
}

/// Passes an event to the sink, if there is one.
pub(crate) fn report(event: &ObjectEvent<'_>) {
    let state = STATE.load(Ordering::Acquire);
    if state <= OFF && (state == OFF || !decide()) {
        return;
    }
    let delivered = KNOWN.try_with(|known| {
        if known.busy.replace(true) {
            return lose();
        }
        let _guard = NotBusy(known);
        if known.number.get() != STATE.load(Ordering::Acquire) {
            refresh(known);
        }
        if let Some(sink) = &*known.sink.borrow() {
            sink.record(event);
        }
    });
    if delivered.is_err() {
        // The thread is ending: its thread-local state is gone.
        let sink = chosen().sink.clone();
        if let Some(sink) = sink {
            sink.record(event);
        }
    }
}

/// Clears the busy flag when dropped, even if the sink panicked.
struct NotBusy<'a>(&'a CachedSink);

impl Drop for NotBusy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
    }
}

#[cold]
fn refresh(known: &CachedSink) {
    let (number, sink) = {
        let chosen = chosen();
        (STATE.load(Ordering::Acquire), chosen.sink.clone())
    };
    known.number.set(number);
    drop(known.sink.replace(sink));
}
