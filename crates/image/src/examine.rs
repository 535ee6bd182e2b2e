//! The analysis of a heap as a whole.

use crate::damage::Damages;
use crate::dlmalloc;
use crate::find::{Heap, with_lens};
use crate::graph::Graph;
use crate::lens::Lens;
use crate::motoko::Kind;
use crate::survey::{KindFigures, Survey, survey};

/// The analysis of a heap: its survey, its graph of live objects, and figures of both.
pub struct Examination {
    /// The result of the walk.
    pub survey: Survey,
    /// The live objects with their dominators and retained sizes.
    pub graph: Graph,
    /// Figures by kind; kinds without objects are left out.
    pub kinds: Vec<(&'static str, KindFigures)>,
    /// Memory that holds no data of the program.
    pub waste: Vec<Waste>,
}

/// Memory that holds no data of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waste {
    /// What it is, in a word.
    pub what: &'static str,
    /// The same in a sentence.
    pub explanation: &'static str,
    /// The number of pieces.
    pub count: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Examination {
    /// Analyses a heap; the `top` largest objects are kept.
    pub fn of(heap: &Heap<'_>, top: usize) -> Self {
        with_lens!(heap, lens => Self::through(lens, top, waste_of(heap)))
    }

    fn through<L: Lens>(lens: &L, top: usize, waste: fn(&Survey) -> Vec<Waste>) -> Self {
        let survey = survey(lens, top);
        let graph = Graph::of(lens, &survey);
        let is_there = |(_, figures): &(&str, KindFigures)| figures.count > 0;
        let kinds = L::KINDS.iter().copied().zip(survey.kinds.iter().copied()).filter(is_there).collect();
        let waste = waste(&survey);
        Self { kinds, waste, survey, graph }
    }

    /// The damage found.
    pub fn damage(&self) -> &Damages {
        &self.survey.damage
    }

    /// The number of live objects, and their bytes.
    pub fn live(&self) -> (u64, u64) {
        self.kinds.iter().fold((0, 0), |sum, (_, kind)| (sum.0 + kind.live_count, sum.1 + kind.live_bytes))
    }
}

fn waste_of(heap: &Heap<'_>) -> fn(&Survey) -> Vec<Waste> {
    match heap {
        Heap::Wide(_) => |survey| motoko_waste(&survey.kinds, 24),
        Heap::Narrow(_) => |survey| motoko_waste(&survey.kinds, 0),
        Heap::Dlmalloc(_) => dlmalloc_waste,
    }
}

/// The waste in a Motoko heap. Boxes of 64-bit numbers may be longer than they need to be.
fn motoko_waste(kinds: &[KindFigures], box_bytes: u64) -> Vec<Waste> {
    let live = |chosen: &[Kind]| {
        let of = |kind: &Kind| kinds[*kind as usize];
        chosen.iter().map(of).fold((0, 0), |sum, kind| (sum.0 + kind.live_count, sum.1 + kind.live_bytes))
    };
    let all = |chosen: &[Kind]| {
        let of = |kind: &Kind| kinds[*kind as usize];
        chosen.iter().map(of).fold((0, 0), |sum, kind| (sum.0 + kind.count, sum.1 + kind.bytes))
    };
    let numbers = [Kind::Nat64, Kind::Int64, Kind::Float, Kind::Nat32, Kind::Int32, Kind::Float32];
    let boxes = live(&numbers);
    let wide = live(&numbers[..3]);
    let padding = if box_bytes == 0 { 0 } else { wide.1.saturating_sub(wide.0 * box_bytes) };
    let free = all(&[Kind::OneWordFiller, Kind::FreeSpace, Kind::Unused]);
    let lost = all(&[Kind::Gap, Kind::MarkStack, Kind::Forwarded]);
    let objects = kinds.iter().map(|kind| (kind.count - kind.live_count, kind.bytes.saturating_sub(kind.live_bytes)));
    let dead = objects.fold((0, 0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1));
    let garbage = (dead.0.saturating_sub(free.0 + lost.0), dead.1.saturating_sub(free.1 + lost.1));
    let row = |what, explanation, (count, bytes): (u64, u64)| Waste { what, explanation, count, bytes };
    let rows = vec![
        row("garbage", "objects that nothing refers to any more", garbage),
        row("boxes of variables", "mutable fields and variables lie in objects of their own", live(&[Kind::MutBox])),
        row("boxes of numbers", "numbers of 64 bits and floats lie in objects of their own", boxes),
        row("ropes", "texts that were put together and not made one", live(&[Kind::Concat])),
        row("slack", "words of boxes that are never used", (padding / 8, padding)),
        row("fragmentation", "free space between objects", free),
        row("unreadable", "what is no object, or was moved elsewhere", lost),
    ];
    rows.into_iter().filter(|row| row.bytes > 0).collect()
}

fn dlmalloc_waste(survey: &Survey) -> Vec<Waste> {
    let of = |kind: dlmalloc::Kind| survey.kinds[kind as usize];
    let row = |what, explanation, count, bytes| Waste { what, explanation, count, bytes };
    let chunks = of(dlmalloc::Kind::Chunk);
    let leaked = survey.leaked;
    let (free, top, gap) = (of(dlmalloc::Kind::Free), of(dlmalloc::Kind::Top), of(dlmalloc::Kind::Gap));
    let rows = vec![
        row("leaked", "chunks in use that nothing seems to refer to", leaked.0, leaked.1),
        row("headers", "size and flags of chunks in use", chunks.count, chunks.count * 4),
        row("fragmentation", "free chunks between those in use", free.count, free.bytes),
        row("top", "never used, or given back at the end", top.count, top.bytes),
        row("unreadable", "what is no chunk", gap.count, gap.bytes),
    ];
    rows.into_iter().filter(|row| row.bytes > 0).collect()
}
