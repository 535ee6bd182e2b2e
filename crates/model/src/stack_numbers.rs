//! Numbering the stacks of a catalog in a trie of the caller's own.
//!
//! Stacks of a deep recursion are long and share nearly everything: 3,000 sites of a recursion have 4.5 million frames in all, and 3,000 nodes. Code
//! that writes or compares stacks therefore maps each node of the catalog once, and stores numbers instead of lists of frames.

use crate::ids::{FrameId, StackId};
use crate::snapshot::grouped;
use crate::stacks::StackTable;
use rustc_hash::FxHashMap;
use std::fmt;

/// A trie of numbers: a node is a parent and a key, and has a number. Node 0 is the root; a parent has a smaller number than its children.
#[derive(Clone, Debug)]
pub struct Trie {
    nodes: Vec<(u32, u32)>,
    numbers: FxHashMap<(u32, u32), u32>,
    most: usize,
}

/// The stacks have more different calls than the limit. An address that stands for many inlined functions has a call for each, so a small file can
/// name more calls than fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyCalls {
    /// The limit.
    pub most: usize,
}

impl fmt::Display for TooManyCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the call stacks have more than {} different calls, which is the limit", grouped(self.most as u64))
    }
}

impl std::error::Error for TooManyCalls {}

impl Default for Trie {
    fn default() -> Self {
        Self::with_most(Self::MOST_CALLS)
    }
}

impl Trie {
    /// The default limit of nodes. Each takes some fifty bytes.
    pub const MOST_CALLS: usize = 1 << 24;

    /// A trie with only its root, and room for `most` other nodes.
    pub fn with_most(most: usize) -> Self {
        Self { nodes: vec![(0, 0)], numbers: FxHashMap::default(), most: most.min(u32::MAX as usize - 1) }
    }

    /// The node below `parent` with this key, made if it is new.
    pub fn child(&mut self, parent: u32, key: u32) -> Result<u32, TooManyCalls> {
        if let Some(&known) = self.numbers.get(&(parent, key)) {
            return Ok(known);
        }
        if self.nodes.len() > self.most {
            return Err(TooManyCalls { most: self.most });
        }
        let number = self.nodes.len() as u32;
        self.nodes.push((parent, key));
        self.numbers.insert((parent, key), number);
        Ok(number)
    }

    /// Parent and key of every node, by number; those of the root have no meaning.
    pub fn nodes(&self) -> &[(u32, u32)] {
        &self.nodes
    }
}

/// The numbers of a catalog's stacks in a trie of the caller's own, for the stacks requested so far.
#[derive(Clone, Debug, Default)]
pub struct StackNumbers {
    /// By stack; `NONE` if it was not requested yet.
    numbers: Vec<u32>,
    path: Vec<StackId>,
}

const NONE: u32 = u32::MAX;

impl StackNumbers {
    /// The number of a stack. `child` returns the number of a stack with one more, inner, frame, and is called once for each frame of each node; 0 is
    /// the unknown stack. Always pass the same table.
    pub fn number<E>(
        &mut self,
        stacks: &StackTable,
        stack: StackId,
        mut child: impl FnMut(u32, FrameId) -> Result<u32, E>,
    ) -> Result<u32, E> {
        if self.numbers.len() < stacks.nodes().len() {
            self.numbers.resize(stacks.nodes().len(), NONE);
        }
        self.path.clear();
        let (mut at, mut number) = (stack, 0);
        while at != StackId::UNKNOWN {
            let Some(node) = stacks.nodes().get(at.0 as usize) else { break };
            if self.numbers[at.0 as usize] != NONE {
                number = self.numbers[at.0 as usize];
                break;
            }
            // A stack ends where a frame was lost.
            if stacks.frame(node.frame).is_none() {
                break;
            }
            self.path.push(at);
            at = node.parent;
        }
        while let Some(at) = self.path.pop() {
            for frame in stacks.frame_ids(stacks.nodes()[at.0 as usize].frame).rev() {
                number = child(number, FrameId(frame))?;
            }
            self.numbers[at.0 as usize] = number;
        }
        Ok(number)
    }

    /// The number of a stack that was requested before; 0 for any other.
    pub fn known(&self, stack: StackId) -> u32 {
        self.numbers.get(stack.0 as usize).copied().filter(|number| *number != NONE).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::{Frame, StackNode};

    #[test]
    fn a_node_is_numbered_once_however_many_stacks_go_through_it() {
        let mut stacks = StackTable::default();
        let frame = stacks.intern_frame(Frame { line: 1, ..Frame::default() });
        let mut deep = vec![StackId::UNKNOWN];
        for _ in 0..1000 {
            deep.push(stacks.intern_child(deep[deep.len() - 1], frame));
        }
        let (mut trie, mut numbers, mut calls) = (Trie::default(), StackNumbers::default(), 0);
        for stack in deep.iter().rev() {
            let number = numbers.number(&stacks, *stack, |parent, frame| {
                calls += 1;
                trie.child(parent, frame.0)
            });
            assert_eq!(number, Ok(stack.0));
        }
        assert_eq!((calls, trie.nodes().len()), (1000, 1001));
        assert_eq!((numbers.known(deep[7]), numbers.known(StackId(5000))), (7, 0));
    }

    #[test]
    fn inlined_frames_are_nodes_and_a_lost_frame_ends_the_stack() {
        let mut stacks = StackTable::default();
        let [outer, inner] = [1, 2].map(|line| stacks.intern_frame(Frame { line, ..Frame::default() }));
        stacks.resolve(inner, &[Frame { line: 20, ..Frame::default() }, Frame { line: 21, ..Frame::default() }]);
        let main = stacks.intern_child(StackId::UNKNOWN, outer);
        let whole = stacks.intern_child(main, inner);
        assert!(stacks.push_node(StackNode { parent: main, frame: FrameId::LOST }));
        let after_lost = stacks.intern_child(StackId(3), inner);
        let lines = |stack| {
            let mut lines = Vec::new();
            let mut child = |parent: u32, frame: FrameId| {
                lines.push(stacks.frame(frame).unwrap().line);
                Ok::<_, ()>(parent + 1)
            };
            StackNumbers::default().number(&stacks, stack, &mut child).unwrap();
            lines
        };
        assert_eq!((lines(whole), lines(after_lost), lines(StackId(99))), (vec![1, 21, 20], vec![21, 20], vec![]));
    }

    #[test]
    fn a_trie_over_its_limit_is_an_error() {
        let mut trie = Trie::with_most(2);
        assert_eq!((trie.child(0, 5), trie.child(1, 5), trie.child(0, 5)), (Ok(1), Ok(2), Ok(1)));
        assert_eq!(trie.child(2, 5), Err(TooManyCalls { most: 2 }));
    }
}
