//! `blocks`: single allocations.

use super::stacks::{none_yet, put_table};
use super::{number, word};
use crate::choice::Choice;
use crate::http::request::Request;
use crate::lives::deaths;
use crate::owned::Owned;
use crate::population::Population;
use crate::problem::Problem;
use crate::sieve::{Life, Sieve};
use crate::traffic::Depth;
use crate::work::Work;
use highwater_model::{ByteSum, Catalog, Heap, Nanos};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most blocks in one answer.
const MOST_BLOCKS: u64 = 1000;
/// The largest offset into the list: the blocks up to it are held in memory while the list is made.
const FARTHEST: u64 = 1_000_000;

/// How blocks are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Size,
    Time,
    Lifetime,
    Address,
}

/// A block with its rank: the greatest rank comes first.
struct Ranked {
    rank: (u64, u64),
    owned: Owned,
    life: Life,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// The blocks with the highest ranks, and the sums of all blocks.
struct First {
    most: usize,
    heap: BinaryHeap<Reverse<Ranked>>,
    blocks: u64,
    estimated_blocks: u64,
    bytes: ByteSum,
}

impl First {
    fn new(most: usize) -> Self {
        Self { most, heap: BinaryHeap::new(), blocks: 0, estimated_blocks: 0, bytes: ByteSum::ZERO }
    }

    fn push(&mut self, ranked: Ranked) {
        if self.heap.len() < self.most {
            self.heap.push(Reverse(ranked));
        } else if self.heap.peek().is_some_and(|Reverse(least)| ranked > *least) {
            self.heap.pop();
            self.heap.push(Reverse(ranked));
        }
    }

    fn see(&mut self, ranked: Ranked) {
        self.blocks += 1;
        self.estimated_blocks = self.estimated_blocks.saturating_add(ranked.owned.block.live_blocks());
        self.bytes += ranked.owned.block.live_amount();
        self.push(ranked);
    }
}

/// The answer.
pub fn answer(request: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let orders =
        [("size", Order::Size), ("time", Order::Time), ("lifetime", Order::Lifetime), ("address", Order::Address)];
    let order = word(request, "sort", &orders)?;
    let is_ascending = word(request, "order", &[("desc", false), ("asc", true)])?;
    let offset = number(request, "offset", 0, FARTHEST)?;
    let limit = number(request, "limit", 100, MOST_BLOCKS)?;
    let catalog = choice.loaded.catalog();
    let sieve = Sieve::new(&choice.filters, catalog);
    let population = Population::of(choice);
    let rank = |owned: &Owned, life: &Life| {
        let own = match order {
            Order::Size => owned.block.size,
            Order::Time => owned.block.time.0,
            // A block that was never freed lives longest.
            Order::Lifetime => life.death.map_or(u64::MAX, |death| death.0.saturating_sub(life.birth.0)),
            Order::Address => true_address(catalog, owned),
        };
        // Among equals, the older block comes first.
        (if is_ascending { u64::MAX - own } else { own }, u64::MAX - owned.block.id.0)
    };
    let most = (offset + limit) as usize;
    let with_deaths = order == Order::Lifetime;
    let parts = population.each(
        choice,
        &sieve,
        (with_deaths, Depth::Whole),
        work,
        || First::new(most),
        |first, block, life| {
            let owned = block.owned();
            first.see(Ranked { rank: rank(&owned, life), owned, life: *life });
        },
    )?;
    let mut first = First::new(most);
    for part in parts {
        first.blocks += part.blocks;
        first.estimated_blocks = first.estimated_blocks.saturating_add(part.estimated_blocks);
        first.bytes += part.bytes;
        part.heap.into_iter().for_each(|Reverse(ranked)| first.push(ranked));
    }
    let mut shown: Vec<Ranked> = first.heap.into_iter().map(|Reverse(ranked)| ranked).collect();
    shown.sort_by(|a, b| b.cmp(a));
    let mut shown: Vec<Ranked> = shown.into_iter().skip(offset as usize).collect();
    if let Population::LiveAt(moment) = population
        && !with_deaths
        && !sieve.needs_deaths()
    {
        let at = choice.loaded.snapshot(moment)?.at;
        let blocks: Vec<Owned> = shown.iter().map(|ranked| ranked.owned).collect();
        let deaths = deaths(&choice.loaded, at, &blocks, work)?;
        shown.iter_mut().zip(deaths).for_each(|(ranked, death)| ranked.life.death = death);
    }
    let usable = choice.loaded.source().usable_sizes;
    let mut stacks = none_yet([&**catalog]);
    shown.iter().try_for_each(|ranked| stacks.add(0, ranked.owned.block.stack))?;
    let block = |ranked: &Ranked| {
        let mut block = block_json(catalog, &ranked.owned, ranked.life.death, usable);
        block["stack"] = stacks.number(0, ranked.owned.block.stack);
        block
    };
    let mut answer = json!({
        "count": first.blocks,
        "bytes": first.bytes.rounded(),
        "estimated_blocks": first.estimated_blocks,
        "blocks": shown.iter().map(block).collect::<Value>(),
    });
    put_table(&mut answer, &stacks);
    Ok(answer)
}

fn true_address(catalog: &Catalog, owned: &Owned) -> u64 {
    catalog.tag(owned.block.tag).heap.true_address(owned.block.address)
}

fn block_json(catalog: &Catalog, owned: &Owned, death: Option<Nanos>, usable: bool) -> Value {
    let Owned { block, thread } = owned;
    let tag = catalog.tag(block.tag);
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "id": block.id.0,
        "address": format!("{:#x}", true_address(catalog, owned)),
        "size": block.size,
        "usable": (usable && tag.heap == Heap::Malloc).then(|| block.usable_size()),
        "allocated_ns": block.time.0,
        "freed_ns": death.map(|death| death.0),
        "lifetime_ns": death.map(|death| death.0.saturating_sub(block.time.0)),
        "thread": thread.0,
        "heap": tag.heap.name(),
        "type": text(catalog.strings.get(tag.type_name)),
        "variable": text(catalog.strings.get(tag.variable)),
        "site": block.stack.0,
        "weight": block.weight.value(),
    })
}
