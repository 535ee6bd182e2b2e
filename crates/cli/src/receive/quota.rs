//! Limits the number of streams, and of connections that have not begun one yet.

use crate::failure::Failure;
use crate::print::bytes::counted;
use highwater_recorder::stream::Stranger;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts streams from the moment at which their source is known. A connection that sends nothing does not count.
pub struct Quota {
    /// The number of streams to keep, if that is limited.
    wanted: Option<u64>,
    /// The maximum number of streams at the same time.
    at_once: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    arriving: usize,
    kept: u64,
}

impl Quota {
    /// Accepts streams until `wanted` are kept, at most `at_once` at the same time.
    pub fn new(wanted: Option<u64>, at_once: usize) -> Arc<Self> {
        Arc::new(Self { wanted, at_once, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the wanted number of streams is kept.
    pub fn is_met(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.counts().kept >= wanted)
    }

    /// The number of streams being received.
    pub fn arriving(&self) -> usize {
        self.counts().arriving
    }

    /// Reserves a slot for a stream that begins.
    fn claim(self: &Arc<Self>) -> Result<Claim, Failure> {
        let mut counts = self.counts();
        if counts.arriving >= self.at_once {
            let all = counted(self.at_once as u64, "stream");
            return Err(Failure::fault(format_args!(
                "{all} arrive already, which are all that are taken at once; not kept"
            )));
        }
        if let Some(wanted) = self.wanted
            && counts.kept + counts.arriving as u64 >= wanted
        {
            let line = match wanted {
                1 => "one stream was to be taken (--once), and another one came first; not kept".to_owned(),
                wanted => format!("{wanted} streams were to be taken (--max), and others came first; not kept"),
            };
            return Err(Failure::Fault(line));
        }
        counts.arriving += 1;
        Ok(Claim { quota: Arc::clone(self), is_kept: false })
    }
}

/// A stream's slot in the quota. Dropping it frees the slot, unless the stream was kept.
pub struct Claim {
    quota: Arc<Quota>,
    is_kept: bool,
}

impl Claim {
    /// Counts the stream as kept. Everything about it was reported, so the command may end now.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut counts = self.quota.counts();
        counts.arriving -= 1;
        counts.kept += u64::from(self.is_kept);
    }
}

/// The conditions for a connection to become a stream.
pub struct Admission {
    /// The limit on streams.
    pub quota: Arc<Quota>,
    /// Its slot among the connections that have sent nothing yet.
    pub stranger: Stranger,
}

impl Admission {
    /// Reserves a slot as the stream begins.
    pub fn claim(&self) -> Result<Claim, Failure> {
        self.quota.claim()
    }
}
