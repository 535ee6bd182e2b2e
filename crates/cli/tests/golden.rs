//! Every `--json` document, compared with stored ones: a change of a document must be intended, and belongs in CHANGELOG.md.
//!
//! `HIGHWATER_GOLDEN=write cargo test -p highwater-cli --test golden` stores the documents as they are now; `git diff` then shows what changed.

mod support;

use serde_json::{Map, Value};
use std::path::Path;
use support::viewed::all_kinds;
use support::viewer::Viewer;
use support::{Place, document};

const OF_RECORDINGS: &[&str] = &[
    "report {}",
    "report {} --at peak --by function",
    "report {} --by file --metric allocated",
    "report {} --by module --metric allocations",
    "report {} --by thread --metric peak",
    "report {} --by type",
    "report {} --by heap",
    "report {} --at 50% --filter main",
    "report {} --filter heap:malloc",
    "report {} --from 20% --to 80%",
    "report {} --from 20% --to 80% --by function --metric live",
    "report {} --lifetimes",
    "leaks {}",
    "leaks {} --filter main",
    "diff {}@50% {}",
    "diff {}@20% {}@80% --by function",
    "diff {}@20% {}@80% --by thread --filter heap:malloc",
    "timeline {} --points 8",
    "info {}",
    "check {}",
    "block {} --id 1",
];

const OF_IMAGES: &[&str] =
    &["report {}", "report {} --by type", "leaks {}", "info {}", "check {}", "image heap {}", "image heap {} --top 3"];

const QUESTIONS: &[&str] = &[
    "overview",
    "overview?from=20%25&to=80%25",
    "overview?filter=size:100..",
    "timeline?points=7",
    "timeline?points=7&filter=size:100..",
    "timeline?points=7&filter=freed:ever",
    "peak",
    "peak?filter=thread:1",
    "rows",
    "rows?by=function&metric=peak",
    "rows?by=file&metric=allocated",
    "rows?by=module&metric=freed",
    "rows?by=place&metric=leaked",
    "rows?by=thread&metric=temporary",
    "rows?by=type&filter=size:1..",
    "rows?by=heap",
    "callers?function=main",
    "tree",
    "tree?direction=up&measure=blocks&library=1&metric=allocated",
    "tree?focus=main",
    "blocks?sort=lifetime&limit=3",
    "blocks?filter=allocated:0..&filter=freed:ever&limit=3",
    "block?id=1",
    "histograms",
    "histograms?filter=allocated:0..",
    "leaks?points=4",
    "compare?a={}@20%25&b={}@80%25",
    "types",
    "image/heap",
    "image/treemap?depth=3",
];

/// Lists keep their first elements, so that the stored documents stay readable.
fn shorten(value: &mut Value) {
    const MOST: usize = 6;
    match value {
        Value::Array(parts) => {
            let all = parts.len();
            parts.truncate(MOST);
            parts.iter_mut().for_each(shorten);
            if all > MOST {
                parts.push(format!("… {all} in all").into());
            }
        }
        Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Compares the answers with the stored ones of this name, or stores them.
fn compare(name: &str, answers: Map<String, Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    if std::env::var_os("HIGHWATER_GOLDEN").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&answers).unwrap() + "\n").unwrap();
        return;
    }
    let stored: Map<String, Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (question, answer) in &answers {
        let expected = stored.get(question).unwrap_or(&Value::Null);
        assert!(answer == expected, "{name}: {question}\nstored: {expected:#}\nnow: {answer:#}");
    }
    assert_eq!(answers.len(), stored.len());
}

fn printed(place: &Place, file: &str, lines: &[&str]) -> Map<String, Value> {
    let mut answers = Map::new();
    for line in lines {
        let run = place.highwater(&format!("{} --json", line.replace("{}", file)));
        let mut answer = if run.code == 0 { document(&run.stdout) } else { run.stderr.trim_end().into() };
        shorten(&mut answer);
        answers.insert((*line).to_owned(), answer);
    }
    answers
}

fn answered(viewer: &Viewer, source: usize) -> Map<String, Value> {
    let mut answers = Map::new();
    for question in QUESTIONS {
        let of_source = question.replace("{}", &source.to_string());
        let mark = if of_source.contains('?') { '&' } else { '?' };
        let answer = viewer.request("GET", &format!("{of_source}{mark}source={source}"));
        let mut answer = answer.problem().map_or_else(|| answer.value(), Value::from);
        shorten(&mut answer);
        answers.insert((*question).to_owned(), answer);
    }
    answers
}

#[test]
fn documents_are_as_stored() {
    let place = all_kinds();
    for (name, file) in [("recording", "kitchen.hw"), ("trace", "trace.ctf"), ("objects", "objects.log")] {
        let mut answers = printed(&place, file, OF_RECORDINGS);
        if name == "objects" {
            answers.extend(printed(&place, file, &["objects {}"]));
        }
        compare(name, answers);
    }
    compare("motoko", printed(&place, "motoko.img", OF_IMAGES));
    compare("rust", printed(&place, "rust.img", OF_IMAGES));
    let pairs =
        ["image diff motoko.img later.img", "image diff rust.img rust-later.img", "diff rust.img rust-later.img"];
    compare("images", printed(&place, "", &pairs));
}

#[test]
fn answers_are_as_stored() {
    let place = all_kinds();
    let files = ["kitchen.hw", "trace.ctf", "objects.log", "motoko.img"];
    let viewer = Viewer::new(&place, &files.join(" "));
    for (source, name) in ["recording", "trace", "objects", "motoko"].into_iter().enumerate() {
        compare(&format!("api-{name}"), answered(&viewer, source));
    }
    let mut sources = viewer.ask("sources");
    shorten(&mut sources);
    compare("api-sources", Map::from_iter([("sources".to_owned(), sources)]));
}
