//! The collector as the metrics endpoint uses it.

use super::taken::{TakenSnapshot, perf_map_of};
use highwater_collector::protocol::Detail;
use highwater_collector::{CollectorClient, CollectorError, ProcessGauges};
use highwater_formats::pprof::{self, PprofOptions};
use highwater_lake::identity::{FrameIdentity, stack_id};
use highwater_metrics::{MetricsSource, SiteBytes, SiteFunctions, SourceError};
use highwater_model::{Catalog, FrameId, FrameText, Naming, Snapshot, StackId, When};
use highwater_recorder::{resolve_frames, resolve_jit_frames};
use highwater_store::Recording;
use highwater_symbols::perf_map::JIT_MODULE;
use highwater_symbols::{DebuginfodServers, Symbolizer};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Connects to the collector anew for each question: it may come and go.
pub struct CollectorMetrics {
    socket: PathBuf,
}

impl CollectorMetrics {
    /// The collector that listens on this socket.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    fn client(&self) -> Result<CollectorClient, SourceError> {
        CollectorClient::connect(&self.socket).map_err(|error| SourceError::Unavailable(error.to_string()))
    }
}

/// Names from files on this machine only: a client of the endpoint must not make the host ask other servers.
fn symbolizer() -> Symbolizer {
    Symbolizer::for_user(&DebuginfodServers::Never)
}

/// What the collector says of a single process is about the process; anything else is about the collector.
fn about_process(error: CollectorError) -> SourceError {
    match error {
        CollectorError::Failed(line) => SourceError::NoProcess(line),
        other => SourceError::Unavailable(other.to_string()),
    }
}

impl MetricsSource for CollectorMetrics {
    fn gauges(&self, survivor_age: Option<Duration>) -> Result<Vec<ProcessGauges>, SourceError> {
        self.client()?.gauges(survivor_age).map_err(|error| SourceError::Unavailable(error.to_string()))
    }

    fn sites(&self, pid: u32, wanted: &mut dyn FnMut(&SiteBytes) -> Vec<i64>) -> Result<SiteFunctions, SourceError> {
        let taken = self.client()?.snapshot(pid, Detail::Sites, None).map_err(about_process)?;
        let unreadable = |problem: String| SourceError::NoProcess(format!("its snapshot cannot be read: {problem}"));
        let recording = Recording::from_file(taken.file).map_err(|error| unreadable(error.to_string()))?;
        let mut snapshot = recording.snapshot(&When::End).map_err(|error| unreadable(error.to_string()))?;
        let (mut bytes, mut stacks) = (SiteBytes::new(), HashMap::new());
        for (stack, figures) in snapshot.accounts.sites().iter() {
            let live = figures.live_bytes();
            if live > 0 {
                let site = site_of(&snapshot.catalog, stack);
                let sum = bytes.entry(site).or_insert(0u64);
                *sum = sum.saturating_add(live);
                stacks.insert(site, stack);
            }
        }
        let wanted: Vec<(i64, StackId)> =
            wanted(&bytes).into_iter().filter_map(|site| Some((site, *stacks.get(&site)?))).collect();
        if wanted.is_empty() {
            return Ok(SiteFunctions::new());
        }
        name_frames(&mut snapshot, &wanted);
        Ok(wanted.into_iter().map(|(site, stack)| (site, function_of(&snapshot.catalog, stack))).collect())
    }

    fn profile(&self, pid: u32) -> Result<Vec<u8>, SourceError> {
        let taken = self.client()?.snapshot(pid, Detail::Blocks, None).map_err(about_process)?;
        let opened = TakenSnapshot::open(taken.file, &[], &mut symbolizer());
        let cannot = |line: &str| SourceError::NoProcess(line.to_owned());
        let opened = opened.map_err(|failure| cannot(failure.line().unwrap_or("it cannot be read")))?;
        let mut profile = Vec::new();
        pprof::write(&opened.snapshot, &PprofOptions::default(), &mut profile)
            .map_err(|error| cannot(&error.to_string()))?;
        Ok(profile)
    }
}

/// The content hash of a stack: the same number as in a lake. Code without a file is known by its address.
fn site_of(catalog: &Catalog, stack: StackId) -> i64 {
    let frames = catalog.stacks.recorded_frames_of(stack).filter_map(|frame| catalog.stacks.frame(frame));
    let texts: Vec<FrameText<'_>> = frames.map(|frame| catalog.frame_text(frame)).collect();
    stack_id(texts.iter().map(|text| match text.unnamed_code() {
        Some(_) if text.module == JIT_MODULE => {
            FrameIdentity::Code { module: JIT_MODULE.as_bytes(), offset: text.address }
        }
        Some(code) => FrameIdentity::Code { module: code.module_identity().as_bytes(), offset: code.offset },
        None => FrameIdentity::Named { function: text.function, file: text.file, line: text.line },
    }))
}

/// Resolves the names of a few stacks. The symbolizer is dropped afterwards, with all debug information that it has read.
fn name_frames(snapshot: &mut Snapshot, wanted: &[(i64, StackId)]) {
    let stacks = &snapshot.catalog.stacks;
    let frames: HashSet<FrameId> =
        wanted.iter().flat_map(|(_, stack)| stacks.recorded_frames_of(*stack).collect::<Vec<_>>()).collect();
    let map = perf_map_of(&snapshot.source);
    let catalog = Arc::make_mut(&mut snapshot.catalog);
    resolve_frames(catalog, &mut symbolizer(), |frame| frames.contains(&frame));
    if let Some(map) = map {
        resolve_jit_frames(catalog, &map, |frame| frames.contains(&frame));
    }
}

/// The function that names a site. Without what a snapshot teaches of wrappers: the name must stay the same from scrape to scrape.
fn function_of(catalog: &Catalog, stack: StackId) -> String {
    let texts: Vec<FrameText<'_>> = catalog.frame_texts(stack).collect();
    let Some(text) = texts.get(Naming::default().site(&texts).passing).or(texts.first()) else {
        return "[unknown]".to_owned();
    };
    match text.unnamed_code() {
        Some(code) => code.to_string(),
        None => text.function.to_owned(),
    }
}
