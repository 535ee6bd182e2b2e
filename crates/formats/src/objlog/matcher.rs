//! Matches births and drops by id.
//!
//! Order in the file is not order in time: a drop may come before its birth, and a change of size after both. So nothing is judged before it must be.
//! A drop without birth is known at the end of the log. A different size at the drop is a mismatch only if no line said that the object grew.

use super::contradictions::{Contradictions, Mismatch, SizeMismatches};
use super::entry::flags::{BORN, DOUBTFUL, DROPPED, RESIZED};
use super::entry::{IdState, MOST_OWNERS, NextIdState, ObjectEntry};
use super::fault::ObjectLineFault;
use super::memory::MemoryReadings;
use super::names::InternedNames;
use super::table::ObjectTable;
use super::tally::ObjectTally;
use super::text_form::split_site;
use highwater_model::Anomaly;
use std::borrow::Cow;

/// A type at a place, as named by a birth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SiteId(pub(super) u32);

/// The meaning of a line, given the lines before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// An object was born.
    Birth,
    /// An object was born whose drop, or whose last size, came before the birth.
    LateBirth {
        /// Its present size, or the size at its drop.
        bytes: u64,
        /// True if it is dropped.
        dropped: bool,
    },
    /// An object was dropped. Its size may differ from the one at birth although no `RESIZE` line was seen, or its type may differ.
    Death {
        /// The sizes differ.
        size_mismatch: bool,
        /// The types differ.
        type_mismatch: bool,
    },
    /// An object has a new size.
    Resized,
    /// The meaning is not known yet, or the line adds nothing new.
    Nothing,
    /// The line contradicts an earlier one.
    Duplicate,
}

/// An object that was never dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its id.
    pub id: u64,
    /// Its size.
    pub bytes: u64,
    /// Its type and place.
    pub site: SiteId,
    /// The iteration in which it was born.
    pub iteration: u64,
    /// True if the log contradicts itself about this id.
    pub doubtful: bool,
}

/// A birth or a drop that was read and is not processed yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BirthOrDrop {
    pub bytes: u64,
    /// Its site, or the type of a drop.
    pub owner: u32,
    pub id: u64,
    pub is_drop: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Site {
    type_name: u32,
    place: u32,
    variable: Option<u32>,
}

/// Matches births and drops by id, in any order. Judges a contradiction only when no later line can resolve it.
#[derive(Debug)]
pub struct Matcher {
    site_texts: InternedNames,
    sites: Vec<Site>,
    types: InternedNames,
    places: InternedNames,
    variables: InternedNames,
    tallies: Vec<ObjectTally>,
    table: ObjectTable,
    contradictions: Contradictions,
    size_mismatches: SizeMismatches,
    /// The `MEMORY` lines and marks of the log.
    pub memory: MemoryReadings,
    /// The number of drops that came before their births.
    pub drops_before_their_allocate: u64,
    /// The number of sizes that were reduced so that the sum of all fits in 64 bits.
    pub clamped_sizes: u64,
    ever_bytes: u64,
    live: u64,
    live_bytes: u64,
    /// The maximum number of live objects, in the order of the log.
    pub peak_live: u64,
    /// The maximum number of live bytes.
    pub peak_bytes: u64,
    /// The number of births, drops and changes of size until `peak_bytes` was reached.
    pub peak_at: u64,
    steps: u64,
}

impl Default for Matcher {
    fn default() -> Self {
        Self {
            site_texts: InternedNames::default(),
            sites: vec![Site::default()],
            types: InternedNames::default(),
            places: InternedNames::default(),
            variables: InternedNames::default(),
            tallies: vec![ObjectTally::default()],
            table: ObjectTable::default(),
            contradictions: Contradictions::default(),
            size_mismatches: SizeMismatches::default(),
            memory: MemoryReadings::default(),
            drops_before_their_allocate: 0,
            clamped_sizes: 0,
            ever_bytes: 0,
            live: 0,
            live_bytes: 0,
            peak_live: 0,
            peak_bytes: 0,
            peak_at: 0,
            steps: 0,
        }
    }
}

// Entries have room for 24 bits.
const _: () = assert!(super::names::MOST_NAMES <= MOST_OWNERS);

impl Matcher {
    /// The site of a text `file:line type`.
    #[inline]
    pub(super) fn site(&mut self, text: &[u8]) -> Result<SiteId, ObjectLineFault> {
        match self.site_texts.find(text) {
            Some(number) => Ok(SiteId(number)),
            None => self.new_site(text),
        }
    }

    #[cold]
    fn new_site(&mut self, text: &[u8]) -> Result<SiteId, ObjectLineFault> {
        let (place, type_name) = split_site(text)?;
        Ok(self.site_of(place, type_name))
    }

    /// The site of a type at a place.
    pub fn site_of(&mut self, place: &[u8], type_name: &[u8]) -> SiteId {
        self.site_of_variable(place, type_name, b"")
    }

    /// The site of a type at a place, whose objects are in this variable; empty if it is not known.
    pub fn site_of_variable(&mut self, place: &[u8], type_name: &[u8], variable: &[u8]) -> SiteId {
        // No line of the text form has a line end, so no site without a variable has this text.
        let named: [&[u8]; 2] = if variable.is_empty() { [b"", b""] } else { [b"\n", variable] };
        let number = self.site_texts.intern(&[place, b" ", type_name, named[0], named[1]].concat());
        let site = Site {
            type_name: self.types.intern(type_name),
            place: self.places.intern(place),
            variable: (!variable.is_empty()).then(|| self.variables.intern(variable)),
        };
        if number as usize == self.sites.len() {
            self.sites.push(site);
            self.tallies.push(ObjectTally::default());
        }
        SiteId(number)
    }

    /// The number of a type.
    #[inline]
    pub(super) fn type_number(&mut self, name: &[u8]) -> u32 {
        match self.types.find(name) {
            Some(number) => number,
            None => self.types.intern(name),
        }
    }

    /// The size, reduced if necessary to keep the sum of all sizes within 64 bits.
    #[inline]
    fn admit(&mut self, bytes: u64) -> u64 {
        match self.ever_bytes.checked_add(bytes) {
            Some(sum) => {
                self.ever_bytes = sum;
                bytes
            }
            None => {
                self.clamped_sizes += 1;
                let left = u64::MAX - self.ever_bytes;
                self.ever_bytes = u64::MAX;
                left
            }
        }
    }

    #[inline]
    fn rise(&mut self) {
        if self.live_bytes > self.peak_bytes {
            self.peak_bytes = self.live_bytes;
            self.peak_at = self.steps;
        }
        self.peak_live = self.peak_live.max(self.live);
    }

    /// Processes births and drops, in this order. A batch is faster than one at a time.
    pub(super) fn take(&mut self, steps: &[BirthOrDrop]) {
        let touched = steps.iter().fold(0, |sum, step| sum ^ self.table.touch(step.id));
        std::hint::black_box(touched);
        for &BirthOrDrop { bytes, owner, id, is_drop } in steps {
            if is_drop {
                self.drop_object(bytes, owner, id);
            } else {
                self.allocate(bytes, SiteId(owner), id);
            }
        }
    }

    /// Processes a birth.
    pub fn allocate(&mut self, bytes: u64, site: SiteId, id: u64) -> Meaning {
        let iteration = self.memory.iteration().min(u64::from(u32::MAX)) as u32;
        let mut state = IdState::New;
        self.table.apply(id, |found| {
            state = found;
            match found {
                IdState::New => NextIdState::Open(ObjectEntry::new(bytes, site.0, iteration, BORN)),
                IdState::Open(entry) if entry.has(BORN) => NextIdState::Open(entry.and(DOUBTFUL)),
                IdState::Open(entry) if entry.has(DROPPED) => NextIdState::Settled,
                // Its size came before its birth.
                IdState::Open(entry) => {
                    NextIdState::Open(ObjectEntry::new(entry.bytes, site.0, iteration, BORN | RESIZED))
                }
                IdState::Settled => NextIdState::Same,
            }
        });
        let known = match state {
            IdState::New => None,
            IdState::Open(entry) if !entry.has(BORN) => Some(entry),
            _ => {
                self.contradictions.duplicate_allocate.add(id);
                return Meaning::Duplicate;
            }
        };
        self.steps += 1;
        let admitted = self.admit(bytes);
        if admitted != bytes {
            self.reduce(id, admitted);
        }
        let tally = &mut self.tallies[site.0 as usize];
        tally.allocated += 1;
        tally.allocated_bytes += admitted;
        self.live += 1;
        self.live_bytes += admitted;
        self.rise();
        match known {
            None => Meaning::Birth,
            Some(entry) => self.born_late(id, admitted, site, entry),
        }
    }

    /// Applies the earlier drop or size of an object that was just born.
    #[cold]
    fn born_late(&mut self, id: u64, bytes: u64, site: SiteId, entry: ObjectEntry) -> Meaning {
        if !entry.has(DROPPED) {
            let now = self.resize_to(site, bytes, entry.bytes);
            if now != entry.bytes {
                self.reduce(id, now);
            }
            return Meaning::LateBirth { bytes: now, dropped: false };
        }
        self.drops_before_their_allocate += 1;
        if self.sites[site.0 as usize].type_name != entry.owner() {
            self.contradictions.type_mismatch.add(id);
        }
        let bytes = self.die(id, site, bytes, entry.bytes, entry.has(RESIZED)).0;
        Meaning::LateBirth { bytes, dropped: true }
    }

    /// Reduces the size of an open object, since the sum of all sizes would not fit.
    #[cold]
    fn reduce(&mut self, id: u64, bytes: u64) {
        self.table.apply(id, |state| match state {
            IdState::Open(entry) => NextIdState::Open(entry.of_size(bytes)),
            _ => NextIdState::Same,
        });
    }

    /// Counts a change of size of an object of a site. Returns the new size.
    fn resize_to(&mut self, site: SiteId, from: u64, to: u64) -> u64 {
        let to = from.min(to) + self.admit(to.saturating_sub(from));
        let tally = &mut self.tallies[site.0 as usize];
        tally.resizes += 1;
        tally.resize(from, to);
        self.live_bytes = self.live_bytes - from + to;
        self.rise();
        to
    }

    /// Counts the end of an object. Returns its size, and whether its sizes disagree.
    fn die(&mut self, id: u64, site: SiteId, known: u64, claimed: u64, resized: bool) -> (u64, bool) {
        let mut bytes = known;
        let disagree = known != claimed;
        if disagree && resized {
            bytes = self.resize_to(site, known, claimed);
        } else if disagree {
            self.size_mismatches.add(id, Mismatch { site: site.0, at_birth: known, at_drop: claimed });
        }
        let tally = &mut self.tallies[site.0 as usize];
        tally.dropped += 1;
        tally.dropped_bytes += bytes;
        self.live -= 1;
        self.live_bytes -= bytes;
        (bytes, disagree && !resized)
    }

    /// Processes a drop, with the number of its type.
    pub(super) fn drop_object(&mut self, bytes: u64, type_number: u32, id: u64) -> Meaning {
        let mut state = IdState::New;
        self.table.apply(id, |found| {
            state = found;
            match found {
                IdState::New => NextIdState::Open(ObjectEntry::new(bytes, type_number, 0, DROPPED)),
                IdState::Open(entry) if entry.has(BORN) => NextIdState::Settled,
                IdState::Open(entry) if entry.has(DROPPED) => NextIdState::Same,
                IdState::Open(_) => NextIdState::Open(ObjectEntry::new(bytes, type_number, 0, DROPPED | RESIZED)),
                IdState::Settled => NextIdState::Same,
            }
        });
        match state {
            IdState::Open(entry) if entry.has(BORN) => {
                self.steps += 1;
                let site = SiteId(entry.owner());
                let (_, size_mismatch) = self.die(id, site, entry.bytes, bytes, entry.has(RESIZED));
                let type_mismatch = self.sites[site.0 as usize].type_name != type_number;
                if type_mismatch {
                    self.contradictions.type_mismatch.add(id);
                }
                Meaning::Death { size_mismatch, type_mismatch }
            }
            IdState::New => Meaning::Nothing,
            IdState::Open(entry) if !entry.has(DROPPED) => Meaning::Nothing,
            _ => {
                self.contradictions.duplicate_drop.add(id);
                Meaning::Duplicate
            }
        }
    }

    /// Processes a drop, with the name of its type.
    pub fn drop_named(&mut self, bytes: u64, type_name: &[u8], id: u64) -> Meaning {
        let type_number = self.type_number(type_name);
        self.drop_object(bytes, type_number, id)
    }

    /// Processes a change of size.
    pub fn resize(&mut self, bytes: u64, id: u64) -> Meaning {
        let mut state = IdState::New;
        self.table.apply(id, |found| {
            state = found;
            match found {
                IdState::New => NextIdState::Open(ObjectEntry::new(bytes, 0, 0, RESIZED)),
                IdState::Open(entry) if entry.has(DROPPED) => NextIdState::Open(entry.and(RESIZED)),
                IdState::Open(entry) => NextIdState::Open(entry.and(RESIZED).of_size(bytes)),
                IdState::Settled => NextIdState::Same,
            }
        });
        match state {
            IdState::Open(entry) if entry.has(BORN) => {
                self.steps += 1;
                let now = self.resize_to(SiteId(entry.owner()), entry.bytes, bytes);
                if now != bytes {
                    self.reduce(id, now);
                }
                Meaning::Resized
            }
            IdState::Settled => {
                // The object grew before it was dropped, but this line came after the drop.
                if let Some(Mismatch { site, at_birth, at_drop }) = self.size_mismatches.resolve(id) {
                    let now = at_birth.min(at_drop) + self.admit(at_drop.saturating_sub(at_birth));
                    let tally = &mut self.tallies[site as usize];
                    tally.resizes += 1;
                    tally.resize(at_birth, now);
                    tally.dropped_bytes = tally.dropped_bytes - at_birth + now;
                }
                Meaning::Nothing
            }
            _ => Meaning::Nothing,
        }
    }

    /// Adds a measurement of the memory, or a mark.
    pub fn boundary(&mut self, line: u64, bytes: Option<u64>, label: &str) {
        self.memory.add(line, bytes, label.as_bytes());
    }

    /// Adds contradictions that a recording only counts, without ids.
    pub fn note(&mut self, anomaly: Anomaly, count: u64) {
        let odd = match anomaly {
            Anomaly::UnmatchedFree => &mut self.contradictions.drop_without_allocate,
            Anomaly::UnmatchedReallocation => &mut self.contradictions.resize_without_allocate,
            Anomaly::DuplicateAllocation => &mut self.contradictions.duplicate_allocate,
            Anomaly::SizeMismatch => &mut self.contradictions.size_mismatch,
            Anomaly::TypeMismatch => &mut self.contradictions.type_mismatch,
            Anomaly::ClampedSize => {
                self.clamped_sizes += count;
                return;
            }
            _ => return,
        };
        odd.count += count;
    }

    /// True if a birth with this id would be no contradiction.
    pub(super) fn can_be_born(&mut self, id: u64) -> bool {
        let mut can = false;
        self.table.apply(id, |state| {
            can = !matches!(state, IdState::Open(entry) if entry.has(BORN)) && state != IdState::Settled;
            NextIdState::Same
        });
        can
    }

    /// True if there is a live object with this id and size.
    pub(super) fn can_be_dropped(&mut self, bytes: u64, id: u64) -> bool {
        let mut can = false;
        self.table.apply(id, |state| {
            can = matches!(state, IdState::Open(entry) if entry.has(BORN) && entry.bytes == bytes);
            NextIdState::Same
        });
        can
    }

    /// The number of ids seen.
    pub fn ids(&self) -> u64 {
        self.table.ids()
    }

    /// The number of ids that were forgotten. If one of them occurs again, that is not noticed; see `docs/objlog.md`.
    pub fn forgotten_ids(&self) -> u64 {
        self.table.forgotten()
    }

    /// The number of names that are not UTF-8.
    pub fn invalid_names(&self) -> u64 {
        self.types.invalid + self.places.invalid
    }

    /// The number of births and drops whose names were merged into one, because there were too many different names.
    pub fn refused_names(&self) -> u64 {
        self.types.refused + self.places.refused + self.site_texts.refused
    }

    /// The number of births, drops and changes of size that counted.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The numbers of live objects and live bytes.
    pub fn live(&self) -> (u64, u64) {
        (self.live, self.live_bytes)
    }

    /// The type of a site.
    pub fn type_of(&self, site: SiteId) -> Cow<'_, str> {
        self.types.text(self.sites[site.0 as usize].type_name)
    }

    /// The place of a site, `file:line`.
    pub fn place_of(&self, site: SiteId) -> Cow<'_, str> {
        self.places.text(self.sites[site.0 as usize].place)
    }

    /// The variable of a site, if it is known.
    pub fn variable_of(&self, site: SiteId) -> Option<Cow<'_, str>> {
        self.sites[site.0 as usize].variable.map(|number| self.variables.text(number))
    }

    /// Every site at which an object was born, with its figures.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, &ObjectTally)> {
        (0..).map(SiteId).zip(&self.tallies).filter(|(_, tally)| tally.allocated > 0)
    }

    /// The sum over all sites.
    pub fn total(&self) -> ObjectTally {
        let mut total = ObjectTally::default();
        self.tallies.iter().for_each(|tally| total += *tally);
        total
    }

    /// Calls `each` for every live object. The time is proportional to their number.
    pub fn for_each_survivor(&self, mut each: impl FnMut(Survivor)) {
        self.table.for_each_open(|id, entry| {
            if entry.has(BORN) {
                each(Survivor {
                    id,
                    bytes: entry.bytes,
                    site: SiteId(entry.owner()),
                    iteration: entry.iteration.into(),
                    doubtful: entry.has(DOUBTFUL),
                });
            }
        });
    }

    /// All contradictions, as if the log ended here.
    pub fn contradictions(&self) -> Contradictions {
        let mut found = self.contradictions.clone();
        let known = found.size_mismatch.count;
        found.size_mismatch = self.size_mismatches.all();
        found.size_mismatch.count += known;
        self.table.for_each_open(|id, entry| {
            if entry.has(DROPPED) {
                found.drop_without_allocate.add(id);
            } else if !entry.has(BORN) {
                found.resize_without_allocate.add(id);
            }
        });
        found
    }
}
