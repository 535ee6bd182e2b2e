//! Tasks: parts of the program's work that it names itself, whichever threads do them.
//!
//! A name has a number for as long as the process and its forked children live. A thread's own word says which task it works for. What it allocates
//! meanwhile gets a node below the node of its stack ([`TASK_BIT`]), so that records and the live table carry the task without a field for it, and
//! programs without tasks pay one test per allocation.
//!
//! Names lie in private memory that is mapped when the first one comes. The table of numbers is open addressing. There is no lock: a child that is forked
//! at any moment finds the names in order.

use crate::private_memory::{self, AreaUse};
use crate::session::Session;
use crate::{modules, tls, trie};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use highwater_shm::modules_v1::LONGEST_TASK;
use highwater_shm::stacks_v1::TASK_BIT;

/// The maximum number of names. Their entries take less than half of the log of modules.
const MOST_TASKS: u32 = 1 << 14;
const SLOTS: usize = 2 * MOST_TASKS as usize;
/// Room for names.
const NAME_BYTES: u32 = 1 << 20;
/// The task of all names beyond the limits.
const OTHERS: u32 = MOST_TASKS;
const NAME_OF_OTHERS: &[u8] = b"[other tasks]";

/// A name, by its number.
struct TaskName {
    start: AtomicU32,
    length: AtomicU32,
    hash: AtomicU32,
    /// The session in which it was announced.
    announced: AtomicU32,
}

/// All names: zero at first.
struct TaskNames {
    /// Numbers by the hash of the name; 0 is a free slot.
    slots: [AtomicU32; SLOTS],
    names: [TaskName; MOST_TASKS as usize + 1],
    bytes: [AtomicU8; NAME_BYTES as usize],
    /// How many numbers and bytes were taken.
    taken: AtomicU32,
    taken_bytes: AtomicU32,
}

static NAMES: AtomicPtr<TaskNames> = AtomicPtr::new(core::ptr::null_mut());
/// Counts the sessions of this process. Each has a log of its own, to which names are announced anew.
static SESSION: AtomicU32 = AtomicU32::new(1);

/// Begins a session in which no name is announced.
pub fn prepare() {
    SESSION.fetch_add(1, Ordering::Relaxed);
}

fn names() -> Option<&'static TaskNames> {
    // SAFETY: once set it is valid, and never unmapped.
    unsafe { NAMES.load(Ordering::Acquire).as_ref() }
}

/// Maps the memory of names, unless another thread does.
#[cold]
fn first_names() -> Option<&'static TaskNames> {
    let memory = private_memory::take_area(size_of::<TaskNames>(), AreaUse::Various)?;
    let none = core::ptr::null_mut();
    if NAMES.compare_exchange(none, memory.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: nobody else knows this memory.
        unsafe { private_memory::give_back_area(memory, size_of::<TaskNames>()) };
    }
    names()
}

impl TaskNames {
    /// The bytes of a name whose number was published.
    fn bytes(&self, number: u32) -> &[AtomicU8] {
        let name = &self.names[number as usize];
        let start = name.start.load(Ordering::Relaxed) as usize;
        self.bytes.get(start..start + name.length.load(Ordering::Relaxed) as usize).unwrap_or_default()
    }

    fn is(&self, number: u32, name: &[u8], hash: u32) -> bool {
        let bytes = self.bytes(number);
        self.names[number as usize].hash.load(Ordering::Relaxed) == hash
            && bytes.len() == name.len()
            && bytes.iter().zip(name).all(|(own, byte)| own.load(Ordering::Relaxed) == *byte)
    }

    /// The number of a name. A new name gets `new`, if there is one.
    fn find_or_put(&self, name: &[u8], hash: u32, new: Option<u32>) -> Option<u32> {
        let mut at = hash as usize % SLOTS;
        loop {
            let mut number = self.slots[at].load(Ordering::Acquire);
            if number == 0 {
                match self.slots[at].compare_exchange(0, new?, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return new,
                    Err(other) => number = other,
                }
            }
            if self.is(number, name, hash) {
                return Some(number);
            }
            at = (at + 1) % SLOTS;
        }
    }

    /// Takes a number and stores a name under it; `None` beyond the limits.
    #[cold]
    fn store(&self, name: &[u8], hash: u32) -> Option<u32> {
        let take = |taken: &AtomicU32, count: u32, most: u32| {
            let take = |taken: u32| taken.checked_add(count).filter(|&taken| taken <= most);
            taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()
        };
        let start = take(&self.taken_bytes, name.len() as u32, NAME_BYTES)?;
        let number = take(&self.taken, 1, MOST_TASKS - 1)? + 1;
        let entry = &self.names[number as usize];
        entry.start.store(start, Ordering::Relaxed);
        entry.length.store(name.len() as u32, Ordering::Relaxed);
        entry.hash.store(hash, Ordering::Relaxed);
        for (own, byte) in self.bytes[start as usize..].iter().zip(name) {
            own.store(*byte, Ordering::Relaxed);
        }
        Some(number)
    }
}

fn hash(name: &[u8]) -> u32 {
    // FNV-1a, folded.
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    (hash ^ hash >> 32) as u32
}

/// The number of the task with this name, cut after its first [`LONGEST_TASK`] bytes. 0, which means no task, for an empty name or if there is no memory.
pub fn number(name: &[u8]) -> u32 {
    let name = cut(name);
    if name.is_empty() {
        return 0;
    }
    let hash = hash(name);
    let Some(names) = names().or_else(first_names) else { return 0 };
    let known = names.find_or_put(name, hash, None);
    // Of two threads that store the same name at once, one leaves its number unused.
    let new = || names.find_or_put(name, hash, Some(names.store(name, hash)?));
    known.or_else(new).unwrap_or(OTHERS)
}

/// The longest beginning of a name that is kept: characters are whole.
fn cut(name: &[u8]) -> &[u8] {
    if name.len() <= LONGEST_TASK {
        return name;
    }
    let is_boundary = |at: &usize| name[*at] & 0xc0 != 0x80;
    let end = (0..=LONGEST_TASK).rev().find(is_boundary).unwrap_or(LONGEST_TASK);
    &name[..end]
}

/// The calling thread works for a task from now on, 0 for none. Returns the task that it worked for.
#[inline]
pub fn enter(task: u32) -> u32 {
    let before = tls::task() as u32;
    tls::set_task(u64::from(if task <= OTHERS { task } else { 0 }));
    before
}

/// The node of a stack, or the node of the calling thread's task below it.
#[inline(always)]
pub fn node_of_task(node: u32, session: &Session) -> u32 {
    let task = tls::task() as u32;
    if task == 0 { node } else { below(node, task, session) }
}

#[inline(never)]
fn below(node: u32, task: u32, session: &Session) -> u32 {
    let Some(names) = names() else { return node };
    let (current, announced) = (SESSION.load(Ordering::Relaxed), &names.names[task as usize].announced);
    if announced.load(Ordering::Acquire) != current {
        let mut copy = [0; LONGEST_TASK];
        let bytes = names.bytes(task);
        copy.iter_mut().zip(bytes).for_each(|(copy, byte)| *copy = byte.load(Ordering::Relaxed));
        let name = if task == OTHERS { NAME_OF_OTHERS } else { &copy[..bytes.len().min(LONGEST_TASK)] };
        modules::announce_task(session, task, name, (announced, current));
    }
    trie::intern(session, node, TASK_BIT | u64::from(task), node + 1)
}
