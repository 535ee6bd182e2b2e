//! Reads a recording as if it were a log: objects that the library recorded without writing lines.

use super::at::At;
use super::read::{ObjectsRead, cannot_read, in_file};
use crate::error::QueryError;
use highwater_formats::objlog::{Matcher, ObjectLogReader, SiteId};
use highwater_input::ProgressCallback;
use highwater_model::{
    Anomaly, Block, Catalog, Nanos, NumberLedger, Op, Placement, Snapshot, StackId, Step, TagId, When,
};
use highwater_store::Recording;
use std::collections::HashMap;
use std::path::Path;

/// Reads the objects of a recording up to an instant.
pub fn read(path: &Path, at: &At, progress: &mut ProgressCallback<'_>) -> Result<ObjectsRead, QueryError> {
    let file = highwater_input::open_while(path, progress)?;
    let recording = file.recording(progress)?;
    let last = match at {
        At::Line(_) => return Err(in_file(path, "a recording has no lines; only a log does")),
        At::When(When::End) => None,
        At::When(when) => Some(recording.snapshot(when).map_err(|error| in_file(path, error))?.at),
    };
    let mut retold = RecordedObjects::new(recording);
    if recording.is_snapshot() {
        let snapshot = recording.snapshot(&When::End).map_err(|error| in_file(path, error))?;
        retold.add_live(&snapshot);
    } else {
        let read = recording.for_each_step(|ledger, step| retold.add(ledger, step, last));
        read.map_err(|error| cannot_read(path, error))?;
    }
    retold.end_measure("");
    let reader = ObjectLogReader::of_matcher(retold.matcher, retold.events, retold.lost);
    Ok(ObjectsRead { reader, damage: file.damage() })
}

/// The objects of a recording, as a log would have them.
struct RecordedObjects<'a> {
    catalog: &'a Catalog,
    matcher: Matcher,
    sites: HashMap<(StackId, TagId), SiteId>,
    /// A measure of the memory. Its name, if it has one, is a mark that follows at the same time.
    measured: Option<(Nanos, u64)>,
    events: u64,
    lost: u64,
}

impl<'a> RecordedObjects<'a> {
    fn new(recording: &'a Recording) -> Self {
        Self {
            catalog: recording.catalog(),
            matcher: Matcher::default(),
            sites: HashMap::new(),
            measured: None,
            events: 0,
            lost: 0,
        }
    }

    fn type_of(&self, tag: TagId) -> &'a str {
        match self.catalog.strings.get(self.catalog.tag(tag).type_name) {
            "" => "(no type)",
            name => name,
        }
    }

    fn site(&mut self, place: &Placement) -> SiteId {
        if let Some(known) = self.sites.get(&(place.stack, place.tag)) {
            return *known;
        }
        let frame = self.catalog.frame_texts(place.stack).find(|frame| !frame.file.is_empty());
        let text = match frame {
            Some(frame) => format!("{}:{}", frame.file, frame.line),
            None => "(no place):0".to_owned(),
        };
        let variable = self.catalog.strings.get(self.catalog.tag(place.tag).variable);
        let type_name = self.type_of(place.tag);
        let site = self.matcher.site_of_variable(text.as_bytes(), type_name.as_bytes(), variable.as_bytes());
        self.sites.insert((place.stack, place.tag), site);
        site
    }

    fn add(&mut self, ledger: &NumberLedger, step: &Step, last: Option<Nanos>) {
        if last.is_some_and(|last| step.time > last) {
            return;
        }
        self.events += u64::from(step.op.is_event());
        let is_its_name =
            matches!(step.op, Op::Mark { .. }) && self.measured.is_some_and(|(time, _)| time == step.time);
        if !is_its_name {
            self.end_measure("");
        }
        match step.op {
            Op::Allocate(place) => {
                let site = self.site(&place);
                self.matcher.allocate(place.size, site, ledger.accounts().next_id().0);
            }
            Op::Free { id, .. } | Op::Evict { id } => {
                if let Some(block) = ledger.find(id) {
                    self.matcher.drop_named(block.size, self.type_of(block.tag).as_bytes(), id.0);
                }
            }
            Op::Reallocate { id, size, .. } => drop(self.matcher.resize(size, id.0)),
            Op::Gauge { name, value } => {
                let name = self.catalog.strings.get(name);
                if name == "memory" {
                    self.measured = Some((step.time, value));
                }
            }
            Op::Mark { name } => {
                let name = self.catalog.strings.get(name);
                match is_its_name {
                    true => self.end_measure(name),
                    false => self.matcher.boundary(self.events, None, name),
                }
            }
            Op::UnmatchedFree { .. } => self.matcher.note(Anomaly::UnmatchedFree, 1),
            Op::Note { anomaly: Anomaly::LostToDamage, count } => self.lost += count,
            Op::Note { anomaly, count } => self.matcher.note(anomaly, count),
            Op::Promote { .. } => {}
        }
    }

    /// Adds the live blocks of a snapshot: nothing is known of objects that were dropped before.
    fn add_live(&mut self, snapshot: &Snapshot) {
        let mut blocks: Vec<Block> = snapshot.accounts.blocks().collect();
        blocks.sort_unstable_by_key(|block| block.id);
        for Block { id, address, size, stack, tag, .. } in blocks {
            let site = self.site(&Placement { address, size, stack, tag, ..Placement::default() });
            self.matcher.allocate(size, site, id.0);
            self.events += 1;
        }
    }

    fn end_measure(&mut self, label: &str) {
        if let Some((_, bytes)) = self.measured.take() {
            self.matcher.boundary(self.events, Some(bytes), label);
        }
    }
}
