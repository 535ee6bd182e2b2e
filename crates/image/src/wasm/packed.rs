//! Modules that are compressed with gzip, as canisters are often installed.

use super::WasmError;
use std::borrow::Cow;
use std::io::Read;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The largest module. The Internet Computer installs none above 100 MiB; a few bytes of gzip can claim any length.
const LARGEST: u64 = 512 << 20;

/// A module as it is, or unpacked if it is compressed with gzip.
pub fn unpacked(bytes: &[u8]) -> Result<Cow<'_, [u8]>, WasmError> {
    if !bytes.starts_with(&GZIP) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut module = Vec::new();
    let read = flate2::bufread::GzDecoder::new(bytes).take(LARGEST + 1).read_to_end(&mut module);
    read.map_err(|error| WasmError::Packed(error.to_string()))?;
    if module.len() as u64 > LARGEST {
        return Err(WasmError::Packed(format!("it is longer than {LARGEST} bytes, which is the limit")));
    }
    Ok(Cow::Owned(module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WasmModule;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("packed");
        encoder.finish().expect("finished")
    }

    #[test]
    fn a_compressed_module_is_read_as_the_module() {
        let module = super::super::HEADER;
        assert_eq!(&*unpacked(&module).expect("as it is"), module);
        assert_eq!(&*unpacked(&packed(&module)).expect("unpacked"), module);
        assert!(WasmModule::parse(&packed(&module)).is_ok());
    }

    #[test]
    fn half_a_compressed_module_is_an_error_and_no_module() {
        let whole = packed(&[7; 5000]);
        let half = unpacked(&whole[..whole.len() / 2]).expect_err("cut off");
        assert!(half.to_string().starts_with("a gzip file that cannot be unpacked"), "{half}");
        assert_eq!(WasmModule::parse(&packed(b"no module")).expect_err("text"), WasmError::NotWasm);
    }
}
