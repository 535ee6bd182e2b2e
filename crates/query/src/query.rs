//! What a question is about: a history, a window, an instant, a metric, filters.

use crate::error::{NoMetric, QueryError};
use crate::filter::Filter;
use highwater_model::groups::Metric;
use highwater_model::{Certainty, Clock, Naming, Nanos, Source, When, Window};
use highwater_store::RecordingError;
use highwater_store::history::{History, Moment};
use std::sync::Arc;

/// What a question is about.
#[derive(Clone)]
pub struct Query {
    /// The recording or snapshot.
    pub history: Arc<History>,
    /// The window.
    pub window: Window,
    /// The instant.
    pub at: Moment,
    /// The metric.
    pub metric: Metric,
    /// The filters that select blocks: all must pass.
    pub filters: Vec<Filter>,
    /// How rows are named.
    pub naming: Naming,
}

impl Query {
    /// All memory of a history, live at its end.
    pub fn new(history: Arc<History>) -> Self {
        let window = history.whole();
        Self { history, window, at: Moment::End, metric: Metric::Live, filters: Vec::new(), naming: Naming::default() }
    }

    /// The same with another metric.
    pub fn measuring(&self, metric: Metric) -> Self {
        Self { metric, ..self.clone() }
    }

    /// See [`Source::has_site_types`].
    pub fn has_site_types(&self) -> bool {
        self.history.source().has_site_types(self.history.catalog())
    }

    /// Whether figures are estimates with a known uncertainty.
    pub fn is_sampled(&self) -> bool {
        Certainty::of(self.history.source()).is_some_and(|certainty| !certainty.is_exact())
    }

    /// Fails if the history lacks the metric.
    pub fn must_have_metric(&self) -> Result<(), QueryError> {
        let (history, metric) = (&self.history, self.metric);
        let has = metrics_of(history);
        if has.contains(&metric) {
            return self.must_have_window();
        }
        if history.source().known.is_some() {
            let line = format!("the profile has no figures for the metric '{}'", metric.key());
            let metrics = has.iter().map(|metric| metric.key()).collect();
            return Err(QueryError::NoMetric(NoMetric { metric: metric.key(), metrics, line }));
        }
        let what = if history.source().kind.is_object_graph() { "a memory image" } else { "a snapshot" };
        let line = match history.recording() {
            Some(_) => {
                "temporary allocations cannot be estimated from samples: what a thread allocated next is not known"
                    .to_owned()
            }
            None => format!("{what} knows one instant only: what is live; it has no metric '{}'", metric.key()),
        };
        let metrics = has.iter().map(|metric| metric.key()).collect();
        Err(QueryError::NoMetric(NoMetric { metric: metric.key(), metrics, line }))
    }
}

impl Query {
    /// Fails if the metric counts events of a window, and the history has states only: its counters are known at the end.
    fn must_have_window(&self) -> Result<(), QueryError> {
        let is_counted = !matches!(self.metric, Metric::Live | Metric::Peak | Metric::OwnPeak);
        if self.history.source().is_states() && is_counted && self.window != self.history.whole() {
            return Err(QueryError::failed(
                "the file has states at several instants, and not what happened between them",
            ));
        }
        Ok(())
    }
}

/// The metrics that a history has. A single instant knows only live blocks: of earlier events at most sums are known. Samples do not show what a thread
/// allocated next.
pub fn metrics_of(history: &History) -> Vec<Metric> {
    let totals = history.totals().unwrap_or_default();
    Metric::ALL.into_iter().filter(|metric| history.source().knows(*metric, &totals.figures)).collect()
}

/// The instant that a [`When`] names. `peak` means the peak of the window.
pub fn moment(history: &History, window: Window, when: When) -> Result<Moment, QueryError> {
    let Some(recording) = history.recording() else {
        return match when {
            When::End => Ok(Moment::End),
            other => Err(QueryError::Failed(format!("a snapshot knows one instant only; there is no '{other}' in it"))),
        };
    };
    Ok(match when {
        When::Start => Moment::Start,
        When::End => Moment::End,
        When::Peak => Moment::Event(history.peak(recording, window)?.event),
        When::At(_) | When::Percent(_) | When::Line(_) | When::RssPeak => history.moment_at(time_of(history, &when)?),
        When::Mark(name) => {
            let mark = history.marks()?.iter().find(|mark| mark.name == name);
            Moment::Event(mark.ok_or_else(|| QueryError::Bad(format!("no mark is named '{name}'")))?.event)
        }
    })
}

/// Why a source without times has no instant of a time.
pub fn no_times(source: &Source) -> String {
    match source.clock {
        Clock::Lines | Clock::Time => {
            "the log has no times; an instant of it is a part (50%), line:N or mark:NAME".to_owned()
        }
        clock => {
            let (one, several) = clock.unit();
            format!("the file counts {several} instead of time; an instant of it is a part (50%) or {one}:N")
        }
    }
}

/// The time of an instant.
pub fn time_of(history: &History, when: &When) -> Result<Nanos, QueryError> {
    if history.source().is_untimed() && matches!(when, When::At(_)) {
        return Err(QueryError::bad(no_times(history.source())));
    }
    match history.recording() {
        Some(recording) => recording.time_of(when).map_err(|error| match error {
            RecordingError::Io(error) => error.into(),
            other => QueryError::bad(other),
        }),
        None => Ok(history.whole().to),
    }
}
