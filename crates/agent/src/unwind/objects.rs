//! Which module a code address lies in, according to the loader: without a lock where the loader offers that (glibc 2.35 and later),
//! by scanning its list elsewhere.

use super::cfi::UnwindTables;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A loaded module.
#[derive(Clone, Copy, Debug)]
pub struct LoadedModule {
    /// The addresses of its code and unwind tables. A module without tables has 0 as their address.
    pub tables: UnwindTables,
    /// The difference between its loaded addresses and those in its file.
    pub bias: u64,
    /// Its path, empty for the program itself; null if unknown.
    pub path: *const c_char,
}

#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: u64,
    map_end: u64,
    link_map: *const LinkMap,
    eh_frame_header: u64,
    reserved: [u64; 7],
}

#[repr(C)]
struct LinkMap {
    bias: u64,
    path: *const c_char,
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut FoundObject) -> c_int;

unsafe extern "C" {
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const HeaderInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn getauxval(kind: u64) -> u64;
}

static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// The address range of the program itself. If pages are missing between its segments, the loader reports each segment as if it
/// were an object.
static PROGRAM: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The address of its unwind tables, 0 if it has none, and the difference between its addresses and those in its file.
static PROGRAM_TABLES: AtomicU64 = AtomicU64::new(0);
static PROGRAM_BIAS: AtomicU64 = AtomicU64::new(0);

// Only the C library's archive has it. In a program without that archive the address is null.
core::arch::global_asm!(".weak __libc_setup_tls");

/// The address that the linker or the loader gave a symbol. It may be null, which the address of a function in Rust never is.
macro_rules! address_of {
    ($symbol:literal) => {{
        let address: *mut c_void;
        // SAFETY: reads an address.
        unsafe {
            core::arch::asm!(
                concat!("mov {address}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                address = out(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
        address
    }};
}

/// The loader's function that finds symbols. `None` in a statically linked program: some contain it, but it finds nothing there, and allocates.
fn symbol_finder() -> Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void> {
    let dlsym = address_of!("dlsym");
    if !address_of!("__libc_setup_tls").is_null() {
        return None;
    }
    // SAFETY: the function of this name has this type; null is `None`.
    unsafe { core::mem::transmute(dlsym) }
}

/// Whether there is a loader that finds symbols.
pub fn has_loader() -> bool {
    symbol_finder().is_some()
}

/// Looks a symbol up by its name; null if it is not found, or if there is no loader.
///
/// # Safety
/// `handle` is one that the loader knows.
pub unsafe fn find_symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the caller's.
    symbol_finder().map_or(core::ptr::null_mut(), |dlsym| unsafe { dlsym(handle, name.as_ptr()) })
}

/// Asks the loader once whether it can find objects without a lock, and where the program itself is.
#[cfg(not(feature = "injected"))]
pub fn prepare() {
    // SAFETY: a lookup by name.
    let found = unsafe { find_symbol(core::ptr::null_mut(), c"_dl_find_object") };
    FIND_OBJECT.store(found, Ordering::Relaxed);
    if !has_loader() && note_static_program() {
        return;
    }
    // SAFETY: the callback takes no data.
    unsafe { dl_iterate_phdr(note_program, core::ptr::null_mut()) };
}

/// Takes what the attacher has found out.
#[cfg(feature = "injected")]
pub fn prepare() {
    let header = crate::injected::header();
    FIND_OBJECT.store(header.find_object as *mut c_void, Ordering::Relaxed);
    for (bound, found) in PROGRAM.iter().zip(header.program) {
        bound.store(found, Ordering::Relaxed);
    }
}

/// Finds the program itself by what the kernel gave it: a statically linked program allocates before its C library's list is complete.
fn note_static_program() -> bool {
    const HEADERS: u64 = 3;
    const HEADER_COUNT: u64 = 5;
    const ELF_HEADER_BYTES: u64 = 64;
    // SAFETY: reads what the kernel gave the process at its start; the headers are the program's own, and follow its ELF header.
    unsafe {
        let (headers, count) = (getauxval(HEADERS), getauxval(HEADER_COUNT));
        if headers == 0 || headers & 4095 != ELF_HEADER_BYTES {
            return false;
        }
        let start = headers - ELF_HEADER_BYTES;
        let table = core::slice::from_raw_parts(headers as *const ProgramHeader, count.min(u16::MAX.into()) as usize);
        let Some(first) = table.iter().find(|segment| segment.kind == LOAD && segment.offset == 0) else {
            return false;
        };
        let bias = start.wrapping_sub(first.address);
        let info = HeaderInfo {
            bias,
            path: c"".as_ptr(),
            headers: table.as_ptr(),
            header_count: table.len() as u16,
            loads: 0,
            unloads: 0,
        };
        note_program(&raw const info, size_of::<HeaderInfo>(), core::ptr::null_mut());
    }
    true
}

/// The loader's list begins with the program.
unsafe extern "C" fn note_program(info: *const HeaderInfo, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: as the loader gives it.
    let info = unsafe { &*info };
    let extent = ModuleExtent::of(info);
    PROGRAM[0].store(extent.start, Ordering::Relaxed);
    PROGRAM[1].store(extent.end, Ordering::Relaxed);
    PROGRAM_TABLES.store(extent.header, Ordering::Relaxed);
    PROGRAM_BIAS.store(info.bias, Ordering::Relaxed);
    1
}

/// The program itself, if there is no loader and `pc` lies in it: known without asking, and so without a lock.
fn find_in_static_program(pc: u64) -> Option<LoadedModule> {
    let [start, end] = PROGRAM.each_ref().map(|bound| bound.load(Ordering::Relaxed));
    let header = PROGRAM_TABLES.load(Ordering::Relaxed);
    let tables = UnwindTables { start, end, header };
    let is_found = (start..end).contains(&pc) && !has_loader();
    is_found.then(|| LoadedModule { tables, bias: PROGRAM_BIAS.load(Ordering::Relaxed), path: c"".as_ptr() })
}

/// The module that `pc` lies in.
pub fn find(pc: u64) -> Option<LoadedModule> {
    #[cfg(feature = "injected")]
    if let Some(own) = attached::find_own(pc) {
        return Some(own);
    }
    let find_object = FIND_OBJECT.load(Ordering::Relaxed);
    if find_object.is_null() {
        #[cfg(feature = "injected")]
        return attached::find(pc);
        #[cfg(not(feature = "injected"))]
        return find_in_static_program(pc).or_else(|| find_in_list(pc));
    }
    // SAFETY: the symbol of that name has this type; all-zero is a valid result to be filled in.
    unsafe {
        let find_object: FindObject = core::mem::transmute(find_object);
        let mut found: FoundObject = core::mem::zeroed();
        if find_object(pc as *const c_void, &raw mut found) != 0 {
            return None;
        }
        let link_map = found.link_map.as_ref()?;
        let [first, last] = PROGRAM.each_ref().map(|bound| bound.load(Ordering::Relaxed));
        let is_program = found.map_start >= first && found.map_end <= last;
        let (start, end) = if is_program { (first, last) } else { (found.map_start, found.map_end) };
        let tables = UnwindTables { start, end, header: found.eh_frame_header };
        Some(LoadedModule { tables, bias: link_map.bias, path: link_map.path })
    }
}

/// Modules as the attacher lists them.
#[cfg(feature = "injected")]
mod attached {
    use super::{LoadedModule, UnwindTables};
    use crate::injected;
    use core::sync::atomic::{AtomicU64, Ordering, fence};
    use highwater_shm::attach_v1::{MODULES, MOST_MODULES, ModuleTable};

    /// The number of searches before a reader that the attacher disturbs gives up.
    const MOST_SEARCHES: usize = 8;

    /// The image itself: the loader does not know it.
    pub fn find_own(pc: u64) -> Option<LoadedModule> {
        let (code, header) = injected::own_code();
        let tables = UnwindTables { start: code.start, end: code.end, header };
        code.contains(&pc).then_some(LoadedModule { tables, bias: code.start, path: core::ptr::null() })
    }

    /// The module that `pc` lies in, by the table.
    pub fn find(pc: u64) -> Option<LoadedModule> {
        // SAFETY: the object has it there.
        let table = unsafe { &*((injected::header().shared + MODULES) as *const ModuleTable) };
        (0..MOST_SEARCHES).find_map(|_| {
            let changes = table.changes.load(Ordering::Acquire);
            let found = find_in(table, pc);
            fence(Ordering::Acquire);
            (changes.is_multiple_of(2) && table.changes.load(Ordering::Relaxed) == changes).then_some(found)
        })?
    }

    fn find_in(table: &ModuleTable, pc: u64) -> Option<LoadedModule> {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let modules = &table.modules[..(load(&table.count) as usize).min(MOST_MODULES)];
        let module = &modules[..modules.partition_point(|module| load(&module.start) <= pc)].last()?;
        let tables =
            UnwindTables { start: load(&module.start), end: load(&module.end), header: load(&module.unwind_tables) };
        let path = load(&module.path) as *const core::ffi::c_char;
        (pc < tables.end).then_some(LoadedModule { tables, bias: load(&module.bias), path })
    }
}

#[repr(C)]
struct HeaderInfo {
    bias: u64,
    path: *const c_char,
    headers: *const ProgramHeader,
    header_count: u16,
    /// The number of modules loaded so far.
    loads: u64,
    /// The number of modules unloaded so far.
    unloads: u64,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    alignment: u64,
}

const LOAD: u32 = 1;
const NOTE: u32 = 4;
const EH_FRAME: u32 = 0x6474_e550;

/// The state of a search through the loaded modules.
struct ModuleSearch {
    pc: u64,
    found: Option<LoadedModule>,
}

fn find_in_list(pc: u64) -> Option<LoadedModule> {
    let mut search = ModuleSearch { pc, found: None };
    // SAFETY: the callback gets the pointer back as it was given.
    unsafe { dl_iterate_phdr(look_at, (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn look_at(info: *const HeaderInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: both as the loader and `find_in_list` give them.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<ModuleSearch>()) };
    let ModuleExtent { start, end, header } = ModuleExtent::of(info);
    if search.pc < start || search.pc >= end {
        return 0;
    }
    search.found = Some(LoadedModule { tables: UnwindTables { start, end, header }, bias: info.bias, path: info.path });
    1
}

/// The address range of a module's segments, and its unwind tables; 0 if it has none.
struct ModuleExtent {
    start: u64,
    end: u64,
    header: u64,
}

impl ModuleExtent {
    fn of(info: &HeaderInfo) -> Self {
        // SAFETY: the loader's own table.
        let headers = unsafe { core::slice::from_raw_parts(info.headers, usize::from(info.header_count)) };
        let mut extent = Self { start: u64::MAX, end: 0, header: 0 };
        for segment in headers {
            let address = info.bias.wrapping_add(segment.address);
            match segment.kind {
                LOAD => {
                    extent.start = extent.start.min(address & !4095);
                    extent.end = extent.end.max(address + segment.memory_bytes);
                }
                EH_FRAME => extent.header = address,
                _ => {}
            }
        }
        extent
    }
}

impl LoadedModule {
    /// Its path as bytes; empty for the program itself.
    pub fn path(&self) -> &[u8] {
        self.c_path().to_bytes()
    }

    /// The same as a C string. The loader keeps it as long as the module is loaded.
    pub fn c_path(&self) -> &'static CStr {
        if self.path.is_null() {
            return c"";
        }
        // SAFETY: the loader's own string.
        unsafe { CStr::from_ptr(self.path) }
    }

    /// Copies its build id into `out`; returns its length, 0 if it has none.
    pub fn build_id(&self, out: &mut [u8]) -> usize {
        const GNU: [u8; 4] = *b"GNU\0";
        const BUILD_ID: u32 = 3;
        let mut length = 0;
        self.for_each_note(|name, kind, content| {
            if name == GNU && kind == BUILD_ID && content.len() <= out.len() {
                out[..content.len()].copy_from_slice(content);
                length = content.len();
            }
        });
        length
    }

    /// The readable segment of code that an address lies in.
    pub fn code_at(&self, address: u64) -> Option<Range<u64>> {
        const EXECUTE_AND_READ: u32 = 1 | 4;
        let mut code = None;
        self.for_each_segment(|segment, first| {
            let is_code = segment.kind == LOAD && segment.flags & EXECUTE_AND_READ == EXECUTE_AND_READ;
            if is_code && address.wrapping_sub(first) < segment.memory_bytes {
                code = Some(first..first + segment.memory_bytes);
            }
        });
        code
    }

    /// The notes of the module.
    fn for_each_note(&self, mut see: impl FnMut(&[u8], u32, &[u8])) {
        self.for_each_segment(|segment, first| {
            if segment.kind == NOTE {
                // SAFETY: notes are part of a loaded, readable segment.
                let notes = unsafe { core::slice::from_raw_parts(first as *const u8, segment.memory_bytes as usize) };
                each_note(notes, &mut see);
            }
        });
    }

    /// The segments that lie in the module, with their addresses, found through the ELF header at its start.
    fn for_each_segment(&self, mut see: impl FnMut(&ProgramHeader, u64)) {
        const MAGIC: [u8; 4] = *b"\x7fELF";
        let UnwindTables { start, end, .. } = self.tables;
        // SAFETY: the first page of a module is readable: it begins with the segment that has its headers.
        let header = unsafe { core::slice::from_raw_parts(start as *const u8, 64) };
        if header[..4] != MAGIC {
            return;
        }
        let offset = u64::from_le_bytes(header[32..40].try_into().unwrap_or_default());
        let count = u16::from_le_bytes([header[56], header[57]]);
        let table_bytes = u64::from(count) * size_of::<ProgramHeader>() as u64;
        if offset > 4096 || offset + table_bytes > 4096 || start + 4096 > end {
            return;
        }
        for index in 0..u64::from(count) {
            let header_address = start + offset + index * size_of::<ProgramHeader>() as u64;
            // SAFETY: within the first page.
            let segment = unsafe { (header_address as *const ProgramHeader).read_unaligned() };
            let first = self.bias.wrapping_add(segment.address);
            let inside = first >= start && first < end && segment.memory_bytes <= end - first;
            if inside {
                see(&segment, first);
            }
        }
    }
}

fn each_note(mut notes: &[u8], see: &mut impl FnMut(&[u8], u32, &[u8])) {
    while let Some((head, rest)) = notes.split_first_chunk::<12>() {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name_length, length) = (word(0) as usize, word(4) as usize);
        let (name_end, content_start) = (name_length, name_length.next_multiple_of(4));
        let Some(content_end) = content_start.checked_add(length) else { return };
        let (Some(name), Some(content)) = (rest.get(..name_end), rest.get(content_start..content_end)) else { return };
        see(name, word(8), content);
        notes = rest.get(content_end.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// Calls `ask` with the paths of loaded modules, and returns its first answer.
pub fn find_by_path<T>(ask: fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut asked = Asked { ask, answer: None };
    // SAFETY: the callback gets the pointer back as it was given.
    unsafe { dl_iterate_phdr(ask_about::<T>, (&raw mut asked).cast()) };
    asked.answer
}

struct Asked<T> {
    ask: fn(&[u8]) -> Option<T>,
    answer: Option<T>,
}

unsafe extern "C" fn ask_about<T>(info: *const HeaderInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: both as the loader and `find_by_path` give them.
    let (info, asked) = unsafe { (&*info, &mut *data.cast::<Asked<T>>()) };
    if !info.path.is_null() {
        // SAFETY: the loader's own string.
        asked.answer = (asked.ask)(unsafe { CStr::from_ptr(info.path) }.to_bytes());
    }
    asked.answer.is_some().into()
}

/// The number of modules that the loader has unloaded so far.
pub fn unload_count() -> u64 {
    let mut count = 0u64;
    // SAFETY: the callback writes one word.
    unsafe { dl_iterate_phdr(take_count, (&raw mut count).cast()) };
    count
}

unsafe extern "C" fn take_count(info: *const HeaderInfo, size: usize, data: *mut c_void) -> c_int {
    if size >= size_of::<HeaderInfo>() {
        // SAFETY: the loader says that the fields are there.
        unsafe { data.cast::<u64>().write((*info).unloads) };
    }
    1
}
