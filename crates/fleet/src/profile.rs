//! A fleet as a [`Profile`]: figures by site at several slots, so that everything that reads profiles reads a fleet.
//!
//! A state is one slot. Its sites are the sums of all chosen processes that have rows in that slot; a process without rows then is absent. The outermost frame of
//! each stack is its service. All but the largest sites of a service are one site, so that totals equal `SELECT sum(live_bytes) … WHERE slot = X`.

use crate::error::FleetError;
use crate::part::FleetPart;
use crate::protocol::EngineAnswer;
use crate::slot_choice::{SlotTotal, chosen_slots, settled};
use crate::time::slot_in_words;
use highwater_input::{Profile, ProfileSite, ProfileState};
use highwater_model::{Catalog, FrameText, KnownFigures, Nanos, Source, SourceKind, StackId};
use serde_json::Value;
use std::collections::HashMap;

/// The most rows of figures of all states together, and of frames.
const MOST_FIGURES: u64 = 200_000;
const MOST_FRAMES: u64 = 4_000_000;
/// The most slots that a question may cover: four months of minutes.
const MOST_SLOTS: u64 = 180_000;
/// The most sites of one profile.
const MOST_SITES: u64 = 50_000;
/// The most services, each of which may have a row for its other sites.
const MOST_SERVICES: u64 = 4096;
/// The most notes on files.
const MOST_NOTES: usize = 20;
/// The function that stands for all sites of a service that are not shown one by one.
pub const OTHER_SITES: &str = "[other sites]";

/// Which slots a profile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileSlots {
    /// The fullest of each of this number of bins, and the latest.
    Bins(usize),
    /// The fullest of all.
    Peak,
    /// The latest that most processes have sent.
    Latest,
    /// The latest that is not after this time.
    At(i64),
}

/// The totals of all slots of a part of the fleet that most processes have sent, in order.
pub fn slot_totals(part: &FleetPart<'_>) -> Result<Vec<SlotTotal>, FleetError> {
    let answer = part.ask(include_str!("../sql/slots.sql"), &[("limit", &limit(MOST_SLOTS + 1))], MOST_SLOTS + 1)?;
    if answer.rows.len() as u64 > MOST_SLOTS {
        return Err(FleetError::TooLarge(format!(
            "the time range has more than {MOST_SLOTS} slots: choose a shorter one"
        )));
    }
    let mut totals = Vec::with_capacity(answer.rows.len());
    for row in &answer.rows {
        let (slot, bytes, sample_period) = (whole(row, 0)?, whole(row, 1)?, whole(row, 3)?);
        let (processes, hosts) = (whole(row, 2)?.max(0) as u64, whole(row, 4)?.max(0) as u64);
        totals.push(SlotTotal { slot, bytes, processes, hosts, sample_period });
    }
    totals.truncate(settled(&totals).len());
    Ok(totals)
}

/// The profile of a part of the fleet. `title` names it.
pub fn profile(part: &FleetPart<'_>, slots: ProfileSlots, title: &str) -> Result<Profile, FleetError> {
    part.progress(0.05, "finding slots")?;
    let mut all = slot_totals(part)?;
    let (kept_since, kept_note) = match (part.sites_kept_since(), slots) {
        // A timeline has the totals all the same.
        (Err(error @ FleetError::SitesExpired), ProfileSlots::Bins(_)) => (None, Some(error.to_string())),
        (found, _) => {
            let first = found?;
            (first, first.map(kept_sites_line))
        }
    };
    all.retain(|total| kept_since.is_none_or(|first| total.slot >= first));
    let fullest = all.iter().rev().max_by_key(|total| total.bytes);
    let chosen: Vec<SlotTotal> = match slots {
        ProfileSlots::Bins(bins) => chosen_slots(&all, bins),
        ProfileSlots::Peak => fullest.copied().into_iter().collect(),
        ProfileSlots::Latest => all.last().copied().into_iter().collect(),
        ProfileSlots::At(time) => all.iter().rfind(|total| total.slot <= time).copied().into_iter().collect(),
    };
    if chosen.is_empty() {
        return Err(part.empty());
    }
    // Only of slots that are shown: the figures of an exact instant stay exact.
    let period = chosen.iter().map(|total| total.sample_period).max().unwrap_or(0);
    part.progress(0.2, "adding up the sites")?;
    let listed = slot_list(&chosen);
    let most = (MOST_FIGURES / chosen.len() as u64).clamp(1, MOST_SITES);
    let most_rows = (most + MOST_SERVICES) * chosen.len() as u64;
    let slots_of_states: Vec<i64> = chosen.iter().map(|total| total.slot).collect();
    let places = [("slots", listed.as_str()), ("limit", &limit(most))];
    let figures = part.ask_slots(include_str!("../sql/profile.sql"), &places, &slots_of_states, most_rows)?;
    if figures.truncated {
        return Err(FleetError::TooLarge(format!(
            "there are more than {MOST_SERVICES} services: choose some with --where"
        )));
    }
    part.progress(0.7, "reading the stacks")?;
    let frames = frames_of(part, &figures)?;
    let mut made = ProfileMaker { catalog: Catalog::default(), frames, stacks: HashMap::new() };
    let first = chosen[0].slot;
    let mut states: Vec<ProfileState> = chosen
        .iter()
        .map(|total| ProfileState { at: Nanos(seconds_between(first, total.slot) * 1_000_000_000), sites: Vec::new() })
        .collect();
    for row in &figures.rows {
        let slot = whole(row, 0)?;
        let state = chosen.binary_search_by_key(&slot, |total| total.slot).map_err(|_| FleetError::BadAnswer)?;
        let site_id = row.get(2).and_then(Value::as_i64);
        let site = ProfileSite {
            stack: made.stack(text(row, 1)?, site_id),
            live_bytes: whole(row, 3)?.max(0) as u64,
            live_blocks: whole(row, 4)?.max(0) as u64,
            ..ProfileSite::default()
        };
        states[state].sites.push(site);
    }
    let last = chosen.last().map_or(first, |total| total.slot);
    let source = Source {
        kind: SourceKind::FLEET,
        program: title.to_owned(),
        start_unix_ns: (first.max(0) as u64).saturating_mul(1_000_000_000),
        duration: Nanos(seconds_between(first, last) * 1_000_000_000),
        sample_rate: (period > 0).then_some(period as u64),
        notes: kept_note.into_iter().chain(notes(part)).collect(),
        ..Source::default()
    };
    let known = KnownFigures { live_blocks: true, ..KnownFigures::default() };
    let is_instant = !matches!(slots, ProfileSlots::Bins(_));
    Ok(Profile { source, known, catalog: made.catalog, states, is_instant, ..Profile::default() })
}

/// Says from when on call sites are kept.
pub fn kept_sites_line(first: i64) -> String {
    format!("call sites are kept by slot from {} on; earlier slots do not count", slot_in_words(first))
}

/// A sentence for each file that could not be used.
fn notes(part: &FleetPart<'_>) -> Vec<String> {
    let files = part.left_out();
    let named = files.iter().take(MOST_NOTES).map(|line| format!("A file of the lake is in no figure: {line}."));
    let rest = files.len().saturating_sub(MOST_NOTES);
    named.chain((rest > 0).then(|| format!("{rest} more files are in no figure."))).collect()
}

/// Seconds from one slot to a later one, at most some centuries: times are nanoseconds in 64 bits.
fn seconds_between(first: i64, slot: i64) -> u64 {
    slot.saturating_sub(first).clamp(0, 1 << 33) as u64
}

/// The slots as a list in SQL.
pub(crate) fn slot_list(slots: &[SlotTotal]) -> String {
    slots.iter().map(|total| total.slot.to_string()).collect::<Vec<_>>().join(", ")
}

/// `LIMIT N`.
pub(crate) fn limit(rows: u64) -> String {
    format!("LIMIT {rows}")
}

/// A whole number of a row.
pub(crate) fn whole(row: &[Value], column: usize) -> Result<i64, FleetError> {
    row.get(column).and_then(Value::as_i64).ok_or(FleetError::BadAnswer)
}

/// A text of a row.
pub(crate) fn text(row: &[Value], column: usize) -> Result<&str, FleetError> {
    row.get(column).and_then(Value::as_str).ok_or(FleetError::BadAnswer)
}

/// A frame of a site.
struct SiteFrame {
    function: String,
    file: String,
    line: u32,
    module: String,
}

fn frames_of(part: &FleetPart<'_>, figures: &EngineAnswer) -> Result<HashMap<i64, Vec<SiteFrame>>, FleetError> {
    let mut ids: Vec<i64> = figures.rows.iter().filter_map(|row| row.get(2).and_then(Value::as_i64)).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut frames: HashMap<i64, Vec<SiteFrame>> = HashMap::new();
    if ids.is_empty() {
        return Ok(frames);
    }
    let list = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let values = [("site_ids", list.as_str()), ("limit", "")];
    let answer = part.ask(include_str!("../sql/profile_frames.sql"), &values, MOST_FRAMES)?;
    for row in &answer.rows {
        frames.entry(whole(row, 0)?).or_default().push(SiteFrame {
            function: text(row, 2)?.to_owned(),
            file: text(row, 3)?.to_owned(),
            line: whole(row, 4)?.clamp(0, u32::MAX.into()) as u32,
            module: text(row, 5)?.to_owned(),
        });
    }
    Ok(frames)
}

/// Interns the stacks of sites.
struct ProfileMaker {
    catalog: Catalog,
    frames: HashMap<i64, Vec<SiteFrame>>,
    stacks: HashMap<(String, Option<i64>), StackId>,
}

impl ProfileMaker {
    fn stack(&mut self, service: &str, site_id: Option<i64>) -> StackId {
        if let Some(known) = self.stacks.get(&(service.to_owned(), site_id)) {
            return *known;
        }
        let root = service_frame(service);
        let unknown = site_id.map(|id| format!("[site {id}]"));
        let named = |function| FrameText { function, ..FrameText::default() };
        let mut list: Vec<FrameText<'_>> = match site_id.map(|id| self.frames.get(&id)) {
            None => vec![named(OTHER_SITES)],
            // Its frames are not in the lake any more, or not yet.
            Some(None) => vec![named(unknown.as_deref().unwrap_or_default())],
            Some(Some(frames)) => frames
                .iter()
                .map(|frame| FrameText {
                    function: &frame.function,
                    file: &frame.file,
                    line: frame.line,
                    module: &frame.module,
                    ..FrameText::default()
                })
                .collect(),
        };
        list.push(named(&root));
        let stack = self.catalog.intern_stack(&list);
        self.stacks.insert((service.to_owned(), site_id), stack);
        stack
    }
}

/// The outermost frame of all stacks of a service.
pub fn service_frame(service: &str) -> String {
    format!("[service {}]", if service.is_empty() { "not known" } else { service })
}
