//! Files of massif, compared with what `ms_print` prints of them.
#![allow(missing_docs)]

mod support;

use highwater_input::{InputFile, open};
use highwater_model::{Clock, Nanos, Snapshot, StackId, When, grouped};
use proptest::prelude::*;
use std::process::Command;
use support::{any_changes, fixture, frames, is_frame, is_refused_or_sound, number, opened, states, text_of};

const FIXTURES: [&str; 6] = ["instructions", "milliseconds", "bytes", "stacks", "pages", "shallow"];
const EXTRA: &str = "[extra heap: allocator overhead]";
const STACKS: &str = "[thread stacks]";

fn profile(name: &str) -> InputFile {
    open(&fixture("massif", &format!("{name}.out"))).unwrap()
}

/// A snapshot as `ms_print` shows it.
#[derive(Default)]
struct Printed {
    time: u64,
    total: u64,
    heap: u64,
    extra: u64,
    stacks: u64,
    /// The texts from below the root to a node, and its bytes.
    nodes: Vec<(Vec<String>, u64)>,
    root: Option<u64>,
}

/// The snapshots in the output of `ms_print --threshold=0`.
fn printed(text: &str) -> Vec<Printed> {
    let mut snapshots: Vec<Printed> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let tables = text.split("Number of snapshots:").nth(1).expect("tables");
    for line in tables.lines() {
        let columns: Vec<Option<u64>> =
            line.split_whitespace().map(|word| word.replace(',', "").parse().ok()).collect();
        if let [Some(_), Some(time), Some(total), Some(heap), Some(extra), Some(stacks)] = columns[..] {
            snapshots.push(Printed { time, total, heap, extra, stacks, ..Printed::default() });
        }
        let node = line.find("% (").and_then(|at| line[at + 3..].split_once("B) "));
        let (Some((bytes, label)), Some(snapshot)) = (node, snapshots.last_mut()) else { continue };
        match line.find("->") {
            None => snapshot.root = Some(number(bytes)),
            Some(column) => {
                path.truncate(column / 2);
                path.push(label.to_owned());
                snapshot.nodes.push((path.clone(), number(bytes)));
            }
        }
    }
    snapshots
}

/// The bytes of the site of one frame with this name.
fn named(state: &Snapshot, name: &str) -> u64 {
    let sites = state.accounts.sites().iter();
    let of_name = sites.filter(|(stack, _)| frames(state, *stack).first().is_some_and(|frame| frame.function == name));
    of_name.map(|(_, site)| site.live_bytes()).sum()
}

/// The sites of the tree: frames, innermost first, and bytes.
fn of_tree(state: &Snapshot) -> Vec<(StackId, u64)> {
    let sites = state.accounts.sites().iter().map(|(stack, site)| (stack, site.live_bytes()));
    let is_of_tree = |stack: StackId| {
        let frames = frames(state, stack);
        frames.first().is_some_and(|frame| frame.function != EXTRA && frame.function != STACKS)
    };
    sites.filter(|(stack, _)| is_of_tree(*stack)).collect()
}

fn is_printed(name: &str, text: &str) {
    let (states, printed) = (states(&profile(name)), printed(text));
    assert_eq!(states.len(), printed.len(), "{name}");
    let factor = if name == "milliseconds" { 1_000_000 } else { 1 };
    for (number, (state, shown)) in states.iter().zip(&printed).enumerate() {
        let name = format!("{name}, snapshot {number}");
        assert_eq!(state.at, Nanos(shown.time * factor), "{name}");
        assert_eq!(state.accounts.totals().figures.live_bytes(), shown.total, "{name}");
        assert_eq!((named(state, EXTRA), named(state, STACKS)), (shown.extra, shown.stacks), "{name}");
        let sites = of_tree(state);
        let in_tree: u64 = sites.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(in_tree, shown.root.unwrap_or(0), "{name}");
        assert_eq!(shown.total - shown.extra - shown.stacks, shown.heap, "{name}");
        let below = |path: &[String]| -> u64 {
            let is_below = |stack: StackId| {
                let frames = frames(state, stack);
                frames.len() >= path.len() && frames.iter().zip(path).all(|(frame, text)| is_frame(frame, text))
            };
            sites.iter().filter(|(stack, _)| is_below(*stack)).map(|(_, bytes)| bytes).sum()
        };
        for (path, bytes) in &shown.nodes {
            assert_eq!(below(path), *bytes, "{name}: {path:?}");
        }
        for (stack, _) in &sites {
            let frames = frames(state, *stack);
            let is_site = |path: &[String]| {
                frames.len() == path.len() && frames.iter().zip(path).all(|(frame, text)| is_frame(frame, text))
            };
            assert!(shown.nodes.iter().any(|(path, _)| is_site(path)), "{name}: {frames:?}");
        }
    }
}

#[test]
fn every_snapshot_and_every_node_is_that_of_ms_print() {
    let mut nodes = 0;
    for name in FIXTURES {
        let text = text_of("massif", &format!("{name}.txt"));
        nodes += printed(&text).iter().map(|snapshot| snapshot.nodes.len()).sum::<usize>();
        is_printed(name, &text);
    }
    assert!(nodes > 200, "{nodes}");
}

#[test]
fn every_snapshot_and_every_node_is_that_of_the_installed_ms_print() {
    for name in FIXTURES {
        let mut command = Command::new("ms_print");
        let Ok(output) = command.arg("--threshold=0").arg(fixture("massif", &format!("{name}.out"))).output() else {
            return;
        };
        assert!(output.status.success());
        is_printed(name, &String::from_utf8(output.stdout).unwrap());
    }
}

#[test]
fn only_bytes_are_known_and_the_note_says_of_which_snapshots_the_stacks_are() {
    let instructions = profile("instructions");
    let source = instructions.source();
    assert_eq!((source.clock, source.program.as_str(), source.snapshot), (Clock::Instructions, "demo", false));
    assert!(!source.knows_live_blocks() && !source.knows_allocated() && !source.knows_own_peaks());
    let printed = printed(&text_of("massif", "instructions.txt"));
    let detailed: Vec<u64> = printed.iter().filter(|shown| shown.root.is_some()).map(|shown| shown.time).collect();
    let [note] = source.notes.as_slice() else { panic!("{:?}", source.notes) };
    assert!(note.starts_with(&format!("Only {} of {} snapshots", detailed.len(), printed.len())), "{note}");
    for time in detailed {
        assert!(note.contains(&grouped(time)), "{note}");
    }
    assert_eq!(profile("bytes").source().clock, Clock::Bytes);
    assert_eq!(profile("milliseconds").source().clock, Clock::Time);
}

#[test]
fn the_peak_is_the_highest_snapshot_and_has_its_tree() {
    for name in FIXTURES {
        let file = profile(name);
        let peak = file.recording(&mut |_, _| true).unwrap().snapshot(&When::Peak).unwrap();
        let highest = printed(&text_of("massif", &format!("{name}.txt"))).iter().map(|shown| shown.total).max();
        assert_eq!(Some(peak.accounts.totals().figures.live_bytes()), highest, "{name}");
        // Massif keeps the tree of one of several highest snapshots. The pages of a program may be the most at its end, which is no peak for massif.
        assert_eq!(of_tree(&peak).is_empty(), name == "pages", "{name}");
    }
}

/// A file with one snapshot that has this tree.
fn with_tree(tree: &str) -> String {
    format!(
        "desc: (none)\ncmd: ./a b\ntime_unit: i\n#-----------\nsnapshot=0\n#-----------\ntime=7\nmem_heap_B=100\n\
         mem_heap_extra_B=8\nmem_stacks_B=0\nheap_tree=detailed\n{tree}"
    )
}

/// The sites of the last state: functions, innermost first, and bytes.
fn sites(file: &InputFile) -> Vec<(String, u64)> {
    let state = states(file).pop().unwrap();
    let name = |stack| frames(&state, stack).iter().map(|frame| frame.function).collect::<Vec<_>>().join("<");
    let mut sites: Vec<_> =
        state.accounts.sites().iter().map(|(stack, site)| (name(stack), site.live_bytes())).collect();
    sites.retain(|(name, bytes)| *bytes > 0 && name != EXTRA);
    sites.sort();
    sites
}

#[test]
fn what_children_do_not_have_belongs_to_their_parent() {
    let tree = "n2: 100 (all)\n n2: 60 0x1: a (a.c:1)\n  n0: 20 0x2: b (a.c:2)\n  n0: 30 in 2 places, all below massif's threshold (1.00%)\n n0: 35 0x3: c (a.c:3)\n";
    let file = opened(with_tree(tree)).unwrap();
    assert_eq!(file.problems().bad_lines, 0);
    let place = "a<in 2 places, all below massif's threshold (1.00%)";
    let expected = [("", 5), ("a", 10), ("a<b", 20), (place, 30), ("c", 35)];
    assert_eq!(sites(&file), expected.map(|(name, bytes)| (name.to_owned(), bytes)));
}

#[test]
fn a_tree_that_is_cut_or_odd_is_reported_and_used() {
    let cut = opened(with_tree("n2: 100 (all)\n n2: 60 0x1: a (a.c:1)\n  n0: 20 0x2: b (a.c:2)\n")).unwrap();
    assert_eq!(cut.problems().bad_lines, 1);
    assert_eq!(sites(&cut), [("".to_owned(), 40), ("a".to_owned(), 40), ("a<b".to_owned(), 20)]);
    let odd = opened(with_tree("n1: 100 (all)\n   n0: 60 0x1: a (a.c:1)\n n0: 70 0x1: b (a.c:1)\nwhat\n")).unwrap();
    let lines: Vec<u64> = odd.problems().first_bad_lines.iter().map(|line| line.number).collect();
    assert_eq!(lines, [13, 15]);
    assert_eq!(sites(&odd), [("".to_owned(), 30), ("b".to_owned(), 70)]);
    let error = opened("desc: x\ncmd: y\ntime_unit: h\n").map(drop).unwrap_err().to_string();
    assert!(error.ends_with("line 3: the time_unit is none of i, ms and B"), "{error}");
}

#[test]
fn an_xtree_report_is_refused() {
    let text = with_tree("n0: 100 curB : currently allocated Bytes\n").replace("(none)", "xtree.produce_report");
    let error = opened(text).map(drop).unwrap_err().to_string();
    assert!(
        error.ends_with("line 1: an xtree report has several figures of one instant, and is no profile of massif"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn changed_files_are_refused_or_sound((changes, cut) in any_changes(), at in 0..FIXTURES.len(), is_cut: bool) {
        let content = text_of("massif", &format!("{}.out", FIXTURES[at]));
        is_refused_or_sound(content.as_bytes(), &changes, cut, is_cut);
    }
}
