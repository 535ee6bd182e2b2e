//! `highwater FILE`: what a file is, and the report that answers the first question about it.

use super::image::heap::HeapArgs;
use super::objects::Objects;
use super::report::Report;
use crate::args::FileArgs;
use crate::failure::Failure;
use crate::open::{self, OnDamage, Opened};
use crate::output::Output;
use crate::print::bytes::bytes;
use crate::print::colour::Style;
use crate::print::table::{Align, Cell, Table};
use clap::{Args, Command, FromArgMatches};
use highwater_input::{Format, Read, format_of_file, stored_size};
use highwater_model::SourceKind;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The arguments of `highwater FILE`.
#[derive(Debug, Args)]
#[command(override_usage = "highwater FILE")]
pub struct Summary {
    #[command(flatten)]
    input: FileArgs,
}

impl Summary {
    /// Prints what the file is, its report, and what else can be asked.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let path = &self.input.path;
        let format = format_of_file(path)?;
        if matches!(format.read(), Read::State(_)) {
            // The heap is shown first: that a file without a signature is an image turns out only then.
            parsed::<HeapArgs>(path, &[])?.run(output)?;
            return output.text(&self.hints(
                &[
                    ("image show FILE OBJECT", "one object, what refers to it, and why it is live"),
                    ("image diff FILE LATER", "what came, went and grew"),
                ],
                output,
            ));
        }
        if format.key() == SourceKind::OBJLOG.key() {
            output.text(&title(path, format))?;
            parsed::<Objects>(path, &[])?.run(output)?;
            return output.text(
                &self.hints(
                    &[("report FILE", "who holds the memory"), ("view FILE", "the same in the browser")],
                    output,
                ),
            );
        }
        let opened = open::open(path, OnDamage::Warn)?;
        output.text(&title(path, format))?;
        let when: &[&str] = if opened.source().snapshot { &[] } else { &["--at", "peak"] };
        parsed::<Report>(path, when)?.report(&opened, output)?;
        output.text(&self.hints(hints_of(&opened), output))
    }

    /// The commands that come next. `FILE` in them is the file.
    fn hints(&self, hints: &[(&str, &str)], output: &Output) -> String {
        let mut table = Table::default().column(Align::Left, "").column(Align::Left, "");
        let path = self.input.path.display().to_string();
        for (command, what) in hints {
            let command = command.replace("FILE", &path);
            table.row(vec![format!("  highwater {command}").into(), Cell::new(Style::Dim, what)]);
        }
        format!("\n{}", table.render(output.paint, output.width))
    }
}

fn hints_of(opened: &Opened) -> &'static [(&'static str, &'static str)] {
    match () {
        () if opened.source().snapshot => &[
            ("view FILE", "the same in the browser"),
            ("report FILE --by function", "functions, with all they called"),
            ("diff OLDER FILE", "what changed since another file"),
        ],
        () => &[
            ("leaks FILE", "what is still live at the end"),
            ("growth FILE", "what grows steadily"),
            ("timeline FILE", "live memory over time"),
            ("view FILE", "all of it in the browser"),
        ],
    }
}

/// What the file is: `app.zst: heaptrack file, 1.8 MiB`.
fn title(path: &Path, format: &dyn Format) -> String {
    let size = stored_size(path).map_or_else(String::new, |size| format!(", {}", bytes(size)));
    format!("{}: {}{size}\n\n", path.display(), format.title())
}

/// The arguments of another command, as if the user had typed it.
fn parsed<A: Args + FromArgMatches>(path: &Path, more: &[&str]) -> Result<A, Failure> {
    let words = [OsStr::new("highwater"), path.as_os_str()].into_iter().chain(more.iter().map(OsStr::new));
    let matches = A::augment_args(Command::new("highwater")).try_get_matches_from(words).map_err(Failure::fault)?;
    A::from_arg_matches(&matches).map_err(Failure::fault)
}

/// The words of a command line. If the first is a file and no command, the command for files is inserted before it.
pub fn with_command(words: impl Iterator<Item = OsString>, commands: &Command) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let is_file = |word: &OsString| {
        let text = word.to_string_lossy();
        let is_command = commands
            .get_subcommands()
            .any(|one| one.get_name() == text || one.get_all_aliases().any(|alias| alias == text));
        !text.starts_with('-')
            && !is_command
            && text != "help"
            && (text.contains(['/', '.']) || Path::new(word).exists())
    };
    if words.get(1).is_some_and(is_file) {
        words.insert(1, "summary".into());
    }
    words
}
