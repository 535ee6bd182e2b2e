//! Profiles for <https://profiler.firefox.com>: its "processed profile format".
//!
//! One thread holds the stacks. Its samples are the chosen metric, weighted with bytes (or blocks), so the call tree and the flame graph show bytes. If
//! single blocks are known, a sample is at the time when its blocks were allocated: a selection in the timeline shows what is still live of that time.
//! What was allocated in total is a table of native allocations, which the Profiler offers as another summary of the same tree.
//!
//! A recording has a memory track too, with the live bytes over its whole length, and its marks as markers.
//!
//! The Profiler upgrades older versions of the format and rejects newer ones, so this writes a version of 2025 that every copy of it opens. A snapshot
//! of any size is written column by column, from tables that hold each call once; a library that builds the document in memory could not do that.
//!
//! Format: `src/types/profile.ts` and `docs-developer/CHANGELOG-formats.md` of <https://github.com/firefox-devtools/profiler>.

use crate::call_tree::{CallTree, Interned, frame_name};
use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use crate::json_stream::{value, values};
use highwater_model::groups::Metric;
use highwater_model::{ByteSum, FrameText, NamedInstant, Nanos, Snapshot, Source, StackId};
use highwater_store::{Recording, RecordingError, WalkItem};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;

/// A processed profile.
pub struct FirefoxExport;

impl ExportFormat for FirefoxExport {
    fn key(&self) -> &'static str {
        "firefox"
    }

    fn about(&self) -> &'static str {
        "JSON for profiler.firefox.com: a call tree in bytes; of recordings with live memory over time"
    }

    fn ending(&self) -> &'static str {
        ".firefox.json"
    }

    fn write(&self) -> Write {
        Write::WithHistory(write)
    }
}

/// The version of the processed format.
const VERSION: u32 = 57;
/// The parts of the time in which blocks of a site share a sample, and in which the memory track has a point or two.
const TIME_PARTS: u64 = 2000;
/// A category must be grey: the Profiler takes it for frames without one.
const OTHER: u32 = 0;
/// A resource of the type "library".
const LIBRARY: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Function {
    name: u32,
    file: Option<u32>,
    library: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FunctionLine {
    function: u32,
    line: Option<u32>,
}

#[derive(Default)]
struct Tables {
    strings: Interned<String>,
    /// Paths of modules with their build ids.
    libraries: Interned<(String, String)>,
    functions: Interned<Function>,
    frames: Interned<FunctionLine>,
}

impl Tables {
    fn frame(&mut self, frame: &FrameText<'_>) -> u32 {
        let name = self.strings.place(frame_name(frame));
        let file = (!frame.file.is_empty()).then(|| self.strings.place(frame.file.to_owned()));
        let library = (!frame.module.is_empty())
            .then(|| self.libraries.place((frame.module.to_owned(), frame.build_id.to_owned())));
        let function = self.functions.place(Function { name, file, library });
        self.frames.place(FunctionLine { function, line: (frame.line != 0).then_some(frame.line) })
    }
}

/// Blocks of one site, allocated at about the same time.
struct FirefoxSample {
    at: Nanos,
    call: u32,
    weight: u64,
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    let mut tables = Tables::default();
    let tree = CallTree::of(snapshot, options.metric, options.keep, |frame| tables.frame(frame))?;
    let samples = samples(snapshot, options.metric, &tree);
    let recording = options.recording.filter(|_| !snapshot.source.is_untimed());
    let (memory, marks) = match recording {
        Some(recording) => (live_memory(recording)?, marks(recording)?),
        None => (Vec::new(), Vec::new()),
    };
    let mark_names: Vec<u32> = marks.iter().map(|mark| tables.strings.place(mark.name.clone())).collect();
    let library_names: Vec<u32> =
        tables.libraries.values().iter().map(|(path, _)| tables.strings.place(file_name(path).to_owned())).collect();

    out.write_all(b"{\"meta\":")?;
    value(meta(snapshot), out)?;
    out.write_all(b",\"libs\":")?;
    values(tables.libraries.values().iter().map(library), out)?;
    out.write_all(b",\"counters\":")?;
    write_counters(&snapshot.source, &memory, out)?;
    out.write_all(b",\"threads\":[")?;
    write_thread_head(snapshot, options.metric, out)?;
    out.write_all(b",\"samples\":")?;
    write_samples(&samples, if options.metric.is_bytes() { "bytes" } else { "samples" }, out)?;
    if options.metric != Metric::Allocated && snapshot.source.knows_allocated() {
        let allocated = tree.sums(|figures| figures.allocated_bytes);
        let samples: Vec<FirefoxSample> = at_once(snapshot.at, &allocated).collect();
        out.write_all(b",\"nativeAllocations\":")?;
        write_samples(&samples, "bytes", out)?;
    }
    out.write_all(b",\"markers\":")?;
    write_markers(&marks, &mark_names, out)?;
    write_stacks(&tree, out)?;
    write_frames(&tables, out)?;
    write_functions(&tables, out)?;
    write_resources(&library_names, out)?;
    out.write_all(b"}],\"shared\":{\"stringArray\":")?;
    values(tables.strings.values(), out)?;
    out.write_all(b"}}\n")?;
    Ok(())
}

/// A column of a table.
fn column<T: Serialize>(name: &str, items: impl IntoIterator<Item = T>, out: &mut dyn io::Write) -> io::Result<()> {
    write!(out, "\"{name}\":")?;
    values(items, out)?;
    out.write_all(b",")
}

/// The end of a table: its length.
fn end_table(length: usize, out: &mut dyn io::Write) -> io::Result<()> {
    write!(out, "\"length\":{length}}}")
}

fn milliseconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn meta(snapshot: &Snapshot) -> serde_json::Value {
    let source = &snapshot.source;
    let end = if source.is_untimed() { Nanos(0) } else { source.duration.max(snapshot.at) };
    json!({
        "version": 24,
        "preprocessedProfileVersion": VERSION,
        "product": source.program,
        "importedFrom": "Highwater",
        "arguments": source.command.join(" "),
        "startTime": source.start_unix_ns as f64 / 1e6,
        "profilingStartTime": 0,
        "profilingEndTime": milliseconds(end),
        "interval": 1,
        "processType": 0,
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "symbolicationNotSupported": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
        "markerSchema": [],
        "extra": extra(snapshot),
    })
}

/// Facts that the Profiler shows beside the profile.
fn extra(snapshot: &Snapshot) -> serde_json::Value {
    let mut facts = vec![("Instant", snapshot.source.instant(snapshot.at))];
    if snapshot.is_estimate() {
        facts.push(("Figures", "estimated from samples".to_owned()));
    }
    if !snapshot.source.host.is_empty() {
        facts.push(("Host", snapshot.source.host.clone()));
    }
    let entries: Vec<_> =
        facts.iter().map(|(label, value)| json!({ "label": label, "format": "string", "value": value })).collect();
    json!([{ "label": "Memory", "entries": entries }])
}

fn library((path, build_id): &(String, String)) -> serde_json::Value {
    let name = file_name(path);
    let code_id = (!build_id.is_empty()).then_some(build_id);
    json!({
        "arch": "", "name": name, "path": path, "debugName": name, "debugPath": path, "breakpadId": "", "codeId": code_id,
    })
}

/// The samples of a metric, in the order of their times.
fn samples(snapshot: &Snapshot, metric: Metric, tree: &CallTree) -> Vec<FirefoxSample> {
    let source = &snapshot.source;
    let has_births = !source.aggregated && !source.is_untimed() && snapshot.accounts.blocks().next().is_some();
    if metric.is_live() && has_births {
        return by_birth(snapshot, tree);
    }
    at_once(snapshot.at, &tree.sums(|figures| metric.of(figures))).collect()
}

fn at_once(at: Nanos, weights: &[u64]) -> impl Iterator<Item = FirefoxSample> {
    let weighted = (0..).zip(weights).filter(|(_, weight)| **weight != 0);
    weighted.map(move |(call, weight)| FirefoxSample { at, call, weight: *weight })
}

/// The live blocks by the time of their birth. The weights of a site add up to its live bytes, also if these are estimates: the rounding of each sum
/// is made up for by the next.
fn by_birth(snapshot: &Snapshot, tree: &CallTree) -> Vec<FirefoxSample> {
    let part = (snapshot.at.0 / TIME_PARTS).max(1);
    let mut groups: BTreeMap<(u64, StackId), (Nanos, ByteSum)> = BTreeMap::new();
    for block in snapshot.accounts.blocks() {
        let (first, sum) = groups.entry((block.time.0 / part, block.stack)).or_insert((block.time, ByteSum::ZERO));
        *first = block.time.min(*first);
        *sum += block.live_amount();
    }
    let mut sums: FxHashMap<StackId, ByteSum> = FxHashMap::default();
    let mut samples: Vec<FirefoxSample> = Vec::with_capacity(groups.len());
    for ((_, stack), (at, amount)) in groups {
        let Some(call) = tree.end_of(stack) else { continue };
        let sum = sums.entry(stack).or_default();
        let before = sum.rounded();
        *sum += amount;
        samples.push(FirefoxSample { at, call, weight: sum.rounded() - before });
    }
    samples.retain(|sample| sample.weight != 0);
    samples.sort_by_key(|sample| sample.at);
    samples
}

/// Live bytes over the whole recording: the greatest and the last value of each part of the time, and the first value of all.
fn live_memory(recording: &Recording) -> Result<Vec<(Nanos, u64)>, ExportError> {
    let part = (recording.source().duration.0 / TIME_PARTS).max(1);
    let mut points: Vec<(Nanos, u64)> = Vec::new();
    let (mut highest, mut last) = ((Nanos(0), 0), (recording.begins_at(), 0));
    let mut see = |time: Nanos, live: u64, is_end: bool| {
        if points.is_empty() || time.0 / part != last.0.0 / part || is_end {
            points.extend([highest, last].iter().skip(usize::from(points.is_empty() || highest == last)));
            highest = (time, live);
        }
        if live > highest.1 {
            highest = (time, live);
        }
        last = (time, live);
    };
    let walked = recording.walk(|seen| {
        if let WalkItem::Step(ledger, _) | WalkItem::Stored(ledger) = seen {
            let accounts = ledger.accounts();
            see(accounts.last_time(), accounts.totals().figures.live_bytes(), false);
        }
        ControlFlow::Continue(())
    });
    let end = walked.map_err(ExportError::Read)?;
    let live = end.totals().figures.live_bytes();
    see(end.last_time(), live, false);
    see(recording.source().duration.max(end.last_time()), live, true);
    points.push((recording.source().duration.max(end.last_time()), live));
    Ok(points)
}

fn marks(recording: &Recording) -> Result<Vec<NamedInstant>, ExportError> {
    recording.marks().map_err(|error| match error {
        RecordingError::Io(error) => ExportError::Read(error),
        other => ExportError::Read(io::Error::other(other)),
    })
}

fn write_counters(source: &Source, memory: &[(Nanos, u64)], out: &mut dyn io::Write) -> io::Result<()> {
    if memory.is_empty() {
        return out.write_all(b"[]");
    }
    let pid = json!(source.pid.to_string());
    write!(
        out,
        r#"[{{"name":"malloc","category":"Memory","description":"Live bytes","pid":{pid},"mainThreadIndex":0,"samples":{{"#
    )?;
    column("time", memory.iter().map(|(time, _)| milliseconds(*time)), out)?;
    let before = std::iter::once(0).chain(memory.iter().map(|(_, live)| *live));
    column("count", memory.iter().zip(before).map(|((_, live), before)| i128::from(*live) - i128::from(before)), out)?;
    end_table(memory.len(), out)?;
    out.write_all(b"}]")
}

fn write_thread_head(snapshot: &Snapshot, metric: Metric, out: &mut dyn io::Write) -> io::Result<()> {
    let source = &snapshot.source;
    let head = json!({
        "name": metric.in_words(),
        "isMainThread": true,
        "processType": "default",
        "processName": source.program,
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "pid": source.pid.to_string(),
        "tid": source.pid,
    });
    // The tables follow in the same object.
    let text = head.to_string();
    out.write_all(text.strip_suffix('}').unwrap_or(&text).as_bytes())
}

fn write_samples(samples: &[FirefoxSample], weight_type: &str, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b"{")?;
    column("stack", samples.iter().map(|sample| sample.call - 1), out)?;
    column("time", samples.iter().map(|sample| milliseconds(sample.at)), out)?;
    column("weight", samples.iter().map(|sample| sample.weight), out)?;
    write!(out, r#""weightType":"{weight_type}","#)?;
    end_table(samples.len(), out)
}

fn write_markers(marks: &[NamedInstant], names: &[u32], out: &mut dyn io::Write) -> io::Result<()> {
    let all = |number: Option<u32>| std::iter::repeat_n(number, marks.len());
    out.write_all(b"{")?;
    column("data", all(None), out)?;
    column("name", names, out)?;
    column("startTime", marks.iter().map(|mark| milliseconds(mark.time)), out)?;
    column("endTime", all(None), out)?;
    column("phase", all(Some(0)), out)?;
    column("category", all(Some(OTHER)), out)?;
    end_table(marks.len(), out)
}

/// Stacks are calls without the root, so they have the number of the call less one.
fn write_stacks(tree: &CallTree, out: &mut dyn io::Write) -> io::Result<()> {
    let calls = &tree.calls()[1..];
    out.write_all(b",\"stackTable\":{")?;
    column("frame", calls.iter().map(|(_, frame)| frame), out)?;
    column("prefix", calls.iter().map(|(caller, _)| caller.checked_sub(1)), out)?;
    end_table(calls.len(), out)
}

fn write_frames(tables: &Tables, out: &mut dyn io::Write) -> io::Result<()> {
    let frames = tables.frames.values();
    let all = |number: Option<i32>| std::iter::repeat_n(number, frames.len());
    out.write_all(b",\"frameTable\":{")?;
    column("func", frames.iter().map(|frame| frame.function), out)?;
    column("line", frames.iter().map(|frame| frame.line), out)?;
    column("column", all(None), out)?;
    column("address", all(Some(-1)), out)?;
    column("inlineDepth", all(Some(0)), out)?;
    column("category", all(Some(OTHER as i32)), out)?;
    column("subcategory", all(Some(0)), out)?;
    column("nativeSymbol", all(None), out)?;
    column("innerWindowID", all(Some(0)), out)?;
    end_table(frames.len(), out)
}

fn write_functions(tables: &Tables, out: &mut dyn io::Write) -> io::Result<()> {
    let functions = tables.functions.values();
    let no = || functions.iter().map(|_| false);
    let unknown = || functions.iter().map(|_| None::<u32>);
    out.write_all(b",\"funcTable\":{")?;
    column("name", functions.iter().map(|function| function.name), out)?;
    column("isJS", no(), out)?;
    column("relevantForJS", no(), out)?;
    column("resource", functions.iter().map(|function| function.library.map_or(-1, i64::from)), out)?;
    column("fileName", functions.iter().map(|function| function.file), out)?;
    column("lineNumber", unknown(), out)?;
    column("columnNumber", unknown(), out)?;
    end_table(functions.len(), out)
}

/// Each library is a resource with the same number. The names of frames are final, so there are no native symbols to look up.
fn write_resources(library_names: &[u32], out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b",\"resourceTable\":{")?;
    column("lib", 0..library_names.len(), out)?;
    column("name", library_names, out)?;
    column("host", library_names.iter().map(|_| None::<u32>), out)?;
    column("type", library_names.iter().map(|_| LIBRARY), out)?;
    end_table(library_names.len(), out)?;
    out.write_all(b",\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],\"length\":0}")
}
