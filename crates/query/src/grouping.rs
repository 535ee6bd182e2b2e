//! Groups a measurement by site, function, file, module, line, thread, type, heap or task.

use crate::call_trie::CallTrie;
use crate::error::QueryError;
use crate::measure::{Amount, Amounts, Measured, amount_of};
use crate::stacks::MOST_FRAMES;
use highwater_model::groups::{self, Addend, GroupBy, GroupKey, NO_TASK, Row};
use highwater_model::{ByteSum, Catalog, ElementSum, Figures, FrameId, StackId, StringId, Tag};
use highwater_store::history::Work;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The amount of a row, and its figures where they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowAmount {
    /// The amount.
    pub amount: Amount,
    /// The figures.
    pub figures: Option<Figures>,
}

impl Addend for RowAmount {
    fn add(&mut self, other: &Self) {
        self.amount.add(other.amount);
        if let Some(figures) = &other.figures {
            self.figures.get_or_insert_default().add(figures);
        }
    }
}

/// The rows of a measurement, without empty ones; in no particular order.
pub fn rows_of(
    measured: &Measured,
    (catalog, trie): (&Catalog, &CallTrie),
    by: GroupBy,
    work: &Work<'_>,
) -> Result<Vec<Row<RowAmount>>, QueryError> {
    let mut rows = match by {
        GroupBy::Site => sites(measured).map(|(stack, amount)| row(GroupKey::Site(stack), amount)).collect(),
        GroupBy::Function | GroupBy::File | GroupBy::Module | GroupBy::Line => {
            by_frame(measured, catalog, trie, by, work)?
        }
        GroupBy::Type if measured.has_site_types => by_site_type(measured, catalog, trie),
        GroupBy::Thread | GroupBy::Type | GroupBy::Heap | GroupBy::Task => by_owner(measured, catalog, by),
    };
    rows.retain(|row| !row.inclusive.amount.is_nothing());
    Ok(rows)
}

fn row(key: GroupKey, amount: RowAmount) -> Row<RowAmount> {
    Row { key, figures: amount, inclusive: amount }
}

/// The amount of each stack.
pub fn sites(measured: &Measured) -> Box<dyn Iterator<Item = (StackId, RowAmount)> + '_> {
    match &measured.amounts {
        Amounts::Figures { figured, filter } => {
            let all = figured.snapshot().accounts.sites().iter();
            let wanted = all.filter(|(stack, _)| filter.passes_stack(*stack));
            let measure = |(stack, figures)| {
                (stack, RowAmount { amount: amount_of(measured.metric, figures), figures: Some(*figures) })
            };
            Box::new(wanted.map(measure).filter(|(_, row)| !row.amount.is_nothing()))
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<StackId, Amount> = BTreeMap::new();
            amounts.iter().for_each(|(owners, amount)| sums.entry(owners.stack).or_default().add(*amount));
            Box::new(sums.into_iter().map(|(stack, amount)| (stack, RowAmount { amount, figures: None })))
        }
    }
}

/// The largest sites, and what all sites have together.
pub struct LargestSites {
    /// The largest, in order.
    pub rows: Vec<Row<RowAmount>>,
    /// How many sites there are.
    pub count: usize,
    /// The amount of all of them.
    pub sum: Amount,
}

/// The `count` largest sites by a rank; of equal ones, the first. All sites are ranked, but only these get a row with its figures: a recording may have hundreds
/// of thousands.
pub fn largest_sites<R: Ord>(measured: &Measured, count: usize, rank: impl Fn(&Amount) -> R) -> LargestSites {
    let mut sum = Amount::default();
    let mut ranked: Vec<(Reverse<R>, StackId)> = Vec::new();
    for (stack, RowAmount { amount, .. }) in sites(measured).filter(|(_, row)| !row.amount.is_nothing()) {
        sum.add(amount);
        ranked.push((Reverse(rank(&amount)), stack));
    }
    let all = ranked.len();
    if count < all {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.sort_unstable();
    let places: FxHashMap<StackId, usize> = ranked.iter().map(|(_, stack)| *stack).zip(0..).collect();
    let mut rows: Vec<(usize, Row<RowAmount>)> = sites(measured)
        .filter_map(|(stack, amount)| Some((*places.get(&stack)?, row(GroupKey::Site(stack), amount))))
        .collect();
    rows.sort_unstable_by_key(|(place, _)| *place);
    LargestSites { rows: rows.into_iter().map(|(_, row)| row).collect(), count: all, sum }
}

/// Rows by function, file, module or line. Of each stack, the innermost frames count.
///
/// What a row has with its callees is the sum over the nodes of the trie in which it occurs outermost: each node passes its sum on to its caller, so a
/// stack of a hundred frames costs one addition, and not a hundred.
fn by_frame(
    measured: &Measured,
    catalog: &Catalog,
    trie: &CallTrie,
    by: GroupBy,
    work: &Work<'_>,
) -> Result<Vec<Row<RowAmount>>, QueryError> {
    let sums = trie.call_sums(&measured.key, || CallSums::of(measured, catalog, trie, work))?;
    let groups = trie.groups(catalog, by);
    let row_of = |frame: Option<FrameId>| frame.map_or(0, |frame| groups.row_of(frame)) as usize;
    let mut own: Vec<RowAmount> = vec![RowAmount::default(); groups.keys.len()];
    let mut inclusive: Vec<CallSum> = vec![CallSum::default(); groups.keys.len()];
    sums.own.iter().for_each(|(frame, amount)| own[row_of(*frame)].add(amount));
    inclusive[0].add(sums.unknown);
    for (stack, sum) in &sums.deep {
        let frames = catalog.stacks.frame_ids_of(*stack).take(MOST_FRAMES);
        let rows: BTreeSet<u32> = frames.map(|frame| groups.row_of(frame)).collect();
        rows.into_iter().for_each(|row| inclusive[row as usize].add(*sum));
    }
    for (node, sum) in &sums.nodes {
        groups.outermost(*node as usize).iter().for_each(|row| inclusive[*row as usize].add(*sum));
    }
    let row = |((key, figures), sum): ((&GroupKey, RowAmount), CallSum)| {
        let inclusive = RowAmount { amount: Amount::new(sum.bytes, sum.blocks, sum.samples), figures: None };
        Row { key: key.clone(), figures, inclusive }
    };
    let rows = groups.keys.iter().zip(own).zip(inclusive);
    Ok(rows.filter(|(_, sum)| *sum != CallSum::default()).map(row).collect())
}

/// The frame with the most, and how much that is; the earlier one of two that are equal.
type Largest<A> = (A, Reverse<FrameId>);

/// For each of these rows by function the frame that stands for it: of the frames by which it names sites, the one that holds the most; for one that allocates
/// nothing itself, the frame of the call that leads to the most. `None` for functions without a name, which are many.
pub fn largest_frames(
    measured: &Measured,
    (catalog, trie): (&Catalog, &CallTrie),
    rows: &[Row<RowAmount>],
    work: &Work<'_>,
) -> Result<Vec<Option<FrameId>>, QueryError> {
    let sums = trie.call_sums(&measured.key, || CallSums::of(measured, catalog, trie, work))?;
    let groups = trie.groups(catalog, GroupBy::Function);
    let wanted: BTreeMap<&GroupKey, usize> = rows.iter().map(|row| &row.key).zip(0..).collect();
    let places: FxHashMap<u32, usize> =
        (0..).zip(&groups.keys).skip(1).filter_map(|(number, key)| Some((number, *wanted.get(key)?))).collect();
    let place_of = |frame: FrameId| places.get(&groups.row_of(frame)).copied();
    let mut own: Vec<Option<Largest<(u64, u64)>>> = vec![None; rows.len()];
    for (frame, RowAmount { amount, .. }) in &sums.own {
        let Some((frame, place)) = frame.and_then(|frame| Some((frame, place_of(frame)?))) else { continue };
        if !amount.is_nothing() {
            own[place] = own[place].max(Some(((amount.value, amount.blocks), Reverse(frame))));
        }
    }
    let mut calls: Vec<Option<Largest<(ByteSum, u64)>>> = vec![None; rows.len()];
    for (node, sum) in &sums.nodes {
        for row in groups.outermost(*node as usize) {
            let Some(place) = places.get(row).copied().filter(|place| own[*place].is_none()) else { continue };
            let frames = catalog.stacks.frame_ids(catalog.stacks.nodes()[*node as usize].frame).map(FrameId);
            if let Some(frame) = frames.rev().find(|frame| groups.row_of(*frame) == *row) {
                calls[place] = calls[place].max(Some(((sum.bytes, sum.blocks), Reverse(frame))));
            }
        }
    }
    let frames = own.into_iter().zip(calls).map(|(own, call)| match own {
        Some((_, Reverse(frame))) => Some(frame),
        None => call.map(|(_, Reverse(frame))| frame),
    });
    Ok(frames.collect())
}

/// The number of sites that a function names by itself.
pub fn sites_named_by(measured: &Measured, (catalog, trie): (&Catalog, &CallTrie), key: &GroupKey) -> usize {
    let groups = trie.groups(catalog, GroupBy::Function);
    let mut named = trie.sites();
    let mut is_named = |stack: StackId| {
        let passing = trie.passing(&mut named, catalog, stack);
        let row = catalog.stacks.frame_ids_of(stack).nth(passing).map_or(0, |frame| groups.row_of(frame));
        groups.keys.get(row as usize) == Some(key)
    };
    sites(measured).filter(|(stack, row)| !row.amount.is_nothing() && is_named(*stack)).count()
}

/// What the sites and the nodes of the trie have in a measurement. All tables by function, file, module or line are made of it.
#[derive(Default)]
pub struct CallSums {
    /// What the sites have that a frame names; `None` for those without frames.
    own: Vec<(Option<FrameId>, RowAmount)>,
    /// What nodes have with their callees; those that have nothing are left out.
    nodes: Vec<(u32, CallSum)>,
    /// What stacks without frames have.
    unknown: CallSum,
    /// Stacks that have more frames than are looked at. They are in no node.
    deep: Vec<(StackId, CallSum)>,
}

impl CallSums {
    fn of(measured: &Measured, catalog: &Catalog, trie: &CallTrie, work: &Work<'_>) -> Result<Self, QueryError> {
        let nodes = catalog.stacks.nodes();
        let mut own: FxHashMap<Option<FrameId>, RowAmount> = FxHashMap::default();
        let mut by_node: Vec<CallSum> = vec![CallSum::default(); nodes.len()];
        let mut sums = Self::default();
        let mut named = trie.sites();
        for (count, (stack, amount)) in sites(measured).enumerate() {
            if count % 1024 == 0 {
                work.go_on()?;
            }
            let passing = trie.passing(&mut named, catalog, stack);
            own.entry(catalog.stacks.frame_ids_of(stack).nth(passing)).or_default().add(&amount);
            let Amount { sum: bytes, blocks, samples, .. } = amount.amount;
            let sum = CallSum { bytes, blocks, samples };
            match trie.depth(stack) {
                0 => sums.unknown.add(sum),
                1..=MOST_FRAMES => by_node[stack.0 as usize].add(sum),
                _ => sums.deep.push((stack, sum)),
            }
        }
        // A callee comes after its caller.
        for at in (1..nodes.len()).rev() {
            let sum = by_node[at];
            if sum != CallSum::default() && trie.depth(StackId(at as u32)) > 0 {
                sums.nodes.push((at as u32, sum));
                by_node[nodes[at].parent.0 as usize].add(sum);
            }
        }
        sums.own = own.into_iter().collect();
        Ok(sums)
    }
}

/// What a node of the trie, or a row, has with its callees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CallSum {
    bytes: ByteSum,
    blocks: u64,
    samples: u64,
}

impl CallSum {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

/// The type, task or heap of a tag.
pub fn owner_key(catalog: &Catalog, by: GroupBy, tag: Tag) -> GroupKey {
    let name = match by {
        GroupBy::Type => catalog.strings.get(tag.type_name),
        GroupBy::Task if tag.task == StringId::EMPTY => NO_TASK,
        GroupBy::Task => catalog.strings.get(tag.task),
        _ => tag.heap.name(),
    };
    GroupKey::Name(name.to_owned())
}

/// The rows of the types that stacks show.
fn by_site_type(measured: &Measured, catalog: &Catalog, trie: &CallTrie) -> Vec<Row<RowAmount>> {
    let mut types = trie.site_types(catalog);
    let mut sums: Vec<Option<RowAmount>> = Vec::new();
    for (stack, amount) in sites(measured) {
        let number = types.number(catalog, stack) as usize;
        sums.resize_with(sums.len().max(number + 1), || None);
        match &mut sums[number] {
            Some(sum) => sum.add(&amount),
            none => *none = Some(amount),
        }
    }
    let rows = types.names().iter().zip(sums);
    rows.filter_map(|(name, sum)| Some(row(GroupKey::Name(name.clone()), sum?))).collect()
}

/// The number of elements that the blocks of each type have room for; `None` if the size of an element is not known.
pub fn elements_by_type(measured: &Measured, catalog: &Catalog, trie: &CallTrie) -> BTreeMap<String, Option<u64>> {
    let mut types = trie.site_types(catalog);
    let mut sums: Vec<Option<ElementSum>> = Vec::new();
    for (stack, RowAmount { amount, .. }) in sites(measured) {
        let elements = types.of(catalog, stack).elements(amount.value, amount.blocks);
        let number = types.number(catalog, stack) as usize;
        sums.resize_with(sums.len().max(number + 1), || None);
        sums[number].get_or_insert_default().add(elements);
    }
    types.names().iter().zip(sums).filter_map(|(name, sum)| Some((name.clone(), sum?.known()))).collect()
}

fn by_owner(measured: &Measured, catalog: &Catalog, by: GroupBy) -> Vec<Row<RowAmount>> {
    match &measured.amounts {
        Amounts::Figures { figured, .. } => {
            let all = groups::rows(figured.snapshot(), by, measured.metric, None);
            let amount =
                |figures: &Figures| RowAmount { amount: amount_of(measured.metric, figures), figures: Some(*figures) };
            all.into_iter().map(|each| row(each.key, amount(&each.figures))).collect()
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<GroupKey, Amount> = BTreeMap::new();
            for (owners, amount) in amounts {
                let key = match by {
                    GroupBy::Thread => GroupKey::Thread(owners.thread),
                    by => owner_key(catalog, by, catalog.tag(owners.tag)),
                };
                // Blocks without a type are not among the types. Where there are no tasks at all, no row says so.
                let is_left_out = by == GroupBy::Task && !catalog.has_tasks();
                if !is_left_out && (by != GroupBy::Type || key != GroupKey::Name(String::new())) {
                    sums.entry(key).or_default().add(*amount);
                }
            }
            sums.into_iter().map(|(key, amount)| row(key, RowAmount { amount, figures: None })).collect()
        }
    }
}
