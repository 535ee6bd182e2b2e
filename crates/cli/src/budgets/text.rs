//! A verdict for people: a table of the limits, what broke them, and where that is seen.

use super::{JudgedProcess, Verdict};
use crate::print::bytes::{bytes, count, counted};
use crate::print::colour::{Paint, Style};
use crate::print::table::{Align, Cell, Table};
use crate::print::text::printable;
use highwater_query::budget::{BudgetUnit, CheckedLimit, LimitKind, Outcome};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The columns of a site's line where there is no terminal.
const SITE_COLUMNS: usize = 100;

/// A figure in its unit.
pub fn figure(unit: BudgetUnit, value: u64) -> String {
    match unit {
        BudgetUnit::Bytes => bytes(value),
        BudgetUnit::Blocks => count(value),
        BudgetUnit::BasisPoints => format!("{}.{:02}%", value / 100, value % 100),
    }
}

/// What is limited, and of which part: `peak, in 'parse'`.
pub fn what(checked: &CheckedLimit) -> String {
    match checked.part.as_str() {
        "" => checked.limit.in_words().to_owned(),
        part => format!("{}, {part}", checked.limit.in_words()),
    }
}

/// The limit in words, and what broke it, in one line.
pub fn sentence(checked: &CheckedLimit) -> String {
    let what = what(checked);
    let limit = figure(checked.unit, checked.allowed);
    let Some(value) = checked.figure else {
        return format!("{what} is not known: {}", checked.why.as_deref().unwrap_or_default());
    };
    let about = if checked.estimated { "about " } else { "" };
    let mut text = format!("{what}: {about}{}, and the limit is {limit}", figure(checked.unit, value));
    if checked.outcome == Outcome::Broken {
        text.push_str(&format!(" (+{})", figure(checked.unit, checked.over)));
    }
    if let Some(range) = checked.baseline {
        let (least, most) = (figure(checked.unit, range.least), figure(checked.unit, range.most));
        let runs = counted(range.runs as u64, "earlier run");
        text.push_str(&match range.least == range.most {
            true => format!("; {runs} had {most}"),
            false => format!("; {runs} had {least} to {most}"),
        });
        text.push_str(&of_processes(checked));
    }
    text
}

/// How the figures of several processes of one name are one.
fn of_processes(checked: &CheckedLimit) -> String {
    match (checked.processes, checked.limit) {
        (None, _) => String::new(),
        (Some(processes), LimitKind::Peak) => format!(", the largest of {} processes", count(processes as u64)),
        (Some(processes), _) => format!(", {} processes together", count(processes as u64)),
    }
}

/// The verdict as text.
pub fn render(verdict: &Verdict, paint: Paint, width: Option<usize>) -> String {
    let mut text = String::new();
    let (shown, summed_up) = in_full(&verdict.processes);
    for process in shown {
        let title = format!("{}: {}", process.name(), process.path.display());
        text.push_str(&format!("\n{}\n", paint.paint(Style::Bold, &printable(&title))));
        text.push_str(&table(process, width).render(paint, width));
        text.push_str(&notes(process, paint));
    }
    if !summed_up.is_empty() {
        let number = count(summed_up.len() as u64);
        let line = format!("{number} more children keep all limits: {}", by_program(&summed_up));
        text.push_str(&format!("\n{}\n", printable(&line)));
    }
    let unused: Vec<_> = verdict.unused().collect();
    if !verdict.suppressed.is_empty() {
        text.push('\n');
    }
    verdict.taken().for_each(|line| text.push_str(&format!("{}\n", printable(&line))));
    for one in unused {
        let mark = paint.paint(Style::Yellow, "unused suppression:");
        text.push_str(&format!("{mark} {}\n", printable(&one.suppression)));
    }
    if !verdict.not_judged.is_empty() {
        text.push('\n');
    }
    for one in &verdict.not_judged {
        let mark = paint.paint(Style::Yellow, "not judged:");
        text.push_str(&format!("{mark} {}\n", printable(one)));
    }
    if !verdict.incomplete.is_empty() {
        text.push('\n');
    }
    for one in &verdict.incomplete {
        let mark = paint.paint(Style::Red, "incomplete:");
        text.push_str(&format!("{mark} {}\n", printable(&one.sentence())));
    }
    let (all, failed) = (verdict.all().count() as u64, verdict.failed().count() as u64);
    let of_judged = if verdict.not_judged.is_empty() { "" } else { " by what was judged" };
    let line = match (all, failed, verdict.incomplete.is_empty()) {
        (0, ..) => "No limit was checked.".to_owned(),
        (_, 0, false) => "The limits are kept by what was recorded, but that is incomplete.".to_owned(),
        (1, 0, true) => format!("The limit is kept{of_judged}."),
        (_, 0, true) => format!("All {} limits are kept{of_judged}.", count(all)),
        (_, 1, _) => format!("1 of {} is not kept.", counted(all, "limit")),
        _ => format!("{} of {} are not kept.", count(failed), counted(all, "limit")),
    };
    let style = if verdict.is_kept() { Style::Green } else { Style::Red };
    text.push_str(&format!("\n{}\n", paint.paint(style, &line)));
    text
}

/// The processes whose limits are shown one by one, and those that are summed up: children that keep all limits, if there are many. A build or a test suite starts hundreds,
/// and what is broken must not be lost among them.
fn in_full(processes: &[JudgedProcess]) -> (Vec<&JudgedProcess>, Vec<&JudgedProcess>) {
    const FEW: usize = 4;
    let Some((first, children)) = processes.split_first() else { return Default::default() };
    let keeps_all = |process: &&JudgedProcess| process.checks.iter().all(|one| one.checked.outcome == Outcome::Kept);
    let (calm, loud): (Vec<_>, Vec<_>) = children.iter().partition(keeps_all);
    if calm.len() <= FEW {
        return (processes.iter().collect(), Vec::new());
    }
    (std::iter::once(first).chain(loud).collect(), calm)
}

/// Processes by their programs, those with the most first: `cc1 (12), as (12), sh`.
fn by_program(processes: &[&JudgedProcess]) -> String {
    const MOST: usize = 8;
    let mut programs = BTreeMap::<&str, u64>::new();
    processes.iter().for_each(|process| *programs.entry(&process.program).or_default() += 1);
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.sort_by_key(|(_, number)| Reverse(*number));
    let name = |(program, number): &(&str, u64)| match number {
        1 => (*program).to_owned(),
        _ => format!("{program} ({})", count(*number)),
    };
    let mut names: Vec<String> = programs.iter().take(MOST).map(name).collect();
    if programs.len() > MOST {
        names.push("…".to_owned());
    }
    names.join(", ")
}

fn table(process: &JudgedProcess, width: Option<usize>) -> Table {
    let mut rows = Vec::new();
    for one in &process.checks {
        let checked = &one.checked;
        let (style, word) = match checked.outcome {
            Outcome::Kept => (Style::Green, "kept"),
            Outcome::Broken => (Style::Red, "broken"),
            Outcome::NotKnown => (Style::Red, "not known"),
        };
        let about = if checked.estimated { "~" } else { "" };
        let value = checked.figure.map(|value| format!("{about}{}", figure(checked.unit, value)));
        let over = match checked.outcome {
            Outcome::Broken => format!("+{}", figure(checked.unit, checked.over)),
            _ => String::new(),
        };
        rows.push(vec![
            Cell::new(style, word),
            value.unwrap_or_default().into(),
            figure(checked.unit, checked.allowed).into(),
            Cell::new(style, &over),
            Cell::new(Style::Bold, &name(checked)),
        ]);
        for (site, _) in checked.sites.iter().zip(&one.lines).filter(|_| checked.outcome == Outcome::Broken) {
            let unit = if checked.unit == BudgetUnit::Bytes { BudgetUnit::Bytes } else { BudgetUnit::Blocks };
            let value = Cell::new(Style::Dim, &figure(unit, site.figure));
            rows.push(vec![Cell::default(), value, Cell::default(), Cell::default(), Cell::default()]);
        }
    }
    let mut table = Table::default()
        .column(Align::Left, "")
        .column(Align::Right, "figure")
        .column(Align::Right, "limit")
        .column(Align::Right, "over")
        .column(Align::Left, "");
    rows.into_iter().for_each(|row| table.row(row));
    // The room for the lines of sites is known when all figures are there.
    let room = width.map_or(SITE_COLUMNS, |width| table.room(width));
    let mut at = 0;
    for one in &process.checks {
        at += 1;
        for line in one.lines.iter().filter(|_| one.checked.outcome == Outcome::Broken) {
            table.set_last(at, line.fitted(room));
            at += 1;
        }
    }
    table
}

/// The commands that show what broke limits, and the reasons of figures that are not known.
fn notes(process: &JudgedProcess, paint: Paint) -> String {
    let mut text = String::new();
    for one in process.checks.iter().filter(|one| one.checked.outcome != Outcome::Kept) {
        let note = match &one.checked.why {
            Some(why) => printable(why),
            None => paint.paint(Style::Blue, &printable(&process.view(&one.checked))).into_owned(),
        };
        text.push_str(&format!("{}: {note}\n", printable(&what(&one.checked))));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// What is limited, with the earlier runs or the number of measures.
fn name(checked: &CheckedLimit) -> String {
    let mut name = what(checked);
    if let Some(range) = checked.baseline {
        let (least, most) = (figure(checked.unit, range.least), figure(checked.unit, range.most));
        name.push_str(&if range.least == range.most { format!(": {most}") } else { format!(": {least} to {most}") });
        name.push_str(&of_processes(checked));
    }
    match checked.spans {
        Some(spans) if checked.limit.is_growth() => name.push_str(&format!(", {}", counted(spans as u64, "time"))),
        Some(spans @ 2..) => name.push_str(&format!(", the most of {} times", count(spans as u64))),
        _ => {}
    }
    name
}
