//! Figures of a dlmalloc heap: chunks by size, and waste.

use super::heap::{Dlmalloc, DlmallocKind};
use crate::chunks::{ChunkFigures, ChunkSizeClass};
use crate::damage::Damages;
use crate::examine::Waste;
use crate::survey::Survey;
use std::collections::BTreeMap;

impl Dlmalloc<'_> {
    /// Counts chunks by size.
    pub fn figures(&self) -> ChunkFigures {
        let mut classes: BTreeMap<u32, ChunkSizeClass> = BTreeMap::new();
        let mut figures = ChunkFigures::default();
        let count = |area: crate::lens::HeapArea| {
            let bits = u64::BITS - area.bytes.leading_zeros();
            if area.kind == DlmallocKind::Chunk as u8 {
                let class = class_of(&mut classes, bits);
                (class.used, class.used_bytes) = (class.used + 1, class.used_bytes + area.bytes);
            } else if area.kind == DlmallocKind::Free as u8 {
                let class = class_of(&mut classes, bits);
                (class.free, class.free_bytes) = (class.free + 1, class.free_bytes + area.bytes);
                figures.free_bytes += area.bytes;
                figures.largest_free = figures.largest_free.max(area.bytes);
            } else if area.kind == DlmallocKind::Top as u8 {
                figures.top_bytes += area.bytes;
            }
        };
        self.walk_chunks(count, &mut Damages::default());
        figures.histogram = classes.into_values().collect();
        figures
    }
}

fn class_of(classes: &mut BTreeMap<u32, ChunkSizeClass>, bits: u32) -> &mut ChunkSizeClass {
    let from = 1u64 << (bits.max(1) - 1);
    classes.entry(bits).or_insert(ChunkSizeClass { from, to: from * 2 - 1, ..ChunkSizeClass::default() })
}

/// Memory of the heap that holds no data of the program.
pub fn waste(survey: &Survey) -> Vec<Waste> {
    let of = |kind: DlmallocKind| survey.kinds[kind as usize];
    let row = |what, explanation, count, bytes| Waste { what, explanation, count, bytes };
    let chunks = of(DlmallocKind::Chunk);
    let leaked = survey.leaked;
    let (free, top, gap) = (of(DlmallocKind::Free), of(DlmallocKind::Top), of(DlmallocKind::Gap));
    let rows = vec![
        row("leaked", "chunks in use that nothing seems to refer to", leaked.0, leaked.1),
        row("headers", "size and flags of chunks in use", chunks.count, chunks.count * 4),
        row("fragmentation", "free chunks between those in use", free.count, free.bytes),
        row("top", "never used, or given back at the end", top.count, top.bytes),
        row("unreadable", "what is no chunk", gap.count, gap.bytes),
    ];
    rows.into_iter().filter(|row| row.bytes > 0).collect()
}
