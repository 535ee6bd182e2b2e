//! What a fleet held over time, stacked by a label: for the viewer.

use crate::error::FleetError;
use crate::part::FleetPart;
use crate::profile::{limit, slot_list, slot_totals, text, whole};
use crate::slot_choice::{SlotTotal, chosen_slots};
use serde::Serialize;
use serde_json::Value;

/// The most combinations of service, version and region that are listed.
const MOST_LABELS: u64 = 2000;

/// The total over time. Slots are seconds since the Unix epoch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FleetTimeline {
    /// The label that it is stacked by.
    pub by: String,
    /// The first slot of the range.
    pub first_slot: i64,
    /// The last slot of the range.
    pub last_slot: i64,
    /// The slots: the fullest of each bin, and the latest.
    pub slots: Vec<i64>,
    /// Live bytes of all processes at each slot.
    pub total_bytes: Vec<i64>,
    /// Whether these are estimates, at each slot.
    pub total_estimated: Vec<bool>,
    /// The number of processes at each slot.
    pub processes: Vec<u64>,
    /// The number of their hosts at each slot.
    pub hosts: Vec<u64>,
    /// The values of the label that hold the most at any of these slots, the largest first.
    pub bands: Vec<FleetBand>,
    /// What all other values hold.
    pub rest_bytes: Vec<i64>,
    /// Whether these are estimates, at each slot.
    pub rest_estimated: Vec<bool>,
    /// The number of values.
    pub values: u64,
    /// The fullest slot of all.
    pub peak_slot: i64,
    /// Whether any of these slots has estimates.
    pub estimated: bool,
    /// Who the processes are, those first that were seen first most recently.
    pub labels: Vec<FleetLabels>,
    /// Whether there are more.
    pub labels_left_out: bool,
    /// Files that could not be used, each with the reason.
    pub left_out: Vec<String>,
}

/// What the processes with one value of a label hold at each slot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FleetBand {
    /// The value.
    pub value: String,
    /// Live bytes at each slot.
    pub bytes: Vec<i64>,
    /// Whether these are estimates, at each slot.
    pub estimated: Vec<bool>,
}

/// The processes of one service, version and region.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FleetLabels {
    /// Their service.
    pub service: String,
    /// Their version.
    pub version: String,
    /// Their region.
    pub region: String,
    /// How many there were.
    pub processes: i64,
    /// On how many hosts.
    pub hosts: i64,
    /// Their first slot.
    pub first_slot: i64,
    /// Their last slot.
    pub last_slot: i64,
}

/// What a part of the fleet held over time. `by` is the name of a column.
pub fn fleet_timeline(
    part: &FleetPart<'_>,
    by: &'static str,
    bins: usize,
    top: usize,
) -> Result<FleetTimeline, FleetError> {
    part.progress(0.1, "finding slots")?;
    let all = slot_totals(part)?;
    let chosen = chosen_slots(&all, bins);
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Ok(FleetTimeline { by: by.to_owned(), left_out: part.left_out(), ..FleetTimeline::default() });
    };
    let mut timeline = FleetTimeline {
        by: by.to_owned(),
        first_slot: first.slot,
        last_slot: last.slot,
        slots: chosen.iter().map(|total| total.slot).collect(),
        total_bytes: chosen.iter().map(|total| total.bytes).collect(),
        total_estimated: chosen.iter().map(|total| total.sample_period > 0).collect(),
        processes: chosen.iter().map(|total| total.processes).collect(),
        hosts: chosen.iter().map(|total| total.hosts).collect(),
        peak_slot: all.iter().rev().max_by_key(|total| total.bytes).map_or(0, |total| total.slot),
        estimated: chosen.iter().any(|total| total.sample_period > 0),
        ..FleetTimeline::default()
    };
    part.progress(0.4, "adding up")?;
    timeline.add_bands(part, by, &chosen, top)?;
    part.progress(0.8, "listing labels")?;
    timeline.add_labels(part)?;
    timeline.left_out = part.left_out();
    Ok(timeline)
}

impl FleetBand {
    fn empty(value: &str, slots: usize) -> Self {
        Self { value: value.to_owned(), bytes: vec![0; slots], estimated: vec![false; slots] }
    }
}

impl FleetTimeline {
    fn add_bands(
        &mut self,
        part: &FleetPart<'_>,
        by: &str,
        chosen: &[SlotTotal],
        top: usize,
    ) -> Result<(), FleetError> {
        let values = [("by", by), ("slots", &slot_list(chosen)), ("limit", &limit(top as u64))];
        let answer = part.ask(include_str!("../sql/bands.sql"), &values, (top as u64 + 1) * chosen.len() as u64)?;
        let mut rest = FleetBand::empty("", chosen.len());
        for row in &answer.rows {
            let (slot, bytes) = (whole(row, 0)?, whole(row, 2)?);
            let at = chosen.binary_search_by_key(&slot, |total| total.slot).map_err(|_| FleetError::BadAnswer)?;
            self.values = whole(row, 3)?.max(0) as u64;
            let band = match row.get(1).unwrap_or(&Value::Null) {
                Value::String(value) => match self.bands.iter().position(|band| band.value == *value) {
                    Some(known) => &mut self.bands[known],
                    None => {
                        self.bands.push(FleetBand::empty(value, chosen.len()));
                        self.bands.last_mut().ok_or(FleetError::BadAnswer)?
                    }
                },
                _ => &mut rest,
            };
            band.bytes[at] += bytes;
            band.estimated[at] |= whole(row, 4)? > 0;
        }
        (self.rest_bytes, self.rest_estimated) = (rest.bytes, rest.estimated);
        self.bands.sort_by_key(|band| (std::cmp::Reverse(band.bytes.iter().copied().max()), band.value.clone()));
        Ok(())
    }

    fn add_labels(&mut self, part: &FleetPart<'_>) -> Result<(), FleetError> {
        let answer =
            part.ask(include_str!("../sql/labels.sql"), &[("limit", &limit(MOST_LABELS + 1))], MOST_LABELS + 1)?;
        self.labels_left_out = answer.rows.len() as u64 > MOST_LABELS;
        for row in answer.rows.iter().take(MOST_LABELS as usize) {
            self.labels.push(FleetLabels {
                service: text(row, 0)?.to_owned(),
                version: text(row, 1)?.to_owned(),
                region: text(row, 2)?.to_owned(),
                processes: whole(row, 3)?,
                hosts: whole(row, 4)?,
                first_slot: whole(row, 5)?,
                last_slot: whole(row, 6)?,
            });
        }
        Ok(())
    }
}
