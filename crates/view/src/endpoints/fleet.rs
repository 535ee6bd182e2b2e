//! `fleet/…`: questions about the processes of a lake, and parts of it as sources.

use super::{Answered, json, number, sources, word};
use crate::api::Api;
use crate::http::request::Request;
use crate::sources::{Loaded, Sources, ViewedFleet};
use highwater_fleet::label_filter::{FleetLabel, LabelFilter};
use highwater_fleet::questions::{
    FleetInstant, LeakRule, ProcessOrder, VersionPair, diff_sql, growth_sql, joint, leaks_sql, processes_sql,
};
use highwater_fleet::{FleetScope, ProfileSlots};
use highwater_query::QueryError;
use highwater_store::history::Work;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most filters of one request.
const MOST_FILTERS: usize = 64;
/// The most bands and rows.
const MOST_BANDS: u64 = 100;
const MOST_ROWS: u64 = 5000;
/// The latest time that is taken as one, in seconds.
const LATEST: u64 = 1 << 33;
/// The labels that a total is stacked by, and that parts are compared by.
const BY: [(&str, FleetLabel); 4] = [
    ("service", FleetLabel::Service),
    ("version", FleetLabel::Version),
    ("region", FleetLabel::Region),
    ("host", FleetLabel::Host),
];
/// The slots that a process must have for a slope.
const LEAST_SLOTS: u64 = 3;

/// A lake that is a source, and the part of it that a request is about.
struct AskedPart {
    loaded: Arc<Loaded>,
    scope: FleetScope,
}

impl AskedPart {
    fn of(request: &Request, sources: &Sources) -> Result<Self, QueryError> {
        let source = number(request, "source", 0, u64::MAX)? as usize;
        let loaded = sources.get(source)?.loaded()?;
        let own = fleet_of(&loaded)?.scope();
        let time = |name: &str| match request.parameter(name) {
            None | Some("") => Ok(None),
            Some(_) => number(request, name, 0, LATEST).map(|seconds| Some(seconds as i64)),
        };
        let since = [own.since, time("since")?].into_iter().flatten().max();
        let until = [own.until, time("until")?].into_iter().flatten().min();
        let mut labels = own.labels.clone();
        for text in request.all_parameters("where") {
            labels.push(text.parse().map_err(QueryError::bad)?);
        }
        if let Some(process) = request.parameter("process") {
            labels.push(format!("process={process}").parse().map_err(QueryError::bad)?);
        }
        if labels.len() > MOST_FILTERS {
            return Err(QueryError::Bad(format!("there are more than {MOST_FILTERS} filters")));
        }
        Ok(Self { scope: FleetScope { since, until, labels }, loaded })
    }

    fn fleet(&self) -> Result<&ViewedFleet, QueryError> {
        fleet_of(&self.loaded)
    }
}

fn fleet_of(loaded: &Loaded) -> Result<&ViewedFleet, QueryError> {
    loaded.special.fleet().ok_or_else(|| QueryError::failed("this is no lake"))
}

fn rows_wanted(request: &Request) -> Result<usize, QueryError> {
    Ok(number(request, "limit", 500, MOST_ROWS)?.max(1) as usize)
}

/// `fleet/timeline`: the total over time, stacked by a label.
pub fn timeline(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let asked = AskedPart::of(request, sources)?;
    let by = word(request, "by", &BY)?;
    let top = number(request, "top", 12, MOST_BANDS)? as usize;
    json(asked.fleet()?.timeline(&asked.scope, by, top, work)?)
}

/// `fleet/sites`: the sites that hold the most at a slot.
pub fn sites(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let asked = AskedPart::of(request, sources)?;
    let at = match request.parameter("slot").unwrap_or("peak") {
        "" | "peak" => FleetInstant::Peak,
        "latest" => FleetInstant::Latest,
        _ => FleetInstant::At(number(request, "slot", 0, LATEST)? as i64),
    };
    asked.fleet()?.top(&asked.scope, at, rows_wanted(request)?, work)
}

/// `fleet/leaks`: the sites that grow in a straight line.
pub fn leaks(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let asked = AskedPart::of(request, sources)?;
    let (table, scope) = asked.fleet()?.line_table(&asked.scope)?;
    let sql = leaks_sql(&scope, table, LeakRule::default(), rows_wanted(request)?);
    asked.fleet()?.table_from(&sql, &scope, table, work)
}

/// `fleet/growth`: the sites that hold more in the processes with one value of a label than in those with another.
pub fn growth(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let asked = AskedPart::of(request, sources)?;
    let between = word(request, "between", &[BY[1], BY[0], BY[2], BY[3]])?;
    // After a sign, so that a label that is not known can be named, too.
    let value = |name: &str| match request.parameter(name).and_then(|text| text.strip_prefix('=')) {
        Some(value) => Ok(value.to_owned()),
        None => Err(QueryError::Bad(format!("{name}= is missing: its value is '=' and that of the label"))),
    };
    let (old, new, rows) = (value("a")?, value("b")?, rows_wanted(request)?);
    let (table, scope) = asked.fleet()?.site_table(&asked.scope)?;
    if between == FleetLabel::Version {
        let sql = growth_sql(&scope, table, &VersionPair::Given(old, new), false, rows);
        return asked.fleet()?.table_from(&sql, &scope, table, work);
    }
    let part = |pattern| FleetScope {
        labels: vec![LabelFilter { label: between, is_inverted: false, pattern }],
        ..FleetScope::default()
    };
    let (a, b) = (part(old), part(new));
    let sql = diff_sql(&scope, &a, &b, table, rows);
    asked.fleet()?.table_from(&sql, &joint(&scope, &a, &b), table, work)
}

/// `fleet/processes`: how fast each process grows.
pub fn processes(request: &Request, sources: &Sources, work: &Work<'_>) -> Answered {
    let asked = AskedPart::of(request, sources)?;
    let sql = processes_sql(&asked.scope, ProcessOrder::Slope, LEAST_SLOTS, rows_wanted(request)?);
    asked.fleet()?.table(&sql, &asked.scope, work)
}

/// `fleet/open`: adds a part of the fleet as a source. A part that was opened before is read again.
pub fn open(api: &Api, request: &Request, work: &Work<'_>) -> Answered {
    let asked = AskedPart::of(request, &api.sources)?;
    let title = asked.title(request, work)?;
    let opened = asked.fleet()?.profile(&asked.scope, ProfileSlots::Bins(ViewedFleet::BINS), &title, work)?;
    let mut loaded = Loaded::of_file(opened)?;
    loaded.snapshot_name = title;
    let source = api.sources.add_part(loaded);
    Ok(json!({ "source": sources::about(&source) }))
}

impl AskedPart {
    /// What a part is called: its process, or its labels and its time.
    fn title(&self, request: &Request, work: &Work<'_>) -> Result<String, QueryError> {
        let lake = self.fleet()?.name();
        if request.parameter("process").is_some() {
            let sql = processes_sql(&self.scope, ProcessOrder::Slope, 1, 1);
            let answer = self.fleet()?.table(&sql, &self.scope, work)?;
            let column = |name: &str| {
                let at = answer["columns"].as_array()?.iter().position(|column| column["name"] == name)?;
                match &answer["rows"][0][at] {
                    Value::String(text) => Some(text.clone()),
                    Value::Null => None,
                    other => Some(other.to_string()),
                }
            };
            let named = column("service").zip(column("host")).zip(column("pid"));
            return named
                .map(|((service, host), pid)| format!("{lake}: {service} on {host}, pid {pid}"))
                .ok_or_else(|| QueryError::failed("the lake has no such process in this time"));
        }
        let mut words: Vec<String> = self.scope.labels.iter().map(LabelFilter::to_string).collect();
        let own = self.fleet()?.scope();
        if self.scope.since != own.since || self.scope.until != own.until {
            let end = |time: Option<i64>| time.map_or(String::new(), |time| time.to_string());
            words.push(format!("{}..{}", end(self.scope.since), end(self.scope.until)));
        }
        Ok(if words.is_empty() { format!("{lake}: all processes") } else { format!("{lake}: {}", words.join(", ")) })
    }
}
