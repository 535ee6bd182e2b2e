//! `highwater check`: is the file complete, and does it obey the laws?

use crate::args::FileArgs;
use crate::commands::info::damage_list;
use crate::failure::Failure;
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

Reads every event, recomputes every figure and compares. Exit code 1 if the file is damaged or breaks a law.")]
pub struct Check {
    #[command(flatten)]
    input: FileArgs,
    /// Print one JSON document (\"schema\": 2) instead of text
    #[arg(long)]
    json: bool,
    /// Accepted for likeness with other commands: a check is always strict
    #[arg(long, hide = true)]
    strict: bool,
}

impl Check {
    /// Prints the findings.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let opened = open::open(&self.input.path, OnDamage::Collect)?;
        let mut progress = Progress::new("checking");
        let report = opened.ask(|recording| recording.check(&mut |done| progress.update(done)))?;
        drop(progress);
        let damage = opened.damage();
        let is_sound = damage.is_empty() && report.violations.is_empty() && opened.bad_lines() == 0;
        if self.json {
            output.json(document(&opened, &report, is_sound))?;
        } else {
            output.text(&text(&opened, &report, is_sound, output.paint))?;
        }
        if is_sound { Ok(()) } else { Err(Failure::Found) }
    }
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
