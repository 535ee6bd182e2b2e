//! Lakes: the memory of a fleet. Their figures over time become a source as any other; questions about single processes go to the engine.

use super::file::{FileKind, OpenedFile};
use super::special::{Plain, Special};
use highwater_fleet::label_filter::FleetLabel;
use highwater_fleet::protocol::EngineAnswer;
use highwater_fleet::questions::{FleetInstant, SiteTable};
use highwater_fleet::{
    FleetError, FleetLake, FleetPart, FleetScope, FleetTimeline, ProfileSlots, fleet_timeline, profile,
};
use highwater_input::temporary_file;
use highwater_query::QueryError;
use highwater_store::Recording;
use highwater_store::history::Work;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Opens a lake with its engine; the error is one line for people.
pub type LakeOpener = dyn Fn(&Path) -> Result<FleetLake, String> + Send + Sync;

/// A lake, and the part of it that is shown.
pub struct ViewedFleet {
    lake: FleetLake,
    scope: FleetScope,
    name: String,
}

impl ViewedFleet {
    /// The most instants of a profile and of a timeline, besides the latest.
    pub const BINS: usize = 120;

    /// Opens a lake as a file.
    pub fn open(path: &Path, lake: FleetLake, scope: &FleetScope, work: &Work<'_>) -> Result<OpenedFile, QueryError> {
        let name =
            path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        let fleet = Self { lake, scope: scope.clone(), name };
        let opened = fleet.profile(scope, ProfileSlots::Bins(Self::BINS), &fleet.name, work)?;
        Ok(OpenedFile { special: Box::new(fleet), ..opened })
    }

    /// What the lake is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The part of the lake that is shown.
    pub fn scope(&self) -> &FleetScope {
        &self.scope
    }

    /// The figures of a part of the lake over time.
    pub fn profile(
        &self,
        scope: &FleetScope,
        slots: ProfileSlots,
        title: &str,
        work: &Work<'_>,
    ) -> Result<OpenedFile, QueryError> {
        let made = self.with_part(scope, work, |part| profile(part, slots, title))?;
        let file = temporary_file().map_err(QueryError::failed)?;
        let written = made.write(Path::new(title), file).map_err(QueryError::failed)?;
        let recording = Recording::from_file(written.file).map_err(QueryError::failed)?;
        let (kind, recording) = (FileKind::Fleet, Arc::new(recording));
        Ok(OpenedFile { kind, recording, damage: written.damage, special: Box::new(Plain) })
    }

    /// The total of a part over time, stacked by a label.
    pub fn timeline(
        &self,
        scope: &FleetScope,
        by: FleetLabel,
        top: usize,
        work: &Work<'_>,
    ) -> Result<FleetTimeline, QueryError> {
        self.with_part(scope, work, |part| fleet_timeline(part, by.key(), Self::BINS, top))
    }

    /// The answer to one SQL text, with identities as texts: they have 64 bits, and a page's numbers 53.
    pub fn table(&self, sql: &str, scope: &FleetScope, work: &Work<'_>) -> Result<Value, QueryError> {
        self.table_of(scope, work, |part| part.answer(sql, MOST_ROWS))
    }

    /// The same for a text that has the figures of sites from a table.
    pub fn table_from(
        &self,
        sql: &str,
        scope: &FleetScope,
        table: SiteTable,
        work: &Work<'_>,
    ) -> Result<Value, QueryError> {
        self.table_of(scope, work, |part| part.answer_from(sql, table, MOST_ROWS))
    }

    /// The sites that hold the most at an instant, of which only slots count whose call sites are kept.
    pub fn top(&self, scope: &FleetScope, at: FleetInstant, rows: usize, work: &Work<'_>) -> Result<Value, QueryError> {
        let kept_since = self.lake.sites_kept_since(scope).map_err(QueryError::failed)?;
        let kept = FleetScope { since: kept_since.or(scope.since), ..scope.clone() };
        self.table_of(&kept, work, |part| part.top(at, rows, MOST_ROWS))
    }

    fn table_of(
        &self,
        scope: &FleetScope,
        work: &Work<'_>,
        ask: impl FnOnce(&FleetPart<'_>) -> Result<EngineAnswer, FleetError>,
    ) -> Result<Value, QueryError> {
        let ask = |part: &FleetPart<'_>| Ok((ask(part)?, part.left_out()));
        let (EngineAnswer { columns, mut rows, .. }, left_out) = self.with_part(scope, work, ask)?;
        for (at, _) in columns.iter().enumerate().filter(|(_, column)| column.name.ends_with("_id")) {
            for row in &mut rows {
                if let Some(id) = row.get_mut(at).filter(|id| id.is_i64()) {
                    *id = Value::String(id.to_string());
                }
            }
        }
        Ok(json!({ "columns": columns, "rows": rows, "left_out": left_out }))
    }

    /// The table for a question that sums over time, and its scope: the roll-up by hour where it has the same sums.
    pub fn site_table(&self, scope: &FleetScope) -> Result<(SiteTable, FleetScope), QueryError> {
        self.lake.site_table(scope, false).map_err(QueryError::failed)
    }

    /// The same for a question that fits lines.
    pub fn line_table(&self, scope: &FleetScope) -> Result<(SiteTable, FleetScope), QueryError> {
        self.lake.line_table(scope, false).map_err(QueryError::failed)
    }

    fn with_part<T>(
        &self,
        scope: &FleetScope,
        work: &Work<'_>,
        ask: impl FnOnce(&FleetPart<'_>) -> Result<T, FleetError>,
    ) -> Result<T, QueryError> {
        let progress = |part: Option<(f64, &str)>| match part {
            Some((part, what)) => work.progress(part, what).is_ok(),
            None => work.go_on().is_ok(),
        };
        ask(&FleetPart::new(&self.lake, scope, &progress)).map_err(|error| match error {
            FleetError::Cancelled => QueryError::Cancelled,
            FleetError::TooLarge(line) => QueryError::TooLarge(line),
            other => QueryError::failed(other),
        })
    }
}

/// The most rows of a table.
const MOST_ROWS: u64 = 10_000;

impl Special for ViewedFleet {
    fn fleet(&self) -> Option<&ViewedFleet> {
        Some(self)
    }
}
