//! Contents of blocks, as attached to a snapshot.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};

/// The first bytes of each block, by its address.
pub type Contents = HashMap<u64, Vec<u8>>;

/// Reads contents of blocks, one after the other, in the format of [`protocol`](crate::protocol).
pub fn read_contents(mut file: impl Read) -> io::Result<Contents> {
    let mut contents = Contents::new();
    read_contents_into(&mut file, |address, bytes| {
        // A mapping and the block at its beginning have the same address: the longer contents include both.
        let known = contents.entry(address).or_default();
        if known.len() < bytes.len() {
            *known = bytes;
        }
        Ok(())
    })?;
    Ok(contents)
}

/// The same, block by block: holds the contents of one.
pub fn read_contents_into(
    mut file: impl Read,
    mut block: impl FnMut(u64, Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    while let Some(address) = number(&mut file)? {
        let length = number(&mut file)?.ok_or(ErrorKind::UnexpectedEof)?;
        let mut bytes = Vec::new();
        file.by_ref().take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        block(address, bytes)?;
    }
    Ok(())
}

/// The next number; `None` at the end.
fn number(file: &mut impl Read) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    file.take(8).read_to_end(&mut bytes)?;
    match <[u8; 8]>::try_from(bytes.as_slice()) {
        Ok(bytes) => Ok(Some(u64::from_le_bytes(bytes))),
        Err(_) if bytes.is_empty() => Ok(None),
        Err(_) => Err(ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(blocks: &[(u64, &[u8])]) -> Vec<u8> {
        let mut file = Vec::new();
        for (address, bytes) in blocks {
            file.extend(address.to_le_bytes());
            file.extend((bytes.len() as u64).to_le_bytes());
            file.extend(*bytes);
        }
        file
    }

    #[test]
    fn blocks_are_found_by_their_addresses() {
        let contents = read_contents(&*written(&[(16, b"ab"), (32, b""), (16, b"abc")])).unwrap();
        assert_eq!((contents[&16].as_slice(), contents[&32].as_slice()), (&b"abc"[..], &b""[..]));
    }

    #[test]
    fn what_ends_too_early_is_an_error_wherever_it_ends() {
        let whole = written(&[(16, b"abc")]);
        for length in 1..whole.len() {
            assert!(read_contents(&whole[..length]).is_err(), "{length}");
        }
    }
}
