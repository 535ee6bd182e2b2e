//! How many streams are taken, and connections that have not begun one yet.

use crate::failure::Failure;
use crate::print::bytes::counted;
use highwater_recorder::stream::Stranger;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts streams from the moment at which it is known whose memory they are. A connection that says nothing counts for nothing.
pub struct Quota {
    /// How many are to be kept, if that is limited.
    wanted: Option<u64>,
    /// How many may arrive at once.
    at_once: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    arriving: usize,
    kept: u64,
}

impl Quota {
    /// Takes streams until `wanted` are kept, `at_once` of them at the same time.
    pub fn new(wanted: Option<u64>, at_once: usize) -> Arc<Self> {
        Arc::new(Self { wanted, at_once, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether as many are kept as were wanted.
    pub fn is_met(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.counts().kept >= wanted)
    }

    /// How many are arriving.
    pub fn arriving(&self) -> usize {
        self.counts().arriving
    }

    /// A place for a stream that begins.
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

/// A stream's part of the quota, free for another one when it is dropped unless the stream was kept.
pub struct Claim {
    quota: Arc<Quota>,
    is_kept: bool,
}

impl Claim {
    /// The stream was kept, and all was said about it: the command may end now.
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

/// What a connection needs to become a stream.
pub struct Admission {
    /// How many are taken.
    pub quota: Arc<Quota>,
    /// Its place among the connections that have sent nothing yet.
    pub stranger: Stranger,
}

impl Admission {
    /// The stream begins.
    pub fn claim(&self) -> Result<Claim, Failure> {
        self.quota.claim()
    }
}
