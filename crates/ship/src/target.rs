//! Where batches go.

use crate::lake_target::LakeTarget;
use crate::profile_store::{AUTHORIZATION_VARIABLE, Authorization, ProfileStoreTarget, ProfileStoreUrl};
use highwater_lake::rows::Batch;
use std::path::PathBuf;
use std::time::Duration;

/// Rows that are sent together.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Sixteen hexadecimal digits. A parcel that is sent again has the same id and the same rows.
    pub id: String,
    /// The host of the shipper.
    pub host: String,
    /// The first slot.
    pub first_slot: i64,
    /// The rows: of one slot, or of several.
    pub batch: Batch,
    /// Parcels of this spool have reached the target before. If it is not there now it is away, and no new one is made in its place.
    pub is_target_known: bool,
}

impl Parcel {
    /// What is in it, in a line.
    pub fn summary(&self) -> String {
        let mut slots: Vec<i64> = self.batch.processes.iter().map(|row| row.slot).collect();
        slots.dedup();
        let Batch { processes, sites, stacks, .. } = &self.batch;
        let [slots, processes, sites, stacks] = [
            (slots.len(), "slot"),
            (processes.len(), "process row"),
            (sites.len(), "site row"),
            (stacks.len(), "new stack"),
        ]
        .map(|(count, what)| {
            format!("{} {what}{}", highwater_model::grouped(count as u64), if count == 1 { "" } else { "s" })
        });
        format!("sent {slots}: {processes}, {sites}, {stacks}")
    }
}

/// Why a parcel was not sent. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The target cannot be reached now, or is too busy: the parcel is sent again.
    #[error("{reason}")]
    Away {
        /// Why.
        reason: String,
        /// When the target wants to be asked again, if it says so.
        retry_after: Option<Duration>,
    },
    /// The target refuses everything until its user changes something, such as a key. The parcel is sent again, seldom.
    #[error("{0}")]
    Refused(String),
    /// The target will never take this parcel: it is dropped and counted.
    #[error("{0}")]
    Unacceptable(String),
}

/// Something that takes rows. It is called on a thread of its own and may wait, but not for ever.
///
/// The shipper keeps each parcel on disk until `send` has returned `Ok`, and calls it again with the same parcel after a failure or a restart. So a target needs
/// neither a queue nor retries. It should take a parcel that it has seen before as one that it already has.
pub trait ShipTarget: Send {
    /// The target as the user named it.
    fn name(&self) -> &str;

    /// Sends a parcel. `Ok` is a line for the user, or an empty text.
    fn send(&mut self, parcel: &Parcel) -> Result<String, SendError>;

    /// Whether each slot is a parcel of its own, and has all stacks and frames of its rows. Otherwise several slots are sent together, and a stack is sent once a day.
    fn wants_whole_slots(&self) -> bool {
        false
    }
}

/// What a target of the network may need beside its address.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    /// The tenant of a store that has several.
    pub tenant: Option<String>,
    /// A file whose first line is the value of the field `Authorization`; instead of the variable [`AUTHORIZATION_VARIABLE`].
    pub authorization_file: Option<PathBuf>,
}

/// The target that a user names: a folder, or the URL of a store. The scheme says which kind it is.
pub fn open_target(uri: &str, options: TargetOptions) -> Result<Box<dyn ShipTarget>, SendError> {
    if !ProfileStoreUrl::is_meant(uri) {
        return Ok(Box::new(LakeTarget::new(uri)?));
    }
    let refused = |error: &dyn std::error::Error| SendError::Refused(error.to_string());
    let url = uri.parse::<ProfileStoreUrl>().map_err(|error| refused(&error))?;
    let authorization = match options.authorization_file {
        Some(file) => Authorization::File(file),
        None => {
            let value = std::env::var(AUTHORIZATION_VARIABLE).ok();
            Authorization::from_variable(value).map_err(|error| refused(&error))?
        }
    };
    let target = ProfileStoreTarget::new(url, options.tenant, authorization).map_err(|error| refused(&error))?;
    Ok(Box::new(target))
}
