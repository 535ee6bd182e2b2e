//! The ranking of objects that were never dropped, most bytes first.

use super::matcher::Matcher;
use super::survivors::{Amount, Survivors};
use super::tally::Tally;
use std::collections::BTreeMap;

/// The key of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
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
pub struct Row {
    /// The type, unless rows are places.
    pub type_name: Option<String>,
    /// The place, unless rows are types.
    pub place: Option<String>,
    /// The figures of its objects.
    pub tally: Tally,
    /// Live objects about which the log contradicts itself.
    pub doubtful: Amount,
}

/// The rows of a log: most never-dropped bytes first, equal ones sorted by name.
pub fn rows(matcher: &Matcher, survivors: &Survivors, by: By) -> Vec<Row> {
    let mut rows: BTreeMap<(Option<String>, Option<String>), (Tally, Amount)> = BTreeMap::new();
    for (site, tally) in matcher.sites() {
        let type_name = (by != By::Place).then(|| matcher.type_of(site).into_owned());
        let place = (by != By::Type).then(|| matcher.place_of(site).into_owned());
        let row = rows.entry((type_name, place)).or_default();
        row.0 += *tally;
        row.1 += survivors.doubtful(site);
    }
    let row = |((type_name, place), (tally, doubtful))| Row { type_name, place, tally, doubtful };
    let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
    // Stable: names stay in order.
    rows.sort_by_key(|row| std::cmp::Reverse(row.tally.live_bytes()));
    rows
}
