//! The command line: arguments shared by several commands. Arguments of a single command are in its own file.

use crate::commands;
use crate::failure::Failure;
use crate::open::OnDamage;
use crate::print::text::wrapped;
use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand};
use highwater_input::format_of_source;
use highwater_model::{Figures, Snapshot, Source, When};
use highwater_query::{Filter, GroupBy, Metric};
use regex::Regex;
use std::fmt::{self, Write};
use std::path::PathBuf;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default());

/// Where is the memory, who put it there, and why is it still there?
#[derive(Debug, Parser)]
#[command(
    name = "highwater",
    version,
    long_version = crate::version::long(),
    styles = STYLES,
    arg_required_else_help = true,
    after_help = "Examples:
  highwater record ./app                    run a program, and record its memory in app.hw
  highwater run ./app                       run a program whose memory can be inspected
  highwater attach --pid 4711               a program that runs already
  highwater snapshot --name app             who holds its memory now
  highwater record --stream host:1234 ./app to 'highwater listen 1234' there, while it runs
  highwater app.hw                          what a file is, and who held the memory at its peak
  highwater rss --pid 4711                  why a process takes this much memory: every byte of its RSS
  highwater report app.hw                   who holds the memory at the end
  highwater report app.hw --at peak         who held it when there was most
  highwater timeline app.hw                 live memory over time, as a chart
  highwater view app.hw                     the same in the browser
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
    /// Run a program whose memory can be inspected while it runs
    Run(commands::run::Run),
    /// Attach to a process that runs already: its memory can be inspected from now on
    Attach(commands::attach::Attach),
    /// Detach from a process, and leave it as it was
    Detach(commands::detach::Detach),
    /// The processes that can be inspected
    Ps(commands::ps::Ps),
    /// What a live process holds now: a report, or a file
    Snapshot(commands::snapshot::SnapshotArgs),
    /// What a live process holds, repeatedly, and what grows
    Watch(commands::watch::Watch),
    /// Where the resident memory of a process is, as rows that add up, and what would reduce it
    Rss(commands::rss::Rss),
    /// Another sampling rate for a live process
    Set(commands::set::Set),
    /// Snapshots that programs took of themselves
    Snapshots(commands::snapshots::Snapshots),
    /// The daemon that live processes register with
    Collector(commands::collector::CollectorArgs),
    /// Ship the memory of all live processes of this host to a lake of Parquet files, each minute
    Ship(commands::ship::Ship),
    /// Keep a lake of Parquet files small and sound: compact, expire, info, check
    Lake(commands::lake::LakeArgs),
    /// Receive the streams that programs send while they run
    Listen(commands::listen::Listen),
    /// Ask a program that offers its stream for it
    Connect(commands::connect::Connect),
    /// Who holds the memory at an instant, biggest first
    Report(commands::report::Report),
    /// The life of one block: who allocated, resized and freed it, and what lay at its address before and after
    Block(commands::block::BlockArgs),
    /// What is still live at the end, by call site, biggest first
    Leaks(commands::leaks::Leaks),
    /// What grows steadily, by call site, fastest first
    Growth(commands::growth::GrowthArgs),
    /// What grew, shrank, came and went between two instants or two files
    Diff(commands::diff::Diff),
    /// Objects by type, from a console's log: who was made, who was dropped, what leaks
    Objects(commands::objects::Objects),
    /// Live memory over time as a chart, with the marks
    Timeline(commands::timeline::TimelineArgs),
    /// A program and its children on one time axis: who held what, and when all together held the most
    Processes(commands::processes::ProcessesArgs),
    /// Open the viewer in the browser
    View(commands::view::ViewArgs),
    /// Write an instant or the whole history in another tool's format: pprof, folded stacks, flame graph, speedscope, Firefox Profiler, DHAT, JSON, CSV, memtrace, events
    Export(commands::export::Export),
    /// Make a recording of another tool's file: heaptrack, memray, massif, DHAT, pprof, V8, HPROF, memtrace, JSON lines and more
    Import(commands::import::Import),
    /// A part of a recording for sharing: a window, a sample, other names, without command line and host
    Trim(commands::trim::Trim),
    /// Questions about the memory of many processes: a lake that 'highwater ship' fills
    Fleet(commands::fleet::FleetArgs),
    /// Memory images: capture whole memories, look inside, script over them, change them
    Image(commands::image::ImageArgs),
    /// What a file is, from whom, how long, how big per event
    Info(commands::info::Info),
    /// Whether a file is whole and obeys the laws of memory
    Check(commands::check::Check),
    /// Names and source lines for a recording, from debug files
    Symbolize(commands::symbolize::Symbolize),
    /// Install the C library: for programs that no library can be loaded into, such as statically linked ones
    #[command(name = "c-library")]
    CLibrary(commands::c_library::CLibrary),
    /// The questions of this command line as tools for an assistant: a server of the Model Context Protocol
    Mcp(commands::mcp::Mcp),
    /// Shell completions for bash, zsh, fish, elvish or PowerShell
    Completions(commands::completions::Completions),
    /// Manual pages, made from these help texts
    Man(commands::man::Man),
    /// The recorder of a program that records itself with the C library
    #[command(hide = true)]
    Recorder(commands::recorder::RecorderArgs),
    /// Serves the metrics of a collector
    #[command(hide = true)]
    Metrics(commands::metrics::MetricsArgs),
    /// What a file is, and its report: 'highwater FILE'
    #[command(hide = true)]
    Summary(commands::summary::Summary),
}

/// The commands by purpose, in the order of `--help`.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Record", &["record", "listen", "connect", "c-library"]),
    ("Live", &["run", "attach", "detach", "ps", "snapshot", "watch", "rss", "set", "snapshots", "collector"]),
    (
        "Analyse",
        &[
            "report",
            "leaks",
            "growth",
            "diff",
            "block",
            "objects",
            "timeline",
            "processes",
            "view",
            "mcp",
            "info",
            "check",
        ],
    ),
    ("Fleet", &["ship", "fleet", "lake"]),
    ("Convert", &["export", "import", "trim", "symbolize"]),
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

/// Descriptions have at least this many columns.
const NARROWEST: usize = 20;

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
            let lines = wrapped(&about.unwrap_or_default(), width.saturating_sub(indent).max(NARROWEST));
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
pub struct FileArgs {
    /// A recording or snapshot (.hw), or the file of another tool; '-' reads standard input. 'highwater import --help' lists the formats
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
}

/// The instant of interest.
#[derive(Debug, Args)]
pub struct Instant {
    /// The instant: start, peak, rss-peak, end, a time (12.5s, 300ms, 1h30m), a part (80%) or mark:NAME; without times line:N, instruction:N or byte:N
    #[arg(long = "at", value_name = "WHEN", default_value = "end")]
    pub when: When,
}

/// Which rows are wanted, and how many.
#[derive(Debug, Args)]
pub struct Selection {
    /// How many rows; 0 for all [default: 10, with --json all]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    #[command(flatten)]
    pub filters: Filters,
}

/// Which blocks count.
#[derive(Clone, Debug, Default, Args)]
pub struct Filters {
    /// Only a part of the memory. A regular expression finds call sites by any function, file or module of theirs. Other
    /// filters select blocks: size:1KiB.., lifetime:..1ms, thread:7, type:NAME, heap:mmap, task:NAME, module:PATH, file:PATH,
    /// line:PATH:LINE, inside:equal:main, freed:never, allocated:2s..3s. '!' before a filter inverts it; several filters must all pass
    #[arg(long = "filter", value_name = "FILTER")]
    all: Vec<Filter>,
}

impl Filters {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The regular expression that chooses rows: the first one. It leaves totals as they are.
    pub fn pattern(&self) -> Option<&Regex> {
        self.all.iter().find_map(Filter::pattern)
    }

    /// The predicate on texts, for [`Keep`](highwater_model::groups::Keep).
    pub fn keep(&self) -> Option<impl Fn(&str) -> bool + '_> {
        self.pattern().map(|pattern| |text: &str| pattern.is_match(text))
    }

    /// All other filters, which select blocks: totals count only those.
    pub fn of_blocks(&self) -> Vec<Filter> {
        let first = self.all.iter().position(|filter| filter.pattern().is_some());
        let others = self.all.iter().enumerate().filter(|(at, _)| Some(*at) != first);
        others.map(|(_, filter)| filter.clone()).collect()
    }

    /// All filters, where a regular expression selects blocks as well: a timeline has no rows.
    pub fn every(&self) -> Vec<Filter> {
        self.all.clone()
    }

    /// The filters that select blocks, in words; `None` if there are none.
    pub fn in_words(&self) -> Option<String> {
        let texts: Vec<String> = self.of_blocks().iter().map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| texts.join(" and "))
    }
}

impl fmt::Display for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.all.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(" and "))
    }
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
}

/// What the rows are.
#[derive(Clone, Copy, Debug, Args)]
pub struct Grouping {
    /// What the rows are
    #[arg(long, value_name = "WHAT", default_value = "site", value_parser = grouping_parser())]
    pub by: GroupBy,
}

/// Parser for the names of groupings.
pub fn grouping_parser() -> impl TypedValueParser<Value = GroupBy> {
    keyed_parser(GroupBy::ALL.map(|by| (by.key(), by.about(), by)))
}

/// Parser for the names of groupings in which every block belongs to one row.
pub fn grower_parser() -> impl TypedValueParser<Value = GroupBy> {
    const GROUPINGS: [GroupBy; 5] = [GroupBy::Site, GroupBy::Thread, GroupBy::Type, GroupBy::Heap, GroupBy::Task];
    keyed_parser(GROUPINGS.map(|by| (by.key(), by.about(), by)))
}

/// By which figure rows are ranked.
#[derive(Clone, Copy, Debug, Args)]
pub struct Ranking {
    /// The figure that is shown, and by which rows are ranked
    #[arg(long, value_name = "FIGURE", default_value = "live", value_parser = metric_parser())]
    pub metric: Metric,
}

fn metric_parser() -> impl TypedValueParser<Value = Metric> {
    keyed_parser(Metric::ALL.map(|metric| (metric.key(), metric.about(), metric)))
}

/// Parser for words with an explanation each.
pub fn keyed_parser<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let values: Vec<PossibleValue> =
        words.iter().map(|(key, about, _)| PossibleValue::new(*key).help(*about)).collect();
    PossibleValuesParser::new(values).try_map(move |text| {
        let known = words.iter().find(|(key, ..)| *key == text).map(|(.., value)| *value);
        known.ok_or_else(|| format!("there is no '{text}'"))
    })
}

/// Fails if a snapshot does not have a figure.
pub fn must_be_known(metric: Metric, snapshot: &Snapshot) -> Result<(), Failure> {
    let source = &snapshot.source;
    if source.known.is_some() {
        return match source.knows(metric, &snapshot.accounts.totals().figures) {
            true => Ok(()),
            false => Err(Failure::fault(not_in_profile(metric, source))),
        };
    }
    let what = if source.kind.is_object_graph() { "a memory image" } else { "a snapshot" };
    match metric {
        Metric::Temporary if !source.lacks_past() && !snapshot.knows_every_block() => Err(Failure::fault(
            "temporary allocations cannot be estimated from samples: what a thread allocated next is not known; choose another --metric",
        )),
        _ if !source.snapshot => Ok(()),
        Metric::Live => Ok(()),
        Metric::Peak if source.has_past => Err(Failure::fault(format_args!(
            "{what} knows one instant, and not what was live at the peak; choose --metric live or own-peak"
        ))),
        Metric::Leaked if source.has_past => Err(Failure::fault(format_args!(
            "{what} knows one instant, and not what was live at the end; choose --metric live"
        ))),
        _ if source.has_past => Ok(()),
        Metric::Peak | Metric::OwnPeak => {
            Err(Failure::fault(format_args!("{what} knows what is live, and no peaks; choose --metric live")))
        }
        // For a live process, only sums are known of blocks that were freed earlier, and a single row holds them. So no row has the bytes that it
        // ever allocated.
        _ => Err(Failure::fault(format_args!(
            "{what} knows what is live, and not who allocated what before; choose --metric live"
        ))),
    }
}

/// Fails if a source does not know what the rows are about.
pub fn must_have_rows(by: GroupBy, source: &Source) -> Result<(), Failure> {
    match by {
        GroupBy::Thread if source.known.is_some() => {
            let title = format_of_source(&source.kind).map_or("profile", |format| format.title());
            Err(Failure::fault(format_args!("a {title} does not say which thread allocated what; choose another --by")))
        }
        _ => Ok(()),
    }
}

/// Why a profile of another tool lacks a figure.
fn not_in_profile(metric: Metric, source: &Source) -> String {
    let title = format_of_source(&source.kind).map_or("profile", |format| format.title());
    let known: Vec<&str> =
        Metric::ALL.into_iter().filter(|metric| source.knows(*metric, &Figures::default())).map(Metric::key).collect();
    format!("a {title} does not have {} here; --metric can be {}", metric.in_words(), known.join(", "))
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
