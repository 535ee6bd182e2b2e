//! A tree of frames that grows stack by stack, and becomes a flame graph.

use crate::tree::{LeftOutNodes, TreeAnswer, TreeOptions};
use highwater_model::ByteSum;
use rustc_hash::FxHashMap;

/// The most nodes that are counted. Deeper frames count for the last node above them.
const MOST_NODES: usize = 2_000_000;
/// The most nodes in an answer; the largest are kept. This is more than a screen has pixels in a row of each depth.
pub const MOST_SHOWN: usize = 200_000;

#[derive(Clone, Debug)]
struct TreeNode {
    parent: u32,
    name: u32,
    file: u32,
    line: u32,
    /// The stacks that end here.
    own: Weighed,
    /// A hidden call that was added after its caller.
    is_library_call: bool,
}

impl TreeNode {
    fn new(parent: u32, (name, file, line): (u32, u32, u32)) -> Self {
        Self { parent, name, file, line, own: Weighed::default(), is_library_call: false }
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
    names: Texts,
    files: Texts,
    /// By the node in which stacks end, and by the hidden call that they end with: what they add.
    library_calls: FxHashMap<(u32, LibraryCall), Weighed>,
}

/// The name, the file and the line of a hidden call.
pub type LibraryCall = Option<(u32, u32, u32)>;

/// Texts, each once.
struct Texts {
    all: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Texts {
    fn beginning_with(first: &str) -> Self {
        Self { all: vec![first.to_owned()], numbers: FxHashMap::from_iter([(first.to_owned(), 0)]) }
    }

    fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let next = self.all.len() as u32;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), next);
        next
    }
}

/// The amounts that a stack adds to its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    fn without(self, other: Self) -> Self {
        Self {
            value: self.value.saturating_sub(other.value),
            blocks: self.blocks.saturating_sub(other.blocks),
            samples: self.samples.saturating_sub(other.samples),
            sides: [0, 1].map(|side| self.sides[side].saturating_sub(other.sides[side])),
        }
    }
}

impl FrameTree {
    /// A tree with nothing but its root.
    pub fn new(root: &str) -> Self {
        Self {
            nodes: vec![TreeNode::new(0, (0, 0, 0))],
            children: FxHashMap::default(),
            names: Texts::beginning_with(root),
            files: Texts::beginning_with(""),
            library_calls: FxHashMap::default(),
        }
    }

    /// The number of a name.
    pub fn name(&mut self, text: &str) -> u32 {
        self.names.number(text)
    }

    /// The number of a file.
    pub fn file(&mut self, text: &str) -> u32 {
        self.files.number(text)
    }

    /// The name of a node.
    pub fn name_of(&self, node: u32) -> u32 {
        self.nodes[node as usize].name
    }

    /// The child of a node, made if it is new. Its line is that of the first stack that has it. `None` if there are too many nodes.
    pub fn child(&mut self, parent: u32, (name, file, line): (u32, u32, u32), splits_lines: bool) -> Option<u32> {
        let next = self.nodes.len() as u32;
        let key = (parent, name, file, if splits_lines { line } else { 0 });
        if let Some(known) = self.children.get(&key) {
            return Some(*known);
        }
        if self.nodes.len() == MOST_NODES {
            return None;
        }
        self.children.insert(key, next);
        self.nodes.push(TreeNode::new(parent, (name, file, line)));
        Some(next)
    }

    /// Adds stacks that end in a node.
    pub fn end(&mut self, node: u32, weighed: Weighed) {
        self.nodes[node as usize].own.add(weighed);
    }

    /// The same. Their hidden call becomes a node only if [others end there too](Self::add_library_calls).
    pub fn end_with_call(&mut self, node: u32, call: LibraryCall, weighed: Weighed) {
        self.end(node, weighed);
        if self.library_calls.len() < MOST_NODES {
            self.library_calls.entry((node, call)).or_default().add(weighed);
        }
    }

    /// Adds nodes for hidden library calls, where stacks with different ones end in the same node: `main` may fill ten containers in one line. If lines are
    /// split, every line shows what it calls.
    pub fn add_library_calls(&mut self, options: &TreeOptions) {
        let mut calls: Vec<((u32, LibraryCall), Weighed)> =
            std::mem::take(&mut self.library_calls).into_iter().collect();
        calls.sort_unstable_by_key(|(place, _)| *place);
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        calls.iter().for_each(|((node, _), _)| *counts.entry(*node).or_default() += 1);
        for ((parent, call), weighed) in calls {
            let Some(call) = call.filter(|_| options.splits_lines || counts[&parent] > 1) else { continue };
            let known = self.nodes.len();
            let Some(node) = self.child(parent, call, false) else { break };
            self.nodes[node as usize].is_library_call |= node as usize == known;
            self.nodes[node as usize].own.add(weighed);
            let own = &mut self.nodes[parent as usize].own;
            *own = own.without(weighed);
        }
    }

    /// What each node has with everything below it.
    fn totals(&self) -> Vec<Weighed> {
        let mut totals: Vec<Weighed> = self.nodes.iter().map(|node| node.own).collect();
        for at in (1..totals.len()).rev() {
            let total = totals[at];
            totals[self.nodes[at].parent as usize].add(total);
        }
        totals
    }

    /// The tree as columns. Nodes are in depth-first order, the largest child first.
    pub fn answer(&self, least: f64, with: TreeColumns) -> TreeAnswer {
        let totals = self.totals();
        let total = totals[0].value.rounded();
        let bound = least_value(total, least);
        let (least_shown, mut room) = least_shown(&totals);
        let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let (mut left_out, mut left_value) = (0u64, ByteSum::ZERO);
        let mut is_shown = vec![true; self.nodes.len()];
        for at in 1..self.nodes.len() {
            let parent = self.nodes[at].parent;
            let value = totals[at].value.rounded();
            is_shown[at] = is_shown[parent as usize] && value >= bound && value >= least_shown;
            if is_shown[at] && value == least_shown {
                is_shown[at] = room > 0;
                room = room.saturating_sub(1);
            }
            if is_shown[at] {
                children.entry(parent).or_default().push(at as u32);
            } else if is_shown[parent as usize] {
                left_out += 1;
                left_value += totals[at].value;
            }
        }
        let mut answer = TreeAnswer { total, ..TreeAnswer::default() };
        answer.left_out = LeftOutNodes { nodes: left_out, value: left_value.rounded() };
        answer.node_samples = (with == TreeColumns::Samples).then(Vec::new);
        if with == TreeColumns::Sides {
            (answer.node_before, answer.node_after) = (Some(Vec::new()), Some(Vec::new()));
        }
        let (mut names, mut files) = (UsedTexts::of(&self.names), UsedTexts::of(&self.files));
        let mut waiting: Vec<(u32, u32)> = vec![(0, 0)];
        while let Some((at, depth)) = waiting.pop() {
            let (node, total) = (&self.nodes[at as usize], &totals[at as usize]);
            if node.is_library_call {
                answer.library_calls.push(answer.node_name.len() as u32);
            }
            answer.node_name.push(names.number(node.name));
            answer.node_file.push(files.number(node.file));
            answer.node_line.push(node.line);
            answer.node_depth.push(depth);
            answer.node_value.push(total.value.rounded());
            answer.node_self.push(node.own.value.rounded());
            answer.node_blocks.push(total.blocks);
            answer.node_samples.iter_mut().for_each(|column| column.push(total.samples));
            for (column, value) in [&mut answer.node_before, &mut answer.node_after].into_iter().zip(total.sides) {
                column.iter_mut().for_each(|column| column.push(value.rounded()));
            }
            if let Some(below) = children.get_mut(&at) {
                below.sort_by_key(|child| (totals[*child as usize].value, std::cmp::Reverse(*child)));
                waiting.extend(below.iter().map(|child| (*child, depth + 1)));
            }
        }
        (answer.names, answer.files) = (names.used, files.used);
        answer
    }
}

/// The least value of a node that is shown.
pub fn least_value(total: u64, least_share: f64) -> u64 {
    (total as f64 * least_share).ceil().max(1.0) as u64
}

/// The least value among the [`MOST_SHOWN`] largest nodes, and how many nodes with exactly this value are among them. A child never has more than its
/// parent, so no parent is missing.
fn least_shown(totals: &[Weighed]) -> (u64, usize) {
    if totals.len() <= MOST_SHOWN {
        return (0, usize::MAX);
    }
    let mut values: Vec<u64> = totals.iter().map(|total| total.value.rounded()).collect();
    let (_, &mut least, _) = values.select_nth_unstable_by(MOST_SHOWN, |a, b| b.cmp(a));
    let above = values.iter().filter(|value| **value > least).count();
    (least, MOST_SHOWN - above)
}

/// The texts that an answer uses, in the order in which it uses them.
struct UsedTexts<'a> {
    all: &'a [String],
    numbers: Vec<u32>,
    used: Vec<String>,
}

impl<'a> UsedTexts<'a> {
    fn of(texts: &'a Texts) -> Self {
        Self { all: &texts.all, numbers: vec![u32::MAX; texts.all.len()], used: Vec::new() }
    }

    fn number(&mut self, text: u32) -> u32 {
        let number = &mut self.numbers[text as usize];
        if *number == u32::MAX {
            *number = self.used.len() as u32;
            self.used.push(self.all[text as usize].clone());
        }
        *number
    }
}
