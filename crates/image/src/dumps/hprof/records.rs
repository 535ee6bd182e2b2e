//! The records of a dump, one after the other.
//!
//! A file is a header, and records with a tag, a time and a length. Objects are sub-records of the records `HEAP_DUMP` and `HEAP_DUMP_SEGMENT`; these have no
//! lengths, so each must be understood to find the next. The format is that of the `hprof` agent of JDK 5 to 8 (`hprof_b_spec.h`), which HotSpot's
//! `heapDumper.cpp` still writes, and some tags that Android's runtime adds.

use super::bytes::DumpBytes;
use super::stream::{Stream, StreamError};
use crate::damage::Damages;
use crate::dumps::DumpError;

const HEADER: &[u8] = b"JAVA PROFILE 1.0.";
/// The longest first line of a header.
const LONGEST_HEADER: usize = 64;
/// Bytes of a record before its content: tag, time, length.
const RECORD_HEAD: u64 = 9;

mod tag {
    pub const STRING: u8 = 0x01;
    pub const LOAD_CLASS: u8 = 0x02;
    pub const STACK_FRAME: u8 = 0x04;
    pub const STACK_TRACE: u8 = 0x05;
    pub const HEAP_DUMP: u8 = 0x0c;
    pub const HEAP_DUMP_SEGMENT: u8 = 0x1c;
    pub const HEAP_DUMP_END: u8 = 0x2c;

    pub const CLASS_DUMP: u8 = 0x20;
    pub const INSTANCE_DUMP: u8 = 0x21;
    pub const OBJECT_ARRAY_DUMP: u8 = 0x22;
    pub const PRIMITIVE_ARRAY_DUMP: u8 = 0x23;
    /// Android: an array whose elements are left out.
    pub const PRIMITIVE_ARRAY_NODATA: u8 = 0xc3;
    /// Android: the heap in which the next objects lie.
    pub const HEAP_DUMP_INFO: u8 = 0xfe;
}

/// The type of a field or of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    Object,
    Boolean,
    Char,
    Float,
    Double,
    Byte,
    Short,
    Int,
    Long,
}

impl FieldType {
    pub const PRIMITIVES: [Self; 8] =
        [Self::Boolean, Self::Char, Self::Float, Self::Double, Self::Byte, Self::Short, Self::Int, Self::Long];

    fn of(code: u8) -> Option<Self> {
        Some(match code {
            2 => Self::Object,
            4 => Self::Boolean,
            5 => Self::Char,
            6 => Self::Float,
            7 => Self::Double,
            8 => Self::Byte,
            9 => Self::Short,
            10 => Self::Int,
            11 => Self::Long,
            _ => return None,
        })
    }

    /// Its bytes in a dump whose identifiers have `id_size` bytes.
    #[inline]
    pub fn width(self, id_size: u32) -> u32 {
        match self {
            Self::Object => id_size,
            Self::Boolean | Self::Byte => 1,
            Self::Char | Self::Short => 2,
            Self::Float | Self::Int => 4,
            Self::Double | Self::Long => 8,
        }
    }

    /// As Java names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "Object",
            Self::Boolean => "boolean",
            Self::Char => "char",
            Self::Float => "float",
            Self::Double => "double",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
        }
    }
}

/// Why an object is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootKind {
    Unknown,
    JniGlobal,
    JniLocal,
    JavaFrame,
    NativeStack,
    StickyClass,
    ThreadBlock,
    Monitor,
    Thread,
    InternedString,
    Finalizing,
    Debugger,
    ReferenceCleanup,
    VmInternal,
    JniMonitor,
}

impl RootKind {
    /// The kind of a tag, and the number of words of four bytes that follow the identifiers; `None` if the tag is not that of a root.
    fn of(code: u8) -> Option<(Self, u32)> {
        Some(match code {
            0xff => (Self::Unknown, 0),
            0x01 => (Self::JniGlobal, 0),
            0x02 => (Self::JniLocal, 2),
            0x03 => (Self::JavaFrame, 2),
            0x04 => (Self::NativeStack, 1),
            0x05 => (Self::StickyClass, 0),
            0x06 => (Self::ThreadBlock, 1),
            0x07 => (Self::Monitor, 0),
            0x08 => (Self::Thread, 2),
            0x89 => (Self::InternedString, 0),
            0x8a => (Self::Finalizing, 0),
            0x8b => (Self::Debugger, 0),
            0x8c => (Self::ReferenceCleanup, 0),
            0x8d => (Self::VmInternal, 0),
            0x8e => (Self::JniMonitor, 2),
            _ => return None,
        })
    }
}

/// A root, as the dump lists it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RootRecord {
    pub kind: RootKind,
    pub object: u64,
    /// The serial number of its thread; 0 if it has none.
    pub thread: u32,
    /// The index of the frame in the thread's stack, or for a thread the serial number of its stack trace.
    pub frame: u32,
}

/// A static field.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaticField {
    pub name: u64,
    pub kind: FieldType,
    pub value: u64,
}

/// A class, as the dump describes it.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassRecord {
    pub id: u64,
    pub superclass: u64,
    pub loader: u64,
    pub signers: u64,
    pub protection_domain: u64,
    pub statics: Vec<StaticField>,
    /// Names and types of the class's own fields.
    pub fields: Vec<(u64, FieldType)>,
}

/// Receives the records of a dump. The default of each method ignores the record.
pub(super) trait RecordSink {
    /// A text: its identifier, and where its bytes are.
    fn name(&mut self, _id: u64, _at: u64, _length: u32) {}
    /// A class and the identifier of its name.
    fn loaded_class(&mut self, _serial: u32, _id: u64, _name: u64) {}
    fn frame(&mut self, _id: u64, _method: u64, _class_serial: u32) {}
    /// The stack of a thread.
    fn trace(&mut self, _serial: u32, _thread: u32, _frames: Vec<u64>) {}
    fn root(&mut self, _root: RootRecord) {}
    /// A class; `at` is where its record begins.
    fn class(&mut self, _class: ClassRecord, _at: u64) {}
    /// An instance and the values of its fields, those of its own class first.
    fn instance(&mut self, _id: u64, _class: u64, _fields: &[u8], _at: u64) {}
    /// An array of objects. Its elements follow in one or more calls of [`elements`](Self::elements), then [`array_end`](Self::array_end).
    fn object_array(&mut self, _id: u64, _class: u64, _length: u32, _at: u64) {}
    fn elements(&mut self, _elements: &[u8]) {}
    fn array_end(&mut self) {}
    fn primitive_array(&mut self, _id: u64, _kind: FieldType, _length: u32, _at: u64) {}
    /// True if the rest of the dump is of no interest.
    fn is_done(&self) -> bool {
        false
    }
}

/// The beginning of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DumpHeader {
    /// Bytes of an identifier: four or eight.
    pub id_size: u32,
    pub time_ms: u64,
    /// Where the records begin.
    pub length: u64,
}

/// True if a file with this beginning is a dump.
pub(super) fn is_dump(start: &[u8]) -> bool {
    start.starts_with(HEADER)
}

/// Reads the header.
pub(super) fn header(bytes: &DumpBytes) -> Result<DumpHeader, DumpError> {
    let mut start = [0; LONGEST_HEADER + 12];
    let count = bytes.read_at(&mut start, 0)?;
    let start = &start[..count];
    if !is_dump(start) {
        return Err(DumpError::damaged(0, "it does not begin with 'JAVA PROFILE 1.0'"));
    }
    let line = start.iter().position(|byte| *byte == 0);
    let after = line.and_then(|end| Some((end, start.get(end + 1..)?.first_chunk::<12>()?)));
    let Some((end, after)) = after else {
        return Err(DumpError::damaged(count as u64, "the header is cut off"));
    };
    let (id_size, time) = after.split_at(4);
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let id_size = number(id_size);
    if id_size != 4 && id_size != 8 {
        return Err(DumpError::damaged(end as u64 + 1, format!("identifiers of {id_size} bytes are not supported")));
    }
    Ok(DumpHeader { id_size: id_size as u32, time_ms: number(time), length: end as u64 + 13 })
}

/// Passes all records to a sink. A dump that is cut off, or has a record that cannot be understood, is used up to there, and the damage is noted.
pub(super) fn scan(
    bytes: &DumpBytes,
    header: DumpHeader,
    sink: &mut impl RecordSink,
    damage: &mut Damages,
) -> Result<(), DumpError> {
    let mut scanner = Scanner { stream: Stream::new(bytes, header.length), id_size: header.id_size as usize, sink };
    let result = scanner.records();
    let offset = scanner.stream.offset();
    noted(result, offset, bytes.len(), damage)
}

/// Passes the objects from an offset within a segment on to a sink, until the sink is done or another record than a segment follows.
pub(super) fn scan_objects(
    bytes: &DumpBytes,
    header: DumpHeader,
    offset: u64,
    sink: &mut impl RecordSink,
) -> Result<(), DumpError> {
    let mut scanner = Scanner { stream: Stream::short(bytes, offset), id_size: header.id_size as usize, sink };
    let result = scanner.segments();
    let offset = scanner.stream.offset();
    noted(result, offset, bytes.len(), &mut Damages::default())
}

fn noted(result: Result<(), ScanError>, offset: u64, length: u64, damage: &mut Damages) -> Result<(), DumpError> {
    let rest = length.saturating_sub(offset);
    match result {
        Ok(()) => {}
        Err(ScanError::Stream(StreamError::Read(error))) => return Err(error.into()),
        Err(ScanError::Stream(StreamError::End)) => {
            damage.note(offset, rest, "the dump ends within a record; the rest is missing:");
        }
        Err(ScanError::UnknownTag(at, tag)) => {
            damage.note(
                at,
                length.saturating_sub(at),
                format!("no object has the tag {tag:#04x}; the rest is not read:"),
            );
        }
        Err(ScanError::UnknownType(at, code)) => {
            damage.note(at, length.saturating_sub(at), format!("no field has the type {code}; the rest is not read:"));
        }
    }
    Ok(())
}

enum ScanError {
    Stream(StreamError),
    UnknownTag(u64, u8),
    UnknownType(u64, u8),
}

impl From<StreamError> for ScanError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

struct Scanner<'a, 's, S: RecordSink> {
    stream: Stream<'a>,
    id_size: usize,
    sink: &'s mut S,
}

impl<S: RecordSink> Scanner<'_, '_, S> {
    fn records(&mut self) -> Result<(), ScanError> {
        while self.stream.remaining() > 0 && !self.sink.is_done() {
            let tag = self.stream.u8()?;
            self.stream.u32()?;
            let length = u64::from(self.stream.u32()?);
            let start = self.stream.offset();
            match tag {
                tag::HEAP_DUMP | tag::HEAP_DUMP_SEGMENT => {
                    let end = self.segment_end(tag, start, length)?;
                    self.objects(end)?;
                    continue;
                }
                tag::STRING if length >= self.id_size as u64 => {
                    let id = self.id()?;
                    let at = self.stream.offset();
                    self.sink.name(id, at, (length - self.id_size as u64) as u32);
                }
                tag::LOAD_CLASS => {
                    let serial = self.stream.u32()?;
                    let id = self.id()?;
                    self.stream.u32()?;
                    let name = self.id()?;
                    self.sink.loaded_class(serial, id, name);
                }
                tag::STACK_FRAME => {
                    let (id, method) = (self.id()?, self.id()?);
                    self.id()?;
                    self.id()?;
                    let class_serial = self.stream.u32()?;
                    self.sink.frame(id, method, class_serial);
                }
                tag::STACK_TRACE => self.trace(length)?,
                _ => {}
            }
            // What this version does not know at the end of a record is skipped.
            let read = self.stream.offset() - start;
            self.stream.skip(length.saturating_sub(read))?;
        }
        Ok(())
    }

    fn trace(&mut self, length: u64) -> Result<(), ScanError> {
        let (serial, thread, count) = (self.stream.u32()?, self.stream.u32()?, self.stream.u32()?);
        let room = length.saturating_sub(12) / self.id_size as u64;
        let mut frames = Vec::new();
        for _ in 0..u64::from(count).min(room) {
            frames.push(self.id()?);
        }
        self.sink.trace(serial, thread, frames);
        Ok(())
    }

    /// Where a segment ends; `None` if only its content shows it. A JVM writes 0 first, and the length when it is known: never if it ends before, or if the
    /// file cannot be rewound. Older JVMs write one record for the whole heap, whose length has 32 bits however large it is.
    fn segment_end(&mut self, tag: u8, start: u64, length: u64) -> Result<Option<u64>, ScanError> {
        let remaining = self.stream.remaining();
        if length == 0 {
            return Ok(if self.begins_record()? { Some(start) } else { None });
        }
        let is_cut = tag == tag::HEAP_DUMP && remaining > u64::from(u32::MAX);
        let fits = |rest: u64| rest > length && (rest - length).is_multiple_of(1 << 32);
        if is_cut && (fits(remaining) || fits(remaining - RECORD_HEAD)) {
            return Ok(None);
        }
        Ok(Some(start + length))
    }

    /// True if a record begins here, and not an object. Some tags mean one thing for records and another for objects: then a record must be followed by
    /// another one.
    fn begins_record(&mut self) -> Result<bool, ScanError> {
        let is_tag = |tag: u8| matches!(tag, 0x01..=0x0e | 0x1c | 0x2c);
        let remaining = self.stream.remaining();
        let head = self.stream.peek(RECORD_HEAD as usize)?;
        let (Some(&tag), Some(length)) = (head.first(), head.get(5..9)) else { return Ok(head.is_empty()) };
        if RootKind::of(tag).is_none() {
            return Ok(is_tag(tag));
        }
        let length = length.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let next = RECORD_HEAD + length;
        if next >= remaining || next > 1 << 20 {
            return Ok(next == remaining);
        }
        let after = self.stream.peek(next as usize + 1)?;
        Ok(after.last().is_some_and(|tag| is_tag(*tag)))
    }

    /// The objects of a segment. Without an end, the tag of a record that no object has ends it.
    fn objects(&mut self, end: Option<u64>) -> Result<(), ScanError> {
        while !self.sink.is_done() {
            let at = self.stream.offset();
            match end {
                Some(end) if at >= end => return Ok(()),
                Some(_) => {}
                None => match self.stream.peek(1)?.first() {
                    None | Some(&(tag::HEAP_DUMP | tag::HEAP_DUMP_SEGMENT | tag::HEAP_DUMP_END)) => return Ok(()),
                    Some(_) => {}
                },
            }
            self.object(at)?;
        }
        Ok(())
    }

    /// The objects of this segment and of those that follow.
    fn segments(&mut self) -> Result<(), ScanError> {
        loop {
            self.objects(None)?;
            match self.stream.peek(1)?.first() {
                Some(&(tag::HEAP_DUMP | tag::HEAP_DUMP_SEGMENT)) if !self.sink.is_done() => {
                    self.stream.skip(RECORD_HEAD)?
                }
                _ => return Ok(()),
            }
        }
    }

    #[inline]
    fn object(&mut self, at: u64) -> Result<(), ScanError> {
        match self.stream.u8()? {
            tag::INSTANCE_DUMP => {
                let (id, class, length) = if self.id_size == 8 {
                    let head: [u8; 24] = self.stream.array()?;
                    (wide(&head, 0), wide(&head, 12), narrow(&head, 20))
                } else {
                    let head: [u8; 16] = self.stream.array()?;
                    (narrow(&head, 0).into(), narrow(&head, 8).into(), narrow(&head, 12))
                };
                let fields = self.stream.take(length as usize)?;
                self.sink.instance(id, class, fields, at);
            }
            tag::OBJECT_ARRAY_DUMP => {
                let id = self.id()?;
                self.stream.u32()?;
                let length = self.stream.u32()?;
                let class = self.id()?;
                self.sink.object_array(id, class, length, at);
                self.elements(length)?;
                self.sink.array_end();
            }
            tag @ (tag::PRIMITIVE_ARRAY_DUMP | tag::PRIMITIVE_ARRAY_NODATA) => {
                let id = self.id()?;
                self.stream.u32()?;
                let length = self.stream.u32()?;
                let kind = self.field_type()?;
                self.sink.primitive_array(id, kind, length, at);
                if tag == tag::PRIMITIVE_ARRAY_DUMP {
                    self.stream.skip(u64::from(length) * u64::from(kind.width(self.id_size as u32)))?;
                }
            }
            tag::CLASS_DUMP => {
                let class = self.class()?;
                self.sink.class(class, at);
            }
            tag::HEAP_DUMP_INFO => {
                self.stream.u32()?;
                self.id()?;
            }
            code => self.root(code, at)?,
        }
        Ok(())
    }

    /// The elements of an array of objects, as many at a time as are surely in the buffer.
    fn elements(&mut self, length: u32) -> Result<(), ScanError> {
        const AT_ONCE: u32 = 4096;
        let mut rest = length;
        while rest > 0 {
            let count = rest.min(AT_ONCE);
            let elements = self.stream.take(count as usize * self.id_size)?;
            self.sink.elements(elements);
            rest -= count;
        }
        Ok(())
    }

    fn root(&mut self, code: u8, at: u64) -> Result<(), ScanError> {
        // Android lists objects that nothing refers to as such.
        const UNREACHABLE: u8 = 0x90;
        if code == UNREACHABLE {
            self.id()?;
            return Ok(());
        }
        let (kind, words) = RootKind::of(code).ok_or(ScanError::UnknownTag(at, code))?;
        let object = self.id()?;
        if kind == RootKind::JniGlobal {
            self.id()?;
        }
        let thread = if words > 0 { self.stream.u32()? } else { 0 };
        let frame = if words > 1 { self.stream.u32()? } else { 0 };
        self.sink.root(RootRecord { kind, object, thread, frame });
        Ok(())
    }

    fn class(&mut self) -> Result<ClassRecord, ScanError> {
        let id = self.id()?;
        self.stream.u32()?;
        let (superclass, loader, signers, protection_domain) = (self.id()?, self.id()?, self.id()?, self.id()?);
        self.id()?;
        self.id()?;
        // The bytes of an instance's fields, which the fields say, too.
        self.stream.u32()?;
        let mut class = ClassRecord { id, superclass, loader, signers, protection_domain, ..Default::default() };
        for _ in 0..self.stream.u16()? {
            self.stream.u16()?;
            let kind = self.field_type()?;
            self.stream.skip(kind.width(self.id_size as u32).into())?;
        }
        for _ in 0..self.stream.u16()? {
            let name = self.id()?;
            let kind = self.field_type()?;
            let value = self.stream.take(kind.width(self.id_size as u32) as usize)?;
            let value = value.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            class.statics.push(StaticField { name, kind, value });
        }
        for _ in 0..self.stream.u16()? {
            let name = self.id()?;
            class.fields.push((name, self.field_type()?));
        }
        Ok(class)
    }

    fn field_type(&mut self) -> Result<FieldType, ScanError> {
        let at = self.stream.offset();
        let code = self.stream.u8()?;
        FieldType::of(code).ok_or(ScanError::UnknownType(at, code))
    }

    #[inline]
    fn id(&mut self) -> Result<u64, ScanError> {
        Ok(if self.id_size == 8 { self.stream.array().map(u64::from_be_bytes)? } else { self.stream.u32()?.into() })
    }
}

/// Eight bytes at an offset of the head of a record.
#[inline]
fn wide<const N: usize>(head: &[u8; N], at: usize) -> u64 {
    head.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u64::from_be_bytes)
}

#[inline]
fn narrow<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    head.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u32::from_be_bytes)
}
