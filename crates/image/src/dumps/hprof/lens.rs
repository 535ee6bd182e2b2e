//! The objects of a dump as a lens: an object's address is its number.

use super::HprofHeap;
use crate::bitmap::Bitmap;
use crate::damage::Damages;
use crate::heap::HeapError;
use crate::lens::{HeapArea, Lens, Located, Root};
use std::ops::Range;

const INSTANCE: u8 = 0;
const OBJECT_ARRAY: u8 = 1;
const PRIMITIVE_ARRAY: u8 = 2;
const CLASS: u8 = 3;

impl HprofHeap {
    /// The class whose class object an object is.
    #[inline]
    pub(super) fn described_class(&self, object: u32) -> Option<u32> {
        self.class_objects.get(&object).copied()
    }

    #[inline]
    pub(super) fn is_array(&self, class: u32) -> bool {
        self.sizes.element(class) > 0
    }
}

impl Lens for HprofHeap {
    const UNIT: u64 = 1;
    const SIZE_UNIT: u64 = 8;
    const KINDS: &'static [&'static str] = &["instance", "object array", "primitive array", "class"];
    const IS_COLLECTED: bool = false;
    const IS_ADDRESSED: bool = false;
    const HAS_TABLES: bool = true;
    const VARIABLES_FIRST: bool = true;

    fn span(&self) -> Range<u64> {
        0..self.addresses.len().into()
    }

    fn walk(&self, mut visit: impl FnMut(HeapArea), damage: &mut Damages) {
        damage.append(self.damage.clone());
        for at in 0..u64::from(self.addresses.len()) {
            visit(HeapArea { at, bytes: self.bytes(at), kind: self.kind(at), is_object: true });
        }
    }

    fn is_object(&self, address: u64, _: &Bitmap) -> bool {
        address < self.addresses.len().into()
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    #[inline]
    fn next_reference(&self, object: u64, slot: u32, _: &Bitmap) -> Option<(u64, u32)> {
        let object = object as u32;
        let is_array = self.is_array(self.objects.class(object));
        let target = self.objects.reference(object, slot, is_array)?;
        Some((target.into(), slot + 1))
    }

    #[inline]
    fn scan(&self, object: u64, slot: u32, _: &Bitmap, mut enough: impl FnMut(u64, u32) -> bool) {
        let object = object as u32;
        let is_array = self.is_array(self.objects.class(object));
        for (target, next) in self.objects.references(object, slot, is_array).zip(slot + 1..) {
            if enough(target.into(), next) {
                return;
            }
        }
    }

    fn kind(&self, object: u64) -> u8 {
        let class = self.objects.class(object as u32);
        if class < super::classes::UNKNOWN_CLASS {
            PRIMITIVE_ARRAY
        } else if self.is_array(class) {
            OBJECT_ARRAY
        } else if class == self.classes.class_class {
            CLASS
        } else {
            INSTANCE
        }
    }

    #[inline]
    fn bytes(&self, object: u64) -> u64 {
        let object = object as u32;
        let class = self.objects.class(object);
        if self.is_array(class) {
            return self.sizes.array(class, self.objects.length(object));
        }
        if class == self.classes.class_class
            && let Some(described) = self.described_class(object)
        {
            return self.sizes.class_object(described);
        }
        self.sizes.instance(class)
    }

    fn is_in_heap(&self, _: u64) -> bool {
        true
    }

    #[inline]
    fn shape_key(&self, object: u64) -> u64 {
        self.objects.class(object as u32).into()
    }

    fn object_name(&self, object: u64) -> String {
        format!("{:#x}", self.identity(object))
    }

    fn identity(&self, object: u64) -> u64 {
        u32::try_from(object).ok().and_then(|object| self.addresses.address(object)).unwrap_or(0)
    }

    fn shape_name(&self, object: u64) -> String {
        self.classes.get(self.objects.class(object as u32)).name.clone()
    }

    fn step(&self, object: u64, slot: u32) -> String {
        self.reference_name(object as u32, slot).unwrap_or_else(|| format!(".?{slot}"))
    }

    /// A class object stands for the static fields of its class.
    fn is_variable_box(&self, object: u64) -> bool {
        self.described_class(object as u32).is_some()
    }

    fn locate(&self, text: &str, depth: u32, _: &Bitmap) -> Result<Located, HeapError> {
        self.locate_text(text, depth)
    }
}
