//! Objects that were never dropped, collected in one pass for all queries.

use super::matcher::{Matcher, SiteId};
use super::memory::Boundary;
use rustc_hash::FxHashMap;
use std::ops::AddAssign;

/// A number of objects and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectAmount {
    /// The number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl AddAssign for ObjectAmount {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

/// Objects that were never dropped.
#[derive(Clone, Debug, Default)]
pub struct SurvivingObjects {
    /// Objects about which the log contradicts itself, by site.
    doubtful: FxHashMap<SiteId, ObjectAmount>,
    /// By site, and by the span between two remembered boundaries in which the objects were born.
    by_span: FxHashMap<(SiteId, u32), ObjectAmount>,
    /// Objects born between the first and the last `MEMORY` line.
    pub born_during_growth: ObjectAmount,
    /// Objects born before the last `MEMORY` line, if there are two.
    pub born_until_last_reading: ObjectAmount,
}

impl SurvivingObjects {
    /// Collects all live objects.
    pub fn of(matcher: &Matcher) -> Self {
        let mut found = Self::default();
        let growth = matcher.memory.growth();
        let has_iterations = !matcher.memory.boundaries().is_empty();
        let step = matcher.memory.iterations_per_boundary();
        matcher.for_each_survivor(|object| {
            let amount = ObjectAmount { objects: 1, bytes: object.bytes };
            if object.doubtful {
                *found.doubtful.entry(object.site).or_default() += amount;
            }
            if has_iterations {
                let span = object.iteration.div_ceil(step) as u32;
                *found.by_span.entry((object.site, span)).or_default() += amount;
            }
            if growth.is_some_and(|growth| growth.covers(object.iteration)) {
                found.born_during_growth += amount;
            }
            if growth.is_some_and(|growth| object.iteration <= growth.to_iteration) {
                found.born_until_last_reading += amount;
            }
        });
        found
    }

    /// Objects of a site about which the log contradicts itself.
    pub fn doubtful(&self, site: SiteId) -> ObjectAmount {
        self.doubtful.get(&site).copied().unwrap_or_default()
    }

    /// The survivors of each span between boundaries, by type. There is one span more than there are boundaries.
    pub fn by_type(&self, matcher: &Matcher) -> Vec<(String, Vec<ObjectAmount>)> {
        let spans = matcher.memory.boundaries().len() + 1;
        let mut types: FxHashMap<String, Vec<ObjectAmount>> = FxHashMap::default();
        for ((site, span), amount) in &self.by_span {
            let row = types
                .entry(matcher.type_of(*site).into_owned())
                .or_insert_with(|| vec![ObjectAmount::default(); spans]);
            if let Some(cell) = row.get_mut(*span as usize) {
                *cell += *amount;
            }
        }
        let mut types: Vec<_> = types.into_iter().collect();
        let sum = |amounts: &[ObjectAmount]| amounts.iter().map(|amount| amount.bytes).sum::<u64>();
        types.sort_by(|a, b| sum(&b.1).cmp(&sum(&a.1)).then_with(|| a.0.cmp(&b.0)));
        types
    }
}

/// The growth of a type over the iterations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// About the same amount in every iteration: the signature of a leak.
    Constant {
        /// The amount left by each iteration; the mean if they differ.
        each: ObjectAmount,
        /// True if all iterations leave exactly this amount.
        exact: bool,
    },
    /// Some amount in every iteration, but not the same.
    Uneven {
        /// The least amount that an iteration leaves.
        least: ObjectAmount,
        /// The greatest amount.
        most: ObjectAmount,
    },
    /// Some amount in some iterations.
    Sometimes {
        /// The number of these iterations.
        iterations: usize,
        /// The number of all iterations.
        of: usize,
    },
    /// Only objects from before the first iteration, or from within it: created once.
    Once,
    /// Only objects from the last iteration, or from after it: perhaps still in use.
    Latest,
}

/// Finds the pattern of the survivors of each span. The first span has the objects that are created once, and the last one is still in progress: if
/// there are enough spans, both are left out. `None` if fewer than two remain.
pub fn pattern(spans: &[ObjectAmount]) -> Option<Pattern> {
    let complete = spans.len().checked_sub(1)?;
    let judged = if complete >= 3 { 1..complete } else { 0..complete };
    if judged.len() < 2 {
        return None;
    }
    let rounds = &spans[judged.clone()];
    let with = rounds.iter().filter(|amount| amount.objects > 0).count();
    if with == 0 {
        let is_early = spans[..judged.start].iter().any(|amount| amount.objects > 0);
        return Some(if is_early { Pattern::Once } else { Pattern::Latest });
    }
    if with < rounds.len() {
        return Some(match rounds {
            [first, rest @ ..] if first.objects > 0 && with == 1 && rest.len() > 1 => Pattern::Once,
            [rest @ .., last] if last.objects > 0 && with == 1 && rest.len() > 1 => Pattern::Latest,
            _ => Pattern::Sometimes { iterations: with, of: rounds.len() },
        });
    }
    let by_bytes = |amount: &&ObjectAmount| (amount.bytes, amount.objects);
    let (least, most) = (*rounds.iter().min_by_key(by_bytes)?, *rounds.iter().max_by_key(by_bytes)?);
    let count = rounds.len() as u64;
    let mean = |figure: fn(&ObjectAmount) -> u64| {
        let sum: u128 = rounds.iter().map(|amount| u128::from(figure(amount))).sum();
        ((sum + u128::from(count) / 2) / u128::from(count)) as u64
    };
    let each = ObjectAmount { objects: mean(|amount| amount.objects), bytes: mean(|amount| amount.bytes) };
    let spread = |figure: fn(&ObjectAmount) -> u64| {
        let figures = || rounds.iter().map(figure);
        figures().max().unwrap_or(0) - figures().min().unwrap_or(0)
    };
    // A leak in one of three calls occasionally leaves one object more or less in a span.
    let is_even = spread(|amount| amount.objects) <= (each.objects / 5).max(1);
    Some(if is_even {
        Pattern::Constant { each, exact: rounds.iter().all(|amount| *amount == each) }
    } else {
        Pattern::Uneven { least, most }
    })
}

/// The name of a span: that of the boundary at its end.
pub fn span_name(boundaries: &[Boundary], span: usize) -> String {
    match boundaries.get(span) {
        None => "after".to_owned(),
        Some(boundary) if boundary.label.is_empty() => (boundary.number + 1).to_string(),
        Some(boundary) => boundary.label.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(objects: &[u64]) -> Vec<ObjectAmount> {
        objects.iter().map(|&objects| ObjectAmount { objects, bytes: objects * 10 }).collect()
    }

    fn judged(objects: &[u64]) -> Option<Pattern> {
        pattern(&amounts(objects))
    }

    #[test]
    fn constant_growth_is_distinguished_from_what_happens_once() {
        let each = ObjectAmount { objects: 5, bytes: 50 };
        assert_eq!(judged(&[9, 5, 5, 5, 0]), Some(Pattern::Constant { each, exact: true }));
        assert!(matches!(judged(&[0, 100, 101, 99, 0]), Some(Pattern::Constant { exact: false, .. })));
        assert_eq!(judged(&[50, 0, 0, 0, 0]), Some(Pattern::Once));
        assert_eq!(judged(&[0, 50, 0, 0, 0]), Some(Pattern::Once));
        assert_eq!(judged(&[0, 0, 0, 50, 0]), Some(Pattern::Latest));
        assert_eq!(judged(&[0, 0, 0, 0, 7]), Some(Pattern::Latest));
        assert_eq!(judged(&[0, 3, 0, 4, 0, 0]), Some(Pattern::Sometimes { iterations: 2, of: 4 }));
        assert!(matches!(judged(&[0, 3, 30, 60, 0]), Some(Pattern::Uneven { .. })));
    }

    #[test]
    fn one_iteration_tells_nothing() {
        assert_eq!(judged(&[5, 5]), None);
        assert_eq!(judged(&[]), None);
        assert!(judged(&[5, 5, 5]).is_some());
    }
}
