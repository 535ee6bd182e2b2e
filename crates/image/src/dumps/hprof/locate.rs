//! Finds the record of an object in the file.

use super::HprofHeap;
use super::bytes::DumpBytes;
use super::catalog::CHECKPOINT_EVERY;
use super::records::{DumpHeader, FieldType, RecordSink, scan, scan_objects};
use crate::damage::Damages;

/// Checkpoints that are tried. Threads that write a dump together may each write objects between those of others.
const TRIED: usize = 16;

/// Looks for one object.
struct Wanted {
    id: u64,
    /// Where its record is, and the identifier of its class if it is an instance.
    found: Option<(u64, u64)>,
    /// The number of objects that are left to look at.
    left: u64,
}

impl Wanted {
    fn meet(&mut self, id: u64, at: u64, class: u64) {
        self.left -= 1;
        if id == self.id && self.found.is_none() {
            self.found = Some((at, class));
        }
    }
}

impl RecordSink for Wanted {
    fn instance(&mut self, id: u64, class: u64, _: &[u8], at: u64) {
        self.meet(id, at, class);
    }

    fn object_array(&mut self, id: u64, _: u64, _: u32, at: u64) {
        self.meet(id, at, 0);
    }

    fn primitive_array(&mut self, id: u64, _: FieldType, _: u32, at: u64) {
        self.meet(id, at, 0);
    }

    fn is_done(&self) -> bool {
        self.found.is_some() || self.left == 0
    }
}

/// Where the record of an object begins, and the identifier of its class if it is an instance. Only the parts of the file are searched that `checkpoints`,
/// sorted by address, point to.
pub(super) fn find_near(
    bytes: &DumpBytes,
    header: DumpHeader,
    checkpoints: &[(u64, u64)],
    id: u64,
) -> Option<(u64, u64)> {
    let after = checkpoints.partition_point(|(address, _)| *address <= id);
    checkpoints[..after].iter().rev().take(TRIED).find_map(|(_, at)| {
        let mut wanted = Wanted { id, found: None, left: CHECKPOINT_EVERY.into() };
        scan_objects(bytes, header, *at, &mut wanted).ok()?;
        wanted.found
    })
}

impl HprofHeap {
    /// Where the record of an instance or array begins.
    pub(super) fn record_of(&self, object: u32) -> Option<u64> {
        let id = self.addresses.address(object)?;
        let near = find_near(&self.bytes, self.header, &self.catalog.checkpoints, id);
        let found = near.or_else(|| {
            let mut wanted = Wanted { id, found: None, left: u64::MAX };
            scan(&self.bytes, self.header, &mut wanted, &mut Damages::default()).ok()?;
            wanted.found
        });
        found.map(|(at, _)| at)
    }
}
