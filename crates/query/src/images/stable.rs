//! The stable memory of a canister: its size, and Motoko's regions with what keeps them.

use highwater_image::RegionObject;
use highwater_image::canister::{RegionTable, WASM_PAGE};
use highwater_input::image::{ExaminedHeap, ImageFile};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;

/// Regions below this id belong to the runtime.
const RESERVED: u64 = 16;

/// The stable memory of a canister.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StableMemory {
    /// Its length in bytes.
    pub bytes: u64,
    /// The regions of a Motoko program, the largest first.
    pub regions: Vec<StableRegion>,
}

/// A region of stable memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StableRegion {
    /// Its id.
    pub id: u64,
    /// Its size in bytes, as the program sees it.
    pub bytes: u64,
    /// The bytes of its blocks, which the size may not fill.
    pub reserved_bytes: u64,
    /// What keeps it: `log`, `users.index`.
    pub owner: RegionOwner,
}

/// What keeps a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionOwner {
    /// A path from a variable.
    Path(String),
    /// The runtime: the memory that programs without regions use.
    Runtime,
    /// Nothing: no variable leads to it any more, and it still has its blocks.
    None,
}

impl RegionOwner {
    /// It as text.
    pub fn text(&self) -> &str {
        match self {
            Self::Path(path) => path,
            Self::Runtime => "the runtime: stable memory without regions",
            Self::None => "nothing: no variable leads to it any more",
        }
    }
}

/// The stable memory that lies with an image; none if there is none.
pub fn stable_memory(file: &ImageFile, examined: &ExaminedHeap<'_>) -> Option<StableMemory> {
    let path = file.parts()?.stable.as_deref()?;
    let stable = File::open(path).ok()?;
    let bytes = stable.metadata().ok()?.len();
    let table = RegionTable::read(&stable).ok().flatten();
    let Some(table) = table else { return Some(StableMemory { bytes, regions: Vec::new() }) };
    let mut objects: BTreeMap<u64, RegionObject> = BTreeMap::new();
    for object in examined.heap.regions(&examined.examination.survey) {
        // The program may have garbage copies of a region's object; the one that is kept counts.
        let known = objects.get(&object.id).is_some_and(|known| known.path.is_some());
        if !known {
            objects.insert(object.id, object);
        }
    }
    let ids: std::collections::BTreeSet<u64> = table.regions.keys().chain(objects.keys()).copied().collect();
    let mut regions: Vec<StableRegion> = ids
        .into_iter()
        .filter_map(|id| {
            let blocks = table.regions.get(&id).copied().unwrap_or_default();
            let object = objects.get(&id);
            let path = object.and_then(|object| object.path.as_ref());
            let owner = match path {
                _ if id < RESERVED => RegionOwner::Runtime,
                Some(path) => RegionOwner::Path(path.to_string()),
                None => RegionOwner::None,
            };
            // What has neither blocks nor an owner is not there any more.
            let is_there = blocks.blocks > 0 || matches!(owner, RegionOwner::Path(_));
            is_there.then(|| StableRegion {
                id,
                bytes: blocks.pages * WASM_PAGE,
                reserved_bytes: blocks.blocks * table.block_bytes,
                owner,
            })
        })
        .collect();
    regions.sort_by_key(|region| (std::cmp::Reverse(region.reserved_bytes), region.id));
    Some(StableMemory { bytes, regions })
}

impl StableMemory {
    /// The member of a JSON document.
    pub fn to_json(&self) -> Value {
        let region = |region: &StableRegion| {
            let owner = match &region.owner {
                RegionOwner::Path(path) => json!(path),
                RegionOwner::Runtime | RegionOwner::None => Value::Null,
            };
            json!({
                "id": region.id, "bytes": region.bytes, "reserved_bytes": region.reserved_bytes, "owner": owner,
                "is_live": region.owner != RegionOwner::None,
            })
        };
        json!({"bytes": self.bytes, "regions": self.regions.iter().map(region).collect::<Vec<_>>()})
    }
}
