//! The mappings of a process: the text of `/proc/PID/maps`.

/// The size of a page. The agent runs on x86-64 only, where it is always this.
pub const PAGE: u64 = 4096;

/// The largest address of a process that is used here. Beyond it only the kernel has pages.
const ADDRESS_LIMIT: u64 = 1 << 56;

/// A line of `maps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address, a multiple of the page size.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// `PROT_WRITE`.
    pub writable: bool,
    /// `PROT_READ`, `PROT_WRITE` or `PROT_EXEC`.
    pub accessible: bool,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// A path, `[heap]` and the like, or empty.
    pub name: String,
}

impl Mapping {
    /// Whether it is private memory without a file, whatever the kernel calls it.
    pub fn is_anonymous(&self) -> bool {
        let anonymous = self.name.is_empty() || self.name == "[heap]" || self.name.starts_with("[anon:");
        !self.shared && (anonymous || self.name.starts_with("/dev/zero"))
    }

    /// Whether it has a file or a shared memory object.
    pub fn is_named_object(&self) -> bool {
        self.name.starts_with('/')
    }

    /// Whether it is shared memory: an object without a file, or one of `/dev/shm`.
    pub fn is_shared_memory(&self) -> bool {
        let names = ["/memfd:", "/dev/shm/", "/SYSV", "/anon_hugepage", "/dev/zero"];
        self.shared && (!self.is_named_object() || names.iter().any(|name| self.name.starts_with(name)))
    }

    /// The last component of its path.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// The mappings, in order of their addresses. Lines that are no mappings, or overlap an earlier one, are left out.
pub fn parse_maps(text: &[u8]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let Some(mapping) = parse_line(line) else { continue };
        if mappings.last().is_none_or(|last| last.end <= mapping.start) {
            mappings.push(mapping);
        }
    }
    mappings
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
    let (start, end) = (start?, end?);
    let rights = fields.next()?.as_bytes();
    // The kernel aligns the name with spaces.
    let name = fields.nth(3).unwrap_or_default().trim_start();
    let is_sound = start < end
        && end <= ADDRESS_LIMIT
        && start.is_multiple_of(PAGE)
        && end.is_multiple_of(PAGE)
        && rights.len() == 4;
    is_sound.then(|| Mapping {
        start,
        end,
        writable: rights[1] == b'w',
        accessible: &rights[..3] != b"---",
        shared: rights[3] == b's',
        name: name.to_owned(),
    })
}

/// The mapping of an address.
pub fn mapping_at(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let index = mappings.partition_point(|mapping| mapping.end <= address);
    mappings.get(index).filter(|mapping| mapping.start <= address)
}

/// Rounded down to a page.
pub fn page_floor(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Rounded up to a page; at most the last page of the address space.
pub fn page_ceil(address: u64) -> u64 {
    page_floor(address.saturating_add(PAGE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_all_kinds_of_names() {
        let text = b"55d0-55e0 r--p 00000000 fe:00 1  /usr/bin/odd\n\
            00400000-00401000 r-xp 00000000 fe:00 326279                     /opt/a program (deleted)\n\
            00401000-00402000 ---p 00000000 00:00 0 \n\
            00402000-00403000 rw-s 00000000 00:01 7   /memfd:highwater-live-v1 (deleted)\n\
            00402000-00404000 rw-p 00000000 00:00 0\n\
            00404000-00405000 rw-p 00000000 00:00 0                          [heap]\n";
        let mappings = parse_maps(text);
        let names: Vec<&str> = mappings.iter().map(|mapping| mapping.name.as_str()).collect();
        assert_eq!(names, ["/opt/a program (deleted)", "", "/memfd:highwater-live-v1 (deleted)", "[heap]"]);
        assert!(!mappings[1].accessible && mappings[2].shared && mappings[3].is_anonymous());
        assert_eq!(mapping_at(&mappings, 0x402fff).map(|mapping| mapping.start), Some(0x402000));
        assert_eq!(mapping_at(&mappings, 0x403000), None);
    }
}
