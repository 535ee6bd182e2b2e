//! `highwater lake`: keeps a lake of Parquet files small and sound.

use crate::failure::Failure;
use crate::output::{Output, warn};
use crate::print::bytes::{bytes, count, counted};
use crate::print::table::{Align, Table};
use crate::size::parse_bytes;
use clap::{Args, Subcommand};
use highwater_formats::json::SCHEMA;
use highwater_lake::Lake;
use highwater_lake::check::check;
use highwater_lake::compact::{CompactOptions, compact, compact_with_skipped};
use highwater_lake::expire::{ExpireOptions, expire};
use highwater_lake::info::{FileSums, TableInfo, info};
use highwater_lake::store::open_store;
use highwater_model::parse_duration;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The arguments of `highwater lake`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater lake info /mnt/lake            tables, days, services, bytes a row
  highwater lake compact /mnt/lake         sort the hours that are over
  highwater lake expire /mnt/lake --minutes 7d --hours 30d
  highwater lake check s3://memory/prod    read every row, and say what is wrong

LAKE is a folder, or a URL such as s3://bucket/prefix. See docs/lake.md.")]
pub struct LakeArgs {
    #[command(subcommand)]
    action: LakeAction,
}

/// What is done with a lake.
#[derive(Debug, Subcommand)]
enum LakeAction {
    /// Sort the files of hosts into a few small ones, by day, service and hour
    Compact(CompactArgs),
    /// Delete days that are older than the lake keeps
    Expire(ExpireArgs),
    /// Tables, days, services, files, rows and bytes
    Info(LakeShown),
    /// Read every row, and report what cannot be
    Check(LakeShown),
}

#[derive(Debug, Args)]
struct CompactArgs {
    /// The lake
    #[arg(value_name = "LAKE")]
    lake: String,
    /// Hours that ended longer ago than this are compacted; files that come later are compacted by a later run
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    until: i64,
    /// The most memory for rows; more are sorted in temporary files
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    memory: u64,
    /// Try files again that earlier runs skipped because they were damaged
    #[arg(long)]
    retry: bool,
}

#[derive(Debug, Args)]
struct ExpireArgs {
    /// The lake
    #[arg(value_name = "LAKE")]
    lake: String,
    /// How long the rows of each slot are kept (table sites)
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_time)]
    minutes: i64,
    /// How long all else is kept: rows of each hour, processes, stacks
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_time)]
    hours: i64,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct LakeShown {
    /// The lake
    #[arg(value_name = "LAKE")]
    lake: String,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    json: bool,
}

/// Seconds. Days are common here, and no unit of other commands.
fn parse_time(text: &str) -> Result<i64, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let seconds = match days {
        Some(days) => Some(i64::from(days) * 86_400),
        None => parse_duration(text).and_then(|time| i64::try_from(time.0 / 1_000_000_000).ok()),
    };
    seconds.ok_or_else(|| "not a time; such as 10m, 36h, 7d".to_owned())
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs().cast_signed())
}

fn open(uri: &str) -> Result<Lake, Failure> {
    Lake::open(open_store(uri).map_err(Failure::fault)?).map_err(Failure::fault)
}

impl LakeArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        match &self.action {
            LakeAction::Compact(args) => args.run(output),
            LakeAction::Expire(args) => args.run(output),
            LakeAction::Info(args) => args.info(output),
            LakeAction::Check(args) => args.check(output),
        }
    }
}

impl CompactArgs {
    fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let options = CompactOptions { until: now().saturating_sub(self.until), memory: self.memory };
        let run = if self.retry { compact_with_skipped } else { compact };
        let done = run(&open(&self.lake)?, &options, &mut |_, _| {}).map_err(Failure::fault)?;
        for file in &done.skipped {
            warn(&format!("{}: {}; left where it is", file.key, file.why));
        }
        if let Some(first) = done.skipped_before.first() {
            let files = counted(done.skipped_before.len() as u64, "file");
            warn(&format!(
                "skipped earlier: {files}, such as {first}; --retry tries again, 'highwater lake check' says why"
            ));
        }
        if done.hours == 0 {
            return output.text("nothing to compact\n");
        }
        output.text(&format!(
            "{} with {} in {} became {} in {}; {} by hour\n",
            counted(done.files_read, "file"),
            counted(done.rows_read, "row"),
            bytes(done.bytes_read),
            counted(done.rows_written, "row"),
            bytes(done.bytes_written),
            counted(done.hour_rows, "row"),
        ))
    }
}

impl ExpireArgs {
    fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let (minutes, hours, dry_run) = (self.minutes, self.hours, self.dry_run);
        if hours < minutes {
            let why = "--hours is less than --minutes: rows of sites would stay without their processes and stacks";
            return Err(Failure::Usage(why.to_owned()));
        }
        let options = ExpireOptions { now: now(), minutes, hours, dry_run };
        let done = expire(&open(&self.lake)?, &options).map_err(Failure::fault)?;
        let verb = if dry_run { "would be deleted" } else { "deleted" };
        for day in &done.days {
            let (files, size) = (counted(day.files, "file"), bytes(day.bytes));
            output.text(&format!("{} of {}: {files}, {size}, {verb}\n", day.table, day.day.text()))?;
        }
        if done.leftovers > 0 {
            output.text(&format!("{} of killed writers deleted\n", counted(done.leftovers, "unfinished file")))?;
        }
        if done.days.is_empty() && done.leftovers == 0 { output.text("nothing to delete\n") } else { Ok(()) }
    }
}

impl LakeShown {
    fn info(&self, output: &mut Output) -> Result<(), Failure> {
        let tables = info(&open(&self.lake)?).map_err(Failure::fault)?;
        for line in tables.iter().flat_map(|about| &about.problems) {
            warn(line);
        }
        if self.json {
            let tables: Vec<Value> = tables.iter().map(document).collect();
            return output.json(json!({"schema": SCHEMA, "command": "lake info", "tables": tables}));
        }
        let mut shown = Table::default()
            .column(Align::Left, "TABLE")
            .column(Align::Right, "DAYS")
            .column(Align::Right, "SERVICES")
            .column(Align::Right, "FILES")
            .column(Align::Right, "ROWS")
            .column(Align::Right, "SIZE")
            .column(Align::Right, "BYTES/ROW")
            .column(Align::Right, "NOT COMPACTED")
            .column(Align::Right, "ROWS")
            .column(Align::Right, "SIZE");
        for about in &tables {
            let (done, new) = (about.compacted, about.incoming);
            shown.row(vec![
                about.table.name().into(),
                count(about.days.len() as u64).into(),
                count(about.services.len() as u64).into(),
                count(done.files).into(),
                count(done.rows).into(),
                bytes(done.bytes).into(),
                bytes_per_row(done).map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}")).into(),
                count(new.files).into(),
                count(new.rows).into(),
                bytes(new.bytes).into(),
            ]);
        }
        output.text(&shown.render(output.paint, output.width))
    }

    fn check(&self, output: &mut Output) -> Result<(), Failure> {
        let found = check(&open(&self.lake)?, &mut |_, _| {}).map_err(Failure::fault)?;
        let is_sound = found.problems.is_empty();
        if self.json {
            output.json(json!({
                "schema": SCHEMA, "command": "lake check", "files": found.files, "rows": found.rows,
                "sound": is_sound, "problems": found.problems,
            }))?;
        } else {
            for line in &found.problems {
                output.text(&format!("{}\n", crate::print::text::printable(line)))?;
            }
            let verdict = if is_sound { "sound" } else { "not sound" };
            output.text(&format!("{verdict}: {}, {}\n", counted(found.files, "file"), counted(found.rows, "row")))?;
        }
        if is_sound { Ok(()) } else { Err(Failure::Found) }
    }
}

fn bytes_per_row(sums: FileSums) -> Option<f64> {
    (sums.rows > 0).then(|| sums.bytes as f64 / sums.rows as f64)
}

fn document(about: &TableInfo) -> Value {
    let sums = |sums: FileSums| json!({"files": sums.files, "rows": sums.rows, "bytes": sums.bytes});
    let days: Vec<String> = about.days.iter().map(|day| day.text()).collect();
    json!({
        "table": about.table.name(), "days": days, "services": about.services,
        "compacted": sums(about.compacted), "bytes_per_row": bytes_per_row(about.compacted),
        "incoming": sums(about.incoming), "problems": about.problems,
    })
}
