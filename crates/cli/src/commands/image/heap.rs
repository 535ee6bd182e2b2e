//! `highwater image heap`: the contents of a heap.

use crate::args::Reading;
use crate::failure::Failure;
use crate::image_file::examine;
use crate::output::Output;
use crate::print::bytes::{bytes, count, counted, share};
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_formats::json as documents;
use highwater_image::dlmalloc::ChunkFigures;
use highwater_image::{ImageSnapshot, Node, Path, ShapeFigures, ShapeId};
use highwater_input::image::{ExaminedHeap, ImageFile};
use highwater_model::{Accounts, Damage, Nanos, Snapshot};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The arguments of `highwater image heap`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image heap a.img                         what the image itself knows
  highwater image heap a.img --module a.wasm         with names
  highwater image heap memory.img --module app.wasm  C and Rust: chunks of dlmalloc
  highwater image heap a.img --top 0                 all shapes
  highwater image heap a.img --json | jq '.kinds'")]
pub struct Heap {
    #[command(flatten)]
    input: ImageInput,
    /// How many shapes and objects; 0 for all shapes [default: 10, with --json all shapes]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    reading: Reading,
}

/// An image, and its module.
#[derive(Debug, Args)]
pub struct ImageInput {
    /// A memory image: every byte of a memory, from address 0 on
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// The WASM module that ran: it has the names [default: the one that FILE.json names, if it lies beside FILE]
    #[arg(long, value_name = "M.wasm")]
    pub module: Option<PathBuf>,
}

/// The default number of single objects listed.
pub const DEFAULT_TOP: usize = 10;

/// A shape with its name.
struct Shape<'a> {
    name: &'a str,
    kind: &'static str,
    figures: ShapeFigures,
}

impl Heap {
    /// Prints the contents of the heap.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let file = ImageFile::open(&self.input.path, self.input.module.as_deref())?;
        let objects = self.top.filter(|top| *top > 0).unwrap_or(DEFAULT_TOP);
        let looked = examine(&file, objects, self.reading.on_damage())?;
        if self.reading.json {
            return self.print_json(&file, &looked, output);
        }
        let (paint, width) = (output.paint, output.width);
        output.text(&head(&file, &looked).render(paint, width))?;
        let rows = |default| match self.top.unwrap_or(default) {
            0 => usize::MAX,
            top => top,
        };
        let shapes = shapes(&looked);
        let (shown, rest) = shapes.split_at(rows(DEFAULT_TOP).min(shapes.len()));
        let chunks = chunks(&looked);
        let sections = [
            ("kinds", Some(kinds_table(&looked))),
            ("sizes", chunks.as_ref().map(sizes_table)),
            ("live, by shape", Some(shapes_table(shown))),
            ("largest", Some(largest_table(&looked))),
            ("waste", Some(waste_table(&looked))),
        ];
        for (title, table) in sections {
            let Some(table) = table else { continue };
            output.text(&format!("\n{}\n{}", paint.paint(Style::Dim, title), table.render(paint, width)))?;
            if title == "live, by shape" && !rest.is_empty() {
                let sum = rest.iter().map(|shape| shape.figures.bytes).sum();
                let what = counted(rest.len() as u64, "more shape");
                output.text(&format!("… {what} with {}; '--top 0' shows all.\n", bytes(sum)))?;
            }
        }
        Ok(())
    }

    fn print_json(&self, file: &ImageFile, looked: &ExaminedHeap<'_>, output: &mut Output) -> Result<(), Failure> {
        let limit = self.top.filter(|top| *top > 0).unwrap_or(usize::MAX);
        output.json(document(file, looked, limit))
    }
}

/// The JSON document of a heap, with at most `limit` shapes.
pub fn document(file: &ImageFile, looked: &ExaminedHeap<'_>, limit: usize) -> Value {
    let snapshot = snapshot_of(file, looked);
    let mut members = documents::head("image heap", &snapshot);
    members.insert("totals".to_owned(), documents::totals(&snapshot));
    members.extend(figures(file, looked));
    let kinds = looked.examination.kinds.iter().map(|(kind, figures)| {
        json!({
            "kind": kind, "count": figures.count, "bytes": figures.bytes,
            "live_count": figures.live_count, "live_bytes": figures.live_bytes,
        })
    });
    members.insert("kinds".to_owned(), kinds.collect());
    let shapes = shapes(looked).into_iter().take(limit).map(|shape| {
        json!({
            "shape": shape.name, "kind": shape.kind, "count": shape.figures.count, "bytes": shape.figures.bytes,
            "retained_bytes": shape.figures.retained_bytes,
        })
    });
    members.insert("shapes".to_owned(), shapes.collect());
    members.insert("largest".to_owned(), largest_members(looked));
    let waste = looked.examination.waste.iter();
    let waste = waste.map(|waste| json!({"what": waste.what, "count": waste.count, "bytes": waste.bytes}));
    members.insert("waste".to_owned(), waste.collect());
    members.insert("damage".to_owned(), damage(looked));
    members.insert("damage_count".to_owned(), looked.damage.count.into());
    if let Some(chunks) = chunks(looked) {
        members.insert("chunks".to_owned(), chunk_members(&chunks, looked));
    }
    members.into()
}

/// The image as a snapshot, for the members that all documents share.
pub fn snapshot_of(file: &ImageFile, looked: &ExaminedHeap<'_>) -> Snapshot {
    let ImageSnapshot { source, catalog, accounts } =
        ImageSnapshot::of(&looked.heap, &looked.examination, file.source());
    Snapshot { source, at: Nanos(0), accounts: Accounts::from_state(accounts), catalog: Arc::new(catalog) }
}

fn figures(file: &ImageFile, looked: &ExaminedHeap<'_>) -> Map<String, Value> {
    let (live_objects, live_bytes) = looked.examination.live();
    let walked = looked.examination.survey.walked_bytes;
    let heap_bytes = looked.heap.stated_bytes().unwrap_or(walked);
    let figures = json!({
        "file": file.path().display().to_string(),
        "image_bytes": file.image().len(),
        "data_bytes": file.image().data_bytes(),
        "lens": looked.heap.key(),
        "heap_base": looked.heap.base(),
        "heap_bytes": heap_bytes,
        "walked_bytes": walked,
        "occupied_heap_size": match looked.heap.key() {
            "motoko64" => looked.heap.base() + heap_bytes,
            _ => heap_bytes,
        },
        "live_objects": live_objects,
        "live_bytes": live_bytes,
        "static_objects": looked.examination.survey.static_objects,
    });
    match figures {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// The largest objects: their own bytes, their nodes in the graph, and paths to them.
fn largest<'a>(looked: &'a ExaminedHeap<'_>) -> impl Iterator<Item = (u64, Node, &'a Path)> {
    let (survey, graph) = (&looked.examination.survey, &looked.examination.graph);
    let known = graph.largest.iter().map(|(number, path)| (graph.node(*number), path));
    survey.largest.iter().zip(known).map(|(largest, (node, path))| (largest.bytes, node, path))
}

fn largest_members(looked: &ExaminedHeap<'_>) -> Value {
    let entry = |(bytes, node, path): (u64, Node, &Path)| {
        json!({
            "address": format!("{:#x}", node.object), "bytes": bytes, "retained_bytes": node.retained_bytes,
            "shape": looked.examination.graph.shapes.name(node.shape), "path": path.to_string(),
        })
    };
    largest(looked).map(entry).collect()
}

fn damage(looked: &ExaminedHeap<'_>) -> Value {
    let place = |damage: &Damage| json!({"offset": damage.offset, "length": damage.length, "what": damage.what});
    looked.damage.places.iter().map(place).collect()
}

fn chunks(looked: &ExaminedHeap<'_>) -> Option<ChunkFigures> {
    match &looked.heap {
        highwater_image::Heap::Dlmalloc(heap) => Some(heap.figures()),
        _ => None,
    }
}

fn chunk_members(chunks: &ChunkFigures, looked: &ExaminedHeap<'_>) -> Value {
    let used = looked
        .examination
        .kinds
        .iter()
        .find(|(kind, _)| *kind == "Chunk")
        .map(|(_, figures)| *figures)
        .unwrap_or_default();
    let classes = chunks.histogram.iter().map(|class| {
        json!({
            "from": class.from, "to": class.to, "used": class.used, "used_bytes": class.used_bytes,
            "free": class.free, "free_bytes": class.free_bytes,
        })
    });
    json!({
        "live": used.count, "live_bytes": used.bytes,
        "leaked": looked.examination.survey.leaked.0, "leaked_bytes": looked.examination.survey.leaked.1,
        "free_bytes": chunks.free_bytes, "largest_free": chunks.largest_free, "top_bytes": chunks.top_bytes,
        "fragmentation": chunks.fragmentation(), "histogram": classes.collect::<Value>(),
    })
}

/// Shapes, largest retained size first.
fn shapes<'a>(looked: &'a ExaminedHeap<'_>) -> Vec<Shape<'a>> {
    let graph = &looked.examination.graph;
    let kinds = looked.heap.kinds();
    let shape = |(id, figures): (usize, &ShapeFigures)| {
        let id = ShapeId(id as u16);
        Shape { name: graph.shapes.name(id), kind: kinds[usize::from(graph.shapes.kind(id))], figures: *figures }
    };
    let mut shapes: Vec<Shape<'_>> = graph.figures.iter().enumerate().map(shape).collect();
    shapes.retain(|shape| shape.figures.bytes > 0);
    shapes.sort_by_key(|shape| (std::cmp::Reverse((shape.figures.retained_bytes, shape.figures.bytes)), shape.name));
    shapes
}

fn head(file: &ImageFile, looked: &ExaminedHeap<'_>) -> Heading {
    let image = file.image();
    let mut head = Heading::default();
    let data = format!("{}, of which {} hold data", bytes(image.len()), bytes(image.data_bytes()));
    head.line("image", format!("{}: {data}", file.path().display()));
    let walked = looked.examination.survey.walked_bytes;
    let account = match looked.heap.stated_bytes() {
        Some(stated) if stated == walked => "every byte accounted for".to_owned(),
        Some(stated) => format!("it says {} itself", bytes(stated)),
        None => "up to where nothing follows".to_owned(),
    };
    head.line(
        "heap",
        format!("{}: {} from {:#x} on, {account}", looked.heap.name(), bytes(walked), looked.heap.base()),
    );
    let (objects, live) = looked.examination.live();
    let part = share(live, walked);
    head.line("live", format!("{} in {} ({part} of the heap)", bytes(live), counted(objects, "object")));
    let (count, leaked) = looked.examination.survey.leaked;
    if count > 0 {
        head.line(
            "leaked",
            format!("{} in {}, to which nothing seems to refer", bytes(leaked), counted(count, "chunk")),
        );
    }
    if !looked.damage.is_empty() {
        head.line("damage", counted(looked.damage.count, "place"));
    }
    head
}

fn kinds_table(looked: &ExaminedHeap<'_>) -> Table {
    let (live, dead) = if looked.heap.is_collected() { ("live", "garbage") } else { ("in use", "not in use") };
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "objects")
        .column(Align::Right, live)
        .column(Align::Right, dead)
        .column(Align::Left, "kind");
    let mut kinds = looked.examination.kinds.clone();
    kinds.sort_by_key(|(kind, figures)| (std::cmp::Reverse(figures.bytes), *kind));
    for (kind, figures) in kinds {
        table.row(vec![
            bytes(figures.bytes).into(),
            count(figures.count).into(),
            bytes(figures.live_bytes).into(),
            bytes(figures.bytes.saturating_sub(figures.live_bytes)).into(),
            Cell::new(Style::Bold, kind),
        ]);
    }
    table
}

fn sizes_table(chunks: &ChunkFigures) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "size of chunk")
        .column(Align::Right, "in use")
        .column(Align::Right, "bytes")
        .column(Align::Right, "free")
        .column(Align::Right, "bytes");
    for class in &chunks.histogram {
        table.row(vec![
            format!("{}–{}", count(class.from), count(class.to)).into(),
            count(class.used).into(),
            bytes(class.used_bytes).into(),
            count(class.free).into(),
            bytes(class.free_bytes).into(),
        ]);
    }
    table
}

fn shapes_table(shapes: &[Shape<'_>]) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "keeps")
        .column(Align::Right, "bytes")
        .column(Align::Right, "objects")
        .column(Align::Left, "shape");
    for shape in shapes {
        table.row(vec![
            bytes(shape.figures.retained_bytes).into(),
            bytes(shape.figures.bytes).into(),
            count(shape.figures.count).into(),
            Cell::new(Style::Bold, shape.name),
        ]);
    }
    table
}

fn largest_table(looked: &ExaminedHeap<'_>) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "keeps")
        .column(Align::Left, "address")
        .column(Align::Left, "object")
        .column(Align::Left, "way from a root");
    for (own, node, path) in largest(looked) {
        table.row(vec![
            bytes(own).into(),
            bytes(node.retained_bytes).into(),
            format!("{:#x}", node.object).into(),
            Cell::new(Style::Bold, looked.examination.graph.shapes.name(node.shape)),
            path.to_string().into(),
        ]);
    }
    table
}

fn waste_table(looked: &ExaminedHeap<'_>) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "pieces")
        .column(Align::Left, "what")
        .column(Align::Left, "");
    for waste in &looked.examination.waste {
        table.row(vec![
            bytes(waste.bytes).into(),
            count(waste.count).into(),
            Cell::new(Style::Bold, waste.what),
            Cell::new(Style::Dim, waste.explanation),
        ]);
    }
    table
}
