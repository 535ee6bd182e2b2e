//! How much memory rows take.

use crate::parquet::LakeRow;
use crate::rows::LakeProcess;
use std::collections::HashSet;
use std::sync::Arc;

/// Weighs rows that are in memory together. Rows share their processes: each is counted once, with its labels, which may be long.
#[derive(Default)]
pub struct RowWeights {
    processes: HashSet<usize>,
    last: usize,
}

impl RowWeights {
    /// The bytes that a row adds to the others.
    pub fn of<R: LakeRow>(&mut self, row: &R) -> u64 {
        let mut weight = row.weight();
        if let Some(process) = row.process() {
            // The address is that of no other process while the row is in memory.
            let address = Arc::as_ptr(process).addr();
            if self.last != address {
                self.last = address;
                if self.processes.insert(address) {
                    weight += bytes_of(process);
                }
            }
        }
        weight as u64
    }

    /// The rows are no longer in memory.
    pub fn clear(&mut self) {
        self.processes.clear();
        self.last = 0;
    }
}

/// With its entry in the set.
fn bytes_of(process: &LakeProcess) -> usize {
    let labels = &process.labels;
    let texts = [&labels.service, &labels.version, &labels.region, &labels.host, &labels.container];
    size_of::<LakeProcess>() + 2 * size_of::<usize>() + texts.iter().map(|text| text.len()).sum::<usize>()
}
