//! What the times of a source count.

use crate::ids::Nanos;
use crate::snapshot::{Source, grouped};

/// What the [`Nanos`] of a source are. Some sources have no times, only an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Nanoseconds.
    #[default]
    Time,
    /// Lines of a log.
    Lines,
    /// Instructions that the program executed.
    Instructions,
    /// Bytes that the program allocated and freed.
    Bytes,
}

impl Clock {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Time, Self::Lines, Self::Instructions, Self::Bytes];

    /// The name of its unit: that of one, and that of several.
    pub fn unit(self) -> (&'static str, &'static str) {
        match self {
            Self::Time => ("ns", "ns"),
            Self::Lines => ("line", "lines"),
            Self::Instructions => ("instruction", "instructions"),
            Self::Bytes => ("byte", "bytes"),
        }
    }

    /// The clock whose unit has this name.
    pub fn of_unit(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.unit().0 == name || clock.unit().1 == name)
    }
}

impl Source {
    /// True if the source has no times, only an order.
    pub fn is_untimed(&self) -> bool {
        self.clock != Clock::Time
    }

    /// An instant in readable form: `12.5s`, or `line 1,204` if there are no times.
    pub fn instant(&self, at: Nanos) -> String {
        match self.clock {
            Clock::Time => at.to_string(),
            clock => format!("{} {}", clock.unit().0, grouped(at.0)),
        }
    }

    /// A duration in readable form: `12.5s`, or `1,204 lines` if there are no times.
    pub fn length(&self, length: Nanos) -> String {
        match (self.clock, length.0) {
            (Clock::Time, _) => length.to_string(),
            (clock, 1) => format!("1 {}", clock.unit().0),
            (clock, units) => format!("{} {}", grouped(units), clock.unit().1),
        }
    }
}
