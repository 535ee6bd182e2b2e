//! Can the answer be trusted? Judged by what the log says against itself, and by what the memory says.

use super::contradictions::Contradictions;
use super::reader::Reader;
use super::survivors::Survivors;

/// How what was never dropped compares with how the memory grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// There are fewer than two `MEMORY` lines.
    NotMeasured,
    /// More was never dropped than the memory grew by.
    Impossible {
        /// How much more.
        excess: u64,
    },
    /// The memory did not grow, and nothing says that it should have.
    NoGrowth,
    /// Most of the growth is not in objects of the log.
    MostlyElsewhere {
        /// The part that is, in percent.
        percent: u64,
        /// Bytes that are not.
        unexplained: u64,
    },
    /// The growth is in objects of the log.
    Explained {
        /// The part that is, in percent.
        percent: u64,
        /// Bytes that are not.
        unexplained: u64,
    },
}

impl Explanation {
    /// Compares bytes never dropped with a growth that is measured in pages of some size.
    pub fn of(never_dropped: u64, growth: i128, page: u64) -> Self {
        let excess = i128::from(never_dropped) - growth;
        // What is less than a page may have found room in one that was there.
        let room = if page > 1 { i128::from(page) } else { 0 };
        match growth {
            _ if excess > room && never_dropped > 0 => Self::Impossible { excess: excess.min(u64::MAX.into()) as u64 },
            ..=0 => Self::NoGrowth,
            _ => {
                let percent = (i128::from(never_dropped) * 100 / growth).clamp(0, 100) as u64;
                let unexplained = (-excess).clamp(0, u64::MAX.into()) as u64;
                if percent < 50 {
                    Self::MostlyElsewhere { percent, unexplained }
                } else {
                    Self::Explained { percent, unexplained }
                }
            }
        }
    }

    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::NotMeasured => "not_measured",
            Self::Impossible { .. } => "impossible",
            Self::NoGrowth => "no_growth",
            Self::MostlyElsewhere { .. } => "mostly_elsewhere",
            Self::Explained { .. } => "explained",
        }
    }
}

/// How far the answer can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing contradicts it.
    Yes,
    /// A few ids are doubtful, or part of the growth is elsewhere.
    Mostly,
    /// It cannot be right, or too much is doubtful.
    No,
    /// There is nothing to trust: not a single object.
    Nothing,
}

impl Verdict {
    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Mostly => "mostly",
            Self::No => "no",
            Self::Nothing => "nothing",
        }
    }
}

/// The judgement of a log.
#[derive(Clone, Debug)]
pub struct Trust {
    /// What it says against itself.
    pub contradictions: Contradictions,
    /// How it compares with the growth of the memory.
    pub explanation: Explanation,
    /// Bytes never dropped of objects born while the memory was measured.
    pub never_dropped_during_growth: u64,
    /// The judgement.
    pub verdict: Verdict,
}

/// More doubtful ids or lines than one in so many, and nothing is certain.
const TOO_MANY: u64 = 20;

impl Trust {
    /// Judges what was read.
    pub fn of(reader: &Reader, survivors: &Survivors) -> Self {
        let matcher = reader.matcher();
        let contradictions = matcher.contradictions();
        let never_dropped = survivors.born_during_growth.bytes;
        let explanation = match matcher.memory.growth() {
            None => Explanation::NotMeasured,
            Some(growth) => Explanation::of(never_dropped, growth.bytes(), growth.page_bytes),
        };
        let odd = contradictions.count() + reader.counts().malformed + matcher.clamped_sizes;
        let verdict = match explanation {
            _ if matcher.ids() == 0 => Verdict::Nothing,
            Explanation::Impossible { .. } => Verdict::No,
            _ if odd.saturating_mul(TOO_MANY) > matcher.ids() && odd > 1 => Verdict::No,
            Explanation::MostlyElsewhere { .. } => Verdict::Mostly,
            _ if odd > 0 || matcher.refused_names() > 0 => Verdict::Mostly,
            _ => Verdict::Yes,
        };
        Self { contradictions, explanation, never_dropped_during_growth: never_dropped, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_growth_is_impossible_and_much_less_is_elsewhere() {
        let of = |never_dropped, growth| Explanation::of(never_dropped, growth, 1);
        assert_eq!(of(1001, 1000), Explanation::Impossible { excess: 1 });
        assert_eq!(of(1000, 1000), Explanation::Explained { percent: 100, unexplained: 0 });
        assert_eq!(of(930, 1000), Explanation::Explained { percent: 93, unexplained: 70 });
        assert_eq!(of(100, 1000), Explanation::MostlyElsewhere { percent: 10, unexplained: 900 });
        assert_eq!(of(0, 0), Explanation::NoGrowth);
        assert_eq!(of(0, -500), Explanation::NoGrowth);
        assert_eq!(of(1, 0), Explanation::Impossible { excess: 1 });
        assert_eq!(of(u64::MAX, -i128::from(u64::MAX)), Explanation::Impossible { excess: u64::MAX });
    }

    #[test]
    fn less_than_a_page_may_lie_in_one_that_was_there() {
        assert_eq!(Explanation::of(70_000, 65_536, 65_536), Explanation::Explained { percent: 100, unexplained: 0 });
        assert_eq!(Explanation::of(1000, 0, 65_536), Explanation::NoGrowth);
        assert_eq!(Explanation::of(200_000, 65_536, 65_536), Explanation::Impossible { excess: 134_464 });
    }
}
