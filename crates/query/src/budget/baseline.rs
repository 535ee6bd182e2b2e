//! Limits that earlier runs of the same program give.

use super::judge::{CheckedLimit, Judge, MOST_SITES, Outcome, Unknown};
use super::limits::{BudgetPart, BudgetUnit, LimitKind, PartSpan, WHOLE_SHARE};
use super::suppressions::Suppressions;
use crate::error::QueryError;
use crate::filter::Filter;
use crate::grouping::RowAmount;
use crate::query::Query;
use highwater_model::diff::pair_rows;
use highwater_model::groups::GroupKey;
use highwater_model::{Source, StackId};
use highwater_store::history::Work;
use serde::Serialize;
use std::cmp::Reverse;
use std::str::FromStr;

/// The figures that are compared: those that depend on what the program does, and not on when the kernel gives it pages.
const COMPARED: [LimitKind; 5] =
    [LimitKind::Peak, LimitKind::Leaked, LimitKind::LeakedBlocks, LimitKind::Allocated, LimitKind::Allocations];

/// By how much a figure may exceed those of earlier runs, in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance(u64);

impl Default for Allowance {
    fn default() -> Self {
        Self(500)
    }
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = text.strip_prefix('+').unwrap_or(text);
        LimitKind::Temporary
            .parse(share)
            .map(Self)
            .map_err(|_| "not an allowance: +5%, +0.5%, at most +100%".to_owned())
    }
}

impl Allowance {
    /// The most that is allowed where earlier runs had at most this.
    fn above(self, most: u64) -> u64 {
        let more = u128::from(most) * u128::from(self.0) / u128::from(WHOLE_SHARE);
        most.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

/// The figures of earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BaselineRange {
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
    /// How many runs.
    pub runs: usize,
}

/// Fails if two recordings cannot be compared: the reason, in words.
pub fn comparable(run: &Source, baseline: &Source) -> Result<(), String> {
    let rate = |source: &Source| match source.sample_rate {
        None => "every block".to_owned(),
        Some(bytes) => format!("one sample for each {}", crate::units::bytes(bytes)),
    };
    if baseline.program != run.program {
        return Err(format!("it is of another program: '{}', and not '{}'", baseline.program, run.program));
    }
    if baseline.kind != run.kind || baseline.snapshot != run.snapshot {
        return Err("it was made by another tool or in another way, and has other figures".to_owned());
    }
    if baseline.sample_rate != run.sample_rate || baseline.word_sampling != run.word_sampling {
        return Err(format!("it has another sampling rate: {}, and not {}", rate(baseline), rate(run)));
    }
    Ok(())
}

/// Compares a run with earlier ones of the same program, as far as filters select their blocks. They must be [`comparable`].
pub fn judge_against(
    query: &Query,
    baselines: &[Query],
    filters: &[Filter],
    allowance: Allowance,
    suppressions: &mut Suppressions,
    work: &Work<'_>,
) -> Result<Vec<CheckedLimit>, QueryError> {
    if baselines.is_empty() {
        return Ok(Vec::new());
    }
    let whole =
        BudgetPart { name: String::new(), filters: filters.to_vec(), span: PartSpan::Whole, limits: Vec::new() };
    COMPARED.into_iter().map(|kind| against(query, baselines, &whole, kind, allowance, suppressions, work)).collect()
}

fn against(
    query: &Query,
    baselines: &[Query],
    part: &BudgetPart,
    kind: LimitKind,
    allowance: Allowance,
    suppressions: &mut Suppressions,
    work: &Work<'_>,
) -> Result<CheckedLimit, QueryError> {
    let words = [part.in_words(), "against earlier runs".to_owned()];
    let words: Vec<String> = words.into_iter().filter(|words| !words.is_empty()).collect();
    let mut checked = CheckedLimit::not_measured(kind, words.join(" "), 0, query.is_sampled());
    // What a suppression takes out of an earlier run does not make it used in this one.
    let mut of_earlier = suppressions.clone();
    let figure_of = |query: &Query, suppressions: &mut Suppressions| match Judge::new(query, suppressions, work)
        .figure(part, kind)
    {
        Ok(figure) => Ok(Ok(figure)),
        Err(Unknown::Error(QueryError::Cancelled)) => Err(QueryError::Cancelled),
        Err(Unknown::Error(error)) => Ok(Err(error.to_string())),
        Err(Unknown::Absent(why)) => Ok(Err(why)),
    };
    let own = match figure_of(query, suppressions)? {
        Ok(figure) => figure,
        Err(why) => return Ok(CheckedLimit { why: Some(why), ..checked }),
    };
    let mut range: Option<BaselineRange> = None;
    let mut largest = None;
    for baseline in baselines {
        let figure = match figure_of(baseline, &mut of_earlier)? {
            Ok(figure) => figure,
            Err(why) => return Ok(CheckedLimit { why: Some(why), ..checked }),
        };
        let value = figure.value;
        if range.is_none_or(|range| value > range.most) {
            largest = Some((baseline, figure.sites));
        }
        let known = range.unwrap_or(BaselineRange { least: value, most: value, runs: 0 });
        let (least, most) = (known.least.min(value), known.most.max(value));
        range = Some(BaselineRange { least, most, runs: known.runs + 1 });
    }
    let (Some(range), Some((baseline, before))) = (range, largest) else { return Ok(checked) };
    checked.allowed = allowance.above(range.most);
    checked.baseline = Some(range);
    checked.figure = Some(own.value);
    checked.over = own.value.saturating_sub(checked.allowed);
    checked.outcome = if own.value > checked.allowed { Outcome::Broken } else { Outcome::Kept };
    checked.shown = own.shown;
    if checked.outcome == Outcome::Broken {
        let row = |(stack, amount): (StackId, _)| (GroupKey::Site(stack), RowAmount { amount, figures: None });
        let sides = [
            (&**baseline.history.catalog(), before.into_iter().map(row).collect::<Vec<_>>()),
            (&**query.history.catalog(), own.sites.into_iter().map(row).collect()),
        ];
        let value =
            |row: &RowAmount| if kind.unit() == BudgetUnit::Bytes { row.amount.value } else { row.amount.blocks };
        let mut grown: Vec<(u64, StackId)> = Vec::new();
        for delta in pair_rows(sides)? {
            let [before, after] = delta.amounts();
            if let Some((GroupKey::Site(stack), _)) = &delta.after {
                grown.push((value(&after).saturating_sub(value(&before)), *stack));
            }
        }
        grown.retain(|(more, _)| *more > 0);
        grown.sort_unstable_by_key(|(more, stack)| (Reverse(*more), *stack));
        grown.truncate(MOST_SITES);
        let judge = Judge::new(query, suppressions, work);
        checked.sites = grown.into_iter().map(|(more, stack)| judge.site(stack, more)).collect();
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_a_share_with_or_without_a_sign() {
        assert_eq!("+5%".parse(), Ok(Allowance(500)));
        assert_eq!("0.5%".parse(), Ok(Allowance(50)));
        for wrong in ["5", "-5%", "+-5%", "", "200%"] {
            assert!(wrong.parse::<Allowance>().is_err(), "{wrong}");
        }
        assert_eq!(Allowance(500).above(1000), 1050);
        assert_eq!(Allowance(500).above(19), 19, "parts of a byte are not allowed");
        assert_eq!(Allowance(10_000).above(u64::MAX), u64::MAX);
    }

    #[test]
    fn another_program_and_another_rate_are_refused_with_the_reason() {
        let source =
            |program: &str, sample_rate| Source { program: program.to_owned(), sample_rate, ..Source::default() };
        assert_eq!(comparable(&source("app", None), &source("app", None)), Ok(()));
        let why = comparable(&source("app", None), &source("tool", None)).unwrap_err();
        assert!(why.contains("'tool'") && why.contains("'app'"), "{why}");
        let why = comparable(&source("app", None), &source("app", Some(524_288))).unwrap_err();
        assert!(why.contains("512.0 KiB") && why.contains("every block"), "{why}");
    }
}
