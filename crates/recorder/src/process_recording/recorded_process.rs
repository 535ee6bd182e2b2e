//! Facts about the process that a recording is of.

use crate::resident::RssEvery;
use highwater_model::{Nanos, Source, program_name};
use highwater_session::Stamps;
use std::time::Duration;

/// Facts about the recorded process that the agent does not share.
#[derive(Clone, Debug, Default)]
pub struct RecordedProcess {
    /// The executable.
    pub executable: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The process, as we see it.
    pub pid: u32,
    /// Its parent, 0 if not known.
    pub parent: u32,
    /// It was forked from a process that was recorded, and did not begin with an empty heap.
    pub forked: bool,
    /// It allocated before it was recorded.
    pub late: bool,
    /// The agent reports how much a block can really hold.
    pub usable_sizes: bool,
    /// Mean bytes per sample, if not everything is recorded.
    pub sample_rate: Option<u64>,
    /// A text about the run; empty if there is none.
    pub context: String,
    /// How often the file is flushed: the time span that may be lost if the recorder is killed.
    pub flush_every: Duration,
    /// How often its resident memory is read.
    pub rss_every: RssEvery,
}

impl RecordedProcess {
    /// Whether it may free blocks whose allocation was not recorded.
    pub(super) fn inherits(&self) -> bool {
        self.forked || self.late
    }

    /// The program's display name.
    pub fn name(&self) -> String {
        program_name(self.command.first().map(String::as_str), &self.executable)
    }

    /// The source description with which the recording begins.
    pub(super) fn source(&self, stamps: &Stamps) -> Source {
        Source {
            kind: highwater_model::SourceKind::NATIVE,
            program: self.name(),
            executable: self.executable.clone(),
            pid: self.pid.into(),
            parent_pid: self.parent.into(),
            forked: self.forked,
            command: self.command.clone(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            start_unix_ns: stamps.start_unix_ns(),
            duration: Nanos(0),
            sample_rate: self.sample_rate,
            context: self.context.clone(),
            usable_sizes: self.usable_sizes,
            ..Source::default()
        }
    }
}
