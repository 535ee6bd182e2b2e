//! Merging the events of the shards by time.

use super::shard::ShardReader;
use highwater_model::Event;

/// The events of several shards, ordered by time; those of one shard at one time stay in their order.
///
/// Within a shard events are in order unless their source gave times out of order. Such a shard is sorted first; only in this case are events
/// buffered.
pub struct Merge {
    sources: Vec<MergeSource>,
    /// The source being read, and the time until which no other source has an earlier event.
    current: usize,
    until: u64,
    late: u64,
}

struct MergeSource {
    head: Event,
    rest: Rest,
}

enum Rest {
    InOrder(ShardReader),
    Sorted(std::vec::IntoIter<Event>),
}

impl Rest {
    fn next(&mut self) -> Option<Event> {
        match self {
            Self::InOrder(reader) => reader.next(),
            Self::Sorted(events) => events.next(),
        }
    }
}

impl Merge {
    /// Merges the events of the readers.
    pub fn new(readers: Vec<ShardReader>) -> Self {
        let late = readers.iter().map(ShardReader::late).sum();
        let sources = readers.into_iter().filter_map(|reader| {
            let mut rest = if reader.is_in_order() {
                Rest::InOrder(reader)
            } else {
                let mut events: Vec<Event> = reader.collect();
                events.sort_by_key(|event| event.time);
                Rest::Sorted(events.into_iter())
            };
            Some(MergeSource { head: rest.next()?, rest })
        });
        let mut merge = Self { sources: sources.collect(), current: 0, until: 0, late };
        merge.choose();
        merge
    }

    /// How many events came after a later one of their thread.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The time of the first event.
    pub fn first_time(&self) -> Option<highwater_model::Nanos> {
        self.sources.get(self.current).map(|source| source.head.time)
    }

    /// Finds the source with the earliest event, and the time until which it stays the earliest.
    fn choose(&mut self) {
        let (mut first, mut second) = (u64::MAX, u64::MAX);
        self.current = 0;
        for (at, source) in self.sources.iter().enumerate() {
            let time = source.head.time.0;
            if time < first {
                second = first;
                first = time;
                self.current = at;
            } else {
                second = second.min(time);
            }
        }
        self.until = second;
    }
}

impl Iterator for Merge {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let source = self.sources.get_mut(self.current)?;
        let event = source.head;
        match source.rest.next() {
            Some(next) => {
                source.head = next;
                if next.time.0 > self.until {
                    self.choose();
                }
            }
            None => {
                self.sources.remove(self.current);
                self.choose();
            }
        }
        Some(event)
    }
}
