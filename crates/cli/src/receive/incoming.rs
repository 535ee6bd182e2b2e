//! One stream that arrives.

use super::packets::Packets;
use super::target::Target;
use crate::failure::{Failure, reason};
use highwater_formats::memtrace::looks_like_memtrace;
use highwater_model::Source;
use highwater_store::{Follower, is_recording};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// How many bytes tell what it is.
const TELLING: usize = 6;
/// How many are waited for until it is known whose it is.
const MOST_WITHOUT_SOURCE: usize = 1 << 20;
/// What we say ourselves to whom we send nothing.
const OUR_WORDS: &[u8] = b"highwater: ";

/// How a stream fares.
#[derive(Clone, Debug, Default)]
pub struct Fare {
    /// The file it goes into, once there is one.
    pub file: Option<PathBuf>,
    /// Bytes that came.
    pub bytes: u64,
    /// Events that came.
    pub events: u64,
    /// Bytes live now.
    pub live_bytes: u64,
    /// The most that were.
    pub peak_bytes: u64,
    /// Events that the sender left out.
    pub dropped: u64,
    /// Whether these are estimates.
    pub is_estimate: bool,
}

/// How a stream ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it fared until then.
    pub fare: Fare,
    /// It was ended in order, as far as can be told.
    pub is_complete: bool,
    /// Bytes at the end that were no whole block or packet, and are not in the file.
    pub cut: usize,
    /// Bytes came that were no blocks or packets; they are in the file.
    pub is_damaged: bool,
}

/// A stream, and what it has turned out to be.
pub struct Incoming {
    target: Arc<Target>,
    kind: Kind,
    file: Option<(PathBuf, File)>,
    /// What is whole and not written yet.
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
    /// Nothing has come yet.
    pub fn new(target: Arc<Target>) -> Self {
        Self { target, kind: Kind::Unknown(Vec::new()), file: None, whole: Vec::new(), bytes: 0 }
    }

    /// Takes in what has arrived.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        if let Kind::Unknown(first) = &mut self.kind {
            first.extend_from_slice(bytes);
            if first.len() < TELLING {
                return Ok(());
            }
            let first = std::mem::take(first);
            self.kind = recognise(&first)?;
            return self.pass_on(&first);
        }
        self.pass_on(bytes)
    }

    fn pass_on(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Unknown(_) => {}
            Kind::Recording(follower) => follower.take(bytes, &mut self.whole),
            Kind::Memtrace(packets) => packets.take(bytes, &mut self.whole).map_err(Failure::fault)?,
        }
        if self.file.is_none() {
            let Some(source) = self.source() else { return self.wait_for_source() };
            let ending = if matches!(self.kind, Kind::Memtrace(_)) { "ctf" } else { "hw" };
            self.file = Some(self.target.create(&source, ending)?);
        }
        if let Some((path, file)) = &mut self.file
            && let Err(error) = file.write_all(&self.whole)
        {
            return Err(Failure::in_file(path, format_args!("cannot be written: {}", reason(&error))));
        }
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

    /// How it fares.
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

    /// Nothing more will come. An error where nothing usable came at all.
    pub fn end(self) -> Result<Outcome, Failure> {
        let fare = self.fare();
        let (is_complete, cut, is_damaged) = match &self.kind {
            Kind::Unknown(first) if first.is_empty() => return Err(Failure::fault("nothing was sent; not kept")),
            Kind::Unknown(first) => return Err(unknown(first)),
            Kind::Recording(follower) => {
                let followed = follower.followed();
                (followed.complete, follower.pending(), followed.is_damaged)
            }
            // A trace has no end of its own: where its last packet is whole, it is.
            Kind::Memtrace(packets) => (packets.pending() == 0, packets.pending(), packets.is_damaged()),
        };
        if fare.file.is_none() {
            return Err(Failure::fault("it broke off before it said whose memory it is; not kept"));
        }
        Ok(Outcome { fare, is_complete, cut, is_damaged })
    }
}

fn recognise(first: &[u8]) -> Result<Kind, Failure> {
    if is_recording(first) {
        Ok(Kind::Recording(Box::default()))
    } else if looks_like_memtrace(first) {
        Ok(Kind::Memtrace(Box::default()))
    } else {
        Err(unknown(first))
    }
}

/// What is said of something else: its own words, if they are ours.
fn unknown(first: &[u8]) -> Failure {
    if let Some(words) = first.strip_prefix(OUR_WORDS) {
        let words = String::from_utf8_lossy(words);
        return Failure::fault(format_args!("it says: {}", words.lines().next().unwrap_or_default()));
    }
    let shown = first.iter().take(TELLING).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    Failure::fault(format_args!("neither a recording nor a memtrace trace (it begins with {shown}); not kept"))
}
