//! Writes a recording of operations whose meaning is already known.

use super::block_writer::FileSink;
use super::keyframe;
use super::step_writer::StepWriter;
use super::writer::Written;
use highwater_model::{
    Accounts, AccountsState, AllocId, BlockExtent, Catalog, NumberLedger, Op, RssBreakdown, Source, Step, StepSink,
};
use std::io;

/// Writes steps as a `.hw` file. Where [`Writer`](super::writer::Writer) decides what events mean, this one takes operations on allocation numbers, as
/// a [walk](super::recording::Recording::walk) through another recording gives them: the copy has the same operations.
pub struct NumberedWriter<S: FileSink> {
    ledger: NumberLedger,
    pen: StepWriter<S>,
}

impl<S: FileSink> NumberedWriter<S> {
    /// Begins a file with an empty state.
    pub fn new(sink: S, source: &Source) -> io::Result<Self> {
        let ledger = NumberLedger::default();
        let pen = StepWriter::begin(sink, source, ledger.accounts(), &Catalog::default())?;
        Ok(Self { ledger, pen })
    }

    /// The state after everything written so far.
    pub fn ledger(&self) -> &NumberLedger {
        &self.ledger
    }

    /// Continues from another state: events that led to it are not in the file (docs/format.md §15). The state must be
    /// [usable](is_usable_state).
    pub fn continue_from(&mut self, state: AccountsState, catalog: &Catalog) -> io::Result<()> {
        self.pen.seal(self.ledger.accounts(), catalog)?;
        self.ledger = NumberLedger::from_state(state);
        self.pen.continue_from(self.ledger.accounts(), catalog)
    }

    /// Writes a step. Its handles refer to `catalog`.
    pub fn step(&mut self, step: &Step, catalog: &Catalog) -> io::Result<()> {
        let was = self.extent_before(&step.op);
        self.ledger.replay(step);
        self.pen.write(*step, was);
        self.pen.event_done(self.ledger.accounts(), catalog)
    }

    fn extent_before(&self, op: &Op) -> BlockExtent {
        let of_block = |id: AllocId| {
            let block = self.ledger.find(id);
            block.map_or_else(BlockExtent::default, |block| BlockExtent { address: block.address, size: block.size })
        };
        match *op {
            Op::Free { id, .. } | Op::Reallocate { id, .. } => of_block(id),
            _ => BlockExtent::default(),
        }
    }

    /// Writes a breakdown of resident memory. Its handles refer to `catalog`. False if no file can hold it.
    pub fn add_breakdown(&mut self, breakdown: &RssBreakdown, catalog: &Catalog) -> io::Result<bool> {
        self.pen.add_breakdown(breakdown, catalog)
    }

    /// Ends the file: the last keyframe, the source, the index.
    pub fn finish(self, catalog: &Catalog, source: &Source) -> io::Result<(Written, S)> {
        self.pen.finish(self.ledger.accounts(), catalog, source)
    }
}

/// True if a replay can continue from a state, wherever it comes from: the blocks are in order, no counter is so large that a sum could wrap, and the
/// laws hold.
pub fn is_usable_state(state: &AccountsState) -> bool {
    keyframe::are_counters_bounded(state) && {
        let accounts = Accounts::from_state(state.clone());
        keyframe::is_lawful(&accounts, false)
    }
}
