//! Every request of the viewer for every kind of file.

mod support;

use serde_json::{Value, json};
use std::path::PathBuf;
use support::Place;
use support::viewed::{LOG, all_kinds};
use support::viewer::Viewer;

/// The state at the kitchen's peak, as a file.
fn write_snapshot(place: &Place) -> PathBuf {
    use highwater_model::{Source, When};
    let recording = highwater_store::Recording::open(&place.file("kitchen.hw")).unwrap();
    let snapshot = recording.snapshot(&When::Peak).unwrap();
    let source = Source { snapshot: true, duration: snapshot.at, ..snapshot.source.clone() };
    let state = snapshot.accounts.to_state();
    let (bytes, _) = highwater_store::write_snapshot(Vec::new(), &source, &snapshot.catalog, &state).unwrap();
    place.write("snapshot.hw", bytes)
}

#[test]
fn no_question_fails_about_any_kind_of_file() {
    let place = all_kinds();
    write_snapshot(&place);
    let files = ["kitchen.hw", "snapshot.hw", "trace.ctf", "objects.log", "motoko.img", "rust.img"];
    let viewer = Viewer::new(&place, &files.join(" "));
    let kinds: Vec<Value> = (0..files.len()).map(|id| viewer.source(id)["kind"].clone()).collect();
    assert_eq!(json!(kinds), json!(["recording", "snapshot", "trace", "objects", "image", "image"]));
    let metrics = ["live", "peak", "allocated", "freed", "leaked", "temporary"];
    let mut questions: Vec<String> = [
        "overview",
        "timeline?points=7",
        "bands?by=function&points=7",
        "headline",
        "peak?filter=size:1..",
        "callers?function=main",
        "tree?direction=up&measure=blocks&merge_recursion=1&library=1",
        "tree?focus=main",
        "blocks?sort=time&limit=3",
        "blocks?filter=size:1..100&filter=freed:never",
        "histograms",
        "histograms?filter=allocated:0..&filter=lifetime:1..",
        "leaks?points=5",
        "growth?points=5",
        "still_live?limit=3",
        "types",
        "rss",
        "rss/map",
        "image/heap",
        "image/treemap?depth=3",
        "image/object?address=0x1",
        "live",
        "link",
        "save",
        "filters?filter=size:1..",
    ]
    .map(str::to_owned)
    .to_vec();
    for metric in metrics {
        questions.push(format!("rows?metric={metric}"));
        questions.push(format!("rows?metric={metric}&by=type&filter=size:2.."));
        questions.push(format!("tree?metric={metric}&filter=outside:contains:nothing"));
    }
    questions.extend(["function", "file", "module", "place", "thread", "heap"].map(|by| format!("rows?by={by}")));
    // Every documented request, except those for several sources, for one file or block, for live processes, and POST requests, which other tests cover.
    let documented =
        include_str!("../../../docs/api.md").split("**`").skip(1).filter_map(|text| text.split(['`', '?']).next());
    let is_asked = |name: &&str| questions.iter().any(|question| question.split('?').next() == Some(*name));
    let elsewhere: Vec<&str> = documented.filter(|name| !is_asked(name)).collect();
    let is_live = |name: &&str| name.contains("live/");
    let (live, others): (Vec<&str>, Vec<&str>) = elsewhere.into_iter().partition(is_live);
    assert!(live.contains(&"live/growth"), "{live:?}");
    let covered = [
        "sources",
        "processes",
        "processes/held",
        "fleet/timeline",
        "fleet/sites",
        "fleet/leaks",
        "fleet/growth",
        "fleet/processes",
        "POST fleet/open",
        "source",
        "POST source/open",
        "pprof",
        "block",
        "block",
        "compare",
        "image/compare",
        "saved_page",
    ];
    assert_eq!(others, covered);
    // A kind of file answers a request that it does not support with one line of error; all others are answered.
    for (id, file) in files.iter().enumerate() {
        let has = viewer.source(id)["has"].to_string();
        let metrics = viewer.source(id)["metrics"].to_string();
        let mut answered = 0;
        for question in &questions {
            let join = if question.contains('?') { '&' } else { '?' };
            let asked = match question.as_str() {
                "save" => format!("save?view=source%3D{id}"),
                question => format!("{question}{join}source={id}"),
            };
            let answer = viewer.request("GET", &asked);
            assert_eq!(answer.status, 200, "{file}: {asked}: {}", answer.problem().unwrap_or_default());
            match answer.problem() {
                None => answered += 1,
                Some(line) => {
                    assert!(!line.is_empty() && !line.contains('\n'), "{file}: {asked}: {line}");
                    let needs = [
                        ("timeline", "timeline"),
                        ("bands", "timeline"),
                        ("peak?", "timeline"),
                        ("image/", "image"),
                        ("types", "trust"),
                        ("rss", "rss"),
                        ("allocated:", "timeline"),
                        ("freed:", "timeline"),
                    ];
                    // A metric is refused exactly if the source does not offer it.
                    if let Some(metric) = question.split("metric=").nth(1) {
                        let metric = metric.split('&').next().unwrap_or_default();
                        assert!(!metrics.contains(&format!("\"{metric}\"")), "{file}: {asked}: {line}");
                        continue;
                    }
                    let (_, needed) = needs
                        .iter()
                        .find(|(start, _)| question.contains(start))
                        .unwrap_or_else(|| panic!("{file}: {asked}: {line}"));
                    let is_strange = !has.contains(&format!("\"{needed}\"")) || question.starts_with("image/object");
                    assert!(is_strange, "{file}: {asked}: {line}");
                }
            }
        }
        // A snapshot only has live blocks.
        assert!(answered >= questions.len() / 2, "{file}: {answered} of {}", questions.len());
    }
    for a in 0..files.len() {
        for b in 0..files.len() {
            viewer.ask(&format!("compare?a={a}@end&b={b}@end"));
            let images = viewer.request("GET", &format!("image/compare?a={a}&b={b}"));
            assert_eq!(images.status, 200, "{images:?}");
            assert_eq!(images.problem().is_none(), a == b && a >= 4, "{a} {b}: {images:?}");
        }
    }
    for (question, status) in [
        ("nothing", 404),
        ("rows?source=99", 404),
        ("callers", 400),
        ("compare?a=0", 400),
        ("image/object?source=4", 400),
        ("rows?by=colour", 400),
    ] {
        assert_eq!(viewer.request("GET", question).status, status, "{question}");
    }
}

#[test]
fn images_are_what_the_command_prints_of_them() {
    let place = all_kinds();
    for (before, after) in [("motoko.img", "later.img"), ("rust.img", "rust-later.img")] {
        let viewer = Viewer::new(&place, &format!("{before} {after}"));
        let heap = viewer.ask("image/heap");
        assert_eq!(heap, place.json(&format!("image heap {before}")), "{before}");
        assert_eq!(viewer.ask("image/compare?a=0&b=1"), place.json(&format!("image diff {before} {after}")));
        assert_eq!(viewer.source(0)["live_at_end"]["bytes"], heap["live_bytes"], "{before}");
        for largest in heap["largest"].as_array().unwrap().iter().take(3) {
            let address = largest["address"].as_str().unwrap();
            let shown = place.json(&format!("image show {before} {address}"));
            assert_eq!(viewer.ask(&format!("image/object?address={address}")), shown, "{before}: {address}");
        }
        let strange = viewer.request("GET", "image/object?address=nowhere");
        assert!(strange.problem().unwrap().contains("nowhere"), "{strange:?}");

        // The areas of a whole treemap add up to the live bytes, and each part to its own bytes and those of its parts.
        let treemap = viewer.ask("image/treemap?depth=100&least=0");
        let nodes = treemap["nodes"].as_array().unwrap();
        let number = |node: &Value, name: &str| node[name].as_u64().unwrap();
        assert!(nodes.len() > 2 && nodes.len() < 20_000, "{}", nodes.len());
        assert_eq!(nodes[0]["retained"], heap["live_bytes"]);
        assert_eq!(nodes.iter().map(|node| number(node, "bytes")).sum::<u64>(), number(&nodes[0], "retained"));
        assert_eq!(nodes[1..].iter().map(|node| number(node, "count")).sum::<u64>(), number(&nodes[0], "count"));
        let mut parts = vec![0; nodes.len()];
        for (at, node) in nodes.iter().enumerate().skip(1) {
            let parent = number(node, "parent") as usize;
            assert!(parent < at);
            parts[parent] += number(node, "retained");
        }
        for (node, parts) in nodes.iter().zip(parts) {
            assert_eq!(number(node, "retained"), number(node, "bytes") + parts, "{node}");
        }
        // Objects that retain less than the given share are left out, and so are those that lie too deep.
        let short = viewer.ask("image/treemap?depth=1&least=0.1");
        for node in &short["nodes"].as_array().unwrap()[1..] {
            assert_eq!(node["parent"], 0);
            assert!(number(node, "retained") * 10 >= number(&nodes[0], "retained"), "{node}");
        }
    }
}

#[test]
fn types_are_what_the_command_prints_of_them() {
    let place = all_kinds();
    let viewer = Viewer::new(&place, "objects.log");
    assert_eq!(viewer.ask("types"), place.json("objects objects.log"));
    // A log that has grown is read again.
    place.write("objects.log", format!("{LOG}@ ALLOCATE 99 b.rs:9 New 9\n"));
    assert_eq!(viewer.ask("types"), place.json("objects objects.log"));
    assert_eq!(viewer.source(0)["live_at_end"]["bytes"], 159);
}

/// Names of members; a member of a list's elements follows the list, as `list.member`.
fn names(value: &Value) -> Vec<String> {
    let members = value.as_object().into_iter().flatten();
    let mut names = Vec::new();
    for (name, value) in members {
        names.push(name.clone());
        let first = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        names.extend(first.as_object().into_iter().flatten().map(|(inner, _)| format!("{name}.{inner}")));
    }
    names
}

#[test]
fn everything_that_is_documented_is_in_the_answers() {
    let place = all_kinds();
    let viewer = Viewer::new(&place, "kitchen.hw motoko.img");
    let documented: [(&str, &str); 12] = [
        (
            "sources",
            "schema version sources sources.id sources.kind sources.path sources.name sources.program sources.pid sources.host \
             sources.started sources.begins_ns sources.duration_ns sources.events sources.reading sources.estimated sources.sampling sources.peak \
             sources.live_at_end sources.threads sources.heaps sources.has sources.anomalies sources.damage sources.problem",
        ),
        (
            "overview",
            "at_ns window.from_ns window.to_ns figures top.live top.peak top.allocated top.temporary anomalies notes",
        ),
        (
            "timeline",
            "t live_bytes.low live_bytes.high live_bytes.last live_blocks.low live_blocks.high live_blocks.last allocated_bytes \
             allocations freed_bytes gauges.name gauges.unit gauges.t gauges.value marks.t marks.name peak.at_ns peak.bytes approximate",
        ),
        (
            "rows",
            "at_ns total.value count rows.key rows.id rows.value rows.blocks rows.share rows.frame rows.stack rows.live_bytes",
        ),
        ("rows?by=function", "rows.self rows.total rows.total_blocks"),
        (
            "callers?function=cook&at=peak",
            "function self total blocks callers.function callers.value callers.blocks callees.function",
        ),
        (
            "tree",
            "names files node_name node_file node_line node_depth node_value node_self node_blocks total left_out.nodes left_out.value at_ns",
        ),
        ("tree?focus=cook", "callers.names callees.names"),
        (
            "blocks",
            "count bytes estimated_blocks blocks.id blocks.address blocks.size blocks.usable blocks.allocated_ns blocks.freed_ns \
             blocks.lifetime_ns blocks.thread blocks.heap blocks.type blocks.variable blocks.site blocks.weight blocks.stack",
        ),
        (
            "histograms?filter=allocated:0..",
            "size.from size.to size.blocks size.bytes lifetime.from_ns lifetime.to_ns lifetime.blocks lifetime.bytes \
             never_freed.blocks never_freed.bytes",
        ),
        (
            "leaks",
            "t count sites.curve sites.blocks_curve sites.growth_per_s sites.steadiness sites.score sites.live_bytes sites.live_blocks \
             sites.oldest_ns sites.id sites.key sites.frame sites.stack",
        ),
        (
            "compare?a=0@1s&b=0@peak",
            "before.live_bytes after.live_bytes change.bytes change.blocks count rows.key rows.id_a rows.id_b rows.before rows.after \
             rows.change rows.blocks_before rows.blocks_after rows.what rows.frame rows.stack tree.node_before tree.node_after",
        ),
    ];
    for (question, members) in documented {
        let known = names(&viewer.ask(question));
        for member in members.split_whitespace() {
            assert!(known.iter().any(|name| name == member), "{question} has no {member}: {known:?}");
        }
    }
    let treemap = names(&viewer.ask("image/treemap?source=1"));
    for member in ["parent", "label", "kind", "address", "bytes", "retained", "count"] {
        assert!(treemap.contains(&format!("nodes.{member}")), "{member}: {treemap:?}");
    }
    // Nothing is known of an unreadable file, but every name is there.
    let missing = Viewer::new(&place, "trace.ctf missing.hw");
    assert_eq!(names(&missing.source(1)).len(), viewer.source(0).as_object().unwrap().len());
}

#[test]
fn samples_and_promotions_are_counted_alike_by_figures_and_by_single_blocks() {
    let place = all_kinds();
    let (fresh, gone_through) = (Viewer::new(&place, "trace.ctf"), Viewer::new(&place, "trace.ctf"));
    let duration = gone_through.source(0)["duration_ns"].as_u64().unwrap();
    gone_through.ask("rows?filter=size:0..&metric=freed");
    let mut promoted = 0;
    for part in 1..=4 {
        let window = format!("from={}&to={}", duration / 9 * part, duration / 5 * (part + 1));
        // Temporary allocations cannot be estimated from samples.
        for metric in ["live", "peak", "allocated", "freed"] {
            for by in ["site", "heap"] {
                let question = format!("rows?by={by}&metric={metric}&limit=10000&{window}");
                assert_eq!(fresh.ask(&question), gone_through.ask(&question), "{question}");
            }
            let question = format!("rows?by=site&metric={metric}&limit=10000&{window}");
            let (figures, blocks) = (fresh.ask(&question), gone_through.ask(&format!("{question}&filter=size:0..")));
            let told = |answer: &Value| -> Vec<Value> {
                let rows = answer["rows"].as_array().unwrap().iter();
                rows.map(|row| json!([row["id"], row["value"], row["blocks"]])).collect()
            };
            assert!(!told(&figures).is_empty(), "{question}");
            assert_eq!(told(&figures), told(&blocks), "{question}");
        }
        // For a single heap, promoted blocks are allocated in one heap and freed from the other.
        let of = |metric: &str, heap: &str| {
            let answer = gone_through.ask(&format!("rows?metric={metric}&filter=heap:{heap}&{window}"));
            answer["total"]["blocks"].as_u64().unwrap()
        };
        let all = gone_through.ask(&format!("rows?metric=allocated&filter=size:0..&{window}"));
        promoted += of("allocated", "minor") + of("allocated", "major") - all["total"]["blocks"].as_u64().unwrap();
    }
    assert!(promoted > 0);
}

#[test]
fn an_image_has_the_names_of_the_module_that_is_given() {
    let place = all_kinds();
    // Neither beside it nor named by it.
    std::fs::create_dir(place.file("modules")).unwrap();
    place.write("modules/built.wasm", std::fs::read(place.file("ledger.wasm")).unwrap());
    place.write("alone.img", std::fs::read(place.file("motoko.img")).unwrap());
    let shapes = |viewer: &Viewer| viewer.ask("image/heap")["shapes"].to_string();
    let types = |viewer: &Viewer| viewer.ask("rows?by=type&metric=live")["rows"].to_string();
    let without = Viewer::new(&place, "alone.img");
    let with = Viewer::new(&place, "alone.img --module modules/built.wasm");
    let named = Viewer::new(&place, "motoko.img");
    assert_ne!(shapes(&without), shapes(&named));
    assert_eq!(shapes(&with), shapes(&named));
    assert_ne!(types(&without), types(&named));
    assert_eq!(types(&with), types(&named));
}
