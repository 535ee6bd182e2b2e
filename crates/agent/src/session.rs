//! The session: one shared memory, one recorder, one process. It begins with the first allocation, and again in a forked child.
//! It ends when the recorder requests it or is gone.
//!
//! A session may be dormant: it records only while its reader asks for it. Each thread checks for that whenever it has allocated some kilobytes;
//! allocations before the next check are not recorded.
//!
//! The mode switch that every hook reads lies on a page of its own, which the kernel wipes on fork. A forked child finds the switch zero, whatever
//! kind of fork made it, and begins a session of its own before it can touch its parent's.

use crate::config::Config;
use crate::live::{self, Beginning};
use crate::private_memory::{self, AreaUse};
pub use crate::switch::{AgentMode, mode};
use crate::switch::{prepare_switch, set_mode};
use crate::unwind::{objects, rules};
use crate::{children, executable, modules, sampling, sys, task, thread, tls, trie};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use highwater_shm::control_v1::CONTROL_BYTES;
use highwater_shm::hello_v1::{HELLO_BYTES, Hello, LONGEST_HELLO_TEXT};
use highwater_shm::live_hello_v1::{CONTROL_NAME, MEMORY_NAME};
use highwater_shm::ring_v1::RingHeader;
use highwater_shm::session_v1::{AgentClock, Capacity, Header, MAGIC};
use highwater_shm::stacks_v1::TrieNode;
use highwater_shm::table_v1::TableCapacity;
use highwater_shm::unrecorded_v1::Reason;

/// How long the program waits for a connection to its recorder. The recorder started the program and accepts every connection.
const RECORDER_PATIENCE_NS: u64 = 10_000_000_000;

static SESSION: Session = Session::new();
static BEGINNING: AtomicBool = AtomicBool::new(false);

/// Not zero if an allocation can be ignored until the thread's countdown ends.
pub static PASS_ALLOCATIONS: AtomicU8 = AtomicU8::new(0);
/// Not zero if a free can be ignored unless its block could be a sampled one.
pub static PASS_FREES: AtomicU8 = AtomicU8::new(0);

/// Changes the mode while the process runs. The pass flags are cleared, so each hook checks again whether it may skip calls.
pub fn switch_to(mode: AgentMode) {
    PASS_ALLOCATIONS.store(0, Ordering::Relaxed);
    PASS_FREES.store(0, Ordering::Relaxed);
    set_mode(mode);
}

/// Sets the mode to [`AgentMode::Off`] for now, unless a session has decided already.
pub fn stay_off() {
    if mode() == AgentMode::New && SESSION.process() == 0 {
        set_mode(AgentMode::Off);
    }
}

/// The shared header, unless this process has none or a fork has just made it: its parent's memory is not its own.
pub fn header_of_this_process() -> Option<&'static Header> {
    let has_begun = !SESSION.base.load(Ordering::Relaxed).is_null() && mode() != AgentMode::New;
    has_begun.then(|| SESSION.header())
}

/// The session of this process.
#[inline(always)]
pub fn session() -> &'static Session {
    &SESSION
}

/// Which process or thread reads the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionReader {
    /// Another process, which is connected by a socket.
    Recorder = 1,
    /// A thread of this process.
    Ourselves = 2,
    /// A collector that reads the live table, now or later.
    Collector = 3,
}

/// Pointers and settings of the session. Filled in before the mode is set, and unchanged while it is.
pub struct Session {
    base: AtomicPtr<u8>,
    bytes: AtomicU64,
    rings: AtomicU32,
    nodes: AtomicU32,
    stacks: AtomicU64,
    modules: AtomicU64,
    start: AtomicU64,
    counts_ticks: AtomicBool,
    process: AtomicU32,
    reader: AtomicU32,
    lossy: AtomicBool,
    follows_children: AtomicBool,
    records_mappings: AtomicBool,
    records_free_stacks: AtomicBool,
    live: AtomicBool,
    dormant: AtomicBool,
    wakes: AtomicU32,
    config: Config,
}

impl Session {
    const fn new() -> Self {
        Self {
            base: AtomicPtr::new(core::ptr::null_mut()),
            bytes: AtomicU64::new(0),
            rings: AtomicU32::new(0),
            nodes: AtomicU32::new(0),
            stacks: AtomicU64::new(0),
            modules: AtomicU64::new(0),
            start: AtomicU64::new(0),
            counts_ticks: AtomicBool::new(false),
            process: AtomicU32::new(0),
            reader: AtomicU32::new(0),
            lossy: AtomicBool::new(false),
            follows_children: AtomicBool::new(false),
            records_mappings: AtomicBool::new(false),
            records_free_stacks: AtomicBool::new(false),
            live: AtomicBool::new(false),
            dormant: AtomicBool::new(false),
            wakes: AtomicU32::new(0),
            config: Config::new(),
        }
    }

    fn at(&self, offset: u64) -> *mut u8 {
        // SAFETY: offsets lie within the shared memory.
        unsafe { self.base.load(Ordering::Relaxed).add(offset as usize) }
    }

    /// The shared header.
    #[inline(always)]
    pub fn header(&self) -> &Header {
        // SAFETY: mapped for as long as the process records.
        unsafe { &*self.base.load(Ordering::Relaxed).cast::<Header>() }
    }

    /// A ring's header.
    pub fn ring_header(&self, ring: u32) -> &'static RingHeader {
        // SAFETY: ring numbers lie below the capacity.
        unsafe { &*self.at(self.capacity().ring_headers()).cast::<RingHeader>().add(ring as usize) }
    }

    /// A ring's memory.
    pub fn ring_data(&self, ring: u32) -> *mut u64 {
        self.at(self.capacity().ring_data(ring)).cast()
    }

    fn take_settings(&self, config: &Config, reader: SessionReader, capacity: Capacity) {
        self.process.store(sys::process_id(), Ordering::Relaxed);
        self.reader.store(reader as u32, Ordering::Relaxed);
        self.live.store(reader == SessionReader::Collector, Ordering::Relaxed);
        self.lossy.store(config.is_lossy(), Ordering::Relaxed);
        self.follows_children.store(config.follows_children(), Ordering::Relaxed);
        self.records_mappings.store(config.records_mappings(), Ordering::Relaxed);
        // A live table has no record of a free.
        self.records_free_stacks.store(config.records_free_stacks() && !config.is_live(), Ordering::Relaxed);
        self.rings.store(capacity.rings, Ordering::Relaxed);
        self.nodes.store(capacity.nodes, Ordering::Relaxed);
        self.stacks.store(capacity.stacks(), Ordering::Relaxed);
        self.modules.store(capacity.modules(), Ordering::Relaxed);
        self.counts_ticks.store(config.counts_ticks(), Ordering::Relaxed);
    }

    fn capacity(&self) -> Capacity {
        Capacity { rings: self.rings.load(Ordering::Relaxed), nodes: self.nodes.load(Ordering::Relaxed) }
    }

    /// The maximum number of rings.
    pub fn ring_capacity(&self) -> u32 {
        self.rings.load(Ordering::Relaxed)
    }

    /// The maximum number of stack nodes.
    pub fn node_capacity(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed)
    }

    /// A stack node.
    #[inline(always)]
    pub fn node(&self, number: u32) -> &TrieNode {
        let offset = self.stacks.load(Ordering::Relaxed) + u64::from(number) * size_of::<TrieNode>() as u64;
        // SAFETY: node numbers lie below the capacity.
        unsafe { &*self.at(offset).cast() }
    }

    /// The log of modules.
    pub fn modules(&self) -> *mut u8 {
        self.at(self.modules.load(Ordering::Relaxed))
    }

    /// The clock's value when the session began.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// Whether stamps are ticks of the processor's counter.
    #[inline(always)]
    pub fn counts_ticks(&self) -> bool {
        self.counts_ticks.load(Ordering::Relaxed)
    }

    /// The number of threads that have recorded anything, up to the number of rings.
    pub fn threads(&self) -> u32 {
        if self.base.load(Ordering::Relaxed).is_null() { 0 } else { self.header().rings.load(Ordering::Relaxed) }
    }

    /// Whether more than one thread has ever recorded.
    #[inline(always)]
    pub fn has_several_threads(&self) -> bool {
        self.header().rings.load(Ordering::Relaxed) > 1
    }

    /// The process id; 0 before the first session.
    pub fn process(&self) -> u32 {
        self.process.load(Ordering::Relaxed)
    }

    /// Whether the session keeps a live table instead of recording events.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Relaxed)
    }

    /// Whether the session records only while its reader asks for it.
    #[inline(always)]
    pub fn is_dormant(&self) -> bool {
        self.dormant.load(Ordering::Relaxed)
    }

    /// How many times recording has begun. A sampling distance that a thread drew before the latest beginning is void.
    pub fn wakes(&self) -> u32 {
        self.wakes.load(Ordering::Relaxed)
    }

    /// The configuration of the process.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether children are recorded too.
    pub fn follows_children(&self) -> bool {
        self.follows_children.load(Ordering::Relaxed)
    }

    /// Whether events are dropped when a ring is full.
    pub fn is_lossy(&self) -> bool {
        self.lossy.load(Ordering::Relaxed)
    }

    /// Whether mappings are recorded.
    pub fn records_mappings(&self) -> bool {
        self.records_mappings.load(Ordering::Relaxed)
    }

    /// Whether the stacks of frees and of unmapping are recorded.
    #[inline(always)]
    pub fn records_free_stacks(&self) -> bool {
        self.records_free_stacks.load(Ordering::Relaxed)
    }

    /// Counts a truncated stack: one that could not be walked to its end.
    #[cold]
    pub fn count_cut_stack(&self) {
        self.header().cut_stacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an event that could not be recorded.
    #[cold]
    pub fn count_missed(&self) {
        self.header().missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the reader is still there.
    pub fn has_reader(&self) -> bool {
        if self.reader.load(Ordering::Relaxed) == SessionReader::Ourselves as u32 {
            return true;
        }
        #[cfg(feature = "injected")]
        return crate::injected::has_reader();
        #[cfg(not(feature = "injected"))]
        match sys::connect(self.config.socket(), RECORDER_PATIENCE_NS) {
            Ok(socket) => {
                sys::close(socket);
                true
            }
            Err(error) => ![sys::ECONNREFUSED, sys::ENOENT, sys::EPERM].contains(&error),
        }
    }

    /// The process that reads, if it is still there.
    pub fn reader_process(&self) -> Option<u32> {
        let socket = sys::connect(self.config.socket(), RECORDER_PATIENCE_NS).ok()?;
        let peer = sys::peer(socket);
        sys::close(socket);
        peer.map(|(process, _)| process)
    }

    /// Ends recording if the recorder has requested it. Returns whether it has.
    pub fn end_if_requested(&self) -> bool {
        let requested = self.header().stop.load(Ordering::Relaxed) != 0;
        if requested {
            self.end();
        } else if self.is_dormant() {
            follow_reader();
        }
        requested
    }

    /// Notes a started program that is not recorded. In a forked child that has no session yet, the note goes to the parent's reader.
    pub fn note_unrecorded(&self, reason: Reason, name: &[u8]) {
        if !self.base.load(Ordering::Relaxed).is_null() {
            self.header().unrecorded.add(reason, name);
        }
    }

    /// Ends recording in this process because it cannot continue, and stores the reason.
    pub fn end_because(&self, reason: Reason) {
        // A forked child that has no session yet still has its parent's memory mapped, and nothing to end there. A child of vfork also has its parent's mode:
        // it ends its parent's recording.
        if !self.base.load(Ordering::Relaxed).is_null() && mode() != AgentMode::New {
            self.header().ended_at.store(crate::clock::now(self), Ordering::Relaxed);
            self.header().ended.store(reason as u32, Ordering::Release);
        }
        self.end();
    }

    /// Waits until no thread uses the shared memory. Waits at most some tenths of a second, in case a thread has been stopped.
    fn wait_for_threads(&self) {
        const NAP_NS: u64 = 1_000_000;
        const MOST_NAPS: u32 = 300;
        let never = AtomicU32::new(0);
        let rings =
            if self.base.load(Ordering::Relaxed).is_null() { 0 } else { self.threads().min(self.ring_capacity()) };
        let is_busy = || (0..rings).any(|ring| self.ring_header(ring).busy.load(Ordering::Acquire) != 0);
        for _ in 0..MOST_NAPS {
            if !is_busy() {
                return;
            }
            sys::futex_wait(&never, 0, NAP_NS);
        }
    }

    /// Ends recording in this process. The memory stays mapped: a thread may be using it.
    #[cold]
    pub fn end(&self) {
        self.dormant.store(false, Ordering::Relaxed);
        set_mode(AgentMode::Off);
    }
}

/// A seccomp filter is about to be installed. It may kill a thread for a system call that the program did not foresee. From now on the agent makes no
/// system call in this process, in processes that it forks, or in programs that it starts.
#[cold]
pub fn end_before_filter() {
    if children::is_filtered() {
        return;
    }
    SESSION.end_because(Reason::Filter);
    children::set_filtered();
    SESSION.wait_for_threads();
}

/// In a dormant session, begins or stops recording as the reader requests. Returns the new mode.
#[cold]
pub fn follow_reader() -> AgentMode {
    let session = &SESSION;
    if session.is_dormant() && session.header().stop.load(Ordering::Relaxed) != 0 {
        session.end();
    } else if session.is_dormant() {
        let wanted = session.header().go.load(Ordering::Acquire) != 0;
        match mode() {
            AgentMode::Off if wanted => {
                session.wakes.fetch_add(1, Ordering::Relaxed);
                switch_to(session.config.recording_mode());
            }
            AgentMode::Exact | AgentMode::Sampled if !wanted => switch_to(AgentMode::Off),
            _ => {}
        }
    }
    mode()
}

/// Called by a thread that finds the mode [`AgentMode::New`]: begins a session if the environment or the parent's session asks for it. Returns the new mode.
#[cold]
pub fn begin_or_not() -> AgentMode {
    if BEGINNING.swap(true, Ordering::Acquire) {
        // Another thread is in here, or this thread is and has allocated on the way.
        return AgentMode::Off;
    }
    if children::is_filtered() {
        set_mode(AgentMode::Off);
        BEGINNING.store(false, Ordering::Release);
        return AgentMode::Off;
    }
    let was_recording = SESSION.process();
    let forked = was_recording != 0 && was_recording != sys::process_id();
    if forked {
        tls::set(0);
        begin_in_child(was_recording);
    } else if SESSION.config.read_from_environment() {
        let reader = if SESSION.config.is_live() { SessionReader::Collector } else { SessionReader::Recorder };
        // The process that started this one did not check: a sanitizer's runtime does not work with another allocator.
        let sanitizer = objects::find_by_path(executable::sanitizer);
        if sanitizer.is_some() && reader == SessionReader::Recorder {
            send_hello(&SESSION.config, 0, None, sanitizer);
        }
        if sanitizer.is_some() || !begin(&SESSION.config, reader, 0) {
            set_mode(AgentMode::Off);
        }
    } else {
        set_mode(AgentMode::Off);
    }
    BEGINNING.store(false, Ordering::Release);
    mode()
}

/// The process has a `malloc` of its own, which the agent does not see. Nothing is recorded, and the reader learns why. Programs that it starts are
/// still followed.
#[cold]
pub fn stay_out_of_own_allocator() {
    if BEGINNING.swap(true, Ordering::Acquire) {
        return;
    }
    let is_configured = SESSION.process() != 0 || SESSION.config.read_from_environment();
    if is_configured && !SESSION.config.is_live() && mode() == AgentMode::New {
        send_hello(&SESSION.config, 0, None, Some(Reason::OwnAllocator));
    }
    SESSION.follows_children.store(SESSION.config.follows_children(), Ordering::Relaxed);
    SESSION.end_because(Reason::OwnAllocator);
    BEGINNING.store(false, Ordering::Release);
}

/// The program contains the C library, whose agent does the work. Nothing is recorded by this one, and nothing is reported; programs that it starts are
/// still followed.
#[cold]
pub fn leave_to_linked_library() {
    if BEGINNING.swap(true, Ordering::Acquire) {
        return;
    }
    if SESSION.config.read_from_environment() {
        SESSION.follows_children.store(SESSION.config.follows_children(), Ordering::Relaxed);
    }
    SESSION.end();
    BEGINNING.store(false, Ordering::Release);
}

/// Begins a session in a forked child, which must not use its parent's shared memory.
fn begin_in_child(parent: u32) {
    let session = &SESSION;
    session.dormant.store(false, Ordering::Relaxed);
    private_memory::reset();
    let (base, bytes) = (session.base.load(Ordering::Relaxed), session.bytes.load(Ordering::Relaxed) as usize);
    session.base.store(core::ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: the only thread of the child is here, and no longer in the parent's session.
    unsafe {
        if session.is_live() {
            live::leave();
        }
        sys::unmap(base, bytes);
    }
    let reader = session.reader.load(Ordering::Relaxed);
    let reader = [SessionReader::Recorder, SessionReader::Collector].into_iter().find(|&one| one as u32 == reader);
    let reader = reader.filter(|_| session.follows_children());
    if !reader.is_some_and(|reader| begin(&session.config, reader, parent)) {
        session.process.store(sys::process_id(), Ordering::Relaxed);
        set_mode(AgentMode::Off);
    }
}

/// Records into memory that a thread of this process reads. Returns the shared memory and its size, or `None` if that is not possible.
pub fn begin_for_ourselves(config: &Config) -> Option<(*mut u8, u64)> {
    if BEGINNING.swap(true, Ordering::Acquire) {
        return None;
    }
    SESSION.config.copy_from(config);
    // Only one session per process: data that threads cached in one session would be wrong in another.
    let never = SESSION.process() == 0;
    let begun = never && begin(config, SessionReader::Ourselves, 0);
    BEGINNING.store(false, Ordering::Release);
    begun.then(|| (SESSION.base.load(Ordering::Relaxed), SESSION.bytes.load(Ordering::Relaxed)))
}

/// Keeps a live table from now on. Returns false if that is not possible.
pub fn begin_live(config: &Config) -> bool {
    if BEGINNING.swap(true, Ordering::Acquire) {
        return false;
    }
    let never = SESSION.process() == 0;
    if never {
        SESSION.config.copy_from(config);
    }
    let begun = never && begin(&SESSION.config, SessionReader::Collector, 0);
    if begun {
        live::settings::note_unknown_blocks();
    }
    BEGINNING.store(false, Ordering::Release);
    begun
}

/// Records from now on, for the recorder that this configuration names. Returns false if that is not possible.
pub fn begin_recorded(config: &Config) -> bool {
    if BEGINNING.swap(true, Ordering::Acquire) {
        return false;
    }
    let never = SESSION.process() == 0;
    if never {
        SESSION.config.copy_from(config);
    }
    let begun = never && begin(&SESSION.config, SessionReader::Recorder, 0);
    BEGINNING.store(false, Ordering::Release);
    begun
}

fn begin(config: &Config, reader: SessionReader, forked_from: u32) -> bool {
    let is_live = reader == SessionReader::Collector;
    let Some(shared) = (if is_live { share_live(config.most_blocks()) } else { share() }) else {
        if reader == SessionReader::Recorder {
            // So that the recorder can report why there are no events.
            send_hello(config, forked_from, None, None);
        }
        return false;
    };
    let session = &SESSION;
    session.take_settings(config, reader, shared.capacity);
    describe(session, config, shared.capacity);
    let ready = prepare_parts(session, config, forked_from);
    let begun = match reader {
        SessionReader::Ourselves => ready,
        SessionReader::Recorder => ready && send_hello(config, forked_from, Some(shared.memory), None),
        SessionReader::Collector => ready && begin_table(config, &shared, forked_from),
    };
    if !(begun && is_live) {
        sys::close(shared.memory);
        shared.control.inspect(|control| sys::close(control.0));
    }
    if begun {
        private_memory::list_in(session.header());
        session.dormant.store(config.is_dormant(), Ordering::Relaxed);
        switch_to(if config.is_dormant() { AgentMode::Off } else { config.recording_mode() });
    }
    begun
}

/// Prepares everything that records, in memory that is there. False if there is no private memory.
fn prepare_parts(session: &Session, config: &Config, forked_from: u32) -> bool {
    objects::prepare();
    modules::prepare();
    thread::prepare();
    task::prepare();
    // The settings of a live process may switch to sampling at any time.
    let ready =
        rules::prepare() && trie::prepare(session) && sampling::prepare(config.sample_bytes(), session.is_live());
    if forked_from != 0 {
        // Modules must be announced again, and an address with a cached rule would not announce its module.
        rules::forget();
    }
    ready && prepare_switch()
}

/// Begins the session that an attacher has prepared: the memory is there, and its header is written. Returns the new mode.
#[cfg(feature = "injected")]
pub fn begin_attached(
    header: &highwater_shm::attach_v1::AttachHeader,
    page: &highwater_shm::attach_v1::AttachPage,
) -> AgentMode {
    use highwater_shm::attach_v1::SESSION as SESSION_AT;
    /// Some milliseconds, once.
    const MOST_SPINS: u32 = 1 << 17;
    if BEGINNING.swap(true, Ordering::Acquire) {
        // Another thread is in here. A call that is passed on meanwhile would be missing.
        let is_done = |_: &u32| {
            core::hint::spin_loop();
            mode() != AgentMode::New
        };
        return if (0..MOST_SPINS).find(is_done).is_some() { mode() } else { AgentMode::Off };
    }
    if mode() != AgentMode::New {
        BEGINNING.store(false, Ordering::Release);
        return mode();
    }
    let (session, config) = (&SESSION, &SESSION.config);
    crate::injected::configure(config, header);
    let capacity = Capacity { rings: header.rings as u32, nodes: header.nodes as u32 };
    let reader = if config.is_live() { SessionReader::Collector } else { SessionReader::Recorder };
    session.base.store((header.shared + SESSION_AT) as *mut u8, Ordering::Relaxed);
    session.bytes.store(header.private - SESSION_AT, Ordering::Relaxed);
    session.take_settings(config, reader, capacity);
    session.start.store(session.header().start.load(Ordering::Acquire), Ordering::Relaxed);
    let table = TableCapacity { shard_records: header.shard_records as u32, threads: header.table_threads as u32 };
    let begun = prepare_parts(session, config, 0) && (!config.is_live() || begin_attached_table(config, header, table));
    page.begun.store(if begun { 1 } else { 2 }, Ordering::Release);
    if begun {
        private_memory::list_in(session.header());
    }
    switch_to(if begun { config.recording_mode() } else { AgentMode::Off });
    BEGINNING.store(false, Ordering::Release);
    mode()
}

#[cfg(feature = "injected")]
fn begin_attached_table(
    config: &Config,
    header: &highwater_shm::attach_v1::AttachHeader,
    capacity: TableCapacity,
) -> bool {
    let control = header.shared + highwater_shm::attach_v1::CONTROL;
    let begun =
        live::begin((header.shared + header.table) as *mut u8, control as *mut u8, &beginning(config, capacity, 0));
    if begun {
        live::settings::note_unknown_blocks();
    }
    begun
}

/// Memory objects created for sharing.
struct SharedMemory {
    memory: sys::Descriptor,
    capacity: Capacity,
    /// Live process only: the control page's memory object, and its mapping.
    control: Option<(sys::Descriptor, *mut u8)>,
    table: TableCapacity,
}

/// Creates the shared memory, as large as the address space allows, and maps it.
fn share() -> Option<SharedMemory> {
    Capacity::CHOICES.into_iter().zip(TableCapacity::CHOICES).find_map(|(capacity, table)| {
        let memory = map_as_base(c"highwater", capacity.bytes())?;
        Some(SharedMemory { memory, capacity, control: None, table })
    })
}

/// The same for a live process, with room for `most_blocks` in the table if that is more than the default.
fn share_live(most_blocks: u64) -> Option<SharedMemory> {
    let control = sys::sealed_memory(CONTROL_NAME, CONTROL_BYTES as usize)?;
    let Some(page) = sys::map_shared(control, CONTROL_BYTES as usize) else {
        sys::close(control);
        return None;
    };
    let choices = Capacity::LIVE_CHOICES.into_iter().zip(TableCapacity::CHOICES);
    let is_large = most_blocks > TableCapacity::CHOICES[0].blocks();
    let largest = is_large.then_some((Capacity::LIVE_CHOICES[0], TableCapacity::LARGEST));
    let shared = largest.into_iter().chain(choices).find_map(|(capacity, table)| {
        let memory = map_as_base(MEMORY_NAME, live::layout(&capacity, &table).1)?;
        sys::seal_against_writing(memory);
        Some(SharedMemory { memory, capacity, control: Some((control, page)), table })
    });
    if shared.is_none() {
        sys::close(control);
        // SAFETY: nothing refers to it.
        unsafe { sys::unmap(page, CONTROL_BYTES as usize) };
    }
    shared
}

/// Creates a memory object and maps it as the session's memory.
fn map_as_base(name: &core::ffi::CStr, bytes: u64) -> Option<sys::Descriptor> {
    let memory = sys::sealed_memory(name, bytes as usize)?;
    let Some(base) = sys::map_shared(memory, bytes as usize) else {
        sys::close(memory);
        return None;
    };
    sys::leave_out_of_core_dumps(base, bytes as usize);
    SESSION.base.store(base, Ordering::Relaxed);
    SESSION.bytes.store(bytes, Ordering::Relaxed);
    Some(memory)
}

/// Begins the live table, and registers it if a collector is listening.
fn begin_table(config: &Config, shared: &SharedMemory, forked_from: u32) -> bool {
    let Some((control, page)) = shared.control else { return false };
    let (start, _) = live::layout(&shared.capacity, &shared.table);
    let begun = live::begin(SESSION.at(start), page, &beginning(config, shared.table, forked_from));
    if begun {
        if forked_from != 0 {
            live::settings::note_unknown_blocks();
        }
        live::register::register(config, shared.memory, control, forked_from);
    }
    begun
}

fn beginning(config: &Config, capacity: TableCapacity, forked_from: u32) -> Beginning<'_> {
    Beginning {
        capacity,
        limit: config.most_blocks(),
        sample_bytes: config.sample_bytes(),
        contents: config.allows_contents(),
        usable_sizes: config.knows_usable_sizes(),
        forked: forked_from != 0,
        no_args: config.leaves_out_arguments(),
        socket: config.socket(),
    }
}

fn describe(session: &Session, config: &Config, capacity: Capacity) {
    session.start.store(0, Ordering::Relaxed);
    let start = crate::clock::now(session);
    session.start.store(start, Ordering::Relaxed);
    let header = session.header();
    header.pid.store(session.process(), Ordering::Relaxed);
    let clock = if config.counts_ticks() { AgentClock::Counter } else { AgentClock::Monotonic };
    header.clock.store(clock as u32, Ordering::Relaxed);
    header.start.store(start, Ordering::Relaxed);
    header.start_monotonic.store(sys::monotonic_ns(), Ordering::Relaxed);
    header.ring_capacity.store(capacity.rings, Ordering::Relaxed);
    header.node_capacity.store(capacity.nodes, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
}

/// The parent in the text of `/proc/PID/stat`: the second field after the program's name, which is in parentheses and may contain anything; 0 if it
/// is not there. No system call of its own: a filter that the program inherited may not know of one.
fn parent_in_stat(text: &[u8]) -> u32 {
    let after_name = text.iter().rposition(|&byte| byte == b')').map_or(text.len(), |end| end + 1);
    let digits = text[after_name..].iter().skip(b" S ".len()).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u32, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
}

/// Sends the shared memory to the recorder with a hello message: the process and its command, or the reason why nothing will be recorded.
fn send_hello(config: &Config, forked_from: u32, memory: Option<sys::Descriptor>, unrecorded: Option<Reason>) -> bool {
    const MOST: usize = HELLO_BYTES + LONGEST_HELLO_TEXT;
    let Some(buffer) = private_memory::take_area(MOST, AreaUse::Various) else { return false };
    // SAFETY: new memory of that size, given back below.
    let message = unsafe { core::slice::from_raw_parts_mut(buffer, MOST) };
    // Room for process id, name, state and parent. Not the message's own memory: the zeros in that end its texts.
    let mut stat = [0; 64];
    let length = sys::read_file(c"/proc/self/stat", &mut stat).unwrap_or(0);
    let parent = parent_in_stat(&stat[..length.min(stat.len())]);
    let hello = Hello { pid: sys::process_id(), forked_from, unrecorded, parent };
    message[..HELLO_BYTES].copy_from_slice(&hello.to_bytes());
    let mut length = HELLO_BYTES;
    length += sys::read_link(c"/proc/self/exe", &mut message[length..MOST / 2]);
    length += 1;
    length += config.read_command(&mut message[length..]);
    let sent = sys::connect(config.socket(), RECORDER_PATIENCE_NS).is_ok_and(|socket| {
        let sent = sys::send(socket, &message[..length], memory.as_slice());
        sys::close(socket);
        sent
    });
    // SAFETY: nothing refers to it any more.
    unsafe { private_memory::give_back_area(buffer, MOST) };
    sent
}
