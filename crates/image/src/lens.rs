//! The layout of a heap, as its lens knows it: where objects are, and what they refer to.

use crate::bitmap::Bitmap;
use crate::damage::Damages;
use crate::heap::HeapError;
use std::fmt;
use std::ops::Range;

/// A range of a heap: one object, free space, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapArea {
    /// Where it begins.
    pub at: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What it is: an index into [`Lens::KINDS`].
    pub kind: u8,
    /// True if it is an object, which can be referred to.
    pub is_object: bool,
}

/// An object that is live because the program can always reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The object.
    pub object: u64,
    /// Its name.
    pub name: RootName,
    /// True for a variable of the program, false for data of the compiler or the runtime.
    pub is_variable: bool,
}

/// The name of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootName {
    /// The name that the program or its runtime gives it: `tree`, `static[12]`.
    Named(String),
    /// The address of the word outside of the heap that refers to it.
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

/// An object that a text names, or that holds the value which the text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The object.
    pub object: u64,
    /// The value as the language writes it; none if the lens knows no values.
    pub value: Option<String>,
}

/// The address that a text states: `0x52a1c8`.
pub(crate) fn address_of(text: &str) -> Option<u64> {
    text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok())
}

/// Knowledge of a layout, applied to one image. An object is identified by its address. Every method returns a value even for an address at which there is
/// no object, though not a useful one; no method panics.
///
/// Code that visits every object is generic over this trait and compiled for each lens: a call per object through a table of functions would cost more than
/// the visit. Questions about a whole heap go through [`ImageHeap`](crate::ImageHeap).
pub trait Lens {
    /// Objects begin at multiples of this many bytes. In a dump, objects have numbers in place of addresses, and this is 1.
    const UNIT: u64;
    /// The sizes of objects are multiples of this many bytes.
    const SIZE_UNIT: u64 = Self::UNIT;
    /// The names of all kinds of objects and areas in a heap.
    const KINDS: &'static [&'static str];

    /// True if references are certain, so that unreachable objects are garbage. Otherwise unreachable objects are in use: leaked.
    const IS_COLLECTED: bool = true;

    /// True if the same object has the same address in another image of the program. Otherwise [`identity`](Self::identity) tells which objects are the
    /// same.
    const IS_ADDRESSED: bool = true;

    /// True if shapes and sizes are found in tables. They are then read when they are needed, and not stored while objects are searched, which saves memory.
    /// Otherwise they are in the objects themselves, and are read while an object is at hand, which saves time.
    const HAS_TABLES: bool = false;

    /// True if paths to objects begin at variables of the program wherever they can, even if another root is nearer.
    const VARIABLES_FIRST: bool = false;

    /// The range of addresses in which objects lie.
    fn span(&self) -> Range<u64>;

    /// Walks every byte of the heap in order, and records damage.
    fn walk(&self, visit: impl FnMut(HeapArea), damage: &mut Damages);

    /// Whether there is an object at an address; `found` holds the objects that [`walk`](Self::walk) found, by their unit within the span.
    fn is_object(&self, address: u64, found: &Bitmap) -> bool;

    /// The roots: objects that are always live.
    fn roots(&self) -> &[Root];

    /// The first reference of an object in `slot` or after it, and the slot after that reference. The reference may be to any address.
    fn next_reference(&self, object: u64, slot: u32, found: &Bitmap) -> Option<(u64, u32)>;

    /// Passes each reference of an object from `slot` on to `enough`, with the slot after it, until `enough` returns true.
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

    /// The objects that can be reached from the roots, by their unit within the span, if the lens has searched for them already.
    fn reached(&self) -> Option<&Bitmap> {
        None
    }

    /// Prefetches an object that will be read soon.
    #[inline]
    fn prefetch(&self, _: u64) {}

    /// The kind of an object: an index into [`Lens::KINDS`].
    fn kind(&self, object: u64) -> u8;

    /// The length of an object in bytes.
    fn bytes(&self, object: u64) -> u64;

    /// True if the bytes of an object count as the heap's: some objects lie in static data.
    fn is_in_heap(&self, object: u64) -> bool;

    /// A number that is the same for objects of the same shape.
    fn shape_key(&self, object: u64) -> u64;

    /// The name of an object for users, which [`locate`](Self::locate) understands: `0x52a1c8`, `@12345`.
    fn object_name(&self, object: u64) -> String {
        format!("{object:#x}")
    }

    /// A number that the same object has in another image of the program; used if objects are not [addressed](Self::IS_ADDRESSED), and as the address of the
    /// object's block in a snapshot.
    fn identity(&self, object: u64) -> u64 {
        object
    }

    /// The name of an object's shape.
    fn shape_name(&self, object: u64) -> String;

    /// The step from an object to the target of a slot: `.owner`, `[3]`.
    fn step(&self, object: u64, slot: u32) -> String;

    /// True if an object is only the box of a variable, and stands for it.
    fn is_variable_box(&self, _: u64) -> bool {
        false
    }

    /// True if the elements of an object are roots themselves: then it does not count as their referrer.
    fn lists_roots(&self, _: u64) -> bool {
        false
    }

    /// Finds what a text names, with the value `depth` levels deep. Without a language, objects are named by their addresses.
    fn locate(&self, text: &str, _depth: u32, found: &Bitmap) -> Result<Located, HeapError> {
        let address = address_of(text)
            .ok_or_else(|| format!("'{text}' is no address, and the objects of this heap have no names"))?;
        if !self.is_object(address, found) {
            return Err(format!("no object begins at {address:#x}").into());
        }
        Ok(Located { object: address, value: None })
    }
}
