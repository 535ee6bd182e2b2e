//! Reading a process.

use crate::account;
use crate::cgroup::limit_of;
use crate::corrections::counted;
use crate::glibc;
use crate::image::ProcessImage;
use crate::live_memory::LiveMemory;
use crate::mappings::{Mapping, parse_maps};
use crate::memory::RemoteMemory;
use crate::page_reader::{PageReader, PageSource};
use crate::regions::{FILE, HUGE, PageRegion, Regions};
use crate::stacks::{find_stacks, robust_lists};
use crate::status::{ProgramIdentity, Status, parse_rollup, parse_stat, parse_status};
use highwater_model::{ProcessMemory, RssBreakdown};
use std::fs::{self, File};
use std::io::{self, Read};

/// What to read besides pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    /// Also the proportional set size (`smaps_rollup`): it makes the kernel walk all pages once more, and the process's `mmap` waits meanwhile.
    pub proportional: bool,
}

/// Why a process was not read.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The process ended.
    #[error("the process ended while it was read")]
    Ended,
    /// The process executed other programs, at each attempt.
    #[error("the process executed another program while it was read")]
    Replaced,
    /// The process belongs to another user.
    #[error("its pages may be read by its own user and by root only")]
    NotPermitted,
    /// A thread of the kernel.
    #[error("it is a thread of the kernel, and has no memory of its own")]
    KernelThread,
    /// The system does not answer.
    #[error("{0}")]
    System(io::Error),
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Self::Ended,
            Some(libc::EACCES | libc::EPERM) => Self::NotPermitted,
            _ => Self::System(error),
        }
    }
}

/// Programs that a process may execute while it is read, before that is given up.
const EXECUTED: usize = 5;
/// Attempts to read a process that changes fast.
const ATTEMPTS: usize = 3;
/// The sum of a process that changes may be off by this part in a thousand: pages come and go between two slices.
const CHANGING: u64 = 2;
/// Beyond this part in a hundred it is read again.
const GOOD_ENOUGH: u64 = 1;

/// The pages, mappings, threads and arenas of a process, read at about one time.
#[derive(Debug)]
pub struct PageScan {
    image: ProcessImage,
}

impl PageScan {
    /// Reads a process, without stopping it.
    pub fn read(pid: u32, options: ScanOptions) -> Result<Self, ScanError> {
        Self::read_with(pid, options, None)
    }

    /// The same with one way to read pages.
    #[doc(hidden)]
    pub fn read_with(pid: u32, options: ScanOptions, source: Option<PageSource>) -> Result<Self, ScanError> {
        let mut best: Option<ProcessImage> = None;
        for _ in 0..ATTEMPTS {
            let image = read_one_program(pid, options, source)?;
            let is_good = image.uncertain <= image.process.rss_after / 100 * GOOD_ENOUGH;
            if best.as_ref().is_none_or(|best| image.uncertain < best.uncertain) {
                best = Some(image);
            }
            if is_good {
                break;
            }
        }
        best.map(|image| Self { image }).ok_or(ScanError::Ended)
    }

    /// What was read. Tests make their own.
    #[doc(hidden)]
    pub fn from_image(image: ProcessImage) -> Self {
        Self { image }
    }

    /// What was read.
    #[doc(hidden)]
    pub fn image(&self) -> &ProcessImage {
        &self.image
    }

    /// Compares its pages with what is known of its memory. The time and the reason of the result are for the caller to set.
    pub fn breakdown(self, live: LiveMemory) -> RssBreakdown {
        account::breakdown(self.image, live)
    }
}

/// The kernel's figures of a process alone: any user may read them.
pub fn process_memory(pid: u32) -> Result<ProcessMemory, ScanError> {
    let mut memory = status_of(pid)?.memory;
    memory.limit = limit_of(pid);
    Ok(memory)
}

/// Reads until all of it is of one program.
fn read_one_program(pid: u32, options: ScanOptions, source: Option<PageSource>) -> Result<ProcessImage, ScanError> {
    for _ in 0..EXECUTED {
        let before = identity_of(pid)?;
        let image = read_once(pid, options, source);
        if identity_of(pid)? == before {
            return image;
        }
    }
    Err(ScanError::Replaced)
}

fn identity_of(pid: u32) -> Result<ProgramIdentity, ScanError> {
    let identity = parse_stat(&fs::read(format!("/proc/{pid}/stat"))?).ok_or(ScanError::Ended)?;
    if identity.is_ended { Err(ScanError::Ended) } else { Ok(identity) }
}

pub(crate) fn status_of(pid: u32) -> Result<Status, ScanError> {
    match parse_status(&fs::read(format!("/proc/{pid}/status"))?) {
        Some(status) => Ok(status),
        None if identity_of(pid)?.is_kernels => Err(ScanError::KernelThread),
        None => Err(ScanError::Ended),
    }
}

/// Both files are opened first: an open one stays with its program, whatever the process executes.
fn read_once(pid: u32, options: ScanOptions, source: Option<PageSource>) -> Result<ProcessImage, ScanError> {
    let before = status_of(pid)?;
    let mut maps = File::open(format!("/proc/{pid}/maps"))?;
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    let mut text = Vec::new();
    maps.read_to_end(&mut text)?;
    let mappings = parse_maps(&text);
    if mappings.is_empty() {
        return Err(ScanError::Ended);
    }
    let (source, regions) = read_pages(&PageReader::new(&pagemap), &mappings, source)?;
    let after = status_of(pid)?;
    let mut image = ProcessImage { mappings, ..ProcessImage::default() };
    image.process = ProcessMemory { rss: before.memory.rss, ..after.memory };
    image.regions = counted(pid, source, regions, &image.mappings, &after)?;
    image.process.huge = huge_bytes(&image.regions);
    image.process.limit = limit_of(pid);
    if options.proportional
        && let Some(rollup) = parse_rollup(&fs::read(format!("/proc/{pid}/smaps_rollup"))?)
    {
        image.process.pss = Some(rollup.pss);
        image.process.lazily_free = Some(rollup.lazily_free);
        image.process.huge = rollup.huge;
    }
    image.uncertain = uncertain(&image);
    recognize(pid, &mut image);
    Ok(image)
}

/// Reads pages, by their entries where the kernel knows nothing better.
fn read_pages(
    reader: &PageReader<'_>,
    mappings: &[Mapping],
    source: Option<PageSource>,
) -> io::Result<(PageSource, Regions)> {
    if source != Some(PageSource::Entries) {
        match reader.scan(mappings) {
            // Kernels before 6.7 do not know the request.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {}
            regions => return Ok((PageSource::Scan, regions?)),
        }
    }
    // The agent's memory has tens of gibibytes, nearly all of them untouched: reading its entries would take longer than all else.
    let is_sparse = |mapping: &Mapping| mapping.shared && account::is_agents(mapping);
    let others: Vec<Mapping> = mappings.iter().filter(|mapping| !is_sparse(mapping)).cloned().collect();
    Ok((PageSource::Entries, reader.entries(&others)?))
}

/// Anonymous memory in huge pages.
fn huge_bytes(regions: &Regions) -> u64 {
    let is_huge = |region: &&PageRegion| region.is_resident() && region.categories & (HUGE | FILE) == HUGE;
    regions.iter().filter(is_huge).map(PageRegion::bytes).sum()
}

/// How far the sum may be off: by what RSS changed meanwhile, and by how far it is from both figures. The kernel's own counters lag on machines with many processors.
fn uncertain(image: &ProcessImage) -> u64 {
    let (rss, after, sum) = (image.process.rss, image.process.rss_after, image.regions.resident());
    let changed = rss.abs_diff(after);
    let outside = sum.saturating_sub(rss.max(after)).max(rss.min(after).saturating_sub(sum));
    let changing = if changed > 0 { sum / 1000 * CHANGING } else { 0 };
    changed.max(outside).max(changing)
}

/// Finds stacks, arenas and caches, by reading pages that are in RAM.
fn recognize(pid: u32, image: &mut ProcessImage) {
    let memory = RemoteMemory { pid, regions: &image.regions };
    let threads = find_stacks(pid, &robust_lists(pid), &image.mappings, &memory);
    let arenas = glibc::find_arenas(&image.mappings, &memory);
    if let Some(arenas) = arenas {
        let mut heaps = arenas.heaps;
        heaps.sort_unstable_by_key(|heap| heap.start);
        let caches = glibc::read_caches(&threads.structures, &heaps, &memory);
        image.knows_caches = caches.are_complete && threads.are_complete;
        image.chunks = caches.chunks;
        image.heaps = heaps;
        image.arenas = arenas.count;
        image.glibc = Some(glibc::version_of(pid, &image.mappings));
    }
    image.stacks = threads.stacks;
}
