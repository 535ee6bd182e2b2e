//! Every event of a recording as text and as lines, and parts of recordings that can be shared.

mod support;

use highwater_store::Recording;
use serde_json::{Value, json};
use std::path::Path;
use support::streams::free_port;
use support::{Place, Run, in_the_kitchen};

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures/memtrace");
    zstd::decode_all(std::fs::File::open(folder.join(format!("{name}.ctf.zst"))).unwrap()).unwrap()
}

/// What a report says of the memory, without what it says of the file.
fn figures(place: &Place, line: &str) -> Value {
    let report = place.json(line);
    json!([report["totals"], report["sites"], report["threads"], report["types"], report["anomalies"], report["at_ns"]])
}

#[track_caller]
fn succeeded(run: &Run) {
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

#[test]
fn events_are_one_readable_line_each() {
    let place = in_the_kitchen();
    let run = place.highwater("export kitchen.hw --to events -o -");
    succeeded(&run);
    let expected = "\
# program kitchen
# pid 7
# host home
     1.000000000       1 alloc   #0            1000 0x1000 type=Bread  bake (/src/bake.rs:1) < cook (/src/cook.rs:2) < main (/src/main.rs:3)
     2.000000000       2 alloc   #1             500 0x2000 type=Salad  chop (/src/chop.rs:1) < cook (/src/cook.rs:2) < main (/src/main.rs:3)
     3.000000000       1 mark              loaded
     4.000000000       1 alloc   #2            4000 0x3000  bake (/src/bake.rs:1) < cook (/src/cook.rs:2) < main (/src/main.rs:3)
     5.000000000       2 free    #2            4000 0x3000
     6.000000000       2 realloc #1             800 0x4000  chop (/src/chop.rs:1) < cook (/src/cook.rs:2) < main (/src/main.rs:3)
     7.000000000       1 free    #0            1000 0x1000
     8.000000000       1 mark              all done
    10.000000000       0 gauge             rss 4096
";
    assert_eq!(run.stdout, expected);
    succeeded(&place.highwater("export kitchen.hw --to events -o events.txt"));
    assert_eq!(std::fs::read_to_string(place.file("events.txt")).unwrap(), expected);
}

#[test]
fn the_lines_of_a_real_program_become_the_same_recording() {
    let place = Place::new();
    for (name, program) in [
        ("db", vec!["sqlite3", ":memory:", "create table t(a); insert into t values (randomblob(100000)); select 1;"]),
        ("py", vec!["python3", "-c", "import threading\nthreading.Thread(target=lambda: list(range(9999))).start()"]),
    ] {
        let mut words = vec!["record".to_owned(), "-o".to_owned(), format!("{name}.hw"), "--".to_owned()];
        words.extend(program.into_iter().map(str::to_owned));
        succeeded(&place.run(words));
        succeeded(&place.highwater(&format!("export {name}.hw --to events -o {name}.jsonl")));
        succeeded(&place.highwater(&format!("import {name}.jsonl -o {name}2.hw")));
        succeeded(&place.highwater(&format!("check {name}2.hw --strict")));
        for at in ["10%", "50%", "peak", "end"] {
            let report = |file: &str| place.json(&format!("report {file} --at {at} --top 0"));
            assert_eq!(report(&format!("{name}.hw")), report(&format!("{name}2.hw")), "{name} at {at}");
        }
        // Lines are read without an import as well, from a pipe, too.
        let piped =
            place.run_with_input("report - --json", &std::fs::read(place.file(&format!("{name}.jsonl"))).unwrap());
        succeeded(&piped);
        let of = |file: &str| {
            let info = place.json(&format!("info {file}"));
            (info["source"].clone(), info["modules"].clone(), info["gauges"].clone(), info["marks"].clone())
        };
        assert_eq!(of(&format!("{name}.hw")), of(&format!("{name}2.hw")));
    }
}

#[test]
fn a_window_has_the_figures_of_the_original() {
    let place = in_the_kitchen();
    let run = place.highwater("trim kitchen.hw --from 3.5s --to 6.5s -o part.hw");
    run.stdout_has(&["part.hw: 3 events"]);
    succeeded(&place.highwater("check part.hw --strict"));
    for at in ["3.5s", "4s", "4500ms", "5s", "6s", "6.5s"] {
        let line = |file: &str| format!("report {file} --at {at} --top 0");
        assert_eq!(figures(&place, &line("kitchen.hw")), figures(&place, &line("part.hw")), "{at}");
    }
    assert_eq!(figures(&place, "report part.hw --at peak"), figures(&place, "report kitchen.hw --at peak"));
    // Marks outside of the window are gone.
    assert_eq!(place.json("info part.hw")["marks"], json!([]));
    place.highwater("report part.hw --at 2s").is_one_clear_line_about(&["3.5"]);
    place.highwater("report part.hw").stdout_has(&["from 3.50s to 6.50s"]);
    // From a mark to the end.
    succeeded(&place.highwater("trim kitchen.hw --from mark:loaded -o rest.hw"));
    assert_eq!(figures(&place, "report rest.hw"), figures(&place, "report kitchen.hw"));
    // A part of a part, and its lines.
    succeeded(&place.highwater("trim part.hw --from 4.5s -o smaller.hw"));
    assert_eq!(figures(&place, "report smaller.hw --at 5s"), figures(&place, "report kitchen.hw --at 5s"));
    succeeded(&place.highwater("export part.hw --to events-jsonl -o part.jsonl"));
    succeeded(&place.highwater("import part.jsonl -o again.hw"));
    succeeded(&place.highwater("check again.hw --strict"));
    assert_eq!(figures(&place, "report again.hw --at 5s"), figures(&place, "report kitchen.hw --at 5s"));
}

#[test]
fn windows_of_real_recordings_are_exact() {
    let place = Place::new();
    let script = "x = []\nfor i in range(3000):\n  x.append(bytearray(1000 + i))\n  if i % 3 == 0: x.pop(0)\n";
    succeeded(&place.run(["record", "-o", "py.hw", "--", "python3", "-c", script]));
    succeeded(&place.highwater("trim py.hw --from 40% --to 80% -o part.hw"));
    succeeded(&place.highwater("check part.hw --strict"));
    let duration = place.json("info py.hw")["source"]["duration_ns"].as_u64().unwrap();
    for percent in [41, 50, 60, 70, 79] {
        let at = format!("{}ns", duration / 100 * percent);
        let line = |file: &str| format!("report {file} --at {at} --top 0");
        assert_eq!(figures(&place, &line("py.hw")), figures(&place, &line("part.hw")), "{percent} %");
    }
}

/// Everything that a file says, in whichever part of it: strings of the catalog are compressed.
fn all_texts(path: &Path) -> String {
    let recording = Recording::open(path).unwrap();
    let catalog = recording.catalog();
    let strings =
        (0..catalog.strings.len() as u32).map(|id| catalog.strings.get(highwater_model::StringId(id)).to_owned());
    let mut texts: Vec<String> = strings.collect();
    texts.push(format!("{:?}", recording.source()));
    texts.push(String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    texts.join("\n")
}

/// Unpacks every Zstandard frame in a file: no reader of ours may leave anything out.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    const MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let mut all = bytes.to_vec();
    for (at, _) in bytes.windows(4).enumerate().filter(|(_, four)| *four == MAGIC) {
        let mut decoder = zstd::stream::read::Decoder::new(&bytes[at..]).unwrap().single_frame();
        let _ = std::io::copy(&mut decoder, &mut all);
    }
    all
}

fn secrets() -> Vec<Value> {
    let stack = json!([
        {"function": "SECRETfunction<T>", "file": "/home/SECRETuser/SECRETfile.rs", "line": 3, "module": "/home/SECRETuser/SECRETmodule.so"},
        "malloc",
        {"module": "/opt/SECRETother.so", "address": "0x401234"}
    ]);
    vec![
        json!({"event": "source", "program": "SECRETprogram", "pid": 918273, "parent_pid": 918272, "host": "SECREThost",
               "start_unix_ns": 1_700_000_000_123_456_789u64, "context": "SECRETcontext", "runtime_parameters": "SECRETruntime",
               "executable": "/home/SECRETuser/bin/SECRETprogram", "command": ["./SECRETprogram", "--SECRETargument"],
               "notes": ["SECRETnote."]}),
        json!({"event": "thread", "thread": 1, "name": "SECRETthread"}),
        json!({"event": "allocate", "address": "0x1000", "size": 100, "thread": 1, "time_ns": 5, "stack": stack,
               "type": "SECRETtype", "variable": "SECRETvariable", "task": "SECRETtask"}),
        json!({"event": "mark", "name": "SECRETmark", "time_ns": 6}),
        json!({"event": "gauge", "name": "SECRETgauge", "value": 7, "time_ns": 7}),
        json!({"event": "gauge", "name": "rss", "value": 7, "time_ns": 8}),
    ]
}

#[test]
fn nothing_private_is_left_in_any_form() {
    let place = Place::new();
    place.import("whole.hw", &secrets());
    assert!(all_texts(&place.file("whole.hw")).contains("SECRETfunction"), "the test would see a secret");
    assert!(String::from_utf8_lossy(&unpacked(&std::fs::read(place.file("whole.hw")).unwrap())).contains("SECRET"));
    for names in ["hash", "strip"] {
        for ending in ["hw", "ctf"] {
            let file = format!("{names}.{ending}");
            let run = place.highwater(&format!("trim whole.hw --private --names {names} -o {file}"));
            run.stdout_has(&["left out: the command line, the host, process ids, the start time, texts about the run"]);
            let bytes = unpacked(&std::fs::read(place.file(&file)).unwrap());
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("SECRET"), "{file}");
            assert!(!bytes.windows(4).any(|four| four == 918_273u32.to_le_bytes()), "{file}");
            assert!(!bytes.windows(3).any(|three| three == &0x40_1234u32.to_le_bytes()[..3]), "{file}");
            let report = place.json(&format!("report {file} --top 0"));
            assert_eq!(report["totals"]["live_bytes"], if ending == "hw" { 100 } else { 104 }, "{file}");
        }
        let texts = all_texts(&place.file(&format!("{names}.hw")));
        assert!(!texts.contains("SECRET"), "{texts}");
        // Gauges that Highwater records, and allocators, keep their names.
        assert!(texts.contains("rss") && texts.contains("malloc"), "{texts}");
    }
    // The lines and the text of the part say no more.
    for to in ["events", "events-jsonl", "json", "pprof --per-block", "folded"] {
        succeeded(&place.highwater(&format!("export hash.hw --to {to} -o exported --force")));
        let bytes = std::fs::read(place.file("exported")).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("SECRET"), "{to}");
    }
    // With names, only what says who and where is left out.
    succeeded(&place.highwater("trim whole.hw --private -o named.hw"));
    let texts = all_texts(&place.file("named.hw"));
    for gone in ["SECRETuser", "SECREThost", "SECRETargument", "SECRETcontext", "SECRETruntime", "SECRETnote", "918273"]
    {
        assert!(!texts.contains(gone), "{gone}");
    }
    for there in [
        "SECRETfunction<T>",
        "SECRETfile.rs",
        "SECRETtype",
        "SECRETtask",
        "SECRETthread",
        "SECRETmark",
        "SECRETmodule.so",
    ] {
        assert!(texts.contains(there), "{there}");
    }
    // One option alone.
    succeeded(&place.highwater("trim whole.hw --no-host -o hostless.hw"));
    let texts = all_texts(&place.file("hostless.hw"));
    assert!(!texts.contains("SECREThost") && texts.contains("SECRETargument") && texts.contains("918273"));
}

#[test]
fn hashes_are_equal_with_one_key_and_differ_with_another() {
    let place = in_the_kitchen();
    place.write("key", "open sesame\n");
    let names = |options: &str| {
        succeeded(&place.highwater(&format!("trim kitchen.hw --names hash {options} --force -o hashed.hw")));
        let report = place.json("report hashed.hw --at peak --top 0");
        report["sites"].as_array().unwrap().iter().map(|site| site["stack"].to_string()).collect::<Vec<_>>()
    };
    let keyed = names("--key-file key");
    assert_eq!(keyed, names("--key-file key"));
    let run =
        place.run(["trim", "kitchen.hw", "--names", "hash", "--key", "open sesame", "--force", "-o", "hashed.hw"]);
    succeeded(&run);
    let report = place.json("report hashed.hw --at peak --top 0");
    assert_eq!(keyed[0], report["sites"][0]["stack"].to_string());
    assert_ne!(keyed, names("--key other"));
    // Without a key each file has its own.
    assert_ne!(names(""), names(""));
    // Sites stay apart, and keep their lines.
    assert_eq!(keyed.len(), 2);
    assert!(keyed[0].contains("\"line\":1") && !keyed[0].contains("bake"), "{}", keyed[0]);
}

/// The blocks of a site: a hundred sizes, so that large blocks are kept and small ones are chosen.
fn many() -> Vec<Value> {
    let mut lines = vec![json!({"event": "source", "program": "many"})];
    for number in 0u64..20_000 {
        let size = 16 << (number % 11);
        let function = if number % 7 == 0 { "seventh" } else { "others" };
        lines.push(json!({"event": "allocate", "address": (number + 1) << 20, "size": size, "time_ns": number * 1000,
                          "thread": number % 3, "stack": [function, "main"]}));
        if number % 4 == 0 {
            lines.push(json!({"event": "reallocate", "old_address": (number + 1) << 20, "address": (number + 1) << 20,
                              "size": size * 8, "time_ns": number * 1000 + 1, "thread": number % 3}));
        }
        if number % 2 == 0 {
            lines.push(json!({"event": "deallocate", "address": (number + 1) << 20, "time_ns": number * 1000 + 2}));
        }
    }
    lines
}

#[test]
fn a_sample_estimates_the_whole() {
    let place = Place::new();
    place.import("many.hw", &many());
    let of = |file: &str| {
        let report = place.json(&format!("report {file} --by function --top 0"));
        let rows = report["functions"].as_array().unwrap().clone();
        let row = rows.iter().find(|row| row["name"] == "seventh").unwrap().clone();
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
        [
            number(&report["totals"]["live_bytes"]),
            number(&report["totals"]["live_blocks"]),
            number(&report["totals"]["allocated_bytes"]),
            number(&report["totals"]["peak_bytes"]),
            number(&row["live_bytes"]),
        ]
    };
    let truth = of("many.hw");
    let mut mean = [0.0; 5];
    const KEYS: usize = 8;
    for key in 0..KEYS {
        let run = place.highwater(&format!("trim many.hw --keep 10% --key k{key} -o sample.hw --force"));
        run.stdout_has(&["a sample of", "sampled: one in", "all figures are estimates"]);
        succeeded(&place.highwater("check sample.hw --strict"));
        let events = place.json("info sample.hw")["file"]["events"].as_f64().unwrap();
        let all = place.json("info many.hw")["file"]["events"].as_f64().unwrap();
        assert!((0.07..0.14).contains(&(events / all)), "{}", events / all);
        let estimate = of("sample.hw");
        estimate.iter().zip(&mut mean).for_each(|(one, sum)| *sum += one / KEYS as f64);
    }
    for (figure, (estimate, truth)) in mean.iter().zip(truth).enumerate() {
        assert!((estimate / truth - 1.0).abs() < 0.1, "figure {figure}: {estimate} for {truth}");
    }
    // A sample of a sample, and of a window of it.
    succeeded(&place.highwater("trim many.hw --keep 40% --key a -o half.hw"));
    succeeded(&place.highwater("trim half.hw --keep 50% --key b --from 50% -o less.hw"));
    succeeded(&place.highwater("check less.hw --strict"));
    let twice = of("less.hw");
    assert!((twice[0] / truth[0] - 1.0).abs() < 0.1, "{} for {}", twice[0], truth[0]);
    // The same key chooses the same blocks.
    succeeded(&place.highwater("trim many.hw --keep 40% --key a -o again.hw"));
    assert_eq!(of("half.hw"), of("again.hw"));
}

#[test]
fn a_trace_stays_a_trace() {
    let place = Place::new();
    place.write("trace.ctf", fixture("steady"));
    let whole = place.json("report trace.ctf");
    succeeded(&place.highwater("trim trace.ctf --keep 50% --key k -o half.ctf"));
    let info = place.json("info half.ctf");
    assert_eq!(info["file"]["format"], place.json("info trace.ctf")["file"]["format"]);
    let half = place.json("report half.ctf");
    let number = |report: &Value, name: &str| report["totals"][name].as_f64().unwrap();
    assert!((number(&half, "allocated_bytes") / number(&whole, "allocated_bytes") - 1.0).abs() < 0.1);
    let objects = |file: &str| place.json(&format!("info {file}"))["file"]["events"].as_f64().unwrap();
    assert!((0.4..0.65).contains(&(objects("half.ctf") / objects("trace.ctf"))));
    // A window of it, with and without the ending.
    for out in ["part.ctf", "part"] {
        succeeded(&place.highwater(&format!("trim trace.ctf --from 50% --names strip --private -o {out}")));
        let part = place.json(&format!("report {out}"));
        assert_eq!(number(&part, "live_bytes"), number(&whole, "live_bytes"), "{out}");
        let text = String::from_utf8_lossy(&std::fs::read(place.file(out)).unwrap()).into_owned();
        assert!(!text.contains(".ml"), "{out}");
    }
    succeeded(&place.highwater("trim trace.ctf --from 50% -o part.hw"));
    place.highwater("info part.hw").stdout_has(&["Highwater recording"]);
}

#[test]
fn the_input_is_never_replaced_and_mistakes_are_one_line() {
    let place = in_the_kitchen();
    let before = std::fs::read(place.file("kitchen.hw")).unwrap();
    std::os::unix::fs::symlink("kitchen.hw", place.file("link.hw")).unwrap();
    for out in ["kitchen.hw", "./kitchen.hw", "link.hw"] {
        place.highwater(&format!("trim kitchen.hw --force -o {out}")).is_one_clear_line_about(&["is the input"]);
    }
    assert_eq!(std::fs::read(place.file("kitchen.hw")).unwrap(), before);
    place.write("there.hw", "mine");
    place.highwater("trim kitchen.hw -o there.hw").is_one_clear_line_about(&["there.hw exists", "--force"]);
    for (options, word) in [
        ("--keep 0", "percentage"),
        ("--keep 100%", "percentage"),
        ("--keep many", "percentage"),
        ("--from 6s --to 2s", "before"),
        ("--names reversed", "reversed"),
    ] {
        let run = place.highwater(&format!("trim kitchen.hw {options} -o out.hw"));
        assert_eq!(run.code, 2, "{options}: {}", run.stderr);
        assert!(run.stderr.contains(word), "{options}: {}", run.stderr);
    }
    place.highwater("trim kitchen.hw --from 99s -o out.hw").is_one_clear_line_about(&["99.00s"]);
    let run = place.run(["trim", "kitchen.hw", "--names", "hash", "--key", "", "-o", "out.hw"]);
    assert_eq!((run.code, run.stderr.contains("the key is empty")), (2, true));
    place.highwater("trim kitchen.hw --key-file nowhere -o out.hw").is_one_clear_line_about(&["nowhere"]);
    assert!(!place.file("out.hw").exists());
}

#[test]
fn a_context_and_a_rate_are_kept() {
    let place = Place::new();
    let script = "x = [bytes(5000) for _ in range(500)]";
    let run = place.run([
        "record",
        "--context",
        "nightly, run 4",
        "--sample-rate",
        "1e-3",
        "-o",
        "a.hw",
        "--",
        "python3",
        "-c",
        script,
    ]);
    succeeded(&run);
    place.highwater("info a.hw").stdout_has(&["context", "nightly, run 4", "7.8 KiB"]);
    succeeded(&place.highwater("export a.hw --to memtrace -o a.ctf"));
    place.highwater("info a.ctf").stdout_has(&["nightly, run 4"]);
    succeeded(&place.highwater("export a.hw --to events-jsonl -o a.jsonl"));
    assert!(std::fs::read_to_string(place.file("a.jsonl")).unwrap().contains("\"sample_rate\":8000"));
    for (words, word) in [
        (vec!["record", "--sample-rate", "0", "true"], "not a rate"),
        (vec!["record", "--sample-rate", "1e-4", "--sample", "1M", "true"], "cannot be used with"),
        (vec!["record", "--context", "", "true"], "empty"),
        (vec!["run", "--sample-rate", "x", "true"], "not a rate"),
        (vec!["set", "--sample-rate", "1e-4", "--sample", "off"], "cannot be used with"),
        (vec!["set", "--pid", "1"], "--sample"),
    ] {
        let run = place.run(&words);
        assert_eq!(run.code, 2, "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains(word), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn without_a_receiver_the_program_runs_all_the_same() {
    let place = Place::new();
    let port = free_port();
    let arguments = |options: &str| {
        let mut all: Vec<String> =
            format!("record --stream {port} {options}").split_whitespace().map(str::to_owned).collect();
        all.extend(["--", "sh", "-c", "cat; test -z \"$LD_PRELOAD\" && echo unrecorded; exit 5"].map(str::to_owned));
        all
    };
    let run = |options: &str| {
        use std::io::Write;
        let mut child = place
            .command(arguments(options))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(b"hello\n");
        Run::of(child.wait_with_output().unwrap())
    };
    let refused = run("");
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{}", refused.stderr);
    let alone = run("--or-run");
    assert_eq!((alone.code, alone.stdout.as_str()), (5, "hello\nunrecorded\n"), "{}", alone.stderr);
    assert_eq!(alone.stderr.lines().count(), 1, "{}", alone.stderr);
    assert!(alone.stderr.contains("warning: cannot connect") && alone.stderr.contains("the program is not recorded"));
    let kept = run("--or-run -o kept.hw");
    assert_eq!((kept.code, kept.stdout.as_str()), (5, "hello\n"), "{}", kept.stderr);
    assert!(kept.stderr.contains("the recording is not sent") && !kept.stderr.contains("sent 0"), "{}", kept.stderr);
    succeeded(&place.highwater("check kept.hw --strict"));
    // A receiver that is there gets everything.
    let mut listener = support::streams::Beside::highwater(&place, "listen 0 --once -o arrived.hw");
    let port = listener.port();
    let mut recorded = arguments("--or-run --context over-the-wire");
    recorded[2] = port.to_string();
    let run = place.run(recorded);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{}", run.stderr);
    assert_eq!(listener.ended().shell_status(), 0);
    place.highwater("info arrived.hw").stdout_has(&["over-the-wire"]);
    let both = place.highwater("record --stream 1 --or-run --wait true");
    assert_eq!(both.code, 2);
}

#[test]
fn a_snapshot_gets_other_names_and_a_profile_has_no_events() {
    let place = Place::new();
    let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../input/tests/fixtures/massif/bytes.out");
    std::fs::copy(profile, place.file("massif.out")).unwrap();
    place.highwater("trim massif.out -o out.hw").is_one_clear_line_about(&["no events"]);
    for to in ["events", "events-jsonl", "memtrace"] {
        place.highwater(&format!("export massif.out --to {to} -o out")).is_one_clear_line_about(&["no events"]);
    }
    let collector = support::live::Collector::new();
    let mut holder = collector.holder(&[]);
    holder.tell("keep 100 100");
    let pid = holder.pid;
    collector.highwater(&format!("snapshot --pid {pid} -o held.hw")).succeeded();
    collector.highwater("trim held.hw --private --names strip -o stripped.hw").succeeded();
    collector.highwater("check stripped.hw --strict").succeeded();
    let (held, stripped) = (collector.json("report held.hw"), collector.json("report stripped.hw"));
    assert_eq!(held["totals"], stripped["totals"]);
    let texts = all_texts(&collector.place.file("stripped.hw"));
    assert!(!texts.contains("keep_blocks") && !texts.contains("holder") && texts.contains("function 1"), "{texts}");
    let refused = collector.highwater("trim held.hw --keep 10% -o no.hw");
    assert!(refused.stderr_text().contains("one instant"), "{}", refused.stderr_text());
}
