//! The threads of a live process: their numbers in the table, and their names.

use crate::table::{LiveTable, TableExtent};
use highwater_model::ThreadId;
use rustc_hash::FxHashMap;

/// Stands for all threads together. Owns the blocks that were freed before a snapshot: their threads are not known.
pub const ALL_THREADS: (ThreadId, &str) = (ThreadId(0), "(all threads)");
/// Owns the blocks of threads that found no room in the table.
const OTHER_THREADS: (ThreadId, &str) = (ThreadId(1 << 32), "(other threads)");
/// Combined with the number in the table: the id of a thread without a kernel id, which only an invalid table has.
const NO_KERNEL_ID: u64 = 1 << 63;

/// All threads of a process that ever owned a block.
pub struct Threads {
    /// By number in the table.
    ids: Vec<ThreadId>,
    /// By kernel thread id: the latest number in the table. The kernel reuses its ids.
    latest: FxHashMap<u32, u32>,
}

impl Threads {
    /// Reads the threads of a table.
    pub fn read(table: &LiveTable, extent: &TableExtent) -> Self {
        let mut uses: FxHashMap<u32, (u64, u32)> = FxHashMap::default();
        let id_of = |number| {
            if number == 0 {
                return OTHER_THREADS.0;
            }
            let kernel_id = table.thread(number).kernel_id;
            if kernel_id == 0 {
                return ThreadId(NO_KERNEL_ID | u64::from(number));
            }
            let (count, latest) = uses.entry(kernel_id).or_default();
            *latest = number;
            *count += 1;
            ThreadId(u64::from(kernel_id) | (*count - 1) << 32)
        };
        let ids = (0..extent.threads.max(1)).map(id_of).collect();
        Self { ids, latest: uses.into_iter().map(|(id, (_, latest))| (id, latest)).collect() }
    }

    /// A thread's identity.
    pub fn id(&self, number: u32) -> ThreadId {
        self.ids.get(number as usize).copied().unwrap_or(OTHER_THREADS.0)
    }

    /// A thread's name. For a running process, its current name.
    pub fn name(&self, number: u32, table: &LiveTable, running: Option<u32>) -> String {
        if self.id(number) == OTHER_THREADS.0 {
            return OTHER_THREADS.1.to_owned();
        }
        let thread = table.thread(number);
        let is_latest = self.latest.get(&thread.kernel_id) == Some(&number);
        let path = |pid| format!("/proc/{pid}/task/{}/comm", thread.kernel_id);
        let now = running.filter(|_| is_latest).and_then(|pid| std::fs::read(path(pid)).ok());
        now.map_or(thread.name, |name| String::from_utf8_lossy(&name).trim_end().to_owned())
    }
}
