//! The meaning of the records of a capture.

use super::bytes::{ByteReader, RecordError};
use super::header::CaptureHeader;
use super::mappings::Mappings;
use super::native::NativeStacks;
use super::python::{PythonFunction, PythonStacks};
use crate::format::ReadHistory;
use crate::modules::Segments;
use highwater_model::{
    Catalog, Event, EventKind, EventSink, Heap, Nanos, Placement, Source, StackId, StringId, Tag, TagId, ThreadId,
    gauge,
};
use std::io::BufRead;

/// The number of addresses that a record can refer to.
const RECENT: usize = 15;

/// What memray calls an allocator: the function that was called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allocator {
    /// A block is allocated by the function with this name.
    Allocates(&'static str),
    Frees,
    Maps,
    Unmaps,
}

impl Allocator {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 | 5 => Self::Frees,
            2 => Self::Allocates("pymalloc_malloc"),
            3 => Self::Allocates("pymalloc_calloc"),
            4 => Self::Allocates("pymalloc_realloc"),
            6 => Self::Allocates("malloc"),
            7 => Self::Allocates("realloc"),
            8 => Self::Allocates("calloc"),
            9 => Self::Allocates("posix_memalign"),
            10 => Self::Allocates("aligned_alloc"),
            11 => Self::Allocates("memalign"),
            12 => Self::Allocates("valloc"),
            13 => Self::Allocates("pvalloc"),
            14 => Self::Maps,
            15 => Self::Unmaps,
            _ => return None,
        })
    }
}

/// The latest numbers of each kind, to which differences refer.
#[derive(Default)]
struct Latest {
    /// An eighth of an address.
    address: u64,
    return_address: u64,
    native_call: u64,
    first_line: u64,
}

/// The state of reading.
pub(super) struct MemrayReader<'a> {
    sink: &'a mut dyn EventSink,
    catalog: Catalog,
    source: Source,
    python: PythonStacks,
    native: Option<NativeStacks>,
    mappings: Mappings,
    main_thread: ThreadId,
    thread: Option<ThreadId>,
    time: Nanos,
    latest: Latest,
    recent: [u64; RECENT],
    rss: StringId,
}

impl<'a> MemrayReader<'a> {
    pub fn new(header: CaptureHeader, sink: &'a mut dyn EventSink) -> Self {
        let CaptureHeader { source, python, has_native_traces, main_thread, skipped_calls } = header;
        let mut catalog = Catalog::default();
        let rss = catalog.strings.intern(gauge::RSS);
        let mapped = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
        sink.begin(&source);
        Self {
            sink,
            catalog,
            source,
            python: PythonStacks::new(python, main_thread, skipped_calls),
            native: has_native_traces.then(NativeStacks::new),
            mappings: Mappings::with_tag(mapped),
            main_thread,
            thread: None,
            time: Nanos(0),
            latest: Latest::default(),
            recent: [0; RECENT],
            rss,
        }
    }

    /// Reads all records.
    pub fn read_all(&mut self, bytes: &mut ByteReader<impl BufRead>) -> Result<(), RecordError> {
        loop {
            let kind = bytes.byte()?;
            match kind {
                // A file grows in advance. If the program was killed, the rest of it is empty.
                0 if bytes.only_zeros_follow()? => return Err(RecordError::Ended),
                1 => return Ok(()),
                2 => self.resident(bytes)?,
                5 => self.native_call(bytes)?,
                6 => self.native.iter_mut().for_each(NativeStacks::clear_modules),
                7 => self.module(bytes)?,
                10 => {
                    let name = bytes.text()?;
                    let thread = self.current_thread(bytes)?;
                    self.catalog.name_thread(thread, &name);
                }
                12 => self.thread = Some(ThreadId(bytes.word()?)),
                14 => self.function(bytes)?,
                16..32 => {
                    let thread = self.current_thread(bytes)?;
                    if !self.python.pop(thread, usize::from(kind & 15) + 1) {
                        return Err(bytes.malformed("more calls return than were made"));
                    }
                }
                32..64 => self.object(bytes, kind)?,
                64..128 => {
                    let (function, offset) = (bytes.number()?, bytes.signed()?);
                    let thread = self.current_thread(bytes)?;
                    self.python.push(&mut self.catalog, thread, function, offset, kind & 1 == 1);
                }
                128.. => self.allocation(bytes, kind)?,
                _ => return Err(bytes.malformed("the kind of a record is not known")),
            }
        }
    }

    fn current_thread(&self, bytes: &ByteReader<impl BufRead>) -> Result<ThreadId, RecordError> {
        self.thread.ok_or_else(|| bytes.malformed("the thread of a record is not known"))
    }

    fn resident(&mut self, bytes: &mut ByteReader<impl BufRead>) -> Result<(), RecordError> {
        let (value, milliseconds) = (bytes.number()?, bytes.number()?);
        self.time = self.time.max(Nanos(milliseconds.saturating_mul(1_000_000)));
        let kind = EventKind::Gauge { name: self.rss, value };
        self.sink.event(Event { time: self.time, thread: self.main_thread, kind }, &self.catalog);
        Ok(())
    }

    fn native_call(&mut self, bytes: &mut ByteReader<impl BufRead>) -> Result<(), RecordError> {
        let address = bytes.delta(&mut self.latest.return_address)?;
        let caller = bytes.delta(&mut self.latest.native_call)?;
        self.native.iter_mut().for_each(|native| native.add_call(address, caller));
        Ok(())
    }

    fn module(&mut self, bytes: &mut ByteReader<impl BufRead>) -> Result<(), RecordError> {
        let (path, count, base) = (bytes.text()?, bytes.number()?, bytes.word()?);
        let mut segments = Segments::new();
        for _ in 0..count {
            if bytes.byte()? != 8 {
                return Err(bytes.malformed("the part of a module is expected"));
            }
            segments.push((bytes.word()?, bytes.number()?));
        }
        if let Some(native) = &mut self.native {
            native.modules.add(&mut self.catalog, &path, base, segments);
        }
        Ok(())
    }

    fn function(&mut self, bytes: &mut ByteReader<impl BufRead>) -> Result<(), RecordError> {
        let (number, name, file) = (bytes.number()?, bytes.text()?, bytes.text()?);
        let first_line = bytes.delta(&mut self.latest.first_line)? as i64;
        let length = bytes.number()?;
        let line_table = bytes.bytes(length)?;
        self.python.define(number, PythonFunction { name, file, first_line, line_table });
        Ok(())
    }

    /// The address of a record that refers to a recent one, or brings a new one.
    fn address(&mut self, bytes: &mut ByteReader<impl BufRead>, recent: u8) -> Result<u64, RecordError> {
        if let Some(address) = self.recent.get(usize::from(recent)) {
            return Ok(*address);
        }
        let address = bytes.delta(&mut self.latest.address)? << 3;
        self.recent.rotate_right(1);
        self.recent[0] = address;
        Ok(address)
    }

    fn object(&mut self, bytes: &mut ByteReader<impl BufRead>, kind: u8) -> Result<(), RecordError> {
        self.address(bytes, (kind >> 1) & 15)?;
        if self.native.is_some() && kind & 1 == 1 {
            bytes.delta(&mut self.latest.native_call)?;
        }
        Ok(())
    }

    fn allocation(&mut self, bytes: &mut ByteReader<impl BufRead>, kind: u8) -> Result<(), RecordError> {
        let address = self.address(bytes, (kind >> 3) & 15)?;
        let number = match kind & 7 {
            0 => bytes.byte()?,
            number => number,
        };
        let allocator = Allocator::from_number(number);
        let allocator = allocator.ok_or_else(|| bytes.malformed("the allocator is not known"))?;
        let (mut native_call, mut size) = (0, 0);
        if allocator != Allocator::Frees {
            if self.native.is_some() {
                native_call = bytes.delta(&mut self.latest.native_call)?;
            }
            size = bytes.number()?;
        }
        let thread = self.current_thread(bytes)?;
        let stack = match allocator {
            Allocator::Allocates(_) | Allocator::Maps => self.stack(thread, native_call),
            _ => StackId::UNKNOWN,
        };
        let tag = match allocator {
            Allocator::Allocates(function) => self.tag(function),
            _ => TagId::NONE,
        };
        let Self { sink, catalog, mappings, time, .. } = self;
        let mut emit = |kind| sink.event(Event { time: *time, thread, kind }, catalog);
        match allocator {
            Allocator::Allocates(_) => {
                emit(EventKind::Allocate(Placement { address, size, stack, tag, ..Placement::default() }));
            }
            Allocator::Frees => emit(EventKind::free(address, None)),
            Allocator::Maps => mappings.map(address, size, stack, &mut emit),
            Allocator::Unmaps => mappings.unmap(address, size, &mut emit),
        }
        Ok(())
    }

    fn stack(&mut self, thread: ThreadId, native_call: u64) -> StackId {
        let call = self.python.innermost(thread);
        match &mut self.native {
            Some(native) => native.join(&mut self.catalog, &self.python, thread, call, native_call),
            None => self.python.call(call).stack,
        }
    }

    /// The tag of blocks that a function allocated.
    fn tag(&mut self, function: &str) -> TagId {
        let type_name = self.catalog.strings.intern(function);
        self.catalog.intern_tag(Tag { type_name, ..Tag::default() })
    }

    /// Finds names for native calls, and returns what was read.
    pub fn finish(self) -> ReadHistory {
        let Self { mut catalog, mut source, native, time, .. } = self;
        source.duration = source.duration.max(time);
        if let Some(native) = native {
            let NativeStacks { unjoined, all, .. } = native;
            // Now and then memray has no complete native stack.
            if unjoined > all / 4 {
                let note =
                    format!("{unjoined} of {all} stacks have no native calls: Python's interpreter was not found.");
                source.notes.push(note);
            }
            source.notes.extend(native.find_names(&mut catalog));
        }
        ReadHistory { source, catalog, version: 13, ..ReadHistory::default() }
    }
}
