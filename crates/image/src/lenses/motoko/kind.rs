//! Kinds of objects, and their tags.

/// The kind of an object. The order is that of [`Lens::KINDS`](crate::Lens::KINDS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum MotokoKind {
    Object,
    ImmutableArray,
    MutableArray,
    Tuple,
    SharedFunction,
    Nat64,
    Int64,
    Float,
    MutBox,
    Closure,
    Some,
    Variant,
    Blob,
    Text,
    Principal,
    ActorRef,
    FwdPtr,
    BigInt,
    Concat,
    Region,
    WeakRef,
    Nat32,
    Int32,
    Float32,
    Null,
    OneWordFiller,
    FreeSpace,
    /// An object that was moved: only the one at its new address counts.
    Forwarded,
    /// Memory that the collector's mark stack left.
    MarkStack,
    /// Zero bytes at the end of a partition, never used.
    Unused,
    /// Bytes that are not an object.
    Gap,
}

/// The names of all kinds, for reports and JSON.
pub const KIND_NAMES: [&str; 31] = [
    "Object",
    "Array_I",
    "Array_M",
    "Tuple",
    "SharedFunction",
    "Nat64",
    "Int64",
    "Float",
    "MutBox",
    "Closure",
    "Some",
    "Variant",
    "Blob",
    "Text",
    "Principal",
    "ActorRef",
    "FwdPtr",
    "BigInt",
    "Concat",
    "Region",
    "WeakRef",
    "Nat32",
    "Int32",
    "Float32",
    "Null",
    "OneWordFiller",
    "FreeSpace",
    "Forwarded",
    "MarkStack",
    "Unused",
    "Gap",
];

/// The kinds of arrays, by the bits that select them.
const ARRAYS: [MotokoKind; 4] =
    [MotokoKind::ImmutableArray, MotokoKind::MutableArray, MotokoKind::Tuple, MotokoKind::SharedFunction];

/// Kinds by half of the tag: all tags are odd.
const COMMON: [MotokoKind; 20] = [
    MotokoKind::Object,
    MotokoKind::ImmutableArray,
    MotokoKind::MutableArray,
    MotokoKind::Tuple,
    MotokoKind::SharedFunction,
    MotokoKind::Nat64,
    MotokoKind::Int64,
    MotokoKind::Float,
    MotokoKind::MutBox,
    MotokoKind::Closure,
    MotokoKind::Some,
    MotokoKind::Variant,
    MotokoKind::Blob,
    MotokoKind::Text,
    MotokoKind::Principal,
    MotokoKind::ActorRef,
    MotokoKind::FwdPtr,
    MotokoKind::BigInt,
    MotokoKind::Concat,
    MotokoKind::Region,
];

impl MotokoKind {
    /// The kind for a tag of a 64-bit heap.
    #[inline]
    pub fn of_wide_tag(tag: u64) -> Option<Self> {
        match tag {
            1..=40 if tag & 1 == 1 => Some(COMMON[(tag / 2) as usize]),
            41 => Some(Self::OneWordFiller),
            43 => Some(Self::FreeSpace),
            45 => Some(Self::WeakRef),
            // The collector marks long arrays piece by piece, and stores the index of the next piece in the tag.
            46.. => Some(ARRAYS[(tag >> 62) as usize]),
            _ => None,
        }
    }

    /// The kind for a tag of a 32-bit heap; only an incremental collector marks arrays piece by piece.
    #[inline]
    pub fn of_narrow_tag(tag: u64, incremental: bool) -> Option<Self> {
        match tag {
            1..=40 if tag & 1 == 1 => Some(COMMON[(tag / 2) as usize]),
            41 => Some(Self::Nat32),
            43 => Some(Self::Int32),
            45 => Some(Self::Float32),
            47 => Some(Self::Null),
            49 => Some(Self::OneWordFiller),
            51 => Some(Self::FreeSpace),
            52.. if incremental => Some(ARRAYS[(tag >> 30 & 3) as usize]),
            _ => None,
        }
    }

    /// True for free space, which is not an object.
    #[inline]
    pub fn is_free(self) -> bool {
        matches!(self, Self::OneWordFiller | Self::FreeSpace)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        KIND_NAMES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_as_the_runtime_has_them() {
        let wide = |tag| MotokoKind::of_wide_tag(tag).map(MotokoKind::name);
        assert_eq!(
            [1, 3, 5, 7, 9].map(wide),
            [Some("Object"), Some("Array_I"), Some("Array_M"), Some("Tuple"), Some("SharedFunction")]
        );
        assert_eq!(
            [11, 13, 15, 17, 19].map(wide),
            [Some("Nat64"), Some("Int64"), Some("Float"), Some("MutBox"), Some("Closure")]
        );
        assert_eq!(
            [21, 23, 25, 27, 29, 31].map(wide),
            [Some("Some"), Some("Variant"), Some("Blob"), Some("Text"), Some("Principal"), Some("ActorRef")]
        );
        assert_eq!(
            [33, 35, 37, 39, 41, 43, 45].map(wide),
            [
                Some("FwdPtr"),
                Some("BigInt"),
                Some("Concat"),
                Some("Region"),
                Some("OneWordFiller"),
                Some("FreeSpace"),
                Some("WeakRef")
            ]
        );
        assert_eq!([0, 2, 40, 44].map(wide), [None; 4]);
        assert_eq!(wide(0x4000_0000_0049_2480), Some("Array_M"));
        let narrow = |tag| MotokoKind::of_narrow_tag(tag, false).map(MotokoKind::name);
        assert_eq!(
            [41, 43, 47, 49, 51, 52, 53].map(narrow),
            [Some("Nat32"), Some("Int32"), Some("Null"), Some("OneWordFiller"), Some("FreeSpace"), None, None]
        );
        assert_eq!(MotokoKind::of_narrow_tag(0x8000_0044, true).map(MotokoKind::name), Some("Tuple"));
        assert_eq!((KIND_NAMES[MotokoKind::Gap as usize], KIND_NAMES[MotokoKind::Region as usize]), ("Gap", "Region"));
    }
}
