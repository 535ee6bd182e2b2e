//! The whole numbers of scripts: Nat and Int of any size, and those of fixed width.
//!
//! Numbers that fit into 64 bits are kept as such: nearly all do, and the rest costs an allocation each.

use num_bigint::{BigInt, Sign};
use num_traits::{Pow, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// The type of a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    Nat,
    Int,
    Nat8,
    Nat16,
    Nat32,
    Nat64,
    Int8,
    Int16,
    Int32,
    Int64,
}

impl NumberKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Nat,
        Self::Int,
        Self::Nat8,
        Self::Nat16,
        Self::Nat32,
        Self::Nat64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
    ];

    /// The kind that a type's name means.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nat => "Nat",
            Self::Int => "Int",
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

    /// The width in bits; none of Nat and Int.
    pub fn bits(self) -> Option<u32> {
        match self {
            Self::Nat | Self::Int => None,
            Self::Nat8 | Self::Int8 => Some(8),
            Self::Nat16 | Self::Int16 => Some(16),
            Self::Nat32 | Self::Int32 => Some(32),
            Self::Nat64 | Self::Int64 => Some(64),
        }
    }

    /// True if there are negative ones.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::Int | Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// The least and the greatest number of a fixed width.
    pub fn range(self) -> Option<(i128, i128)> {
        let bits = self.bits()?;
        Some(match self.is_signed() {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        })
    }
}

#[derive(Clone, Debug)]
enum Magnitude {
    Small(i64),
    /// Never one that fits into 64 bits: equal numbers have equal forms.
    Big(Rc<BigInt>),
}

/// A whole number of a type.
#[derive(Clone)]
pub struct Number {
    /// Its type.
    pub kind: NumberKind,
    magnitude: Magnitude,
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.magnitude {
            Magnitude::Small(number) => write!(f, "{number}"),
            Magnitude::Big(number) => write!(f, "{number}"),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By value: the type does not matter.
impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.magnitude, &other.magnitude) {
            (Magnitude::Small(one), Magnitude::Small(two)) => one.cmp(two),
            _ => self.big().cmp(&other.big()),
        }
    }
}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.magnitude {
            Magnitude::Small(number) => number.hash(state),
            Magnitude::Big(number) => number.hash(state),
        }
    }
}

/// Why a calculation has no result.
pub type Impossible = String;

impl Number {
    /// A number that is known to be of the type.
    pub fn small(kind: NumberKind, number: i64) -> Self {
        Self { kind, magnitude: Magnitude::Small(number) }
    }

    /// A Nat.
    pub fn nat(number: u64) -> Self {
        Self::unchecked(NumberKind::Nat, BigInt::from(number))
    }

    /// A number that is known to be of the type.
    pub fn unchecked(kind: NumberKind, number: BigInt) -> Self {
        let magnitude = number.to_i64().map_or_else(|| Magnitude::Big(Rc::new(number)), Magnitude::Small);
        Self { kind, magnitude }
    }

    /// A number, if it is one of the type.
    pub fn checked(kind: NumberKind, number: BigInt) -> Result<Self, Impossible> {
        let fits = match kind.range() {
            Some((least, greatest)) => number.to_i128().is_some_and(|number| (least..=greatest).contains(&number)),
            None => kind.is_signed() || number.sign() != Sign::Minus,
        };
        if fits { Ok(Self::unchecked(kind, number)) } else { Err(not_of(kind, &number)) }
    }

    fn checked_wide(kind: NumberKind, number: i128) -> Result<Self, Impossible> {
        let fits = kind
            .range()
            .map_or_else(|| kind.is_signed() || number >= 0, |(least, greatest)| (least..=greatest).contains(&number));
        match (fits, i64::try_from(number)) {
            (true, Ok(number)) => Ok(Self::small(kind, number)),
            (true, Err(_)) => Ok(Self::unchecked(kind, number.into())),
            (false, _) => Err(not_of(kind, &number.into())),
        }
    }

    /// The same number in a type of fixed width: only its lowest bits.
    pub fn wrapped(kind: NumberKind, number: &BigInt) -> Self {
        let Some(bits) = kind.bits() else { return Self::unchecked(kind, number.clone()) };
        let modulus = BigInt::from(1) << bits;
        let mut low = ((number % &modulus) + &modulus) % &modulus;
        if kind.is_signed() && low >= &modulus / 2 {
            low -= modulus;
        }
        Self::unchecked(kind, low)
    }

    /// The number in another type.
    pub fn to_kind(&self, kind: NumberKind) -> Result<Self, Impossible> {
        match &self.magnitude {
            Magnitude::Small(number) => Self::checked_wide(kind, i128::from(*number)),
            Magnitude::Big(number) => Self::checked(kind, (**number).clone()),
        }
    }

    /// The number.
    pub fn big(&self) -> BigInt {
        match &self.magnitude {
            Magnitude::Small(number) => BigInt::from(*number),
            Magnitude::Big(number) => (**number).clone(),
        }
    }

    /// The number, if it is not negative and fits.
    pub fn to_u64(&self) -> Option<u64> {
        match &self.magnitude {
            Magnitude::Small(number) => u64::try_from(*number).ok(),
            Magnitude::Big(number) => number.to_u64(),
        }
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        match &self.magnitude {
            Magnitude::Small(number) => *number as f64,
            Magnitude::Big(number) => number.to_f64().unwrap_or(f64::NAN),
        }
    }

    /// The number without its sign, as a number of another type.
    pub fn absolute(&self, kind: NumberKind) -> Result<Self, Impossible> {
        Self::checked(kind, self.big().abs())
    }

    /// With the other sign.
    pub fn negated(&self, kind: NumberKind) -> Result<Self, Impossible> {
        Self::checked(kind, -self.big())
    }

    /// True if it is below zero.
    pub fn is_negative(&self) -> bool {
        match &self.magnitude {
            Magnitude::Small(number) => *number < 0,
            Magnitude::Big(number) => number.is_negative(),
        }
    }

    /// Adds, subtracts or multiplies in 128 bits where both are small, otherwise without a limit.
    fn combine(
        &self,
        other: &Self,
        kind: NumberKind,
        wide: impl Fn(i128, i128) -> i128,
        big: impl Fn(BigInt, BigInt) -> BigInt,
    ) -> Result<Self, Impossible> {
        match (&self.magnitude, &other.magnitude) {
            (Magnitude::Small(one), Magnitude::Small(two)) => {
                Self::checked_wide(kind, wide(i128::from(*one), i128::from(*two)))
            }
            _ => Self::checked(kind, big(self.big(), other.big())),
        }
    }

    /// The sum.
    pub fn add(&self, other: &Self, kind: NumberKind) -> Result<Self, Impossible> {
        self.combine(other, kind, |one, two| one + two, |one, two| one + two)
    }

    /// The difference.
    pub fn sub(&self, other: &Self, kind: NumberKind) -> Result<Self, Impossible> {
        self.combine(other, kind, |one, two| one - two, |one, two| one - two)
    }

    /// The product.
    pub fn mul(&self, other: &Self, kind: NumberKind) -> Result<Self, Impossible> {
        self.combine(other, kind, |one, two| one * two, |one, two| one * two)
    }

    /// The quotient, rounded towards zero.
    pub fn div(&self, other: &Self, kind: NumberKind) -> Result<Self, Impossible> {
        other.must_not_be_zero()?;
        self.combine(other, kind, |one, two| one / two, |one, two| one / two)
    }

    /// The remainder, which has the sign of the dividend.
    pub fn rem(&self, other: &Self, kind: NumberKind) -> Result<Self, Impossible> {
        other.must_not_be_zero()?;
        self.combine(other, kind, |one, two| one % two, |one, two| one % two)
    }

    fn must_not_be_zero(&self) -> Result<(), Impossible> {
        if matches!(self.magnitude, Magnitude::Small(0)) { Err("a division by zero".into()) } else { Ok(()) }
    }

    /// The power, without a limit: the caller brings it into its type.
    pub fn pow(&self, other: &Self) -> Result<BigInt, Impossible> {
        let base = self.big();
        if base.is_zero() || base == BigInt::from(1) {
            return Ok(if other.big().is_zero() { BigInt::from(1) } else { base });
        }
        let exponent = other.to_u64().filter(|exponent| *exponent <= 1 << 32);
        exponent.map(|exponent| Pow::pow(base, exponent)).ok_or_else(|| "a power that is too large".into())
    }
}

fn not_of(kind: NumberKind, number: &BigInt) -> Impossible {
    if kind == NumberKind::Nat {
        return "a Nat below zero; write the type Int: 'let d : Int = a - b'".into();
    }
    format!("{} cannot be {number}: arithmetic overflow", kind.name())
}
