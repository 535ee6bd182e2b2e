//! Numbers of any size, as the runtime stores them: limbs of 60 or 28 bits.

use super::heap::Motoko;

/// The most limbs that are converted to digits; longer numbers are only described.
const MOST_LIMBS: u64 = 512;
const NINE_DIGITS: u64 = 1_000_000_000;

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// The bits of a limb.
    pub(super) const LIMB_BITS: u32 = if WIDE { 60 } else { 28 };

    /// The address of a big number's struct: used limbs, capacity in limbs, sign.
    pub(super) fn number_at(&self, object: u64) -> u64 {
        object.wrapping_add(self.header * Self::WORD)
    }

    /// The address of its limbs.
    pub(super) fn limbs_at(&self, object: u64) -> u64 {
        self.number_at(object).wrapping_add(if WIDE { 24 } else { 16 })
    }

    /// Its capacity in limbs.
    pub(super) fn limb_room(&self, object: u64) -> u64 {
        self.image.u32(self.number_at(object).wrapping_add(4)).into()
    }

    /// A big number as digits.
    pub fn big_number(&self, object: u64) -> String {
        let used = u64::from(self.image.u32(self.number_at(object))).min(self.limb_room(object));
        if used > MOST_LIMBS {
            return format!("(a number of some {} bits)", used * u64::from(Self::LIMB_BITS));
        }
        let is_negative = self.image.u32(self.number_at(object).wrapping_add(8)) == 1;
        let limbs: Vec<u64> =
            (0..used).map(|limb| self.word(self.limbs_at(object).wrapping_add(limb * Self::WORD))).collect();
        let digits = digits(&limbs, Self::LIMB_BITS);
        if is_negative { format!("-{digits}") } else { digits }
    }
}

/// The sum of `limb << (bits * i)`, in decimal digits.
fn digits(limbs: &[u64], bits: u32) -> String {
    // Groups of nine digits, lowest first.
    let mut groups: Vec<u64> = vec![0];
    for &limb in limbs.iter().rev() {
        let mut carry = u128::from(limb);
        for group in &mut groups {
            let value = (u128::from(*group) << bits) + carry;
            *group = (value % u128::from(NINE_DIGITS)) as u64;
            carry = value / u128::from(NINE_DIGITS);
        }
        while carry > 0 {
            groups.push((carry % u128::from(NINE_DIGITS)) as u64);
            carry /= u128::from(NINE_DIGITS);
        }
    }
    let mut text = groups.last().map(u64::to_string).unwrap_or_default();
    for group in groups.iter().rev().skip(1) {
        text.push_str(&format!("{group:09}"));
    }
    text
}

/// The limbs of a number written in decimal digits, without trailing zeros; `None` if it is not a number.
pub(super) fn limbs_of(text: &str, bits: u32) -> Option<Vec<u64>> {
    if text.is_empty() || text.len() > 4096 {
        return None;
    }
    let mut limbs: Vec<u64> = Vec::new();
    for character in text.chars().filter(|character| *character != '_') {
        let mut carry = u128::from(character.to_digit(10)?);
        for limb in &mut limbs {
            let value = u128::from(*limb) * 10 + carry;
            *limb = (value & ((1 << bits) - 1)) as u64;
            carry = value >> bits;
        }
        if carry > 0 {
            limbs.push(carry as u64);
        }
    }
    Some(limbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_limbs_are_each_other_s_inverse() {
        for bits in [60, 28] {
            for text in ["0", "7", "340282366920938463463374607431768211456", "1000000000", "18446744073709551616"] {
                let limbs = limbs_of(text, bits).expect("a number");
                assert_eq!(digits(&limbs, bits), text, "{bits}");
            }
        }
        assert_eq!((limbs_of("12x", 60), limbs_of("", 60), limbs_of("1_000", 60)), (None, None, Some(vec![1000])));
    }
}
