//! The tree of a detailed snapshot.

use crate::valgrind_frame::ValgrindFrame;
use highwater_model::{Catalog, StackId};

/// A node whose children are being read.
struct OpenNode {
    bytes: u64,
    /// The bytes of the children that were read.
    of_children: u64,
    missing_children: u64,
}

/// A tree, line by line.
#[derive(Default)]
pub(super) struct Tree {
    /// The nodes from the root to the last line.
    open: Vec<OpenNode>,
    /// The frames of these nodes. The root has none: it stands for all allocation functions.
    innermost_first: Vec<ValgrindFrame>,
    has_root: bool,
    sites: Vec<(StackId, u64)>,
}

impl Tree {
    /// Reads a line.
    pub(super) fn take(&mut self, line: &str, catalog: &mut Catalog) -> Result<(), &'static str> {
        let text = line.trim_start_matches(' ');
        let depth = line.len() - text.len();
        let (children, rest) =
            text.strip_prefix('n').and_then(|text| text.split_once(": ")).ok_or("a node is expected")?;
        let (bytes, frame) = rest.split_once(' ').ok_or("a frame is expected after the bytes of a node")?;
        let missing_children = children.parse().map_err(|_| "a number of children is expected")?;
        let bytes = bytes.parse().map_err(|_| "the bytes of a node are expected")?;
        if depth != self.open.len() || (depth == 0 && self.has_root) {
            return Err("the node is not where the numbers of children say");
        }
        if depth > 0 {
            self.innermost_first.push(ValgrindFrame::intern(catalog, frame));
        }
        self.has_root = true;
        self.open.push(OpenNode { bytes, of_children: 0, missing_children });
        while self.open.last().is_some_and(|node| node.missing_children == 0) {
            self.close(catalog);
        }
        Ok(())
    }

    /// Ends the innermost open node. What its children do not have is its own.
    fn close(&mut self, catalog: &mut Catalog) {
        let Some(node) = self.open.pop() else { return };
        let own = node.bytes.saturating_sub(node.of_children);
        if own > 0 {
            let stack = ValgrindFrame::intern_stack(catalog, &self.innermost_first);
            self.sites.push((stack, own));
        }
        self.innermost_first.pop();
        if let Some(parent) = self.open.last_mut() {
            parent.of_children = parent.of_children.saturating_add(node.bytes.max(node.of_children));
            parent.missing_children = parent.missing_children.saturating_sub(1);
        }
    }

    /// False if nodes are missing.
    pub(super) fn is_complete(&self) -> bool {
        self.has_root && self.open.is_empty()
    }

    /// The bytes of all sites. Nodes whose children are missing are sites.
    pub(super) fn finish(mut self, catalog: &mut Catalog) -> Vec<(StackId, u64)> {
        while !self.open.is_empty() {
            self.close(catalog);
        }
        self.sites
    }
}
