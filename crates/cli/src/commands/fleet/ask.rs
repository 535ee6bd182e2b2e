//! What all questions have in common: the lake, the part of it, the engine, and how the answer is shown.

use super::install::ENGINE;
use super::rows::AnswerRow;
use crate::failure::Failure;
use crate::output::{Output, say, warn};
use crate::print::bytes::counted;
use crate::print::heading::Heading;
use crate::print::table::Table;
use crate::size::parse_bytes;
use clap::{Args, ValueEnum};
use highwater_fleet::label_filter::{FleetLabel, LabelFilter, label_passes};
use highwater_fleet::questions::{FleetInstant, SiteTable};
use highwater_fleet::{
    DuckDbProgram, EngineLimits, FleetAnswer, FleetEngine, FleetError, FleetLake, FleetScope, SparkEngine, TIME_FORMS,
    kept_sites_line, parse_age, parse_time, slot_in_words,
};
use highwater_formats::json::SCHEMA;
use highwater_lake::Lake;
use highwater_lake::store::open_store;
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Beyond, an answer is cut, and says so.
pub const MOST_ROWS: u64 = 1_000_000;
/// The default number of rows of a table for people.
const DEFAULT_ROWS: usize = 20;

/// The lake, and the part of it that a question is about.
#[derive(Debug, Args)]
pub struct FleetAskArgs {
    /// The lake: a folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "LAKE")]
    lake: String,
    /// From when on: 90m, 2h or 7d before now, 2026-11-18, or 2026-11-18T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = end_of_span, allow_hyphen_values = true)]
    since: Option<SpanEnd>,
    /// Until when, in the same forms
    #[arg(long, value_name = "TIME", value_parser = end_of_span, allow_hyphen_values = true)]
    until: Option<SpanEnd>,
    /// Only some processes: service=checkout, 'region!=eu-west-1', 'host=web-*', version, container, pid, process. Values of one label are alternatives, different
    /// labels must all pass
    #[arg(long = "where", value_name = "FILTER")]
    filters: Vec<LabelFilter>,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    engine: FleetEngineArgs,
}

/// What answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// On this machine
    Duckdb,
    /// On a cluster; --master says which
    Spark,
}

/// What answers a question, and what it may take.
#[derive(Debug, Args)]
pub struct FleetEngineArgs {
    /// What answers: DuckDB on this machine, or Spark on a cluster, with the same answer
    #[arg(long, value_enum, default_value_t = EngineName::Duckdb)]
    engine: EngineName,
    /// Spark's master: spark://HOST:7077, yarn, or 'local[*]' for this machine
    #[arg(long, value_name = "ADDRESS", required_if_eq("engine", "spark"))]
    master: Option<String>,
    /// A setting of Spark, such as spark.executor.memory=4g; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "master")]
    spark_conf: Vec<String>,
    /// Memory that the engine may take; what does not fit is written to the temporary folder [default: 400MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Threads that it may use [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Seconds after which it gives up; 0 for never
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u64,
}

/// How many rows an answer has.
#[derive(Clone, Copy, Debug, Args)]
pub struct FleetRowsArgs {
    /// How many rows; 0 for all [default: 20, with --json all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

impl FleetRowsArgs {
    /// The number of rows; 0 for all.
    pub fn rows(self, is_json: bool) -> usize {
        self.top.unwrap_or(if is_json { 0 } else { DEFAULT_ROWS })
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64)
}

/// A time on the command line.
pub fn time(text: &str) -> Result<i64, String> {
    parse_time(text, now()).ok_or_else(|| format!("'{text}' is no time: {TIME_FORMS}"))
}

/// An end of a span of time.
#[derive(Clone, Copy, Debug)]
struct SpanEnd {
    slot: i64,
    /// Counted from now, so that a minute more or less does not matter.
    is_age: bool,
}

fn end_of_span(text: &str) -> Result<SpanEnd, String> {
    Ok(SpanEnd { slot: time(text)?, is_age: parse_age(text).is_some() })
}

/// The shortest span that may be widened to whole hours if it is counted from now, in seconds: then it grows by a sixth at most.
const WIDENED: i64 = 6 * 3600;

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        Self::fault(error)
    }
}

/// A question with its lake.
pub struct FleetAsked<'a> {
    args: &'a FleetAskArgs,
    /// The lake.
    pub lake: FleetLake,
    /// The part of it.
    pub scope: FleetScope,
}

impl FleetAskArgs {
    /// Whether a question about a tendency may be asked of whole hours, which are several times faster.
    fn may_widen(&self) -> bool {
        let is_rough = |end: &Option<SpanEnd>| end.is_none_or(|end| end.is_age || end.slot.rem_euclid(3600) == 0);
        let until = self.until.map_or_else(now, |end| end.slot);
        is_rough(&self.since)
            && is_rough(&self.until)
            && self.since.is_none_or(|since| until.saturating_sub(since.slot) >= WIDENED)
    }

    /// Opens the lake and finds the engine.
    pub fn open(&self) -> Result<FleetAsked<'_>, Failure> {
        let scope = scope_of(self.since.map(|end| end.slot), self.until.map(|end| end.slot), &self.filters)?;
        let engine: Box<dyn FleetEngine> = match (self.engine.engine, &self.engine.master) {
            (EngineName::Spark, Some(master)) => {
                Box::new(SparkEngine::new(master.clone(), self.engine.spark_conf.clone()))
            }
            (EngineName::Duckdb, Some(_)) => return Err(Failure::Usage("--master is for --engine spark".into())),
            _ => embedded_engine()?,
        };
        let standard = EngineLimits::default();
        let limits = EngineLimits {
            memory_bytes: self.engine.memory.unwrap_or(standard.memory_bytes),
            threads: self.engine.threads.unwrap_or(standard.threads),
            seconds: self.engine.seconds,
        };
        Ok(FleetAsked { args: self, lake: open_lake(&self.lake, engine, limits)?, scope })
    }
}

/// The part of a fleet that arguments name.
pub fn scope_of(since: Option<i64>, until: Option<i64>, filters: &[LabelFilter]) -> Result<FleetScope, Failure> {
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return Err(Failure::Usage("--since is not before --until".into()));
    }
    Ok(FleetScope { since, until, labels: filters.to_vec() })
}

/// DuckDB, in its program.
pub fn embedded_engine() -> Result<Box<dyn FleetEngine>, Failure> {
    Ok(Box::new(DuckDbProgram::new(ENGINE.find()?)))
}

/// Opens a lake.
pub fn open_lake(lake: &str, engine: Box<dyn FleetEngine>, limits: EngineLimits) -> Result<FleetLake, Failure> {
    let lake = Lake::open(open_store(lake).map_err(Failure::fault)?).map_err(Failure::fault)?;
    Ok(FleetLake::new(lake, engine, limits))
}

impl FleetAsked<'_> {
    /// The answer to a text. Files that cannot be used are named.
    pub fn ask(&self, sql: &str, scope: &FleetScope, max_rows: u64) -> Result<FleetAnswer, Failure> {
        Self::checked(self.lake.ask(sql, scope, max_rows, &|| true)?, max_rows)
    }

    /// The answer to a text that has the figures of sites from a table.
    pub fn ask_sites(&self, sql: &str, scope: &FleetScope, table: SiteTable) -> Result<FleetAnswer, Failure> {
        Self::checked(self.lake.ask_sites(sql, scope, table, MOST_ROWS, &|| true)?, MOST_ROWS)
    }

    /// The sites that hold the most at an instant.
    pub fn top(&self, scope: &FleetScope, at: FleetInstant, top: usize) -> Result<FleetAnswer, Failure> {
        Self::checked(self.lake.top(scope, at, top, MOST_ROWS, &|| true)?, MOST_ROWS)
    }

    /// The answer to a user's text, for which the tables have only the rows of the scope.
    pub fn ask_within(&self, sql: &str, max_rows: u64) -> Result<FleetAnswer, Failure> {
        Self::checked(self.lake.ask_within(sql, &self.scope, max_rows, &|| true)?, max_rows)
    }

    fn checked(found: FleetAnswer, max_rows: u64) -> Result<FleetAnswer, Failure> {
        found.left_out.iter().for_each(|line| warn(&format!("left out: {line}")));
        if found.answer.truncated {
            warn(&format!("there are more than {}: the rest is left out", counted(max_rows, "row")));
        }
        Ok(found)
    }

    /// The JSON document of an answer. Identities have 64 bits, and are texts, because many programs read numbers with 53.
    pub fn document(&self, command: &str, scope: &FleetScope, table: Option<SiteTable>, found: &FleetAnswer) -> Value {
        let rows: Vec<Value> = found.answer.objects().map(with_text_ids).collect();
        let filters: Vec<String> = scope.labels.iter().map(LabelFilter::to_string).collect();
        let mut document = json!({
            "schema": SCHEMA,
            "command": command,
            "lake": self.args.lake,
            "since": scope.since,
            "until": scope.until,
            "where": filters,
            "files": found.files,
            "left_out": found.left_out,
            "truncated": found.answer.truncated,
            "rows": rows,
        });
        if let Some(table) = table {
            document["table"] = table.name().into();
        }
        document
    }

    /// Prints a table under a heading, or why there are no rows.
    pub fn print(
        &self,
        output: &mut Output,
        found: &FleetAnswer,
        mut head: Heading,
        scope: &FleetScope,
        table: &Table,
    ) -> Result<(), Failure> {
        if found.answer.rows.is_empty() {
            return self.print_nothing(output, scope, "nothing in the lake answers this question");
        }
        if !scope.labels.is_empty() {
            let filters: Vec<String> = scope.labels.iter().map(LabelFilter::to_string).collect();
            head.line("only", filters.join(", "));
        }
        if scope.since.is_some() || scope.until.is_some() {
            head.line("time", span(scope));
        }
        if found.answer.objects().map(AnswerRow).any(|row| row.is_estimate() || row.is_fleet_estimate()) {
            head.line("sampled", "figures with ~ are estimates: some processes count only samples of their blocks");
        }
        output.text(&head.render(output.paint, output.width))?;
        output.text(&format!("\n{}", table.render(output.paint, output.width)))
    }

    /// Why an answer has no rows.
    pub fn print_nothing(&self, output: &mut Output, scope: &FleetScope, otherwise: &str) -> Result<(), Failure> {
        let Some((first, last)) = self.lake.days()? else {
            return output.line("The lake has no rows yet.");
        };
        let services = self.lake.services()?;
        let services: Vec<&str> = services.iter().map(String::as_str).collect();
        let wanted = |service: &&str| label_passes(&scope.labels, FleetLabel::Service, service);
        let counted_sql = "SELECT count(*) AS n FROM processes";
        let in_scope = format!("{counted_sql} WHERE {}", scope.process_condition());
        let count = self.lake.ask(&in_scope, scope, 1, &|| true)?;
        let count = count.answer.rows.first().and_then(|row| row.first()).and_then(Value::as_i64).unwrap_or(0);
        let reason = match count {
            0 if !services.is_empty() && !services.iter().any(wanted) => {
                format!("no service passes the filter; the lake has {}", listed(&services))
            }
            0 => {
                let days =
                    if first == last { format!("the day {first}") } else { format!("the days {first} to {last}") };
                let of = if services.is_empty() { "" } else { ", of the services " };
                format!("no process was seen in this part; the lake has {days}{of}{}", listed(&services))
            }
            _ => otherwise.to_owned(),
        };
        output.line(&format!("No rows: {reason}."))
    }

    /// The scope without slots whose call sites have expired. Says so if there are some.
    pub fn kept_scope(&self) -> Result<FleetScope, Failure> {
        let kept_since = self.lake.sites_kept_since(&self.scope)?;
        kept_since.iter().for_each(|first| say(&kept_sites_line(*first)));
        Ok(FleetScope { since: kept_since.or(self.scope.since), ..self.scope.clone() })
    }

    /// The table that has the figures of the scope, and the scope in which it is asked. Says so if hours take the place of slots.
    pub fn site_table(&self) -> Result<(SiteTable, FleetScope), Failure> {
        Ok(self.said(self.lake.site_table(&self.scope, self.args.may_widen())?))
    }

    /// The same for a question that fits lines.
    pub fn line_table(&self) -> Result<(SiteTable, FleetScope), Failure> {
        Ok(self.said(self.lake.line_table(&self.scope, self.args.may_widen())?))
    }

    fn said(&self, (table, wider): (SiteTable, FleetScope)) -> (SiteTable, FleetScope) {
        if wider != self.scope {
            say(&format!("whole hours are counted: {}", span(&wider)));
        }
        (table, wider)
    }
}

/// The line of a heading that says which table was read.
pub fn table_in_words(table: SiteTable) -> &'static str {
    match table {
        SiteTable::Minutes => "every slot (sites)",
        SiteTable::Hours => "sums by hour (sites_hour)",
        SiteTable::Edges => "sums by hour (sites_hour), slots before and after whole hours (sites)",
    }
}

fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 10;
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// A span of time for people.
fn span(scope: &FleetScope) -> String {
    let since = scope.since.map(|since| format!("from {}", slot_in_words(since)));
    let until = scope.until.map(|until| format!("to {}", slot_in_words(until)));
    since.into_iter().chain(until).collect::<Vec<_>>().join(" ")
}

fn with_text_ids(row: Value) -> Value {
    let Value::Object(members) = row else { return row };
    let text = |(name, value): (String, Value)| {
        let value = if name.ends_with("_id") && value.is_i64() { Value::String(value.to_string()) } else { value };
        (name, value)
    };
    Value::Object(members.into_iter().map(text).collect::<Map<String, Value>>())
}
