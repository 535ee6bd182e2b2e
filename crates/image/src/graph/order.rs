//! The live objects in the order in which a depth-first search meets them.
//!
//! Numbers: 0 stands for all roots together, `1..=inner` are objects that refer to others, in the order in which they are met; from the last
//! number downwards those that refer to none. The latter are no node of any path, so the algorithm for dominators need not see them.

use crate::bitmap::{Bitmap, Ranked};
use crate::lens::Lens;
use crate::shapes::{ShapeId, Shapes};
use crate::survey::Units;

/// A size that is too large for its place: the object is asked.
const LARGE: u16 = u16::MAX;

/// See the module's text. Twelve bytes for each object, and eight for each edge that is in no tree.
pub struct Order {
    /// By number: where the object lies, in units.
    pub place: Vec<u32>,
    /// By number: the object by which it was met first.
    pub parent: Vec<u32>,
    /// By number: its shape.
    pub shape: Vec<ShapeId>,
    /// By number: its own size in units.
    size: Vec<u16>,
    /// How many refer to others.
    pub inner: u32,
    /// Edges besides those of the tree: to which, from which. Those to what a root refers to are left out, and repeated ones.
    pub edges: Vec<(u32, u32)>,
}

impl Order {
    /// Searches through all that is live.
    pub fn of<L: Lens>(lens: &L, found: &Bitmap, live: &Ranked, shapes: &mut Shapes) -> Self {
        let count = live.ones() as usize + 1;
        let mut search = Search {
            lens,
            found,
            live,
            shapes,
            index: Units::of(lens),
            numbers: vec![0; count - 1],
            slots: vec![0],
            next_leaf: count as u32 - 1,
            order: Self {
                place: vec![0; count],
                parent: vec![0; count],
                shape: vec![ShapeId(0); count],
                size: vec![0; count],
                inner: 0,
                edges: Vec::new(),
            },
        };
        search.run();
        search.order
    }

    /// How many numbers there are, that of the roots included.
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// An object's own size in units; 0 outside of the heap.
    #[inline]
    pub fn size<L: Lens>(&self, lens: &L, index: Units, number: u32) -> u32 {
        match self.size[number as usize] {
            LARGE => (lens.bytes(index.address(self.place[number as usize])) / L::UNIT) as u32,
            small => small.into(),
        }
    }
}

struct Search<'a, L: Lens> {
    lens: &'a L,
    found: &'a Bitmap,
    live: &'a Ranked,
    shapes: &'a mut Shapes,
    index: Units,
    /// Numbers by rank among the live, 0 for what was not met yet.
    numbers: Vec<u32>,
    /// By inner number: where the search goes on in that object.
    slots: Vec<u32>,
    next_leaf: u32,
    order: Order,
}

impl<L: Lens> Search<'_, L> {
    fn run(&mut self) {
        // What roots refer to is known to have no other dominator than them, so all edges to it can be left out. So roots are met first.
        let roots: Vec<u64> = self.lens.roots().iter().map(|root| root.object).collect();
        for &root in &roots {
            if let Some(rank) = self.rank(root)
                && self.numbers[rank] == 0
            {
                self.numbers[rank] = u32::MAX;
            }
        }
        for root in roots {
            if let Some(rank) = self.rank(root)
                && self.numbers[rank] == u32::MAX
            {
                let number = self.number(root, rank, 0);
                self.explore(number);
            }
        }
        if !L::IS_COLLECTED {
            self.explore_unreferred();
        }
    }

    /// Goes on with what nothing refers to: first what not even others of these do, then circles.
    fn explore_unreferred(&mut self) {
        let unmet: Vec<u64> = self.live.bits().ones().filter(|&unit| self.live.rank(unit).is_some_and(|rank| self.numbers[rank as usize] == 0)).collect();
        let mut referred = Bitmap::new(unmet.last().map_or(0, |last| last + 1));
        for &unit in &unmet {
            let object = self.index.address(unit as u32);
            let mut slot = 0;
            while let Some((target, next)) = self.lens.next_reference(object, slot, self.found) {
                slot = next;
                if target != object {
                    referred.set(self.index.unit(target));
                }
            }
        }
        for among_others in [false, true] {
            for &unit in unmet.iter().filter(|unit| referred.get(**unit) == among_others) {
                if let Some(rank) = self.live.rank(unit).map(|rank| rank as usize)
                    && self.numbers[rank] == 0
                {
                    let number = self.number(self.index.address(unit as u32), rank, 0);
                    self.explore(number);
                }
            }
        }
    }

    #[inline]
    fn rank(&self, object: u64) -> Option<usize> {
        if !self.lens.is_object(object, self.found) {
            return None;
        }
        self.live.rank(self.index.unit(object)).map(|rank| rank as usize)
    }

    /// Gives an object its number.
    #[inline]
    fn number(&mut self, object: u64, rank: usize, parent: u32) -> u32 {
        let is_inner = self.lens.next_reference(object, 0, self.found).is_some();
        let number = if is_inner {
            self.order.inner += 1;
            self.slots.push(0);
            self.order.inner
        } else {
            self.next_leaf -= 1;
            self.next_leaf + 1
        };
        self.numbers[rank] = number;
        let at = number as usize;
        self.order.place[at] = self.index.unit(object) as u32;
        self.order.parent[at] = parent;
        self.order.shape[at] = self.shapes.of(self.lens, object);
        if self.lens.is_in_heap(object) {
            self.order.size[at] = (self.lens.bytes(object) / L::UNIT).min(LARGE.into()) as u16;
        }
        number
    }

    /// Goes down from an object, without recursion: the way back is in the parents.
    fn explore(&mut self, start: u32) {
        if start > self.order.inner {
            return;
        }
        let mut at = start;
        loop {
            let object = self.index.address(self.order.place[at as usize]);
            let slot = self.slots[at as usize];
            match self.lens.next_reference(object, slot, self.found) {
                Some((target, next)) => {
                    self.slots[at as usize] = next;
                    if let Some(deeper) = self.meet(target, at) {
                        at = deeper;
                    }
                }
                None if at == start => return,
                None => at = self.order.parent[at as usize],
            }
        }
    }

    /// Takes note of an edge; gives the target if the search must go down there.
    #[inline]
    fn meet(&mut self, target: u64, from: u32) -> Option<u32> {
        let rank = self.rank(target)?;
        let number = self.numbers[rank];
        if number == 0 {
            let number = self.number(target, rank, from);
            return (number <= self.order.inner).then_some(number);
        }
        // A root that has yet to be met, or one whose parent all roots are.
        if number != u32::MAX {
            let parent = self.order.parent[number as usize];
            let edge = (number, from);
            if parent != 0 && parent != from && number != from && self.order.edges.last() != Some(&edge) {
                self.order.edges.push(edge);
            }
        }
        None
    }
}
