//! The API: maps paths to endpoints, and sends their answers.

use crate::choice::{RequestChoice, is_raw};
use crate::endpoints::{self, Answered};
use crate::http::exchange::Exchange;
use crate::http::request::{Request, parameters_of};
use crate::http::server::Answer;
use crate::look_timers::LookTimers;
use crate::looks::Looks;
use crate::page;
use crate::save;
use crate::source_code::SourceCode;
use crate::sources::{LiveProcesses, Sources};
use highwater_model::{Nanos, When};
use highwater_query::{Filter, NoMetric, QueryError, time_of};
use highwater_store::history::Work;
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The number of requests that are worked on at the same time; further ones wait.
const MOST_AT_WORK: usize = 4;
/// The prefix of the paths of all endpoints.
const PREFIX: &str = "/api/1/";
/// The endpoint that answers with an HTML page instead of JSON.
const SAVE: &str = "save";

/// The state that all requests share.
pub struct Api {
    /// The sources that the viewer shows.
    pub sources: Sources,
    /// Lists live processes and takes snapshots of them.
    pub collector: Option<Arc<dyn LiveProcesses>>,
    /// Where source files are looked for.
    pub source_code: SourceCode,
    /// Looks at live processes.
    pub(crate) looks: Arc<Looks>,
    /// Who takes them every few seconds.
    pub(crate) look_timers: LookTimers,
    at_work: Mutex<usize>,
    done: Condvar,
}

/// The kind of an endpoint: how its answer is computed and sent.
enum Endpoint {
    /// The answer is sent in one piece.
    Whole(fn(&Api, &Request, &Work<'_>) -> Answered),
    /// The answer is sent in one piece. Only `POST` is accepted, because the request has an effect.
    Posted(fn(&Api, &Request, &Work<'_>) -> Answered),
    /// The answer is sent as lines, since it may take long.
    InLines(fn(&Request, &RequestChoice, &Work<'_>) -> Answered),
    /// The same, for a request about more than one source.
    InLinesOfAll(fn(&Request, &Sources, &Work<'_>) -> Answered),
    /// The answer is a file for another program, and not JSON.
    File(fn(&Api, &Request, &Work<'_>) -> Result<SentFile, QueryError>),
    /// The same as in lines, for a request that also needs what the viewer was started with.
    InLinesOfApi(fn(&Api, &Request, &Work<'_>) -> Answered),
}

/// A file in an answer.
pub struct SentFile {
    /// Its name; letters, digits and `-_.` only.
    pub name: String,
    /// Its media type.
    pub kind: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
}

fn endpoint(name: &str) -> Option<Endpoint> {
    Some(match name {
        "sources" => Endpoint::Whole(|api, request, work| endpoints::sources::answer(request, &api.sources, work)),
        "processes" => Endpoint::InLinesOfAll(endpoints::processes::all),
        "processes/held" => Endpoint::InLinesOfAll(endpoints::processes::held),
        "filters" => Endpoint::Whole(|_, request, _| endpoints::checked_filters(request)),
        "timeline" => Endpoint::InLines(endpoints::timeline),
        "bands" => Endpoint::InLines(endpoints::bands),
        "peak" => Endpoint::InLines(endpoints::peak),
        "rows" => Endpoint::InLines(endpoints::rows),
        "callers" => Endpoint::InLines(endpoints::callers),
        "overview" => Endpoint::InLines(endpoints::overview),
        "headline" => Endpoint::InLines(endpoints::headline),
        "blocks" => Endpoint::InLines(endpoints::blocks),
        "block" => Endpoint::InLines(endpoints::block),
        "histograms" => Endpoint::InLines(endpoints::histograms),
        // `leaks` is the old name of `growth`.
        "growth" | "leaks" => Endpoint::InLines(endpoints::growth),
        "still_live" => Endpoint::InLines(endpoints::still_live),
        "compare" => Endpoint::InLinesOfAll(endpoints::compare),
        "source" => Endpoint::InLinesOfApi(endpoints::source::lines),
        "source/open" => Endpoint::Posted(|api, request, _| endpoints::source::open(api, request)),
        "types" => Endpoint::InLines(endpoints::special::types),
        "image/heap" => Endpoint::InLines(endpoints::special::heap),
        "image/treemap" => Endpoint::InLines(endpoints::special::treemap),
        "image/object" => Endpoint::InLines(endpoints::special::object),
        "image/compare" => Endpoint::InLinesOfAll(endpoints::special::compare),
        "rss" => Endpoint::InLines(endpoints::rss::rows),
        "rss/map" => Endpoint::InLines(endpoints::rss::map),
        "fleet/timeline" => Endpoint::InLinesOfAll(endpoints::fleet::timeline),
        "fleet/sites" => Endpoint::InLinesOfAll(endpoints::fleet::sites),
        "fleet/leaks" => Endpoint::InLinesOfAll(endpoints::fleet::leaks),
        "fleet/growth" => Endpoint::InLinesOfAll(endpoints::fleet::growth),
        "fleet/processes" => Endpoint::InLinesOfAll(endpoints::fleet::processes),
        "fleet/open" => Endpoint::Posted(endpoints::fleet::open),
        "live" => Endpoint::Whole(|api, _, _| Ok(endpoints::live::processes(api))),
        "live/timeline" => Endpoint::Whole(|api, request, _| endpoints::live::timeline(request, api)),
        "live/snapshot" => Endpoint::Posted(|api, request, _| endpoints::live::snapshot(request, api)),
        "live/own" => Endpoint::Whole(|api, _, _| endpoints::live::own_snapshots(api)),
        "live/own/open" => Endpoint::Posted(|api, request, _| endpoints::live::open_own(request, api)),
        "live/looks" => Endpoint::Whole(|api, request, _| endpoints::live::looks(request, api)),
        "live/look" => Endpoint::Posted(|api, request, _| endpoints::live::look(request, api)),
        "live/watch" => Endpoint::Posted(|api, request, _| endpoints::live::watch(request, api)),
        "live/forget" => Endpoint::Posted(|api, request, _| endpoints::live::forget(request, api)),
        "live/open" => Endpoint::Posted(|api, request, _| endpoints::live::open_look(request, api)),
        "live/growth" => Endpoint::InLinesOfApi(endpoints::live::growth),
        "live/tree" => Endpoint::InLinesOfApi(endpoints::live::tree),
        "pprof" => Endpoint::File(endpoints::pprof::file),
        "tree" => Endpoint::InLines(endpoints::tree),
        "saved_page" => Endpoint::InLinesOfApi(saved_page),
        _ => return None,
    })
}

impl Api {
    /// An API for these sources.
    pub fn new(sources: Sources, collector: Option<Box<dyn LiveProcesses>>) -> Self {
        let source_code = SourceCode::default();
        Self {
            sources,
            collector: collector.map(Arc::from),
            source_code,
            looks: Arc::default(),
            look_timers: LookTimers::default(),
            at_work: Mutex::new(0),
            done: Condvar::new(),
        }
    }

    /// The same, with folders in which source files are looked for, and an editor.
    pub fn with_source_code(self, source_code: SourceCode) -> Self {
        Self { source_code, ..self }
    }

    /// Answers a request, with its stacks in the form that the request asks for.
    pub fn answer_to(&self, request: &Request, work: &Work<'_>) -> Answered {
        endpoints::stacks::in_requested_form(request, self.ask(request, work)?)
    }

    /// Answers a request. The stacks of the answer are a table.
    pub fn ask(&self, request: &Request, work: &Work<'_>) -> Answered {
        let answer = self.ask_with_whole_names(request, work)?;
        let name = request.path.strip_prefix(PREFIX).unwrap_or_default();
        match endpoint(name) {
            Some(Endpoint::Whole(_) | Endpoint::Posted(_)) => Ok(answer),
            _ => Ok(endpoints::short_names::added(answer, is_raw(request)?)),
        }
    }

    /// The same without the forms in which names are shown: those of several answers that are shown together are made of all their names.
    pub fn ask_with_whole_names(&self, request: &Request, work: &Work<'_>) -> Answered {
        let name = request.path.strip_prefix(PREFIX).unwrap_or_default();
        match endpoint(name) {
            Some(Endpoint::Whole(answer) | Endpoint::Posted(answer)) => answer(self, request, work),
            Some(Endpoint::InLines(answer)) => answer(request, &RequestChoice::of(request, &self.sources)?, work),
            Some(Endpoint::InLinesOfAll(answer)) => answer(request, &self.sources, work),
            Some(Endpoint::InLinesOfApi(answer)) => answer(self, request, work),
            Some(Endpoint::File(_)) => Err(QueryError::bad("this answer is a file")),
            None => Err(QueryError::Unknown(format!("there is no '{name}' in this API"))),
        }
    }

    /// Waits until fewer than `MOST_AT_WORK` requests are worked on. Fails if the client disconnects meanwhile.
    fn turn(&self, work: &Work<'_>) -> Result<Turn<'_>, QueryError> {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        while *at_work >= MOST_AT_WORK {
            let patience = Duration::from_millis(50);
            let (woken, _) = self.done.wait_timeout(at_work, patience).unwrap_or_else(PoisonError::into_inner);
            at_work = woken;
            work.progress(0.0, "waiting for other questions")?;
        }
        *at_work += 1;
        Ok(Turn(self))
    }

    /// Fails with a one-line message if a source cannot be read.
    pub fn must_be_readable(&self) -> Result<(), String> {
        for source in self.sources.all() {
            source.loaded().map_err(|problem| problem.to_string())?;
        }
        Ok(())
    }

    /// One line for each source that cannot be read, with the reason; and the number of all sources.
    pub fn unreadable(&self) -> (Vec<String>, usize) {
        let all = self.sources.all();
        let problems = all.iter().filter_map(|source| source.loaded().err());
        (problems.map(|problem| problem.to_string()).collect(), all.len())
    }

    /// Fails with a one-line message if a text is not a valid filter.
    pub fn must_be_a_filter(text: &str) -> Result<(), QueryError> {
        text.parse::<Filter>().map(drop)
    }

    /// The time of an instant of a source.
    pub fn time_of(&self, source: usize, when: &When) -> Result<Nanos, QueryError> {
        time_of(&self.sources.get(source)?.loaded()?.history, when)
    }

    /// A page in one file, with the answers for the choice: of one source, or of all.
    pub fn saved_page(&self, choice: &str, source: Option<usize>, work: &Work<'_>) -> Result<String, QueryError> {
        let wanted = save::SavedChoice { choice, source, with_source: false };
        Ok(save::page(self, &wanted, work)?.html)
    }

    /// A page of all sources that also holds source files, and the names of these files.
    pub fn saved_page_with_source(&self, choice: &str, work: &Work<'_>) -> Result<save::SavedPage, QueryError> {
        save::page(self, &save::SavedChoice { choice, source: None, with_source: true }, work)
    }

    fn send_saved(&self, request: &Request, exchange: &mut Exchange) -> io::Result<()> {
        let (choice, source) = choice_to_save(request);
        let name = format!("{}.html", save::file_stem(self, source.unwrap_or(0)));
        let page = while_awaited(exchange, |work| {
            let _turn = self.turn(work)?;
            self.saved_page(choice, source, work)
        });
        match page {
            Ok(page) => {
                let more = format!("Content-Disposition: attachment; filename=\"{name}\"\r\n");
                exchange.whole("200 OK", "text/html; charset=utf-8", &more, page.as_bytes())
            }
            Err(problem) => send_problem(exchange, &problem),
        }
    }

    fn send_file(
        &self,
        request: &Request,
        exchange: &mut Exchange,
        answer: fn(&Api, &Request, &Work<'_>) -> Result<SentFile, QueryError>,
    ) -> io::Result<()> {
        let file = while_awaited(exchange, |work| {
            let _turn = self.turn(work)?;
            answer(self, request, work)
        });
        match file {
            Ok(SentFile { name, kind, bytes }) => {
                let more = format!("Content-Disposition: attachment; filename=\"{name}\"\r\n");
                exchange.whole("200 OK", kind, &more, &bytes)
            }
            Err(problem) => send_problem(exchange, &problem),
        }
    }

    fn send_whole(&self, request: &Request, exchange: &mut Exchange) -> io::Result<()> {
        match while_awaited(exchange, |work| self.answer_to(request, work)) {
            Ok(answer) => exchange.whole("200 OK", "application/json", "", answer.to_string().as_bytes()),
            Err(problem) => send_problem(exchange, &problem),
        }
    }

    fn send_lines(&self, request: &Request, exchange: &mut Exchange) -> io::Result<()> {
        let exchange = Mutex::new(exchange);
        let result = {
            let mut asker = |progress: Option<(f64, &str)>| {
                let mut exchange = exchange.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((part, what)) = progress {
                    let line = json!({ "progress": part, "what": what });
                    if send_line(&mut exchange, &line).is_err() {
                        return false;
                    }
                }
                exchange.is_awaited()
            };
            let work = Work::asked_by(&mut asker);
            self.turn(&work).and_then(|_turn| self.answer_to(request, &work))
        };
        let exchange = exchange.into_inner().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(result) => send_line(exchange, &json!({ "result": endpoints::stacks::saturated(result) }))?,
            Err(problem @ QueryError::Cancelled) => return send_problem(exchange, &problem),
            Err(problem) if !exchange.is_begun() && !problem.is_of_source() => {
                return send_problem(exchange, &problem);
            }
            Err(problem) => send_line(exchange, &json!({ "error": problem_json(&problem) }))?,
        }
        exchange.end()
    }
}

/// The choice that a page is saved for, and its source.
fn choice_to_save(request: &Request) -> (&str, Option<usize>) {
    let choice = request.parameter("view").unwrap_or_default().trim_start_matches('#');
    let chosen = parameters_of(choice).unwrap_or_default();
    // The view of all processes is about none in particular.
    if chosen.iter().any(|(name, value)| name == "view" && value == "processes") {
        return (choice, None);
    }
    let source = chosen.iter().find(|(name, _)| name == "source").and_then(|(_, value)| value.parse().ok());
    (choice, Some(source.unwrap_or(0)))
}

/// `saved_page`: the same as `save`, in lines with the progress.
fn saved_page(api: &Api, request: &Request, work: &Work<'_>) -> Answered {
    let (choice, source) = choice_to_save(request);
    Ok(
        json!({ "file": format!("{}.html", save::file_stem(api, source.unwrap_or(0))), "html": api.saved_page(choice, source, work)? }),
    )
}

/// One of the `MOST_AT_WORK` slots, taken until it is dropped.
struct Turn<'a>(&'a Api);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.at_work.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.done.notify_one();
    }
}

/// Computes an answer that is sent in one piece. Gives up when the client disconnects.
fn while_awaited<T>(
    exchange: &Exchange,
    answer: impl FnOnce(&Work<'_>) -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    let mut asker = |_: Option<(f64, &str)>| exchange.is_awaited();
    answer(&Work::asked_by(&mut asker))
}

/// The last line of an answer in lines that has no result.
fn problem_json(problem: &QueryError) -> Value {
    match problem {
        QueryError::NoMetric(NoMetric { metric, metrics, line }) => {
            json!({ "kind": "no_metric", "metric": metric, "metrics": metrics, "what": line })
        }
        QueryError::TooLarge(line) => json!({ "kind": "too_large", "what": line }),
        other => json!({ "kind": "failed", "what": other.to_string() }),
    }
}

fn send_line(exchange: &mut Exchange, line: &Value) -> io::Result<()> {
    if !exchange.is_begun() {
        exchange.begin("application/x-ndjson")?;
    }
    exchange.chunk(format!("{line}\n").as_bytes())
}

fn send_problem(exchange: &mut Exchange, problem: &QueryError) -> io::Result<()> {
    let status = match problem {
        QueryError::Bad(_) => "400 Bad Request",
        QueryError::Unknown(_) => "404 Not Found",
        QueryError::Failed(_) | QueryError::NoMetric(_) => "500 Internal Server Error",
        QueryError::TooLarge(_) => "507 Insufficient Storage",
        QueryError::Cancelled => return Err(io::ErrorKind::ConnectionAborted.into()),
    };
    exchange.line(status, &problem.to_string())
}

impl Answer for Api {
    fn answer(&self, request: &Request, exchange: &mut Exchange) -> io::Result<()> {
        let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
        let Some(name) = request.path.strip_prefix(PREFIX) else {
            return match page::file(&request.path) {
                Some(_) if !is_read => exchange.not_allowed("GET, HEAD", "the page can only be read"),
                Some((kind, bytes)) => exchange.whole("200 OK", kind, "", bytes),
                None => exchange.line("404 Not Found", "there is nothing here"),
            };
        };
        let endpoint = endpoint(name);
        let is_posted = matches!(endpoint, Some(Endpoint::Posted(_)));
        let is_known = endpoint.is_some() || name == SAVE;
        let is_allowed = if is_posted { request.method == "POST" } else { is_read };
        if is_known && !is_allowed {
            let allowed = if is_posted { "POST" } else { "GET, HEAD" };
            return exchange.not_allowed(allowed, "this question is asked in another way; see docs/api.md");
        }
        match endpoint {
            None if name == SAVE => self.send_saved(request, exchange),
            Some(Endpoint::File(answer)) => self.send_file(request, exchange, answer),
            Some(Endpoint::InLines(_) | Endpoint::InLinesOfAll(_) | Endpoint::InLinesOfApi(_)) => {
                self.send_lines(request, exchange)
            }
            _ => self.send_whole(request, exchange),
        }
    }
}
