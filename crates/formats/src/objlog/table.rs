//! The states of all ids: pages for ids of one sequence, a hash table for others.
//!
//! Memory: an open object takes sixteen bytes in a page. If more than half of all array entries are unused ([`ObjectTable::tidy`]), pages with less than
//! half of their ids open give up their arrays, and the open ids move to the hash table. So a thousand leaks among a million objects take the memory
//! of a thousand. An open object takes at most 34 bytes in a page, usually 16, and 34 in the hash table. An id takes one bit in a page of which some
//! ids are missing.

use super::entry::{IdState, NextIdState, ObjectEntry};
use super::page::{IDS, Page, PageEntries, open_in};
use super::scattered::Scattered;

/// The sequence begins this number of pages before the first id seen.
const PAGES_BEFORE: u64 = 1024;
/// Limit for the number of a page of the sequence: this, plus four times the number of pages that the ids seen so far would fill.
const PAGES_AHEAD: u64 = 4096;
/// The newest pages are being filled, so this number of them is not emptied. The search for thin pages waits for this number of new pages, and for a
/// sixteenth of all dense pages.
const NEW_PAGES: usize = 16;
/// The number of dense pages in excess of those needed for the open ids before a search for thin pages is worthwhile.
const SLACK: usize = 48;
/// The number of arrays that are kept for later pages.
const SPARE: usize = 16;

/// The states of all ids.
#[derive(Debug, Default)]
pub(super) struct ObjectTable {
    /// The pages from `first_page` on.
    pages: Vec<Page>,
    first_page: Option<u64>,
    /// The pages that became dense, in that order. Some may not be dense any more.
    dense: Vec<u32>,
    /// The number of dense pages.
    dense_pages: usize,
    /// The number of pages that became dense since the last search for thin pages.
    new_pages: usize,
    spare: Vec<PageEntries>,
    scattered: Scattered,
    /// The first page with an id that was too far ahead when it came. From this page on, ids of a new page may be in the hash table.
    first_ahead: Option<u64>,
    ids: u64,
    open: i64,
}

impl ObjectTable {
    /// The number of ids seen.
    pub fn ids(&self) -> u64 {
        self.ids
    }

    /// The number of settled ids outside the sequence that were forgotten. If one of them occurs again, that is not noticed.
    pub fn forgotten(&self) -> u64 {
        self.scattered.forgotten
    }

    /// Reads the entry of an id, to bring it into the cache. Several of these in a row take hardly longer than one, since none depends on another.
    #[inline]
    pub fn touch(&self, id: u64) -> u64 {
        let page = (id / IDS as u64).wrapping_sub(self.first_page.unwrap_or(0)) as usize;
        let near = self.pages.get(page).and_then(|page| page.touch(id as usize % IDS));
        near.unwrap_or_else(|| self.scattered.touch(id))
    }

    /// Looks up an id and applies `change`.
    #[inline]
    pub fn apply(&mut self, id: u64, change: impl FnOnce(IdState) -> NextIdState) {
        let Some(page) = self.page_of(id) else { return self.apply_scattered(id, change) };
        let (page, at) = (&mut self.pages[page], id as usize % IDS);
        if !page.is_dense() {
            return self.apply_moved(id, change);
        }
        let mut is_new = false;
        let opened = page.apply(at, |state| {
            let next = change(state);
            is_new = state == IdState::New && next != NextIdState::Same;
            next
        });
        let is_done = opened < 0 && page.is_done();
        self.ids += u64::from(is_new);
        self.open += i64::from(opened);
        if is_done {
            self.release(id);
        }
    }

    /// Applies `change` to an id outside the pages.
    #[inline(never)]
    fn apply_scattered(&mut self, id: u64, change: impl FnOnce(IdState) -> NextIdState) {
        let before = self.scattered.find(id).map_or_else(|| self.scattered.state_if_not_open(id), IdState::Open);
        let next = change(before);
        self.ids += u64::from(before == IdState::New && next != NextIdState::Same);
        self.keep_scattered(id, before, next);
        if next == NextIdState::Settled {
            self.scattered.remember(id);
        }
    }

    /// Applies `change` to an id of a page whose open ids are in the hash table.
    #[inline(never)]
    fn apply_moved(&mut self, id: u64, change: impl FnOnce(IdState) -> NextIdState) {
        let Some(page) = self.page_of(id) else { return };
        let at = id as usize % IDS;
        let not_open = self.pages[page].state_if_not_open(at);
        let before = self.scattered.find(id).map_or(not_open, IdState::Open);
        let next = change(before);
        self.ids += u64::from(before == IdState::New && next != NextIdState::Same);
        self.keep_scattered(id, before, next);
        if next != NextIdState::Same {
            self.pages[page].note(at, before, next != NextIdState::Settled);
        }
    }

    fn keep_scattered(&mut self, id: u64, before: IdState, next: NextIdState) {
        match (before, next) {
            (_, NextIdState::Open(entry)) => self.scattered.put(id, entry),
            (IdState::Open(_), NextIdState::Settled) => self.scattered.remove(id),
            _ => {}
        }
        let was_open = matches!(before, IdState::Open(_));
        let is_open = matches!(next, NextIdState::Open(_)) || next == NextIdState::Same && was_open;
        self.open += i64::from(is_open) - i64::from(was_open);
    }

    /// The page of an id, if the id belongs to the sequence.
    #[inline]
    fn page_of(&mut self, id: u64) -> Option<usize> {
        let number = id / IDS as u64;
        let page = number.wrapping_sub(self.first_page.unwrap_or(number)) as usize;
        match self.pages.get(page) {
            Some(there) if there.is_dense() => Some(page),
            _ => self.other_page_of(number),
        }
    }

    #[cold]
    #[inline(never)]
    fn other_page_of(&mut self, number: u64) -> Option<usize> {
        let first = *self.first_page.get_or_insert(number.saturating_sub(PAGES_BEFORE));
        let page = number.checked_sub(first)?;
        if page >= PAGES_AHEAD + self.ids / (IDS as u64 / 4) {
            self.first_ahead = Some(self.first_ahead.map_or(page, |first| first.min(page)));
            return None;
        }
        let page = page as usize;
        if page >= self.pages.len() {
            if page >= self.pages.capacity() {
                // Does not double the capacity: a long log has more pages than open objects.
                self.pages.reserve_exact(page + 1 + page / 8 - self.pages.len());
            }
            self.pages.resize_with(page + 1, Page::default);
        }
        if self.pages[page].is_untouched() && !self.pages[page].is_dense() {
            self.tidy();
            let spare = self.spare.pop().unwrap_or_else(|| Box::new([ObjectEntry::default(); IDS]));
            self.pages[page].spread(spare);
            self.dense.push(page as u32);
            self.dense_pages += 1;
            if self.first_ahead.is_some_and(|first| page as u64 >= first) {
                self.take_over(page, first);
            }
        }
        Some(page)
    }

    /// Moves ids of a new page into it that were stored in the hash table before the page existed.
    #[cold]
    fn take_over(&mut self, page: usize, first_page: u64) {
        let start = (first_page + page as u64) * IDS as u64;
        for at in 0..IDS {
            let id = start.wrapping_add(at as u64);
            let next = match self.scattered.find(id) {
                Some(entry) => NextIdState::Open(entry),
                None if self.scattered.forget_settled(id) => NextIdState::Settled,
                None => continue,
            };
            self.scattered.remove(id);
            self.pages[page].apply(at, |_| next);
        }
    }

    /// Empties thin pages if too many of their entries are unused.
    fn tidy(&mut self) {
        self.new_pages += 1;
        let idle = self.dense_pages * IDS > self.open.max(0) as usize * 2 + SLACK * IDS;
        if !idle || self.new_pages < NEW_PAGES.max(self.dense_pages / 16) {
            return;
        }
        self.new_pages = 0;
        let dense = std::mem::take(&mut self.dense);
        let old = dense.len().saturating_sub(NEW_PAGES);
        for (at, page) in dense.into_iter().enumerate() {
            if at >= old || !self.pages[page as usize].is_thin() {
                self.dense.push(page);
            } else if let Some(entries) = self.pages[page as usize].take() {
                let start = (self.first_page.unwrap_or(0) + u64::from(page)) * IDS as u64;
                for (at, entry) in open_in(Some(&entries)) {
                    self.scattered.put(start + at as u64, *entry);
                }
                self.spare(entries);
            }
        }
        self.dense_pages = self.dense.iter().filter(|page| self.pages[**page as usize].is_dense()).count();
    }

    /// Takes back the array of a page without open ids.
    #[cold]
    fn release(&mut self, id: u64) {
        let page = (id / IDS as u64).wrapping_sub(self.first_page.unwrap_or(0)) as usize;
        if let Some(entries) = self.pages[page].take() {
            self.dense_pages -= 1;
            self.spare(entries);
        }
    }

    fn spare(&mut self, entries: PageEntries) {
        if self.spare.len() < SPARE {
            self.spare.push(entries);
        }
    }

    /// Calls `each` for every open id, with its entry.
    pub fn for_each_open(&self, mut each: impl FnMut(u64, &ObjectEntry)) {
        for (number, page) in (self.first_page.unwrap_or(0)..).zip(&self.pages) {
            page.open().for_each(|(at, entry)| each(number * IDS as u64 + at as u64, entry));
        }
        self.scattered.for_each_open(each);
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::flags::{BORN, DROPPED};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn toggle(table: &mut ObjectTable, id: u64) -> IdState {
        let mut seen = IdState::New;
        table.apply(id, |state| {
            seen = state;
            match state {
                IdState::New => NextIdState::Open(ObjectEntry::new(id, 7, 1, BORN)),
                IdState::Open(_) => NextIdState::Settled,
                IdState::Settled => NextIdState::Same,
            }
        });
        seen
    }

    fn open_ids(table: &ObjectTable) -> BTreeMap<u64, ObjectEntry> {
        let mut open = BTreeMap::new();
        table.for_each_open(|id, entry| assert_eq!(open.insert(id, *entry), None));
        open
    }

    #[test]
    fn a_long_sequence_with_few_survivors_takes_little() {
        let mut table = ObjectTable::default();
        for id in 0..300_000 {
            assert_eq!(toggle(&mut table, id), IdState::New);
            if id >= 1000 && id % 100 != 0 {
                assert_eq!(toggle(&mut table, id - 1000), IdState::Open(ObjectEntry::new(id - 1000, 7, 1, BORN)));
            }
        }
        assert!(table.dense_pages <= SLACK + NEW_PAGES + 20, "{}", table.dense_pages);
        let survivors = open_ids(&table);
        assert_eq!(survivors.len(), 3000 + 990);
        assert_eq!(table.ids(), 300_000);
        assert_eq!(toggle(&mut table, 150), IdState::Settled);
    }

    #[test]
    fn an_id_far_ahead_is_still_known_when_its_page_comes() {
        let mut table = ObjectTable::default();
        let (open, settled) = (2_200_000, 2_200_001);
        let seen = [0, open, settled, settled].map(|id| toggle(&mut table, id));
        assert_eq!(seen.map(|state| state == IdState::New), [true, true, true, false]);
        (1..100_000).for_each(|id| _ = toggle(&mut table, id));
        assert_eq!(toggle(&mut table, 2_200_002), IdState::New);
        assert!(matches!(toggle(&mut table, open), IdState::Open(_)));
        assert_eq!(toggle(&mut table, settled), IdState::Settled);
    }

    #[test]
    fn entries_and_pages_are_small() {
        assert_eq!((size_of::<ObjectEntry>(), size_of::<Page>()), (16, 24));
        assert_eq!(ObjectEntry::new(1, 2, 3, BORN).and(DROPPED).owner(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ids_of_any_kind_are_remembered(
            bases in prop::collection::vec(prop_oneof![Just(0u64), 0..100_000u64, any::<u64>()], 1..8),
            steps in prop::collection::vec((0usize..8, 0..3000u64, prop_oneof![Just(1u64), Just(64), Just(100_000)]), 1..3000),
        ) {
            let (mut table, mut model) = (ObjectTable::default(), BTreeMap::new());
            for (base, offset, stride) in steps {
                let id = bases[base % bases.len()].wrapping_add(offset.wrapping_mul(stride));
                let times = model.entry(id).and_modify(|times| *times += 1).or_insert(1);
                let expected = match *times {
                    1 => IdState::New,
                    2 => IdState::Open(ObjectEntry::new(id, 7, 1, BORN)),
                    _ => IdState::Settled,
                };
                prop_assert_eq!(toggle(&mut table, id), expected);
            }
            let open: Vec<u64> = model.iter().filter(|(_, times)| **times == 1).map(|(id, _)| *id).collect();
            prop_assert_eq!(open_ids(&table).into_keys().collect::<Vec<_>>(), open);
            prop_assert_eq!(table.ids(), model.len() as u64);
        }
    }
}
