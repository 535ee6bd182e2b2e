//! Where glibc's arenas are, and a copy of them.
//!
//! `main_arena` has no symbol in most systems. It is the address in the C library's data whose empty bins point to themselves, whose ring of arenas leads back, and whose
//! top chunk is mapped.

use crate::elf::{PT_LOAD, u64_at};
use crate::mappings::AddressSpace;
use crate::modules::TargetModule;
use crate::target_memory::TargetMemory;
use crate::threads::read_many;
use std::borrow::Cow;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::time::Instant;

/// The versions of glibc whose layout is known: 2.35 to 2.41.
const KNOWN_VERSIONS: RangeInclusive<u32> = 35..=41;
/// Offsets in `struct malloc_state`, the same in these versions.
const FAST_BINS: u64 = 0x10;
const TOP: u64 = 0x60;
const BINS: u64 = 0x70;
const NEXT: u64 = 0x870;
const ARENA_BYTES: u64 = 0x898;
const BIN_COUNT: u64 = 127;
/// Heaps of other arenas begin at multiples of this.
const HEAP_BYTES: u64 = 64 << 20;
const MOST_ARENAS: usize = 4096;
/// All heaps of all arenas.
const MOST_RANGES: usize = 1 << 16;
/// Places that are examined because they look like the main arena.
const MOST_CANDIDATES: usize = 512;
const MOST_DATA: u64 = 64 << 20;
/// Bytes that are copied after the end of a range: the header of the top chunk.
const AFTER: u64 = 32;
/// From the limits of the thread caches back to the number of chunks with mappings of their own, and to the sum of their bytes.
const MAPPED_COUNT: u64 = 0x2c;
const MAPPED_BYTES: u64 = 0x18;
const PAGE: u64 = 4096;
/// Bytes that are copied before the time is looked at.
const PART: usize = 1 << 20;

/// Where the C library keeps its state.
#[derive(Clone, Debug)]
pub(super) struct HeapLayout {
    main_arena: u64,
    /// `mp_`, by its limits of the thread caches.
    parameters: u64,
    /// Its writable data: one of the words is the mark of cached chunks.
    data: Range<u64>,
}

pub(super) fn find_layout(memory: &TargetMemory, modules: &[TargetModule]) -> Option<HeapLayout> {
    for module in modules.iter().filter(|module| {
        !module.is_loader && !module.is_vdso && (module.is_program || module.file_name().starts_with("libc"))
    }) {
        if !version_of(memory, module).is_some_and(|version| KNOWN_VERSIONS.contains(&version)) {
            continue;
        }
        for segment in module.segments.iter().filter(|segment| segment.kind == PT_LOAD && segment.writable) {
            let start = module.bias.wrapping_add(segment.address) & !7;
            let end = start.wrapping_add(segment.memory_bytes) & !7;
            if end <= start || end - start > MOST_DATA {
                continue;
            }
            let Ok(data) = memory.read_vec(start, (end - start) as usize) else { continue };
            if let Some(layout) = layout_in(memory, start..end, &data) {
                return Some(layout);
            }
        }
    }
    None
}

/// The second number of glibc's version, as the function `gnu_get_libc_version` would return it. The function is read, not called: `lea rax, [rip + …]`, `ret`.
fn version_of(memory: &TargetMemory, module: &TargetModule) -> Option<u32> {
    const NAME: &str = "gnu_get_libc_version";
    let function = module.symbols.find(module.bias, &[NAME]).get(NAME)?.address;
    let code = memory.read_vec(function, 12).ok()?;
    let text = memory.read_vec(address_returned(function, &code)?, 16).ok()?;
    second_number(&text)
}

fn address_returned(function: u64, code: &[u8]) -> Option<u64> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let skip = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let [0x48, 0x8d, 0x05, a, b, c, d, 0xc3] = *code.get(skip..)?.first_chunk::<8>()? else { return None };
    let displacement = i32::from_le_bytes([a, b, c, d]);
    Some(function.wrapping_add(skip as u64 + 7).wrapping_add_signed(displacement.into()))
}

/// Of a version like `2.36`, which ends with a zero byte. glibc's first number has been 2 since 1997.
fn second_number(text: &[u8]) -> Option<u32> {
    let end = text.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    text.strip_prefix("2.")?.split('.').next()?.parse().ok()
}

fn layout_in(memory: &TargetMemory, range: Range<u64>, data: &[u8]) -> Option<HeapLayout> {
    let word = |address: u64| u64_at(data, (address.checked_sub(range.start)?) as usize);
    let is_empty_bin = |arena: u64, bin: u64| {
        let at = arena + BINS + 16 * bin;
        word(at) == Some(at - 16) && word(at + 8) == Some(at - 16)
    };
    let last = range.end.checked_sub(ARENA_BYTES)?;
    let mut candidates = (range.start..last).step_by(8).filter(|&arena| {
        let empty = || (0..BIN_COUNT).filter(|&bin| is_empty_bin(arena, bin)).count();
        // The first comparison of a bin fails nearly everywhere.
        (0..BIN_COUNT).step_by(8).any(|bin| is_empty_bin(arena, bin)) && empty() >= 8
    });
    // The bins of one arena make some of its neighbours look like arenas. A program can make all of its data look so.
    let main_arena = candidates.by_ref().take(MOST_CANDIDATES).find(|&arena| {
        ring(memory, arena).is_some() && {
            // Mapped by now: the heap may have grown since the mappings were read.
            let top = word(arena + TOP).unwrap_or(0);
            top.is_multiple_of(16) && memory.read_u64(top).is_ok()
        }
    })?;
    // `tcache_bins`, `tcache_max_bytes`, `tcache_count`.
    let parameters = (range.start + 0x40..range.end.checked_sub(24)?)
        .step_by(8)
        .find(|&at| word(at) == Some(64) && word(at + 8) == Some(0x408) && word(at + 16) == Some(7))?;
    Some(HeapLayout { main_arena, parameters, data: range })
}

/// All arenas, the main one first, if their ring leads back to it.
fn ring(memory: &TargetMemory, main_arena: u64) -> Option<Vec<u64>> {
    let mut arenas = vec![main_arena];
    loop {
        let next = memory.read_u64(arenas.last()?.checked_add(NEXT)?).ok()?;
        if next == main_arena {
            return Some(arenas);
        }
        if next == 0 || arenas.len() == MOST_ARENAS || arenas.contains(&next) {
            return None;
        }
        arenas.push(next);
    }
}

/// The spans of chunks: from the first chunk to the top one or the end of the heap. With each, its arena.
pub(super) fn heap_ranges(memory: &TargetMemory, layout: &HeapLayout) -> Vec<(Range<u64>, u64)> {
    let mut ranges = Vec::new();
    let read = |address: u64| memory.read_u64(address).unwrap_or(0);
    for arena in ring(memory, layout.main_arena).unwrap_or_default() {
        let top = read(arena + TOP);
        if arena == layout.main_arena {
            let base = read(layout.parameters - 8);
            if base != 0 && base < top {
                ranges.push((base.next_multiple_of(16)..top, arena));
            }
            continue;
        }
        let first = arena & !(HEAP_BYTES - 1);
        let header_bytes = arena & (HEAP_BYTES - 1);
        let mut heap = top & !(HEAP_BYTES - 1);
        for _ in 0..MOST_ARENAS {
            if ranges.len() == MOST_RANGES {
                return ranges;
            }
            let start = if heap == first { arena + ARENA_BYTES } else { heap + header_bytes };
            let end = if heap == top & !(HEAP_BYTES - 1) {
                top
            } else {
                heap.saturating_add(read(heap + 16).min(HEAP_BYTES))
            };
            if start < end {
                ranges.push((start.next_multiple_of(16)..end, arena));
            }
            if heap == first || heap == 0 {
                break;
            }
            heap = read(heap + 8);
        }
    }
    ranges
}

/// The bytes of all ranges.
pub(super) fn bytes_of(ranges: &[(Range<u64>, u64)]) -> u64 {
    ranges.iter().fold(0, |sum: u64, (range, _)| sum.saturating_add(range.end - range.start))
}

/// Everything that is needed to read the heap, as of one instant.
#[derive(Debug, Default)]
pub(super) struct HeapCopy<'a> {
    /// Spans of chunks, each with the header of the chunk after it.
    pub spans: Vec<CopiedSpan<'a>>,
    /// Words that may be the mark of cached chunks.
    pub words: Vec<u64>,
    /// The first chunks of fast bins.
    pub fast: Vec<u64>,
    /// Chunks with a mapping of their own: address, size.
    pub mapped: Vec<(u64, u64)>,
}

/// A span of chunks.
#[derive(Debug)]
pub(super) struct CopiedSpan<'a> {
    pub start: u64,
    pub end: u64,
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> HeapCopy<'a> {
    /// All threads must be stopped. Gives up after the deadline, as `TimedOut`, and if there are more than `most` bytes. Spans are copied into `room` while there is some.
    pub(super) fn take(
        pid: i32,
        memory: &TargetMemory,
        layout: &HeapLayout,
        most: u64,
        mut room: &'a mut [u8],
        deadline: Instant,
    ) -> io::Result<Self> {
        let mut copy = Self::default();
        let ranges = heap_ranges(memory, layout);
        if bytes_of(&ranges) > most {
            return Err(io::ErrorKind::TimedOut.into());
        }
        for (range, _) in ranges {
            let wanted = (range.end - range.start + AFTER) as usize;
            let bytes = if wanted <= room.len() {
                let (into, rest) = std::mem::take(&mut room).split_at_mut(wanted);
                room = rest;
                let done = copy_span(pid, &range, into, deadline)?;
                Cow::Borrowed(&into[..done])
            } else {
                let mut into = vec![0; wanted];
                let done = copy_span(pid, &range, &mut into, deadline)?;
                into.truncate(done);
                Cow::Owned(into)
            };
            copy.spans.push(CopiedSpan { start: range.start, end: range.end, bytes });
        }
        for arena in ring(memory, layout.main_arena).unwrap_or_default() {
            let bins = memory.read_vec(arena + FAST_BINS, 80)?;
            copy.fast.extend((0..10).filter_map(|bin| u64_at(&bins, bin * 8)).filter(|&first| first != 0));
        }
        let data = memory.read_vec(layout.data.start, (layout.data.end - layout.data.start) as usize)?;
        copy.words = data
            .chunks_exact(8)
            .filter_map(|word| u64_at(word, 0))
            .filter(|word| word >> 48 != 0 && word >> 48 != 0xffff)
            .collect();
        let count = memory.read_u32(layout.parameters - MAPPED_COUNT)?;
        let bytes = memory.read_u64(layout.parameters - MAPPED_BYTES)?;
        copy.mapped = mapped_chunks(pid, count.into(), bytes, deadline)?;
        Ok(copy)
    }
}

/// Copies a span and what follows it; returns how many bytes there were.
fn copy_span(pid: i32, range: &Range<u64>, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        in_time(deadline)?;
        let at = range.start + done as u64;
        let wanted = (into.len() - done).min(PART);
        let part = at..at + wanted as u64;
        match read_many(pid, std::slice::from_ref(&part), &mut into[done..done + wanted]) {
            Ok(read) if read > 0 => done += read,
            // After the last chunk of a heap that is full there is nothing.
            _ if done as u64 >= range.end - range.start => break,
            Ok(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn in_time(deadline: Instant) -> io::Result<()> {
    if Instant::now() > deadline { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

/// The size of a chunk with a mapping of its own, if these are its first two words and it fits in `room` bytes.
fn mapped_size(words: &[u8], room: u64) -> Option<u64> {
    let (before, size) = (u64_at(words, 0)?, u64_at(words, 8)?);
    let bytes = size & !7;
    let is_chunk = size & 7 == 2 && bytes.is_multiple_of(PAGE) && (PAGE..=room).contains(&bytes) && before < bytes;
    is_chunk.then_some(bytes)
}

/// Chunks with a mapping of their own, as many as glibc counts, with as many bytes. The kernel joins neighbours, the new one first: most begin at the start of a mapping, or
/// after such a chunk. If that is not all, every page of these mappings is looked at. Memory of the program can look like such a chunk: if number and bytes are not those
/// that glibc counts, none is returned, as `InvalidData`. A thread that makes or frees one at this moment has the same effect.
fn mapped_chunks(pid: i32, count: u64, bytes: u64, deadline: Instant) -> io::Result<Vec<(u64, u64)>> {
    if count == 0 && bytes == 0 {
        return Ok(Vec::new());
    }
    let is_all = |found: &[(u64, u64)]| {
        found.len() as u64 == count && found.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.1)) == bytes
    };
    let mut mappings = AddressSpace::read(pid)?.mappings;
    mappings.retain(|mapping| mapping.name.is_empty() && mapping.readable && mapping.writable && !mapping.shared);
    let mut found = Vec::new();
    for mapping in &mappings {
        in_time(deadline)?;
        let (mut at, mut words) = (mapping.start, [0; 16]);
        while at < mapping.end
            && read_many(pid, std::slice::from_ref(&(at..at + 16)), &mut words).is_ok_and(|read| read == 16)
            && let Some(bytes) = mapped_size(&words, mapping.end - at)
        {
            found.push((at, bytes));
            at += bytes;
        }
    }
    if is_all(&found) {
        return as_aligned(pid, found, deadline);
    }
    found.clear();
    for mapping in &mappings {
        let mut at = mapping.start;
        while at < mapping.end {
            in_time(deadline)?;
            let pages = ((mapping.end - at) / PAGE).min(512);
            let heads: Vec<Range<u64>> = (0..pages).map(|page| at + page * PAGE..at + page * PAGE + 16).collect();
            let mut bytes = vec![0; heads.len() * 16];
            let read = read_many(pid, &heads, &mut bytes)?;
            let mut next = at + pages * PAGE;
            for (head, words) in heads.iter().zip(bytes[..read].chunks_exact(16)) {
                if let Some(bytes) = mapped_size(words, mapping.end - head.start) {
                    found.push((head.start, bytes));
                    if is_all(&found) {
                        return as_aligned(pid, found, deadline);
                    }
                    next = head.start + bytes;
                    break;
                }
            }
            if found.len() as u64 > count || read < heads.len() * 16 && next == at + pages * PAGE {
                break;
            }
            at = next;
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// The chunks that the program has of these mappings. `memalign` makes one begin later than its mapping: its first word is then how much later, its second one the rest of
/// the size, and the mapping still begins with the words of the whole.
fn as_aligned(pid: i32, mut chunks: Vec<(u64, u64)>, deadline: Instant) -> io::Result<Vec<(u64, u64)>> {
    const LEAST_CHUNK: u64 = 32;
    for (start, bytes) in &mut chunks {
        in_time(deadline)?;
        let end = *start + *bytes;
        let alignments = (5..47).map(|bit| 1 << bit).take_while(|alignment| alignment < bytes);
        let begins = alignments.map(|alignment: u64| {
            let at = (*start + 16).next_multiple_of(alignment) - 16;
            if at - *start < LEAST_CHUNK { at + alignment } else { at }
        });
        let heads: Vec<Range<u64>> = begins.filter(|at| at + LEAST_CHUNK <= end).map(|at| at..at + 16).collect();
        let mut words = vec![0; heads.len() * 16];
        let read = read_many(pid, &heads, &mut words)?;
        let is_chunk = |(head, words): &(&Range<u64>, &[u8])| {
            u64_at(words, 0) == Some(head.start - *start) && u64_at(words, 8) == Some((end - head.start) | 2)
        };
        if let Some((head, _)) = heads.iter().zip(words[..read].chunks_exact(16)).find(is_chunk) {
            (*start, *bytes) = (head.start, end - head.start);
        }
    }
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use super::{KNOWN_VERSIONS, address_returned, second_number};

    #[test]
    fn the_version_is_read_from_the_code_that_returns_it() {
        let plain = [0x48, 0x8d, 0x05, 0x10, 0, 0, 0, 0xc3, 0, 0, 0, 0];
        assert_eq!(address_returned(0x1000, &plain), Some(0x1017));
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x05, 0xf0, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(address_returned(0x1000, &marked), Some(0x0ffb));
        assert_eq!(address_returned(0x1000, &[0xb8; 12]), None);
        let known = |text: &[u8]| second_number(text).is_some_and(|version| KNOWN_VERSIONS.contains(&version));
        for text in [&b"2.36\0abc"[..], b"2.35\0", b"2.41\0", b"2.36.9000\0"] {
            assert!(known(text), "{text:?}");
        }
        for text in [&b"2.34\0"[..], b"2.42\0", b"2.43\0", b"3.36\0", b"2.36", b"\0", b"2.\0", b"1.2.36\0"] {
            assert!(!known(text), "{text:?}");
        }
    }
}
