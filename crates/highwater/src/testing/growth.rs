//! Work that is repeated must not need more memory each time.

use super::limits::{begin, end, summary, write_site};
use super::measure::uncounted;
use super::names::{Site, SiteFrame, named_stacks};
use super::size::shown;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

/// The sites that a message shows.
const MOST_SITES: usize = 5;
/// The rounds that it shows of the first ones, and of the last.
const SHOWN_ROUNDS: usize = 6;

/// The fewest rounds. A collection of the standard library begins with room for 14 elements or fewer: a `HashSet<u8>` for 14, a `BTreeMap` for 11, a `Vec<u8>` for 8.
/// So with one element each round, each of them needs more room between the eighth round and the sixteenth.
const FEWEST_ROUNDS: usize = 16;

/// Runs `work` for this number of rounds, and panics if a site keeps more and more blocks or bytes.
///
/// A site fails if it has more blocks or bytes at the end of a round of the second half than at the end of any round of the first half. So caches that fill in the
/// first half are no growth, neither is what comes and goes. The result depends on what the work allocates and on nothing else. Take 32 rounds, or more if
/// a cache needs more than 16 rounds to fill.
///
/// A collection that gets one more element each round is growth, although it needs more memory only now and then: at least once between `rounds / 2`
/// and `rounds` elements if it was empty at the start. What has room for all rounds does not grow: a vector with a large capacity, or one that gets
/// an element in every tenth round.
///
/// # Panics
/// If a site grows, with its calls and what it had after each round; if there are fewer than sixteen rounds; and as [`measure`](super::measure()).
///
/// ```should_panic,standalone_crate
/// # #[global_allocator]
/// # static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);
/// let mut sessions = Vec::new();
/// highwater::testing::assert_no_growth(32, || {
///     sessions.push(String::from("never removed"));
/// });
/// ```
#[track_caller]
pub fn assert_no_growth<T>(rounds: usize, mut work: impl FnMut() -> T) {
    assert!(rounds >= FEWEST_ROUNDS, "growth shows in {FEWEST_ROUNDS} rounds or more, these are {rounds}");
    let measure = begin();
    // By round, the live blocks and bytes of each site.
    let mut live = uncounted(|| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        drop(work());
        let of_round = measure.live_by_site();
        live.push(of_round);
    }
    let counted = end(measure);
    let grown: Vec<usize> = (0..counted.sites.len()).filter(|&site| grows(&live, site)).collect();
    if grown.is_empty() {
        return;
    }
    let stacks: Vec<_> = grown.iter().map(|&site| counted.sites[site].clone()).collect();
    let mut rows: HashMap<Vec<SiteFrame>, (Site, Vec<u64>)> = HashMap::new();
    for (site, named) in grown.into_iter().zip(named_stacks(&stacks)) {
        if !named.is_captured_output {
            let (_, bytes) = rows.entry(named.frames.clone()).or_insert_with(|| (named, vec![0; rounds]));
            bytes.iter_mut().zip(&live).for_each(|(bytes, round)| *bytes += at(round, site).1);
        }
    }
    if rows.is_empty() {
        return;
    }
    let mut rows: Vec<(Site, Vec<u64>)> = rows.into_values().collect();
    rows.sort_by_cached_key(|(site, bytes)| {
        (Reverse(bytes[rounds - 1]), site.frames.iter().map(ToString::to_string).collect::<Vec<_>>())
    });
    let mut text = format!("memory grows from round to round, at {}\n", sites_of(rows.len()));
    for (site, bytes) in rows.iter().take(MOST_SITES) {
        write_site(&mut text, &format!("{} after {rounds} rounds", shown(bytes[rounds - 1])), site);
        let of = |rounds: &[u64]| rounds.iter().map(|bytes| shown(*bytes)).collect::<Vec<_>>().join(", ");
        let (first, last) = (&bytes[..SHOWN_ROUNDS], &bytes[rounds - SHOWN_ROUNDS..]);
        let _ = writeln!(text, "      round by round: {}, …, {}", of(first), of(last));
    }
    if rows.len() > MOST_SITES {
        let _ = writeln!(text, "  and {} more", sites_of(rows.len() - MOST_SITES));
    }
    panic!("{text}in all: {}", summary(&counted.total));
}

fn sites_of(count: usize) -> String {
    format!("{count} {}", if count == 1 { "site" } else { "sites" })
}

/// Blocks and bytes of a site after a round; none if the site was not there yet.
fn at(round: &[(u64, u64)], site: usize) -> (u64, u64) {
    round.get(site).copied().unwrap_or_default()
}

/// Whether a site had more after some round of the second half than after any round of the first.
fn grows(live: &[Vec<(u64, u64)>], site: usize) -> bool {
    let (first, second) = live.split_at(live.len() / 2);
    let most = |rounds: &[Vec<(u64, u64)>]| {
        let figures = rounds.iter().map(|round| at(round, site));
        figures.fold((0, 0), |(blocks, bytes), at| (blocks.max(at.0), bytes.max(at.1)))
    };
    let (before, after) = (most(first), most(second));
    after.0 > before.0 || after.1 > before.1
}
