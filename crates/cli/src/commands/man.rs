//! `highwater man`: the manual pages, made from the help texts.

use crate::args::CommandLine;
use crate::failure::{Failure, reason};
use crate::output::Output;
use clap::{Args, CommandFactory};
use std::path::PathBuf;

/// The arguments of `highwater man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater man | man -l -               read the page of highwater itself
  highwater man ~/.local/share/man/man1  install all pages: man highwater-report")]
pub struct Man {
    /// A directory for all pages (highwater.1, highwater-report.1, cargo-highwater.1 …); without it, highwater's own page is printed
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// The commands that have pages: all but 'help', which only repeats them.
fn command() -> clap::Command {
    CommandLine::command().disable_help_subcommand(true).mut_subcommands(|one| one.disable_help_subcommand(true))
}

/// The page of `cargo highwater`: a program of its own, whose help is the text.
fn cargo_page() -> String {
    let help = include_str!("../cargo_highwater/help.txt");
    let (about, rest) = help.split_once("\n\n").unwrap_or((help, ""));
    // A line that begins with a dot or an apostrophe would be a request.
    let line = |line: &str| format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"));
    let rest: String = rest.lines().map(line).collect();
    format!(
        ".TH cargo-highwater 1 \"\" \"cargo-highwater {}\"\n.SH NAME\ncargo\\-highwater \\- {about}\n.SH DESCRIPTION\n.nf\n{rest}.fi\n.SH SEE ALSO\nhighwater(1), cargo(1)\n",
        env!("CARGO_PKG_VERSION"),
    )
}

impl Man {
    /// Prints or writes the pages.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let Some(directory) = &self.directory else {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command()).render(&mut page);
            rendered.map_err(|error| Failure::fault(format_args!("cannot make the page: {}", reason(&error))))?;
            return output.bytes(&page);
        };
        std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(command(), directory))
            .and_then(|()| std::fs::write(directory.join("cargo-highwater.1"), cargo_page()))
            .map_err(|error| Failure::in_file(directory, format_args!("cannot write the pages: {}", reason(&error))))
    }
}
