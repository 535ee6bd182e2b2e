//! Time bins of equal length, and the bytes and blocks that were live in each.

use highwater_model::{ByteSum, Figures, Nanos, Window};

/// The least, the greatest and the last value of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<T> {
    /// The least.
    pub low: T,
    /// The greatest.
    pub high: T,
    /// The last.
    pub last: T,
}

impl<T: Copy + Ord> Span<T> {
    /// One value.
    pub fn of(value: T) -> Self {
        Self { low: value, high: value, last: value }
    }

    /// Maps the values with a function that keeps their order.
    pub fn map<U>(self, value: impl Fn(T) -> U) -> Span<U> {
        Span { low: value(self.low), high: value(self.high), last: value(self.last) }
    }

    /// Appends the span that follows this one.
    pub fn then(&mut self, next: Self) {
        *self = Self { low: self.low.min(next.low), high: self.high.max(next.high), last: next.last };
    }
}

/// What happened in one span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bin {
    /// Bytes and blocks that were live after each event of the bin; `None` if it has no events.
    pub live: Option<(Span<ByteSum>, Span<u64>)>,
    /// Bytes allocated.
    pub allocated: ByteSum,
    /// Blocks allocated, reallocations included.
    pub allocations: u64,
    /// Bytes freed.
    pub freed: ByteSum,
}

impl Bin {
    /// Notes the bytes and blocks that are live now.
    pub fn is_live(&mut self, bytes: ByteSum, blocks: u64) {
        self.then_live((Span::of(bytes), Span::of(blocks)));
    }

    fn then_live(&mut self, next: (Span<ByteSum>, Span<u64>)) {
        match &mut self.live {
            Some((bytes, blocks)) => {
                bytes.then(next.0);
                blocks.then(next.1);
            }
            None => self.live = Some(next),
        }
    }

    /// Sets the bytes and blocks that are live at its end, if it has events.
    pub fn ends_with(&mut self, bytes: ByteSum, blocks: u64) {
        if let Some(live) = &mut self.live {
            (live.0.last, live.1.last) = (bytes, blocks);
        }
    }

    /// Notes a change of figures from one state to another.
    pub fn see(&mut self, before: &Figures, after: &Figures) {
        self.is_live(after.live(), after.live_blocks());
        let came = |figures: &Figures| figures.allocations + figures.reallocations;
        self.allocated += after.allocated().saturating_sub(before.allocated());
        self.allocations += came(after).saturating_sub(came(before));
        self.freed += after.freed().saturating_sub(before.freed());
    }

    /// Appends the bin that follows this one.
    pub fn then(&mut self, next: &Self) {
        if let Some(live) = next.live {
            self.then_live(live);
        }
        self.allocated += next.allocated;
        self.allocations += next.allocations;
        self.freed += next.freed;
    }
}

/// The bins of a window.
#[derive(Clone, Debug)]
pub struct Bins {
    window: Window,
    /// In order.
    pub bins: Vec<Bin>,
    /// Bytes and blocks that were live before the window, as far as was seen.
    pub before: Option<(ByteSum, u64)>,
}

impl Bins {
    /// `count` bins, but at most one for each nanosecond of the window.
    pub fn new(window: Window, count: usize) -> Self {
        let length = window.to.0 - window.from.0;
        let count = u64::try_from(count.max(1)).unwrap_or(1).min(length.max(1)) as usize;
        Self { window, bins: vec![Bin::default(); count], before: None }
    }

    /// The same bins, with the bytes and blocks that were live before the window.
    pub fn beginning_with(self, bytes: ByteSum, blocks: u64) -> Self {
        Self { before: Some((bytes, blocks)), ..self }
    }

    /// The times that separate the bins, one more than there are bins.
    pub fn edges(&self) -> Vec<u64> {
        let (length, count) = (u128::from(self.window.to.0 - self.window.from.0), self.bins.len() as u128);
        // Rounded up: an edge is the first instant of its bin.
        (0..=count).map(|at| self.window.from.0 + (length * at).div_ceil(count) as u64).collect()
    }

    /// The index of the bin that a time lies in; `None` for a time outside the window.
    pub fn place(&self, time: Nanos) -> Option<usize> {
        if !self.window.has(time) {
            return None;
        }
        let length = u128::from(self.window.to.0 - self.window.from.0).max(1);
        let at = u128::from(time.0 - self.window.from.0) * self.bins.len() as u128 / length;
        Some((at as usize).min(self.bins.len() - 1))
    }

    /// Appends bins of the same window whose events come after the events of these.
    pub fn then(&mut self, next: &Self) {
        self.bins.iter_mut().zip(&next.bins).for_each(|(own, next)| own.then(next));
        self.before = self.before.or(next.before);
    }

    /// The bytes and blocks that were live in each bin: the states after its events, and the state when it began.
    pub fn live(&self) -> Vec<(Span<ByteSum>, Span<u64>)> {
        let (bytes, blocks) = self.before.unwrap_or_default();
        let mut carried = (Span::of(bytes), Span::of(blocks));
        let mut all = Vec::with_capacity(self.bins.len());
        for bin in &self.bins {
            let mut span = carried;
            if let Some((bytes, blocks)) = bin.live {
                span.0.then(bytes);
                span.1.then(blocks);
            }
            all.push(span);
            carried = (Span::of(span.0.last), Span::of(span.1.last));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_of_a_window_has_its_bin_between_the_edges() {
        for (from, to, count) in [(0, 0, 5), (7, 8, 10), (100, 1100, 7), (0, u64::MAX, 600), (5, 25, 20)] {
            let bins = Bins::new(Window { from: Nanos(from), to: Nanos(to) }, count);
            let edges = bins.edges();
            assert_eq!(edges.len(), bins.bins.len() + 1);
            for time in [from, to, from + (to - from) / 2, from + (to - from) / 3, to.saturating_sub(1).max(from)] {
                let at = bins.place(Nanos(time)).unwrap();
                assert!(edges[at] <= time, "{time} {at} {edges:?}");
                assert!(time < edges[at + 1] || at + 1 == bins.bins.len(), "{time} {at} {edges:?}");
            }
            assert_eq!(bins.place(Nanos(to.wrapping_add(1))).is_none(), to != u64::MAX || from > 0);
        }
    }
}
