//! The command line: arguments shared by several commands. Arguments of a single command are in its own file.

use crate::commands;
use crate::failure::Failure;
use crate::open::OnDamage;
use crate::print::text::width_of;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use highwater_model::groups::{GroupBy, Metric};
use highwater_model::{Heap, Snapshot, SourceKind, When};
use regex::Regex;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default());

/// Where is the memory, who put it there, and why is it still there?
#[derive(Debug, Parser)]
#[command(
    name = "highwater",
    version,
    styles = STYLES,
    arg_required_else_help = true,
    after_help = "Examples:
  highwater record ./app                    run a program, and record its memory in app.hw
  highwater run ./app                       run a program, to be looked at meanwhile
  highwater snapshot --name app             who holds its memory now
  highwater record --stream host:1234 ./app to 'highwater listen 1234' there, while it runs
  highwater report app.hw                   who holds the memory at the end
  highwater report app.hw --at peak         who held it when there was most
  highwater timeline app.hw                 the course of it as a chart
  highwater view app.hw                     all of this in the browser
  highwater diff app.hw@mark:loaded app.hw  what changed since a mark
  highwater import events.jsonl -o app.hw   a recording from any program's events
  highwater report trace.ctf                what an OCaml program's memtrace says
  node app.mjs | highwater objects          which objects of a WASM module leak
  highwater image heap ledger.img           what is on the heap of a WASM program

'highwater COMMAND --help' explains a command. What a file is, is found by its content."
)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and record its memory: every allocation with its call stack
    Record(commands::record::Record),
    /// Run a program whose memory can be looked at while it runs
    Run(commands::run::Run),
    /// The processes that can be looked at
    Ps(commands::ps::Ps),
    /// What a live process holds now: a report, or a file
    Snapshot(commands::snapshot::Snapshot),
    /// What a live process holds, again and again, and what grows
    Watch(commands::watch::Watch),
    /// Another sampling rate for a live process
    Set(commands::set::Set),
    /// Snapshots that programs took of themselves
    Snapshots(commands::snapshots::Snapshots),
    /// The daemon that live processes register with
    Collector(commands::collector::Collector),
    /// Receive the streams that programs send while they run
    Listen(commands::listen::Listen),
    /// Ask a program that offers its stream for it
    Connect(commands::connect::Connect),
    /// Who holds the memory at an instant, biggest first
    Report(commands::report::Report),
    /// What is still live at the end, by call site, biggest first
    Leaks(commands::leaks::Leaks),
    /// What grew, shrank, came and went between two instants or two files
    Diff(commands::diff::Diff),
    /// Objects by type, from a console's log: who was made, who was dropped, what leaks
    Objects(commands::objects::Objects),
    /// Live memory over time as a chart, with the marks
    Timeline(commands::timeline::Timeline),
    /// Look at all this in the browser
    View(commands::view::View),
    /// Write an instant or the whole history in another tool's format: pprof, folded stacks, flame graph, JSON, CSV, memtrace
    Export(commands::export::Export),
    /// Make a recording of another tool's file: JSON lines, an OCaml memtrace, a heaptrack file, an object log, a memory image
    Import(commands::import::Import),
    /// Memory images: capture whole memories, look inside, script over them, change them
    Image(commands::image::Image),
    /// What a file is, from whom, how long, how big per event
    Info(commands::info::Info),
    /// Whether a file is whole and obeys the laws of memory
    Check(commands::check::Check),
    /// Names and source lines for a recording, from debug files
    Symbolize(commands::symbolize::Symbolize),
    /// Shell completions for bash, zsh, fish, elvish or PowerShell
    Completions(commands::completions::Completions),
    /// Manual pages, made from these help texts
    Man(commands::man::Man),
}

/// The commands by purpose, in the order of `--help`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Record", &["record", "listen", "connect"]),
    ("Live", &["run", "ps", "snapshot", "watch", "set", "snapshots", "collector"]),
    ("Analyse", &["report", "leaks", "diff", "objects", "timeline", "view", "info", "check"]),
    ("Convert", &["export", "import", "symbolize"]),
    ("Images", &["image"]),
    ("Shell", &["completions", "man", "help"]),
];

/// The command line, with its commands grouped by [`GROUPS`] in the help: clap has headings for options, but none for commands.
pub fn command() -> clap::Command {
    let mut command = CommandLine::command();
    // Adds the command 'help', which is not among the definitions.
    command.build();
    let (list, header) = (grouped_commands(&command, help_width()), STYLES.get_header());
    CommandLine::command()
        .help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\n{header}Options:{header:#}\n{{options}}{{after-help}}"))
}

/// The width that clap uses for other help: that of the terminal, or 100 columns without one.
fn help_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// A list of the commands under headings.
fn grouped_commands(command: &clap::Command, width: usize) -> String {
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let longest = command.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let indent = 2 + longest + 2;
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{header}{group}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about).map(ToString::to_string);
            let lines = wrapped(&about.unwrap_or_default(), width.saturating_sub(indent));
            let _ = writeln!(
                text,
                "  {literal}{name}{literal:#}{:1$}{lines}",
                "",
                longest - name.len() + 2,
                lines = lines.join(&format!("\n{:indent$}", ""))
            );
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len() + 1);
    text
}

/// Wraps a text into lines of at most `width` columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    const NARROWEST: usize = 20;
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            line.push_str(word);
        } else if width_of(line) + 1 + width_of(word) <= width.max(NARROWEST) {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// How output and damage are to be dealt with: what every reading command takes.
#[derive(Debug, Args)]
pub struct Reading {
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    pub json: bool,
    /// Stop with exit code 1 if the file is damaged, instead of using the rest of it
    #[arg(long)]
    pub strict: bool,
}

impl Reading {
    /// How damage is handled.
    pub fn on_damage(&self) -> OnDamage {
        if self.strict { OnDamage::Fail } else { OnDamage::Warn }
    }
}

/// The file that a command reads.
#[derive(Debug, Args)]
pub struct Input {
    /// A recording or snapshot (.hw), an OCaml memtrace (.ctf), a heaptrack file, a memory image, a file of event lines or an object log; '-' reads standard input
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
}

/// The instant of interest.
#[derive(Debug, Args)]
pub struct Instant {
    /// The instant: start, peak, end, a time (12.5s, 300ms, 1h30m), a part (80%) or mark:NAME; of a log without times line:N
    #[arg(long = "at", value_name = "WHEN", default_value = "end")]
    pub when: When,
}

/// Which rows are wanted, and how many.
#[derive(Debug, Args)]
pub struct Selection {
    /// How many rows; 0 for all [default: 10, with --json all]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Only what this regular expression finds: call sites by any function, file or module of theirs. Or heap:NAME,
    /// only what lies in that heap: heap:malloc, heap:mmap, of OCaml programs heap:minor, heap:major, heap:external
    #[arg(long, value_name = "REGEX|heap:NAME")]
    pub filter: Option<Filter>,
}

/// Selects a part of a recording.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Everything in one heap.
    Heap(Heap),
    /// Everything with a text that matches the pattern.
    Text(Regex),
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("heap:") {
            Some(name) => Heap::from_name(name).map(Self::Heap).ok_or_else(|| {
                let known = Heap::ALL.map(Heap::name).join(", ");
                format!("no heap is called '{name}'; there are: {known}")
            }),
            None => parse_regex(text).map(Self::Text),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heap(heap) => write!(f, "heap:{}", heap.name()),
            Self::Text(pattern) => pattern.fmt(f),
        }
    }
}

impl Filter {
    /// The heap to which the filter restricts, if it names one.
    pub fn heap(filter: Option<&Self>) -> Option<Heap> {
        match filter {
            Some(Self::Heap(heap)) => Some(*heap),
            _ => None,
        }
    }

    /// The predicate on texts, for [`Keep`](highwater_model::groups::Keep).
    pub fn keep(filter: Option<&Self>) -> Option<impl Fn(&str) -> bool + '_> {
        match filter {
            Some(Self::Text(pattern)) => Some(|text: &str| pattern.is_match(text)),
            _ => None,
        }
    }
}

/// Compiles the pattern. Of an error only the last line is used: the regex crate draws a picture above it.
fn parse_regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| {
        let picture = error.to_string();
        let last = picture.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("not a regular expression: {}", last.trim_start_matches("error: "))
    })
}

/// The default number of rows in a table for people.
const DEFAULT_ROWS: usize = 10;

impl Selection {
    /// The number of rows of a table for people.
    pub fn table_rows(&self) -> usize {
        Self::limit(self.top.unwrap_or(DEFAULT_ROWS))
    }

    /// The number of rows of a JSON document.
    pub fn json_rows(&self) -> usize {
        Self::limit(self.top.unwrap_or(0))
    }

    fn limit(top: usize) -> usize {
        if top == 0 { usize::MAX } else { top }
    }

    /// The predicate on texts, for [`Keep`](highwater_model::groups::Keep).
    pub fn keep(&self) -> Option<impl Fn(&str) -> bool + '_> {
        Filter::keep(self.filter.as_ref())
    }

    /// The heap to which the filter restricts, if it names one.
    pub fn heap(&self) -> Option<Heap> {
        Filter::heap(self.filter.as_ref())
    }
}

/// What the rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Call sites: whole stacks
    #[default]
    Site,
    /// Functions: what they allocated themselves, and with all they called
    Function,
    /// Source files
    File,
    /// Executables and libraries
    Module,
    /// Threads
    Thread,
    /// Types, where the source knows them
    Type,
    /// Heaps: what malloc gave, what the program mapped itself
    Heap,
}

impl By {
    /// The corresponding type of the model.
    pub fn group(self) -> GroupBy {
        match self {
            Self::Site => GroupBy::Site,
            Self::Function => GroupBy::Function,
            Self::File => GroupBy::File,
            Self::Module => GroupBy::Module,
            Self::Thread => GroupBy::Thread,
            Self::Type => GroupBy::Type,
            Self::Heap => GroupBy::Heap,
        }
    }

    /// One such row, in words.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Function => "function",
            Self::File => "file",
            Self::Module => "module",
            Self::Thread => "thread",
            Self::Type => "type",
            Self::Heap => "heap",
        }
    }

    /// True if a row's own figures are only a part of it: it also includes the frames that it called.
    pub fn has_callees(self) -> bool {
        matches!(self, Self::Function | Self::File | Self::Module)
    }
}

/// By which figure rows are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RankBy {
    /// Bytes live at the instant
    #[default]
    Live,
    /// The most bytes each row ever held, not all at the same time
    Peak,
    /// Bytes ever allocated until then
    Allocated,
    /// Blocks ever allocated until then
    Allocations,
    /// Blocks freed before their thread allocated anything else; not known of sampled recordings
    Temporary,
}

impl RankBy {
    /// The corresponding type of the model.
    pub fn metric(self) -> Metric {
        match self {
            Self::Live => Metric::Live,
            Self::Peak => Metric::Peak,
            Self::Allocated => Metric::Allocated,
            Self::Allocations => Metric::Allocations,
            Self::Temporary => Metric::Temporary,
        }
    }

    /// The figure, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Live => "live bytes",
            Self::Peak => "bytes ever held",
            Self::Allocated => "allocated bytes",
            Self::Allocations => "allocations",
            Self::Temporary => "temporary allocations",
        }
    }

    /// Fails if the source does not have this figure.
    pub fn must_be_known(self, snapshot: &Snapshot) -> Result<(), Failure> {
        let source = &snapshot.source;
        let what = if source.kind == SourceKind::IMAGE { "a memory image" } else { "a snapshot" };
        match self {
            Self::Temporary if !source.snapshot && !snapshot.knows_every_block() => Err(Failure::fault(
                "temporary allocations cannot be estimated from samples: what a thread allocated next is not known; choose another --metric",
            )),
            _ if !source.snapshot => Ok(()),
            Self::Live => Ok(()),
            Self::Peak => {
                Err(Failure::fault(format_args!("{what} knows what is live, and no peaks; choose --metric live")))
            }
            // For a live process, only sums are known of blocks that were freed earlier, and a single row holds them. So no row has the bytes that it
            // ever allocated.
            _ => Err(Failure::fault(format_args!(
                "{what} knows what is live, and not who allocated what before; choose --metric live"
            ))),
        }
    }

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Peak => "peak",
            Self::Allocated => "allocated",
            Self::Allocations => "allocations",
            Self::Temporary => "temporary",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_and_every_group_has_commands_that_exist() {
        let mut all = CommandLine::command();
        all.build();
        let visible = all.get_subcommands().filter(|one| !one.is_hide_set());
        let defined: BTreeSet<&str> = visible.map(clap::Command::get_name).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.len(), grouped.iter().collect::<BTreeSet<_>>().len(), "a command is in two groups");
        assert_eq!(defined, grouped.into_iter().collect(), "each command belongs in a group of GROUPS");
    }

    #[test]
    fn a_text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three four five six", 20), ["one two three four", "five six"]);
        assert_eq!(wrapped("", 20), [""]);
    }
}
