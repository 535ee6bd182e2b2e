//! Reading the lines of a recording.

use super::super::fault::{BadEventLine, EventLineFault, EventLinesError, ExpectedValue};
use super::super::fields::Fields;
use super::super::lines::{BoundedLine, BoundedLines};
use super::super::reader::{Refusal, describe_source, explain_not_json, surplus, tag};
use super::super::sniff::{BYTE_ORDER_MARK, is_skipped};
use super::{VERSION, state_lines};
use highwater_model::{
    AccountsState, AllocId, Anomaly, Block, Catalog, ColumnRange, Figures, Frame, FrameId, Heap, Module, Nanos,
    NumberLedger, Op, Placement, Resolution, Source, SourceKind, StackId, StackNode, Step, TagId, ThreadAccount,
    ThreadId,
};
use rustc_hash::FxHashMap;
use std::io::BufRead;

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedItem {
    /// A step.
    Step(Step),
    /// A state from which the recording continues. Its figures may contradict each other.
    State(Box<AccountsState>),
    /// A description: of the source, a thread, a module, a frame, a stack, or of a part of a state.
    Description,
}

/// Reads lines one at a time. Holds one line, the numbers of stacks and frames, and a state while it is read.
#[derive(Debug)]
pub struct RecordedLinesReader<R> {
    lines: BoundedLines<R>,
    state: ReaderState,
}

#[derive(Debug, Default)]
struct ReaderState {
    source: Source,
    /// True after the first step or state: the source is then in the recording.
    has_begun: bool,
    time: Nanos,
    /// A step that waits for the note before it.
    queued: Option<Step>,
    stacks: FxHashMap<u64, StackId>,
    frames: FxHashMap<u64, FrameId>,
    modules: FxHashMap<u64, u32>,
    numbers: BlockNumbers,
    pending: Option<PendingState>,
}

/// A state that is being read.
#[derive(Debug, Default)]
struct PendingState {
    state: AccountsState,
    threads: FxHashMap<ThreadId, u32>,
}

/// The allocation numbers of the lines. They are those of the recording, unless allocations were removed from the lines: then all later numbers
/// differ.
#[derive(Debug, Default)]
struct BlockNumbers {
    /// The number that the next allocation should have.
    next: u64,
    /// The first number of the lines that differs.
    differ_from: Option<u64>,
    renumbered: FxHashMap<u64, AllocId>,
}

impl BlockNumbers {
    /// Checks the number of an allocation, which gets `id` in the recording.
    fn allocate(&mut self, number: u64, id: AllocId) -> Result<(), EventLineFault> {
        if number < self.next {
            return Err(EventLineFault::NotIncreasing("block"));
        }
        self.next = number.checked_add(1).ok_or(EventLineFault::TooLarge("block"))?;
        if self.differ_from.is_some() || number != id.0 {
            self.differ_from.get_or_insert(number);
            self.renumbered.insert(number, id);
        }
        Ok(())
    }

    fn find(&self, number: u64) -> Option<AllocId> {
        match self.differ_from {
            Some(first) if number >= first => self.renumbered.get(&number).copied(),
            _ => Some(AllocId(number)),
        }
    }
}

impl<R: BufRead> RecordedLinesReader<R> {
    /// Reads from the beginning of `input`.
    pub fn new(input: R) -> Self {
        Self { lines: BoundedLines::new(input), state: ReaderState::default() }
    }

    /// The source, as far as it is known.
    pub fn source(&self) -> &Source {
        &self.state.source
    }

    /// The number of the last line read, counted from 1; 0 before the first.
    pub fn line_number(&self) -> u64 {
        self.lines.number()
    }

    /// The next line that is neither empty nor a comment; `None` at the end. `ledger` is the state after all steps and states until now: it knows
    /// which blocks are live.
    ///
    /// After an [`EventLinesError::Bad`], reading continues with the next line. Every call must get the same catalog.
    pub fn next(
        &mut self,
        catalog: &mut Catalog,
        ledger: &NumberLedger,
    ) -> Option<Result<RecordedItem, EventLinesError>> {
        if let Some(step) = self.state.queued.take() {
            return Some(Ok(RecordedItem::Step(step)));
        }
        loop {
            let is_first = self.lines.number() == 0;
            let bytes = match self.lines.next()? {
                Ok(BoundedLine::Bytes(bytes)) => bytes,
                Ok(BoundedLine::TooLong) => return Some(Err(bad(self.lines.number(), EventLineFault::TooLong))),
                Err(error) => return Some(Err(EventLinesError::Io(error))),
            };
            let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(bytes).trim_ascii();
            if !is_skipped(bytes) {
                let outcome = self.state.read(bytes, catalog, ledger);
                return Some(outcome.map_err(|why| bad(self.lines.number(), why)));
            }
        }
    }
}

#[cold]
fn bad(line: u64, why: EventLineFault) -> EventLinesError {
    EventLinesError::Bad(BadEventLine { line, why })
}

impl ReaderState {
    fn read(
        &mut self,
        bytes: &[u8],
        catalog: &mut Catalog,
        ledger: &NumberLedger,
    ) -> Result<RecordedItem, EventLineFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| EventLineFault::NotUtf8)?;
        if !text.starts_with('{') {
            return Err(EventLineFault::NotAnObject);
        }
        self.understand(text, catalog, ledger).map_err(|refusal| match refusal {
            Refusal::Fault(fault) => fault,
            Refusal::NotJson => explain_not_json(text),
        })
    }

    fn understand(
        &mut self,
        text: &str,
        catalog: &mut Catalog,
        ledger: &NumberLedger,
    ) -> Result<RecordedItem, Refusal> {
        let fields = Fields::parse(text)?;
        let event = fields.required_text("event")?;
        match event {
            "recording" => {
                if fields.required_number("version")? != VERSION {
                    let why = "this version of event lines is not known: use a newer version of highwater";
                    return Err(EventLineFault::Misplaced(why).into());
                }
            }
            "source" => self.describe_source(&fields)?,
            "thread" => {
                let thread = ThreadId(fields.required_number("thread")?);
                catalog.name_thread(thread, fields.required_text("name")?);
            }
            "module" => self.define_module(&fields, catalog)?,
            "frame" => self.define_frame(&fields, catalog)?,
            "stack" => self.define_stack(&fields, catalog)?,
            "state" => {
                let state = state_lines::read_state(&fields)?;
                self.pending = Some(PendingState { state, ..PendingState::default() });
            }
            "figures" => self.add_figures(&fields, catalog)?,
            "live" => self.add_live_block(&fields, catalog)?,
            "continue" => {
                let pending = self.pending.take().ok_or(EventLineFault::Misplaced("there is no state to continue"))?;
                return Ok(self.continue_from(pending.state));
            }
            _ if self.pending.is_some() => {
                return Err(EventLineFault::Misplaced("an event between \"state\" and \"continue\"").into());
            }
            _ => return Ok(RecordedItem::Step(self.step(event, &fields, catalog, ledger)?)),
        }
        Ok(RecordedItem::Description)
    }

    fn describe_source(&mut self, fields: &Fields<'_>) -> Result<(), EventLineFault> {
        if self.has_begun {
            return Err(EventLineFault::Misplaced("\"source\" must come before the first event"));
        }
        let kind = match fields.text("kind")? {
            "" => SourceKind::EVENTS,
            key => SourceKind::from_key(key).ok_or(EventLineFault::Not("kind", ExpectedValue::SourceKind))?,
        };
        let duration = fields.number("duration_ns")?;
        describe_source(&mut self.source, fields)?;
        self.source.kind = kind;
        self.source.duration = duration.map_or(self.source.duration, Nanos);
        Ok(())
    }

    fn continue_from(&mut self, state: AccountsState) -> RecordedItem {
        self.has_begun = true;
        self.time = state.last_time;
        self.source.duration = self.source.duration.max(self.time);
        self.numbers = BlockNumbers { next: state.next_id, ..BlockNumbers::default() };
        RecordedItem::State(Box::new(state))
    }

    fn step(
        &mut self,
        event: &str,
        fields: &Fields<'_>,
        catalog: &mut Catalog,
        ledger: &NumberLedger,
    ) -> Result<Step, EventLineFault> {
        let claimed = fields.number("time_ns")?.map_or(self.time, Nanos);
        let thread = ThreadId(fields.number("thread")?.unwrap_or(0));
        let op = self.op(event, fields, catalog, ledger)?;
        let time = claimed.max(self.time);
        self.time = time;
        self.source.duration = self.source.duration.max(time);
        self.has_begun = true;
        let step = Step { time, thread, op };
        if claimed == time {
            return Ok(step);
        }
        self.queued = Some(step);
        Ok(Step { op: Op::Note { anomaly: Anomaly::RepairedTime, count: 1 }, ..step })
    }

    fn op(
        &mut self,
        event: &str,
        fields: &Fields<'_>,
        catalog: &mut Catalog,
        ledger: &NumberLedger,
    ) -> Result<Op, EventLineFault> {
        Ok(match event {
            "allocate" | "alloc" => {
                let place = self.placement(fields, catalog)?;
                let number = fields.number("block")?.unwrap_or(self.numbers.next);
                self.numbers.allocate(number, ledger.accounts().next_id())?;
                Op::Allocate(place)
            }
            "deallocate" | "dealloc" | "free" => match fields.number("block")? {
                Some(_) => {
                    Op::Free { id: self.live_block(fields, ledger)?.id, stack: self.known_stack(fields, "stack")? }
                }
                None => Op::UnmatchedFree { address: fields.required_address("address")? },
            },
            "evict" => Op::Evict { id: self.live_block(fields, ledger)?.id },
            "reallocate" | "realloc" => {
                let old = self.live_block(fields, ledger)?;
                let Placement { address, size, stack, tag, surplus, weight } = self.placement(fields, catalog)?;
                let is_moved = fields.known_truth("moved")?.unwrap_or(address != old.address);
                let moved_to = is_moved.then_some(address);
                Op::Reallocate { id: old.id, moved_to, size, stack, tag, surplus, weight }
            }
            "promote" => {
                fields.required_text("heap")?;
                let id = self.live_block(fields, ledger)?.id;
                Op::Promote { id, tag: tag(fields, catalog)? }
            }
            "mark" => Op::Mark { name: catalog.strings.intern(fields.required_text("name")?) },
            "gauge" => {
                let value = fields.required_number("value")?;
                Op::Gauge { name: catalog.strings.intern(fields.required_text("name")?), value }
            }
            "dropped" => Op::Note { anomaly: Anomaly::DroppedEvent, count: fields.required_number("count")? },
            "note" => {
                let name = fields.required_text("anomaly")?;
                let anomaly = Anomaly::ALL.into_iter().find(|anomaly| anomaly.key() == name);
                let anomaly = anomaly.ok_or(EventLineFault::Not("anomaly", ExpectedValue::Anomaly))?;
                Op::Note { anomaly, count: fields.required_number("count")? }
            }
            unknown => return Err(EventLineFault::UnknownEvent(unknown.to_owned())),
        })
    }

    fn live_block(&self, fields: &Fields<'_>, ledger: &NumberLedger) -> Result<Block, EventLineFault> {
        let number = fields.required_number("block")?;
        let live = self.numbers.find(number).and_then(|id| ledger.find(id));
        live.ok_or(EventLineFault::UnknownBlock(number))
    }

    fn placement(&self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<Placement, EventLineFault> {
        let weight = fields.weight()?;
        let weight = if fields.truth("rounded")? { weight.rounded_per_record() } else { weight };
        let size = fields.required_number("size")?;
        let surplus = match (fields.text("surplus")?, fields.number("usable")?) {
            ("", Some(usable)) => surplus(size, usable).ok_or(EventLineFault::TooLarge("usable"))?,
            ("", None) => 0,
            (text, _) => text.parse().map_err(|_| EventLineFault::Not("surplus", ExpectedValue::Number))?,
        };
        let is_mapping = fields.known_truth("mapping")?.unwrap_or(fields.heap()? == Heap::Mapped);
        let heap = if is_mapping { Heap::Mapped } else { Heap::Malloc };
        let address = heap.recorded_address(fields.required_address("address")?);
        let stack = self.known_stack(fields, "stack")?;
        Ok(Placement { address, size, stack, tag: tag(fields, catalog)?, surplus, weight })
    }

    fn known_stack(&self, fields: &Fields<'_>, name: &'static str) -> Result<StackId, EventLineFault> {
        match fields.number(name)? {
            None | Some(0) => Ok(StackId::UNKNOWN),
            Some(number) => self.stacks.get(&number).copied().ok_or(EventLineFault::Undefined(name, number)),
        }
    }

    fn define_module(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<(), EventLineFault> {
        let number = fields.required_number("module")?;
        let (path, build_id) = (fields.required_text("path")?, fields.text("build_id")?);
        let module = Module {
            start: fields.address("start")?.unwrap_or(0),
            end: fields.address("end")?.unwrap_or(0),
            file_offset: fields.number("file_offset")?.unwrap_or(0),
            loaded: Nanos(fields.number("loaded_ns")?.unwrap_or(0)),
            unloaded: fields.number("unloaded_ns")?.map(Nanos),
            path: catalog.strings.intern(path),
            build_id: catalog.strings.intern(build_id),
        };
        self.modules.insert(number, catalog.add_module(module) + 1);
        Ok(())
    }

    fn define_frame(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<(), EventLineFault> {
        let number = fields.required_number("frame")?;
        let frame = self.frame(fields, catalog)?;
        let objects = fields.objects("resolved")?;
        if objects.len() > Resolution::MOST_FRAMES {
            return Err(EventLineFault::TooLarge("resolved"));
        }
        let in_frame = |(index, fields)| {
            self.frame(fields, catalog).map_err(|why| EventLineFault::Frame { index, why: Box::new(why) })
        };
        let resolved = objects.iter().enumerate().map(in_frame).collect::<Result<Vec<Frame>, _>>()?;
        let id = catalog.stacks.push_frame(frame);
        if !resolved.is_empty() {
            catalog.stacks.resolve(id, &resolved);
        }
        self.frames.insert(number, id);
        Ok(())
    }

    fn frame(&self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<Frame, EventLineFault> {
        let line = u32::try_from(fields.number("line")?.unwrap_or(0)).map_err(|_| EventLineFault::TooLarge("line"))?;
        let column =
            |name| u16::try_from(fields.number(name)?.unwrap_or(0)).map_err(|_| EventLineFault::TooLarge(name));
        let columns = ColumnRange { start: column("column")?, end: column("end_column")? };
        let module = match fields.number("module")? {
            None | Some(0) => 0,
            Some(number) => *self.modules.get(&number).ok_or(EventLineFault::Undefined("module", number))?,
        };
        let address = fields.address("address")?.unwrap_or(0);
        let (function, file, inlined) = (fields.text("function")?, fields.text("file")?, fields.truth("inlined")?);
        let (function, file) = (catalog.strings.intern(function), catalog.strings.intern(file));
        Ok(Frame { address, function, file, line, module, inlined, columns })
    }

    fn define_stack(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<(), EventLineFault> {
        let number = fields.required_number("stack")?;
        let parent = self.known_stack(fields, "caller")?;
        let frame = match fields.number("frame")? {
            None => FrameId::LOST,
            Some(number) => *self.frames.get(&number).ok_or(EventLineFault::Undefined("frame", number))?,
        };
        // A stack is a new one even where it is equal to another: lost stacks stay apart.
        let id = StackId(catalog.stacks.nodes().len() as u32);
        if catalog.stacks.push_node(StackNode { parent, frame }) {
            self.stacks.insert(number, id);
        }
        Ok(())
    }

    fn pending(&mut self) -> Result<&mut PendingState, EventLineFault> {
        self.pending.as_mut().ok_or(EventLineFault::Misplaced("a part of a state without a \"state\" line before it"))
    }

    fn add_figures(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<(), EventLineFault> {
        let figures = state_lines::read_figures(fields)?;
        match fields.required_text("of")? {
            "all" => self.pending()?.state.totals = state_lines::read_totals(fields)?,
            "thread" => {
                let id = ThreadId(fields.required_number("thread")?);
                let last_allocation = state_lines::read_last_block(fields)?;
                let pending = self.pending()?;
                let index = pending.state.threads.len() as u32;
                if pending.threads.insert(id, index).is_some() {
                    return Err(EventLineFault::Misplaced("the figures of this thread were given before"));
                }
                pending.state.threads.push(ThreadAccount { figures, id, last_allocation });
            }
            "stack" => {
                let stack = self.known_stack(fields, "stack")?;
                *self.pending()?.state.sites.at(stack) = figures;
            }
            "promotions" => put_tag(&mut self.pending()?.state.tags, TagId::NONE, figures),
            "tag" => {
                let id = tag(fields, catalog)?;
                put_tag(&mut self.pending()?.state.tags, id, figures);
            }
            _ => return Err(EventLineFault::Not("of", ExpectedValue::Owner)),
        }
        Ok(())
    }

    fn add_live_block(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<(), EventLineFault> {
        let Placement { address, size, stack, tag, surplus, weight } = self.placement(fields, catalog)?;
        let id = AllocId(fields.required_number("block")?);
        let time = Nanos(fields.required_number("time_ns")?);
        let owner = fields.number("thread")?.unwrap_or(0);
        let pending = self.pending()?;
        let thread = *pending.threads.get(&ThreadId(owner)).ok_or(EventLineFault::Undefined("thread", owner))?;
        // Blocks are kept in order: the place of the last one is the only one that need be compared.
        if pending.state.blocks.last().is_some_and(|last| last.id >= id) {
            return Err(EventLineFault::NotIncreasing("block"));
        }
        pending.state.blocks.push(Block { id, address, size, time, thread, stack, tag, surplus, weight });
        Ok(())
    }
}

fn put_tag(tags: &mut Vec<Figures>, id: TagId, figures: Figures) {
    let index = id.0 as usize;
    if index >= tags.len() {
        tags.resize(index + 1, Figures::default());
    }
    tags[index] = figures;
}
