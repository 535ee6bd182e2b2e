//! The index of a recording. It is built in one scan on all cores, so that no request has to scan the recording again. It holds: the bytes and blocks that were
//! live in slices of 8192 events, the [arrivals and departures](crate::traffic) of blocks, and [figures](Standing) from which a replay can start.

use crate::bins::Bin;
use crate::owned::Owned;
use crate::problem::Problem;
use crate::scan;
use crate::sieve::Candidate;
use crate::standings::Standings;
use crate::traffic::{Buffers, Depth, Gathered, Move, Side, Traffic};
use crate::work::Work;
use highwater_model::{Accounts, Figures, Nanos, NumberLedger, Step};
use highwater_store::{EventsSummary, Recording, Seen, Standing, Until};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// The number of events of a slice.
const EVENTS: u64 = 8192;

/// The summary of some thousand consecutive events.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The time of its first event.
    pub first: Nanos,
    /// The time of its last event.
    pub last: Nanos,
    /// What happened in it.
    pub bin: Bin,
}

/// The index of a recording. While the scan still runs, it answers for instants whose surroundings are already scanned.
#[derive(Debug)]
pub struct Course {
    /// The slices, in order; not set before the scan is complete.
    slices: OnceLock<Vec<Slice>>,
    /// Arrivals and departures of blocks.
    pub traffic: Traffic,
    standings: Standings,
    /// The summary of each block of events.
    blocks: Vec<EventsSummary>,
}

/// The slices of one segment, as far as it is scanned.
#[derive(Default)]
struct Slicing {
    slices: Vec<Slice>,
    before: Figures,
    began: u64,
    is_begun: bool,
}

impl Slicing {
    /// Notes the state after a step, which is the state before the next one.
    fn see(&mut self, accounts: &Accounts) {
        if !self.is_begun {
            self.go_on_from(accounts);
            return;
        }
        let (time, figures) = (accounts.last_time(), &accounts.totals().figures);
        let is_full = accounts.events().saturating_sub(self.began) > EVENTS;
        if self.slices.is_empty() || is_full {
            self.slices.push(Slice { first: time, last: time, bin: Bin::default() });
            self.began = accounts.events();
        }
        if let Some(slice) = self.slices.last_mut() {
            slice.last = time;
            slice.bin.see(&self.before, figures);
        }
        self.before = *figures;
    }

    /// Continues from a state that no step led to.
    fn go_on_from(&mut self, accounts: &Accounts) {
        self.before = accounts.totals().figures;
        self.began = accounts.events();
        self.is_begun = true;
    }
}

/// One segment while it is scanned.
struct Going<'a> {
    slicing: Slicing,
    course: &'a Course,
    /// The index of the current block of events; `moves` are its arrivals and departures.
    block: Option<usize>,
    moves: Gathered,
}

impl Going<'_> {
    fn begin_block(&mut self, ledger: &NumberLedger, summary: &EventsSummary) -> Result<(), Problem> {
        self.end_block()?;
        let Course { blocks, standings, .. } = self.course;
        self.block = blocks.binary_search_by_key(&summary.first_event, |block| block.first_event).ok();
        if let Some(block) = self.block
            && standings.wants(blocks, block)
        {
            standings.put(blocks, block, Standing::of(ledger.accounts())?);
        }
        Ok(())
    }

    fn step(&mut self, ledger: &NumberLedger, step: &Step) {
        self.slicing.see(ledger.accounts());
        let gone = Move::departure(ledger, step);
        let come = Move::arrival(step, gone.as_ref(), ledger.accounts().next_id());
        gone.into_iter().for_each(|gone| self.moves.depart(gone));
        come.into_iter().for_each(|come| self.moves.arrive(come));
    }

    fn end_block(&mut self) -> Result<(), Problem> {
        match self.block.take() {
            Some(block) => self.course.traffic.write(block, &mut self.moves),
            None => Ok(()),
        }
    }
}

impl Course {
    /// An empty index of a recording.
    pub fn new(recording: &Recording) -> Result<Self, Problem> {
        let blocks: Vec<EventsSummary> = recording.summaries().copied().collect();
        let events = recording.stats().events;
        let (traffic, standings) = (Traffic::new(events, blocks.len())?, Standings::new(events));
        Ok(Self { slices: OnceLock::new(), traffic, standings, blocks })
    }

    /// Scans a whole recording. The parts of the index that are done can be used meanwhile.
    pub fn go_through(&self, recording: &Recording, work: &Work<'_>) -> Result<(), Problem> {
        let begin = || Going { slicing: Slicing::default(), course: self, block: None, moves: Gathered::default() };
        let parts = scan::walk(
            recording,
            work,
            begin,
            |going, seen| {
                match seen {
                    Seen::Block(ledger, summary) => going.begin_block(ledger, summary)?,
                    Seen::Step(ledger, step) => going.step(ledger, step),
                    Seen::Stored(ledger) => going.slicing.go_on_from(ledger.accounts()),
                }
                Ok(())
            },
            |going, accounts| {
                going.slicing.see(accounts);
                going.end_block()
            },
        )?;
        let slices = parts.into_iter().flat_map(|part| part.slicing.slices).collect();
        // If another thread has set the slices already, they are the same.
        let _ = self.slices.set(slices);
        Ok(())
    }

    /// The slices, in order; empty before the scan is complete.
    pub fn slices(&self) -> &[Slice] {
        self.slices.get().map_or(&[], Vec::as_slice)
    }

    /// The accounts of an instant without their blocks; `None` if the index does not cover the instant.
    pub fn figures_at(&self, recording: &Recording, until: Until) -> Result<Option<Accounts>, Problem> {
        let reached = |events: u64, time: Nanos| match until {
            Until::End => true,
            Until::Event(event) => events <= event,
            Until::Time(at) => time <= at,
        };
        // The block of events that the instant lies in.
        let last = self.blocks.partition_point(|block| match until {
            Until::End => true,
            Until::Event(event) => block.first_event < event,
            Until::Time(at) => block.first_time <= at,
        });
        let Some((first, ledger)) = self.resume(recording, last.saturating_sub(1), reached)? else { return Ok(None) };
        Ok(Some(recording.go_on(ledger, first, until)?.into_accounts().figures_alone()))
    }

    /// The accounts before a block of events, without live blocks that do not depart in it; `None` if the index does not cover that block.
    pub fn figures_before(&self, recording: &Recording, block: usize) -> Result<Option<NumberLedger>, Problem> {
        let Some(first_event) = self.blocks.get(block).map(|block| block.first_event) else { return Ok(None) };
        let Some((first, ledger)) = self.resume(recording, block, |events, _| events <= first_event)? else {
            return Ok(None);
        };
        Ok(Some(recording.go_on(ledger, first, Until::Event(first_event))?))
    }

    /// The latest stored figures at or before block `last` that `reached` accepts, with all blocks that depart from there up to and including `last`; and
    /// the block of events at which the replay continues.
    fn resume(
        &self,
        recording: &Recording,
        last: usize,
        reached: impl Fn(u64, Nanos) -> bool,
    ) -> Result<Option<(usize, NumberLedger)>, Problem> {
        let Some((first, standing)) = self.standings.latest(last, reached).filter(|_| self.traffic.has(last)) else {
            return Ok(None);
        };
        let mut going: FxHashMap<u64, Owned> = FxHashMap::default();
        let mut buffers = Buffers::default();
        for block in first..=last {
            let read = self.traffic.of_block(block, (Side::Departures, Depth::Whole), &mut buffers, |row| {
                // A block may depart more than once. Its first departure has its state at the start.
                if row.id() < standing.next_id {
                    going.entry(row.id().0).or_insert_with(|| row.owned());
                }
            })?;
            if read.is_none() {
                return Ok(None);
            }
        }
        let mut going: Vec<Owned> = going.into_values().collect();
        going.sort_unstable_by_key(|owned| owned.block.id);
        let owned = going.iter().map(|owned| (owned.block, owned.thread));
        Ok(recording.resume(&standing, owned).map(|ledger| (first, ledger)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{history, written};

    #[test]
    fn what_was_gone_through_is_right_before_the_end_is_reached() {
        let (catalog, events) = history(11, 300_000);
        let recording = Recording::from_bytes(written(&catalog, &events, 30_000, 5_000)).unwrap();
        let course = Course::new(&recording).unwrap();
        // The first check of progress reports that no client waits.
        let mut nobody = |_: Option<(f64, &str)>| false;
        let given_up = course.go_through(&recording, &Work::asked_by(&mut nobody));
        assert_eq!(given_up.unwrap_err(), Problem::Cancelled);
        assert!(course.slices().is_empty());
        let (mut known, mut unknown) = (0, 0);
        for event in (1..recording.stats().events).step_by(2_503) {
            let expected = recording.snapshot_after(event).unwrap().accounts.figures_alone().to_state();
            match course.figures_at(&recording, Until::Event(event)).unwrap() {
                Some(found) => {
                    assert_eq!(found.to_state(), expected, "event {event}");
                    known += 1;
                }
                None => unknown += 1,
            }
        }
        assert!(known > 10 && unknown > 10, "{known} {unknown}");
    }

    #[test]
    fn a_full_disk_is_told_and_ends_the_walk() {
        let (catalog, events) = history(12, 20_000);
        let recording = Recording::from_bytes(written(&catalog, &events, 100_000, 1_000)).unwrap();
        let blocks = recording.summaries().count();
        let course = Course { traffic: Traffic::on_a_full_disk(blocks), ..Course::new(&recording).unwrap() };
        let Err(Problem::Failed(line)) = course.go_through(&recording, &Work::quiet()) else {
            panic!("it was written")
        };
        assert!(line.starts_with("cannot write a temporary file: ") && line.contains("TMPDIR"), "{line}");
        // The scan ended with the first block of events, not only after the last.
        assert!(course.standings.latest(blocks, |_, _| true).is_some_and(|(block, _)| block <= 1));
    }
}
