//! The identity of a log, among all logs of all processes.

use highwater_model::StoreId;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The identity of the log with this number in this process, after it was cleared this number of times.
///
/// The upper half tells processes apart: random keys, the time and the process id. The id is read each time, since a forked child continues with
/// copies of the logs of its parent. The lower half tells the logs of a process apart.
pub fn store_identity(log: u64, clears: u64) -> StoreId {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    let start = PROCESS.get_or_init(|| RandomState::new().hash_one(SystemTime::now()));
    let process = start ^ u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let own = log << 32 ^ clears;
    StoreId(u128::from(process) << 64 | u128::from(own))
}
