//! The findings as text for people.

use super::{ObjectBy, Objects};
use crate::output::Output;
use crate::print::bytes::{bytes, count, counted, share};
use crate::print::colour::{Paint, Style};
use crate::print::heading::Heading;
use crate::print::table::{Align, Cell, Table};
use highwater_formats::objlog::{
    ObjectRow, ObjectTally, OddIds, Pattern, TrustVerdict, pattern, shared_owners, span_name,
};
use highwater_query::objects::{Findings, sentences};
use std::fmt::Write;

/// The number of ids shown of each kind.
const SHOWN_IDS: usize = 8;
/// The number of iterations shown; the last ones are.
const SHOWN_ITERATIONS: usize = 6;

impl Objects {
    /// The text of all findings.
    pub(super) fn text(&self, findings: &Findings<'_>, output: &Output) -> String {
        let mut text = self.head(findings).render(output.paint, output.width);
        if findings.matcher.ids() > 0 {
            text += &self.ranking(findings, output);
            text += &self.perfect(findings, output);
            text += &self.owners(findings, output);
            text += &self.iterations(findings, output);
        }
        text += &title("can it be trusted?", output.paint);
        text += &trust(findings).render(output.paint, None);
        if self.show_bad {
            text += &bad_lines(findings, output);
        }
        text
    }

    fn head(&self, Findings { matcher, counts, total, .. }: &Findings<'_>) -> Heading {
        let mut head = Heading::default();
        let mut log = format!("{}, {} about objects", counted(counts.lines, "line"), count(counts.object_lines));
        if counts.lines == 0 && counts.object_lines > 0 {
            log = format!("a recording, {}", counted(counts.object_lines, "event"));
        }
        head.line("log", log);
        if self.at.to_string() != "end" {
            head.line("until", self.at.to_string());
        }
        head.line("made", amount(total.allocated, total.allocated_bytes));
        if total.resizes > 0 {
            let changes = counted(total.resizes, "change");
            let (grown, shrunk) = (bytes(total.grown_bytes), bytes(total.shrunk_bytes));
            head.line("resized", format!("{changes}: grown by {grown}, shrunk by {shrunk}"));
        }
        head.line("dropped", amount(total.dropped, total.dropped_bytes));
        head.line("live", amount(total.live(), total.live_bytes()));
        head.line("peak", format!("{}, in the order of the log", amount(matcher.peak_live, matcher.peak_bytes)));
        head
    }

    fn ranking(&self, findings: &Findings<'_>, output: &Output) -> String {
        let mut rows = findings.rows(self.by.rows());
        rows.retain(|row| row.tally.live() > 0);
        let mut text = title("never dropped", output.paint);
        if rows.is_empty() {
            text += "Nothing: every object was dropped.\n";
            return text;
        }
        let mut table = Table::default();
        for heading in ["share", "live", "objects", "made", "dropped"] {
            table = table.column(Align::Right, heading);
        }
        table = table.column(Align::Left, if self.by == ObjectBy::Place { "place" } else { "type" });
        let (first, rest) = rows.split_at(self.table_rows().min(rows.len()));
        let whole = findings.total.live_bytes();
        for row in first {
            let ObjectTally { allocated, dropped, .. } = row.tally;
            table.row(vec![
                share(row.tally.live_bytes(), whole).into(),
                Cell::new(Style::Bold, &bytes(row.tally.live_bytes())),
                count(row.tally.live()).into(),
                count(allocated).into(),
                count(dropped).into(),
                name_of(row),
            ]);
        }
        text += &table.render(output.paint, output.width);
        if !rest.is_empty() {
            let what = counted(rest.len() as u64, if self.by == ObjectBy::Place { "more place" } else { "more type" });
            let sum = rest.iter().map(|row| row.tally.live_bytes()).sum();
            let _ = writeln!(text, "… {what} with {} live; '--top 0' shows all.", bytes(sum));
        }
        text
    }

    fn perfect(&self, findings: &Findings<'_>, output: &Output) -> String {
        let mut rows = findings.rows(self.by.rows());
        rows.retain(|row| row.tally.is_perfect());
        if rows.is_empty() {
            return String::new();
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.tally.allocated));
        let mut table = Table::default().column(Align::Right, "").column(Align::Left, "");
        let (first, rest) = rows.split_at(self.table_rows().min(rows.len()));
        for row in first {
            table.row(vec![Cell::new(Style::Green, &count(row.tally.allocated)), name_of(row)]);
        }
        let mut text = title("perfect: every one dropped", output.paint) + &table.render(output.paint, output.width);
        if !rest.is_empty() {
            let _ = writeln!(text, "… {} more; '--top 0' shows all.", count(rest.len() as u64));
        }
        text
    }

    /// Who still holds shared values: how many owners they have.
    fn owners(&self, findings: &Findings<'_>, output: &Output) -> String {
        let mut all = shared_owners(findings.matcher);
        all.retain(|one| one.owners > 0);
        if all.is_empty() {
            return String::new();
        }
        let mut table = Table::default();
        for heading in ["owners", "values", "made"] {
            table = table.column(Align::Right, heading);
        }
        table = table.column(Align::Left, "type");
        let (first, rest) = all.split_at(self.table_rows().min(all.len()));
        for one in first {
            let name = format!("{}<{}>", one.pointer, one.type_name);
            let variable = one.variable.as_ref().map_or_else(String::new, |name| format!("  {name}"));
            table.row(vec![
                Cell::new(Style::Bold, &count(one.owners)),
                count(one.values).into(),
                count(one.made).into(),
                Cell::new(Style::Plain, &name).and(Style::Dim, &variable),
            ]);
        }
        let mut text = title("owners of shared values", output.paint) + &table.render(output.paint, output.width);
        if !rest.is_empty() {
            let _ = writeln!(text, "… {} more; '--top 0' shows all.", count(rest.len() as u64));
        }
        text
    }

    fn iterations(&self, findings: &Findings<'_>, output: &Output) -> String {
        let boundaries = findings.matcher.memory.boundaries();
        let types = findings.survivors.by_type(findings.matcher);
        if boundaries.is_empty() || types.is_empty() {
            return String::new();
        }
        let shown = 0..boundaries.len() + 1;
        let shown = shown.end.saturating_sub(SHOWN_ITERATIONS)..shown.end;
        let mut table = Table::default();
        for segment in shown.clone() {
            table = table.column(Align::Right, &span_name(boundaries, segment));
        }
        table = table.column(Align::Left, "type").column(Align::Left, "");
        let (first, rest) = types.split_at(self.table_rows().min(types.len()));
        for (name, segments) in first {
            let mut cells: Vec<Cell> = shown.clone().map(|at| cell_of(segments[at].objects)).collect();
            let found = pattern(segments);
            let style = if matches!(found, Some(Pattern::Constant { .. })) { Style::Red } else { Style::Dim };
            cells.push(name.as_str().into());
            cells.push(Cell::new(style, &sentences::growth(found.as_ref())));
            table.row(cells);
        }
        let mut text = title("growth per iteration: objects made in each, and never dropped", output.paint);
        text += &table.render(output.paint, output.width);
        if !rest.is_empty() {
            let _ = writeln!(text, "… {}; '--top 0' shows all.", counted(rest.len() as u64, "more type"));
        }
        let step = findings.matcher.memory.iterations_per_boundary();
        let hidden = shown.start;
        if hidden > 0 {
            let _ = writeln!(text, "… {} before; '--json' has them.", counted(hidden as u64, "iteration"));
        }
        if step > 1 {
            let _ = writeln!(text, "Each column is {step} iterations.");
        }
        text
    }
}

fn cell_of(objects: u64) -> Cell {
    if objects == 0 { Cell::new(Style::Dim, "·") } else { count(objects).into() }
}

pub(super) fn title(text: &str, paint: Paint) -> String {
    format!("\n{}\n", paint.paint(Style::Yellow, text))
}

fn amount(objects: u64, size: u64) -> String {
    format!("{} in {}", bytes(size), counted(objects, "object"))
}

fn name_of(row: &ObjectRow) -> Cell {
    let place = row.place.as_deref().unwrap_or_default();
    let cell = match &row.type_name {
        Some(name) if row.variable.is_some() => {
            let variable = row.variable.as_deref().unwrap_or_default();
            let more = [place, variable].map(|text| if text.is_empty() { String::new() } else { format!("  {text}") });
            Cell::new(Style::Plain, name).and(Style::Dim, &more.concat())
        }
        Some(name) if place.is_empty() => Cell::new(Style::Plain, name),
        Some(name) => Cell::new(Style::Plain, name).and(Style::Dim, &format!("  {place}")),
        None => Cell::new(Style::Plain, place),
    };
    match row.doubtful.objects {
        0 => cell,
        doubtful => cell.and(Style::Yellow, &format!("  ({} of them doubtful)", count(doubtful))),
    }
}

/// Arguments for and against the answer.
fn trust(findings: &Findings<'_>) -> Heading {
    let Findings { matcher, counts, trust, .. } = findings;
    let mut head = Heading::default();
    if trust.verdict != TrustVerdict::Nothing {
        for (_, what, odd) in trust.contradictions.kinds().into_iter().filter(|(_, _, odd)| odd.count > 0) {
            head.line("ids", format!("{} × {what}{}", count(odd.count), ids(odd)));
        }
        if trust.contradictions.count() == 0 {
            head.line("ids", format!("{}, each made once and dropped at most once", count(matcher.ids())));
        }
        if matcher.drops_before_their_allocate > 0 {
            let drops = counted(matcher.drops_before_their_allocate, "drop");
            head.line("order", format!("{drops} stand before what they drop was made: no matter"));
        }
    }
    head.line("lines", lines(findings));
    if matcher.clamped_sizes > 0 {
        head.line("sizes", format!("{} too large to add up, cut to what fits", count(matcher.clamped_sizes)));
    }
    if matcher.invalid_names() > 0 {
        head.line("names", format!("{} not UTF-8", count(matcher.invalid_names())));
    }
    if matcher.refused_names() > 0 {
        let times = counted(matcher.refused_names(), "time");
        head.line("names", format!("too many to distinguish: {times} one had to do for another"));
    }
    if matcher.forgotten_ids() > 0 {
        let ids = count(matcher.forgotten_ids());
        head.line("ids", format!("{ids} of no sequence are settled and forgotten: a second DROP of theirs looks like one without ALLOCATE"));
    }
    if counts.object_lines > 0 {
        head.line("memory", sentences::memory(findings));
    }
    for image in &findings.images {
        head.line("heap", sentences::heap(image, findings));
    }
    head.line("verdict", sentences::verdict(findings));
    head
}

fn lines(Findings { counts, .. }: &Findings<'_>) -> String {
    let mut text = match counts.malformed {
        0 => "none malformed".to_owned(),
        bad => {
            let faults: Vec<String> =
                counts.by_fault().map(|(fault, number)| format!("{} × {fault}", count(number))).collect();
            format!("{} malformed ({}); '--show-bad' shows them", count(bad), faults.join(", "))
        }
    };
    if counts.last_line_truncated {
        text += "; the last line is cut";
    }
    if counts.long_noise > 0 {
        let _ = write!(text, "; {} longer than 1 MiB", counted(counts.long_noise, "other line"));
    }
    text
}

fn ids(odd: &OddIds) -> String {
    let ids = odd.ids();
    if ids.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = ids.iter().take(SHOWN_IDS).map(u64::to_string).collect();
    let more = if ids.len() > SHOWN_IDS { ", …" } else { "" };
    format!(": {}{more}", shown.join(", "))
}

fn bad_lines(Findings { counts, .. }: &Findings<'_>, output: &Output) -> String {
    let mut text = title("lines that could not be used", output.paint);
    if counts.bad().is_empty() {
        return text + "None.\n";
    }
    let mut table =
        Table::default().column(Align::Right, "line").column(Align::Left, "what").column(Align::Left, "text");
    for line in counts.bad() {
        table.row(vec![count(line.number).into(), line.fault.to_string().into(), line.text.as_str().into()]);
    }
    text += &table.render(output.paint, output.width);
    let unnamed = counts.malformed.saturating_sub(counts.bad().len() as u64);
    if unnamed > 0 {
        let _ = writeln!(text, "… {}.", counted(unnamed, "more bad line"));
    }
    text
}
