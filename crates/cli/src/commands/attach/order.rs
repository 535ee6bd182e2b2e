//! What an agent that keeps a live table is asked to do, and how the collector takes it over.

use crate::attaching::AttachedProcess;
use crate::descendants::StartTime;
use highwater_collector::protocol::ChildOrders;
use highwater_collector::{CollectorClient, CollectorError};
use highwater_shm::attach_v1::{AttachHeader, AttachLayout, FLAG_CONTENTS, FLAG_LIVE, FLAG_NO_ARGS};
use highwater_shm::session_v1::Capacity;
use highwater_shm::table_v1::TableCapacity;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// How to attach to a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveOrder {
    /// Mean bytes per sample, 0 for every block.
    pub sample_bytes: u64,
    /// The process's arguments are not to be read.
    pub no_args: bool,
    /// The contents of its blocks may be read.
    pub contents: bool,
    /// The longest that threads may be stopped while blocks from before are read; 0 leaves these unknown.
    pub pause: Duration,
}

impl LiveOrder {
    /// Layouts of the memory object, the largest first.
    pub(super) fn layouts() -> Vec<AttachLayout> {
        let sizes = Capacity::LIVE_CHOICES.into_iter().zip(TableCapacity::CHOICES);
        sizes.map(|(session, table)| AttachLayout::for_live(session, table)).collect()
    }

    /// Completes what the agent finds when it begins.
    pub(super) fn configure(&self) -> impl FnMut(&mut AttachHeader) + use<> {
        let flags = [(self.no_args, FLAG_NO_ARGS), (self.contents, FLAG_CONTENTS)];
        let flags = flags.iter().filter(|(wanted, _)| *wanted).fold(FLAG_LIVE, |flags, (_, flag)| flags | flag);
        let sample_bytes = self.sample_bytes;
        move |header| {
            header.sample_bytes = sample_bytes;
            header.flags |= flags;
        }
    }

    /// The same for the children that a process starts since a moment.
    pub(super) fn for_children(&self, since: StartTime) -> ChildOrders {
        ChildOrders {
            since: since.0,
            sample_bytes: self.sample_bytes,
            no_args: self.no_args,
            contents: self.contents,
            pause_ns: u64::try_from(self.pause.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

impl From<ChildOrders> for LiveOrder {
    fn from(orders: ChildOrders) -> Self {
        let ChildOrders { sample_bytes, no_args, contents, pause_ns, .. } = orders;
        Self { sample_bytes, no_args, contents, pause: Duration::from_nanos(pause_ns) }
    }
}

/// The collector becomes the reader of an agent.
pub(super) fn hand_over(
    attached: &AttachedProcess,
    children: Option<ChildOrders>,
    socket: &Path,
) -> Result<(), CollectorError> {
    let object = attached.attached.object.as_fd();
    CollectorClient::connect(socket)
        .and_then(|mut client| client.attach(attached.pid(), attached.layout, children, object))
}
