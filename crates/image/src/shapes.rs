//! Shapes: the groups that objects are counted in. Records are grouped by their fields, arrays by elements and length, functions by their index in the
//! table.

use crate::lens::Lens;
use rustc_hash::FxHashMap;

/// The number of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShapeId(pub u32);

/// The most shapes with a name of their own; all others are one shape.
const MOST_SHAPES: usize = 1 << 20;
/// Entries of the cache in front of the table of keys.
const CACHED: usize = 1024;

/// All shapes, by number.
#[derive(Debug)]
pub struct Shapes {
    names: Vec<String>,
    kinds: Vec<u8>,
    by_key: FxHashMap<u64, ShapeId>,
    by_name: FxHashMap<String, ShapeId>,
    cache: Box<[(u64, ShapeId)]>,
}

impl Default for Shapes {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            kinds: Vec::new(),
            by_key: FxHashMap::default(),
            by_name: FxHashMap::default(),
            cache: vec![(u64::MAX, ShapeId(0)); CACHED].into(),
        }
    }
}

impl Shapes {
    /// The shape of an object.
    #[inline]
    pub fn of<L: Lens>(&mut self, lens: &L, object: u64) -> ShapeId {
        let key = lens.shape_key(object);
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        let (cached, id) = self.cache[slot];
        if cached == key {
            return id;
        }
        let id = self.look_up(lens, object, key);
        self.cache[slot] = (key, id);
        id
    }

    fn look_up<L: Lens>(&mut self, lens: &L, object: u64, key: u64) -> ShapeId {
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        let name = if self.names.len() < MOST_SHAPES { lens.shape_name(object) } else { "(other shapes)".to_owned() };
        let id = self.named(name, lens.kind(object));
        // There may be as many keys as objects, so the table is bounded.
        if self.by_key.len() < MOST_SHAPES {
            self.by_key.insert(key, id);
        }
        id
    }

    fn named(&mut self, name: String, kind: u8) -> ShapeId {
        if let Some(&id) = self.by_name.get(&name) {
            return id;
        }
        let id = ShapeId(self.names.len() as u32);
        self.names.push(name.clone());
        self.kinds.push(kind);
        self.by_name.insert(name, id);
        id
    }

    /// The number of shapes.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The numbers of all shapes.
    pub fn ids(&self) -> impl Iterator<Item = ShapeId> + use<> {
        (0..self.names.len()).map(|id| ShapeId(id as u32))
    }

    /// The shape with a name.
    pub fn find(&self, name: &str) -> Option<ShapeId> {
        self.by_name.get(name).copied()
    }

    /// The name of a shape.
    pub fn name(&self, id: ShapeId) -> &str {
        self.names.get(id.0 as usize).map_or("", String::as_str)
    }

    /// The kind of the objects of a shape.
    pub fn kind(&self, id: ShapeId) -> u8 {
        self.kinds.get(id.0 as usize).copied().unwrap_or(0)
    }
}
