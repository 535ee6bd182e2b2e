//! The address space of the target: `/proc/PID/maps`.

use crate::look::living_folder;
use std::{fs, io};

/// One line of `maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressMapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub inode: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    pub shared: bool,
    pub name: String,
}

/// All mappings, in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSpace {
    pub mappings: Vec<AddressMapping>,
}

impl AddressSpace {
    pub(crate) fn read(pid: i32) -> io::Result<Self> {
        Ok(Self::parse(&fs::read(format!("{}/maps", living_folder(pid)))?))
    }

    /// Lines that do not look as expected are left out.
    fn parse(text: &[u8]) -> Self {
        Self { mappings: String::from_utf8_lossy(text).lines().filter_map(mapping).collect() }
    }

    pub(crate) fn at(&self, address: u64) -> Option<&AddressMapping> {
        let index = self.mappings.partition_point(|mapping| mapping.end <= address);
        self.mappings.get(index).filter(|mapping| mapping.start <= address)
    }
}

fn mapping(line: &str) -> Option<AddressMapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let offset = words.next()?;
    words.next()?;
    let inode = words.next()?;
    let has = |index: usize, letter| rights.get(index) == Some(&letter);
    Some(AddressMapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
        readable: has(0, b'r'),
        writable: has(1, b'w'),
        executable: has(2, b'x'),
        shared: has(3, b's'),
        name: words.next().unwrap_or("").trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::AddressSpace;

    #[test]
    fn lines_of_all_kinds_are_read() {
        let text = b"55d0-55e0 r-xp 00001000 fe:00 1234                       /usr/bin/a b (deleted)\nnonsense\n7f00-7f10 rw-s 00000000 00:01 77 \n7ffd0-7ffe0 rw-p 00000000 00:00 0   [stack]\n";
        let space = AddressSpace::parse(text);
        assert_eq!(space.mappings.len(), 3);
        assert_eq!(space.mappings[0].name, "/usr/bin/a b (deleted)");
        assert!(space.mappings[0].executable && !space.mappings[0].shared && space.mappings[1].shared);
        assert_eq!(space.at(0x7f0f).unwrap().inode, 77);
        assert_eq!(space.at(0x7f10), None);
        assert_eq!(space.at(0x7ffd0).unwrap().name, "[stack]");
    }
}
