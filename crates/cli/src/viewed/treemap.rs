//! A treemap of an image: what each object keeps, by dominators, those of one shape that the same object keeps together.

use highwater_image::{Graph, Node};
use highwater_input::image::ExaminedHeap;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};

/// The most nodes.
const MOST_NODES: usize = 20_000;

/// Whom each object keeps by itself, by number: those of one stand side by side.
struct Kept {
    /// Where those of an object begin; they end where those of the next do.
    begins: Vec<u32>,
    numbers: Vec<u32>,
}

impl Kept {
    fn of(graph: &Graph) -> Self {
        // By number, and 0 is what keeps the roots.
        let mut begins = vec![0; graph.len() + 2];
        graph.nodes().for_each(|node| begins[node.dominator as usize + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut free = begins.clone();
        let mut numbers = vec![0; graph.len()];
        for node in graph.nodes() {
            let place = &mut free[node.dominator as usize];
            numbers[*place as usize] = node.number;
            *place += 1;
        }
        Self { begins, numbers }
    }

    fn by(&self, number: u32) -> &[u32] {
        let at = number as usize;
        &self.numbers[self.begins[at] as usize..self.begins[at + 1] as usize]
    }
}

/// Objects of one shape that one object, or several together, keep.
#[derive(Default)]
struct Group {
    objects: Vec<Node>,
    retained: u64,
}

/// `nodes[]` of `parent, label, kind, address, bytes, retained, count`, a parent before its children; the first is the whole. Those that keep less than
/// `least` of it are left out.
pub fn document(looked: &ExaminedHeap<'_>, depth: usize, least: f64) -> Value {
    let graph = &looked.examination.graph;
    let kinds = looked.heap.kinds();
    let kept = Kept::of(graph);
    let (live_objects, live_bytes) = looked.examination.live();
    let bound = ((live_bytes as f64 * least).ceil() as u64).max(1);
    let mut nodes = vec![json!({
        "parent": null, "label": "all", "kind": null, "address": null, "bytes": 0, "retained": live_bytes, "count": live_objects,
    })];
    // Those whose children are to come: their place among the nodes, the objects they stand for, and how deep they are.
    let mut waiting: VecDeque<(usize, Vec<u32>, usize)> = [(0, vec![0], 0)].into();
    while let Some((parent, numbers, at)) = waiting.pop_front() {
        if at == depth {
            continue;
        }
        for group in groups(graph, numbers.iter().flat_map(|number| kept.by(*number)), bound) {
            if nodes.len() == MOST_NODES {
                return json!({ "nodes": nodes });
            }
            let first = &group.objects[0];
            let below = group.objects.iter().flat_map(|node| kept.by(node.number));
            let below: u64 = below.map(|number| graph.node(*number).retained_bytes).sum();
            waiting.push_back((nodes.len(), group.objects.iter().map(|node| node.number).collect(), at + 1));
            nodes.push(json!({
                "parent": parent,
                "label": graph.shapes.name(first.shape),
                "kind": kinds[usize::from(graph.shapes.kind(first.shape))],
                "address": (group.objects.len() == 1).then(|| format!("{:#x}", first.object)),
                "bytes": group.retained.saturating_sub(below),
                "retained": group.retained,
                "count": group.objects.len(),
            }));
        }
    }
    json!({ "nodes": nodes })
}

/// Objects by shape, what keeps the most first; without those that keep less than a bound.
fn groups<'a>(graph: &Graph, numbers: impl Iterator<Item = &'a u32>, bound: u64) -> Vec<Group> {
    let mut groups: HashMap<u16, Group> = HashMap::new();
    for node in numbers.map(|number| graph.node(*number)) {
        let group = groups.entry(node.shape.0).or_default();
        group.retained += node.retained_bytes;
        group.objects.push(node);
    }
    let mut groups: Vec<Group> = groups.into_values().filter(|group| group.retained >= bound).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.retained), group.objects[0].number));
    groups
}
