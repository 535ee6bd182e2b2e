//! Memories of C and Rust programs, of which every block is known.

mod support;

use highwater_image::lenses::dlmalloc::{Dlmalloc, DlmallocKind};
use highwater_image::{Damages, Image, Lens, Sidecar, survey};
use std::collections::BTreeMap;
use support::{json, memory, wasm_module};

#[test]
fn exactly_the_live_blocks_of_all_dumps_are_found() {
    let mut dumps = 0;
    for program in ["leaky_c", "clean_c", "leaky_rs", "clean_rs"] {
        let expected = json(&format!("wasm/{program}.expected.json"));
        for dump in expected["dumps"].as_array().expect("dumps") {
            let file = dump["file"].as_str().expect("a file");
            let image = memory(file);
            let live: BTreeMap<u64, u64> = dump["live"]
                .as_array()
                .expect("blocks")
                .iter()
                .map(|block| (block[0].as_u64().expect("address"), block[1].as_u64().expect("size")))
                .collect();
            for with_module in [true, false] {
                let module = with_module.then(|| wasm_module(program));
                let heap = Dlmalloc::find(&image, module.as_ref(), &Sidecar::default()).expect("a heap");
                let mut damage = Damages::default();
                let mut found = BTreeMap::new();
                let mut walked = 0;
                heap.walk(
                    |area| {
                        walked += area.bytes;
                        if area.kind == DlmallocKind::Chunk as u8 {
                            found.insert(area.at + 8, area.bytes - 4);
                        }
                    },
                    &mut damage,
                );
                assert!(damage.is_empty(), "{file}: {damage:?}");
                assert_eq!(found.keys().collect::<Vec<_>>(), live.keys().collect::<Vec<_>>(), "{file}");
                for (address, size) in &live {
                    let usable = found[address];
                    assert!((*size..size + 40).contains(&usable), "{file}: {usable} for {size}");
                }
                assert_eq!(heap.base() + walked, image.len(), "{file}: every byte is accounted for");
                assert_eq!(heap.alignment(), if program.ends_with("_c") { 16 } else { 8 }, "{file}");
                // Each program keeps a list of its blocks in static data.
                let survey = survey(&heap, 3);
                assert_eq!(survey.kinds[DlmallocKind::Chunk as usize].live_count, live.len() as u64, "{file}");
            }
            dumps += 1;
        }
    }
    assert_eq!(dumps, 12);
}

/// A memory with a heap of two segments, and between them a page that does not belong to the allocator.
fn two_segments() -> Vec<u8> {
    const PAGE: usize = 65536;
    let mut bytes = vec![0; 5 * PAGE];
    let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    // The first segment: chunks in use, a free one, the record of the segment, and fences to its end.
    let first = PAGE;
    let mut at = first;
    for _ in 0..100 {
        put(at + 4, 64 | 3);
        at += 64;
    }
    put(at + 4, 128 | 1);
    put(at + 128, 128);
    at += 128;
    put(at + 4, 64 | 2);
    at += 64;
    let record = 2 * PAGE - 40;
    put(at + 4, (record - at) as u32 | 3);
    at = record;
    put(at + 4, 24 | 3);
    at += 24;
    for fence in (at..2 * PAGE - 4).step_by(4) {
        put(fence + 4, 7);
    }
    // The second segment, after the foreign page, with the top.
    at = 3 * PAGE;
    for _ in 0..10 {
        put(at + 4, 48 | 3);
        at += 48;
    }
    put(at + 4, (5 * PAGE - 40 - at) as u32 | 1);
    put(5 * PAGE - 40 + 4, 40);
    bytes
}

#[test]
fn a_heap_of_several_segments_is_walked_to_its_end() {
    let image = Image::from_bytes(two_segments());
    let sidecar = Sidecar { heap_start: Some(65536), ..Sidecar::default() };
    let heap = Dlmalloc::find(&image, None, &sidecar).expect("a heap");
    let mut counts = [0; 7];
    let (mut walked, mut damage) = (0, Damages::default());
    heap.walk(
        |area| {
            counts[usize::from(area.kind)] += 1;
            walked += area.bytes;
        },
        &mut damage,
    );
    assert!(damage.is_empty(), "{damage:?}");
    // 102 and 10 chunks, one free, a top, a record of a segment, two feet, one foreign area.
    assert_eq!(counts, [112, 1, 1, 1, 2, 1, 0]);
    assert_eq!(heap.base() + walked, image.len());
}
