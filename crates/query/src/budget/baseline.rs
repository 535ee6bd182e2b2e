//! Limits that earlier runs of the same program give.

use super::judge::{
    BudgetSite, CheckedLimit, Figure, Judge, MOST_SITES, Outcome, ShownIn, SiteAmounts, Unknown, budget_site,
};
use super::limits::{BudgetPart, BudgetUnit, LimitKind, PartSpan, WHOLE_SHARE};
use super::suppressions::Suppressions;
use crate::error::QueryError;
use crate::filter::Filter;
use crate::grouping::RowAmount;
use crate::measure::Amount;
use crate::query::Query;
use highwater_model::diff::pair_rows;
use highwater_model::groups::GroupKey;
use highwater_model::{Catalog, Naming, Source, StackId, without_cargo_hash};
use highwater_store::history::Work;
use serde::Serialize;
use std::cmp::Reverse;
use std::str::FromStr;
use std::sync::Arc;

/// The figures that are compared: those that depend on what the program does, and not on when the kernel gives it pages.
const COMPARED: [LimitKind; 5] =
    [LimitKind::Peak, LimitKind::Leaked, LimitKind::LeakedBlocks, LimitKind::Allocated, LimitKind::Allocations];

/// By how much a figure may exceed those of earlier runs: by a share, or by a number of bytes or blocks, whichever is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// In hundredths of a percent.
    share: u64,
    bytes: u64,
    blocks: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { share: 500, bytes: 0, blocks: 0 }
    }
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "not an allowance: +5%, or +5%,64KiB,10: a share, at most +100%, bytes and blocks".to_owned();
        let (mut share, mut bytes, mut blocks) = (None, None, None);
        for part in text.split(',') {
            let part = part.strip_prefix('+').unwrap_or(part);
            let (known, kind) = match part {
                _ if part.ends_with('%') => (&mut share, LimitKind::Temporary),
                // A number without a unit counts blocks.
                _ if part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') => {
                    (&mut blocks, LimitKind::Allocations)
                }
                _ => (&mut bytes, LimitKind::Peak),
            };
            if known.replace(kind.parse(part).map_err(|_| wrong())?).is_some() {
                return Err(wrong());
            }
        }
        let share = share.ok_or_else(wrong)?;
        Ok(Self { share, bytes: bytes.unwrap_or_default(), blocks: blocks.unwrap_or_default() })
    }
}

impl Allowance {
    /// The most that is allowed where earlier runs had at most this.
    fn above(self, unit: BudgetUnit, most: u64) -> u64 {
        let share = u128::from(most) * u128::from(self.share) / u128::from(WHOLE_SHARE);
        let least = if unit == BudgetUnit::Bytes { self.bytes } else { self.blocks };
        most.saturating_add(u64::try_from(share).unwrap_or(u64::MAX).max(least))
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
    if without_cargo_hash(&baseline.program) != without_cargo_hash(&run.program) {
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

/// The figures of one process that are compared, with the sites that they consist of.
pub struct ProcessFigures {
    figures: Vec<(LimitKind, Result<ComparedFigure, String>)>,
    is_sampled: bool,
    catalog: Arc<Catalog>,
    naming: Naming,
}

struct ComparedFigure {
    value: u64,
    sites: SiteAmounts,
    shown: ShownIn,
}

impl ProcessFigures {
    /// Measures them, as far as filters select blocks.
    pub fn measure(
        query: &Query,
        filters: &[Filter],
        suppressions: &mut Suppressions,
        work: &Work<'_>,
    ) -> Result<Self, QueryError> {
        let whole = whole_run(filters);
        let mut judge = Judge::new(query, suppressions, work);
        let mut figures = Vec::new();
        for kind in COMPARED {
            let figure = match judge.figure(&whole, kind) {
                Ok(Figure { value, sites, shown, .. }) => Ok(ComparedFigure { value, sites, shown }),
                Err(Unknown::Error(QueryError::Cancelled)) => return Err(QueryError::Cancelled),
                Err(Unknown::Error(error)) => Err(error.to_string()),
                Err(Unknown::Absent(why)) => Err(why),
            };
            figures.push((kind, figure));
        }
        let catalog = Arc::clone(query.history.catalog());
        Ok(Self { figures, is_sampled: query.is_sampled(), catalog, naming: query.naming.clone() })
    }

    /// The peak, or why it is not known.
    pub fn peak(&self) -> Result<u64, &str> {
        self.of(LimitKind::Peak).map(|figure| figure.value)
    }

    fn of(&self, kind: LimitKind) -> Result<&ComparedFigure, &str> {
        let found = self.figures.iter().find(|(known, _)| *known == kind);
        found.map_or(Err("it is not compared"), |(_, figure)| figure.as_ref().map_err(String::as_str))
    }
}

fn whole_run(filters: &[Filter]) -> BudgetPart {
    BudgetPart { name: String::new(), filters: filters.to_vec(), span: PartSpan::Whole, limits: Vec::new() }
}

/// A figure of all processes of one name in one run.
struct RunFigure<'a> {
    value: u64,
    /// The process with the largest part of it: its position, and itself.
    largest: (usize, &'a ProcessFigures, &'a ComparedFigure),
}

/// The largest peak, and the sum of every other figure: how many processes there are at once, and how blocks are distributed among them, depends on the
/// machine; what all of them allocate and leave over does not.
fn of_run<'a>(processes: &'a [ProcessFigures], kind: LimitKind) -> Result<Option<RunFigure<'a>>, &'a str> {
    let mut all: Option<RunFigure<'a>> = None;
    for (position, process) in processes.iter().enumerate() {
        let figure = process.of(kind)?;
        let this = (position, process, figure);
        all = Some(match all {
            None => RunFigure { value: figure.value, largest: this },
            Some(all) => RunFigure {
                value: match kind {
                    LimitKind::Peak => all.value.max(figure.value),
                    _ => all.value.saturating_add(figure.value),
                },
                largest: if figure.value > all.largest.2.value { this } else { all.largest },
            },
        });
    }
    Ok(all)
}

/// A limit that earlier runs give to all processes of one name.
pub struct ComparedLimit {
    /// The process with the largest part of the figure: its position.
    pub process: usize,
    /// The answer.
    pub checked: CheckedLimit,
}

/// Compares the processes of one name in a run with those in each earlier run. All must be [`comparable`].
pub fn judge_against(
    processes: &[ProcessFigures],
    earlier: &[Vec<ProcessFigures>],
    filters: &[Filter],
    allowance: Allowance,
) -> Result<Vec<ComparedLimit>, QueryError> {
    let earlier: Vec<&[ProcessFigures]> = earlier.iter().map(Vec::as_slice).filter(|run| !run.is_empty()).collect();
    if processes.is_empty() || earlier.is_empty() {
        return Ok(Vec::new());
    }
    let words = [whole_run(filters).in_words(), "against earlier runs".to_owned()];
    let words = words.iter().filter(|words| !words.is_empty()).cloned().collect::<Vec<_>>().join(" ");
    COMPARED.into_iter().map(|kind| against(processes, &earlier, kind, &words, allowance)).collect()
}

fn against(
    processes: &[ProcessFigures],
    earlier: &[&[ProcessFigures]],
    kind: LimitKind,
    words: &str,
    allowance: Allowance,
) -> Result<ComparedLimit, QueryError> {
    let is_sampled = processes.iter().any(|process| process.is_sampled);
    let mut checked = CheckedLimit::not_measured(kind, words.to_owned(), 0, is_sampled);
    checked.processes = Some(processes.len()).filter(|count| *count > 1);
    let not_known = |checked, why: &str| {
        Ok(ComparedLimit { process: 0, checked: CheckedLimit { why: Some(why.to_owned()), ..checked } })
    };
    let own = match of_run(processes, kind) {
        Ok(Some(own)) => own,
        Ok(None) => return not_known(checked, "there is no process"),
        Err(why) => return not_known(checked, why),
    };
    let mut runs = Vec::new();
    for run in earlier {
        match of_run(run, kind) {
            Ok(figure) => runs.extend(figure),
            Err(why) => return not_known(checked, why),
        }
    }
    let values = || runs.iter().map(|run| run.value);
    let (Some(least), Some(most)) = (values().min(), values().max()) else {
        return not_known(checked, "there is no earlier run");
    };
    checked.allowed = allowance.above(kind.unit(), most);
    checked.baseline = Some(BaselineRange { least, most, runs: runs.len() });
    checked.figure = Some(own.value);
    checked.over = own.value.saturating_sub(checked.allowed);
    checked.outcome = if own.value > checked.allowed { Outcome::Broken } else { Outcome::Kept };
    let (position, process, figure) = own.largest;
    checked.shown = figure.shown.clone();
    if let (Outcome::Broken, Some(before)) = (checked.outcome, runs.iter().max_by_key(|run| run.value)) {
        let (_, before, amounts) = before.largest;
        checked.sites = grown((before, amounts), (process, figure), kind)?;
    }
    Ok(ComparedLimit { process: position, checked })
}

/// The sites that have most more in one process than in an earlier one.
fn grown(
    before: (&ProcessFigures, &ComparedFigure),
    after: (&ProcessFigures, &ComparedFigure),
    kind: LimitKind,
) -> Result<Vec<BudgetSite>, QueryError> {
    let row =
        |(stack, amount): &(StackId, Amount)| (GroupKey::Site(*stack), RowAmount { amount: *amount, figures: None });
    let sides = [before, after].map(|(process, figure)| {
        let rows: Vec<_> = figure.sites.iter().map(row).collect();
        (&*process.catalog, rows)
    });
    let value = |row: &RowAmount| if kind.unit() == BudgetUnit::Bytes { row.amount.value } else { row.amount.blocks };
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
    let process = after.0;
    Ok(grown.into_iter().map(|(more, stack)| budget_site(&process.naming, &process.catalog, stack, more)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_a_share_with_or_without_a_sign() {
        let share = |share| Allowance { share, bytes: 0, blocks: 0 };
        assert_eq!("+5%".parse(), Ok(share(500)));
        assert_eq!("0.5%".parse(), Ok(share(50)));
        for wrong in ["5", "-5%", "+-5%", "", "200%", "64KiB", "5%,6%", "5%,1KiB,2KiB", "5%,,1", "5%,x", "5%,1,2"] {
            assert!(wrong.parse::<Allowance>().is_err(), "{wrong}");
        }
        for unit in [BudgetUnit::Bytes, BudgetUnit::Blocks] {
            assert_eq!(share(500).above(unit, 1000), 1050);
            assert_eq!(share(500).above(unit, 19), 19, "parts of a byte are not allowed");
            assert_eq!(share(10_000).above(unit, u64::MAX), u64::MAX);
        }
    }

    #[test]
    fn an_allowance_may_have_a_floor_of_bytes_and_of_blocks() {
        let allowance: Allowance = "+5%,64KiB,10".parse().unwrap();
        assert_eq!(allowance, Allowance { share: 500, bytes: 64 << 10, blocks: 10 });
        assert_eq!("5%,+1_0,+64KiB".parse(), Ok(allowance));
        let above = |unit, most| allowance.above(unit, most);
        assert_eq!((above(BudgetUnit::Blocks, 0), above(BudgetUnit::Blocks, 19)), (10, 29));
        assert_eq!(above(BudgetUnit::Blocks, 1000), 1050, "the share is more");
        assert_eq!(above(BudgetUnit::Bytes, 100), 100 + (64 << 10));
        assert_eq!(above(BudgetUnit::Bytes, 100 << 20), 105 << 20);
    }

    #[test]
    fn another_program_and_another_rate_are_refused_with_the_reason() {
        let source =
            |program: &str, sample_rate| Source { program: program.to_owned(), sample_rate, ..Source::default() };
        assert_eq!(comparable(&source("app", None), &source("app", None)), Ok(()));
        let [one, other] = ["index-0123456789abcdef", "index-fedcba9876543210"];
        assert_eq!(comparable(&source(one, None), &source(other, None)), Ok(()), "cargo's hash is no part of a name");
        let why = comparable(&source("app", None), &source("tool", None)).unwrap_err();
        assert!(why.contains("'tool'") && why.contains("'app'"), "{why}");
        let why = comparable(&source("app", None), &source("app", Some(524_288))).unwrap_err();
        assert!(why.contains("512.0 KiB") && why.contains("every block"), "{why}");
    }
}
