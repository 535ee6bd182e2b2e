//! `highwater timeline --by`: who holds the memory over time.

use super::timeline::{TimelineArgs, captions_of, default_width};
use crate::args::must_have_rows;
use crate::failure::Failure;
use crate::open::Opened;
use crate::output::Output;
use crate::print::bytes::counted;
use crate::print::chart::{Chart, label_width};
use crate::print::colour::Style;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::rows::{RowName, add_row, unnamed};
use crate::print::stack::{Depth, SiteView};
use crate::print::stacked_chart::{MOST_SIGNS, REST, StackedChart, sign};
use crate::print::table::{Align, Cell, Table};
use highwater_formats::json;
use highwater_model::groups::{GroupBy, GroupKey};
use highwater_model::{Catalog, Nanos, StackId, ThreadId, When};
use highwater_query::{self as query, BandAnswer, BandsAnswer, BandsOptions, Query};
use serde_json::Value;
use std::sync::Arc;

/// The number of bands, unless the user names another.
const BANDS: usize = 8;

/// Prints live memory over time by row.
pub fn run(args: &TimelineArgs, by: GroupBy, opened: &Opened, output: &mut Output) -> Result<(), Failure> {
    must_have_rows(by, opened.source())?;
    let width = args.width.map_or_else(|| default_width(output), usize::from);
    let units = Units::of(opened.source()).or(Units::of_figures(&opened.final_totals()?.figures));
    let top_bytes = opened.final_totals()?.figures.peak_bytes;
    let labels = label_width(top_bytes, units.label_of_bytes());
    let columns = width.saturating_sub(labels + 2).max(8);
    let json = args.reading.json;
    let most = if json { usize::MAX } else { MOST_SIGNS };
    let options = BandsOptions {
        by,
        points: if json { args.points as usize } else { columns },
        top: args.top.unwrap_or(BANDS).min(most),
        in_blocks: false,
    };
    let naming = args.names.of(opened)?;
    let answer = opened.ask_history(|history, work| {
        let (filters, naming) = (args.filters.every(), naming.clone());
        let query = Query { filters, naming, ..Query::new(Arc::clone(history)) };
        query::bands(&query, &options, work)
    })?;
    let end = opened.snapshot(&When::End)?;
    if json {
        let mut document: Value = json::head("timeline", &end).into();
        let answer = serde_json::to_value(&answer).map_err(Failure::fault)?;
        answer.as_object().into_iter().flatten().for_each(|(name, value)| document[name] = value.clone());
        return output.json(document);
    }
    let mut head = Heading::default();
    head.line("program", heading::program(opened.source()));
    if !args.filters.is_empty() {
        head.line("only", args.filters.to_string());
    }
    heading::add_profile_notes(&mut head, opened.source());
    let mut text = head.render(output.paint, output.width);
    if let Some(why) = unnamed(by).filter(|_| answer.bands.is_empty() && answer.rest.count == 0) {
        text.push_str(&format!("\n{why}\n"));
        return output.text(&text);
    }
    text.push_str(&format!("\nlive bytes by {}\n", by.key()));
    let height = usize::from(args.height);
    text.push_str(&chart(&answer, opened, (height, labels, units), output));
    let sites = SiteView { depth: Depth::default(), naming: &naming };
    text.push_str(&format!(
        "\n{}",
        legend(&answer, by, (&end.catalog, sites), units).render(output.paint, output.width)
    ));
    output.text(&text)
}

/// What the bands hold at an instant, the rest last.
fn held(answer: &BandsAnswer, bin: usize) -> Vec<u64> {
    let rest = answer.rest.bytes.get(bin).copied().unwrap_or(0);
    let bands = answer.bands.iter().map(|band| band.curve.bytes.get(bin).copied().unwrap_or(0));
    bands.chain([u64::try_from(rest).unwrap_or(0)]).collect()
}

fn chart(
    answer: &BandsAnswer,
    opened: &Opened,
    (height, label_width, units): (usize, usize, Units),
    output: &Output,
) -> String {
    let columns: Vec<Vec<u64>> = (0..answer.at.len()).map(|bin| held(answer, bin)).collect();
    let label = units.label_of_bytes();
    let stacked = StackedChart { columns: &columns, height, label, label_width };
    let axis = Chart { values: &answer.total.bytes, height, label, style: Style::Plain, label_width };
    let mut text = stacked.lines(output.paint);
    text.push_str(&axis.axis(&[], output.paint));
    let ends = answer.t.first().copied().zip(answer.t.last().copied()).unwrap_or_default();
    text.push_str(&axis.captions(&captions_of(opened.source(), Nanos(ends.0), Nanos(ends.1 - ends.0), columns.len())));
    text
}

/// The bands with their signs, the largest first, and the rest.
fn legend(answer: &BandsAnswer, by: GroupBy, (catalog, sites): (&Catalog, SiteView<'_>), units: Units) -> Table {
    let bytes = |curve: &[u64], bin: usize| units.bytes(curve.get(bin).copied().unwrap_or(0));
    let highest = (0..answer.total.bytes.len()).rev().max_by_key(|bin| answer.total.bytes[*bin]).unwrap_or(0);
    let last = answer.total.bytes.len().saturating_sub(1);
    let cells = |curve: &[u64]| -> Vec<Cell> {
        let most = curve.iter().copied().max().unwrap_or(0);
        vec![units.bytes(most).into(), bytes(curve, highest).into(), bytes(curve, last).into()]
    };
    let mut table = Table::default()
        .column(Align::Left, "")
        .column(Align::Right, "at most")
        .column(Align::Right, "at the peak")
        .column(Align::Right, "at the end")
        .column(Align::Left, by.key());
    let key = |band: &BandAnswer| match (by, band.id) {
        (GroupBy::Site, Some(id)) => GroupKey::Site(StackId(id as u32)),
        (GroupBy::Thread, Some(id)) => GroupKey::Thread(ThreadId(id)),
        _ => GroupKey::Name(band.key.clone()),
    };
    let keys: Vec<GroupKey> = answer.bands.iter().map(key).collect();
    let with_catalog: Vec<(&Catalog, &GroupKey)> = keys.iter().map(|key| (catalog, key)).collect();
    let names = RowName::all(by, sites, &with_catalog);
    for (((number, band), key), name) in answer.bands.iter().enumerate().zip(&keys).zip(names) {
        let (sign, style) = sign(number, answer.bands.len());
        let mut row = vec![Cell::new(style, sign.encode_utf8(&mut [0; 4]))];
        row.extend(cells(&band.curve.bytes));
        add_row(&mut table, row, catalog, key, sites, &name);
    }
    let rest: Vec<u64> = answer.rest.bytes.iter().map(|bytes| u64::try_from(*bytes).unwrap_or(0)).collect();
    if rest.iter().any(|bytes| *bytes > 0) {
        let mut row = vec![Cell::new(Style::Dim, REST.encode_utf8(&mut [0; 4]))];
        row.extend(cells(&rest));
        let what = match answer.rest.count {
            0 => "in no row".to_owned(),
            count => format!("the rest: {}", counted(count as u64, by.key())),
        };
        row.push(Cell::new(Style::Dim, &what));
        table.row(row);
    }
    table
}
