//! The analysis of a heap as a whole.

use crate::damage::Damages;
use crate::graph::Graph;
use crate::heap::HeapAbilities;
use crate::lens::Lens;
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

/// Analyses a heap; the `top` largest objects are kept.
pub(crate) fn examine<L: Lens + HeapAbilities>(lens: &L, top: usize) -> Examination {
    let survey = survey(lens, top);
    let graph = Graph::of(lens, &survey);
    let is_there = |(_, figures): &(&str, KindFigures)| figures.count > 0;
    let kinds = L::KINDS.iter().copied().zip(survey.kinds.iter().copied()).filter(is_there).collect();
    let waste = lens.waste(&survey);
    Examination { kinds, waste, survey, graph }
}

impl Examination {
    /// The damage found.
    pub fn damage(&self) -> &Damages {
        &self.survey.damage
    }

    /// The number of live objects, and their bytes.
    pub fn live(&self) -> (u64, u64) {
        self.kinds.iter().fold((0, 0), |sum, (_, kind)| (sum.0 + kind.live_count, sum.1 + kind.live_bytes))
    }
}
