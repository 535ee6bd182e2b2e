//! A stream: what one client gets, in the form that it asked for.

use super::outbox::Outbox;
use super::server::Place;
use super::trace_pen::TracePen;
use highwater_model::{Accounts, Catalog, Extent, Scribe, Source, Step};
use highwater_store::Pen;
use std::io;
use std::time::{Duration, Instant};

/// What is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// A `.hw` recording, block by block.
    #[default]
    Highwater,
    /// A trace in the memtrace format of OCaml programs, version 2.
    Memtrace,
}

/// Who writes it.
enum Pens {
    Highwater(Box<Pen<Outbox>>),
    Memtrace(Box<TracePen>),
}

/// How long something may wait before it is sent.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// How long nothing is sent where nothing happens. A client that is gone is found out by sending something.
const STILL_HERE_EVERY: Duration = Duration::from_secs(2);

/// How often it is tried whether a client is gone that has closed its side, …
const TRIES: u32 = 8;
/// … and how long is waited in between.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// A client, and what it gets.
pub struct Stream {
    pen: Pens,
    outbox: Outbox,
    began: Instant,
    last_flush: Instant,
    last_sent: Instant,
    is_unflushed: bool,
    tries: u32,
    asked_since: Option<Instant>,
    /// The client's place among those that are served.
    place: Option<Place>,
}

/// How a stream ended.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Why it could not go on.
    pub failure: Option<String>,
    /// Why the other end did not keep it, in its own words.
    pub refusal: Option<String>,
    /// The other end wanted no more.
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
    /// Begins with what is live now.
    pub fn begin(
        wire: Wire,
        outbox: Outbox,
        place: Option<Place>,
        source: &Source,
        accounts: &Accounts,
        catalog: &Catalog,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let to = outbox.clone();
        let pen = match wire {
            Wire::Highwater => {
                let mut pen = Pen::begin(to, source, accounts, catalog)?;
                // A client that came for the stream knows itself whether it kept it.
                if place.is_none() {
                    pen.expect_answers()?;
                }
                Pens::Highwater(Box::new(pen))
            }
            Wire::Memtrace => Pens::Memtrace(Box::new(TracePen::begin(to, source, accounts, catalog)?)),
        };
        Ok(Self {
            pen,
            outbox,
            began: now,
            last_flush: now,
            last_sent: now,
            is_unflushed: true,
            tries: 0,
            asked_since: None,
            place,
        })
    }

    /// After each event. Whether [`send`](Self::send) must be called before the next one.
    #[inline]
    pub fn event_done(&mut self, accounts: &Accounts, catalog: &Catalog) -> bool {
        self.is_unflushed = true;
        match &mut self.pen {
            Pens::Highwater(pen) => {
                if pen.is_full() && !self.outbox.has_room_for(pen.is_behind()) {
                    pen.leave_out(accounts);
                }
                // Whether that could be written shows at the next look.
                let _ = pen.event_done(accounts, catalog);
                false
            }
            Pens::Memtrace(pen) => pen.is_full(),
        }
    }

    /// Whether the names of all places must be known before anything is sent.
    pub fn needs_names(&self) -> bool {
        matches!(&self.pen, Pens::Memtrace(pen) if pen.is_waiting())
    }

    /// Something became known that is no event.
    pub fn has_news(&mut self) {
        self.is_unflushed = true;
    }

    /// Puts what was collected into the outbox if there is room, and leaves it out if there is none.
    pub fn send(&mut self, accounts: &Accounts, catalog: &mut Catalog) {
        self.last_flush = Instant::now();
        // Where it is behind it catches up as soon as there is room, even if nothing happens any more.
        self.is_unflushed = !self.outbox.has_room_for(self.is_behind());
        match &mut self.pen {
            Pens::Highwater(pen) if self.is_unflushed => pen.leave_out(accounts),
            Pens::Memtrace(pen) if self.is_unflushed => pen.leave_out(),
            Pens::Highwater(pen) => _ = pen.flush(accounts, catalog),
            Pens::Memtrace(pen) => _ = pen.flush(accounts, catalog),
        }
        if !self.is_unflushed {
            self.last_sent = self.last_flush;
        }
    }

    fn is_behind(&self) -> bool {
        match &self.pen {
            Pens::Highwater(pen) => pen.is_behind(),
            Pens::Memtrace(pen) => pen.is_behind(),
        }
    }

    /// Sends what is due; false when it has failed.
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
            if let (Some(place), true) = (&self.place, self.tries >= TRIES && !self.outbox.is_asked_to_end()) {
                place.presence().set_only_listens();
            }
            match &mut self.pen {
                Pens::Highwater(pen) => _ = pen.still_here(source),
                Pens::Memtrace(pen) => _ = pen.still_here(source.duration, catalog),
            }
        }
        true
    }

    fn still_here_every(&self) -> Duration {
        if self.outbox.is_silent() && self.tries < TRIES { TRY_EVERY } else { STILL_HERE_EVERY }
    }

    /// For how long the other end has wanted no more.
    pub fn asked_to_end(&self, now: Instant) -> Option<Duration> {
        self.asked_since.map(|since| now - since)
    }

    /// Completes the stream. What is in the outbox is still being sent: see [`Closing::wait`].
    pub fn finish(self, accounts: &Accounts, catalog: &mut Catalog, source: &Source) -> Closing {
        let ending = self.ending();
        let Self { pen, outbox, .. } = self;
        match pen {
            Pens::Highwater(pen) => _ = pen.finish(accounts, catalog, source),
            Pens::Memtrace(mut pen) => _ = pen.flush(accounts, catalog),
        }
        outbox.end();
        Closing { outbox, ending }
    }

    /// Ends it as it is.
    pub fn drop_it(self) -> Ending {
        self.outbox.give_up();
        self.ending()
    }

    fn ending(&self) -> Ending {
        Ending {
            failure: self.outbox.failure(),
            refusal: self.outbox.refusal(),
            was_asked_for: self.outbox.is_asked_to_end(),
            lasted: self.began.elapsed(),
            was_connected: self.outbox.is_connected(),
            sent: self.outbox.sent(),
            left_out: match &self.pen {
                Pens::Highwater(pen) => pen.left_out(),
                Pens::Memtrace(pen) => pen.left_out(),
            },
        }
    }
}

impl Scribe for Stream {
    #[inline]
    fn write(&mut self, step: Step, was: Extent) {
        match &mut self.pen {
            Pens::Highwater(pen) => pen.write(step, was),
            Pens::Memtrace(pen) => pen.write(step),
        }
    }
}

/// A stream whose end is still being sent.
pub struct Closing {
    outbox: Outbox,
    ending: Ending,
}

impl Closing {
    /// Whether the client has everything, or will never have it.
    pub fn is_done(&self) -> bool {
        self.outbox.is_done()
    }

    /// Waits until the client has taken everything, or takes nothing any more.
    pub fn wait(self, patience: Duration) -> Ending {
        let failure = self.outbox.wait_until_sent(patience).err();
        let (sent, was_connected, refusal) = (self.outbox.sent(), self.outbox.is_connected(), self.outbox.refusal());
        let was_asked_for = self.outbox.is_asked_to_end();
        Ending { failure, sent, was_connected, was_asked_for, refusal, ..self.ending }
    }
}
