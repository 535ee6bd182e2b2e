//! The names of an executable's sections: they show what was stripped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const HEADER: usize = 64;
const SECTION: usize = 64;
/// The longest table of names that is read.
const MOST_NAMES: u64 = 1 << 20;

/// The names of all sections of a 64-bit file.
pub fn section_names(path: &Path) -> io::Result<Vec<String>> {
    let file = File::open(path)?;
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    if header[..5] != *b"\x7fELF\x02" {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (table, count, names) = (number(&header, 40, 8), number(&header, 60, 2), number(&header, 62, 2));
    let mut sections = vec![0; count as usize * SECTION];
    file.read_exact_at(&mut sections, table)?;
    let names = sections.get(names as usize * SECTION..).filter(|rest| rest.len() >= SECTION);
    let names = names.ok_or(io::ErrorKind::InvalidData)?;
    let (at, size) = (number(names, 24, 8), number(names, 32, 8).min(MOST_NAMES));
    let mut texts = vec![0; size as usize];
    file.read_exact_at(&mut texts, at)?;
    let name = |section: &[u8]| {
        let rest = texts.get(number(section, 0, 4) as usize..)?;
        let text = rest.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    Ok(sections.chunks_exact(SECTION).filter_map(name).collect())
}

/// A little-endian number of some bytes, which are there.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_code_and_names() {
        let names = section_names(&std::env::current_exe().unwrap()).unwrap();
        assert!(names.iter().any(|name| name == ".text") && names.iter().any(|name| name == ".symtab"), "{names:?}");
    }

    #[test]
    fn other_files_have_none() {
        assert!(section_names(Path::new("/proc/self/maps")).is_err());
        assert!(section_names(Path::new("/")).is_err());
    }
}
