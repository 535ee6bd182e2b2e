//! Frames and call stacks.
//!
//! Stacks form a trie: a node is (parent, frame), the root is [`StackId::UNKNOWN`]. Stacks of one program share most of their outer frames, so a new
//! stack costs only its new inner nodes, and there is no depth limit. A parent always has a smaller number than its child, so walking towards the root
//! always ends, even in a forged file.
//!
//! A recorder of native programs knows only addresses. Their names are found later and kept as a *resolution*: it replaces a recorded frame by one or
//! more others whenever the frames of a stack are read. Resolutions are not resolved again, so a lookup always ends.

use crate::ids::{FrameId, Nanos, StackId, StringId};
use rustc_hash::FxHashMap;

/// One line of a call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The code address as recorded (the return address of a call), 0 if the source has none.
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
    /// The columns of the source line.
    pub columns: ColumnRange,
}

/// The columns of a source line, from the first to the one after the last; both 0 if not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnRange {
    /// The first column.
    pub start: u16,
    /// The column after the last.
    pub end: u16,
}

impl ColumnRange {
    /// True where they are known.
    pub fn are_known(self) -> bool {
        self != Self::default()
    }
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
    /// When it was loaded; 0 if it was loaded from the start.
    pub loaded: Nanos,
    /// When it was unloaded, if it was.
    pub unloaded: Option<Nanos>,
}

impl Module {
    /// The offset of an address in the module's file. A return address may equal the end of the module, if the last call does not return.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let is_inside = address != 0 && (self.start..=self.end).contains(&address);
        is_inside.then(|| (address - self.start).saturating_add(self.file_offset))
    }
}

/// The frames that a recorded frame stands for: `count` frames from `first` on, innermost first. If `count` is 0, the frame stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The frame as recorded.
    pub frame: FrameId,
    /// The first of its frames.
    pub first: FrameId,
    /// How many there are.
    pub count: u32,
}

impl Resolution {
    /// The most frames of one resolution: far more than compilers inline, and a bound on what a small file can claim.
    pub const MOST_FRAMES: usize = 256;
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
    resolutions: Vec<Resolution>,
    /// By frame: the first frame of its resolution, and the number of frames. Ends at the last resolved frame.
    resolved: Vec<(u32, u32)>,
}

impl Default for StackTable {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            frame_ids: FxHashMap::default(),
            nodes: vec![StackNode::default()],
            node_ids: FxHashMap::default(),
            resolutions: Vec::new(),
            resolved: Vec::new(),
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

    /// The stack `parent` with one more, inner, frame.
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

    /// Appends a node under the next id. Returns false, and changes nothing, if its parent does not come before it, or its frame is neither known nor
    /// [lost](FrameId::LOST).
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

    /// Sets the frames that a recorded frame stands for, innermost first; several if functions were inlined, at most [`Resolution::MOST_FRAMES`]. They
    /// are appended, and replace an earlier resolution of the frame; an empty list makes it stand for itself again. Returns false, and changes
    /// nothing, if there is no such frame.
    pub fn resolve(&mut self, frame: FrameId, into: &[Frame]) -> bool {
        if frame.0 as usize >= self.frames.len() {
            return false;
        }
        let into = &into[..into.len().min(Resolution::MOST_FRAMES)];
        let first = FrameId(self.frames.len() as u32);
        self.frames.extend_from_slice(into);
        self.push_resolution(Resolution { frame, first, count: into.len() as u32 })
    }

    /// Appends a resolution whose frames already exist. Returns false, and changes nothing, if one of them is not known, or there are too many.
    pub fn push_resolution(&mut self, resolution: Resolution) -> bool {
        let Resolution { frame, first, count } = resolution;
        let known = self.frames.len() as u64;
        let sound = u64::from(frame.0) < known
            && count as usize <= Resolution::MOST_FRAMES
            && u64::from(first.0) + u64::from(count) <= known;
        if sound {
            let index = frame.0 as usize;
            if index >= self.resolved.len() {
                self.resolved.resize(index + 1, (0, 0));
            }
            self.resolved[index] = (first.0, count);
            self.resolutions.push(resolution);
        }
        sound
    }

    /// All resolutions, in the order given; a later one replaces an earlier one of the same frame.
    pub fn resolutions(&self) -> &[Resolution] {
        &self.resolutions
    }

    /// True for a frame that stands for others.
    pub fn is_resolved(&self, frame: FrameId) -> bool {
        self.resolved.get(frame.0 as usize).is_some_and(|(_, count)| *count > 0)
    }

    /// The frames that a recorded frame stands for, by number, innermost first: its resolution, or itself.
    pub fn frame_ids(&self, frame: FrameId) -> std::ops::Range<u32> {
        match self.resolved.get(frame.0 as usize) {
            Some(&(first, count)) if count > 0 => first..first + count,
            _ if (frame.0 as usize) < self.frames.len() => frame.0..frame.0 + 1,
            _ => 0..0,
        }
    }

    /// The frames of a stack by number, innermost first, as they were [resolved](Self::resolve).
    pub fn frame_ids_of(&self, stack: StackId) -> impl Iterator<Item = FrameId> {
        self.recorded_frames_of(stack).flat_map(|frame| self.frame_ids(frame)).map(FrameId)
    }

    /// The frames of a stack as they were recorded, innermost first. A stack ends where a frame was lost.
    pub fn recorded_frames_of(&self, stack: StackId) -> impl Iterator<Item = FrameId> {
        let mut at = stack;
        std::iter::from_fn(move || {
            if at == StackId::UNKNOWN {
                return None;
            }
            let node = self.nodes.get(at.0 as usize)?;
            at = node.parent;
            ((node.frame.0 as usize) < self.frames.len()).then_some(node.frame)
        })
    }

    /// The frames of a stack, innermost first, as they were [resolved](Self::resolve).
    pub fn frames_of(&self, stack: StackId) -> impl Iterator<Item = &Frame> {
        self.frame_ids_of(stack).map(|frame| &self.frames[frame.0 as usize])
    }

    /// Sets the columns of a frame. A file reader uses this, because a file stores the columns after the frame. Returns false, and changes nothing, if
    /// there is no such frame.
    pub fn set_columns(&mut self, id: FrameId, columns: ColumnRange) -> bool {
        let frame = self.frames.get_mut(id.0 as usize);
        let is_known = frame.is_some();
        frame.into_iter().for_each(|frame| frame.columns = columns);
        is_known
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
