//! An image in the test process itself: mapped, filled in and switched on as an attacher would, and called as an island would.

#![allow(dead_code, reason = "each test file uses a part")]

use highwater_inject::{IMAGE, entries, head};
use highwater_session::{AttachedMemory, SessionMemory};
use highwater_shm::attach_v1::{
    AttachHeader, AttachLayout, FunctionIndex, HEADER_MAGIC, Implementation, MODE_BEGIN, MODE_OFF, OBJECT_NAME,
    SwitchPage, VERSION,
};
use highwater_shm::ring_v1::{fixed_words, kind};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut u8;
    fn free(block: *mut u8);
    fn calloc(count: usize, size: usize) -> *mut u8;
    fn realloc(block: *mut u8, size: usize) -> *mut u8;
    fn memalign(alignment: usize, size: usize) -> *mut u8;
    fn aligned_alloc(alignment: usize, size: usize) -> *mut u8;
    fn posix_memalign(out: *mut *mut u8, alignment: usize, size: usize) -> c_int;
    fn valloc(size: usize) -> *mut u8;
    fn pvalloc(size: usize) -> *mut u8;
    fn malloc_usable_size(block: *mut u8) -> usize;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    static __libc_stack_end: *const u8;
}

/// Calls a function with three arguments as an island does: the implementation in `r11`, everything else as at the call.
#[unsafe(naked)]
unsafe extern "C" fn call_entry(
    _: usize,
    _: usize,
    _: usize,
    _entry: u64,
    _implementation: *const Implementation,
) -> usize {
    naked_asm!("mov rax, rcx", "mov r11, r8", "jmp rax")
}

/// A mapped image, switched on.
pub struct Injected {
    image: *mut u8,
    shared: *mut u8,
    layout: AttachLayout,
    pub memory: AttachedMemory,
    pub session: SessionMemory,
    object: OwnedFd,
}

// SAFETY: both pointers are to memory that stays mapped, and is only changed through atomics once the image is on.
unsafe impl Sync for Injected {}

fn all_real() -> Implementation {
    let mut one = Implementation { real: [0; 48], usable_size: malloc_usable_size as *const () as u64, flags: 0 };
    for (function, address) in [
        (FunctionIndex::Malloc, malloc as *const ()),
        (FunctionIndex::Free, free as *const ()),
        (FunctionIndex::Calloc, calloc as *const ()),
        (FunctionIndex::Realloc, realloc as *const ()),
        (FunctionIndex::Memalign, memalign as *const ()),
        (FunctionIndex::AlignedAlloc, aligned_alloc as *const ()),
        (FunctionIndex::PosixMemalign, posix_memalign as *const ()),
        (FunctionIndex::Valloc, valloc as *const ()),
        (FunctionIndex::Pvalloc, pvalloc as *const ()),
    ] {
        one.real[function as usize] = address as u64;
    }
    one
}

/// The offset of the kernel's thread number from the thread pointer: where this thread and another one both have theirs.
fn thread_id_offset() -> u64 {
    let candidates = || {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        let pointer: u64;
        // SAFETY: reads the thread's own block, which is larger than that in glibc.
        unsafe {
            std::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer);
            (0x100..0x600)
                .step_by(4)
                .filter(|offset| ((pointer + offset) as *const i32).read_volatile() == id)
                .collect()
        }
    };
    let here: Vec<u64> = candidates();
    let there: Vec<u64> = std::thread::spawn(candidates).join().unwrap();
    *here.iter().find(|offset| there.contains(offset)).expect("glibc has it there")
}

fn program() -> [u64; 2] {
    let exe = std::env::current_exe().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = maps.lines().filter(|line| line.ends_with(&*exe.to_string_lossy()));
    let bounds = own
        .flat_map(|line| line.split(' ').next().unwrap().split('-').map(|part| u64::from_str_radix(part, 16).unwrap()));
    let bounds: Vec<u64> = bounds.collect();
    [*bounds.iter().min().unwrap(), *bounds.iter().max().unwrap()]
}

impl Injected {
    /// With these allocators in place of the C library's, if there are any.
    pub fn new(layout: AttachLayout, change: impl FnOnce(&mut AttachHeader)) -> Self {
        let object = rustix::fs::memfd_create(OBJECT_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&object, layout.bytes()).unwrap();
        rustix::fs::fcntl_add_seals(&object, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        let (head, read_write) = (head(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: new mappings, in which only what was just mapped is written, before any thread uses it.
        unsafe {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            let shared =
                rustix::mm::mmap(std::ptr::null_mut(), layout.bytes() as usize, read_write, flags, &object, 0).unwrap();
            rustix::mm::madvise(shared, layout.bytes() as usize, Advice::LinuxDontFork).unwrap();
            let image =
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), head.end as usize, read_write, MapFlags::PRIVATE)
                    .unwrap();
            image.cast::<u8>().copy_from_nonoverlapping(IMAGE.as_ptr(), IMAGE.len());
            let text = MprotectFlags::READ | MprotectFlags::EXEC;
            rustix::mm::mprotect(image, head.data as usize, text).unwrap();
            rustix::mm::madvise(image.byte_add(head.switch as usize), 4096, Advice::LinuxWipeOnFork).unwrap();
            let header = &mut *image.byte_add(head.header as usize).cast::<AttachHeader>();
            header.version = VERSION;
            header.image = image as u64;
            header.shared = shared as u64;
            header.process = std::process::id().into();
            header.thread_id_offset = thread_id_offset();
            header.find_object = dlsym(std::ptr::null_mut(), c"_dl_find_object".as_ptr()) as u64;
            header.program = program();
            header.stack_end = __libc_stack_end as u64;
            header.clock_gettime = clock_gettime as *const () as u64;
            header.implementation_count = 1;
            header.implementations[0] = all_real();
            change(header);
            let memory = AttachedMemory::open(&object, layout).unwrap();
            memory.prepare(header, std::process::id(), None).unwrap();
            header.magic = HEADER_MAGIC;
            let session = memory.session().unwrap();
            Self { image: image.cast(), shared: shared.cast(), layout, memory, session, object }
        }
    }

    fn switch(&self) -> &SwitchPage {
        // SAFETY: the image has it there.
        unsafe { &*self.image.add(head().switch as usize).cast() }
    }

    pub fn switch_page(&self) -> *const SwitchPage {
        self.switch()
    }

    pub fn mode(&self) -> u64 {
        self.switch().mode.load(Ordering::Acquire)
    }

    pub fn switch_on(&self) {
        self.switch().mode.store(MODE_BEGIN, Ordering::Release);
    }

    /// The same, and lets the session begin: calls of other threads are only passed on meanwhile.
    pub fn begin(&self) {
        self.switch_on();
        self.free(self.malloc(1));
        drain(&self.session, &mut Vec::new());
    }

    pub fn switch_off(&self) {
        self.switch().mode.store(MODE_OFF, Ordering::Release);
    }

    /// Calls an entry, for the allocator of this number.
    #[inline(never)]
    pub fn call_of(&self, allocator: usize, function: FunctionIndex, arguments: [usize; 3]) -> usize {
        let [first, second, third] = arguments;
        let entry = self.image as u64 + entries()[function as usize];
        // SAFETY: the image has the header there. The function that the entry stands for gets the test's arguments.
        let result = unsafe {
            let header = &*self.image.add(head().header as usize).cast::<AttachHeader>();
            call_entry(first, second, third, entry, &raw const header.implementations[allocator])
        };
        // No tail call: the frame of this function must be there.
        std::hint::black_box(result)
    }

    pub fn call(&self, function: FunctionIndex, arguments: [usize; 3]) -> usize {
        self.call_of(0, function, arguments)
    }

    pub fn malloc(&self, size: usize) -> usize {
        self.call(FunctionIndex::Malloc, [size, 0, 0])
    }

    pub fn free(&self, block: usize) {
        self.call(FunctionIndex::Free, [block, 0, 0]);
    }

    pub fn layout(&self) -> AttachLayout {
        self.layout
    }

    pub fn object(&self) -> OwnedFd {
        self.object.try_clone().unwrap()
    }

    pub fn has_in_private_part(&self, range: Range<u64>) -> bool {
        let start = self.shared as u64 + self.layout.private;
        range.start >= start && range.end <= start + self.layout.private_bytes
    }

    /// What is in the object at an offset.
    ///
    /// # Safety
    /// It is a `T` of atomics only.
    pub unsafe fn at<T>(&self, offset: u64) -> &T {
        // SAFETY: the caller's.
        unsafe { &*self.shared.add(offset as usize).cast() }
    }
}

/// A source of numbers that is the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// A record of a ring, without what the tests do not look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Allocated { address: usize, size: usize, node: u32 },
    Freed { address: usize },
    Resized { old: usize, new: usize, size: usize },
    Thread { id: u32 },
}

/// Reads what is new in all rings, and gives the room back.
pub fn drain(session: &SessionMemory, seen: &mut Vec<Vec<Seen>>) {
    session.keep_ahead();
    let rings = session.rings();
    seen.resize(seen.len().max(rings as usize), Vec::new());
    for ring in 0..rings {
        let (header, words) = (session.ring(ring), session.ring_words(ring));
        let (mut head, tail) = (header.head.load(Ordering::Relaxed), header.tail.load(Ordering::Acquire));
        while head < tail {
            let at = head as usize / 8 % words.len();
            let word = |index: usize| words[at + index].load(Ordering::Relaxed);
            let which = word(0) as u8;
            let length = match fixed_words(which) {
                _ if which == kind::PAD => words.len() - at,
                Some(length) => length,
                None => 2 + (word(1) as usize).div_ceil(8),
            };
            let resized = || Seen::Resized { old: word(1) as usize, new: word(2) as usize, size: word(3) as usize };
            seen[ring as usize].extend(match which {
                kind::ALLOCATE => {
                    Some(Seen::Allocated { address: word(1) as usize, size: word(2) as usize, node: word(3) as u32 })
                }
                kind::FREE => Some(Seen::Freed { address: word(1) as usize }),
                kind::REALLOCATE | kind::REALLOC_END => Some(resized()),
                kind::THREAD => Some(Seen::Thread { id: word(1) as u32 }),
                kind::PAD | kind::NAME | kind::REALLOC_BEGIN => None,
                other => panic!("a record of kind {other}"),
            });
            head += length as u64 * 8;
        }
        header.head.store(head, Ordering::Release);
    }
}
