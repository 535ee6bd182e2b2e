//! `highwater info`: describes a file.

use crate::args::{FileArgs, Reading};
use crate::failure::Failure;
use crate::open::{self, Opened};
use crate::output::Output;
use crate::print::bytes::{bytes, count, counted};
use crate::print::colour::Style;
use crate::print::figures::Units;
use crate::print::heading::{self, Heading};
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_formats::json;
use highwater_input::{Read, format_of_source};
use highwater_model::{
    BreakdownReason, Catalog, GaugeReading, Module, NamedInstant, Nanos, RssBreakdown, Source, SourceKind, Totals,
};
use highwater_store::{Damage, FileStats};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The arguments of `highwater info`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater info app.hw
  highwater info app.hw --json | jq -r '.marks[].name'")]
pub struct Info {
    #[command(flatten)]
    input: FileArgs,
    #[command(flatten)]
    reading: Reading,
}

/// Readings of one gauge.
struct Gauge<'a> {
    name: &'a str,
    readings: u64,
    last: u64,
    highest: u64,
}

impl Info {
    /// Prints the description.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let opened = open::open(&self.input.path, self.reading.on_damage())?;
        let marks = opened.marks()?;
        let breakdowns = opened.breakdowns()?;
        let readings = opened.gauges()?;
        let gauges = gauges_in(&readings);
        if self.reading.json {
            return output.json(document(&opened, &marks, &gauges, &breakdowns));
        }
        let (paint, width) = (output.paint, output.width);
        output.text(&head(&opened)?.render(paint, width))?;
        let sections = [
            ("damage", damage_table(&opened)),
            ("marks", marks_table(opened.source(), &marks)),
            ("gauges", gauges_table(&gauges)),
            ("resident memory", breakdowns_table(&breakdowns)),
            ("modules", modules_table(opened.catalog())),
        ];
        for (title, table) in sections {
            if let Some(table) = table {
                output.text(&format!("\n{}\n{}", paint.paint(Style::Dim, title), table.render(paint, width)))?;
            }
        }
        Ok(())
    }
}

fn bytes_per_event(stats: &FileStats) -> f64 {
    stats.file_bytes as f64 / stats.events.max(1) as f64
}

fn head(opened: &Opened) -> Result<Heading, Failure> {
    let source = opened.source();
    let stats = &opened.stats();
    let size = bytes(stats.file_bytes);
    let mut head = Heading::default();
    let state = if stats.complete { "complete" } else { "cut before its end, as by a crash" };
    let (format, reads) = (opened.format(), opened.format().read());
    let is_image = matches!(reads, Read::State(_));
    let file = match reads {
        Read::Recording => {
            let what = if opened.is_snapshot() { "Highwater snapshot" } else { format.title() };
            format!("{what}, format {}, {size}, {state}", stats.version)
        }
        Read::History(_) if stats.version > 0 => {
            format!("{}, version {}, {size}; {}", format.title(), stats.version, format.advice())
        }
        Read::State(_) if source.kind == SourceKind::IMAGE => format!("memory image, {size}; {}", format.advice()),
        _ => format!("{}, {size}; {}", format.title(), format.advice()),
    };
    head.line("file", file);
    head.line("program", heading::program(source));
    head.line("source", kind_in_words(&source.kind));
    if let Some(start) = json::source(source)["start"].as_str() {
        head.line("started", start_in_words(start));
    }
    match () {
        () if is_image => {}
        () if source.snapshot && source.duration.0 == 0 => {}
        () if source.snapshot => head.line("taken", format!("{} after it began", source.duration)),
        () if source.is_untimed() => {
            head.line("lasted", format!("{}; it has no times", source.length(source.duration)))
        }
        () => head.line("lasted", source.duration.to_string()),
    }
    if !source.command.is_empty() {
        head.line("command", source.command.join(" "));
    }
    if source.parent_pid != 0 {
        head.line("parent", format!("pid {}", source.parent_pid));
    }
    for (label, text) in [("context", &source.context), ("runtime", &source.runtime_parameters)] {
        if !text.is_empty() {
            head.line(label, text.as_str());
        }
    }
    heading::add_profile_notes(&mut head, source);
    if let Some(sampled) = heading::sampled(source) {
        head.line("sampled", sampled);
    }
    if source.sample_rate.is_some() && !source.snapshot {
        estimates(&mut head, opened)?;
    }
    if is_image || source.snapshot {
        head.line("holds", holds(source, &opened.final_totals()?));
        if opened.is_snapshot() {
            let (state, catalog) = (bytes(stats.keyframe_bytes), bytes(stats.catalog_bytes));
            head.line("parts", format!("state {state}, catalog {catalog}"));
        }
        return Ok(head);
    }
    if source.is_states() {
        let trees = if source.knows_live_blocks() { "bytes and blocks" } else { "bytes" };
        head.line("states", format!("{}, {trees} by site, no events between them", count(opened.steps()?)));
        return Ok(head);
    }
    head.line("events", format!("{}, {:.2} bytes each", count(stats.events), bytes_per_event(stats)));
    if !matches!(reads, Read::Recording) {
        return Ok(head);
    }
    let parts = format!(
        "events {} in {}, keyframes {} in {}, catalog {}",
        bytes(stats.event_bytes),
        counted(stats.event_blocks, "block"),
        bytes(stats.keyframe_bytes),
        count(stats.keyframes),
        bytes(stats.catalog_bytes)
    );
    head.line("parts", parts);
    Ok(head)
}

/// Adds the estimates of a sampled source for the whole recording, with their intervals.
fn estimates(head: &mut Heading, opened: &Opened) -> Result<(), Failure> {
    let totals = opened.final_totals()?;
    let units = Units::of(opened.source());
    let figures = &totals.figures;
    head.line("objects", heading::records(figures));
    head.line("allocated", format!("{}, from {}", units.allocated(figures), counted(figures.samples(), "sample")));
    head.line(
        "live",
        format!("{} at the end, from {}", units.live(figures), counted(figures.live_samples(), "sample")),
    );
    head.line("peak", format!("{} at {}", units.peak(&totals), totals.peak_at));
    Ok(())
}

/// The live blocks of a snapshot, and whether it has single blocks or only figures.
fn holds(source: &Source, totals: &Totals) -> String {
    let live = heading::live(Units::of(source).or(Units::of_figures(&totals.figures)), &totals.figures);
    let how = match (source.aggregated, source.known) {
        (true, Some(_)) => "by site, no single blocks",
        (true, None) => "by site, thread and type, no single blocks",
        (false, _) => "every single one",
    };
    format!("{live}, {how}")
}

/// An RFC 3339 instant for people: `2023-11-14 22:13:20 UTC`.
fn start_in_words(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(11..19)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => rfc3339.to_owned(),
    }
}

fn kind_in_words(kind: &SourceKind) -> String {
    match format_of_source(kind) {
        _ if *kind == SourceKind::NATIVE => "a native process".to_owned(),
        Some(format) => format.source_title().to_owned(),
        None => format!("events of the kind '{}', which this version does not know", kind.key()),
    }
}

fn gauges_in(readings: &[GaugeReading]) -> Vec<Gauge<'_>> {
    let mut gauges: Vec<Gauge<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for reading in readings {
        let place = *places.entry(&reading.name).or_insert_with(|| {
            gauges.push(Gauge { name: &reading.name, readings: 0, last: 0, highest: 0 });
            gauges.len() - 1
        });
        let gauge = &mut gauges[place];
        gauge.readings += 1;
        gauge.last = reading.value;
        gauge.highest = gauge.highest.max(reading.value);
    }
    gauges
}

fn damage_table(opened: &Opened) -> Option<Table> {
    let damage = opened.damage();
    let mut table = Table::default().column(Align::Left, "");
    damage.iter().for_each(|damage| table.row(vec![Cell::new(Style::Red, &format!("  {damage}"))]));
    (!damage.is_empty()).then_some(table)
}

fn marks_table(source: &Source, marks: &[NamedInstant]) -> Option<Table> {
    let mut table = Table::default().column(Align::Right, "").column(Align::Left, "");
    for mark in marks {
        table.row(vec![format!("  {}", source.instant(mark.time)).into(), mark.name.as_str().into()]);
    }
    (!marks.is_empty()).then_some(table)
}

fn gauges_table(gauges: &[Gauge<'_>]) -> Option<Table> {
    let mut table = Table::default()
        .column(Align::Right, "  readings")
        .column(Align::Right, "last")
        .column(Align::Right, "highest")
        .column(Align::Left, "gauge");
    for gauge in gauges {
        table.row(vec![
            count(gauge.readings).into(),
            count(gauge.last).into(),
            count(gauge.highest).into(),
            gauge.name.into(),
        ]);
    }
    (!gauges.is_empty()).then_some(table)
}

fn breakdowns_table(breakdowns: &[RssBreakdown]) -> Option<Table> {
    let mut table = Table::default().column(Align::Right, "").column(Align::Right, "rss").column(Align::Left, "");
    for breakdown in breakdowns {
        let rss = bytes(breakdown.process.rss);
        table.row(vec![format!("  {}", breakdown.at).into(), rss.into(), reason_in_words(breakdown.reason).into()]);
    }
    (!breakdowns.is_empty()).then_some(table)
}

fn reason_in_words(reason: BreakdownReason) -> &'static str {
    match reason {
        BreakdownReason::Request => "on request",
        BreakdownReason::RssPeak => "highest RSS",
        BreakdownReason::Mark => "at a mark",
        BreakdownReason::End => "last before the end",
    }
}

fn modules_table(catalog: &Catalog) -> Option<Table> {
    let mut table = Table::default().column(Align::Left, "").column(Align::Left, "").column(Align::Left, "");
    for module in &catalog.modules {
        let path = format!("  {}", catalog.strings.get(module.path));
        let build_id = match catalog.strings.get(module.build_id) {
            "" => String::new(),
            id => format!("build id {id}"),
        };
        let times = match (module.loaded, module.unloaded) {
            (Nanos(0), None) => String::new(),
            (loaded, None) => format!("loaded at {loaded}"),
            (Nanos(0), Some(unloaded)) => format!("unloaded at {unloaded}"),
            (loaded, Some(unloaded)) => format!("loaded at {loaded}, unloaded at {unloaded}"),
        };
        table.row(vec![path.into(), Cell::new(Style::Dim, &build_id), Cell::new(Style::Dim, &times)]);
    }
    (!catalog.modules.is_empty()).then_some(table)
}

/// The damage found so far, for JSON.
pub fn damage_list(opened: &Opened) -> Value {
    let entry = |damage: &Damage| json!({ "offset": damage.offset, "length": damage.length, "what": damage.what });
    opened.damage().iter().map(entry).collect()
}

fn document(opened: &Opened, marks: &[NamedInstant], gauges: &[Gauge<'_>], breakdowns: &[RssBreakdown]) -> Value {
    let stats = opened.stats();
    let catalog = opened.catalog();
    let module = |module: &Module| {
        let build_id = catalog.strings.get(module.build_id);
        json!({
            "path": catalog.strings.get(module.path),
            "build_id": (!build_id.is_empty()).then_some(build_id),
            "start": format!("{:#x}", module.start),
            "end": format!("{:#x}", module.end),
            "file_offset": module.file_offset,
            "loaded_ns": module.loaded.0,
            "unloaded_ns": module.unloaded.map(|time| time.0),
        })
    };
    let gauge = |gauge: &Gauge<'_>| json!({ "name": gauge.name, "readings": gauge.readings, "last": gauge.last, "highest": gauge.highest });
    let breakdown = |breakdown: &RssBreakdown| {
        let reason = match breakdown.reason {
            BreakdownReason::Request => "request",
            BreakdownReason::RssPeak => "rss-peak",
            BreakdownReason::Mark => "mark",
            BreakdownReason::End => "end",
        };
        json!({ "at_ns": breakdown.at.0, "reason": reason, "rss_bytes": breakdown.process.rss })
    };
    json!({
        "schema": json::SCHEMA,
        "command": "info",
        "source": json::source(opened.source()),
        "at_ns": opened.source().duration.0,
        "file": {
            "kind": opened.json_key(),
            "version": stats.version,
            "complete": stats.complete,
            "bytes": stats.file_bytes,
            "events": stats.events,
            "bytes_per_event": (!opened.is_snapshot()).then(|| bytes_per_event(&stats)),
            "event_blocks": stats.event_blocks,
            "event_bytes": stats.event_bytes,
            "keyframes": stats.keyframes,
            "keyframe_bytes": stats.keyframe_bytes,
            "catalog_bytes": stats.catalog_bytes,
        },
        "damage": damage_list(opened),
        "bad_lines": opened.bad_lines(),
        "marks": marks.iter().map(|mark| json!({ "time_ns": mark.time.0, "name": mark.name })).collect::<Value>(),
        "gauges": gauges.iter().map(gauge).collect::<Value>(),
        "breakdowns": breakdowns.iter().map(breakdown).collect::<Value>(),
        "modules": catalog.modules.iter().map(module).collect::<Value>(),
    })
}
