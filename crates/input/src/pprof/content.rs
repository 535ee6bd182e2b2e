//! The bytes of a profile, decompressed.

use crate::error::InputError;
use crate::stream::InputStream;
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::io::Read;

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The number of decompressed bytes by which a format is recognized.
const BEGINNING: u64 = 1 << 16;
/// Limit for the decompressed bytes: the tables of a profile stand in any order, so all of it is in memory.
const MOST_BYTES: u64 = 1 << 30;
/// Limit for the decompressed bytes of each compressed one, beyond [`SMALL`]. Profiles shrink to a fifth or a tenth.
const MOST_EXPANSION: u64 = 100;
/// Any file may have this number of bytes.
const SMALL: u64 = 64 << 20;

/// The decompressed beginning of a file, as much of it as can be read.
pub(super) fn beginning(start: &[u8]) -> Cow<'_, [u8]> {
    if !start.starts_with(&GZIP) {
        return Cow::Borrowed(start);
    }
    let mut bytes = Vec::new();
    // The start may be a part of the file: then it ends with an error, after all bytes that it has.
    let _ = MultiGzDecoder::new(start).take(BEGINNING).read_to_end(&mut bytes);
    Cow::Owned(bytes)
}

/// All bytes of a file, decompressed if necessary.
pub(super) fn whole(input: &mut InputStream<'_>) -> Result<Vec<u8>, InputError> {
    let path = input.path;
    let too_large = |limit: u64| InputError::unusable(path, format!("has more than {} MiB of profile", limit >> 20));
    let mut file = Vec::new();
    let read = input.take(MOST_BYTES + 1).read_to_end(&mut file);
    read.map_err(|error| InputError::unreadable(path, error))?;
    if file.len() as u64 > MOST_BYTES {
        return Err(too_large(MOST_BYTES));
    }
    if !file.starts_with(&GZIP) {
        return Ok(file);
    }
    let limit = (file.len() as u64).saturating_mul(MOST_EXPANSION).saturating_add(SMALL).min(MOST_BYTES);
    let mut bytes = Vec::new();
    MultiGzDecoder::new(file.as_slice()).take(limit + 1).read_to_end(&mut bytes).map_err(|error| {
        let at = bytes.len();
        InputError::unusable(path, format!("cannot be decompressed after {at} bytes of profile: {error}"))
    })?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}
