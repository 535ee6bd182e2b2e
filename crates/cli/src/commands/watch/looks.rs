//! Takes the snapshots of a watched process.

use crate::failure::Failure;
use crate::live::TakenSnapshot;
use crate::naming::NameArgs;
use highwater_collector::protocol::{CutInfo, Detail};
use highwater_collector::take::SnapshotRequest;
use highwater_collector::{CollectorClient, PageDetail};
use highwater_model::{Naming, RssBreakdown, Snapshot};
use highwater_symbols::Symbolizer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reading pages takes at most this part of the time.
const PAGES_SHARE: u32 = 100;

/// A snapshot of the process, with names.
pub struct Look {
    /// When it was there.
    pub at: Instant,
    /// The snapshot: figures by site and by thread.
    pub snapshot: Snapshot,
    /// How its rows are named.
    pub naming: Arc<Naming>,
    /// How it was made.
    pub cut: CutInfo,
    /// Where the resident memory was when pages were last read.
    pub resident: Option<Arc<RssBreakdown>>,
}

/// Takes looks at one process. It connects anew for each: the collector may come and go.
pub struct Looker {
    client: CollectorClient,
    pid: u32,
    names: NameArgs,
    symbolizer: Symbolizer,
    /// The first look decides: the name of a row does not change while it is watched.
    naming: Option<Arc<Naming>>,
    pages: PagesSeen,
}

impl Looker {
    /// Has not looked yet.
    pub fn new(client: CollectorClient, pid: u32, names: NameArgs, symbolizer: Symbolizer) -> Self {
        Self { client, pid, names, symbolizer, naming: None, pages: PagesSeen::default() }
    }

    /// Takes a look.
    pub fn look(&mut self) -> Result<Look, Failure> {
        let began = Instant::now();
        let pages = self.pages.are_due(began).then_some(PageDetail::Rows);
        let wanted = SnapshotRequest { detail: Detail::Sites, contents: None, pages };
        let taken = self.client.snapshot_with(self.pid, wanted).map_err(Failure::fault)?;
        let TakenSnapshot { snapshot, breakdown, .. } = TakenSnapshot::open(taken.file, &[], &mut self.symbolizer)?;
        self.pages.note(began, &taken.cut, breakdown);
        let naming = match &self.naming {
            Some(naming) => Arc::clone(naming),
            None => Arc::clone(self.naming.insert(Arc::new(self.names.of_snapshot(&snapshot)?))),
        };
        let resident = self.pages.latest.clone();
        Ok(Look { at: Instant::now(), snapshot, naming, cut: taken.cut, resident })
    }
}

/// When pages were last read, and what was found.
#[derive(Default)]
struct PagesSeen {
    latest: Option<Arc<RssBreakdown>>,
    next: Option<Instant>,
}

impl PagesSeen {
    fn are_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Notes the pages of a snapshot, if they were read. Those of a large process are read less often.
    fn note(&mut self, began: Instant, cut: &CutInfo, breakdown: Option<RssBreakdown>) {
        if let Some(breakdown) = breakdown {
            self.latest = Some(Arc::new(breakdown));
            self.next = Some(began + Duration::from_nanos(cut.pages_ns).saturating_mul(PAGES_SHARE));
        } else if !cut.no_pages.is_empty() {
            self.latest = None;
        }
    }
}
