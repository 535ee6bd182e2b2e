//! Single allocations.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::lives::deaths;
use crate::names::{Search, own_frame_of};
use crate::population::Population;
use crate::query::Query;
use crate::stacks::no_stacks;
use highwater_formats::json::{FrameAnswer, StackTableAnswer};
use highwater_model::{ByteSum, Catalog, Heap, Nanos};
use highwater_store::history::{BlockLife, ColumnSet, OwnedBlock, Work};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How blocks are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// By size.
    #[default]
    Size,
    /// By time of birth.
    Time,
    /// By lifetime; a block that was never freed lives longest.
    Lifetime,
    /// By address.
    Address,
}

/// Which blocks are wanted.
#[derive(Clone, Debug, Default)]
pub struct BlocksOptions {
    /// How they are sorted.
    pub order: BlockOrder,
    /// The least comes first.
    pub is_ascending: bool,
    /// Only blocks with this in a function, file or module of their stack: a part of a name in any case, or a regular expression between slashes.
    pub search: String,
    /// The number of blocks that are skipped. The blocks up to it are held in memory while the list is made.
    pub offset: usize,
    /// The most blocks.
    pub limit: usize,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Block"))]
pub struct BlockAnswer {
    /// Its allocation number.
    pub id: u64,
    /// Its address, in hex.
    pub address: String,
    /// The size asked for.
    pub size: u64,
    /// The size that malloc gave.
    pub usable: Option<u64>,
    /// When it was allocated.
    pub allocated_ns: u64,
    /// When it was freed.
    pub freed_ns: Option<u64>,
    /// The time between both.
    pub lifetime_ns: Option<u64>,
    /// Its thread.
    pub thread: u64,
    /// Its heap.
    pub heap: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The variable that it belongs to.
    pub variable: Option<String>,
    /// Its task.
    pub task: Option<String>,
    /// The number of its site.
    pub site: u32,
    /// The number of blocks that it stands for.
    pub weight: f64,
    /// The frame that names its site.
    pub frame: Option<FrameAnswer>,
    /// The number of its stack.
    #[cfg_attr(test, ts(type = "Frame[]"))]
    pub stack: Option<u32>,
}

/// A list of blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Blocks"))]
pub struct BlocksAnswer {
    /// How many blocks there are, also those that are not in `blocks`.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of blocks that they stand for.
    pub estimated_blocks: u64,
    /// The blocks.
    pub blocks: Vec<BlockAnswer>,
    /// Their stacks.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub stacks: StackTableAnswer,
}

/// A block with its rank: the greatest rank comes first.
struct RankedBlock {
    rank: (u64, u64),
    owned: OwnedBlock,
    life: BlockLife,
}

impl PartialEq for RankedBlock {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for RankedBlock {}

impl PartialOrd for RankedBlock {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedBlock {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// The blocks with the highest ranks, and the sums of all blocks.
struct RankedBlocks {
    most: usize,
    heap: BinaryHeap<Reverse<RankedBlock>>,
    blocks: u64,
    estimated_blocks: u64,
    bytes: ByteSum,
}

impl RankedBlocks {
    fn new(most: usize) -> Self {
        Self { most, heap: BinaryHeap::new(), blocks: 0, estimated_blocks: 0, bytes: ByteSum::ZERO }
    }

    fn push(&mut self, ranked: RankedBlock) {
        if self.heap.len() < self.most {
            self.heap.push(Reverse(ranked));
        } else if self.heap.peek().is_some_and(|Reverse(least)| ranked > *least) {
            self.heap.pop();
            self.heap.push(Reverse(ranked));
        }
    }

    fn see(&mut self, ranked: RankedBlock) {
        self.blocks += 1;
        self.estimated_blocks = self.estimated_blocks.saturating_add(ranked.owned.block.live_blocks());
        self.bytes += ranked.owned.block.live_amount();
        self.push(ranked);
    }
}

/// The blocks that the query selects.
pub fn blocks(query: &Query, options: &BlocksOptions, work: &Work<'_>) -> Result<BlocksAnswer, QueryError> {
    let &BlocksOptions { order, is_ascending, offset, limit, .. } = options;
    let catalog = query.history.catalog();
    let mut filters = query.filters.clone();
    filters.extend(Search::new(&options.search)?.filter()?);
    let filter = CompiledFilter::new(&filters, catalog, &query.naming);
    let population = Population::of(query);
    let rank = |owned: &OwnedBlock, life: &BlockLife| {
        let own = match order {
            BlockOrder::Size => owned.block.size,
            BlockOrder::Time => owned.block.time.0,
            // A block that was never freed lives longest.
            BlockOrder::Lifetime => life.death.map_or(u64::MAX, |death| death.0.saturating_sub(life.birth.0)),
            BlockOrder::Address => true_address(catalog, owned),
        };
        // Among equals, the older block comes first.
        (if is_ascending { u64::MAX - own } else { own }, u64::MAX - owned.block.id.0)
    };
    let most = offset + limit;
    let with_deaths = order == BlockOrder::Lifetime;
    let parts = population.each(
        query,
        &filter,
        (with_deaths, ColumnSet::All),
        work,
        || RankedBlocks::new(most),
        |first, block, life| {
            let owned = block.owned();
            first.see(RankedBlock { rank: rank(&owned, life), owned, life: *life });
        },
    )?;
    let mut first = RankedBlocks::new(most);
    for part in parts {
        first.blocks += part.blocks;
        first.estimated_blocks = first.estimated_blocks.saturating_add(part.estimated_blocks);
        first.bytes += part.bytes;
        part.heap.into_iter().for_each(|Reverse(ranked)| first.push(ranked));
    }
    let mut shown: Vec<RankedBlock> = first.heap.into_iter().map(|Reverse(ranked)| ranked).collect();
    shown.sort_by(|a, b| b.cmp(a));
    let mut shown: Vec<RankedBlock> = shown.into_iter().skip(offset).collect();
    if let Population::LiveAt(moment) = population
        && !with_deaths
        && !filter.needs_deaths()
    {
        let at = query.history.snapshot(moment)?.at;
        let blocks: Vec<OwnedBlock> = shown.iter().map(|ranked| ranked.owned).collect();
        let deaths = deaths(&query.history, at, &blocks, work)?;
        shown.iter_mut().zip(deaths).for_each(|(ranked, death)| ranked.life.death = death);
    }
    let usable = query.history.source().usable_sizes;
    let mut stacks = no_stacks([&**catalog]);
    shown.iter().try_for_each(|ranked| stacks.add(0, ranked.owned.block.stack))?;
    let block = |ranked: &RankedBlock| BlockAnswer {
        frame: own_frame_of(&query.naming, catalog, ranked.owned.block.stack),
        stack: stacks.number(0, ranked.owned.block.stack),
        ..block_answer(catalog, &ranked.owned, ranked.life.death, usable)
    };
    Ok(BlocksAnswer {
        count: first.blocks,
        bytes: first.bytes.rounded(),
        estimated_blocks: first.estimated_blocks,
        blocks: shown.iter().map(block).collect(),
        stacks: stacks.table(),
    })
}

pub(crate) fn true_address(catalog: &Catalog, owned: &OwnedBlock) -> u64 {
    catalog.tag(owned.block.tag).heap.true_address(owned.block.address)
}

pub(crate) fn block_answer(catalog: &Catalog, owned: &OwnedBlock, death: Option<Nanos>, usable: bool) -> BlockAnswer {
    let OwnedBlock { block, thread } = owned;
    let tag = catalog.tag(block.tag);
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    BlockAnswer {
        id: block.id.0,
        address: format!("{:#x}", true_address(catalog, owned)),
        size: block.size,
        usable: (usable && tag.heap == Heap::Malloc).then(|| block.usable_size()),
        allocated_ns: block.time.0,
        freed_ns: death.map(|death| death.0),
        lifetime_ns: death.map(|death| death.0.saturating_sub(block.time.0)),
        thread: thread.0,
        heap: tag.heap.name(),
        type_name: text(catalog.strings.get(tag.type_name)),
        variable: text(catalog.strings.get(tag.variable)),
        task: text(catalog.strings.get(tag.task)),
        site: block.stack.0,
        weight: block.weight.value(),
        frame: None,
        stack: None,
    }
}
