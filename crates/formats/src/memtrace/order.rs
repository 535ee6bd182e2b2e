//! Gives out the events of several domains in the order of time.
//!
//! Domains write a packet when it is full, so the order of packets in a trace is not the order of their events. Packets are therefore held back
//! undecoded. The packet with the earliest next event is decoded first. The number of held bytes is bounded; an event that comes too late gets the
//! time of the latest event given out, and is counted.

use super::domain::{Domain, EventPosition};
use super::packet::Packet;
use super::trace::Trace;
use highwater_model::{Catalog, EventSink, ThreadId};
use rustc_hash::FxHashMap;

/// The domains of a trace.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    domains: Vec<Domain>,
    /// The index in `domains`, by number of the domain.
    places: FxHashMap<u16, usize>,
    /// Bytes of all queued packets.
    held: usize,
    /// Decoded packets, kept to reuse their buffers.
    done: Vec<Packet>,
    next_sequence: u64,
}

/// Limit for the number of domains. No program has more.
const MOST_DOMAINS: usize = 512;
/// Limit for the number of buffers that are kept.
const MOST_ROOMS: usize = 64;

impl Domains {
    /// A buffer for the content of a packet.
    pub fn room(&mut self) -> Vec<u8> {
        self.done.pop().map(|packet| packet.content).unwrap_or_default()
    }

    /// The sequence number of the next packet.
    pub fn next_sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    /// Queues a packet; false if its domain is one too many.
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

    /// All domains, in the order of their first packets.
    pub fn iter(&self) -> impl Iterator<Item = &Domain> {
        self.domains.iter()
    }

    /// Marks that packets of any domain may have been lost.
    pub fn lose(&mut self) {
        self.domains.iter_mut().for_each(Domain::lose);
    }

    /// Gives out events until at most `most` bytes are queued.
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

    /// The domain with the next event, and the instant up to which no other domain has an event.
    fn first(&mut self, trace: &mut Trace, catalog: &mut Catalog) -> Option<(usize, EventPosition)> {
        let mut first: Option<(EventPosition, usize)> = None;
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
