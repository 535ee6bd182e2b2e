//! Which sites have series of their own. Each keeps its series for a while, so that the number of series that a day leaves behind is bounded, too.

use crate::source::{MetricsSource, SiteBytes};
use highwater_collector::ProcessGauges;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The most series of sites of a host.
pub const MOST_SITE_SERIES: usize = 500;
/// How long a site, and a process with sites, keeps its series at least.
const KEPT: Duration = Duration::from_secs(60);

/// A process, also if another one gets its pid.
pub type SeriesKey = (u32, u64);

/// The key of a process.
pub fn key_of(gauges: &ProcessGauges) -> SeriesKey {
    (gauges.pid, gauges.since_unix_ns)
}

/// A site with a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSite {
    /// The content hash of its stack.
    pub site: i64,
    /// The function that it is named by.
    pub function: String,
    /// Its live bytes.
    pub live_bytes: u64,
    since: Instant,
}

/// The sites of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSites {
    /// The sites that have a series.
    pub largest: Vec<ShownSite>,
    /// Live bytes of all others together.
    pub other: u64,
    since: Instant,
}

/// The sites of all processes that show theirs.
#[derive(Clone, Debug, Default)]
pub struct SiteBoard {
    processes: HashMap<SeriesKey, ShownSites>,
}

impl SiteBoard {
    /// The sites of a process, if it shows some.
    pub fn of(&self, process: SeriesKey) -> Option<ShownSites> {
        self.processes.get(&process).cloned()
    }

    /// Reads the sites of the processes anew, the `most` largest of each.
    pub fn refresh(&mut self, source: &dyn MetricsSource, gauges: &[ProcessGauges], most: usize, now: Instant) {
        let mut ranked: Vec<&ProcessGauges> = gauges.iter().collect();
        ranked.sort_by_key(|one| (std::cmp::Reverse(one.live_bytes), one.pid));
        let ranked: Vec<SeriesKey> = ranked.into_iter().map(key_of).collect();
        self.processes.retain(|key, _| ranked.contains(key));
        let present: Vec<(SeriesKey, Instant)> = self.processes.iter().map(|(key, one)| (*key, one.since)).collect();
        let chosen = choose(&present, &ranked, MOST_SITE_SERIES / (most + 1), now);
        self.processes.retain(|key, _| chosen.contains(key));
        for key in chosen {
            let before = self.processes.get(&key).cloned();
            let before = before.unwrap_or_else(|| ShownSites { largest: Vec::new(), other: 0, since: now });
            // A process that has just ended, or cannot be read now, has no sites this time.
            match read(source, key.0, before, most, now) {
                Some(sites) => self.processes.insert(key, sites),
                None => self.processes.remove(&key),
            };
        }
    }
}

fn read(source: &dyn MetricsSource, pid: u32, before: ShownSites, most: usize, now: Instant) -> Option<ShownSites> {
    let present: Vec<(i64, Instant)> = before.largest.iter().map(|site| (site.site, site.since)).collect();
    let mut names: HashMap<i64, (String, Instant)> =
        before.largest.into_iter().map(|site| (site.site, (site.function, site.since))).collect();
    let (mut chosen, mut total) = (Vec::new(), 0u64);
    let mut wanted = |bytes: &SiteBytes| {
        let mut ranked: Vec<i64> = bytes.keys().copied().collect();
        ranked.sort_by_key(|site| (std::cmp::Reverse(bytes[site]), *site));
        total = bytes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        let sites = choose(&present, &ranked, most, now);
        chosen = sites.into_iter().map(|site| (site, bytes.get(&site).copied().unwrap_or(0))).collect();
        let unknown = chosen.iter().map(|(site, _)| *site).filter(|site| !names.contains_key(site));
        unknown.collect::<Vec<i64>>()
    };
    let found = source.sites(pid, &mut wanted).ok()?;
    names.extend(found.into_iter().map(|(site, function)| (site, (function, now))));
    let shown = |(site, live_bytes): (i64, u64)| {
        let (function, since) = names.remove(&site).unwrap_or_else(|| (String::new(), now));
        ShownSite { site, function, live_bytes, since }
    };
    let largest: Vec<ShownSite> = chosen.into_iter().map(shown).collect();
    let other = largest.iter().fold(total, |rest, site| rest.saturating_sub(site.live_bytes));
    Some(ShownSites { largest, other, since: before.since })
}

/// The `most` first of `ranked`, but those that have been shown for less than `KEPT` stay in any case.
fn choose<K: Copy + PartialEq>(present: &[(K, Instant)], ranked: &[K], most: usize, now: Instant) -> Vec<K> {
    let is_new = |since: Instant| now.saturating_duration_since(since) < KEPT;
    let mut chosen: Vec<K> = present.iter().filter(|(_, since)| is_new(*since)).map(|(key, _)| *key).collect();
    chosen.truncate(most);
    for key in ranked {
        if chosen.len() >= most {
            break;
        }
        if !chosen.contains(key) {
            chosen.push(*key);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{SiteFunctions, SourceError};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Sites as the test sets them; names are looked up one by one, and counted.
    #[derive(Default)]
    struct ScriptedSites {
        bytes: Mutex<SiteBytes>,
        named: AtomicUsize,
    }

    impl MetricsSource for ScriptedSites {
        fn gauges(&self, _: Option<Duration>) -> Result<Vec<ProcessGauges>, SourceError> {
            Ok(Vec::new())
        }

        fn sites(
            &self,
            pid: u32,
            wanted: &mut dyn FnMut(&SiteBytes) -> Vec<i64>,
        ) -> Result<SiteFunctions, SourceError> {
            if pid == 13 {
                return Err(SourceError::NoProcess("it ended".to_owned()));
            }
            let sites = wanted(&self.bytes.lock().unwrap());
            self.named.fetch_add(sites.len(), Ordering::Relaxed);
            Ok(sites.into_iter().map(|site| (site, format!("f{site}"))).collect())
        }

        fn profile(&self, _: u32) -> Result<Vec<u8>, SourceError> {
            Ok(Vec::new())
        }
    }

    fn process(pid: u32, live_bytes: u64) -> ProcessGauges {
        ProcessGauges { pid, live_bytes, ..ProcessGauges::default() }
    }

    fn shown(board: &SiteBoard, pid: u32) -> (Vec<(i64, u64)>, u64) {
        let sites = board.of((pid, 0)).unwrap();
        (sites.largest.iter().map(|site| (site.site, site.live_bytes)).collect(), sites.other)
    }

    #[test]
    fn a_site_keeps_its_series_for_a_minute() {
        let (source, mut board, begin) = (ScriptedSites::default(), SiteBoard::default(), Instant::now());
        let set = |bytes: &[(i64, u64)]| *source.bytes.lock().unwrap() = bytes.iter().copied().collect();
        set(&[(1, 100), (2, 50), (3, 10)]);
        board.refresh(&source, &[process(7, 160)], 2, begin);
        assert_eq!(shown(&board, 7), (vec![(1, 100), (2, 50)], 10));
        // Others become larger, one of those shown has gone.
        set(&[(1, 100), (3, 500), (4, 400)]);
        board.refresh(&source, &[process(7, 1000)], 2, begin + Duration::from_secs(59));
        assert_eq!(shown(&board, 7), (vec![(1, 100), (2, 0)], 900));
        board.refresh(&source, &[process(7, 1000)], 2, begin + Duration::from_secs(60));
        assert_eq!(shown(&board, 7), (vec![(3, 500), (4, 400)], 100));
        assert_eq!(board.of((7, 0)).unwrap().largest[0].function, "f3");
        assert_eq!(source.named.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn sites_that_change_all_the_time_make_few_series() {
        let (source, mut board, begin) = (ScriptedSites::default(), SiteBoard::default(), Instant::now());
        let mut series = std::collections::HashSet::new();
        for second in 0..600i64 {
            *source.bytes.lock().unwrap() = (0..50).map(|site| (second * 50 + site, 1000 - site as u64)).collect();
            board.refresh(&source, &[process(7, 1)], 5, begin + Duration::from_secs(second as u64));
            let (largest, other) = shown(&board, 7);
            assert_eq!(largest.len(), 5);
            assert_eq!(largest.iter().map(|(_, bytes)| bytes).sum::<u64>() + other, (951..=1000).sum::<u64>());
            series.extend(largest.into_iter().map(|(site, _)| site));
        }
        assert_eq!(series.len(), 50);
    }

    #[test]
    fn a_host_has_a_limited_number_of_series() {
        let (source, mut board, begin) = (ScriptedSites::default(), SiteBoard::default(), Instant::now());
        *source.bytes.lock().unwrap() = (0..20).map(|site| (site, 1)).collect();
        let mut processes: Vec<ProcessGauges> = (100..1100).map(|pid| process(pid, pid.into())).collect();
        for round in 0..20 {
            board.refresh(&source, &processes, 5, begin + Duration::from_secs(round));
            let series: usize = board.processes.values().map(|sites| sites.largest.len() + 1).sum();
            assert!(series <= MOST_SITE_SERIES && series > MOST_SITE_SERIES - 6, "{series}");
            processes.rotate_left(1);
            processes[0].live_bytes += 5000;
        }
        // One that has ended has none.
        board.refresh(&source, &[process(13, 1), process(14, 1)], 5, begin);
        assert!(board.of((13, 0)).is_none() && board.of((14, 0)).is_some());
        assert_eq!(board.processes.len(), 1);
    }
}
