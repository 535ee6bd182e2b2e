//! `leaks`: sites by how steadily what survives of them grows.
//!
//! What is live at the window's end tells when it was born. Of a leak about as much survives from each part of the window: its curve is a line.
//! What was built once and kept rises early and stays flat; of what is replaced all the time only the youngest survives, and the curve rises at the end.

use super::names::{frame_and_stack, is_found, key_text};
use super::{number, word};
use crate::choice::Choice;
use crate::http::request::Request;
use crate::lives::blocks_of;
use crate::measure::must_have_blocks;
use crate::problem::Problem;
use crate::sieve::{Life, Sieve};
use crate::work::Work;
use highwater_model::groups::GroupKey;
use highwater_model::{ByteSum, StackId};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// The most points of a curve.
const MOST_POINTS: u64 = 1000;
/// The most sites in one answer, and how many there are if nothing is said.
const MOST_SITES: u64 = 10_000;
const SITES: u64 = 200;

/// What survives of a site.
struct Survivors {
    /// Bytes and blocks that were born at each point, after the one before it.
    born: Vec<(ByteSum, u64)>,
    bytes: ByteSum,
    blocks: u64,
    oldest: u64,
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
    let mut sites: FxHashMap<StackId, Survivors> = FxHashMap::default();
    for (owned, death) in wanted.iter().zip(deaths) {
        let birth = owned.block.time;
        if !sieve.passes_death(&Life { birth, death }) {
            continue;
        }
        let (bytes, blocks) = (owned.block.live_amount(), owned.block.live_blocks());
        let site = sites.entry(owned.block.stack).or_insert_with(|| Survivors {
            born: vec![(ByteSum::ZERO, 0); points],
            bytes: ByteSum::ZERO,
            blocks: 0,
            oldest: u64::MAX,
        });
        let at = times.partition_point(|time| *time < birth.0).min(points - 1);
        site.born[at].0 += bytes;
        site.born[at].1 += blocks;
        site.bytes += bytes;
        site.blocks += blocks;
        site.oldest = site.oldest.min(birth.0);
    }
    let mut ranked: Vec<(f64, f64, f64, StackId, Survivors)> = sites
        .into_iter()
        .map(|(stack, survivors)| {
            let (growth, steadiness) = trend(&times, &curve(&survivors, |born| born.0));
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
    let is_untimed = loaded.source().untimed;
    let site = |(score, growth, steadiness, stack, survivors): &(f64, f64, f64, StackId, Survivors)| {
        let (frame, frames) = frame_and_stack(catalog, *stack);
        json!({
            "id": stack.0,
            "key": key_text(catalog, &GroupKey::Site(*stack)),
            "frame": frame,
            "stack": frames,
            "live_bytes": survivors.bytes.rounded(),
            "live_blocks": survivors.blocks,
            "curve": curve(survivors, |born| born.0),
            "blocks_curve": curve(survivors, |born| ByteSum::whole(born.1)),
            "growth_per_s": (!is_untimed).then_some(growth),
            "growth_per_line": is_untimed.then_some(growth / 1e9),
            "steadiness": steadiness,
            "score": score,
            "oldest_ns": survivors.oldest,
        })
    };
    let shown: Value = ranked.iter().take(limit).map(site).collect();
    Ok(json!({ "t": times, "count": count, "sites": shown }))
}

/// How much of what survives was there at each point.
fn curve(survivors: &Survivors, figure: impl Fn(&(ByteSum, u64)) -> ByteSum) -> Vec<u64> {
    let mut sum = ByteSum::ZERO;
    let add = |born: &(ByteSum, u64)| {
        sum += figure(born);
        sum.rounded()
    };
    survivors.born.iter().map(add).collect()
}

/// The growth a second of the line that fits best, and how straight the curve is: the part of its variation that the line explains, and less
/// where it rises at few points: a single step is no growth.
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
