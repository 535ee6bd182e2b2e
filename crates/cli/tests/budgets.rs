//! Limits on memory: what they are measured by, what breaks them, and what is wrong with them.

mod support;

use serde_json::{Value, json};
use support::{Place, Run, in_the_kitchen, kitchen};

const SECOND: u64 = 1_000_000_000;

/// Every limit of the kitchen's figures, exactly as high as they are.
const FIGURES: [(&str, &str, &str); 7] = [
    ("max-peak", "5500", "5499"),
    ("max-leaked", "800", "799"),
    ("max-leaked-blocks", "1", "0"),
    ("max-allocated", "6300", "6299"),
    ("max-allocations", "4", "3"),
    ("max-temporary", "25%", "24.99%"),
    ("max-rss", "4096", "4095"),
];

#[track_caller]
fn verdict(place: &Place, line: &str) -> (i32, Value) {
    let run = place.highwater(&format!("check {line} --json"));
    assert_eq!(run.stderr, "", "{line}");
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    assert_eq!((&document["schema"], &document["sound"]), (&json!(2), &json!(true)), "{line}");
    (run.code, document["budget"].clone())
}

#[track_caller]
fn is_wrong_usage(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    for word in words {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
}

/// The checks of the first process.
fn checks(budget: &Value) -> &Vec<Value> {
    budget["processes"][0]["checks"].as_array().unwrap()
}

#[test]
fn every_limit_is_kept_at_its_figure_and_broken_one_below() {
    let place = in_the_kitchen();
    let kept: Vec<String> = FIGURES.iter().map(|(name, kept, _)| format!("--{name} {kept}")).collect();
    let (code, budget) = verdict(&place, &format!("kitchen.hw {}", kept.join(" ")));
    assert_eq!((code, &budget["kept"], &budget["limits"], &budget["failed"]), (0, &json!(true), &json!(7), &json!(0)));
    for (name, figure, below) in FIGURES {
        let (code, budget) = verdict(&place, &format!("kitchen.hw --{name} {below}"));
        let [check] = &checks(&budget)[..] else { panic!("{budget}") };
        assert_eq!((code, &check["limit"], &check["outcome"]), (1, &json!(name), &json!("broken")), "{budget}");
        assert_eq!(check["over"], 1, "{name}");
        let site = &check["sites"][0];
        let largest = if matches!(name, "max-leaked" | "max-leaked-blocks" | "max-rss") { "chop" } else { "bake" };
        assert_eq!(site["key"], largest, "{name}: {check}");
        assert_eq!(site["frame"]["file"], format!("/src/{largest}.rs"), "{name}");
        // The same figure as a limit in a file.
        let value = if figure.ends_with('%') { format!("\"{below}\"") } else { below.to_owned() };
        place.write("highwater.toml", format!("[budget]\n{name} = {value}\n"));
        let (code, of_file) = verdict(&place, "kitchen.hw --budget highwater.toml");
        assert_eq!((code, &of_file), (1, &budget), "{name}");
    }
}

#[test]
fn the_table_says_what_broke_by_how_much_who_did_it_and_where_that_is_seen() {
    let place = in_the_kitchen();
    let run = place.highwater("check kitchen.hw --max-peak 4KiB --max-leaked 800 --max-temporary 30%");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let expected = "\
kitchen (pid 7): kitchen.hw
         figure    limit      over
broken  5.4 KiB  4.0 KiB  +1.4 KiB  peak
        4.9 KiB                     bake  src/bake.rs:1 ← cook ← main
          500 B                     chop  src/chop.rs:1 ← cook ← main
kept      800 B    800 B            live at the end
kept     25.00%   30.00%            temporary allocations

peak: highwater view kitchen.hw --at peak

1 of 3 limits is not kept.
";
    let (sound, table) = run.stdout.split_once("\n\n").unwrap();
    assert!(sound.starts_with("kitchen.hw: sound"), "{sound}");
    assert_eq!(table, expected);
    // The command works as it is printed.
    let page = place.highwater("view kitchen.hw --at peak --save page.html");
    assert_eq!(page.code, 0, "{}", page.stderr);
    let run = place.highwater("check kitchen.hw --max-peak 1MiB");
    assert!(run.code == 0 && run.stdout.ends_with("The limit is kept.\n"), "{}", run.stdout);
}

#[test]
fn parts_are_of_some_blocks_and_of_some_time() {
    let place = in_the_kitchen();
    place.write(
        "highwater.toml",
        r#"
[[budget.part]]
name = "bread is eaten"
filter = "inside:equal:bake"
max-leaked = 0
max-peak = 5000
max-allocations = 2

[[budget.part]]
filter = ["type:Salad", "size:600.."]
max-allocations = 0

[[budget.part]]
from = "mark:loaded"
to = "mark:all done"
max-allocated = 4799
max-leaked-blocks = 0
max-peak = 5499
"#,
    );
    let (code, budget) = verdict(&place, "kitchen.hw --budget highwater.toml");
    let found: Vec<(&str, &str, u64, &str)> = checks(&budget)
        .iter()
        .map(|check| {
            let text = |name: &str| check[name].as_str().unwrap();
            (text("part"), text("limit"), check["figure"].as_u64().unwrap(), text("outcome"))
        })
        .collect();
    let window = "from mark:loaded to mark:all done";
    assert_eq!(code, 1);
    assert_eq!(
        found,
        [
            ("bread is eaten", "max-peak", 5000, "kept"),
            ("bread is eaten", "max-leaked", 0, "kept"),
            ("bread is eaten", "max-allocations", 2, "kept"),
            ("in 'type:Salad' in 'size:600..'", "max-allocations", 1, "broken"),
            (window, "max-peak", 5500, "broken"),
            // The Salad grew within the window, but is older.
            (window, "max-leaked-blocks", 0, "kept"),
            (window, "max-allocated", 4800, "broken"),
        ]
    );
    let view = checks(&budget)[6]["view"].as_str().unwrap();
    assert_eq!(view, "highwater view kitchen.hw --from mark:loaded --to 'mark:all done'");
    // On the command line, '--in' is the filter of all limits.
    let (code, budget) = verdict(&place, "kitchen.hw --max-leaked 0 --max-peak 999 --in bake");
    assert_eq!(code, 1, "{budget}");
    let outcomes: Vec<&Value> = checks(&budget).iter().map(|check| &check["outcome"]).collect();
    assert_eq!(outcomes, ["broken", "kept"], "{budget}");
}

/// Five rounds, each after its mark: the first keeps 10,000 bytes, each other one 100 in a block of `leak` and 50 that it frees.
fn rounds() -> Vec<Value> {
    let mut events = vec![json!({"event": "source", "program": "rounds", "pid": 8})];
    let (mut address, mut time) = (0x1000u64, 0);
    let mut allocate = |events: &mut Vec<Value>, time: u64, size: u64, function: &str| {
        address += 0x10000;
        events.push(json!({"event": "allocate", "address": format!("{address:#x}"), "size": size, "thread": 1, "time_ns": time,
                           "stack": [{"function": function, "file": format!("/src/{function}.c"), "line": 3}, {"function": "main"}]}));
        format!("{address:#x}")
    };
    for round in 0..5u64 {
        time += SECOND;
        events.push(json!({"event": "mark", "name": "round", "thread": 1, "time_ns": time}));
        events.push(json!({"event": "mark", "name": "work:begin", "thread": 1, "time_ns": time + 1}));
        if round == 0 {
            allocate(&mut events, time + 10, 10_000, "warm");
        } else {
            allocate(&mut events, time + 10, 100, "leak");
        }
        let freed = allocate(&mut events, time + 20, 50 + round, "work");
        events.push(json!({"event": "deallocate", "address": freed, "thread": 1, "time_ns": time + 30}));
        events.push(json!({"event": "mark", "name": "work:end", "thread": 1, "time_ns": time + 40}));
    }
    events
}

#[test]
fn growth_is_by_iteration_after_the_first() {
    let place = Place::new();
    place.import("rounds.hw", &rounds());
    // From the second mark to the fifth: three rounds of 100 bytes.
    let (code, budget) = verdict(&place, "rounds.hw --max-growth 100 --each round");
    assert_eq!(
        (code, &checks(&budget)[0]["figure"], &checks(&budget)[0]["spans"]),
        (0, &json!(100), &json!(3)),
        "{budget}"
    );
    let (code, budget) = verdict(&place, "rounds.hw --max-growth 99 --each round");
    assert_eq!((code, &checks(&budget)[0]["sites"][0]["key"]), (1, &json!("leak")), "{budget}");
    assert_eq!(checks(&budget)[0]["sites"][0]["figure"], 100, "{budget}");
    // Without a warm-up, the first round counts: 10,300 bytes in four rounds.
    place.write(
        "highwater.toml",
        "[[budget.part]]\neach = \"round\"\nskip = 0\nmax-growth = 2574\nmax-growth-blocks = 1\n",
    );
    let (code, budget) = verdict(&place, "rounds.hw --budget highwater.toml");
    assert_eq!((code, &checks(&budget)[0]["figure"]), (1, &json!(2575)), "{budget}");
    assert_eq!(checks(&budget)[1]["outcome"], "kept", "{budget}");
    place.write("highwater.toml", "[[budget.part]]\neach = \"round\"\nskip = 4\nmax-growth = 0\n");
    let (code, budget) = verdict(&place, "rounds.hw --budget highwater.toml");
    assert_eq!((code, &checks(&budget)[0]["outcome"]), (1, &json!("not-known")), "{budget}");
    assert!(checks(&budget)[0]["why"].as_str().unwrap().contains("set 5 times"), "{budget}");
}

#[test]
fn a_measure_is_what_happens_between_its_calls_and_the_worst_one_counts() {
    let place = Place::new();
    place.import("rounds.hw", &rounds());
    place.write(
        "highwater.toml",
        "[[budget.part]]\nmeasure = \"work\"\nmax-peak = 10050\nmax-leaked = 10000\nmax-allocations = 2\nmax-temporary = \"50%\"\n\
         [[budget.part]]\nmeasure = \"work\"\nfilter = \"inside:equal:work\"\nmax-peak = 53\nmax-leaked = 0\n",
    );
    let (code, budget) = verdict(&place, "rounds.hw --budget highwater.toml");
    let figures: Vec<u64> = checks(&budget).iter().map(|check| check["figure"].as_u64().unwrap()).collect();
    assert_eq!((code, figures), (1, vec![10_050, 10_000, 2, 5000, 54, 0]), "{budget}");
    let worst = &checks(&budget)[4];
    assert_eq!((&worst["outcome"], &worst["spans"]), (&json!("broken"), &json!(5)), "{budget}");
    // The worst one is the last: the command shows that.
    assert!(worst["view"].as_str().unwrap().contains("--from 5000000001ns"), "{worst}");
    let text = place.highwater("check rounds.hw --budget highwater.toml").stdout;
    assert!(text.contains("the most of 5 times"), "{text}");
}

#[test]
fn a_limit_that_cannot_be_measured_is_not_kept() {
    let place = in_the_kitchen();
    for (part, why) in [
        ("each = \"nothing\"\nmax-growth = 5", "no mark is named 'nothing'"),
        ("measure = \"nothing\"\nmax-peak = 5", "highwater_measure_begin"),
        ("from = \"mark:nothing\"\nmax-peak = 5", "no mark is named 'nothing'"),
        ("from = \"mark:all done\"\nto = \"mark:loaded\"\nmax-peak = 5", "'mark:loaded' is before 'mark:all done'"),
    ] {
        place.write("highwater.toml", format!("[[budget.part]]\n{part}\n"));
        let (code, budget) = verdict(&place, "kitchen.hw --budget highwater.toml");
        assert_eq!((code, &checks(&budget)[0]["outcome"]), (1, &json!("not-known")), "{part}: {budget}");
        assert!(checks(&budget)[0]["why"].as_str().unwrap().contains(why), "{budget}");
        let text = place.highwater("check kitchen.hw --budget highwater.toml");
        assert!(text.code == 1 && text.stdout.contains(why) && text.stdout.contains("1 of 1 limit"), "{}", text.stdout);
    }
    // Without its resident memory.
    let without: Vec<Value> = kitchen().into_iter().filter(|event| event["event"] != "gauge").collect();
    place.import("dry.hw", &without);
    let (code, budget) = verdict(&place, "dry.hw --max-rss 1GiB");
    assert!(code == 1 && budget.to_string().contains("resident memory was not read"), "{budget}");
    // A snapshot has no peak and no past.
    assert_eq!(place.highwater("export kitchen.hw --at 50% -o snapshot.hw").code, 0);
    let (code, budget) = verdict(&place, "snapshot.hw --max-peak 1MiB --max-leaked 1MiB");
    assert_eq!((code, &checks(&budget)[0]["outcome"]), (1, &json!("not-known")), "{budget}");
    assert_eq!(checks(&budget)[1]["outcome"], "kept", "{budget}");
}

#[test]
fn parts_of_one_name_are_each_judged() {
    let place = in_the_kitchen();
    let part = |rest: &str| format!("[[budget.part]]\nname = \"bread\"\n{rest}\n");
    place.write("highwater.toml", part("max-leaked = 800") + &part("from = \"mark:nothing\"\nmax-leaked = 5"));
    let (code, budget) = verdict(&place, "kitchen.hw --budget highwater.toml");
    let outcomes: Vec<&Value> = checks(&budget).iter().map(|check| &check["outcome"]).collect();
    assert_eq!((code, outcomes), (1, vec![&json!("kept"), &json!("not-known")]), "{budget}");
}

#[test]
fn a_child_that_ended_before_its_resident_memory_was_read_is_left_out_but_not_the_program() {
    let place = in_the_kitchen();
    let mut without: Vec<Value> = kitchen().into_iter().filter(|event| event["event"] != "gauge").collect();
    place.import("dry.hw", &without);
    without[0]["program"] = "dishwasher".into();
    for (folder, child) in [("kitchen.children", &without), ("dry.children", &kitchen())] {
        std::fs::create_dir(place.file(folder)).unwrap();
        place.import(&format!("{folder}/8-child.hw"), child);
    }
    let outcomes = |arguments: &str| {
        let (code, budget) = verdict(&place, arguments);
        let processes = budget["processes"].as_array().unwrap().iter();
        let of = |process: &Value| process["checks"][0]["outcome"].as_str().unwrap().to_owned();
        (code, processes.map(of).collect::<Vec<String>>())
    };
    assert_eq!(outcomes("kitchen.hw --max-rss 1GiB"), (0, vec!["kept".to_owned()]));
    assert_eq!(outcomes("dry.hw --max-rss 1GiB"), (1, vec!["not-known".to_owned(), "kept".to_owned()]));
    // A program that is named has its own limit.
    place.write("highwater.toml", "[budget.programs.dishwasher]\nmax-rss = \"1 GiB\"\n");
    assert_eq!(outcomes("kitchen.hw --budget highwater.toml"), (1, vec!["not-known".to_owned()]));
}

#[test]
fn limits_of_a_program_that_never_ran_are_not_kept() {
    let place = in_the_kitchen();
    place.write("highwater.toml", "[budget]\nmax-leaked = 800\n[budget.programs.kitchn]\nmax-peak = 5\n");
    let (code, budget) = verdict(&place, "kitchen.hw --budget highwater.toml");
    assert_eq!((code, &budget["kept"], &budget["failed"]), (1, &json!(false), &json!(0)), "{budget}");
    let missing = &budget["incomplete"][0];
    assert_eq!((&missing["program"], &missing["file"]), (&json!("kitchn"), &Value::Null), "{budget}");
    for format in ["text", "junit", "github", "gitlab"] {
        let run = place.highwater(&format!("check kitchen.hw --budget highwater.toml --format {format}"));
        let text = run.stdout.replace("&apos;", "'");
        assert_eq!(run.code, 1, "{run:?}");
        assert!(text.contains("limits for 'kitchn', and no recorded process has this name"), "{format}: {text}");
        assert!(text.contains("did you mean 'kitchen'?"), "{format}: {text}");
    }
    let text = place.highwater("check kitchen.hw --budget highwater.toml").stdout;
    assert!(text.ends_with("\nThe limits are kept by what was recorded, but that is incomplete.\n"), "{text}");
}

#[test]
fn a_recording_that_lacks_something_keeps_no_budget() {
    let place = Place::new();
    let mut events = kitchen();
    events.insert(4, json!({"event": "dropped", "count": 3, "time_ns": SECOND}));
    place.import("lossy.hw", &events);
    place.import("whole.hw", &kitchen());
    let whole = std::fs::read(place.file("whole.hw")).unwrap();
    place.write("cut.hw", &whole[..whole.len() - 8]);
    place.write("bad.jsonl", format!("{}{{\"event\":\"explode\"}}\n", support::as_lines(&kitchen())));
    // A child is judged as the program is.
    place.import("parent.hw", &kitchen());
    std::fs::create_dir(place.file("parent.children")).unwrap();
    std::fs::copy(place.file("cut.hw"), place.file("parent.children/9-kitchen.hw")).unwrap();
    for (file, why) in [
        ("lossy.hw", "3 events that the source could not keep"),
        ("cut.hw", "cut before its end"),
        ("bad.jsonl", "1 bad line skipped"),
        ("parent.hw", "cut before its end"),
    ] {
        let run = place.highwater(&format!("check {file} --max-peak 1MiB --json"));
        let document: Value = serde_json::from_str(&run.stdout).unwrap();
        let budget = &document["budget"];
        assert_eq!((run.code, &budget["kept"], &budget["failed"]), (1, &json!(false), &json!(0)), "{file}: {budget}");
        assert!(budget["incomplete"].to_string().contains(why), "{file}: {budget}");
        let text = place.highwater(&format!("check {file} --max-peak 1MiB")).stdout;
        assert!(text.contains("\nincomplete: ") && text.ends_with("but that is incomplete.\n"), "{file}: {text}");
    }
    // Nor is it what others are compared with.
    let refused = place.highwater("check whole.hw --baseline lossy.hw");
    refused.is_one_clear_line_about(&["lossy.hw", "cannot be a baseline", "could not keep"]);
}

#[test]
fn wrong_budgets_are_refused_before_anything_else() {
    let place = in_the_kitchen();
    for (text, words) in [
        ("[budget]\nmax-leaked = 0\nmax-paek = 5\n", &["line 3", "'max-paek'", "did you mean 'max-peak'?"][..]),
        ("[budget]\nmax-temporary = \"300%\"\n", &["line 2", "at most 100%"]),
        ("[budget]\nmax-peak = 5\nmax-leaked = 6\n", &["can never be broken"]),
        ("[bugdet]\nmax-peak = 5\n", &["line 1", "bugdet"]),
        ("[names]\n", &["no table [budget]"]),
        ("[budget]\nmax-peak = 5\nsuppressions = [\"absent\"]\n", &["absent", "cannot read"]),
    ] {
        place.write("wrong.toml", text);
        for command in ["check kitchen.hw --budget wrong.toml", "record --budget wrong.toml -o new.hw -- true"] {
            let words: Vec<&str> =
                words.iter().copied().chain((!text.contains("absent")).then_some("wrong.toml")).collect();
            place.highwater(command).is_one_clear_line_about(&words);
        }
    }
    assert!(!place.file("new.hw").exists(), "nothing was recorded");
    place.highwater("check kitchen.hw --budget absent.toml").is_one_clear_line_about(&["absent.toml", "cannot read"]);
    for (line, words) in [
        ("--max-peak 0", &["max-allocations = 0"][..]),
        ("--max-peak=-5", &["--max-peak", "not a size"]),
        ("--max-temporary 30", &["30%"]),
        ("--max-growth 5", &["--each"]),
        ("--max-rss 5 --in parse", &["whole process"]),
        ("--in parse", &["no limit"]),
        ("--in parse --budget some.toml", &["no limit of the command line"]),
        ("--suppressions x", &["no limit"]),
        ("--allow +5%", &["--baseline"]),
        ("--max-peak 5 --json --format junit", &["cannot be used with"]),
    ] {
        is_wrong_usage(&place.highwater(&format!("check kitchen.hw {line}")), words);
    }
    // A project's file may have both tables, and names are read from it as before.
    place.write("highwater.toml", "[names]\nallocators = [\"bake\"]\n[budget]\nmax-peak = 5000\n");
    let (_, budget) = verdict(&place, "kitchen.hw --budget highwater.toml");
    assert_eq!(checks(&budget)[0]["sites"][0]["key"], "cook", "{budget}");
}

#[test]
fn suppressions_take_out_leaks_and_are_counted() {
    let place = in_the_kitchen();
    place.write("lsan.supp", "# the salad stays\nleak:^cho*$\nleak:libnothing\n");
    let (code, budget) =
        verdict(&place, "kitchen.hw --max-leaked 0 --max-leaked-blocks 0 --max-peak 5500 --suppressions lsan.supp");
    assert_eq!(code, 0, "{budget}");
    assert_eq!(
        budget["suppressed"],
        json!([
            {"suppression": "leak:^cho*$", "bytes": 800, "blocks": 1, "used": true},
            {"suppression": "leak:libnothing", "bytes": 0, "blocks": 0, "used": false},
        ])
    );
    let text = place.highwater("check kitchen.hw --max-leaked 0 --suppressions lsan.supp").stdout;
    assert!(text.contains("suppressed: 800 B in 1 block by leak:^cho*$\n"), "{text}");
    assert!(text.contains("unused suppression: leak:libnothing\n"), "{text}");
    // The peak is what it is.
    assert_eq!(place.highwater("check kitchen.hw --max-peak 5499 --suppressions lsan.supp").code, 1);
    // Source files, modules and our own filters match, too; the budget's file names files beside it.
    std::fs::create_dir(place.file("conf")).unwrap();
    for suppression in ["leak:/src/chop.rs", "leak:kitchen$", "inside:equal:chop", "module:/bin/kitchen"] {
        place.write("conf/own.supp", format!("{suppression}\n"));
        place.write("conf/highwater.toml", "[budget]\nmax-leaked = 0\nsuppressions = [\"own.supp\"]\n");
        let (code, budget) = verdict(&place, "kitchen.hw --budget conf/highwater.toml");
        assert_eq!((code, &budget["suppressed"][0]["blocks"]), (0, &json!(1)), "{suppression}: {budget}");
        place.write("conf/highwater.toml", format!("[budget]\nmax-leaked = 0\nsuppress = [\"{suppression}\"]\n"));
        assert_eq!(verdict(&place, "kitchen.hw --budget conf/highwater.toml").0, 0, "{suppression}");
    }
    for (text, words) in [("leak:a\nrace:b\n", &["line 2", "race"][..]), ("size:5..\n", &["line 1", "single blocks"])] {
        place.write("bad.supp", text);
        let run = place.highwater("check kitchen.hw --max-leaked 0 --suppressions bad.supp");
        run.is_one_clear_line_about(&[&["bad.supp"], words].concat());
    }
}

/// The kitchen with another size of its second bread.
fn kitchen_with(bread: u64) -> Vec<Value> {
    let mut events = kitchen();
    events.iter_mut().filter(|event| event["size"] == 4000).for_each(|event| event["size"] = bread.into());
    events
}

#[test]
fn a_run_is_compared_with_the_range_of_earlier_ones() {
    let place = Place::new();
    for (name, bread) in [("main.hw", 4000), ("noise.hw", 4200), ("within.hw", 4400), ("beyond.hw", 4600)] {
        place.import(name, &kitchen_with(bread));
    }
    let compare = |run: &str, options: &str| verdict(&place, &format!("{run} --baseline main.hw {options}"));
    let (code, budget) = compare("main.hw", "--allow +0%");
    assert_eq!((code, &budget["limits"]), (0, &json!(5)), "{budget}");
    let (code, budget) = compare("within.hw", "--allow 5%");
    assert_eq!(code, 1, "{budget}");
    let peak = &checks(&budget)[0];
    // 5,500 bytes and 5 percent, which are 275.
    assert_eq!((&peak["figure"], &peak["allowed"], &peak["over"]), (&json!(5900), &json!(5775), &json!(125)), "{peak}");
    assert_eq!((&peak["sites"][0]["key"], &peak["sites"][0]["figure"]), (&json!("bake"), &json!(400)), "{peak}");
    let (code, budget) = compare("within.hw", "--baseline noise.hw");
    assert_eq!(code, 0, "{budget}");
    assert_eq!(checks(&budget)[0]["baseline"], json!({"least": 5500, "most": 5700, "runs": 2}), "{budget}");
    assert_eq!(compare("beyond.hw", "--baseline noise.hw").0, 1);
    // '--in' selects what is compared, and suppressions apply to what is left.
    assert_eq!(compare("beyond.hw", "--in chop").0, 0);
    let (code, budget) = compare("beyond.hw", "--in bake");
    assert_eq!((code, &checks(&budget)[0]["part"]), (1, &json!("in 'bake' against earlier runs")), "{budget}");
    place.write("chop.supp", "leak:^chop$\n");
    let (code, budget) = compare("main.hw", "--suppressions chop.supp");
    assert_eq!((code, &checks(&budget)[1]["figure"]), (0, &json!(0)), "{budget}");
    assert_eq!(budget["suppressed"], json!([{"suppression": "leak:^chop$", "bytes": 800, "blocks": 1, "used": true}]));
    let text = place.highwater("check beyond.hw --baseline main.hw --baseline noise.hw").stdout;
    assert!(text.contains("peak, against earlier runs: 5.4 KiB to 5.6 KiB"), "{text}");
}

/// Imports a recording with children: the name of each, and the bytes that it allocates and keeps.
fn with_children(place: &Place, name: &str, children: &[(&str, u64)]) {
    let process = |program: &str, pid: u64, size: u64| {
        vec![
            json!({"event": "source", "program": program, "pid": pid}),
            json!({"event": "allocate", "address": "0x1000", "size": size, "thread": 1, "time_ns": SECOND,
                   "stack": [{"function": "fill", "file": "/src/fill.c", "line": 3}]}),
        ]
    };
    place.import(&format!("{name}.hw"), &process("suite", 1, 1000));
    std::fs::create_dir(place.file(&format!("{name}.children"))).unwrap();
    for ((program, size), pid) in children.iter().zip(10..) {
        place.import(&format!("{name}.children/{pid}-child.hw"), &process(program, pid, *size));
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_program_without_an_earlier_run_and_one_that_ran_only_then_are_incomplete() {
    let place = Place::new();
    with_children(&place, "main", &[("index", 4 * MIB), ("sh", 1000)]);
    with_children(&place, "same", &[("index", 4 * MIB), ("sed", 1000)]);
    with_children(&place, "more", &[("index", 4 * MIB), ("tool", 3 * MIB), ("tool", 1)]);
    with_children(&place, "less", &[]);
    let why = |line: &str| -> (i32, Vec<String>) {
        let (code, budget) = verdict(&place, line);
        let all = budget["incomplete"].as_array().unwrap().iter();
        (code, all.map(|one| one["why"].as_str().unwrap().to_owned()).collect())
    };
    // Small helpers come and go; the verdict says so.
    let (code, budget) = verdict(&place, "same.hw --baseline main.hw");
    assert_eq!((code, &budget["limits"]), (0, &json!(10)), "{budget}");
    let expected = [
        "'sh' ran in the baseline only, but its processes held at most 1000 B together",
        "there is no baseline for 'sed': it did not run in the earlier run, but its processes held at most 1000 B together",
    ];
    assert_eq!(budget["not_judged"], json!(expected));
    let (code, incomplete) = why("more.hw --baseline main.hw");
    assert_eq!((code, incomplete.len()), (1, 1), "{incomplete:?}");
    assert!(
        incomplete[0].starts_with("there is no baseline for 'tool': it did not run in the earlier run"),
        "{incomplete:?}"
    );
    let (code, incomplete) = why("less.hw --baseline main.hw");
    assert_eq!((code, incomplete.len()), (1, 1), "{incomplete:?}");
    assert!(incomplete[0].starts_with("'index' ran in the baseline only"), "{incomplete:?}");
    for format in ["text", "junit", "github", "gitlab"] {
        let run = place.highwater(&format!("check less.hw --baseline main.hw --format {format}"));
        assert!(run.code == 1 && run.stdout.contains("'index' ran in the baseline only"), "{run:?}");
        let run = place.highwater(&format!("check same.hw --baseline main.hw --format {format}"));
        assert!(run.code == 0 && run.stdout.contains("not judged: 'sh' ran in the baseline only"), "{run:?}");
    }
    // A program that earlier runs do not always have need not be in this one.
    assert_eq!(why("less.hw --baseline main.hw --baseline less.hw"), (0, vec![]));
    // The budget may expect it.
    let part = "[budget]\nmax-peak = \"1 GiB\"\n";
    place.write("highwater.toml", format!("{part}optional = [\"index\", \"tool\"]\n"));
    for run in ["more.hw", "less.hw"] {
        assert_eq!(why(&format!("{run} --baseline main.hw --budget highwater.toml")), (0, vec![]), "{run}");
    }
    place.write("highwater.toml", format!("{part}[budget.programs.tool]\nmax-peak = \"8 MiB\"\n"));
    assert_eq!(why("more.hw --baseline main.hw --budget highwater.toml"), (0, vec![]));
}

#[test]
fn the_hash_that_cargo_adds_is_no_part_of_a_name() {
    let place = Place::new();
    let [one, other] = ["index-0123456789abcdef", "index-fedcba9876543210"];
    with_children(&place, "main", &[(one, 4 * MIB)]);
    with_children(&place, "same", &[(other, 4 * MIB)]);
    with_children(&place, "large", &[(other, 5 * MIB)]);
    let (code, budget) = verdict(&place, "same.hw --baseline main.hw");
    assert_eq!(
        (code, &budget["limits"], &budget["processes"][1]["program"]),
        (0, &json!(10), &json!("index")),
        "{budget}"
    );
    assert_eq!(verdict(&place, "large.hw --baseline main.hw").0, 1);
    place.write("highwater.toml", "[budget.programs.index]\nmax-peak = \"4 MiB\"\n");
    assert_eq!(verdict(&place, "same.hw --budget highwater.toml").0, 0);
    let (code, budget) = verdict(&place, "large.hw --budget highwater.toml");
    assert_eq!((code, &budget["failed"], &budget["incomplete"]), (1, &json!(1), &json!([])), "{budget}");
    // The program itself.
    for name in [one, other] {
        let mut events = kitchen();
        events[0]["program"] = name.into();
        place.import(&format!("{name}.hw"), &events);
    }
    assert_eq!(verdict(&place, &format!("{one}.hw --baseline {other}.hw")).0, 0);
    // Of a folder, the recording with the same name.
    std::fs::create_dir(place.file("earlier")).unwrap();
    std::fs::copy(place.file(&format!("{other}.hw")), place.file(&format!("earlier/{one}.hw"))).unwrap();
    assert_eq!(verdict(&place, &format!("{one}.hw --baseline earlier")).0, 0);
    let (code, budget) = verdict(&place, "large.hw --baseline earlier");
    assert_eq!((code, &budget["limits"]), (1, &json!(0)), "{budget}");
    assert_eq!(
        budget["incomplete"][0]["why"].as_str().unwrap().split(';').next(),
        Some("there is no baseline for 'index'")
    );
}

#[test]
fn processes_of_one_name_are_compared_as_one_in_each_run() {
    let place = Place::new();
    let many: Vec<(&str, u64)> = (0..10).map(|_| ("cc", MIB)).chain([("cc", 10 * MIB)]).collect();
    with_children(&place, "main", &many);
    with_children(&place, "same", &many);
    let mut grown = many.clone();
    grown[3].1 = 9 * MIB;
    with_children(&place, "grown", &grown);
    let cc = |run: &str| {
        let (code, budget) = verdict(&place, &format!("{run}.hw --baseline main.hw"));
        let processes = budget["processes"].as_array().unwrap().clone();
        let checks =
            processes.iter().filter(|process| process["program"] == "cc").map(|process| process["checks"].clone());
        let mut checks: Vec<Value> = checks.flat_map(|checks| checks.as_array().unwrap().clone()).collect();
        // Each is with the process that has most of it.
        checks.sort_by_key(|check| check["limit"].as_str().unwrap().to_owned());
        (code, checks)
    };
    let (code, checks) = cc("same");
    assert_eq!((code, checks.len()), (0, 5), "{checks:?}");
    let range = |figure: u64| json!({"least": figure, "most": figure, "runs": 1});
    assert_eq!((&checks[4]["limit"], &checks[4]["baseline"]), (&json!("max-peak"), &range(10 * MIB)));
    assert_eq!((&checks[4]["processes"], &checks[0]["limit"]), (&json!(11), &json!("max-allocated")));
    assert_eq!(checks[0]["baseline"], range(20 * MIB));
    // It is still smaller than the largest, and all of them hold more.
    let (code, checks) = cc("grown");
    let broken = checks.iter().filter(|check| check["outcome"] == "broken");
    let broken: Vec<&str> = broken.map(|check| check["limit"].as_str().unwrap()).collect();
    assert_eq!((code, broken), (1, vec!["max-allocated", "max-leaked"]), "{checks:?}");
    let text = place.highwater("check same.hw --baseline main.hw").stdout;
    assert!(text.contains("peak, against earlier runs: 10.0 MiB, the largest of 11 processes"), "{text}");
    assert!(text.contains("allocations, against earlier runs: 11, 11 processes together"), "{text}");
}

#[test]
fn an_allowance_has_a_floor_for_small_figures() {
    let place = Place::new();
    for (name, bread) in [("main.hw", 4000), ("within.hw", 4400)] {
        place.import(name, &kitchen_with(bread));
    }
    assert_eq!(verdict(&place, "within.hw --baseline main.hw --allow +5%").0, 1);
    let (code, budget) = verdict(&place, "within.hw --baseline main.hw --allow +5%,1KiB,10");
    assert_eq!((code, &checks(&budget)[0]["allowed"], &checks(&budget)[2]["allowed"]), (0, &json!(6524), &json!(11)));
    is_wrong_usage(&place.highwater("check main.hw --baseline main.hw --allow 64KiB"), &["+5%,64KiB,10"]);
}

#[test]
fn a_suppression_is_used_where_it_takes_something_out() {
    let place = in_the_kitchen();
    place.write("chop.supp", "leak:^chop$\n");
    let (_, budget) = verdict(&place, "kitchen.hw --max-peak 1MiB --suppressions chop.supp");
    assert_eq!(budget["suppressed"][0]["used"], false, "no limit is on leaks: {budget}");
    let (_, budget) = verdict(&place, "kitchen.hw --max-leaked 0 --in bake --suppressions chop.supp");
    assert_eq!(budget["suppressed"][0]["used"], false, "{budget}");
    place.import("rounds.hw", &rounds());
    place.write("leak.supp", "leak:^leak$\n");
    let text = place.highwater("check rounds.hw --max-growth 0 --each round --suppressions leak.supp");
    assert_eq!(text.code, 0, "{text:?}");
    // At the last mark: three rounds have leaked.
    assert!(text.stdout.contains("suppressed: 300 B in 3 blocks by leak:^leak$"), "{}", text.stdout);
}

#[test]
fn a_verdict_is_written_to_files_in_each_format() {
    let place = in_the_kitchen();
    let formats = "--verdict junit=v.xml --verdict gitlab=v.json --verdict github=v.github --verdict text=v.txt --verdict json=all.json";
    let run = place.highwater(&format!("check kitchen.hw --max-leaked 799 {formats}"));
    assert_eq!(run.code, 1, "{run:?}");
    let read = |name: &str| std::fs::read_to_string(place.file(name)).unwrap();
    for (name, format) in [("v.xml", "junit"), ("v.json", "gitlab"), ("v.github", "github")] {
        let printed = place.highwater(&format!("check kitchen.hw --max-leaked 799 --format {format}")).stdout;
        assert_eq!(read(name), printed, "{name}");
    }
    assert!(read("v.txt").contains("1 of 1 limit is not kept."));
    let document: Value = serde_json::from_str(&read("all.json")).unwrap();
    assert_eq!(document["budget"]["failed"], 1, "{document}");
    // What a run writes, a later one that fails early does not leave there.
    place.highwater("check absent.hw --max-leaked 799 --verdict junit=v.xml");
    assert!(!place.file("v.xml").exists());
    // A folder, and standard output.
    std::fs::create_dir(place.file("reports")).unwrap();
    let run = place.highwater("record --max-peak 1GiB --verdict junit=reports --verdict github=- -o true.hw -- true");
    assert_eq!((run.code, run.stdout.as_str()), (0, "::notice title=highwater::1 limit kept\n"), "{run:?}");
    assert!(read("reports/true.xml").contains("name=\"peak\""));
    for (line, words) in [
        ("check kitchen.hw --verdict pdf=x", &["junit=budget.xml"][..]),
        ("record --verdict junit=x -- true", &["no limit"]),
    ] {
        is_wrong_usage(&place.highwater(line), words);
    }
}

#[test]
fn a_baseline_of_another_program_or_sampling_rate_is_refused() {
    let place = in_the_kitchen();
    place.import("rounds.hw", &rounds());
    let refused = place.highwater("check kitchen.hw --baseline rounds.hw");
    refused.is_one_clear_line_about(&["rounds.hw", "another program", "'rounds'", "'kitchen'"]);
    for (name, options) in [("all.hw", ""), ("some.hw", "--sample 64KiB")] {
        let run = place.highwater(&format!("record -o {name} {options} -- true"));
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    place.highwater("check all.hw --baseline some.hw").is_one_clear_line_about(&[
        "some.hw",
        "sampling rate",
        "64.0 KiB",
    ]);
    place.highwater("check kitchen.hw --baseline absent.hw").is_one_clear_line_about(&["absent.hw"]);
}
