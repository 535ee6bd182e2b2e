//! Exports have the same figures as the report; the real `go tool pprof` checks the format.

mod support;

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
