//! Deletes days that are older than the lake keeps.

use crate::error::LakeError;
use crate::keys::{Day, HOUR};
use crate::lake::Lake;
use crate::table::Table;
use std::time::Duration;

/// What is left in the store by writers that were killed is removed after this time.
const LEFTOVERS: Duration = Duration::from_secs(24 * 3600);

/// For how long rows are kept.
#[derive(Clone, Copy, Debug)]
pub struct ExpireOptions {
    /// Now, in seconds since the Unix epoch.
    pub now: i64,
    /// Rows of `sites`, in seconds.
    pub minutes: i64,
    /// All other rows, in seconds: those of `sites_hour`, and of `processes`, `stacks` and `frames`, without which it would say little.
    pub hours: i64,
    /// Only count what would be deleted.
    pub dry_run: bool,
}

/// What was deleted of one table and day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredDay {
    /// The table.
    pub table: Table,
    /// The day.
    pub day: Day,
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpireSummary {
    /// By table and day.
    pub days: Vec<ExpiredDay>,
    /// Unfinished files of writers that were killed.
    pub leftovers: u64,
}

/// Deletes whole days whose last second is older than is kept, compacted or not.
pub fn expire(lake: &Lake, options: &ExpireOptions) -> Result<ExpireSummary, LakeError> {
    let store = lake.store();
    let mut summary = ExpireSummary::default();
    for table in Table::ALL {
        let kept = if table == Table::Sites { options.minutes } else { options.hours };
        // Records also hide what a compaction of sites has not completed in the roll-up, so they stay as long as it does.
        let prefixes = [
            (format!("incoming/{table}/"), kept),
            (format!("{table}/"), kept),
            (format!("compaction/{table}/"), options.hours.max(kept)),
        ];
        for (prefix, kept) in prefixes {
            for file in store.list(&prefix)? {
                let day = file.key[prefix.len()..].split('/').next().and_then(|part| part.strip_prefix("day="));
                let Some(day) = day.and_then(Day::parse) else { continue };
                if day.start().saturating_add(24 * HOUR) > options.now.saturating_sub(kept) {
                    continue;
                }
                if !options.dry_run {
                    store.delete(&file.key)?;
                }
                let at = summary.days.iter().position(|one| (one.table, one.day) == (table, day));
                let at = at.unwrap_or_else(|| {
                    summary.days.push(ExpiredDay { table, day, files: 0, bytes: 0 });
                    summary.days.len() - 1
                });
                summary.days[at].files += 1;
                summary.days[at].bytes += file.bytes;
            }
        }
    }
    if !options.dry_run {
        summary.leftovers = store.sweep(LEFTOVERS)?;
    }
    Ok(summary)
}
