//! Writes the seeds of the corpora: small valid inputs with something of everything. `cargo run --bin make_seeds`.

use highwater_model::{
    AccountsState, AddressLedger, Anomaly, Blocks, Catalog, Columns, Event, EventKind, FrameId, FrameText, Heap, Nanos,
    Placement, Source, SourceKind, Spacing as SampleSpacing, StackId, Tag, TagId, ThreadId, Weight, WordSampling,
};
use highwater_store::{Spacing, Writer, write_snapshot};
use std::path::Path;
use std::{fs, io};

const EVENT_LINES: &str = r#"{"event":"source","program":"demo","pid":7,"host":"here","start_unix_ns":1,"sample_rate":512}
{"event":"thread","thread":7,"name":"worker"}
{"event":"allocate","address":"0x7f00","size":64,"thread":7,"time_ns":120,"variable":"buf","type":"Vec<u8>","stack":["grow",{"function":"main","file":"a.rs","line":3,"module":"app","address":"0x40","inlined":true}]}
{"event":"realloc","old_address":"0x7f00","old_size":64,"address":32768,"size":128,"thread":7}
{"event":"mark","name":"after \"load\" \u00e9"}
{"event":"gauge","name":"rss","value":18446744073709551615,"time_ns":150}
{"event":"dropped","count":3}
{"event":"promote","address":"0x8000","heap":"major","time_ns":160}
{"event":"alloc","address":16,"size":24,"heap":"minor","weight":33.5,"samples":2,"bytes_per_sample":16000.5}
{"event":"free","address":"0x8000","size":128,"thread":8,"time_ns":200}
"#;

const ODD_LINES: &str = "\u{feff}# a comment\r\n\n{\"event\":\"free\",\"address\":-1}\n{\"event\":\"alloc\",\"address\":16,\
    \"size\":18446744073709551615}\n{\"event\":\"alloc\",\"address\":16,\"size\":1e3}\n{\"event\":\"alloc\",\"address\":16,\
    \"size\":9,\"time_ns\":5,\"extra\":{\"a\":[1,{}]}}\n{\"event\":\"explode\"}\n[]\n{\"a\":\"\\q\"}\n\
    {\"event\":\"alloc\",\"address\":\"0xZ\",\"size\":null,\"stack\":[[]]}\n{\"event\":\"free\",\"address\":16,\"time_ns\":2}";

fn main() -> io::Result<()> {
    let mut complete = Scene::new();
    complete.every_kind_of_event();
    let small_blocks = complete.written(5, 12)?;
    let mut cut = small_blocks.clone();
    cut.truncate(small_blocks.len() * 3 / 4);

    let mut odd = Scene::new();
    odd.every_anomaly();
    let mut sampled = Scene::new();
    sampled.every_sample();
    let mut long = Scene::new();
    long.many_allocations(400);

    let in_pieces = |recording: &[u8]| [&[14], recording].concat();
    seed("stream", "small-blocks", &in_pieces(&small_blocks))?;
    seed("stream", "cut", &in_pieces(&cut))?;
    seed("stream", "snapshot", &in_pieces(&complete.snapshot(false)?))?;
    for target in ["recording", "recording_resealed", "recording_resumed"] {
        seed(target, "nothing", &Scene::new().written(1, 1)?)?;
        seed(target, "small-blocks", &small_blocks)?;
        seed(target, "cut", &cut)?;
        seed(target, "odd", &odd.written(3, 4)?)?;
        seed(target, "samples", &sampled.written(4, 9)?)?;
        seed(target, "compressed", &long.written(200, 300)?)?;
        seed(target, "snapshot", &complete.snapshot(false)?)?;
        seed(target, "figures", &complete.snapshot(true)?)?;
    }
    seed("event_lines", "every-kind", EVENT_LINES.as_bytes())?;
    seed("event_lines", "odd", ODD_LINES.as_bytes())?;
    seed("object_log", "every-kind", OBJECT_LOG.as_bytes())?;
    images()?;
    traces()
}

/// Changes of real images, as `examine_image` takes them: a byte that chooses, then places and words.
fn images() -> io::Result<()> {
    let changes = |choice: u8, changes: &[(u32, u64)]| {
        let mut bytes = vec![choice];
        for (at, word) in changes {
            bytes.extend(&at.to_le_bytes()[..3]);
            bytes.extend(word.to_le_bytes());
        }
        bytes
    };
    for target in ["image_motoko", "image_dlmalloc"] {
        for choice in 0..8 {
            seed(target, &format!("whole-{choice}"), &changes(choice, &[]))?;
            let some = [(0x15, u64::MAX), (0x1_0000, 0x50_0007), (0x1_0100, 5), (0x1_0200, 0), (0x300, 1 << 40)];
            seed(target, &format!("changed-{choice}"), &changes(choice, &some))?;
        }
        seed(target, "cut", &changes(2, &[(0x50_1000, 0)]))?;
    }
    Ok(())
}

/// Real traces as far as they fit into a seed, and the same with damage.
fn traces() -> io::Result<()> {
    const LONGEST: usize = 40_000;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/formats/tests/fixtures/memtrace");
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = name.strip_suffix(".ctf.zst") else { continue };
        let mut bytes = zstd::decode_all(&fs::read(&path)?[..])?;
        bytes.truncate(LONGEST);
        seed("memtrace", name, &bytes)?;
        if name == "full" {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            bytes.extend([0; 300]);
            seed("memtrace", "damaged", &bytes)?;
            seed("memtrace", "first", &bytes[..190])?;
        }
    }
    Ok(())
}

fn seed(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{name}")), bytes)
}

/// A history and its catalog.
struct Scene {
    catalog: Catalog,
    stacks: Vec<StackId>,
    tag: TagId,
    events: Vec<Event>,
}

impl Scene {
    fn new() -> Self {
        let mut catalog = Catalog::default();
        let frame = |function, line| FrameText { function, file: "a.rs", line, module: "app", ..FrameText::default() };
        let stacks = ["grow", "parse", "load"].map(|site| catalog.intern_stack(&[frame(site, 3), frame("main", 9)]));
        let (variable, type_name) = (catalog.strings.intern("buf"), catalog.strings.intern("Vec<u8>"));
        let tag = catalog.intern_tag(Tag { variable, type_name, ..Tag::default() });
        catalog.name_thread(ThreadId(1), "main");
        catalog.name_thread(ThreadId(2), "worker");
        Self { catalog, stacks: stacks.to_vec(), tag, events: Vec::new() }
    }

    fn happens(&mut self, time: u64, thread: u64, kind: EventKind) {
        self.events.push(Event { time: Nanos(time), thread: ThreadId(thread), kind });
    }

    fn place(&self, address: u64, size: u64, site: usize) -> Placement {
        Placement { address, size, stack: self.stacks[site % self.stacks.len()], ..Placement::default() }
    }

    fn every_kind_of_event(&mut self) {
        let (mark, gauge) = (self.catalog.strings.intern("x"), self.catalog.strings.intern("rss"));
        for round in 0..8 {
            let (time, base) = (round * 100, 0x7f00_0000 + round * 64);
            let tagged = Placement { tag: self.tag, ..self.place(base, 40, 0) };
            self.happens(time, 1, EventKind::Allocate(tagged));
            let place = self.place(base + 0x1000, 500 + round, 1);
            self.happens(time + 10, 2, EventKind::Allocate(place));
            let new = self.place(if round % 2 == 0 { base } else { base + 0x4000 }, 80, 2);
            self.happens(time + 20, 1, EventKind::Reallocate { old_address: base, claimed_old_size: Some(40), new });
            self.happens(time + 30, 1, EventKind::Mark { name: mark });
            self.happens(time + 40, 2, EventKind::Gauge { name: gauge, value: 1 << (5 * round) });
            let address = if round % 3 == 0 { base + 0x1000 } else { new.address };
            self.happens(time + 50, 1, EventKind::Deallocate { address, claimed_size: None });
        }
    }

    fn every_anomaly(&mut self) {
        let (first, second) = (self.place(0x10, 64, 0), self.place(0x10, u64::MAX, 1));
        self.happens(50, 1, EventKind::Allocate(first));
        self.happens(60, 1, EventKind::Allocate(second));
        self.happens(40, 2, EventKind::Allocate(self.place(0x20, 9, 2)));
        self.happens(70, 2, EventKind::Deallocate { address: 0x20, claimed_size: Some(8) });
        self.happens(70, 2, EventKind::Deallocate { address: 0x99, claimed_size: None });
        let new = self.place(0x30, 7, 2);
        self.happens(80, 3, EventKind::Reallocate { old_address: 0x98, claimed_old_size: None, new });
        self.happens(80, 3, EventKind::Reallocate { old_address: 0x30, claimed_old_size: Some(1), new: second });
        self.happens(u64::MAX, u64::MAX, EventKind::Dropped { count: 5 });
        self.happens(u64::MAX, u64::MAX, EventKind::Allocate(self.place(u64::MAX, 0, 0)));
    }

    /// Samples that were counted, and promotions, as traces have them.
    fn every_sample(&mut self) {
        let heaps = [Heap::Minor, Heap::Major, Heap::External];
        let tags = heaps.map(|heap| self.catalog.intern_tag(Tag { heap, ..Tag::default() }));
        let columns = Columns { start: 3, end: 700 };
        let text = FrameText { function: "placed", columns, ..FrameText::default() };
        self.catalog.resolve(FrameId(0), &[text]);
        for number in 0..30u64 {
            let weight = Weight::new(33.3).of_samples(1 + number as u32 % 3, SampleSpacing::new(16_000.0));
            let tag = tags[number as usize % 3];
            let place = Placement { tag, weight, ..self.place(number << 4, 8 + number * 8, number as usize) };
            self.happens(number * 50, number % 2, EventKind::Allocate(place));
            let old = (number / 2) << 4;
            if number % 4 == 1 {
                self.happens(number * 50 + 5, 0, EventKind::Promote { address: old, tag: tags[1] });
            } else if number % 4 == 3 {
                self.happens(number * 50 + 9, 1, EventKind::Deallocate { address: old, claimed_size: None });
            }
        }
        self.happens(9000, 1, EventKind::Promote { address: 0xdead, tag: tags[1] });
    }

    fn many_allocations(&mut self, count: u64) {
        for number in 0..count {
            let place = self.place(0x1000 + number * 48, 24 + number % 5 * 16, number as usize);
            self.happens(number * 7, 1 + number % 3, EventKind::Allocate(place));
            if number % 2 == 1 {
                let address = 0x1000 + (number - 1) * 48;
                self.happens(number * 7 + 2, 1, EventKind::Deallocate { address, claimed_size: None });
            }
        }
    }

    /// The state at its end, with every block or with figures only.
    fn snapshot(&self, aggregated: bool) -> io::Result<Vec<u8>> {
        let mut ledger = AddressLedger::default();
        self.events.iter().for_each(|event| ledger.record(event, &mut ()));
        let state = ledger.accounts().to_state();
        let blocks = if aggregated { Blocks::default() } else { state.blocks.clone() };
        let source = Source { program: "demo".to_owned(), aggregated, ..Source::default() };
        Ok(write_snapshot(Vec::new(), &source, &self.catalog, &AccountsState { blocks, ..state })?.0)
    }

    /// As a file whose blocks end every `flush` events and whose keyframes are `every` events apart.
    fn written(&self, flush: usize, every: u64) -> io::Result<Vec<u8>> {
        let mut source = Source { program: "demo".to_owned(), pid: 7, host: "here".to_owned(), ..Source::default() };
        if self.events.iter().any(|event| matches!(event.kind, EventKind::Promote { .. })) {
            source.kind = SourceKind::Memtrace;
            source.word_sampling = WordSampling::new(5e-4, 8);
            source.context = "seed".to_owned();
        }
        let mut writer = Writer::new(Vec::new(), &source)?;
        writer.set_spacing(Spacing::every(every));
        for part in self.events.chunks(flush) {
            writer.append(part, &self.catalog)?;
            writer.flush(&self.catalog)?;
        }
        writer.note(Anomaly::TruncatedStack, 2, &self.catalog)?;
        Ok(writer.finish(&self.catalog, &source)?.1)
    }
}

/// Every line of an object log, in both forms, and some that are none.
const OBJECT_LOG: &str = r#"noise
@ MEMORY 65536 start
@ ALLOCATE 64 src/a b.rs:7 Map<K, V> 0
@ RESIZE 128 Map<K, V> 0
@ DROP 8 T 1
@ ALLOCATE 8 a.rs:1 T 1
@ DROP 128 Map<K, V> 0
@ DROP 128 Map<K, V> 0
@ ALLOCATE 9 a.rs:1 T 99999999999
@ MARK one
@ {"event":"ALLOCATE","bytes":5,"file":"a.js","line":3,"type":"N","id":"7","time":1.5,"thread":"w","stack":["f",{"function":"g"}]}
@ {"event":"DROP","bytes":6,"type":"M","id":7,"time":0.5}
@ {"event":"MEMORY","bytes":131072,"label":"end"}
@ FREE 1 T 2
@ ALLOCATE 5 a.rs:1 T 1"#;
