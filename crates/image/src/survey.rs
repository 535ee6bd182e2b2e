//! Walks a heap, and marks the live objects.

use crate::bitmap::{Bitmap, RankedBitmap};
use crate::damage::Damages;
use crate::lens::Lens;

/// The most units of a heap that can be numbered: 32 GiB in words of eight bytes.
const MOST_UNITS: u64 = u32::MAX as u64;

/// Figures of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindFigures {
    /// The number of all.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of live ones.
    pub live_count: u64,
    /// The bytes of the live ones.
    pub live_bytes: u64,
}

/// The result of a walk.
pub struct Survey {
    /// By kind, as [`Lens::KINDS`] names them.
    pub kinds: Vec<KindFigures>,
    /// The number of all bytes walked.
    pub walked_bytes: u64,
    /// The damage found.
    pub damage: Damages,
    /// Live objects that lie outside of the heap, in static data.
    pub static_objects: u64,
    /// Objects that are in use although nothing refers to them: their number and bytes.
    pub leaked: (u64, u64),
    /// The largest live objects.
    pub largest: Vec<Largest>,
    pub(crate) found: Bitmap,
    pub(crate) live: RankedBitmap,
    /// Objects that are in use although nothing refers to them.
    pub(crate) unreferred: Bitmap,
}

/// One of the largest objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// Where it is.
    pub object: u64,
    /// Its own bytes.
    pub bytes: u64,
}

/// Converts addresses to units and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitIndex {
    start: u64,
    unit: u64,
}

impl UnitIndex {
    pub fn of<L: Lens>(lens: &L) -> Self {
        Self { start: lens.span().start, unit: L::UNIT }
    }

    #[inline]
    pub fn address(self, unit: u32) -> u64 {
        self.start + u64::from(unit) * self.unit
    }

    #[inline]
    pub fn unit(self, address: u64) -> u64 {
        address.wrapping_sub(self.start) / self.unit
    }
}

/// Walks a heap, and marks the live objects; the `top` largest objects are kept.
pub fn survey<L: Lens>(lens: &L, top: usize) -> Survey {
    let span = lens.span();
    let mut damage = Damages::default();
    let mut units = (span.end - span.start) / L::UNIT;
    if units > MOST_UNITS {
        damage.note(
            span.start + MOST_UNITS * L::UNIT,
            (units - MOST_UNITS) * L::UNIT,
            "heaps are read up to this address",
        );
        units = MOST_UNITS;
    }
    let mut kinds = vec![KindFigures::default(); L::KINDS.len()];
    let mut found = Bitmap::new(units);
    let mut walked_bytes = 0;
    let index = UnitIndex::of(lens);
    let visit = |area: crate::lens::HeapArea| {
        let figures = &mut kinds[usize::from(area.kind)];
        figures.count += 1;
        figures.bytes += area.bytes;
        walked_bytes += area.bytes;
        if area.is_object {
            found.set(index.unit(area.at));
        }
    };
    lens.walk(visit, &mut damage);
    let mut live = lens.reached().cloned().unwrap_or_else(|| mark(lens, &found, units, &mut damage));
    let unreferred = if L::IS_COLLECTED { Bitmap::default() } else { add_unreferred(&found, &mut live, units) };
    let (mut static_objects, mut leaked) = (0, (0, 0));
    let mut largest = Top::new(top);
    for unit in live.ones() {
        let object = index.address(unit as u32);
        let bytes = add_live(lens, object, &mut kinds, &mut static_objects);
        largest.offer(bytes, unit as u32);
        if !L::IS_COLLECTED && unreferred.get(unit) {
            leaked = (leaked.0 + 1, leaked.1 + bytes);
        }
    }
    let object = |(bytes, unit): (u64, u32)| Largest { object: index.address(unit), bytes };
    let largest = largest.finish().into_iter().map(object).collect();
    Survey {
        kinds,
        walked_bytes,
        damage,
        static_objects,
        leaked,
        largest,
        found,
        live: RankedBitmap::new(live),
        unreferred,
    }
}

/// Marks the objects that can be reached from the roots. The order does not matter for the result, so it is one that visits neighbours soon after one
/// another.
fn mark<L: Lens>(lens: &L, found: &Bitmap, units: u64, damage: &mut Damages) -> Bitmap {
    let index = UnitIndex::of(lens);
    let mut live = Bitmap::new(units);
    let mut waiting: Vec<u32> = Vec::new();
    for root in lens.roots() {
        if !lens.is_object(root.object, found) {
            damage.note(root.object, 0, format!("the root '{}' refers to no object, but", root.name));
        } else if live.set(index.unit(root.object)) {
            waiting.push(index.unit(root.object) as u32);
        }
    }
    while let Some(unit) = waiting.pop() {
        let object = index.address(unit);
        lens.scan(object, 0, found, |target, next| {
            if !lens.is_object(target, found) {
                let at = object + u64::from(next - 1) * L::UNIT;
                damage.note(at, 0, format!("a reference to {target:#x}, where no object is,"));
            } else if live.set(index.unit(target)) {
                lens.prefetch(target);
                waiting.push(index.unit(target) as u32);
            }
            false
        });
    }
    live
}

/// Marks the objects that were not reached as live, too; returns them.
fn add_unreferred(found: &Bitmap, live: &mut Bitmap, units: u64) -> Bitmap {
    let mut unreferred = Bitmap::new(units);
    for unit in found.ones() {
        if live.set(unit) {
            unreferred.set(unit);
        }
    }
    unreferred
}

/// Adds a live object to the figures of its kind.
fn add_live<L: Lens>(lens: &L, object: u64, kinds: &mut [KindFigures], outside: &mut u64) -> u64 {
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

/// Keeps the largest of the objects offered.
struct Top {
    limit: usize,
    largest: std::collections::BinaryHeap<std::cmp::Reverse<(u64, std::cmp::Reverse<u32>)>>,
}

impl Top {
    fn new(limit: usize) -> Self {
        Self { limit, largest: Default::default() }
    }

    #[inline]
    fn offer(&mut self, bytes: u64, unit: u32) {
        let candidate = std::cmp::Reverse((bytes, std::cmp::Reverse(unit)));
        if self.largest.len() < self.limit {
            self.largest.push(candidate);
        } else if self.largest.peek().is_some_and(|least| candidate < *least) {
            self.largest.pop();
            self.largest.push(candidate);
        }
    }

    /// The kept objects, the largest first.
    fn finish(self) -> Vec<(u64, u32)> {
        self.largest.into_sorted_vec().into_iter().map(|std::cmp::Reverse((bytes, unit))| (bytes, unit.0)).collect()
    }
}
