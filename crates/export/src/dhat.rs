//! Profiles for the viewer of Valgrind's DHAT, `dh_view.html`.
//!
//! If the events are known, each site has all figures of a DHAT profile: what it allocated in total and for how long blocks lived (`tb`, `tbk`, `tl`),
//! the most that it held (`mb`, `mbk`), what it held when the program held the most (`gb`, `gbk`) and at the instant of the export (`eb`, `ebk`).
//! A reallocation counts as an allocation, and as the end of a block's time at the old site.
//!
//! Otherwise the profile has one pair of figures for each site (`bklt` is false): the chosen metric, or else what is live. The verb, which the viewer
//! shows before each stack, says which.
//!
//! Reads and writes (`bkacc`) are never known. The format is described in Valgrind's `dhat/dh_main.c`.

use crate::call_tree::{CallTree, Interned, frame_name};
use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use crate::json_stream::{list, value, values};
use highwater_model::groups::Metric;
use highwater_model::{
    AllocId, Block, ByteSum, Clock, Figures, FrameText, Nanos, NumberLedger, Op, Snapshot, Source, Step,
};
use highwater_store::{Moment, Recording, RecordingError, WalkItem};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::io;
use std::ops::ControlFlow;

/// A DHAT profile.
pub struct DhatExport;

impl ExportFormat for DhatExport {
    fn key(&self) -> &'static str {
        "dhat"
    }

    fn about(&self) -> &'static str {
        "A profile for the viewer of Valgrind's DHAT; of recordings with lifetimes and the peak"
    }

    fn ending(&self) -> &'static str {
        ".dhat.json"
    }

    fn write(&self) -> Write {
        Write::WithHistory(write)
    }
}

const VERSION: u32 = 2;
/// Blocks that live at most this long are short-lived to the viewer, in its unit of time; DHAT for Rust uses the same.
const SHORT_LIVED: u64 = 10;

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    if !snapshot.source.knows_live_blocks() {
        return Err(ExportError::Lacking(
            "a DHAT profile counts blocks, and this file has bytes alone; pprof and folded do not need them",
        ));
    }
    let mut frames = Interned::default();
    frames.place("[root]".to_owned());
    let tree = CallTree::of(snapshot, options.metric, options.keep, |frame| frames.place(frame_text(frame)))?;
    let past = match options.recording {
        Some(recording) => Past::of(recording, snapshot, &tree)?,
        None => None,
    };
    let source = &snapshot.source;
    let (verb, bytes, blocks) = if past.is_some() { totals_of(Metric::Allocated) } else { totals_of(options.metric) };
    // The stacks of an image say what holds the objects.
    let verb = if source.knows_allocated() { verb } else { "Live" };
    let command = if source.command.is_empty() { source.program.clone() } else { source.command.join(" ") };
    let mode = if snapshot.is_estimate() { "heap, estimated from samples" } else { "heap" };
    let (unit, million) = match source.clock {
        Clock::Time => ("µs", "s"),
        Clock::Lines => ("lines", "million lines"),
        Clock::Instructions => ("instrs", "Minstr"),
        Clock::Bytes => ("bytes", "MB"),
    };
    write!(
        out,
        r#"{{"dhatFileVersion":{VERSION},"mode":"{mode}","verb":"{verb}","bklt":{},"bkacc":false"#,
        past.is_some()
    )?;
    write!(out, r#","tu":"{unit}","Mtu":"{million}","cmd":{},"pid":{}"#, json!(command), source.pid as i64)?;
    if let Some(past) = &past {
        write!(out, r#","tuth":{SHORT_LIVED},"tg":{}"#, time(source, past.peak_at))?;
    }
    write!(out, "\n,\"te\":{}\n,\"pps\":", time(source, snapshot.at))?;
    let (bytes, blocks) = (tree.sums(bytes), tree.sums(blocks));
    let at_end = [tree.sums(Figures::live_bytes), tree.sums(Figures::live_blocks)];
    let is_shown = |call: &u32| bytes[*call as usize] != 0 || blocks[*call as usize] != 0;
    list(tree.depth_first().into_iter().filter(is_shown), out, |call, out| {
        let at = call as usize;
        write!(out, "\n{{\"tb\":{},\"tbk\":{}", bytes[at], blocks[at])?;
        if let Some(past) = &past {
            let site = &past.sites[at];
            write!(out, r#","tl":{},"mb":{},"mbk":{}"#, site.lifetimes(source), site.most.rounded(), site.most_blocks)?;
            write!(out, r#","gb":{},"gbk":{}"#, past.at_peak[0][at], past.at_peak[1][at])?;
            write!(out, r#","eb":{},"ebk":{}"#, at_end[0][at], at_end[1][at])?;
        }
        out.write_all(b",\"fs\":")?;
        values(tree.frames_of(call), out)?;
        out.write_all(b"}")
    })?;
    out.write_all(b"\n,\"ftbl\":")?;
    list(frames.values(), out, |frame, out| {
        out.write_all(b"\n")?;
        value(frame, out)
    })?;
    out.write_all(b"}\n")?;
    Ok(())
}

type FigureOf = fn(&Figures) -> u64;

/// The pair of figures that stands in the place of the totals, and the verb that says what it is.
fn totals_of(metric: Metric) -> (&'static str, FigureOf, FigureOf) {
    match metric {
        Metric::Live | Metric::Peak | Metric::OwnPeak | Metric::Leaked => {
            ("Allocated and live", Figures::live_bytes, Figures::live_blocks)
        }
        Metric::Freed => (
            "Allocated and freed",
            |figures| figures.freed_bytes,
            |figures| figures.frees.saturating_add(figures.reallocated_away),
        ),
        Metric::Allocated | Metric::Allocations | Metric::Temporary => (
            "Allocated",
            |figures| figures.allocated_bytes,
            |figures| figures.allocations.saturating_add(figures.reallocations),
        ),
    }
}

/// A frame as DHAT shows it: `0x1234: parse (parser.c:12)`. Addresses keep calls of one function apart, as in DHAT.
fn frame_text(frame: &FrameText<'_>) -> String {
    let place = match (frame.file, frame.line, frame.module) {
        ("", _, "") => String::new(),
        ("", _, module) => format!(" (in {module})"),
        (file, 0, _) => format!(" ({file})"),
        (file, line, _) => format!(" ({file}:{line})"),
    };
    // Code without a name lies at another address in every run, and at the same offset in its module.
    let address = frame.unnamed_code().map_or(frame.address, |code| code.offset);
    match address {
        0 => format!("{}{place}", frame_name(frame)),
        address => format!("{address:#X}: {}{place}", frame_name(frame)).replacen("0X", "0x", 1),
    }
}

/// A time in the unit of the file.
fn time(source: &Source, time: Nanos) -> u64 {
    if source.is_untimed() { time.0 } else { time.0 / 1000 }
}

/// What is known of the time before the instant. The sites are numbered by the calls that they end in.
struct Past {
    sites: Vec<PastSite>,
    peak_at: Nanos,
    /// Live bytes and blocks at the peak.
    at_peak: [Vec<u64>; 2],
}

/// One site over time.
#[derive(Clone, Default)]
struct PastSite {
    live: ByteSum,
    live_blocks: u64,
    most: ByteSum,
    /// The blocks that it held when it first held the most bytes.
    most_blocks: u64,
    /// The time that all blocks together were live here.
    lived: u128,
}

impl PastSite {
    fn enter(&mut self, block: &Block) {
        self.live += block.live_amount();
        self.live_blocks = self.live_blocks.saturating_add(block.live_blocks());
        if self.live > self.most {
            (self.most, self.most_blocks) = (self.live, self.live_blocks);
        }
    }

    fn leave(&mut self, block: &Block, lived: u64) {
        self.live = self.live.saturating_sub(block.live_amount());
        self.live_blocks = self.live_blocks.saturating_sub(block.live_blocks());
        self.outlive(block, lived);
    }

    fn outlive(&mut self, block: &Block, lived: u64) {
        self.lived = self.lived.saturating_add(u128::from(lived) * u128::from(block.live_blocks()));
    }

    fn lifetimes(&self, source: &Source) -> u64 {
        let lived = if source.is_untimed() { self.lived } else { self.lived / 1000 };
        u64::try_from(lived).unwrap_or(u64::MAX)
    }
}

impl Past {
    /// Replays the events until the snapshot; `None` if some of them are missing, so that figures of sites over time would be wrong.
    fn of(recording: &Recording, snapshot: &Snapshot, tree: &CallTree) -> Result<Option<Self>, ExportError> {
        let mut replay =
            Replay { tree, sites: vec![PastSite::default(); tree.calls().len()], resized: FxHashMap::default() };
        let (end, mut is_whole) = (snapshot.accounts.events(), true);
        let walked = recording.walk(|seen| {
            match seen {
                WalkItem::Block(..) => {}
                WalkItem::Step(ledger, _) if ledger.accounts().events() >= end => return ControlFlow::Break(()),
                WalkItem::Step(ledger, step) => replay.step(ledger, step),
                WalkItem::Stored(_) => {
                    is_whole = false;
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        walked.map_err(ExportError::Read)?;
        for block in snapshot.accounts.blocks() {
            let since = replay.resized.get(&block.id).copied().unwrap_or(block.time);
            if let Some(site) = replay.site(&block) {
                site.outlive(&block, snapshot.at.0.saturating_sub(since.0));
            }
        }
        let totals = snapshot.accounts.totals();
        let peak = peak_of(recording, snapshot).map_err(|error| match error {
            RecordingError::Io(error) => ExportError::Read(error),
            other => ExportError::Read(io::Error::other(other)),
        })?;
        let sites = replay.sites;
        Ok(peak.filter(|_| is_whole).map(|peak| {
            let mut at_peak = [vec![0u64; sites.len()], vec![0u64; sites.len()]];
            for (stack, figures) in peak.accounts.sites().iter() {
                if let Some(call) = tree.end_of(stack) {
                    at_peak[0][call as usize] += figures.live_bytes();
                    at_peak[1][call as usize] += figures.live_blocks();
                }
            }
            Self { sites, peak_at: totals.peak_at, at_peak }
        }))
    }
}

/// The state when the most was live until a snapshot; `None` if the recording does not have it.
fn peak_of(recording: &Recording, snapshot: &Snapshot) -> Result<Option<Snapshot>, RecordingError> {
    let event = snapshot.accounts.totals().peak_event;
    let peak = recording.snapshot_at(Moment::Event(event))?;
    Ok((peak.accounts.events() == event).then_some(peak))
}

/// The sites over time, while events are replayed.
struct Replay<'a> {
    tree: &'a CallTree,
    sites: Vec<PastSite>,
    /// When blocks came to the site that resized them last.
    resized: FxHashMap<AllocId, Nanos>,
}

impl Replay<'_> {
    fn site(&mut self, block: &Block) -> Option<&mut PastSite> {
        self.sites.get_mut(self.tree.end_of(block.stack)? as usize)
    }

    fn step(&mut self, ledger: &NumberLedger, step: &Step) {
        match step.op {
            Op::Allocate(place) => self.enter(&place.born(ledger.accounts().next_id(), step.time)),
            Op::Free { id, .. } | Op::Evict { id } => {
                if let Some(block) = ledger.find(id) {
                    self.leave(&block, step.time);
                    self.resized.remove(&id);
                }
            }
            Op::Reallocate { id, .. } => {
                let Some(old) = ledger.find(id) else { return };
                self.leave(&old, step.time);
                self.resized.insert(id, step.time);
                step.op.resized(&old).iter().for_each(|new| self.enter(new));
            }
            _ => {}
        }
    }

    fn enter(&mut self, block: &Block) {
        if let Some(site) = self.site(block) {
            site.enter(block);
        }
    }

    fn leave(&mut self, block: &Block, now: Nanos) {
        let since = self.resized.get(&block.id).copied().unwrap_or(block.time);
        if let Some(site) = self.site(block) {
            site.leave(block, now.0.saturating_sub(since.0));
        }
    }
}
