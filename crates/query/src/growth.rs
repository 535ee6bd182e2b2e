//! Sites, threads, types, heaps or tasks, ranked by how steadily their surviving blocks grow.
//!
//! Blocks that are live at the window's end have their time of birth. Of a leak about as many bytes survive from each part of the window: its curve is a line.
//! Data that was built once and kept makes a curve that rises early and stays flat. Of data that is replaced all the time only the youngest survives, and the
//! curve rises at the end.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::grouping::owner_key;
use crate::lives::{blocks_of, deaths};
use crate::measure::{NO_BLOCKS, must_have_blocks};
use crate::names::{Search, details_of, is_found, key_text, own_frame_of, pool_of};
use crate::query::Query;
use crate::stacks::no_stacks;
use highwater_formats::json::{FrameAnswer, StackTableAnswer};
use highwater_model::groups::{GroupBy, GroupKey};
use highwater_model::{Accounts, ByteSum, Catalog, SiteTypes, StackId, TagId, ThreadId, grouped};
use highwater_store::Recording;
use highwater_store::history::{BlockLife, Moment, OwnedBlock, Work};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most points of all curves of one answer.
const MOST_CURVE_POINTS: usize = 1_000_000;

/// Which sites are wanted.
#[derive(Clone, Debug)]
pub struct GrowthOptions {
    /// What a row is: a site, or an owner of blocks. Others have no rows.
    pub by: GroupBy,
    /// The number of points of each curve, at least 2.
    pub points: usize,
    /// The most sites.
    pub limit: usize,
    /// The least steady growth comes first.
    pub is_ascending: bool,
    /// Only sites that contain this text.
    pub search: String,
}

/// A site, or an owner, whose blocks survive.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct GrowthSite {
    /// Its number, if it is a site; else its place among the owners.
    pub id: u32,
    /// Its name, for people.
    pub key: String,
    /// The frame that names it, if it is a site.
    pub frame: Option<FrameAnswer>,
    /// The pool that took the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub pool: Option<&'static str>,
    /// Where another site would look the same: what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub detail: Option<String>,
    /// The number of its stack.
    #[cfg_attr(test, ts(type = "Frame[]"))]
    pub stack: Option<u32>,
    /// Bytes that were allocated in the window and are live at its end.
    pub live_bytes: u64,
    /// Their blocks.
    pub live_blocks: u64,
    /// Of estimates: the samples that they are made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub samples: Option<u64>,
    /// The part of `live_bytes` that was already born at each point.
    pub curve: Vec<u64>,
    /// The same of `live_blocks`.
    pub blocks_curve: Vec<u64>,
    /// The slope of the line that fits the curve best; null where there are no times.
    pub growth_per_s: Option<f64>,
    /// The same where there are no times.
    pub growth_per_line: Option<f64>,
    /// How straight the curve is, from 0 to 1; lower if it rises at few points.
    pub steadiness: f64,
    /// Growth times steadiness, by which sites are ranked.
    pub score: f64,
    /// The birth of the oldest of these blocks.
    pub oldest_ns: u64,
}

/// Sites by steady growth.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Growth"))]
pub struct GrowthAnswer {
    /// The times of the points.
    pub t: Vec<u64>,
    /// How many sites there are, also those that are not in `sites`.
    pub count: usize,
    /// The sites, most growth first.
    pub sites: Vec<GrowthSite>,
    /// Their stacks.
    #[serde(flatten)]
    #[cfg_attr(test, ts(skip))]
    pub stacks: StackTableAnswer,
}

/// The rows by their numbers: stacks, or owners in the order in which they are met.
struct GrowthRows {
    by: GroupBy,
    owners: Vec<GroupKey>,
    /// By stack if stacks show the types, else by tag and thread.
    known: FxHashMap<(StackId, TagId, ThreadId), Option<u32>>,
    numbers: BTreeMap<GroupKey, u32>,
    site_types: Option<SiteTypes>,
}

impl GrowthRows {
    fn new(by: GroupBy, query: &Query) -> Self {
        let has_site_types = by == GroupBy::Type && query.has_site_types();
        let site_types = has_site_types.then(|| SiteTypes::new(query.history.catalog(), &query.naming));
        Self { by, owners: Vec::new(), known: FxHashMap::default(), numbers: BTreeMap::new(), site_types }
    }

    /// The row of a block; `None` for a block without a type, among types.
    fn of(&mut self, owned: &OwnedBlock, catalog: &Catalog) -> Option<u32> {
        if self.by == GroupBy::Site {
            return Some(owned.block.stack.0);
        }
        let owners = match self.site_types {
            Some(_) => (owned.block.stack, TagId::NONE, ThreadId(0)),
            None => (StackId::UNKNOWN, owned.block.tag, owned.thread),
        };
        if let Some(&row) = self.known.get(&owners) {
            return row;
        }
        let key = match (self.by, &mut self.site_types) {
            (_, Some(types)) => GroupKey::Name(types.of(catalog, owned.block.stack).name.clone()),
            (GroupBy::Thread, None) => GroupKey::Thread(owned.thread),
            (by, None) => owner_key(catalog, by, catalog.tag(owned.block.tag)),
        };
        let is_named = key != GroupKey::Name(String::new()) && (self.by != GroupBy::Task || catalog.has_tasks());
        let row = is_named.then(|| {
            *self.numbers.entry(key).or_insert_with_key(|key| {
                self.owners.push(key.clone());
                self.owners.len() as u32 - 1
            })
        });
        self.known.insert(owners, row);
        row
    }

    /// The subject of a row.
    fn key(&self, row: u32) -> GroupKey {
        self.owners.get(row as usize).cloned().unwrap_or(GroupKey::Site(StackId(row)))
    }
}

/// The surviving blocks of a site.
struct SiteSurvivors {
    rise: Rise,
    bytes: ByteSum,
    blocks: u64,
    samples: u64,
    oldest: u64,
}

/// How the memory of a site grows.
enum Rise {
    /// The survivors born at each point, after the previous point. Points without births are left out, so there are never more of these than blocks.
    Born(Vec<BornAtPoint>),
    /// What is live at each point: bytes and blocks.
    Levels(Vec<(ByteSum, u64)>),
}

/// The surviving blocks that were born at one point.
#[derive(Clone, Copy, Debug)]
struct BornAtPoint {
    point: u32,
    bytes: ByteSum,
    blocks: u64,
}

/// Score, growth, steadiness and number of a row, and its blocks.
type RankedSite = (f64, f64, f64, u32, SiteSurvivors);

/// Sites by how steadily their blocks grow in the window.
pub fn growth(query: &Query, options: &GrowthOptions, work: &Work<'_>) -> Result<GrowthAnswer, QueryError> {
    let GrowthOptions { limit, is_ascending, .. } = *options;
    let points = options.points.max(2);
    let search = Search::new(&options.search)?;
    let history = &query.history;
    let (catalog, naming) = (history.catalog(), &query.naming);
    let filter = CompiledFilter::new(&query.filters, catalog, naming);
    let mut rows = GrowthRows::new(options.by, query);
    let (times, sites) = match history.source().is_states() {
        true if options.by != GroupBy::Site => return Err(QueryError::failed(NO_BLOCKS)),
        true => of_states(query, &filter)?,
        false => of_blocks(query, &filter, points, &mut rows, work)?,
    };
    let points = times.len();
    let mut ranked: Vec<RankedSite> = sites
        .into_iter()
        .map(|(row, survivors)| {
            let (growth, steadiness) = trend(&times, &curve(&survivors, points, |born| born.bytes));
            (growth * steadiness, growth, steadiness, row, survivors)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (b.4.bytes, a.3).cmp(&(a.4.bytes, b.3))));
    ranked.retain(|(_, _, _, row, _)| is_found(naming, catalog, &rows.key(*row), &search));
    if is_ascending {
        ranked.reverse();
    }
    let count = ranked.len();
    ranked.truncate(limit);
    if ranked.len() * points > MOST_CURVE_POINTS {
        let most = grouped(MOST_CURVE_POINTS as u64);
        return Err(QueryError::TooLarge(format!(
            "the curves of {} sites have {points} points each, and the limit is {most} in all; ask for fewer points or sites",
            grouped(ranked.len() as u64)
        )));
    }
    let mut stacks = no_stacks([&**catalog]);
    if options.by == GroupBy::Site {
        ranked.iter().try_for_each(|(_, _, _, row, _)| stacks.add(0, StackId(*row)))?;
    }
    let is_untimed = history.source().is_untimed();
    let stack_of = |row: u32| (options.by == GroupBy::Site).then_some(StackId(row));
    let details = details_of(naming, ranked.iter().map(|(_, _, _, row, _)| Some((&**catalog, stack_of(*row)?))));
    let site = |((score, growth, steadiness, row, survivors), detail): (&RankedSite, Option<String>)| GrowthSite {
        id: *row,
        key: key_text(naming, catalog, &rows.key(*row)),
        frame: stack_of(*row).and_then(|stack| own_frame_of(naming, catalog, stack)),
        pool: stack_of(*row).and_then(|stack| pool_of(naming, catalog, stack)),
        detail,
        stack: stack_of(*row).and_then(|stack| stacks.number(0, stack)),
        live_bytes: survivors.bytes.rounded(),
        live_blocks: survivors.blocks,
        samples: (query.is_sampled() && survivors.samples > 0).then_some(survivors.samples),
        curve: curve(survivors, points, |born| born.bytes),
        blocks_curve: curve(survivors, points, |born| ByteSum::whole(born.blocks)),
        growth_per_s: (!is_untimed).then_some(*growth),
        growth_per_line: is_untimed.then_some(growth / 1e9),
        steadiness: *steadiness,
        score: *score,
        oldest_ns: survivors.oldest,
    };
    Ok(GrowthAnswer { t: times, count, sites: ranked.iter().zip(details).map(site).collect(), stacks: stacks.table() })
}

/// The sites of surviving blocks, and the times of the points.
fn of_blocks(
    query: &Query,
    filter: &CompiledFilter,
    points: usize,
    rows: &mut GrowthRows,
    work: &Work<'_>,
) -> Result<(Vec<u64>, FxHashMap<u32, SiteSurvivors>), QueryError> {
    let (history, window) = (&query.history, query.window);
    let last = history.snapshot(history.moment_at(window.to))?;
    if last.source.aggregated && last.source.snapshot {
        return Err(QueryError::failed("the file knows one instant only; a diff of two files shows what grew"));
    }
    must_have_blocks(&last)?;
    let length = u128::from(window.to.0 - window.from.0);
    let times: Vec<u64> =
        (0..points as u128).map(|at| window.from.0 + (length * at / (points as u128 - 1)) as u64).collect();

    let wanted: Vec<_> =
        blocks_of(&last).filter(|owned| window.has(owned.block.time) && filter.passes(owned)).collect();
    let deaths = match filter.needs_deaths() {
        true => deaths(history, last.at, &wanted, work)?,
        false => vec![None; wanted.len()],
    };
    let mut births: FxHashMap<(u32, u32), (ByteSum, u64)> = FxHashMap::default();
    let mut sites: FxHashMap<u32, SiteSurvivors> = FxHashMap::default();
    for (owned, death) in wanted.iter().zip(deaths) {
        let birth = owned.block.time;
        if !filter.passes_death(&BlockLife { birth, death }) {
            continue;
        }
        let Some(row) = rows.of(owned, history.catalog()) else { continue };
        let (bytes, blocks) = (owned.block.live_amount(), owned.block.live_blocks());
        let site = sites.entry(row).or_insert_with(|| SiteSurvivors {
            rise: Rise::Born(Vec::new()),
            bytes: ByteSum::ZERO,
            blocks: 0,
            samples: 0,
            oldest: u64::MAX,
        });
        let at = times.partition_point(|time| *time < birth.0).min(points - 1);
        let born = births.entry((row, at as u32)).or_default();
        born.0 += bytes;
        born.1 += blocks;
        site.bytes += bytes;
        site.blocks += blocks;
        site.samples = site.samples.saturating_add(owned.block.weight.samples());
        site.oldest = site.oldest.min(birth.0);
    }
    for ((row, point), (bytes, blocks)) in births {
        if let Some(Rise::Born(born)) = sites.get_mut(&row).map(|site| &mut site.rise) {
            born.push(BornAtPoint { point, bytes, blocks });
        }
    }
    for site in sites.values_mut() {
        if let Rise::Born(born) = &mut site.rise {
            born.sort_unstable_by_key(|born| born.point);
        }
    }
    Ok((times, sites))
}

/// The sites that hold something at the last state of the window, and the times of its states. A state without call stacks is left out.
fn of_states(query: &Query, filter: &CompiledFilter) -> Result<(Vec<u64>, FxHashMap<u32, SiteSurvivors>), QueryError> {
    if filter.needs_blocks() {
        return Err(QueryError::failed(NO_BLOCKS));
    }
    let (history, window) = (&query.history, query.window);
    let states = history.recording().map(Recording::states).unwrap_or_default();
    let mut times = Vec::new();
    let mut sites: FxHashMap<StackId, Vec<(ByteSum, u64)>> = FxHashMap::default();
    for (number, at) in (1..).zip(states).filter(|(_, at)| window.has(*at)) {
        let figures = history.figures(Moment::Event(number))?;
        let accounts = &figures.accounts;
        if lacks_stacks(accounts, history.catalog()) {
            continue;
        }
        for (stack, site) in accounts.sites().iter().filter(|(stack, _)| filter.passes_stack(*stack)) {
            let levels = sites.entry(stack).or_default();
            levels.resize(times.len(), (ByteSum::ZERO, 0));
            levels.push((site.live(), site.live_blocks()));
        }
        times.push(at.0);
    }
    if times.len() < 2 {
        return Err(QueryError::failed("the file knows the call stacks of fewer than two instants; growth needs more"));
    }
    let survivors = |(stack, mut levels): (StackId, Vec<(ByteSum, u64)>)| {
        levels.resize(times.len(), (ByteSum::ZERO, 0));
        let (bytes, blocks) = levels.last().copied().unwrap_or_default();
        let first = levels.iter().position(|level| level.0 > ByteSum::ZERO).unwrap_or(0);
        let site = SiteSurvivors { rise: Rise::Levels(levels), bytes, blocks, samples: 0, oldest: times[first] };
        (bytes > ByteSum::ZERO).then_some((stack.0, site))
    };
    let sites = sites.into_iter().filter_map(survivors).collect();
    Ok((times, sites))
}

/// True if memory belongs to the unknown stack, and all other sites are single frames: sums that have a name, such as the overhead of an allocator.
fn lacks_stacks(accounts: &Accounts, catalog: &Catalog) -> bool {
    let depth = |stack| catalog.stacks.frames_of(stack).take(2).count();
    let (mut is_unknown, mut deepest) = (false, 0);
    for (stack, _) in accounts.sites().iter().filter(|(_, site)| site.live_bytes() > 0) {
        is_unknown |= stack == StackId::UNKNOWN;
        deepest = deepest.max(depth(stack));
    }
    is_unknown && deepest < 2
}

/// The part of the survivors that was already born at each point.
fn curve(survivors: &SiteSurvivors, points: usize, figure: impl Fn(&BornAtPoint) -> ByteSum) -> Vec<u64> {
    let all = match &survivors.rise {
        Rise::Born(born) => born,
        Rise::Levels(levels) => {
            let level = |&(bytes, blocks): &(ByteSum, u64)| figure(&BornAtPoint { point: 0, bytes, blocks }).rounded();
            return levels.iter().map(level).collect();
        }
    };
    let mut sum = ByteSum::ZERO;
    let mut born = all.iter().peekable();
    let at = |point: u32| {
        while let Some(next) = born.next_if(|next| next.point <= point) {
            sum += figure(next);
        }
        sum.rounded()
    };
    (0..points as u32).map(at).collect()
}

/// The slope per second of the best-fitting line, and the steadiness of the curve: the part of its variation that the line explains, reduced if the curve
/// rises at few points, since a single step is no growth.
fn trend(times: &[u64], curve: &[u64]) -> (f64, f64) {
    let count = times.len() as f64;
    let seconds: Vec<f64> = times.iter().map(|time| (time - times[0]) as f64 / 1e9).collect();
    let mean = |sum: f64| sum / count;
    let mean_x = mean(seconds.iter().sum());
    let mean_y = mean(curve.iter().map(|bytes| *bytes as f64).sum());
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in seconds.iter().zip(curve) {
        let (x, y) = (x - mean_x, *y as f64 - mean_y);
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    if xx == 0.0 || yy == 0.0 || xy <= 0.0 {
        return (0.0, 0.0);
    }
    let rises = curve.windows(2).filter(|pair| pair[1] > pair[0]).count() as f64;
    let is_often = (rises * 4.0 / count).min(1.0);
    (xy / xx, (xy * xy / (xx * yy)).min(1.0) * is_often)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{AccountsState, FrameText};

    #[test]
    fn what_grows_steadily_is_told_from_what_was_built_once_and_what_is_replaced() {
        let times: Vec<u64> = (0..41).map(|at| at * 1_000_000_000).collect();
        let of = |bytes: fn(u64) -> u64| trend(&times, &(0..41).map(bytes).collect::<Vec<u64>>());
        let (growth, steadiness) = of(|at| at * 100);
        assert!((growth - 100.0).abs() < 1e-6 && steadiness > 0.999, "{growth} {steadiness}");
        let built_once = of(|at| if at > 1 { 4000 } else { 0 });
        let replaced = of(|at| if at > 38 { 4000 } else { 0 });
        assert!(built_once.1 < 0.1 && replaced.1 < 0.1, "{built_once:?} {replaced:?}");
        assert_eq!(of(|_| 7), (0.0, 0.0));
        assert_eq!(of(|at| 100 - at), (0.0, 0.0));
    }

    #[test]
    fn named_sums_beside_the_unknown_stack_are_no_stacks() {
        let mut catalog = Catalog::default();
        let frame = |function| FrameText { function, ..FrameText::default() };
        let sum = catalog.intern_stack(&[frame("[overhead]")]);
        let site = catalog.intern_stack(&[frame("parse"), frame("main")]);
        let lacks_stacks = |stacks: &[StackId]| {
            let mut state = AccountsState::default();
            stacks.iter().for_each(|stack| state.sites.at(*stack).allocated_bytes = 5);
            super::lacks_stacks(&Accounts::from_state(state), &catalog)
        };
        assert!(lacks_stacks(&[StackId::UNKNOWN]) && lacks_stacks(&[StackId::UNKNOWN, sum]));
        assert!(!lacks_stacks(&[StackId::UNKNOWN, sum, site]) && !lacks_stacks(&[sum]) && !lacks_stacks(&[]));
    }
}
