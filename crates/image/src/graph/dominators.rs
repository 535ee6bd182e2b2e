//! Dominators: the dominator of an object is the nearest object that is on every path to it from the roots. If an object were freed, all objects that it
//! dominates would be.
//!
//! Semidominators by Lengauer and Tarjan, then the nearest common ancestor in the tree (semi-NCA). That last step could take long on hostile graphs; jump
//! pointers bound it, so the whole takes O(edges · log objects).

use super::order::SearchOrder;
use crate::large::zeros;

const NONE: u32 = u32::MAX;

/// The immediate dominator of each number. The parents and edges of `order` are consumed.
pub fn dominators(order: &mut SearchOrder) -> Vec<u32> {
    let edges = std::mem::take(&mut order.edges);
    let mut dominators = std::mem::take(&mut order.parent);
    let inner = order.inner as usize + 1;
    let (edges, leaf_edges): (Vec<_>, Vec<_>) = edges.into_iter().partition(|(to, _)| *to <= order.inner);
    let semi = semidominators(&dominators, inner, edges);
    let tree = nearest(&mut dominators, inner, &semi);
    drop(semi);
    for (leaf, from) in leaf_edges {
        let known = dominators[leaf as usize];
        dominators[leaf as usize] = tree.common(&dominators, known, from);
    }
    dominators
}

/// For each inner number, the lowest number from which a path leads to it through higher numbers only.
fn semidominators(parent: &[u32], inner: usize, mut edges: Vec<(u32, u32)>) -> Vec<u32> {
    // Until a number is linked, its entry in `ancestor` holds the first edge to it; the edges form lists.
    let mut ancestor: Vec<u32> = zeros(inner);
    ancestor.fill(NONE);
    for (at, edge) in edges.iter_mut().enumerate() {
        let head = &mut ancestor[edge.0 as usize];
        edge.0 = std::mem::replace(head, at as u32);
    }
    let mut semi: Vec<u32> = zeros(inner);
    let mut forest = Forest { ancestor, lowest: zeros(inner), stack: Vec::new() };
    for number in (1..inner).rev() {
        let mut lowest = parent[number];
        let mut edge = forest.ancestor[number];
        while let Some(&(next, from)) = edges.get(edge as usize) {
            let candidate = if (from as usize) < number { from } else { forest.lowest_above(from, number as u32 + 1) };
            lowest = lowest.min(candidate);
            edge = next;
        }
        semi[number] = lowest;
        forest.lowest[number] = lowest;
        forest.ancestor[number] = parent[number];
    }
    semi
}

/// The trees of linked numbers, with compressed paths.
struct Forest {
    ancestor: Vec<u32>,
    /// The lowest semidominator on the compressed path.
    lowest: Vec<u32>,
    stack: Vec<u32>,
}

impl Forest {
    /// The lowest semidominator from a number up to just below the root of its tree; numbers from `linked` on are linked.
    fn lowest_above(&mut self, number: u32, linked: u32) -> u32 {
        let mut at = number;
        self.stack.clear();
        while self.ancestor[at as usize] >= linked {
            self.stack.push(at);
            at = self.ancestor[at as usize];
        }
        let top = self.ancestor[at as usize];
        let mut lowest = self.lowest[at as usize];
        while let Some(below) = self.stack.pop() {
            lowest = lowest.min(self.lowest[below as usize]);
            self.lowest[below as usize] = lowest;
            self.ancestor[below as usize] = top;
        }
        lowest
    }
}

/// The dominator tree with jump pointers, by which an ancestor is found in few steps.
struct Jumps {
    depth: Vec<u32>,
    jump: Vec<u32>,
}

/// Turns parents into dominators.
fn nearest(parent: &mut [u32], inner: usize, semi: &[u32]) -> Jumps {
    let mut tree = Jumps { depth: zeros(inner), jump: zeros(inner) };
    for number in 1..inner {
        let mut above = parent[number];
        while above > semi[number] {
            let far = tree.jump[above as usize];
            above = if far > semi[number] { far } else { parent[above as usize] };
        }
        parent[number] = above;
        tree.add(number, above);
    }
    tree
}

impl Jumps {
    fn add(&mut self, number: usize, above: u32) {
        let above = above as usize;
        let far = self.jump[above] as usize;
        self.depth[number] = self.depth[above] + 1;
        let same = self.depth[above] - self.depth[far] == self.depth[far] - self.depth[self.jump[far] as usize];
        self.jump[number] = if same { self.jump[far] } else { above as u32 };
    }

    /// The nearest number that dominates both.
    fn common(&self, dominators: &[u32], one: u32, other: u32) -> u32 {
        let (mut low, mut high) =
            if self.depth[one as usize] < self.depth[other as usize] { (other, one) } else { (one, other) };
        let depth = self.depth[high as usize];
        while self.depth[low as usize] > depth {
            let far = self.jump[low as usize];
            low = if self.depth[far as usize] >= depth { far } else { dominators[low as usize] };
        }
        // Both are at the same depth, so their jumps are at the same depth, too.
        while low != high {
            let far = (self.jump[low as usize], self.jump[high as usize]);
            (low, high) = if far.0 != far.1 { far } else { (dominators[low as usize], dominators[high as usize]) };
        }
        low
    }
}
