//! Writing the lines of a recording.

use super::super::lines::MAX_LINE_BYTES;
use super::super::reader::surplus;
use super::super::writer::{JsonObjectWriter, known, write_thread_name};
use super::VERSION;
use super::state_lines;
use highwater_model::{
    Accounts, AllocId, Anomaly, Block, Catalog, FrameId, Heap, Nanos, NumberLedger, Op, Placement, Source, StackId,
    Step, Tag, TagId, ThreadId, usable_of_size,
};
use std::io::{self, Write};

/// Writes a recording step by step. Holds one line, and a bit for each stack and frame of the catalog.
pub struct RecordedLinesWriter<W> {
    out: W,
    line: Vec<u8>,
    stacks: WrittenNumbers,
    frames: WrittenNumbers,
    /// The stack of calls whose lines are still to be written.
    pending: Vec<StackId>,
    too_long: u64,
}

/// Numbers that were already written.
#[derive(Default)]
struct WrittenNumbers(Vec<u64>);

impl WrittenNumbers {
    /// True at the first call with a number.
    fn is_new(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1u64 << (number % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}

/// A line that is being written.
pub(super) type Line<'a> = JsonObjectWriter<&'a mut Vec<u8>>;

impl<W: Write> RecordedLinesWriter<W> {
    /// Begins: writes what is known of the source, the names of threads, and the modules.
    pub fn new(out: W, source: &Source, catalog: &Catalog) -> io::Result<Self> {
        let mut writer = Self {
            out,
            line: Vec::new(),
            stacks: WrittenNumbers::default(),
            frames: WrittenNumbers::default(),
            pending: Vec::new(),
            too_long: 0,
        };
        writer.put("recording", |line| line.number("version", VERSION))?;
        writer.put("source", |line| {
            line.text("kind", source.kind.key())?;
            line.known_number("duration_ns", known(source.duration.0))?;
            line.source(source)
        })?;
        for entry in catalog.thread_names() {
            writer.line.clear();
            write_thread_name(entry.thread, catalog.strings.get(entry.name), &mut writer.line)?;
            writer.flush_line()?;
        }
        for number in 1..=catalog.modules.len() as u32 {
            writer.define_module(number, catalog)?;
        }
        Ok(writer)
    }

    /// Writes a step. `ledger` is the state before it.
    pub fn step(&mut self, ledger: &NumberLedger, step: &Step, catalog: &Catalog) -> io::Result<()> {
        match step.op {
            Op::Allocate(Placement { stack, .. }) | Op::Reallocate { stack, .. } | Op::Free { stack, .. } => {
                self.define_stack(stack, catalog)?
            }
            _ => {}
        }
        let find = |id: AllocId| ledger.find(id);
        let &Step { time, thread, op } = step;
        match op {
            Op::Allocate(place) => self.put_step("allocate", time, thread, |line| {
                line.number("block", ledger.accounts().next_id().0)?;
                put_address(line, "address", place.address, Some(place.tag), catalog)?;
                put_placement(line, &place, catalog)
            }),
            Op::Free { id, stack } => self.put_step("deallocate", time, thread, |line| {
                line.number("block", id.0)?;
                put_block(line, find(id), catalog)?;
                line.known_number("stack", known(stack.0.into()))
            }),
            Op::UnmatchedFree { address } => {
                self.put_step("deallocate", time, thread, |line| line.address("address", address))
            }
            Op::Evict { id } => self.put_step("evict", time, thread, |line| {
                line.number("block", id.0)?;
                put_block(line, find(id), catalog)
            }),
            Op::Reallocate { id, moved_to, size, stack, tag, surplus, weight } => {
                self.put_step("reallocate", time, thread, |line| {
                    let old = find(id);
                    let old_address = old.map_or(0, |old| old.address);
                    let address = moved_to.unwrap_or(old_address);
                    let heap_of = if tag == TagId::NONE { old.map(|old| old.tag) } else { Some(tag) };
                    line.number("block", id.0)?;
                    let old_heap = catalog.tag(old.map_or(TagId::NONE, |old| old.tag)).heap;
                    line.address("old_address", old_heap.true_address(old_address))?;
                    put_address(line, "address", address, heap_of, catalog)?;
                    if moved_to.is_some() != (address != old_address) {
                        line.truth("moved", moved_to.is_some())?;
                    }
                    put_placement(line, &Placement { address, size, stack, tag, surplus, weight }, catalog)
                })
            }
            Op::Promote { id, tag } => self.put_step("promote", time, thread, |line| {
                line.number("block", id.0)?;
                let was = find(id);
                let heap = catalog.tag(was.map_or(TagId::NONE, |block| block.tag)).heap;
                line.address("address", heap.true_address(was.map_or(0, |block| block.address)))?;
                // A promotion says where to, also to the allocator's heap.
                if catalog.tag(tag).heap == Heap::Malloc {
                    line.text("heap", Heap::Malloc.name())?;
                }
                line.tag(tag, catalog)
            }),
            Op::Mark { name } => {
                self.put_step("mark", time, thread, |line| line.text("name", catalog.strings.get(name)))
            }
            Op::Gauge { name, value } => self.put_step("gauge", time, thread, |line| {
                line.text("name", catalog.strings.get(name))?;
                line.number("value", value)
            }),
            Op::Note { anomaly: Anomaly::DroppedEvent, count } => {
                self.put_step("dropped", time, thread, |line| line.number("count", count))
            }
            Op::Note { anomaly, count } => self.put_step("note", time, thread, |line| {
                line.text("anomaly", anomaly.key())?;
                line.number("count", count)
            }),
        }
    }

    /// Writes a state from which the recording continues.
    pub fn state(&mut self, accounts: &Accounts, catalog: &Catalog) -> io::Result<()> {
        let state = accounts.state();
        let sites = || state.sites.iter().filter(|(_, figures)| !figures.is_empty());
        for (stack, _) in sites() {
            self.define_stack(stack, catalog)?;
        }
        self.put("state", |line| state_lines::put_state(line, state))?;
        self.put("figures", |line| {
            line.text("of", "all")?;
            state_lines::put_totals(line, &state.totals)
        })?;
        for account in &state.threads {
            self.put("figures", |line| {
                line.text("of", "thread")?;
                line.number("thread", account.id.0)?;
                let latest = account.last_allocation;
                line.known_number("last_block", (latest != AllocId::default()).then_some(latest.0))?;
                state_lines::put_figures(line, &account.figures)
            })?;
        }
        for (stack, figures) in sites() {
            self.put("figures", |line| {
                line.text("of", "stack")?;
                line.number("stack", stack.0.into())?;
                state_lines::put_figures(line, figures)
            })?;
        }
        for (tag, figures) in (0..).map(TagId).zip(&state.tags).filter(|(_, figures)| !figures.is_empty()) {
            self.put("figures", |line| {
                line.text("of", if tag == TagId::NONE { "promotions" } else { "tag" })?;
                line.tag(tag, catalog)?;
                state_lines::put_figures(line, figures)
            })?;
        }
        for block in state.blocks.by_number() {
            let Block { id, address, size, time, thread, stack, tag, surplus, weight } = block;
            let thread = state.threads.get(thread as usize).map_or(ThreadId(0), |account| account.id);
            self.put_step("live", time, thread, |line| {
                line.number("block", id.0)?;
                put_address(line, "address", address, Some(tag), catalog)?;
                put_placement(line, &Placement { address, size, stack, tag, surplus, weight }, catalog)
            })?;
        }
        self.put("continue", |_| Ok(()))
    }

    /// Ends. Returns the number of lines that are longer than a reader accepts.
    pub fn finish(mut self) -> io::Result<(u64, W)> {
        self.out.flush()?;
        Ok((self.too_long, self.out))
    }

    /// Writes the lines of a stack and of its callers that were not written before, outermost first.
    fn define_stack(&mut self, stack: StackId, catalog: &Catalog) -> io::Result<()> {
        let nodes = catalog.stacks.nodes();
        let mut at = stack;
        while at != StackId::UNKNOWN && !self.stacks.contains(at.0) {
            self.pending.push(at);
            at = nodes.get(at.0 as usize).map_or(StackId::UNKNOWN, |node| node.parent);
        }
        while let Some(stack) = self.pending.pop() {
            self.stacks.is_new(stack.0);
            let node = nodes.get(stack.0 as usize).copied();
            let frame = node.map(|node| node.frame).filter(|&frame| catalog.stacks.frame(frame).is_some());
            if let Some(frame) = frame {
                self.define_frame(frame, catalog)?;
            }
            self.put("stack", |line| {
                line.number("stack", stack.0.into())?;
                line.known_number("caller", known(node.map_or(0, |node| node.parent.0.into())))?;
                line.known_number("frame", frame.map(|frame| frame.0.into()))
            })?;
        }
        Ok(())
    }

    fn define_frame(&mut self, id: FrameId, catalog: &Catalog) -> io::Result<()> {
        if !self.frames.is_new(id.0) {
            return Ok(());
        }
        let Some(&frame) = catalog.stacks.frame(id) else { return Ok(()) };
        let resolved = if catalog.stacks.is_resolved(id) { catalog.stacks.frame_ids(id) } else { 0..0 };
        let of = |number: u32| catalog.stacks.frame(FrameId(number)).copied().unwrap_or_default();
        self.put("frame", |line| {
            line.number("frame", id.0.into())?;
            state_lines::put_frame(line, &frame, catalog)?;
            if resolved.is_empty() {
                return Ok(());
            }
            line.name("resolved")?;
            let mut separator: &[u8] = b"[";
            for frame in resolved.map(of) {
                line.out.extend_from_slice(separator);
                let mut object = JsonObjectWriter::open(&mut *line.out)?;
                state_lines::put_frame(&mut object, &frame, catalog)?;
                line.out.push(b'}');
                separator = b",";
            }
            line.out.push(b']');
            Ok(())
        })
    }

    /// Modules have numbers from 1, as in frames.
    fn define_module(&mut self, number: u32, catalog: &Catalog) -> io::Result<()> {
        let module = &catalog.modules[number as usize - 1];
        self.put("module", |line| {
            line.number("module", number.into())?;
            line.text("path", catalog.strings.get(module.path))?;
            line.known_text("build_id", catalog.strings.get(module.build_id))?;
            if module.start | module.end | module.file_offset != 0 {
                line.address("start", module.start)?;
                line.address("end", module.end)?;
                line.number("file_offset", module.file_offset)?;
            }
            line.known_number("loaded_ns", known(module.loaded.0))?;
            line.known_number("unloaded_ns", module.unloaded.map(|time| time.0))
        })
    }

    fn put_step(
        &mut self,
        event: &str,
        time: Nanos,
        thread: ThreadId,
        rest: impl FnOnce(&mut Line<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.put(event, |line| {
            line.number("time_ns", time.0)?;
            line.number("thread", thread.0)?;
            rest(line)
        })
    }

    fn put(&mut self, event: &str, rest: impl FnOnce(&mut Line<'_>) -> io::Result<()>) -> io::Result<()> {
        self.line.clear();
        let mut object = JsonObjectWriter::open(&mut self.line)?;
        object.text("event", event)?;
        rest(&mut object)?;
        object.end_line()?;
        self.flush_line()
    }

    fn flush_line(&mut self) -> io::Result<()> {
        self.too_long += u64::from(self.line.len() > MAX_LINE_BYTES + 1);
        self.out.write_all(&self.line)
    }
}

/// A block's true address. A mapping has heap `mmap`, or says that it is one.
fn put_address(
    line: &mut Line<'_>,
    name: &str,
    recorded: u64,
    tag: Option<TagId>,
    catalog: &Catalog,
) -> io::Result<()> {
    let heap = catalog.tag(tag.unwrap_or(TagId::NONE)).heap;
    let address = heap.true_address(recorded);
    line.address(name, address)?;
    let is_mapping = recorded != address;
    // The heap of the line need not be that of the block: a resized block may keep its tag.
    if heap.recorded_address(address) != recorded || is_mapping {
        line.truth("mapping", is_mapping)?;
    }
    Ok(())
}

fn put_placement(line: &mut Line<'_>, place: &Placement, catalog: &Catalog) -> io::Result<()> {
    line.number("size", place.size)?;
    if place.weight.is_rounded() {
        line.truth("rounded", true)?;
    }
    let usable = usable_of_size(place.size).saturating_add_signed(place.surplus.into());
    if surplus(place.size, usable) != Some(place.surplus) {
        // A size that no block can have; only its difference from the expected one says the same again.
        line.text("surplus", &place.surplus.to_string())?;
    }
    line.extras(place, catalog)?;
    line.known_number("stack", known(place.stack.0.into()))
}

/// What readers of the lines want to know of a block that is referred to.
fn put_block(line: &mut Line<'_>, block: Option<Block>, catalog: &Catalog) -> io::Result<()> {
    let Some(block) = block else { return Ok(()) };
    let Tag { heap, .. } = catalog.tag(block.tag);
    line.address("address", heap.true_address(block.address))?;
    line.number("size", block.size)?;
    if heap != Heap::Malloc {
        line.text("heap", heap.name())?;
    }
    Ok(())
}
