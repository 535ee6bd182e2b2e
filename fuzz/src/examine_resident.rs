//! The breakdown of a process that does not exist.

use crate::heap::within_limit;
use highwater_model::{AreaKind, PageOwner, StackId, TagId};
use highwater_resident::parts::{
    Heap, KnownChunk, PAGE, PageRegion, ProcessImage, StackRange, memory_groups, parse_maps, parse_rollup, parse_smaps,
    parse_stat, parse_status,
};
use highwater_resident::{LiveBlock, LiveMapping, LiveMemory, PageScan};

/// The bytes up to the first zero are texts, the others are words that place ranges.
pub fn examine_resident(bytes: &[u8]) {
    within_limit(bytes.len(), || {
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let (text, words) = bytes.split_at(length);
        let _ = parse_status(text);
        let _ = parse_stat(text);
        let _ = parse_rollup(text);
        drop(parse_smaps(text));
        drop(memory_groups(text, text));
        break_down(text, words.as_chunks::<6>().0);
    });
}

/// Each six bytes are a range: its kind, its owner, its start and its length.
fn break_down(text: &[u8], words: &[[u8; 6]]) {
    let mut image = ProcessImage { mappings: parse_maps(text), ..ProcessImage::default() };
    let base = image.mappings.first().map_or(0, |mapping| mapping.start);
    let owners = (0..4).map(|site| (StackId(site + 1), TagId(0))).collect();
    let mut live = LiveMemory { owners, knows_every_block: text.len() % 2 == 0, ..LiveMemory::default() };
    image.glibc = Some(String::new());
    for &[kind, owner, a, b, c, d] in words {
        let start = base.saturating_add(u64::from(u16::from_le_bytes([a, b])) << (owner & 15));
        let length = u64::from(u16::from_le_bytes([c, d])) << (owner >> 4);
        let end = start.saturating_add(length);
        let page = start - start % PAGE;
        let pages = PageRegion { start: page, end: page.saturating_add(PAGE), categories: u64::from(c) };
        let is_cached = owner % 2 == 0;
        let owner = u32::from(owner % 5);
        match kind % 8 {
            0 | 1 => image.regions.push(pages),
            2 => image.heaps.push(Heap {
                kind: if is_cached { AreaKind::Main } else { AreaKind::Arena },
                start,
                first_chunk: start.saturating_add(u64::from(d)),
                top: is_cached.then_some(end.saturating_sub(u64::from(c))),
                end,
            }),
            3 => image.chunks.push(KnownChunk { start, end, is_cached }),
            4 => image.stacks.push(StackRange { start, end, is_cached }),
            5 => live.mappings.push(LiveMapping { start, end, owner }),
            6 => live.agent.push(start..end),
            _ => live.blocks.push(LiveBlock { address: start, size: length, usable: length + u64::from(d), owner }),
        }
    }
    let resident = image.regions.resident();
    let is_counted = !image.mappings.iter().any(|mapping| mapping.name.starts_with("[vvar"));
    let found = PageScan::from_image(image).breakdown(live);
    assert!(found.sum() == resident || (!is_counted && found.sum() < resident), "{} of {resident}", found.sum());
    assert!(found.rows.iter().all(|row| row.resident + row.swapped <= row.size));
    for run in found.areas.iter().flat_map(|area| &area.runs) {
        assert!(run.pages > 0 && run.live <= 4096);
        assert!(!matches!(run.owner, PageOwner::Site(site) if site as usize >= found.sites.len()));
    }
}
