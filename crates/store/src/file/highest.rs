//! The instant with the most live bytes within a window.

use super::events::EventsSummary;
use super::recording::Recording;
use super::snapshot_writer::bytes_without_stack;
use super::walk::WalkItem;
use highwater_model::{Accounts, Nanos, NumberLedger};
use std::io;
use std::ops::ControlFlow;

/// An instant, by time and by the number of events before it: times may tie, that number never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Highest {
    /// The time; not before the window.
    pub at: Nanos,
    /// How many events had happened.
    pub event: u64,
    /// Bytes live then.
    pub bytes: u64,
}

impl Highest {
    fn see(&mut self, from: Nanos, accounts: &Accounts) {
        let bytes = accounts.totals().figures.live_bytes();
        if bytes > self.bytes {
            *self = Self { at: accounts.last_time().max(from), event: accounts.events(), bytes };
        }
    }
}

impl Recording {
    /// The first instant from one time to another, both included, at which the most bytes were live. The window begins with the bytes that were live
    /// before it.
    ///
    /// The summaries of event blocks have the maximum of live bytes. So only the blocks at both ends of the window are replayed, and the one with the
    /// highest maximum.
    pub fn highest_between(&self, from: Nanos, to: Nanos) -> io::Result<Highest> {
        self.highest_between_with(from, to, |block| self.state_before_block(block))
    }

    /// The same; `state_before` returns the accounts before an event block, by its index among the event blocks, from which that block is replayed.
    pub fn highest_between_with(
        &self,
        from: Nanos,
        to: Nanos,
        state_before: impl Fn(usize) -> io::Result<NumberLedger>,
    ) -> io::Result<Highest> {
        let states = self.states();
        if !states.is_empty() {
            return self.highest_state(&states, from, to);
        }
        let whole = self.final_totals()?;
        if (from..=to).contains(&whole.peak_at) && self.begins_at() < whole.peak_at {
            return Ok(Highest { at: whole.peak_at, event: whole.peak_event, bytes: whole.figures.peak_bytes });
        }
        let mut highest = Highest::default();
        let is_inside = |summary: &EventsSummary| summary.first_time >= from && summary.last_time <= to;
        let mut most: Option<(usize, u64)> = None;
        let mut on_the_ends = Vec::new();
        let mut before = 0;
        for (at, summary) in self.summaries().enumerate() {
            if summary.first_time > to {
                break;
            }
            before = at + 1;
            if is_inside(summary) {
                if most.is_none_or(|(_, bytes)| summary.highest_bytes > bytes) {
                    most = Some((at, summary.highest_bytes));
                }
            } else if summary.last_time >= from {
                on_the_ends.push((at, summary.highest_bytes));
            }
        }
        // No event in the window: the bytes that were live before it are the result.
        if on_the_ends.is_empty() && most.is_none() {
            highest.see(from, state_before(before)?.accounts());
            return Ok(highest);
        }
        for (at, bytes) in on_the_ends {
            // Skips event blocks whose maximum is below that of a block fully inside the window.
            if most.is_none_or(|(_, most)| bytes >= most) {
                self.highest_in_block(at, state_before(at)?, from, to, &mut highest)?;
            }
        }
        if let Some((at, bytes)) = most
            && bytes >= highest.bytes
        {
            let mut inside = Highest::default();
            self.highest_in_block(at, state_before(at)?, from, to, &mut inside)?;
            // Of two instants with the same number of bytes, the earlier one wins.
            if inside.bytes > highest.bytes || (inside.bytes == highest.bytes && inside.event < highest.event) {
                highest = inside;
            }
        }
        Ok(highest)
    }

    /// The same of states between which no events are known: the state before the window, or one within it. Of equal states the one of which the most call
    /// stacks are known.
    fn highest_state(&self, states: &[Nanos], from: Nanos, to: Nanos) -> io::Result<Highest> {
        let mut highest = Highest::default();
        let mut unknown = 0;
        let last_before = states.partition_point(|at| *at < from);
        let until = states.partition_point(|at| *at <= to);
        for number in last_before.max(1)..=until {
            let accounts = self.accounts_at_event(number as u64)?;
            let (bytes, without_stack) =
                (accounts.totals().figures.live_bytes(), bytes_without_stack(accounts.sites()));
            if bytes > highest.bytes || (bytes == highest.bytes && without_stack < unknown) {
                highest = Highest { at: accounts.last_time().max(from), event: accounts.events(), bytes };
                unknown = without_stack;
            }
        }
        Ok(highest)
    }

    fn highest_in_block(
        &self,
        block: usize,
        mut ledger: NumberLedger,
        from: Nanos,
        to: Nanos,
        highest: &mut Highest,
    ) -> io::Result<()> {
        let Some((entry, _)) = self.event_blocks().nth(block) else { return Ok(()) };
        let mut is_cut = false;
        self.replay_figures(&mut ledger, std::slice::from_ref(entry), |seen| {
            let WalkItem::Step(ledger, step) = seen else { return ControlFlow::Continue(()) };
            // The state before the first step of the window counts as well: it is the state at the start of the window.
            if step.time >= from {
                highest.see(from, ledger.accounts());
            }
            is_cut = step.time > to;
            if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if !is_cut && ledger.accounts().last_time() >= from {
            highest.see(from, ledger.accounts());
        }
        Ok(())
    }

    /// The state before an event block, by its index among the event blocks; after the last one, the state at the end.
    pub fn state_before_block(&self, block: usize) -> io::Result<NumberLedger> {
        self.state_before(self.place_of(block))
    }
}
