//! Files that change while the viewer has them open, and files that are damaged from the start.

mod support;

use serde_json::Value;
use support::viewed::{LOG, all_kinds, fixture};
use support::viewer::Viewer;

#[test]
fn files_that_go_shrink_or_become_others_are_told_and_the_rest_goes_on() {
    let place = all_kinds();
    let files = ["kitchen.hw", "motoko.img", "objects.log", "trace.ctf", "rust.img"];
    let viewer = Viewer::new(&place, &files.join(" "));
    let ask_all = || {
        for id in 0..files.len() {
            for question in ["rows?metric=live", "tree?metric=live", "overview?"] {
                let answer = viewer.request("GET", &format!("{question}&source={id}"));
                assert_eq!(answer.status, 200, "{id}: {answer:?}");
            }
        }
        viewer.ask("rows?source=4");
    };
    let problem = |id: usize| viewer.source(id)["problem"].as_str().unwrap_or_default().to_owned();
    let whole: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(place.file(file)).unwrap()).collect();
    ask_all();
    let heap = viewer.ask("image/heap?source=1");

    // Removed: the data read before still gives answers, for images too.
    for file in &files[..4] {
        std::fs::remove_file(place.file(file)).unwrap();
    }
    for id in 0..4 {
        assert!(problem(id).contains("cannot be read any more"), "{id}: {}", problem(id));
    }
    ask_all();
    assert_eq!(viewer.ask("image/heap?source=1"), heap);
    assert!(viewer.request("GET", "types?source=2").problem().is_some());

    // Restored.
    for (file, whole) in files.iter().zip(&whole) {
        place.write(file, whole);
    }
    for id in 0..5 {
        assert_eq!(problem(id), "", "{id}");
    }
    ask_all();

    // Truncated in place, to a part and to nothing: whatever the request, the viewer survives.
    for part in [3, 7] {
        for (file, whole) in files[..4].iter().zip(&whole) {
            let cut = std::fs::OpenOptions::new().write(true).open(place.file(file)).unwrap();
            cut.set_len((whole.len() * (7 - part) / 8) as u64).unwrap();
        }
        for question in ["image/heap", "image/treemap", "image/object?address=0x1"] {
            let join = if question.contains('?') { '&' } else { '?' };
            let answer = viewer.request("GET", &format!("{question}{join}source=1"));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        ask_all();
        viewer.ask("sources");
        ask_all();
    }
    for id in 0..4 {
        assert!(problem(id).contains("what was read before is shown"), "{id}: {}", problem(id));
    }

    // Replaced by a file of another kind.
    place.write("kitchen.hw", &whole[2]);
    place.write("motoko.img", &whole[0]);
    place.write("objects.log", &whole[1]);
    assert_eq!((&viewer.source(0)["kind"], &viewer.source(1)["kind"]), (&"objects".into(), &"recording".into()));
    assert_eq!(viewer.source(2)["kind"], "image");
    assert_eq!(viewer.ask("image/heap?source=2")["live_bytes"], heap["live_bytes"]);
    assert_eq!(viewer.ask("rows?source=1&metric=peak")["total"]["value"], 5500);
    ask_all();
}

#[test]
fn a_damaged_file_is_shown_as_far_as_it_goes() {
    let place = all_kinds();
    // More than one block of events, one of which is lost.
    let lines: String = (0..200_000u64)
        .map(|number| {
            format!(
                "{{\"event\":\"allocate\",\"address\":{},\"size\":16,\"time_ns\":{}}}\n",
                number * 16 + 16,
                number * 1000
            )
        })
        .collect();
    place.write("many.jsonl", lines);
    assert_eq!(place.highwater("import many.jsonl -o many.hw").code, 0);
    let mut bytes = std::fs::read(place.file("many.hw")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8].fill(0xff);
    place.write("many.hw", &bytes);
    let mut trace = fixture("formats/tests/fixtures/memtrace/steady.ctf.zst");
    trace.truncate(trace.len() / 2);
    place.write("trace.ctf", trace);
    place.write("objects.log", format!("{LOG}@ ALLOCATE x\n@ ALLO"));
    place.write("empty.hw", "");
    place.write("strange.hw", "nothing that is known");
    let viewer = Viewer::new(&place, "many.hw trace.ctf objects.log empty.hw strange.hw missing.hw kitchen.hw");
    for id in [0, 1, 2] {
        viewer.ask(&format!("rows?source={id}&metric=allocated"));
        viewer.ask(&format!("timeline?source={id}"));
        assert_eq!(viewer.source(id)["problem"], Value::Null, "{id}");
    }
    let damage = viewer.source(0)["damage"].as_array().unwrap().clone();
    assert!(!damage.is_empty() && damage[0]["what"].is_string(), "{damage:?}");
    assert!(!viewer.source(1)["damage"].as_array().unwrap().is_empty());
    for (id, words) in [(3, "empty"), (4, "of no known format"), (5, "No such file")] {
        let source = viewer.source(id);
        assert!(source["problem"].as_str().unwrap().contains(words), "{source}");
        let answer = viewer.request("GET", &format!("rows?source={id}"));
        assert!(answer.problem().unwrap().contains(words), "{answer:?}");
    }
    assert_eq!(viewer.ask("rows?source=6&metric=peak")["total"]["value"], 5500);
}
