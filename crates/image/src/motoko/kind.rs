//! Kinds of objects, and the tags that say so.

/// What an object is. The order is that of [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
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
    /// An object that was moved: its new place is what counts.
    Forwarded,
    /// What the collector's mark stack left behind.
    MarkStack,
    /// Bytes at the end of a partition that were never used.
    Unused,
    /// Bytes that are no object.
    Gap,
}

/// Their names, as reports and JSON have them.
pub const NAMES: [&str; 31] = [
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

/// Arrays by what selects them.
const ARRAYS: [Kind; 4] = [Kind::ImmutableArray, Kind::MutableArray, Kind::Tuple, Kind::SharedFunction];

/// By half of the tag: all are odd.
const COMMON: [Kind; 20] = [
    Kind::Object,
    Kind::ImmutableArray,
    Kind::MutableArray,
    Kind::Tuple,
    Kind::SharedFunction,
    Kind::Nat64,
    Kind::Int64,
    Kind::Float,
    Kind::MutBox,
    Kind::Closure,
    Kind::Some,
    Kind::Variant,
    Kind::Blob,
    Kind::Text,
    Kind::Principal,
    Kind::ActorRef,
    Kind::FwdPtr,
    Kind::BigInt,
    Kind::Concat,
    Kind::Region,
];

impl Kind {
    /// What a tag of a 64-bit heap says.
    #[inline]
    pub fn of_wide_tag(tag: u64) -> Option<Self> {
        match tag {
            1..=40 if tag & 1 == 1 => Some(COMMON[(tag / 2) as usize]),
            41 => Some(Self::OneWordFiller),
            43 => Some(Self::FreeSpace),
            45 => Some(Self::WeakRef),
            // The collector marks long arrays piece by piece, and keeps the index of the next piece there.
            46.. => Some(ARRAYS[(tag >> 62) as usize]),
            _ => None,
        }
    }

    /// What a tag of a 32-bit heap says; only an incremental collector marks arrays piece by piece.
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

    /// True for what stands for no object.
    #[inline]
    pub fn is_free(self) -> bool {
        matches!(self, Self::OneWordFiller | Self::FreeSpace)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_as_the_runtime_has_them() {
        let wide = |tag| Kind::of_wide_tag(tag).map(Kind::name);
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
        let narrow = |tag| Kind::of_narrow_tag(tag, false).map(Kind::name);
        assert_eq!(
            [41, 43, 47, 49, 51, 52, 53].map(narrow),
            [Some("Nat32"), Some("Int32"), Some("Null"), Some("OneWordFiller"), Some("FreeSpace"), None, None]
        );
        assert_eq!(Kind::of_narrow_tag(0x8000_0044, true).map(Kind::name), Some("Tuple"));
        assert_eq!((NAMES[Kind::Gap as usize], NAMES[Kind::Region as usize]), ("Gap", "Region"));
    }
}
