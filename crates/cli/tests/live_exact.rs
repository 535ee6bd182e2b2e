//! Compares snapshots of real programs with those programs' own counts.

mod support;

use serde_json::Value;
use std::process::Command;
use support::live::{Collector, Holder, function_in};
use support::programs;

#[test]
fn what_a_program_holds_is_what_the_snapshot_shows() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    assert_eq!(holder.holds("keep 1000 100"), (1000, 100_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (1000, 100_000));
    // A reallocated block belongs to the function that resized it.
    assert_eq!(holder.holds("grow"), (1000, 200_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (0, 0));
    assert_eq!(collector.function(pid, "grow_blocks"), (1000, 200_000));
    assert_eq!(holder.holds("drop 400"), (600, 120_000));
    assert_eq!(collector.function(pid, "grow_blocks"), (600, 120_000));
    assert_eq!(holder.holds("keep 5 1000000"), (605, 5_120_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (5, 5_000_000));
    holder.tell("threads 3 50");
    let snapshot = collector.json(&format!("snapshot --pid {pid} --by thread --top 0"));
    let keepers: Vec<&Value> =
        snapshot["threads"].as_array().unwrap().iter().filter(|thread| thread["name"] == "keeper").collect();
    assert_eq!(keepers.len(), 3, "{snapshot}");
    assert!(keepers.iter().all(|thread| thread["live_blocks"] == 50 && thread["live_bytes"] == 5000), "{snapshot}");
    // The totals are those of the process: freed blocks count, too.
    let totals = &snapshot["totals"];
    let figure = |name: &str| totals[name].as_u64().unwrap();
    assert_eq!(figure("allocations") - figure("frees"), figure("live_blocks"));
    assert_eq!(figure("allocated_bytes") - figure("freed_bytes"), figure("live_bytes"));
    assert!(figure("allocations") >= 1000 + 5 + 150 && figure("reallocations") >= 1000, "{totals}");
    assert_eq!(snapshot["source"]["sample_rate"], Value::Null);
}

#[test]
fn mappings_are_cut_in_two_moved_and_grown() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    let mapped = || {
        let snapshot = collector.json(&format!("snapshot --pid {pid} --by heap"));
        let heaps = snapshot["heaps"].as_array().unwrap();
        let heap = heaps.iter().find(|heap| heap["name"] == "mmap").unwrap_or_else(|| panic!("{snapshot}"));
        (heap["live_blocks"].as_u64().unwrap(), heap["live_bytes"].as_u64().unwrap() / 4096)
    };
    let (blocks, pages) = mapped();
    holder.tell("map 100");
    assert_eq!(mapped(), (blocks + 1, pages + 100));
    holder.tell("unmap 10 20");
    assert_eq!(mapped(), (blocks + 2, pages + 80));
    holder.tell("unmap 0 10");
    assert_eq!(mapped(), (blocks + 1, pages + 70));
    holder.tell("map 8");
    holder.tell("remap 8 4000");
    assert_eq!(mapped(), (blocks + 2, pages + 4070));
    holder.tell("unmap 0 4000");
    assert_eq!(mapped(), (blocks + 1, pages + 70));
}

#[test]
fn reserved_address_space_is_no_memory_until_it_can_be_touched() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    // Mapped pages and reserved pages.
    let pages = || {
        let snapshot = collector.json(&format!("snapshot --pid {pid} --by heap"));
        let heaps = snapshot["heaps"].as_array().unwrap();
        let mapped =
            heaps.iter().find(|heap| heap["name"] == "mmap").map_or(0, |heap| heap["live_bytes"].as_u64().unwrap());
        (mapped / 4096, snapshot["source"]["reserved_bytes"].as_u64().unwrap() / 4096)
    };
    let (mapped, reserved) = pages();
    for (order, expected) in [
        ("reserve 10000", (0, 10000)),
        ("commit 0 100", (100, 9900)),
        ("commit 50 100", (150, 9850)),
        ("decommit 140 20", (140, 9860)),
        ("commit 9000 10", (150, 9850)),
        ("unmap 8990 15", (145, 9840)),
        ("unmap 0 10000", (0, 0)),
        ("reserve 8", (0, 8)),
        ("remap 8 4000", (0, 4000)),
    ] {
        holder.tell(order);
        assert_eq!(pages(), (mapped + expected.0, reserved + expected.1), "after {order}");
    }
    let report = collector.highwater(&format!("snapshot --pid {pid}")).succeeded().stdout_text();
    assert!(report.contains("not counted") && report.contains("of reserved address space"), "{report}");
}

#[test]
fn every_ending_gives_the_file_it_names() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    let pid = holder.pid;
    holder.tell("keep 1000 100");
    holder.tell("map 100");
    for ending in ["hw", "pb.gz", "json", "svg", "folded"] {
        collector.highwater(&format!("snapshot --pid {pid} -o held.{ending}")).succeeded();
    }
    // The reading commands open it; it has every block with its site, time and thread.
    let report = collector.json("report held.hw --by function --top 0");
    assert_eq!(function_in(&report, "keep_blocks"), (1000, 100_000));
    let blocks: Value = serde_json::from_slice(&std::fs::read(collector.place.file("held.json")).unwrap()).unwrap();
    let blocks = blocks["blocks"].as_array().unwrap();
    let of_a_hundred: Vec<&Value> = blocks.iter().filter(|block| block["size"] == 100).collect();
    assert_eq!(of_a_hundred.len(), 1000);
    for block in &of_a_hundred {
        assert!(block["address"].as_str().is_some_and(|address| address.starts_with("0x")), "{block}");
    }
    collector.highwater("check held.hw").succeeded();
    let top = Command::new("go")
        .args(["tool", "pprof", "-top", "-nodefraction=0", "-sample_index=inuse_space"])
        .arg(collector.place.file("held.pb.gz"))
        .env("PPROF_TMPDIR", collector.place.path())
        .output()
        .unwrap();
    let top = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(top.contains("keep_blocks"), "{top}");
    let svg = std::fs::read_to_string(collector.place.file("held.svg")).unwrap();
    assert!(svg.contains("keep_blocks"));
    // Two snapshots, and a snapshot against the process as it is now.
    holder.tell("keep 10 1000");
    let grown = collector.json(&format!("diff held.hw --pid {pid} --by function"));
    assert!(grown.to_string().contains("keep_blocks"), "{grown}");
    let text = collector.highwater(&format!("diff held.hw --pid {pid} --by function")).succeeded().stdout_text();
    let line = text.lines().find(|line| line.contains("keep_blocks")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("+9.8 KiB") && line.contains("+10"), "{line}");
}

#[test]
fn sampled_and_exact_take_turns_while_the_program_runs() {
    let collector = Collector::new();
    let mut holder = collector.holder(&["--sample", "64KiB"]);
    let pid = holder.pid;
    holder.tell("keep 100000 1000");
    let (blocks, bytes) = collector.function(pid, "keep_blocks");
    // About 1,500 samples: within five standard deviations.
    assert!((87_000_000..113_000_000).contains(&bytes), "{bytes}");
    assert!((87_000..113_000).contains(&blocks), "{blocks}");
    assert_eq!(collector.process(pid)["is_estimate"], true);
    assert_eq!(collector.json(&format!("snapshot --pid {pid}"))["source"]["sample_rate"], 65536);
    // Every block from now on. Blocks sampled earlier stay known, and are found when they are freed.
    collector.highwater(&format!("set --pid {pid} --sample off")).succeeded();
    // A thread notices the new rate when it has allocated another 64 KiB.
    holder.tell("keep 10 10000");
    holder.tell("threads 2 500");
    let threads = collector.json(&format!("snapshot --pid {pid} --by function --top 0"));
    assert_eq!(function_in(&threads, "keep_in_thread"), (1000, 100_000));
    holder.tell("drop 100010");
    let (blocks, _) = collector.function(pid, "keep_blocks");
    assert_eq!(blocks, 0, "what was sampled is gone");
    // Sampling again: known blocks stay known, and are found when they are freed.
    holder.tell("keep 1000 100");
    collector.highwater(&format!("set --pid {pid} --sample 1MiB")).succeeded();
    holder.tell("keep 1 10000000");
    holder.tell("drop 1");
    assert_eq!(collector.function(pid, "keep_blocks"), (1000, 100_000));
    holder.tell("drop 1000");
    assert_eq!(collector.function(pid, "keep_blocks"), (0, 0));
}

#[test]
fn a_full_table_says_so_and_the_program_goes_on() {
    let collector = Collector::new();
    let mut holder = collector.holder(&["--max-blocks", "2560"]);
    let pid = holder.pid;
    assert_eq!(holder.holds("keep 100000 100"), (100_000, 10_000_000));
    let (blocks, _) = collector.function(pid, "keep_blocks");
    assert!((2000..=2560).contains(&blocks), "{blocks}");
    let process = collector.process(pid);
    let untracked = process["untracked"].as_u64().unwrap();
    assert!(untracked + blocks >= 100_000, "{process}");
    let shown = collector.highwater(&format!("snapshot --pid {pid}")).succeeded();
    assert!(shown.stderr_text().contains("warning"), "{}", shown.stderr_text());
    // There is room again.
    holder.tell("drop 100000");
    holder.tell("keep 500 100");
    assert_eq!(collector.function(pid, "keep_blocks"), (500, 50_000));
}

#[test]
fn contents_are_read_only_where_both_sides_want_it() {
    let collector = Collector::new();
    let mut closed = collector.holder(&[]);
    closed.tell("keep 10 100");
    let refused = collector.highwater(&format!("snapshot --pid {} --contents", closed.pid));
    assert_eq!(refused.shell_status(), 1);
    assert!(refused.stderr_text().contains("--allow-contents"), "{}", refused.stderr_text());
    let mut open = collector.holder(&["--allow-contents"]);
    open.tell("keep 10 100");
    collector.highwater(&format!("snapshot --pid {} --contents 16 -o held.json", open.pid)).succeeded();
    let document: Value = serde_json::from_slice(&std::fs::read(collector.place.file("held.json")).unwrap()).unwrap();
    let mut contents: Vec<&str> = document["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["size"] == 100)
        .map(|block| block["contents"].as_str().unwrap())
        .collect();
    contents.sort_unstable();
    let expected: Vec<String> = (0..10u8).map(|at| format!("{:02x}", b'a' + at).repeat(16)).collect();
    assert_eq!(contents, expected);
}

#[test]
fn real_programs_agree_with_an_independent_count() {
    let collector = Collector::new();
    // A Python program that holds a million bytes in one block, and prints a line when it does.
    let mut command = collector.command(["run", "-q", "--", "python3", "-c"]);
    command.arg(
        "import os,sys\nheld = [bytearray(1000000) for _ in range(20)]\nprint('pid', os.getpid(), flush=True)\n\
         for line in sys.stdin:\n    print('1 1', flush=True)",
    );
    let holder = Holder::start(command);
    let snapshot = collector.json(&format!("snapshot --pid {} --top 0", holder.pid));
    let of_twenty =
        snapshot["sites"].as_array().unwrap().iter().find(|site| {
            site["live_blocks"] == 20 && site["live_bytes"].as_u64().is_some_and(|bytes| bytes >= 20_000_000)
        });
    assert!(of_twenty.is_some(), "{snapshot}");
    assert!(snapshot["totals"]["live_blocks"].as_u64().unwrap() > 1000);
}

#[test]
fn many_threads_that_come_and_go_keep_their_names() {
    let collector = Collector::new();
    let mut holder = collector.holder(&[]);
    for _ in 0..40 {
        holder.tell("threads 10 5");
        holder.tell("rest");
    }
    let snapshot = collector.json(&format!("snapshot --pid {} --by thread --top 0", holder.pid));
    let keepers = snapshot["threads"].as_array().unwrap().iter().filter(|thread| thread["name"] == "keeper");
    assert_eq!(keepers.clone().count(), 400);
    assert!(keepers.clone().all(|thread| thread["live_blocks"] == 5), "blocks outlive their threads");
    let _ = programs::c("holder");
}

fn pprof(collector: &Collector, arguments: &[&str]) -> String {
    let output = Command::new("go")
        .args(["tool", "pprof"])
        .args(arguments)
        .current_dir(collector.place.path())
        .env("HOME", collector.place.path())
        .env("PPROF_TMPDIR", collector.place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_snapshot_of_all_processes_says_which_is_which() {
    let collector = Collector::new();
    let (mut small, mut large) = (collector.holder(&[]), collector.holder(&[]));
    small.tell("keep 10 100");
    large.tell("keep 1000 100");
    let all = collector.json("snapshot --all");
    let processes = all["processes"].as_array().unwrap();
    let of = |pid: u32| processes.iter().find(|process| process["pid"] == pid).unwrap()["live_bytes"].as_u64().unwrap();
    assert_eq!(processes[0]["pid"], large.pid);
    assert_eq!(of(large.pid) - of(small.pid), 99_000);
    assert_eq!(
        all["live_bytes"].as_u64().unwrap(),
        processes.iter().map(|one| one["live_bytes"].as_u64().unwrap()).sum::<u64>()
    );
    let table = collector.highwater("snapshot --all").succeeded().stdout_text();
    assert!(table.contains(&small.pid.to_string()) && table.contains("holder") && table.contains("all"), "{table}");
    for file in ["all.pb.gz", "all.pb"] {
        collector.highwater(&format!("snapshot --all --per-block -o {file}")).succeeded();
        let tags = pprof(&collector, &["-tags", "-unit=B", file]);
        for text in ["process_name", "holder", "process_id", &small.pid.to_string(), &large.pid.to_string(), "address"]
        {
            assert!(tags.contains(text), "'{text}' is not in:\n{tags}");
        }
        let focus = format!("-tagfocus=process_id={}:{}", small.pid, small.pid);
        let top = pprof(&collector, &["-top", "-unit=B", "-nodefraction=0", &focus, file]);
        let row = top.lines().find(|line| line.contains("keep_blocks")).unwrap_or_else(|| panic!("{top}"));
        assert!(row.trim().starts_with("1000B"), "{top}");
    }
    for (options, word) in [
        ("--all -o all.hw", ".pb"),
        ("--all --by thread", "--by"),
        ("--all --per-block", "-o"),
        ("--all --pid 1", "cannot be used with"),
    ] {
        let run = collector.highwater(&format!("snapshot {options}"));
        assert_eq!(run.shell_status(), 2, "{options}");
        assert!(run.stderr_text().contains(word), "{options}: {}", run.stderr_text());
    }
}

#[test]
fn contents_become_files_named_by_address() {
    let collector = Collector::new();
    let mut holder = collector.holder(&["--allow-contents"]);
    let pid = holder.pid;
    holder.tell("keep 50 100");
    collector.highwater(&format!("snapshot --pid {pid} -o held.json --contents-dir blocks")).succeeded();
    let document: Value = serde_json::from_slice(&std::fs::read(collector.place.file("held.json")).unwrap()).unwrap();
    let blocks = document["blocks"].as_array().unwrap();
    for block in blocks.iter().filter(|block| block["heap"] == "malloc") {
        let path = collector.place.file("blocks").join(block["address"].as_str().unwrap());
        assert_eq!(std::fs::metadata(path).unwrap().len(), block["size"].as_u64().unwrap(), "{block}");
    }
    let again = collector.highwater(&format!("snapshot --pid {pid} --contents-dir blocks"));
    assert_eq!(again.shell_status(), 1);
    assert!(again.stderr_text().contains("is not empty"), "{}", again.stderr_text());
    // Only the first bytes, and only of some blocks.
    collector
        .highwater(&format!("snapshot --pid {pid} --filter size:100..100 --contents 10 --contents-dir few"))
        .succeeded();
    let files: Vec<_> = std::fs::read_dir(collector.place.file("few")).unwrap().map(Result::unwrap).collect();
    assert!(files.len() >= 50 && files.iter().all(|file| file.metadata().unwrap().len() == 10), "{}", files.len());
    let closed = collector.holder(&[]);
    let refused = collector.highwater(&format!("snapshot --pid {} --contents-dir no", closed.pid));
    assert!(refused.stderr_text().contains("--allow-contents") && !collector.place.file("no").exists());
}
