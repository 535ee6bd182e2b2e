//! The nodes and edges of a snapshot: an array for each field.

use super::meta::{EdgeKind, kind};
use super::strings::Strings;
use crate::bitmap::Bitmap;
use crate::dumps::DumpError;
use crate::large::room;
use crate::lens::Root;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The most nodes: the highest bit of a number says whether an edge retains.
pub const MOST_NODES: u64 = (1 << 31) - 1;
/// The most edges and strings.
pub const MOST_EDGES: u64 = u32::MAX as u64 - 1;
/// Set in the target of an edge that keeps nothing alive.
const IS_NOT_RETAINING: u32 = 1 << 31;
/// Set in a kind if the node is an element that is no longer part of its document.
const DETACHED: u8 = 1 << 7;
/// A size, or the name of an edge, that does not fit, and is kept apart.
const LARGE: u32 = u32::MAX;
/// Edge kinds take the upper three bits of a name.
const KIND_SHIFT: u32 = 29;
const LARGE_NAME: u32 = (1 << KIND_SHIFT) - 1;

/// The graph of a snapshot. A node takes 17 bytes, an edge 8.
pub struct V8Heap {
    kinds: Vec<u8>,
    names: Vec<u32>,
    ids: Vec<u32>,
    sizes: Vec<u32>,
    large_sizes: FxHashMap<u32, u64>,
    /// By node: its first edge. There is one entry more than nodes.
    first_edges: Vec<u32>,
    targets: Vec<u32>,
    /// By edge: its kind and its name or index.
    edge_names: Vec<u32>,
    large_names: FxHashMap<u32, u32>,
    /// By closure: the line and column at which it is defined, from 0 on; sorted.
    pub(super) locations: Vec<(u32, u32, u32)>,
    pub(super) strings: Strings,
    pub(super) roots: Vec<Root>,
    /// The nodes that retaining edges lead to from the roots.
    pub(super) reached: Bitmap,
}

impl V8Heap {
    /// A graph without nodes, with room for some.
    pub(super) fn with_room(nodes: usize, edges: usize) -> Self {
        Self {
            kinds: room(nodes),
            names: room(nodes),
            ids: room(nodes),
            sizes: room(nodes),
            large_sizes: FxHashMap::default(),
            first_edges: room(nodes + 1),
            targets: room(edges),
            edge_names: room(edges),
            large_names: FxHashMap::default(),
            locations: Vec::new(),
            strings: Strings::default(),
            roots: Vec::new(),
            reached: Bitmap::default(),
        }
    }

    /// Adds a node whose edges begin at `first_edge`.
    pub(super) fn add_node(&mut self, kind: u8, name: u32, id: u32, size: u64, first_edge: u32) {
        let node = self.kinds.len() as u32;
        self.kinds.push(kind);
        self.names.push(name);
        self.ids.push(id);
        let small = u32::try_from(size).unwrap_or(LARGE);
        if small == LARGE {
            self.large_sizes.insert(node, size);
        }
        self.sizes.push(small);
        self.first_edges.push(first_edge);
    }

    /// Ends the nodes: their edges end at `edges`.
    pub(super) fn end_nodes(&mut self, edges: u32) {
        self.first_edges.push(edges);
    }

    /// Adds an edge. Edges come in the order of the nodes that they are of.
    pub(super) fn add_edge(&mut self, kind: EdgeKind, name: u32, to: u32) {
        let edge = self.targets.len() as u32;
        // Weak edges retain nothing, and shortcuts only at the root, which is the first node.
        let retains = match kind {
            EdgeKind::Weak => false,
            // The root is no object.
            _ if to == 0 => false,
            EdgeKind::Shortcut => self.first_edges.get(1).is_some_and(|end| edge < *end),
            _ => true,
        };
        self.targets.push(to | if retains { 0 } else { IS_NOT_RETAINING });
        let small = name.min(LARGE_NAME);
        if small == LARGE_NAME {
            self.large_names.insert(edge, name);
        }
        self.edge_names.push((kind as u32) << KIND_SHIFT | small);
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    /// The number of edges.
    pub(super) fn edge_count(&self) -> usize {
        self.targets.len()
    }

    #[inline]
    pub(super) fn kind_of(&self, node: u32) -> u8 {
        self.kinds.get(node as usize).map_or(kind::OTHER, |kind| kind & !DETACHED)
    }

    pub(super) fn is_detached(&self, node: u32) -> bool {
        self.kinds.get(node as usize).is_some_and(|kind| kind & DETACHED != 0)
    }

    pub(super) fn set_detached(&mut self, node: u32) {
        if let Some(kind) = self.kinds.get_mut(node as usize) {
            *kind |= DETACHED;
        }
    }

    #[inline]
    pub(super) fn name_of(&self, node: u32) -> u32 {
        self.names.get(node as usize).copied().unwrap_or(LARGE)
    }

    #[inline]
    pub(super) fn id_of(&self, node: u32) -> u32 {
        self.ids.get(node as usize).copied().unwrap_or(0)
    }

    /// The node with an id.
    pub(super) fn with_id(&self, id: u32) -> Option<u32> {
        self.ids.iter().position(|known| *known == id).map(|node| node as u32)
    }

    #[inline]
    pub(super) fn size_of(&self, node: u32) -> u64 {
        match self.sizes.get(node as usize) {
            Some(&LARGE) => self.large_sizes.get(&node).copied().unwrap_or(LARGE.into()),
            Some(&size) => size.into(),
            None => 0,
        }
    }

    /// The edges of a node.
    #[inline]
    pub(super) fn edges_of(&self, node: u32) -> Range<usize> {
        match self.first_edges.get(node as usize..).unwrap_or_default() {
            [first, end, ..] => *first as usize..*end as usize,
            _ => 0..0,
        }
    }

    /// The targets of the edges of a node, with a mark for those that do not retain; see [`retained`].
    #[inline]
    pub(super) fn targets_of(&self, node: u32) -> &[u32] {
        self.targets.get(self.edges_of(node)).unwrap_or_default()
    }

    /// The target of an edge, whether it retains or not.
    pub(super) fn target(&self, edge: usize) -> u32 {
        self.targets.get(edge).map_or(LARGE, |target| target & !IS_NOT_RETAINING)
    }

    /// The kind of an edge.
    pub(super) fn edge_kind(&self, edge: usize) -> EdgeKind {
        EdgeKind::of(self.edge_names.get(edge).map_or(u8::MAX, |name| (name >> KIND_SHIFT) as u8))
    }

    /// The name of an edge, as the number of a string, or its index.
    pub(super) fn edge_name(&self, edge: usize) -> u32 {
        match self.edge_names.get(edge).copied().unwrap_or(0) & LARGE_NAME {
            LARGE_NAME => self.large_names.get(&(edge as u32)).copied().unwrap_or(LARGE_NAME),
            small => small,
        }
    }

    /// Lets an edge keep nothing alive.
    pub(super) fn release(&mut self, edge: usize) {
        if let Some(target) = self.targets.get_mut(edge) {
            *target |= IS_NOT_RETAINING;
        }
    }

    /// The target of the first edge of a node with a kind and a name.
    pub(super) fn find_edge(&self, node: u32, kind: EdgeKind, name: &str) -> Option<u32> {
        let is_it =
            |edge: &usize| self.edge_kind(*edge) == kind && self.strings.raw(self.edge_name(*edge)) == name.as_bytes();
        self.edges_of(node).find(is_it).map(|edge| self.target(edge))
    }

    /// Gives back memory that is not needed any more, and fails if a name is that of no string.
    pub(super) fn finish(&mut self, offset: u64) -> Result<(), DumpError> {
        let strings = self.strings.len() as u64;
        let unknown = |number: u32| {
            DumpError::damaged(offset, format!("there are {strings} strings, and one is named by {number}"))
        };
        if let Some(name) = self.names.iter().find(|name| u64::from(**name) >= strings) {
            return Err(unknown(*name));
        }
        for (edge, name) in self.edge_names.iter().enumerate() {
            let number = name & LARGE_NAME;
            if u64::from(number) >= strings && !self.edge_kind(edge).is_numbered() {
                return Err(unknown(self.edge_name(edge)));
            }
        }
        self.strings.shrink();
        self.locations.sort_unstable();
        self.locations.shrink_to_fit();
        Ok(())
    }
}

/// The node that an edge with a target keeps alive, if it does.
#[inline]
pub fn retained(target: u32) -> Option<u32> {
    (target & IS_NOT_RETAINING == 0).then_some(target)
}
