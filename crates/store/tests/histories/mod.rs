//! Random histories of programs: heaps, usable sizes, weights, counted samples and promotions occur in them.

use highwater_model::{
    Catalog, Event, EventKind, FrameText, Heap, Nanos, Placement, SampleSpacing, StackId, Tag, TagId, ThreadId, Weight,
    mapped_address,
};
use proptest::prelude::*;

/// Something that a native program does.
#[derive(Clone, Debug)]
pub struct Doing {
    kind: u8,
    address: u64,
    old_address: u64,
    size: u64,
    is_mapped: bool,
    surplus: i32,
    weight: u64,
    thread: u64,
}

/// Anything that a native program does.
pub fn doing() -> impl Strategy<Value = Doing> {
    let surplus = prop_oneof![4 => Just(0), 1 => -64..64i32, 1 => any::<i32>()];
    let weight = prop_oneof![2 => Just(0), 1 => 0..1u64 << 22, 2 => 0..1u64 << 19];
    let size = prop_oneof![8 => 0..5000u64, 1 => Just(u64::MAX / 3)];
    (0..12u8, 1..30u64, 1..30u64, size, prop::bool::weighted(0.2), surplus, weight, 1..4u64).prop_map(
        |(kind, address, old_address, size, is_mapped, surplus, weight, thread)| Doing {
            kind,
            address,
            old_address,
            size,
            is_mapped,
            surplus,
            weight,
            thread,
        },
    )
}

/// The events of a history, with a catalog that has two stacks and a tag for mappings.
pub fn events(doings: &[Doing]) -> (Catalog, TagId, Vec<Event>) {
    let mut catalog = Catalog::default();
    let text = |function| FrameText { function, ..FrameText::default() };
    let stacks = [
        catalog.intern_stack(&[text("grow"), text("main")]),
        catalog.intern_stack(&[text("map"), text("main")]),
        StackId::UNKNOWN,
    ];
    let mapped = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
    let events = doings.iter().zip(1..).map(|(doing, time)| {
        // A mapping and a block may lie at one address at the same time.
        let at = |number: u64| if doing.is_mapped { mapped_address(number << 12) } else { number << 12 };
        let samples = if doing.weight % 3 == 1 { doing.size.min(7) as u32 } else { 0 };
        let spacing = if doing.weight % 2 == 1 { 16_000.0 } else { 26.7 };
        let place = Placement {
            address: at(doing.address),
            size: doing.size,
            stack: stacks[(doing.size % 3) as usize],
            tag: if doing.is_mapped { mapped } else { TagId::NONE },
            surplus: doing.surplus,
            weight: Weight::from_bits(doing.weight).unwrap().of_samples(samples, SampleSpacing::new(spacing)),
        };
        let kind = match doing.kind {
            0..5 => EventKind::Allocate(place),
            5..8 => EventKind::Deallocate { address: place.address, claimed_size: None, stack: place.stack },
            10.. => EventKind::Promote {
                address: place.address,
                tag: if doing.old_address % 2 == 0 { mapped } else { TagId::NONE },
            },
            _ => EventKind::Reallocate { old_address: at(doing.old_address), claimed_old_size: None, new: place },
        };
        Event { time: Nanos(time * 10), thread: ThreadId(doing.thread), kind }
    });
    let events = events.collect();
    (catalog, mapped, events)
}
