//! The questions: each renders one SQL text, from the files in `sql/`, which is the same for all engines.
//!
//! A text has places in braces, such as `{processes}`, which rendering fills with conditions, numbers and rows. What comes from users is a number or a
//! literal. Integers are summed first and divided last, and every `ORDER BY` ends with unique keys, so all engines give the same
//! answer to the last bit.

use crate::label_filter::FleetLabel;
use crate::literal;
use crate::scope::{FleetScope, ScopeOf};
use crate::slot_choice::SETTLING;

const TOP: &str = include_str!("../sql/top.sql");
const SLOT: &str = include_str!("../sql/slot.sql");
const GROWTH: &str = include_str!("../sql/growth.sql");
const GROWTH_SITES: &str = include_str!("../sql/growth_sites.sql");
const GROWTH_HOSTS: &str = include_str!("../sql/growth_hosts.sql");
const LEAKS: &str = include_str!("../sql/leaks.sql");
const DIFF: &str = include_str!("../sql/diff.sql");
const PROCESSES: &str = include_str!("../sql/processes.sql");
const TIMELINE: &str = include_str!("../sql/timeline.sql");

/// Fills the places of a text. A place is filled once: what is filled in may have braces.
pub(crate) fn filled(template: &str, places: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (name, behind) = after.split_once('}').expect("a place of our own text ends");
        let (_, value) = places.iter().find(|(place, _)| *place == name).expect("a place of our own text is known");
        text.push_str(value);
        rest = behind;
    }
    text.push_str(rest);
    text
}

/// The most rows as a clause; 0 for all.
fn limit(top: usize) -> String {
    if top == 0 { String::new() } else { format!("LIMIT {top}") }
}

/// The table that has the figures of sites for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteTable {
    /// `sites`: a row per slot.
    Minutes,
    /// `sites_hour`: a row per hour. Files that are not yet compacted have only slots, and are added.
    Hours,
    /// `sites_hour` for the hours that lie within the scope, `sites` for the slots before and after them.
    Edges,
}

impl SiteTable {
    /// The table's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minutes => "sites",
            Self::Hours => "sites_hour",
            Self::Edges => "sites_hour, sites",
        }
    }

    /// Rows of a scope with sums that can be added: n slots, bytes, blocks, and the sums for slopes over the time since `base`. Blocks whose square has more than 63 bits are
    /// null, so that no product of them is beyond what engines count with.
    fn rows(self, scope: &FleetScope) -> String {
        let slots = |table: &str, condition: &str| {
            format!(
                "SELECT service, version, region, host, pid, process_id, stack_id, site_id, sample_period, slot AS base, CAST(1 AS BIGINT) AS n, \
                 live_bytes AS bytes, CASE WHEN live_blocks < 3000000000 THEN live_blocks END AS blocks, CAST(0 AS BIGINT) AS sx, CAST(0 AS BIGINT) AS sxx, \
                 CAST(0 AS BIGINT) AS sxy, CASE WHEN live_blocks < 3000000000 THEN live_blocks * live_blocks END AS syy FROM {table} WHERE {condition}"
            )
        };
        let hours = |scope: &FleetScope| {
            format!(
                "SELECT service, version, region, host, pid, process_id, stack_id, site_id, sample_period, hour AS base, n, sum_bytes AS bytes, \
                 CASE WHEN syy IS NULL THEN NULL ELSE sum_blocks END AS blocks, sx, sxx, sxy, syy FROM sites_hour WHERE {}",
                scope.sql(ScopeOf::Hours)
            )
        };
        let all = scope.sql(ScopeOf::Sites);
        match (self, scope.inner_hours()) {
            (Self::Hours, _) => format!("{} UNION ALL {}", hours(scope), slots("sites_incoming", &all)),
            (Self::Edges, Some(inner)) => {
                let before = inner.since.map(|since| format!("slot < {since}"));
                let after = inner.until.map(|until| format!("slot >= {until}"));
                let ends: Vec<String> = before.into_iter().chain(after).collect();
                let ends = if ends.is_empty() { "1 = 0".to_owned() } else { ends.join(" OR ") };
                format!(
                    "{} UNION ALL {} UNION ALL {}",
                    hours(&inner),
                    slots("sites_compacted", &format!("{all} AND ({ends})")),
                    slots("sites_incoming", &all)
                )
            }
            (Self::Minutes | Self::Edges, _) => slots("sites", &all),
        }
    }
}

/// The instant of a [top](top_sql).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FleetInstant {
    /// The slot in which all chosen processes together held the most.
    #[default]
    Peak,
    /// The latest slot that most processes have already sent: at least 90 % of those in the fullest of the last ten slots, or of the last ten minutes if that is more.
    Latest,
    /// The last slot at or before a time, in seconds since the Unix epoch.
    At(i64),
}

impl FleetInstant {
    /// A `SELECT` of one slot from `total`, which has `slot`, `fleet_bytes` and `fleet_processes`.
    pub fn sql(self) -> String {
        match self {
            Self::Peak => "SELECT slot FROM total ORDER BY fleet_bytes DESC, slot LIMIT 1".into(),
            Self::Latest => {
                // The first of the last ten slots, or of the last ten minutes if that is earlier.
                let first = format!(
                    "(SELECT CASE WHEN min(slot) <= max(slot) - {SETTLING} THEN min(slot) ELSE max(slot) - {SETTLING} + 1 END \
                     FROM (SELECT slot FROM total ORDER BY slot DESC LIMIT 10) r)"
                );
                format!(
                    "SELECT max(slot) AS slot FROM total WHERE slot >= {first} \
                     AND fleet_processes * 10 >= 9 * (SELECT max(fleet_processes) FROM total WHERE slot >= {first})"
                )
            }
            Self::At(time) => format!("SELECT max(slot) AS slot FROM total WHERE slot <= {time}"),
        }
    }
}

/// The slot of an instant.
pub(crate) fn slot_sql(scope: &FleetScope, at: FleetInstant) -> String {
    let processes = scope.sql(ScopeOf::Processes);
    filled(SLOT, &[("processes", &processes), ("at", &at.sql())])
}

/// Which call sites hold the most at one instant?
pub fn top_sql(scope: &FleetScope, at: FleetInstant, top: usize) -> String {
    let (processes, sites) = (scope.sql(ScopeOf::Processes), scope.sql(ScopeOf::Sites));
    filled(TOP, &[("processes", &processes), ("sites", &sites), ("at", &at.sql()), ("limit", &limit(top))])
}

/// The versions that growth compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VersionPair {
    /// Of each service the two that appeared last: whose first process started last. Slots do not say it: at the first slot of a scope several versions run.
    #[default]
    Latest,
    /// Two given ones: the old and the new.
    Given(String, String),
}

impl VersionPair {
    fn sql(&self) -> String {
        match self {
            Self::Latest => {
                "SELECT service, max(CASE WHEN place = 2 THEN version END) AS from_version, max(CASE WHEN place = 1 THEN version END) AS to_version \
                 FROM (SELECT service, version, row_number() OVER (PARTITION BY service ORDER BY first_start DESC, first_slot DESC, last_slot DESC, version DESC) AS place \
                 FROM (SELECT service, version, min(start) AS first_start, min(slot) AS first_slot, max(slot) AS last_slot FROM chosen WHERE version <> '' GROUP BY service, version) v) w \
                 WHERE place <= 2 GROUP BY service HAVING count(*) = 2"
                    .into()
            }
            Self::Given(old, new) => format!(
                "SELECT service, {} AS from_version, {} AS to_version FROM chosen GROUP BY service",
                literal::text(old),
                literal::text(new)
            ),
        }
    }
}

/// Which call sites hold more in a version than in the one before it?
pub fn growth_sql(
    scope: &FleetScope,
    table: SiteTable,
    versions: &VersionPair,
    is_by_host: bool,
    top: usize,
) -> String {
    let (mut processes, mut rows) = (scope.sql(ScopeOf::Processes), table.rows(scope));
    if let VersionPair::Given(old, new) = versions {
        let only = format!("version IN ({}, {})", literal::text(old), literal::text(new));
        processes = format!("{processes} AND {only}");
        rows = format!("SELECT service, version, host, site_id, bytes, sample_period FROM ({rows}) v WHERE {only}");
    }
    let answer = filled(if is_by_host { GROWTH_HOSTS } else { GROWTH_SITES }, &[("limit", &limit(top))]);
    let versions = versions.sql();
    filled(GROWTH, &[("processes", &processes), ("versions", &versions), ("rows", &rows), ("growth", &answer)])
}

/// What counts as a leak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeakRule {
    /// The number of slots that a process and a stack must have.
    pub slots: u64,
    /// The least part of the variance that the line explains.
    pub r2: f64,
    /// The least growth, in blocks an hour.
    pub blocks_per_hour: f64,
}

impl Default for LeakRule {
    fn default() -> Self {
        Self { slots: 30, r2: 0.9, blocks_per_hour: 60.0 }
    }
}

/// Which call sites grow in a straight line?
pub fn leaks_sql(scope: &FleetScope, table: SiteTable, rule: LeakRule, top: usize) -> String {
    let (processes, rows) = (scope.sql(ScopeOf::Processes), table.rows(scope));
    let (slots, r2) = (rule.slots.max(2).to_string(), literal::double(rule.r2));
    let rate = literal::double(rule.blocks_per_hour);
    // A row of one slot has no sums within it: adding zeros to 128 million rows takes a fifth of the time.
    let (sx, sxx, sxy) = match table {
        SiteTable::Minutes => {
            ("r.base - p.first", "(r.base - p.first) * (r.base - p.first)", "(r.base - p.first) * r.blocks")
        }
        SiteTable::Hours | SiteTable::Edges => (
            "r.sx + r.n * (r.base - p.first)",
            "r.sxx + 2 * (r.base - p.first) * r.sx + r.n * (r.base - p.first) * (r.base - p.first)",
            "r.sxy + (r.base - p.first) * r.blocks",
        ),
    };
    filled(
        LEAKS,
        &[
            ("processes", &processes),
            ("rows", &rows),
            ("slots", &slots),
            ("r2", &r2),
            ("rate", &rate),
            ("sx", sx),
            ("sxx", sxx),
            ("sxy", sxy),
            ("limit", &limit(top)),
        ],
    )
}

/// How do two parts of the fleet differ? What both have in common is in `scope`.
pub fn diff_sql(scope: &FleetScope, a: &FleetScope, b: &FleetScope, table: SiteTable, top: usize) -> String {
    let names_services = |part: &FleetScope| part.labels.iter().any(|filter| filter.label == FleetLabel::Service);
    let is_by_service = !names_services(a) && !names_services(b);
    let (service, group, group_runs) =
        if is_by_service { ("service", "service, ", " GROUP BY service") } else { ("''", "", "") };
    // Both parts in one condition, so that what is in neither is not read.
    let both = |of| format!("{} AND (({}) OR ({}))", scope.sql(of), a.sql(of), b.sql(of));
    let rows = format!(
        "SELECT service, version, region, host, pid, process_id, site_id, sample_period, base, bytes FROM ({}) t WHERE ({}) OR ({})",
        table.rows(&joint(scope, a, b)),
        a.sql(ScopeOf::Rows),
        b.sql(ScopeOf::Rows)
    );
    filled(
        DIFF,
        &[
            ("service", service),
            ("group", group),
            ("group_runs", group_runs),
            ("processes", &both(ScopeOf::Processes)),
            ("processes_a", &a.sql(ScopeOf::Processes)),
            ("processes_b", &b.sql(ScopeOf::Processes)),
            ("rows", &rows),
            ("rows_a", &a.sql(ScopeOf::Rows)),
            ("rows_b", &b.sql(ScopeOf::Rows)),
            ("limit", &limit(top)),
        ],
    )
}

/// The scope that two parts have in common, with a span of time that contains both.
pub fn joint(scope: &FleetScope, a: &FleetScope, b: &FleetScope) -> FleetScope {
    let earliest = a.since.zip(b.since).map(|(a, b)| a.min(b));
    let latest = a.until.zip(b.until).map(|(a, b)| a.max(b));
    let since = [scope.since, earliest].into_iter().flatten().max();
    let until = [scope.until, latest].into_iter().flatten().min();
    FleetScope { since, until, labels: scope.labels.clone() }
}

/// The order of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessOrder {
    /// The fastest growth first.
    #[default]
    Slope,
    /// The most live bytes first.
    Live,
    /// The largest resident set first.
    Rss,
    /// The shortest time to the limit first.
    Limit,
}

impl ProcessOrder {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Slope, Self::Live, Self::Rss, Self::Limit];

    /// Its name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Self::Slope => "slope",
            Self::Live => "live",
            Self::Rss => "rss",
            Self::Limit => "limit",
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Self::Slope => "bytes_per_hour DESC",
            Self::Live => "live_bytes DESC",
            // Engines differ in where unknown values go.
            Self::Rss => "coalesce(rss_bytes, -1) DESC",
            Self::Limit => "coalesce(hours_to_limit, 1e300) ASC",
        }
    }
}

/// How fast does each process grow?
pub fn processes_sql(scope: &FleetScope, order: ProcessOrder, slots: u64, top: usize) -> String {
    let (processes, slots) = (scope.sql(ScopeOf::Processes), slots.max(1).to_string());
    filled(PROCESSES, &[("processes", &processes), ("slots", &slots), ("order", order.sql()), ("limit", &limit(top))])
}

/// What did each group hold over time? `by` is a label with text values.
pub fn timeline_sql(scope: &FleetScope, by: FleetLabel, buckets: u32) -> String {
    let by = if by == FleetLabel::Process { "CAST(process_id AS STRING)" } else { by.key() };
    let (processes, buckets) = (scope.sql(ScopeOf::Processes), buckets.max(1).to_string());
    filled(TIMELINE, &[("processes", &processes), ("by", by), ("buckets", &buckets)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_filled_and_no_user_text_is_a_place() {
        let scope = FleetScope { since: Some(1), until: Some(2), labels: vec!["host={limit}'".parse().unwrap()] };
        let versions = VersionPair::Given("{at}".into(), "b".into());
        for sql in [
            top_sql(&scope, FleetInstant::Latest, 5),
            growth_sql(&scope, SiteTable::Hours, &versions, false, 0),
            growth_sql(&scope, SiteTable::Minutes, &VersionPair::Latest, true, 0),
            leaks_sql(&scope, SiteTable::Hours, LeakRule::default(), 5),
            leaks_sql(&scope, SiteTable::Edges, LeakRule::default(), 5),
            diff_sql(&scope, &scope, &scope, SiteTable::Minutes, 5),
            processes_sql(&scope, ProcessOrder::Limit, 3, 5),
            timeline_sql(&scope, FleetLabel::Region, 60),
        ] {
            assert!(sql.contains("('{limit}' || chr(39))"), "{sql}");
            let without = sql.replace("'{limit}'", "").replace("'{at}'", "");
            assert!(
                !without.lines().filter(|line| !line.starts_with("--")).any(|line| line.contains(['{', '}'])),
                "{sql}"
            );
        }
    }

    #[test]
    fn the_joint_span_contains_both_parts() {
        let part = |since, until| FleetScope { since, until, labels: Vec::new() };
        let all = FleetScope::default();
        assert_eq!(joint(&all, &part(Some(5), Some(9)), &part(Some(1), Some(3))), part(Some(1), Some(9)));
        assert_eq!(joint(&all, &part(Some(5), None), &part(None, Some(3))), part(None, None));
        assert_eq!(joint(&part(Some(2), None), &part(Some(1), None), &part(Some(3), None)), part(Some(2), None));
    }
}
