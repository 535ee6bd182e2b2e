//! Events as text for people, one line each.

use highwater_model::{
    Block, Catalog, Clock, FrameText, Heap, Nanos, NumberLedger, Op, Placement, Source, StackId, Step, TagId, ThreadId,
    disturbs_text,
};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes steps as text: time, thread, event, block, size, address, then the stack, innermost call first.
pub struct EventTextWriter<W> {
    out: W,
    line: String,
    clock: Clock,
}

impl<W: Write> EventTextWriter<W> {
    /// Begins: writes what is known of the source, as comments.
    pub fn new(out: W, source: &Source) -> io::Result<Self> {
        let mut writer = Self { out, line: String::new(), clock: source.clock };
        let about = [
            ("program", source.program.clone()),
            ("command", source.command.join(" ")),
            ("pid", if source.pid == 0 { String::new() } else { source.pid.to_string() }),
            ("host", source.host.clone()),
            ("context", source.context.clone()),
            ("samples", source.sample_rate.map_or_else(String::new, |rate| format!("one in {rate} bytes"))),
        ];
        for (name, value) in about.iter().filter(|(_, value)| !value.is_empty()) {
            writer.line.push_str("# ");
            writer.line.push_str(name);
            writer.line.push(' ');
            writer.plain(value);
            writer.end_line()?;
        }
        Ok(writer)
    }

    /// Writes a step. `ledger` is the state before it.
    pub fn step(&mut self, ledger: &NumberLedger, step: &Step, catalog: &Catalog) -> io::Result<()> {
        let &Step { time, thread, op } = step;
        match op {
            Op::Allocate(place) => {
                self.begin(time, thread, "alloc", Some(ledger.accounts().next_id().0));
                self.placement(&place, place.tag, catalog);
            }
            Op::Free { id, stack } => {
                self.begin(time, thread, "free", Some(id.0));
                self.block(ledger.find(id), catalog);
                self.freed_by(stack, catalog);
            }
            Op::Evict { id } => {
                self.begin(time, thread, "evict", Some(id.0));
                self.block(ledger.find(id), catalog);
            }
            Op::Reallocate { id, moved_to, size, stack, tag, surplus, weight } => {
                self.begin(time, thread, "realloc", Some(id.0));
                let old = ledger.find(id);
                let (was, heap_of) = old.map_or((0, TagId::NONE), |old| (old.address, old.tag));
                let address = moved_to.unwrap_or(was);
                let heap_of = if tag == TagId::NONE { heap_of } else { tag };
                self.placement(&Placement { address, size, stack, tag, surplus, weight }, heap_of, catalog);
            }
            Op::Promote { id, tag } => {
                self.begin(time, thread, "promote", Some(id.0));
                let _ = write!(self.line, " to {}", catalog.tag(tag).heap.name());
            }
            Op::UnmatchedFree { address } => {
                self.begin(time, thread, "free", None);
                let _ = write!(self.line, " {address:#x} of no live block");
            }
            Op::Mark { name } => {
                self.begin(time, thread, "mark", None);
                self.line.push(' ');
                self.plain(catalog.strings.get(name));
            }
            Op::Gauge { name, value } => {
                self.begin(time, thread, "gauge", None);
                self.line.push(' ');
                self.plain(catalog.strings.get(name));
                let _ = write!(self.line, " {value}");
            }
            Op::Note { anomaly, count } => {
                self.begin(time, thread, "note", None);
                let _ = write!(self.line, " {} {count}", anomaly.key());
            }
        }
        self.end_line()
    }

    /// Writes the live blocks of a state that the events before do not lead to.
    pub fn state(&mut self, ledger: &NumberLedger, catalog: &Catalog) -> io::Result<()> {
        let state = ledger.accounts().state();
        let _ = write!(self.line, "# continues here, with {} live blocks", state.blocks.len());
        self.end_line()?;
        for block in state.blocks.by_number() {
            let thread = state.threads.get(block.thread as usize).map_or(ThreadId(0), |account| account.id);
            self.begin(block.time, thread, "live", Some(block.id.0));
            let Block { address, size, stack, tag, surplus, weight, .. } = block;
            self.placement(&Placement { address, size, stack, tag, surplus, weight }, tag, catalog);
            self.end_line()?;
        }
        Ok(())
    }

    /// Ends.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, time: Nanos, thread: ThreadId, event: &str, block: Option<u64>) {
        let _ = match self.clock {
            Clock::Time => write!(self.line, "{:6}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000),
            _ => write!(self.line, "{:16}", time.0),
        };
        let _ = write!(self.line, " {:>7} {event:<7}", thread.0);
        let _ = match block {
            Some(number) => write!(self.line, " #{number:<8}"),
            None => write!(self.line, " {:9}", ""),
        };
    }

    fn placement(&mut self, place: &Placement, heap_of: TagId, catalog: &Catalog) {
        let tag = catalog.tag(place.tag);
        let heap = catalog.tag(heap_of).heap;
        let _ = write!(self.line, " {:>8} {:#x}", place.size, heap.true_address(place.address));
        if let Some((samples, _)) = place.weight.counted() {
            let _ = write!(self.line, " samples={samples}");
        } else if !place.weight.is_one() {
            let _ = write!(self.line, " weight={:.1}", place.weight.value());
        }
        if heap != Heap::Malloc {
            let _ = write!(self.line, " heap={}", heap.name());
        }
        for (name, text) in [("variable", tag.variable), ("type", tag.type_name), ("task", tag.task)] {
            let text = catalog.strings.get(text);
            if !text.is_empty() {
                let _ = write!(self.line, " {name}=");
                self.plain(text);
            }
        }
        self.stack(place.stack, catalog);
    }

    fn block(&mut self, block: Option<Block>, catalog: &Catalog) {
        if let Some(block) = block {
            let address = catalog.tag(block.tag).heap.true_address(block.address);
            let _ = write!(self.line, " {:>8} {address:#x}", block.size);
        }
    }

    /// The stack of a free, if it is known.
    fn freed_by(&mut self, stack: StackId, catalog: &Catalog) {
        if stack != StackId::UNKNOWN {
            self.stack(stack, catalog);
        }
    }

    fn stack(&mut self, stack: StackId, catalog: &Catalog) {
        let mut separator = "  ";
        for frame in catalog.frame_texts(stack) {
            self.line.push_str(separator);
            self.frame(&frame);
            separator = " < ";
        }
    }

    fn frame(&mut self, frame: &FrameText<'_>) {
        match frame.function {
            "" => {
                let _ = write!(self.line, "{:#x}", frame.address);
            }
            function => self.plain(function),
        }
        if frame.function.is_empty() && !frame.module.is_empty() {
            self.line.push_str(" in ");
            self.plain(frame.module);
        }
        if !frame.file.is_empty() {
            self.line.push_str(" (");
            self.plain(frame.file);
            if frame.line > 0 {
                let _ = write!(self.line, ":{}", frame.line);
            }
            self.line.push(')');
        }
    }

    /// Appends a name. Characters that would disturb the line are shown as U+FFFD.
    fn plain(&mut self, text: &str) {
        self.line.extend(text.chars().map(|c| if disturbs_text(c) { '\u{fffd}' } else { c }));
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())?;
        self.line.clear();
        Ok(())
    }
}
