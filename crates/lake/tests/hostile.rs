//! Damaged and hostile files: no panic, and memory within the limits that docs/lake.md names.

mod support;

use highwater_lake::parquet::{FileProblem, LakeRow, TableReader, TableWriter};
use highwater_lake::rows::{Batch, HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::io::{Seek, Write};
use support::{TestFolder, process, snapshot};

const SLOT: i64 = 1_794_873_600;
const MIB: usize = 1 << 20;

/// Counts the memory of each thread, and notes the most.
struct Counting;

#[derive(Clone, Copy, Default)]
struct Counted {
    now: usize,
    most: usize,
}

thread_local! {
    static COUNTED: Cell<Counted> = const { Cell::new(Counted { now: 0, most: 0 }) };
}

fn count(more: usize, less: usize) {
    // A thread that ends may free after its local values.
    let _ = COUNTED.try_with(|counted| {
        let now = counted.get().now.saturating_add(more);
        let most = counted.get().most.max(now);
        counted.set(Counted { now: now.saturating_sub(less), most });
    });
}

// SAFETY: `System` does the work; the counters neither allocate nor panic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a function returns, and the most memory that it had at a time.
fn measured<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = COUNTED.get().now;
    COUNTED.set(Counted { now: before, most: before });
    let value = act();
    (value, COUNTED.get().most - before)
}

/// A file without a name.
fn file_of(bytes: &[u8]) -> File {
    thread_local! {
        static FILE: File = {
            let folder = TestFolder::new();
            let path = folder.path().join("x.parquet");
            File::options().create(true).truncate(true).read(true).write(true).open(path).unwrap()
        };
    }
    FILE.with(|file| {
        let mut file = file;
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(bytes).unwrap();
        file.try_clone().unwrap()
    })
}

/// Reads a file to its end, some rows at a time. Returns the number of rows.
fn scan<R: LakeRow>(bytes: &[u8], service: Option<&str>) -> Result<u64, FileProblem> {
    let mut reader = TableReader::<R>::new(file_of(bytes), service)?;
    let mut rows = 0;
    while let Some(some) = reader.next_rows()? {
        rows += some.len() as u64;
    }
    Ok(rows)
}

fn written<R: LakeRow>(rows: Vec<R>, has_service: bool, row_group: usize) -> Vec<u8> {
    let mut writer = TableWriter::new(Vec::new(), has_service).unwrap().with_row_group(row_group);
    writer.extend(rows).unwrap();
    writer.finish().unwrap().0
}

/// What a table's reader is called with.
type Scan = fn(&[u8]) -> Result<u64, FileProblem>;

/// A small file of each table, compacted and not, with its reader.
fn valid_files() -> Vec<(&'static str, Vec<u8>, Scan)> {
    let mut batch = Batch::default();
    for pid in 1..4 {
        snapshot(&mut batch, &process("a b", "h\u{e9}", pid), SLOT, 40 * i64::from(pid));
    }
    let hours: Vec<HourRow> = batch
        .sites
        .iter()
        .map(|row| HourRow {
            hour: SLOT - SLOT % 3600,
            process: row.process.clone(),
            stack_id: row.stack_id,
            site_id: row.site_id,
            sample_period: 0,
            n: 60,
            min_bytes: row.live_bytes,
            max_bytes: row.live_bytes,
            sum_bytes: row.live_bytes * 60,
            sum_blocks: row.live_blocks * 60,
            sx: 106_200,
            sxx: 252_756_000,
            sxy: (row.stack_id % 2 == 0).then_some(row.live_blocks * 106_200),
            syy: None,
        })
        .collect();
    let service = "a b".to_owned();
    let frames: Vec<ServiceFrame> =
        batch.frames.iter().map(|frame| ServiceFrame { service: service.clone(), frame: frame.clone() }).collect();
    vec![
        ("sites", written(batch.sites.clone(), true, 100), |bytes| scan::<SiteRow>(bytes, None)),
        ("sites, compacted", written(batch.sites, false, 1 << 20), |bytes| scan::<SiteRow>(bytes, Some("a b"))),
        ("sites_hour", written(hours, false, 150), |bytes| scan::<HourRow>(bytes, Some("a b"))),
        ("processes", written(batch.processes, true, 1 << 20), |bytes| scan::<ProcessRow>(bytes, None)),
        ("stacks", written(batch.stacks, true, 90), |bytes| scan::<StackRow>(bytes, None)),
        ("frames", written(frames, false, 1 << 20), |bytes| scan::<ServiceFrame>(bytes, Some("a b"))),
    ]
}

/// The dictionaries and open pages of 20 columns, and the data of some thousand rows.
const MOST_MEMORY: usize = 900 * MIB;

#[derive(Clone, Debug)]
enum Damage {
    Flip { at: prop::sample::Index, mask: u8 },
    Put { at: prop::sample::Index, bytes: Vec<u8> },
    Cut { at: prop::sample::Index },
    Move { from: prop::sample::Index, to: prop::sample::Index, length: usize },
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        6 => (place(), 1..=255u8).prop_map(|(at, mask)| Damage::Flip { at, mask }),
        // The ends of numbers, and numbers of many bytes.
        3 => (place(), prop::collection::vec(prop_oneof![Just(0u8), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()], 1..12))
            .prop_map(|(at, bytes)| Damage::Put { at, bytes }),
        1 => place().prop_map(|at| Damage::Cut { at }),
        1 => (place(), place(), 1..200usize).prop_map(|(from, to, length)| Damage::Move { from, to, length }),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let length_of = bytes.len();
    match damage {
        Damage::Flip { at, mask } => bytes[at.index(length_of)] ^= mask,
        Damage::Put { at, bytes: put } => {
            let at = at.index(length_of);
            for (byte, new) in bytes[at..].iter_mut().zip(put) {
                *byte = *new;
            }
        }
        Damage::Cut { at } => bytes.truncate(at.index(length_of)),
        Damage::Move { from, to, length } => {
            let (from, to) = (from.index(length_of), to.index(length_of));
            let length = (*length).min(length_of - from.max(to));
            bytes.copy_within(from..from + length, to);
        }
    }
}

/// `PROPTEST_CASES`, or what takes some seconds.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Any damage gives rows or one line, and memory stays within its limit.
    #[test]
    fn damaged_files_are_rows_or_one_line(which in any::<prop::sample::Index>(), damages in prop::collection::vec(damage(), 1..12)) {
        thread_local! {
            static FILES: Vec<(&'static str, Vec<u8>, Scan)> = valid_files();
        }
        FILES.with(|files| {
            let (name, valid, scan) = &files[which.index(files.len())];
            let mut bytes = valid.clone();
            damages.iter().for_each(|damage| apply(damage, &mut bytes));
            let (said, memory) = measured(|| scan(&bytes));
            if let Err(problem) = said {
                let line = problem.to_string();
                prop_assert!(!line.contains('\n') && !line.is_empty(), "{name}: {line}");
            }
            prop_assert!(memory < MOST_MEMORY, "{name}: {memory} bytes");
            Ok(())
        })?;
    }
}

#[test]
fn undamaged_files_have_all_their_rows() {
    let rows: Vec<(&str, u64)> =
        valid_files().iter().map(|(name, bytes, scan)| (*name, scan(bytes).unwrap())).collect();
    let expected = [
        ("sites", 240),
        ("sites, compacted", 240),
        ("sites_hour", 240),
        ("processes", 3),
        ("stacks", 240),
        ("frames", 480),
    ];
    assert_eq!(rows, expected);
}

/// A number in Thrift's compact protocol.
fn number(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut bytes = Vec::new();
    loop {
        let seven = (rest & 0x7f) as u8;
        rest >>= 7;
        bytes.push(if rest > 0 { seven | 0x80 } else { seven });
        if rest == 0 {
            return bytes;
        }
    }
}

/// The header of a page: of a dictionary (2), or of data (0).
fn header(kind: i64, plain: i64, stored: i64, values: i64, encoding: i64) -> Vec<u8> {
    let mut bytes = vec![0x15];
    bytes.extend(number(kind));
    bytes.push(0x15);
    bytes.extend(number(plain));
    bytes.push(0x15);
    bytes.extend(number(stored));
    bytes.push(if kind == 2 { 0x4c } else { 0x2c });
    for value in [values, encoding].into_iter().chain((kind == 0).then_some([3, 3]).into_iter().flatten()) {
        bytes.push(0x15);
        bytes.extend(number(value));
    }
    bytes.extend([0, 0]);
    bytes
}

/// A file of stacks of the writer, in which the pages of one column are replaced. They lie behind the other pages, and the footer says so.
fn with_pages(rows: &[StackRow], column: usize, pages: &[u8]) -> Vec<u8> {
    with_pages_in(written(rows.to_vec(), false, 1 << 20), column, pages)
}

fn with_pages_in(bytes: Vec<u8>, column: usize, pages: &[u8]) -> Vec<u8> {
    use parquet::file::metadata::{
        ColumnChunkMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
    };
    let folder = TestFolder::new();
    let path = folder.path().join("valid.parquet");
    std::fs::write(&path, &bytes).unwrap();
    let about = ParquetMetaDataReader::new().parse_and_finish(&File::open(&path).unwrap()).unwrap();
    let footer = u32::from_le_bytes(*bytes[bytes.len() - 8..].first_chunk().unwrap()) as usize;
    let mut changed = bytes[..bytes.len() - 8 - footer].to_vec();
    let start = i64::try_from(changed.len()).unwrap();
    changed.extend(pages);
    let old = about.row_group(0).column(column);
    let chunk = ColumnChunkMetaData::builder(old.column_descr_ptr())
        .set_num_values(old.num_values())
        .set_compression(old.compression())
        .set_total_compressed_size(pages.len() as i64)
        .set_total_uncompressed_size(old.uncompressed_size())
        .set_data_page_offset(start)
        .build()
        .unwrap();
    let group = about.row_group(0).clone().into_builder();
    let mut columns = about.row_group(0).columns().to_vec();
    columns[column] = chunk;
    let group = group.set_column_metadata(columns).build().unwrap();
    let about = ParquetMetaDataBuilder::new(about.file_metadata().clone()).add_row_group(group).build();
    ParquetMetaDataWriter::new(&mut changed, &about).finish().unwrap();
    changed
}

fn stacks(count: i64, text: &str) -> Vec<StackRow> {
    let row = |stack_id| StackRow {
        stack_id,
        site_id: 1,
        service: "s".into(),
        function: "f".into(),
        type_name: String::new(),
        stack: text.to_owned(),
    };
    (0..count).map(row).collect()
}

/// The place of `stack` in the table.
const STACK: usize = 4;

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).unwrap()
}

#[test]
fn a_page_that_claims_gigabytes_is_refused_without_taking_them() {
    let rows = stacks(4, "main;f");
    let plain = |text: &[u8], count: usize| [&(text.len() as u32).to_le_bytes(), text].concat().repeat(count);
    // What the changes stand on: the same with honest pages.
    let honest = zstd(&plain(b"main;g", 4));
    let page = [header(0, 40, honest.len() as i64, 4, 0), honest].concat();
    assert_eq!(scan::<StackRow>(&with_pages(&rows, STACK, &page), Some("s")).unwrap(), 4);

    let small = zstd(b"x");
    let stored = small.len() as i64;
    // Thirty kilobytes that are a gigabyte of zeros.
    let bomb = zstd(&vec![0; 1 << 30]);
    assert!(bomb.len() < 200_000, "{}", bomb.len());
    let places = [0u8; 5];
    for (name, pages, expected) in [
        (
            "data",
            [header(0, i64::from(i32::MAX), stored, 4, 0), small.clone()].concat(),
            "a page of 2147483647 is more than the limit of 16777216",
        ),
        (
            "dictionary",
            [header(2, i64::from(i32::MAX), stored, 4, 0), small.clone()].concat(),
            "a page of 2147483647 is more than the limit of 16777216",
        ),
        (
            "more than 32 bits",
            [header(0, i64::MAX, stored, 4, 0), small.clone()].concat(),
            "is more than the limit of 16777216",
        ),
        ("less than nothing", [header(0, -1, stored, 4, 0), small.clone()].concat(), "a page of less than no bytes"),
        (
            "bomb",
            [header(0, 1 << 30, bomb.len() as i64, 4, 0), bomb.clone()].concat(),
            "is more than the limit of 16777216",
        ),
        (
            "a bomb that claims little",
            [header(0, 40, bomb.len() as i64, 4, 0), bomb].concat(),
            "cannot be decompressed",
        ),
        (
            "distinct values",
            [header(2, 1, stored, i64::from(i32::MAX), 0), small.clone(), header(0, 5, 5, 4, 8), places.to_vec()]
                .concat(),
            "a dictionary has fewer values than it says",
        ),
        ("rows", [header(0, 1, stored, i64::from(i32::MAX), 0), small.clone()].concat(), "has more rows than it says"),
        ("no dictionary", [header(0, 1, stored, 4, 8), small.clone()].concat(), "its dictionary is missing"),
        (
            "lengths as differences",
            [header(0, 1, stored, 4, 6), small.clone()].concat(),
            "is encoded as DELTA_LENGTH_BYTE_ARRAY",
        ),
        ("prefixes", [header(0, 1, stored, 4, 7), small.clone()].concat(), "is encoded as DELTA_BYTE_ARRAY"),
        ("stored bytes", header(0, 1, i64::MAX, 4, 0), "a page ends after its column"),
        ("a text that is too long", [header(0, 4, 13, 4, 0), zstd(&[0xff; 4])].concat(), "a page cannot be decoded"),
    ] {
        let file = with_pages(&rows, STACK, &pages);
        let (said, memory) = measured(|| scan::<StackRow>(&file, Some("s")));
        let line = said.expect_err(name).to_string();
        assert!(line.contains(expected), "{name}: {line}");
        assert!(memory < 4 * MIB + file.len(), "{name}: {memory} bytes");
    }
}

#[test]
fn one_long_text_of_many_rows_is_refused_before_it_is_copied() {
    // 15 MiB of text, once in the file; with a copy for each of 32 rows it would be half a gigabyte.
    let text = [&(15u32 << 20).to_le_bytes()[..], &vec![b'x'; 15 << 20]].concat();
    let packed = zstd(&text);
    let dictionary = [header(2, text.len() as i64, packed.len() as i64, 1, 0), packed].concat();
    // A width of one bit, and one run of zeros for all rows.
    let places = [1u8, 0x80, 4, 0];
    let packed = zstd(&places);
    let pages = [dictionary, header(0, 4, packed.len() as i64, 256, 8), packed].concat();
    let file = with_pages(&stacks(256, ""), STACK, &pages);
    let (said, memory) = measured(|| scan::<StackRow>(&file, Some("s")));
    let line = said.unwrap_err().to_string();
    assert!(line.contains("the data of the rows that are read at a time of"), "{line}");
    assert!(memory < 64 * MIB, "{memory} bytes");
}

#[test]
fn pages_of_long_texts_stay_below_what_is_read() {
    // The longest texts that are written, all different.
    let rows: Vec<StackRow> =
        (10..50).map(|at| StackRow { stack: format!("{at};").repeat(MIB), ..stacks(1, "").remove(0) }).collect();
    let file = written(rows.clone(), false, 1 << 20);
    let mut reader = TableReader::<StackRow>::new(file_of(&file), Some("s")).unwrap();
    let mut read = Vec::new();
    let error = loop {
        match reader.next_rows() {
            Ok(Some(some)) => read.extend(some),
            Ok(None) => break None,
            Err(problem) => break Some(problem.to_string()),
        }
    };
    assert_eq!(error, None);
    assert!(read == rows, "other texts");
    let huge = StackRow { stack: "x".repeat((3 << 20) + 1), ..stacks(1, "").remove(0) };
    let mut writer = TableWriter::new(Vec::new(), false).unwrap();
    writer.push(huge).unwrap();
    assert_eq!(
        writer.finish().map(|_| ()).unwrap_err().to_string(),
        "a text of 3145729 is more than the limit of 3145728"
    );
}

#[test]
fn a_compaction_of_long_texts_takes_bounded_memory() {
    use highwater_lake::compact::{CompactOptions, compact};
    let folder = TestFolder::new();
    let lake = folder.lake();
    // 600 MiB of texts in a small file.
    let (text, count) = ("deep;".repeat(400 << 10), 300);
    let file = written(stacks(count, &text), true, 1 << 20);
    assert!(file.len() < 4 * MIB, "{} bytes", file.len());
    let key = "incoming/stacks/day=2026-11-17/h-0000-00ff.parquet";
    std::fs::create_dir_all(folder.path().join("incoming/stacks/day=2026-11-17")).unwrap();
    std::fs::write(folder.path().join(key), &file).unwrap();
    let options = CompactOptions { until: i64::MAX, memory: 16 << 20 };
    let (done, memory) = measured(|| compact(&lake, &options, &mut |_, _| {}).unwrap());
    assert_eq!((done.rows_written, done.skipped), (300, Vec::new()));
    assert!(memory < 500 * MIB, "{memory} bytes");
    let compacted = lake.files(highwater_lake::Table::Stacks, highwater_lake::SlotRange::ALL).unwrap().compacted;
    let mut reader = lake.read::<StackRow>(&compacted[0]).unwrap();
    let mut numbers = Vec::new();
    while let Some(rows) = reader.next_rows().unwrap() {
        assert!(rows.iter().all(|row| row.stack == text));
        numbers.extend(rows.iter().map(|row| row.stack_id));
    }
    assert!(numbers.into_iter().eq(0..count));
}

#[test]
fn a_file_that_expands_to_terabytes_is_skipped() {
    use highwater_lake::compact::{CompactOptions, compact};
    let folder = TestFolder::new();
    let lake = folder.lake();
    // Ten gigabytes of rows in some kilobytes.
    let (long, count) = (2 * MIB, 5_000u32);
    let text = [&(long as u32).to_le_bytes()[..], &vec![b'x'; long]].concat();
    let packed = zstd(&text);
    let dictionary = [header(2, text.len() as i64, packed.len() as i64, 1, 0), packed].concat();
    // A width of one bit, and one run of zeros for all rows.
    let run = count << 1;
    let places = [1u8, (run & 0x7f) as u8 | 0x80, (run >> 7) as u8, 0];
    let packed = zstd(&places);
    let page = [header(0, places.len() as i64, packed.len() as i64, i64::from(count), 8), packed].concat();
    let file = with_pages_in(written(stacks(i64::from(count), ""), true, 1 << 20), STACK, &[dictionary, page].concat());
    assert!(file.len() < MIB, "{} bytes", file.len());
    let key = "incoming/stacks/day=2026-11-17/h-0000-00ff.parquet";
    std::fs::create_dir_all(folder.path().join("incoming/stacks/day=2026-11-17")).unwrap();
    std::fs::write(folder.path().join(key), &file).unwrap();
    let options = CompactOptions { until: i64::MAX, memory: 16 << 20 };
    let (done, memory) = measured(|| compact(&lake, &options, &mut |_, _| {}).unwrap());
    assert_eq!(done.skipped.len(), 1);
    let why = &done.skipped[0].why;
    assert!(why.contains("the memory for the rows of a file of"), "{why}");
    assert!(memory < 400 * MIB, "{memory} bytes");
}
