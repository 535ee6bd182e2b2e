//! Several questions about one part of a fleet, asked while a client waits.

use crate::error::FleetError;
use crate::fleet_lake::{FleetAnswer, FleetLake};
use crate::protocol::EngineAnswer;
use crate::questions::{FleetInstant, SiteTable, filled};
use crate::scope::{FleetScope, ScopeOf};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Reports progress from 0 to 1, or only asks; false once no client waits any more.
pub type PartProgress<'a> = dyn Fn(Option<(f64, &str)>) -> bool + 'a;

/// A part of a fleet that is asked about.
pub struct FleetPart<'a> {
    lake: &'a FleetLake,
    scope: &'a FleetScope,
    progress: &'a PartProgress<'a>,
    left_out: RefCell<BTreeSet<String>>,
}

impl<'a> FleetPart<'a> {
    /// A part of the fleet of a lake.
    pub fn new(lake: &'a FleetLake, scope: &'a FleetScope, progress: &'a PartProgress<'a>) -> Self {
        Self { lake, scope, progress, left_out: RefCell::default() }
    }

    /// Reports progress, and fails once no client waits any more.
    pub(crate) fn progress(&self, part: f64, what: &str) -> Result<(), FleetError> {
        if (self.progress)(Some((part, what))) { Ok(()) } else { Err(FleetError::Cancelled) }
    }

    /// The answer to one of our texts, with its places filled. `{processes}` and `{sites}` are the conditions of the scope.
    pub(crate) fn ask(&self, text: &str, places: &[(&str, &str)], max_rows: u64) -> Result<EngineAnswer, FleetError> {
        self.answer(&self.filled(text, places), max_rows)
    }

    fn filled(&self, text: &str, places: &[(&str, &str)]) -> String {
        let (processes, sites) = (self.scope.sql(ScopeOf::Processes), self.scope.sql(ScopeOf::Sites));
        let mut all = vec![("processes", processes.as_str()), ("sites", sites.as_str())];
        all.extend_from_slice(places);
        filled(text, &all)
    }

    fn noted(&self, found: FleetAnswer) -> Result<EngineAnswer, FleetError> {
        self.left_out.borrow_mut().extend(found.left_out);
        Ok(found.answer)
    }

    /// The same for a text that takes from `sites` only rows of some slots.
    pub(crate) fn ask_slots(
        &self,
        text: &str,
        places: &[(&str, &str)],
        slots: &[i64],
        max_rows: u64,
    ) -> Result<EngineAnswer, FleetError> {
        let sql = self.filled(text, places);
        let go_on = || (self.progress)(None);
        self.noted(self.lake.ask_slots(&sql, self.scope, slots, max_rows, &go_on)?)
    }

    /// The answer to a text.
    pub fn answer(&self, sql: &str, max_rows: u64) -> Result<EngineAnswer, FleetError> {
        self.noted(self.lake.ask(sql, self.scope, max_rows, &|| (self.progress)(None))?)
    }

    /// The same for a text that has the figures of sites from a table.
    pub fn answer_from(&self, sql: &str, table: SiteTable, max_rows: u64) -> Result<EngineAnswer, FleetError> {
        self.noted(self.lake.ask_sites(sql, self.scope, table, max_rows, &|| (self.progress)(None))?)
    }

    /// Which call sites hold the most at one instant?
    pub fn top(&self, at: FleetInstant, top: usize, max_rows: u64) -> Result<EngineAnswer, FleetError> {
        self.noted(self.lake.top(self.scope, at, top, max_rows, &|| (self.progress)(None))?)
    }

    /// The first slot whose call sites are kept, if the part begins before it.
    pub(crate) fn sites_kept_since(&self) -> Result<Option<i64>, FleetError> {
        self.lake.sites_kept_since(self.scope)
    }

    /// Why there are no rows.
    pub(crate) fn empty(&self) -> FleetError {
        self.lake.days().map_or_else(|error| error, |days| FleetError::Empty { days })
    }

    /// The files that could not be used in any answer, each with the reason.
    pub fn left_out(&self) -> Vec<String> {
        self.left_out.borrow().iter().cloned().collect()
    }
}
