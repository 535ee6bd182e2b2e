//! `highwater image`: whole memories in files. One file per subcommand.

mod call;
mod create;
mod eval;
mod host;
mod info;
mod latest;
mod program;
mod pull;
mod run;
mod socket;
mod update;

use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Subcommand};

/// The arguments of `highwater image`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:
  highwater image run app.wasm --call 'open(100)' --snapshot app.img   run, call, capture
  highwater image host app.wasm                                        run it for a while
  highwater image call open '(100)'                                    call it meanwhile
  highwater image create && highwater image pull -f app.img            capture it meanwhile
  highwater image eval 'image.size()' -f app.img                       a script over an image

An image is every byte of a program's memory, in a file. Beside it lies what is not in it: app.img.json.")]
pub struct Image {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    /// Run a Motoko script over an image
    Eval(eval::Eval),
}

impl Image {
    /// Does what the subcommand says.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        match &self.command {
            Command::Host(host) => host.run(),
            Command::Call(call) => call.run(output),
            Command::Info(info) => info.run(output),
            Command::Create(create) => create.run(output),
            Command::Update(update) => update.run(output),
            Command::Pull(pull) => pull.run(output),
            Command::Run(run) => run.run(output),
            Command::Eval(eval) => eval.run(output),
        }
    }
}
