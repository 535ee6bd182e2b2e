//! `leaks`: sites, ranked by how steadily their surviving blocks grow.
//!
//! Blocks that are live at the window's end have their time of birth. Of a leak about as many bytes survive from each part of the window: its curve is a line.
//! Data that was built once and kept makes a curve that rises early and stays flat. Of data that is replaced all the time only the youngest survives, and the
//! curve rises at the end.

use super::names::{is_found, key_text, own_frame_of};
use super::stacks::{none_yet, put_table};
use super::{number, word};
use crate::choice::Choice;
use crate::http::request::Request;
use crate::lives::blocks_of;
use crate::measure::must_have_blocks;
use crate::problem::Problem;
use crate::sieve::{Life, Sieve};
use crate::work::Work;
use highwater_model::groups::GroupKey;
use highwater_model::{ByteSum, StackId, grouped};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// The most points of a curve.
const MOST_POINTS: u64 = 1000;
/// The most sites in one answer, and the default number.
const MOST_SITES: u64 = 10_000;
const SITES: u64 = 200;

/// The most points of all curves of one answer.
const MOST_CURVE_POINTS: usize = 1_000_000;

/// The surviving blocks of a site.
struct Survivors {
    /// The survivors born at each point, after the previous point. Points without births are left out, so there are never more of these than blocks.
    born: Vec<Born>,
    bytes: ByteSum,
    blocks: u64,
    oldest: u64,
}

/// The surviving blocks that were born at one point.
#[derive(Clone, Copy, Debug)]
struct Born {
    point: u32,
    bytes: ByteSum,
    blocks: u64,
}

/// The answer.
pub fn answer(request: &Request, choice: &Choice, work: &Work<'_>) -> Result<Value, Problem> {
    let points = number(request, "points", 40, MOST_POINTS)?.max(2) as usize;
    let limit = number(request, "limit", SITES, MOST_SITES)? as usize;
    let is_ascending = word(request, "order", &[("desc", false), ("asc", true)])?;
    let search = request.parameter("search").unwrap_or_default().to_lowercase();
    let window = choice.window;
    let loaded = &choice.loaded;
    let catalog = loaded.catalog();
    let last = loaded.snapshot(loaded.moment_at(window.to))?;
    must_have_blocks(&last)?;
    let sieve = Sieve::new(&choice.filters, catalog);
    let length = u128::from(window.to.0 - window.from.0);
    let times: Vec<u64> =
        (0..points as u128).map(|at| window.from.0 + (length * at / (points as u128 - 1)) as u64).collect();

    let wanted: Vec<_> = blocks_of(&last).filter(|owned| window.has(owned.block.time) && sieve.passes(owned)).collect();
    let deaths = match sieve.needs_deaths() {
        true => crate::lives::deaths(loaded, last.at, &wanted, work)?,
        false => vec![None; wanted.len()],
    };
    let mut births: FxHashMap<(StackId, u32), (ByteSum, u64)> = FxHashMap::default();
    let mut sites: FxHashMap<StackId, Survivors> = FxHashMap::default();
    for (owned, death) in wanted.iter().zip(deaths) {
        let birth = owned.block.time;
        if !sieve.passes_death(&Life { birth, death }) {
            continue;
        }
        let (bytes, blocks) = (owned.block.live_amount(), owned.block.live_blocks());
        let site = sites.entry(owned.block.stack).or_insert_with(|| Survivors {
            born: Vec::new(),
            bytes: ByteSum::ZERO,
            blocks: 0,
            oldest: u64::MAX,
        });
        let at = times.partition_point(|time| *time < birth.0).min(points - 1);
        let born = births.entry((owned.block.stack, at as u32)).or_default();
        born.0 += bytes;
        born.1 += blocks;
        site.bytes += bytes;
        site.blocks += blocks;
        site.oldest = site.oldest.min(birth.0);
    }
    for ((stack, point), (bytes, blocks)) in births {
        if let Some(site) = sites.get_mut(&stack) {
            site.born.push(Born { point, bytes, blocks });
        }
    }
    sites.values_mut().for_each(|site| site.born.sort_unstable_by_key(|born| born.point));
    let mut ranked: Vec<(f64, f64, f64, StackId, Survivors)> = sites
        .into_iter()
        .map(|(stack, survivors)| {
            let (growth, steadiness) = trend(&times, &curve(&survivors, points, |born| born.bytes));
            (growth * steadiness, growth, steadiness, stack, survivors)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (b.4.bytes, a.3).cmp(&(a.4.bytes, b.3))));
    if !search.is_empty() {
        ranked.retain(|(_, _, _, stack, _)| is_found(catalog, &GroupKey::Site(*stack), &search));
    }
    if is_ascending {
        ranked.reverse();
    }
    let count = ranked.len();
    ranked.truncate(limit);
    if ranked.len() * points > MOST_CURVE_POINTS {
        let most = grouped(MOST_CURVE_POINTS as u64);
        return Err(Problem::TooLarge(format!(
            "the curves of {} sites have {points} points each, and the limit is {most} in all; ask for fewer points or sites",
            grouped(ranked.len() as u64)
        )));
    }
    let mut stacks = none_yet([&**catalog]);
    ranked.iter().try_for_each(|(_, _, _, stack, _)| stacks.add(0, *stack))?;
    let is_untimed = loaded.source().untimed;
    let site = |(score, growth, steadiness, stack, survivors): &(f64, f64, f64, StackId, Survivors)| {
        json!({
            "id": stack.0,
            "key": key_text(catalog, &GroupKey::Site(*stack)),
            "frame": own_frame_of(catalog, *stack),
            "stack": stacks.number(0, *stack),
            "live_bytes": survivors.bytes.rounded(),
            "live_blocks": survivors.blocks,
            "curve": curve(survivors, points, |born| born.bytes),
            "blocks_curve": curve(survivors, points, |born| ByteSum::whole(born.blocks)),
            "growth_per_s": (!is_untimed).then_some(growth),
            "growth_per_line": is_untimed.then_some(growth / 1e9),
            "steadiness": steadiness,
            "score": score,
            "oldest_ns": survivors.oldest,
        })
    };
    let mut answer = json!({ "t": times, "count": count, "sites": ranked.iter().map(site).collect::<Value>() });
    put_table(&mut answer, &stacks);
    Ok(answer)
}

/// The part of the survivors that was already born at each point.
fn curve(survivors: &Survivors, points: usize, figure: impl Fn(&Born) -> ByteSum) -> Vec<u64> {
    let mut sum = ByteSum::ZERO;
    let mut born = survivors.born.iter().peekable();
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
}
