//! The findings in a log.

use highwater_formats::objlog::{By, Growth, LineCounts, Matcher, Reader, Row, Survivors, Tally, Trust, rows};

/// The results of reading a log.
pub struct Findings<'a> {
    pub matcher: &'a Matcher,
    pub counts: &'a LineCounts,
    pub survivors: Survivors,
    pub trust: Trust,
    pub total: Tally,
    pub growth: Option<Growth>,
}

impl<'a> Findings<'a> {
    pub fn of(reader: &'a Reader) -> Self {
        let matcher = reader.matcher();
        let survivors = Survivors::of(matcher);
        let trust = Trust::of(reader, &survivors);
        let (total, growth) = (matcher.total(), matcher.memory.growth());
        Self { matcher, counts: reader.counts(), survivors, trust, total, growth }
    }

    /// The rows, with the most bytes never dropped first.
    pub fn rows(&self, by: By) -> Vec<Row> {
        rows(self.matcher, &self.survivors, by)
    }
}
