//! Random histories, and the facts about them, computed without any file, keyframe or optimization.

use highwater_model::{
    AddressLedger, Catalog, Event, EventKind, FrameText, Heap, Nanos, Op, Placement, Source, StackId, Step, Tag, TagId,
    ThreadId,
};
use highwater_store::{Spacing, Writer};
use std::collections::{BTreeMap, HashMap};

/// A history with its catalog; the same seed gives the same history.
pub fn history(seed: u64, length: usize) -> (Catalog, Vec<Event>) {
    let mut catalog = Catalog::default();
    let stacks: Vec<StackId> = (0..6)
        .map(|site| {
            let (inner, middle) = (format!("make_{site}"), format!("step_{}", site % 2));
            let module = if site == 3 { "lib.so" } else { "demo" };
            let frame = |function, line| FrameText { function, file: "main.rs", line, module, ..FrameText::default() };
            catalog.intern_stack(&[frame(&inner, site), frame(&middle, 20), frame("main", 30)])
        })
        .collect();
    let type_name = catalog.strings.intern("Vec<u8>");
    let typed = catalog.intern_tag(Tag { type_name, ..Tag::default() });
    let mapped = catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
    let name = catalog.strings.intern("phase");
    catalog.name_thread(ThreadId(1), "worker");
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % bound
    };
    let mut time = 0;
    let mut events = Vec::new();
    for _ in 0..length {
        // Some events have the same time.
        time += random(4) * random(100);
        let address = 0x7f00_0000_0000 + random(60) * 48;
        let mut place = Placement { address, size: 24 + random(5) * 100, ..Placement::default() };
        place.stack = stacks[random(6) as usize];
        place.tag = [TagId::NONE, typed, mapped][random(3) as usize];
        let kind = match random(20) {
            0 => EventKind::Mark { name },
            1 => EventKind::Gauge { name, value: random(1 << 40) },
            2 | 3 => EventKind::Reallocate {
                old_address: 0x7f00_0000_0000 + random(60) * 48,
                claimed_old_size: None,
                // In half of the histories every reallocation has a known stack.
                new: Placement {
                    stack: if seed.is_multiple_of(2) && random(4) == 0 { StackId::UNKNOWN } else { place.stack },
                    ..place
                },
            },
            4..=11 => EventKind::free(address, None),
            _ => EventKind::Allocate(place),
        };
        events.push(Event { time: Nanos(time), thread: ThreadId(1 + random(3)), kind });
    }
    (catalog, events)
}

/// The history as a file, whose keyframes are `every` events apart and whose blocks end every `flush` events.
pub fn written(catalog: &Catalog, events: &[Event], every: u64, flush: usize) -> Vec<u8> {
    let source = Source { program: "history".to_owned(), pid: 77, host: "here".to_owned(), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.set_spacing(Spacing::every(every));
    for part in events.chunks(flush) {
        writer.append(part, catalog).unwrap();
        writer.flush(catalog).unwrap();
    }
    writer.finish(catalog, &source).unwrap().1
}

/// A block in one state: until it is freed or resized.
#[derive(Clone, Debug)]
pub struct Placed {
    pub id: u64,
    pub stack: StackId,
    pub tag: TagId,
    pub thread: u64,
    pub size: u64,
    /// When the block was born; when this state began and ended.
    pub birth: u64,
    pub start: u64,
    pub end: Option<u64>,
    /// The beginning and the end as numbers of steps.
    pub start_step: usize,
    pub end_step: Option<usize>,
    /// Freed before its thread allocated anything else.
    pub is_temporary: bool,
    /// The state ended because the block was freed, so it was the block's last state.
    pub is_freed: bool,
}

/// All states of all blocks, and when each block died.
#[derive(Debug, Default)]
pub struct Truth {
    pub placed: Vec<Placed>,
    pub deaths: HashMap<u64, u64>,
    /// The index of the last state of each block.
    pub last: HashMap<u64, usize>,
    pub steps: Vec<Step>,
}

impl Truth {
    pub fn of(events: &[Event]) -> Self {
        let (mut ledger, mut steps) = (AddressLedger::default(), Vec::new());
        events.iter().for_each(|event| ledger.record(event, &mut steps));
        let mut truth = Self::default();
        let mut latest: HashMap<u64, u64> = HashMap::new();
        let mut next_id = 0;
        for (number, step) in steps.iter().enumerate() {
            let (time, thread) = (step.time.0, step.thread.0);
            match step.op {
                Op::Allocate(place) => {
                    let place = (place.stack, place.tag, place.size);
                    truth.come(next_id, place, thread, time, time, number);
                    latest.insert(thread, next_id);
                    next_id += 1;
                }
                Op::Free { id, .. } => {
                    let at = truth.last[&id.0];
                    truth.placed[at].is_temporary = latest.get(&truth.placed[at].thread) == Some(&id.0);
                    truth.die(id.0, time, number);
                }
                Op::Evict { id } => truth.die(id.0, time, number),
                Op::Reallocate { id, size, stack, tag, .. } => {
                    let old = truth.placed[truth.last[&id.0]].clone();
                    let place = &mut truth.placed[truth.last[&id.0]];
                    (place.end, place.end_step) = (Some(time), Some(number));
                    let stack = if stack == StackId::UNKNOWN { old.stack } else { stack };
                    let tag = if tag == TagId::NONE { old.tag } else { tag };
                    truth.come(id.0, (stack, tag, size), thread, old.birth, time, number);
                    latest.insert(thread, id.0);
                }
                _ => {}
            }
        }
        truth.steps = steps;
        truth
    }

    fn come(
        &mut self,
        id: u64,
        (stack, tag, size): (StackId, TagId, u64),
        thread: u64,
        birth: u64,
        start: u64,
        start_step: usize,
    ) {
        self.last.insert(id, self.placed.len());
        let (end, end_step, is_temporary, is_freed) = (None, None, false, false);
        self.placed.push(Placed {
            id,
            stack,
            tag,
            thread,
            size,
            birth,
            start,
            end,
            start_step,
            end_step,
            is_temporary,
            is_freed,
        });
    }

    fn die(&mut self, id: u64, time: u64, number: usize) {
        let place = &mut self.placed[self.last[&id]];
        (place.end, place.end_step, place.is_freed) = (Some(time), Some(number), true);
        self.deaths.insert(id, time);
    }

    /// The states that are current at a time, after all events of that time.
    pub fn live_at(&self, time: u64) -> impl Iterator<Item = &Placed> {
        self.placed.iter().filter(move |placed| placed.start <= time && placed.end.is_none_or(|end| end > time))
    }

    /// The states that are current after this number of steps.
    pub fn live_after(&self, steps: usize) -> impl Iterator<Item = &Placed> {
        self.placed
            .iter()
            .filter(move |placed| placed.start_step < steps && placed.end_step.is_none_or(|end| end >= steps))
    }

    /// The number of steps after which the most bytes were first live in a window; and those bytes.
    pub fn highest(&self, from: u64, to: u64) -> (usize, u64) {
        let before = self.steps.iter().take_while(|step| step.time.0 < from).count();
        let until = self.steps.iter().take_while(|step| step.time.0 <= to).count();
        let bytes = |steps: usize| self.live_after(steps).map(|placed| placed.size).sum::<u64>();
        let mut best = (before, bytes(before));
        for steps in before + 1..=until {
            // A step that is not an event is not an instant of its own: it is part of the event after it.
            let is_instant = self.steps[steps - 1].op.is_event();
            if is_instant && bytes(steps) > best.1 {
                best = (steps, bytes(steps));
            }
        }
        best
    }
}

/// Bytes and blocks by stack.
pub type Sums = BTreeMap<u32, (u64, u64)>;

pub fn add(sums: &mut Sums, placed: &Placed, value: u64) {
    let sum = sums.entry(placed.stack.0).or_default();
    sum.0 += value;
    sum.1 += 1;
}
