//! `highwater image diff`: what changed between images.

use crate::args::Reading;
use crate::failure::Failure;
use crate::image_file::examine;
use crate::output::Output;
use crate::print::bytes::{bytes, count, counted, signed_bytes, signed_count};
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::hex::hex_lines;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_image::{ComparedImage, Comparison, ImageHeap, NewObjects, compare};
use highwater_input::image::{ExaminedHeap, ImageFile};
use highwater_query::images::diff_document;
use std::path::PathBuf;

/// The arguments of `highwater image diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image diff a.img b.img --module app.wasm  what came, went and grew
  highwater image diff a.img b.img c.img              and what grew each time
  highwater image diff a.heapsnapshot b.heapsnapshot  new and deleted objects of V8, by node id
  highwater image diff a.img b.img --json | jq '.roots'

Images are of one program, oldest first. An object is the same in two of them if it is at the same \
address and has the same shape.")]
pub struct DiffArgs {
    /// Images of one program, oldest first
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    paths: Vec<PathBuf>,
    /// The WASM module that ran: it has the names [default: the one that lies with each image]
    #[arg(long, value_name = "M.wasm")]
    module: Option<PathBuf>,
    /// How many rows of each kind; 0 for all [default: 10, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    reading: Reading,
}

/// The number of bytes shown of a new object.
const SHOWN_BYTES: usize = 32;

impl DiffArgs {
    /// Prints the changes.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let open = |path: &PathBuf| ImageFile::open(path, self.module.as_deref());
        let files: Vec<ImageFile> = self.paths.iter().map(open).collect::<Result<_, _>>()?;
        let mut examined: Vec<ExaminedHeap<'_>> = Vec::new();
        for file in &files {
            examined.push(examine(file, 0, self.reading.on_damage())?);
        }
        let compared: Vec<ComparedImage<'_, '_>> = examined
            .iter()
            .map(|examined| ComparedImage { heap: &*examined.heap, examination: &examined.examination })
            .collect();
        let rows = match self.top {
            Some(0) => usize::MAX,
            Some(top) => top,
            None if self.reading.json => usize::MAX,
            None => 10,
        };
        let comparison =
            compare(&compared, rows).map_err(|_| Failure::fault("the images have heaps of different kinds"))?;
        if self.reading.json {
            let files: Vec<&ImageFile> = files.iter().collect();
            return output.json(diff_document(&files, &examined, &comparison));
        }
        let (paint, width) = (output.paint, output.width);
        output.text(&head(&files, &examined, &comparison).render(paint, width))?;
        let heap = examined.last().map(|examined| &*examined.heap);
        let by_shape = format!("by {}", heap.map_or("shape", |heap| heap.shape_noun()));
        let is_dump = files.iter().any(|file| file.image().is_none());
        let sections = [
            ("where it grew", (is_dump && !comparison.grown.is_empty()).then(|| grown_table(&comparison, heap, rows))),
            (
                "by constructor",
                (is_dump && !comparison.shapes.is_empty()).then(|| changes_table(&comparison, heap, rows)),
            ),
            ("what variables keep", (!comparison.roots.is_empty()).then(|| roots_table(&comparison, rows))),
            ("by shape", (!is_dump && !comparison.shapes.is_empty()).then(|| shapes_table(&comparison, rows))),
            ("new objects", (!comparison.new.is_empty()).then(|| new_table(&comparison, heap))),
        ];
        for (title, table) in sections {
            if let Some(table) = table {
                let title = if title == "by constructor" { &*by_shape } else { title };
                output.text(&format!("\n{}\n{}", paint.paint(Style::Dim, title), table.render(paint, width)))?;
            }
        }
        if let Some(leak) = leak(&comparison, files.len()) {
            output.text(&format!("\n{leak}\n"))?;
        }
        Ok(())
    }
}

fn head(files: &[ImageFile], examined: &[ExaminedHeap<'_>], comparison: &Comparison) -> Heading {
    let mut head = Heading::default();
    for (at, (file, examined)) in files.iter().zip(examined).enumerate() {
        let label = match at {
            0 => "before",
            at if at + 1 == files.len() => "after",
            _ => "then",
        };
        let (objects, live) = examined.examination.live();
        head.line(label, format!("{} in {}: {}", bytes(live), counted(objects, "object"), file.path().display()));
    }
    let part = |(objects, size): (u64, u64)| format!("{} in {}", bytes(size), counted(objects, "object"));
    head.line("came", part(comparison.came));
    head.line("went", part(comparison.went));
    head
}

fn style(change: i128) -> Style {
    match change {
        0 => Style::Plain,
        1.. => Style::Red,
        _ => Style::Green,
    }
}

fn grew(keeps_growing: bool, images: usize) -> Cell {
    if keeps_growing && images > 2 { Cell::new(Style::Red, "each time") } else { Cell::default() }
}

fn roots_table(comparison: &Comparison, rows: usize) -> Table {
    let images = comparison.roots.first().map_or(2, |root| root.retained_bytes.len());
    let mut table = Table::default().column(Align::Right, "change");
    for at in 0..images {
        table = table.column(
            Align::Right,
            if at == 0 {
                "before"
            } else if at + 1 == images {
                "after"
            } else {
                "then"
            },
        );
    }
    table = table.column(Align::Left, "").column(Align::Left, "variable");
    for root in comparison.roots.iter().take(rows) {
        let mut cells = vec![Cell::new(style(root.bytes()), &signed_bytes(root.bytes()))];
        cells.extend(root.retained_bytes.iter().map(|kept| Cell::from(bytes(*kept))));
        cells.extend([grew(root.keeps_growing, images), Cell::new(Style::Bold, &root.name)]);
        table.row(cells);
    }
    table
}

fn shapes_table(comparison: &Comparison, rows: usize) -> Table {
    let images = comparison.shapes.first().map_or(2, |shape| shape.figures.len());
    let mut table = Table::default()
        .column(Align::Right, "change")
        .column(Align::Right, "before")
        .column(Align::Right, "after")
        .column(Align::Right, "objects")
        .column(Align::Left, "")
        .column(Align::Left, "shape");
    for shape in comparison.shapes.iter().take(rows) {
        let of = |figures: Option<&highwater_image::ShapeFigures>| bytes(figures.map_or(0, |figures| figures.bytes));
        table.row(vec![
            Cell::new(style(shape.bytes()), &signed_bytes(shape.bytes())),
            of(shape.figures.first()).into(),
            of(shape.figures.last()).into(),
            signed_count(shape.count()).into(),
            grew(shape.keeps_growing, images),
            Cell::new(Style::Bold, &shape.name),
        ]);
    }
    table
}

/// The objects that keep more than before: the containers of a leak.
fn grown_table(comparison: &Comparison, heap: Option<&dyn ImageHeap>, rows: usize) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "growth")
        .column(Align::Right, "kept before")
        .column(Align::Right, "keeps")
        .column(Align::Left, "")
        .column(Align::Left, "object")
        .column(Align::Left, "way from a root");
    for grown in comparison.grown.iter().take(rows) {
        table.row(vec![
            Cell::new(Style::Red, &signed_bytes(grown.growth.into())),
            bytes(grown.before).into(),
            bytes(grown.after).into(),
            heap.map(|heap| heap.object_name(grown.object)).unwrap_or_default().into(),
            Cell::new(Style::Bold, &grown.shape),
            grown.path.as_ref().map(ToString::to_string).unwrap_or_default().into(),
        ]);
    }
    table
}

/// New and freed objects, as Chrome's developer tools compare snapshots.
fn changes_table(comparison: &Comparison, heap: Option<&dyn ImageHeap>, rows: usize) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "change")
        .column(Align::Right, "allocated")
        .column(Align::Right, "freed")
        .column(Align::Right, "objects")
        .column(Align::Right, "new")
        .column(Align::Right, "deleted")
        .column(Align::Left, heap.map_or("shape", |heap| heap.shape_noun()));
    for shape in comparison.shapes.iter().take(rows) {
        table.row(vec![
            Cell::new(style(shape.bytes()), &signed_bytes(shape.bytes())),
            bytes(shape.came.1).into(),
            bytes(shape.went.1).into(),
            signed_count(shape.count()).into(),
            count(shape.came.0).into(),
            count(shape.went.0).into(),
            Cell::new(Style::Bold, &shape.name),
        ]);
    }
    table
}

fn new_table(comparison: &Comparison, heap: Option<&dyn ImageHeap>) -> Table {
    let mut table = Table::default()
        .column(Align::Right, "bytes")
        .column(Align::Right, "objects")
        .column(Align::Left, "shape")
        .column(Align::Left, "way to one of them");
    for new in &comparison.new {
        let path = new.path.as_ref().map_or("(nothing refers to it)".to_owned(), ToString::to_string);
        table.row(vec![
            bytes(new.bytes).into(),
            count(new.count).into(),
            Cell::new(Style::Bold, &new.shape),
            path.into(),
        ]);
        if let Some((guess, lines)) = untyped_example(new, heap) {
            let name = heap.map(|heap| heap.object_name(new.example)).unwrap_or_default();
            table.continuation(Cell::new(Style::Dim, &format!("{name}: {guess}")));
            for line in lines {
                table.continuation(Cell::new(Style::Dim, &line));
            }
        }
    }
    table
}

/// The guessed content of the example of new objects without a type, and its first bytes.
fn untyped_example(new: &NewObjects, heap: Option<&dyn ImageHeap>) -> Option<(String, Vec<String>)> {
    let (guess, contents) = heap?.guess_contents(new.example)?;
    Some((guess.to_string(), hex_lines(&contents[..contents.len().min(SHOWN_BYTES)])))
}

/// A sentence about the variable that retains more in each image.
fn leak(comparison: &Comparison, images: usize) -> Option<String> {
    let root = comparison.roots.iter().find(|root| root.keeps_growing && images > 2)?;
    let kept: Vec<String> = root.retained_bytes.iter().map(|kept| bytes(*kept)).collect();
    Some(format!("'{}' keeps more in each image: {}.", root.name, kept.join(", ")))
}
