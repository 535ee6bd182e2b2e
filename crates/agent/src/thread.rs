//! Data of each thread: a ring, a remembered stack, a source of distances between samples.
//!
//! A thread takes a ring with its first event. The agent is not notified when a thread ends (and code that runs at its end may still
//! free memory), so a ring belongs to its thread until the kernel does not know that thread any more; a new thread then takes it over.

use crate::live::{self, Own};
use crate::private_memory::{self, AreaUse};
use crate::sampling::Distances;
use crate::session::{self, Session};
use crate::unwind::memory::StackWindow;
use crate::unwind::walk::{FrameState, Remembered};
use crate::{clock, modules, ring::RingWriter, sys, task, tls};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use highwater_shm::ring_v1::{LONGEST_TEXT, kind};
use highwater_shm::session_v1::ring_bytes;

/// Value of the thread's word in a thread that never records.
const NEVER: u64 = 1;
/// The number of rings that are taken before a thread looks for one whose owner is gone.
const RINGS_AT_ONCE: u32 = 32;
/// The maximum number of rings that a thread checks for an owner that is gone.
const MOST_LOOKS: u32 = 64;
const MOST_THREADS: usize = 1 << 12;

static THREADS: [AtomicPtr<AgentThread>; MOST_THREADS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST_THREADS];
static NEXT_LOOK: AtomicU32 = AtomicU32::new(0);

/// A thread that records.
pub struct AgentThread {
    /// Its ring.
    pub ring: RingWriter,
    remembered: Remembered,
    window: StackWindow,
    generation: u32,
    /// Draws the distances between samples.
    pub distances: Distances,
    /// The settings for which the thread's countdown was set.
    pub drawn_for: Option<u32>,
    /// How far the next sample is beyond the end of the countdown.
    pub beyond: i64,
    /// Its data for the live table.
    pub own: Own,
}

/// Begins a session in which no thread is known. New threads take over the memory of earlier ones.
pub fn prepare() {
    NEXT_LOOK.store(0, Ordering::Relaxed);
}

/// The calling thread will never record.
pub fn leave_out() {
    tls::set(NEVER);
}

impl AgentThread {
    /// The calling thread; `None` if it cannot record now.
    #[inline(always)]
    pub fn current() -> Option<&'static mut Self> {
        let word = tls::get();
        if word <= NEVER {
            return Self::first_time(word);
        }
        // SAFETY: only this thread uses it, and not twice: see below.
        let thread = unsafe { &mut *(word as *mut Self) };
        if thread.ring.is_busy() {
            // A signal handler that interrupted the agent, or an allocation by the agent itself.
            session::session().count_missed();
            return None;
        }
        Some(thread)
    }

    #[cold]
    fn first_time(word: u64) -> Option<&'static mut Self> {
        if word == NEVER {
            return None;
        }
        // Until the thread has a ring it must not come here again, for instance from a signal handler.
        tls::set(NEVER);
        let session = session::session();
        let Some(thread) = Self::claim(session) else {
            tls::set(0);
            session.count_missed();
            return None;
        };
        tls::set((&raw mut *thread) as u64);
        Some(thread)
    }

    fn claim(session: &Session) -> Option<&'static mut Self> {
        let id = sys::thread_id();
        let ring = take_ring(session, id)?;
        let header = session.ring_header(ring);
        header.busy.store(0, Ordering::Release);
        let writer = RingWriter::new(header, session.ring_data(ring), ring_bytes(ring));
        let window = StackWindow::of_this_thread(id == session.process());
        let slot = THREADS.get(ring as usize)?;
        let mut thread = slot.load(Ordering::Relaxed);
        let generation = modules::generation();
        let distances = Distances::new(clock::now(session) ^ u64::from(id) << 32);
        // SAFETY: the ring is ours, and with it the memory that its last owner left.
        unsafe {
            if thread.is_null() {
                let remembered = Remembered::new()?;
                thread = private_memory::take(size_of::<Self>(), AreaUse::Various)?.cast();
                let own = Own::default();
                thread.write(Self {
                    ring: writer,
                    remembered,
                    window,
                    generation,
                    distances,
                    drawn_for: None,
                    beyond: 0,
                    own,
                });
                slot.store(thread, Ordering::Relaxed);
            } else {
                (*thread).remembered.forget();
                (*thread).ring = writer;
                (*thread).window = window;
                (*thread).generation = generation;
                (*thread).distances = distances;
                (*thread).drawn_for = None;
                (*thread).beyond = 0;
                (*thread).own = Own::default();
            }
            let thread = &mut *thread;
            let name = sys::thread_name();
            let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            if session.is_live() {
                thread.own = live::number_thread(session, id, &name[..length]);
                return Some(thread);
            }
            thread.record(2, session, clock::now, |words, stamp| {
                words.write(stamp << 8 | u64::from(kind::THREAD));
                words.add(1).write(u64::from(id));
            });
            thread.record_text(kind::NAME, None, &name[..length], session);
            Some(thread)
        }
    }

    /// The node of the caller's stack, and of the thread's task.
    #[inline(always)]
    pub fn walk(&mut self, at: FrameState, session: &Session) -> u32 {
        let generation = modules::generation();
        if self.generation != generation {
            self.remembered.forget();
            self.generation = generation;
        }
        task::node_of_task(self.remembered.walk(at, &self.window, session), session)
    }

    /// Writes a record: takes a stamp, lets `write` fill in the words, publishes.
    #[inline(always)]
    pub fn record(
        &mut self,
        words: usize,
        session: &Session,
        time: impl FnOnce(&Session) -> u64,
        write: impl FnOnce(*mut u64, u64),
    ) {
        if let Some(record) = self.ring.reserve(words, session) {
            let stamp = time(session);
            write(record, stamp);
            self.ring.publish(words, stamp, session);
        }
    }

    /// Writes a record with a text.
    pub fn record_text(&mut self, kind: u8, before: Option<u64>, text: &[u8], session: &Session) {
        let text = &text[..text.len().min(LONGEST_TEXT)];
        let head = 2 + usize::from(before.is_some());
        self.record(head + text.len().div_ceil(8), session, clock::now, |words, stamp| {
            // SAFETY: this number of words was reserved.
            unsafe {
                words.write(stamp << 8 | u64::from(kind));
                if let Some(before) = before {
                    words.add(1).write(before);
                }
                words.add(head - 1).write(text.len() as u64);
                core::ptr::copy_nonoverlapping(text.as_ptr(), words.add(head).cast(), text.len());
            }
        });
    }
}

/// Takes a ring that has no owner, or whose owner is gone.
fn take_ring(session: &Session, id: u32) -> Option<u32> {
    let limit = session.ring_capacity().min(MOST_THREADS as u32);
    let used = &session.header().rings;
    let known = used.load(Ordering::Relaxed).min(limit);
    if known >= RINGS_AT_ONCE
        && let Some(ring) = take_left_behind(session, id, known, MOST_LOOKS)
    {
        return Some(ring);
    }
    let ring = used.fetch_add(1, Ordering::AcqRel);
    if ring < limit {
        session.ring_header(ring).owner.store(id, Ordering::Release);
        return Some(ring);
    }
    used.store(limit, Ordering::Release);
    take_left_behind(session, id, limit, limit)
}

fn take_left_behind(session: &Session, id: u32, known: u32, looks: u32) -> Option<u32> {
    for _ in 0..looks.min(known) {
        let ring = NEXT_LOOK.fetch_add(1, Ordering::Relaxed) % known;
        let owner = &session.ring_header(ring).owner;
        let last = owner.load(Ordering::Relaxed);
        // An earlier thread with the same id must be gone, since this thread has the id now.
        let left = last != 0 && (last == id || sys::is_gone(session.process(), last));
        if left && owner.compare_exchange(last, id, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(ring);
        }
    }
    None
}
