//! Adds the stacks of one catalog to a tree of frames.
//!
//! From `main` to the allocations, the trie of the catalog's stacks has nearly the form of the tree, so each of its nodes is looked up once, however many
//! stacks go through it. In the other direction stacks share nothing. There the largest frames are followed, and no others: what is too small to be shown is
//! not divided further.

use crate::call_trie::{CallTrie, NamedSites};
use crate::error::QueryError;
use crate::frame_tree::{FrameTree, LibraryCall, Weighed, least_value};
use crate::names::UNKNOWN;
use crate::stacks::MOST_FRAMES;
use crate::tree::TreeOptions;
use highwater_model::{ByteSum, Catalog, FrameId, StackId, StringId};
use highwater_store::history::Work;
use rustc_hash::FxHashMap;
use std::sync::MutexGuard;

/// The number of a name that the tree does not have yet.
const NO_NUMBER: u32 = u32::MAX;
/// The tree node of a stack that was not asked for yet.
const NO_NODE: u32 = u32::MAX;
/// Set in the number of a node below which the tree had no room.
const ENDED: u32 = 1 << 31;

/// The stacks of one catalog on their way into a tree.
pub struct TreeStacks<'a> {
    catalog: &'a Catalog,
    trie: &'a CallTrie,
    sites: MutexGuard<'a, NamedSites>,
    options: &'a TreeOptions,
    /// By label: whether it is hidden, and its number in the tree.
    labels: Vec<(bool, u32)>,
    files: FxHashMap<StringId, u32>,
    /// By stack: its node in the tree.
    nodes: Vec<u32>,
}

/// A stack that is followed from its innermost frame.
struct FollowedStack {
    node: StackId,
    /// The index among the frames that the node stands for.
    at: u32,
    /// How many more frames are looked at.
    left: u32,
    weighed: Weighed,
}

impl<'a> TreeStacks<'a> {
    /// No stacks yet.
    pub fn new(catalog: &'a Catalog, trie: &'a CallTrie, options: &'a TreeOptions) -> Self {
        let labels = trie.labels.iter().map(|label| (options.hidden.contains(label), NO_NUMBER)).collect();
        let nodes = vec![NO_NODE; catalog.stacks.nodes().len()];
        Self { catalog, trie, sites: trie.sites(), options, labels, files: FxHashMap::default(), nodes }
    }

    /// Adds a stack from `main` to the allocation.
    pub fn add_down(&mut self, tree: &mut FrameTree, stack: StackId, weighed: Weighed) {
        let (depth, passing) = (self.trie.depth(stack), self.passing(stack));
        let call = self.library_call(tree, stack, passing);
        if depth == 0 {
            let node = self.unknown(tree);
            return tree.end_with_call(node, call, weighed);
        }
        if depth > MOST_FRAMES || self.options.merges_recursion {
            let frames = self.frames_of(stack);
            let shown = self.skipped(passing);
            return self.add_list(tree, frames[shown..].iter().rev().copied(), call, weighed);
        }
        let (mut at, mut skipped) = (stack, self.skipped(passing));
        let node = loop {
            let Some(node) = self.catalog.stacks.nodes().get(at.0 as usize).filter(|_| at != StackId::UNKNOWN) else {
                break 0;
            };
            let frames = self.catalog.stacks.frame_ids(node.frame);
            if skipped == 0 {
                break self.node_of(tree, at);
            }
            if skipped >= frames.len() {
                skipped -= frames.len();
                at = node.parent;
                continue;
            }
            let above = self.node_of(tree, node.parent);
            break frames.skip(skipped).rev().fold(above, |above, frame| self.below(tree, above, FrameId(frame)));
        };
        tree.end_with_call(node & !ENDED, call, weighed);
    }

    /// Adds frames; the first one is nearest to the root.
    pub fn add_list(
        &mut self,
        tree: &mut FrameTree,
        frames: impl Iterator<Item = FrameId>,
        call: LibraryCall,
        weighed: Weighed,
    ) {
        let mut path: Vec<u32> = vec![0];
        // Where recursion is merged: the index of each name in the path.
        let mut indexes: FxHashMap<u32, usize> = FxHashMap::default();
        for frame in frames.filter(|frame| self.is_shown(*frame)).collect::<Vec<_>>() {
            let above = *path.last().unwrap_or(&0);
            if self.options.merges_recursion
                && let Some(at) = indexes.get(&self.name(tree, frame)).copied()
            {
                for node in path.drain(at + 1..) {
                    indexes.remove(&tree.name_of(node));
                }
                continue;
            }
            let node = self.below(tree, above, frame);
            if node & ENDED != 0 {
                break;
            }
            indexes.insert(tree.name_of(node), path.len());
            path.push(node);
        }
        tree.end_with_call(*path.last().unwrap_or(&0), call, weighed);
    }

    /// Adds stacks from the allocation to `main`, the largest first.
    pub fn add_up(
        &mut self,
        tree: &mut FrameTree,
        stacks: impl Iterator<Item = (StackId, Weighed)>,
        work: &Work<'_>,
    ) -> Result<(), QueryError> {
        let (mut followed, mut total) = (Vec::new(), ByteSum::ZERO);
        for (stack, weighed) in stacks {
            total += weighed.value;
            let skipped = self.passing(stack);
            let skipped = self.skipped(skipped);
            if self.trie.depth(stack) == 0 {
                let node = self.unknown(tree);
                tree.end(node, weighed);
            } else if self.options.merges_recursion {
                let frames = self.frames_of(stack);
                self.add_list(tree, frames[skipped..].iter().copied(), None, weighed);
            } else {
                let mut stack = FollowedStack { node: stack, at: 0, left: MOST_FRAMES as u32, weighed };
                for _ in 0..skipped {
                    self.next_frame(&mut stack);
                }
                followed.push(stack);
            }
        }
        let bound = least_value(total.rounded(), self.options.least_share);
        let mut waiting = vec![(0, followed)];
        while let Some((node, stacks)) = waiting.pop() {
            work.go_on()?;
            let mut below: Vec<(u32, ByteSum, Vec<FollowedStack>)> = Vec::new();
            let mut indexes: FxHashMap<u32, usize> = FxHashMap::default();
            for mut stack in stacks {
                let frame = loop {
                    match self.next_frame(&mut stack) {
                        Some(frame) if !self.is_shown(frame) => {}
                        other => break other,
                    }
                };
                let child = frame.map(|frame| self.below(tree, node, frame)).filter(|child| child & ENDED == 0);
                let Some(child) = child else {
                    tree.end(node, stack.weighed);
                    continue;
                };
                let at = *indexes.entry(child).or_insert_with(|| {
                    below.push((child, ByteSum::ZERO, Vec::new()));
                    below.len() - 1
                });
                below[at].1 += stack.weighed.value;
                below[at].2.push(stack);
            }
            for (child, value, stacks) in below {
                match value.rounded() >= bound {
                    true => waiting.push((child, stacks)),
                    false => stacks.iter().for_each(|stack| tree.end(child, stack.weighed)),
                }
            }
        }
        Ok(())
    }

    /// The innermost frames of a stack.
    pub fn frames_of(&self, stack: StackId) -> Vec<FrameId> {
        self.catalog.stacks.frame_ids_of(stack).take(MOST_FRAMES).collect()
    }

    /// The hidden call of the innermost shown frame: what the language's library, or a wrapper, was asked for.
    pub fn library_call(&mut self, tree: &mut FrameTree, stack: StackId, passing: usize) -> LibraryCall {
        if self.options.with_library {
            return None;
        }
        let mut frames = self.catalog.stacks.frame_ids_of(stack);
        let call = frames.nth(passing.checked_sub(1)?)?;
        let is_named_by_first = frames.next().is_some_and(|own| self.is_shown(own));
        (is_named_by_first && !self.labels[self.trie.label_of(call) as usize].0).then(|| self.key(tree, call))
    }

    /// How many frames of a stack only pass memory on.
    pub fn passing(&mut self, stack: StackId) -> usize {
        self.trie.passing(&mut self.sites, self.catalog, stack)
    }

    /// How many of the innermost frames are hidden because they pass memory on.
    pub fn skipped(&self, passing: usize) -> usize {
        if self.options.with_library { 0 } else { passing }
    }

    /// Whether a frame that does not only pass memory on is shown.
    fn is_shown(&self, frame: FrameId) -> bool {
        let is_hidden = self.labels[self.trie.label_of(frame) as usize].0;
        !is_hidden && (self.options.with_library || !self.trie.is_background(frame))
    }

    /// The next frame of a stack that is followed.
    fn next_frame(&self, stack: &mut FollowedStack) -> Option<FrameId> {
        while stack.left > 0 && stack.node != StackId::UNKNOWN {
            let node = self.catalog.stacks.nodes().get(stack.node.0 as usize)?;
            let frames = self.catalog.stacks.frame_ids(node.frame);
            if frames.is_empty() {
                return None;
            }
            if let Some(frame) = frames.clone().nth(stack.at as usize) {
                stack.at += 1;
                stack.left -= 1;
                return Some(FrameId(frame));
            }
            (stack.node, stack.at) = (node.parent, 0);
        }
        None
    }

    /// The node of a stack whose frames are all shown, unless they are in the background.
    fn node_of(&mut self, tree: &mut FrameTree, stack: StackId) -> u32 {
        let (mut at, mut path, mut found) = (stack, Vec::new(), 0);
        while let Some(node) = self.catalog.stacks.nodes().get(at.0 as usize).filter(|_| at != StackId::UNKNOWN) {
            let known = self.nodes[at.0 as usize];
            if known != NO_NODE {
                found = known;
                break;
            }
            // A stack ends where a frame was lost.
            if self.catalog.stacks.frame(node.frame).is_none() {
                break;
            }
            path.push((at, node.frame));
            at = node.parent;
        }
        for (at, frame) in path.into_iter().rev() {
            for frame in self.catalog.stacks.frame_ids(frame).rev() {
                found = self.below(tree, found, FrameId(frame));
            }
            self.nodes[at.0 as usize] = found;
        }
        found
    }

    /// The node of a frame below another node; that node itself if the frame is not shown.
    fn below(&mut self, tree: &mut FrameTree, above: u32, frame: FrameId) -> u32 {
        if above & ENDED != 0 || !self.is_shown(frame) {
            return above;
        }
        let key = self.key(tree, frame);
        tree.child(above, key, self.options.splits_lines).unwrap_or(above | ENDED)
    }

    fn unknown(&mut self, tree: &mut FrameTree) -> u32 {
        if self.options.hidden.contains(UNKNOWN) {
            return 0;
        }
        let name = tree.name(UNKNOWN);
        tree.child(0, (name, 0, 0), self.options.splits_lines).unwrap_or(0)
    }

    fn name(&mut self, tree: &mut FrameTree, frame: FrameId) -> u32 {
        let label = self.trie.label_of(frame) as usize;
        let number = &mut self.labels[label].1;
        if *number == NO_NUMBER {
            *number = tree.name(&self.trie.labels[label]);
        }
        *number
    }

    /// The name, the file and the line of a frame.
    fn key(&mut self, tree: &mut FrameTree, frame: FrameId) -> (u32, u32, u32) {
        let name = self.name(tree, frame);
        let Some(frame) = self.catalog.stacks.frame(frame) else { return (name, 0, 0) };
        let file = self.files.entry(frame.file);
        (name, *file.or_insert_with(|| tree.file(self.catalog.strings.get(frame.file))), frame.line)
    }
}
