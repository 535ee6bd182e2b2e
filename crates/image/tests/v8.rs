//! Heap snapshots of V8, compared with what Chrome's developer tools and memlab say of the same files.

use highwater_image::dumps::v8::{V8Heap, V8Snapshot};
use highwater_image::{
    ComparedImage, DumpError, DumpKind, DumpSource, Examination, Graph, HeapAbilities, ImageHeap, Lens, ShapeId,
    compare, recognize_dump, survey,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v8").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    DumpSource::file(&fixture(name)).read().and_then(|mut file| file.read_to_end(&mut bytes)).expect("read");
    bytes
}

fn opened(name: &str) -> V8Heap {
    V8Snapshot::read(&DumpSource::file(&fixture(name))).expect("a snapshot")
}

fn of_bytes(bytes: &[u8]) -> Result<V8Heap, DumpError> {
    V8Snapshot::read(&DumpSource::Bytes(Arc::from(bytes)))
}

/// The lines of a file of others' figures, with their fields.
fn rows(name: &str) -> Vec<Vec<String>> {
    let text = String::from_utf8(unpacked(name)).expect("UTF-8");
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// By node id: the retained size and the id of the dominator, 1 for the root.
fn by_id(heap: &V8Heap, examination: &Examination) -> BTreeMap<u64, (u64, u64)> {
    let graph = &examination.graph;
    let id = |object: u64| heap.identity(object);
    let dominator = |number: u32| if number == 0 { 1 } else { id(graph.node(number).object) };
    graph.nodes().map(|node| (id(node.object), (node.retained_bytes, dominator(node.dominator)))).collect()
}

#[test]
fn sums_are_those_that_the_file_itself_has() {
    let document: Value = serde_json::from_slice(&unpacked("before.heapsnapshot.zst")).expect("JSON");
    let fields = document["snapshot"]["meta"]["node_fields"].as_array().expect("fields");
    let sizes = fields.iter().position(|field| field == "self_size").expect("sizes");
    let nodes = document["nodes"].as_array().expect("nodes");
    let total: u64 = nodes.iter().skip(sizes).step_by(fields.len()).filter_map(Value::as_u64).sum();

    let examination = opened("before.heapsnapshot.zst").examine(0);
    let kinds = examination.kinds.iter();
    let (count, bytes) = kinds.fold((0, 0), |sum, (_, kind)| (sum.0 + kind.count, sum.1 + kind.bytes));
    assert_eq!((Some(count), bytes), (document["snapshot"]["node_count"].as_u64(), total));
    // All nodes but the root are objects.
    assert_eq!(examination.live(), (count - 1, total));
}

#[test]
fn retained_sizes_and_dominators_of_all_nodes_are_those_of_the_developer_tools() {
    let heap = opened("before.heapsnapshot.zst");
    let ours = by_id(&heap, &heap.examine(0));
    let theirs = rows("before.nodes.zst");
    assert_eq!(theirs.len(), ours.len() + 1);
    for row in &theirs[1..] {
        let (id, retained, dominator) = (number(&row[0]), number(&row[1]), number(&row[2]));
        assert_eq!(ours.get(&id), Some(&(retained, dominator)), "node @{id}");
    }
    // memlab differs only in values of weak maps and what keeps them: these count as kept by both their key and their table.
    let differing = rows("before.memlab");
    assert_eq!(differing.len(), 22);
    assert!(differing.iter().all(|row| ours[&number(&row[0])].0 != number(&row[1])));
}

#[test]
fn paths_are_as_short_as_the_distances_of_the_developer_tools() {
    let heap = opened("before.heapsnapshot.zst");
    let examination = heap.examine(0);
    let distances: BTreeMap<u64, u64> =
        rows("before.nodes.zst").iter().filter_map(|row| Some((number(&row[0]), row[3].parse().ok()?))).collect();
    let accounts: Vec<u64> = examination
        .graph
        .nodes()
        .filter(|node| heap.shape_name(node.object) == "Account" && heap.bytes(node.object) > 0)
        .map(|node| node.object)
        .collect();
    assert!(accounts.len() >= 20);
    for object in accounts.into_iter().take(5) {
        let name = Lens::object_name(&heap, object);
        let view = heap.view(&examination, &name, 1).expect("an object");
        // The root of a path is at distance 1.
        assert_eq!(view.path.map(|path| path.length() + 1), Some(distances[&heap.identity(object)]), "{name}");
    }
}

#[test]
fn constructors_are_those_of_the_developer_tools() {
    let examination = opened("before.heapsnapshot.zst").examine(0);
    let graph = &examination.graph;
    let figures = |name: &str| graph.shapes.find(name).map(|id| graph.figures[id.0 as usize]).unwrap_or_default();
    let theirs = rows("before.classes");
    for row in &theirs {
        let name: String = serde_json::from_str(&row[3]).expect("a name");
        let ours = figures(&name);
        // Nodes without bytes do not count in the tools: roots, and empty objects of the browser.
        if ours.count == number(&row[0]) {
            assert_eq!((ours.bytes, ours.retained_bytes), (number(&row[1]), number(&row[2])), "{name}");
        } else {
            assert_eq!(ours.bytes, number(&row[1]), "{name}");
        }
    }
    let with_bytes = graph.shapes.ids().filter(|id| graph.figures[id.0 as usize].bytes > 0).count();
    assert_eq!(with_bytes, theirs.len());
}

#[test]
fn a_comparison_is_that_of_the_developer_tools_and_begins_with_the_leak() {
    let heaps = [opened("before.heapsnapshot.zst"), opened("after.heapsnapshot.zst")];
    let examinations = heaps.each_ref().map(|heap| heap.examine(0));
    let sides = [0, 1].map(|at| ComparedImage { heap: &heaps[at], examination: &examinations[at] });
    let comparison = compare(&sides, 10).expect("the same kind");
    let leak = &comparison.grown[0];
    assert_eq!(leak.shape, "Array");
    assert!(leak.path.as_ref().is_some_and(|path| path.to_string().ends_with(".leaked")), "{:?}", leak.path);
    let requests = comparison.new.iter().find(|new| new.shape == "Request").expect("the leaked objects");
    assert_eq!(requests.count, 60);
    for row in rows("diff.classes") {
        let name: String = serde_json::from_str(&row[4]).expect("a name");
        let ours = comparison.shapes.iter().find(|shape| shape.name == name);
        let ours = ours.map(|shape| (shape.came, shape.went)).unwrap_or_default();
        let came = (number(&row[0]), number(&row[2]));
        assert_eq!(ours, (came, (number(&row[1]), number(&row[3]))), "{name}");
    }
}

#[test]
fn objects_are_shown_as_a_programmer_knows_them() {
    let heap = opened("before.heapsnapshot.zst");
    let examination = heap.examine(3);
    let tables = heap.highlights(&examination, 1000);
    let table = |title: &str| tables.iter().find(|table| table.title == title).expect("a table");
    let detached: BTreeMap<&str, u64> =
        table("detached nodes").rows.iter().map(|row| (row.what.as_str(), row.count)).collect();
    assert_eq!((detached["Detached <div>"], detached["Detached <span>"]), (10, 10));
    let closure = table("closures").rows.iter().find(|row| row.what.starts_with("onClick()")).expect("the handlers");
    assert_eq!((closure.count, closure.what.contains("captures row")), (10, true), "{}", closure.what);
    let view = heap.view(&examination, &Lens::object_name(&heap, closure.object), 3).expect("shown");
    let value = view.value.expect("text");
    assert!(value.contains("->row Detached <div>") || value.contains("->row HTMLDivElement"), "{value}");
    let strings: BTreeSet<String> =
        heap.highlights(&examination, usize::MAX)[1].rows.iter().map(|row| row.what.clone()).collect();
    // V8 itself does not write characters beyond 16 bits as they are.
    assert!(
        strings.contains("\"a \\u{f600} \\\"quoted\\\" \\\\ text\"") && strings.contains("\"half a pair ???\""),
        "{strings:?}"
    );
    // A path that is printed leads to the object again.
    let (number, path) = &examination.graph.largest[0];
    let again = heap.view(&examination, &path.to_string(), 1).expect("found again");
    assert_eq!(again.object, examination.graph.node(*number).object);
    assert!(heap.view(&examination, "@1", 1).is_err() && heap.view(&examination, "@0", 1).is_err());
    assert!(heap.view(&examination, "nothing.at.all", 1).is_err());
}

#[test]
fn compressed_snapshots_are_recognized() {
    let packed = std::fs::read(fixture("before.heapsnapshot.zst")).expect("read");
    for start in [
        &packed[..packed.len().min(1 << 16)],
        &unpacked("before.heapsnapshot.zst")[..300],
        b" {\n \"snapshot\" : {\"meta\":",
    ] {
        assert_eq!(recognize_dump(start).map(|kind| kind.key()), Some(V8Snapshot.key()));
    }
    for other in [&b""[..], b"{}", b"{\"snapshot\":[]}", b"{\"schema\":2}", &packed[..10]] {
        assert!(recognize_dump(other).is_none());
    }
}

#[test]
fn a_snapshot_that_is_cut_is_an_error_with_its_offset() {
    let whole = unpacked("before.heapsnapshot.zst");
    for cut in [1, 100, 2000, whole.len() / 3, whole.len() / 2, whole.len() - 100, whole.len() - 2] {
        match of_bytes(&whole[..cut]) {
            Err(DumpError::Damaged { offset, .. }) => assert!(offset <= cut as u64),
            Err(other) => panic!("{cut}: {other}"),
            Ok(_) => panic!("{cut}: read"),
        }
    }
}

/// A leak in a program of Node.js, if that is there.
#[test]
fn a_leak_in_node_is_the_first_row() {
    let folder = std::env::temp_dir().join(format!("highwater-v8-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = ["a", "b"].map(|name| folder.join(format!("{name}.heapsnapshot")));
    let program =
        "const v8 = require('v8'); class Leaked { constructor(n) { this.text = 'leaked ' + n; this.more = [n, n]; } }
        globalThis.cache = new Map(); cache.set(-1, new Leaked(-1)); v8.writeHeapSnapshot(process.argv[1]);
        for (let n = 0; n < 5000; n++) cache.set(n, new Leaked(n)); v8.writeHeapSnapshot(process.argv[2]);";
    let ran = std::process::Command::new("node").args(["-e", program]).args(&files).status();
    if ran.is_ok_and(|status| status.success()) {
        let heaps = files.each_ref().map(|file| V8Snapshot::read(&DumpSource::file(file)).expect("a snapshot"));
        let examinations = heaps.each_ref().map(|heap| heap.examine(0));
        let sides = [0, 1].map(|at| ComparedImage { heap: &heaps[at], examination: &examinations[at] });
        let comparison = compare(&sides, 5).expect("the same kind");
        let leak = &comparison.grown[0];
        assert_eq!(leak.path.as_ref().map(ToString::to_string).as_deref(), Some("global.cache"), "{comparison:?}");
        assert!(comparison.new.iter().any(|new| new.shape == "Leaked" && new.count == 5000));
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// A made-up snapshot: the kinds of its edges are numbers into [`EDGE_TYPES`].
#[derive(Clone, Debug)]
struct MadeUp {
    nodes: Vec<MadeUpNode>,
}

/// Whether a node is synthetic, and its edges: kind and target.
type MadeUpNode = (bool, Vec<(usize, usize)>);

const EDGE_TYPES: [&str; 7] = ["context", "element", "property", "internal", "hidden", "shortcut", "weak"];
const ELEMENT: usize = 1;
const SHORTCUT: usize = 5;
const WEAK: usize = 6;

impl MadeUp {
    fn size(node: usize) -> u64 {
        8 * (node as u64 % 5)
    }

    fn json(&self) -> String {
        let nodes: Vec<u64> = self
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(at, (is_synthetic, edges))| {
                let kind = if *is_synthetic || at == 0 { 1 } else { 0 };
                [Self::size(at), kind, 0, edges.len() as u64, 2 * at as u64 + 1]
            })
            .collect();
        let edges: Vec<usize> =
            self.nodes.iter().flat_map(|(_, edges)| edges.iter().flat_map(|(kind, to)| [to * 5, *kind, 1])).collect();
        let description = json!({
            "meta": {
                "node_fields": ["self_size", "type", "name", "edge_count", "id"],
                "node_types": ["number", ["object", "synthetic"], "string", "number", "number"],
                "edge_fields": ["to_node", "type", "name_or_index"],
                "edge_types": ["node", EDGE_TYPES, "string_or_number"],
            },
            "node_count": self.nodes.len(), "edge_count": edges.len() / 3,
        });
        // The order of members matters, so they are written one by one.
        let members = [
            ("snapshot", description),
            ("nodes", json!(nodes)),
            ("edges", json!(edges)),
            ("unknown", json!([{"a": "]"}])),
            ("strings", json!(["Thing", "link"])),
        ];
        let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    /// By node, the targets that it keeps alive: what the rules say, edge by edge.
    fn retaining(&self) -> Vec<Vec<usize>> {
        let mut owned = BTreeSet::new();
        let mut waiting: Vec<usize> =
            self.nodes[0].1.iter().filter(|edge| edge.0 == SHORTCUT).map(|edge| edge.1).collect();
        while let Some(node) = waiting.pop() {
            // The root is no object: nothing refers to it.
            if node != 0 && owned.insert(node) {
                waiting.extend(self.nodes[node].1.iter().filter(|edge| edge.0 != WEAK).map(|edge| edge.1));
            }
        }
        let is_kept = |from: usize, kind: usize, to: usize| {
            kind != WEAK
                && to != from
                && to != 0
                && (from == 0 || (kind != SHORTCUT && (owned.contains(&from) || !owned.contains(&to))))
        };
        let targets = |(from, (_, edges)): (usize, &MadeUpNode)| {
            edges.iter().filter(|(kind, to)| is_kept(from, *kind, *to)).map(|(_, to)| *to).collect()
        };
        self.nodes.iter().enumerate().map(targets).collect()
    }
}

fn reachable(retaining: &[Vec<usize>], entries: &[usize], left_out: Option<usize>) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut waiting = entries.to_vec();
    while let Some(node) = waiting.pop() {
        if Some(node) != left_out && node != 0 && seen.insert(node) {
            waiting.extend(&retaining[node]);
        }
    }
    seen
}

fn snapshots() -> impl Strategy<Value = MadeUp> {
    (2usize..20).prop_flat_map(|count| {
        let edges =
            prop::collection::vec((prop::sample::select(vec![0, ELEMENT, 2, 3, 4, SHORTCUT, WEAK]), 0..count), 0..5);
        prop::collection::vec((any::<bool>(), edges), count).prop_map(|nodes| MadeUp { nodes })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn dominators_are_what_cannot_be_left_out(made in snapshots()) {
        let heap = of_bytes(made.json().as_bytes()).expect("a snapshot");
        let survey = survey(&heap, 2);
        let graph = Graph::of(&heap, &survey);
        let retaining = made.retaining();
        let mut entries = retaining[0].clone();
        // Nodes that only weak references lead to are there, too.
        let from_roots = reachable(&retaining, &entries, None);
        let referred: BTreeSet<usize> = retaining.iter().enumerate().skip(1).flat_map(|(_, to)| to.clone()).collect();
        entries.extend((1..made.nodes.len()).filter(|node| !from_roots.contains(node) && !referred.contains(node)));
        let all = reachable(&retaining, &entries, None);
        // Nodes that only refer to each other have no order.
        prop_assume!(all.len() == made.nodes.len() - 1);
        prop_assert_eq!(graph.len(), all.len());
        for node in graph.nodes() {
            let object = node.object as usize;
            let kept: u64 = all.difference(&reachable(&retaining, &entries, Some(object))).map(|node| MadeUp::size(*node)).sum();
            prop_assert_eq!(node.retained_bytes, kept, "what {} keeps", object);
        }
        let whole: u64 = graph.shapes.ids().map(|ShapeId(id)| graph.figures[id as usize].bytes).sum();
        prop_assert_eq!(whole, all.iter().map(|node| MadeUp::size(*node)).sum::<u64>());
    }

    #[test]
    fn a_changed_byte_is_an_error_or_another_snapshot(made in snapshots(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = made.json().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(heap) = of_bytes(&bytes) {
            let examination = heap.examine(5);
            let _ = heap.highlights(&examination, 5);
            for node in examination.graph.nodes() {
                let _ = heap.view(&examination, &Lens::object_name(&heap, node.object), 3);
            }
            let _ = heap.snapshot(&examination, Default::default());
        }
        let _ = of_bytes(&bytes[..at]);
    }
}
