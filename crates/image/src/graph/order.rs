//! The live objects in the order in which a depth-first search finds them.
//!
//! Number 0 stands for all roots together. Numbers `1..=inner` are objects that refer to others, in the order in which they are found. Objects without
//! references get numbers from the last one downwards. They are inner nodes of no path, so the dominator algorithm need not see them.

use crate::bitmap::{Bitmap, RankedBitmap};
use crate::large::zeros;
use crate::lens::Lens;
use crate::path::{ObjectPath, PathStep, UNREFERRED};
use crate::paths::step_between;
use crate::shapes::{ShapeId, Shapes};
use crate::survey::{Largest, Survey, UnitIndex};

/// A size that does not fit: the size is read from the object.
const LARGE: u16 = u16::MAX;

/// The live objects in the order of a depth-first search, with its tree and all other edges. It takes twelve bytes for each object, and eight for each edge
/// that is not in the tree.
pub struct SearchOrder {
    /// By number: the object's offset in units.
    pub units: Vec<u32>,
    /// By number: the object from which the search reached it first.
    pub parent: Vec<u32>,
    /// By number: its shape. Empty if the lens has tables.
    pub shape: Vec<ShapeId>,
    /// By number: its own size in units. Empty if the lens has tables.
    size: Vec<u16>,
    /// The number of objects that refer to others.
    pub inner: u32,
    /// Edges that are not in the tree, as (to, from). Edges to an object that a root refers to are left out, and so are repeated ones.
    pub edges: Vec<(u32, u32)>,
}

impl SearchOrder {
    /// Searches all live objects.
    pub fn of<L: Lens>(lens: &L, survey: &Survey, shapes: &mut Shapes) -> (Self, Vec<(u32, ObjectPath)>) {
        let (found, live) = (&survey.found, &survey.live);
        let count = live.ones() as usize + 1;
        let mut search = DepthFirstSearch {
            lens,
            found,
            live,
            shapes,
            index: UnitIndex::of(lens),
            start: lens.span().start,
            numbers: zeros(count - 1),
            slots: Vec::new(),
            next_leaf: count as u32 - 1,
            order: Self {
                units: zeros(count),
                parent: zeros(count),
                shape: vec![ShapeId(0); if L::HAS_TABLES { 0 } else { count }],
                size: zeros(if L::HAS_TABLES { 0 } else { count }),
                inner: 0,
                edges: Vec::new(),
            },
        };
        search.run();
        let number = |largest: &Largest| search.rank(largest.object).map_or(0, |rank| search.numbers[rank]);
        let numbers: Vec<u32> = survey.largest.iter().map(number).collect();
        let DepthFirstSearch { order, numbers: by_rank, slots, .. } = search;
        drop((by_rank, slots));
        let path = |number: u32| (number, order.path_to(lens, found, number));
        let largest = numbers.into_iter().map(path).collect();
        (order, largest)
    }

    /// The path to an object in the tree of the search.
    fn path_to<L: Lens>(&self, lens: &L, found: &Bitmap, number: u32) -> ObjectPath {
        let index = UnitIndex::of(lens);
        let mut numbers = Vec::new();
        let mut at = number;
        while at != 0 {
            numbers.push(at);
            at = self.parent[at as usize];
        }
        let object = |number: u32| index.address(self.units[number as usize]);
        let first = numbers.last().map(|root| object(*root));
        let root = lens.roots().iter().find(|root| Some(root.object) == first);
        numbers.reverse();
        let root = root.map_or_else(|| UNREFERRED.to_owned(), |root| root.name.to_string());
        ObjectPath::through(root, &numbers, |from, to| {
            let (from, to) = (object(from), object(to));
            PathStep { object: to, text: step_between(lens, found, from, to) }
        })
    }

    /// The number of numbers, that of the roots included.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// An object's own size in units; 0 if it is outside of the heap.
    #[inline]
    pub fn size<L: Lens>(&self, lens: &L, index: UnitIndex, number: u32) -> u64 {
        match self.size.get(number as usize) {
            Some(&small) if small != LARGE => small.into(),
            _ => {
                let object = index.address(self.units[number as usize]);
                if lens.is_in_heap(object) { lens.bytes(object) / L::SIZE_UNIT } else { 0 }
            }
        }
    }

    /// An object's shape.
    #[inline]
    pub fn shape<L: Lens>(&self, lens: &L, index: UnitIndex, shapes: &mut Shapes, number: u32) -> ShapeId {
        match self.shape.get(number as usize) {
            Some(shape) => *shape,
            None => shapes.of(lens, index.address(self.units[number as usize])),
        }
    }
}

struct DepthFirstSearch<'a, L: Lens> {
    lens: &'a L,
    found: &'a Bitmap,
    live: &'a RankedBitmap,
    shapes: &'a mut Shapes,
    index: UnitIndex,
    start: u64,
    /// Numbers by rank among the live objects, 0 if not found yet.
    numbers: Vec<u32>,
    /// The slots at which the search continues in the objects above the current one.
    slots: Vec<u32>,
    next_leaf: u32,
    order: SearchOrder,
}

impl<L: Lens> DepthFirstSearch<'_, L> {
    fn run(&mut self) {
        // An object that a root refers to has no other dominator than the roots, so all edges to it can be left out. For this, the objects of all roots are
        // marked first.
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

    /// Continues with objects that cannot be reached from roots: first those that no other such object refers to, then cycles.
    fn explore_unreferred(&mut self) {
        let unmet: Vec<u64> = self
            .live
            .bits()
            .ones()
            .filter(|&unit| self.live.rank(unit).is_some_and(|rank| self.numbers[rank as usize] == 0))
            .collect();
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
        // Only objects are live, so the lens need not be asked.
        let is_aligned = object.is_multiple_of(L::UNIT) && object >= self.start;
        self.live.rank(self.index.unit(object)).filter(|_| is_aligned).map(|rank| rank as usize)
    }

    /// Gives an object its number.
    #[inline]
    fn number(&mut self, object: u64, rank: usize, parent: u32) -> u32 {
        let is_inner = self.lens.next_reference(object, 0, self.found).is_some();
        let number = if is_inner {
            self.order.inner += 1;
            self.order.inner
        } else {
            self.next_leaf -= 1;
            self.next_leaf + 1
        };
        self.numbers[rank] = number;
        let at = number as usize;
        self.order.units[at] = self.index.unit(object) as u32;
        self.order.parent[at] = parent;
        if L::HAS_TABLES {
            return number;
        }
        self.order.shape[at] = self.shapes.of(self.lens, object);
        if self.lens.is_in_heap(object) {
            self.order.size[at] = (self.lens.bytes(object) / L::SIZE_UNIT).min(LARGE.into()) as u16;
        }
        number
    }

    /// Searches down from an object, without recursion: the parents lead back.
    fn explore(&mut self, start: u32) {
        if start > self.order.inner {
            return;
        }
        let (mut at, mut slot) = (start, 0);
        loop {
            let object = self.index.address(self.order.units[at as usize]);
            let (lens, found) = (self.lens, self.found);
            let mut deeper = None;
            lens.scan(object, slot, found, |target, next| {
                deeper = self.meet(target, at).map(|number| (number, next));
                deeper.is_some()
            });
            match deeper {
                Some((number, next)) => {
                    self.slots.push(next);
                    (at, slot) = (number, 0);
                }
                None if at == start => return,
                None => {
                    slot = self.slots.pop().unwrap_or(u32::MAX);
                    at = self.order.parent[at as usize];
                }
            }
        }
    }

    /// Records an edge; returns the target if the search must go down there.
    #[inline]
    fn meet(&mut self, target: u64, from: u32) -> Option<u32> {
        let rank = self.rank(target)?;
        let number = self.numbers[rank];
        if number == 0 {
            let number = self.number(target, rank, from);
            return (number <= self.order.inner).then_some(number);
        }
        // Edges to the object of a root are left out: `u32::MAX` marks one that is not numbered yet, and the parent 0 stands for all roots.
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
