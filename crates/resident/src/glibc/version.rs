//! The version of the C library, from its file.

use super::is_c_library;
use crate::mappings::Mapping;
use std::fs::File;
use std::io::Read;

/// What stands before the version in the file.
const BEFORE: &[u8] = b"stable release version ";
/// The largest file that is searched.
const MOST_BYTES: u64 = 16 << 20;

/// The version, such as `2.36`; empty if it is not found. The file may be in another root directory than ours.
pub fn version_of(pid: u32, mappings: &[Mapping]) -> String {
    let library = mappings.iter().find(|mapping| is_c_library(mapping));
    library.and_then(|library| in_file(&format!("/proc/{pid}/root{}", library.name))).unwrap_or_default()
}

fn in_file(path: &str) -> Option<String> {
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    in_bytes(&bytes)
}

fn in_bytes(bytes: &[u8]) -> Option<String> {
    let at = bytes.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let is_version = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let version: Vec<u8> = bytes[at..].iter().copied().take(16).take_while(is_version).collect();
    Some(String::from_utf8_lossy(&version).trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_in_the_banner() {
        let banner = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright";
        assert_eq!(in_bytes(banner).as_deref(), Some("2.36"));
        assert_eq!(in_bytes(b"stable release"), None);
    }
}
