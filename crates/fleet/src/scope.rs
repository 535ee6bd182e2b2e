//! The part of a fleet that a question is about: a span of time, and labels.

use crate::label_filter::{FleetLabel, LabelFilter, condition};

/// A part of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetScope {
    /// The first slot that counts, in seconds since the Unix epoch.
    pub since: Option<i64>,
    /// The first slot that no longer counts.
    pub until: Option<i64>,
    /// Which processes.
    pub labels: Vec<LabelFilter>,
}

/// The relation that a condition is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeOf {
    /// `processes`: has `slot` and containers.
    Processes,
    /// `sites`: has `slot`.
    Sites,
    /// `sites_hour`: has `hour`.
    Hours,
    /// The rows of [`rows`](crate::questions::SiteTable::rows): have `base`.
    Rows,
}

impl FleetScope {
    /// The condition in SQL; `1 = 1` if everything counts.
    pub(crate) fn sql(&self, of: ScopeOf) -> String {
        self.sql_with_containers(of, "processes")
    }

    /// The same with another relation for the containers of processes.
    pub(crate) fn sql_with_containers(&self, of: ScopeOf, containers: &str) -> String {
        let time = match of {
            ScopeOf::Processes | ScopeOf::Sites => "slot",
            ScopeOf::Hours => "hour",
            ScopeOf::Rows => "base",
        };
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.since.map(|since| format!("{time} >= {since}")));
        parts.extend(self.until.map(|until| format!("{time} < {until}")));
        parts.extend(condition(&self.labels, (of != ScopeOf::Processes).then_some(containers)));
        if parts.is_empty() { "1 = 1".into() } else { parts.join(" AND ") }
    }

    /// The condition on the service alone.
    pub(crate) fn service_sql(&self) -> String {
        let of_service = self.labels.iter().filter(|filter| filter.label == FleetLabel::Service);
        condition(&of_service.cloned().collect::<Vec<_>>(), None).unwrap_or_else(|| "1 = 1".into())
    }

    /// The condition on rows of `processes`, in SQL.
    pub fn process_condition(&self) -> String {
        self.sql(ScopeOf::Processes)
    }

    /// The scope in whole hours that contains this one.
    pub fn in_whole_hours(&self) -> Self {
        let down = |time: i64| time - time.rem_euclid(3600);
        Self {
            since: self.since.map(down),
            until: self.until.map(|until| down(until.saturating_add(3599))),
            labels: self.labels.clone(),
        }
    }

    /// The scope in whole hours that lies within this one; `None` if no hour does.
    pub fn inner_hours(&self) -> Option<Self> {
        let down = |time: i64| time - time.rem_euclid(3600);
        let since = self.since.map(|since| down(since.saturating_add(3599)));
        let until = self.until.map(down);
        let is_empty = since.zip(until).is_some_and(|(since, until)| since >= until);
        (!is_empty).then(|| Self { since, until, labels: self.labels.clone() })
    }

    /// Whether an hour, given by its first slot, begins in the scope.
    pub(crate) fn has_hour(&self, hour: i64) -> bool {
        self.since.is_none_or(|since| hour >= since) && self.until.is_none_or(|until| hour < until)
    }

    /// Whether the scope begins and ends at full hours.
    pub fn has_whole_hours(&self) -> bool {
        *self == self.in_whole_hours()
    }
}
