//! The rows of a batch as profiles: one for each process and slot.

use super::allocated::AllocatedBefore;
use highwater_formats::heap_profile::{HeapProfile, HeapSample};
use highwater_lake::rows::{Batch, FrameRow, LakeProcess, SiteRow};
use highwater_model::{Catalog, Frame, FrameText, Module, StackId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The memory of one process at one slot.
#[derive(Debug)]
pub(super) struct ProcessProfile {
    pub(super) process: Arc<LakeProcess>,
    pub(super) slot: i64,
    sample_period: u64,
    allocated_since_unix_ns: Option<u64>,
    catalog: Arc<Catalog>,
    pub(super) samples: Vec<HeapSample>,
}

impl ProcessProfile {
    /// The same for an encoder, with a part of the samples.
    pub(super) fn heap_profile<'a>(&'a self, samples: &'a [HeapSample]) -> HeapProfile<'a> {
        HeapProfile {
            catalog: &self.catalog,
            program: "",
            time_unix_ns: self.slot.max(0).cast_unsigned().saturating_mul(1_000_000_000),
            sample_period: self.sample_period,
            knows_live_blocks: true,
            allocated_since_unix_ns: self.allocated_since_unix_ns,
            samples,
        }
    }
}

/// The profiles of a batch, by slot and process.
pub(super) fn profiles(batch: &Batch, before: &mut AllocatedBefore) -> Vec<ProcessProfile> {
    let mut rows: BTreeMap<(i64, i64), Vec<&SiteRow>> = BTreeMap::new();
    for row in &batch.sites {
        rows.entry((row.slot, row.process.process_id)).or_default().push(row);
    }
    let mut stacks = BatchStacks::new(&batch.frames);
    let mut unfinished = Vec::new();
    let mut last_slot = None;
    for ((slot, _), rows) in rows {
        if let Some(last) = last_slot.replace(slot).filter(|last| *last != slot) {
            before.end_slot(last);
        }
        let allocated = before.difference(&rows);
        let amount = |number: i64| number.max(0).cast_unsigned();
        let sample = |(at, row): (usize, &&SiteRow)| {
            let (allocated_bytes, allocated_blocks) = allocated.as_ref().map_or((0, 0), |known| known.rows[at]);
            HeapSample {
                stack: stacks.stack((row.stack_id, row.site_id)),
                live_blocks: amount(row.live_blocks),
                live_bytes: amount(row.live_bytes),
                allocated_blocks,
                allocated_bytes,
            }
        };
        let samples = merged(rows.iter().enumerate().map(sample).collect());
        let sample_period = rows.iter().map(|row| amount(row.sample_period)).max().unwrap_or(0);
        let since = allocated.map(|allocated| allocated.since_unix_ns);
        unfinished.push((Arc::clone(&rows[0].process), slot, sample_period, since, samples));
    }
    if let Some(last) = last_slot {
        before.end_slot(last);
    }
    let catalog = Arc::new(stacks.catalog);
    let finish = |(process, slot, sample_period, allocated_since_unix_ns, samples)| ProcessProfile {
        process,
        slot,
        sample_period,
        allocated_since_unix_ns,
        catalog: Arc::clone(&catalog),
        samples,
    };
    unfinished.into_iter().map(finish).collect()
}

/// One sample for each stack: two stacks of the lake may be one to a reader, who sees no code offsets.
fn merged(mut samples: Vec<HeapSample>) -> Vec<HeapSample> {
    samples.sort_by_key(|sample| sample.stack.0);
    samples.dedup_by(|next, kept| {
        let is_same = next.stack == kept.stack;
        if is_same {
            kept.live_blocks = kept.live_blocks.saturating_add(next.live_blocks);
            kept.live_bytes = kept.live_bytes.saturating_add(next.live_bytes);
            kept.allocated_blocks = kept.allocated_blocks.saturating_add(next.allocated_blocks);
            kept.allocated_bytes = kept.allocated_bytes.saturating_add(next.allocated_bytes);
        }
        is_same
    });
    samples
}

/// The stacks of a batch, in a catalog that all its processes share.
struct BatchStacks<'a> {
    frames: HashMap<(i64, i64), Vec<&'a FrameRow>>,
    catalog: Catalog,
    modules: HashMap<(&'a str, &'a str), u32>,
    stacks: HashMap<(i64, i64), StackId>,
}

impl<'a> BatchStacks<'a> {
    fn new(rows: &'a [FrameRow]) -> Self {
        let mut frames: HashMap<(i64, i64), Vec<&FrameRow>> = HashMap::new();
        for row in rows {
            frames.entry((row.stack_id, row.site_id)).or_default().push(row);
        }
        for frames in frames.values_mut() {
            frames.sort_by_key(|frame| frame.depth);
            // Services that have the same stack each have its frames.
            frames.dedup_by_key(|frame| frame.depth);
        }
        Self { frames, catalog: Catalog::default(), modules: HashMap::new(), stacks: HashMap::new() }
    }

    fn stack(&mut self, key: (i64, i64)) -> StackId {
        if let Some(&stack) = self.stacks.get(&key) {
            return stack;
        }
        let rows = self.frames.remove(&key).unwrap_or_default();
        let stack = rows.iter().rev().fold(StackId::UNKNOWN, |parent, row| {
            let frame = self.frame(row);
            let frame = self.catalog.stacks.intern_frame(frame);
            self.catalog.stacks.intern_child(parent, frame)
        });
        self.stacks.insert(key, stack);
        stack
    }

    fn frame(&mut self, row: &'a FrameRow) -> Frame {
        let line = u32::try_from(row.line).unwrap_or(0);
        let text = FrameText { function: &row.function, file: &row.file, line, ..FrameText::default() };
        Frame { module: self.module(&row.module, &row.build_id), ..self.catalog.intern_frame(&text) }
    }

    /// As in [`Frame::module`]. Two libraries may have the same name, and be two builds.
    fn module(&mut self, name: &'a str, build_id: &'a str) -> u32 {
        if name.is_empty() && build_id.is_empty() {
            return 0;
        }
        let catalog = &mut self.catalog;
        let index = self.modules.entry((name, build_id)).or_insert_with(|| {
            let (path, build_id) = (catalog.strings.intern(name), catalog.strings.intern(build_id));
            catalog.add_module(Module { path, build_id, ..Module::default() })
        });
        *index + 1
    }
}
