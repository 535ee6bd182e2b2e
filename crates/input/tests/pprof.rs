//! Heap profiles of pprof, jemalloc, gperftools and Go, compared with what `go tool pprof` and `jeprof` say of them.
//!
//! fixtures/pprof/README.md says how the files and the stored answers were made. Answers of `go tool pprof` are also asked for while the test runs.
#![allow(missing_docs)]

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use highwater_input::{InputFile, open};
use highwater_model::groups::{GroupBy, GroupKey, Metric, rows};
use highwater_model::{
    AddressLedger, Catalog, Event, EventKind, Figures, FrameText, Nanos, Placement, Snapshot, Source, StackId,
    ThreadId, When,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pprof").join(name)
}

fn decompressed(name: &str) -> Vec<u8> {
    let bytes = std::fs::read(fixture(name)).unwrap();
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut content = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut content).unwrap();
    content
}

fn text(name: &str) -> String {
    String::from_utf8(decompressed(name)).unwrap()
}

fn snapshot_of(file: &InputFile) -> Arc<Snapshot> {
    let snapshot = file.recording(&mut |_, _| true).unwrap().snapshot(&When::End).unwrap();
    assert_eq!(snapshot.violations(), Vec::<String>::new());
    Arc::new(snapshot)
}

fn read(name: &str) -> Arc<Snapshot> {
    let file = open(&fixture(name)).unwrap();
    assert_eq!((file.problems().bad_lines, file.damage()), (0, vec![]), "{name}");
    snapshot_of(&file)
}

/// Opens content through a file.
fn open_content(content: &[u8]) -> Result<InputFile, String> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("highwater-pprof-{}-{number}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    let opened = open(&path).map_err(|error| error.to_string());
    std::fs::remove_file(&path).unwrap();
    opened
}

/// A type of values in a profile, and the same of ours.
type SampleType = (&'static str, fn(&Figures) -> u64);

const SAMPLE_TYPES: [SampleType; 4] = [
    ("alloc_objects", |figures| figures.allocations),
    ("alloc_space", |figures| figures.allocated_bytes),
    ("inuse_objects", Figures::live_blocks),
    ("inuse_space", Figures::live_bytes),
];

/// By function: what it allocated itself, and with its callees.
type ByFunction = BTreeMap<String, (u64, u64)>;

/// Reads the output of `go tool pprof -top -unit=B`, and its total.
fn parsed_top(text: &str) -> (u64, ByFunction) {
    let number = |word: &str| word.trim_end_matches('B').parse::<u64>().unwrap();
    let total = text.lines().find_map(|line| line.strip_suffix(" total")?.rsplit(' ').next().map(number));
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with("flat")).skip(1);
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words[5..].join(" ");
        (name.trim_end_matches(" (inline)").to_owned(), (number(words[0]), number(words[3])))
    };
    (total.unwrap(), table.map(row).collect())
}

fn by_function(snapshot: &Snapshot, value: fn(&Figures) -> u64) -> ByFunction {
    let rows = rows(snapshot, GroupBy::Function, Metric::Live, None);
    let row = |row: highwater_model::groups::Row| match row.key {
        GroupKey::Name(name) => (name, (value(&row.figures), value(&row.inclusive))),
        other => panic!("{other:?} has no name"),
    };
    rows.into_iter().map(row).filter(|(_, values)| *values != (0, 0)).collect()
}

fn pprof(options: &[&str], file: &str) -> String {
    let output =
        Command::new("go").args(["tool", "pprof", "-symbolize=none"]).args(options).arg(fixture(file)).output();
    let output = output.expect("go is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn figures_of_functions_are_those_of_pprof() {
    for name in ["go-exact", "go-sampled"] {
        let snapshot = read(&format!("{name}.pb.gz"));
        for (sample_type, value) in SAMPLE_TYPES {
            let stored = text(&format!("oracle/{name}.{sample_type}.top"));
            let index = format!("-sample_index={sample_type}");
            let all = ["-top", "-nodecount=100000", "-nodefraction=0", "-edgefraction=0", "-unit=B", &index];
            for answer in [stored, pprof(&all, &format!("{name}.pb.gz"))] {
                let (total, functions) = parsed_top(&answer);
                assert!(functions.len() > 5, "{answer}");
                assert_eq!(value(&snapshot.accounts.totals().figures), total, "{name} {sample_type}");
                assert_eq!(by_function(&snapshot, value), functions, "{name} {sample_type}");
            }
        }
    }
}

/// The values of each stack of addresses, innermost first, in the order of [`SAMPLE_TYPES`]. A profile may have only the last two.
type BySite = BTreeMap<Vec<u64>, [u64; 4]>;

/// Reads the output of `go tool pprof -raw`.
fn parsed_raw(text: &str) -> BySite {
    let (samples, tables) = text.split_once("\nLocations\n").unwrap();
    let (locations, _) = tables.split_once("Mappings\n").unwrap();
    let mut addresses = BTreeMap::new();
    for line in locations.lines() {
        // Further lines of a location are calls inlined there.
        if let Some((id, rest)) = line.trim().split_once(": 0x") {
            let address = u64::from_str_radix(rest.split(' ').next().unwrap(), 16).unwrap();
            addresses.insert(id.parse::<u64>().unwrap(), address);
        }
    }
    let mut sites = BySite::new();
    for line in samples.lines().skip_while(|line| !line.contains("/count") && !line.contains("/bytes")).skip(1) {
        let Some((values, ids)) = line.split_once(':').filter(|_| !line.contains('[')) else { continue };
        let values: Vec<u64> = values.split_whitespace().map(|value| value.parse().unwrap()).collect();
        let stack = ids.split_whitespace().map(|id| addresses[&id.parse().unwrap()]).collect();
        let sums: &mut [u64; 4] = sites.entry(stack).or_default();
        sums.iter_mut().rev().zip(values.iter().rev()).for_each(|(sum, value)| *sum += value);
    }
    sites.retain(|_, values| *values != [0; 4]);
    sites
}

/// The same of ours. `back` is subtracted from each address: pprof shows the last byte of a call instead of the return address.
fn by_site(snapshot: &Snapshot, back: u64) -> BySite {
    let source = &snapshot.source;
    let values = |figures: &Figures| {
        let mut values = SAMPLE_TYPES.map(|(_, value)| value(figures));
        if !source.knows_allocated() {
            values[..2].fill(0);
        }
        if !source.knows_live_blocks() {
            values[2] = 0;
        }
        values
    };
    let mut sites = BySite::new();
    for (stack, figures) in snapshot.accounts.sites().iter() {
        let frames = snapshot.catalog.stacks.frames_of(stack).filter(|frame| !frame.inlined);
        let sums = sites.entry(frames.map(|frame| frame.address - back).collect()).or_default();
        sums.iter_mut().zip(values(figures)).for_each(|(sum, value)| *sum += value);
    }
    sites.retain(|_, values| *values != [0; 4]);
    sites
}

#[test]
fn figures_of_sites_are_those_of_pprof() {
    let files = [
        ("go-exact.pb.gz", 0),
        ("go-sampled.pb.gz", 0),
        ("go-exact-allocs.pb.gz", 0),
        ("rust.pb.gz", 0),
        ("gperftools.heap", 1),
        ("tcmalloc.heap", 1),
    ];
    for (name, back) in files {
        let ours = by_site(&read(name), back);
        for answer in [text(&format!("oracle/{name}.raw.gz")), pprof(&["-raw"], name)] {
            let theirs = parsed_raw(&answer);
            assert!(theirs.len() >= 2, "{name}");
            assert_eq!(ours, theirs, "{name}");
        }
    }
}

#[test]
fn what_go_writes_as_text_has_the_same_figures_and_names() {
    for name in ["go-exact", "go-sampled"] {
        let (text_file, protobuf) = (read(&format!("{name}.txt.gz")), read(&format!("{name}.pb.gz")));
        for (sample_type, value) in SAMPLE_TYPES {
            let (of_text, of_protobuf) = (by_function(&text_file, value), by_function(&protobuf, value));
            // A text leaves out functions of the runtime that others of the program called: their callers have their bytes.
            assert!(of_text.len() > 5 && of_text.len() + 5 > of_protobuf.len(), "{name} {sample_type}");
            for (function, (flat, cumulative)) in of_text {
                assert_eq!(cumulative, of_protobuf[&function].1, "{name} {sample_type} {function}");
                assert!(
                    !function.starts_with("main.") || flat == of_protobuf[&function].0,
                    "{name} {sample_type} {function}"
                );
            }
        }
        // `go tool pprof` does not use the names, but the figures.
        let sums =
            |sites: BySite| sites.values().fold([0; 4], |sums, values| [0, 1, 2, 3].map(|at| sums[at] + values[at]));
        let answer = text(&format!("oracle/{name}.txt.gz.raw.gz"));
        assert_eq!(sums(by_site(&text_file, 0)), sums(parsed_raw(&answer)));
        let places = |snapshot: &Snapshot| -> Vec<String> {
            let texts = snapshot.accounts.sites().iter().flat_map(|(stack, _)| snapshot.catalog.frame_texts(stack));
            let place = |frame: FrameText<'_>| format!("{:?}", (frame.function, frame.file, frame.line, frame.inlined));
            let mut places: Vec<String> = texts.map(place).collect();
            places.sort();
            places.dedup();
            places
        };
        let of_protobuf = places(&protobuf);
        assert!(places(&text_file).iter().all(|place| of_protobuf.contains(place)), "{name}");
        assert!(places(&protobuf).contains(&r#"("main.row", "./heap.go", 30, true)"#.to_owned()));
    }
}

#[test]
fn the_samples_behind_estimates_are_found() {
    // The first line has their numbers: live, allocated.
    let header = text("go-sampled.txt.gz").lines().next().unwrap().to_owned();
    let numbers: Vec<u64> =
        header.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    for name in ["go-sampled.txt.gz", "go-sampled.pb.gz"] {
        let snapshot = read(name);
        let figures = snapshot.accounts.totals().figures;
        assert_eq!(snapshot.source.sample_rate, Some(4096));
        assert_eq!(figures.samples(), numbers[2], "{name}: {header}");
        assert_eq!(figures.records() - figures.freed_records(), numbers[0], "{name}: {header}");
        assert!(snapshot.is_estimate());
    }
    let exact = read("go-exact.pb.gz");
    assert!(!exact.is_estimate() && exact.source.sample_rate.is_none());
}

#[test]
fn figures_of_jemalloc_are_those_of_jeprof() {
    let snapshot = read("jemalloc-accum.heap");
    let sites = by_site(&snapshot, 1);
    assert_eq!(snapshot.source.sample_rate, Some(16384));
    for (index, (sample_type, value)) in SAMPLE_TYPES.into_iter().enumerate() {
        let answer = text(&format!("oracle/jemalloc-accum.{sample_type}.txt"));
        let mut lines = answer.lines();
        // jeprof adds fractions, and cuts their sum: each site may add half a unit.
        let is_same = |ours: u64, theirs: u64| ours.abs_diff(theirs) <= 1 + sites.len() as u64 / 2;
        let total: u64 = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let ours = value(&snapshot.accounts.totals().figures);
        assert!(is_same(ours, total), "{sample_type}: {ours}, not {total}");
        let mut addresses = 0;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let (theirs, address) = (words[1].parse().unwrap(), u64::from_str_radix(words[2], 16).unwrap());
            let through = sites.iter().filter(|(stack, _)| stack.contains(&address));
            let ours = through.map(|(_, values)| values[index]).sum();
            assert!(is_same(ours, theirs), "{sample_type} {address:x}: {ours}, not {theirs}");
            addresses += 1;
        }
        assert!(addresses > 5);
    }
    let header = text("jemalloc-accum.heap").lines().nth(1).unwrap().to_owned();
    assert!(header.contains("t*: "), "{header}");
}

#[test]
fn a_source_says_what_it_knows() {
    let known = |name: &str| {
        let snapshot = read(name);
        let known = snapshot.source.known.unwrap();
        assert!(snapshot.source.snapshot && snapshot.source.aggregated && !known.own_peaks);
        (snapshot.source.program.clone(), known.live_blocks, known.allocated, known.samples)
    };
    assert_eq!(known("go-exact.pb.gz"), ("heap-go".to_owned(), true, true, false));
    assert_eq!(known("go-sampled.pb.gz"), ("heap-go".to_owned(), true, true, true));
    assert_eq!(known("go-sampled.txt.gz"), (String::new(), true, true, true));
    assert_eq!(known("jemalloc.heap"), ("threads".to_owned(), true, false, true));
    assert_eq!(known("jemalloc-accum.heap"), ("threads".to_owned(), true, true, true));
    assert_eq!(known("gperftools.heap"), ("counted".to_owned(), true, true, false));
    assert_eq!(known("tcmalloc.heap"), ("sampled-app".to_owned(), true, false, true));
    assert_eq!(known("rust.heap"), ("rust-app".to_owned(), true, false, true));
    assert_eq!(known("rust.pb.gz"), ("rust-app".to_owned(), false, false, false));
    let notes = &read("rust.pb.gz").source.notes;
    assert_eq!(notes, &["the profile does not say how it was sampled; its figures may be estimates"]);
}

#[test]
fn both_profiles_of_a_rust_program_have_the_same_bytes() {
    let (texts, protobuf) = (read("rust.heap"), read("rust.pb.gz"));
    let live = |snapshot: &Snapshot| snapshot.accounts.totals().figures.live_bytes();
    let sites = texts.accounts.sites().iter().count() as u64;
    // The crate cuts fractions that we round. The second profile has what the first one's making left.
    assert!(
        live(&texts).abs_diff(live(&protobuf)) <= sites + live(&texts) / 20,
        "{} {}",
        live(&texts),
        live(&protobuf)
    );
    // Stacks are the same, at other addresses: those of the crate count from the beginning of the program.
    let shape = |snapshot: &Snapshot| -> Vec<usize> {
        let sites = snapshot.accounts.sites().iter().filter(|(_, figures)| figures.live_bytes() > 0);
        let mut lengths: Vec<usize> =
            sites.map(|(stack, _)| snapshot.catalog.stacks.recorded_frames_of(stack).count()).collect();
        lengths.sort();
        lengths
    };
    assert_eq!(shape(&texts), shape(&protobuf));
    let module = &protobuf.catalog.modules[0];
    assert_eq!(protobuf.catalog.strings.get(module.build_id), "2148a3d8a4d21c5c348e49df688658da0c0dc2da");
}

#[test]
fn profiles_without_live_bytes_are_refused() {
    let refusal = |name: &str| open(&fixture(name)).map(drop).unwrap_err().to_string();
    let says = |name: &str, what: &str| {
        let refusal = refusal(name);
        assert!(refusal.ends_with(&format!("{name}: {what}")), "{refusal}");
    };
    says("go-cpu.pb.gz", "no heap profile: it has no live bytes, but samples (count), cpu (nanoseconds)");
    says("go-goroutine.pb.gz", "no heap profile: it has no live bytes, but goroutine (count)");
    says(
        "growth.heap",
        "no heap profile but a growth profile: it counts what the allocator took from the system, not blocks of the program",
    );
}

#[test]
fn bad_lines_are_counted_and_the_rest_is_used() {
    let file = open_content(b"heap profile: 2: 30 [2: 30] @ heapprofile\n1: 10 [1: 10] @ 0x1\nnonsense\n-1: 5 [1: 5] @ 0x2\n1: 20 [1: 20] @ 0xzz\n1: 20 [1: 20] @ 0x3\n").unwrap();
    let lines: Vec<u64> = file.problems().first_bad_lines.iter().map(|line| line.number).collect();
    assert_eq!(lines, [3, 4, 5]);
    assert_eq!(snapshot_of(&file).accounts.totals().figures.live_bytes(), 30);
    let refused = |content: &[u8]| open_content(content).map(drop).unwrap_err();
    let off = open_content(b"heap profile: 0: 0 [0: 0] @ heap_v2/0\n").unwrap();
    assert_eq!(snapshot_of(&off).accounts.totals().figures.live_bytes(), 0);
    assert!(off.source().notes[0].starts_with("heap sampling was off"));
    assert!(refused(b"heap profile: x\n").contains("line 1: "));
    assert!(refused(b"heap_v2/x\n").contains("line 1: "));
}

/// Appends a field of a message that is not longer than 2²⁸ bytes.
fn field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    out.push(number << 3 | 2);
    out.extend(varint(content.len() as u64));
    out.extend_from_slice(content);
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A profile of live bytes, with one sample of the value. It names `times` times a location of `lines` lines. `label` is added to it.
fn forged_with(value: u64, lines: usize, times: usize, label: &[u8]) -> Vec<u8> {
    let mut profile = Vec::new();
    field(&mut profile, 1, &[0x08, 1, 0x10, 2]);
    let mut sample = Vec::new();
    field(&mut sample, 1, &vec![1; times]);
    field(&mut sample, 2, &varint(value));
    if !label.is_empty() {
        field(&mut sample, 3, label);
    }
    field(&mut profile, 2, &sample);
    let mut location = vec![0x08, 1];
    (0..lines).for_each(|_| field(&mut location, 4, &[0x08, 1]));
    field(&mut profile, 4, &location);
    for string in ["", "inuse_space", "bytes", "type", "Vec<u8>"] {
        field(&mut profile, 6, string.as_bytes());
    }
    profile
}

fn forged(value: u64, lines: usize, times: usize) -> Vec<u8> {
    forged_with(value, lines, times, &[])
}

#[test]
fn a_label_may_have_the_type_of_the_blocks() {
    let typed = snapshot_of(&open_content(&forged_with(77, 1, 1, &[0x08, 3, 0x10, 4])).unwrap());
    let types = rows(&typed, GroupBy::Type, Metric::Live, None);
    assert_eq!(types.len(), 1);
    assert_eq!(types[0].key, GroupKey::Name("Vec<u8>".to_owned()));
    assert_eq!(types[0].figures.live_bytes(), 77);
}

#[test]
fn forged_profiles_are_refused_or_bounded() {
    let live = |content: &[u8]| snapshot_of(&open_content(content).unwrap()).accounts.totals().figures.live_bytes();
    assert_eq!(live(&forged(77, 3, 2)), 77, "the forged profile is sound");
    let refused = |content: &[u8]| open_content(content).map(drop).unwrap_err();
    assert!(refused(&forged(-5i64 as u64, 1, 1)).contains("a value is negative"));
    let inlined = refused(&forged(1, 20_000, 20_000));
    assert!(inlined.contains("more inlined calls than a real program"), "{inlined}");
    let missing = refused(&[forged(1, 1, 1), vec![0x12, 6, 0x0a, 1, 9, 0x12, 1, 5]].concat());
    assert!(missing.ends_with("a sample names location 9, which is missing"), "{missing}");
    let cut = forged(1, 1, 1);
    assert!(refused(&cut[..cut.len() - 3]).contains("a field ends too early"));

    // Bytes that are nearly all zero are compressed to a thousandth.
    let mut bomb = GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&forged(1, 1, 1)).unwrap();
    bomb.write_all(&[0x32, 0x80, 0x80, 0x80, 0x32]).unwrap();
    (0..100).for_each(|_| bomb.write_all(&vec![0; 1 << 20]).unwrap());
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    assert!(refused(&bomb).contains("has more than 7"), "{}", refused(&bomb));
    let whole = std::fs::read(fixture("go-exact.pb.gz")).unwrap();
    assert!(refused(&whole[..whole.len() / 2]).contains("cannot be decompressed after"));
}

/// Exports a snapshot as pprof, and reads that.
fn through_pprof(snapshot: &Snapshot) -> Arc<Snapshot> {
    let mut bytes = Vec::new();
    highwater_formats::pprof::write(snapshot, &highwater_formats::pprof::PprofOptions::default(), &mut bytes).unwrap();
    let file = open_content(&bytes).unwrap();
    assert_eq!(file.format().key(), "pprof");
    snapshot_of(&file)
}

#[test]
fn profiles_of_other_tools_survive_an_export() {
    for name in
        ["go-exact.pb.gz", "go-sampled.txt.gz", "jemalloc-accum.heap", "gperftools.heap", "tcmalloc.heap", "rust.pb.gz"]
    {
        let before = read(name);
        let after = through_pprof(&before);
        assert_eq!(by_site(&after, 0), by_site(&before, 0), "{name}");
        assert_eq!(after.source.sample_rate, before.source.sample_rate, "{name}");
        assert_eq!(after.source.program, before.source.program, "{name}");
    }
}

/// The figures of each stack, as texts and numbers.
fn by_stack(snapshot: &Snapshot) -> BTreeMap<String, [u64; 4]> {
    let mut stacks = BTreeMap::new();
    for (stack, figures) in snapshot.accounts.sites().iter() {
        let texts: Vec<String> = snapshot.catalog.frame_texts(stack).map(|frame| format!("{frame:?}")).collect();
        let sums: &mut [u64; 4] = stacks.entry(texts.join("\n")).or_default();
        // An export counts a block that was resized as one that was allocated again.
        let values = [
            figures.allocations + figures.reallocations,
            figures.allocated_bytes,
            figures.live_blocks(),
            figures.live_bytes(),
        ];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    stacks.retain(|_, values| *values != [0; 4]);
    stacks
}

fn any_stacks(catalog: &mut Catalog) -> Vec<StackId> {
    let named = |function, line, inlined| FrameText {
        function,
        file: "src/main.rs",
        line,
        inlined,
        address: 0x4000 + u64::from(line),
        module: "/opt/app",
        ..FrameText::default()
    };
    let at = |function, address, inlined| FrameText { address, inlined, ..named(function, 7, inlined) };
    let bare = |address| FrameText { address, module: "/opt/app", ..FrameText::default() };
    let mut stacks = vec![
        StackId::UNKNOWN,
        catalog.intern_stack(&[named("parse", 3, false), named("main", 9, false)]),
        catalog.intern_stack(&[at("grow", 0x4800, true), at("push", 0x4800, false), named("main", 9, false)]),
        catalog.intern_stack(&[FrameText { function: "no address", ..FrameText::default() }]),
    ];
    // Code without a name, in a module of which the place is known.
    let module = catalog.intern_module("/opt/app") as usize;
    (catalog.modules[module].start, catalog.modules[module].end) = (0x4000, 0x6000);
    catalog.modules[module].file_offset = 0x100;
    catalog.modules[module].build_id = catalog.strings.intern("abcd");
    stacks.push(catalog.intern_stack(&[bare(0x4123), bare(0x5000), named("main", 9, false)]));
    stacks
}

proptest! {
    #[test]
    fn an_export_is_read_with_the_figures_of_its_snapshot(
        events in prop::collection::vec((0usize..5, 0u64..40, 1u64..5000, 0u64..4), 1..200),
    ) {
        let (mut catalog, mut ledger) = (Catalog::default(), AddressLedger::default());
        let stacks = any_stacks(&mut catalog);
        for (time, (stack, place, size, kind)) in (0..).zip(events) {
            let placement = Placement { address: place << 20, size, stack: stacks[stack], ..Placement::default() };
            let kind = match kind {
                0 => EventKind::free(placement.address, None),
                1 => EventKind::Reallocate { old_address: placement.address, claimed_old_size: None, new: placement },
                _ => EventKind::Allocate(placement),
            };
            ledger.record(&Event { time: Nanos(time), thread: ThreadId(1), kind }, &mut ());
        }
        let accounts = ledger.into_accounts();
        prop_assume!(accounts.totals().figures.allocations > 0);
        let source = Source {
            program: "app".to_owned(),
            pid: 42,
            host: "build-3".to_owned(),
            start_unix_ns: 1_700_000_000_000_000_000,
            duration: accounts.last_time(),
            ..Source::default()
        };
        let snapshot = Snapshot { source, at: accounts.last_time(), accounts, catalog: Arc::new(catalog) };
        let after = through_pprof(&snapshot);
        prop_assert_eq!(by_stack(&after), by_stack(&snapshot));
        let (then, now) = (&snapshot.source, &after.source);
        prop_assert_eq!((&now.program, now.pid, &now.host), (&then.program, then.pid, &then.host));
        prop_assert_eq!((now.start_unix_ns, now.duration), (then.start_unix_ns, then.duration));
        prop_assert!(!after.is_estimate());
    }

    #[test]
    fn damaged_files_are_read_or_refused(
        name in prop::sample::select(vec!["go-sampled.pb.gz", "rust.pb.gz", "jemalloc-accum.heap", "gperftools.heap", "go-sampled.txt.gz"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut content = decompressed(name);
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        if is_cut {
            content.truncate(end.index(content.len()));
        }
        if let Ok(file) = open_content(&content) {
            snapshot_of(&file);
        }
    }
}
