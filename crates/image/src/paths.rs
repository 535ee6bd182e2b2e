//! Paths through a heap: how an object is reached, and which objects refer to it.

use crate::bitmap::Bitmap;
use crate::lens::Lens;
use crate::path::{ObjectPath, PathStep, UNREFERRED};
use crate::survey::{Survey, UnitIndex};
use rustc_hash::FxHashMap;

/// The parent of a root.
const NONE: u32 = u32::MAX;

/// The references to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrers {
    /// The number of references.
    pub count: u64,
    /// The first references.
    pub first: Vec<Referrer>,
}

/// A reference to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The object that refers to it; none for a root.
    pub object: Option<u64>,
    /// The shape of that object, or the name of the root.
    pub what: String,
    /// The step of the reference: `.owner`, `[3]`.
    pub step: String,
}

/// Finds all live references to an object; the first `keep` are returned, all are counted.
pub fn referrers<L: Lens>(lens: &L, survey: &Survey, target: u64, keep: usize) -> Referrers {
    let mut found = Referrers::default();
    let mut note = |referrer: &mut dyn FnMut() -> Referrer| {
        found.count += 1;
        if found.first.len() < keep {
            found.first.push(referrer());
        }
    };
    for root in lens.roots().iter().filter(|root| root.object == target) {
        note(&mut || Referrer { object: None, what: root.name.to_string(), step: String::new() });
    }
    let index = UnitIndex::of(lens);
    for unit in survey.live.bits().ones() {
        let object = index.address(unit as u32);
        let mut slot = 0;
        while let Some((to, next)) = lens.next_reference(object, slot, &survey.found) {
            if to == target && !lens.lists_roots(object) {
                note(&mut || Referrer {
                    object: Some(object),
                    what: lens.shape_name(object),
                    step: lens.step(object, next - 1),
                });
            }
            slot = next;
        }
    }
    found
}

/// The number of live references to each of some objects.
pub(crate) fn reference_counts<L: Lens>(lens: &L, survey: &Survey, objects: &[u64]) -> Vec<u64> {
    if objects.is_empty() {
        return Vec::new();
    }
    let mut counts: FxHashMap<u64, u64> = objects.iter().map(|object| (*object, 0)).collect();
    let mut note = |object: u64| {
        if let Some(count) = counts.get_mut(&object) {
            *count += 1;
        }
    };
    lens.roots().iter().for_each(|root| note(root.object));
    let index = UnitIndex::of(lens);
    for unit in survey.live.bits().ones() {
        let object = index.address(unit as u32);
        if !lens.lists_roots(object) {
            lens.scan(object, 0, &survey.found, |target, _| {
                note(target);
                false
            });
        }
    }
    objects.iter().map(|object| counts[object]).collect()
}

/// The shortest path to an object.
pub fn path_to<L: Lens>(lens: &L, survey: &Survey, target: u64) -> Option<ObjectPath> {
    let wanted = |object: u64| (object == target).then_some(0);
    first_paths(lens, survey, 1, wanted).remove(&0)
}

/// The shortest path to the first object of each of several groups; the search ends when all groups have one.
pub fn first_paths<L: Lens>(
    lens: &L,
    survey: &Survey,
    groups: usize,
    group_of: impl Fn(u64) -> Option<usize>,
) -> FxHashMap<usize, ObjectPath> {
    let span = lens.span();
    let mut reached = Reached::new(lens, &survey.found, (span.end - span.start) / L::UNIT);
    let mut indexes: FxHashMap<usize, u32> = FxHashMap::default();
    let mut index = 0;
    reached.follow(&mut |object| {
        if let Some(group) = group_of(object) {
            indexes.entry(group).or_insert(index);
        }
        index += 1;
        indexes.len() < groups
    });
    indexes.into_iter().map(|(group, index)| (group, reached.path(index))).collect()
}

/// The objects that can be reached from the roots, in order of distance.
struct Reached<'a, L: Lens> {
    lens: &'a L,
    found: &'a Bitmap,
    live: Bitmap,
    index: UnitIndex,
    /// Objects, nearest first.
    pub queue: Vec<u32>,
    /// The index in the queue of the object that led to each.
    parents: Vec<u32>,
    /// For objects without a predecessor: their index in the queue and that of their root, in order.
    roots: Vec<(u32, u32)>,
}

impl<'a, L: Lens> Reached<'a, L> {
    pub fn new(lens: &'a L, found: &'a Bitmap, units: u64) -> Self {
        let live = Bitmap::new(units);
        let index = UnitIndex::of(lens);
        Self { lens, found, live, index, queue: Vec::new(), parents: Vec::new(), roots: Vec::new() }
    }

    /// Searches until all objects are reached, or `go_on` returns false for an object.
    pub fn follow(&mut self, go_on: &mut dyn FnMut(u64) -> bool) {
        let mut index = 0;
        // Either all roots at once, or first those of the program.
        let rounds: &[&[bool]] = if L::VARIABLES_FIRST { &[&[true], &[false]] } else { &[&[true, false]] };
        for round in rounds {
            self.begin(round);
            while let Some(&unit) = self.queue.get(index) {
                let object = self.index.address(unit);
                if !go_on(object) {
                    return;
                }
                self.reach_from(object, index as u32);
                index += 1;
            }
        }
    }

    /// Adds the objects of the roots that are variables, or that are not, or of both.
    fn begin(&mut self, are_variables: &[bool]) {
        for (number, root) in self.lens.roots().iter().enumerate() {
            if are_variables.contains(&root.is_variable)
                && self.lens.is_object(root.object, self.found)
                && self.live.set(self.index.unit(root.object))
            {
                self.roots.push((self.queue.len() as u32, number as u32));
                self.queue.push(self.index.unit(root.object) as u32);
                self.parents.push(NONE);
            }
        }
    }

    #[inline]
    fn reach_from(&mut self, object: u64, index: u32) {
        let mut slot = 0;
        while let Some((target, next)) = self.lens.next_reference(object, slot, self.found) {
            slot = next;
            if self.lens.is_object(target, self.found) && self.live.set(self.index.unit(target)) {
                self.queue.push(self.index.unit(target) as u32);
                self.parents.push(index);
            }
        }
    }

    /// The shortest path to the object at an index of the queue.
    pub fn path(&self, index: u32) -> ObjectPath {
        let mut indexes = vec![index];
        while let Some(&parent) =
            self.parents.get(indexes[indexes.len() - 1] as usize).filter(|parent| **parent != NONE)
        {
            indexes.push(parent);
        }
        indexes.reverse();
        let root = self.roots.binary_search_by_key(&indexes[0], |root| root.0).ok();
        let root = root.and_then(|at| self.lens.roots().get(self.roots[at].1 as usize));
        let object = |index: u32| self.index.address(self.queue[index as usize]);
        let root = root.map_or_else(|| UNREFERRED.to_owned(), |root| root.name.to_string());
        ObjectPath::through(root, &indexes, |from, to| {
            let (from, to) = (object(from), object(to));
            PathStep { object: to, text: step_between(self.lens, self.found, from, to) }
        })
    }
}

/// The step from an object to another that it refers to.
pub(crate) fn step_between<L: Lens>(lens: &L, found: &Bitmap, from: u64, to: u64) -> String {
    let mut slot = 0;
    while let Some((target, next)) = lens.next_reference(from, slot, found) {
        if target == to {
            return lens.step(from, next - 1);
        }
        slot = next;
    }
    String::new()
}
