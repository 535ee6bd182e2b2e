//! Exports have the same figures as the report; the real `go tool pprof` checks the format.

mod support;

use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use support::{Place, document, in_the_kitchen};

fn exported(place: &Place, options: &str) -> Vec<u8> {
    let run = place.highwater(&format!("export kitchen.hw {options} --force -o exported"));
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "", ""), "{options}");
    std::fs::read(place.file("exported")).unwrap()
}

#[test]
fn folded_stacks_sum_to_the_metric() {
    let place = in_the_kitchen();
    let text = |options: &str| String::from_utf8(exported(&place, &format!("--to folded {options}"))).unwrap();
    assert_eq!(text(""), "main;cook;chop 800\n");
    let mut peak: Vec<String> = text("--at peak").lines().map(str::to_owned).collect();
    peak.sort();
    assert_eq!(peak, ["main;cook;bake 5000", "main;cook;chop 500"]);
    assert_eq!(text("--at peak --filter chop"), "main;cook;chop 500\n");
    assert_eq!(text("--metric temporary"), "main;cook;bake 1\n");
    let piped = place.highwater("export kitchen.hw --to folded -o -");
    piped.stdout_has(&["main;cook;chop 800\n"]);
}

#[test]
fn a_flame_graph_is_an_svg_with_the_functions() {
    let place = in_the_kitchen();
    let svg = String::from_utf8(exported(&place, "--to flamegraph --at peak")).unwrap();
    assert!(svg.contains("<svg") && svg.contains("bake") && svg.contains("chop"), "{svg}");
}

#[test]
fn json_holds_the_report_and_every_live_block() {
    let place = in_the_kitchen();
    let document = document(&String::from_utf8(exported(&place, "--to json --at peak")).unwrap());
    let report = place.json("report kitchen.hw --at peak");
    assert_eq!(document["schema"], 2);
    assert_eq!(document["totals"], report["totals"]);
    assert_eq!(document["sites"], report["sites"]);
    let sizes: Vec<u64> =
        document["blocks"].as_array().unwrap().iter().map(|block| block["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [1000, 500, 4000]);
}

#[test]
fn json_of_what_a_filter_finds_has_the_sites_and_blocks_of_it() {
    let place = in_the_kitchen();
    let document = document(&String::from_utf8(exported(&place, "--to json --at peak --filter bake")).unwrap());
    assert_eq!(document["sites"], place.json("report kitchen.hw --at peak --filter bake")["sites"]);
    let blocks = document["blocks"].as_array().unwrap();
    let sizes: Vec<u64> = blocks.iter().map(|block| block["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [1000, 4000]);
    assert!(blocks.iter().all(|block| block["site"] == 0));
}

#[test]
fn an_export_replaces_what_was_there_and_follows_links() {
    let place = in_the_kitchen();
    place.write("old", "old");
    std::os::unix::fs::symlink("old", place.file("exported")).unwrap();
    assert_eq!(exported(&place, "--to folded"), b"main;cook;chop 800\n");
    assert!(place.file("exported").is_symlink());
    assert_eq!(std::fs::read(place.file("old")).unwrap(), b"main;cook;chop 800\n");
}

fn pprof(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("go");
    command.args(["tool", "pprof"]).args(arguments).current_dir(directory);
    // pprof needs a directory for its own settings; the test's will do.
    command.env("HOME", directory).env("PPROF_TMPDIR", directory);
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("this test needs 'go' on the PATH ({error}): apt-get install golang-go"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go tool pprof {arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// The sums over all samples in `pprof -raw`, by the name of the value.
fn raw_totals(raw: &str) -> HashMap<String, u64> {
    let mut lines = raw.lines().skip_while(|line| !line.starts_with("Samples:")).skip(1);
    let names: Vec<String> =
        lines.next().unwrap().split_whitespace().map(|name| name.split('/').next().unwrap().to_owned()).collect();
    let mut sums: HashMap<String, u64> = names.iter().map(|name| (name.clone(), 0)).collect();
    for line in lines.take_while(|line| !line.starts_with("Locations")) {
        // "  1  4000  1  4000: 1 2 3", then lines of labels.
        let Some((values, _)) = line.split_once(':') else { continue };
        let values: Vec<u64> = values.split_whitespace().filter_map(|value| value.parse().ok()).collect();
        if values.len() == names.len() {
            names.iter().zip(values).for_each(|(name, value)| *sums.get_mut(name).unwrap() += value);
        }
    }
    sums
}

#[test]
fn go_tool_pprof_counts_what_the_report_counts() {
    let place = in_the_kitchen();
    for when in ["end", "peak", "mark:loaded"] {
        exported(&place, &format!("--to pprof --at {when}"));
        let totals = place.json(&format!("report kitchen.hw --at {when}"))["totals"].clone();
        let figure = |name: &str| totals[name].as_u64().unwrap();
        let sums = raw_totals(&pprof(place.path(), &["-raw", "exported"]));
        assert_eq!(sums["inuse_space"], figure("live_bytes"), "{when}");
        assert_eq!(sums["inuse_objects"], figure("live_blocks"), "{when}");
        assert_eq!(sums["alloc_space"], figure("allocated_bytes"), "{when}");
        assert_eq!(sums["alloc_objects"], figure("allocations") + figure("reallocations"), "{when}");
    }
}

#[test]
fn go_tool_pprof_shows_the_functions_of_the_report() {
    let place = in_the_kitchen();
    exported(&place, "--to pprof --at peak");
    let top = pprof(place.path(), &["-top", "-unit=B", "exported"]);
    let line = |function: &str| top.lines().find(|line| line.ends_with(function)).unwrap_or_else(|| panic!("{top}"));
    assert!(top.contains("Type: inuse_space"), "{top}");
    assert!(line(" bake").trim_start().starts_with("5000B"), "{top}");
    assert!(line(" chop").trim_start().starts_with("500B"), "{top}");
    let main: Vec<&str> = line(" main").split_whitespace().collect();
    assert_eq!((main[0], main[3]), ("0", "5500B"), "{top}");
}

#[test]
fn go_tool_pprof_diffs_two_instants_as_highwater_does() {
    let place = in_the_kitchen();
    assert_eq!(place.highwater("export kitchen.hw --to pprof --at mark:loaded -o base").code, 0);
    exported(&place, "--to pprof");
    let top = pprof(place.path(), &["-top", "-unit=B", "-diff_base=base", "exported"]);
    let flat = |function: &str| {
        let line = top.lines().find(|line| line.ends_with(function)).unwrap_or_else(|| panic!("{top}"));
        line.split_whitespace().next().unwrap().trim_end_matches('B').parse::<i64>().unwrap()
    };
    let diff = place.json("diff kitchen.hw@mark:loaded kitchen.hw");
    for row in diff["sites"].as_array().unwrap() {
        let function = format!(" {}", row["stack"][0]["function"].as_str().unwrap());
        assert_eq!(flat(&function), row["live_bytes_delta"].as_i64().unwrap(), "{function}");
    }
}

/// Rows as Python's own CSV reader reads them.
fn rows_in_python(place: &Place) -> Vec<HashMap<String, String>> {
    const PROGRAM: &str =
        "import csv, json, sys; print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline='')))))";
    let run = Command::new("python3").args(["-c", PROGRAM]).arg(place.file("exported")).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    serde_json::from_slice(&run.stdout).unwrap()
}

#[test]
fn csv_has_a_row_for_each_site_with_the_figures_of_the_report() {
    let place = in_the_kitchen();
    exported(&place, "--to csv --at peak");
    let rows = rows_in_python(&place);
    let figures = |name: &str| rows.iter().map(|row| row[name].parse::<u64>().unwrap()).collect::<Vec<_>>();
    assert_eq!((figures("live_bytes"), figures("live_blocks")), (vec![5000, 500], vec![2, 1]));
    assert_eq!((rows[0]["function"].as_str(), rows[0]["stack"].as_str()), ("bake", "main;cook;bake"));
    let report = place.json("report kitchen.hw --at peak");
    for name in ["allocations", "allocated_bytes", "frees", "freed_bytes", "live_bytes"] {
        assert_eq!(figures(name).iter().sum::<u64>(), report["totals"][name].as_u64().unwrap(), "{name}");
    }
    exported(&place, "--to csv --filter chop --metric allocated");
    assert_eq!(rows_in_python(&place).len(), 1);
}

#[test]
fn names_with_commas_quotes_and_lines_stay_one_field_of_csv() {
    let place = Place::new();
    let name = r#"Map<u8, \"x\">::new\nnext"#;
    let line = format!(r#"{{"event":"allocate","address":1,"size":7,"stack":["{name}","main"]}}"#);
    place.write("odd.jsonl", format!("{line}\n"));
    let run = place.highwater("export odd.jsonl --to csv -o exported");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = rows_in_python(&place);
    assert_eq!((rows.len(), rows[0]["live_bytes"].as_str()), (1, "7"));
    assert!(rows[0]["function"].starts_with("Map<u8, \"x\">::new"), "{rows:?}");
}

/// What a reader of a format in Python, which knows nothing of Highwater, says of the exported file.
fn read_back(place: &Place, reader: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(format!("{reader}.py"));
    // No cache of compiled scripts in the sources.
    let run = Command::new("python3").arg("-B").arg(script).arg(place.file("exported")).output().unwrap();
    assert!(run.status.success(), "{reader}: {}", String::from_utf8_lossy(&run.stderr));
    serde_json::from_slice(&run.stdout).unwrap()
}

/// The inclusive figures of all functions in a report.
fn inclusive(report: &Value, figure: &str) -> HashMap<String, u64> {
    let of = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row["inclusive"][figure].as_u64().unwrap());
    report["functions"].as_array().unwrap().iter().map(of).filter(|(_, value)| *value > 0).collect()
}

fn is_what_the_report_says(read: &Value, report: &Value, figure: &str) {
    let functions: HashMap<String, u64> = serde_json::from_value(read["inclusive"].clone()).unwrap();
    assert_eq!(functions, inclusive(report, figure), "{figure}");
    assert_eq!(read["total"], report["totals"][figure], "{figure}");
}

#[test]
fn stacks_in_every_format_have_the_functions_and_sums_of_the_report() {
    let place = in_the_kitchen();
    for when in ["end", "peak", "mark:loaded"] {
        let report = place.json(&format!("report kitchen.hw --by function --at {when}"));
        for (metric, figure, words) in
            [("live", "live_bytes", "live bytes"), ("allocated", "allocated_bytes", "allocated bytes")]
        {
            let options = format!("--at {when} --metric {metric}");
            exported(&place, &format!("--to folded {options}"));
            is_what_the_report_says(&read_back(&place, "folded")["stacks"], &report, figure);
            exported(&place, &format!("--to firefox {options}"));
            let firefox = read_back(&place, "firefox");
            is_what_the_report_says(&firefox["samples"], &report, figure);
            assert_eq!(firefox["weight_type"], "bytes");
            exported(&place, &format!("--to speedscope {options}"));
            let speedscope = read_back(&place, "speedscope");
            assert_eq!(speedscope["first"], words);
            is_what_the_report_says(&speedscope["live bytes"], &report, "live_bytes");
            is_what_the_report_says(&speedscope["allocated bytes"], &report, "allocated_bytes");
            let figure = |name: &str| report["totals"][name].as_u64().unwrap();
            assert_eq!(speedscope["allocations"]["total"], figure("allocations") + figure("reallocations"));
        }
    }
}

#[test]
fn speedscope_has_files_and_lines_and_opens_the_chosen_metric() {
    let place = in_the_kitchen();
    exported(&place, "--to speedscope --metric temporary --filter bake");
    let read = read_back(&place, "speedscope");
    assert_eq!(read["first"], "temporary allocations");
    assert_eq!(read["temporary allocations"], json!({"total": 1, "inclusive": {"bake": 1, "cook": 1, "main": 1}}));
    assert_eq!(read["frames"][0], json!({"name": "main", "file": "/src/main.rs", "line": 3}));
    // The same bytes are not two profiles.
    exported(&place, "--to speedscope --metric peak");
    let read = read_back(&place, "speedscope");
    assert_eq!(read["bytes live at the peak"]["total"], 5500);
    assert_eq!(read["live bytes"], Value::Null);
}

#[test]
fn the_firefox_profile_has_births_memory_over_time_and_marks() {
    let place = in_the_kitchen();
    exported(&place, "--to firefox --at peak");
    let read = read_back(&place, "firefox");
    assert_eq!(read["times"], json!([1000.0, 2000.0, 4000.0]));
    let memory: Vec<(f64, u64)> = serde_json::from_value(read["memory"].clone()).unwrap();
    let at = |time: f64| memory.iter().rfind(|point| point.0 <= time).unwrap().1;
    assert_eq!(
        [0.0, 1000.0, 2500.0, 4000.0, 5000.0, 6000.0, 7000.0, 10000.0].map(at),
        [0, 1000, 1500, 5500, 1500, 1800, 800, 800]
    );
    assert_eq!(read["markers"], json!([["loaded", 3000.0], ["all done", 8000.0]]));
    is_what_the_report_says(
        &read["nativeAllocations"],
        &place.json("report kitchen.hw --by function --at peak"),
        "allocated_bytes",
    );
    // Filters on blocks leave no history.
    exported(&place, "--to firefox --at peak --filter size:1000..");
    let read = read_back(&place, "firefox");
    assert_eq!((&read["memory"], &read["samples"]["total"]), (&json!([]), &json!(5000)));
}

#[test]
fn the_memory_track_of_the_firefox_profile_has_the_peak_of_many_events() {
    let place = Place::new();
    let line = |event: &str, at: u64, time: u64| {
        format!(r#"{{"event":"{event}","address":{at},"size":{at},"time_ns":{time},"stack":["f"]}}"#)
    };
    // A hundred blocks come and go within each of the parts of the time that share a point.
    let mut lines = Vec::new();
    for round in 1..=5000u64 {
        for (event, from) in [("allocate", 0), ("deallocate", 4)] {
            lines.extend((1..=4).map(|at| line(event, at * round, round * 1000 + from + at)));
        }
    }
    place.write("imported.jsonl", lines.join("\n"));
    let run = place.highwater("import imported.jsonl -o kitchen.hw");
    assert_eq!(run.code, 0, "{}", run.stderr);
    exported(&place, "--to firefox");
    let read = read_back(&place, "firefox");
    let memory: Vec<(f64, u64)> = serde_json::from_value(read["memory"].clone()).unwrap();
    let highest = memory.iter().max_by_key(|point| point.1).unwrap();
    let totals = place.json("report kitchen.hw")["totals"].clone();
    assert_eq!(json!([highest.1, (highest.0 * 1e6) as u64]), json!([totals["peak_bytes"], totals["peak_at_ns"]]));
    assert!(memory.len() < 4100 && memory.last().unwrap().1 == 0, "{}", memory.len());
}

#[test]
fn dhat_has_every_figure_of_a_recording() {
    let place = in_the_kitchen();
    exported(&place, "--to dhat");
    let read = read_back(&place, "dhat");
    assert_eq!(
        (&read["bklt"], &read["tu"], &read["cmd"], &read["pid"]),
        (&json!(true), &json!("µs"), &json!("kitchen"), &json!(7))
    );
    assert_eq!((&read["tg"], &read["te"]), (&json!(4_000_000), &json!(10_000_000)));
    let stack =
        |name: &str| json!([format!("{name} (/src/{name}.rs:1)"), "cook (/src/cook.rs:2)", "main (/src/main.rs:3)"]);
    // One lives six seconds, one lives one; the other is resized after four of eight.
    let bake = json!({"tb": 5000, "tbk": 2, "tl": 7_000_000, "mb": 5000, "mbk": 2, "gb": 5000, "gbk": 2, "eb": 0, "ebk": 0,
        "fs": stack("bake")});
    let chop = json!({"tb": 1300, "tbk": 2, "tl": 8_000_000, "mb": 800, "mbk": 1, "gb": 500, "gbk": 1, "eb": 800, "ebk": 1,
        "fs": stack("chop")});
    assert_eq!(read["pps"], json!([chop, bake]));
    // The end is the instant that is exported.
    exported(&place, "--to dhat --at mark:loaded --filter chop");
    let read = read_back(&place, "dhat");
    assert_eq!((&read["tg"], &read["te"]), (&json!(2_000_000), &json!(3_000_000)));
    let chop = json!({"tb": 500, "tbk": 1, "tl": 1_000_000, "mb": 500, "mbk": 1, "gb": 500, "gbk": 1, "eb": 500, "ebk": 1,
        "fs": stack("chop")});
    assert_eq!(read["pps"], json!([chop]));
}

#[test]
fn dhat_of_one_instant_claims_no_history() {
    let place = in_the_kitchen();
    for (options, verb, bytes, blocks) in [
        ("--filter size:1000..", "Allocated and live", 5000, 2),
        ("--filter size:1000.. --metric allocated", "Allocated", 5000, 2),
        ("--filter thread:2 --metric live", "Allocated and live", 500, 1),
    ] {
        exported(&place, &format!("--to dhat --at peak {options}"));
        let read = read_back(&place, "dhat");
        assert_eq!((&read["bklt"], &read["verb"]), (&json!(false), &json!(verb)), "{options}");
        assert_eq!((&read["pps"][0]["tb"], &read["pps"][0]["tbk"]), (&json!(bytes), &json!(blocks)), "{options}");
    }
}

#[test]
fn dhat_agrees_with_the_report_on_each_site_of_a_real_program() {
    let place = Place::new();
    let run = place.run([
        "record",
        "-o",
        "kitchen.hw",
        "--",
        "/usr/bin/python3",
        "-c",
        "[str(i) * 100 for i in range(9999)]",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    exported(&place, "--to dhat");
    let read = read_back(&place, "dhat");
    let mut report = place.json("report kitchen.hw");
    let sites: Vec<Value> = report["sites"].as_array_mut().unwrap().drain(..).collect();
    let figures = |names: &[&str], rows: &[Value]| {
        let one = |row: &Value| names.iter().map(|name| row[name].as_u64().unwrap()).collect::<Vec<_>>();
        let mut all: Vec<Vec<u64>> = rows.iter().map(one).collect();
        all.sort();
        all
    };
    let points = read["pps"].as_array().unwrap();
    assert!(points.len() > 100, "{}", points.len());
    assert_eq!(
        figures(&["tb", "mb", "eb", "ebk"], points),
        figures(&["allocated_bytes", "peak_bytes", "live_bytes", "live_blocks"], &sites)
    );
    let sum = |name: &str| points.iter().map(|point| point[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("gb"), report["totals"]["peak_bytes"]);
    assert_eq!(sum("gbk"), place.json("report kitchen.hw --at peak")["totals"]["live_blocks"]);
}

#[test]
fn dhat_of_a_damaged_recording_claims_no_history() {
    let place = Place::new();
    let run =
        place.run(["record", "-o", "whole.hw", "--", "/usr/bin/python3", "-c", "[str(i) * 100 for i in range(9999)]"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut bytes = std::fs::read(place.file("whole.hw")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4].copy_from_slice(&[0xff, 0, 0xff, 0]);
    place.write("damaged.hw", bytes);
    let run = place.highwater("export damaged.hw --to dhat -o exported");
    assert!(run.code == 0 && run.stderr.contains("everything else is used"), "{}", run.stderr);
    let read = read_back(&place, "dhat");
    assert_eq!((&read["bklt"], &read["verb"]), (&json!(false), &json!("Allocated and live")));
    let live: u64 = read["pps"].as_array().unwrap().iter().map(|point| point["tb"].as_u64().unwrap()).sum();
    assert_eq!(live, place.json("report damaged.hw")["totals"]["live_bytes"]);
}

#[test]
fn estimated_bytes_by_birth_sum_to_those_of_the_sites() {
    let place = Place::new();
    let program = "[str(i) * 100 for i in range(9999)]";
    let run = place.run(["record", "--sample", "512", "-o", "kitchen.hw", "--", "/usr/bin/python3", "-c", program]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    exported(&place, "--to folded --at peak");
    let sites = read_back(&place, "folded")["stacks"]["total"].clone();
    exported(&place, "--to firefox --at peak");
    assert_eq!(read_back(&place, "firefox")["samples"]["total"], sites);
    exported(&place, "--to dhat --at peak");
    let read = read_back(&place, "dhat");
    assert_eq!(read["mode"], "heap, estimated from samples");
    let live: u64 = read["pps"].as_array().unwrap().iter().map(|point| point["eb"].as_u64().unwrap()).sum();
    assert_eq!(sites, live);
}

#[test]
fn odd_names_and_stacks_survive_every_format() {
    let place = Place::new();
    let lines = [
        r#"{"event":"allocate","address":1,"size":7,"stack":["Map<u8, \"x\">::new\nnext","again","again","[u8; 4]"]}"#,
        r#"{"event":"allocate","address":2,"size":5}"#,
        r#"{"event":"allocate","address":3,"size":0,"stack":["\u202e\u0000"]}"#,
    ];
    place.write("imported.jsonl", lines.join("\n"));
    assert_eq!(place.highwater("import imported.jsonl -o kitchen.hw").code, 0);
    let expected =
        json!({"total": 12, "inclusive": {"Map<u8, \"x\">::new\nnext": 7, "again": 7, "[u8; 4]": 7, "[unknown]": 5}});
    exported(&place, "--to speedscope");
    assert_eq!(read_back(&place, "speedscope")["live bytes"], expected);
    exported(&place, "--to firefox");
    assert_eq!(read_back(&place, "firefox")["samples"], expected);
    exported(&place, "--to dhat");
    let points = read_back(&place, "dhat")["pps"].clone();
    assert_eq!(points[0]["fs"], json!(["Map<u8, \"x\">::new\nnext", "again", "again", "[u8; 4]"]));
    assert_eq!(points.as_array().unwrap().len(), 3);
}

/// Fuchsia's heapdump gives each block a sample with these labels.
#[test]
fn a_sample_per_block_has_its_address_its_time_and_its_thread() {
    let place = in_the_kitchen();
    exported(&place, "--to pprof --at peak --per-block");
    let raw = pprof(place.path(), &["-raw", "exported"]);
    let totals = place.json("report kitchen.hw --at peak")["totals"].clone();
    assert_eq!(raw_totals(&raw)["inuse_space"], totals["live_bytes"].as_u64().unwrap());
    assert_eq!(raw_totals(&raw)["alloc_space"], totals["allocated_bytes"].as_u64().unwrap());
    let tags = pprof(place.path(), &["-tags", "exported"]);
    for text in ["address:", "0x1000", "0x2000", "0x3000", "main[1]", "worker[2]", "timestamp:"] {
        assert!(tags.contains(text), "'{text}' is not in:\n{tags}");
    }
    assert!(raw.contains("timestamp:[4000000000 nanoseconds]"), "{raw}");
    let top = pprof(place.path(), &["-top", "-unit=B", "-tagfocus=address=0x2000", "exported"]);
    assert!(top.contains("500B") && top.contains("chop") && !top.contains("bake"), "{top}");
    let run = place.highwater("export kitchen.hw --to json --per-block -o no");
    assert_eq!((run.code, run.stderr.contains("--per-block is for --to pprof")), (2, true));
}

#[test]
fn a_file_named_pb_is_not_gzipped() {
    let place = in_the_kitchen();
    assert_eq!(place.highwater("export kitchen.hw --to pprof -o plain.pb").code, 0);
    assert_eq!(place.highwater("export kitchen.hw --to pprof -o packed.pb.gz").code, 0);
    let (plain, packed) =
        (std::fs::read(place.file("plain.pb")).unwrap(), std::fs::read(place.file("packed.pb.gz")).unwrap());
    assert_eq!((&packed[..2], plain[0]), (&[0x1f, 0x8b][..], 0x0a));
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
    assert_eq!(pprof(place.path(), &["-raw", "plain.pb"]), pprof(place.path(), &["-raw", "packed.pb.gz"]));
}
