//! The choice of a request: a source, a window, an instant, a metric, filters.

use crate::http::request::Request;
use crate::sources::{Loaded, Sources};
use highwater_model::{AllocatorName, Naming, Nanos, When, Window};
use highwater_query::{Filter, Metric, Query, QueryError, foreign_filters, learned_wrappers, moment, time_of};
use highwater_store::history::{History, Moment};
use std::sync::Arc;

/// The most filters of one request.
const MOST_FILTERS: usize = 64;
/// The most allocators that one request names.
const MOST_ALLOCATORS: usize = 256;

/// The parameters that most requests share.
#[derive(Clone)]
pub struct RequestChoice {
    /// The source.
    pub loaded: Arc<Loaded>,
    /// What is asked about it.
    pub query: Query,
}

impl RequestChoice {
    /// Reads the parameters that requests share.
    pub fn of(request: &Request, sources: &Sources) -> Result<Self, QueryError> {
        let source = match request.parameter("source") {
            Some(text) => text.parse().map_err(|_| QueryError::Bad(format!("source '{text}' is no number")))?,
            None => 0,
        };
        let loaded = sources.get(source)?.loaded()?;
        let history = Arc::clone(&loaded.history);
        let window = window_of(request, &history)?;
        let filters = foreign_filters_of(request, source, &history, sources)?;
        let at = match request.parameter("at") {
            None | Some("") => history.moment_at(window.to),
            Some(text) => named_moment(&history, window, text)?,
        };
        let metric = request.parameter("metric").map_or(Ok(Metric::default()), parse_metric)?;
        let naming = naming_of(request, &history)?;
        let query = Query { history, window, at, metric, filters, naming };
        query.must_have_metric()?;
        Ok(Self { loaded, query })
    }
}

fn parse_metric(text: &str) -> Result<Metric, QueryError> {
    Metric::ALL.into_iter().find(|metric| metric.key() == text).ok_or_else(|| {
        QueryError::Bad(format!("no metric is called '{text}'; there are: {}", Metric::ALL.map(Metric::key).join(", ")))
    })
}

/// The window of a request.
pub fn window_of(request: &Request, history: &History) -> Result<Window, QueryError> {
    let whole = history.whole();
    let time = |name: &str, missing: Nanos| match request.parameter(name) {
        None | Some("") => Ok(missing),
        Some(text) => named_time(history, text, name),
    };
    let window = Window {
        from: time("from", whole.from)?.clamp(whole.from, whole.to),
        to: time("to", whole.to)?.clamp(whole.from, whole.to),
    };
    if window.from > window.to {
        return Err(QueryError::bad("the window ends before it begins: 'from' must not be greater than 'to'"));
    }
    Ok(window)
}

/// The filters of a request.
pub fn filters_of(request: &Request) -> Result<Vec<Filter>, QueryError> {
    let texts: Vec<&str> = request.all_parameters("filter").collect();
    if texts.len() > MOST_FILTERS {
        return Err(QueryError::Bad(format!("there are {} filters; the limit is {MOST_FILTERS}", texts.len())));
    }
    texts.into_iter().map(str::parse).collect()
}

/// The filters of a request about a source. `filters_of=` names the source whose sites and threads they name, if it is another one.
fn foreign_filters_of(
    request: &Request,
    source: usize,
    history: &History,
    sources: &Sources,
) -> Result<Vec<Filter>, QueryError> {
    let filters = filters_of(request)?;
    match request.parameter("filters_of") {
        None | Some("") => Ok(filters),
        Some(text) => {
            let of = text.parse().map_err(|_| QueryError::Bad(format!("filters_of '{text}' is no number")))?;
            if of == source || filters.is_empty() {
                return Ok(filters);
            }
            foreign_filters(&filters, sources.get(of)?.loaded()?.history.catalog(), history.catalog())
        }
    }
}

/// How the rows of an answer are named: `allocator=` names functions that only pass memory on, `raw_names=1` leaves names as they are.
pub fn naming_of(request: &Request, history: &History) -> Result<Naming, QueryError> {
    if is_raw(request)? {
        return Ok(Naming::raw());
    }
    let names: Vec<&str> = request.all_parameters("allocator").collect();
    if names.len() > MOST_ALLOCATORS {
        return Err(QueryError::Bad(format!("there are {} allocators; the limit is {MOST_ALLOCATORS}", names.len())));
    }
    let allocators: Result<Vec<AllocatorName>, _> = names.into_iter().map(str::parse).collect();
    let allocators = Arc::new(allocators.map_err(QueryError::bad)?.into_iter().collect());
    Ok(Naming { is_raw: false, allocators, learned: learned_wrappers(history)? })
}

/// Whether names are left as they are.
pub fn is_raw(request: &Request) -> Result<bool, QueryError> {
    match request.parameter("raw_names") {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(text) => Err(QueryError::Bad(format!("raw_names={text}: there are 0, 1"))),
    }
}

/// The instant that a text names: nanoseconds, or a [`When`]. `peak` means the peak of the window.
pub fn named_moment(history: &History, window: Window, text: &str) -> Result<Moment, QueryError> {
    match text.parse() {
        Ok(time) => Ok(history.moment_at(Nanos(time))),
        Err(_) => moment(history, window, text.parse().map_err(QueryError::bad)?),
    }
}

/// The time that a text names; `name` is that of its parameter.
pub fn named_time(history: &History, text: &str, name: &str) -> Result<Nanos, QueryError> {
    if let Ok(time) = text.parse() {
        return Ok(Nanos(time));
    }
    let when: When = text.parse().map_err(|problem| QueryError::Bad(format!("{name}: {problem}")))?;
    time_of(history, &when)
}
