//! Sizes in limits: numbers of bytes, or texts with units.

/// A limit in bytes: a number, or a text such as `"4 MiB"`.
///
/// `KiB`, `MiB`, `GiB` and `TiB` are powers of 1,024, as is the letter alone; `KB`, `MB`, `GB` and `TB` are powers of 1,000.
pub trait Size {
    /// The number of bytes.
    ///
    /// # Panics
    /// If it is a text and not a size.
    fn bytes(self) -> u64;
}

impl Size for u64 {
    fn bytes(self) -> u64 {
        self
    }
}

impl Size for &str {
    #[track_caller]
    fn bytes(self) -> u64 {
        match parse(self) {
            Some(bytes) => bytes,
            None => panic!("{self:?} is {NO_SIZE}"),
        }
    }
}

const NO_SIZE: &str =
    "not a size: write for instance 65536, 512 KiB (1,024 bytes each), 80 KB (1,000 bytes each) or 4 MiB";

/// The size in an attribute, when it is compiled.
#[doc(hidden)]
pub const fn size_in_attribute(text: &str) -> u64 {
    match parse(text) {
        Some(bytes) => bytes,
        None => panic!("{}", NO_SIZE),
    }
}

const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// The sizes that the command line knows. A `const` function, so that a wrong limit in an attribute does not compile.
const fn parse(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let (mut at, mut number) = (0, 0u64);
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        let Some(tens) = number.checked_mul(10) else { return None };
        let Some(sum) = tens.checked_add((bytes[at] - b'0') as u64) else { return None };
        number = sum;
        at += 1;
    }
    if at == 0 {
        return None;
    }
    let (_, unit) = bytes.split_at(at);
    let unit = unit.trim_ascii();
    let mut known = 0;
    while known < UNITS.len() {
        if unit.eq_ignore_ascii_case(UNITS[known].0.as_bytes()) {
            return number.checked_mul(UNITS[known].1);
        }
        known += 1;
    }
    None
}

/// A number of bytes for people: `1.5 KiB`.
pub(super) fn shown(bytes: u64) -> String {
    const NAMES: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < NAMES.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", NAMES[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_command_line() {
        let cases = [
            ("65536", 65536),
            ("512KiB", 512 << 10),
            ("4 MiB", 4 << 20),
            ("80 kb", 80_000),
            ("80K", 80 << 10),
            ("2G", 2 << 30),
            ("1 TB", 1_000_000_000_000),
            ("7B", 7),
            ("0", 0),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for wrong in ["", "KiB", "4 MaB", "1.5G", "-1", "99999999999999999999", "20000000000G", "1kbb", " 4"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_are_shown_with_a_unit() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB"), ((1 << 20) - 1, "1.0 MiB")];
        for (bytes, text) in cases {
            assert_eq!(shown(bytes), text);
        }
    }
}
