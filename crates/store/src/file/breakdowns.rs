//! The breakdowns of resident memory in a recording.

use super::errors::RecordingError;
use super::frame::BlockKind;
use super::recording::Recording;
use super::rss_block;
use highwater_model::RssBreakdown;

/// How far the rows of a breakdown may be from RSS, besides its own uncertainty: a part of RSS, or these bytes if that is more. The kernel counts pages of each
/// thread in batches.
const ALLOWED_PART: u64 = 100;
const ALLOWED_BYTES: u64 = 1 << 20;

impl Recording {
    /// Where the resident memory was, at the instants at which that was recorded, in time order.
    pub fn breakdowns(&self) -> Result<Vec<RssBreakdown>, RecordingError> {
        let mut breakdowns: Vec<_> = self.breakdowns_at()?.into_iter().map(|(_, breakdown)| breakdown).collect();
        breakdowns.sort_by_key(|breakdown| breakdown.at);
        Ok(breakdowns)
    }

    /// The same in the order of the file, each with the offset of its block.
    fn breakdowns_at(&self) -> Result<Vec<(u64, RssBreakdown)>, RecordingError> {
        let (mut breakdowns, mut payload) = (Vec::new(), Vec::new());
        for block in self.unlisted()?.iter().filter(|block| block.header.kind == Some(BlockKind::Rss)) {
            if !self.read_unlisted(block, &mut payload)? {
                continue;
            }
            let Some(read) = rss_block::decode(&payload, self.known(), self.believed()) else {
                self.note_damage_of(block, "a breakdown of resident memory is malformed");
                continue;
            };
            if read.unknown_handles > 0 {
                self.note_damage_of(block, "a breakdown of resident memory refers to stacks or types that were lost");
            }
            breakdowns.push((block.offset, read.breakdown));
        }
        Ok(breakdowns)
    }

    /// What is wrong in the breakdowns: how many there are, and the violations.
    pub(super) fn check_breakdowns(&self) -> Result<(u64, Vec<String>), RecordingError> {
        let breakdowns = self.breakdowns_at()?;
        let violation = |(offset, breakdown): &(u64, RssBreakdown)| {
            violation(breakdown).map(|what| format!("offset {offset}: {what}"))
        };
        Ok((breakdowns.len() as u64, breakdowns.iter().filter_map(violation).collect()))
    }
}

/// What a breakdown breaks, beyond what every reader refuses: its rows must add up to RSS.
fn violation(breakdown: &RssBreakdown) -> Option<String> {
    let (before, after) = (breakdown.process.rss, breakdown.process.rss_after);
    let (least, most) = (before.min(after), before.max(after));
    let allowed = breakdown.uncertain.saturating_add((most / ALLOWED_PART).max(ALLOWED_BYTES));
    let sum = breakdown.sum();
    let is_near = sum.saturating_add(allowed) >= least && sum <= most.saturating_add(allowed);
    (!is_near).then(|| {
        format!("the rows of a breakdown of resident memory add up to {sum} bytes, but RSS was {before} bytes")
    })
}
