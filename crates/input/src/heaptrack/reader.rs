//! The meaning of the lines of a heaptrack file.

use super::lines::HexWords;
use crate::format::ReadHistory;
use crate::modules::{LoadedModules, Segments};
use crate::problems::Problems;
use highwater_model::{
    Catalog, Event, EventKind, EventSink, Frame, FrameId, FrameText, Nanos, Placement, Source, SourceKind, StackId,
    StringId, ThreadId, gauge,
};
use highwater_symbols::{Symbolizer, demangle};

/// The newest supported version of the format.
const NEWEST: u64 = 3;
/// The distance between the made-up addresses of blocks. Interpreted files from version 1 on have no addresses.
const APART: u64 = 16;

/// The versions of heaptrack and of the format, from a first line.
pub(super) fn versions(line: &[u8]) -> Option<(u64, u64)> {
    let mut words = HexWords(line.strip_prefix(b"v ")?);
    let heaptrack = words.number().filter(|version| (0x1_0000..0x100_0000).contains(version))?;
    // Before heaptrack 1.0 was released, it wrote format 1 as its own version.
    let format = words.number().unwrap_or(u64::from(heaptrack == 0x1_0200));
    Some((heaptrack, format))
}

/// The fault of a line.
pub(super) type HeaptrackFault = &'static str;

/// A size, and the stack that allocates it.
#[derive(Clone, Copy, Default)]
struct Allocation {
    size: u64,
    stack: StackId,
}

/// The state of reading. All lists are numbered from 1 in the file; their first entries are unused.
pub(super) struct HeaptrackReader<'a> {
    sink: &'a mut dyn EventSink,
    catalog: Catalog,
    pub version: u64,
    /// True for a file that was not interpreted.
    is_raw: bool,
    source: Source,
    page_bytes: u64,
    strings: Vec<String>,
    modules: LoadedModules,
    /// By address: the frames there, innermost first.
    addresses: Vec<Vec<FrameId>>,
    calls: Vec<StackId>,
    /// Numbered from 0.
    allocations: Vec<Allocation>,
    /// By allocation: the addresses of its live blocks.
    live: Vec<Vec<u64>>,
    /// The address of the next block.
    next_address: u64,
    time: Nanos,
    rss: StringId,
}

impl<'a> HeaptrackReader<'a> {
    pub fn new(sink: &'a mut dyn EventSink) -> Self {
        let mut catalog = Catalog::default();
        let rss = catalog.strings.intern(gauge::RSS);
        catalog.name_thread(ThreadId::UNKNOWN, "(all threads)");
        Self {
            sink,
            catalog,
            version: 0,
            is_raw: false,
            source: Source { kind: SourceKind::new("heaptrack"), ..Source::default() },
            page_bytes: 4096,
            strings: vec![String::new()],
            modules: LoadedModules::default(),
            addresses: vec![Vec::new()],
            calls: vec![StackId::UNKNOWN],
            allocations: Vec::new(),
            live: Vec::new(),
            next_address: APART,
            time: Nanos(0),
            rss,
        }
    }

    /// True if a line does not have the whole string that it begins.
    pub fn missing_of_string(&self, line: &[u8]) -> bool {
        let mut words = HexWords(&line[2..]);
        words.index().is_some_and(|length| words.0.len() < length)
    }

    /// Processes a line. A numbered item gets its number even if it is invalid, so that later items keep theirs.
    pub fn take(&mut self, line: Result<&[u8], HeaptrackFault>, is_first: bool) -> Result<(), HeaptrackFault> {
        let line = line?;
        if is_first {
            let (_, version) = versions(line).ok_or("it is no heaptrack file")?;
            if version > NEWEST {
                return Err("the version of its format is newer than those that are known (0 to 3)");
            }
            self.version = version;
            return Ok(());
        }
        let (kind, rest) = line.split_at(line.len().min(2));
        let mut words = HexWords(rest);
        match kind {
            b"s " => self.string(rest),
            b"i " => self.address(&mut words),
            b"x " => self.executable(rest),
            b"m " => self.module(rest),
            b"t " if self.is_raw => self.raw_call(&mut words),
            b"t " => self.call(&mut words),
            b"a " => self.allocation(&mut words),
            b"+ " => self.allocate(&mut words),
            b"- " => self.free(&mut words),
            b"c " => {
                let milliseconds = words.number().ok_or("a time is expected")?;
                self.time = self.time.max(Nanos(milliseconds.saturating_mul(1_000_000)));
                Ok(())
            }
            b"R " => {
                let pages = words.number().ok_or("a number of pages is expected")?;
                let value = pages.saturating_mul(self.page_bytes);
                self.emit(EventKind::Gauge { name: self.rss, value });
                Ok(())
            }
            b"I " => {
                self.page_bytes = words.number().ok_or("the bytes of a page are expected")?;
                Ok(())
            }
            b"X " => {
                let command = String::from_utf8_lossy(rest).into_owned();
                self.source.command = command.split_whitespace().map(str::to_owned).collect();
                let first = self.source.command.first().map(String::as_str);
                self.source.program = highwater_model::program_name(first, &self.source.executable);
                self.sink.begin(&self.source);
                Ok(())
            }
            // Suppressions, comments, and the note that heaptrack was attached.
            b"S " | b"# " | b"A" | b"#" | b"" => Ok(()),
            _ => Err("it is of no known kind"),
        }
    }

    /// True if allocations and frees refer to a list of allocations, not to addresses.
    fn has_indices(&self) -> bool {
        self.version >= 1 && !self.is_raw
    }

    fn emit(&mut self, kind: EventKind) {
        self.sink.event(Event { time: self.time, thread: ThreadId::UNKNOWN, kind }, &self.catalog);
    }

    fn string(&mut self, rest: &[u8]) -> Result<(), HeaptrackFault> {
        let mut words = HexWords(rest);
        let sized = if self.version >= 3 { words.index().and_then(|length| words.0.get(..length)) } else { Some(rest) };
        self.strings.push(String::from_utf8_lossy(sized.unwrap_or_default()).into_owned());
        sized.map(drop).ok_or("the string is shorter than it says")
    }

    /// The length of a name, where it is written, and what follows the name.
    fn name<'line>(&self, rest: &'line [u8], ends_line: bool) -> Option<(String, HexWords<'line>)> {
        let (name, after) = if self.version >= 3 {
            let mut words = HexWords(rest);
            let length = words.index()?;
            (words.0.get(..length)?, words.0.get(length..)?)
        } else {
            let end = if ends_line { None } else { rest.iter().position(|byte| *byte == b' ') };
            rest.split_at(end.unwrap_or(rest.len()))
        };
        Some((String::from_utf8_lossy(name).into_owned(), HexWords(after.strip_prefix(b" ").unwrap_or(after))))
    }

    fn executable(&mut self, rest: &[u8]) -> Result<(), HeaptrackFault> {
        self.is_raw = true;
        let (name, _) = self.name(rest, true).ok_or("the path of the executable is expected")?;
        self.source.executable = name;
        Ok(())
    }

    fn module(&mut self, rest: &[u8]) -> Result<(), HeaptrackFault> {
        self.is_raw = true;
        let (name, mut words) = self.name(rest, false).ok_or("the name of a module is expected")?;
        if name == "-" {
            self.modules.clear();
            return Ok(());
        }
        let path = if name == "x" { self.source.executable.clone() } else { name };
        let base = words.number().ok_or("the address of the module is expected")?;
        let parts = std::iter::from_fn(|| words.number().zip(words.number()));
        let segments: Segments = parts.collect();
        self.modules.add(&mut self.catalog, &path, base, segments);
        Ok(())
    }

    fn raw_call(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let parts = words.number().zip(words.index());
        let found = parts.and_then(|(address, caller)| Some((address, *self.calls.get(caller)?)));
        let stack = found.map(|(address, caller)| {
            let frame = Frame { address, module: self.modules.number_of(address), ..Frame::default() };
            let frame = self.catalog.stacks.intern_frame(frame);
            self.catalog.stacks.intern_child(caller, frame)
        });
        self.calls.push(stack.unwrap_or(StackId::UNKNOWN));
        stack.map(drop).ok_or("an address and a caller that is known are expected")
    }

    fn address(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let parts = words.number().zip(words.index());
        let (address, module) = parts.unwrap_or_default();
        let mut places = Vec::new();
        while let Some(function) = words.index() {
            places.push((function, words.index().unwrap_or(0), words.number().unwrap_or(0)));
        }
        if places.is_empty() {
            places.push((0, 0, 0));
        }
        let Self { strings, catalog, .. } = self;
        let text = |index: usize| strings.get(index).map_or("", String::as_str);
        let mut frames = Vec::new();
        for (position, (function, file, line)) in places.iter().enumerate() {
            let frame = catalog.intern_frame(&FrameText {
                function: &demangle(text(*function)),
                file: text(*file),
                line: u32::try_from(*line).unwrap_or(0),
                module: text(module),
                address,
                inlined: position + 1 < places.len(),
                ..FrameText::default()
            });
            frames.push(catalog.stacks.intern_frame(frame));
        }
        self.addresses.push(frames);
        parts.map(drop).ok_or("an address and a module are expected")
    }

    fn call(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let parts = words.index().zip(words.index());
        let found = parts.and_then(|(address, caller)| Some((self.addresses.get(address)?, *self.calls.get(caller)?)));
        let stack = found.map(|(frames, caller)| {
            let stacks = &mut self.catalog.stacks;
            frames.iter().rev().fold(caller, |stack, frame| stacks.intern_child(stack, *frame))
        });
        self.calls.push(stack.unwrap_or(StackId::UNKNOWN));
        stack.map(drop).ok_or("an address and a caller that are known are expected")
    }

    fn allocation(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let parts = words.number().zip(words.index());
        let found = parts.and_then(|(size, call)| Some(Allocation { size, stack: *self.calls.get(call)? }));
        self.allocations.push(found.unwrap_or_default());
        self.live.push(Vec::new());
        found.map(drop).ok_or("a size and a call that is known are expected")
    }

    fn allocate(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let (Allocation { size, stack }, address) = if self.has_indices() {
            let index = words.index().ok_or("an allocation is expected")?;
            let allocation = *self.allocations.get(index).ok_or("the allocation is not known")?;
            let address = self.next_address;
            self.next_address += APART;
            self.live[index].push(address);
            (allocation, address)
        } else {
            let (size, call) = words.number().zip(words.index()).ok_or("a size and a call are expected")?;
            let stack = *self.calls.get(call).ok_or("the call is not known")?;
            (Allocation { size, stack }, words.number().ok_or("an address is expected")?)
        };
        self.emit(EventKind::Allocate(Placement { address, size, stack, ..Placement::default() }));
        Ok(())
    }

    fn free(&mut self, words: &mut HexWords<'_>) -> Result<(), HeaptrackFault> {
        let number = words.number().ok_or("what is freed is expected")?;
        let address = if self.has_indices() {
            let live = usize::try_from(number).ok().and_then(|index| self.live.get_mut(index));
            // No block has this address, so the free is counted as one without an allocation.
            live.ok_or("the allocation is not known")?.pop().unwrap_or(APART - 1)
        } else {
            number
        };
        self.emit(EventKind::free(address, None));
        Ok(())
    }

    /// Finds names for a raw file's addresses, and returns what was read.
    pub fn finish(self, problems: Problems) -> ReadHistory {
        let Self { mut catalog, modules, mut source, .. } = self;
        source.duration = self.time;
        if self.is_raw {
            let missing = modules.find_names(&mut catalog, &mut Symbolizer::with_users_cache());
            source.notes.extend(missing);
        }
        ReadHistory { source, catalog, version: self.version as u16, parts: 0, problems }
    }
}
