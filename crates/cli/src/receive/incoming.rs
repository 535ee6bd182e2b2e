//! One incoming stream.

use super::packets::Packets;
use super::quota::{Admission, Claim};
use super::target::Target;
use crate::failure::{Failure, reason};
use highwater_input::recognize;
use highwater_model::Source;
use highwater_store::Follower;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// The number of bytes that identify the format.
const TELLING: usize = 6;
/// The stream must name its source within this number of bytes.
const MOST_WITHOUT_SOURCE: usize = 1 << 20;
/// The number of bytes that are shown of an unrecognised answer.
const LONGEST_WORDS: usize = 512;
/// The start of our own refusals, which go to a client to whom we send no stream.
const OUR_WORDS: &[u8] = b"highwater: ";

/// The progress of a stream.
#[derive(Clone, Debug, Default)]
pub struct Fare {
    /// The file it is written to, once there is one.
    pub file: Option<PathBuf>,
    /// Bytes received.
    pub bytes: u64,
    /// Events received.
    pub events: u64,
    /// Bytes live now.
    pub live_bytes: u64,
    /// The highest number of live bytes.
    pub peak_bytes: u64,
    /// Events that the sender dropped.
    pub dropped: u64,
    /// Whether these figures are estimates.
    pub is_estimate: bool,
}

/// The result of a stream that has ended.
pub struct Outcome {
    /// Its progress at the end.
    pub fare: Fare,
    /// Whether the stream ended in order, as far as the data shows.
    pub is_complete: bool,
    /// Bytes at the end that were not a complete block or packet, and are not in the file.
    pub cut: usize,
    /// Whether bytes were received that are not blocks or packets; they are in the file.
    pub is_damaged: bool,
    /// Its share of the quota, where there is one.
    pub claim: Option<Claim>,
}

/// A stream, and its format once that is known.
pub struct Incoming {
    target: Arc<Target>,
    /// `None` once the stream has begun.
    admission: Option<Admission>,
    claim: Option<Claim>,
    kind: Kind,
    file: Option<(PathBuf, File)>,
    /// The number of bytes written to the file.
    written: u64,
    /// Complete blocks or packets that are not written yet.
    whole: Vec<u8>,
    bytes: u64,
}

enum Kind {
    /// Not known yet.
    Unknown(Vec<u8>),
    /// A recording.
    Recording(Box<Follower>),
    /// A memtrace trace.
    Memtrace(Box<Packets>),
}

impl Incoming {
    /// A stream of which nothing has been received yet.
    pub fn new(target: Arc<Target>) -> Self {
        let kind = Kind::Unknown(Vec::new());
        Self { target, admission: None, claim: None, kind, file: None, written: 0, whole: Vec::new(), bytes: 0 }
    }

    /// The same, for a listener that limits the number of streams.
    pub fn with_admission(target: Arc<Target>, admission: Admission) -> Self {
        Self { admission: Some(admission), ..Self::new(target) }
    }

    /// Whether the sender expects an answer that says that its stream is being kept.
    pub fn is_kept_for_a_listener(&self) -> bool {
        self.file.is_some() && matches!(&self.kind, Kind::Recording(follower) if follower.followed().expects_answers)
    }

    /// Processes received bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        if let Kind::Unknown(first) = &mut self.kind {
            first.extend_from_slice(bytes);
            if first.len() < TELLING || may_be_words(first) {
                return Ok(());
            }
            let first = std::mem::take(first);
            self.kind = stream_of(&first).ok_or_else(|| unknown(&first))?;
            return self.pass_on(&first);
        }
        self.pass_on(bytes)
    }

    fn pass_on(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let taken = match &mut self.kind {
            Kind::Unknown(_) => Ok(()),
            Kind::Recording(follower) => follower.take(bytes, &mut self.whole).map_err(Failure::fault),
            Kind::Memtrace(packets) => packets.take(bytes, &mut self.whole).map_err(Failure::fault),
        };
        // Complete blocks before the fault are kept.
        self.write_whole().and(taken)
    }

    fn write_whole(&mut self) -> Result<(), Failure> {
        if self.file.is_none() {
            let Some(source) = self.source() else { return self.wait_for_source() };
            let ending = if matches!(self.kind, Kind::Memtrace(_)) { "ctf" } else { "hw" };
            self.claim = self.admission.as_ref().map(Admission::claim).transpose()?;
            self.admission = None;
            self.file = Some(self.target.create(&source, ending)?);
        }
        if let Some((path, file)) = &mut self.file
            && let Err(error) = file.write_all(&self.whole)
        {
            // Removes the partial write, so that the file stays readable.
            let _ = file.set_len(self.written);
            return Err(Failure::in_file(path, format_args!("cannot be written: {}", reason(&error))));
        }
        self.written += self.whole.len() as u64;
        self.whole.clear();
        Ok(())
    }

    fn source(&self) -> Option<Source> {
        match &self.kind {
            Kind::Unknown(_) => None,
            Kind::Recording(follower) => follower.followed().source.clone(),
            Kind::Memtrace(packets) => packets.source(),
        }
    }

    fn wait_for_source(&self) -> Result<(), Failure> {
        if self.bytes > MOST_WITHOUT_SOURCE as u64 {
            return Err(Failure::fault("it does not say whose memory it is; not kept"));
        }
        Ok(())
    }

    /// The progress so far.
    pub fn fare(&self) -> Fare {
        let file = self.file.as_ref().map(|(path, _)| path.clone());
        let fare = Fare { file, bytes: self.bytes, ..Fare::default() };
        match &self.kind {
            Kind::Unknown(_) => fare,
            Kind::Recording(follower) => {
                let followed = follower.followed();
                Fare {
                    events: followed.events,
                    live_bytes: followed.live_bytes,
                    peak_bytes: followed.peak_bytes,
                    dropped: followed.dropped,
                    is_estimate: followed.source.as_ref().is_some_and(|source| source.sample_rate.is_some()),
                    ..fare
                }
            }
            Kind::Memtrace(packets) => {
                let figures = &packets.totals().figures;
                Fare {
                    events: packets.events(),
                    live_bytes: figures.live_bytes(),
                    peak_bytes: figures.peak_bytes,
                    is_estimate: figures.is_estimate(),
                    ..fare
                }
            }
        }
    }

    /// Ends the stream, perhaps because the connection broke. Fails if nothing usable was received.
    pub fn end(self, broken: Option<&io::Error>) -> Result<Outcome, Failure> {
        let because = broken.map_or_else(String::new, |error| format!(" ({})", reason(error).to_lowercase()));
        let fare = self.fare();
        if self.admission.as_ref().is_some_and(|admission| admission.stranger.was_dismissed()) {
            return Err(Failure::fault("it sent nothing for too long, and newer connections took its place"));
        }
        let (is_complete, cut, is_damaged) = match &self.kind {
            Kind::Unknown(first) if first.is_empty() => {
                return Err(Failure::fault(format_args!("nothing was sent{because}; not kept")));
            }
            Kind::Unknown(first) => return Err(unknown(first)),
            Kind::Recording(follower) => {
                let followed = follower.followed();
                (followed.complete, follower.pending(), followed.is_damaged)
            }
            // A trace has no end marker: it is complete if its last packet is.
            Kind::Memtrace(packets) => (packets.pending() == 0, packets.pending(), packets.is_damaged()),
        };
        if fare.file.is_none() {
            let line = format_args!("it broke off before it said whose memory it is{because}; not kept");
            return Err(Failure::fault(line));
        }
        Ok(Outcome { fare, is_complete, cut, is_damaged, claim: self.claim })
    }
}

/// Detects the format. Of all readable formats these two can be received, because each of their parts is complete in itself.
fn stream_of(first: &[u8]) -> Option<Kind> {
    match recognize(first)?.key() {
        "hw" => Some(Kind::Recording(Box::default())),
        "memtrace" => Some(Kind::Memtrace(Box::default())),
        _ => None,
    }
}

/// True for an unfinished line of text: a server that refuses says why, and its message may arrive in pieces.
fn may_be_words(first: &[u8]) -> bool {
    stream_of(first).is_none() && first.len() < LONGEST_WORDS && is_text(first)
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| byte >= b' ' && byte != 0x7f || byte == b'\t')
}

/// The error for a stream that is not a recording: its own message, if it has one.
fn unknown(first: &[u8]) -> Failure {
    let line = first.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    if let Some(words) = line.strip_prefix(OUR_WORDS) {
        return Failure::fault(format_args!("refused: {}", String::from_utf8_lossy(words)));
    }
    if is_text(line) {
        let words = String::from_utf8_lossy(line);
        return Failure::fault(format_args!("neither a recording nor a memtrace trace (it says: {words}); not kept"));
    }
    let shown = first.iter().take(TELLING).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    Failure::fault(format_args!("neither a recording nor a memtrace trace (it begins with {shown}); not kept"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: &[&[u8]], broken: Option<io::ErrorKind>) -> String {
        let mut incoming = Incoming::new(Arc::new(Target::new(None, crate::target::Overwrite::default()).unwrap()));
        let taken = pieces.iter().try_for_each(|piece| incoming.take(piece));
        let broken = broken.map(io::Error::from);
        let failure = taken.and_then(|()| incoming.end(broken.as_ref()).map(drop)).expect_err("no stream");
        failure.line().unwrap().to_owned()
    }

    #[test]
    fn why_a_server_refuses_is_told_in_whatever_pieces_it_comes() {
        let words = b"highwater: another client is being served\n";
        for at in 0..words.len() {
            let (first, rest) = words.split_at(at);
            assert_eq!(told(&[first, rest], None), "refused: another client is being served", "{at}");
        }
        assert_eq!(told(&[b"highwater: cut sho"], Some(io::ErrorKind::ConnectionReset)), "refused: cut sho");
    }

    #[test]
    fn other_servers_are_quoted_and_other_bytes_shown() {
        assert_eq!(
            told(&[b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n"], None),
            "neither a recording nor a memtrace trace (it says: HTTP/1.1 400 Bad Request); not kept"
        );
        let binary = told(&[b"\x16\x03\x01\x00\x05\x01\x00"], None);
        assert!(binary.contains("it begins with 16 03 01 00 05 01"), "{binary}");
        // A line that never ends is not waited for.
        assert!(told(&[&[b'x'; 600]], None).contains("xxx"));
    }

    #[test]
    fn a_connection_that_ends_without_a_word_tells_why() {
        assert_eq!(told(&[], None), "nothing was sent; not kept");
        let reset = told(&[], Some(io::ErrorKind::ConnectionReset));
        assert_eq!(reset, "nothing was sent (connection reset); not kept");
    }
}
