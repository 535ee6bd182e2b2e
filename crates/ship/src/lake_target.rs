//! A lake as a target.

use crate::target::{Parcel, SendError, ShipTarget};

/// Puts parcels into a lake, one file for each table and day.
pub struct LakeTarget {
    uri: String,
}
