//! Classifies an executable file: whether the preload library can be loaded into it, and would see its blocks.
//!
//! Reads a few hundred bytes here and there, allocates nothing, and trusts nothing: an invalid file is left to the kernel.

use highwater_shm::unrecorded_v1::Reason;

/// Reads the file at an offset into a buffer; returns the number of bytes read.
pub type ReadAt<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

/// The longest name of an interpreter.
pub const LONGEST_PATH: usize = 256;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is no heap to put a path on")]
pub enum ExecutableKind {
    /// The library can be loaded into it, as far as can be seen.
    Fit,
    /// The library cannot be loaded into it, or would do harm there.
    Unfit(Reason),
    /// A program with a `malloc` of its own: the library does no harm there, but sees nothing.
    OwnAllocator,
    /// A program with the C library linked into it, whose agent does the work.
    Linked {
        /// No library can be loaded into it.
        is_static: bool,
    },
    /// A script for the interpreter whose path this is, with its length.
    Script([u8; LONGEST_PATH], usize),
}

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const MOST_SEGMENTS: u64 = 64;
const MOST_LOADS: usize = 16;
const ENTRY_BYTES: usize = 16;
const MOST_ENTRIES: u64 = 512;
const SYMBOL_BYTES: u64 = 24;
/// The maximum number of symbols checked in one bucket.
const MOST_IN_BUCKET: u64 = 4096;

/// Runtimes that must be loaded before any other library, or that break when `malloc` is called before they are ready.
const RUNTIMES: [(&[u8], Reason); 8] = [
    (b"libasan.so", Reason::AddressSanitizer),
    (b"libhwasan.so", Reason::AddressSanitizer),
    (b"libclang_rt.asan", Reason::AddressSanitizer),
    (b"libclang_rt.hwasan", Reason::AddressSanitizer),
    (b"liblsan.so", Reason::LeakSanitizer),
    (b"libtsan.so", Reason::ThreadSanitizer),
    (b"libclang_rt.tsan", Reason::ThreadSanitizer),
    (b"libclang_rt.msan", Reason::MemorySanitizer),
];

/// The same, linked into the program: exported functions by which they are recognized.
const LINKED_IN: [(&[u8], Reason); 5] = [
    (b"__asan_init", Reason::AddressSanitizer),
    (b"__hwasan_init", Reason::AddressSanitizer),
    (b"__lsan_init", Reason::LeakSanitizer),
    (b"__tsan_init", Reason::ThreadSanitizer),
    (b"__msan_init", Reason::MemorySanitizer),
];

/// The runtime of a sanitizer, by the name of a library.
pub fn sanitizer(library: &[u8]) -> Option<Reason> {
    let name = library.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    RUNTIMES.iter().find(|(start, _)| name.starts_with(start)).map(|&(_, reason)| reason)
}

/// Classifies a file.
pub fn look_at(read: ReadAt<'_>) -> ExecutableKind {
    let mut start = [0; LONGEST_PATH];
    let length = read(0, &mut start);
    let start = &start[..length.min(LONGEST_PATH)];
    if let Some(line) = start.strip_prefix(b"#!") {
        return script(line);
    }
    let Some(header) = start.get(..HEADER_BYTES).filter(|header| header.starts_with(b"\x7fELF")) else {
        // Perhaps a script without an interpreter line: left to the shell.
        return ExecutableKind::Fit;
    };
    const SIXTY_FOUR_BIT: u8 = 2;
    const X86_64: [u8; 2] = [62, 0];
    if header[4] != SIXTY_FOUR_BIT || header[18..20] != X86_64 {
        return ExecutableKind::Unfit(Reason::OtherMachine);
    }
    ElfProgram::of(read, header).kind()
}

fn script(line: &[u8]) -> ExecutableKind {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let word = line.split(|byte| b" \t\0".contains(byte)).find(|word| !word.is_empty()).unwrap_or_default();
    let mut path = [0; LONGEST_PATH];
    path[..word.len()].copy_from_slice(word);
    ExecutableKind::Script(path, word.len())
}

/// The name in the note by which a program with the C library is recognized. Notes stay in a program that is stripped.
pub const NOTE_NAME: &[u8; 10] = b"Highwater\0";

/// Whether one of these notes is that of the C library.
fn has_note(read: ReadAt<'_>, offset: u64, length: u64) -> bool {
    const HEAD: u64 = 12;
    const MOST_NOTES: usize = 64;
    let (mut at, Some(end)) = (offset, offset.checked_add(length)) else { return false };
    for _ in 0..MOST_NOTES {
        let mut note = [0; HEAD as usize + NOTE_NAME.len()];
        if at >= end || read(at, &mut note) < note.len() {
            return false;
        }
        let (name, content) = (number(&note[..4]), number(&note[4..8]));
        if name == NOTE_NAME.len() as u64 && note.ends_with(NOTE_NAME) {
            return true;
        }
        let next = at.saturating_add(HEAD).saturating_add(name.next_multiple_of(4)).saturating_add(content);
        let Some(next) = next.checked_next_multiple_of(4) else { return false };
        at = next;
    }
    false
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// An ELF file for this processor.
struct ElfProgram<'a> {
    read: ReadAt<'a>,
    /// Address, offset in the file and length of each loaded segment.
    loads: [(u64, u64, u64); MOST_LOADS],
    /// Offset and length of the loader's name, and of the dynamic section.
    interpreter: Option<(u64, u64)>,
    dynamic: Option<(u64, u64)>,
    /// Offset of the section headers, and their number.
    sections: (u64, u64),
    /// It has the note of the C library.
    is_linked: bool,
}

impl<'a> ElfProgram<'a> {
    fn of(read: ReadAt<'a>, header: &[u8]) -> Self {
        const LOAD: u64 = 1;
        const DYNAMIC: u64 = 2;
        const INTERPRETER: u64 = 3;
        const NOTES: u64 = 4;
        let mut program = Self {
            read,
            loads: [(0, 0, 0); MOST_LOADS],
            interpreter: None,
            dynamic: None,
            sections: (0, 0),
            is_linked: false,
        };
        let (table, count) = (number(&header[32..40]), number(&header[56..58]));
        program.sections = (number(&header[40..48]), number(&header[60..62]));
        let mut loads = program.loads.iter_mut();
        for index in 0..count.min(MOST_SEGMENTS) {
            let mut segment = [0; SEGMENT_BYTES];
            if read(table.saturating_add(index * SEGMENT_BYTES as u64), &mut segment) < SEGMENT_BYTES {
                break;
            }
            let (offset, address) = (number(&segment[8..16]), number(&segment[16..24]));
            let length = number(&segment[32..40]);
            match number(&segment[..4]) {
                LOAD => {
                    if let Some(slot) = loads.next() {
                        *slot = (address, offset, length);
                    }
                }
                DYNAMIC => program.dynamic = Some((offset, length)),
                INTERPRETER => program.interpreter = Some((offset, length)),
                NOTES => program.is_linked |= has_note(read, offset, length),
                _ => {}
            }
        }
        program
    }

    fn kind(&self) -> ExecutableKind {
        let Some((offset, _)) = self.interpreter else {
            let linked = ExecutableKind::Linked { is_static: true };
            return if self.is_linked { linked } else { ExecutableKind::Unfit(Reason::Static) };
        };
        let mut loader = [0; LONGEST_PATH];
        (self.read)(offset, &mut loader);
        let loader = text(&loader);
        if loader.windows(4).any(|part| part == b"musl") {
            return ExecutableKind::Unfit(Reason::OtherLibrary);
        }
        match self.by_its_libraries().or_else(|| self.by_its_symbols()) {
            Some(unfit @ ExecutableKind::Unfit(_)) => unfit,
            _ if self.is_linked => ExecutableKind::Linked { is_static: false },
            found => found.unwrap_or(ExecutableKind::Fit),
        }
    }

    /// The file offset of an address.
    fn offset(&self, address: u64) -> Option<u64> {
        let holds = |&&(start, _, length): &&(u64, u64, u64)| address >= start && address - start < length;
        self.loads.iter().find(holds).and_then(|&(start, offset, _)| offset.checked_add(address - start))
    }

    /// The dynamic section's entries: kind and value.
    fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        const END: u64 = 0;
        let (offset, length) = self.dynamic.unwrap_or_default();
        let count = (length / ENTRY_BYTES as u64).min(MOST_ENTRIES);
        (0..count)
            .map_while(move |index| {
                let mut entry = [0; ENTRY_BYTES];
                let whole = (self.read)(offset.checked_add(index * ENTRY_BYTES as u64)?, &mut entry) == ENTRY_BYTES;
                whole.then(|| (number(&entry[..8]), number(&entry[8..])))
            })
            .take_while(|&(kind, _)| kind != END)
    }

    /// The offset of the table whose address an entry of this kind gives.
    fn table(&self, kind: u64) -> Option<u64> {
        self.entries().find(|&(found, _)| found == kind).and_then(|(_, address)| self.offset(address))
    }

    fn by_its_libraries(&self) -> Option<ExecutableKind> {
        const NEEDED: u64 = 1;
        let names = self.table(NAMES)?;
        self.entries().filter(|&(kind, _)| kind == NEEDED).find_map(|(_, at)| {
            let mut name = [0; 64];
            (self.read)(names.checked_add(at)?, &mut name);
            sanitizer(text(&name)).map(ExecutableKind::Unfit)
        })
    }

    /// Finds a sanitizer that is linked in and exports nothing, by the names of its functions: they are there unless the program was stripped.
    fn runtime_by_its_names(&self) -> Option<Reason> {
        const SECTION_BYTES: u64 = 64;
        const MOST_SECTIONS: u64 = 128;
        const STRINGS: u64 = 3;
        let (table, count) = self.sections;
        (0..count.min(MOST_SECTIONS)).find_map(|index| {
            let mut section = [0; SECTION_BYTES as usize];
            (self.read)(table.checked_add(index * SECTION_BYTES)?, &mut section);
            let (offset, length) = (number(&section[24..32]), number(&section[32..40]));
            (number(&section[4..8]) == STRINGS).then(|| self.runtime_in(offset, length)).flatten()
        })
    }

    /// Searches names for one of [`LINKED_IN`].
    fn runtime_in(&self, mut offset: u64, length: u64) -> Option<Reason> {
        /// Overlap of two parts, so that no name is cut in both.
        const OVERLAP: u64 = 32;
        const MOST_BYTES: u64 = 64 << 20;
        let end = offset.checked_add(length.min(MOST_BYTES))?;
        let mut part = [0; 2048];
        while offset < end {
            let read = (self.read)(offset, &mut part);
            let names = part.get(..read)?;
            let is_named = |function: &[u8]| {
                let starts =
                    |at: usize| names[at..].starts_with(function) && names.get(at + function.len()) == Some(&0);
                names.iter().enumerate().any(|(at, &byte)| byte == b'_' && starts(at))
            };
            // All of them begin with two underscores; most parts have none.
            if names.windows(2).any(|pair| pair == b"__")
                && let Some(&(_, reason)) = LINKED_IN.iter().find(|(function, _)| is_named(function))
            {
                return Some(reason);
            }
            if read < part.len() {
                return None;
            }
            offset += read as u64 - OVERLAP;
        }
        None
    }

    fn by_its_symbols(&self) -> Option<ExecutableKind> {
        let symbols = ExportedSymbols::of(self)?;
        if !symbols.defines(b"malloc") {
            return None;
        }
        let exported = LINKED_IN.iter().find(|(function, _)| symbols.defines(function)).map(|&(_, reason)| reason);
        Some(
            exported
                .or_else(|| self.runtime_by_its_names())
                .map_or(ExecutableKind::OwnAllocator, ExecutableKind::Unfit),
        )
    }
}

/// The entries of the dynamic section for the names and the symbols.
const NAMES: u64 = 5;
const SYMBOLS: u64 = 6;
const GNU_HASHES: u64 = 0x6fff_fef5;

fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The symbols that a program exports, found by their hashes.
struct ExportedSymbols<'a> {
    read: ReadAt<'a>,
    names: u64,
    symbols: u64,
    buckets: u64,
    bucket_count: u64,
    chains: u64,
    first: u64,
}

impl<'a> ExportedSymbols<'a> {
    fn of(program: &ElfProgram<'a>) -> Option<Self> {
        let hashes = program.table(GNU_HASHES)?;
        let mut head = [0; 16];
        if (program.read)(hashes, &mut head) < head.len() {
            return None;
        }
        let (bucket_count, first) = (number(&head[..4]), number(&head[4..8]));
        let buckets = hashes.checked_add(16)?.checked_add(number(&head[8..12]) * 8)?;
        (bucket_count > 0).then_some(())?;
        Some(Self {
            read: program.read,
            names: program.table(NAMES)?,
            symbols: program.table(SYMBOLS)?,
            buckets,
            bucket_count,
            chains: buckets.checked_add(bucket_count * 4)?,
            first,
        })
    }

    fn word(&self, at: u64) -> Option<u64> {
        let mut word = [0; 4];
        ((self.read)(at, &mut word) == word.len()).then(|| number(&word))
    }

    fn defines(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// The number of a symbol that is defined here.
    fn find(&self, name: &[u8]) -> Option<u64> {
        let hash = name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        let bucket = u64::from(hash) % self.bucket_count;
        let first = self.word(self.buckets.checked_add(bucket * 4)?)?;
        let in_chain = first.checked_sub(self.first)?;
        for step in 0..MOST_IN_BUCKET {
            let chained = self.word(self.chains.checked_add((in_chain + step) * 4)?)? as u32;
            if chained | 1 == hash | 1 && self.is_defined_as(first + step, name) {
                return Some(first + step);
            }
            if chained & 1 == 1 {
                return None;
            }
        }
        None
    }

    fn is_defined_as(&self, symbol: u64, name: &[u8]) -> bool {
        let (mut entry, mut found) = ([0; SYMBOL_BYTES as usize], [0; 32]);
        let Some(offset) = symbol.checked_mul(SYMBOL_BYTES).and_then(|at| self.symbols.checked_add(at)) else {
            return false;
        };
        if (self.read)(offset, &mut entry) < entry.len() {
            return false;
        }
        let is_defined = number(&entry[6..8]) != 0;
        let Some(named) = self.names.checked_add(number(&entry[..4])) else { return false };
        (self.read)(named, &mut found);
        is_defined && text(&found) == name
    }
}
