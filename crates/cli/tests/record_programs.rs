//! Records common programs: they behave as usual, and every figure equals that of a second witness in the same process.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::recorded::{Ended, Recording, Witness, record, run};
use support::{HIGHWATER, Place, in_the_kitchen, programs};

/// The program as it is installed, not a wrapper script.
fn installed(name: &str) -> PathBuf {
    let system = Path::new("/usr/bin").join(name);
    assert!(system.exists(), "{name} is not installed; ./test does that");
    system
}

/// Runs the program by itself and recorded, and compares the output. Returns the recordings, the program's own first.
fn compared(place: &Place, program: &Path, prepare: impl Fn(&mut Command)) -> Vec<Recording> {
    let mut alone = support::recorded::plain(place, program);
    prepare(&mut alone);
    let alone = run(&mut alone).succeeded();
    let mut command = record(place, &["--no-mmap", "--keep-children", "0"], program);
    prepare(&mut command);
    let folder = Witness::join(&mut command, place);
    let recorded = run(&mut command).succeeded();
    assert_eq!(recorded.stdout, alone.stdout, "{}", recorded.stderr_text());

    let mut recordings = vec![Recording::read(place)];
    recordings.extend(Recording::read_children(place));
    let witnesses = Witness::read_all(&folder);
    for recording in &recordings {
        let pid = recording.report["source"]["pid"].as_u64().unwrap();
        let seen = witnesses.get(&pid).unwrap_or_else(|| panic!("nobody else saw process {pid}"));
        let mut ours = Witness::of(recording);
        if recording.report["threads"].as_array().unwrap().len() > 1 {
            // The two need not agree on the order of events of several threads.
            (ours.peak_bytes, ours.peak_blocks) = (seen.peak_bytes, seen.peak_blocks);
        }
        assert_eq!(ours, *seen, "{}", recording.path.display());
    }
    recordings
}

/// Some stack has functions with all of these names, in this module.
#[track_caller]
fn has_stack(recording: &Recording, functions: &[&str], module: &str) {
    let found = recording.sites.iter().any(|site| {
        let in_module =
            |name: &str| site.frames.iter().any(|frame| frame.function == name && frame.module.contains(module));
        functions.iter().all(|name| in_module(name))
    });
    assert!(found, "no stack has {functions:?} of {module}");
}

#[test]
fn sqlite3_with_a_script() {
    let place = Place::new();
    place.write(
        "script.sql",
        "create table t (id integer primary key, name text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
         insert into t select i, 'name ' || (i * 7919 % 5000) from n;
         create index t_name on t(name);
         select count(*), min(name), max(name) from t;
         select substr(name, 6, 2) as start, count(*), group_concat(id) from t group by start order by 2 desc limit 3;
         delete from t where id % 3 = 0;
         select count(distinct name) from t;",
    );
    let recordings = compared(&place, &installed("sqlite3"), |command| {
        command.args([":memory:", ".read script.sql"]);
    });
    let [recording] = &recordings[..] else { panic!("one process, {} recordings", recordings.len()) };
    assert!(recording.totals().allocations > 5000);
    has_stack(recording, &["sqlite3_exec", "sqlite3_step"], "libsqlite3");
    assert!(recording.totals().live_blocks < 200, "it gives back what it took: {:?}", recording.totals());
}

#[test]
fn python3_with_every_object_a_block() {
    let place = Place::new();
    place.write(
        "script.py",
        "import json, re, threading\n\
         def work(n):\n    return json.loads(json.dumps([{'id': i, 'text': str(i) * 3} for i in range(n)]))\n\
         results = []\n\
         threads = [threading.Thread(target=lambda: results.append(len(work(300)))) for _ in range(3)]\n\
         [t.start() for t in threads]\n[t.join() for t in threads]\n\
         print(results, len(work(2000)), re.findall('a+', 'baab'))\n",
    );
    let prepare = |command: &mut Command| {
        command.args(["-B", "script.py"]).env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "1");
    };
    let recordings = compared(&place, &installed("python3"), prepare);
    let recording = &recordings[0];
    assert!(recording.totals().allocations > 20_000, "{:?}", recording.totals());
    has_stack(recording, &["PyUnicode_New", "_PyEval_EvalFrameDefault"], "python3");
    has_stack(recording, &["PyEval_EvalCode", "Py_RunMain"], "python3");
    assert!(recording.report["threads"].as_array().unwrap().len() >= 4);
}

#[test]
fn jq_over_a_document() {
    let place = Place::new();
    let rows: Vec<String> =
        (0..2000).map(|i| format!(r#"{{"id":{i},"tags":["a{}","b"],"name":"row {i}"}}"#, i % 7)).collect();
    place.write("rows.json", format!("[{}]", rows.join(",")));
    let recordings = compared(&place, &installed("jq"), |command| {
        command.args([
            "-c",
            "group_by(.tags[0]) | map({tag: .[0].tags[0], count: length, ids: map(.id) | add})",
            "rows.json",
        ]);
    });
    let recording = &recordings[0];
    assert!(recording.totals().allocations > 10_000);
    let json_functions = recording.sites.iter().filter(|site| {
        site.frames.iter().any(|frame| frame.function.starts_with("jv_") && frame.module.contains("libjq"))
    });
    assert!(json_functions.count() > 5);
}

#[test]
fn gcc_with_the_programs_it_runs() {
    let place = Place::new();
    let source = "#include <map>\n#include <string>\n\
                  int count(const std::map<std::string, int>& m) { int n = 0; for (auto& e : m) n += e.second; return n; }\n\
                  int main() { return count({{\"a\", 1}, {\"b\", 2}}) == 3 ? 0 : 1; }\n";
    place.write("program.cpp", source);
    let recordings = compared(&place, &installed("g++"), |command| {
        command.args(["-O1", "program.cpp", "-o", "program"]);
    });
    run(&mut Command::new(place.file("program"))).succeeded();
    let name = |recording: &Recording| {
        recording.report["source"]["program"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
    };
    let names: Vec<String> = recordings.iter().map(name).collect();
    // Links lead to programs whose names have the machine as a prefix and a version as a suffix.
    for part in ["g++", "cc1plus", "as", "collect2", "ld"] {
        assert!(
            names.iter().any(|name| name.split(['-', '.']).any(|word| word == part)),
            "{part} is not among {names:?}"
        );
    }
    let compiler = recordings.iter().find(|recording| name(recording) == "cc1plus").unwrap();
    assert!(compiler.totals().allocations > 10_000, "{:?}", compiler.totals());
    let driver = recordings[0].report["source"]["pid"].as_u64().unwrap();
    assert_eq!(compiler.report["source"]["parent_pid"], driver);
}

#[test]
fn a_rust_program_that_reads_recordings() {
    let place = in_the_kitchen();
    let recordings = compared(&place, Path::new(HIGHWATER), |command| {
        command.args(["report", "kitchen.hw", "--json"]);
    });
    let recording = recordings.iter().find(|one| one.path.ends_with("recording.hw")).unwrap();
    assert!(recording.sites.iter().any(|site| {
        site.frames
            .iter()
            .any(|frame| frame.full_name.as_deref().is_some_and(|name| name.contains("highwater_store::")))
    }));
}

/// The summary that a user sees at the end.
#[test]
fn the_summary_tells_what_happened_and_what_to_type_next() {
    let place = Place::new();
    let ended: Ended = run(record(&place, &[], programs::c("dying")).args(["return", "2000", "500"]));
    let summary = ended.stderr_text();
    for part in ["recording.hw", "peak", "allocations", "allocate_early", "dying.c:", "highwater report"] {
        assert!(summary.contains(part), "'{part}' is not in:\n{summary}");
    }
    assert!(summary.lines().count() <= 40, "one screen:\n{summary}");
    assert!(!ended.stdout_text().contains("highwater"));
}
