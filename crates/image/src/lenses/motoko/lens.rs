//! The layout of Motoko heaps, object by object.

use super::heap::Motoko;
use super::kind::{KIND_NAMES, MotokoKind};
use super::show::ShowLimits;
use super::value::MotokoValue;
use crate::bitmap::Bitmap;
use crate::damage::Damages;
use crate::heap::HeapError;
use crate::lens::{HeapArea, Lens, Located, Root};
use std::ops::Range;

/// A shape's key has its kind in the highest byte. The lower bits distinguish shapes of that kind.
const KIND_SHIFT: u32 = 56;
/// The most fields of a record, or elements of a tuple, that are named.
const NAMED_FIELDS: u64 = 64;

/// The class of a length: the number of its bits.
fn length_class(length: u64) -> u64 {
    u64::from(u64::BITS - length.leading_zeros())
}

/// The lengths of a class, as text: `16–31`.
fn lengths_of(class: u64) -> String {
    match class {
        0 | 1 => class.to_string(),
        _ => format!("{}–{}", 1u64 << (class - 1), (1u64 << (class - 1)) * 2 - 1),
    }
}

/// "1 byte", "8–15 bytes".
fn counted(lengths: &str, one: &str) -> String {
    format!("{lengths} {one}{}", if lengths == "1" { "" } else { "s" })
}

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// The kind of an array's first element, in a word.
    fn element(&self, array: u64) -> &'static str {
        match self.length(array) {
            0 => "nothing",
            _ => match self.value(array, self.header + 1) {
                MotokoValue::Object(object) => self.kind_of(object).name(),
                MotokoValue::Null => "null",
                MotokoValue::True | MotokoValue::False => "Bool",
                MotokoValue::Int(_) => "Int",
                MotokoValue::Fixed(fixed, _) => fixed.name(),
                MotokoValue::Char(_) => "Char",
                MotokoValue::Untyped(_) | MotokoValue::Invalid(_) => "scalar",
            },
        }
    }

    /// A key that is equal if [`element`](Self::element) is.
    fn element_key(&self, array: u64) -> u64 {
        match self.length(array) {
            0 => 0,
            _ => match self.value(array, self.header + 1) {
                MotokoValue::Object(object) => 32 + self.kind_of(object) as u64,
                MotokoValue::Null => 1,
                MotokoValue::True | MotokoValue::False => 2,
                MotokoValue::Int(_) => 3,
                MotokoValue::Fixed(fixed, _) => 4 + fixed as u64,
                MotokoValue::Char(_) => 20,
                MotokoValue::Untyped(_) | MotokoValue::Invalid(_) => 21,
            },
        }
    }

    /// The names of a record's fields, sorted by name.
    pub fn field_names(&self, record: u64) -> Vec<String> {
        let count = self.fields(record).unwrap_or(0).min(NAMED_FIELDS);
        let mut names: Vec<String> = (0..count).map(|field| self.names.label(self.field_hash(record, field))).collect();
        names.sort();
        names
    }

    fn length_of_kind(&self, object: u64, kind: MotokoKind) -> u64 {
        match kind {
            MotokoKind::BigInt => u64::from(self.image.u32(object.wrapping_add(self.header * Self::WORD + 4))),
            _ => self.length(object),
        }
    }
}

impl<const WIDE: bool> Lens for Motoko<'_, WIDE> {
    const UNIT: u64 = if WIDE { 8 } else { 4 };
    const KINDS: &'static [&'static str] = &KIND_NAMES;

    fn span(&self) -> Range<u64> {
        self.span.clone()
    }

    fn walk(&self, visit: impl FnMut(HeapArea), damage: &mut Damages) {
        self.walk_ranges(visit, damage);
    }

    #[inline]
    fn is_object(&self, address: u64, found: &Bitmap) -> bool {
        if !address.is_multiple_of(Self::WORD) || address < self.span.start {
            return false;
        }
        if found.get((address - self.span.start) / Self::WORD) {
            return true;
        }
        // Static objects lie among other data: only references show where.
        !WIDE && address < self.base && {
            let kind = self.kind_of(address);
            let words = self.words(address, kind).unwrap_or(u64::MAX);
            !kind.is_free() && words <= (self.base - address) / Self::WORD
        }
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    #[inline]
    fn next_reference(&self, object: u64, slot: u32, _: &Bitmap) -> Option<(u64, u32)> {
        let slots = self.slots(object);
        let mut slot = slots.start.max(slot.into());
        let end = slots.end.min(u64::from(u32::MAX) - 1);
        while slot < end {
            let word = self.nth(object, slot);
            slot += 1;
            if Self::is_reference(word) {
                return Some((self.current_address(word.wrapping_add(1)), slot as u32));
            }
        }
        None
    }

    #[inline]
    fn scan(&self, object: u64, slot: u32, _: &Bitmap, mut enough: impl FnMut(u64, u32) -> bool) {
        let slots = self.slots(object);
        let end = slots.end.min(u64::from(u32::MAX) - 1);
        let mut slot = slots.start.max(slot.into());
        while slot < end {
            let word = self.nth(object, slot);
            slot += 1;
            if Self::is_reference(word) && enough(self.current_address(word.wrapping_add(1)), slot as u32) {
                return;
            }
        }
    }

    #[inline]
    fn prefetch(&self, object: u64) {
        self.image.prefetch(object);
    }

    #[inline]
    fn kind(&self, object: u64) -> u8 {
        self.kind_of(object) as u8
    }

    #[inline]
    fn bytes(&self, object: u64) -> u64 {
        let kind = self.kind_of(object);
        let bytes = self.words(object, kind).unwrap_or(0) * Self::WORD;
        if WIDE && matches!(kind, MotokoKind::Nat64 | MotokoKind::Int64 | MotokoKind::Float) {
            let end =
                self.ranges.get(self.ranges.partition_point(|range| range.end <= object)).map_or(0, |range| range.end);
            return bytes + self.padding(object.saturating_add(bytes), end);
        }
        bytes
    }

    #[inline]
    fn is_in_heap(&self, object: u64) -> bool {
        object >= self.base
    }

    #[inline]
    fn shape_key(&self, object: u64) -> u64 {
        let kind = self.kind_of(object);
        let detail = match kind {
            MotokoKind::Object if WIDE => self.nth(object, self.header),
            MotokoKind::Object => self.nth(object, self.header + 1) << 20 | self.nth(object, self.header) & 0xf_ffff,
            MotokoKind::ImmutableArray | MotokoKind::MutableArray => {
                length_class(self.length(object)) << 8 | self.element_key(object)
            }
            MotokoKind::Tuple => self.length(object),
            MotokoKind::Closure | MotokoKind::Variant => self.nth(object, self.header),
            MotokoKind::Blob | MotokoKind::Text | MotokoKind::Principal | MotokoKind::BigInt => {
                length_class(self.length_of_kind(object, kind))
            }
            _ => 0,
        };
        (kind as u64) << KIND_SHIFT | detail & ((1 << KIND_SHIFT) - 1)
    }

    fn shape_name(&self, object: u64) -> String {
        let kind = self.kind_of(object);
        let class = || lengths_of(length_class(self.length_of_kind(object, kind)));
        match kind {
            MotokoKind::Object => {
                let more = if self.fields(object).unwrap_or(0) > NAMED_FIELDS { ", …" } else { "" };
                format!("{{{}{more}}}", self.field_names(object).join(", "))
            }
            MotokoKind::ImmutableArray => format!("[{}] of {}", self.element(object), class()),
            MotokoKind::MutableArray => format!("[var {}] of {}", self.element(object), class()),
            MotokoKind::Tuple => format!("tuple of {}", self.length(object)),
            MotokoKind::SharedFunction => "shared func".to_owned(),
            MotokoKind::Closure => self.function_name(object),
            MotokoKind::Variant => format!("#{}", self.names.label(self.nth(object, self.header) as u32)),
            MotokoKind::Blob | MotokoKind::Text | MotokoKind::Principal => {
                format!("{} of {}", kind.name(), counted(&class(), "byte"))
            }
            MotokoKind::BigInt => format!("Int of {}", counted(&class(), "limb")),
            MotokoKind::MutBox => "var".to_owned(),
            MotokoKind::Some => "?".to_owned(),
            MotokoKind::Concat => "rope".to_owned(),
            other => other.name().to_owned(),
        }
    }

    fn step(&self, object: u64, slot: u32) -> String {
        let slot = u64::from(slot);
        let header = self.header;
        match self.kind_of(object) {
            MotokoKind::Object if WIDE && slot == header => ".(field names)".to_owned(),
            MotokoKind::Object => {
                format!(".{}", self.names.label(self.field_hash(object, slot.saturating_sub(self.first_field()))))
            }
            MotokoKind::ImmutableArray | MotokoKind::MutableArray => format!("[{}]", slot.saturating_sub(header + 1)),
            MotokoKind::Tuple | MotokoKind::SharedFunction => format!(".{}", slot.saturating_sub(header + 1)),
            MotokoKind::Closure => format!(".{}", self.captured_name(object, slot.saturating_sub(header + 2))),
            MotokoKind::Variant => format!("#{}", self.names.label(self.nth(object, header) as u32)),
            MotokoKind::Concat if slot == header + 1 => ".(first half)".to_owned(),
            MotokoKind::Concat => ".(second half)".to_owned(),
            MotokoKind::Some => "?".to_owned(),
            MotokoKind::Region => ".(blocks)".to_owned(),
            // The language does not show a variable's box.
            _ => String::new(),
        }
    }

    fn is_variable_box(&self, object: u64) -> bool {
        self.kind_of(object) == MotokoKind::MutBox
    }

    /// The array of static variables.
    fn lists_roots(&self, object: u64) -> bool {
        self.roots.iter().any(|root| root.object == object && root.name.to_string() == "static")
    }

    fn locate(&self, text: &str, depth: u32, found: &Bitmap) -> Result<Located, HeapError> {
        let location = self.find_value(text, found)?;
        let object = match (location.value, location.holder) {
            (MotokoValue::Object(object), _) => object,
            (_, Some((holder, _))) => holder,
            _ => return Err(format!("nothing is at '{text}'").into()),
        };
        Ok(Located { object, value: Some(self.show(location.value, ShowLimits::to_depth(depth))) })
    }
}
