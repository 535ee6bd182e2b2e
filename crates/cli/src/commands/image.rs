//! `highwater image`: memory images, and what is in them. One file per subcommand.

pub mod diff;
mod edit;
pub mod heap;
pub mod show;

use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Subcommand};

/// The arguments of `highwater image`.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  highwater image heap ledger.img --module ledger.wasm    what is on the heap
  highwater image show ledger.img tree --depth 3          a variable, as Motoko writes it
  highwater image diff monday.img tuesday.img             what came and went
  highwater image edit a.img totalBalance=7 -o b.img      another value in its place

Every other command takes images, too: highwater report ledger.img --by type"
)]
pub struct Image {
    #[command(subcommand)]
    action: Action,
}

/// What is done with images.
#[derive(Debug, Subcommand)]
enum Action {
    /// What is on the heap: by kind and shape, live and garbage, who keeps how much
    Heap(heap::Heap),
    /// One object or variable, who refers to it, and what it keeps
    Show(show::Show),
    /// What came, went and grew between images of one program
    Diff(diff::Diff),
    /// A copy of an image with another value in one place
    Edit(edit::Edit),
}

impl Image {
    /// Does it.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        match &self.action {
            Action::Heap(heap) => heap.run(output),
            Action::Show(show) => show.run(output),
            Action::Diff(diff) => diff.run(output),
            Action::Edit(edit) => edit.run(output),
        }
    }
}
