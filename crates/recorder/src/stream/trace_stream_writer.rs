//! A stream in the memtrace format, which `nc` can receive and the tools of OCaml programs can read.

use super::outbox::Outbox;
use highwater_formats::memtrace::{TraceWriter, Version};
use highwater_model::{Accounts, AllocId, Catalog, FrameText, Nanos, Op, Source, Step};
use rustc_hash::FxHashSet;
use std::io;

/// The maximum number of queued steps. Steps wait until their names are known, since a trace writes the names of a source location only once.
const MOST_WAITING: usize = 1 << 16;

/// Writes steps as a trace.
pub struct TraceStreamWriter {
    writer: TraceWriter<Outbox>,
    waiting: Vec<(Step, AllocId)>,
    next: AllocId,
    /// When the trace begins: subtracted from all times.
    start: Nanos,
    left_out: u64,
    is_behind: bool,
    /// Blocks that were resized while events were left out.
    resized: FxHashSet<AllocId>,
}

impl TraceStreamWriter {
    /// Begins with the state of a ledger that has these accounts.
    pub fn begin(outbox: Outbox, source: &Source, accounts: &Accounts, catalog: &Catalog) -> io::Result<Self> {
        // If nothing is known of earlier events, the trace begins now.
        let start = if accounts.events() == 0 { accounts.last_time() } else { Nanos(0) };
        let source = Source { start_unix_ns: source.start_unix_ns + start.0, ..source.clone() };
        let mut writer = TraceWriter::new(outbox, &source, Version::V2)?;
        writer.catch_up(accounts, |_| false, catalog)?;
        writer.flush(catalog)?;
        let waiting = Vec::with_capacity(MOST_WAITING);
        let resized = FxHashSet::default();
        Ok(Self { writer, waiting, next: accounts.next_id(), start, left_out: 0, is_behind: false, resized })
    }

    /// Queues a step.
    #[inline]
    pub fn write(&mut self, step: Step) {
        let time = Nanos(step.time.0.saturating_sub(self.start.0));
        self.waiting.push((Step { time, ..step }, self.next));
        if matches!(step.op, Op::Allocate(_)) {
            self.next.0 += 1;
        }
    }

    /// Whether the queued steps must be written, or left out, before the next event.
    pub fn is_full(&self) -> bool {
        self.waiting.len() + 8 > MOST_WAITING
    }

    /// Whether any steps are queued.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes the queued steps; if events were left out, writes the blocks that are live now instead.
    pub fn flush(&mut self, accounts: &Accounts, catalog: &mut Catalog) -> io::Result<()> {
        if self.is_behind {
            self.leave_out();
            let resized = std::mem::take(&mut self.resized);
            // The format has no other way to express it.
            let text = format!("[highwater: {} events left out until here]", self.left_out);
            let stack = catalog.intern_stack(&[FrameText { function: &text, ..FrameText::default() }]);
            self.writer.remark(self.since_start(accounts.last_time()), stack, catalog)?;
            self.writer.catch_up(accounts, |id| resized.contains(&id), catalog)?;
            self.is_behind = false;
        }
        for (step, next) in self.waiting.drain(..) {
            self.writer.write_step(&step, next, catalog)?;
        }
        self.writer.flush(catalog)
    }

    /// Leaves out the queued steps.
    pub fn leave_out(&mut self) {
        for (step, _) in self.waiting.drain(..) {
            self.left_out += u64::from(step.op.is_event());
            self.is_behind = true;
            match step.op {
                Op::Reallocate { id, .. } => _ = self.resized.insert(id),
                Op::Free { id, .. } | Op::Evict { id } => _ = self.resized.remove(&id),
                _ => {}
            }
        }
    }

    /// Whether events were left out since the trace was last brought up to date.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// The number of events left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes that nothing has happened until `now`.
    pub fn still_here(&mut self, now: Nanos, catalog: &Catalog) -> io::Result<()> {
        self.writer.still_here(self.since_start(now), catalog)
    }

    fn since_start(&self, time: Nanos) -> Nanos {
        Nanos(time.0.saturating_sub(self.start.0))
    }
}
