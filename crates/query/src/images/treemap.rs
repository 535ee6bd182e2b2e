//! A treemap of an image by retained size (dominator tree). Objects of one shape with the same dominator are grouped.

use highwater_image::{Graph, GraphNode};
use highwater_input::image::ExaminedHeap;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};

/// The maximum number of nodes.
const MOST_NODES: usize = 20_000;

/// The objects that each object immediately dominates, by number. Those of one dominator are adjacent.
struct DominatedObjects {
    /// The index in `numbers` at which an object's entries begin; they end where the next object's begin.
    begins: Vec<u32>,
    numbers: Vec<u32>,
}

impl DominatedObjects {
    fn of(graph: &Graph) -> Self {
        // Indexed by number; 0 is the dominator of the roots.
        let mut begins = vec![0; graph.len() + 2];
        graph.nodes().for_each(|node| begins[node.dominator as usize + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut free = begins.clone();
        let mut numbers = vec![0; graph.len()];
        for node in graph.nodes() {
            let next = &mut free[node.dominator as usize];
            numbers[*next as usize] = node.number;
            *next += 1;
        }
        Self { begins, numbers }
    }

    fn by(&self, number: u32) -> &[u32] {
        let at = number as usize;
        &self.numbers[self.begins[at] as usize..self.begins[at + 1] as usize]
    }
}

/// Objects of one shape that are immediately dominated by one object, or by a group of objects.
#[derive(Default)]
struct Group {
    objects: Vec<GraphNode>,
    retained: u64,
}

/// `nodes[]` of `parent, label, kind, address, bytes, retained, count`, a parent before its children; the first is the whole. Groups that retain less
/// than the fraction `least` of it are left out.
pub fn treemap_document(examined: &ExaminedHeap<'_>, depth: usize, least: f64) -> Value {
    let graph = &examined.examination.graph;
    let kinds = examined.heap.kinds();
    let dominated = DominatedObjects::of(graph);
    let (live_objects, live_bytes) = examined.examination.live();
    let bound = ((live_bytes as f64 * least).ceil() as u64).max(1);
    let mut nodes = vec![json!({
        "parent": null, "label": "all", "kind": null, "address": null, "bytes": 0, "retained": live_bytes, "count": live_objects,
    })];
    // Nodes whose children are not added yet: their index in `nodes`, the objects they stand for, and their depth.
    let mut waiting: VecDeque<(usize, Vec<u32>, usize)> = [(0, vec![0], 0)].into();
    while let Some((parent, numbers, at)) = waiting.pop_front() {
        if at == depth {
            continue;
        }
        for group in groups(graph, numbers.iter().flat_map(|number| dominated.by(*number)), bound) {
            if nodes.len() == MOST_NODES {
                return json!({ "nodes": nodes });
            }
            let first = &group.objects[0];
            let below = group.objects.iter().flat_map(|node| dominated.by(node.number));
            let below: u64 = below.map(|number| graph.node(*number).retained_bytes).sum();
            waiting.push_back((nodes.len(), group.objects.iter().map(|node| node.number).collect(), at + 1));
            nodes.push(json!({
                "parent": parent,
                "label": graph.shapes.name(first.shape),
                "kind": kinds[usize::from(graph.shapes.kind(first.shape))],
                "address": (group.objects.len() == 1).then(|| examined.heap.object_name(first.object)),
                "bytes": group.retained.saturating_sub(below),
                "retained": group.retained,
                "count": group.objects.len(),
            }));
        }
    }
    json!({ "nodes": nodes })
}

/// Groups objects by shape, largest retained size first. Leaves out groups that retain less than `bound`.
fn groups<'a>(graph: &Graph, numbers: impl Iterator<Item = &'a u32>, bound: u64) -> Vec<Group> {
    let mut groups: HashMap<u32, Group> = HashMap::new();
    for node in numbers.map(|number| graph.node(*number)) {
        let group = groups.entry(node.shape.0).or_default();
        group.retained += node.retained_bytes;
        group.objects.push(node);
    }
    let mut groups: Vec<Group> = groups.into_values().filter(|group| group.retained >= bound).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.retained), group.objects[0].number));
    groups
}
