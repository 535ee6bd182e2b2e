//! Flame graphs: stacks that share frames, merged from the outermost frame, or from the innermost.

use crate::error::QueryError;
use crate::grouping::sites;
use crate::measure::{Amount, measure};
use crate::names::{UNKNOWN, label};
use crate::query::Query;
use crate::stacks::MOST_FRAMES;
use highwater_model::{ByteSum, Catalog, FrameText, Naming, StackId};
use highwater_store::history::Work;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// The most nodes that are counted. Deeper frames count for the last node above them.
const MOST_NODES: usize = 2_000_000;
/// The most nodes in an answer; the largest are kept. This is more than a screen has pixels in a row of each depth.
const MOST_SHOWN: usize = 200_000;

/// How a tree is made.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// The innermost frames come first.
    pub is_inverted: bool,
    /// The width of a node is its number of blocks.
    pub in_blocks: bool,
    /// Functions that are skipped.
    pub hidden: HashSet<String>,
    /// A function that calls itself, directly or not, is one node.
    pub merges_recursion: bool,
    /// Frames of the language's library, and of code that runs before `main`, are shown too.
    pub with_library: bool,
    /// Calls at different lines of a function are different nodes, and the library call of a line is always shown.
    pub splits_lines: bool,
    /// Nodes with a smaller share of the whole are left out.
    pub least_share: f64,
}

impl TreeOptions {
    /// The share below which nodes are left out, unless a client names another.
    pub const LEAST_SHARE: f64 = 0.0005;

    fn hides(&self, frame: &FrameText<'_>) -> bool {
        match frame.function {
            "" => self.hidden.contains(label(frame).as_str()),
            function => self.hidden.contains(function),
        }
    }
}

/// The frames of a stack that a tree shows.
pub struct ShownFrames<'f, 'a> {
    /// Innermost first, each with its index in the stack.
    frames: Vec<(usize, &'f FrameText<'a>)>,
    /// The hidden call of the innermost frame: what the language's library, or a wrapper, was asked for.
    pub library_call: Option<&'f FrameText<'a>>,
}

impl<'f, 'a> ShownFrames<'f, 'a> {
    /// The shown frames of a stack, innermost first.
    pub fn of(innermost_first: &'f [FrameText<'a>], options: &TreeOptions, naming: &Naming) -> Self {
        let passing = naming.passing_frames(innermost_first);
        let is_shown = |(at, frame): &(usize, &FrameText<'_>)| {
            !options.hides(frame) && (options.with_library || (*at >= passing && !naming.is_background(frame)))
        };
        let frames: Vec<(usize, &FrameText<'a>)> = innermost_first.iter().enumerate().filter(is_shown).collect();
        let is_named_by_first = frames.first().is_some_and(|(at, _)| *at == passing);
        let call = passing.checked_sub(1).filter(|_| is_named_by_first).map(|at| &innermost_first[at]);
        Self { frames, library_call: call.filter(|call| !options.with_library && !options.hides(call)) }
    }

    /// The innermost frame is nearest to the root.
    pub fn innermost_first(&self) -> impl Iterator<Item = &'f FrameText<'a>> {
        self.frames.iter().map(|(_, frame)| *frame)
    }

    /// The outermost frame is nearest to the root.
    pub fn outermost_first(&self) -> impl Iterator<Item = &'f FrameText<'a>> {
        self.frames.iter().rev().map(|(_, frame)| *frame)
    }

    /// The frames that the frame with this index called, outermost first.
    fn inside(&self, at: usize) -> impl Iterator<Item = &'f FrameText<'a>> {
        self.frames.iter().rev().filter(move |(each, _)| *each < at).map(|(_, frame)| *frame)
    }

    /// The callers of the frame with this index, innermost first.
    fn outside(&self, at: usize) -> impl Iterator<Item = &'f FrameText<'a>> {
        self.frames.iter().filter(move |(each, _)| *each > at).map(|(_, frame)| *frame)
    }
}

#[derive(Clone, Debug)]
struct TreeNode {
    parent: u32,
    name: u32,
    file: u32,
    line: u32,
    value: ByteSum,
    blocks: u64,
    own: ByteSum,
    samples: u64,
    /// In comparisons: the value of each side.
    sides: [ByteSum; 2],
    /// A hidden call that was added after its caller.
    is_library_call: bool,
}

impl TreeNode {
    fn new(parent: u32, name: u32, file: u32, line: u32) -> Self {
        let nothing = ByteSum::ZERO;
        let sides = [nothing; 2];
        let (blocks, samples) = (0, 0);
        Self { parent, name, file, line, value: nothing, blocks, own: nothing, samples, sides, is_library_call: false }
    }
}

/// The columns of an answer that only some trees have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeColumns {
    /// None.
    Plain,
    /// The samples of estimates.
    Samples,
    /// Both sides of a comparison.
    Sides,
}

/// A tree that grows stack by stack. Node 0 is the root; a parent comes before its children.
pub struct FrameTree {
    nodes: Vec<TreeNode>,
    /// By parent, name and file, and by line if lines are split.
    children: FxHashMap<(u32, u32, u32, u32), u32>,
    names: Vec<String>,
    files: Vec<String>,
    name_numbers: FxHashMap<String, u32>,
    file_numbers: FxHashMap<String, u32>,
    /// By the node in which stacks end, and by the hidden call that they end with: what they add.
    library_calls: BTreeMap<(u32, LibraryCall), Weighed>,
}

/// The name, the file and the line of a hidden call.
type LibraryCall = Option<(u32, u32, u32)>;

/// The amounts that a stack adds to its nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighed {
    /// The value that becomes the width of a node.
    pub value: ByteSum,
    /// Blocks.
    pub blocks: u64,
    /// The samples that the value is made of.
    pub samples: u64,
    /// In comparisons: the value of each side.
    pub sides: [ByteSum; 2],
}

impl Weighed {
    fn add(&mut self, other: Self) {
        self.value += other.value;
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.samples = self.samples.saturating_add(other.samples);
        self.sides.iter_mut().zip(other.sides).for_each(|(sum, side)| *sum += side);
    }
}

impl FrameTree {
    /// A tree with nothing but its root.
    pub fn new(root: &str) -> Self {
        Self {
            nodes: vec![TreeNode::new(0, 0, 0, 0)],
            children: FxHashMap::default(),
            names: vec![root.to_owned()],
            files: vec![String::new()],
            name_numbers: FxHashMap::default(),
            file_numbers: FxHashMap::from_iter([(String::new(), 0)]),
            library_calls: BTreeMap::new(),
        }
    }

    /// Adds the frames of a stack; the first one is nearest to the root. The hidden call of the last one becomes a node only if
    /// [others end there too](Self::add_library_calls).
    pub fn add<'f, 'a: 'f>(
        &mut self,
        frames: impl Iterator<Item = &'f FrameText<'a>>,
        library_call: Option<&FrameText<'_>>,
        weighed: Weighed,
        options: &TreeOptions,
    ) {
        self.grow(0, weighed);
        let mut path: Vec<u32> = vec![0];
        // Where recursion is merged: the index of each name in the path.
        let mut indexes: FxHashMap<u32, usize> = FxHashMap::default();
        for frame in frames {
            let name = number(&mut self.names, &mut self.name_numbers, label(frame));
            if options.merges_recursion
                && let Some(at) = indexes.get(&name).copied()
            {
                for node in path.drain(at + 1..) {
                    indexes.remove(&self.nodes[node as usize].name);
                }
                continue;
            }
            let file = number(&mut self.files, &mut self.file_numbers, frame.file.to_owned());
            let parent = *path.last().unwrap_or(&0);
            let Some(node) = self.child(parent, (name, file, frame.line), options.splits_lines) else { break };
            if options.merges_recursion {
                indexes.insert(name, path.len());
            }
            path.push(node);
        }
        for node in path.iter().skip(1) {
            self.grow(*node, weighed);
        }
        let last = *path.last().unwrap_or(&0);
        self.nodes[last as usize].own += weighed.value;
        let call = library_call.map(|call| {
            let name = number(&mut self.names, &mut self.name_numbers, label(call));
            (name, number(&mut self.files, &mut self.file_numbers, call.file.to_owned()), call.line)
        });
        if self.library_calls.len() < MOST_NODES {
            self.library_calls.entry((last, call)).or_default().add(weighed);
        }
    }

    /// Adds nodes for hidden library calls, where stacks with different ones end in the same node: `main` may fill ten containers in one line. If lines are
    /// split, every line shows what it calls.
    pub fn add_library_calls(&mut self, options: &TreeOptions) {
        let calls = std::mem::take(&mut self.library_calls);
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        calls.keys().for_each(|(node, _)| *counts.entry(*node).or_default() += 1);
        for ((parent, call), weighed) in calls {
            let Some(call) = call.filter(|_| options.splits_lines || counts[&parent] > 1) else { continue };
            let known = self.nodes.len();
            let Some(node) = self.child(parent, call, false) else { break };
            self.nodes[node as usize].is_library_call |= node as usize == known;
            self.grow(node, weighed);
            self.nodes[node as usize].own += weighed.value;
            let own = self.nodes[parent as usize].own;
            self.nodes[parent as usize].own = own.saturating_sub(weighed.value);
        }
    }

    fn grow(&mut self, node: u32, weighed: Weighed) {
        let node = &mut self.nodes[node as usize];
        node.value += weighed.value;
        node.blocks = node.blocks.saturating_add(weighed.blocks);
        node.samples = node.samples.saturating_add(weighed.samples);
        node.sides.iter_mut().zip(weighed.sides).for_each(|(sum, side)| *sum += side);
    }

    fn child(&mut self, parent: u32, (name, file, line): (u32, u32, u32), splits_lines: bool) -> Option<u32> {
        let next = self.nodes.len() as u32;
        let key = (parent, name, file, if splits_lines { line } else { 0 });
        if let Some(known) = self.children.get(&key) {
            return Some(*known);
        }
        if self.nodes.len() == MOST_NODES {
            return None;
        }
        self.children.insert(key, next);
        self.nodes.push(TreeNode::new(parent, name, file, line));
        Some(next)
    }

    /// The least value among the [`MOST_SHOWN`] largest nodes, and how many nodes with exactly this value are among them. A child never has more than its
    /// parent, so no parent is missing.
    fn least_shown(&self) -> (u64, usize) {
        if self.nodes.len() <= MOST_SHOWN {
            return (0, usize::MAX);
        }
        let mut values: Vec<u64> = self.nodes.iter().map(|node| node.value.rounded()).collect();
        let (_, &mut least, _) = values.select_nth_unstable_by(MOST_SHOWN, |a, b| b.cmp(a));
        let above = values.iter().filter(|value| **value > least).count();
        (least, MOST_SHOWN - above)
    }

    /// The tree as columns. Nodes are in depth-first order, the largest child first.
    pub fn answer(&self, least: f64, with: TreeColumns) -> TreeAnswer {
        let total = self.nodes[0].value.rounded();
        let bound = (total as f64 * least).ceil().max(1.0) as u64;
        let (least_shown, mut room) = self.least_shown();
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        let (mut left_out, mut left_value) = (0u64, ByteSum::ZERO);
        let mut is_shown = vec![true; self.nodes.len()];
        for at in 1..self.nodes.len() {
            let node = &self.nodes[at];
            let parent = node.parent as usize;
            let value = node.value.rounded();
            is_shown[at] = is_shown[parent] && value >= bound && value >= least_shown;
            if is_shown[at] && value == least_shown {
                is_shown[at] = room > 0;
                room = room.saturating_sub(1);
            }
            if is_shown[at] {
                children[parent].push(at as u32);
            } else {
                left_out += 1;
                if is_shown[parent] {
                    left_value += node.value;
                }
            }
        }
        let mut answer = TreeAnswer { total, ..TreeAnswer::default() };
        answer.left_out = LeftOutNodes { nodes: left_out, value: left_value.rounded() };
        answer.node_samples = (with == TreeColumns::Samples).then(Vec::new);
        if with == TreeColumns::Sides {
            (answer.node_before, answer.node_after) = (Some(Vec::new()), Some(Vec::new()));
        }
        let mut numbers = Default::default();
        let mut waiting: Vec<(u32, u32)> = vec![(0, 0)];
        while let Some((at, depth)) = waiting.pop() {
            answer.push(&self.nodes[at as usize], depth, self, &mut numbers);
            let below = &mut children[at as usize];
            below.sort_by_key(|child| (self.nodes[*child as usize].value, std::cmp::Reverse(*child)));
            waiting.extend(below.iter().map(|child| (*child, depth + 1)));
        }
        answer
    }
}

fn number(list: &mut Vec<String>, numbers: &mut FxHashMap<String, u32>, text: String) -> u32 {
    if let Some(known) = numbers.get(&text) {
        return *known;
    }
    let next = list.len() as u32;
    list.push(text.clone());
    numbers.insert(text, next);
    next
}

/// A flame graph as columns, nodes in depth-first order. Node 0 is the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Tree"))]
pub struct TreeAnswer {
    /// The names that nodes use.
    pub names: Vec<String>,
    /// The files that nodes use.
    pub files: Vec<String>,
    /// The index of each node's name.
    pub node_name: Vec<u32>,
    /// The index of each node's file.
    pub node_file: Vec<u32>,
    /// Each node's line.
    pub node_line: Vec<u32>,
    /// Each node's depth; the whole has 0.
    pub node_depth: Vec<u32>,
    /// Each node's value with everything below it.
    pub node_value: Vec<u64>,
    /// Each node's value without the nodes below it.
    pub node_self: Vec<u64>,
    /// Each node's blocks.
    pub node_blocks: Vec<u64>,
    /// Of estimated bytes: the samples that each node's value is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub node_samples: Option<Vec<u64>>,
    /// In comparisons: each node's value before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub node_before: Option<Vec<u64>>,
    /// In comparisons: each node's value after.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub node_after: Option<Vec<u64>>,
    /// The nodes that are calls of the language's library, or of a wrapper, below the line that makes them. Other such frames are hidden.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, ts(optional, as = "Option<Vec<u32>>"))]
    pub library_calls: Vec<u32>,
    /// The value of the whole.
    pub total: u64,
    /// The nodes that are too small to be shown.
    pub left_out: LeftOutNodes,
    /// The instant of the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub at_ns: Option<u64>,
}

/// Nodes that are too small to be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LeftOutNodes {
    /// Their number.
    pub nodes: u64,
    /// Their value.
    pub value: u64,
}

/// The functions that lead to one, and those that it leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "FocusedTree"))]
pub struct FocusAnswer {
    /// Its callers.
    pub callers: TreeAnswer,
    /// Its callees.
    pub callees: TreeAnswer,
}

impl TreeAnswer {
    /// Appends a node. `numbers` holds the indexes of the names and files so far.
    fn push(
        &mut self,
        node: &TreeNode,
        depth: u32,
        tree: &FrameTree,
        (name_numbers, file_numbers): &mut (FxHashMap<String, u32>, FxHashMap<String, u32>),
    ) {
        if node.is_library_call {
            self.library_calls.push(self.node_name.len() as u32);
        }
        self.node_name.push(number(&mut self.names, name_numbers, tree.names[node.name as usize].clone()));
        self.node_file.push(number(&mut self.files, file_numbers, tree.files[node.file as usize].clone()));
        self.node_line.push(node.line);
        self.node_depth.push(depth);
        self.node_value.push(node.value.rounded());
        self.node_self.push(node.own.rounded());
        self.node_blocks.push(node.blocks);
        self.node_samples.iter_mut().for_each(|column| column.push(node.samples));
        for (column, value) in [&mut self.node_before, &mut self.node_after].into_iter().zip(node.sides) {
            column.iter_mut().for_each(|column| column.push(value.rounded()));
        }
    }
}

/// The frames of a stack, innermost first; a single unknown frame if the stack is empty.
pub fn frames_of(catalog: &Catalog, stack: StackId) -> Vec<FrameText<'_>> {
    let mut frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
    if frames.is_empty() {
        frames.push(FrameText { function: UNKNOWN, ..FrameText::default() });
    }
    frames
}

/// The stacks of a metric, the largest first: the line of a node is the one that its largest stack has.
struct LargestFirst {
    at: u64,
    stacks: Vec<(StackId, Amount)>,
    columns: TreeColumns,
}

impl LargestFirst {
    fn of(query: &Query, options: &TreeOptions, work: &Work<'_>) -> Result<Self, QueryError> {
        let measured = measure(query, false, work)?;
        let mut stacks: Vec<(StackId, Amount)> = sites(&measured).map(|(stack, row)| (stack, row.amount)).collect();
        stacks.sort_by_key(|(stack, amount)| (std::cmp::Reverse(amount.value), *stack));
        let has_samples = !options.in_blocks && measured.samples_of(&measured.total).is_some();
        let columns = if has_samples { TreeColumns::Samples } else { TreeColumns::Plain };
        Ok(Self { at: measured.at.0, stacks, columns })
    }
}

fn weighed(amount: &Amount, options: &TreeOptions) -> Weighed {
    Weighed {
        value: if options.in_blocks { ByteSum::whole(amount.blocks) } else { amount.sum },
        blocks: amount.blocks,
        samples: amount.samples,
        sides: [ByteSum::ZERO; 2],
    }
}

/// A flame graph of the metric.
pub fn tree(query: &Query, options: &TreeOptions, work: &Work<'_>) -> Result<TreeAnswer, QueryError> {
    let LargestFirst { at, stacks, columns } = LargestFirst::of(query, options, work)?;
    let mut tree = FrameTree::new("all");
    for (count, (stack, amount)) in stacks.iter().enumerate() {
        if count % 1024 == 0 {
            work.progress(count as f64 / stacks.len() as f64, "drawing")?;
        }
        let frames = frames_of(query.history.catalog(), *stack);
        let shown = ShownFrames::of(&frames, options, &query.naming);
        let weighed = weighed(amount, options);
        match options.is_inverted {
            true => tree.add(shown.innermost_first(), None, weighed, options),
            false => tree.add(shown.outermost_first(), shown.library_call, weighed, options),
        }
    }
    tree.add_library_calls(options);
    Ok(TreeAnswer { at_ns: Some(at), ..tree.answer(options.least_share, columns) })
}

/// The callers and the callees of one function, as two flame graphs.
pub fn focus(query: &Query, function: &str, options: &TreeOptions, work: &Work<'_>) -> Result<FocusAnswer, QueryError> {
    let LargestFirst { stacks, columns, .. } = LargestFirst::of(query, options, work)?;
    let (mut callers, mut callees) = (FrameTree::new(function), FrameTree::new(function));
    for (stack, amount) in &stacks {
        work.go_on()?;
        let frames = frames_of(query.history.catalog(), *stack);
        let is_focus = |frame: &FrameText<'_>| label(frame) == function;
        // In a recursive function, everything that it led to is below its outermost call.
        let Some(at) = frames.iter().rposition(is_focus) else { continue };
        let shown = ShownFrames::of(&frames, options, &query.naming);
        callers.add(shown.outside(at), None, weighed(amount, options), options);
        callees.add(shown.inside(at), shown.library_call, weighed(amount, options), options);
    }
    callees.add_library_calls(options);
    let least = options.least_share;
    Ok(FocusAnswer { callers: callers.answer(least, columns), callees: callees.answer(least, columns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> FrameText<'_> {
        FrameText { function: name, ..FrameText::default() }
    }

    fn weighed(bytes: u64) -> Weighed {
        Weighed { value: ByteSum::whole(bytes), blocks: 1, samples: 1, sides: [ByteSum::ZERO; 2] }
    }

    #[test]
    fn the_largest_nodes_are_shown_where_there_are_too_many() {
        let mut tree = FrameTree::new("all");
        let options = TreeOptions { with_library: true, ..TreeOptions::default() };
        let deep = vec![function("recurse"); 1000];
        for count in 0..250 {
            let name = format!("root {count}");
            let frames = [&[function(&name)], &deep[..]].concat();
            tree.add(frames.iter(), None, weighed(if count == 249 { 5 } else { 1 }), &options);
        }
        let shown = tree.answer(0.0, TreeColumns::Plain);
        assert_eq!(shown.node_value.len(), MOST_SHOWN);
        assert_eq!(shown.node_value[1], 5, "the largest comes first");
        assert_eq!(shown.left_out.nodes, (1 + 250 * 1001 - MOST_SHOWN) as u64);
    }

    #[test]
    fn lines_are_nodes_of_their_own_if_they_are_split() {
        let at = |line: u32| FrameText { function: "main", file: "main.cpp", line, ..FrameText::default() };
        let call = function("std::make_shared<int>()");
        let shown = |splits_lines: bool| {
            let options = TreeOptions { splits_lines, ..TreeOptions::default() };
            let mut tree = FrameTree::new("all");
            for (line, bytes) in [(21, 5), (24, 2), (21, 1)] {
                tree.add([at(line), function("make")].iter(), Some(&call), weighed(bytes), &options);
            }
            tree.add_library_calls(&options);
            tree.answer(0.0, TreeColumns::Plain)
        };
        let split = shown(true);
        assert_eq!(split.node_line, [0, 21, 0, 0, 24, 0, 0]);
        assert_eq!(split.node_value, [8, 6, 6, 6, 2, 2, 2]);
        assert_eq!(split.node_self, [0, 0, 0, 6, 0, 0, 2]);
        assert_eq!(split.library_calls, [3, 6]);
        // Where stacks end with one call only, it says nothing that their node does not.
        let merged = shown(false);
        assert_eq!((merged.node_line, merged.node_value), (vec![0, 21, 0], vec![8, 8, 8]));
        assert!(merged.library_calls.is_empty());
    }

    #[test]
    fn merged_recursion_ends_where_the_function_was_called_first() {
        let options = TreeOptions { merges_recursion: true, with_library: true, ..TreeOptions::default() };
        let mut tree = FrameTree::new("all");
        tree.add(["main", "a", "b", "a", "c", "b", "c"].map(function).iter(), None, weighed(7), &options);
        let shown = tree.answer(0.0, TreeColumns::Plain);
        // After merging, calls below b belong to a: the stack returns to a, and then goes to c.
        let names: Vec<&str> = shown.node_name.iter().map(|at| shown.names[*at as usize].as_str()).collect();
        assert_eq!(names, ["all", "main", "a", "c"]);
        assert_eq!(shown.node_self[3], 7);
    }
}
