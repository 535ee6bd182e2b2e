//! A lake as a target.

use crate::target::{Parcel, SendError, ShipTarget};
use highwater_lake::store::{LakeStore, StoreError, open_store};
use highwater_lake::{ImpossibleRows, Lake, LakeError, possible_rows};
use std::sync::Arc;

/// Puts parcels into a lake: one file for each table and hour. Their names have a hash of the content, so a parcel that is sent again changes nothing.
pub struct LakeTarget {
    store: Arc<dyn LakeStore>,
}

impl LakeTarget {
    /// The lake at a folder or `s3://bucket/prefix`. It is made when the first parcel is sent, and never again: a folder without it is one that is not mounted.
    pub fn new(uri: &str) -> Result<Self, SendError> {
        open_store(uri).map(|store| Self { store }).map_err(|error| meaning(error.into()))
    }
}

impl ShipTarget for LakeTarget {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn send(&mut self, parcel: &Parcel) -> Result<String, SendError> {
        // Each time: the store may have been away.
        let store = Arc::clone(&self.store);
        let lake = match parcel.is_target_known {
            true => Lake::open(store).map_err(|error| match error {
                LakeError::NoLake(name) => SendError::Away {
                    reason: format!(
                        "{name}: its lake.json is gone: is it mounted? To make a new lake there, delete the file 'target' in the spool"
                    ),
                    retry_after: None,
                },
                other => meaning(other),
            })?,
            false => Lake::create_or_open(store).map_err(meaning)?,
        };
        match lake.add(&parcel.host, &parcel.batch) {
            // The others of the parcel are those of other processes and slots.
            Err(LakeError::Rows(problem)) => {
                let (batch, left_out) = possible_rows(&parcel.batch);
                let left_out = left_out.ok_or_else(|| SendError::Unacceptable(LakeError::Rows(problem).to_string()))?;
                lake.add(&parcel.host, &batch).map_err(meaning)?;
                let ImpossibleRows { count, table, problem } = left_out;
                let rows = if count == 1 { "1 row is".to_owned() } else { format!("{count} rows are") };
                let sent = Parcel { batch, ..parcel.clone() };
                Ok(format!("{rows} not taken, such as one of '{table}': {problem}; {}", sent.summary()))
            }
            added => added.map(|_| parcel.summary()).map_err(meaning),
        }
    }
}

fn meaning(error: LakeError) -> SendError {
    let line = error.to_string();
    match error {
        LakeError::Rows(_) => SendError::Unacceptable(line),
        LakeError::Store(StoreError::Refused(_)) | LakeError::Newer { .. } | LakeError::Senseless { .. } => {
            SendError::Refused(line)
        }
        _ => SendError::Away { reason: line, retry_after: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_lake::rows::{Batch, LakeProcess, ProcessRow, SiteRow};
    use highwater_lake::{SlotRange, Table};

    #[test]
    fn one_impossible_row_takes_no_other_with_it() {
        let folder = std::env::temp_dir().join(format!("highwater-impossible-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut batch = Batch::default();
        for (process_id, live_bytes) in [(1, 640), (2, -1), (3, 64)] {
            let process = Arc::new(LakeProcess { process_id, ..LakeProcess::default() });
            let (slot, sample_period, live_blocks) = (60, 0, 1);
            let of_site = Arc::clone(&process);
            batch.processes.push(ProcessRow {
                slot,
                process,
                sample_period,
                live_bytes,
                live_blocks,
                rss_bytes: None,
                limit_bytes: None,
            });
            batch.sites.push(SiteRow {
                slot,
                process: of_site,
                stack_id: 1,
                site_id: 1,
                sample_period,
                live_bytes,
                live_blocks,
                alloc_bytes: None,
                alloc_blocks: None,
            });
        }
        let mut target = LakeTarget::new(folder.to_str().unwrap()).unwrap();
        let parcel =
            Parcel { id: "00".to_owned(), host: "h".to_owned(), first_slot: 60, batch, is_target_known: false };
        let line = target.send(&parcel).unwrap();
        assert_eq!(
            line,
            "2 rows are not taken, such as one of 'processes': column 'live_bytes' has the impossible value -1; \
             sent 1 slot: 2 process rows, 2 site rows, 0 new stacks"
        );
        let lake = Lake::open(Arc::clone(&target.store)).unwrap();
        for file in lake.files(Table::Sites, SlotRange::ALL).unwrap().incoming {
            let rows = lake.read::<SiteRow>(&file).unwrap().all_rows(10).unwrap();
            assert_eq!(rows.iter().map(|row| row.process.process_id).collect::<Vec<_>>(), [1, 3]);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
