//! `highwater completions`: shell completions for our command lines.

use crate::args::CommandLine;
use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// The arguments of `highwater completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater completions bash > ~/.local/share/bash-completion/completions/highwater
  highwater completions zsh > ~/.zfunc/_highwater
  highwater completions fish > ~/.config/fish/completions/highwater.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the completions.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        // Written to memory first: the generator panics when it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "highwater", &mut script);
        output.bytes(&script)
    }
}
