//! Measures limits: by how much each is broken, and which sites did it.

use super::baseline::BaselineRange;
use super::limits::{BudgetPart, BudgetUnit, LimitKind, PartSpan, WHOLE_SHARE};
use super::suppressions::{SuppressedStacks, Suppressions};
use crate::error::QueryError;
use crate::filter::Filter;
use crate::grouping::sites;
use crate::measure::{Amount, Measured, measure};
use crate::names::{key_text, own_frame_of};
use crate::peak::peak;
use crate::query::{Query, time_of};
use highwater_formats::json::FrameAnswer;
use highwater_model::groups::{GroupKey, Metric};
use highwater_model::{Catalog, NamedInstant, Naming, Nanos, StackId, When, Window, gauge};
use highwater_store::history::{Moment, Work};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The most sites that are named for a limit.
pub(super) const MOST_SITES: usize = 3;
/// More measures of one name would each cost a replay.
const MOST_SPANS: usize = 10_000;
/// What `highwater_measure_begin` and `highwater_measure_end` add to a name.
const BEGINS: &str = ":begin";
const ENDS: &str = ":end";

/// Whether a limit is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The figure is within the limit.
    Kept,
    /// It is not.
    Broken,
    /// The figure is not known.
    NotKnown,
}

/// A site that a figure consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BudgetSite {
    /// Its number.
    pub id: u32,
    /// Its name, for people.
    pub key: String,
    /// The frame that names it.
    pub frame: Option<FrameAnswer>,
    /// Its part of the figure, in the unit of the limit; of shares, temporary allocations.
    pub figure: u64,
}

/// Where a figure is seen: what `highwater view` is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShownIn {
    /// The window's first instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The filters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
}

/// A limit, measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedLimit {
    /// What is limited.
    pub limit: LimitKind,
    /// The part that the limit is on; empty for the whole run.
    pub part: String,
    /// What the figures are counted in.
    pub unit: BudgetUnit,
    /// The most that is allowed.
    pub allowed: u64,
    /// The figure; null if it is not known. Averages and shares are rounded up.
    pub figure: Option<u64>,
    /// By how much it is too large.
    pub over: u64,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// Why the figure is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// True if that is because the process never came to the part, or ended before its resident memory was read.
    #[serde(skip)]
    pub is_absent: bool,
    /// True if the figure is an estimate, made of samples.
    pub estimated: bool,
    /// The figures of earlier runs from which the limit was derived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineRange>,
    /// Of how many measures or iterations this is the largest or the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spans: Option<usize>,
    /// Of how many processes of one name this is the largest or the sum, if there are several: figures are compared with earlier runs so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<usize>,
    /// The largest sites of the figure.
    pub sites: Vec<BudgetSite>,
    /// Where it is seen.
    pub shown: ShownIn,
}

impl CheckedLimit {
    /// A limit before its figure is known.
    pub(super) fn not_measured(kind: LimitKind, part: String, allowed: u64, estimated: bool) -> Self {
        Self {
            limit: kind,
            part,
            unit: kind.unit(),
            allowed,
            figure: None,
            over: 0,
            outcome: Outcome::NotKnown,
            why: None,
            is_absent: false,
            estimated,
            baseline: None,
            spans: None,
            processes: None,
            sites: Vec::new(),
            shown: ShownIn::default(),
        }
    }
}

/// The amount of each site.
pub(super) type SiteAmounts = Vec<(StackId, Amount)>;

/// A measured figure.
pub(super) struct Figure {
    pub value: u64,
    /// Whether it is larger than a limit.
    pub exceeds: Box<dyn Fn(u64) -> bool>,
    pub sites: SiteAmounts,
    pub shown: ShownIn,
    pub spans: Option<usize>,
}

impl Figure {
    fn exact(value: u64, sites: SiteAmounts, shown: ShownIn) -> Self {
        Self { value, exceeds: Box::new(move |limit| value > limit), sites, shown, spans: None }
    }
}

/// Why a figure is not known.
pub(super) enum Unknown {
    /// The process never came to that part.
    Absent(String),
    /// Anything else.
    Error(QueryError),
}

impl<E: Into<QueryError>> From<E> for Unknown {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// A part of the time, with events at its ends where they are known.
struct Span {
    window: Window,
    first: Moment,
    last: Moment,
    is_whole: bool,
    /// True if memory from before does not count.
    is_measure: bool,
    from: Option<String>,
    to: Option<String>,
}

/// Measures the limits of some parts: for each part, its limits.
pub fn judge(
    query: &Query,
    parts: &[BudgetPart],
    suppressions: &mut Suppressions,
    work: &Work<'_>,
) -> Result<Vec<Vec<CheckedLimit>>, QueryError> {
    let mut judge = Judge::new(query, suppressions, work);
    let check = |part: &BudgetPart| -> Result<Vec<CheckedLimit>, QueryError> {
        part.limits.iter().map(|&(kind, limit)| judge.check(part, kind, limit)).collect()
    };
    parts.iter().map(check).collect()
}

/// Measures figures of one process.
pub(super) struct Judge<'a, 'w> {
    query: &'a Query,
    suppressions: &'a mut Suppressions,
    suppressed: SuppressedStacks,
    work: &'a Work<'w>,
}

impl<'a, 'w> Judge<'a, 'w> {
    pub fn new(query: &'a Query, suppressions: &'a mut Suppressions, work: &'a Work<'w>) -> Self {
        let suppressed = suppressions.by_stack(query.history.catalog(), &query.naming);
        Self { query, suppressions, suppressed, work }
    }

    fn check(&mut self, part: &BudgetPart, kind: LimitKind, limit: u64) -> Result<CheckedLimit, QueryError> {
        let estimated = kind != LimitKind::Rss && self.query.is_sampled();
        let mut checked = CheckedLimit::not_measured(kind, part.in_words(), limit, estimated);
        match self.figure(part, kind) {
            Ok(figure) => {
                let is_broken = (figure.exceeds)(limit);
                checked.figure = Some(figure.value);
                checked.over = figure.value.saturating_sub(limit);
                checked.outcome = if is_broken { Outcome::Broken } else { Outcome::Kept };
                checked.spans = figure.spans;
                checked.sites = self.largest(kind, figure.sites);
                checked.shown = figure.shown;
            }
            Err(Unknown::Error(QueryError::Cancelled)) => return Err(QueryError::Cancelled),
            Err(Unknown::Error(error)) => checked.why = Some(error.to_string()),
            Err(Unknown::Absent(why)) => (checked.why, checked.is_absent) = (Some(why), true),
        }
        Ok(checked)
    }

    /// The largest sites of a figure.
    pub fn largest(&self, kind: LimitKind, mut amounts: SiteAmounts) -> Vec<BudgetSite> {
        let value = |amount: &Amount| if kind.unit() == BudgetUnit::Bytes { amount.value } else { amount.blocks };
        amounts.retain(|(_, amount)| value(amount) > 0);
        amounts.sort_unstable_by_key(|(stack, amount)| (Reverse(value(amount)), *stack));
        amounts.truncate(MOST_SITES);
        amounts.iter().map(|(stack, amount)| self.site(*stack, value(amount))).collect()
    }

    fn site(&self, stack: StackId, figure: u64) -> BudgetSite {
        budget_site(&self.query.naming, self.query.history.catalog(), stack, figure)
    }

    /// Measures what a limit of this kind is on.
    pub fn figure(&mut self, part: &BudgetPart, kind: LimitKind) -> Result<Figure, Unknown> {
        if let PartSpan::Each { mark, skip } = &part.span {
            return self.growth(part, kind, mark, *skip);
        }
        let spans = self.spans(&part.span)?;
        let count = matches!(part.span, PartSpan::Measure(_)).then_some(spans.len());
        let mut largest: Option<Figure> = None;
        for span in &spans {
            let figure = self.figure_of(part, kind, span)?;
            if largest.as_ref().is_none_or(|largest| figure.value > largest.value) {
                largest = Some(figure);
            }
        }
        let figure = largest.ok_or_else(|| Unknown::Absent("the part is empty".to_owned()))?;
        Ok(Figure { spans: count, ..figure })
    }

    fn figure_of(&mut self, part: &BudgetPart, kind: LimitKind, span: &Span) -> Result<Figure, Unknown> {
        match kind {
            LimitKind::Peak => self.peak(part, span),
            LimitKind::Leaked | LimitKind::LeakedBlocks => self.leaked(part, kind, span),
            LimitKind::Allocated => self.counted(part, span, Metric::Allocated),
            LimitKind::Allocations => self.counted(part, span, Metric::Allocations),
            LimitKind::Temporary => self.temporary(part, span),
            LimitKind::Rss => self.rss(span),
            LimitKind::Growth | LimitKind::GrowthBlocks => {
                Err(QueryError::bad("growth is by iteration, and no mark of the iterations is named").into())
            }
        }
    }

    /// What is live at an instant.
    fn live(&self, at: Moment, filters: &[Filter]) -> Result<std::sync::Arc<Measured>, QueryError> {
        let query = Query { at, filters: filters.to_vec(), metric: Metric::Live, ..self.query.clone() };
        measure(&query, false, self.work)
    }

    fn shown(&self, part: &BudgetPart, span: &Span, at: Option<String>) -> ShownIn {
        let filters = part.filters.iter().map(ToString::to_string).collect();
        ShownIn { from: span.from.clone(), to: span.to.clone(), at, filters }
    }

    fn peak(&self, part: &BudgetPart, span: &Span) -> Result<Figure, Unknown> {
        let history = &self.query.history;
        let query =
            Query { window: span.window, filters: part.filters.clone(), metric: Metric::Peak, ..self.query.clone() };
        query.must_have_metric()?;
        let (bytes, moment, at) = match history.recording() {
            Some(recording) if part.filters.is_empty() => {
                let highest = history.peak(recording, span.window)?;
                (highest.bytes, Moment::Event(highest.event), highest.at)
            }
            Some(_) => {
                let highest = peak(&query, self.work)?.filtered;
                let highest = highest.ok_or_else(|| {
                    QueryError::TooLarge("the peak of these blocks would need too many changes to be sorted".to_owned())
                })?;
                (highest.bytes, history.moment_at(Nanos(highest.at_ns)), Nanos(highest.at_ns))
            }
            None => return Err(QueryError::failed("a snapshot knows one instant only; it has no peak").into()),
        };
        let live = self.live(moment, &part.filters)?;
        let at = if span.is_whole && part.filters.is_empty() { "peak".to_owned() } else { exact(at) };
        let shown = self.shown(part, span, Some(at));
        if !span.is_measure {
            return Ok(Figure::exact(bytes, of_sites(&live), shown));
        }
        let before = self.live(span.first, &part.filters)?;
        let added = difference(&of_sites(&live), &of_sites(&before));
        Ok(Figure::exact(bytes.saturating_sub(before.total.value), added, shown))
    }

    /// What is left over at the end of a span, without what suppressions take out.
    fn leaked(&mut self, part: &BudgetPart, kind: LimitKind, span: &Span) -> Result<Figure, Unknown> {
        let mut filters = part.filters.clone();
        if !span.is_whole {
            filters.push(format!("allocated:{}..{}", span.window.from.0, span.window.to.0).parse()?);
        }
        let live = self.live(span.last, &filters)?;
        let kept = self.unsuppressed(&of_sites(&live));
        let mut total = Amount::default();
        kept.iter().for_each(|(_, amount)| total.add(*amount));
        let value = if kind == LimitKind::Leaked { total.value } else { total.blocks };
        let at = span.to.clone().unwrap_or_else(|| When::End.to_string());
        let mut shown = self.shown(part, span, Some(at));
        shown.filters = filters.iter().map(ToString::to_string).collect();
        Ok(Figure::exact(value, kept, shown))
    }

    fn unsuppressed(&mut self, amounts: &[(StackId, Amount)]) -> SiteAmounts {
        let (mut kept, mut taken) = (Vec::new(), BTreeMap::<u16, Amount>::new());
        for (stack, amount) in amounts {
            match self.suppressed.of(*stack) {
                Some(number) => taken.entry(number).or_default().add(*amount),
                None => kept.push((*stack, *amount)),
            }
        }
        taken.into_iter().for_each(|(number, amount)| self.suppressions.took(number, amount));
        kept
    }

    fn measured(&self, part: &BudgetPart, span: &Span, metric: Metric) -> Result<std::sync::Arc<Measured>, QueryError> {
        let query = Query { window: span.window, filters: part.filters.clone(), metric, ..self.query.clone() };
        query.must_have_metric()?;
        measure(&query, false, self.work)
    }

    fn counted(&self, part: &BudgetPart, span: &Span, metric: Metric) -> Result<Figure, Unknown> {
        let measured = self.measured(part, span, metric)?;
        Ok(Figure::exact(measured.total.value, of_sites(&measured), self.shown(part, span, None)))
    }

    fn temporary(&self, part: &BudgetPart, span: &Span) -> Result<Figure, Unknown> {
        let temporary = self.measured(part, span, Metric::Temporary)?;
        let all = self.measured(part, span, Metric::Allocations)?.total.blocks;
        let part_of_all = u128::from(temporary.total.blocks) * u128::from(WHOLE_SHARE);
        let value = part_of_all.div_ceil(u128::from(all.max(1))) as u64;
        Ok(Figure {
            value,
            exceeds: Box::new(move |limit| part_of_all > u128::from(limit) * u128::from(all)),
            sites: of_sites(&temporary),
            shown: self.shown(part, span, None),
            spans: None,
        })
    }

    fn rss(&self, span: &Span) -> Result<Figure, Unknown> {
        let history = &self.query.history;
        let readings = history.gauges()?.iter().filter(|reading| reading.name == gauge::RSS);
        let of_gauges = readings.filter(|reading| span.window.has(reading.time)).map(|one| (one.value, one.time));
        // The kernel keeps the highest RSS of the whole run, which readings may miss.
        let breakdowns = history.breakdowns()?.iter().filter(|_| span.is_whole);
        let of_kernel = breakdowns.map(|one| (one.process.rss_peak.max(one.process.rss), one.at));
        let highest = of_gauges.chain(of_kernel).max_by_key(|(bytes, at)| (*bytes, Reverse(*at)));
        let (bytes, at) = highest.ok_or_else(|| {
            Unknown::Absent(
                "its resident memory was not read: 'highwater record' reads it unless '--rss-every off' is given, and not of processes that end at once"
                    .to_owned(),
            )
        })?;
        let live = self.live(history.moment_at(at), &[])?;
        let at = if span.is_whole { When::RssPeak.to_string() } else { exact(at) };
        let shown = ShownIn { from: span.from.clone(), to: span.to.clone(), at: Some(at), filters: Vec::new() };
        Ok(Figure::exact(bytes, of_sites(&live), shown))
    }

    /// The growth from one mark of a name to the next, on average, without the first ones.
    fn growth(&mut self, part: &BudgetPart, kind: LimitKind, mark: &str, skip: u64) -> Result<Figure, Unknown> {
        let marks: Vec<NamedInstant> = self.marks(mark)?;
        if marks.is_empty() {
            return Err(Unknown::Absent(format!("no mark is named '{mark}'")));
        }
        let iterations = (marks.len() as u64 - 1).saturating_sub(skip);
        let (Some(first), Some(last)) = (marks.get(skip as usize), marks.last()) else {
            return Err(too_few(mark, marks.len(), skip).into());
        };
        if iterations == 0 {
            return Err(too_few(mark, marks.len(), skip).into());
        }
        let before = of_sites(&*self.live(Moment::Event(first.event), &part.filters)?);
        let after = of_sites(&*self.live(Moment::Event(last.event), &part.filters)?);
        let (before, after) = (self.unsuppressed(&before), self.unsuppressed(&after));
        let sum = |amounts: &SiteAmounts| {
            let mut total = Amount::default();
            amounts.iter().for_each(|(_, amount)| total.add(*amount));
            if kind == LimitKind::Growth { total.value } else { total.blocks }
        };
        let grown = sum(&after).saturating_sub(sum(&before));
        let shown = ShownIn {
            from: Some(exact(first.time)),
            to: Some(exact(last.time)),
            at: Some(exact(last.time)),
            filters: part.filters.iter().map(ToString::to_string).collect(),
        };
        let per_iteration = |amount: Amount| {
            let mut amount = amount;
            (amount.value, amount.blocks) = (amount.value.div_ceil(iterations), amount.blocks.div_ceil(iterations));
            amount
        };
        let sites = difference(&after, &before);
        Ok(Figure {
            value: grown.div_ceil(iterations),
            exceeds: Box::new(move |limit| u128::from(grown) > u128::from(limit) * u128::from(iterations)),
            sites: sites.into_iter().map(|(stack, amount)| (stack, per_iteration(amount))).collect(),
            shown,
            spans: Some(iterations as usize),
        })
    }

    fn marks(&self, name: &str) -> Result<Vec<NamedInstant>, QueryError> {
        Ok(self.query.history.marks()?.iter().filter(|mark| mark.name == name).cloned().collect())
    }

    /// The parts of the time that a part of a budget means.
    fn spans(&self, span: &PartSpan) -> Result<Vec<Span>, Unknown> {
        let history = &self.query.history;
        let whole = history.whole();
        let window = |window, is_whole, from, to| Span {
            window,
            first: history.moment_before(window.from),
            last: history.moment_at(window.to),
            is_whole,
            is_measure: false,
            from,
            to,
        };
        match span {
            PartSpan::Whole | PartSpan::Each { .. } => Ok(vec![window(whole, true, None, None)]),
            PartSpan::Window { from, to } => {
                for when in from.iter().chain(to) {
                    self.must_have_mark(when)?;
                }
                let time =
                    |when: &Option<When>, missing| when.as_ref().map_or(Ok(missing), |when| time_of(history, when));
                let times = Window { from: time(from, whole.from)?, to: time(to, whole.to)? };
                if times.to < times.from {
                    let [from, to] = [from, to].map(|when| when.as_ref().map(ToString::to_string).unwrap_or_default());
                    return Err(QueryError::bad(format!("'{to}' is before '{from}'")).into());
                }
                let text = |when: &Option<When>| when.as_ref().map(ToString::to_string);
                Ok(vec![window(times, false, text(from), text(to))])
            }
            PartSpan::Measure(name) => self.measures(name),
        }
    }

    fn must_have_mark(&self, when: &When) -> Result<(), Unknown> {
        match when {
            When::Mark(name) if self.marks(name)?.is_empty() => {
                Err(Unknown::Absent(format!("no mark is named '{name}'")))
            }
            _ => Ok(()),
        }
    }

    /// The times between the beginnings and the ends of a measure. One that begins inside another of its name, on another thread or in a recursion, is a part
    /// of that.
    fn measures(&self, name: &str) -> Result<Vec<Span>, Unknown> {
        let (begins, ends) = (format!("{name}{BEGINS}"), format!("{name}{ENDS}"));
        let mut spans = Vec::new();
        let mut open: Option<(usize, &NamedInstant)> = None;
        for mark in self.query.history.marks()? {
            open = match open {
                None if mark.name == begins => Some((1, mark)),
                Some((depth, first)) if mark.name == begins => Some((depth + 1, first)),
                Some((1, first)) if mark.name == ends => {
                    if spans.len() == MOST_SPANS {
                        let line = format!("the measure '{name}' is made more than {MOST_SPANS} times");
                        return Err(QueryError::TooLarge(line).into());
                    }
                    spans.push(Span {
                        window: Window { from: first.time, to: mark.time },
                        first: Moment::Event(first.event),
                        last: Moment::Event(mark.event),
                        is_whole: false,
                        is_measure: true,
                        from: Some(exact(first.time)),
                        to: Some(exact(mark.time)),
                    });
                    None
                }
                Some((depth, first)) if mark.name == ends => Some((depth - 1, first)),
                other => other,
            };
        }
        match (spans.is_empty(), open) {
            (_, Some(_)) => Err(QueryError::failed(format!("the measure '{name}' begins and does not end")).into()),
            (true, None) => Err(Unknown::Absent(format!(
                "nothing is measured as '{name}': highwater_measure_begin(\"{name}\") begins it"
            ))),
            (false, None) => Ok(spans),
        }
    }
}

fn too_few(mark: &str, marks: usize, skip: u64) -> QueryError {
    QueryError::failed(format!(
        "the mark '{mark}' is set {marks} times, which is too few: {skip} iterations warm up, and at least one must follow"
    ))
}

/// A site, with its part of a figure.
pub(super) fn budget_site(naming: &Naming, catalog: &Catalog, stack: StackId, figure: u64) -> BudgetSite {
    BudgetSite {
        id: stack.0,
        key: key_text(naming, catalog, &GroupKey::Site(stack)),
        frame: own_frame_of(naming, catalog, stack),
        figure,
    }
}

/// An instant that reads back as exactly this time.
fn exact(time: Nanos) -> String {
    format!("{}ns", time.0)
}

fn of_sites(measured: &Measured) -> SiteAmounts {
    sites(measured).map(|(stack, row)| (stack, row.amount)).collect()
}

/// By how much sites hold more than before; those that do not are left out.
fn difference(after: &[(StackId, Amount)], before: &[(StackId, Amount)]) -> SiteAmounts {
    let before: FxHashMap<StackId, Amount> = before.iter().copied().collect();
    let grown = |(stack, amount): &(StackId, Amount)| {
        let earlier = before.get(stack).copied().unwrap_or_default();
        let mut more = *amount;
        more.value = amount.value.saturating_sub(earlier.value);
        more.blocks = amount.blocks.saturating_sub(earlier.blocks);
        (*stack, more)
    };
    after.iter().map(grown).filter(|(_, more)| more.value > 0 || more.blocks > 0).collect()
}
