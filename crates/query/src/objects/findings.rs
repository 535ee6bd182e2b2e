//! The findings in a log.

use super::room::{self, MemoryImage};
use highwater_formats::objlog::{
    LineCounts, Matcher, MemoryGrowth, ObjectGrouping, ObjectLogReader, ObjectRow, ObjectTally, SurvivingObjects,
    Trust, rows,
};

/// The results of reading a log.
pub struct Findings<'a> {
    /// The matched births and drops.
    pub matcher: &'a Matcher,
    /// The lines.
    pub counts: &'a LineCounts,
    /// The objects that were never dropped.
    pub survivors: SurvivingObjects,
    /// How reliable the log is.
    pub trust: Trust,
    /// The sums of all types.
    pub total: ObjectTally,
    /// How the memory grew, if it was measured.
    pub growth: Option<MemoryGrowth>,
    /// Images of the memory, if they are given.
    pub images: Vec<MemoryImage>,
}

impl<'a> Findings<'a> {
    /// The findings of a log that was read.
    pub fn of(reader: &'a ObjectLogReader) -> Self {
        Self::with_images(reader, Vec::new())
    }

    /// The findings of a log and of images of the memory.
    pub fn with_images(reader: &'a ObjectLogReader, images: Vec<MemoryImage>) -> Self {
        let matcher = reader.matcher();
        let survivors = SurvivingObjects::of(matcher);
        let trust = Trust::with_heap(reader, &survivors, &room::rooms(&images));
        let (total, growth) = (matcher.total(), matcher.memory.growth());
        Self { matcher, counts: reader.counts(), survivors, trust, total, growth, images }
    }

    /// The rows, with the most bytes never dropped first.
    pub fn rows(&self, by: ObjectGrouping) -> Vec<ObjectRow> {
        rows(self.matcher, &self.survivors, by)
    }
}
