//! The contents of a heap.

use super::stable::stable_memory;
use highwater_formats::json as documents;
use highwater_image::{
    ChunkFigures, GraphNode, Highlight, HighlightRow, Image, ImageSnapshot, ObjectPath, ShapeFigures, ShapeId,
};
use highwater_input::image::{ExaminedHeap, ImageFile};
use highwater_model::{Accounts, Damage, Nanos, Snapshot};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The most rows of a table of strings, closures and the like.
const MOST_HIGHLIGHTED: usize = 100;

/// A shape with its name.
pub struct ImageShape<'a> {
    /// Its name.
    pub name: &'a str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// Its figures.
    pub figures: ShapeFigures,
}

/// The JSON document of a heap, with at most `limit` shapes.
pub fn heap_document(file: &ImageFile, examined: &ExaminedHeap<'_>, limit: usize) -> Value {
    let snapshot = image_snapshot(file, examined);
    let mut members = documents::head("image heap", &snapshot);
    members.insert("totals".to_owned(), documents::totals(&snapshot));
    members.extend(figures(file, examined));
    let kinds = examined.examination.kinds.iter().map(|(kind, figures)| {
        json!({
            "kind": kind, "count": figures.count, "bytes": figures.bytes,
            "live_count": figures.live_count, "live_bytes": figures.live_bytes,
        })
    });
    members.insert("kinds".to_owned(), kinds.collect());
    let shapes = shapes(examined).into_iter().take(limit).map(|shape| {
        json!({
            "shape": shape.name, "kind": shape.kind, "count": shape.figures.count, "bytes": shape.figures.bytes,
            "retained_bytes": shape.figures.retained_bytes,
        })
    });
    members.insert("shapes".to_owned(), shapes.collect());
    members.insert("largest".to_owned(), largest_members(examined));
    let waste = examined.examination.waste.iter();
    let waste = waste.map(|waste| json!({"what": waste.what, "count": waste.count, "bytes": waste.bytes}));
    members.insert("waste".to_owned(), waste.collect());
    members.insert("damage".to_owned(), damage(examined));
    members.insert("damage_count".to_owned(), examined.damage.count.into());
    let highlights = examined.heap.highlights(&examined.examination, limit.min(MOST_HIGHLIGHTED));
    if !highlights.is_empty() {
        members.insert("highlights".to_owned(), highlights.iter().map(|table| highlight(table, examined)).collect());
    }
    if let Some(stable) = stable_memory(file, examined) {
        members.insert("stable".to_owned(), stable.to_json());
    }
    if let Some(chunks) = examined.heap.chunk_figures() {
        members.insert("chunks".to_owned(), chunk_members(&chunks, examined));
    }
    members.into()
}

/// The image as a snapshot, for the members that all documents share.
pub fn image_snapshot(file: &ImageFile, examined: &ExaminedHeap<'_>) -> Snapshot {
    let ImageSnapshot { source, catalog, accounts } = examined.heap.snapshot(&examined.examination, file.source());
    Snapshot { source, at: Nanos(0), accounts: Accounts::from_state(accounts), catalog: Arc::new(catalog) }
}

fn figures(file: &ImageFile, examined: &ExaminedHeap<'_>) -> Map<String, Value> {
    let (live_objects, live_bytes) = examined.examination.live();
    let walked = examined.examination.survey.walked_bytes;
    let heap_bytes = examined.heap.stated_bytes().unwrap_or(walked);
    let figures = json!({
        "file": file.path().display().to_string(),
        "image_bytes": file.image().map(Image::len),
        "data_bytes": file.image().map(Image::data_bytes),
        "lens": examined.heap.key(),
        "heap_base": examined.heap.base(),
        "heap_bytes": heap_bytes,
        "walked_bytes": walked,
        "occupied_heap_size": examined.heap.occupied_heap_size(heap_bytes),
        "live_objects": live_objects,
        "live_bytes": live_bytes,
        "static_objects": examined.examination.survey.static_objects,
    });
    match figures {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// The largest objects: their own bytes, their nodes in the graph, and paths to them.
pub fn largest<'a>(examined: &'a ExaminedHeap<'_>) -> impl Iterator<Item = (u64, GraphNode, &'a ObjectPath)> {
    let (survey, graph) = (&examined.examination.survey, &examined.examination.graph);
    let known = graph.largest.iter().map(|(number, path)| (graph.node(*number), path));
    survey.largest.iter().zip(known).map(|(largest, (node, path))| (largest.bytes, node, path))
}

fn largest_members(examined: &ExaminedHeap<'_>) -> Value {
    let entry = |(bytes, node, path): (u64, GraphNode, &ObjectPath)| {
        json!({
            "address": examined.heap.object_name(node.object), "bytes": bytes, "retained_bytes": node.retained_bytes,
            "shape": examined.examination.graph.shapes.name(node.shape), "path": path.to_string(),
        })
    };
    largest(examined).map(entry).collect()
}

fn highlight(table: &Highlight, examined: &ExaminedHeap<'_>) -> Value {
    let row = |row: &HighlightRow| {
        json!({
            "what": row.what, "example": examined.heap.object_name(row.object), "count": row.count, "bytes": row.bytes,
            "retained_bytes": row.retained_bytes,
        })
    };
    json!({
        "title": table.title, "count": table.count, "bytes": table.bytes,
        "rows": table.rows.iter().map(row).collect::<Value>(),
    })
}

fn damage(examined: &ExaminedHeap<'_>) -> Value {
    let place = |damage: &Damage| json!({"offset": damage.offset, "length": damage.length, "what": damage.what});
    examined.damage.entries.iter().map(place).collect()
}

fn chunk_members(chunks: &ChunkFigures, examined: &ExaminedHeap<'_>) -> Value {
    let (used, used_bytes) = chunks.used();
    let classes = chunks.histogram.iter().map(|class| {
        json!({
            "from": class.from, "to": class.to, "used": class.used, "used_bytes": class.used_bytes,
            "free": class.free, "free_bytes": class.free_bytes,
        })
    });
    json!({
        "live": used, "live_bytes": used_bytes,
        "leaked": examined.examination.survey.leaked.0, "leaked_bytes": examined.examination.survey.leaked.1,
        "free_bytes": chunks.free_bytes, "largest_free": chunks.largest_free, "top_bytes": chunks.top_bytes,
        "fragmentation": chunks.fragmentation(), "histogram": classes.collect::<Value>(),
    })
}

/// Shapes, largest retained size first.
pub fn shapes<'a>(examined: &'a ExaminedHeap<'_>) -> Vec<ImageShape<'a>> {
    let graph = &examined.examination.graph;
    let kinds = examined.heap.kinds();
    let shape = |(id, figures): (usize, &ShapeFigures)| {
        let id = ShapeId(id as u32);
        ImageShape { name: graph.shapes.name(id), kind: kinds[usize::from(graph.shapes.kind(id))], figures: *figures }
    };
    let mut shapes: Vec<ImageShape<'_>> = graph.figures.iter().enumerate().map(shape).collect();
    shapes.retain(|shape| shape.figures.bytes > 0);
    shapes.sort_by_key(|shape| (std::cmp::Reverse((shape.figures.retained_bytes, shape.figures.bytes)), shape.name));
    shapes
}
