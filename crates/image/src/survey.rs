//! A walk through a heap, and what of it is live.

use crate::bitmap::{Bitmap, Ranked};
use crate::damage::Damages;
use crate::lens::Lens;
use crate::path::{Path, PathStep};

/// Units of a heap that can be numbered: 32 GiB of words of eight bytes.
const MOST_UNITS: u64 = u32::MAX as u64;
/// The parent of a root.
const NONE: u32 = u32::MAX;

/// Figures of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindFigures {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them are live.
    pub live_count: u64,
    /// The bytes of those.
    pub live_bytes: u64,
}

/// What a walk found.
pub struct Survey {
    /// By kind, as [`Lens::KINDS`] names them.
    pub kinds: Vec<KindFigures>,
    /// All bytes that were walked.
    pub walked_bytes: u64,
    /// What is wrong.
    pub damage: Damages,
    /// Live objects that lie outside of the heap, in static data.
    pub static_objects: u64,
    /// Objects that are in use although nothing refers to them: how many, and their bytes.
    pub leaked: (u64, u64),
    /// The largest live objects, with the shortest ways to them.
    pub largest: Vec<Largest>,
    pub(crate) found: Bitmap,
    pub(crate) live: Ranked,
    /// Those that nothing refers to, but that are in use.
    pub(crate) unreferred: Bitmap,
}

/// One of the largest objects.
#[derive(Clone, Debug)]
pub struct Largest {
    /// Where it is.
    pub object: u64,
    /// Its own bytes.
    pub bytes: u64,
    /// The way to it.
    pub path: Path,
}

/// From addresses to units and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    start: u64,
    unit: u64,
}

impl Units {
    pub fn of<L: Lens>(lens: &L) -> Self {
        Self { start: lens.span().start, unit: L::UNIT }
    }

    #[inline]
    pub fn address(self, unit: u32) -> u64 {
        self.start + u64::from(unit) * self.unit
    }

    #[inline]
    pub fn unit(self, address: u64) -> u64 {
        (address - self.start) / self.unit
    }
}

/// Goes through a heap, and finds out what is live; the `top` largest objects are kept.
pub fn survey<L: Lens>(lens: &L, top: usize) -> Survey {
    let span = lens.span();
    let mut damage = Damages::default();
    let mut units = (span.end - span.start) / L::UNIT;
    if units > MOST_UNITS {
        damage.note(span.start + MOST_UNITS * L::UNIT, (units - MOST_UNITS) * L::UNIT, "heaps are read up to this address");
        units = MOST_UNITS;
    }
    let mut kinds = vec![KindFigures::default(); L::KINDS.len()];
    let mut found = Bitmap::new(units);
    let mut walked_bytes = 0;
    let index = Units::of(lens);
    let visit = |stretch: crate::lens::Stretch| {
        let figures = &mut kinds[usize::from(stretch.kind)];
        figures.count += 1;
        figures.bytes += stretch.bytes;
        walked_bytes += stretch.bytes;
        if stretch.is_object {
            found.set(index.unit(stretch.at));
        }
    };
    lens.walk(visit, &mut damage);
    let mut reached = Reached::new(lens, &found, units, &mut damage);
    reached.follow(&mut |_| true);
    let referred = reached.queue.len();
    let unreferred = if L::IS_COLLECTED { Bitmap::default() } else { reached.add_unreferred(units) };
    let mut static_objects = 0;
    let mut leaked = (0, 0);
    let mut largest = Top::new(top);
    for (place, &unit) in reached.queue.iter().enumerate() {
        let object = index.address(unit);
        let bytes = reached_bytes(lens, object, &mut kinds, &mut static_objects);
        largest.offer(bytes, place as u32);
        if place >= referred {
            leaked = (leaked.0 + 1, leaked.1 + bytes);
        }
    }
    let name = |(bytes, place): (u64, u32)| Largest { object: index.address(reached.queue[place as usize]), bytes, path: reached.path(place) };
    let largest = largest.finish().into_iter().map(name).collect();
    let live = Ranked::new(std::mem::take(&mut reached.live));
    Survey { kinds, walked_bytes, damage, static_objects, leaked, largest, found, live, unreferred }
}

/// Adds a live object to its kind.
fn reached_bytes<L: Lens>(lens: &L, object: u64, kinds: &mut [KindFigures], outside: &mut u64) -> u64 {
    if !lens.is_in_heap(object) {
        *outside += 1;
        return 0;
    }
    let bytes = lens.bytes(object);
    let figures = &mut kinds[usize::from(lens.kind(object))];
    figures.live_count += 1;
    figures.live_bytes += bytes;
    bytes
}

/// What can be reached from the roots, in the order of distance.
pub(crate) struct Reached<'a, L: Lens> {
    lens: &'a L,
    found: &'a Bitmap,
    live: Bitmap,
    index: Units,
    damage: &'a mut Damages,
    /// Objects, nearest first.
    pub queue: Vec<u32>,
    /// Each one's predecessor in the queue.
    parents: Vec<u32>,
    /// Of those without a predecessor, which root they are.
    roots: Vec<u32>,
}

impl<'a, L: Lens> Reached<'a, L> {
    pub fn new(lens: &'a L, found: &'a Bitmap, units: u64, damage: &'a mut Damages) -> Self {
        let live = Bitmap::new(units);
        let index = Units::of(lens);
        Self { lens, found, live, index, damage, queue: Vec::new(), parents: Vec::new(), roots: Vec::new() }
    }

    /// Goes on until all was reached, or `wanted` says for an object that it is enough.
    pub fn follow(&mut self, go_on: &mut dyn FnMut(u64) -> bool) {
        for (number, root) in self.lens.roots().iter().enumerate() {
            if !self.lens.is_object(root.object, self.found) {
                self.damage.note(root.object, 0, format!("the root '{}' refers to no object, but", root.name));
            } else if self.live.set(self.index.unit(root.object)) {
                self.queue.push(self.index.unit(root.object) as u32);
                self.parents.push(NONE);
                self.roots.push(number as u32);
            }
        }
        let mut place = 0;
        while let Some(&unit) = self.queue.get(place) {
            let object = self.index.address(unit);
            if !go_on(object) {
                return;
            }
            self.reach_from(object, place as u32);
            place += 1;
        }
    }

    #[inline]
    fn reach_from(&mut self, object: u64, place: u32) {
        let mut slot = 0;
        while let Some((target, next)) = self.lens.next_reference(object, slot, self.found) {
            slot = next;
            if !self.lens.is_object(target, self.found) {
                let at = object + u64::from(next - 1) * L::UNIT;
                self.damage.note(at, 0, format!("a reference to {target:#x}, where no object is,"));
            } else if self.live.set(self.index.unit(target)) {
                self.queue.push(self.index.unit(target) as u32);
                self.parents.push(place);
            }
        }
    }

    /// Adds what was not reached; gives those.
    fn add_unreferred(&mut self, units: u64) -> Bitmap {
        let mut unreferred = Bitmap::new(units);
        for unit in self.found.ones() {
            if self.live.set(unit) {
                unreferred.set(unit);
                self.queue.push(unit as u32);
                self.parents.push(NONE);
            }
        }
        unreferred
    }

    /// The shortest way to what is at a place of the queue.
    pub fn path(&self, place: u32) -> Path {
        let mut places = vec![place];
        while let Some(&parent) = self.parents.get(places[places.len() - 1] as usize).filter(|parent| **parent != NONE) {
            places.push(parent);
        }
        places.reverse();
        let root = self.roots.get(places[0] as usize).and_then(|root| self.lens.roots().get(*root as usize));
        let object = |place: u32| self.index.address(self.queue[place as usize]);
        let mut path = Path::from_root(root.map_or_else(|| "(nothing refers to it)".to_owned(), |root| root.name.to_string()));
        for pair in places.windows(2) {
            let (from, to) = (object(pair[0]), object(pair[1]));
            path.push(|| PathStep { object: to, text: self.step_between(from, to) });
        }
        path
    }

    fn step_between(&self, from: u64, to: u64) -> String {
        let mut slot = 0;
        while let Some((target, next)) = self.lens.next_reference(from, slot, self.found) {
            if target == to {
                return self.lens.step(from, next - 1);
            }
            slot = next;
        }
        String::new()
    }
}

/// The largest of what is offered.
struct Top {
    limit: usize,
    kept: std::collections::BinaryHeap<std::cmp::Reverse<(u64, std::cmp::Reverse<u32>)>>,
}

impl Top {
    fn new(limit: usize) -> Self {
        Self { limit, kept: Default::default() }
    }

    #[inline]
    fn offer(&mut self, bytes: u64, place: u32) {
        let candidate = std::cmp::Reverse((bytes, std::cmp::Reverse(place)));
        if self.kept.len() < self.limit {
            self.kept.push(candidate);
        } else if self.kept.peek().is_some_and(|least| candidate < *least) {
            self.kept.pop();
            self.kept.push(candidate);
        }
    }

    /// The largest first.
    fn finish(self) -> Vec<(u64, u32)> {
        self.kept.into_sorted_vec().into_iter().map(|std::cmp::Reverse((bytes, place))| (bytes, place.0)).collect()
    }
}
