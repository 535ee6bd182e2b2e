//! The document is sufficient: a reader written from docs/format.md alone, in another language, reads our files with the same results.
//!
//! `independent_reader.py` decodes and replays a recording with its own code and prints the result as JSON; this test makes the same JSON from
//! [`Recording`]'s answers. It has every total, and a checksum of every step, so any difference in any field of any step shows.

use highwater_model::{
    AccountsState, AddressLedger, AddressSpace, AllocatorMemory, Anomaly, AreaKind, Blocks, BreakdownReason, Catalog,
    Clock, ColumnRange, Event, EventKind, Figures, FilePages, FrameId, FrameText, Heap, HeapArea, KnownFigures,
    MemoryLimit, Module, Nanos, Op, PageOwner, PageRun, Placement, ProcessMemory, RssBreakdown, RssKind, RssRow,
    SampleSpacing, SitePages, Source, SourceKind, StackId, Step, StoreId, Tag, TagId, ThreadId, Weight, WordSampling,
    mapped_address,
};
use highwater_store::{EventLog, Recording, Spacing, Writer, write_snapshot, write_states};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The subset of JSON that is needed, formatted as Python does with an indent of one and sorted keys.
enum Json {
    Null,
    Bool(bool),
    Number(u64),
    Signed(i64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Json)>) -> Self {
        Self::Object(members.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn write(&self, depth: usize, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => write!(out, "{value}").unwrap(),
            Self::Number(value) => write!(out, "{value}").unwrap(),
            Self::Signed(value) => write!(out, "{value}").unwrap(),
            // The names in these tests need no escapes that Rust and JSON write differently.
            Self::Text(text) => write!(out, "{text:?}").unwrap(),
            Self::List(items) => {
                write_items(out, depth, ['[', ']'], items.len(), |at, out| items[at].write(depth + 1, out));
            }
            Self::Object(members) => {
                let members: Vec<_> = members.iter().collect();
                write_items(out, depth, ['{', '}'], members.len(), |at, out| {
                    write!(out, "{:?}: ", members[at].0).unwrap();
                    members[at].1.write(depth + 1, out);
                });
            }
        }
    }
}

fn write_items(
    out: &mut String,
    depth: usize,
    ends: [char; 2],
    count: usize,
    mut item: impl FnMut(usize, &mut String),
) {
    out.push(ends[0]);
    for at in 0..count {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(depth + 1));
        item(at, out);
    }
    if count > 0 {
        out.push('\n');
        out.push_str(&" ".repeat(depth));
    }
    out.push(ends[1]);
}

/// Facts that [`Recording`] does not give: whether the file's parts agree with each other.
struct Agreement {
    /// For each readable keyframe that has events before it: whether a replay leads to the same state.
    keyframes: Vec<bool>,
    /// Whether the index lists the readable blocks; `None` if there is no index.
    index: Option<bool>,
    /// Event blocks that are listed but cannot be read.
    lost_event_blocks: u64,
}

impl Agreement {
    /// The agreement of a file without damage.
    fn full(recording: &Recording) -> Self {
        let keyframes = if recording.is_snapshot() { 0 } else { recording.stats().keyframes as usize };
        let keyframes = vec![true; keyframes];
        Self { keyframes, index: Some(true), lost_event_blocks: 0 }
    }
}

fn site_text(catalog: &Catalog, stack: StackId) -> String {
    let line = |frame: FrameText<'_>| {
        let FrameText { function, file, line, module, address, inlined, columns, .. } = frame;
        let ColumnRange { start, end } = columns;
        let columns = if columns.are_known() { format!(" {start}-{end}") } else { String::new() };
        format!("{function} {file}:{line} {module} {address:x}{}{columns}", if inlined { " inlined" } else { "" })
    };
    let lines: Vec<String> = catalog.frame_texts(stack).map(line).collect();
    if lines.is_empty() { "unknown".to_owned() } else { lines.join(" < ") }
}

fn tag_text(catalog: &Catalog, tag: TagId) -> String {
    let Tag { variable, type_name, heap, task } = catalog.tag(tag);
    let [variable, type_name, task] = [variable, type_name, task].map(|text| catalog.strings.get(text));
    format!("{variable}: {type_name} {} {task}", heap.name())
}

/// Live bytes by text, for rows that are not empty.
fn live_by_text<'a, Id>(rows: impl Iterator<Item = (Id, &'a Figures)>, text: impl Fn(Id) -> String) -> Json {
    let mut live = BTreeMap::new();
    for (id, figures) in rows.filter(|(_, figures)| !figures.is_empty()) {
        *live.entry(text(id)).or_insert(0) += figures.live_bytes();
    }
    Json::object(live.into_iter().map(|(text, bytes)| (text, Json::Number(bytes))))
}

const OPERATIONS: [&str; 9] =
    ["allocate", "free", "reallocate", "unmatched_free", "mark", "gauge", "evict", "note", "promote"];

/// The bits of a weight, its samples, their spacing, and whether its bytes are rounded for each record.
fn weight_text(weight: Weight) -> String {
    let (samples, spacing) = weight.counted().unwrap_or_default();
    format!("{}/{samples}/{}/{}", weight.bits(), spacing.bits(), u8::from(weight.is_rounded()))
}

/// The names of the figures that a source knows besides live bytes; `all` if it is not limited.
fn known_figures(known: Option<KnownFigures>) -> Vec<&'static str> {
    let Some(known) = known else { return vec!["all"] };
    let figures = [
        (known.live_blocks, "live blocks"),
        (known.allocated, "allocated"),
        (known.own_peaks, "own peaks"),
        (known.samples, "samples"),
    ];
    figures.into_iter().filter(|(is_known, _)| *is_known).map(|(_, name)| name).collect()
}

/// A step's operation and its fields as text.
fn operation_text(catalog: &Catalog, next_number: u64, step: &Step) -> (usize, String) {
    let string = |id| catalog.strings.get(id);
    match step.op {
        Op::Allocate(Placement { address, size, stack, tag, surplus, weight }) => {
            (0, format!("{next_number} {address} {size} {} {} {surplus} {}", stack.0, tag.0, weight_text(weight)))
        }
        Op::Free { id, stack } => (1, format!("{} {}", id.0, stack.0)),
        Op::Reallocate { id, moved_to, size, stack, tag, surplus, weight } => {
            let moved_to = moved_to.map_or("-".to_owned(), |address| address.to_string());
            (2, format!("{} {moved_to} {size} {} {} {surplus} {}", id.0, stack.0, tag.0, weight_text(weight)))
        }
        Op::UnmatchedFree { address } => (3, address.to_string()),
        Op::Mark { name } => (4, string(name).to_owned()),
        Op::Gauge { name, value } => (5, format!("{} {value}", string(name))),
        Op::Evict { id } => (6, id.0.to_string()),
        Op::Promote { id, tag } => (8, format!("{} {}", id.0, tag.0)),
        Op::Note { anomaly, count } => (7, format!("{} {count}", anomaly.key())),
    }
}

/// The output that the independent reader must produce.
fn expected(recording: &Recording, agreement: &Agreement) -> String {
    let catalog = recording.catalog();
    let mut checksum = crc32fast::Hasher::new();
    let mut counts = [0; OPERATIONS.len()];
    let mut events = 0;
    let accounts = recording
        .for_each_step(|ledger, step| {
            let (operation, fields) = operation_text(catalog, ledger.accounts().next_id().0, step);
            counts[operation] += 1;
            events += u64::from(step.op.is_event());
            let line = format!("{} {} {} {fields}\n", step.time.0, step.thread.0, OPERATIONS[operation]);
            checksum.update(line.as_bytes());
        })
        .unwrap();
    recording.check(&mut |_| {}).unwrap();

    let Source { kind, program, pid, parent_pid, command, host, start_unix_ns, duration, .. } =
        recording.source().clone();
    let Source { context, runtime_parameters, word_sampling, executable, address_space, notes, .. } =
        recording.source().clone();
    let Source { sample_rate, usable_sizes, snapshot, has_past, store, aggregated, clock, known, .. } =
        *recording.source();
    let store = store.map_or_else(String::new, |StoreId(id)| format!("{:032x}", id.swap_bytes()));
    let source = Json::object([
        ("kind", Json::text(kind.key())),
        ("program", Json::Text(program)),
        ("executable", Json::Text(executable)),
        ("reserved_bytes", Json::Number(address_space.reserved_bytes)),
        ("mapped_file_bytes", Json::Number(address_space.mapped_file_bytes)),
        ("returned_bytes", Json::Number(address_space.returned_bytes)),
        ("notes", Json::List(notes.into_iter().map(Json::Text).collect())),
        ("pid", Json::Number(pid)),
        ("parent_pid", Json::Number(parent_pid)),
        ("command", Json::List(command.into_iter().map(Json::Text).collect())),
        ("usable_sizes", Json::Bool(usable_sizes)),
        ("snapshot", Json::Bool(snapshot)),
        ("has_past", Json::Bool(has_past)),
        ("store", Json::Text(store)),
        ("aggregated", Json::Bool(aggregated)),
        ("clock", Json::text(clock.unit().1)),
        ("known", Json::List(known_figures(known).into_iter().map(Json::text).collect())),
        ("host", Json::Text(host)),
        ("start_unix_ns", Json::Number(start_unix_ns)),
        ("duration_ns", Json::Number(duration.0)),
        ("sample_rate", Json::Number(sample_rate.unwrap_or(0))),
        ("context", Json::Text(context)),
        ("runtime_parameters", Json::Text(runtime_parameters)),
        ("word_bytes", Json::Number(word_sampling.map_or(0, |words| words.word_bytes().into()))),
        ("rate_bits", Json::Number(word_sampling.map_or(0, |words| words.rate().to_bits()))),
    ]);
    let threads = accounts.threads().iter().map(|thread| {
        let live_bytes = Json::Number(thread.figures.live_bytes());
        let allocations = Json::Number(thread.figures.allocations);
        (thread.id.0.to_string(), Json::object([("live_bytes", live_bytes), ("allocations", allocations)]))
    });
    let modules = catalog.modules.iter().map(|module| {
        let Module { path, build_id, start, end, file_offset, loaded, unloaded } = *module;
        let (path, build_id) = (catalog.strings.get(path), catalog.strings.get(build_id));
        let unloaded = unloaded.map_or("-".to_owned(), |time| time.0.to_string());
        Json::Text(format!("{path} {build_id} {start} {end} {file_offset} {} {unloaded}", loaded.0))
    });
    let names = catalog.thread_names().iter();
    let names = names.map(|entry| (entry.thread.0.to_string(), Json::text(catalog.thread_name(entry.thread))));
    let marks = recording
        .marks()
        .unwrap()
        .into_iter()
        .map(|mark| Json::List(vec![Json::Number(mark.time.0), Json::Number(mark.event), Json::Text(mark.name)]));
    let gauges =
        recording.gauges().unwrap().into_iter().map(|gauge| {
            Json::List(vec![Json::Number(gauge.time.0), Json::Text(gauge.name), Json::Number(gauge.value)])
        });
    let checks = agreement
        .keyframes
        .iter()
        .map(|&equal| Json::object([("figures_equal", Json::Bool(equal)), ("live_blocks_equal", Json::Bool(equal))]));
    let damage = recording.damage().into_iter().map(|damage| Json::Number(damage.offset));
    let anomalies = accounts.anomalies().iter().map(|(anomaly, count)| (anomaly.key(), Json::Number(count)));
    let operations = OPERATIONS.into_iter().zip(counts.map(Json::Number));
    let (stats, totals) = (recording.stats(), accounts.totals());
    let figures = &totals.figures;
    let all = Json::object([
        ("version", Json::Number(stats.version.into())),
        ("complete", Json::Bool(stats.complete)),
        ("damage", Json::List(damage.collect())),
        ("index_agrees", agreement.index.map_or(Json::Null, Json::Bool)),
        ("summaries_agree", Json::Bool(true)),
        ("source", source),
        ("events", Json::Number(events)),
        ("event_blocks", Json::Number(stats.event_blocks - agreement.lost_event_blocks)),
        ("operations", Json::object(operations)),
        ("steps_crc32", Json::Number(checksum.finalize().into())),
        ("allocations", Json::Number(figures.allocations)),
        ("frees", Json::Number(figures.frees)),
        ("reallocations", Json::Number(figures.reallocations)),
        ("allocated_bytes", Json::Number(figures.allocated_bytes)),
        ("freed_bytes", Json::Number(figures.freed_bytes)),
        ("live_blocks", Json::Number(figures.live_blocks())),
        ("live_records", Json::Number(accounts.blocks().count() as u64)),
        ("records", Json::Number(figures.records())),
        ("samples", Json::Number(figures.samples())),
        ("promotions", Json::Number(figures.promotions)),
        ("surplus_bytes", Json::Signed(accounts.blocks().map(|block| i64::from(block.surplus)).sum())),
        ("live_bytes", Json::Number(figures.live_bytes())),
        ("peak_bytes", Json::Number(figures.peak_bytes)),
        ("peak_blocks", Json::Number(totals.peak_blocks)),
        ("peak_event", Json::Number(totals.peak_event)),
        ("peak_time_ns", Json::Number(totals.peak_at.0)),
        ("peak_inside_reallocation", Json::Number(totals.peak_bytes_inside_reallocation)),
        ("cross_thread_frees", Json::Number(figures.cross_thread_frees)),
        ("temporary_allocations", Json::Number(figures.temporary_allocations)),
        ("anomalies", Json::object(anomalies)),
        ("threads", Json::object(threads)),
        ("thread_names", Json::object(names)),
        ("sites", live_by_text(accounts.sites().iter(), |stack| site_text(catalog, stack))),
        ("tags", live_by_text((0..).map(TagId).zip(accounts.tags()), |tag| tag_text(catalog, tag))),
        ("modules", Json::List(modules.collect())),
        ("marks", Json::List(marks.collect())),
        ("gauges", Json::List(gauges.collect())),
        ("breakdowns", Json::List(recording.breakdowns().unwrap().iter().map(breakdown_json).collect())),
        ("keyframes", Json::Number(agreement.keyframes.len() as u64)),
        ("keyframe_checks", Json::List(checks.collect())),
    ]);
    let mut out = String::new();
    all.write(0, &mut out);
    out
}

fn breakdown_json(breakdown: &RssBreakdown) -> Json {
    let numbers = |values: &[u64]| Json::List(values.iter().map(|&value| Json::Number(value)).collect());
    let known = |value: Option<u64>| value.map_or(Json::Null, Json::Number);
    let RssBreakdown { process, allocator, .. } = breakdown;
    let rows = breakdown.rows.iter().map(|row| numbers(&[row.kind as u64, row.resident, row.size, row.swapped]));
    let sites = breakdown.sites.iter().map(|site| {
        let SitePages { stack, tag, blocks, live, usable, resident, pinned } = *site;
        numbers(&[stack.0.into(), tag.0.into(), blocks, live, usable, resident, pinned])
    });
    let files = breakdown
        .files
        .iter()
        .map(|file| Json::List(vec![Json::text(&file.path), Json::Number(file.shared), Json::Number(file.private)]));
    let owner = |owner| match owner {
        PageOwner::Absent => 0,
        PageOwner::Free => 1,
        PageOwner::Several => 2,
        PageOwner::Allocator => 3,
        PageOwner::Site(site) => 4 + u64::from(site),
    };
    let areas = breakdown.areas.iter().map(|area| {
        let runs = area.runs.iter().map(|run| numbers(&[run.pages.into(), run.live.into(), owner(run.owner)]));
        let (kind, start) = (Json::Number(area.kind as u64), Json::Number(area.start));
        Json::object([("kind", kind), ("start", start), ("runs", Json::List(runs.collect()))])
    });
    Json::object([
        ("at", Json::Number(breakdown.at.0)),
        ("reason", Json::Number(breakdown.reason as u64)),
        ("knows_every_block", Json::Bool(breakdown.knows_every_block)),
        ("uncertain", Json::Number(breakdown.uncertain)),
        ("rss", Json::Number(process.rss)),
        ("rss_after", Json::Number(process.rss_after)),
        ("rss_peak", Json::Number(process.rss_peak)),
        ("anonymous", Json::Number(process.anonymous)),
        ("data", Json::Number(process.data)),
        ("swap", Json::Number(process.swap)),
        ("page_tables", Json::Number(process.page_tables)),
        ("huge", Json::Number(process.huge)),
        ("threads", Json::Number(process.threads)),
        ("pss", known(process.pss)),
        ("lazily_free", known(process.lazily_free)),
        ("limit", known(process.limit.map(|limit| limit.bytes))),
        ("used", known(process.limit.map(|limit| limit.used))),
        ("allocator", Json::text(&allocator.name)),
        ("arenas", Json::Number(allocator.arenas)),
        ("trim", known(allocator.trim)),
        ("trim_is_upper_bound", Json::Bool(allocator.trim_is_upper_bound)),
        ("other_tops", Json::Number(allocator.other_tops)),
        ("rows", Json::List(rows.collect())),
        ("sites", Json::List(sites.collect())),
        ("files", Json::List(files.collect())),
        ("areas", Json::List(areas.collect())),
    ])
}

fn require_command(name: &str) {
    let found = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(found, "this test needs the command `{name}`: install the packages python3 and zstd");
}

fn run_reader(file: &Path) -> String {
    require_command("python3");
    require_command("zstd");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/independent_reader.py");
    let output = Command::new("python3").arg("-B").arg(script).arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the independent reader failed on {}:\n{errors}", file.display());
    String::from_utf8(output.stdout).unwrap()
}

/// Fails at the first line in which the two differ.
fn assert_same_lines(name: &str, found: &str, expected: &str) {
    let mut lines = found.trim_end().lines();
    for (at, line) in expected.lines().enumerate() {
        let other = lines.next().unwrap_or("(nothing)");
        assert_eq!(other, line, "{name}, line {}: left the independent reader, right Highwater", at + 1);
    }
    assert_eq!(lines.next(), None, "{name}: the independent reader found more");
}

/// The path has the process id, since the tests may run twice at the same time.
fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("independent_reader_{}_{name}.hw", std::process::id()))
}

fn assert_readers_agree(name: &str, path: &Path, agreement: impl FnOnce(&Recording) -> Agreement) {
    let recording = Recording::open(path).unwrap();
    let expected = expected(&recording, &agreement(&recording));
    assert_same_lines(name, &run_reader(path), &expected);
    std::fs::remove_file(path).unwrap();
}

/// Writes the bytes to a file. Both readers must agree on it.
fn assert_agreement(name: &str, bytes: &[u8], agreement: impl FnOnce(&Recording) -> Agreement) {
    let path = path_of(name);
    std::fs::write(&path, bytes).unwrap();
    assert_readers_agree(name, &path, agreement);
}

fn source() -> Source {
    Source {
        kind: SourceKind::NATIVE,
        program: "./demo --größe 5".to_owned(),
        pid: 4242,
        host: "box".to_owned(),
        start_unix_ns: 1_700_000_000_123_456_789,
        duration: Nanos(77),
        sample_rate: Some(524_288),
        ..Source::default()
    }
}

/// Pseudo-random numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % bound
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// The size and contents of a history.
struct Shape {
    events: usize,
    threads: u64,
    sites: u64,
    /// The number of addresses that it uses: the more, the more is live.
    places: u64,
    /// The percentage of allocations; the other events are of all kinds.
    allocations: u64,
    /// Whether it has features of native recordings: heaps, resolutions, usable sizes, weights.
    is_native: bool,
    /// Whether samples are counted and blocks promoted.
    is_counted: bool,
    /// Whether frees have stacks.
    has_free_stacks: bool,
}

/// A surplus and a weight, each mostly the usual one, sometimes an extreme value.
fn native_details(dice: &mut Dice) -> (i32, Weight) {
    let surplus = dice.one_of(&[0, 0, 0, 0, 8, -8, 4096, i32::MAX, i32::MIN]);
    let weight = dice.one_of(&[1.0, 1.0, 1.5, 33.3, 1e4, 1e9]);
    (surplus, Weight::new(weight))
}

fn frame(function: &str, line: u32, address: u64) -> FrameText<'_> {
    FrameText {
        function,
        file: "main.rs",
        line,
        module: "/usr/bin/demo",
        address,
        inlined: line.is_multiple_of(3),
        ..FrameText::default()
    }
}

fn catalog_of(shape: &Shape) -> (Catalog, Vec<StackId>, Vec<TagId>) {
    let mut catalog = Catalog::default();
    let mut stacks = vec![StackId::UNKNOWN];
    for site in 0..shape.sites {
        let inner = format!("make_{site}");
        let outer = FrameText { function: "main", ..FrameText::default() };
        let frames = [frame(&inner, site as u32, 0x40_1000 + site), frame("run", 7, 0x40_0000), outer];
        stacks.push(catalog.intern_stack(&frames));
    }
    let mut tags = vec![TagId::NONE, TagId::NONE];
    for (variable, type_name) in [("buffer", "Vec<u8>"), ("", "String"), ("größe", "")] {
        let (variable, type_name) = (catalog.strings.intern(variable), catalog.strings.intern(type_name));
        tags.push(catalog.intern_tag(Tag { variable, type_name, ..Tag::default() }));
    }
    catalog.name_thread(ThreadId(1), "worker");
    catalog.name_thread(ThreadId(2), "early");
    catalog.name_thread(ThreadId(2), "late");
    (catalog, stacks, tags)
}

/// A history with all kinds of events, valid and odd ones: the same for the same shape.
fn history(shape: &Shape) -> (Catalog, Vec<Event>) {
    let (mut catalog, stacks, tags) = catalog_of(shape);
    let names = ["loaded", "resident set", "phase"].map(|name| catalog.strings.intern(name));
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut time = 0;
    let mut happen = || {
        time += dice.below(300);
        let place_of = |number| 0x7f12_3400_0010 + number * 112;
        let address = place_of(dice.below(shape.places));
        let size = dice.one_of(&[0, 1, 24, 100, 104, 4096, 1 << 21, 1 << 33]);
        let (surplus, weight) = if shape.is_native { native_details(&mut dice) } else { (0, Weight::ONE) };
        let weight = match dice.below(if shape.is_counted { 4 } else { 1 }) {
            0 => weight,
            _ => weight.of_samples(dice.one_of(&[1, 1, 2, 900]), SampleSpacing::new(dice.one_of(&[80_000.0, 26.7]))),
        };
        let new = Placement { address, size, stack: dice.one_of(&stacks), tag: dice.one_of(&tags), surplus, weight };
        let claimed_size = dice.one_of(&[None, None, None, Some(24)]);
        let unmoved = dice.below(2) == 0;
        let old_address = if unmoved { address } else { place_of(dice.below(shape.places)) };
        let kind = match dice.below(100) {
            at if at < shape.allocations => EventKind::Allocate(new),
            at => match at % 20 {
                0 => EventKind::Mark { name: dice.one_of(&names) },
                1 => EventKind::Gauge { name: dice.one_of(&names), value: dice.below(1 << 44) },
                2 => EventKind::free(dice.below(u64::MAX), claimed_size),
                3..8 => EventKind::Reallocate { old_address, claimed_old_size: claimed_size, new },
                8 => EventKind::Dropped { count: 3 },
                9..12 if shape.is_counted => EventKind::Promote { address, tag: dice.one_of(&tags) },
                _ => EventKind::Deallocate {
                    address,
                    claimed_size,
                    stack: if shape.has_free_stacks { new.stack } else { StackId::UNKNOWN },
                },
            },
        };
        // Sometimes an event is late.
        let late = if dice.below(50) == 0 { 40 } else { 0 };
        let time = Nanos(if matches!(kind, EventKind::Dropped { .. }) { 0 } else { time.saturating_sub(late) });
        let thread = match dice.below(shape.threads) * dice.below(2) + 1 {
            3 => ThreadId::UNKNOWN,
            number => ThreadId(number),
        };
        Event { time, thread, kind }
    };
    let events = (0..shape.events).map(|_| happen()).collect();
    (catalog, events)
}

/// A recording in memory whose keyframes are at least `every` events apart; its blocks end every `flush` events, or when they are full.
fn written(catalog: &Catalog, events: &[Event], every: u64, flush: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &source()).unwrap();
    writer.set_spacing(Spacing::every(every));
    for part in events.chunks(flush) {
        writer.append(part, catalog).unwrap();
        writer.flush(catalog).unwrap();
    }
    writer.note(Anomaly::TypeMismatch, 5, catalog).unwrap();
    writer.note(Anomaly::TruncatedStack, u64::MAX, catalog).unwrap();
    writer.finish(catalog, &source()).unwrap().1
}

const SMALL: Shape = Shape {
    events: 6000,
    threads: 5,
    sites: 7,
    places: 80,
    allocations: 40,
    is_native: false,
    is_counted: false,
    has_free_stacks: false,
};
const NATIVE: Shape = Shape { is_native: true, has_free_stacks: true, ..SMALL };
const COUNTED: Shape = Shape { is_counted: true, ..NATIVE };

#[test]
fn histories_of_every_kind_of_event_are_read() {
    let (catalog, events) = history(&SMALL);
    let file = written(&catalog, &events, 900, 700);
    let recording = Recording::from_bytes(file.clone()).unwrap();
    assert!(recording.stats().keyframes > 4, "{:?}", recording.stats());
    assert_agreement("small", &file, Agreement::full);
    let many_owners = Shape { events: 20_000, threads: 150, sites: 6000, places: 300, ..SMALL };
    let (catalog, events) = history(&many_owners);
    assert_agreement("many_owners", &written(&catalog, &events, 8000, usize::MAX), Agreement::full);
}

/// Adds features of native recordings.
fn make_native(catalog: &mut Catalog) -> TagId {
    let path = catalog.strings.intern("/usr/lib/plugin.so");
    let build_id = catalog.strings.intern("00ff");
    let module = Module { path, build_id, start: 0x1000, end: 0x9000, loaded: Nanos(5), ..Module::default() };
    catalog.add_module(Module { unloaded: Some(Nanos(9)), ..module.clone() });
    catalog.add_module(Module { start: 0x7000, ..module });
    let variable = catalog.strings.intern("region");
    let task = catalog.strings.intern("serve");
    catalog.intern_tag(Tag { variable, heap: Heap::External, task, ..Tag::default() });
    catalog.intern_tag(Tag { task, ..Tag::default() });
    catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() })
}

/// Resolves frames that were recorded without names, one of them twice, another only temporarily.
fn resolve(catalog: &mut Catalog) {
    let text = |function, line| FrameText { function, file: "inlined.rs", line, ..FrameText::default() };
    let inlined = FrameText { inlined: true, ..text("inner", 3) };
    assert!(catalog.resolve(FrameId(0), &[text("wrong", 1)]));
    assert!(catalog.resolve(FrameId(0), &[inlined, text("outer", 4)]));
    assert!(catalog.resolve(FrameId(2), &[text("gone", 1)]));
    assert!(catalog.resolve(FrameId(2), &[]));
    assert!(catalog.set_module_unloaded(2, Nanos(700)));
}

#[test]
fn what_only_native_recordings_have_is_read() {
    let (mut catalog, mut events) = history(&NATIVE);
    let mapped = make_native(&mut catalog);
    for event in events.iter_mut().step_by(17) {
        if let EventKind::Allocate(place) = &mut event.kind {
            *place = Placement { address: mapped_address(place.address & !0xfff), tag: mapped, ..*place };
        }
    }
    let source = Source {
        parent_pid: 4000,
        command: vec!["./demo".to_owned(), String::new(), "--größe 5".to_owned()],
        usable_sizes: true,
        ..source()
    };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.set_spacing(Spacing::every(900));
    for part in events.chunks(700) {
        writer.append(part, &catalog).unwrap();
        writer.flush(&catalog).unwrap();
    }
    // Names are resolved after the program has ended.
    resolve(&mut catalog);
    let file = writer.finish(&catalog, &source).unwrap().1;
    let recording = Recording::from_bytes(file.clone()).unwrap();
    assert_eq!(recording.source(), &Source { duration: recording.source().duration, ..source });
    let end = recording.snapshot(&highwater_model::When::End).unwrap();
    assert!(end.is_estimate() && end.usable_bytes().is_some());
    assert!(
        end.blocks_of(Heap::Mapped)
            .all(|block| block.address % 4096 == 1 && end.address_of(&block).is_multiple_of(4096))
    );
    assert!(end.blocks_of(Heap::Mapped).next().is_some());
    assert_agreement("native", &file, Agreement::full);
}

#[test]
fn promotions_and_counted_samples_are_read() {
    let (mut catalog, events) = history(&COUNTED);
    let columns = ColumnRange { start: 3, end: 700 };
    assert!(catalog.resolve(FrameId(0), &[FrameText { function: "placed", columns, ..FrameText::default() }]));
    let source = Source {
        kind: SourceKind::MEMTRACE,
        pid: u64::MAX,
        context: "größe".to_owned(),
        runtime_parameters: "b=1".to_owned(),
        word_sampling: WordSampling::new(1e-4, 8),
        ..source()
    };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.set_spacing(Spacing::every(900));
    for part in events.chunks(700) {
        writer.append(part, &catalog).unwrap();
        writer.flush(&catalog).unwrap();
    }
    let file = writer.finish(&catalog, &source).unwrap().1;
    let recording = Recording::from_bytes(file.clone()).unwrap();
    assert_eq!(recording.source(), &Source { duration: recording.source().duration, ..source });
    let end = recording.snapshot(&highwater_model::When::End).unwrap();
    let figures = &end.accounts.totals().figures;
    assert!(figures.promoted_records() > 100 && figures.samples() > figures.records(), "{figures:?}");
    assert_agreement("counted", &file, Agreement::full);
}

#[test]
fn a_file_that_rounded_record_by_record_is_read() {
    assert_agreement("old_estimates", include_bytes!("fixtures/before_estimates.hw"), Agreement::full);
}

/// A breakdown with every field, of a process with these sites.
fn breakdown(at: u64, stack: StackId, tag: TagId) -> RssBreakdown {
    let row = |kind: RssKind, resident| RssRow { kind, resident, size: resident + 100, swapped: resident / 2 };
    let site =
        |stack, blocks| SitePages { stack, tag, blocks, live: 3 << 20, usable: 4 << 20, resident: 5000, pinned: 8192 };
    let run = |pages, live, owner| PageRun { pages, live, owner };
    let runs = vec![
        run(1, 0, PageOwner::Allocator),
        run(100_000, 0, PageOwner::Free),
        run(3, 4096, PageOwner::Site(1)),
        run(2, 17, PageOwner::Several),
        run(u32::MAX, 0, PageOwner::Absent),
    ];
    RssBreakdown {
        at: Nanos(at),
        reason: BreakdownReason::Mark,
        rows: RssKind::ALL.iter().map(|&kind| row(kind, 4096 * (1 + kind as u64))).collect(),
        process: ProcessMemory {
            rss: 612 << 10,
            rss_after: 616 << 10,
            rss_peak: 1 << 40,
            anonymous: 3,
            data: 4,
            pss: Some(5),
            swap: 6,
            page_tables: 7,
            huge: 8,
            lazily_free: Some(0),
            threads: 9,
            limit: Some(MemoryLimit { bytes: 10, used: 11 }),
        },
        allocator: AllocatorMemory {
            name: "glibc 2.36".into(),
            arenas: 2,
            trim: Some(12),
            trim_is_upper_bound: true,
            other_tops: 13,
        },
        knows_every_block: true,
        uncertain: 14,
        sites: vec![site(StackId::UNKNOWN, 1), site(stack, 70_000)],
        files: vec![FilePages { path: "/usr/lib/x.so (deleted)".into(), shared: 4096, private: 0 }],
        areas: vec![
            HeapArea { kind: AreaKind::Main, start: 0x5555_0000_0000, runs: runs.clone() },
            HeapArea { kind: AreaKind::Allocator, start: 0x7fff_0000_0000, runs },
        ],
    }
}

#[test]
fn where_the_resident_memory_was_is_read() {
    let mut catalog = Catalog::default();
    let mut writer = Writer::new(Vec::new(), &source()).unwrap();
    let place = Placement { address: 4096, size: 10, ..Placement::default() };
    let event = Event { time: Nanos(5), thread: ThreadId(1), kind: EventKind::Allocate(place) };
    writer.append(&[event], &catalog).unwrap();
    let stack = catalog.intern_stack(&[frame("make", 3, 0x1000)]);
    // Later ones first: a reader sorts them.
    assert!(writer.add_breakdown(&breakdown(70, stack, TagId::NONE), &catalog).unwrap());
    assert!(writer.add_breakdown(&RssBreakdown { at: Nanos(60), ..RssBreakdown::default() }, &catalog).unwrap());
    let (_, whole) = writer.finish(&catalog, &source()).unwrap();
    assert_agreement("breakdowns", &whole, Agreement::full);
    assert_eq!(Recording::from_bytes(whole.clone()).unwrap().breakdowns().unwrap().len(), 2);
    // Damage to one, to a catalog that one refers to, and a file without an end.
    let (at, _) = nth_block(&whole, 9, 0);
    let mut damaged = whole.clone();
    damaged[at + 40] ^= 1;
    assert_agreement("damaged_breakdown", &damaged, Agreement::full);
    let (end, _) = nth_block(&whole, 4, 0);
    let no_index = |_: &Recording| Agreement { keyframes: Vec::new(), index: None, lost_event_blocks: 0 };
    assert_agreement("cut_after_breakdowns", &whole[..end], no_index);
}

#[test]
fn snapshots_are_read() {
    let (mut catalog, events) = history(&NATIVE);
    make_native(&mut catalog);
    let mut ledger = AddressLedger::default();
    events.iter().for_each(|event| ledger.record(event, &mut ()));
    let state = ledger.accounts().to_state();
    let address_space = AddressSpace { reserved_bytes: 8 << 30, mapped_file_bytes: 4096, returned_bytes: 3 << 20 };
    let source = Source {
        usable_sizes: true,
        executable: "/usr/bin/größe-2".to_owned(),
        address_space,
        notes: vec!["it ended early".to_owned(), String::new()],
        ..source()
    };
    let file = write_snapshot(Vec::new(), &source, &catalog, &state).unwrap().0;
    assert_agreement("snapshot", &file, Agreement::full);
    // A snapshot of a recording, of a kind with a number and of one without.
    for kind in [SourceKind::EVENTS, SourceKind::new("heaptrack")] {
        let source = Source { kind, has_past: true, store: Some(StoreId(0x0102_0304 << 96 | 77)), ..source.clone() };
        let file = write_snapshot(Vec::new(), &source, &catalog, &state).unwrap().0;
        let read = Recording::from_bytes(file.clone()).unwrap();
        let duration = read.source().duration;
        assert_eq!(read.source(), &Source { snapshot: true, duration, ..source });
        assert_agreement("snapshot_of_recording", &file, Agreement::full);
    }
    let figures = AccountsState { blocks: Blocks::default(), ..state };
    let source = Source { aggregated: true, ..source };
    let file = write_snapshot(Vec::new(), &source, &catalog, &figures).unwrap().0;
    assert_agreement("aggregated_snapshot", &file, Agreement::full);
    let known = Some(KnownFigures { live_blocks: true, own_peaks: true, ..KnownFigures::default() });
    for clock in [Clock::Instructions, Clock::Bytes] {
        let source = Source { clock, known, ..source.clone() };
        let mut states = [AccountsState { last_time: Nanos(1), ..figures.clone() }, figures.clone()];
        let file = write_states(Vec::new(), &source, &catalog, &mut states).unwrap().0;
        // No event leads to a state, so there is nothing to compare.
        assert_agreement("states", &file, |recording| Agreement {
            keyframes: Vec::new(),
            ..Agreement::full(recording)
        });
    }
    // A state without counted events is valid as well.
    let mut uncounted = AccountsState { events: 0, ..figures };
    uncounted.totals.peak_event = 0;
    let file = write_snapshot(Vec::new(), &source, &catalog, &uncounted).unwrap().0;
    assert_agreement("uncounted_snapshot", &file, Agreement::full);
}

#[test]
fn full_blocks_and_their_keyframes_are_read() {
    let (catalog, events) =
        history(&Shape { events: 540_000, threads: 4, sites: 40, places: 5000, allocations: 45, ..SMALL });
    let file = written(&catalog, &events, 50_000, usize::MAX);
    let stats = Recording::from_bytes(file.clone()).unwrap().stats();
    assert!(stats.event_blocks > 2 && stats.keyframes > 2, "{stats:?}");
    assert_agreement("full_blocks", &file, Agreement::full);
}

#[test]
fn a_keyframe_whose_live_blocks_fill_more_than_one_block_is_read() {
    let allocate = |number: u64| {
        let place = Placement { address: 0x10_0000 + number * 48, size: 33 + number % 3, ..Placement::default() };
        Event { time: Nanos(number * 7), thread: ThreadId(number % 3), kind: EventKind::Allocate(place) }
    };
    let events: Vec<Event> = (0..(1 << 18) + 1000).map(allocate).collect();
    let file = written(&Catalog::default(), &events, u64::MAX, usize::MAX);
    assert_eq!(blocks(&file).iter().filter(|(start, _)| file[start + 4] == LIVE_BLOCKS).count(), 2);
    assert_agreement("many_live", &file, Agreement::full);
}

#[test]
fn a_catalog_of_several_blocks_and_columns_that_shrink_to_nearly_nothing_are_read() {
    let mut catalog = Catalog::default();
    let mut allocate = |number: u64| {
        let stack = catalog.intern_stack(&[frame(&format!("make_{number}"), 1, number)]);
        let place = Placement { address: 16 * number, size: 10, stack, ..Placement::default() };
        Event { time: Nanos(number), thread: ThreadId(1), kind: EventKind::Allocate(place) }
    };
    let events: Vec<Event> = (1..70_000).map(&mut allocate).collect();
    assert_agreement("many_sites", &written(&catalog, &events, u64::MAX, usize::MAX), Agreement::full);
}

#[test]
fn numbers_at_the_edges_are_read() {
    let mut catalog = Catalog::default();
    let name = catalog.strings.intern("edge");
    let event = |time, thread, kind| Event { time: Nanos(time), thread: ThreadId(thread), kind };
    let place = |address, size| Placement { address, size, ..Placement::default() };
    let allocate = |address, size| EventKind::Allocate(place(address, size));
    let free = |address| EventKind::free(address, None);
    let grow = |old_address, address, size| EventKind::Reallocate {
        old_address,
        claimed_old_size: Some(u64::MAX),
        new: place(address, size),
    };
    let end = u64::MAX;
    let events = [
        event(0, end, allocate(0, 0)),
        event(0, end, allocate(1 << 63, 0)),
        event(0, end, allocate(0, 1)),
        event(1, 0, allocate(end, 1)),
        event(1, 0, allocate((1 << 63) - 1, 1)),
        event(1 << 40, 0, free(end)),
        event(1 << 40, 1, allocate(end, 63)),
        event(1 << 41, 1, grow(end, end - 1, 1 << 62)),
        event(1 << 41, 1, grow(end - 1, end - 1, 1 << 63)),
        event(1 << 41, 1, grow(12345, 7, 1)),
        event(1 << 41, 2, EventKind::Gauge { name, value: end }),
        event(1 << 41, 2, EventKind::Dropped { count: end }),
        event(end - 1, 2, allocate(33, end)),
        event(end - 1, 2, allocate(34, end)),
        event(end - 1, 3, free(33)),
        event(end, 3, free(end)),
        event(end, 3, EventKind::Mark { name }),
    ];
    for flush in [1, 5, 100] {
        let file = written(&catalog, &events, 3, flush);
        assert_agreement(&format!("edges_{flush}"), &file, Agreement::full);
    }
}

#[test]
fn an_event_log_of_many_threads_is_read_with_and_without_a_spill() {
    for (name, limit) in [("log", u64::MAX), ("spilled_log", 1 << 16)] {
        let log = EventLog::with_limit(limit);
        let (catalog, events) = history(&SMALL);
        log.change_catalog(|changed| *changed = catalog);
        std::thread::scope(|scope| {
            for part in events.chunks(1000) {
                scope.spawn(|| part.iter().for_each(|&event| log.record_now(event)));
            }
        });
        let path = path_of(name);
        log.save(&path, &source()).unwrap();
        assert_readers_agree(name, &path, Agreement::full);
    }
}

const EVENTS: u8 = 3;
const KEYFRAME: u8 = 4;
const LIVE_BLOCKS: u8 = 5;

/// Where the blocks begin and end.
fn blocks(file: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 16;
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        found.push((at, at + 24 + length));
        at += 24 + length;
    }
    found
}

/// Where the `n`th block of a kind begins and ends.
fn nth_block(file: &[u8], kind: u8, n: usize) -> (usize, usize) {
    blocks(file).into_iter().filter(|(start, _)| file[start + 4] == kind).nth(n).unwrap()
}

#[test]
fn both_readers_recover_the_same_from_damage() {
    let (catalog, events) = history(&SMALL);
    let file = written(&catalog, &events, 1000, 300);
    let flipped = |at: usize| {
        let mut damaged = file.clone();
        damaged[at] ^= 0x40;
        damaged
    };
    // There is a keyframe after every fourth block of events; the ninth block is in the segment of the third keyframe.
    let (start, end) = nth_block(&file, EVENTS, 8);
    for (name, at) in [("events_payload", end - 1), ("events_header", start + 9), ("events_magic", start)] {
        assert_agreement(name, &flipped(at), |recording| {
            let mut agreement = Agreement::full(recording);
            agreement.keyframes[2] = false;
            Agreement { index: Some(false), lost_event_blocks: 1, ..agreement }
        });
    }
    let (_, end) = nth_block(&file, KEYFRAME, 1);
    assert_agreement("keyframe_payload", &flipped(end - 1), |recording| {
        let mut agreement = Agreement::full(recording);
        agreement.keyframes.pop();
        Agreement { index: Some(false), ..agreement }
    });
    assert_agreement("file_header", &flipped(7), Agreement::full);
    assert_agreement("end", &flipped(file.len() - 1), |recording| Agreement {
        index: None,
        ..Agreement::full(recording)
    });
    let (start, end) = nth_block(&file, EVENTS, 13);
    for (name, length) in [("cut_in_header", start + 11), ("cut_in_payload", end - 1), ("cut_behind", end)] {
        assert_agreement(name, &file[..length], |recording| Agreement { index: None, ..Agreement::full(recording) });
    }
}

/// The file of docs/format.md §13.
fn example() -> Vec<u8> {
    let mut catalog = Catalog::default();
    let frame = |function, line| FrameText { function, file: "a.c", line, ..FrameText::default() };
    let stack = catalog.intern_stack(&[frame("load", 9), frame("main", 3)]);
    let done = catalog.strings.intern("done");
    let place = |address, size| Placement { address, size, stack, ..Placement::default() };
    let event = |time, thread, kind| Event { time: Nanos(time), thread: ThreadId(thread), kind };
    let free = |address| EventKind::free(address, None);
    let grow = EventKind::Reallocate { old_address: 0x1070, claimed_old_size: None, new: place(0x1150, 200) };
    let events = [
        event(1000, 5, EventKind::Allocate(place(0x1000, 100))),
        event(1010, 5, EventKind::Allocate(place(0x1070, 100))),
        event(1020, 5, free(0x1000)),
        event(1030, 5, EventKind::Allocate(place(0x1000, 100))),
        event(1040, 5, grow),
        event(1050, 6, free(0x9990)),
        event(1060, 5, EventKind::Mark { name: done }),
    ];
    let source = Source { program: "demo".to_owned(), pid: 7, host: "box".to_owned(), ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.append(&events, &catalog).unwrap();
    writer.finish(&catalog, &source).unwrap().1
}

/// The bytes that the document shows: lines of an offset, bytes and an explanation, two blanks or more between them.
fn documented_example() -> Vec<u8> {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md")).unwrap();
    let section = document.split("\n## 13 ").nth(1).expect("the document has a section 13");
    let mut bytes = Vec::new();
    for line in section.split("\n```").nth(1).expect("section 13 shows bytes").lines() {
        let Some((offset, rest)) = line.split_once("  ") else { continue };
        assert_eq!(usize::from_str_radix(offset, 16), Ok(bytes.len()), "offset in {line:?}");
        let shown = rest.split("  ").next().unwrap_or_default().split_ascii_whitespace();
        bytes.extend(shown.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    bytes
}

#[test]
fn the_example_of_the_document_is_what_is_written_and_is_read() {
    let (file, documented) = (example(), documented_example());
    let differs = file.iter().zip(&documented).position(|(written, shown)| written != shown);
    assert_eq!(differs.map(|at| format!("{at:04x}")), None, "first offset that differs from the document");
    assert_eq!(file.len(), documented.len());
    assert_agreement("example", &documented, Agreement::full);
}
