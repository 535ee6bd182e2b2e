//! The sections of a module, as bytes.

use super::BadModule;

/// A section: its number, the offset of its content in the file, its content.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    pub id: u8,
    pub offset: usize,
    pub content: &'a [u8],
}

/// The first bytes of every module.
pub const HEADER: [u8; 8] = *b"\0asm\x01\0\0\0";

/// Splits a module into its sections.
pub fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>, BadModule> {
    if !bytes.starts_with(&HEADER) {
        return Err(BadModule("not a WASM module".into()));
    }
    let mut found = Vec::new();
    let mut at = HEADER.len();
    while let Some(&id) = bytes.get(at) {
        let (length, offset) = number(bytes, at + 1).ok_or_else(|| cut(at))?;
        let end = offset.checked_add(length as usize).filter(|&end| end <= bytes.len()).ok_or_else(|| cut(at))?;
        found.push(Section { id, offset, content: &bytes[offset..end] });
        at = end;
    }
    Ok(found)
}

fn cut(at: usize) -> BadModule {
    BadModule(format!("not a sound WASM module: the section at byte {at} is cut off"))
}

/// The number at an offset (LEB128, 32 bits), and the offset after it.
pub fn number(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.get(at..)?.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((u32::try_from(value).ok()?, at + index + 1));
        }
    }
    None
}

/// Appends a number (LEB128).
pub fn push_number(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in [0, 1, 127, 128, 300, 1 << 20, u32::MAX] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, value);
            assert_eq!(number(&bytes, 0), Some((value, bytes.len())));
        }
        assert_eq!(number(&[0x80, 0x80], 0), None);
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xff, 0x7f], 0), None);
    }

    #[test]
    fn a_section_that_goes_beyond_the_file_is_an_error() {
        let mut module = HEADER.to_vec();
        module.extend([1, 9, 0]);
        assert!(sections(&module).unwrap_err().0.contains("byte 8"));
        assert!(sections(b"\x7fELF").is_err());
    }
}
