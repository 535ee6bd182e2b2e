//! A part of a snapshot whose history is not known: one heap, or the blocks that a filter selects.
//!
//! For a recording, the figures of a heap come from replaying that heap alone. If there is nothing to replay, the live blocks still show what each
//! owner holds, and the tags show how much the heap ever had. Only the owners of dead blocks are unknown.

use crate::accounts::{Accounts, AccountsState, ThreadAccount};
use crate::blocks::Block;
use crate::figures::Figures;
use crate::heap::Heap;
use crate::ids::{AllocId, StackId, TagId, ThreadId};
use crate::snapshot::Snapshot;
use std::sync::Arc;

impl Snapshot {
    /// The contents of one heap, as if there were no other; `None` if single blocks are not known. Dead blocks are charged to the unknown site and to
    /// thread 0, and peaks are set to the live bytes.
    pub fn heap_alone(&self, heap: Heap) -> Option<Self> {
        if self.source.aggregated {
            return None;
        }
        let mut state = self.nothing_but_tags_of(Some(heap));
        self.blocks_of(heap).try_for_each(|block| add_live(&mut state, block))?;
        state.totals.peak_blocks = state.totals.figures.live_blocks();
        let whole = self.figures_by_heap().remove(&heap).unwrap_or_default();
        let gone = gone(&whole, &state.totals.figures);
        charge_unknown_owner(&mut state, &gone);
        let (source, catalog) = (self.source.clone(), Arc::clone(&self.catalog));
        Some(Self { source, at: self.at, accounts: Accounts::from_state(state), catalog })
    }

    /// The live blocks that `wanted` accepts, with their threads, as if there were no others; `None` if single blocks are not known. Which dead blocks
    /// belong to the part is not known, so all figures are those of the live blocks.
    pub fn part(&self, wanted: impl Fn(&Block, ThreadId) -> bool) -> Option<Self> {
        if self.source.aggregated {
            return None;
        }
        let mut state = self.nothing_but_tags_of(None);
        let owner = |block: &Block| self.accounts.threads().get(block.thread as usize).map(|thread| thread.id);
        for block in self.accounts.blocks() {
            if wanted(&block, owner(&block)?) {
                state.tags.get_mut(block.tag.0 as usize).into_iter().for_each(|tag| tag.add(&figures_of(&block)));
                add_live(&mut state, block)?;
            }
        }
        state.totals.peak_blocks = state.totals.figures.live_blocks();
        let (source, catalog) = (self.source.clone(), Arc::clone(&self.catalog));
        Some(Self { source, at: self.at, accounts: Accounts::from_state(state), catalog })
    }

    /// The same threads and tags without figures, except for the tags of this heap: their figures concern only this heap.
    fn nothing_but_tags_of(&self, heap: Option<Heap>) -> AccountsState {
        let is_of_heap = |tag: TagId| tag != TagId::NONE && Some(self.catalog.tag(tag).heap) == heap;
        let nothing = |thread: &ThreadAccount| ThreadAccount { figures: Figures::default(), ..*thread };
        let tags = (0..).map(TagId).zip(self.accounts.tags());
        AccountsState {
            anomalies: *self.accounts.anomalies(),
            threads: self.accounts.threads().iter().map(nothing).collect(),
            tags: tags.map(|(tag, figures)| if is_of_heap(tag) { *figures } else { Figures::default() }).collect(),
            events: self.accounts.events(),
            next_id: self.accounts.next_id().0,
            last_time: self.accounts.last_time(),
            ..AccountsState::default()
        }
    }
}

/// Adds a live block to its owners; `None` if its thread is not known.
fn add_live(state: &mut AccountsState, block: Block) -> Option<()> {
    let figures = figures_of(&block);
    state.totals.figures.add(&figures);
    state.threads.get_mut(block.thread as usize)?.figures.add(&figures);
    state.sites.at(block.stack).add(&figures);
    state.blocks.push(block);
    Some(())
}

/// The figures of an owner that has only this block, and never had another.
fn figures_of(block: &Block) -> Figures {
    let blocks = block.live_blocks();
    let unrecorded = blocks.saturating_sub(1);
    let more_samples = block.weight.samples() - 1;
    Figures { allocations: blocks, unrecorded, more_samples, ..Figures::of_live_bytes(block.live_amount()) }
}

/// The figures of a heap's dead blocks.
fn gone(whole: &Figures, live: &Figures) -> Figures {
    // Some of the live blocks may have been added by a reallocation.
    let resized = live.allocations.saturating_sub(whole.allocations);
    let reallocations = whole.reallocations.saturating_sub(resized);
    Figures { reallocations, peak_bytes: 0, ..whole.without(live) }
}

fn charge_unknown_owner(state: &mut AccountsState, gone: &Figures) {
    const UNKNOWN_THREAD: ThreadId = ThreadId(0);
    if gone.is_empty() {
        return;
    }
    let known = state.threads.iter().position(|thread| thread.id == UNKNOWN_THREAD);
    let index = known.unwrap_or_else(|| {
        let none =
            ThreadAccount { id: UNKNOWN_THREAD, figures: Figures::default(), last_allocation: AllocId(u64::MAX) };
        state.threads.push(none);
        state.threads.len() - 1
    });
    state.threads[index].figures.add(gone);
    state.sites.at(StackId::UNKNOWN).add(gone);
    state.totals.figures.add(gone);
}
