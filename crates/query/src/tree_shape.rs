//! The flame graph of all stacks of a history, without amounts: which node each stack ends in. It is made once, and serves all metrics and instants.
//!
//! A compiler's recording has 180,000 stacks, and its flame graph as many nodes. To find the nodes takes longer than everything else, and few of them are large
//! enough to be shown. So amounts are added up in this shape, and only what is shown becomes a tree.

use crate::call_trie::CallTrie;
use crate::error::QueryError;
use crate::frame_tree::{FrameTree, Weighed, least_value};
use crate::query::Query;
use crate::tree::TreeOptions;
use crate::tree_stacks::{KnownNodes, StackPlace, TreeStacks};
use highwater_model::{ByteSum, Catalog, FrameId, StackId};
use highwater_store::history::Work;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes that a shape takes for each node of the trie, about.
const BYTES_PER_NODE: usize = 256;

/// The shape of a flame graph from `main` to the allocations, as far as it was asked for.
pub struct TreeShape(Mutex<ShapeState>);

struct ShapeState {
    /// All nodes, without amounts.
    tree: FrameTree,
    known: KnownNodes,
    /// By stack; `None` where it was not asked for.
    places: Vec<Option<StackPlace>>,
    /// By node: its amounts in the present measurement. All zero between two.
    amounts: Vec<NodeAmounts>,
}

/// What a node has in a measurement.
#[derive(Clone, Copy, Default)]
struct NodeAmounts {
    /// The stacks that end in it.
    own: SmallWeighed,
    /// With everything below it.
    total: SmallWeighed,
    /// The number of the largest stack that goes through it, plus one; 0 for none.
    first: u32,
    /// Its number in the tree that is shown, plus one; 0 if it is not there.
    shown: u32,
    /// Hidden calls may become part of it, and make it large enough to be shown.
    gets_calls: bool,
}

/// The amounts of one side.
#[derive(Clone, Copy, Default)]
struct SmallWeighed {
    value: ByteSum,
    blocks: u64,
    samples: u64,
}

impl SmallWeighed {
    fn add(&mut self, other: Self) {
        self.value += other.value;
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

impl From<Weighed> for SmallWeighed {
    fn from(Weighed { value, blocks, samples, .. }: Weighed) -> Self {
        Self { value, blocks, samples }
    }
}

impl From<SmallWeighed> for Weighed {
    fn from(SmallWeighed { value, blocks, samples }: SmallWeighed) -> Self {
        Self { value, blocks, samples, sides: [ByteSum::ZERO; 2] }
    }
}

impl TreeShape {
    /// Whether flame graphs with these options have a shape.
    pub fn is_for(options: &TreeOptions) -> bool {
        !options.is_inverted && !options.merges_recursion
    }

    /// That of a query's history and naming, and of these options.
    pub fn of(query: &Query, trie: &CallTrie, options: &TreeOptions) -> Result<Arc<Self>, QueryError> {
        let TreeOptions { hidden, with_library, splits_lines, .. } = options;
        let mut hidden: Vec<&String> = hidden.iter().collect();
        hidden.sort_unstable();
        let key = format!("{} {hidden:?} {with_library} {splits_lines}", CallTrie::key_of(query));
        let nodes = query.history.catalog().stacks.nodes().len();
        query.history.cached(key, || Ok(Self::new(query.history.catalog(), trie)), |_| nodes * BYTES_PER_NODE)
    }

    /// An empty one.
    pub fn new(catalog: &Catalog, trie: &CallTrie) -> Self {
        Self(Mutex::new(ShapeState {
            tree: FrameTree::new("all"),
            known: KnownNodes::new(catalog, trie),
            places: vec![None; catalog.stacks.nodes().len()],
            amounts: Vec::new(),
        }))
    }

    /// The tree of these stacks, the largest first, without the nodes below those that are too small to be shown; and what it makes of it.
    pub fn tree<T>(
        &self,
        (catalog, trie): (&Catalog, &CallTrie),
        options: &TreeOptions,
        stacks: &[(StackId, Weighed)],
        work: &Work<'_>,
        make: impl FnOnce(&mut FrameTree) -> T,
    ) -> Result<T, QueryError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ShapeState { tree, known, places, amounts } = &mut *state;
        let mut sites = TreeStacks::going_on(catalog, trie, options, std::mem::take(known));
        let placed = place(&mut sites, tree, places, stacks, work);
        amounts.resize(tree.len(), NodeAmounts::default());
        let shown = placed.map(|placed| {
            let visited = add_up(tree, amounts, stacks, &placed);
            let mut shown = tree.with_the_same_texts();
            grow(&mut shown, (&*tree, &mut amounts[..], &visited[..]), (&sites, options), stacks, &placed);
            visited.into_iter().for_each(|node| amounts[node as usize] = NodeAmounts::default());
            shown
        });
        *known = sites.into_known();
        let mut shown = shown?;
        let made = make(&mut shown);
        tree.take_texts_of(shown);
        Ok(made)
    }
}

/// The places of stacks.
fn place(
    sites: &mut TreeStacks<'_>,
    tree: &mut FrameTree,
    places: &mut [Option<StackPlace>],
    stacks: &[(StackId, Weighed)],
    work: &Work<'_>,
) -> Result<Vec<StackPlace>, QueryError> {
    let mut placed = Vec::with_capacity(stacks.len());
    for (count, (stack, _)) in stacks.iter().enumerate() {
        if count % 1024 == 0 {
            work.progress(count as f64 / stacks.len() as f64, "drawing")?;
        }
        placed.push(match places.get_mut(stack.0 as usize) {
            Some(known) => *known.get_or_insert_with(|| sites.place_down(tree, *stack)),
            None => sites.place_down(tree, *stack),
        });
    }
    Ok(placed)
}

/// Adds up what stacks have in the nodes of a shape. Returns the nodes that have something, in the order in which stacks reach them; a parent comes before its
/// children.
fn add_up(
    tree: &FrameTree,
    amounts: &mut [NodeAmounts],
    stacks: &[(StackId, Weighed)],
    placed: &[StackPlace],
) -> Vec<u32> {
    let (mut visited, mut path): (Vec<u32>, Vec<u32>) = (vec![0], Vec::new());
    amounts[0].first = 1;
    for (number, ((_, weighed), place)) in (1..).zip(stacks.iter().zip(placed)) {
        amounts[place.node as usize].own.add((*weighed).into());
        let mut at = place.node;
        while amounts[at as usize].first == 0 {
            amounts[at as usize].first = number;
            path.push(at);
            at = tree.parent_of(at);
        }
        visited.extend(path.drain(..).rev());
    }
    for node in &visited {
        let amounts = &mut amounts[*node as usize];
        amounts.total = amounts.own;
    }
    for node in visited.iter().skip(1).rev() {
        let total = amounts[*node as usize].total;
        amounts[tree.parent_of(*node) as usize].total.add(total);
    }
    visited
}

/// Adds to a new tree the nodes that are large enough, and their children.
fn grow(
    shown: &mut FrameTree,
    (tree, amounts, visited): (&FrameTree, &mut [NodeAmounts], &[u32]),
    (sites, options): (&TreeStacks<'_>, &TreeOptions),
    stacks: &[(StackId, Weighed)],
    placed: &[StackPlace],
) {
    let bound = least_value(amounts[0].total.value.rounded(), options.least_share);
    let is_large = |amounts: &NodeAmounts| amounts.gets_calls || amounts.total.value.rounded() >= bound;
    for (_, StackPlace { node, call }) in stacks.iter().zip(placed) {
        if let Some(call) = call
            && (*node == 0 || is_large(&amounts[*node as usize]))
            && let Some(child) = tree.known_child(*node, *call)
            && amounts[child as usize].first > 0
        {
            amounts[child as usize].gets_calls = true;
        }
    }
    let kept: Vec<u32> = visited[1..]
        .iter()
        .copied()
        .filter(|node| {
            let parent = tree.parent_of(*node);
            let is_kept = parent == 0 || amounts[parent as usize].shown > 0 && is_large(&amounts[parent as usize]);
            amounts[*node as usize].shown = u32::from(is_kept);
            is_kept
        })
        .collect();
    // The line of a node is that of its largest stack. Nodes of the same stack follow each other.
    let (mut lines, mut of) = (FxHashMap::default(), 0);
    amounts[0].shown = 1;
    shown.end(0, amounts[0].own.into());
    for node in kept {
        let NodeAmounts { own, total, first, .. } = amounts[node as usize];
        if first != of {
            of = first;
            let at = first as usize - 1;
            lines = lines_of(sites, tree, stacks[at].0, placed[at].node);
        }
        let (name, file, line) = tree.key_of(node);
        let key = (name, file, lines.get(&node).copied().unwrap_or(line));
        let parent = amounts[tree.parent_of(node) as usize].shown - 1;
        let Some(number) = shown.child(parent, key, options.splits_lines) else { continue };
        let is_large = is_large(&amounts[node as usize]);
        shown.end(number, if is_large { own } else { total }.into());
        amounts[node as usize].shown = number + 1;
    }
    for ((_, weighed), place) in stacks.iter().zip(placed) {
        let node = &amounts[place.node as usize];
        if node.shown > 0 && (place.node == 0 || is_large(node)) {
            shown.add_call(node.shown - 1, place.call, *weighed);
        }
    }
}

/// The lines that the nodes of a stack have in it.
fn lines_of(sites: &TreeStacks<'_>, tree: &FrameTree, stack: StackId, end: u32) -> FxHashMap<u32, u32> {
    let path: Vec<u32> =
        std::iter::successors(Some(end), |node| Some(tree.parent_of(*node))).take_while(|node| *node != 0).collect();
    let frames: Vec<FrameId> = sites.shown_frames(stack);
    // They differ where the tree had no more room, and for a stack without frames.
    let lines = path.iter().zip(&frames).filter(|_| path.len() == frames.len());
    lines.map(|(node, frame)| (*node, sites.line_of(*frame))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_tree::TreeColumns;
    use highwater_model::{FrameText, Naming};
    use proptest::prelude::*;

    fn sorted(stacks: &[(StackId, u64)]) -> Vec<(StackId, Weighed)> {
        let mut stacks: Vec<(StackId, Weighed)> = stacks
            .iter()
            .map(|(stack, value)| {
                let weighed = SmallWeighed { value: ByteSum::whole(*value), blocks: value % 7, samples: 1 };
                (*stack, weighed.into())
            })
            .collect();
        stacks.sort_by_key(|(stack, weighed)| (std::cmp::Reverse(weighed.value.rounded()), *stack));
        stacks
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Whatever was asked before, a flame graph is that of a tree with all nodes.
        #[test]
        fn a_shape_gives_the_trees_of_all_measurements(
            paths in prop::collection::vec((prop::collection::vec(0u32..9, 0..7), 0usize..4, 1u32..4), 1..60),
            measured in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), 0u64..40), 1..50), 1..4),
            (with_library, splits_lines, hides) in (any::<bool>(), any::<bool>(), any::<bool>()),
            least_share in prop::sample::select(vec![0.0, 0.02, 0.2]),
        ) {
            let names = ["parse", "walk", "load", "std::vec::push", "main", "f", "g", "xmalloc", "h"];
            let inner = ["malloc", "calloc", "std::make_shared<int>()", "h"];
            let mut catalog = Catalog::default();
            let stacks: Vec<StackId> = paths.iter().map(|(path, own, lines)| {
                let frame = |function, line| FrameText { function, file: "a.cpp", line, ..FrameText::default() };
                let frames = path.iter().zip(0..).map(|(name, at)| frame(names[*name as usize], 1 + (at + name) % lines));
                let frames: Vec<FrameText<'_>> = [frame(inner[*own], 3)].into_iter().chain(frames).collect();
                catalog.intern_stack(&frames)
            }).collect();
            let hidden = if hides { ["walk".to_owned()].into_iter().collect() } else { Default::default() };
            let options = TreeOptions { with_library, splits_lines, least_share, hidden, ..TreeOptions::default() };
            let trie = CallTrie::new(&catalog, &Naming::default());
            let shape = TreeShape::new(&catalog, &trie);
            for measured in measured {
                let mut amounts: std::collections::BTreeMap<StackId, u64> = Default::default();
                measured.iter().for_each(|(at, value)| *amounts.entry(*at.get(&stacks)).or_default() += value);
                let sorted = sorted(&amounts.into_iter().collect::<Vec<_>>());
                let mut whole = FrameTree::new("all");
                {
                    let mut sites = TreeStacks::new(&catalog, &trie, &options);
                    sorted.iter().for_each(|(stack, weighed)| sites.add_down(&mut whole, *stack, *weighed));
                }
                whole.add_library_calls(&options);
                let found = shape.tree((&catalog, &trie), &options, &sorted, &Work::quiet(), |tree| {
                    tree.add_library_calls(&options);
                    tree.answer(least_share, TreeColumns::Samples)
                });
                prop_assert_eq!(found.unwrap(), whole.answer(least_share, TreeColumns::Samples));
            }
        }
    }
}
