//! The value of a word in a field, an element or a variable.

/// The word for `null` in a 64-bit heap.
pub const WIDE_NULL: u64 = 0xffff_ffff_ffff_fffb;

/// The value of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MotokoValue {
    /// `null`.
    Null,
    /// `false`, or `()`: they are the same word.
    False,
    /// `true`.
    True,
    /// `Nat` or `Int`.
    Int(i64),
    /// A number of a fixed width, with its type.
    Fixed(FixedType, i128),
    /// A character.
    Char(u32),
    /// The object at an address.
    Object(u64),
    /// A word whose type only the program knows.
    Untyped(u32),
    /// A word that is not a valid value.
    Invalid(u64),
}

/// Types of numbers with a fixed width that need no box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FixedType {
    Nat8,
    Nat16,
    Nat32,
    Nat64,
    Int8,
    Int16,
    Int32,
    Int64,
}

impl FixedType {
    /// All, in the order in which their tags must be tried: the shortest first.
    pub const ALL: [Self; 8] =
        [Self::Nat64, Self::Int64, Self::Nat32, Self::Int32, Self::Nat16, Self::Int16, Self::Nat8, Self::Int8];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nat8 => "Nat8",
            Self::Nat16 => "Nat16",
            Self::Nat32 => "Nat32",
            Self::Nat64 => "Nat64",
            Self::Int8 => "Int8",
            Self::Int16 => "Int16",
            Self::Int32 => "Int32",
            Self::Int64 => "Int64",
        }
    }

    /// Its tag: the number of low bits of a word that it takes, and their value.
    fn tag(self) -> (u32, u64) {
        match self {
            Self::Nat64 => (4, 4),
            Self::Int64 => (4, 12),
            Self::Nat32 => (32, 1 << 30),
            Self::Int32 => (32, 3 << 30),
            Self::Nat16 => (48, 1 << 46),
            Self::Int16 => (48, 3 << 46),
            Self::Nat8 => (56, 1 << 54),
            Self::Int8 => (56, 3 << 54),
        }
    }

    /// Its bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Nat8 | Self::Int8 => 8,
            Self::Nat16 | Self::Int16 => 16,
            Self::Nat32 | Self::Int32 => 32,
            Self::Nat64 | Self::Int64 => 64,
        }
    }

    /// True if a number is one of its values.
    pub fn contains(self, number: i128) -> bool {
        let (lowest, highest) = match self.is_signed() {
            true => (-(1 << (self.bits() - 1)), (1 << (self.bits() - 1)) - 1),
            false => (0, (1 << self.bits()) - 1),
        };
        (lowest..=highest).contains(&number)
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    fn matches(self, word: u64) -> bool {
        let (bits, tag) = self.tag();
        word & ((1 << bits) - 1) == tag
    }

    fn payload(self, word: u64) -> i128 {
        let (bits, _) = self.tag();
        if self.is_signed() { i128::from(word as i64 >> bits) } else { i128::from(word >> bits) }
    }

    /// The word of a number; `None` if it does not fit without a box.
    pub fn word(self, number: i128) -> Option<u64> {
        let (bits, tag) = self.tag();
        let word = ((number as u64) << bits) | tag;
        (self.payload(word) == number).then_some(word)
    }
}

const CHAR_BITS: u32 = 43;
const CHAR_TAG: u64 = 1 << 41;

impl MotokoValue {
    /// The value of a word in a 64-bit heap.
    pub fn of_wide(word: u64) -> Self {
        match word {
            WIDE_NULL => Self::Null,
            0 => Self::False,
            1 => Self::True,
            _ if word & 1 == 1 => Self::Object(word.wrapping_add(1)),
            _ if word & 3 == 2 => Self::Int(word as i64 >> 2),
            _ if word & ((1 << CHAR_BITS) - 1) == CHAR_TAG => Self::Char((word >> CHAR_BITS) as u32),
            _ => match FixedType::ALL.into_iter().find(|fixed| fixed.matches(word)) {
                Some(fixed) => Self::Fixed(fixed, fixed.payload(word)),
                None => Self::Invalid(word),
            },
        }
    }

    /// The value of a word in a 32-bit heap.
    pub fn of_narrow(word: u32) -> Self {
        match word {
            1 => Self::True,
            _ if word & 1 == 1 => Self::Object(u64::from(word.wrapping_add(1))),
            _ => Self::Untyped(word),
        }
    }
}

/// The word of a `Nat` or `Int` in a 64-bit heap, if it fits without a box.
pub fn wide_int(number: i128) -> Option<u64> {
    let word = ((number as u64) << 2) | 2;
    (i128::from(word as i64 >> 2) == number).then_some(word)
}

/// The word of a `Nat` or `Int` in a 32-bit heap, if it fits without a box.
pub fn narrow_int(number: i128) -> Option<u32> {
    let word = (number as u32) << 1;
    (i128::from(word as i32 >> 1) == number).then_some(word)
}

/// The word of a number of a fixed width in a 32-bit heap, if it fits without a box. Such words do not contain their type.
pub fn narrow_fixed(fixed: FixedType, number: i128) -> Option<u32> {
    match fixed.bits() {
        // Of wide numbers, 31 bits fit; those that have no sign are read without one, and all of these fit either way.
        32 | 64 => narrow_int(number),
        bits => fixed.contains(number).then_some((number as u32) << (32 - bits)),
    }
}

/// The word of a character in a 32-bit heap.
pub fn narrow_char(character: char) -> u32 {
    u32::from(character) << 11
}

/// The word of a character in a 64-bit heap.
pub fn wide_char(character: char) -> u64 {
    u64::from(u32::from(character)) << CHAR_BITS | CHAR_TAG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_wide_heap_say_their_type() {
        for (fixed, number) in [
            (FixedType::Nat8, 200),
            (FixedType::Int8, -100),
            (FixedType::Nat16, 60_000),
            (FixedType::Int16, -30_000),
            (FixedType::Nat32, 4_000_000_000),
            (FixedType::Int32, -2_000_000_000),
            (FixedType::Nat64, 77),
            (FixedType::Int64, -5),
        ] {
            let word = fixed.word(number).expect("it fits");
            assert_eq!(MotokoValue::of_wide(word), MotokoValue::Fixed(fixed, number), "{}", fixed.name());
        }
        assert_eq!(FixedType::Nat8.word(256), None);
        assert_eq!(FixedType::Nat64.word(i128::from(u64::MAX)), None);
        assert_eq!(MotokoValue::of_wide(wide_char('é')), MotokoValue::Char(0xe9));
        for number in [0, -1, 49_500, (1 << 61) - 1, -(1 << 61)] {
            assert_eq!(MotokoValue::of_wide(wide_int(number).expect("it fits")), MotokoValue::Int(number as i64));
        }
        assert_eq!((wide_int(1 << 61), narrow_int(1 << 30), narrow_int(-(1 << 30))), (None, None, Some(1 << 31)));
        assert_eq!(
            [0, 1, WIDE_NULL, 0x50_0007].map(MotokoValue::of_wide),
            [MotokoValue::False, MotokoValue::True, MotokoValue::Null, MotokoValue::Object(0x50_0008)]
        );
    }
}
