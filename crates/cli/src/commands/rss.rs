//! `highwater rss`: where the resident memory of a process is.

use crate::args::keyed_parser;
use crate::failure::Failure;
use crate::live::{Asking, ProcessChoice, TakenSnapshot, outside};
use crate::name_sources::NameSources;
use crate::naming::NameArgs;
use crate::open::{self, OnDamage};
use crate::output::Output;
use crate::print::bytes::bytes;
use crate::print::cut;
use crate::print::heading::{self, Heading};
use crate::print::rss::{self, SiteTable};
use crate::print::stack::{Depth, SiteView};
use clap::Args;
use clap::builder::TypedValueParser;
use highwater_collector::protocol::{CutInfo, Detail, ProcessState};
use highwater_collector::take::SnapshotRequest;
use highwater_collector::{CollectorError, PageDetail};
use highwater_formats::json;
use highwater_model::groups::GroupBy;
use highwater_model::{Catalog, Naming, Nanos, Source, When};
use highwater_query::{
    Query, QueryError, RssAnswer, RssInstant, RssMoment, RssOptions, RssOrder, SiteNames, rss as ask_rss, rss_of,
    time_of,
};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments of `highwater rss`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater rss --pid 4711            where the RSS of a process is: rows that add up
  highwater rss --name server         the same by name
  highwater rss --name server --pinned   which blocks keep the most pages in RAM
  highwater rss app.hw                of a recording, when RSS was highest
  highwater rss app.hw --at mark:loaded  at a mark
  highwater rss now.hw --by type      of a snapshot, by type
  highwater rss --pid 4711 --json | jq '.rows[] | {name, resident_bytes}'

Pages are read from outside: the process is not stopped, and nothing in it changes. Blocks are known of a process that was started with
'highwater run', and those since then of one that 'highwater attach' attached to; of any other, rows add up but sites are not known. The process must be yours, or you must be root.")]
pub struct Rss {
    /// A recording or snapshot (.hw) instead of a live process
    #[arg(value_name = "FILE", conflicts_with_all = ["pid", "name"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    choice: ProcessChoice,
    /// Of a recording, the last known state that is not after this instant: rss-peak, start, peak, end, a time (12.5s), a part (80%) or mark:NAME
    /// [default: rss-peak]
    #[arg(long = "at", value_name = "WHEN", requires = "file")]
    at: Option<When>,
    /// What keeps pages in RAM: sites by the pages that could be returned to the kernel if only their blocks were freed
    #[arg(long)]
    pinned: bool,
    /// What the rows of the table are
    #[arg(long, value_name = "WHAT", default_value = "site", value_parser = grouping_parser())]
    by: GroupBy,
    /// How many rows of the table; 0 for all [default: 10, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Also the proportional set size of a large process. The kernel walks all its pages once more, and its mmap waits meanwhile: 30 ms per GiB
    #[arg(long, conflicts_with = "file")]
    pss: bool,
    /// How much of each call stack
    #[arg(long, value_enum, value_name = "DEPTH", default_value = "top")]
    stacks: Depth,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    sources: NameSources,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
    /// Stop with exit code 1 if the file is damaged, instead of using the rest of it
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    collector: Asking,
}

/// The default number of rows.
const ROWS: usize = 10;
/// The most rows.
const MOST_ROWS: usize = 10_000;
/// How the sites of a process can be known.
const NO_SITES: &str = "blocks and sites are not known: start the program with 'highwater run' to see them";

/// Parser for the names of groupings in which pages belong to rows.
fn grouping_parser() -> impl TypedValueParser<Value = GroupBy> {
    const GROUPINGS: [GroupBy; 8] = [
        GroupBy::Site,
        GroupBy::Type,
        GroupBy::Function,
        GroupBy::File,
        GroupBy::Module,
        GroupBy::Line,
        GroupBy::Heap,
        GroupBy::Task,
    ];
    keyed_parser(GROUPINGS.map(|by| (by.key(), by.about(), by)))
}

/// What is shown: an answer, and where it comes from.
struct Shown {
    source: Source,
    answer: RssAnswer,
    catalog: Arc<Catalog>,
    naming: Naming,
    /// How the blocks of a live process were read.
    cut: Option<CutInfo>,
    /// What the reader must know.
    note: Option<String>,
    /// The instant that was asked for, in words and as a time.
    asked: Option<(String, Nanos)>,
}

impl Rss {
    /// Reads the process or the file, and prints where its resident memory is.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let shown = match &self.file {
            Some(path) => self.of_file(path)?,
            None => self.of_process()?,
        };
        if self.json {
            return output.json(document(&shown)?);
        }
        self.print(&shown, output)?;
        output.flush()?;
        shown.cut.iter().for_each(cut::warn_of);
        Ok(())
    }

    fn options(&self) -> RssOptions {
        let default_top = if self.json { 0 } else { ROWS };
        RssOptions {
            order: if self.pinned { RssOrder::Pinned } else { RssOrder::Resident },
            by: if self.by == GroupBy::Site { GroupBy::Type } else { self.by },
            limit: Some(self.top.unwrap_or(default_top)).filter(|top| *top > 0).unwrap_or(MOST_ROWS).min(MOST_ROWS),
        }
    }

    fn of_file(&self, path: &Path) -> Result<Shown, Failure> {
        let opened = open::open(path, if self.strict { OnDamage::Fail } else { OnDamage::Warn })?;
        if let Some(when) = &self.at {
            opened.must_know(when)?;
        }
        let naming = self.names.of(&opened)?;
        let (answer, asked) = opened.ask_history(|history, work| {
            let (moment, asked) = match &self.at {
                None | Some(When::RssPeak) => (RssMoment::RssPeak, None),
                Some(when) => {
                    let time = time_of(history, when)?;
                    (RssMoment::At(time), Some((when.to_string(), time)))
                }
            };
            let query = Query { naming: naming.clone(), ..Query::new(Arc::clone(history)) };
            Ok::<_, QueryError>((ask_rss(&query, moment, &self.options(), work)?, asked))
        })?;
        let (source, catalog) = (opened.source().clone(), Arc::clone(opened.catalog()));
        Ok(Shown { source, answer, catalog, naming, cut: None, note: None, asked })
    }

    fn of_process(&self) -> Result<Shown, Failure> {
        match self.registered()? {
            Registered::Snapshot(shown) => Ok(*shown),
            Registered::Not(pid, note) => {
                let (source, breakdown) = outside::read(pid, self.page_detail())?;
                let (catalog, naming) = (Catalog::default(), Naming::default());
                let names = SiteNames { catalog: &catalog, naming: &naming, has_site_types: false };
                let answer = rss_of(&breakdown, names, &self.options())?;
                let catalog = Arc::new(catalog);
                Ok(Shown { source, answer, catalog, naming, cut: None, note: Some(note), asked: None })
            }
        }
    }

    fn page_detail(&self) -> PageDetail {
        if self.pss { PageDetail::Proportional } else { PageDetail::Rows }
    }

    /// A snapshot of the process by its collector; or its pid, if it has none.
    fn registered(&self) -> Result<Registered, Failure> {
        let not = |note: &str| Ok(Registered::Not(self.choice.outside()?, note.to_owned()));
        let mut client = match self.collector.connect_if_any()? {
            Some(client) => client,
            None if self.choice.is_any() => {
                return Err(Failure::Usage("say which process: --pid or --name".to_owned()));
            }
            None => return not(NO_SITES),
        };
        let processes = client.processes_among(&self.choice.which()).map_err(Failure::fault)?;
        if !self.choice.is_any() && processes.iter().all(|process| process.state != ProcessState::Live) {
            return match processes.iter().find(|process| process.state == ProcessState::Refused) {
                Some(refused) => {
                    let problem = &refused.problem;
                    Ok(Registered::Not(refused.pid, format!("blocks and sites are not known: {problem}")))
                }
                None => not(NO_SITES),
            };
        }
        let process = self.choice.of(&processes)?;
        let wanted = SnapshotRequest { detail: Detail::Sites, contents: None, pages: Some(self.page_detail()) };
        let taken = client.snapshot_with(process.pid, wanted).map_err(|error| match error {
            CollectorError::Failed(line) => Failure::fault(line),
            other => Failure::fault(other),
        })?;
        let opened = TakenSnapshot::open(taken.file, &[], &mut self.sources.symbolizer())?;
        let Some(breakdown) = opened.breakdown else {
            return Err(no_breakdown(process.pid, &process.name, &taken.cut));
        };
        let naming = self.names.of_snapshot(&opened.snapshot)?;
        let has_site_types = opened.snapshot.has_site_types();
        let catalog = Arc::clone(&opened.snapshot.catalog);
        let answer =
            rss_of(&breakdown, SiteNames { catalog: &catalog, naming: &naming, has_site_types }, &self.options())?;
        let source = opened.snapshot.source.clone();
        let note = why_not_every_block(&answer, process.sample_bytes, process.forked_from);
        Ok(Registered::Snapshot(Box::new(Shown {
            source,
            answer,
            catalog,
            naming,
            cut: Some(taken.cut),
            note,
            asked: None,
        })))
    }

    fn print(&self, shown: &Shown, output: &mut Output) -> Result<(), Failure> {
        let Shown { answer, catalog, .. } = shown;
        output.text(&head(shown).render(output.paint, output.width))?;
        output.text("\n")?;
        output.text(&rss::rows(answer, output))?;
        output.text("\n")?;
        output.text(&rss::beside(answer, output))?;
        let sites = SiteView { depth: self.stacks, naming: &shown.naming };
        let table = SiteTable { by: self.by, pinned: self.pinned, sites };
        let tables = [
            table.render(answer, catalog, output),
            rss::files(answer, output),
            rss::findings(&answer.findings, output),
        ];
        for table in tables.iter().filter(|table| !table.is_empty()) {
            output.text(&format!("\n{table}"))?;
        }
        if let Some(note) = &shown.note {
            output.text("\n")?;
            output.line(note)?;
        }
        match self.pinned
            && (!answer.knows_every_block || answer.sites.iter().all(|site| site.figures.pinned_bytes == 0))
        {
            true => output.text("\nNo site is known to pin pages.\n"),
            false => Ok(()),
        }
    }
}

/// How a process is known.
enum Registered {
    /// Its collector took a snapshot.
    Snapshot(Box<Shown>),
    /// It has none: its pid, and what the reader must know.
    Not(u32, String),
}

/// Why blocks are not all known, in a line; `None` if they are.
fn why_not_every_block(answer: &RssAnswer, sample_bytes: u64, forked_from: u32) -> Option<String> {
    if answer.knows_every_block {
        return None;
    }
    Some(match (sample_bytes, forked_from) {
        (1.., _) => format!(
            "blocks are sampled, one per {}: sites show the sampled blocks only, and free memory is not known; 'highwater set' changes that",
            bytes(sample_bytes)
        ),
        (0, 1..) => "it was forked: its parent's blocks are not in its table, so free memory is not known".to_owned(),
        _ => "not every block is in its table, so free memory is not known".to_owned(),
    })
}

fn no_breakdown(pid: u32, name: &str, cut: &CutInfo) -> Failure {
    Failure::fault(match (cut.exited, cut.no_pages.as_str()) {
        (true, _) => format!("process {pid} ({name}) has ended, and its pages with it"),
        (false, "") => format!(
            "the collector does not say where the memory of process {pid} ({name}) is: it is of an older version; start it anew"
        ),
        (false, why) => format!("process {pid} ({name}): {why}"),
    })
}

fn head(shown: &Shown) -> Heading {
    let mut head = Heading::default();
    let is_live = shown.cut.is_some() || shown.note.is_some();
    if is_live {
        head.line("process", heading::program(&shown.source));
    } else {
        heading::add_program(&mut head, &shown.source);
    }
    rss::add_process(&mut head, &shown.answer);
    if !is_live {
        head.line("instant", instant(shown));
        if let Some(missed) = missed_peak(shown) {
            head.line("not known", missed);
        }
        if let [_, _, ..] = shown.answer.instants.as_slice() {
            head.line("known at", known_instants(&shown.source, &shown.answer.instants));
        }
    }
    head
}

/// A line about a highest RSS of which there is no breakdown: one that lasted too short, as pages are read one percent of the time only.
fn missed_peak(shown: &Shown) -> Option<String> {
    const LEAST_PERCENT: u64 = 95;
    let RssAnswer { rss_bytes, rss_peak_bytes, .. } = shown.answer;
    let is_missed = rss_bytes.saturating_mul(100) < rss_peak_bytes.saturating_mul(LEAST_PERCENT);
    (is_missed && shown.asked.is_none() && !shown.source.snapshot).then(|| {
        format!("where the memory was when RSS was {}: it was read before or after that only", bytes(rss_peak_bytes))
    })
}

/// The shown instant, why it was recorded, and how far it is from the one that was asked for.
fn instant(shown: &Shown) -> String {
    let at = Nanos(shown.answer.at_ns);
    let text = format!("{} ({})", shown.source.instant(at), reason_in_words(shown.answer.reason));
    match &shown.asked {
        Some((asked, time)) if time.0 > at.0 => {
            let before = shown.source.length(Nanos(time.0 - at.0));
            format!("{text}, {before} before {asked}")
        }
        _ => text,
    }
}

fn reason_in_words(reason: &str) -> &str {
    match reason {
        "rss-peak" => "the highest RSS that was read",
        "mark" => "a mark",
        "end" => "the last one before the end",
        _ => "on request",
    }
}

/// The instants of which the resident memory is known; of many, the first and last ones.
fn known_instants(source: &Source, instants: &[RssInstant]) -> String {
    const NAMED: usize = 8;
    let text = |instant: &RssInstant| {
        format!("{} {} {}", source.instant(Nanos(instant.at_ns)), instant.reason, bytes(instant.rss_bytes))
    };
    let shown: Vec<String> = match instants.len() {
        ..=NAMED => instants.iter().map(text).collect(),
        count => {
            let (first, last) = (&instants[..NAMED / 2], &instants[count - NAMED / 2..]);
            let between = format!("… {} more …", count - NAMED);
            first.iter().map(text).chain([between]).chain(last.iter().map(text)).collect()
        }
    };
    shown.join(", ")
}

fn document(shown: &Shown) -> Result<Value, Failure> {
    let mut members = Map::new();
    members.insert("schema".to_owned(), json::SCHEMA.into());
    members.insert("command".to_owned(), "rss".into());
    members.insert("source".to_owned(), json::source(&shown.source));
    if let Value::Object(answer) = serde_json::to_value(&shown.answer).map_err(Failure::fault)? {
        members.extend(answer);
    }
    members.insert("note".to_owned(), json!(shown.note));
    if let Some(cut) = &shown.cut {
        members.insert("cut".to_owned(), cut.to_json());
    }
    Ok(Value::Object(members))
}
