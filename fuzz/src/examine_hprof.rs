//! Whatever a Java heap dump is: every question has an answer, and memory stays in proportion to it.

use crate::heap::within_bytes;
use highwater_image::dumps::hprof::HprofHeap;
use highwater_image::{ComparedImage, DumpSource, HeapAbilities, ImageHeap, compare};
use highwater_model::{Accounts, Source, laws};

/// Any bytes, as a dump.
pub fn examine_hprof(bytes: &[u8]) {
    // Buffers, tables that start out large, and shapes, roots and addresses: some for each byte.
    within_bytes(bytes.len() * 256 + (16 << 20), || examine(bytes));
}

/// Asks everything.
fn examine(bytes: &[u8]) {
    let Ok(heap) = HprofHeap::open(&DumpSource::Bytes(bytes.into())) else { return };
    let examination = heap.examine(5);
    let walked: u64 = examination.kinds.iter().map(|(_, figures)| figures.bytes).sum();
    assert_eq!(walked, examination.survey.walked_bytes);
    assert_eq!(examination.live().1, walked, "every object counts as live");
    for node in examination.graph.nodes().take(20) {
        let name = ImageHeap::object_name(&heap, node.object);
        let view = heap.view(&examination, &name, 6).expect("an object has a view");
        assert_eq!(view.object, node.object);
        if let Some(path) = view.path {
            let _ = heap.view(&examination, &path.to_string(), 2);
        }
    }
    for place in ["Node", "Node.count", "Zoo.SESSIONS.table[3]", "0x1000", "A[0]"] {
        let _ = heap.view(&examination, place, 6);
    }
    let _ = heap.highlights(&examination, 5);
    let side = || ComparedImage { heap: &heap, examination: &examination };
    let same = compare(&[side(), side()], 5).expect("the same kind");
    assert_eq!((same.came.0, same.went.0), (0, 0));
    let snapshot = heap.snapshot(&examination, Source::default());
    let accounts = Accounts::from_state(snapshot.accounts);
    assert_eq!(laws::violations(&accounts), Vec::<String>::new());
}
