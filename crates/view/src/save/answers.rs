//! Which answers a saved page holds, and under which keys.

use super::SavedChoice;
use super::stacks::SavedStacks;
use crate::api::Api;
use crate::endpoints;
use crate::http::request::{Request, parameters_of};
use crate::sources::{FileKind, Loaded};
use highwater_model::rfc3339;
use highwater_query::{QueryError, metrics_of};
use highwater_store::history::{HistoryError, Work};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most rows of each table, and the most blocks: a page should be small enough to be sent.
const ROWS: &str = "200";
/// The cells of the picture of a heap's pages.
const CELLS: &str = "4096";
/// The groupings of the tables.
const GROUPINGS: [&str; 9] = ["site", "function", "line", "file", "module", "thread", "type", "heap", "task"];

/// A request: its endpoint, and its parameters besides the choice. The parameters in `key` distinguish it from other requests.
struct SavedQuestion {
    name: &'static str,
    key: Vec<(&'static str, String)>,
    more: Vec<(&'static str, &'static str)>,
}

impl SavedQuestion {
    fn new(name: &'static str, source: usize) -> Self {
        Self { name, key: vec![("source", source.to_string())], more: Vec::new() }
    }

    fn keyed(mut self, name: &'static str, value: &str) -> Self {
        self.key.push((name, value.to_owned()));
        self.key.sort_unstable();
        self
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.more.push((name, value));
        self
    }

    fn key(&self) -> String {
        let parts: Vec<String> = self.key.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}?{}", self.name, parts.join("&"))
    }
}

/// The choice for the selected source. Other sources are shown as a whole, at their end.
struct ChosenSource {
    source: Option<usize>,
    parameters: Vec<(String, String)>,
}

impl ChosenSource {
    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// The parameters of the choice that the page passes to a request. Its timeline covers the whole time; a comparison has its instants in its key.
    fn parameters_of(&self, question: &SavedQuestion) -> Vec<(String, String)> {
        let names: &[&str] = match question.name {
            "timeline" => &["filter"],
            "rss" | "rss/map" => &["at", "allocator", "raw_names"],
            "compare" => &["from", "to", "filter", "allocator", "raw_names"],
            _ => &["from", "to", "at", "filter", "allocator", "raw_names"],
        };
        // A comparison names its sources with their instants: `a=0@end`.
        let source = |value: &str| value.split('@').next().and_then(|id| id.parse().ok());
        let of_other =
            question.key.iter().any(|(name, value)| ["source", "a"].contains(name) && source(value) != self.source);
        let given = self.parameters.iter().filter(|(name, _)| !of_other && names.contains(&name.as_str()));
        given.cloned().collect()
    }
}

/// The data of a saved page.
pub fn all(api: &Api, wanted: &SavedChoice<'_>, work: &Work<'_>) -> Result<Value, QueryError> {
    let chosen = parameters_of(wanted.choice).map_err(|problem| QueryError::bad(problem.to_string()))?;
    let mut answers = Map::new();
    answers.insert("sources".to_owned(), endpoints::sources::answer(&api.sources, work)?);
    let ids: Vec<usize> = match wanted.source {
        Some(id) => vec![api.sources.get(id)?.id],
        None => api.sources.all().iter().map(|source| source.id).collect(),
    };
    let mut questions: Vec<SavedQuestion> = Vec::new();
    for id in &ids {
        match api.sources.get(*id)?.loaded() {
            Ok(loaded) => {
                // A saved page cannot ask again, so it waits for exact answers.
                if let Some(Err(HistoryError::Cancelled)) =
                    loaded.history.recording().map(|recording| loaded.history.index(recording, work))
                {
                    return Err(QueryError::Cancelled);
                }
                questions.extend(of_source(*id, &loaded));
            }
            // The list of sources has the error.
            Err(_) => continue,
        }
    }
    let chosen = ChosenSource { source: wanted.source.or(ids.first().copied()), parameters: chosen };
    questions.extend(comparisons(&ids, &chosen));
    let mut stacks = SavedStacks::default();
    for (at, question) in questions.iter().enumerate() {
        work.progress(at as f64 / questions.len() as f64, "collecting answers")?;
        let mut parameters = chosen.parameters_of(question);
        parameters.extend(question.key.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        parameters.extend(question.more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        // The progress of a single request says little about the whole.
        let mut is_wanted = |_: Option<(f64, &str)>| work.go_on().is_ok();
        match api.ask(&Request::question(question.name, parameters), &Work::asked_by(&mut is_wanted)) {
            Ok(answer) => {
                let mut answer = endpoints::stacks::saturated(answer);
                stacks.take_out_of(&mut answer);
                answers.insert(question.key(), answer);
            }
            Err(problem) if problem.is_of_source() => {}
            Err(problem) => return Err(problem),
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let (frames, stacks) = stacks.into_values();
    Ok(json!({
        "schema": 2,
        "version": env!("CARGO_PKG_VERSION"),
        "saved": rfc3339(now),
        "choice": wanted.choice,
        "answers": answers,
        "frames": frames,
        "stacks": stacks,
    }))
}

/// The comparisons that the page shows by default: each file's end with its peak, and the ends of two files. For the selected file, A and B are the chosen
/// instants, if any are chosen.
fn comparisons(ids: &[usize], chosen: &ChosenSource) -> Vec<SavedQuestion> {
    let compare = |a: usize, b: usize, otherwise: &str| {
        let given = |name| chosen.get(name).filter(|_| chosen.source == Some(a));
        let before = format!("{a}@{}", given("at").or(given("to")).unwrap_or("end"));
        let after = format!("{b}@{}", given("b").unwrap_or(otherwise));
        let question = SavedQuestion { name: "compare", key: Vec::new(), more: Vec::new() };
        question.keyed("a", &before).keyed("b", &after).keyed("by", "site")
    };
    let mut questions: Vec<SavedQuestion> = ids.iter().map(|&id| compare(id, id, "peak")).collect();
    let other = chosen.get("other").and_then(|id| id.parse().ok());
    if let (Some(first), Some(second)) = (chosen.source, other.or(ids.get(1).copied())) {
        questions.push(compare(first, second, "end"));
    }
    questions
}

fn of_source(id: usize, loaded: &Loaded) -> Vec<SavedQuestion> {
    let mut questions = vec![
        SavedQuestion::new("overview", id),
        SavedQuestion::new("timeline", id).with("points", "600"),
        SavedQuestion::new("peak", id),
        SavedQuestion::new("growth", id).with("limit", ROWS),
        SavedQuestion::new("still_live", id).with("limit", ROWS),
        SavedQuestion::new("histograms", id),
        SavedQuestion::new("blocks", id).with("limit", ROWS),
    ];
    for metric in metrics_of(&loaded.history).iter().map(|metric| metric.key()) {
        for direction in ["down", "up"] {
            questions.push(SavedQuestion::new("tree", id).keyed("direction", direction).keyed("metric", metric));
        }
        for by in GROUPINGS {
            questions.push(SavedQuestion::new("rows", id).keyed("by", by).keyed("metric", metric).with("limit", ROWS));
        }
    }
    if loaded.history.breakdowns().is_ok_and(|known| !known.is_empty()) {
        questions.push(SavedQuestion::new("rss", id).keyed("by", "type").with("limit", ROWS));
        questions.push(SavedQuestion::new("rss/map", id).with("cells", CELLS));
    }
    match loaded.kind {
        FileKind::Objects => questions.push(SavedQuestion::new("types", id)),
        FileKind::Image => {
            questions.push(SavedQuestion::new("image/heap", id));
            questions.push(SavedQuestion::new("image/treemap", id));
        }
        _ => {}
    }
    questions
}
