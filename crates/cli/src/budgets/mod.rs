//! Budgets on the command line: the options that `check` and `record` share, and the verdict on a program and its children.

mod baseline;
pub mod ci;
pub mod incomplete;
pub mod text;
mod verdict_file;

pub use baseline::SMALL_CHILD;
pub use verdict_file::{VerdictFile, VerdictFormat};

use crate::failure::{Failure, reason};
use crate::naming::NameArgs;
use crate::open::{self, OnDamage, Opened};
use crate::permitted;
use crate::print::bytes::{bytes, counted};
use crate::print::site_line::SiteLine;
use crate::print::text::shell_word;
use crate::process_files::recordings_of_children;
use baseline::{ByProgram, MeasuredProcess};
use clap::Args;
use highwater_model::{Catalog, Naming, Source, StackId, without_cargo_hash};
use highwater_query::budget::{
    Allowance, BudgetFile, BudgetPart, CheckedLimit, ImpossibleLimit, LimitKind, MOST_BUDGET_BYTES, Outcome, PartSpan,
    Suppressed, Suppressions, judge, parse_suppressions,
};
use highwater_query::{Filter, Query};
use highwater_session::{UnrecordedPrograms, names_in_sentence};
use incomplete::{Incomplete, missing_in};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the help of a command lists these options.
const LIMITS: &str = "Limits";

/// Limits on a program's memory.
#[derive(Debug, Default, Args)]
pub struct BudgetArgs {
    /// Check the limits of this file's table [budget]: a TOML file, usually highwater.toml. Exit code 1 if one is broken
    #[arg(help_heading = LIMITS, long, value_name = "FILE")]
    budget: Option<PathBuf>,
    /// The most bytes live at once (such as 64MiB), of the program and of each child
    #[arg(help_heading = LIMITS, long, value_name = "SIZE", value_parser = size)]
    max_peak: Option<u64>,
    /// The most bytes live at the end
    #[arg(help_heading = LIMITS, long, value_name = "SIZE", value_parser = size)]
    max_leaked: Option<u64>,
    /// The most blocks live at the end
    #[arg(help_heading = LIMITS, long, value_name = "N", value_parser = count)]
    max_leaked_blocks: Option<u64>,
    /// The most bytes ever allocated
    #[arg(help_heading = LIMITS, long, value_name = "SIZE", value_parser = size)]
    max_allocated: Option<u64>,
    /// The most allocations, reallocations included
    #[arg(help_heading = LIMITS, long, value_name = "N", value_parser = count)]
    max_allocations: Option<u64>,
    /// The largest share of allocations that are freed before their thread allocates anything else (such as 30%)
    #[arg(help_heading = LIMITS, long, value_name = "SHARE", value_parser = share)]
    max_temporary: Option<u64>,
    /// The most bytes in RAM
    #[arg(help_heading = LIMITS, long, value_name = "SIZE", value_parser = size)]
    max_rss: Option<u64>,
    /// The most bytes by which live memory grows from one mark that '--each' names to the next, on average without the first time
    #[arg(help_heading = LIMITS, long, value_name = "SIZE", value_parser = size, requires = "each")]
    max_growth: Option<u64>,
    /// The mark that the program sets in each iteration
    #[arg(help_heading = LIMITS, long, value_name = "MARK", requires = "max_growth")]
    each: Option<String>,
    /// Only blocks that this filter selects count in these limits: 'mycrate::', type:NAME, size:1MiB..; may be repeated
    #[arg(help_heading = LIMITS, long = "in", value_name = "FILTER")]
    filters: Vec<Filter>,
    /// Leave the leaks of these sites out: a file with a suppression in each line, such as leak:libfontconfig, as LeakSanitizer has them, or a filter; may be
    /// repeated
    #[arg(help_heading = LIMITS, long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
    /// Compare with a recording of an earlier run: its peak, what is live at the end and what is allocated; several give a range. Of a folder, the recording
    /// with the same file name
    #[arg(help_heading = LIMITS, long, value_name = "FILE")]
    baseline: Vec<PathBuf>,
    /// By how much figures may exceed those of the baselines: a share, and at least these bytes and blocks: +5%,64KiB,10 [default: +5%]
    #[arg(help_heading = LIMITS, long, value_name = "SHARE", requires = "baseline")]
    allow: Option<Allowance>,
    /// Also write the verdict to a file: text, json, junit, github or gitlab. In a folder, the file has the recording's name; '-' is standard output. May be repeated
    #[arg(help_heading = LIMITS, long, value_name = "FORMAT=FILE")]
    pub verdict: Vec<VerdictFile>,
    /// Note here which programs ran: 'cargo highwater' judges several
    #[arg(long, hide = true, value_name = "FILE")]
    ran: Option<PathBuf>,
}

fn size(text: &str) -> Result<u64, ImpossibleLimit> {
    LimitKind::Peak.parse(text)
}

fn count(text: &str) -> Result<u64, ImpossibleLimit> {
    LimitKind::Allocations.parse(text)
}

fn share(text: &str) -> Result<u64, ImpossibleLimit> {
    LimitKind::Temporary.parse(text)
}

/// The limits of a run, read and found possible.
#[derive(Debug, Default)]
pub struct Limits {
    file: BudgetFile,
    /// The file's path, if there is one.
    pub path: Option<PathBuf>,
    /// The limits of the command line, for every program.
    parts: Vec<BudgetPart>,
    /// The filters of the command line: those of its limits, and of the comparison with earlier runs.
    filters: Vec<Filter>,
    suppressions: Suppressions,
    baselines: Vec<PathBuf>,
    allowance: Allowance,
    /// Where the programs that ran are noted, if this is one of several that are judged together.
    ran: Option<PathBuf>,
}

/// A process, judged.
pub struct JudgedProcess {
    /// Its recording.
    pub path: PathBuf,
    /// The program's name, without the hash that cargo adds.
    pub program: String,
    /// Its process id.
    pub pid: u64,
    /// What its recording says of it.
    pub source: Source,
    /// Its limits.
    pub checks: Vec<JudgedLimit>,
    naming: Naming,
    catalog: Arc<Catalog>,
}

/// A limit, judged.
pub struct JudgedLimit {
    /// The answer.
    pub checked: CheckedLimit,
    /// Its sites as lines for people.
    pub lines: Vec<SiteLine>,
    /// The same for all processes that have the same limit.
    key: (LimitOrigin, LimitKind),
}

/// Where a limit is written. Two parts may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LimitOrigin {
    /// A part of the file: in the limits of a program, or of all others.
    File { program: Option<String>, part: usize },
    /// A part of the command line.
    Options { part: usize },
    /// Earlier runs.
    Baseline,
}

/// The verdict on a program and its children.
#[derive(Default)]
pub struct Verdict {
    /// The processes that have limits, the program first.
    pub processes: Vec<JudgedProcess>,
    /// What suppressions took out.
    pub suppressed: Vec<Suppressed>,
    /// What the verdict does not cover; with any of it, the budget is not kept.
    pub incomplete: Vec<Incomplete>,
    /// What it does not cover and need not: sentences.
    pub not_judged: BTreeSet<String>,
    /// The program itself.
    pub source: Source,
    /// The programs that ran.
    ran: BTreeSet<String>,
    /// The programs that have limits and did not run.
    never_ran: Vec<String>,
    /// The baselines that are recordings of the program.
    baselines_used: BTreeSet<PathBuf>,
}

impl BudgetArgs {
    /// True if any limit is asked for.
    pub fn is_any(&self) -> bool {
        self.budget.is_some() || !self.baseline.is_empty() || self.limits().next().is_some()
    }

    /// The files that get the verdict. Those of an earlier run are removed: they would be taken for this one's.
    pub fn verdict_files(&self) -> &[VerdictFile] {
        self.verdict.iter().for_each(VerdictFile::remove_old);
        &self.verdict
    }

    /// The limits of the options, in the order of [`LimitKind::ALL`].
    fn limits(&self) -> impl Iterator<Item = (LimitKind, u64)> {
        let all = [
            (LimitKind::Peak, self.max_peak),
            (LimitKind::Leaked, self.max_leaked),
            (LimitKind::LeakedBlocks, self.max_leaked_blocks),
            (LimitKind::Allocated, self.max_allocated),
            (LimitKind::Allocations, self.max_allocations),
            (LimitKind::Temporary, self.max_temporary),
            (LimitKind::Rss, self.max_rss),
            (LimitKind::Growth, self.max_growth),
        ];
        all.into_iter().filter_map(|(kind, limit)| Some((kind, limit?)))
    }

    /// Reads the files and checks that the limits are possible; `None` if there are no limits.
    pub fn read(&self) -> Result<Option<Limits>, Failure> {
        if !self.is_any() {
            let unused = [("--suppressions", !self.suppressions.is_empty()), ("--in", !self.filters.is_empty())];
            return match unused.into_iter().find(|(_, is_given)| *is_given) {
                None => Ok(None),
                Some((option, _)) => Err(Failure::Usage(format!("{option} is given, and no limit that it applies to"))),
            };
        }
        if !self.filters.is_empty() && self.baseline.is_empty() && self.limits().next().is_none() {
            let line =
                "--in is given, and no limit of the command line that it applies to; in a file, parts have filters";
            return Err(Failure::Usage(line.to_owned()));
        }
        let mut limits = Limits { allowance: self.allow.unwrap_or_default(), ..Limits::default() };
        if let Some(path) = &self.budget {
            limits.file = BudgetFile::parse(&read_text(path)?).map_err(|bad| Failure::in_file(path, bad))?;
            let folder = path.parent().unwrap_or(Path::new(""));
            for name in limits.file.suppression_files.clone() {
                limits.suppress(&folder.join(name))?;
            }
            let added = limits.suppressions.add(std::mem::take(&mut limits.file.suppressions));
            added.map_err(|many| Failure::in_file(path, many))?;
            limits.path = Some(path.clone());
        }
        limits.parts = self.parts().map_err(|why| Failure::Usage(why.to_string()))?;
        limits.filters.clone_from(&self.filters);
        for path in &self.suppressions {
            limits.suppress(path)?;
        }
        limits.baselines.clone_from(&self.baseline);
        limits.ran.clone_from(&self.ran);
        Ok(Some(limits))
    }

    /// The limits of the options as parts.
    fn parts(&self) -> Result<Vec<BudgetPart>, ImpossibleLimit> {
        let (growth, whole): (Vec<_>, Vec<_>) = self.limits().partition(|(kind, _)| kind.is_growth());
        let mut parts = Vec::new();
        for (span, limits) in [
            (PartSpan::Whole, whole),
            (PartSpan::Each { mark: self.each.clone().unwrap_or_default(), skip: 1 }, growth),
        ] {
            if !limits.is_empty() {
                parts.push(BudgetPart::new(String::new(), self.filters.clone(), span, limits)?);
            }
        }
        Ok(parts)
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = permitted::open(path).and_then(|file| file.take(MOST_BUDGET_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| Failure::in_file(path, format_args!("cannot read: {}", reason(&error))))?;
    if text.len() as u64 > MOST_BUDGET_BYTES {
        return Err(Failure::in_file(path, "it is longer than 1 MiB"));
    }
    Ok(text)
}

impl Limits {
    /// Adds the suppressions of a file.
    fn suppress(&mut self, path: &Path) -> Result<(), Failure> {
        let all = parse_suppressions(&read_text(path)?).map_err(|bad| Failure::in_file(path, bad))?;
        self.suppressions.add(all).map_err(|many| Failure::in_file(path, many))
    }

    /// Judges the recording of a program, and those of its children. The recorder knows which children it could not record; without it, recordings say so.
    pub fn judge(
        &self,
        path: &Path,
        names: &NameArgs,
        unrecorded: Option<&UnrecordedPrograms>,
    ) -> Result<Verdict, Failure> {
        let mut verdict = Verdict::default();
        let mut suppressions = self.suppressions.clone();
        let earlier = self.earlier_runs(path, names, &mut verdict)?;
        let mut compared = ByProgram::new();
        let mut noted = UnrecordedNotes::default();
        for path in [path.to_owned()].into_iter().chain(recordings_of_children(path)) {
            let opened = open::open(&path, OnDamage::Warn)?;
            let process = self.judge_process(&opened, names, &mut suppressions)?;
            if earlier.is_compared {
                let figures = self.figures_of(&opened, names, &mut suppressions)?;
                let position = verdict.processes.len();
                baseline::add_process(
                    &mut compared,
                    MeasuredProcess { source: opened.source().clone(), figures, position },
                );
            }
            suppressions.end_process();
            if !process.checks.is_empty() || earlier.is_compared {
                let missing = missing_in(&opened)?;
                let lacks = |why| Incomplete::recording(&process.program, &path, why);
                verdict.incomplete.extend(missing.into_iter().map(lacks));
            }
            opened.source().notes.iter().for_each(|note| noted.add(note));
            verdict.ran.insert(process.program.clone());
            if verdict.processes.is_empty() {
                verdict.source = opened.source().clone();
            }
            verdict.processes.push(process);
        }
        if earlier.is_compared {
            self.compare(&mut compared, earlier, &mut verdict)?;
        }
        unrecorded.into_iter().for_each(|all| noted = UnrecordedNotes::of(all));
        self.note_unrecorded(&noted, &mut verdict);
        let never_ran = |name: &&String| !verdict.ran.contains(*name) && !noted.names.contains(*name);
        verdict.never_ran = self.file.programs.keys().filter(never_ran).cloned().collect();
        // Of several programs, one of the others may have the name.
        if self.ran.is_none() {
            let ran: Vec<&str> = verdict.ran.iter().map(String::as_str).collect();
            verdict.incomplete.extend(verdict.never_ran.iter().map(|name| Incomplete::program(name, &ran)));
        }
        verdict.processes.retain(|process| !process.checks.is_empty());
        verdict.leave_out_absent();
        verdict.suppressed = suppressions.taken().to_vec();
        Ok(verdict)
    }

    /// Names the programs that ran and were not recorded. A limit on one of them by name is not kept.
    fn note_unrecorded(&self, noted: &UnrecordedNotes, verdict: &mut Verdict) {
        for name in noted.names.iter().filter_map(|name| self.file.own_name(name)) {
            let why = format!("the budget has limits for '{name}', and a process of this name was not recorded");
            verdict.incomplete.push(Incomplete::not_compared(name, why));
        }
        verdict.not_judged.extend(noted.sentences.iter().cloned());
    }

    /// Writes which programs ran and which did not, for the one who started several of them: a kind and a name in each line.
    pub fn write_ran(&self, verdict: &Verdict) -> Result<(), Failure> {
        let Some(path) = &self.ran else { return Ok(()) };
        let line = |kind: &str, name: &str| format!("{kind} {}\n", name.escape_debug());
        let file = |kind: &str, path: &PathBuf| line(kind, &path.display().to_string());
        let files = self.baselines.iter().filter(|path| !path.is_dir());
        let (used, others): (Vec<_>, Vec<_>) = files.partition(|path| verdict.baselines_used.contains(*path));
        let mut text: String = verdict.ran.iter().map(|name| line("ran", name)).collect();
        text.extend(verdict.never_ran.iter().map(|name| line("absent", name)));
        text.extend(used.into_iter().map(|path| file("used", path)));
        text.extend(others.into_iter().map(|path| file("unused", path)));
        let file = OpenOptions::new().append(true).open(path);
        // In one call: programs may be judged at the same time.
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| Failure::writing_file(path, &error))
    }

    fn judge_process(
        &self,
        opened: &Opened,
        names: &NameArgs,
        suppressions: &mut Suppressions,
    ) -> Result<JudgedProcess, Failure> {
        let source = opened.source();
        let naming = names.of(opened)?;
        let section = self.file.own_name(&source.program).map(str::to_owned);
        let of_file = self.file.of(&source.program);
        let parts: Vec<BudgetPart> = of_file.iter().chain(&self.parts).cloned().collect();
        let origin = |part: usize| match part.checked_sub(of_file.len()) {
            None => LimitOrigin::File { program: section.clone(), part },
            Some(part) => LimitOrigin::Options { part },
        };
        let checks = match parts.is_empty() {
            true => Vec::new(),
            false => opened.ask_history(|history, work| {
                let query = Query { naming: naming.clone(), ..Query::new(Arc::clone(history)) };
                judge(&query, &parts, suppressions, work)
            })?,
        };
        let mut process = JudgedProcess {
            path: opened.path().to_owned(),
            program: section.clone().unwrap_or_else(|| without_cargo_hash(&source.program).to_owned()),
            pid: if (source.pid as i64) < 0 { 0 } else { source.pid },
            source: source.clone(),
            checks: Vec::new(),
            naming,
            catalog: Arc::clone(opened.catalog()),
        };
        for (part, checks) in checks.into_iter().enumerate() {
            for checked in checks {
                let (key, lines) = ((origin(part), checked.limit), process.lines_of(&checked));
                process.checks.push(JudgedLimit { key, lines, checked });
            }
        }
        Ok(process)
    }
}

/// What recordings, or the recorder, say of programs that were not recorded.
#[derive(Default)]
struct UnrecordedNotes {
    sentences: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl UnrecordedNotes {
    fn of(all: &UnrecordedPrograms) -> Self {
        let names = all.names().map(|name| without_cargo_hash(name).to_owned());
        Self { sentences: all.sentences().into_iter().collect(), names: names.collect() }
    }

    fn add(&mut self, note: &str) {
        if let Some(names) = names_in_sentence(note) {
            self.sentences.insert(note.to_owned());
            self.names.extend(names.into_iter().map(|name| without_cargo_hash(name).to_owned()));
        }
    }
}

impl Verdict {
    /// Leaves limits out of processes that never came to their part, if another process did; and out of children that ended before their resident memory was read:
    /// a test suite starts many, and each would be a false alarm.
    fn leave_out_absent(&mut self) {
        let every = |process: &JudgedProcess| -> Vec<_> {
            process.checks.iter().filter(|one| !one.checked.is_absent).map(|one| one.key.clone()).collect()
        };
        let mut known: BTreeSet<_> = self.processes.iter().flat_map(every).collect();
        for (number, process) in self.processes.iter_mut().enumerate() {
            // Where no process came to it, the first one says so.
            let is_due = |one: &JudgedLimit| number == 0 && one.checked.limit == LimitKind::Rss;
            process.checks.retain(|one| !one.checked.is_absent || is_due(one) || known.insert(one.key.clone()));
        }
        self.processes.retain(|process| !process.checks.is_empty());
    }

    /// All limits, each with its process.
    pub fn all(&self) -> impl Iterator<Item = (&JudgedProcess, &JudgedLimit)> {
        self.processes.iter().flat_map(|process| process.checks.iter().map(move |one| (process, one)))
    }

    /// The limits that are not kept.
    pub fn failed(&self) -> impl Iterator<Item = (&JudgedProcess, &JudgedLimit)> {
        self.all().filter(|(_, one)| one.checked.outcome != Outcome::Kept)
    }

    /// True if every limit is kept, by a whole recording.
    pub fn is_kept(&self) -> bool {
        self.failed().next().is_none() && self.incomplete.is_empty()
    }

    /// Notes what a recording lacks, unless that is known from its file.
    pub fn lacks(&mut self, missing: Incomplete) {
        if missing.path.is_none() || self.incomplete.iter().all(|known| known.path != missing.path) {
            self.incomplete.push(missing);
        }
    }

    /// What suppressions took out, one line each.
    pub fn taken(&self) -> impl Iterator<Item = String> {
        self.suppressed.iter().filter(|one| one.used).map(|one| {
            format!("suppressed: {} in {} by {}", bytes(one.bytes), counted(one.blocks, "block"), one.suppression)
        })
    }

    /// The suppressions that took nothing out.
    pub fn unused(&self) -> impl Iterator<Item = &Suppressed> {
        self.suppressed.iter().filter(|one| !one.used)
    }

    /// The verdict as a part of a JSON document.
    pub fn document(&self) -> Value {
        let check = |process: &JudgedProcess, one: &JudgedLimit| {
            let mut check = serde_json::to_value(&one.checked).unwrap_or_default();
            check["view"] = process.view(&one.checked).into();
            check
        };
        let processes: Vec<Value> = self
            .processes
            .iter()
            .map(|process| {
                json!({
                    "file": process.path.display().to_string(),
                    "program": process.program,
                    "pid": process.pid,
                    "checks": process.checks.iter().map(|one| check(process, one)).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "kept": self.is_kept(),
            "limits": self.all().count(),
            "failed": self.failed().count(),
            "processes": processes,
            "suppressed": self.suppressed,
            "incomplete": self.incomplete.iter().map(Incomplete::document).collect::<Vec<_>>(),
            "not_judged": self.not_judged,
        })
    }
}

impl JudgedProcess {
    /// The sites of a figure as lines for people.
    fn lines_of(&self, checked: &CheckedLimit) -> Vec<SiteLine> {
        checked.sites.iter().map(|site| SiteLine::new(&self.naming, &self.catalog, StackId(site.id), "")).collect()
    }

    /// The command that shows a figure.
    pub fn view(&self, checked: &CheckedLimit) -> String {
        let shown = &checked.shown;
        let mut words = vec!["highwater".to_owned(), "view".to_owned(), self.path.display().to_string()];
        for (option, value) in [("--from", &shown.from), ("--to", &shown.to), ("--at", &shown.at)] {
            words.extend(value.iter().flat_map(|value| [option.to_owned(), value.clone()]));
        }
        words.extend(shown.filters.iter().flat_map(|filter| ["--filter".to_owned(), filter.clone()]));
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }

    /// Its name for people.
    pub fn name(&self) -> String {
        let program = if self.program.is_empty() { "(unnamed)" } else { &self.program };
        if self.pid == 0 { program.to_owned() } else { format!("{program} (pid {})", self.pid) }
    }
}
