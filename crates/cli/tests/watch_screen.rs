//! `highwater watch` on a terminal: what its screen shows, its keys, and how it leaves.
#![allow(missing_docs)]

mod support;

use highwater_collector::protocol::{CollectorRequest, ProcessState};
use highwater_model::When;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::fake_collector::{FakeCollector, Reply, cut, list, process, snapshot_file};
use support::live::{Collector, Holder, wait_for};
use support::screen::TerminalScreen;
use support::{HIGHWATER, Place};

const USUAL: (u16, u16) = (80, 24);

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Watches a process, ten times a second.
fn watch(collector: &Collector, pid: u32, options: &str, size: (u16, u16)) -> TerminalScreen {
    let line = format!("watch --pid {pid} --interval 0.1 {options}");
    TerminalScreen::start(&collector.command(line.split_whitespace()), size)
}

/// A program with some sites, which stays as it is until it gets an order.
fn holder(collector: &Collector) -> Holder {
    let mut holder = collector.holder(&[]);
    holder.tell("keep 1000 300");
    holder.tell("threads 2 50");
    holder
}

/// The first columns of the rows on the screen: what stands below the column names, without the sign of the chosen row.
fn rows(screen: &str) -> Vec<Vec<String>> {
    let lines = screen.lines().skip_while(|line| !line.contains("growth")).skip(1);
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_start_matches(['›', ' ']);
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    lines.map(cells).take_while(|cells| cells.len() >= 3).collect()
}

/// `highwater snapshot --json` of a process, by `by`: live bytes of all rows, largest first.
fn snapshot_rows(collector: &Collector, pid: u32, by: &str) -> Vec<Value> {
    let document = collector.json(&format!("snapshot --pid {pid} --by {by} --top 0"));
    let mut rows = document[format!("{by}s")].as_array().unwrap().clone();
    rows.retain(|row| row["live_bytes"].as_u64().unwrap() > 0);
    rows
}

fn in_bytes(number: &Value) -> String {
    highwater_query::units::bytes(number.as_u64().unwrap())
}

fn counted(number: &Value) -> String {
    highwater_query::units::count(number.as_u64().unwrap())
}

#[test]
fn figures_and_order_are_those_of_a_snapshot() {
    let collector = Collector::new();
    let holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "", (120, 40));
    screen.shows(&["growth", "keep_blocks", "exact"]);
    for (key, by) in [("1", "site"), ("2", "function"), ("4", "module"), ("5", "line"), ("6", "thread"), ("8", "heap")]
    {
        screen.press(key);
        let shown = screen.shows(&[&format!("{by} (")]);
        let expected = snapshot_rows(&collector, holder.pid, by);
        let figures: Vec<(String, String)> =
            rows(&shown).iter().map(|cells| (cells[0].clone(), cells[3].clone())).collect();
        let wanted: Vec<(String, String)> =
            expected.iter().map(|row| (in_bytes(&row["live_bytes"]), counted(&row["live_blocks"]))).collect();
        assert!(!figures.is_empty() && figures.len() <= wanted.len(), "{by}: {shown}");
        assert_eq!(figures, wanted[..figures.len()], "{by}: {shown}");
        assert!(shown.contains(&format!("{by} ({})", wanted.len())), "{by}: {shown}");
    }
    // By blocks.
    screen.press("1b");
    let shown = screen.shows(&["blocks▼", "site ("]);
    let mut blocks: Vec<u64> =
        snapshot_rows(&collector, holder.pid, "site").iter().map(|row| row["live_blocks"].as_u64().unwrap()).collect();
    blocks.sort_by_key(|blocks| std::cmp::Reverse(*blocks));
    let wanted: Vec<String> = blocks.iter().map(|blocks| highwater_query::units::count(*blocks)).collect();
    let figures: Vec<String> = rows(&shown).iter().map(|cells| cells[3].clone()).collect();
    assert_eq!(figures, wanted[..figures.len()], "{shown}");
    // By name: as text.
    screen.press("2n");
    let shown = screen.shows(&["function▲"]);
    let names: Vec<String> = rows(&shown).iter().map(|cells| cells[4].to_lowercase()).collect();
    assert!(names.len() > 2 && names.is_sorted(), "{shown}");
    screen.press("q");
    assert!(screen.ends().success());
}

#[test]
fn growth_is_since_the_beginning_since_the_last_look_or_from_now_on() {
    let collector = Collector::new();
    let mut holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "--by function --sort growth", (100, 30));
    screen.shows(&["growth▼", "keep_blocks"]);
    holder.tell("keep 1024 1024");
    let of_keep = |screen: &str| rows(screen).into_iter().find(|cells| cells[4].contains("keep_blocks"));
    // The growth of the last look is there for one look only.
    let grown = screen
        .wait("growth", |screen| of_keep(screen).is_some_and(|cells| cells[1] == "+1.0 MiB" && cells[2] == "0 B"));
    assert!(rows(&grown)[0][4].contains("keep_blocks"), "it comes first: {grown}");
    screen.press("0");
    screen.wait("a new beginning", |screen| of_keep(screen).is_some_and(|cells| cells[1] == "0 B"));
    holder.tell("keep 512 1024");
    screen.wait("growth from then on", |screen| of_keep(screen).is_some_and(|cells| cells[1] == "+512.0 KiB"));
    // Another grouping has the same reference.
    screen.press("1");
    screen.wait("sites", |screen| screen.contains("site (") && rows(screen)[0][1] == "+512.0 KiB");
}

#[test]
fn a_pause_stops_all_figures_and_ends_with_the_present_ones() {
    let collector = Collector::new();
    let mut holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "--by function", USUAL);
    screen.shows(&["keep_blocks", "293.0 KiB"]);
    screen.press("p");
    let paused = screen.shows(&["paused"]);
    holder.tell("keep 1000 300");
    // Keys still work: time passes for the view, not for the figures.
    screen.press("s");
    screen.shows(&["growth▼"]);
    screen.press("l");
    let later = screen.shows(&["live▼"]);
    assert_eq!(later, paused);
    screen.press(" ");
    screen.wait("figures", |screen| !screen.contains("paused") && screen.contains("585.9 KiB"));
}

#[test]
fn a_filter_finds_parts_of_names_and_expressions_and_says_what_is_wrong() {
    let collector = Collector::new();
    let holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "--by function", USUAL);
    let all = screen.shows(&["keep_blocks", "keep_in_thread"]);
    screen.press("/KEEP_B\r");
    let found = screen.shows(&["filter: KEEP_B", "(1 of "]);
    assert_eq!(rows(&found).len(), 1, "{found}");
    assert!(rows(&found)[0][4].contains("keep_blocks"), "{found}");
    // The filter stands there to be changed.
    screen.press("/\x15/keep_(blocks|in_thread)$/\r");
    let found = screen.shows(&["(2 of "]);
    assert_eq!(rows(&found).len(), 2, "{found}");
    screen.press("/\x15/keep_(/\r");
    screen.shows(&["not a regular expression", "unclosed group"]);
    screen.press("\x1b");
    screen.wait("the filter before", |screen| screen.contains("(2 of ") && !screen.contains("unclosed"));
    screen.press("/\x15no such name\r");
    screen.shows(&["The filter finds nothing", "(0 of "]);
    screen.press("\x1b");
    screen.wait("all rows", |screen| rows(screen).len() == rows(&all).len() && !screen.contains("filter:"));
}

#[test]
fn enter_opens_the_stack_of_a_site_and_the_callers_of_a_function() {
    let collector = Collector::new();
    let holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "", USUAL);
    screen.shows(&["keep_blocks"]);
    // The chosen row stays chosen; its callers are visible at 80 columns.
    let line = screen.text().lines().find(|line| line.contains("keep_blocks")).unwrap().to_owned();
    assert!(line.ends_with("keep_blocks  holder.c:23 ← main"), "{line}");
    screen.press("/keep_blocks\r\r");
    let stack = screen.shows(&["live 293.0 KiB", "1,000 blocks", "Esc back"]);
    assert!(stack.contains("programs/holder.c:23") && stack.contains("← main  "), "{stack}");
    leave_panel_and_filter(&mut screen);
    screen.press("2/keep_in_thread\r");
    screen.shows(&["function (1 of"]);
    screen.press("\r");
    let around = screen.shows(&["with callees 9.8 KiB", "callers", "callees", "sites"]);
    let document = collector.json(&format!("snapshot --pid {} --by function --top 0", holder.pid));
    let function = support::live::function_in(&document, "keep_in_thread");
    assert_eq!(function, (100, 10_000));
    let caller = around.lines().find(|line| line.ends_with(" thread")).unwrap_or_else(|| panic!("{around}"));
    assert!(caller.contains("9.8 KiB") && caller.contains("100"), "{around}");
    // Threads have no sites in a look.
    leave_panel_and_filter(&mut screen);
    screen.press("t\x1b[B\r");
    screen.shows(&["highwater snapshot --pid", "--filter thread:"]);
}

/// Two keys, one after the other: a terminal takes two escapes in one piece for another key.
fn leave_panel_and_filter(screen: &mut TerminalScreen) {
    screen.press("\x1b");
    screen.wait("the rows", |screen| !screen.contains("Esc back") && screen.contains("filter:"));
    screen.press("\x1b");
    screen.wait("no filter", |screen| !screen.contains("filter:"));
}

#[test]
fn it_fits_any_size() {
    let collector = Collector::new();
    let holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "", USUAL);
    screen.shows(&["keep_blocks"]);
    for size in [(40, 10), (200, 60), (30, 5), USUAL] {
        screen.resize(size);
        let shown = screen.wait("the new size", |screen| {
            screen.lines().last().is_some_and(|line| line.contains("q quit"))
                && (screen.contains("keep_blocks") || size.1 < 10)
                && screen.contains("91.6 MiB")
        });
        assert_eq!(shown.lines().count(), usize::from(size.1), "{shown}");
        assert!(shown.contains("holder (pid "), "{shown}");
    }
    screen.resize((40, 10));
    screen.wait("few columns", |screen| !screen.contains("lately") && screen.contains("growth"));
    screen.press("?");
    screen.shows(&["one row up", "Esc back"]);
    screen.press("\x1b[F");
    screen.shows(&["~       an estimate"]);
    screen.press("\x1b");
    screen.wait("the rows", |screen| screen.contains("growth") && !screen.contains("an estimate"));
}

#[test]
fn names_of_any_kind_stay_in_their_place() {
    let place = Place::new();
    let stack = |name: &str| json!([{"function": name, "file": "/src/漢字.rs", "line": 7}, {"function": "呼び出し元"}]);
    let names = [
        "漢字".repeat(30),
        "ev\u{1b}[2J\u{1b}[H\u{202e}il\r\n".to_owned(),
        "e\u{301}".repeat(50),
        "👩‍👩‍👧 family".to_owned(),
    ];
    let allocate = |(at, name): (usize, &String)| json!({"event": "allocate", "address": at + 1, "size": 4000 - 1000 * at, "time_ns": at, "stack": stack(name)});
    let events: Vec<Value> = names.iter().enumerate().map(allocate).collect();
    let file = snapshot_file(&place.import("wide.hw", &events), &When::End);
    let watched = process(7, "ev\u{1b}[2Jil 漢字", ProcessState::Live);
    FakeCollector::new(&place.file("socket"), move |request| match request {
        CollectorRequest::Processes(_) => {
            Reply::done(json!({})).with(list(std::slice::from_ref(&watched), |process| process.to_json()))
        }
        _ => Reply::done(cut().to_json()).with(file.clone()),
    });
    let mut screen = TerminalScreen::start(&place.command(["watch", "--socket", "socket"]), USUAL);
    for size in [USUAL, (40, 10), (61, 15), (20, 6)] {
        screen.resize(size);
        let shown = screen.wait("the new size", |screen| {
            screen.lines().count() == usize::from(size.1)
                && screen.lines().last().is_some_and(|line| line.starts_with("? help"))
                && screen.contains("3.9 KiB")
        });
        // The emulator does not show the sign in place of a control character.
        assert!(shown.starts_with("ev[2Jil 漢字"), "{shown}");
        assert!(shown.contains("2.9 KiB") || size.1 < 8, "{shown}");
        let is_wide = |line: &&str| unicode_width::UnicodeWidthStr::width(*line) > size.0.into();
        assert_eq!(shown.lines().find(is_wide), None, "{size:?}");
    }
    // A hostile name is shown, and does nothing.
    screen.resize(USUAL);
    screen.shows(&["ev[2J[Hil"]);
    assert!(screen.written().contains("ev\u{fffd}[2J\u{fffd}[H\u{fffd}il"), "{:?}", screen.written());
    screen.press("\x1b[B\r");
    screen.shows(&["live 2.9 KiB", "呼び出し元"]);
    screen.press("q");
    assert!(screen.ends().success());
}

#[test]
fn every_way_out_restores_the_terminal() {
    let collector = Collector::new();
    let holder = holder(&collector);
    for way in ["q", "\x03", "\x1b", "TERM", "INT", "HUP"] {
        let mut screen = watch(&collector, holder.pid, "", USUAL);
        screen.shows(&["keep_blocks"]);
        wait_for("the terminal to be taken", || screen.is_taken());
        match way {
            "TERM" => signal(screen.child.id(), Signal::TERM),
            "INT" => signal(screen.child.id(), Signal::INT),
            "HUP" => signal(screen.child.id(), Signal::HUP),
            keys => screen.press(keys),
        }
        assert!(screen.ends().success(), "{way:?}");
        let left = screen.shows(&["holder (pid ", "keep_blocks  programs/holder.c:23"]);
        assert!(!left.contains("? help"), "what was seen last stays, as plain lines: {left}");
    }
}

#[test]
fn a_suspended_view_gives_the_terminal_back_and_takes_it_again() {
    let collector = Collector::new();
    let holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "", USUAL);
    screen.shows(&["keep_blocks"]);
    for way in ["\x1a", "TSTP"] {
        wait_for("the terminal to be taken", || screen.is_taken());
        match way {
            "TSTP" => signal(screen.child.id(), Signal::TSTP),
            keys => screen.press(keys),
        }
        wait_for("the terminal to be restored", || screen.is_restored());
        wait_for("the process to be stopped", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", screen.child.id())).unwrap();
            stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
        });
        signal(screen.child.id(), Signal::CONT);
        screen.shows(&["keep_blocks", "? help"]);
    }
    screen.press("q");
    assert!(screen.ends().success());
}

#[test]
fn the_end_of_the_process_stays_on_the_screen() {
    let collector = Collector::new();
    let mut holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "--by function", USUAL);
    screen.shows(&["keep_blocks"]);
    holder.kill();
    let shown = screen.shows(&["exited: this is what it held at its end", "keep_blocks", "293.0 KiB"]);
    assert!(shown.contains("? help"), "{shown}");
    // Keys still work.
    screen.press("1");
    screen.shows(&["site (", "exited"]);
    screen.press("q");
    assert!(screen.ends().success());
}

#[test]
fn a_collector_that_is_gone_is_reported_and_asked_again() {
    let mut collector = Collector::new();
    let holder = holder(&collector);
    let mut screen = watch(&collector, holder.pid, "--by function", USUAL);
    screen.shows(&["keep_blocks"]);
    signal(collector.child.id(), Signal::KILL);
    collector.child.wait().unwrap();
    screen.shows(&["no look, trying again", "keep_blocks"]);
    collector.restart();
    screen.wait("looks", |screen| !screen.contains("no look") && screen.contains("keep_blocks"));
    screen.press("q");
    assert!(screen.ends().success());
}

#[test]
fn without_colours_there_are_none() {
    let collector = Collector::new();
    let holder = holder(&collector);
    let coloured = watch(&collector, holder.pid, "", USUAL);
    coloured.shows(&["› "]);
    assert!(coloured.written().contains("\x1b[7m") && coloured.written().contains("\x1b[34m"));
    let line = format!("watch --pid {} --interval 0.1", holder.pid);
    let mut command = collector.command(line.split_whitespace());
    let mut plain = TerminalScreen::start(command.env("NO_COLOR", "1"), USUAL);
    plain.shows(&["keep_blocks"]);
    plain.press("q");
    plain.ends();
    let written = plain.written();
    let styles = written
        .split("\x1b[")
        .skip(1)
        .filter(|rest| rest.find(|c: char| c.is_ascii_alphabetic()).is_some_and(|at| rest[at..].starts_with('m')));
    assert_eq!(styles.count(), 0, "{written:?}");
}

#[test]
fn a_pipe_a_count_and_plain_print_lines() {
    let collector = Collector::new();
    let holder = holder(&collector);
    let line = format!("watch --pid {} --interval 0.05 --count 2", holder.pid);
    let piped = collector.highwater(&line).succeeded().stdout_text();
    assert_eq!(piped.matches("growth").count(), 2, "{piped}");
    assert!(!piped.contains('\x1b'), "{piped:?}");
    let mut command = collector.command(line.split_whitespace());
    let mut screen = TerminalScreen::start(command.arg("--plain"), USUAL);
    assert!(screen.ends().success());
    screen.shows(&["growth", "keep_blocks"]);
    assert!(!screen.written().contains("\x1b[?1049h"), "{:?}", screen.written());
    let mut counted = TerminalScreen::start(&collector.command(line.split_whitespace()), USUAL);
    assert!(counted.ends().success());
    assert!(counted.written().contains("\x1b[?1049h"), "{:?}", counted.written());
}

#[test]
fn estimates_are_marked() {
    let collector = Collector::new();
    let mut holder = collector.holder(&["--sample", "4KiB"]);
    holder.tell("keep 10000 300");
    let screen = watch(&collector, holder.pid, "--by function", (100, 30));
    let shown = screen.shows(&["~ estimates, 1 in 4 KiB", "keep_blocks"]);
    let row = rows(&shown).into_iter().find(|cells| cells[4].contains("keep_blocks")).unwrap();
    assert!(row[0].starts_with('~') && row[3].starts_with('~'), "{shown}");
}

/// A real server: `redis-server`, filled and then stopped, so that its figures are the same for both looks.
#[test]
fn redis_shows_what_a_snapshot_shows() {
    let (place, collector) = (Place::new(), Collector::new());
    let socket = place.file("redis.sock").display().to_string();
    let mut command = collector.command(["run", "-q", "--", "redis-server", "--port", "0", "--unixsocket", &socket]);
    command.args(["--save", "", "--dir", "/tmp", "--enable-debug-command", "yes"]).stdout(Stdio::null());
    let mut server = command.spawn().unwrap();
    let ask = |words: &[&str]| Command::new("redis-cli").args(["-s", &socket]).args(words).output().unwrap();
    wait_for("redis", || ask(&["ping"]).stdout.starts_with(b"PONG"));
    assert!(ask(&["debug", "populate", "20000", "key", "100"]).stdout.starts_with(b"OK"));
    let processes = collector.json("ps");
    let pid = processes["processes"][0]["pid"].as_u64().unwrap() as u32;
    signal(pid, Signal::STOP);
    let mut screen = watch(&collector, pid, "", (140, 40));
    let shown = screen.shows(&["redis-server (pid ", "RSS ", "site ("]);
    // Sites that look the same are one row.
    let sites = collector.json(&format!("watch --pid {pid} --count 1 --top 0"));
    let wanted: Vec<String> =
        sites["sites"].as_array().unwrap().iter().map(|row| in_bytes(&row["live_bytes"])).collect();
    let figures: Vec<String> = rows(&shown).iter().map(|cells| cells[0].clone()).collect();
    assert!(figures.len() > 5, "{shown}");
    assert_eq!(figures, wanted[..figures.len()], "{shown}");
    screen.press("2");
    let shown = screen.shows(&["function ("]);
    let expected = snapshot_rows(&collector, pid, "function");
    let wanted: Vec<String> = expected.iter().map(|row| in_bytes(&row["live_bytes"])).collect();
    let figures: Vec<String> = rows(&shown).iter().map(|cells| cells[0].clone()).collect();
    assert!(figures.len() > 5, "{shown}");
    assert_eq!(figures, wanted[..figures.len()], "{shown}");
    // Twenty more pages do not leave the table.
    (0..20).for_each(|_| screen.press("\x1b[6~"));
    screen.press("\x1b[F");
    screen.wait("the last row", |screen| rows(screen).last().is_some_and(|cells| cells[0] == *wanted.last().unwrap()));
    screen.press("q");
    assert!(screen.ends().success());
    signal(pid, Signal::CONT);
    signal(pid, Signal::TERM);
    assert!(server.wait().is_ok());
}

/// `cargo test` builds the examples; with `--test` it does not.
fn example_server() -> PathBuf {
    let path = Path::new(HIGHWATER).parent().unwrap().join("examples/server");
    assert!(path.exists(), "{} is not built: cargo build -p highwater --examples", path.display());
    path
}

#[test]
fn a_server_that_leaks_shows_where() {
    let collector = Collector::new();
    let mut server = Command::new(example_server());
    let mut server =
        server.arg("600").env("HIGHWATER_SOCKET", collector.socket()).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the server", || collector.process(server.id())["state"] == "live");
    let mut screen = watch(&collector, server.id(), "--sort growth", USUAL);
    // Once the cache is full, only sessions grow.
    screen.shows(&["976.6 KiB"]);
    screen.press("0");
    screen.wait("the leak", |screen| {
        let first = rows(screen).into_iter().next();
        first.is_some_and(|cells| cells[1].ends_with("KiB") && cells[4].contains("open:21"))
    });
    screen.press("7");
    screen.shows(&["type (", "HashMap<u64, server::Session>"]);
    // The end of a whole stack: what the function called until memory was allocated.
    screen.press("1\r\x1b[F");
    screen.shows(&["Esc back", "  → "]);
    signal(server.id(), Signal::TERM);
    server.wait().unwrap();
    screen.shows(&["exited"]);
    assert!(test_kill_process(Pid::from_child(&screen.child)).is_ok(), "it stays until the user quits");
}
