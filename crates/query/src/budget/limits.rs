//! Limits, and the parts of a program's memory that they are on.

use crate::filter::{Filter, parse_bytes};
use highwater_model::When;
use serde::{Serialize, Serializer};

/// What a limit is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    /// The most bytes live at once.
    Peak,
    /// Bytes live at the end.
    Leaked,
    /// Blocks live at the end.
    LeakedBlocks,
    /// Bytes ever allocated.
    Allocated,
    /// Allocations, reallocations included.
    Allocations,
    /// The share of allocations that are freed before their thread allocates anything else.
    Temporary,
    /// The most bytes in RAM, as far as that was measured.
    Rss,
    /// Bytes by which live memory grows in each iteration, on average.
    Growth,
    /// The same in blocks.
    GrowthBlocks,
}

/// What a limit is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetUnit {
    /// Bytes.
    Bytes,
    /// Blocks or calls.
    Blocks,
    /// Hundredths of a percent.
    BasisPoints,
}

/// The whole, in [`BudgetUnit::BasisPoints`].
pub(super) const WHOLE_SHARE: u64 = 10_000;

impl LimitKind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Peak,
        Self::Leaked,
        Self::LeakedBlocks,
        Self::Allocated,
        Self::Allocations,
        Self::Temporary,
        Self::Rss,
        Self::Growth,
        Self::GrowthBlocks,
    ];

    /// The key of the limit in a budget file, and its option without the dashes.
    pub fn key(self) -> &'static str {
        match self {
            Self::Peak => "max-peak",
            Self::Leaked => "max-leaked",
            Self::LeakedBlocks => "max-leaked-blocks",
            Self::Allocated => "max-allocated",
            Self::Allocations => "max-allocations",
            Self::Temporary => "max-temporary",
            Self::Rss => "max-rss",
            Self::Growth => "max-growth",
            Self::GrowthBlocks => "max-growth-blocks",
        }
    }

    /// What is limited, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Leaked => "live at the end",
            Self::LeakedBlocks => "blocks live at the end",
            Self::Allocated => "allocated",
            Self::Allocations => "allocations",
            Self::Temporary => "temporary allocations",
            Self::Rss => "highest RSS",
            Self::Growth => "growth per iteration",
            Self::GrowthBlocks => "blocks of growth per iteration",
        }
    }

    /// What it is counted in.
    pub fn unit(self) -> BudgetUnit {
        match self {
            Self::Peak | Self::Leaked | Self::Allocated | Self::Rss | Self::Growth => BudgetUnit::Bytes,
            Self::LeakedBlocks | Self::Allocations | Self::GrowthBlocks => BudgetUnit::Blocks,
            Self::Temporary => BudgetUnit::BasisPoints,
        }
    }

    /// True for what is left over, which suppressions apply to.
    pub fn is_suppressible(self) -> bool {
        matches!(self, Self::Leaked | Self::LeakedBlocks | Self::Growth | Self::GrowthBlocks)
    }

    /// True for growth, which needs iterations.
    pub fn is_growth(self) -> bool {
        matches!(self, Self::Growth | Self::GrowthBlocks)
    }

    /// Reads the value of a limit: a size, a count or a share.
    pub fn parse(self, text: &str) -> Result<u64, ImpossibleLimit> {
        match self.unit() {
            BudgetUnit::Bytes => parse_bytes(text).ok_or(ImpossibleLimit::NoSize),
            BudgetUnit::Blocks => text.replace('_', "").parse().map_err(|_| ImpossibleLimit::NoCount),
            BudgetUnit::BasisPoints => share(text).ok_or(ImpossibleLimit::NoShare),
        }
    }
}

impl Serialize for LimitKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}

impl Serialize for BudgetUnit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Bytes => "bytes",
            Self::Blocks => "blocks",
            Self::BasisPoints => "basis-points",
        })
    }
}

/// A share of at most 100 %, with at most two decimals.
fn share(text: &str) -> Option<u64> {
    let digits = |text: &str| (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(());
    let number = text.strip_suffix('%')?.trim_end();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    digits(whole).and(digits(part))?;
    let part = match part.len() {
        1 => part.parse::<u64>().ok()? * 10,
        2 => part.parse::<u64>().ok()?,
        _ => return None,
    };
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part).filter(|share| *share <= WHOLE_SHARE)
}

/// Why a limit makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleLimit {
    /// A text that is no size.
    #[error("not a size: a size is 0, 65536, 512KiB (1,024 bytes each), 80KB (1,000 bytes each), 4MiB or 2G")]
    NoSize,
    /// A text that is no count.
    #[error("not a count: a count is a whole number such as 0 or 100_000")]
    NoCount,
    /// A text that is no share.
    #[error("not a share: a share is at most 100%, such as 30% or 12.5%")]
    NoShare,
    /// A limit that another one implies.
    #[error("{0} can never be broken: it is larger than {1}")]
    NeverBroken(&'static str, &'static str),
    /// A peak that every program exceeds.
    #[error(
        "max-peak of 0 is broken by every program that allocates; max-allocations = 0 says that nothing may be allocated"
    )]
    NoPeak,
    /// A part without limits.
    #[error("there is no limit in it")]
    NoLimit,
    /// Growth without iterations.
    #[error("{0} is by iteration: 'each' names the mark that every iteration sets")]
    NoIterations(&'static str),
    /// A limit of the whole, by iteration.
    #[error("{0} is not by iteration, and 'each' is given; put it into another part")]
    NotByIteration(&'static str),
    /// Resident memory of some blocks.
    #[error(
        "max-rss is of the whole process: pages do not belong to single blocks, and 'measure' is too short to look at them"
    )]
    RssOfPart,
    /// More than one of `from` and `to`, `measure`, and `each`.
    #[error("a part has either 'from' and 'to', or 'measure', or 'each'")]
    TwoSpans,
}

/// When a part applies.
#[derive(Clone, Debug, PartialEq)]
pub enum PartSpan {
    /// Over the whole run.
    Whole,
    /// Between two instants; the beginning and the end where one is missing.
    Window {
        /// The first instant.
        from: Option<When>,
        /// The last instant.
        to: Option<When>,
    },
    /// Each time between `highwater_measure_begin` and `highwater_measure_end` with this name.
    Measure(String),
    /// From one mark of this name to the next.
    Each {
        /// The mark's name.
        mark: String,
        /// How many iterations warm up, and do not count.
        skip: u64,
    },
}

/// Limits on a part of a program's memory.
#[derive(Clone, Debug)]
pub struct BudgetPart {
    /// What it is called; empty if it has no name.
    pub name: String,
    /// Which blocks count: all must pass.
    pub filters: Vec<Filter>,
    /// When.
    pub span: PartSpan,
    /// The limits, each at most once.
    pub limits: Vec<(LimitKind, u64)>,
}

impl BudgetPart {
    /// A part, unless its limits make no sense.
    pub fn new(
        name: String,
        filters: Vec<Filter>,
        span: PartSpan,
        mut limits: Vec<(LimitKind, u64)>,
    ) -> Result<Self, ImpossibleLimit> {
        limits.sort_unstable();
        let limit = |wanted: LimitKind| limits.iter().find(|(kind, _)| *kind == wanted).map(|(_, limit)| *limit);
        let is_by_iteration = matches!(span, PartSpan::Each { .. });
        for (kind, _) in &limits {
            match (kind.is_growth(), is_by_iteration) {
                (true, false) => return Err(ImpossibleLimit::NoIterations(kind.key())),
                (false, true) => return Err(ImpossibleLimit::NotByIteration(kind.key())),
                _ => {}
            }
        }
        if limits.is_empty() {
            return Err(ImpossibleLimit::NoLimit);
        }
        if limit(LimitKind::Rss).is_some() && (!filters.is_empty() || matches!(span, PartSpan::Measure(_))) {
            return Err(ImpossibleLimit::RssOfPart);
        }
        if limit(LimitKind::Peak) == Some(0) && filters.is_empty() && span == PartSpan::Whole {
            return Err(ImpossibleLimit::NoPeak);
        }
        let implied = [
            (LimitKind::Leaked, LimitKind::Peak),
            (LimitKind::Leaked, LimitKind::Allocated),
            (LimitKind::Peak, LimitKind::Allocated),
            (LimitKind::LeakedBlocks, LimitKind::Allocations),
        ];
        // Memory from before a window is in its peak, and not in what it allocates.
        let is_closed = |kind| matches!(span, PartSpan::Whole | PartSpan::Measure(_)) || kind != LimitKind::Peak;
        for (smaller, larger) in implied.into_iter().filter(|(smaller, _)| is_closed(*smaller)) {
            if let (Some(least), Some(most)) = (limit(smaller), limit(larger))
                && least > most
            {
                return Err(ImpossibleLimit::NeverBroken(smaller.key(), larger.key()));
            }
        }
        Ok(Self { name, filters, span, limits })
    }

    /// What the part is, in words; empty for the whole run.
    pub fn in_words(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let mut words: Vec<String> = self.filters.iter().map(|filter| format!("in '{filter}'")).collect();
        match &self.span {
            PartSpan::Whole => {}
            PartSpan::Window { from, to } => {
                words.extend(from.as_ref().map(|from| format!("from {from}")));
                words.extend(to.as_ref().map(|to| format!("to {to}")));
            }
            PartSpan::Measure(name) => words.push(format!("in each '{name}'")),
            PartSpan::Each { mark, .. } => words.push(format!("from '{mark}' to '{mark}'")),
        }
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_their_unit_and_impossible_ones_are_refused() {
        assert_eq!(LimitKind::Peak.parse("4 MiB"), Ok(4 << 20));
        assert_eq!(LimitKind::Leaked.parse("0"), Ok(0));
        assert_eq!(LimitKind::Allocations.parse("100_000"), Ok(100_000));
        for (text, points) in [("30%", 3000), ("12.5%", 1250), ("0.01 %", 1), ("100%", 10_000), ("0%", 0)] {
            assert_eq!(LimitKind::Temporary.parse(text), Ok(points), "{text}");
        }
        for text in ["30", "101%", "100.01%", "-1%", "1.234%", "%", ".5%", "1.%", "+3%", "999999999999999999999%"] {
            assert_eq!(LimitKind::Temporary.parse(text), Err(ImpossibleLimit::NoShare), "{text}");
        }
        for text in ["-1", "1.5", "", "99999999999999999999", "5 blocks"] {
            assert_eq!(LimitKind::Allocations.parse(text), Err(ImpossibleLimit::NoCount), "{text}");
        }
        for text in ["-1", "12 parsecs", "", "99999999999999999999"] {
            assert_eq!(LimitKind::Peak.parse(text), Err(ImpossibleLimit::NoSize), "{text}");
        }
    }

    #[test]
    fn limits_that_contradict_their_part_are_refused() {
        let part = |span: PartSpan, filters: &[&str], limits: &[(LimitKind, u64)]| {
            let filters = filters.iter().map(|filter| filter.parse().unwrap()).collect();
            BudgetPart::new(String::new(), filters, span, limits.to_vec()).map(drop)
        };
        let each = || PartSpan::Each { mark: "round".into(), skip: 1 };
        use LimitKind::*;
        assert_eq!(part(PartSpan::Whole, &[], &[(Peak, 10), (Leaked, 10)]), Ok(()));
        assert_eq!(
            part(PartSpan::Whole, &[], &[(Peak, 10), (Leaked, 11)]),
            Err(ImpossibleLimit::NeverBroken("max-leaked", "max-peak"))
        );
        assert_eq!(part(PartSpan::Whole, &[], &[]), Err(ImpossibleLimit::NoLimit));
        assert_eq!(part(PartSpan::Whole, &[], &[(Peak, 0)]), Err(ImpossibleLimit::NoPeak));
        assert_eq!(part(PartSpan::Whole, &["parse"], &[(Peak, 0)]), Ok(()));
        assert_eq!(part(PartSpan::Whole, &["parse"], &[(Rss, 1)]), Err(ImpossibleLimit::RssOfPart));
        assert_eq!(part(PartSpan::Whole, &[], &[(Growth, 0)]), Err(ImpossibleLimit::NoIterations("max-growth")));
        assert_eq!(part(each(), &[], &[(Growth, 0)]), Ok(()));
        assert_eq!(part(each(), &[], &[(Peak, 9)]), Err(ImpossibleLimit::NotByIteration("max-peak")));
        let later = PartSpan::Window { from: Some(When::Percent(50.0)), to: None };
        assert_eq!(part(later, &[], &[(Peak, 10), (Allocated, 5)]), Ok(()), "the peak has older memory");
    }
}
