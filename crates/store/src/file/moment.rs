//! Instants of a recording.

use highwater_model::Nanos;

/// An instant of a recording: what a [`When`](highwater_model::When) means there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Before the first event.
    Start,
    /// After everything that happened up to and including this time.
    At(Nanos),
    /// After this number of events.
    Event(u64),
    /// After the last event.
    End,
}
