//! Bytes as programmers read them.

use data_encoding::HEXLOWER;

/// Bytes of a line.
const LINE: usize = 16;

/// The bytes as hexadecimal digits: `48656c6c6f`.
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// The bytes in lines, as digits and as text: `48 65 6c 6c 6f  |Hello|`.
pub fn hex_lines(bytes: &[u8]) -> Vec<String> {
    let width = bytes.len().min(LINE) * 3 - usize::from(!bytes.is_empty());
    let line = |bytes: &[u8]| {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let text: String = bytes.iter().map(shown).collect();
        format!("{:width$}  |{text}|", digits.join(" "))
    };
    bytes.chunks(LINE).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_digits_and_as_text() {
        assert_eq!(hex(b"Hi\n"), "48690a");
        assert_eq!(hex_lines(b"Hi\n"), ["48 69 0a  |Hi.|"]);
        let long = hex_lines(b"0123456789abcdefg");
        assert_eq!(long[0], "30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  |0123456789abcdef|");
        assert_eq!(long[1], format!("{:47}  |g|", "67"));
        assert!(hex_lines(b"").is_empty());
    }
}
