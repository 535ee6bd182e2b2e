//! The switch: whether anybody listens, and who.
//!
//! One word says it all: 0 before anybody has asked, 1 when off, and a new number for each sink. Each thread keeps the sink with the number it had
//! then, so that an event takes no lock and touches nothing that threads share but that word.

use crate::event::ObjectEvent;
use crate::sink::{Sink, lose};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Nobody has asked yet whether the environment wants anything.
const UNDECIDED: u32 = 0;
/// Nobody listens.
const OFF: u32 = 1;

static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);
static SINK: Mutex<Chosen> = Mutex::new(Chosen { number: OFF, sink: None });

struct Chosen {
    number: u32,
    sink: Option<Arc<dyn Sink>>,
}

/// What a thread remembers.
struct Known {
    number: Cell<u32>,
    sink: RefCell<Option<Arc<dyn Sink>>>,
    /// The thread is inside of a sink.
    busy: Cell<bool>,
}

thread_local! {
    static KNOWN: Known = const { Known { number: Cell::new(UNDECIDED), sink: RefCell::new(None), busy: Cell::new(false) } };
}

/// False if nobody listens: all that an object costs then.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) != OFF
}

/// True if somebody listens, and this is not one of his own objects.
pub(crate) fn is_heard() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        UNDECIDED => decide() && !is_busy(),
        _ => !is_busy(),
    }
}

fn is_busy() -> bool {
    KNOWN.try_with(|known| known.busy.get()).unwrap_or(false)
}

fn chosen() -> std::sync::MutexGuard<'static, Chosen> {
    SINK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a sink the one that listens; `None` for nobody.
pub(crate) fn set(sink: Option<Arc<dyn Sink>>) {
    let mut chosen = chosen();
    let number = match sink {
        None => OFF,
        // Numbers of sinks go on from 2 for ever, and round.
        Some(_) => STATE.load(Ordering::Relaxed).max(chosen.number).checked_add(1).unwrap_or(2).max(2),
    };
    let old = std::mem::replace(&mut chosen.sink, sink);
    chosen.number = chosen.number.max(number);
    STATE.store(number, Ordering::Release);
    drop(chosen);
    // Outside of the lock: it may have objects of its own.
    drop(old);
}

/// Asks the environment once. True if somebody listens then.
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
    // Unless somebody was faster.
    let _ = STATE.compare_exchange(UNDECIDED, OFF, Ordering::Relaxed, Ordering::Relaxed);
    is_on()
}

/// Tells whoever listens.
pub(crate) fn tell(event: &ObjectEvent<'_>) {
    let state = STATE.load(Ordering::Acquire);
    if state <= OFF && (state == OFF || !decide()) {
        return;
    }
    let told = KNOWN.try_with(|known| {
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
    if told.is_err() {
        // The thread is ending.
        let sink = chosen().sink.clone();
        if let Some(sink) = sink {
            sink.record(event);
        }
    }
}

/// Says that the thread is done, even if the sink panicked.
struct NotBusy<'a>(&'a Known);

impl Drop for NotBusy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
    }
}

#[cold]
fn refresh(known: &Known) {
    let (number, sink) = {
        let chosen = chosen();
        (STATE.load(Ordering::Acquire), chosen.sink.clone())
    };
    known.number.set(number);
    drop(known.sink.replace(sink));
}
