//! The ranking of objects that were never dropped, most bytes first.

use super::matcher::Matcher;
use super::survivors::{ObjectAmount, SurvivingObjects};
use super::tally::ObjectTally;
use std::collections::BTreeMap;

/// The key of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectGrouping {
    /// Types.
    #[default]
    Type,
    /// Places, `file:line`.
    Place,
    /// Types, each at each place.
    Both,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRow {
    /// The type, unless rows are places.
    pub type_name: Option<String>,
    /// The place, unless rows are types.
    pub place: Option<String>,
    /// The figures of its objects.
    pub tally: ObjectTally,
    /// Live objects about which the log contradicts itself.
    pub doubtful: ObjectAmount,
}

/// The rows of a log: most never-dropped bytes first, equal ones sorted by name.
pub fn rows(matcher: &Matcher, survivors: &SurvivingObjects, by: ObjectGrouping) -> Vec<ObjectRow> {
    let mut rows: BTreeMap<(Option<String>, Option<String>), (ObjectTally, ObjectAmount)> = BTreeMap::new();
    for (site, tally) in matcher.sites() {
        let type_name = (by != ObjectGrouping::Place).then(|| matcher.type_of(site).into_owned());
        let place = (by != ObjectGrouping::Type).then(|| matcher.place_of(site).into_owned());
        let row = rows.entry((type_name, place)).or_default();
        row.0 += *tally;
        row.1 += survivors.doubtful(site);
    }
    let row = |((type_name, place), (tally, doubtful))| ObjectRow { type_name, place, tally, doubtful };
    let mut rows: Vec<ObjectRow> = rows.into_iter().map(row).collect();
    // Stable: names stay in order.
    rows.sort_by_key(|row| std::cmp::Reverse(row.tally.live_bytes()));
    rows
}
