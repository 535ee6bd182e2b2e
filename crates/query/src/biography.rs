//! The life of one block: its birth, every reallocation, its death and who freed it, and what lay at its address before and after.

use crate::block_states::{block_states, steps_of};
use crate::blocks::{BlockAnswer, block_answer};
use crate::error::QueryError;
use crate::life_events::{LifeEvent, end_in_words, known, life_events};
use crate::lives::blocks_of;
use crate::names::own_frame_of;
use crate::occupants::{AddressRange, Around, FoundWhen, Neighbours, Occupant, at_address, lying_at, neighbours};
use crate::query::Query;
use crate::stacks::no_stacks;
use highwater_formats::json::{DocumentStacks, FrameAnswer, StackTableAnswer};
use highwater_model::{AllocId, Catalog, Nanos, SourceKind, StackId};
use highwater_store::history::{Moment, OwnedBlock, Work};
use serde::Serialize;

/// Which block is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockChoice {
    /// The one with this allocation number.
    Number(AllocId),
    /// The one that lay at this address at the instant of the query, or the last one before it, or the first one after it.
    Address(u64),
}

/// Something that happened to a block.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "LifeEvent"))]
pub struct LifeEventAnswer {
    /// `allocated`, `reallocated`, `promoted`, `freed`, or `evicted`: another block got its address, so it must have been freed before. `known` for a block
    /// that was live before the recording began.
    pub what: &'static str,
    /// When.
    pub time_ns: u64,
    /// The thread that did it; null if it is not known.
    pub thread: Option<u64>,
    /// The address of the block after it; for its end, before it.
    pub address: String,
    /// Its size.
    pub size: u64,
    /// The size before it; null if it was not resized.
    pub old_size: Option<u64>,
    /// The address before it; null if the block did not move.
    pub old_address: Option<String>,
    /// Its heap.
    pub heap: &'static str,
    /// The number of the stack that did it; null if it was not recorded.
    pub site: Option<u32>,
    /// The frame that names this stack.
    pub frame: Option<FrameAnswer>,
    /// The number of this stack in the table.
    #[cfg_attr(test, ts(type = "Frame[]"))]
    pub stack: Option<u32>,
}

/// A block that lay at the same address at another time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Occupant"))]
pub struct OccupantAnswer {
    /// The block, as it was then.
    pub block: BlockAnswer,
    /// Since when it lay there, with this size.
    pub since_ns: u64,
    /// Until when; null if it stays.
    pub until_ns: Option<u64>,
    /// Why it left: `freed`, `evicted`, `reallocated` or `promoted`.
    pub left: Option<&'static str>,
}

/// The life of a block.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Biography"))]
pub struct BiographyAnswer {
    /// The block in its last state.
    pub block: BlockAnswer,
    /// For a block that was named by an address: `then` if it lay there at the instant, or `before`, or `after`.
    pub found: Option<&'static str>,
    /// Its past and future are known. False for a snapshot, which knows one instant.
    pub has_history: bool,
    /// Every reallocation is known. False for samples.
    pub has_reallocations: bool,
    /// Every block is known: none can be missing before or after it. False for samples.
    pub has_every_block: bool,
    /// Addresses are those of a memory, where a block may get the address of an earlier one.
    pub has_addresses: bool,
    /// What happened to it, in order.
    pub events: Vec<LifeEventAnswer>,
    /// The number of reallocations between the last two events that are not listed.
    pub left_out: u64,
    /// The last block at its first address before it.
    pub before: Option<OccupantAnswer>,
    /// The first block at its last address after it.
    pub after: Option<OccupantAnswer>,
    /// The stacks.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub stacks: StackTableAnswer,
}

/// The life of a block.
pub fn biography(query: &Query, choice: BlockChoice, work: &Work<'_>) -> Result<BiographyAnswer, QueryError> {
    let Some(recording) = query.history.recording() else { return of_snapshot(query, choice) };
    let (history, source) = (&query.history, query.history.source());
    if source.aggregated {
        return Err(no_blocks());
    }
    let (id, found) = match choice {
        BlockChoice::Number(id) => (id, None),
        BlockChoice::Address(address) => {
            let at = history.figures(query.at)?.at;
            let named = at_address(history, recording, (address, at), work)?;
            let (id, when) = named.ok_or_else(|| QueryError::Unknown(format!("no block ever lay at {address:#x}")))?;
            (id, Some(when))
        }
    };
    let life = block_states(history, recording, id, work)?;
    let (Some(first), Some(last)) = (life.states.first(), life.states.last()) else { return Err(no_block(id)) };
    let times: Vec<Nanos> = life.states.iter().filter_map(|state| state.end).map(|(at, _)| at).collect();
    let steps = steps_of(recording, id, &times, work)?;
    let has_addresses = has_addresses(&source.kind);
    let catalog = history.catalog();
    let near = match has_addresses {
        false => Neighbours::default(),
        true => {
            let end = last.end.filter(|(_, cause)| cause.is_death());
            let around = Around {
                first: Some((AddressRange::of(catalog, &first.owned), first.owned.block.time)),
                last: end.map(|(at, _)| (AddressRange::of(catalog, &last.owned), at)),
                id: Some(id),
            };
            neighbours(history, recording, &around, work)?
        }
    };
    let events = life_events(recording, &life, &steps);
    let totals = history.totals()?;
    let mut answers = Answers::new(query);
    answers.add_stacks(events.iter().filter_map(|event| event.stack))?;
    answers.add_stacks([last.owned.block.stack])?;
    answers.add_stacks([near.before, near.after].into_iter().flatten().map(|one| one.owned.block.stack))?;
    let death = last.end.filter(|(_, cause)| cause.is_death()).map(|(at, _)| at);
    Ok(BiographyAnswer {
        block: answers.block(&last.owned, death),
        found: found.map(|when| match when {
            FoundWhen::Then => "then",
            FoundWhen::Before => "before",
            FoundWhen::After => "after",
        }),
        has_history: true,
        has_reallocations: source.knows_reallocations(&totals.figures),
        has_every_block: source.knows_every_block(&totals.figures),
        has_addresses,
        events: events.iter().map(|event| answers.event(event)).collect(),
        // Between two states there is a reallocation.
        left_out: if life.left_out > 0 { life.left_out + 1 } else { 0 },
        before: near.before.map(|one| answers.occupant(&one)),
        after: near.after.map(|one| answers.occupant(&one)),
        stacks: answers.stacks.table(),
    })
}

/// What a snapshot knows: the block as it is.
fn of_snapshot(query: &Query, choice: BlockChoice) -> Result<BiographyAnswer, QueryError> {
    let snapshot = query.history.snapshot(Moment::End)?;
    if snapshot.source.aggregated {
        return Err(no_blocks());
    }
    let (id, found) = match choice {
        BlockChoice::Number(id) => (id, None),
        BlockChoice::Address(address) => {
            let id = lying_at(&snapshot, address)
                .ok_or_else(|| QueryError::Unknown(format!("no block lies at {address:#x}")))?;
            (id, Some("then"))
        }
    };
    let owned = blocks_of(&snapshot).find(|owned| owned.block.id == id).ok_or_else(|| no_block(id))?;
    let mut answers = Answers::new(query);
    answers.add_stacks([owned.block.stack])?;
    let event = LifeEvent {
        what: "known",
        time: owned.block.time,
        owned,
        thread: Some(owned.thread.0),
        old: None,
        stack: known(owned.block.stack),
    };
    Ok(BiographyAnswer {
        block: answers.block(&owned, None),
        found,
        has_history: false,
        has_reallocations: false,
        has_every_block: false,
        has_addresses: has_addresses(&snapshot.source.kind),
        events: vec![answers.event(&event)],
        left_out: 0,
        before: None,
        after: None,
        stacks: answers.stacks.table(),
    })
}

fn no_block(id: AllocId) -> QueryError {
    QueryError::Unknown(format!("there is no block with the number {}", id.0))
}

fn no_blocks() -> QueryError {
    QueryError::failed("the file has figures by site, and no single blocks")
}

/// Whether addresses are those of a memory. Traces of runtimes that move their objects, and logs of objects, have numbers instead.
fn has_addresses(kind: &SourceKind) -> bool {
    *kind != SourceKind::MEMTRACE && *kind != SourceKind::OBJLOG && !kind.is_object_graph()
}

/// Makes the parts of an answer, which share a table of stacks.
struct Answers<'a> {
    query: &'a Query,
    catalog: &'a Catalog,
    stacks: DocumentStacks<'a>,
}

impl<'a> Answers<'a> {
    fn new(query: &'a Query) -> Self {
        let catalog = query.history.catalog();
        Self { query, catalog, stacks: no_stacks([&**catalog]) }
    }

    fn add_stacks(&mut self, stacks: impl IntoIterator<Item = StackId>) -> Result<(), QueryError> {
        Ok(stacks.into_iter().try_for_each(|stack| self.stacks.add(0, stack))?)
    }

    fn frame(&self, stack: StackId) -> Option<FrameAnswer> {
        own_frame_of(&self.query.naming, self.catalog, stack)
    }

    fn block(&self, owned: &OwnedBlock, death: Option<Nanos>) -> BlockAnswer {
        let usable = self.query.history.source().usable_sizes;
        BlockAnswer {
            frame: self.frame(owned.block.stack),
            stack: self.stacks.number(0, owned.block.stack),
            ..block_answer(self.catalog, owned, death, usable)
        }
    }

    fn occupant(&self, one: &Occupant) -> OccupantAnswer {
        let death = one.until.filter(|(_, cause)| cause.is_death()).map(|(at, _)| at);
        OccupantAnswer {
            block: self.block(&one.owned, death),
            since_ns: one.since.0,
            until_ns: one.until.map(|(at, _)| at.0),
            left: one.until.map(|(_, cause)| end_in_words(cause)),
        }
    }

    fn event(&self, event: &LifeEvent) -> LifeEventAnswer {
        let heap = |owned: &OwnedBlock| self.catalog.tag(owned.block.tag).heap;
        let address = |owned: &OwnedBlock| heap(owned).true_address(owned.block.address);
        let now = address(&event.owned);
        LifeEventAnswer {
            what: event.what,
            time_ns: event.time.0,
            thread: event.thread,
            address: format!("{now:#x}"),
            size: event.owned.block.size,
            old_size: event.old.map(|old| old.block.size),
            old_address: event.old.map(|old| address(&old)).filter(|old| *old != now).map(|old| format!("{old:#x}")),
            heap: heap(&event.owned).name(),
            site: event.stack.map(|stack| stack.0),
            frame: event.stack.and_then(|stack| self.frame(stack)),
            stack: event.stack.and_then(|stack| self.stacks.number(0, stack)),
        }
    }
}
