//! Blocks whose move records were dropped. The test writes an agent's shared memory by hand.
#![allow(missing_docs)]

use highwater_recorder::{Outputs, ProcessRecording, RecordedProcess};
use highwater_session::SessionMemory;
use highwater_shm::ring_v1::{RingHeader, kind};
use highwater_shm::session_v1::{Capacity, Header, MAGIC};
use std::sync::atomic::Ordering;

const CAPACITY: Capacity = Capacity { rings: 1, nodes: 2 };

#[derive(Clone)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "reached through its address")] [u64; 512]);

/// The recording after one round over a ring with these records: for each its kind and the words after its stamp.
fn recording_of(memory: &mut [Page], records: &[(u8, &[u64])]) -> ProcessRecording {
    let base = memory.as_mut_ptr().cast::<u8>();
    let words: Vec<u64> = records
        .iter()
        .zip(1u64..)
        .flat_map(|((kind, rest), stamp)| [&[stamp << 8 | u64::from(*kind)], *rest].concat())
        .collect();
    // SAFETY: the memory is as long as the capacity says, and the offsets lie within.
    unsafe {
        let data = base.add(CAPACITY.ring_data(0) as usize).cast::<u64>();
        std::ptr::copy_nonoverlapping(words.as_ptr(), data, words.len());
        let header = &*base.cast::<Header>();
        header.magic.store(MAGIC, Ordering::Relaxed);
        header.ring_capacity.store(CAPACITY.rings, Ordering::Relaxed);
        header.node_capacity.store(CAPACITY.nodes, Ordering::Relaxed);
        header.rings.store(1, Ordering::Relaxed);
        let ring = &*base.add(CAPACITY.ring_headers() as usize).cast::<RingHeader>();
        ring.tail.store(words.len() as u64 * 8, Ordering::Relaxed);
        let shared = SessionMemory::of_ourselves(base, CAPACITY.bytes()).expect("the header is sound");
        let mut recording =
            ProcessRecording::begin(shared, RecordedProcess::default(), Outputs::default(), None).unwrap();
        recording.round(true);
        recording
    }
}

fn live_after(records: &[(u8, &[u64])]) -> (u64, u64) {
    let mut memory = vec![Page([0; 512]); CAPACITY.bytes() as usize / 4096];
    let recording = recording_of(&mut memory, records);
    let (totals, _) = recording.figures();
    (totals.figures.live_blocks(), totals.figures.live_bytes())
}

#[test]
fn a_reallocation_whose_end_was_dropped_does_not_get_the_next_ones_end() {
    let records: [(u8, &[u64]); 6] = [
        (kind::THREAD, &[7]),
        (kind::ALLOCATE, &[0x1000, 100, 0]),
        (kind::ALLOCATE, &[0x2000, 200, 0]),
        (kind::REALLOC_BEGIN, &[0x1000]),
        // Its end was dropped.
        (kind::REALLOC_BEGIN, &[0x2000]),
        (kind::REALLOC_END, &[0x2000, 0x3000, 300, 0]),
    ];
    assert_eq!(live_after(&records), (1, 300));
}

#[test]
fn a_mapping_whose_move_was_dropped_does_not_get_the_next_ones_place() {
    const PAGE: u64 = 4096;
    let records: [(u8, &[u64]); 6] = [
        (kind::THREAD, &[7]),
        (kind::MAP, &[0x10_0000, PAGE, 0]),
        (kind::MAP, &[0x20_0000, 2 * PAGE, 0]),
        (kind::REMAP_BEGIN, &[0x10_0000, PAGE]),
        (kind::REMAP_BEGIN, &[0x20_0000, 2 * PAGE]),
        (kind::REMAP, &[0x20_0000, 2 * PAGE, 0x30_0000, 3 * PAGE, 0]),
    ];
    assert_eq!(live_after(&records), (1, 3 * PAGE));
}
