//! `highwater rss`: rows that add up to the RSS of a process, against programs that know their own memory.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use support::live::{Collector, Holder, wait_for};
use support::recorded::{Ended, run};
use support::{HIGHWATER, Place, copy_program, programs};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// A program with memory of known shapes: `tests/programs/resident.c`.
struct Resident {
    collector: Collector,
    holder: Holder,
}

impl Resident {
    fn new() -> Self {
        Self::with(&[], &[])
    }

    fn with(options: &[&str], environment: &[(&str, &str)]) -> Self {
        let collector = Collector::new();
        let mut command = collector.command(["run", "-q"]);
        command.args(options).arg("--").arg(programs::c("resident")).envs(environment.iter().copied());
        let holder = Holder::start(command);
        Self { collector, holder }
    }

    /// Its answer to an order: its RSS afterwards.
    fn order(&mut self, order: &str) -> u64 {
        let answer = self.holder.tell(order);
        answer.strip_prefix("rss ").unwrap_or_else(|| panic!("{order}: {answer}")).parse().unwrap()
    }

    #[track_caller]
    fn rss(&self) -> Value {
        let answer = self.collector.json(&format!("rss --pid {}", self.holder.pid));
        adds_up(&answer);
        answer
    }

    fn text(&self, options: &str) -> String {
        self.collector.highwater(&format!("rss --pid {} {options}", self.holder.pid)).succeeded().stdout_text()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The resident bytes of a row.
fn row(answer: &Value, key: &str) -> u64 {
    let rows = answer["rows"].as_array().unwrap();
    rows.iter().find(|row| row["key"] == key).map_or(0, |row| number(&row["resident_bytes"]))
}

fn finding<'a>(answer: &'a Value, key: &str) -> Option<&'a Value> {
    answer["findings"].as_array().unwrap().iter().find(|finding| finding["key"] == key)
}

/// The site with this name.
#[track_caller]
fn site<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let sites = answer["sites"].as_array().unwrap();
    sites.iter().find(|site| site["key"] == name).unwrap_or_else(|| panic!("no site {name} in {answer:#}"))
}

/// Each resident byte is in one row, and the sum is the kernel's RSS. Returns the bytes that are not explained.
#[track_caller]
fn adds_up(answer: &Value) -> u64 {
    let rows = answer["rows"].as_array().unwrap();
    let sum: u64 = rows.iter().map(|row| number(&row["resident_bytes"])).sum();
    assert_eq!(sum, number(&answer["sum_bytes"]));
    let (before, after) = (number(&answer["rss_bytes"]), number(&answer["rss_after_bytes"]));
    let uncertain = number(&answer["uncertain_bytes"]);
    assert!(
        sum + uncertain >= before.min(after) && sum <= before.max(after) + uncertain,
        "the sum is {sum} ± {uncertain}, the RSS {before} and {after}: {answer:#}"
    );
    assert_eq!(sum - row(answer, "agent"), number(&answer["without_agent_bytes"]));
    row(answer, "other")
}

/// Two figures that differ by at most a percentage of the second.
#[track_caller]
fn about(found: u64, expected: u64, percent: u64) {
    assert!(found.abs_diff(expected) * 100 <= expected * percent, "{found} is not about {expected}");
}

#[test]
fn rows_of_a_live_program_add_up_to_its_rss() {
    let mut resident = Resident::new();
    let own = resident.order("map 2000");
    let answer = resident.rss();
    about(number(&answer["rss_bytes"]), own, 1);
    let rest = adds_up(&answer);
    assert!(rest < MIB, "{rest} bytes are not explained: {answer:#}");
    assert_eq!(answer["knows_every_block"], true);
    assert_eq!(answer["reason"], "request");
    assert!(answer["note"].is_null());
    assert_eq!(answer["source"]["pid"], resident.holder.pid);
    let mapped = site(&answer, "map_pages");
    assert_eq!((number(&mapped["live_bytes"]), number(&mapped["resident_bytes"])), (2000 * PAGE, 2000 * PAGE));
    assert_eq!(mapped["is_mapping"], true);
    let text = resident.text("");
    for part in
        ["RSS", "resident", "share", "live blocks", "sum", "without Highwater's agent", "map_pages", "page tables"]
    {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn memory_that_was_never_touched_or_given_back_is_not_resident() {
    let mut resident = Resident::new();
    resident.order("untouched 1024");
    resident.order("map 4096");
    resident.order("giveback 1000 2048");
    let answer = resident.rss();
    let untouched = site(&answer, "allocate_untouched");
    assert_eq!(number(&untouched["live_bytes"]), 1024 * MIB);
    assert!(number(&untouched["resident_bytes"]) <= 2 * PAGE, "{untouched}");
    assert_eq!(number(&site(&answer, "map_pages")["resident_bytes"]), 2048 * PAGE);
    assert!(number(&answer["untouched_block_bytes"]) > 1023 * MIB, "{answer:#}");
    assert!(number(&answer["untouched_mapping_bytes"]) >= 2048 * PAGE, "{answer:#}");
    let finding = finding(&answer, "untouched").unwrap_or_else(|| panic!("{answer:#}"));
    let sentence = finding["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("1024.0 MiB allocated by `allocate_untouched`")
            || sentence.starts_with("1.0 GiB allocated by `allocate_untouched`"),
        "{sentence}"
    );
}

#[test]
fn few_blocks_pin_as_many_pages_as_are_returned_when_they_are_freed() {
    let mut resident = Resident::new();
    resident.order("sparse 400000 200 40");
    let before = resident.order("trim");
    let answer = resident.rss();
    let pinning = site(&answer, "pin_block");
    assert_eq!((number(&pinning["blocks"]), number(&pinning["live_bytes"])), (10_000, 2_000_000));
    let pinned = number(&pinning["pinned_bytes"]);
    let finding = finding(&answer, "pinned").unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!((number(&finding["bytes"]), &finding["site"]), (pinned, &pinning["id"]));
    assert!(finding["sentence"].as_str().unwrap().starts_with("10,000 blocks of `pin_block` ("), "{finding}");
    let text = resident.text("--pinned");
    let first = text.lines().skip_while(|line| !line.contains("pinned  ")).nth(1).unwrap_or_default();
    assert!(first.contains("pin_block") && first.contains("10,000"), "{text}");
    resident.order("release");
    let after = resident.order("trim");
    about(pinned, before - after, 2);
}

#[test]
fn what_malloc_trim_would_return_is_what_it_returns() {
    let mut resident = Resident::new();
    resident.order("sparse 400000 200 40");
    let before = resident.order("rss");
    let answer = resident.rss();
    let predicted = number(&answer["allocator"]["trim_bytes"]);
    let finding = finding(&answer, "trim").unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(number(&finding["bytes"]), predicted);
    // Reading the process has not changed it.
    about(resident.order("rss"), before, 1);
    let after = resident.order("trim");
    let percent = if answer["allocator"]["trim_is_upper_bound"] == true { 6 } else { 1 };
    about(predicted, before - after, percent);
    assert!(self::finding(&resident.rss(), "trim").is_none(), "nothing is left to be returned");
}

#[test]
fn a_process_in_order_has_no_advice() {
    let mut resident = Resident::new();
    resident.order("map 8000");
    let answer = resident.rss();
    for key in ["trim", "slack", "arenas", "untouched", "pinned", "cached_stacks", "swap", "unexplained"] {
        assert!(finding(&answer, key).is_none(), "{answer:#}");
    }
}

#[test]
fn arenas_of_many_threads_and_their_stacks_are_found() {
    // More arenas than the machine has processors for.
    let mut resident = Resident::with(&[], &[("GLIBC_TUNABLES", "glibc.malloc.arena_max=64")]);
    resident.order("threads 64 1048576");
    let answer = resident.rss();
    assert!(number(&answer["allocator"]["arenas"]) >= 32, "{answer:#}");
    let finding = finding(&answer, "arenas").unwrap_or_else(|| panic!("{answer:#}"));
    assert!(finding["sentence"].as_str().unwrap().contains("MALLOC_ARENA_MAX"), "{finding}");
    assert!(row(&answer, "stacks") >= 64 * 2 * PAGE, "{answer:#}");
    let mut resident = Resident::new();
    resident.order("threads 200 0");
    let answer = resident.rss();
    assert!(row(&answer, "stacks") >= 200 * (64 << 10), "{answer:#}");
    assert_eq!(number(&answer["beside"]["threads"]), 201);
}

#[test]
fn a_snapshot_file_has_the_breakdown_too() {
    let mut resident = Resident::new();
    resident.order("sparse 40000 200 40");
    let pid = resident.holder.pid;
    let collector = &resident.collector;
    collector.highwater(&format!("snapshot --pid {pid} -o now.hw")).succeeded();
    collector.highwater("check now.hw").succeeded();
    let answer = collector.json("rss now.hw");
    adds_up(&answer);
    assert_eq!(number(&site(&answer, "pin_block")["blocks"]), 1000);
    assert_eq!(answer["instants"].as_array().unwrap().len(), 1);
    for options in ["--pinned", "--by type", "--by function", "--by module --top 3", "--at end", "--stacks full"] {
        let text = collector.highwater(&format!("rss now.hw {options}")).succeeded().stdout_text();
        assert!(text.contains("live blocks"), "{options}: {text}");
    }
    assert_eq!(resident.collector.json(&format!("rss --pid {pid} --by function"))["by"], "function");
    collector.highwater(&format!("snapshot --pid {pid} -o sites.json")).succeeded();
    let ended = collector.highwater("rss sites.json");
    assert_ne!(ended.shell_status(), 0);
}

#[test]
fn a_recording_has_breakdowns_and_says_if_the_highest_rss_has_none() {
    let place = Place::new();
    let mut command = Command::new(HIGHWATER);
    command.args(["record", "-o", "app.hw", "--"]).arg(programs::c("resident")).current_dir(place.path());
    let mut holder = Holder::start(command);
    holder.tell("sparse 400000 200 40");
    holder.tell("release");
    holder.tell("trim");
    // On a busy machine the recorder looks less often; it needs the time for one more look.
    std::thread::sleep(std::time::Duration::from_secs(6));
    holder.finish();
    let rss = |options: &[&str]| {
        let mut command = Command::new(HIGHWATER);
        run(command.args(["rss", "app.hw"]).args(options).current_dir(place.path()).stdin(Stdio::null())).succeeded()
    };
    let answer = rss(&["--json"]).json();
    adds_up(&answer);
    let instants = answer["instants"].as_array().unwrap();
    assert_eq!(instants.last().unwrap()["reason"], "end");
    let highest = instants.iter().map(|instant| number(&instant["rss_bytes"])).max().unwrap();
    assert_eq!(number(&answer["rss_bytes"]), highest);
    let is_missed = highest * 100 < number(&answer["rss_peak_bytes"]) * 95;
    let text = rss(&[]).stdout_text();
    assert_eq!(text.contains("not known"), is_missed, "{text}");
    let end = rss(&["--at", "end", "--json"]).json();
    assert_eq!(end["reason"], "end");
    assert!(number(&end["rss_bytes"]) < 30 * MIB, "{end:#}");
}

#[test]
fn a_file_without_a_breakdown_is_refused_with_the_reason() {
    let place = Place::new();
    std::fs::write(place.file("events.jsonl"), "{\"t\":1,\"e\":\"a\",\"p\":\"0x10\",\"s\":8}\n").unwrap();
    let ended = run(Command::new(HIGHWATER).args(["rss", "events.jsonl"]).current_dir(place.path()));
    assert_eq!(ended.shell_status(), 1, "{}", ended.stderr_text());
    assert_eq!(ended.stderr_text().lines().count(), 1, "{}", ended.stderr_text());
}

#[test]
fn a_snapshot_that_a_program_takes_of_itself_has_the_breakdown() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    holder.tell("keep 10000 1000");
    assert_eq!(holder.tell("snapshot warm"), "0");
    wait_for("the snapshot", || !collector.json("snapshots")["snapshots"].as_array().unwrap().is_empty());
    collector.highwater("snapshots get 1 -o kept.hw").succeeded();
    let answer = collector.json("rss kept.hw");
    adds_up(&answer);
    assert_eq!(answer["reason"], "mark");
    assert_eq!(number(&site(&answer, "keep_blocks")["blocks"]), 10_000);
}

/// `highwater rss` without a collector.
fn alone(arguments: &[&str]) -> Ended {
    let mut command = Command::new(HIGHWATER);
    command.arg("rss").args(arguments).env("HIGHWATER_SOCKET", "/nonexistent/highwater.sock");
    run(command.stdin(Stdio::null()))
}

#[test]
fn a_program_without_the_agent_is_read_from_outside() {
    let mut holder = Holder::start(Command::new(programs::c("resident")));
    holder.tell("map 2000");
    let pid = holder.pid.to_string();
    let answer = alone(&["--pid", &pid, "--json"]).succeeded().json();
    adds_up(&answer);
    assert_eq!(answer["knows_every_block"], false);
    assert!(answer["free_bytes"].is_null());
    assert_eq!(row(&answer, "agent"), 0);
    assert_eq!(answer["sites"].as_array().unwrap().len(), 0);
    assert!(answer["note"].as_str().unwrap().contains("'highwater run'"), "{answer:#}");
    let text = alone(&["--pid", &pid]).succeeded().stdout_text();
    assert_eq!(text.matches("'highwater run'").count(), 1, "{text}");
    // Another collector does not know it either.
    let collector = Collector::new();
    assert_eq!(collector.json(&format!("rss --pid {pid}"))["knows_every_block"], false);
}

#[test]
fn processes_that_cannot_be_read_are_refused_in_one_line() {
    let line_of = |ended: Ended| {
        assert_eq!(ended.shell_status(), 1, "{}{}", ended.stdout_text(), ended.stderr_text());
        let text = ended.stderr_text();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    assert!(line_of(alone(&["--pid", "999999999"])).contains("there is no process 999999999"));
    assert!(line_of(alone(&["--name", "no such program anywhere"])).contains("no process is called"));
    let without = alone(&[]);
    assert_eq!(without.shell_status(), 2);
    assert!(without.stderr_text().contains("--pid"), "{}", without.stderr_text());
    // Another user's process. Only the superuser can become another user.
    if rustix::process::geteuid().is_root() {
        let place = Place::public();
        let copy = place.file("highwater");
        copy_program(Path::new(HIGHWATER), &copy);
        let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let mut command = Command::new(other[0]);
        command.args(&other[1..]).arg(&copy).args(["rss", "--pid", &std::process::id().to_string()]);
        let ended = run(command.env("HIGHWATER_SOCKET", "/nonexistent/highwater.sock").stdin(Stdio::null()));
        let line = line_of(ended);
        assert!(line.contains("has an RSS of") && line.contains("its own user and by root only"), "{line}");
    }
}

#[test]
fn a_process_that_ends_while_it_is_read_never_hangs_the_command() {
    let mut resident = Resident::new();
    resident.order("map 20000");
    let pid = resident.holder.pid;
    resident.holder.kill();
    let ended = resident.collector.highwater(&format!("rss --pid {pid}"));
    assert_ne!(ended.shell_status(), 0);
    let text = ended.stderr_text();
    assert!(text.contains("ended") || text.contains("no process"), "{text}");
    for round in 0..10 {
        let mut resident = Resident::new();
        resident.order("map 20000");
        let pid = resident.holder.pid;
        let mut command = resident.collector.command(["rss", "--pid", &pid.to_string()]);
        let reader = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2 * round));
        resident.holder.kill();
        let output = reader.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_program_that_executes_others_is_never_a_mixture_of_two() {
    // A shell that executes itself again and again.
    let script = "n=$((${N:-0}+1)); export N=$n; test $n -lt 3000 && exec sh -c \"$0\" \"$0\"; exec sleep 100";
    let mut looping = Command::new("sh").args(["-c", script, script]).stdin(Stdio::null()).spawn().unwrap();
    let pid = looping.id().to_string();
    for _ in 0..40 {
        let ended = alone(&["--pid", &pid, "--json"]);
        if ended.status.success() {
            adds_up(&ended.json());
        } else {
            assert_eq!(ended.stderr_text().lines().count(), 1, "{}", ended.stderr_text());
        }
    }
    let _ = looping.kill();
    let _ = looping.wait();
}

#[test]
fn a_forked_child_is_read_without_its_parents_blocks() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    holder.tell("keep 10000 1000");
    let child = holder.fork();
    holder.tell("keep 100 1000");
    wait_for("the child", || collector.process(child)["state"] == "live");
    let answer = collector.json(&format!("rss --pid {child}"));
    adds_up(&answer);
    assert_eq!(answer["knows_every_block"], false);
    assert!(answer["note"].as_str().unwrap().contains("forked"), "{answer:#}");
    holder.kill_all(&[child]);
}

#[test]
fn sampled_blocks_show_no_free_memory() {
    let resident = Resident::with(&["--sample", "64KiB"], &[]);
    let answer = resident.rss();
    assert_eq!(answer["knows_every_block"], false);
    assert!(answer["free_bytes"].is_null() && answer["note"].as_str().unwrap().contains("sampled"), "{answer:#}");
}

#[test]
fn watch_shows_the_rows_above_its_table() {
    let mut resident = Resident::new();
    resident.order("map 5000");
    let pid = resident.holder.pid;
    let text = resident.collector.highwater(&format!("watch --pid {pid} --count 1")).succeeded().stdout_text();
    let line = text.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with("RSS ") && line.contains("mappings 19.5 + ") && line.contains(" + agent "), "{text}");
    let look = resident.collector.json(&format!("watch --pid {pid} --count 1"));
    let rows = look["rss"]["rows"].as_object().unwrap();
    let sum: u64 = rows.values().map(number).sum();
    assert_eq!(sum, number(&look["rss"]["sum_bytes"]));
}
