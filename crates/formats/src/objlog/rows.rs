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
    /// Variables; objects without one are left out.
    Variable,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRow {
    /// The type, unless rows are places.
    pub type_name: Option<String>,
    /// The place, if rows are places or types at places.
    pub place: Option<String>,
    /// The variable, if rows are variables or types at places and the log names it.
    pub variable: Option<String>,
    /// The figures of its objects.
    pub tally: ObjectTally,
    /// Live objects about which the log contradicts itself.
    pub doubtful: ObjectAmount,
}

/// The rows of a log: most never-dropped bytes first, equal ones sorted by name.
pub fn rows(matcher: &Matcher, survivors: &SurvivingObjects, by: ObjectGrouping) -> Vec<ObjectRow> {
    let mut rows: BTreeMap<[Option<String>; 3], (ObjectTally, ObjectAmount)> = BTreeMap::new();
    for (site, tally) in matcher.sites() {
        let has_variable = matches!(by, ObjectGrouping::Both | ObjectGrouping::Variable);
        let variable = matcher.variable_of(site).filter(|_| has_variable).map(|name| name.into_owned());
        if by == ObjectGrouping::Variable && variable.is_none() {
            continue;
        }
        let type_name = (by != ObjectGrouping::Place).then(|| matcher.type_of(site).into_owned());
        let has_place = matches!(by, ObjectGrouping::Both | ObjectGrouping::Place);
        let place = has_place.then(|| matcher.place_of(site).into_owned());
        let row = rows.entry([type_name, place, variable]).or_default();
        row.0 += *tally;
        row.1 += survivors.doubtful(site);
    }
    let row = |(names, (tally, doubtful)): ([Option<String>; 3], _)| {
        let [type_name, place, variable] = names;
        ObjectRow { type_name, place, variable, tally, doubtful }
    };
    let mut rows: Vec<ObjectRow> = rows.into_iter().map(row).collect();
    // Stable: names stay in order.
    rows.sort_by_key(|row| std::cmp::Reverse(row.tally.live_bytes()));
    rows
}
