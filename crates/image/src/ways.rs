//! Ways through a heap: how one gets to an object, and who refers to it.

use crate::damage::Damages;
use crate::lens::Lens;
use crate::path::Path;
use crate::survey::{Reached, Survey, Units};
use rustc_hash::FxHashMap;

/// Who refers to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrers {
    /// How many references there are.
    pub count: u64,
    /// The first ones.
    pub first: Vec<Referrer>,
}

/// A reference to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// The object that refers to it; none for a root.
    pub object: Option<u64>,
    /// What that is: its shape, or the root's name.
    pub what: String,
    /// How it refers: `.owner`, `[3]`.
    pub step: String,
}

/// All live references to an object; so many are kept.
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
    let index = Units::of(lens);
    for unit in survey.live.bits().ones() {
        let object = index.address(unit as u32);
        let mut slot = 0;
        while let Some((to, next)) = lens.next_reference(object, slot, &survey.found) {
            if to == target && !is_root_array(lens, object) {
                note(&mut || Referrer { object: Some(object), what: lens.shape_name(object), step: lens.step(object, next - 1) });
            }
            slot = next;
        }
    }
    found
}

/// True for the array whose elements are roots of their own.
fn is_root_array<L: Lens>(lens: &L, object: u64) -> bool {
    lens.roots().iter().any(|root| root.object == object && root.name.to_string() == "static")
}

/// The shortest way to an object.
pub fn path_to<L: Lens>(lens: &L, survey: &Survey, target: u64) -> Option<Path> {
    let wanted = |object: u64| (object == target).then_some(0);
    first_paths(lens, survey, 1, wanted).remove(&0)
}

/// The shortest ways to the first object of each of several groups; the search ends when all groups have one.
pub fn first_paths<L: Lens>(
    lens: &L,
    survey: &Survey,
    groups: usize,
    group_of: impl Fn(u64) -> Option<usize>,
) -> FxHashMap<usize, Path> {
    let span = lens.span();
    let mut damage = Damages::default();
    let mut reached = Reached::new(lens, &survey.found, (span.end - span.start) / L::UNIT, &mut damage);
    let mut places: FxHashMap<usize, u32> = FxHashMap::default();
    let mut place = 0;
    reached.follow(&mut |object| {
        if let Some(group) = group_of(object) {
            places.entry(group).or_insert(place);
        }
        place += 1;
        places.len() < groups
    });
    places.into_iter().map(|(group, place)| (group, reached.path(place))).collect()
}
