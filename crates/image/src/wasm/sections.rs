//! The sections of a module, as bytes.

use super::WasmError;
use wasmparser::BinaryReader;

/// The first bytes of every module.
pub const HEADER: [u8; 8] = *b"\0asm\x01\0\0\0";

/// A section of a module.
#[derive(Clone, Copy, Debug)]
pub struct WasmSection<'a> {
    /// Its kind: 0 for custom sections.
    pub id: u8,
    /// The offset in the file at which it begins.
    pub start: usize,
    /// The offset in the file at which its content begins.
    pub offset: usize,
    /// Its content.
    pub content: &'a [u8],
}

impl<'a> WasmSection<'a> {
    /// The number of its entries, and the bytes of the entries; `None` if it does not begin with a number.
    pub fn entries(&self) -> Option<(u32, &'a [u8])> {
        let mut reader = self.reader();
        let count = reader.read_var_u32().ok()?;
        Some((count, &self.content[reader.current_position()..]))
    }

    pub(super) fn reader(&self) -> BinaryReader<'a> {
        BinaryReader::new(self.content, self.offset)
    }
}

/// Splits a module into its sections. Their contents are not read.
pub fn sections(bytes: &[u8]) -> Result<Vec<WasmSection<'_>>, WasmError> {
    let Some(rest) = bytes.strip_prefix(&HEADER) else { return Err(WasmError::NotWasm) };
    let mut reader = BinaryReader::new(rest, HEADER.len());
    let mut found = Vec::new();
    while !reader.eof() {
        let start = reader.original_position();
        found.push(section(&mut reader, start).map_err(|_| WasmError::CutOff { section: start })?);
    }
    Ok(found)
}

fn section<'a>(reader: &mut BinaryReader<'a>, start: usize) -> wasmparser::Result<WasmSection<'a>> {
    let id = reader.read_u8()?;
    let length = reader.read_var_u32()?;
    let offset = reader.original_position();
    Ok(WasmSection { id, start, offset, content: reader.read_bytes(length as usize)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_goes_beyond_the_file_is_an_error() {
        let mut module = HEADER.to_vec();
        module.extend([1, 9, 0]);
        assert_eq!(sections(&module).unwrap_err(), WasmError::CutOff { section: 8 });
        assert!(sections(&module).unwrap_err().to_string().contains("byte 8"));
        assert_eq!(sections(b"\x7fELF").unwrap_err(), WasmError::NotWasm);
    }
}
