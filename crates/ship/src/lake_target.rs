//! A lake as a target.

use crate::target::{Parcel, SendError, ShipTarget};
use highwater_lake::store::{LakeStore, StoreError, open_store};
use highwater_lake::{Lake, LakeError};
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
        lake.add(&parcel.host, &parcel.batch).map_err(meaning)?;
        Ok(parcel.summary())
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
