//! The memory of one process by stack, as the profile stores of a fleet take it.

use highwater_model::groups::{Keep, sites};
use highwater_model::{Catalog, Snapshot, StackId};

/// The memory of a process at one instant.
#[derive(Clone, Copy, Debug)]
pub struct HeapProfile<'a> {
    /// What the stacks of the samples refer to.
    pub catalog: &'a Catalog,
    /// The name of the program: it tells which module is the main one. May be empty.
    pub program: &'a str,
    /// The instant, in nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Mean bytes per sample; 0 if every block is counted.
    pub sample_period: u64,
    /// True if the numbers of live blocks are known.
    pub knows_live_blocks: bool,
    /// Since when allocated bytes and blocks were counted, in nanoseconds since the Unix epoch; `None` if they are not known.
    pub allocated_since_unix_ns: Option<u64>,
    /// The figures of each stack.
    pub samples: &'a [HeapSample],
}

/// The figures of one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapSample {
    /// The stack.
    pub stack: StackId,
    /// Live blocks.
    pub live_blocks: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Blocks that were allocated.
    pub allocated_blocks: u64,
    /// Bytes that were allocated.
    pub allocated_bytes: u64,
}

/// A figure of a sample, named as in Go's heap profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapFigure {
    /// Live bytes.
    InuseSpace,
    /// Live blocks.
    InuseObjects,
    /// Allocated bytes.
    AllocSpace,
    /// Allocated blocks.
    AllocObjects,
}

impl HeapFigure {
    /// All of them, the one that a viewer shows first in front.
    pub const ALL: [Self; 4] = [Self::InuseSpace, Self::InuseObjects, Self::AllocSpace, Self::AllocObjects];

    /// Its name and its unit.
    pub fn name_and_unit(self) -> (&'static str, &'static str) {
        match self {
            Self::InuseSpace => ("inuse_space", "bytes"),
            Self::InuseObjects => ("inuse_objects", "count"),
            Self::AllocSpace => ("alloc_space", "bytes"),
            Self::AllocObjects => ("alloc_objects", "count"),
        }
    }

    /// Its value. More than [`i64::MAX`] cannot be written, and becomes that.
    pub fn of(self, sample: &HeapSample) -> u64 {
        let value = match self {
            Self::InuseSpace => sample.live_bytes,
            Self::InuseObjects => sample.live_blocks,
            Self::AllocSpace => sample.allocated_bytes,
            Self::AllocObjects => sample.allocated_blocks,
        };
        value.min(i64::MAX as u64)
    }

    /// True if it counts from one instant to another, rather than at one.
    pub fn is_of_a_window(self) -> bool {
        matches!(self, Self::AllocSpace | Self::AllocObjects)
    }
}

impl<'a> HeapProfile<'a> {
    /// The figures that are known, in the order of [`HeapFigure::ALL`].
    pub fn figures(&self) -> impl Iterator<Item = HeapFigure> {
        let Self { knows_live_blocks, allocated_since_unix_ns, .. } = *self;
        HeapFigure::ALL.into_iter().filter(move |figure| match figure {
            HeapFigure::InuseSpace => true,
            HeapFigure::InuseObjects => knows_live_blocks,
            HeapFigure::AllocSpace | HeapFigure::AllocObjects => allocated_since_unix_ns.is_some(),
        })
    }

    /// The same with other samples: a part of them.
    pub fn with_samples<'b>(&self, samples: &'b [HeapSample]) -> HeapProfile<'b>
    where
        'a: 'b,
    {
        HeapProfile { samples, ..*self }
    }

    /// The number of bytes between two samples, as the formats say it: never 0, which some stores take for a missing type.
    pub fn period(&self) -> u64 {
        self.sample_period.clamp(1, i64::MAX as u64)
    }

    /// A snapshot, with the samples that [`samples_of`] found in it.
    pub fn of_snapshot(snapshot: &'a Snapshot, samples: &'a [HeapSample]) -> Self {
        let source = &snapshot.source;
        Self {
            catalog: &snapshot.catalog,
            program: &source.program,
            time_unix_ns: source.start_unix_ns.saturating_add(if source.is_untimed() { 0 } else { snapshot.at.0 }),
            sample_period: source.sample_rate.unwrap_or(0),
            knows_live_blocks: source.knows_live_blocks(),
            allocated_since_unix_ns: source.knows_allocated().then_some(source.start_unix_ns),
            samples,
        }
    }
}

/// The samples of a snapshot: one for each site that `keep` accepts.
pub fn samples_of(snapshot: &Snapshot, keep: Keep<'_>) -> Vec<HeapSample> {
    let sample = |(stack, figures): (StackId, &highwater_model::Figures)| HeapSample {
        stack,
        live_blocks: figures.live_blocks(),
        live_bytes: figures.live_bytes(),
        // A reallocation hands out bytes again.
        allocated_blocks: figures.allocations.saturating_add(figures.reallocations),
        allocated_bytes: figures.allocated_bytes,
    };
    sites(snapshot, keep).map(sample).collect()
}
