//! Giving out the events of several domains in the order of time.
//!
//! Domains write their packets when those are full, so packets lie in a trace in another order than what they tell of. Packets are
//! therefore held back, as they are, and decoded when it is their turn: the event that happened first comes first. How much is held back is
//! bounded; what then comes too late gets the time of the latest event given out, and is counted.

use super::domain::{Domain, Instant};
use super::packet::Packet;
use super::trace::Trace;
use highwater_model::{Catalog, EventSink, ThreadId};
use rustc_hash::FxHashMap;

/// The domains of a trace.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    domains: Vec<Domain>,
    /// By its number: where a domain is in the list.
    places: FxHashMap<u16, usize>,
    /// Bytes of the packets that wait.
    held: usize,
    /// Packets that were read, for their room.
    done: Vec<Packet>,
    next_sequence: u64,
}

/// No program has more domains.
const MOST_DOMAINS: usize = 512;
/// Rooms of packets that are kept.
const MOST_ROOMS: usize = 64;

impl Domains {
    /// Room for the content of a packet.
    pub fn room(&mut self) -> Vec<u8> {
        self.done.pop().map(|packet| packet.content).unwrap_or_default()
    }

    /// The number of the next packet.
    pub fn next_sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    /// Takes in a packet; false if it is of one domain too many.
    pub fn push(&mut self, packet: Packet, start: i64, catalog: &mut Catalog) -> bool {
        let number = packet.header.domain;
        let at = match self.places.get(&number) {
            Some(&at) => at,
            None if self.domains.len() >= MOST_DOMAINS => return false,
            None => {
                self.domains.push(Domain::new(number, start));
                catalog.name_thread(ThreadId(number.into()), &format!("domain {number}"));
                self.places.insert(number, self.domains.len() - 1);
                self.domains.len() - 1
            }
        };
        self.held += packet.content.len();
        self.domains[at].push(packet);
        true
    }

    /// All domains, in the order of their appearance.
    pub fn iter(&self) -> impl Iterator<Item = &Domain> {
        self.domains.iter()
    }

    /// Says that packets of any domain may have been lost.
    pub fn lose(&mut self) {
        self.domains.iter_mut().for_each(Domain::lose);
    }

    /// Gives out events until no more than `most` bytes wait.
    pub fn give<R: EventSink + ?Sized>(
        &mut self,
        most: usize,
        trace: &mut Trace,
        catalog: &mut Catalog,
        receiver: &mut R,
    ) {
        while self.held > most || (most == 0 && self.held > 0) {
            let Some((first, until)) = self.first(trace, catalog) else { break };
            self.domains[first].give(until, trace, catalog, receiver);
        }
    }

    /// The domain whose event is next, and the instant up to which no other has any.
    fn first(&mut self, trace: &mut Trace, catalog: &mut Catalog) -> Option<(usize, Instant)> {
        let mut first: Option<(Instant, usize)> = None;
        let mut until = (i64::MAX, u64::MAX);
        for at in 0..self.domains.len() {
            let Some(instant) = self.domains[at].next(trace, catalog, &mut self.done) else { continue };
            match first {
                Some((earliest, _)) if earliest <= instant => until = until.min(instant),
                _ => {
                    until = until.min(first.map_or(until, |(later, _)| later));
                    first = Some((instant, at));
                }
            }
        }
        self.forget_what_is_done();
        first.map(|(_, at)| (at, until))
    }

    fn forget_what_is_done(&mut self) {
        for packet in &mut self.done {
            self.held -= packet.content.len();
            packet.content.clear();
        }
        self.done.truncate(MOST_ROOMS);
    }
}
