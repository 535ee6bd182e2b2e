//! A treemap of an image: what each object keeps, by dominators, those of one shape that the same object keeps together.

use crate::image_file::Looked;
use highwater_image::Node;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The most nodes.
const MOST_NODES: usize = 20_000;

/// Objects of one shape that one object keeps.
struct Group {
    objects: Vec<Node>,
    retained: u64,
}

/// `nodes[]` of `parent, label, kind, address, bytes, retained, count`, a parent before its children; the first is the whole. Those that keep less than
/// `least` of it are left out.
pub fn document(looked: &Looked<'_>, depth: usize, least: f64) -> Value {
    let graph = &looked.examination.graph;
    let kinds = looked.heap.kinds();
    let mut kept_by: HashMap<u32, Vec<Node>> = HashMap::new();
    for node in graph.nodes() {
        kept_by.entry(node.dominator).or_default().push(node);
    }
    let (live_objects, live_bytes) = looked.examination.live();
    let bound = (live_bytes as f64 * least).ceil() as u64;
    let mut nodes = vec![json!({
        "parent": null, "label": "all", "kind": null, "address": null, "bytes": 0, "retained": live_bytes, "count": live_objects,
    })];
    // Those whose children are to come: their place among the nodes, the objects they stand for, and how deep they are.
    let mut waiting: std::collections::VecDeque<(usize, Vec<u32>, usize)> = [(0, vec![0], 0)].into();
    while let Some((parent, numbers, at)) = waiting.pop_front() {
        if at == depth {
            continue;
        }
        let mut groups: HashMap<u16, Group> = HashMap::new();
        for node in numbers.iter().filter_map(|number| kept_by.get(number)).flatten() {
            let group = groups.entry(node.shape.0).or_insert(Group { objects: Vec::new(), retained: 0 });
            group.retained += node.retained_bytes;
            group.objects.push(*node);
        }
        let mut groups: Vec<Group> = groups.into_values().filter(|group| group.retained >= bound.max(1)).collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.retained), group.objects[0].number));
        for group in groups {
            if nodes.len() == MOST_NODES {
                return json!({ "nodes": nodes });
            }
            let first = &group.objects[0];
            let kept: u64 = group
                .objects
                .iter()
                .filter_map(|node| kept_by.get(&node.number))
                .flatten()
                .map(|node| node.retained_bytes)
                .sum();
            let only = (group.objects.len() == 1).then(|| format!("{:#x}", first.object));
            waiting.push_back((nodes.len(), group.objects.iter().map(|node| node.number).collect(), at + 1));
            nodes.push(json!({
                "parent": parent,
                "label": graph.shapes.name(first.shape),
                "kind": kinds[usize::from(graph.shapes.kind(first.shape))],
                "address": only,
                "bytes": group.retained.saturating_sub(kept),
                "retained": group.retained,
                "count": group.objects.len(),
            }));
        }
    }
    json!({ "nodes": nodes })
}
