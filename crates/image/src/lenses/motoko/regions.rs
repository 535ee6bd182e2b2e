//! Objects that stand for regions of stable memory, and what keeps them.

use super::heap::Motoko;
use super::kind::MotokoKind;
use crate::damage::Damages;
use crate::heap::RegionObject;
use crate::lens::{HeapArea, Lens};
use crate::paths::first_paths;
use crate::survey::Survey;
use rustc_hash::FxHashMap;

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// All region objects in the heap, by id, with the shortest paths to them.
    pub(super) fn region_objects(&self, survey: &Survey) -> Vec<RegionObject> {
        let mut regions = Vec::new();
        let visit = |area: HeapArea| {
            if area.is_object && area.kind == MotokoKind::Region as u8 {
                regions.push(self.region(area.at));
            }
        };
        self.walk(visit, &mut Damages::default());
        let places: FxHashMap<u64, usize> =
            regions.iter().enumerate().map(|(place, region)| (region.object, place)).collect();
        if !places.is_empty() {
            let paths = first_paths(self, survey, places.len(), |object| places.get(&object).copied());
            for (place, path) in paths {
                regions[place].path = Some(path);
            }
        }
        regions.sort_by_key(|region| (region.id, region.object));
        regions
    }

    fn region(&self, object: u64) -> RegionObject {
        let pages = self.nth(object, self.header + if WIDE { 1 } else { 2 });
        RegionObject { object, id: self.region_id(object), pages, path: None }
    }

    /// The id of a region, which has 64 bits: two words in a heap of 32.
    pub(super) fn region_id(&self, object: u64) -> u64 {
        let low = self.nth(object, self.header);
        if WIDE { low } else { self.nth(object, self.header + 1) << 32 | low }
    }
}
