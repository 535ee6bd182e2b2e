//! `highwater timeline`: live memory over time.

use super::timeline_bands;
use crate::args::{FileArgs, Filters, Reading, grouping_parser};
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open::{self, Opened};
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::chart::{Chart, label_width};
use crate::print::colour::Style;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::memory_curves;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_formats::json;
use highwater_model::groups::GroupBy;
use highwater_model::{self as model, NamedInstant, Nanos, Source, TimelinePoint, Totals, When};
use highwater_query::{self as query, Query, TimelineEffort};
use std::sync::Arc;

/// The arguments of `highwater timeline`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater timeline app.hw
  highwater timeline app.hw --by function   who holds it, over time
  highwater timeline app.hw --width 120 --height 20
  highwater timeline app.hw --filter inside:equal:parse   only what parse led to
  highwater timeline app.hw --json --points 1000 | jq '.points[].live_bytes'

A column shows the most bytes that were live within its segment of time: a short peak is never lost. Letters on the \
axis are the program's marks. With --by, a column shows one instant: the last one of its segment, or the last that is \
indexed. Each cell has the number of the row that it belongs to; '·' is the rest.")]
pub struct TimelineArgs {
    #[command(flatten)]
    input: FileArgs,
    /// Stack live bytes by this
    #[arg(long, value_name = "WHAT", value_parser = grouping_parser())]
    by: Option<GroupBy>,
    /// How many rows are stacked, those that hold the most; all others are the rest [default: 8]
    #[arg(long, value_name = "N", requires = "by", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=100))]
    pub(super) top: Option<usize>,
    /// Columns of the whole chart [default: the terminal's width, at most 120]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=1000))]
    pub(super) width: Option<u16>,
    /// Lines of the chart of bytes
    #[arg(long, value_name = "LINES", default_value_t = 12, value_parser = clap::value_parser!(u16).range(2..=200))]
    pub(super) height: u16,
    /// How many points the JSON document has
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) points: u32,
    #[command(flatten)]
    pub(super) filters: Filters,
    #[command(flatten)]
    pub(super) names: NameArgs,
    #[command(flatten)]
    pub(super) reading: Reading,
}

const WIDEST_BY_DEFAULT: usize = 120;
const WIDTH_WITHOUT_TERMINAL: usize = 100;
/// Marks beyond these letters are only counted.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

/// The data of the charts, one value per column.
struct ChartColumns {
    highest_bytes: Vec<u64>,
    live_blocks: Vec<u64>,
    start: Nanos,
    /// The time from the start to the end.
    length: Nanos,
}

impl TimelineArgs {
    /// Prints the chart.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let opened = open::open(&self.input.path, self.reading.on_damage())?;
        if let Some(by) = self.by {
            return timeline_bands::run(self, by, &opened, output);
        }
        if self.reading.json {
            let timeline = self.timeline(&opened, self.points as usize)?;
            let end = opened.snapshot_of(&When::End, &self.filters.every())?;
            let written = json::write_timeline("timeline", &end, &timeline, output.stream());
            return written.map_err(|error| Failure::writing("to standard output", &error));
        }
        let width = self.width.map_or_else(|| default_width(output), usize::from);
        let timeline = self.timeline(&opened, width)?;
        let totals = match self.filters.is_empty() {
            true => opened.final_totals()?,
            false => *opened.snapshot_of(&When::End, &self.filters.every())?.accounts.totals(),
        };
        let text = self.charts(&opened, &timeline, &totals, width, output);
        output.text(&text)
    }

    /// Live memory over time, in about `points` spans.
    fn timeline(&self, opened: &Opened, points: usize) -> Result<model::Timeline, Failure> {
        opened.ask_history(|history, work| {
            let query = Query { filters: self.filters.every(), ..Query::new(Arc::clone(history)) };
            let answer = query::timeline(&query, points, TimelineEffort::Scan, work)?;
            let (bytes, blocks) = (&answer.live_bytes, &answer.live_blocks);
            let last = answer.live_bytes.last.len().saturating_sub(1);
            let point = |at: usize| TimelinePoint {
                // The last instant of a span is the one before the next span begins.
                time: Nanos(answer.t[at + 1].saturating_sub(u64::from(at < last))),
                live_bytes: bytes.last[at],
                live_blocks: blocks.last[at],
                highest_bytes: bytes.high[at],
            };
            Ok(model::Timeline {
                start: query.window.from,
                points: (0..bytes.last.len()).map(point).collect(),
                marks: history.marks()?.to_vec(),
                gauges: history.gauges()?.to_vec(),
            })
        })
    }

    fn charts(
        &self,
        opened: &Opened,
        timeline: &model::Timeline,
        totals: &Totals,
        width: usize,
        output: &Output,
    ) -> String {
        let paint = output.paint;
        let units = Units::of(opened.source()).or(Units::of_figures(&totals.figures));
        let (in_bytes, in_blocks) = (units.label_of_bytes(), units.label_of_count());
        let top = |figure: fn(&TimelinePoint) -> u64| timeline.points.iter().map(figure).max().unwrap_or(0);
        let top_bytes = top(|point| point.highest_bytes.max(point.live_bytes));
        let labels = label_width(top_bytes, in_bytes).max(label_width(top(|point| point.live_blocks), in_blocks));
        let columns = ChartColumns::new(timeline, opened.source().duration, width.saturating_sub(labels + 2).max(8));
        let chart = |values, height, label, style| Chart { values, base: 0, height, label, style, label_width: labels };
        let of_bytes = chart(&columns.highest_bytes, usize::from(self.height), in_bytes, Style::Blue);
        let of_blocks = chart(&columns.live_blocks, usize::from(self.height / 3).max(2), in_blocks, Style::Dim);
        let signs = signs(&timeline.marks, &columns);

        let mut head = Heading::default();
        head.line("program", heading::program(opened.source()));
        if !self.filters.is_empty() {
            head.line("only", self.filters.to_string());
        }
        heading::add_sampling(&mut head, opened.source(), &totals.figures);
        let what = if opened.source().is_states() { "state" } else { "event" };
        let events = counted(opened.steps().unwrap_or(0), what);
        head.line("recorded", format!("{events} in {}", opened.source().length(opened.source().duration)));
        heading::add_profile_notes(&mut head, opened.source());
        let mut text = head.render(paint, output.width);
        text.push_str("\nlive bytes\n");
        let peak = format!("peak {}", heading::peak(opened.source(), units, totals));
        text.push_str(&of_bytes.pointer(columns.at(totals.peak_at), &peak, paint));
        text.push_str(&of_bytes.lines(paint));
        text.push_str(&of_bytes.axis(&signs, paint));
        text.push_str(&of_bytes.captions(&captions_of(
            opened.source(),
            columns.start,
            columns.length,
            columns.highest_bytes.len(),
        )));
        if units.has_blocks() {
            text.push_str("\nlive blocks\n");
            text.push_str(&of_blocks.lines(paint));
            text.push_str(&of_blocks.axis(&signs, paint));
        }
        if let Some(table) = memory_curves::table(timeline, self.filters.is_empty()) {
            text.push_str(&format!("\nmemory of the process\n{}", table.render(paint, output.width)));
        }
        text.push_str(&legend(&timeline.marks, opened.source(), output));
        text
    }
}

/// The width of charts, unless the user names another.
pub(super) fn default_width(output: &Output) -> usize {
    output.width.map_or(WIDTH_WITHOUT_TERMINAL, |width| width.min(WIDEST_BY_DEFAULT))
}

impl ChartColumns {
    fn new(timeline: &model::Timeline, end: Nanos, width: usize) -> Self {
        let (start, length) = (timeline.start, Nanos(end.0.saturating_sub(timeline.start.0)));
        let mut columns = Self { highest_bytes: vec![0; width], live_blocks: vec![0; width], start, length };
        let mut filled = 0;
        let (mut bytes, mut blocks) = (0, 0);
        for point in &timeline.points {
            let column = columns.at(point.time);
            // Live memory stays the same until the next point.
            for between in filled..column {
                columns.highest_bytes[between] = columns.highest_bytes[between].max(bytes);
                columns.live_blocks[between] = columns.live_blocks[between].max(blocks);
            }
            columns.highest_bytes[column] = columns.highest_bytes[column].max(point.highest_bytes);
            columns.live_blocks[column] = columns.live_blocks[column].max(point.live_blocks);
            (bytes, blocks) = (point.live_bytes, point.live_blocks);
            filled = column + 1;
        }
        columns.highest_bytes[filled.min(width)..].fill(bytes);
        columns.live_blocks[filled.min(width)..].fill(blocks);
        columns
    }

    /// The column of an instant.
    fn at(&self, time: Nanos) -> usize {
        let last = self.highest_bytes.len() - 1;
        let part = time.0.saturating_sub(self.start.0) as f64 / self.length.0.max(1) as f64;
        ((part * (last + 1) as f64) as usize).min(last)
    }
}

/// Times under the axis, at the quarters.
pub(super) fn captions_of(source: &Source, start: Nanos, length: Nanos, columns: usize) -> Vec<(usize, String)> {
    let last = columns.saturating_sub(1);
    let quarters = if last < 60 { vec![0, 2, 4] } else { vec![0, 1, 2, 3, 4] };
    let caption = |quarter: u64| {
        let time = start.0 + (u128::from(length.0) * u128::from(quarter) / 4) as u64;
        let text = if time == 0 && !source.is_untimed() { "0s".to_owned() } else { source.instant(Nanos(time)) };
        (last * quarter as usize / 4, text)
    };
    quarters.into_iter().map(caption).collect()
}

/// Letters for the marks, each at its column or the next free one.
fn signs(marks: &[NamedInstant], columns: &ChartColumns) -> Vec<(usize, char)> {
    let mut signs: Vec<(usize, char)> = Vec::new();
    for (mark, letter) in marks.iter().zip(LETTERS.chars()) {
        let next_free = signs.last().map_or(0, |(column, _)| column + 1);
        signs.push((columns.at(mark.time).max(next_free), letter));
    }
    signs
}

fn legend(marks: &[NamedInstant], source: &Source, output: &Output) -> String {
    if marks.is_empty() {
        return String::new();
    }
    let mut table = Table::default().column(Align::Left, "").column(Align::Right, "").column(Align::Left, "");
    for (mark, letter) in marks.iter().zip(LETTERS.chars()) {
        let letter = Cell::new(Style::Yellow, letter.encode_utf8(&mut [0; 4]));
        table.row(vec![letter, source.instant(mark.time).into(), mark.name.as_str().into()]);
    }
    let mut text = format!("\nmarks\n{}", table.render(output.paint, output.width));
    if marks.len() > LETTERS.len() {
        let more = counted((marks.len() - LETTERS.len()) as u64, "more mark");
        text.push_str(&format!("… {more}; '--json' has them all.\n"));
    }
    text
}
