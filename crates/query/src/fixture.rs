//! Small histories for tests.

use crate::query::Query;
use highwater_model::{Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, ThreadId};
use highwater_store::history::History;
use highwater_store::{Recording, Writer};
use std::sync::Arc;

/// A frame of which only the function is known.
pub fn function(function: &str) -> FrameText<'_> {
    FrameText { function, ..FrameText::default() }
}

/// A question about a recording in which each of these stacks, which are innermost first, allocates a block of this size.
pub fn allocated(blocks: &[(Vec<FrameText<'_>>, u64)]) -> Query {
    let mut catalog = Catalog::default();
    let event = |(number, (frames, size)): (u64, &(Vec<FrameText<'_>>, u64))| {
        let address = 0x1000 * (1 + number);
        let place = Placement { address, size: *size, stack: catalog.intern_stack(frames), ..Placement::default() };
        Event { time: Nanos(number), thread: ThreadId(1), kind: EventKind::Allocate(place) }
    };
    let events: Vec<Event> = (0..).zip(blocks).map(event).collect();
    let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
    writer.append(&events, &catalog).unwrap();
    let source = Source { duration: Nanos(blocks.len() as u64), ..Source::default() };
    let bytes = writer.finish(&catalog, &source).unwrap().1;
    Query::new(Arc::new(History::of_recording(Arc::new(Recording::from_bytes(bytes).unwrap())).unwrap()))
}
