//! `highwater check`: is the file complete, does it obey the laws, and does the program keep its budget?

use crate::args::FileArgs;
use crate::budgets::ci::{self, FileVerdict};
use crate::budgets::{BudgetArgs, VerdictFormat, text as budget_text};
use crate::commands::info::damage_list;
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open::{self, OnDamage, Opened};
use crate::output::Output;
use crate::print::bytes::{bytes, counted};
use crate::print::colour::{Paint, Style};
use crate::print::progress::Progress;
use crate::print::text::printable;
use clap::Args;
use highwater_formats::json::{SCHEMA, source};
use highwater_model::GUESSED;
use highwater_store::CheckReport;
use serde_json::{Value, json};

/// The arguments of `highwater check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater check app.hw && echo sound
  highwater check app.hw --json | jq '.violations'
  highwater check app.hw --budget highwater.toml          the limits of a project
  highwater check app.hw --max-peak 64MiB --max-leaked 0  single limits
  highwater check app.hw --max-leaked 0 --in mycrate::        no leak of a crate
  highwater check app.hw --baseline main.hw --allow +5%      against an earlier run
  highwater check app.hw --budget b.toml --verdict junit=b.xml   and a report

Reads every event, recomputes every figure and compares. Exit code 1 if the file is damaged or breaks a law, or if a limit is \
broken or cannot be checked. Limits are checked for the program and for each of its children. docs/budgets.md describes them.")]
pub struct Check {
    #[command(flatten)]
    input: FileArgs,
    /// Print one JSON document (\"schema\": 2) instead of text
    #[arg(long)]
    json: bool,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", conflicts_with = "json")]
    format: VerdictFormat,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    names: NameArgs,
    /// Accepted for likeness with other commands: a check is always strict
    #[arg(long, hide = true)]
    strict: bool,
}

impl Check {
    /// Prints the findings.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let verdict_files = self.budget.verdict_files();
        // What is wrong with a budget is said before a large file is read.
        let limits = self.budget.read()?;
        let opened = open::open(&self.input.path, OnDamage::Collect)?;
        let mut progress = Progress::new("checking");
        let report = opened.ask(|recording| recording.check(&mut |done| progress.update(done)))?;
        drop(progress);
        let damage = opened.damage();
        let is_sound = damage.is_empty() && report.violations.is_empty() && opened.bad_lines() == 0;
        let verdict = limits.as_ref().map(|limits| limits.judge(&self.input.path, &self.names, None)).transpose()?;
        let format = if self.json { VerdictFormat::Json } else { self.format };
        let problems = Some(problems(&opened, &report));
        let file = FileVerdict { path: opened.path(), source: opened.source(), problems };
        for one in verdict_files {
            one.write(&file, verdict.as_ref(), limits.as_ref(), output)?;
        }
        match format {
            VerdictFormat::Json => {
                let mut document = document(&opened, &report, is_sound);
                if let Some(verdict) = &verdict {
                    document["budget"] = verdict.document();
                }
                output.json(document)?;
            }
            VerdictFormat::Text => {
                output.text(&text(&opened, &report, is_sound, output.paint))?;
                if let Some(verdict) = &verdict {
                    output.text(&budget_text::render(verdict, output.paint, output.width))?;
                }
            }
            VerdictFormat::Junit => output.bytes(ci::junit(&file, verdict.as_ref()).as_bytes())?,
            VerdictFormat::Github => output.bytes(ci::github(&file, verdict.as_ref()).as_bytes())?,
            VerdictFormat::Gitlab => {
                let report = ci::gitlab(&file, verdict.as_ref(), limits.as_ref());
                output.bytes(format!("{report:#}\n").as_bytes())?;
            }
        }
        let is_kept = verdict.is_none_or(|verdict| verdict.is_kept());
        if is_sound && is_kept { Ok(()) } else { Err(Failure::Found) }
    }
}

/// What is wrong with a file, one line each.
fn problems(opened: &Opened, report: &CheckReport) -> Vec<String> {
    let damage = opened.damage().into_iter().map(|damage| format!("damage: {damage}"));
    let violations = report.violations.iter().map(|violation| format!("violation: {violation}"));
    let bad_lines = (opened.bad_lines() > 0).then(|| counted(opened.bad_lines(), "bad line"));
    damage.chain(violations).chain(bad_lines).collect()
}

fn document(opened: &Opened, report: &CheckReport, is_sound: bool) -> Value {
    json!({
        "schema": SCHEMA,
        "command": "check",
        "source": source(opened.source()),
        "at_ns": opened.source().duration.0,
        "events": report.events,
        "keyframes": report.keyframes,
        "breakdowns": report.breakdowns,
        "complete": opened.stats().complete,
        "sound": is_sound,
        "damage": damage_list(opened),
        "bad_lines": opened.bad_lines(),
        "violations": report.violations,
        "guessed_locations": report.guessed_locations,
    })
}

fn text(opened: &Opened, report: &CheckReport, is_sound: bool, paint: Paint) -> String {
    let stats = opened.stats();
    let mut text = String::new();
    for damage in opened.damage() {
        text.push_str(&format!("{} {damage}\n", paint.paint(Style::Red, "damage:")));
    }
    for violation in &report.violations {
        text.push_str(&format!("{} {violation}\n", paint.paint(Style::Red, "violation:")));
    }
    if report.guessed_locations > 0 {
        let guesses = counted(report.guessed_locations, "source location");
        let mark = paint.paint(Style::Yellow, "guesses:");
        text.push_str(&format!(
            "{mark} {guesses} marked{GUESSED}: damaged bytes of the trace were read in the likeliest way\n"
        ));
    }
    let verdict = if is_sound { paint.paint(Style::Green, "sound") } else { paint.paint(Style::Red, "not sound") };
    let source = opened.source();
    let what = match () {
        () if source.snapshot => "a snapshot".to_owned(),
        () if source.is_states() => counted(opened.steps().unwrap_or(0), "state"),
        () => counted(report.events, "event"),
    };
    let mut about = vec![what, bytes(stats.file_bytes)];
    if opened.bad_lines() > 0 {
        about.push(counted(opened.bad_lines(), "bad line"));
    }
    if !stats.complete {
        about.push("cut before its end, as by a crash".to_owned());
    }
    text.push_str(&format!("{}: {verdict} ({})\n", printable(&opened.path().display().to_string()), about.join(", ")));
    text
}
