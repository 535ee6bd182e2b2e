//! Which slots stand for a range of time: the fullest of each bin, and the latest.

/// What all chosen processes held at a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTotal {
    /// The slot.
    pub slot: i64,
    /// Live bytes of all processes.
    pub bytes: i64,
    /// The number of processes.
    pub processes: u64,
    /// The number of their hosts.
    pub hosts: u64,
    /// The largest mean of bytes per sample; 0 if no process samples.
    pub sample_period: i64,
}

/// Within these seconds every host has sent a slot: twice the time after which `highwater ship` uploads what it has.
pub const SETTLING: i64 = 600;

/// The slots up to the latest that most processes have already sent: at least 90 % of those in the fullest of the last ten slots, or of the last ten minutes if that is
/// more, as [`FleetInstant::Latest`](crate::questions::FleetInstant::Latest) has it. Later ones would show a fall that is none.
pub fn settled(all: &[SlotTotal]) -> &[SlotTotal] {
    let is_recent = |total: &SlotTotal| all.last().is_some_and(|last| total.slot > last.slot.saturating_sub(SETTLING));
    let recent = all.len() - all.iter().rev().take_while(|total| is_recent(total)).count().max(10).min(all.len());
    let recent = &all[recent..];
    let most = recent.iter().map(|total| total.processes).max().unwrap_or(0);
    let is_settled = |total: &SlotTotal| total.processes.saturating_mul(10) >= most.saturating_mul(9);
    let end = all.iter().rposition(is_settled).map_or(0, |last| last + 1);
    &all[..end]
}

/// The fullest slot of each of at most `bins` bins of equal length, and the last slot, in order. Figures are those of one slot and never sums over several, so the parts of
/// each add up to what was held then; the fullest slot of all is always among them.
pub fn chosen_slots(all: &[SlotTotal], bins: usize) -> Vec<SlotTotal> {
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Vec::new() };
    let width = i128::from(last.slot) - i128::from(first.slot) + 1;
    let bin_of = |total: &SlotTotal| (i128::from(total.slot) - i128::from(first.slot)) * bins.max(1) as i128 / width;
    let mut chosen: Vec<SlotTotal> = Vec::new();
    for total in all {
        match chosen.last_mut() {
            Some(fullest) if bin_of(fullest) == bin_of(total) => {
                if total.bytes > fullest.bytes {
                    *fullest = *total;
                }
            }
            _ => chosen.push(*total),
        }
    }
    if chosen.last() != Some(last) {
        chosen.push(*last);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(bytes: &[i64]) -> Vec<SlotTotal> {
        let total = |(at, bytes): (usize, &i64)| SlotTotal {
            slot: 600 + 60 * at as i64,
            bytes: *bytes,
            processes: 1,
            hosts: 1,
            sample_period: 0,
        };
        bytes.iter().enumerate().map(total).collect()
    }

    #[test]
    fn each_bin_shows_its_fullest_slot_and_the_end_is_the_latest() {
        let all = totals(&[5, 9, 1, 2, 3, 9, 8, 1]);
        let slots = |bins| chosen_slots(&all, bins).iter().map(|total| (total.slot - 600) / 60).collect::<Vec<_>>();
        assert_eq!(slots(2), [1, 5, 7]);
        assert_eq!(slots(100), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(slots(1), [1, 7]);
        assert_eq!(slots(0), [1, 7]);
        assert!(chosen_slots(&[], 3).is_empty());
    }

    #[test]
    fn slots_that_are_still_being_sent_do_not_count() {
        let total = |slot, processes| SlotTotal { slot, bytes: 1, processes, hosts: 1, sample_period: 0 };
        let all = [total(0, 3), total(1, 20), total(2, 18), total(3, 17)];
        assert_eq!(settled(&all).last().map(|total| total.slot), Some(2));
        assert!(settled(&[]).is_empty());
        // Slots of ten seconds: a host has sent nothing for five minutes yet.
        let quick: Vec<SlotTotal> = (0..100).map(|at| total(10 * at, if at < 70 { 20 } else { 10 })).collect();
        assert_eq!(settled(&quick).last().map(|total| total.slot), Some(690));
        let ended: Vec<SlotTotal> = (0..200).map(|at| total(10 * at, if at < 70 { 20 } else { 10 })).collect();
        assert_eq!(settled(&ended).last().map(|total| total.slot), Some(1990));
    }

    #[test]
    fn slots_far_apart_do_not_overflow() {
        let slot = |slot| SlotTotal { slot, bytes: 1, processes: 1, hosts: 1, sample_period: 0 };
        assert_eq!(chosen_slots(&[slot(i64::MIN), slot(i64::MAX)], 120).len(), 2);
    }
}
