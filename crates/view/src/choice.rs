//! The choice of a request: a source, a window, an instant, a metric, filters.

use crate::filter::Filter;
use crate::http::request::Request;
use crate::problem::{NoMetric, Problem};
use crate::sources::{FileKind, Loaded, Moment, Sources};
use highwater_model::{Nanos, When, Window};
use highwater_store::RecordingError;
use std::sync::Arc;

/// The most filters of one request.
const MOST_FILTERS: usize = 64;

/// The figure that is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Blocks that are live at the instant.
    #[default]
    Live,
    /// Blocks that are live where the most bytes are live within the window.
    Peak,
    /// Blocks that were allocated in the window.
    Allocated,
    /// Blocks that were allocated in the window and never freed.
    Leaked,
    /// Blocks that were freed in the window before their thread allocated anything else. Only their number is measured.
    Temporary,
    /// Blocks that were freed in the window.
    Freed,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Live, Self::Peak, Self::Allocated, Self::Leaked, Self::Temporary, Self::Freed];

    /// All metrics that samples can answer.
    const OF_SAMPLES: [Self; 5] = [Self::Live, Self::Peak, Self::Allocated, Self::Leaked, Self::Freed];

    /// The metrics that a source has. A single instant knows only live blocks: of earlier events at most sums are known. Samples do not show
    /// what a thread allocated next.
    pub fn of(loaded: &Loaded) -> &'static [Self] {
        let knows_every_block =
            || loaded.totals().map_or(true, |totals| loaded.source().knows_every_block(&totals.figures));
        match loaded.recording() {
            None => &[Self::Live],
            Some(_) if knows_every_block() => &Self::ALL,
            Some(_) => &Self::OF_SAMPLES,
        }
    }

    /// Its name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Peak => "peak",
            Self::Allocated => "allocated",
            Self::Leaked => "leaked",
            Self::Temporary => "temporary",
            Self::Freed => "freed",
        }
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let known = Self::ALL.into_iter().find(|metric| metric.key() == text);
        known.ok_or_else(|| {
            Problem::Bad(format!("no metric is called '{text}'; there are: {}", Self::ALL.map(Self::key).join(", ")))
        })
    }
}

/// The parameters that most requests share: a source, a window, an instant, a metric and filters.
#[derive(Clone)]
pub struct Choice {
    /// The source.
    pub loaded: Arc<Loaded>,
    /// The window.
    pub window: Window,
    /// The instant.
    pub at: Moment,
    /// The metric.
    pub metric: Metric,
    /// The filters that select blocks.
    pub filters: Vec<Filter>,
    /// The filters as the request wrote them: part of the key under which answers are cached.
    pub filter_texts: Vec<String>,
}

impl Choice {
    /// Reads the parameters that requests share.
    pub fn of(request: &Request, sources: &Sources) -> Result<Self, Problem> {
        let source = match request.parameter("source") {
            Some(text) => text.parse().map_err(|_| Problem::Bad(format!("source '{text}' is no number")))?,
            None => 0,
        };
        let loaded = sources.get(source)?.loaded()?;
        let window = window_of(request, &loaded)?;
        let (filters, filter_texts) = filters_of(request)?;
        let at = match request.parameter("at") {
            None | Some("") => loaded.moment_at(window.to),
            Some(text) => moment(&loaded, window, text)?,
        };
        let metric = request.parameter("metric").map_or(Ok(Metric::default()), Metric::parse)?;
        must_have(&loaded, metric)?;
        Ok(Self { loaded, window, at, metric, filters, filter_texts })
    }

    /// The same with another metric.
    pub fn measuring(&self, metric: Metric) -> Self {
        Self { metric, ..self.clone() }
    }
}

/// The window of a request.
pub fn window_of(request: &Request, loaded: &Loaded) -> Result<Window, Problem> {
    let whole = loaded.whole();
    let time = |name: &str, missing: Nanos| match request.parameter(name) {
        None | Some("") => Ok(missing),
        Some(text) => moment_time(loaded, text, name),
    };
    let window = Window {
        from: time("from", whole.from)?.clamp(whole.from, whole.to),
        to: time("to", whole.to)?.clamp(whole.from, whole.to),
    };
    if window.from > window.to {
        return Err(Problem::bad("the window ends before it begins: 'from' must not be greater than 'to'"));
    }
    Ok(window)
}

/// Fails if a source lacks a metric.
fn must_have(loaded: &Loaded, metric: Metric) -> Result<(), Problem> {
    let has = Metric::of(loaded);
    if has.contains(&metric) {
        return Ok(());
    }
    let what = if loaded.kind == FileKind::Image { "a memory image" } else { "a snapshot" };
    let line = match loaded.recording() {
        Some(_) => "temporary allocations cannot be estimated from samples: what a thread allocated next is not known"
            .to_owned(),
        None => format!("{what} knows one instant only: what is live; it has no metric '{}'", metric.key()),
    };
    let metrics = has.iter().map(|metric| metric.key()).collect();
    Err(Problem::NoMetric(NoMetric { metric: metric.key(), metrics, line }))
}

/// The filters of a request, parsed and as they were written.
pub fn filters_of(request: &Request) -> Result<(Vec<Filter>, Vec<String>), Problem> {
    let texts: Vec<String> = request.all_parameters("filter").map(str::to_owned).collect();
    if texts.len() > MOST_FILTERS {
        return Err(Problem::Bad(format!(
            "there are {} filters; {MOST_FILTERS} at the most are looked at",
            texts.len()
        )));
    }
    let filters = texts.iter().map(|text| Filter::parse(text)).collect::<Result<_, _>>()?;
    Ok((filters, texts))
}

/// The instant that a text names. `peak` means the peak of the window.
pub fn moment(loaded: &Loaded, window: Window, text: &str) -> Result<Moment, Problem> {
    if let Ok(time) = text.parse() {
        return Ok(loaded.moment_at(Nanos(time)));
    }
    let when: When = text.parse().map_err(Problem::bad)?;
    let Some(recording) = loaded.recording() else {
        return match when {
            When::End => Ok(Moment::End),
            other => Err(Problem::Failed(format!("a snapshot knows one instant only; there is no '{other}' in it"))),
        };
    };
    Ok(match when {
        When::Start => Moment::Start,
        When::End => Moment::End,
        When::Peak => Moment::Event(loaded.highest(recording, window)?.event),
        When::At(_) | When::Percent(_) | When::Line(_) => loaded.moment_at(time_of(loaded, &when)?),
        When::Mark(name) => {
            let mark = loaded.marks()?.iter().find(|mark| mark.name == name);
            Moment::Event(mark.ok_or_else(|| Problem::Bad(format!("no mark is named '{name}'")))?.event)
        }
    })
}

/// The time that a text names, for `from` and `to` of a window.
fn moment_time(loaded: &Loaded, text: &str, name: &str) -> Result<Nanos, Problem> {
    if let Ok(time) = text.parse() {
        return Ok(Nanos(time));
    }
    let when: When = text.parse().map_err(|problem| Problem::Bad(format!("{name}: {problem}")))?;
    time_of(loaded, &when)
}

/// The time of an instant.
pub fn time_of(loaded: &Loaded, when: &When) -> Result<Nanos, Problem> {
    if loaded.source().untimed && matches!(when, When::At(_)) {
        return Err(Problem::bad("the log tells no times; an instant of it is a part (50%), line:N or mark:NAME"));
    }
    match loaded.recording() {
        Some(recording) => recording.time_of(when).map_err(|error| match error {
            RecordingError::Io(error) => error.into(),
            other => Problem::bad(other),
        }),
        None => Ok(loaded.whole().to),
    }
}
