//! The figures of the reference tools, counted from our events in the simplest way.

use crate::fixtures::Read;
use highwater_model::{Catalog, EventKind, FrameText, Heap, StackId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A function as the reference tools name it: name and file.
pub type Function = (String, String);

/// Plain counts.
#[derive(Default)]
pub struct Tally {
    pub heaps: BTreeMap<Heap, u64>,
    pub promotions: u64,
    pub collections: u64,
    pub by_domain: BTreeMap<u64, u64>,
    pub samples: u64,
    pub words: u64,
    pub live_samples: i64,
    pub highest_samples: (i64, u64),
    pub live_objects: usize,
    pub stacks: HashSet<StackId>,
    pub codes: HashSet<u64>,
    pub places: BTreeSet<(String, String, u32, u16, u16)>,
    pub slots: u64,
    pub most_slots: u64,
    pub direct: HashMap<Function, u64>,
    pub inclusive: HashMap<Function, u64>,
    pub unknown: u64,
}

/// Counts the events of a trace.
pub fn tally(read: &Read) -> Tally {
    let mut tally = Tally::default();
    let mut live: HashMap<u64, u64> = HashMap::new();
    let word = u64::from(read.decoder.source().unwrap().word_sampling.unwrap().word_bytes());
    let mut stacks = HashMap::new();
    for event in &read.events {
        *tally.by_domain.entry(event.thread.0).or_default() += 1;
        match event.kind {
            EventKind::Allocate(place) => {
                let samples = place.weight.samples();
                *tally.heaps.entry(read.catalog.tag(place.tag).heap).or_default() += 1;
                tally.samples += samples;
                tally.words += place.size / word;
                tally.live_samples += samples as i64;
                if tally.live_samples > tally.highest_samples.0 {
                    tally.highest_samples = (tally.live_samples, event.time.0 / 1000);
                }
                assert_eq!(live.insert(place.address, samples), None);
                let about = stacks.entry(place.stack).or_insert_with(|| Stack::new(&read.catalog, place.stack));
                tally.slots += about.slots.len() as u64;
                tally.most_slots = tally.most_slots.max(about.slots.len() as u64);
                *tally.direct.entry(about.direct()).or_default() += samples;
                for function in about.inclusive() {
                    *tally.inclusive.entry(function).or_default() += samples;
                }
                if tally.stacks.insert(place.stack) {
                    about.note(&mut tally);
                }
            }
            EventKind::Deallocate { address, .. } => {
                tally.collections += 1;
                match live.remove(&address) {
                    Some(samples) => tally.live_samples -= samples as i64,
                    None => tally.unknown += 1,
                }
            }
            EventKind::Promote { .. } => tally.promotions += 1,
            other => panic!("{other:?}"),
        }
    }
    tally.live_objects = live.len();
    tally
}

/// A source location: function, file, line and columns.
type Place = (String, String, u32, u16, u16);

/// The slots of a stack, innermost first: each is a code and its source locations, innermost first.
struct Stack {
    slots: Vec<(u64, Vec<Place>)>,
}

impl Stack {
    fn new(catalog: &Catalog, stack: StackId) -> Self {
        let mut slots = Vec::new();
        for frame in catalog.stacks.recorded_frames_of(stack) {
            let code = catalog.stacks.frame(frame).unwrap().address;
            let texts = catalog.stacks.frame_ids(frame).map(|id| {
                let frame = &catalog.stacks.frames()[id as usize];
                let FrameText { function, file, line, columns, .. } = catalog.frame_text(frame);
                (function.to_owned(), file.to_owned(), line, columns.start, columns.end)
            });
            let places = if catalog.stacks.is_resolved(frame) { texts.collect() } else { Vec::new() };
            slots.push((code, places));
        }
        Self { slots }
    }

    fn note(&self, tally: &mut Tally) {
        for (code, places) in &self.slots {
            tally.codes.insert(*code);
            tally.places.extend(places.iter().cloned());
        }
    }

    fn unnamed(code: u64) -> Function {
        (format!("#{code:x}"), "??".to_owned())
    }

    /// The innermost source location of a slot; a slot without any is replaced by its caller, at most twice.
    fn function(&self, slot: usize) -> Function {
        let named = self.slots.iter().skip(slot).take(3).find_map(|(_, places)| places.first());
        match (named, self.slots.get(slot)) {
            (Some(place), _) => (place.0.clone(), place.1.clone()),
            (None, Some((code, _))) => Self::unnamed(*code),
            (None, None) => Self::unnamed(0),
        }
    }

    fn direct(&self) -> Function {
        self.function(0)
    }

    fn inclusive(&self) -> BTreeSet<Function> {
        (0..self.slots.len()).map(|slot| self.function(slot)).collect()
    }
}

/// The ten greatest, in the format of the reference.
pub fn top(functions: &HashMap<Function, u64>) -> Vec<(String, String, u64)> {
    let mut list: Vec<_> = functions.iter().map(|((name, file), count)| (*count, file.clone(), name.clone())).collect();
    list.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1, &a.2).cmp(&(&b.1, &b.2))));
    list.into_iter().take(10).map(|(count, file, name)| (name, file, count)).collect()
}
