//! Flame graphs: stacks that share frames, merged from the outermost frame, or from the innermost.

use crate::call_trie::CallTrie;
use crate::error::QueryError;
use crate::frame_tree::{FrameTree, TreeColumns, Weighed};
use crate::grouping::sites;
use crate::measure::{Amount, measure};
use crate::names::UNKNOWN;
use crate::query::Query;
use crate::tree_stacks::TreeStacks;
use highwater_model::{ByteSum, FrameId, StackId};
use highwater_store::history::Work;
use serde::Serialize;
use std::collections::HashSet;

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
    let trie = CallTrie::of(query)?;
    let mut sites = TreeStacks::new(query.history.catalog(), &trie, options);
    let mut tree = FrameTree::new("all");
    if options.is_inverted {
        let stacks = stacks.iter().map(|(stack, amount)| (*stack, weighed(amount, options)));
        sites.add_up(&mut tree, stacks, work)?;
    } else {
        for (count, (stack, amount)) in stacks.iter().enumerate() {
            if count % 1024 == 0 {
                work.progress(count as f64 / stacks.len() as f64, "drawing")?;
            }
            sites.add_down(&mut tree, *stack, weighed(amount, options));
        }
        tree.add_library_calls(options);
    }
    Ok(TreeAnswer { at_ns: Some(at), ..tree.answer(options.least_share, columns) })
}

/// The callers and the callees of one function, as two flame graphs.
pub fn focus(query: &Query, function: &str, options: &TreeOptions, work: &Work<'_>) -> Result<FocusAnswer, QueryError> {
    let LargestFirst { stacks, columns, .. } = LargestFirst::of(query, options, work)?;
    let (mut callers, mut callees) = (FrameTree::new(function), FrameTree::new(function));
    let trie = CallTrie::of(query)?;
    let catalog = query.history.catalog();
    // Each tree numbers the names on its own. Only one side at a time names sites.
    let focused = trie.labels.iter().position(|label| label == function);
    let is_focus = |frame: &FrameId| focused == Some(trie.label_of(*frame) as usize);
    for is_callees in [false, true] {
        let mut sites = TreeStacks::new(catalog, &trie, options);
        for (stack, amount) in &stacks {
            work.go_on()?;
            let frames = sites.frames_of(*stack);
            let weighed = weighed(amount, options);
            if frames.is_empty() && function == UNKNOWN {
                if is_callees {
                    callees.end(0, weighed)
                } else {
                    callers.end(0, weighed)
                };
            }
            // In a recursive function, everything that it led to is below its outermost call.
            let Some(at) = frames.iter().rposition(is_focus) else { continue };
            let passing = sites.passing(*stack);
            let first = sites.skipped(passing);
            if is_callees {
                let call = sites.library_call(&mut callees, *stack, passing);
                let inside = frames[first.min(at)..at].iter().rev().copied();
                sites.add_list(&mut callees, inside, call, weighed);
            } else {
                sites.add_list(&mut callers, frames[first.max(at + 1)..].iter().copied(), None, weighed);
            }
        }
    }
    callees.add_library_calls(options);
    let least = options.least_share;
    Ok(FocusAnswer { callers: callers.answer(least, columns), callees: callees.answer(least, columns) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_tree::MOST_SHOWN;
    use highwater_model::{Catalog, FrameText, Naming};

    fn function(name: &str) -> FrameText<'_> {
        FrameText { function: name, ..FrameText::default() }
    }

    /// The tree of stacks, which are innermost first, with their bytes.
    fn tree_of(stacks: &[(Vec<FrameText<'_>>, u64)], options: &TreeOptions) -> TreeAnswer {
        let mut catalog = Catalog::default();
        let mut stacks: Vec<(StackId, u64)> =
            stacks.iter().map(|(frames, bytes)| (catalog.intern_stack(frames), *bytes)).collect();
        stacks.sort_by_key(|(stack, bytes)| (std::cmp::Reverse(*bytes), *stack));
        let weighed = |(stack, bytes): &(StackId, u64)| {
            (*stack, Weighed { value: ByteSum::whole(*bytes), blocks: 1, samples: 1, sides: [ByteSum::ZERO; 2] })
        };
        let trie = CallTrie::new(&catalog, &Naming::default());
        let mut sites = TreeStacks::new(&catalog, &trie, options);
        let mut tree = FrameTree::new("all");
        match options.is_inverted {
            true => sites.add_up(&mut tree, stacks.iter().map(weighed), &Work::quiet()).unwrap(),
            false => {
                stacks.iter().map(weighed).for_each(|(stack, weighed)| sites.add_down(&mut tree, stack, weighed));
                tree.add_library_calls(options);
            }
        }
        tree.answer(options.least_share, TreeColumns::Plain)
    }

    #[test]
    fn the_largest_nodes_are_shown_where_there_are_too_many() {
        let options = TreeOptions { with_library: true, ..TreeOptions::default() };
        let deep = vec![function("recurse"); 1000];
        let names: Vec<String> = (0..250).map(|count| format!("root {count}")).collect();
        let stack = |name| ([&deep[..], &[function(name)]].concat(), if name == "root 249" { 5 } else { 1 });
        let stacks: Vec<_> = names.iter().map(|name| stack(name.as_str())).collect();
        let shown = tree_of(&stacks, &options);
        assert_eq!(shown.node_value.len(), MOST_SHOWN);
        assert_eq!(shown.node_value[1], 5, "the largest comes first");
        // The root, five chains' worth of one stack, 198 chains, and 800 nodes of another one: its rest and the other 50 are left out.
        assert_eq!(shown.left_out, LeftOutNodes { nodes: 51, value: 51 });
    }

    #[test]
    fn lines_are_nodes_of_their_own_if_they_are_split() {
        let at = |line: u32| FrameText { function: "main", file: "main.cpp", line, ..FrameText::default() };
        let stack = |line| vec![function("malloc"), function("std::make_shared<int>()"), function("make"), at(line)];
        // Of two stacks of one line, the inner calls differ.
        let other = vec![function("calloc"), function("std::make_shared<int>()"), function("make"), at(21)];
        let stacks = [(stack(21), 5), (stack(24), 2), (other, 1)];
        let shown = |splits_lines: bool| tree_of(&stacks, &TreeOptions { splits_lines, ..TreeOptions::default() });
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
        let stack = ["c", "b", "c", "a", "b", "a", "main"].map(function).to_vec();
        let shown = tree_of(&[(stack, 7)], &options);
        // After merging, calls below b belong to a: the stack returns to a, and then goes to c.
        let names: Vec<&str> = shown.node_name.iter().map(|at| shown.names[*at as usize].as_str()).collect();
        assert_eq!(names, ["all", "main", "a", "c"]);
        assert_eq!(shown.node_self[3], 7);
    }

    /// A tree that is made without any sharing: the value of each path of names.
    fn naive(stacks: &[(Vec<FrameText<'_>>, u64)], is_inverted: bool) -> std::collections::BTreeMap<Vec<String>, u64> {
        let mut values = std::collections::BTreeMap::new();
        for (frames, bytes) in stacks {
            let passing = Naming::default().passing_frames(frames);
            let shown = frames[passing..].iter().filter(|frame| !Naming::default().is_background(frame));
            let mut names: Vec<String> = shown.map(|frame| frame.function.to_owned()).collect();
            if !is_inverted {
                names.reverse();
            }
            for depth in 0..=names.len() {
                *values.entry(names[..depth].to_vec()).or_default() += bytes;
            }
        }
        values
    }

    #[test]
    fn nodes_have_the_values_of_all_stacks_that_go_through_them_in_both_directions() {
        let passing = ["malloc", "xmalloc", "std::vector<int>::push_back(int&&)"];
        let own = ["parse", "walk", "load", "std::vector<int>::push_back(int&&)", "parse"];
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let stacks: Vec<(Vec<FrameText<'_>>, u64)> = (0..400)
            .map(|_| {
                let (inner, outer) = (next(3), next(7));
                let mut frames: Vec<FrameText<'_>> = (0..inner).map(|_| function(passing[next(3) as usize])).collect();
                frames.extend((0..outer).map(|_| function(own[next(5) as usize])));
                frames.push(function("main"));
                (frames, 1 + next(50))
            })
            .collect();
        for is_inverted in [false, true] {
            let expected = naive(&stacks, is_inverted);
            for least_share in [0.0, 0.01] {
                let options = TreeOptions { is_inverted, least_share, ..TreeOptions::default() };
                let shown = tree_of(&stacks, &options);
                let bound = (shown.total as f64 * least_share).ceil() as u64;
                let mut path: Vec<String> = Vec::new();
                let mut found = 0;
                for node in 0..shown.node_name.len() {
                    path.truncate((shown.node_depth[node] as usize).saturating_sub(1));
                    if shown.library_calls.contains(&(node as u32)) {
                        continue;
                    }
                    if node > 0 {
                        path.push(shown.names[shown.node_name[node] as usize].clone());
                    }
                    assert_eq!(Some(&shown.node_value[node]), expected.get(&path), "{path:?}");
                    found += 1;
                }
                assert_eq!(found, expected.values().filter(|value| **value >= bound).count(), "{least_share}");
            }
        }
    }
}
