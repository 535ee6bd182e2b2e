//! What a lens is: knowledge of one layout, by which objects are found in an image.

use crate::bitmap::Bitmap;
use crate::damage::Damages;
use std::fmt;
use std::ops::Range;

/// A stretch of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where it begins.
    pub at: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What it is: an index into [`Lens::KINDS`].
    pub kind: u8,
    /// True for what can be referred to.
    pub is_object: bool,
}

/// What is live because the program can always reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The object.
    pub object: u64,
    /// What it is called.
    pub name: RootName,
    /// True for a variable of the program, false for what compiler and runtime keep.
    pub is_variable: bool,
}

/// What a root is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootName {
    /// As the program or its runtime does: `tree`, `static[12]`.
    Named(String),
    /// It has no name but its place outside of the heap.
    At(u64),
}

impl fmt::Display for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::At(address) => write!(f, "*{address:#x}"),
        }
    }
}

/// Knowledge of a layout, applied to one image. An object is known by its address. All that is asked for an address that is no object's
/// gives an answer, though not a useful one; nothing panics.
pub trait Lens {
    /// Objects begin at multiples of so many bytes.
    const UNIT: u64;
    /// Names of what there may be in a heap.
    const KINDS: &'static [&'static str];

    /// True where it is certain what refers to what, so that what cannot be reached is garbage. Otherwise it is in use all the same: leaked.
    const IS_COLLECTED: bool = true;

    /// The addresses between which objects lie.
    fn span(&self) -> Range<u64>;

    /// Goes through every byte of the heap in order, and notes what is wrong.
    fn walk(&self, visit: impl FnMut(Stretch), damage: &mut Damages);

    /// Whether an address is that of an object; `found` has those that [`walk`](Self::walk) found, by their unit within the span.
    fn is_object(&self, address: u64, found: &Bitmap) -> bool;

    /// What is live.
    fn roots(&self) -> &[Root];

    /// The first reference of an object at or behind a slot, and the slot behind it. It may lead anywhere.
    fn next_reference(&self, object: u64, slot: u32, found: &Bitmap) -> Option<(u64, u32)>;

    /// Tells of all references of an object from a slot on, with the slot behind each, until one is enough.
    #[inline]
    fn scan(&self, object: u64, slot: u32, found: &Bitmap, mut enough: impl FnMut(u64, u32) -> bool) {
        let mut slot = slot;
        while let Some((target, next)) = self.next_reference(object, slot, found) {
            if enough(target, next) {
                return;
            }
            slot = next;
        }
    }

    /// Says that an object will be looked at soon.
    #[inline]
    fn bring_near(&self, _: u64) {}

    /// What an object is.
    fn kind(&self, object: u64) -> u8;

    /// How long an object is.
    fn bytes(&self, object: u64) -> u64;

    /// True when the bytes of an object count as the heap's: some lie in static data.
    fn is_in_heap(&self, object: u64) -> bool;

    /// A number that is the same for objects of the same shape.
    fn shape_key(&self, object: u64) -> u64;

    /// What the shape with a key is called, given an object of it.
    fn shape_name(&self, object: u64) -> String;

    /// How one gets from an object to what a slot refers to: `.owner`, `[3]`.
    fn step(&self, object: u64, slot: u32) -> String;
}
