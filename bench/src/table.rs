//! Runs the measurements in turn and prints them beside what was asked.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const ROUNDS: u64 = 5;
/// The long recording: so many events, about so many blocks live.
const LONG: (&str, &str) = ("100000000", "1000000");

/// Everything measured, by name.
type Measured = BTreeMap<String, Vec<f64>>;

fn run(program: &str, arguments: &[&str], prefix: &str, measured: &mut Measured) {
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?} failed");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((name, value)) = line.split_once(' ') {
            let value = value.parse().unwrap_or_else(|_| panic!("{program}: '{line}' is not a measurement"));
            measured.entry(format!("{prefix}{name}")).or_default().push(value);
        }
    }
}

fn median(measured: &Measured, name: &str) -> Option<f64> {
    let mut values = measured.get(name)?.clone();
    values.sort_by(f64::total_cmp);
    Some(values[values.len() / 2])
}

/// Runs everything and prints the table; `predecessor` is the program that measures it.
pub fn print(predecessor: Option<&str>) {
    let own = std::env::current_exe().expect("the program knows where it is").to_string_lossy().into_owned();
    let folder = std::env::temp_dir().join(format!("highwater-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (mix, long) = (path("mix.hw"), path("long.hw"));
    let mut measured = Measured::new();
    eprintln!("writing a recording of 100 M events …");
    run(&own, &["write", &long, LONG.0, LONG.1], "long_", &mut measured);
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS} …");
        let seed = (round * 7919).to_string();
        run(&own, &["record"], "", &mut measured);
        run(&own, &["record-rate", "1"], "one_", &mut measured);
        run(&own, &["record-rate", "2"], "two_", &mut measured);
        run(&own, &["snapshot"], "", &mut measured);
        run(&own, &["write", &mix, "20000000", "100000"], "", &mut measured);
        for instant in 0..4 {
            run(&own, &["travel", &long, &(round * 4 + instant).to_string()], "", &mut measured);
        }
        run(&own, &["diff", &long, &seed], "", &mut measured);
        if let Some(predecessor) = predecessor {
            run(predecessor, &[], "predecessor_", &mut measured);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    print_rows(&measured);
}

fn print_rows(measured: &Measured) {
    let value = |name: &str| median(measured, name).unwrap_or(f64::NAN);
    let most = |name: &str| measured.get(name).map_or(f64::NAN, |values| values.iter().copied().fold(0.0, f64::max));
    // The best of the rounds: other work on the machine can only make it look worse.
    let two_to_one = most("two_events_per_second") / most("one_events_per_second");
    let predecessor = |name: &str, unit: &str| {
        median(measured, &format!("predecessor_{name}"))
            .map_or_else(|| "–".to_owned(), |value| format!("{value:.1}{unit}"))
    };
    println!("| what | asked | measured | | predecessor, same run |");
    println!("|---|---|---|---|---|");
    row(
        "record an event, 1 thread",
        "≤ 30 ns CPU",
        value("record_ns"),
        30.0,
        Bound::Most,
        "ns",
        &predecessor("record_ns", " ns"),
    );
    row(
        "two threads recording, against one",
        "≥ 1.7 ×",
        two_to_one,
        1.7,
        Bound::Least,
        "×",
        &predecessor("two_threads", " ×"),
    );
    let bytes = value("store_bytes_per_event_mixed").max(value("store_bytes_per_event"));
    row(
        "in-memory store, per event",
        "≤ 32 bytes",
        bytes,
        32.0,
        Bound::Most,
        "bytes",
        &predecessor("store_bytes_per_event", " bytes"),
    );
    row(
        "first snapshot of 10 M events",
        "≤ 1 s CPU",
        value("first_snapshot_s"),
        1.0,
        Bound::Most,
        "s",
        &predecessor("first_snapshot_s", " s"),
    );
    row(
        "its peak memory, against the store",
        "≤ 1.5 ×",
        value("first_snapshot_memory"),
        1.5,
        Bound::Most,
        "×",
        &predecessor("first_snapshot_memory", " ×"),
    );
    row(
        "next snapshot after 100 k more events",
        "≤ 1/50",
        value("next_snapshot_part"),
        50.0,
        Bound::Least,
        "times less",
        "–",
    );
    row(".hw size per event, 100 k live", "≤ 3 bytes", value("bytes_per_event"), 3.0, Bound::Most, "bytes", "–");
    row(
        ".hw size per event, 1 M live, 100 M events",
        "",
        value("long_bytes_per_event"),
        f64::NAN,
        Bound::Most,
        "bytes",
        "–",
    );
    row(
        "open + snapshot at a random instant, 100 M events, 1 M live",
        "≤ 1 s",
        value("travel_s"),
        1.0,
        Bound::Most,
        "s",
        "–",
    );
    row("… the worst of twenty", "", most("travel_s"), f64::NAN, Bound::Most, "s", "–");
    row("its peak memory", "≤ 512 MB", most("travel_bytes") / 1e6, 512.0, Bound::Most, "MB", "–");
    row("diff of two instants of the same", "≤ 2 s", value("diff_s"), 2.0, Bound::Most, "s", "–");
    row("append to .hw, 100 k live", "≥ 20 M/s", value("append_rate") / 1e6, 20.0, Bound::Least, "M/s", "–");
}

enum Bound {
    Most,
    Least,
}

fn row(what: &str, asked: &str, value: f64, bound: f64, kind: Bound, unit: &str, predecessor: &str) {
    let holds = match kind {
        Bound::Most => value <= bound,
        Bound::Least => value >= bound,
    };
    let verdict = if bound.is_nan() {
        ""
    } else if holds {
        "reached"
    } else {
        "**short**"
    };
    println!("| {what} | {asked} | {value:.2} {unit} | {verdict} | {predecessor} |");
}
