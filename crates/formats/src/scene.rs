//! Small snapshots for the tests of every format.

use highwater_model::{
    Accounts, AddressLedger, Blocks, Catalog, Event, EventKind, FrameText, Nanos, Placement, Snapshot, Source, StackId,
    Tag, ThreadId,
};
use proptest::prelude::*;
use std::sync::Arc;

/// A simulated program: tests call its methods to allocate and free.
#[derive(Default)]
pub(crate) struct Scene {
    pub(crate) catalog: Catalog,
    pub(crate) source: Source,
    ledger: AddressLedger,
    time: u64,
}

/// A frame with only a function name.
pub(crate) fn function(name: &str) -> FrameText<'_> {
    FrameText { function: name, ..FrameText::default() }
}

impl Scene {
    /// A stack of functions, innermost first.
    pub(crate) fn stack(&mut self, functions: &[&str]) -> StackId {
        let frames: Vec<FrameText<'_>> = functions.iter().map(|name| function(name)).collect();
        self.catalog.intern_stack(&frames)
    }

    pub(crate) fn happen(&mut self, thread: u64, kind: EventKind) {
        self.time += 10;
        self.ledger.record(&Event { time: Nanos(self.time), thread: ThreadId(thread), kind }, &mut ());
    }

    pub(crate) fn allocate(&mut self, thread: u64, address: u64, size: u64, stack: StackId) {
        self.happen(thread, EventKind::Allocate(Placement { address, size, stack, ..Placement::default() }));
    }

    pub(crate) fn allocate_typed(&mut self, address: u64, size: u64, variable: &str, type_name: &str) {
        let (variable, type_name) = (self.catalog.strings.intern(variable), self.catalog.strings.intern(type_name));
        let tag = self.catalog.intern_tag(Tag { variable, type_name, ..Tag::default() });
        self.happen(1, EventKind::Allocate(Placement { address, size, tag, ..Placement::default() }));
    }

    pub(crate) fn reallocate(&mut self, thread: u64, old_address: u64, address: u64, size: u64, stack: StackId) {
        let new = Placement { address, size, stack, ..Placement::default() };
        self.happen(thread, EventKind::Reallocate { old_address, claimed_old_size: None, new });
    }

    pub(crate) fn free(&mut self, thread: u64, address: u64) {
        self.happen(thread, EventKind::free(address, None));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            source: self.source.clone(),
            at: self.ledger.accounts().last_time(),
            accounts: self.ledger.accounts().clone(),
            catalog: Arc::new(self.catalog.clone()),
        }
    }

    /// The same without single blocks.
    pub(crate) fn aggregated(&self) -> Snapshot {
        without_blocks(&self.snapshot())
    }
}

/// A snapshot with figures only.
pub(crate) fn without_blocks(snapshot: &Snapshot) -> Snapshot {
    let mut state = snapshot.accounts.to_state();
    state.blocks = Blocks::default();
    let source = Source { aggregated: true, ..snapshot.source.clone() };
    Snapshot { source, accounts: Accounts::from_state(state), ..snapshot.clone() }
}

/// Two threads, a resized block, a freed one, and one of unknown origin.
pub(crate) fn parser() -> Scene {
    let mut scene = Scene::default();
    scene.source.program = "/usr/bin/parser --fast".to_owned();
    scene.source.pid = 42;
    scene.source.start_unix_ns = 1_700_000_000_000_000_000;
    scene.catalog.name_thread(ThreadId(7), "worker");
    let parse = scene.stack(&["parse", "main"]);
    let grow = scene.stack(&["grow", "parse", "main"]);
    scene.allocate(1, 0x1000, 100, parse);
    scene.allocate(7, 0x2000, 50, parse);
    scene.reallocate(7, 0x1000, 0x3000, 300, grow);
    scene.allocate(1, 0x4000, 8, StackId::UNKNOWN);
    scene.free(1, 0x2000);
    scene
}

/// A random history of a small memory. It uses few addresses, so that blocks collide, die, move, and die unseen.
pub(crate) fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let event = (0u8..3, 0u64..3, 0u64..8, 0u64..8, prop_oneof![0u64..200, Just(u64::MAX / 4)], 0usize..5);
    prop::collection::vec(event, 0..60).prop_map(|events| {
        let mut scene = Scene::default();
        let inlined = FrameText { inlined: true, address: 0x40, ..function("inlined") };
        let addressed = FrameText { address: 0x40, module: "libc.so.6", ..FrameText::default() };
        let stacks = [
            StackId::UNKNOWN,
            scene.stack(&["a", "main"]),
            scene.stack(&["b", "a", "main"]),
            scene.catalog.intern_stack(&[inlined, FrameText { address: 0x40, ..function("outer") }]),
            scene.catalog.intern_stack(&[addressed, function("main")]),
        ];
        for (kind, thread, address, other, size, stack) in events {
            match kind {
                0 => scene.allocate(thread, address, size, stacks[stack]),
                1 => scene.free(thread, address),
                _ => scene.reallocate(thread, address, other, size, stacks[stack]),
            }
        }
        scene.snapshot()
    })
}
