//! `highwater image heap`: the contents of a heap.

use crate::args::Reading;
use crate::failure::Failure;
use crate::image_file::examine;
use crate::output::Output;
use crate::print::bytes::{bytes, count, counted, share};
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::table::{Align, Cell, Table};
use crate::print::text::printable;
use clap::Args;
use highwater_image::{ChunkFigures, Highlight, ImageHeap};
use highwater_input::image::{ExaminedHeap, ImageFile};
use highwater_query::images::{ImageShape, RegionOwner, StableMemory, heap_document, largest, shapes, stable_memory};
use std::path::PathBuf;

/// The arguments of `highwater image heap`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image heap a.img                         what the image itself knows
  highwater image heap a.img --module a.wasm         with names
  highwater image heap memory.img --module app.wasm  C and Rust: chunks of dlmalloc
  highwater image heap a.img --top 0                 all shapes
  highwater image heap snapshot/                     a folder of 'icp canister snapshot download'
  highwater image heap app.heapsnapshot              Node.js and Chrome: constructors, strings, closures
  highwater image heap a.img --json | jq '.kinds'")]
pub struct HeapArgs {
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
    /// A memory image: every byte of a memory, from address 0 on; the folder of a canister's snapshot; or a heap dump
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// The WASM module that ran: it has the names [default: the one in the folder, or the one that FILE.json names, if it lies beside FILE]
    #[arg(long, value_name = "M.wasm")]
    pub module: Option<PathBuf>,
}

/// The most rows of a table of strings, closures and the like.
const MOST_HIGHLIGHTED: usize = 1000;
/// The default number of single objects listed.
pub const DEFAULT_TOP: usize = 10;

impl HeapArgs {
    /// Prints the contents of the heap.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let file = ImageFile::open(&self.input.path, self.input.module.as_deref())?;
        let objects = self.top.filter(|top| *top > 0).unwrap_or(DEFAULT_TOP);
        let examined = examine(&file, objects, self.reading.on_damage())?;
        if self.reading.json {
            return self.print_json(&file, &examined, output);
        }
        let (paint, width) = (output.paint, output.width);
        let stable = stable_memory(&file, &examined);
        output.text(&head(&file, &examined, stable.as_ref()).render(paint, width))?;
        let rows = |default| match self.top.unwrap_or(default) {
            0 => usize::MAX,
            top => top,
        };
        let shapes = shapes(&examined);
        let (shown, rest) = shapes.split_at(rows(DEFAULT_TOP).min(shapes.len()));
        let chunks = examined.heap.chunk_figures();
        let sections = [
            ("kinds", Some(kinds_table(&examined))),
            ("sizes", chunks.as_ref().map(sizes_table)),
            ("live, by shape", Some(shapes_table(shown, examined.heap.shape_noun()))),
            ("largest", Some(largest_table(&examined))),
            ("waste", file.image().map(|_| waste_table(&examined))),
        ];
        for (title, table) in sections {
            let Some(table) = table else { continue };
            let is_by_shape = title == "live, by shape";
            let title = title.replace("shape", examined.heap.shape_noun());
            output.text(&format!("\n{}\n{}", paint.paint(Style::Dim, &title), table.render(paint, width)))?;
            if is_by_shape && !rest.is_empty() {
                let sum = rest.iter().map(|shape| shape.figures.bytes).sum();
                let what = counted(rest.len() as u64, &format!("more {}", examined.heap.shape_noun()));
                output.text(&format!("… {what} with {}; '--top 0' shows all.\n", bytes(sum)))?;
            }
        }
        if let Some(stable) = stable.filter(|stable| !stable.regions.is_empty()) {
            let rows = regions_table(&stable).render(paint, width);
            output.text(&format!("\n{}\n{rows}", paint.paint(Style::Dim, "regions of stable memory")))?;
        }
        for table in examined.heap.highlights(&examined.examination, rows(DEFAULT_TOP).min(MOST_HIGHLIGHTED)) {
            let title = format!("{}: {} in {}", table.title, bytes(table.bytes), count(table.count));
            let rows = highlight_table(&table, &*examined.heap).render(paint, width);
            output.text(&format!("\n{}\n{rows}", paint.paint(Style::Dim, &title)))?;
        }
        Ok(())
    }

    fn print_json(&self, file: &ImageFile, examined: &ExaminedHeap<'_>, output: &mut Output) -> Result<(), Failure> {
        let limit = self.top.filter(|top| *top > 0).unwrap_or(usize::MAX);
        output.json(heap_document(file, examined, limit))
    }
}

fn head(file: &ImageFile, examined: &ExaminedHeap<'_>, stable: Option<&StableMemory>) -> Heading {
    let mut head = Heading::default();
    let path = file.path().display();
    match file.image() {
        Some(image) => {
            let data = format!("{}, of which {} hold data", bytes(image.len()), bytes(image.data_bytes()));
            head.line("image", format!("{path}: {data}"));
        }
        None => head.line("dump", path.to_string()),
    }
    let walked = examined.examination.survey.walked_bytes;
    let account = match examined.heap.stated_bytes() {
        Some(stated) if stated == walked => "every byte accounted for".to_owned(),
        Some(stated) => format!("it says {} itself", bytes(stated)),
        None if file.image().is_none() => "all objects added up".to_owned(),
        None => "up to where nothing follows".to_owned(),
    };
    let begin = file.image().map(|_| format!(" from {:#x} on", examined.heap.base())).unwrap_or_default();
    head.line("heap", format!("{}: {}{begin}, {account}", examined.heap.name(), bytes(walked)));
    let (objects, live) = examined.examination.live();
    let part = share(live, walked);
    head.line("live", format!("{} in {} ({part} of the heap)", bytes(live), counted(objects, "object")));
    let (count, leaked) = examined.examination.survey.leaked;
    if count > 0 {
        head.line(
            if file.image().is_some() { "leaked" } else { "no root" },
            format!(
                "{} in {}, {}",
                bytes(leaked),
                counted(count, examined.heap.object_noun()),
                examined.heap.unreferred()
            ),
        );
    }
    if let Some(stable) = stable {
        head.line("stable", stable_line(stable));
    }
    if !examined.damage.is_empty() {
        head.line("damage", counted(examined.damage.count, "place"));
    }
    head
}

/// Stable memory in a line.
pub fn stable_line(stable: &StableMemory) -> String {
    let size = bytes(stable.bytes);
    match stable.regions.len() as u64 {
        0 => size,
        regions => format!("{size} in {}", counted(regions, "region")),
    }
}

/// The regions of a stable memory.
pub fn regions_table(stable: &StableMemory) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "reserved")
        .column(Align::Right, "region")
        .column(Align::Left, "kept by");
    for region in &stable.regions {
        let style = if region.owner == RegionOwner::None { Style::Red } else { Style::Bold };
        table.row(vec![
            bytes(region.bytes).into(),
            bytes(region.reserved_bytes).into(),
            region.id.to_string().into(),
            Cell::new(style, region.owner.text()),
        ]);
    }
    table
}

fn kinds_table(examined: &ExaminedHeap<'_>) -> Table {
    let (live, dead) = if examined.heap.is_collected() { ("live", "garbage") } else { ("in use", "not in use") };
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "objects")
        .column(Align::Right, live)
        .column(Align::Right, dead)
        .column(Align::Left, "kind");
    let mut kinds = examined.examination.kinds.clone();
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

fn shapes_table(shapes: &[ImageShape<'_>], noun: &'static str) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "keeps")
        .column(Align::Right, "bytes")
        .column(Align::Right, "objects")
        .column(Align::Left, noun);
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

fn largest_table(examined: &ExaminedHeap<'_>) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "keeps")
        .column(Align::Left, "address")
        .column(Align::Left, "object")
        .column(Align::Left, "way from a root");
    for (own, node, path) in largest(examined) {
        table.row(vec![
            bytes(own).into(),
            bytes(node.retained_bytes).into(),
            examined.heap.object_name(node.object).into(),
            Cell::new(Style::Bold, &short(examined.examination.graph.shapes.name(node.shape))),
            path.to_string().into(),
        ]);
    }
    table
}

fn highlight_table(highlight: &Highlight, heap: &dyn ImageHeap) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "keeps")
        .column(Align::Right, "bytes")
        .column(Align::Right, "objects")
        .column(Align::Left, "one of them")
        .column(Align::Left, "");
    for row in &highlight.rows {
        table.row(vec![
            bytes(row.retained_bytes).into(),
            bytes(row.bytes).into(),
            count(row.count).into(),
            heap.object_name(row.object).into(),
            Cell::new(Style::Bold, &printable(&row.what)),
        ]);
    }
    table
}

/// A name that leaves room for what stands after it.
fn short(name: &str) -> String {
    const LONGEST: usize = 60;
    if name.chars().count() <= LONGEST { name.to_owned() } else { name.chars().take(LONGEST).chain(['…']).collect() }
}

fn waste_table(examined: &ExaminedHeap<'_>) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "pieces")
        .column(Align::Left, "what")
        .column(Align::Left, "");
    for waste in &examined.examination.waste {
        table.row(vec![
            bytes(waste.bytes).into(),
            count(waste.count).into(),
            Cell::new(Style::Bold, waste.what),
            Cell::new(Style::Dim, waste.explanation),
        ]);
    }
    table
}
