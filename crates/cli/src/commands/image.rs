//! `highwater image`: memory images and their contents. One file per subcommand.

mod call;
mod create;
pub mod diff;
mod edit;
mod eval;
pub mod heap;
mod host;
mod info;
mod latest;
mod program;
mod pull;
mod run;
mod script_program;
pub mod show;
mod socket;
mod update;

use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Subcommand};

/// The arguments of `highwater image`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  highwater image run a.wasm --call 'f(1)' --snapshot a.img   run, call, capture
  highwater image host a.wasm                         run it, and answer:
  highwater image call open '(100)'                   a call
  highwater image pull -f a.img                       a snapshot into a file
  highwater image heap a.img --module a.wasm          what is on the heap
  highwater image show a.img tree --depth 3           a variable
  highwater image diff a.img b.img                    what came and went
  highwater image edit a.img totalBalance=7 -o b.img  another value in its place
  highwater image eval 'image.size()' -f a.img        a script over an image

Every other command takes images, too: highwater report app.img --by type"
)]
pub struct ImageArgs {
    #[command(subcommand)]
    action: ImageCommand,
}

/// What is done with images.
#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Run a canister or a plain WASM module, and answer the commands below
    Host(host::HostArgs),
    /// Call a method of a hosted program
    Call(call::CallArgs),
    /// What is hosted, and its last snapshot
    Info(info::InfoArgs),
    /// A new snapshot of a hosted program
    Create(create::CreateArgs),
    /// A new snapshot in place of the last one
    Update(update::UpdateArgs),
    /// A snapshot into a file
    Pull(pull::PullArgs),
    /// Run a module, call it and capture its memory, all in one
    Run(run::RunArgs),
    /// What is on the heap: by kind and shape, live and garbage, who keeps how much
    Heap(heap::HeapArgs),
    /// One object or variable, who refers to it, and what it keeps
    Show(show::ShowArgs),
    /// What came, went and grew between images of one program
    Diff(diff::DiffArgs),
    /// A copy of an image with another value in one place
    Edit(edit::EditArgs),
    /// Run a Motoko script over an image
    Eval(eval::EvalArgs),
}

impl ImageArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        match &self.action {
            ImageCommand::Host(host) => host.run(),
            ImageCommand::Call(call) => call.run(output),
            ImageCommand::Info(info) => info.run(output),
            ImageCommand::Create(create) => create.run(output),
            ImageCommand::Update(update) => update.run(output),
            ImageCommand::Pull(pull) => pull.run(output),
            ImageCommand::Run(run) => run.run(output),
            ImageCommand::Heap(heap) => heap.run(output),
            ImageCommand::Show(show) => show.run(output),
            ImageCommand::Diff(diff) => diff.run(output),
            ImageCommand::Edit(edit) => edit.run(output),
            ImageCommand::Eval(eval) => eval.run(output),
        }
    }
}
