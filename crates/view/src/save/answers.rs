//! Which answers a saved page holds, and under which keys.

use super::SavedChoice;
use super::instants::{self, SavedInstant};
use super::source_files;
use super::stacks::SavedStacks;
use super::texts::SavedTexts;
use crate::api::Api;
use crate::choice::{RequestChoice, is_raw};
use crate::endpoints;
use crate::endpoints::short_names::SharedNames;
use crate::http::request::{Request, parameters_of};
use crate::sources::{FileKind, Loaded};
use highwater_model::rfc3339;
use highwater_query::{Metric, QueryError, metrics_of};
use highwater_store::history::{HistoryError, Work};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most rows of each table, and the most blocks: a page should be small enough to be sent.
const ROWS: &str = "200";
/// The same of the instants besides the chosen one, and the least share of a node of their flame graphs.
const ROWS_OF_INSTANT: &str = "60";
const LEAST_OF_INSTANT: &str = "0.001";
/// The cells of the picture of a heap's pages.
const CELLS: &str = "4096";
/// The most processes of a tree whose answers are saved.
const MOST_PROCESSES: usize = 8;
/// The groupings of the tables.
const GROUPINGS: [&str; 9] = ["site", "function", "line", "file", "module", "thread", "type", "heap", "task"];

/// What the timeline can be stacked by (`web/src/timeline/bands.ts`), and the points of its bands.
const STACKED: [&str; 4] = ["function", "type", "thread", "module"];
const BAND_POINTS: &str = "160";

/// A request: its endpoint, and its parameters besides the choice. The parameters in `key` distinguish it from other requests.
pub struct SavedQuestion {
    pub name: &'static str,
    pub key: Vec<(&'static str, String)>,
    more: Vec<(&'static str, &'static str)>,
    /// Whether its source has instants to choose from.
    has_time: bool,
    /// The instant, if it is another one than the chosen one. Its key has the time.
    instant: Option<String>,
}

impl SavedQuestion {
    pub fn new(name: &'static str, source: usize) -> Self {
        Self { name, key: vec![("source", source.to_string())], more: Vec::new(), has_time: false, instant: None }
    }

    pub fn keyed(mut self, name: &'static str, value: &str) -> Self {
        self.key.push((name, value.to_owned()));
        self.key.sort_unstable();
        self
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.more.push((name, value));
        self
    }

    pub fn key(&self) -> String {
        let parts: Vec<String> = self.key.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}?{}", self.name, parts.join("&"))
    }
}

/// The choice for the selected source. Other sources are shown as a whole, at their peak.
pub struct ChosenSource {
    source: Option<usize>,
    parameters: Vec<(String, String)>,
}

impl ChosenSource {
    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// The parameters of the choice that the page passes to a request. Its timeline covers the whole time; a comparison has its instants in its key.
    pub fn parameters_of(&self, question: &SavedQuestion) -> Vec<(String, String)> {
        let names: &[&str] = match question.name {
            "timeline" => &["filter"],
            "bands" => &["filter", "allocator", "raw_names"],
            "rss" | "rss/map" => &["at", "allocator", "raw_names"],
            "compare" => &["from", "to", "filter", "allocator", "raw_names"],
            _ => &["from", "to", "at", "filter", "allocator", "raw_names"],
        };
        // A comparison names its sources with their instants: `a=0@end`.
        let source = |value: &str| value.split('@').next().and_then(|id| id.parse().ok());
        let of_other =
            question.key.iter().any(|(name, value)| ["source", "a"].contains(name) && source(value) != self.source);
        let given = self.parameters.iter().filter(|(name, _)| !of_other && names.contains(&name.as_str()));
        let mut parameters: Vec<_> = given.filter(|(name, _)| name != "at").cloned().collect();
        if names.contains(&"at") && question.has_time {
            let chosen = self.get("at").filter(|_| !of_other).unwrap_or(DEFAULT_INSTANT);
            let at = question.instant.as_deref().unwrap_or(chosen);
            parameters.extend(instant_of(question.name, at).map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        parameters
    }
}

impl ChosenSource {
    /// The chosen processes of a fleet, their time and their slot, as the page asks for them (`web/src/fleet/question.ts`).
    fn fleet_parameters(&self) -> Vec<(String, String)> {
        let mut parameters: Vec<_> = self.parameters.iter().filter(|(name, _)| name == "where").cloned().collect();
        let mut add =
            |name: &str, value: Option<String>| parameters.extend(value.map(|value| (name.to_owned(), value)));
        add("since", self.get("tree_from").map(str::to_owned));
        add("until", self.get("tree_to").and_then(|to| to.parse::<u64>().ok()).map(|to| (to + 1).to_string()));
        add("slot", self.get("tree_at").map(str::to_owned));
        parameters
    }

    /// The key of the question about live memory that has the same answer: at the peak of the whole time, what is live at A is the memory at the peak. In a
    /// window, the peak may have been reached before it; then the two answers name different times.
    fn same_as(&self, question: &SavedQuestion) -> Option<String> {
        let metric = |(name, value): &(&'static str, String)| *name == "metric" && value == Metric::Peak.key();
        let parameters = self.parameters_of(question);
        let has = |name: &str, value: Option<&str>| {
            parameters.iter().any(|each| each.0 == name && value.is_none_or(|value| each.1 == value))
        };
        if !question.key.iter().any(metric) || !has("at", Some(DEFAULT_INSTANT)) || has("from", None) {
            return None;
        }
        let mut live = SavedQuestion { key: question.key.clone(), ..SavedQuestion::new(question.name, 0) };
        live.key.iter_mut().filter(|each| metric(each)).for_each(|each| each.1 = Metric::Live.key().to_owned());
        Some(live.key())
    }

    /// All parameters of a question.
    fn all_of(&self, question: &SavedQuestion) -> Vec<(String, String)> {
        let mut parameters = self.parameters_of(question);
        if question.name.starts_with("fleet/") {
            parameters.extend(self.fleet_parameters());
        }
        let keyed = question.key.iter().filter(|(name, _)| *name != "at");
        parameters.extend(keyed.map(|(name, value)| ((*name).to_owned(), value.clone())));
        parameters.extend(question.more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        parameters
    }
}

/// Where A is if the choice does not say so.
const DEFAULT_INSTANT: &str = "peak";

/// The parameter that asks for A, as the page does (`web/src/question.ts`): leaks and growth are judged before the tear-down, and the resident memory is that of its own peak, unless another instant was chosen. Without a parameter, the end of the window is meant.
fn instant_of<'a>(name: &str, at: &'a str) -> Option<(&'static str, &'a str)> {
    match (name, at) {
        ("rss" | "rss/map", DEFAULT_INSTANT) | ("headline", _) | (_, "end") => None,
        ("growth", _) | ("still_live", DEFAULT_INSTANT) => Some(("before_teardown", "1")),
        _ => Some(("at", at)),
    }
}

/// The part of the progress that the index takes; the answers take the rest.
const INDEX_PART: f64 = 0.4;

/// The data of a saved page.
pub fn all(api: &Api, wanted: &SavedChoice<'_>, work: &Work<'_>) -> Result<Value, QueryError> {
    let chosen = parameters_of(wanted.choice).map_err(|problem| QueryError::bad(problem.to_string()))?;
    let mut answers = Map::new();
    api.sources.look_again(work)?;
    let mut ids: Vec<usize> = match wanted.source {
        Some(id) => vec![api.sources.get(id)?.id],
        None => api.sources.all().iter().map(|source| source.id).collect(),
    };
    if api.sources.is_tree() {
        let processes = api.ask(&Request::question("processes", Vec::new()), work)?;
        if wanted.source.is_none() {
            let largest = largest_processes(&processes);
            ids.extend(largest.into_iter().filter(|id| api.sources.get(*id).is_ok()));
            ids.sort_unstable();
            ids.dedup();
        }
        answers.insert("processes".to_owned(), endpoints::stacks::saturated(processes));
        let at = chosen.iter().find(|(name, at)| name == "tree_at" && at.parse::<u64>().is_ok());
        if let Some((_, at)) = at {
            let held = Request::question("processes/held", vec![("at".to_owned(), at.clone())]);
            answers.insert("processes/held".to_owned(), endpoints::stacks::saturated(api.ask(&held, work)?));
        }
    }
    let sources = endpoints::sources::answer(&Request::question("sources", Vec::new()), &api.sources, work)?;
    answers.insert("sources".to_owned(), sources);
    let mut questions: Vec<SavedQuestion> = Vec::new();
    let mut files: Vec<SavedFile> = Vec::new();
    for id in &ids {
        match api.sources.get(*id)?.loaded() {
            Ok(loaded) => {
                // A saved page cannot ask again, so it waits for exact answers.
                let mut note = |progress: Option<(f64, &str)>| match progress {
                    Some((part, what)) => work.progress(part * INDEX_PART, what).is_ok(),
                    None => work.go_on().is_ok(),
                };
                let indexing = Work::asked_by(&mut note);
                if let Some(Err(HistoryError::Cancelled)) =
                    loaded.history.recording().map(|recording| loaded.history.index(recording, &indexing))
                {
                    return Err(QueryError::Cancelled);
                }
                let has_time = loaded.history.recording().is_some();
                let of_source = of_source(*id, &loaded).into_iter();
                questions.extend(of_source.map(|question| SavedQuestion { has_time, ..question }));
                files.push(SavedFile { id: *id, has_time, started_unix_ns: loaded.history.source().start_unix_ns });
            }
            // The list of sources has the error.
            Err(_) => continue,
        }
    }
    // Now that they are indexed, the page does not say that they are still being read.
    answers.insert(
        "sources".to_owned(),
        endpoints::sources::answer(&Request::question("sources", Vec::new()), &api.sources, work)?,
    );
    let chosen = ChosenSource { source: wanted.source.or(ids.first().copied()), parameters: chosen };
    questions.extend(comparisons(&files, &chosen));
    let mut instants = Map::new();
    if let Some(file) = files.iter().find(|file| chosen.source == Some(file.id) && file.has_time) {
        let found = instants_of(api, file.id, &chosen, work)?;
        for instant in found.iter().filter(|instant| !instant.is_chosen) {
            questions.extend(of_instant(file.id, instant));
        }
        instants.insert(file.id.to_string(), serde_json::to_value(&found).map_err(QueryError::failed)?);
    }
    let (mut stacks, mut texts_of_trees, mut names) =
        (SavedStacks::default(), SavedTexts::default(), SharedNames::default());
    for (at, question) in questions.iter().enumerate() {
        let part = at as f64 / questions.len() as f64;
        work.progress(INDEX_PART + part * (1.0 - INDEX_PART), "collecting answers")?;
        if let Some(same) = chosen.same_as(question).and_then(|key| answers.get(&key).cloned()) {
            answers.insert(question.key(), same);
            continue;
        }
        // The progress of a single request says little about the whole.
        let mut is_wanted = |_: Option<(f64, &str)>| work.go_on().is_ok();
        let request = Request::question(question.name, chosen.all_of(question));
        match api.ask_with_whole_names(&request, &Work::asked_by(&mut is_wanted)) {
            Ok(answer) => {
                let mut answer = endpoints::stacks::saturated(answer);
                if !is_raw(&request)? {
                    names.add(&answer);
                }
                stacks.take_out_of(&mut answer);
                texts_of_trees.take_out_of(&mut answer);
                answers.insert(question.key(), answer);
            }
            Err(problem) if problem.is_of_source() => {}
            Err(problem) => return Err(problem),
        }
    }
    let (frames, stacks) = stacks.into_values();
    let mut texts = Map::new();
    if wanted.with_source {
        for id in &ids {
            source_files::add(api, (*id, &chosen), (&frames, &stacks), (&mut answers, &mut texts), work)?;
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    Ok(json!({
        "schema": 3,
        "version": env!("CARGO_PKG_VERSION"),
        "saved": rfc3339(now),
        "choice": wanted.choice,
        "instants": instants,
        "answers": answers,
        "short_names": names.into_value(),
        "strings": texts_of_trees.into_value(),
        "frames": frames,
        "stacks": stacks,
        "texts": texts,
    }))
}

/// The processes whose answers a saved page holds besides the files that were named: those with the highest peaks.
fn largest_processes(answer: &Value) -> Vec<usize> {
    let mut all: Vec<(u64, usize)> = answer["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|process| Some((process["peak_bytes"].as_u64()?, process["id"].as_u64()? as usize)))
        .collect();
    all.sort_unstable_by_key(|(peak, id)| (std::cmp::Reverse(*peak), *id));
    all.into_iter().take(MOST_PROCESSES).map(|(_, id)| id).collect()
}

/// The instants of the chosen source.
fn instants_of(api: &Api, id: usize, chosen: &ChosenSource, work: &Work<'_>) -> Result<Vec<SavedInstant>, QueryError> {
    let question = SavedQuestion { has_time: true, ..SavedQuestion::new("overview", id) };
    let choice = RequestChoice::of(&Request::question("overview", chosen.all_of(&question)), &api.sources)?;
    let asked = chosen.get("at").unwrap_or(DEFAULT_INSTANT);
    let at = choice.query.history.figures(choice.query.at)?.at.max(choice.query.window.from);
    instants::of_source(&choice.query, (at.0, asked), work)
}

/// What a page has of an instant besides the chosen one. Other metrics do not depend on the instant. Rows and nodes are fewer, for the size of the page.
fn of_instant(id: usize, instant: &SavedInstant) -> Vec<SavedQuestion> {
    let new = |name| SavedQuestion {
        has_time: true,
        instant: Some(instant.asked.clone()),
        ..SavedQuestion::new(name, id).keyed("at", &instant.at_ns.to_string())
    };
    let mut questions = vec![new("overview")];
    for direction in ["down", "up"] {
        let tree = new("tree").keyed("direction", direction).keyed("metric", "live");
        questions.push(tree.with("least", LEAST_OF_INSTANT));
    }
    for by in GROUPINGS {
        questions.push(new("rows").keyed("by", by).keyed("metric", "live").with("limit", ROWS_OF_INSTANT));
    }
    questions
}

/// The comparisons that the page shows by default: each file's peak with its end, and the peaks of two files, the older file first. For the selected file, A
/// and B are the chosen instants, if any are chosen.
fn comparisons(files: &[SavedFile], chosen: &ChosenSource) -> Vec<SavedQuestion> {
    let given = |file: &SavedFile, name| chosen.get(name).filter(|_| chosen.source == Some(file.id));
    let end = |file: &SavedFile| given(file, "to").unwrap_or("end").to_owned();
    let instant_a = |file: &SavedFile| match given(file, "at").unwrap_or(DEFAULT_INSTANT) {
        _ if !file.has_time => "end".to_owned(),
        "end" => end(file),
        at => at.to_owned(),
    };
    let instant_b = |first: &SavedFile, second: &SavedFile| match given(first, "b") {
        Some(b) if second.has_time || b.parse::<u64>().is_ok() => b.to_owned(),
        None if first.id == second.id => end(first),
        None if second.has_time => DEFAULT_INSTANT.to_owned(),
        _ => "end".to_owned(),
    };
    let compare = |first: &SavedFile, second: &SavedFile, is_reversed: bool| {
        let mut sides = [(first.id, instant_a(first)), (second.id, instant_b(first, second))];
        if is_reversed {
            sides.reverse();
        }
        let [before, after] = sides.map(|(id, instant)| format!("{id}@{instant}"));
        let has_time = first.has_time;
        let question = SavedQuestion { name: "compare", key: Vec::new(), more: Vec::new(), has_time, instant: None };
        question.keyed("a", &before).keyed("b", &after).keyed("by", "site")
    };
    let mut questions: Vec<SavedQuestion> = files.iter().map(|file| compare(file, file, false)).collect();
    let Some(first) = files.iter().find(|file| chosen.source == Some(file.id)) else { return questions };
    let other = chosen.get("other").and_then(|id| id.parse::<usize>().ok());
    let others = || files.iter().filter(|file| file.id != first.id);
    let same_kind = others().find(|file| file.has_time == first.has_time);
    let second = match other {
        Some(id) => others().find(|file| file.id == id),
        None => same_kind.or_else(|| others().next()),
    };
    if let Some(second) = second {
        // As the page does: of two files that no one put in an order, the older one comes first.
        let is_in_order = other.is_some() || second.has_time != first.has_time;
        let is_older = second.started_unix_ns > 0 && second.started_unix_ns < first.started_unix_ns;
        questions.push(compare(first, second, !is_in_order && is_older));
    }
    questions
}

/// A file that is saved.
struct SavedFile {
    id: usize,
    has_time: bool,
    started_unix_ns: u64,
}

fn of_source(id: usize, loaded: &Loaded) -> Vec<SavedQuestion> {
    let mut questions = vec![
        SavedQuestion::new("headline", id),
        SavedQuestion::new("overview", id),
        SavedQuestion::new("timeline", id).with("points", "600"),
        SavedQuestion::new("peak", id),
        SavedQuestion::new("growth", id).with("limit", ROWS),
        SavedQuestion::new("still_live", id).with("limit", ROWS),
        SavedQuestion::new("histograms", id),
        SavedQuestion::new("blocks", id).with("limit", ROWS),
    ];
    if loaded.history.recording().is_some() {
        let bands = |by| SavedQuestion::new("bands", id).keyed("by", by).with("points", BAND_POINTS);
        questions.extend(STACKED.map(bands));
    }
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
        FileKind::Fleet if loaded.special.fleet().is_some() => {
            let timeline = |by| SavedQuestion::new("fleet/timeline", id).keyed("by", by);
            questions.extend(["service", "version", "region", "host"].map(timeline));
            let table = |name| SavedQuestion::new(name, id).with("limit", ROWS);
            questions.extend(["fleet/sites", "fleet/leaks", "fleet/processes"].map(table));
        }
        _ => {}
    }
    questions
}
