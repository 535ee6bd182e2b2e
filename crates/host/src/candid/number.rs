//! Whole numbers of any size: conversion between decimal digits and LEB128.

/// A whole number: its sign and its magnitude, in words of 32 bits, lowest first, without zeros at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeNumber {
    pub is_negative: bool,
    magnitude: Vec<u32>,
}

/// The most digits of a number in text, far more than a user writes. Parsing takes time in proportion to the square of the digits.
const MOST_DIGITS: usize = 10_000;

impl WholeNumber {
    fn new(is_negative: bool, mut magnitude: Vec<u32>) -> Self {
        while magnitude.last() == Some(&0) {
            magnitude.pop();
        }
        Self { is_negative: is_negative && !magnitude.is_empty(), magnitude }
    }

    /// Parses digits, with underscores between them; the prefix `0x` makes them hexadecimal.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, digits) = match text.strip_prefix(['-', '+']) {
            Some(digits) => (text.starts_with('-'), digits),
            None => (false, text),
        };
        let (radix, digits) = digits.strip_prefix("0x").map_or((10, digits), |digits| (16, digits));
        if digits.len() > MOST_DIGITS || !digits.starts_with(|digit: char| digit.is_digit(radix)) {
            return None;
        }
        let mut magnitude = Vec::new();
        for digit in digits.chars().filter(|&digit| digit != '_') {
            multiply_add(&mut magnitude, radix, digit.to_digit(radix)?);
        }
        Some(Self::new(is_negative, magnitude))
    }

    /// From 128 bits.
    pub fn from_i128(value: i128) -> Self {
        let words = value.unsigned_abs();
        Self::new(value < 0, (0..4).map(|index| (words >> (32 * index)) as u32).collect())
    }

    /// As 128 bits, if it fits.
    pub fn to_i128(&self) -> Option<i128> {
        if self.magnitude.len() > 4 {
            return None;
        }
        let value = self.magnitude.iter().rev().fold(0u128, |value, &word| value << 32 | u128::from(word));
        match self.is_negative {
            true => 0i128.checked_sub_unsigned(value),
            false => i128::try_from(value).ok(),
        }
    }

    fn bits(&self) -> usize {
        self.magnitude.last().map_or(0, |last| self.magnitude.len() * 32 - last.leading_zeros() as usize)
    }

    /// Appends it as unsigned LEB128. It must not be negative.
    pub fn push_unsigned(&self, bytes: &mut Vec<u8>) {
        let count = self.bits().div_ceil(7).max(1);
        for index in 0..count {
            let more = if index + 1 < count { 0x80 } else { 0 };
            bytes.push(self.seven_bits(index * 7) | more);
        }
    }

    /// Appends it as signed LEB128.
    pub fn push_signed(&self, bytes: &mut Vec<u8>) {
        // One more bit, for the sign.
        let count = self.bits() / 7 + 1;
        let complement = if self.is_negative { self.complement(count * 7) } else { self.clone() };
        for index in 0..count {
            let more = if index + 1 < count { 0x80 } else { 0 };
            bytes.push(complement.seven_bits(index * 7) | more);
        }
    }

    /// Two's complement in `bits` bits, rounded up to whole words.
    fn complement(&self, bits: usize) -> Self {
        let mut carry = 1u64;
        let words = (0..bits.div_ceil(32)).map(|index| {
            let word = !self.magnitude.get(index).copied().unwrap_or(0);
            let sum = u64::from(word) + carry;
            carry = sum >> 32;
            sum as u32
        });
        Self { is_negative: false, magnitude: words.collect() }
    }

    fn seven_bits(&self, from: usize) -> u8 {
        let word = |index: usize| u64::from(self.magnitude.get(index).copied().unwrap_or(0));
        let pair = word(from / 32) | word(from / 32 + 1) << 32;
        (pair >> (from % 32)) as u8 & 0x7f
    }

    /// Reads LEB128; returns the number and the count of bytes read.
    pub fn read(bytes: &[u8], is_signed: bool) -> Option<(Self, usize)> {
        let count = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let mut magnitude = vec![0u32; (count * 7).div_ceil(32)];
        for (index, byte) in bytes[..count].iter().enumerate() {
            let (bits, at) = (u64::from(byte & 0x7f), index * 7);
            let shifted = bits << (at % 32);
            magnitude[at / 32] |= shifted as u32;
            if let Some(next) = magnitude.get_mut(at / 32 + 1) {
                *next |= (shifted >> 32) as u32;
            }
        }
        let number = Self { is_negative: false, magnitude };
        if is_signed && bytes[count - 1] & 0x40 != 0 {
            let mut complement = number.complement(count * 7).magnitude;
            let spare = complement.len() * 32 - count * 7;
            if let Some(last) = complement.last_mut() {
                *last = if spare >= 32 { 0 } else { *last & (u32::MAX >> spare) };
            }
            return Some((Self::new(true, complement), count));
        }
        Some((Self::new(false, number.magnitude), count))
    }

    /// In decimal digits; very long numbers are cut.
    pub fn in_words(&self) -> String {
        const MOST_WORDS: usize = 1000;
        if self.magnitude.len() > MOST_WORDS {
            return format!("a number of {} bits", self.bits());
        }
        let mut rest = self.magnitude.clone();
        let mut groups = Vec::new();
        while !rest.is_empty() {
            let mut remainder = 0u64;
            for word in rest.iter_mut().rev() {
                let value = remainder << 32 | u64::from(*word);
                *word = (value / 1_000_000_000) as u32;
                remainder = value % 1_000_000_000;
            }
            while rest.last() == Some(&0) {
                rest.pop();
            }
            groups.push(remainder);
        }
        let mut text = if self.is_negative { "-".to_owned() } else { String::new() };
        text += &groups.last().map_or_else(|| "0".to_owned(), u64::to_string);
        for group in groups.iter().rev().skip(1) {
            text += &format!("{group:09}");
        }
        text
    }
}

fn multiply_add(magnitude: &mut Vec<u32>, factor: u32, addend: u32) {
    let mut carry = u64::from(addend);
    for word in magnitude.iter_mut() {
        let value = u64::from(*word) * u64::from(factor) + carry;
        *word = value as u32;
        carry = value >> 32;
    }
    if carry > 0 {
        magnitude.push(carry as u32);
    }
}
