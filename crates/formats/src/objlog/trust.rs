//! Whether the result can be trusted, judged by the contradictions in the log and by the growth of the memory.

use super::contradictions::Contradictions;
use super::memory::MemoryGrowth;
use super::reader::ObjectLogReader;
use super::room::HeapRooms;
use super::survivors::SurvivingObjects;

/// Never-dropped objects compared with the growth of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// There are fewer than two `MEMORY` lines.
    NotMeasured,
    /// The never-dropped objects are larger than the whole memory.
    Impossible {
        /// The excess in bytes.
        excess: u64,
    },
    /// The never-dropped objects are larger than the growth of the memory. The excess lies in memory that was free before or became free since, if
    /// there was enough of it. A log does not show the free memory of the heap, so it cannot distinguish this from an error of the method.
    NeedsFreeRoom {
        /// The bytes that must have been free.
        room: u64,
    },
    /// The never-dropped objects are larger than the growth of the memory, and an image shows that this is right: they lie in room that was free before.
    ReusedFreeRoom {
        /// The bytes that were free before.
        room: u64,
    },
    /// The never-dropped objects are larger than everything in use on the heap, which an image shows.
    MoreThanInUse {
        /// The excess in bytes.
        excess: u64,
    },
    /// The memory did not grow, and no object suggests that it should have.
    NoGrowth,
    /// Most of the growth is outside the objects of the log.
    MostlyElsewhere {
        /// The part inside them, in percent.
        percent: u64,
        /// The bytes outside them.
        unexplained: u64,
    },
    /// Most of the growth is in objects of the log.
    Explained {
        /// The part inside them, in percent.
        percent: u64,
        /// The bytes outside them.
        unexplained: u64,
    },
}

impl Explanation {
    /// Compares the growth of the memory with never-dropped bytes: those born during the growth, and all born until its end.
    pub fn of(born_meanwhile: u64, born_until_then: u64, memory: &MemoryGrowth) -> Self {
        let growth = memory.bytes();
        let never_dropped = born_meanwhile;
        let excess = i128::from(never_dropped) - growth.max(0);
        // Less than a page may have fitted into an existing page.
        let page = if memory.page_bytes > 1 { memory.page_bytes } else { 0 };
        let beyond_memory = born_until_then.saturating_sub(memory.last_bytes);
        if beyond_memory > page {
            Self::Impossible { excess: beyond_memory }
        } else if excess > i128::from(page) {
            Self::NeedsFreeRoom { room: excess.min(u64::MAX.into()) as u64 }
        } else {
            Self::of_growth(never_dropped, growth)
        }
    }

    /// Compares a growth with never-dropped bytes that are not too many for it.
    pub(super) fn of_growth(never_dropped: u64, growth: i128) -> Self {
        if growth <= 0 {
            return Self::NoGrowth;
        }
        let percent = (i128::from(never_dropped) * 100 / growth).clamp(0, 100) as u64;
        let unexplained = (growth - i128::from(never_dropped)).clamp(0, u64::MAX.into()) as u64;
        if percent < 50 {
            Self::MostlyElsewhere { percent, unexplained }
        } else {
            Self::Explained { percent, unexplained }
        }
    }

    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::NotMeasured => "not_measured",
            Self::Impossible { .. } => "impossible",
            Self::NeedsFreeRoom { .. } => "needs_free_room",
            Self::ReusedFreeRoom { .. } => "reused_free_room",
            Self::MoreThanInUse { .. } => "more_than_in_use",
            Self::NoGrowth => "no_growth",
            Self::MostlyElsewhere { .. } => "mostly_elsewhere",
            Self::Explained { .. } => "explained",
        }
    }
}

/// How far the answer can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustVerdict {
    /// Nothing contradicts it.
    Yes,
    /// A few ids are doubtful, or part of the growth is elsewhere.
    Mostly,
    /// It is right only if the heap had enough free memory, which the log does not show.
    Unknown,
    /// It cannot be right, or too many ids are doubtful.
    No,
    /// There is no object in the log.
    Nothing,
}

impl TrustVerdict {
    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Mostly => "mostly",
            Self::Unknown => "unknown",
            Self::No => "no",
            Self::Nothing => "nothing",
        }
    }
}

/// The judgement of a log.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The contradictions in the log.
    pub contradictions: Contradictions,
    /// The comparison with the growth of the memory.
    pub explanation: Explanation,
    /// Never-dropped bytes of objects born while the memory was measured.
    pub never_dropped_during_growth: u64,
    /// The judgement.
    pub verdict: TrustVerdict,
}

/// If more than one in this number of ids or lines is doubtful, nothing is certain.
const TOO_MANY: u64 = 20;

impl Trust {
    /// Judges a log.
    pub fn of(reader: &ObjectLogReader, survivors: &SurvivingObjects) -> Self {
        Self::with_heap(reader, survivors, &HeapRooms::default())
    }

    /// Judges a log by what images show of the heap, too.
    pub fn with_heap(reader: &ObjectLogReader, survivors: &SurvivingObjects, heap: &HeapRooms) -> Self {
        let matcher = reader.matcher();
        let contradictions = matcher.contradictions();
        let never_dropped = survivors.born_during_growth.bytes;
        let explanation = match matcher.memory.growth() {
            None => heap.judge(Explanation::NotMeasured, never_dropped, matcher.total().live_bytes()),
            Some(growth) => {
                let live = survivors.born_until_last_reading.bytes;
                heap.judge(Explanation::of(never_dropped, live, &growth), never_dropped, live)
            }
        };
        let odd = contradictions.count() + reader.counts().malformed + matcher.clamped_sizes;
        let verdict = match explanation {
            _ if matcher.ids() == 0 => TrustVerdict::Nothing,
            Explanation::Impossible { .. } | Explanation::MoreThanInUse { .. } => TrustVerdict::No,
            _ if odd.saturating_mul(TOO_MANY) > matcher.ids() && odd > 1 => TrustVerdict::No,
            Explanation::NeedsFreeRoom { .. } => TrustVerdict::Unknown,
            Explanation::MostlyElsewhere { .. } => TrustVerdict::Mostly,
            _ if odd > 0 || matcher.refused_names() > 0 => TrustVerdict::Mostly,
            _ => TrustVerdict::Yes,
        };
        Self { contradictions, explanation, never_dropped_during_growth: never_dropped, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(first_bytes: u64, last_bytes: u64, page_bytes: u64) -> MemoryGrowth {
        MemoryGrowth { first_bytes, last_bytes, from_iteration: 1, to_iteration: 1, page_bytes }
    }

    #[test]
    fn more_than_the_growth_needs_free_room_and_much_less_is_elsewhere() {
        let of = |never_dropped, last| Explanation::of(never_dropped, never_dropped, &growth(10_000, last, 1));
        assert_eq!(of(1001, 11_000), Explanation::NeedsFreeRoom { room: 1 });
        assert_eq!(of(1000, 11_000), Explanation::Explained { percent: 100, unexplained: 0 });
        assert_eq!(of(930, 11_000), Explanation::Explained { percent: 93, unexplained: 70 });
        assert_eq!(of(100, 11_000), Explanation::MostlyElsewhere { percent: 10, unexplained: 900 });
        assert_eq!(of(0, 10_000), Explanation::NoGrowth);
        assert_eq!(of(0, 9_500), Explanation::NoGrowth);
        assert_eq!(of(1, 10_000), Explanation::NeedsFreeRoom { room: 1 });
        assert_eq!(of(400, 9_500), Explanation::NeedsFreeRoom { room: 400 });
    }

    #[test]
    fn more_than_the_memory_holds_is_impossible() {
        let of = |born, all, last| Explanation::of(born, all, &growth(10_000, last, 1));
        assert_eq!(of(11_000, 11_000, 11_000), Explanation::NeedsFreeRoom { room: 10_000 });
        assert_eq!(of(11_001, 11_001, 11_000), Explanation::Impossible { excess: 1 });
        // Objects from before the growth take part of the memory.
        assert_eq!(of(2_000, 11_500, 11_000), Explanation::Impossible { excess: 500 });
        assert_eq!(of(u64::MAX, u64::MAX, 0), Explanation::Impossible { excess: u64::MAX });
    }

    #[test]
    fn less_than_a_page_may_lie_in_one_that_was_there() {
        let of = |never_dropped, pages: u64| {
            Explanation::of(never_dropped, never_dropped, &growth(65_536 * 10, 65_536 * pages, 65_536))
        };
        assert_eq!(of(70_000, 11), Explanation::Explained { percent: 100, unexplained: 0 });
        assert_eq!(of(1000, 10), Explanation::NoGrowth);
        assert_eq!(of(200_000, 11), Explanation::NeedsFreeRoom { room: 134_464 });
    }
}
