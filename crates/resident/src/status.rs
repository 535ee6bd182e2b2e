//! Texts of `/proc/PID`: `status`, `stat`, `smaps_rollup` and `smaps`.

use highwater_model::ProcessMemory;

/// A number in a text of `Name: number kB` lines.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The same, in bytes.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    number_of(text, name)?.checked_mul(1024)
}

/// What is read from `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Figures of the process.
    pub memory: ProcessMemory,
    /// Shared memory (RssShmem).
    pub shared_memory: u64,
    /// Memory in hugetlbfs, which is not part of RSS.
    pub huge_tlb: u64,
}

/// The figures of `status`. `None` if it has no RSS: a kernel thread, or a process that has ended.
pub fn parse_status(text: &[u8]) -> Option<Status> {
    let text = String::from_utf8_lossy(text);
    let rss = bytes_of(&text, "VmRSS")?;
    let bytes = |name| bytes_of(&text, name).unwrap_or(0);
    let memory = ProcessMemory {
        rss,
        rss_after: rss,
        rss_peak: bytes("VmHWM"),
        anonymous: bytes("RssAnon"),
        data: bytes("VmData"),
        swap: bytes("VmSwap"),
        page_tables: bytes("VmPTE"),
        threads: number_of(&text, "Threads").unwrap_or(0),
        ..ProcessMemory::default()
    };
    Some(Status { memory, shared_memory: bytes("RssShmem"), huge_tlb: bytes("HugetlbPages") })
}

/// What identifies the program that a process runs: it changes with `exec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramIdentity {
    /// When the process began. Another process may have the same number later.
    pub begun: u64,
    /// Where its code begins, its stack, its data, its arguments. Without the right to read the process the kernel shows no addresses.
    pub addresses: [u64; 4],
    /// Whether it has ended, and only its parent does not know yet.
    pub is_ended: bool,
    /// Whether it is a thread of the kernel.
    pub is_kernels: bool,
}

/// A flag of the process (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The identity in a `stat` line.
pub fn parse_stat(text: &[u8]) -> Option<ProgramIdentity> {
    // The name, in parentheses, may contain anything.
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = String::from_utf8_lossy(&text[after_name..]);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields are counted from 1 in proc(5), and the two before are the number and the name.
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    let address = |number| field(number).unwrap_or(0);
    Some(ProgramIdentity {
        begun: field(22)?,
        addresses: [address(26), address(28), address(45), address(48)],
        is_ended: matches!(*fields.first()?, "Z" | "X"),
        is_kernels: field(9)? & KERNEL_THREAD != 0,
    })
}

/// What is read from `smaps_rollup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollup {
    /// The proportional set size.
    pub pss: u64,
    /// Offered to the kernel, and still in RAM.
    pub lazily_free: u64,
    /// In transparent huge pages.
    pub huge: u64,
}

/// The figures of `smaps_rollup`.
pub fn parse_rollup(text: &[u8]) -> Option<Rollup> {
    let text = String::from_utf8_lossy(text);
    let bytes = |name| bytes_of(&text, name).unwrap_or(0);
    Some(Rollup { pss: bytes_of(&text, "Pss")?, lazily_free: bytes("LazyFree"), huge: bytes("AnonHugePages") })
}

/// What `smaps` shows of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingFigures {
    /// Its first address.
    pub start: u64,
    /// Its part of RSS.
    pub rss: u64,
    /// In transparent huge pages.
    pub huge: u64,
}

/// The mappings of `smaps`, in order.
pub fn parse_smaps(text: &[u8]) -> Vec<MappingFigures> {
    let mut mappings: Vec<MappingFigures> = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let first = line.split(' ').next().unwrap_or_default();
        match first.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok()) {
            Some(start) => mappings.push(MappingFigures { start, ..MappingFigures::default() }),
            None => {
                let Some(mapping) = mappings.last_mut() else { continue };
                match first {
                    "Rss:" => mapping.rss = bytes_of(&line, "Rss").unwrap_or(0),
                    "AnonHugePages:" => mapping.huge = bytes_of(&line, "AnonHugePages").unwrap_or(0),
                    _ => {}
                }
            }
        }
    }
    mappings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_status_are_bytes() {
        let status =
            parse_status(b"Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t      12 kB\nRssShmem:\t 4 kB\nThreads:\t3\n").unwrap();
        assert_eq!((status.memory.rss, status.memory.rss_peak, status.memory.threads), (12 << 10, 20 << 10, 3));
        assert_eq!(status.shared_memory, 4 << 10);
        assert_eq!(parse_status(b"Name:\tkthreadd\nThreads:\t1\n"), None);
    }

    #[test]
    fn a_name_cannot_disguise_the_fields_of_stat() {
        let numbers: Vec<String> = (4..=52).map(|number| (number * 10).to_string()).collect();
        let line = format!("7 (a) R 1 (b\n) S {}\n", numbers.join(" "));
        let identity = parse_stat(line.as_bytes()).unwrap();
        assert_eq!(identity.begun, 220);
        assert_eq!(identity.addresses, [260, 280, 450, 480]);
        assert!(!identity.is_ended);
        assert_eq!(parse_stat(b"7 (x) Z"), None);
    }

    #[test]
    fn mappings_of_smaps_are_matched_by_their_start() {
        let text =
            b"1000-2000 rw-p 0 0:0 0\nSize: 4 kB\nRss:   8 kB\nVmFlags: rd wr\n3000-4000 r--p 0 0:0 0\nRss: 0 kB\n";
        let mappings = parse_smaps(text);
        assert_eq!(mappings.len(), 2);
        assert_eq!((mappings[0].start, mappings[0].rss, mappings[1].rss), (0x1000, 8192, 0));
    }
}
