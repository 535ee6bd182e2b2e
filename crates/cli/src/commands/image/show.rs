//! `highwater image show`: shows one object.

use super::heap::ImageInput;
use crate::args::Reading;
use crate::failure::Failure;
use crate::image_file::examine;
use crate::output::Output;
use crate::print::bytes::{bytes, counted};
use crate::print::colour::Style;
use crate::print::heading::Heading;
use crate::print::hex::hex_lines;
use crate::print::table::{Align, Cell, Table};
use crate::print::text::printable;
use clap::Args;
use highwater_image::{ImageHeap, ObjectView};
use highwater_input::image::ImageFile;
use highwater_query::images::show_document;

/// The arguments of `highwater image show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image show a.img tree --module a.wasm           a variable
  highwater image show a.img 'tree#node.account' --depth 4  a way through it
  highwater image show a.img 'archive[0]'                   an element
  highwater image show a.img 0x52a1c8                       an object's address
  highwater image show a.img 'static[23]'                   without a name
  highwater image show app.heapsnapshot @12345              a node of V8, by its id

A way begins with a variable and goes on with .field, [index], #variant and ?. A function has the variables that it \
captured as fields.")]
pub struct ShowArgs {
    #[command(flatten)]
    input: ImageInput,
    /// What: an address, the id of a node, or a way from a variable
    #[arg(value_name = "ADDRESS|PATH")]
    place: String,
    /// How many levels of objects within objects
    #[arg(long, value_name = "N", default_value_t = 3)]
    depth: u32,
    #[command(flatten)]
    reading: Reading,
}

/// The number of bytes shown of a chunk.
const SHOWN_BYTES: usize = 256;

impl ShowArgs {
    /// Prints the object.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let file = ImageFile::open(&self.input.path, self.input.module.as_deref())?;
        let examined = examine(&file, 0, self.reading.on_damage())?;
        let view = examined
            .heap
            .view(&examined.examination, &self.place, self.depth)
            .map_err(|problem| Failure::in_file(&self.input.path, problem))?;
        if self.reading.json {
            return output.json(show_document(&file, &examined, &self.place, &view));
        }
        let (paint, width) = (output.paint, output.width);
        output.text(&head(&*examined.heap, &view).render(paint, width))?;
        match &view.value {
            Some(value) => {
                let lines: Vec<String> = value.lines().map(printable).collect();
                output.text(&format!("\n{}\n", lines.join("\n")))?;
            }
            None => {
                let shown = &view.contents[..view.contents.len().min(SHOWN_BYTES)];
                output.text(&format!("\n{}\n", hex_lines(shown).join("\n")))?;
            }
        }
        if view.referrers.count > 0 {
            let title = format!("{} to it", counted(view.referrers.count, "reference"));
            let title = paint.paint(Style::Dim, &title);
            output.text(&format!("\n{title}\n{}", referrers(&*examined.heap, &view).render(paint, width)))?;
        }
        Ok(())
    }
}

fn head(heap: &dyn ImageHeap, view: &ObjectView) -> Heading {
    let mut head = Heading::default();
    head.line("object", format!("{} at {}", view.shape, heap.object_name(view.object)));
    let kept =
        view.retained_bytes.map_or("garbage: nothing leads to it".to_owned(), |kept| format!("keeps {}", bytes(kept)));
    head.line("bytes", format!("{} itself, {kept}", bytes(view.bytes)));
    if let Some(dominator) = view.dominator {
        head.line("kept by", heap.object_name(dominator));
    }
    if let Some(path) = &view.path {
        head.line("way", path.to_string());
    }
    if let Some(guess) = &view.guess {
        head.line("seems", guess.to_string());
    }
    head
}

fn referrers(heap: &dyn ImageHeap, view: &ObjectView) -> Table {
    let mut table = Table::default().column(Align::Left, "").column(Align::Left, "").column(Align::Left, "");
    for referrer in &view.referrers.first {
        let address = referrer.object.map_or("root".to_owned(), |object| heap.object_name(object));
        table.row(vec![
            Cell::new(Style::Dim, &address),
            Cell::new(Style::Bold, &referrer.what),
            referrer.step.as_str().into(),
        ]);
    }
    let unnamed = view.referrers.count - view.referrers.first.len() as u64;
    if unnamed > 0 {
        table.row(vec![Cell::new(Style::Dim, &format!("… {unnamed} more"))]);
    }
    table
}
