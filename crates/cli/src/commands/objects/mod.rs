//! `highwater objects`: which types were made, dropped and leaked, and how reliable the answer is.
//!
//! `highwater_query::objects` reads a log and finds the answers; [`follow`] reads a log that grows, [`text`] shows the answers to people.

mod follow;
mod text;
mod untracked;

use crate::args::Reading;
use crate::failure::Failure;
use crate::image_file::examine;
use crate::open::{OnDamage, warn_of_damage, with_progress};
use crate::output::Output;
use clap::{Args, ValueEnum};
use highwater_formats::objlog::{self, HeapRoom};
use highwater_input::image::ImageFile;
use highwater_query::objects::{At, Findings, ObjectsRead, document, heap_room, place_images, read};
use serde_json::Value;
use std::path::PathBuf;

/// The arguments of `highwater objects`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater objects console.log               which types leak, and how sure
  node app.mjs | highwater objects            the same of what a program writes
  highwater objects app.log --by place        the places that made what leaks
  highwater objects app.log --at mark:warm    what was live then
  highwater objects app.log --follow          while the log grows
  highwater objects app.log --show-bad        lines that could not be used
  highwater objects app.log --image app.img   with the free room of the heap
  highwater objects app.log --untracked app.wasm   which types to track next
  highwater objects app.log --json | jq '.types[0]'

A log has one line for each object, on a console full of other lines:
  @ ALLOCATE <bytes> <file>:<line> <type> <id>
  @ DROP <bytes> <type> <id>
  @ MEMORY <bytes> <label>
docs/objlog.md has the whole format. A .hw recording will do, too.")]
pub struct Objects {
    /// The log, or a recording; standard input where none is given, or '-'
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    path: PathBuf,
    /// What the rows are
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: ObjectBy,
    /// The instant: start, peak, end, a part (80%), line:N, mark:NAME, and a time (12.5s) where the log has times
    #[arg(long, value_name = "WHEN", default_value = "end")]
    at: At,
    /// How many rows; 0 for all [default: 10, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Go on while the log grows, until Ctrl-C or the end of the pipe
    #[arg(long)]
    follow: bool,
    /// Show the lines that could not be used, with their numbers
    #[arg(long)]
    show_bad: bool,
    /// The module's memory when the log ended; given twice, when its first and its last MEMORY line were written. Shows the heap's free room
    #[arg(long, value_name = "IMAGE", conflicts_with = "follow")]
    image: Vec<PathBuf>,
    /// The WASM module of the image: it may show where the heap begins
    #[arg(long, value_name = "M.wasm", requires = "image")]
    module: Option<PathBuf>,
    /// List the types of this program that the log lacks instead: a WASM module or an ELF file, with DWARF or with names of functions
    #[arg(long, value_name = "MODULE", conflicts_with_all = ["follow", "image", "by", "show_bad"])]
    untracked: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// What the rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ObjectBy {
    /// Types
    #[default]
    Type,
    /// Places that made them: file:line
    Place,
    /// Types, each at each place
    Both,
    /// Variables that 'track!' of the crate named
    Variable,
}

impl ObjectBy {
    fn rows(self) -> objlog::ObjectGrouping {
        match self {
            Self::Type => objlog::ObjectGrouping::Type,
            Self::Place => objlog::ObjectGrouping::Place,
            Self::Both => objlog::ObjectGrouping::Both,
            Self::Variable => objlog::ObjectGrouping::Variable,
        }
    }
}

const DEFAULT_ROWS: usize = 10;
/// The images at the two ends of the growth.
const MOST_IMAGES: usize = 2;

impl Objects {
    /// Prints the findings.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if self.follow {
            return self.follow(output);
        }
        let ObjectsRead { reader, damage } = with_progress(|progress| read(&self.path, &self.at, progress))?;
        if self.reading.on_damage() == OnDamage::Warn {
            warn_of_damage(&self.path, &damage, 0);
        }
        if let (Some(first), true) = (reader.counts().bad().first(), self.reading.strict) {
            let why = format_args!("line {}: {}; nothing was done, as --strict was given", first.number, first.fault);
            return Err(Failure::in_file(&self.path, why));
        }
        if let Some(module) = &self.untracked {
            return self.print_untracked(module, &reader, output);
        }
        let images = place_images(self.heap_rooms()?, reader.matcher().memory.growth().as_ref());
        self.print(&Findings::with_images(&reader, images), output)
    }

    /// The heaps of the images, in the order in which they are given.
    fn heap_rooms(&self) -> Result<Vec<(PathBuf, HeapRoom)>, Failure> {
        if self.image.len() > MOST_IMAGES {
            let given = self.image.len();
            return Err(Failure::Usage(format!("--image takes one image or two, a first and a last one; not {given}")));
        }
        let room = |path: &PathBuf| {
            let file = ImageFile::open(path, self.module.as_deref())?;
            let examined = examine(&file, 0, self.reading.on_damage())?;
            Ok((path.clone(), heap_room(&file, &examined)?))
        };
        self.image.iter().map(room).collect()
    }

    fn document(&self, findings: &Findings<'_>) -> Value {
        document(&self.path, &self.at, self.by.rows(), self.json_rows(), findings)
    }

    fn print(&self, findings: &Findings<'_>, output: &mut Output) -> Result<(), Failure> {
        if self.reading.json {
            return output.json(self.document(findings));
        }
        let text = self.text(findings, output);
        output.text(&text)
    }

    fn table_rows(&self) -> usize {
        limit(self.top.unwrap_or(DEFAULT_ROWS))
    }

    fn json_rows(&self) -> usize {
        limit(self.top.unwrap_or(0))
    }
}

fn limit(top: usize) -> usize {
    if top == 0 { usize::MAX } else { top }
}
