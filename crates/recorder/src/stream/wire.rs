//! A stream: the recording for one client, in the format that it asked for.

use super::outbox::Outbox;
use super::server::ClientSlot;
use super::trace_stream_writer::TraceStreamWriter;
use highwater_model::{Accounts, BlockExtent, Catalog, Source, Step, StepSink};
use highwater_store::StepWriter;
use std::io;
use std::time::{Duration, Instant};

/// The format of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// A `.hw` recording, block by block.
    #[default]
    Highwater,
    /// A trace in the memtrace format of OCaml programs, version 2.
    Memtrace,
}

/// The writer of a stream, by format.
enum StreamWriter {
    Highwater(Box<StepWriter<Outbox>>),
    Memtrace(Box<TraceStreamWriter>),
}

/// The maximum time before collected events are sent.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// How often something is sent while nothing happens: only sending reveals that a client is gone.
const STILL_HERE_EVERY: Duration = Duration::from_secs(2);

/// The number of attempts to find out whether a client that has closed its side is gone, …
const TRIES: u32 = 8;
/// … and the time between them.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// A client, and the writer of its stream.
pub struct Stream {
    writer: StreamWriter,
    outbox: Outbox,
    began: Instant,
    last_flush: Instant,
    last_sent: Instant,
    is_unflushed: bool,
    tries: u32,
    asked_since: Option<Instant>,
    /// The client's slot among the served clients.
    slot: Option<ClientSlot>,
}

/// The result of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamEnd {
    /// Why it could not continue.
    pub failure: Option<String>,
    /// Why the other end did not keep it, in its own words.
    pub refusal: Option<String>,
    /// The other end asked for the end.
    pub was_asked_for: bool,
    /// How long it lasted.
    pub lasted: Duration,
    /// There was a connection.
    pub was_connected: bool,
    /// Bytes that were sent.
    pub sent: u64,
    /// Events that were left out.
    pub left_out: u64,
}

impl Stream {
    /// Begins with the blocks that are live now.
    pub fn begin(
        wire: Wire,
        outbox: Outbox,
        slot: Option<ClientSlot>,
        source: &Source,
        accounts: &Accounts,
        catalog: &Catalog,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let to = outbox.clone();
        let writer = match wire {
            Wire::Highwater => {
                let mut writer = StepWriter::begin(to, source, accounts, catalog)?;
                // A client that connected to us knows itself whether it kept the stream.
                if slot.is_none() {
                    writer.expect_answers()?;
                }
                StreamWriter::Highwater(Box::new(writer))
            }
            Wire::Memtrace => {
                StreamWriter::Memtrace(Box::new(TraceStreamWriter::begin(to, source, accounts, catalog)?))
            }
        };
        Ok(Self {
            writer,
            outbox,
            began: now,
            last_flush: now,
            last_sent: now,
            is_unflushed: true,
            tries: 0,
            asked_since: None,
            slot,
        })
    }

    /// Called after each event. Returns whether [`send`](Self::send) must be called before the next one.
    #[inline]
    pub fn event_done(&mut self, accounts: &Accounts, catalog: &Catalog) -> bool {
        self.is_unflushed = true;
        match &mut self.writer {
            StreamWriter::Highwater(writer) => {
                if writer.is_full() && !self.outbox.has_room_for(writer.is_behind()) {
                    writer.leave_out(accounts);
                }
                // A failure of this write shows at the next `tend`.
                let _ = writer.event_done(accounts, catalog);
                false
            }
            StreamWriter::Memtrace(writer) => writer.is_full(),
        }
    }

    /// Whether the names of all source locations must be known before anything is sent.
    pub fn needs_names(&self) -> bool {
        matches!(&self.writer, StreamWriter::Memtrace(writer) if writer.is_waiting())
    }

    /// The catalog has changed without an event.
    pub fn has_news(&mut self) {
        self.is_unflushed = true;
    }

    /// Puts the collected events into the outbox if there is room, and leaves them out if there is none.
    pub fn send(&mut self, accounts: &Accounts, catalog: &mut Catalog) {
        self.last_flush = Instant::now();
        // If events were left out, it catches up as soon as there is room, even if no more events come.
        self.is_unflushed = !self.outbox.has_room_for(self.is_behind());
        match &mut self.writer {
            StreamWriter::Highwater(writer) if self.is_unflushed => writer.leave_out(accounts),
            StreamWriter::Memtrace(writer) if self.is_unflushed => writer.leave_out(),
            StreamWriter::Highwater(writer) => _ = writer.flush(accounts, catalog),
            StreamWriter::Memtrace(writer) => _ = writer.flush(accounts, catalog),
        }
        if !self.is_unflushed {
            self.last_sent = self.last_flush;
        }
    }

    fn is_behind(&self) -> bool {
        match &self.writer {
            StreamWriter::Highwater(writer) => writer.is_behind(),
            StreamWriter::Memtrace(writer) => writer.is_behind(),
        }
    }

    /// Sends what is due; false if the stream has failed.
    pub fn tend(&mut self, now: Instant, accounts: &Accounts, catalog: &mut Catalog, source: &Source) -> bool {
        if self.outbox.failure().is_some() {
            return false;
        }
        if self.outbox.is_asked_to_end() && self.asked_since.is_none() {
            self.asked_since = Some(now);
        }
        if self.is_unflushed && now - self.last_flush >= FLUSH_EVERY {
            self.send(accounts, catalog);
        } else if now - self.last_sent >= self.still_here_every() && self.outbox.has_room_for(true) {
            self.last_sent = now;
            self.tries += u32::from(self.outbox.is_silent());
            if let (Some(slot), true) = (&self.slot, self.tries >= TRIES && !self.outbox.is_asked_to_end()) {
                slot.presence().set_only_listens();
            }
            match &mut self.writer {
                StreamWriter::Highwater(writer) => _ = writer.still_here(source),
                StreamWriter::Memtrace(writer) => _ = writer.still_here(source.duration, catalog),
            }
        }
        true
    }

    fn still_here_every(&self) -> Duration {
        if self.outbox.is_silent() && self.tries < TRIES { TRY_EVERY } else { STILL_HERE_EVERY }
    }

    /// The time since the other end asked for the end.
    pub fn asked_to_end(&self, now: Instant) -> Option<Duration> {
        self.asked_since.map(|since| now - since)
    }

    /// Completes the stream. The outbox is still being sent: see [`ClosingStream::wait`].
    pub fn finish(self, accounts: &Accounts, catalog: &mut Catalog, source: &Source) -> ClosingStream {
        let ending = self.ending();
        let Self { writer, outbox, .. } = self;
        match writer {
            StreamWriter::Highwater(writer) => _ = writer.finish(accounts, catalog, source),
            StreamWriter::Memtrace(mut writer) => _ = writer.flush(accounts, catalog),
        }
        outbox.end();
        ClosingStream { outbox, ending }
    }

    /// Ends the stream as it is, without completing it.
    pub fn drop_it(self) -> StreamEnd {
        self.outbox.give_up();
        self.ending()
    }

    fn ending(&self) -> StreamEnd {
        StreamEnd {
            failure: self.outbox.failure(),
            refusal: self.outbox.refusal(),
            was_asked_for: self.outbox.is_asked_to_end(),
            lasted: self.began.elapsed(),
            was_connected: self.outbox.is_connected(),
            sent: self.outbox.sent(),
            left_out: match &self.writer {
                StreamWriter::Highwater(writer) => writer.left_out(),
                StreamWriter::Memtrace(writer) => writer.left_out(),
            },
        }
    }
}

impl StepSink for Stream {
    #[inline]
    fn write(&mut self, step: Step, was: BlockExtent) {
        match &mut self.writer {
            StreamWriter::Highwater(writer) => writer.write(step, was),
            StreamWriter::Memtrace(writer) => writer.write(step),
        }
    }
}

/// A stream whose end is still being sent.
pub struct ClosingStream {
    outbox: Outbox,
    ending: StreamEnd,
}

impl ClosingStream {
    /// Whether the client has received everything, or never will.
    pub fn is_done(&self) -> bool {
        self.outbox.is_done()
    }

    /// Waits until the client has taken everything, or takes no more bytes.
    pub fn wait(self, patience: Duration) -> StreamEnd {
        let failure = self.outbox.wait_until_sent(patience).err();
        let (sent, was_connected, refusal) = (self.outbox.sent(), self.outbox.is_connected(), self.outbox.refusal());
        let was_asked_for = self.outbox.is_asked_to_end();
        StreamEnd { failure, sent, was_connected, was_asked_for, refusal, ..self.ending }
    }
}
