//! `highwater mcp`: the questions of the command line as tools of the Model Context Protocol, over standard input and output.
//!
//! * [`protocol`] reads messages and writes replies. [`server`] holds the conversation.
//! * [`tools`] lists the tools; their arguments and schemas come from the definitions of the commands. [`answers`] answers a call.
//! * [`folders`] decides which files may be read.
//! * [`question`] runs the command that answers, as a process of its own: it can be cancelled, a hostile file ends no more than it, and no
//!   program's output is mixed into the protocol.

mod answers;
mod folders;
mod protocol;
mod question;
mod server;
mod tools;

use crate::failure::Failure;
use crate::output::{Output, say};
use clap::Args;
use folders::Folders;
use std::io::{IsTerminal, stdin};
use std::path::PathBuf;

/// The arguments of `highwater mcp`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater mcp .                           recordings below this folder
  highwater mcp ~/recordings /var/profiles  below one of these
  highwater mcp . --allow-record            and new ones of any program

An assistant starts it, by its settings: command 'highwater', arguments 'mcp' and a folder. The tools are the questions of \
this command line: list_files, open, report, leaks, growth, diff, timeline, types, blocks, rss, check and budget. They read; nothing is written or \
sent, and no server is asked for names. With --allow-record the assistant may run any program that you may run.")]
pub struct Mcp {
    /// The folders whose files may be read, with all folders below
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// Also run and record programs: any program, with your rights. Recordings go below the folders
    #[arg(long)]
    allow_record: bool,
}

impl Mcp {
    /// Answers until the input ends.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let folders = Folders::open(&self.folders)?;
        if stdin().is_terminal() {
            say("waiting for an assistant's messages on standard input; its settings start this command (docs/mcp.md)");
        }
        server::serve(folders, self.allow_record, output)
    }
}
