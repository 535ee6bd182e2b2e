//! Reads a stream to its end, or until the user stops it.

use super::board::{Board, Line};
use super::incoming::{Incoming, Outcome};
use crate::failure::{Failure, reason};
use crate::print::bytes::{bytes, counted};
use highwater_recorder::stream::ReceiverMessage;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes read at a time.
const PIECE: usize = 1 << 16;
/// How often signals are checked.
const NAP: Duration = Duration::from_millis(100);
/// How long a sender may be silent after it was asked to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts how often the user interrupted us.
#[derive(Clone, Debug)]
pub struct Interrupts(Arc<AtomicUsize>);

impl Interrupts {
    /// Starts counting: the first interrupt asks for an orderly end, the second ends at once.
    pub fn catch() -> io::Result<Self> {
        let count = Arc::new(AtomicUsize::new(0));
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let counter = Arc::clone(&count);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            signals.forever().for_each(|_| {
                counter.fetch_add(1, Ordering::Relaxed);
            });
        })?;
        Ok(Self(count))
    }

    /// The number of interrupts so far.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The parameters of receiving a stream.
pub struct Arrival<'a> {
    /// The board that shows its progress.
    pub board: &'a Board,
    /// Its line on the board.
    pub line: &'a Line,
    /// When to ask the sender to end.
    pub deadline: Option<Instant>,
    /// The user's interrupts.
    pub interrupts: &'a Interrupts,
    /// Whether to show the board while waiting.
    pub shows: bool,
}

/// Reads a stream to its end. At the deadline or when the user interrupts, it asks the sender to end, so that the sender still sends its remaining
/// data.
pub fn receive(connection: &mut TcpStream, mut incoming: Incoming, arrival: &Arrival<'_>) -> Result<Outcome, Failure> {
    let cannot_read = |error: &io::Error| Failure::fault(format_args!("cannot read: {}", reason(error)));
    connection.set_read_timeout(Some(NAP)).map_err(|error| cannot_read(&error))?;
    let mut piece = vec![0; PIECE];
    // A sender that does not read must not block us.
    let _ = connection.set_write_timeout(Some(Duration::from_secs(1)));
    let mut asked = None;
    let mut is_greeted = false;
    let mut latest = Instant::now();
    loop {
        let now = Instant::now();
        let wanted_end = arrival.interrupts.count() > 0 || arrival.deadline.is_some_and(|deadline| now >= deadline);
        if wanted_end && asked.is_none() {
            asked = Some(now);
            latest = now;
            let _ = connection.write_all(b"\n");
        }
        if arrival.interrupts.count() > 1 || (asked.is_some() && latest.elapsed() > PATIENCE) {
            return incoming.end(None);
        }
        match connection.read(&mut piece) {
            Ok(0) => return incoming.end(None),
            Ok(count) => {
                latest = Instant::now();
                incoming.take(&piece[..count])?;
                if !is_greeted && incoming.is_kept_for_a_listener() {
                    is_greeted = true;
                    let _ = ReceiverMessage::Receiving.send(&*connection);
                }
                arrival.line.update(incoming.fare());
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The sender is gone; the data received so far is kept.
            Err(error) => return incoming.end(Some(&error)),
        }
        if arrival.shows {
            arrival.board.show();
        }
    }
}

impl Outcome {
    /// The answer to the sender: that the stream is kept, or why not all of it is.
    pub fn answer(&self) -> Result<ReceiverMessage, &'static str> {
        match (self.is_damaged, self.is_complete) {
            (true, _) => Err("it arrived damaged; it is kept as it came"),
            (false, true) => Ok(ReceiverMessage::Kept),
            (false, false) => Err("it was not received to its end; what came until then is kept"),
        }
    }

    /// The outcome, in a line.
    pub fn describe(&self) -> String {
        let fare = &self.fare;
        let file = fare.file.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let about = if fare.is_estimate { "~" } else { "" };
        let mut text = format!(
            "{file}: {} in {}, live {about}{}, peak {about}{}",
            counted(fare.events, "event"),
            bytes(fare.bytes),
            bytes(fare.live_bytes),
            bytes(fare.peak_bytes)
        );
        if fare.dropped > 0 {
            text.push_str(&format!("; {} dropped by the sender", counted(fare.dropped, "event")));
        }
        if self.is_damaged {
            text.push_str("; parts of it are damaged");
        } else if self.cut > 0 {
            text.push_str(&format!("; it broke off, {} of an unfinished part are not kept", bytes(self.cut as u64)));
        } else if !self.is_complete {
            text.push_str("; it broke off, everything until then is kept");
        }
        text
    }
}
