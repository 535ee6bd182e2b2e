//! Law 5: nothing is ever silently wrong. Every anomaly has a counter that the user sees.

/// The kinds of anomaly, in the order in which files store them. Append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Anomaly {
    /// A free of an address where no block was live.
    UnmatchedFree,
    /// A reallocation of an address where no block was live; the new block is counted as an allocation.
    UnmatchedReallocation,
    /// An allocation at an address whose block was still live; the older block is taken as freed.
    DuplicateAllocation,
    /// A free or reallocation that claims another size than the block was allocated with; the block's own size counts.
    SizeMismatch,
    /// A drop that claims another type than the block was allocated with; the block's own type counts.
    TypeMismatch,
    /// An event that arrived after a later one. It was sorted into its place.
    OutOfOrder,
    /// An event whose time is earlier than the latest time written. It is recorded at that latest time.
    RepairedTime,
    /// An event that the source had to drop.
    DroppedEvent,
    /// A truncated stack.
    TruncatedStack,
    /// A size so large that the sum of all sizes would not fit in 64 bits. It was reduced to what fits.
    ClampedSize,
    /// An event lost to damage of the file, or an event that refers to lost data.
    LostToDamage,
    /// A promotion of a block that is not known.
    UnmatchedPromotion,
    /// The source's clock was set back; all later times are shifted by the size of the step.
    ClockStep,
    /// The size of all clock steps together, in microseconds.
    ClockStepMicroseconds,
    /// A source location that is the likeliest reading of damaged bytes. Its function ends with [`GUESSED`](crate::GUESSED).
    GuessedLocation,
}

impl Anomaly {
    /// All kinds, in stored order.
    pub const ALL: [Self; 15] = [
        Self::UnmatchedFree,
        Self::UnmatchedReallocation,
        Self::DuplicateAllocation,
        Self::SizeMismatch,
        Self::TypeMismatch,
        Self::OutOfOrder,
        Self::RepairedTime,
        Self::DroppedEvent,
        Self::TruncatedStack,
        Self::ClampedSize,
        Self::LostToDamage,
        Self::UnmatchedPromotion,
        Self::ClockStep,
        Self::ClockStepMicroseconds,
        Self::GuessedLocation,
    ];

    /// The counter's name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::UnmatchedFree => "unmatched_frees",
            Self::UnmatchedReallocation => "unmatched_reallocations",
            Self::DuplicateAllocation => "duplicate_allocations",
            Self::SizeMismatch => "size_mismatches",
            Self::TypeMismatch => "type_mismatches",
            Self::OutOfOrder => "out_of_order_events",
            Self::RepairedTime => "repaired_times",
            Self::DroppedEvent => "dropped_events",
            Self::TruncatedStack => "truncated_stacks",
            Self::ClampedSize => "clamped_sizes",
            Self::LostToDamage => "lost_to_damage",
            Self::UnmatchedPromotion => "unmatched_promotions",
            Self::ClockStep => "clock_steps",
            Self::ClockStepMicroseconds => "clock_step_us",
            Self::GuessedLocation => "guessed_locations",
        }
    }

    /// What it means, for people.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::UnmatchedFree => "frees of addresses where nothing was live (allocated before the recording began?)",
            Self::UnmatchedReallocation => "reallocations of addresses where nothing was live",
            Self::DuplicateAllocation => "allocations at an address that was still live (a free was missed)",
            Self::SizeMismatch => "frees or reallocations that claimed another size than was allocated",
            Self::TypeMismatch => "drops that claimed another type than was allocated",
            Self::OutOfOrder => "events that arrived late and were put back in order",
            Self::RepairedTime => "events whose time ran backwards and was repaired",
            Self::DroppedEvent => "events that the source could not keep",
            Self::TruncatedStack => "truncated stacks: their outermost frames are missing",
            Self::ClampedSize => "sizes too large to add up, cut to what fits",
            Self::LostToDamage => "events lost to damage of the file, or that refer to lost ones",
            Self::UnmatchedPromotion => "promotions of blocks that are not known",
            Self::ClockStep => "times the clock was set back; all later times are shifted by the size of the step",
            Self::ClockStepMicroseconds => "microseconds by which the clock was set back, all steps together",
            Self::GuessedLocation => {
                "source locations that are guesses, marked [guessed]: damaged bytes are read in the likeliest way"
            }
        }
    }

    /// The kind stored as `number`.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// One counter for each [`Anomaly`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies([u64; Anomaly::ALL.len()]);

impl Anomalies {
    /// Counts `count` more of a kind.
    pub fn add(&mut self, anomaly: Anomaly, count: u64) {
        let counter = &mut self.0[anomaly as usize];
        *counter = counter.saturating_add(count);
    }

    /// How many of a kind.
    pub fn get(&self, anomaly: Anomaly) -> u64 {
        self.0[anomaly as usize]
    }

    /// Every kind with its counter, zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (Anomaly, u64)> + '_ {
        Anomaly::ALL.iter().map(|&anomaly| (anomaly, self.get(anomaly)))
    }

    /// True when nothing odd was seen.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&count| count == 0)
    }
}
