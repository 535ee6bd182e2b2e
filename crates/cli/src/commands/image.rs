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
pub struct Image {
    #[command(subcommand)]
    action: Action,
}

/// What is done with images.
#[derive(Debug, Subcommand)]
enum Action {
    /// Run a canister or a plain WASM module, and answer the commands below
    Host(host::Host),
    /// Call a method of a hosted program
    Call(call::Call),
    /// What is hosted, and its last snapshot
    Info(info::Info),
    /// A new snapshot of a hosted program
    Create(create::Create),
    /// A new snapshot in place of the last one
    Update(update::Update),
    /// A snapshot into a file
    Pull(pull::Pull),
    /// Run a module, call it and capture its memory, all in one
    Run(run::Run),
    /// What is on the heap: by kind and shape, live and garbage, who keeps how much
    Heap(heap::Heap),
    /// One object or variable, who refers to it, and what it keeps
    Show(show::Show),
    /// What came, went and grew between images of one program
    Diff(diff::Diff),
    /// A copy of an image with another value in one place
    Edit(edit::Edit),
    /// Run a Motoko script over an image
    Eval(eval::Eval),
}

impl Image {
    /// Runs the subcommand.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        match &self.action {
            Action::Host(host) => host.run(),
            Action::Call(call) => call.run(output),
            Action::Info(info) => info.run(output),
            Action::Create(create) => create.run(output),
            Action::Update(update) => update.run(output),
            Action::Pull(pull) => pull.run(output),
            Action::Run(run) => run.run(output),
            Action::Heap(heap) => heap.run(output),
            Action::Show(show) => show.run(output),
            Action::Diff(diff) => diff.run(output),
            Action::Edit(edit) => edit.run(output),
            Action::Eval(eval) => eval.run(output),
        }
    }
}
