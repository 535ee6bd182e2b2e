//! A path that is put together without a heap.

use core::ffi::CStr;

const LONGEST: usize = 4096;

/// A path; too long a one is empty.
pub struct PathText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl PathText {
    /// These parts, one after the other.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut path = Self { bytes: [0; LONGEST], length: 0 };
        for part in parts {
            let end = path.length + part.len();
            let Some(room) = path.bytes[..LONGEST - 1].get_mut(path.length..end) else {
                return Self { bytes: [0; LONGEST], length: 0 };
            };
            room.copy_from_slice(part);
            path.length = end;
        }
        path
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The same with the zero that ends it.
    pub fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// A number in decimal digits.
pub struct Digits {
    bytes: [u8; 20],
    first: usize,
}

impl Digits {
    pub fn of(mut number: u64) -> Self {
        let mut digits = Self { bytes: [b'0'; 20], first: 20 };
        for (at, digit) in digits.bytes.iter_mut().enumerate().rev() {
            *digit = b'0' + (number % 10) as u8;
            digits.first = at;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        digits
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.first..).unwrap_or_default()
    }
}
