//! The address space, cut into zones of one kind each.

use super::blocks::is_mapped_chunk;
use crate::image::ProcessImage;
use crate::live_memory::{LiveBlock, LiveMemory};
use crate::mappings::{Mapping, page_ceil, page_floor};
use std::collections::HashMap;

/// What a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Anonymous memory that nothing explains.
    Unexplained,
    /// Memory that the program mapped: its owner.
    Mapping(u32),
    /// A mapping of an allocator that is not known any closer.
    Allocator,
    /// A heap of glibc: its index.
    Heap(usize),
    /// The stack of a thread.
    Stack,
    /// The stack of an ended thread.
    KeptStack,
    /// A file: the index of its path.
    File(usize),
    /// The zeroed variables of a file.
    Zeroed(usize),
    /// Shared memory.
    SharedMemory(usize),
    /// The agent's.
    Agent,
    /// The kernel's code.
    Kernel,
    /// Present, but not part of RSS.
    NotCounted,
}

impl ZoneKind {
    /// Whether something more precise may be known of its memory.
    fn is_anonymous(self) -> bool {
        matches!(self, Self::Unexplained | Self::Mapping(_) | Self::Allocator | Self::Zeroed(_))
    }
}

/// A range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The first address.
    pub start: u64,
    /// The address after the last byte.
    pub end: u64,
    /// What it is.
    pub kind: ZoneKind,
    /// Whether the program can touch it.
    pub accessible: bool,
    /// Whether live blocks begin in it.
    pub has_blocks: bool,
}

/// All zones of a process, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// The zones.
    pub list: Vec<Zone>,
    /// The paths of files and of shared memory.
    pub paths: Vec<String>,
}

impl Zones {
    /// Cuts the address space. Blocks and heaps are in order.
    pub fn new(image: &ProcessImage, live: &LiveMemory) -> Self {
        let mut zones = Self::of_mappings(&image.mappings);
        let mapping = |mapping: &crate::LiveMapping| (mapping.start, mapping.end, ZoneKind::Mapping(mapping.owner));
        let shared: Vec<bool> = zones.paths.iter().map(|path| is_nameless_shared_memory(path)).collect();
        zones.paint(live.mappings.iter().map(mapping).collect(), |kind| match kind {
            ZoneKind::SharedMemory(path) => shared[path],
            kind => kind.is_anonymous(),
        });
        let stack = |stack: &crate::image::StackRange| {
            (stack.start, stack.end, if stack.is_cached { ZoneKind::KeptStack } else { ZoneKind::Stack })
        };
        zones.paint(image.stacks.iter().map(stack).collect(), ZoneKind::is_anonymous);
        let heaps = image.heaps.iter().enumerate();
        let heaps = heaps.map(|(index, heap)| (heap.start, heap.end, ZoneKind::Heap(index)));
        zones.paint(heaps.collect(), ZoneKind::is_anonymous);
        let agent = live.agent.iter().map(|range| (range.start, range.end, ZoneKind::Agent));
        zones.paint(agent.collect(), |kind| kind != ZoneKind::NotCounted);
        zones.find_allocators(&live.blocks, image.glibc.is_some());
        zones
    }

    fn of_mappings(mappings: &[Mapping]) -> Self {
        let mut zones = Self::default();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut previous: Option<(&Mapping, ZoneKind)> = None;
        for mapping in mappings {
            let mut path = || {
                *numbers.entry(&mapping.name).or_insert_with(|| {
                    zones.paths.push(mapping.name.clone());
                    zones.paths.len() - 1
                })
            };
            let kind = match zeroed_after(previous, mapping) {
                Some(kind) => kind,
                None => kind_of(mapping, &mut path),
            };
            zones.list.push(Zone {
                start: mapping.start,
                end: mapping.end,
                kind,
                accessible: mapping.accessible,
                has_blocks: false,
            });
            previous = Some((mapping, kind));
        }
        zones
    }

    /// Gives ranges another kind, where the present one allows that. They are widened to whole pages; where they overlap, the first counts.
    fn paint(&mut self, mut ranges: Vec<(u64, u64, ZoneKind)>, may: impl Fn(ZoneKind) -> bool) {
        if ranges.is_empty() {
            return;
        }
        ranges.iter_mut().for_each(|range| (range.0, range.1) = (page_floor(range.0), page_ceil(range.1)));
        ranges.sort_by_key(|range| range.0);
        let mut painted = Vec::with_capacity(self.list.len() + 2 * ranges.len());
        let mut ranges = ranges.into_iter().peekable();
        for zone in &self.list {
            let mut at = zone.start;
            while at < zone.end {
                let Some(&(start, end, kind)) = ranges.peek() else { break };
                if end <= at {
                    ranges.next();
                    continue;
                }
                if start >= zone.end {
                    break;
                }
                let (from, to) = (start.max(at), end.min(zone.end));
                if may(zone.kind) {
                    if from > at {
                        painted.push(Zone { start: at, end: from, ..*zone });
                    }
                    painted.push(Zone { start: from, end: to, kind, ..*zone });
                } else {
                    painted.push(Zone { start: at, end: to, ..*zone });
                }
                at = to;
            }
            if at < zone.end {
                painted.push(Zone { start: at, ..*zone });
            }
        }
        self.list = painted;
    }

    /// Anonymous memory in which blocks begin is an allocator's, other than glibc's blocks with mappings of their own.
    fn find_allocators(&mut self, blocks: &[LiveBlock], has_glibc: bool) {
        let mut next = 0;
        for zone in &mut self.list {
            while blocks.get(next).is_some_and(|block| block.address < zone.start) {
                next += 1;
            }
            while let Some(block) = blocks.get(next).filter(|block| block.address < zone.end) {
                next += 1;
                if !(has_glibc && is_mapped_chunk(block)) {
                    zone.has_blocks = true;
                    if matches!(zone.kind, ZoneKind::Unexplained | ZoneKind::Mapping(_)) {
                        zone.kind = ZoneKind::Allocator;
                    }
                }
            }
        }
    }
}

/// Zeroed variables are anonymous memory directly after the writable data of a file.
fn zeroed_after(previous: Option<(&Mapping, ZoneKind)>, mapping: &Mapping) -> Option<ZoneKind> {
    let (previous, kind) = previous?;
    let is_plain = mapping.name.is_empty() && mapping.writable && !mapping.shared;
    if previous.end != mapping.start || !is_plain || !previous.writable || previous.shared {
        return None;
    }
    match kind {
        ZoneKind::File(path) => Some(ZoneKind::Zeroed(path)),
        ZoneKind::Agent if previous.is_named_object() => Some(ZoneKind::Agent),
        _ => None,
    }
}

fn kind_of(mapping: &Mapping, path: &mut impl FnMut() -> usize) -> ZoneKind {
    let name = mapping.name.as_str();
    if name.starts_with("[stack") {
        ZoneKind::Stack
    } else if name.starts_with("[vvar") {
        ZoneKind::NotCounted
    } else if name.starts_with("[vdso") || name.starts_with("[uprobes") || name.starts_with("[vsyscall") {
        ZoneKind::Kernel
    } else if is_agents(mapping) {
        ZoneKind::Agent
    } else if name == "[heap]" {
        ZoneKind::Allocator
    } else if mapping.is_anonymous() {
        ZoneKind::Unexplained
    } else if mapping.is_shared_memory() {
        ZoneKind::SharedMemory(path())
    } else if mapping.is_named_object() {
        ZoneKind::File(path())
    } else {
        ZoneKind::Unexplained
    }
}

/// Shared memory that the program mapped without any object: it has a site like private memory.
fn is_nameless_shared_memory(name: &str) -> bool {
    name.starts_with("/dev/zero") || name.starts_with("[anon_shmem")
}

/// Whether a mapping is the agent's memory or its library, by its name.
pub fn is_agents(mapping: &Mapping) -> bool {
    if let Some(object) = mapping.name.strip_prefix("/memfd:") {
        let object = object.strip_suffix(" (deleted)").unwrap_or(object);
        return object == "highwater"
            || object.starts_with("highwater-live-v")
            || object.starts_with("highwater-attach-v")
            || object.starts_with("highwater-control-v");
    }
    let file = mapping.file_name();
    mapping.is_named_object() && (file.starts_with("libhighwater") || is_preload_library(file))
}

/// The command writes its library as `preload-VERSION-HASH.so`.
fn is_preload_library(file: &str) -> bool {
    let file = file.strip_suffix(" (deleted)").unwrap_or(file);
    let parts = file.strip_prefix("preload-").and_then(|rest| rest.strip_suffix(".so")?.rsplit_once('-'));
    parts.is_some_and(|(version, hash)| {
        version.starts_with(|first: char| first.is_ascii_digit())
            && hash.len() == 16
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mappings::parse_maps;

    fn kinds(maps: &str) -> Vec<ZoneKind> {
        Zones::of_mappings(&parse_maps(maps.as_bytes())).list.iter().map(|zone| zone.kind).collect()
    }

    #[test]
    fn mappings_are_recognized_by_their_names() {
        let maps = "1000-2000 r-xp 0 0:0 1 /usr/lib/libz.so\n\
            2000-3000 rw-p 0 0:0 1 /usr/lib/libz.so\n\
            3000-4000 rw-p 0 0:0 0 \n\
            4000-5000 rw-p 0 0:0 0 [heap]\n\
            6000-7000 rw-p 0 0:0 1 /home/me/.cache/highwater/preload-0.1.0-0123456789abcdef.so\n\
            7000-8000 rw-p 0 0:0 0 \n\
            8000-9000 rw-s 0 0:0 1 /memfd:highwater-live-v1 (deleted)\n\
            9000-a000 rw-s 0 0:0 1 /memfd:highwater-image (deleted)\n\
            a000-b000 rw-p 0 0:0 1 /usr/lib/libhighwater.so.0\n\
            b000-c000 rw-s 0 0:0 1 /dev/zero (deleted)\n\
            c000-d000 rw-p 0 0:0 0 [anon:stack_and_tls]\n\
            d000-e000 r--p 0 0:0 0 [vvar]\n\
            e000-f000 r-xp 0 0:0 0 [vdso]\n";
        use ZoneKind::*;
        assert_eq!(
            kinds(maps),
            [
                File(0),
                File(0),
                Zeroed(0),
                Allocator,
                Agent,
                Agent,
                Agent,
                SharedMemory(1),
                Agent,
                SharedMemory(2),
                Unexplained,
                NotCounted,
                Kernel
            ]
        );
    }
}
