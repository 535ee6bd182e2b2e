//! The objects of a Motoko heap: headers, sizes, references.

use super::kind::MotokoKind;
use super::names::MotokoNames;
use super::room::Room;
use super::value::{MotokoValue, WIDE_NULL};
use crate::image::Image;
use crate::lens::Root;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// A Motoko heap in an image: of 64 bits (`WIDE`, enhanced orthogonal persistence) or of 32 (classical).
pub struct Motoko<'a, const WIDE: bool> {
    pub(super) image: &'a Image,
    /// The number of words in a header: the tag, and the forwarding pointer if the collector needs one.
    pub(super) header: u64,
    /// The ranges filled with objects, in order.
    pub(super) ranges: Vec<Range<u64>>,
    /// All addresses at which objects may lie, static objects included.
    pub(super) span: Range<u64>,
    /// The address at which the dynamic heap begins.
    pub(super) base: u64,
    /// The size of the heap in bytes from `base` on, as the heap itself states it.
    pub(super) stated_bytes: Option<u64>,
    pub(super) roots: Vec<Root>,
    pub(super) names: MotokoNames,
    /// Where a new object can be added.
    pub(super) room: Room,
    /// True if some object was moved, so that references to it need its forwarding pointer.
    pub(super) has_moved: AtomicBool,
}

/// The range of an object's words that hold values.
type Slots = Range<u64>;

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// The bytes of a word.
    pub const WORD: u64 = if WIDE { 8 } else { 4 };

    #[inline]
    pub(super) fn word(&self, at: u64) -> u64 {
        if WIDE { self.image.u64(at) } else { u64::from(self.image.u32(at)) }
    }

    /// The word of an object at an index.
    #[inline]
    pub(super) fn nth(&self, object: u64, index: u64) -> u64 {
        self.word(object.wrapping_add(index.wrapping_mul(Self::WORD)))
    }

    /// The address at which the heap begins.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The size of the heap in bytes from its [`base`](Self::base) on, as the heap itself states it.
    pub fn stated_bytes(&self) -> Option<u64> {
        self.stated_bytes
    }

    /// Names of labels and functions, from the module.
    pub fn names(&self) -> &MotokoNames {
        &self.names
    }

    #[inline]
    fn tag_kind(&self, tag: u64) -> Option<MotokoKind> {
        if WIDE { MotokoKind::of_wide_tag(tag) } else { MotokoKind::of_narrow_tag(tag, self.header == 2) }
    }

    /// The kind of the object at an address, and whether it was moved elsewhere; `None` if there is no object.
    #[inline]
    pub(super) fn header_at(&self, at: u64) -> Option<(MotokoKind, bool)> {
        let kind = self.tag_kind(self.word(at))?;
        if self.header == 1 || kind.is_free() {
            return Some((kind, false));
        }
        let forward = self.nth(at, 1).wrapping_add(1) & Self::mask();
        if forward == at {
            return Some((kind, false));
        }
        let moved = forward.is_multiple_of(Self::WORD)
            && self.span.contains(&forward)
            && self.nth(forward, 1).wrapping_add(1) & Self::mask() == forward;
        moved.then_some((kind, true))
    }

    #[inline]
    fn mask() -> u64 {
        if WIDE { u64::MAX } else { u64::from(u32::MAX) }
    }

    /// The kind of an object; [`MotokoKind::Gap`] if its tag is not valid.
    #[inline]
    pub fn kind_of(&self, object: u64) -> MotokoKind {
        self.tag_kind(self.word(object)).unwrap_or(MotokoKind::Gap)
    }

    /// Its length in words; `None` if that is not possible.
    #[inline]
    pub(super) fn words(&self, at: u64, kind: MotokoKind) -> Option<u64> {
        let header = self.header;
        let body = |index| self.nth(at, index);
        // 2^40 is far more than any memory has, and additions cannot overflow.
        let bounded = |count: u64| (count < 1 << 40).then_some(count);
        let words = match kind {
            MotokoKind::Object if WIDE => header + 1 + self.fields(at)?,
            MotokoKind::Object => header + 2 + bounded(body(header))?,
            MotokoKind::ImmutableArray | MotokoKind::MutableArray | MotokoKind::Tuple | MotokoKind::SharedFunction => {
                header + 1 + bounded(body(header))?
            }
            MotokoKind::Nat64 | MotokoKind::Int64 | MotokoKind::Float => header + 8 / Self::WORD,
            MotokoKind::MutBox | MotokoKind::Some | MotokoKind::WeakRef => header + 1,
            MotokoKind::Closure => header + 2 + bounded(body(header + 1))?,
            MotokoKind::Variant => header + 2,
            MotokoKind::Blob | MotokoKind::Text | MotokoKind::Principal | MotokoKind::ActorRef => {
                header + 1 + bounded(body(header))?.div_ceil(Self::WORD)
            }
            MotokoKind::FwdPtr => 2,
            MotokoKind::BigInt => {
                let limbs = self.image.u32(at.wrapping_add(header * Self::WORD + 4));
                header + if WIDE { 3 } else { 4 } + u64::from(limbs)
            }
            MotokoKind::Concat => header + 3,
            MotokoKind::Region => header + if WIDE { 3 } else { 4 },
            MotokoKind::Nat32 | MotokoKind::Int32 | MotokoKind::Float32 => header + 1,
            MotokoKind::Null => header,
            MotokoKind::OneWordFiller => 1,
            MotokoKind::FreeSpace => 2 + bounded(body(1))?,
            MotokoKind::Forwarded | MotokoKind::MarkStack | MotokoKind::Unused | MotokoKind::Gap => return None,
        };
        Some(words)
    }

    /// The number of fields of a record.
    #[inline]
    pub(super) fn fields(&self, record: u64) -> Option<u64> {
        if WIDE {
            let MotokoValue::Object(hashes) = MotokoValue::of_wide(self.nth(record, self.header)) else { return None };
            let hashes = self.current_address(hashes);
            let count = self.nth(hashes, self.header) / 8;
            (self.kind_of(hashes) == MotokoKind::Blob && count < 1 << 32).then_some(count)
        } else {
            let count = self.nth(record, self.header);
            (count < 1 << 30).then_some(count)
        }
    }

    /// The hash of a record's field.
    pub(super) fn field_hash(&self, record: u64, field: u64) -> u32 {
        if WIDE {
            let hashes = self.current_address(self.nth(record, self.header).wrapping_add(1));
            self.nth(hashes, self.header + 1 + field) as u32
        } else {
            let hashes = self.nth(record, self.header + 1).wrapping_add(1);
            self.image.u32(hashes.wrapping_add(field.wrapping_mul(4)))
        }
    }

    /// The index of the word of a record's first field.
    pub(super) fn first_field(&self) -> u64 {
        self.header + if WIDE { 1 } else { 2 }
    }

    /// The present address of an object, given the address in a reference.
    #[inline]
    pub fn current_address(&self, object: u64) -> u64 {
        if self.header == 1 || !self.has_moved.load(Ordering::Relaxed) {
            return object;
        }
        let forward = self.nth(object, 1).wrapping_add(1) & Self::mask();
        let is_sound = forward.is_multiple_of(Self::WORD) && self.span.contains(&forward);
        if is_sound { forward } else { object }
    }

    /// The range of an object's words that hold values.
    #[inline]
    pub(super) fn slots(&self, object: u64) -> Slots {
        let header = self.header;
        match self.kind_of(object) {
            // The names of the fields are an object, too.
            MotokoKind::Object if WIDE => header..header + 1 + self.fields(object).unwrap_or(0),
            MotokoKind::Object => header + 2..header + 2 + self.fields(object).unwrap_or(0),
            MotokoKind::ImmutableArray | MotokoKind::MutableArray | MotokoKind::Tuple | MotokoKind::SharedFunction => {
                header + 1..(header + 1).saturating_add(self.length(object))
            }
            MotokoKind::MutBox | MotokoKind::Some => header..header + 1,
            MotokoKind::Closure => header + 2..(header + 2).saturating_add(self.nth(object, header + 1)),
            MotokoKind::Variant => header + 1..header + 2,
            MotokoKind::Concat => header + 1..header + 3,
            MotokoKind::Region if WIDE => header + 2..header + 3,
            MotokoKind::Region => header + 3..header + 4,
            _ => 0..0,
        }
    }

    /// The number of elements of an array, or of bytes of a blob or text.
    #[inline]
    pub fn length(&self, object: u64) -> u64 {
        self.nth(object, self.header)
    }

    /// The value of an object's word at an index.
    pub fn value(&self, object: u64, index: u64) -> MotokoValue {
        self.value_of(self.nth(object, index))
    }

    /// The value of a word.
    pub fn value_of(&self, word: u64) -> MotokoValue {
        let value = if WIDE { MotokoValue::of_wide(word) } else { MotokoValue::of_narrow(word as u32) };
        match value {
            MotokoValue::Object(object) => MotokoValue::Object(self.current_address(object)),
            other => other,
        }
    }

    /// True if a word refers to an object.
    #[inline]
    pub(super) fn is_reference(word: u64) -> bool {
        word & 1 == 1 && word != 1 && !(WIDE && word == WIDE_NULL)
    }

    /// The bytes of a blob, a principal, or a text in one piece.
    pub fn contents(&self, object: u64) -> &[u8] {
        self.image.slice(object.saturating_add((self.header + 1) * Self::WORD), self.length(object))
    }
}
