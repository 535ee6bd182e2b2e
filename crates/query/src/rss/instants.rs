//! The instants of a history of which the resident memory is known.

use super::answer::RssInstant;
use crate::error::QueryError;
use crate::query::Query;
use highwater_model::{BreakdownReason, NamedInstant, Nanos, RssBreakdown};

/// Which of the known instants is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RssMoment {
    /// That with the highest RSS.
    #[default]
    RssPeak,
    /// The latest one that is not after this time.
    At(Nanos),
}

/// The key of a reason.
pub fn reason_key(reason: BreakdownReason) -> &'static str {
    match reason {
        BreakdownReason::Request => "request",
        BreakdownReason::RssPeak => "rss-peak",
        BreakdownReason::Mark => "mark",
        BreakdownReason::End => "end",
    }
}

/// The instants, for an answer. `marks` are in time order.
pub fn instants(breakdowns: &[RssBreakdown], marks: &[NamedInstant]) -> Vec<RssInstant> {
    // A process is read shortly after its mark.
    let mark_of = |breakdown: &RssBreakdown| {
        let is_mark = breakdown.reason == BreakdownReason::Mark;
        marks.iter().rfind(|mark| is_mark && mark.time <= breakdown.at).map(|mark| mark.name.clone())
    };
    let instant = |breakdown: &RssBreakdown| RssInstant {
        at_ns: breakdown.at.0,
        reason: reason_key(breakdown.reason),
        mark: mark_of(breakdown),
        rss_bytes: breakdown.process.rss,
    };
    breakdowns.iter().map(instant).collect()
}

/// All breakdowns of a query's history. A history without any is an error that says how to get one.
pub fn breakdowns(query: &Query) -> Result<&[RssBreakdown], QueryError> {
    let known = query.history.breakdowns()?;
    if known.is_empty() {
        return Err(QueryError::failed(
            "it does not say where the resident memory was: it was made by an older version, by another tool, or the process could not be read",
        ));
    }
    Ok(known)
}

/// The breakdown that a moment means. An instant before the first one has none.
pub fn choose(breakdowns: &[RssBreakdown], moment: RssMoment) -> Result<&RssBreakdown, QueryError> {
    let found = match moment {
        // The end may be as high as the peak, and then it is the same state.
        RssMoment::RssPeak => breakdowns
            .iter()
            .max_by_key(|breakdown| (breakdown.process.rss, breakdown.reason == BreakdownReason::RssPeak)),
        RssMoment::At(time) => breakdowns.iter().rfind(|breakdown| breakdown.at <= time),
    };
    found.ok_or_else(|| {
        let first = breakdowns.first().map_or(0.0, |breakdown| breakdown.at.0 as f64 / 1e9);
        QueryError::bad(format!("the resident memory is known from {first:.3} s on, not before"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::ProcessMemory;

    fn known() -> Vec<RssBreakdown> {
        let each = |(at, rss)| RssBreakdown {
            at: Nanos(at),
            process: ProcessMemory { rss, ..ProcessMemory::default() },
            ..RssBreakdown::default()
        };
        [(10, 5), (20, 9), (30, 7)].map(each).to_vec()
    }

    #[test]
    fn the_peak_is_the_highest_rss() {
        assert_eq!(choose(&known(), RssMoment::RssPeak).unwrap().at, Nanos(20));
    }

    #[test]
    fn an_instant_has_the_name_of_its_mark() {
        let mut known = known();
        known[1].reason = BreakdownReason::Mark;
        let mark = |time, name: &str| NamedInstant { time: Nanos(time), event: 0, name: name.to_owned() };
        let marks = [mark(5, "early"), mark(19, "warm"), mark(21, "late")];
        let names: Vec<Option<String>> = instants(&known, &marks).into_iter().map(|instant| instant.mark).collect();
        assert_eq!(names, [None, Some("warm".to_owned()), None]);
    }

    #[test]
    fn an_end_that_is_as_high_is_not_shown_for_the_peak() {
        let mut known = known();
        known[1].reason = BreakdownReason::RssPeak;
        (known[2].process.rss, known[2].reason) = (9, BreakdownReason::End);
        assert_eq!(choose(&known, RssMoment::RssPeak).unwrap().at, Nanos(20));
    }

    #[test]
    fn a_time_means_the_latest_instant_that_is_not_after_it() {
        for (time, at) in [(10, 10), (19, 10), (20, 20), (1000, 30)] {
            assert_eq!(choose(&known(), RssMoment::At(Nanos(time))).unwrap().at, Nanos(at));
        }
        assert!(choose(&known(), RssMoment::At(Nanos(9))).is_err());
    }
}
