//! Files of DHAT, compared with what valgrind and the crate `dhat` say of them, and with what valgrind's viewer shows.
#![allow(missing_docs)]

mod support;

use highwater_input::{InputFile, open};
use highwater_model::{Clock, Nanos, Snapshot, When};
use proptest::prelude::*;
use support::{any_changes, fixture, frames, is_refused_or_sound, number, opened, states, sums_below, text_of};

fn profile(name: &str) -> InputFile {
    open(&fixture("dhat", name)).unwrap()
}

/// `36,290 bytes in 29 blocks`, after a label.
fn summary(text: &str, label: &str) -> [u64; 2] {
    let line = text.lines().find_map(|line| line.trim_start_matches(['│', ' ']).strip_prefix(label)).expect(label);
    let blocks = line.split(" in ").nth(1).expect("blocks");
    [line, blocks].map(|part| number(part.split_whitespace().next().unwrap()))
}

/// Live bytes and blocks.
fn live(snapshot: &Snapshot) -> [u64; 2] {
    let figures = &snapshot.accounts.totals().figures;
    [figures.live_bytes(), figures.live_blocks()]
}

#[test]
fn sums_are_those_that_the_tools_print() {
    for name in ["valgrind", "rising", "rust"] {
        let text = text_of("dhat", &format!("{name}.txt"));
        let states = states(&profile(&format!("{name}.json")));
        let [maximum, end] = states.as_slice() else { panic!("{name} has {} states", states.len()) };
        assert_eq!(live(maximum), summary(&text, "At t-gmax:"), "{name}");
        assert_eq!(live(end), summary(&text, "At t-end:"), "{name}");
        let figures = &end.accounts.totals().figures;
        assert_eq!([figures.allocated_bytes, figures.allocations], summary(&text, "Total:"), "{name}");
    }
}

/// The program points of valgrind's viewer: their frames, innermost first, and their text.
fn shown_points(text: &str) -> Vec<(Vec<String>, String)> {
    let mut points = Vec::new();
    for part in text.split(" PP 1").skip(1) {
        let frame = |line: &str| {
            let line = line.trim_start_matches(['│', ' ']);
            let (number, frame) = line.strip_prefix(['#', '^'])?.split_once(": ")?;
            (number != "0").then(|| frame.to_owned())
        };
        if !part.contains("insignificant]") {
            points.push((part.lines().filter_map(frame).collect(), part.to_owned()));
        }
    }
    points
}

#[test]
fn every_program_point_of_the_viewer_is_there() {
    for (name, points) in [("valgrind", 49), ("rust", 14)] {
        let states = states(&profile(&format!("{name}.json")));
        let shown = shown_points(&text_of("dhat", &format!("{name}.view.txt")));
        assert_eq!(shown.len(), points, "{name}");
        for (frames, text) in &shown {
            let [bytes, blocks, ..] = sums_below(&states[0], frames);
            assert_eq!([bytes, blocks], summary(text, "At t-gmax:"), "{name}: {frames:?}");
            let [bytes, blocks, allocated, allocations] = sums_below(&states[1], frames);
            assert_eq!([bytes, blocks], summary(text, "At t-end:"), "{name}: {frames:?}");
            assert_eq!([allocated, allocations], summary(text, "Total:"), "{name}: {frames:?}");
        }
    }
}

#[test]
fn own_peaks_are_those_of_the_crate_and_not_of_valgrind() {
    let valgrind = profile("valgrind.json");
    assert!(!valgrind.source().knows_own_peaks() && valgrind.source().knows_allocated());
    let rust = profile("rust.json");
    assert!(rust.source().knows_own_peaks() && rust.source().knows_live_blocks());
    let end = states(&rust).pop().unwrap();
    let shown = shown_points(&text_of("dhat", "rust.view.txt"));
    let mut compared = 0;
    for (point, text) in shown.iter().filter(|(_, text)| text.contains("Max:")) {
        let sites = end.accounts.sites().iter();
        let mut sites = sites.filter(|(stack, _)| {
            let frames = frames(&end, *stack);
            frames.len() == point.len() && frames.iter().zip(point).all(|(frame, text)| support::is_frame(frame, text))
        });
        let (_, site) = sites.next().expect("a site");
        assert_eq!(site.peak_bytes, summary(text, "Max:")[0]);
        compared += 1;
    }
    assert_eq!(compared, 8);
}

#[test]
fn times_are_instructions_or_microseconds() {
    let valgrind = profile("valgrind.json");
    assert_eq!((valgrind.source().clock, valgrind.source().duration), (Clock::Instructions, Nanos(193_568)));
    assert_eq!(states(&valgrind)[0].at, Nanos(175_754));
    let rust = profile("rust.json");
    assert_eq!((rust.source().clock, rust.source().duration), (Clock::Time, Nanos(1_755_000)));
    assert_eq!((rust.source().program.as_str(), rust.source().pid), ("demo-dhat", 18_246));
    let recording = rust.recording(&mut |_, _| true).unwrap();
    assert_eq!(live(&recording.snapshot(&When::Peak).unwrap()), [47_700, 321]);
}

#[test]
fn inlined_calls_are_known() {
    let end = states(&profile("rust.json")).pop().unwrap();
    let (stack, _) = end.accounts.sites().iter().max_by_key(|(_, site)| site.allocated_bytes).unwrap();
    let frames = frames(&end, stack);
    let inlined = |name: &str| frames.iter().find(|frame| frame.function == name).expect(name).inlined;
    assert!(inlined("alloc::fmt::format") && inlined("demo_dhat::peak::{{closure}}"));
    assert!(!inlined("demo_dhat::peak") && !inlined("demo_dhat::main"));
}

#[test]
fn a_maximum_that_is_the_end_is_one_state() {
    let text = text_of("dhat", "rising.json").replace("\"tg\":143904", "\"tg\":148554");
    let rising = opened(&text).unwrap();
    let states = states(&rising);
    assert_eq!((states.len(), live(&states[0])), (1, [15_000, 5]));
    assert!(!rising.source().snapshot);
    // The same time, but other figures: a clock of microseconds may stand still.
    let text = text.replacen("\"eb\":15000,\"ebk\":5", "\"eb\":9000,\"ebk\":3", 1);
    let states = self::states(&opened(text).unwrap());
    assert_eq!(states.iter().map(live).collect::<Vec<_>>(), [[15_000, 5], [9_000, 3]]);
}

#[test]
fn other_profiles_are_refused_in_one_line() {
    let why = |text: String| opened(text).map(drop).unwrap_err().to_string();
    let text = || text_of("dhat", "valgrind.json");
    for (change, expected) in [
        (text_of("dhat", "copy.json"), r#"the profile is not about memory that is held (mode "copy") at line 2"#),
        (text_of("dhat", "ad-hoc.json"), r#"(mode "ad-hoc") at line 2"#),
        (text().replace("Version\":2", "Version\":3"), "version 3 of the format is not known, only 2 at line"),
        (text().replace("\"bklt\":true", "\"bklt\":false"), "the profile does not say what is live (bklt is false)"),
        (text().replace("instrs", "days"), "the unit of time \"days\" is not known"),
        (text().replace("\"tg\":1", "\"tg\":9"), "the maximum is after the end"),
        (text().replacen("\"fs\":[1,", "\"fs\":[99,", 1), "program point 1: there is no frame 99 in ftbl"),
        (text().replacen(",\"eb\":", ",\"xb\":", 1), "missing field `eb` at line"),
        (text().replacen("\"tb\":2190", "\"tb\":-1", 1), "expected u64 at line"),
        (text()[..1000].to_owned(), "EOF while parsing"),
    ] {
        let error = why(change);
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

proptest! {
    #[test]
    fn changed_files_are_refused_or_sound((changes, cut) in any_changes(), is_rust: bool, is_cut: bool) {
        let content = text_of("dhat", if is_rust { "rust.json" } else { "valgrind.json" });
        is_refused_or_sound(content.as_bytes(), &changes, cut, is_cut);
    }
}
