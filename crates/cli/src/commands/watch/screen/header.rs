//! The top of the screen: the process with its totals, its resident memory, and a chart of live memory since watching began.

use super::super::changes::Compared;
use super::picture::Canvas;
use super::view::WatchView;
use crate::commands::ps::mode;
use crate::print::age::in_one_unit;
use crate::print::chart::Chart;
use crate::print::colour::Style;
use crate::print::rss;
use crate::print::text::width_of;
use highwater_collector::protocol::ProcessInfo;

/// Lines of the chart by the height of the screen: the first entry that the height reaches.
const CHART_LINES: [(usize, usize); 4] = [(40, 6), (30, 5), (20, 3), (15, 1)];
/// Below this height the totals have two lines at most, and the resident memory none.
const ENOUGH_FOR_ALL: usize = 14;

/// The lines.
pub fn header(view: &WatchView, canvas: Canvas) -> Vec<String> {
    let ProcessInfo { name, pid, .. } = &view.process;
    let title = format!("{name} (pid {pid})");
    let Some(compared) = view.compared() else {
        return vec![canvas.line(Style::Bold, &title), canvas.line(Style::Plain, "taking the first look …")];
    };
    let mut parts = vec![title];
    parts.extend(totals(view, &compared));
    let most = if canvas.height < ENOUGH_FOR_ALL { 2 } else { 3 };
    let mut lines = canvas.flowed(Style::Bold, &parts);
    lines.truncate(most);
    if let Some(resident) = compared.look.resident.as_ref().filter(|_| canvas.height >= ENOUGH_FOR_ALL) {
        lines.push(canvas.line(Style::Plain, &rss::in_a_line(resident)));
    }
    if view.cover.is_none() {
        lines.extend(chart(view, &compared, canvas));
    }
    lines
}

fn totals(view: &WatchView, compared: &Compared<'_>) -> Vec<String> {
    let units = compared.units();
    let mut parts = vec![compared.live()];
    if !compared.elapsed().is_zero() {
        let (growth, time) = (units.signed_bytes(compared.growth().0), in_one_unit(compared.elapsed().as_secs()));
        parts.push(format!("{growth} in {time}"));
    }
    if let Some(rate) = compared.rate() {
        parts.push(format!("{}/s", units.counted(rate, "allocation")));
    }
    let rate = compared.look.snapshot.source.sample_rate;
    parts.push(match units.is_estimated() {
        true if rate.is_none() => "~ estimates".to_owned(),
        true => format!("~ estimates, {}", mode(rate.unwrap_or(0))),
        false => "exact".to_owned(),
    });
    if !view.is_over() {
        parts.push(format!("every {:?}", view.interval));
    }
    parts.extend(compared.flaws());
    parts
}

fn chart(view: &WatchView, compared: &Compared<'_>, canvas: Canvas) -> Vec<String> {
    let Some((_, height)) = CHART_LINES.iter().find(|(least, _)| canvas.height >= *least) else { return Vec::new() };
    let label = compared.units().label_of_bytes();
    let ends = |values: &[u64]| {
        let base = if view.is_chart_from_zero { 0 } else { values.iter().copied().min().unwrap_or(0) };
        (base, values.iter().copied().max().unwrap_or(0))
    };
    let (base, top) = ends(&view.history.columns(canvas.width));
    let label_width = [base, base + (top - base) / 2, top].map(|value| width_of(&label(value))).into_iter().max();
    let label_width = label_width.unwrap_or(0);
    let values = view.history.columns(canvas.width.saturating_sub(label_width + 2));
    let base = ends(&values).0;
    let chart = Chart { values: &values, base, height: *height, label, style: Style::Blue, label_width };
    let text = chart.lines(canvas.paint);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if *height > 1 {
        let base = label(base);
        let (before, right) = if view.is_over() { ("before", " end") } else { ("ago", " now") };
        let left = format!(" {} {before} ", in_one_unit(view.history.seconds()));
        let dashes = values.len().saturating_sub(1 + width_of(&left) + width_of(right));
        lines.push(canvas.line(Style::Dim, &format!("{base:>label_width$} └─{left}{}{right}", "─".repeat(dashes))));
    }
    lines
}
