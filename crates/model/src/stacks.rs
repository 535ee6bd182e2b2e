//! Frames and call stacks.
//!
//! Stacks form a trie: a node is (parent, frame), the root is [`StackId::UNKNOWN`]. Stacks of one program share most of
//! their outer frames, so a new stack costs only its new inner nodes, and there is no depth limit. A parent always has a
//! smaller number than its child; walking towards the root therefore ends, whatever a file claims.

use crate::ids::{FrameId, StackId, StringId};
use rustc_hash::FxHashMap;

/// One line of a call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The code address, 0 where the source has none.
    pub address: u64,
    /// The function's name.
    pub function: StringId,
    /// The source file.
    pub file: StringId,
    /// The source line, 0 where not known.
    pub line: u32,
    /// One more than the index of the module in the catalog, 0 where not known.
    pub module: u32,
    /// True when the function was inlined into the next outer frame.
    pub inlined: bool,
}

/// A loaded executable or library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Module {
    /// Its path or name.
    pub path: StringId,
    /// Its build id in lower-case hex.
    pub build_id: StringId,
    /// First address of its mapping.
    pub start: u64,
    /// End of its mapping, exclusive.
    pub end: u64,
    /// Offset of the mapping in the module's file.
    pub file_offset: u64,
}

/// A node of the trie: one call, reached through `parent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// The caller's stack.
    pub parent: StackId,
    /// The frame at this node.
    pub frame: FrameId,
}

/// The interned frames and stacks. Append-only.
#[derive(Clone, Debug)]
pub struct StackTable {
    frames: Vec<Frame>,
    frame_ids: FxHashMap<Frame, FrameId>,
    nodes: Vec<StackNode>,
    node_ids: FxHashMap<StackNode, StackId>,
}

impl Default for StackTable {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            frame_ids: FxHashMap::default(),
            nodes: vec![StackNode::default()],
            node_ids: FxHashMap::default(),
        }
    }
}

impl StackTable {
    /// The id of a frame, made if it is new.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        if let Some(&id) = self.frame_ids.get(&frame) {
            return id;
        }
        let id = self.push_frame(frame);
        self.frame_ids.insert(frame, id);
        id
    }

    /// Appends a frame under the next id.
    pub fn push_frame(&mut self, frame: Frame) -> FrameId {
        self.frames.push(frame);
        FrameId((self.frames.len() - 1) as u32)
    }

    /// The stack that is `parent` with one more, inner, frame.
    pub fn intern_child(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        if let Some(&id) = self.node_ids.get(&node) {
            return id;
        }
        let id = StackId(self.nodes.len() as u32);
        self.nodes.push(node);
        self.node_ids.insert(node, id);
        id
    }

    /// Appends a node under the next id. False, and nothing done, when its parent does not come before it or its frame
    /// is neither known nor [lost](FrameId::LOST).
    pub fn push_node(&mut self, node: StackNode) -> bool {
        let has_frame = node.frame == FrameId::LOST || (node.frame.0 as usize) < self.frames.len();
        let sound = (node.parent.0 as usize) < self.nodes.len() && has_frame;
        if sound {
            self.nodes.push(node);
        }
        sound
    }

    /// A frame by its id.
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.0 as usize)
    }

    /// The frames of a stack, innermost first.
    pub fn frames_of(&self, stack: StackId) -> impl Iterator<Item = &Frame> {
        let mut at = stack;
        std::iter::from_fn(move || {
            if at == StackId::UNKNOWN {
                return None;
            }
            let node = self.nodes.get(at.0 as usize)?;
            at = node.parent;
            self.frames.get(node.frame.0 as usize)
        })
    }

    /// All frames, by id.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// All nodes, by id; the first is the root.
    pub fn nodes(&self) -> &[StackNode] {
        &self.nodes
    }
}
