//! The lines that a canister printed, for its controllers.

use crate::candid::CandidValue;
use std::collections::VecDeque;

/// The most bytes that are kept, as on the network: the oldest lines are dropped.
const MOST_BYTES: usize = 4096;

/// The last lines that a canister printed.
#[derive(Debug, Default)]
pub struct CanisterLog {
    lines: VecDeque<(u64, u64, String)>,
    bytes: usize,
    next: u64,
}

impl CanisterLog {
    /// Adds lines that were printed at a time.
    pub fn add(&mut self, lines: &[String], time_ns: u64) {
        for line in lines {
            self.bytes += line.len();
            self.lines.push_back((self.next, time_ns, line.clone()));
            self.next += 1;
        }
        while self.bytes > MOST_BYTES
            && let Some((_, _, line)) = self.lines.pop_front()
        {
            self.bytes -= line.len();
        }
    }

    /// All lines that are kept.
    pub fn value(&self) -> CandidValue {
        let line = |(number, time, line): &(u64, u64, String)| {
            CandidValue::record([
                ("idx", CandidValue::number(*number)),
                ("timestamp_nanos", CandidValue::number(*time)),
                ("content", CandidValue::Blob(line.clone().into_bytes())),
            ])
        };
        CandidValue::record([("canister_log_records", CandidValue::Vec(self.lines.iter().map(line).collect()))])
    }
}
