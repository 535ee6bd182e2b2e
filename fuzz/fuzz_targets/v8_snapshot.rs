//! Any bytes as a heap snapshot of V8. What can be read is examined, shown, compared with itself, and converted.
#![no_main]

use highwater_image::dumps::v8::V8Snapshot;
use highwater_image::{ComparedImage, DumpKind, DumpSource, compare};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let _ = V8Snapshot.recognizes(bytes);
    let Ok(heap) = V8Snapshot.open(&DumpSource::Bytes(Arc::from(bytes))) else { return };
    let examination = heap.examine(3);
    let _ = heap.highlights(&examination, 3);
    for node in examination.graph.nodes().take(100) {
        let shown = heap.view(&examination, &heap.object_name(node.object), 3).expect("a live object");
        assert!(shown.retained_bytes >= Some(shown.bytes));
    }
    let side = || ComparedImage { heap: &*heap, examination: &examination };
    let comparison = compare(&[side(), side()], 3).expect("one kind");
    assert!(comparison.shapes.is_empty() && comparison.grown.is_empty());
    let _ = heap.snapshot(&examination, Default::default());
});
