//! `tree`: a flame graph, as columns.

use super::grouping::sites;
use super::names::{UNKNOWN, label};
use super::stacks::MOST_FRAMES;
use super::word;
use crate::choice::Choice;
use crate::http::request::Request;
use crate::measure::{Amount, measure};
use crate::problem::Problem;
use crate::work::Work;
use highwater_model::{ByteSum, Catalog, FrameText, StackId, is_background};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The most nodes that are counted. Deeper frames count for the last node above them.
const MOST_NODES: usize = 2_000_000;
/// The most nodes in an answer; the largest are kept. This is more than a screen has pixels in a row of each depth.
const MOST_SHOWN: usize = 200_000;
/// Nodes with a smaller share of the whole are left out, unless the request gives another share.
const LEAST_SHARE: f64 = 0.0005;

/// Options for making a tree.
#[derive(Clone, Debug, Default)]
pub struct Shape<'a> {
    /// The innermost frames come first.
    pub is_inverted: bool,
    /// Functions that are skipped.
    pub hidden: HashSet<&'a str>,
    /// A function that calls itself, directly or not, is one node.
    pub merges_recursion: bool,
    /// Frames of the language's library, and of code that runs before `main`, are shown too.
    pub with_library: bool,
}

impl Shape<'_> {
    fn shows(&self, frame: &FrameText<'_>) -> bool {
        let is_hidden = match frame.function {
            "" => self.hidden.contains(label(frame).as_str()),
            function => self.hidden.contains(function),
        };
        !is_hidden && (self.with_library || !is_background(frame))
    }
}

#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    name: u32,
    file: u32,
    line: u32,
    value: ByteSum,
    blocks: u64,
    own: ByteSum,
    /// In comparisons: the value of each side.
    sides: [ByteSum; 2],
}

impl Node {
    fn new(parent: u32, name: u32, file: u32, line: u32) -> Self {
        let nothing = ByteSum::ZERO;
        Self { parent, name, file, line, value: nothing, blocks: 0, own: nothing, sides: [nothing; 2] }
    }
}

/// A tree that grows stack by stack. Node 0 is the root; a parent comes before its children.
pub struct Tree {
    nodes: Vec<Node>,
    children: FxHashMap<(u32, u32, u32), u32>,
    names: Vec<String>,
    files: Vec<String>,
    name_numbers: FxHashMap<String, u32>,
    file_numbers: FxHashMap<String, u32>,
}

/// The amounts that a stack adds to its nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighed {
    /// The value that becomes the width of a node.
    pub value: ByteSum,
    /// Blocks.
    pub blocks: u64,
    /// In comparisons: the value of each side.
    pub sides: [ByteSum; 2],
}

impl Tree {
    /// A tree with nothing but its root.
    pub fn new(root: &str) -> Self {
        Self {
            nodes: vec![Node::new(0, 0, 0, 0)],
            children: FxHashMap::default(),
            names: vec![root.to_owned()],
            files: vec![String::new()],
            name_numbers: FxHashMap::default(),
            file_numbers: FxHashMap::from_iter([(String::new(), 0)]),
        }
    }

    /// Adds the frames of a stack; the first one is nearest to the root.
    pub fn add(&mut self, frames: &[FrameText<'_>], weighed: Weighed, shape: &Shape<'_>) {
        self.grow(0, weighed);
        let mut path: Vec<u32> = vec![0];
        // Where recursion is merged: the index of each name in the path.
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        let shown = frames.iter().filter(|frame| shape.shows(frame));
        for frame in shown {
            let name = number(&mut self.names, &mut self.name_numbers, label(frame));
            if shape.merges_recursion
                && let Some(at) = places.get(&name).copied()
            {
                for node in path.drain(at + 1..) {
                    places.remove(&self.nodes[node as usize].name);
                }
                continue;
            }
            let file = number(&mut self.files, &mut self.file_numbers, frame.file.to_owned());
            let Some(node) = self.child(*path.last().unwrap_or(&0), name, file, frame.line) else { break };
            if shape.merges_recursion {
                places.insert(name, path.len());
            }
            path.push(node);
        }
        for node in path.iter().skip(1) {
            self.grow(*node, weighed);
        }
        let last = *path.last().unwrap_or(&0) as usize;
        self.nodes[last].own += weighed.value;
    }

    fn grow(&mut self, node: u32, weighed: Weighed) {
        let node = &mut self.nodes[node as usize];
        node.value += weighed.value;
        node.blocks = node.blocks.saturating_add(weighed.blocks);
        node.sides.iter_mut().zip(weighed.sides).for_each(|(sum, side)| *sum += side);
    }

    fn child(&mut self, parent: u32, name: u32, file: u32, line: u32) -> Option<u32> {
        let next = self.nodes.len() as u32;
        if let Some(known) = self.children.get(&(parent, name, file)) {
            return Some(*known);
        }
        if self.nodes.len() == MOST_NODES {
            return None;
        }
        self.children.insert((parent, name, file), next);
        self.nodes.push(Node::new(parent, name, file, line));
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

    /// The tree as columns. Nodes are in depth-first order, the largest child first; `with_sides` is for comparisons.
    pub fn to_json(&self, least: f64, with_sides: bool) -> Value {
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
        let mut columns = Columns::default();
        let mut waiting: Vec<(u32, u32)> = vec![(0, 0)];
        while let Some((at, depth)) = waiting.pop() {
            let node = &self.nodes[at as usize];
            columns.push(node, depth, self);
            let below = &mut children[at as usize];
            below.sort_by_key(|child| (self.nodes[*child as usize].value, std::cmp::Reverse(*child)));
            waiting.extend(below.iter().map(|child| (*child, depth + 1)));
        }
        columns.into_json(total, left_out, left_value.rounded(), with_sides)
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

/// The shown nodes, with the names that they use.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    files: Vec<String>,
    name_numbers: FxHashMap<String, u32>,
    file_numbers: FxHashMap<String, u32>,
    columns: [Vec<u64>; 7],
    sides: [Vec<u64>; 2],
}

impl Columns {
    fn push(&mut self, node: &Node, depth: u32, tree: &Tree) {
        let name = number(&mut self.names, &mut self.name_numbers, tree.names[node.name as usize].clone());
        let file = number(&mut self.files, &mut self.file_numbers, tree.files[node.file as usize].clone());
        let values = [
            name.into(),
            file.into(),
            node.line.into(),
            depth.into(),
            node.value.rounded(),
            node.own.rounded(),
            node.blocks,
        ];
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        self.sides.iter_mut().zip(node.sides).for_each(|(column, value)| column.push(value.rounded()));
    }

    fn into_json(self, total: u64, left_out: u64, left_value: u64, with_sides: bool) -> Value {
        let [names, files, lines, depths, values, own, blocks] = self.columns;
        let mut tree = json!({
            "names": self.names,
            "files": self.files,
            "node_name": names,
            "node_file": files,
            "node_line": lines,
            "node_depth": depths,
            "node_value": values,
            "node_self": own,
            "node_blocks": blocks,
            "total": total,
            "left_out": { "nodes": left_out, "value": left_value },
        });
        if with_sides {
            let [before, after] = self.sides;
            tree["node_before"] = before.into();
            tree["node_after"] = after.into();
        }
        tree
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

/// The answer.
pub fn answer(request: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let shape = Shape {
        is_inverted: word(request, "direction", &[("down", false), ("up", true)])?,
        hidden: request.all_parameters("hide").collect(),
        merges_recursion: word(request, "merge_recursion", &[("0", false), ("1", true)])?,
        with_library: with_library(request)?,
    };
    let in_blocks = word(request, "measure", &[("bytes", false), ("blocks", true)])?;
    let least = least_share(request)?;
    let measured = measure(choice, false, work)?;
    let catalog = choice.loaded.catalog();
    let mut stacks: Vec<(StackId, Amount)> = sites(&measured).map(|(stack, amount, _)| (stack, amount)).collect();
    // The largest first: the line of a node is the one that its largest stack has.
    stacks.sort_by_key(|(stack, amount)| (std::cmp::Reverse(amount.value), *stack));
    let weighed = |amount: &Amount| Weighed {
        value: if in_blocks { ByteSum::whole(amount.blocks) } else { amount.sum },
        blocks: amount.blocks,
        sides: [ByteSum::ZERO; 2],
    };
    if let Some(focus) = request.parameter("focus").filter(|name| !name.is_empty()) {
        let (mut callers, mut callees) = (Tree::new(focus), Tree::new(focus));
        for (stack, amount) in &stacks {
            work.go_on()?;
            let frames = frames_of(catalog, *stack);
            let is_focus = |frame: &FrameText<'_>| label(frame) == focus;
            // In a recursive function, everything that it led to is below its outermost call.
            let Some(at) = frames.iter().rposition(is_focus) else { continue };
            callers.add(&frames[at + 1..], weighed(amount), &shape);
            let inner: Vec<FrameText<'_>> = frames[..at].iter().rev().copied().collect();
            callees.add(&inner, weighed(amount), &shape);
        }
        return Ok(json!({ "callers": callers.to_json(least, false), "callees": callees.to_json(least, false) }));
    }
    let mut tree = Tree::new("all");
    for (count, (stack, amount)) in stacks.iter().enumerate() {
        if count % 1024 == 0 {
            work.progress(count as f64 / stacks.len() as f64, "drawing")?;
        }
        let mut frames = frames_of(catalog, *stack);
        if !shape.is_inverted {
            frames.reverse();
        }
        tree.add(&frames, weighed(amount), &shape);
    }
    let mut answer = tree.to_json(least, false);
    answer["at_ns"] = measured.at.0.into();
    Ok(answer)
}

/// Whether the request asks for frames of libraries.
pub fn with_library(request: &Request) -> Result<bool, Problem> {
    word(request, "library", &[("0", false), ("1", true)])
}

/// The share of the whole below which nodes are left out.
pub fn least_share(request: &Request) -> Result<f64, Problem> {
    match request.parameter("least") {
        None | Some("") => Ok(LEAST_SHARE),
        Some(text) => match text.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(Problem::Bad(format!("least={text}: a share from 0 to 1 is wanted"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> FrameText<'_> {
        FrameText { function: name, ..FrameText::default() }
    }

    fn weighed(bytes: u64) -> Weighed {
        Weighed { value: ByteSum::whole(bytes), blocks: 1, sides: [ByteSum::ZERO; 2] }
    }

    #[test]
    fn the_largest_nodes_are_shown_where_there_are_too_many() {
        let mut tree = Tree::new("all");
        let shape = Shape { with_library: true, ..Shape::default() };
        let deep = vec![function("recurse"); 1000];
        for count in 0..250 {
            let name = format!("root {count}");
            let frames = [&[function(&name)], &deep[..]].concat();
            tree.add(&frames, weighed(if count == 249 { 5 } else { 1 }), &shape);
        }
        let shown = tree.to_json(0.0, false);
        assert_eq!(shown["node_value"].as_array().unwrap().len(), MOST_SHOWN);
        assert_eq!(shown["node_value"][1], 5, "the largest comes first");
        assert_eq!(shown["left_out"]["nodes"], 1 + 250 * 1001 - MOST_SHOWN);
    }

    #[test]
    fn merged_recursion_ends_where_the_function_was_called_first() {
        let shape = Shape { merges_recursion: true, with_library: true, ..Shape::default() };
        let mut tree = Tree::new("all");
        tree.add(&["main", "a", "b", "a", "c", "b", "c"].map(function), weighed(7), &shape);
        let shown = tree.to_json(0.0, false);
        // After merging, calls below b belong to a: the stack returns to a, and then goes to c.
        let names: Vec<&Value> = shown["node_name"]
            .as_array()
            .unwrap()
            .iter()
            .map(|at| &shown["names"][at.as_u64().unwrap() as usize])
            .collect();
        assert_eq!(names, ["all", "main", "a", "c"]);
        assert_eq!(shown["node_self"][3], 7);
    }
}
