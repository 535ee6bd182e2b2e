//! Sampling: figures are unbiased estimates near the truth, and are marked as estimates.

mod support;

use support::recorded::{Counts, Recording, record, run};
use support::{Place, programs};

const RATE: f64 = 65536.0;

/// A function of `programs/sampled.c`, and its true figures.
struct Truth {
    function: &'static str,
    allocations: f64,
    bytes: f64,
    live: bool,
}

const TRUTHS: [Truth; 6] = [
    Truth { function: "hold_small", allocations: 500_000.0, bytes: 500_000.0 * 64.0, live: true },
    Truth { function: "hold_medium", allocations: 2000.0, bytes: 2000.0 * 16384.0, live: true },
    Truth { function: "hold_large", allocations: 20.0, bytes: 20.0 * 4_194_304.0, live: true },
    Truth { function: "let_go", allocations: 3_000_000.0, bytes: 3_000_000.0 * 100.0, live: false },
    Truth { function: "hold_zeroed", allocations: 3000.0, bytes: 3000.0 * 10000.0, live: true },
    Truth { function: "hold_aligned", allocations: 3000.0, bytes: 3000.0 * 10000.0, live: true },
];

impl Truth {
    /// The relative standard deviation of an estimate: each block is found with a chance p and then counts 1/p times.
    fn deviation(&self) -> f64 {
        let chance = -(-(self.bytes / self.allocations) / RATE).exp_m1();
        ((1.0 / chance - 1.0) / self.allocations).sqrt()
    }

    /// Within seven deviations: by chance that fails once in a hundred thousand million runs. Weights and sampled blocks are rounded.
    fn agrees(&self, estimate: u64, truth: f64) -> bool {
        (estimate as f64 / truth - 1.0).abs() <= 7.0 * self.deviation() + 0.001
    }
}

fn sampled(options: &[&str]) -> (Place, Recording, String) {
    let place = Place::new();
    let ended = run(&mut record(&place, options, programs::c("sampled"))).succeeded();
    assert_eq!(ended.stdout_text(), "done\n");
    let recording = Recording::read(&place);
    recording.has_no_oddities();
    (place, recording, ended.stderr_text())
}

#[test]
fn estimates_are_near_the_truth() {
    let (_place, recording, _) = sampled(&["--sample", "64KiB"]);
    for truth in TRUTHS {
        let counts = recording.of_function(truth.function);
        let Counts { allocations, allocated_bytes, live_bytes, .. } = counts;
        assert!(
            truth.agrees(allocated_bytes, truth.bytes),
            "{}: {allocated_bytes} bytes of {}",
            truth.function,
            truth.bytes
        );
        assert!(
            truth.agrees(allocations, truth.allocations),
            "{}: {allocations} of {}",
            truth.function,
            truth.allocations
        );
        let live = if truth.live { allocated_bytes } else { 0 };
        assert_eq!(live_bytes, live, "{}: what is freed is known exactly of each sample", truth.function);
    }
    assert_eq!(recording.of_function("grow").live_bytes, 0);
}

/// One run may be lucky; the mean of many must be closer.
#[test]
fn estimates_have_no_bias() {
    const RUNS: u64 = 20;
    let mut sums = [(0u64, 0u64); TRUTHS.len()];
    for _ in 0..RUNS {
        let (_place, recording, _) = sampled(&["--sample", "64KiB"]);
        for (sum, truth) in sums.iter_mut().zip(&TRUTHS) {
            let counts = recording.of_function(truth.function);
            sum.0 += counts.allocations;
            sum.1 += counts.allocated_bytes;
        }
    }
    for ((allocations, bytes), truth) in sums.into_iter().zip(&TRUTHS) {
        let nearer = Truth { allocations: truth.allocations * RUNS as f64, bytes: truth.bytes * RUNS as f64, ..*truth };
        assert!(
            nearer.agrees(allocations, nearer.allocations),
            "{}: {allocations} of {}",
            truth.function,
            nearer.allocations
        );
        assert!(nearer.agrees(bytes, nearer.bytes), "{}: {bytes} bytes of {}", truth.function, nearer.bytes);
    }
}

#[test]
fn estimates_are_marked_as_such() {
    let (place, recording, summary) = sampled(&["--sample", "64KiB"]);
    assert_eq!(recording.report["source"]["sample_rate"], 65536);
    assert_eq!(recording.report["totals"]["estimate"], true);
    place.highwater("report recording.hw").stdout_has(&["figures are estimates: one sample for each 64.0 KiB", "~"]);
    assert!(summary.contains('~'), "{summary}");
    // Figures that samples cannot give are absent.
    for name in ["temporary_allocations", "reallocations", "reallocated_away", "peak_bytes_inside_reallocation"] {
        assert_eq!(recording.report["totals"].get(name), Some(&serde_json::Value::Null), "{name}");
    }
    let text = place.highwater("report recording.hw").stdout;
    assert!(!text.contains("temporary") && !text.contains("reallocation"), "{text}");
    assert!(!summary.contains("temporary") && !summary.contains("reallocation"), "{summary}");
    place.highwater("report recording.hw --metric temporary").is_one_clear_line_about(&["cannot be estimated"]);
}

#[test]
fn few_events_are_recorded() {
    let (place, _, _) = sampled(&["--sample", "1MiB"]);
    let events = place.json("info recording.hw")["file"]["events"].as_u64().unwrap();
    // Half a gigabyte, and two of growing blocks: about a thousand samples, each with a birth and perhaps a free.
    assert!((300..20_000).contains(&events), "{events}");
}

#[test]
fn a_rate_that_is_none_is_wrong_usage() {
    let place = Place::new();
    for rate in ["0", "many", "-5", "12XB"] {
        let ended = run(&mut record(&place, &["--sample", rate], "true"));
        assert_eq!(ended.status.code(), Some(2), "{rate}: {}", ended.stderr_text());
    }
}
