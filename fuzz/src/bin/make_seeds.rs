//! Writes the seeds of the corpora: small valid inputs with something of everything. `cargo run --bin make_seeds`.

use highwater_fuzz::Scene;
use std::io::Read as _;
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

const HEAPTRACK: &str = "v 10400 3\nX ./demo -x\nI 1000 5e27ec\ns 4 main\ns b two\nlines!!\ni 401136 1 1 2 2a 1 2 7\ni 10 0\nt 1 0\nt 2 1\na 40 1\na 10 2\n\
    + 0\n+ 1\nc 2f\nR 3c3\n- 0\n- 0\n# strings: 2\nA\nS leak:x\n";

const HEAP_PROFILE: &str = r#"{"head":{"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},"selfSize":0,"id":1,"children":[
{"callFrame":{"functionName":"a\u00e9","scriptId":"3","url":"file:///a.js","lineNumber":4,"columnNumber":7},"selfSize":640,"id":2,"children":[]}]},
"samples":[{"size":640,"nodeId":2,"ordinal":1}],"startTime":1.5,"other":[true,null,{"a":[]}]}"#;

const ODD_LINES: &str = "\u{feff}# a comment\r\n\n{\"event\":\"free\",\"address\":-1}\n{\"event\":\"alloc\",\"address\":16,\
    \"size\":18446744073709551615}\n{\"event\":\"alloc\",\"address\":16,\"size\":1e3}\n{\"event\":\"alloc\",\"address\":16,\
    \"size\":9,\"time_ns\":5,\"extra\":{\"a\":[1,{}]}}\n{\"event\":\"explode\"}\n[]\n{\"a\":\"\\q\"}\n\
    {\"event\":\"alloc\",\"address\":\"0xZ\",\"size\":null,\"stack\":[[]]}\n{\"event\":\"free\",\"address\":16,\"time_ns\":2}";

/// A request with something of everything.
const REQUEST: &str = "GET /api/1/rows?by=site&filter=inside%3Aregex%3A%5Ea+b%26c&search=%C3%A9&at= HTTP/1.1\r\nHost: localhost:80\r\n\
    Origin: http://localhost:80\r\nSec-Fetch-Site: same-origin\r\nCookie: a=1; highwater-80=00ff\r\nAuthorization: Bearer 00ff\r\n\r\n";

/// Every question of the viewer, with every parameter and every filter.
const QUESTIONS: [(&str, &str); 20] = [
    ("sources", "sources"),
    ("overview", "overview?source=1"),
    ("timeline", "timeline?points=30&from=100&to=500&filter=size:10..90"),
    ("timeline-all", "timeline?source=2&points=1"),
    ("rows", "rows?by=site&sort=average&order=asc&search=grow&offset=1&limit=2&metric=allocated&from=1&to=80%25"),
    ("rows-owner", "rows?by=thread&metric=freed&filter=!thread:1&filter=lifetime:..30"),
    ("rows-peak", "rows?by=place&metric=peak&at=peak&filter=outside:contains:par&filter=module:app"),
    ("rows-type", "rows?by=type&metric=leaked&filter=type:Vec%3Cu8%3E&filter=heap:minor&source=2"),
    ("callers", "callers?function=main&metric=temporary"),
    ("tree", "tree?direction=up&measure=blocks&least=0.5&hide=grow&merge_recursion=1&library=1"),
    ("tree-focus", "tree?focus=parse&filter=inside:regex:^(gr|pa)"),
    ("blocks", "blocks?sort=lifetime&order=asc&offset=0&limit=9&filter=allocated:0..300&filter=freed:never"),
    ("blocks-live", "blocks?sort=address&filter=live:250&filter=freed:100..&filter=site:1"),
    ("histograms", "histograms?filter=allocated:..&filter=freed:ever&at=mark:x"),
    ("leaks", "leaks?points=7&limit=3&search=a&from=10ns&to=end"),
    ("compare", "compare?a=0@start&b=1@end&by=function&limit=5&library=1&search=m"),
    ("compare-one", "compare?a=0@12.5%25&b=0@peak&by=heap&filter=size:1..&order=asc"),
    ("image", "image/treemap?depth=6&least=0"),
    ("live", "live/snapshot?pid=7"),
    ("save", "save?from=10&at=400&filter=size:1.."),
];

const BUDGET: &str = "[budget]\nmax-peak = \"64 MiB\"\nmax-leaked = 0\nmax-allocations = 100_000\nmax-temporary = \"30%\"\nsuppress = [\"leak:libfontconfig\", \"inside:regex:^init_\"]\n\n[[budget.part]]\nfilter = [\"size:1KiB..\", \"heap:malloc\"]\nmax-leaked = 0\n\n\
    [[budget.part]]\neach = \"mark\"\nmax-growth = \"100 B\"\n\n[budget.programs.worker]\nmax-rss = \"8 MiB\"\n\n[[budget.programs.worker.part]]\nmeasure = \"parse\"\nmax-allocations = 0\n";

const SUPPRESSIONS: &str = "# known\nleak:^lib*font$\ninside:regex:^init_\n";

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
    seed("heaptrack", "every-kind", HEAPTRACK.as_bytes())?;
    seed("object_log", "every-kind", OBJECT_LOG.as_bytes())?;
    seed("perf_map", "runtimes", PERF_MAP.as_bytes())?;
    seed("budget", "whole", BUDGET.as_bytes())?;
    seed("budget", "suppressions", SUPPRESSIONS.as_bytes())?;
    for (name, question) in QUESTIONS {
        seed("view_question", name, question.as_bytes())?;
    }
    seed("http_request", "page", b"GET /?token=00ff HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n")?;
    seed("http_request", "question", REQUEST.as_bytes())?;
    seed("http_request", "posted", b"POST /api/1/live/snapshot?pid=7 HTTP/1.0\r\nhost:localhost:80\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc")?;
    seed("debuginfod_response", "chunked", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")?;
    seed("debuginfod_response", "redirect", b"HTTP/1.1 302 Found\r\nLocation: https://localhost:8002/a\r\nContent-Length: 0\r\n\r\n")?;
    let gzip = flate2::read::GzEncoder::new(&b"hello"[..], flate2::Compression::fast());
    let mut response = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".to_vec();
    io::BufReader::new(gzip).read_to_end(&mut response)?;
    seed("debuginfod_response", "gzip", &response)?;
    images()?;
    hosts()?;
    profiles()?;
    heap_profiles()?;
    traces()?;
    histories()
}

/// Profiles of other tools: fixtures of the tests.
fn profiles() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/input/tests/fixtures");
    for (target, name, path) in [
        ("dhat", "valgrind", "dhat/valgrind.json"),
        ("dhat", "rising", "dhat/rising.json"),
        ("dhat", "rust", "dhat/rust.json"),
        ("massif", "instructions", "massif/instructions.out"),
        ("massif", "stacks", "massif/stacks.out"),
        ("massif", "pages", "massif/pages.out"),
        ("heapprofile", "node", "v8-sampling/node.heapprofile"),
    ] {
        seed(target, name, &fs::read(folder.join(path))?)?;
    }
    seed("heapprofile", "small", HEAP_PROFILE.as_bytes())
}

/// Heap profiles: fixtures of the tests, decompressed.
fn heap_profiles() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/input/tests/fixtures/pprof");
    for (target, name, path) in [
        ("pprof_profile", "go", "go-sampled.pb.gz"),
        ("pprof_profile", "addresses", "rust.pb.gz"),
        ("heap_text", "go", "go-sampled.txt.gz"),
        ("heap_text", "jemalloc", "jemalloc-accum.heap"),
        ("heap_text", "gperftools", "gperftools.heap"),
        ("heap_text", "tcmalloc", "tcmalloc.heap"),
    ] {
        let mut content = fs::read(folder.join(path))?;
        if path.ends_with(".gz") {
            let compressed = std::mem::take(&mut content);
            flate2::read::GzDecoder::new(compressed.as_slice()).read_to_end(&mut content)?;
        }
        // Short seeds are tried more often.
        content.truncate(8 << 10);
        seed(target, name, &content)?;
    }
    Ok(())
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

/// What hosts of images read: messages, Candid, modules.
fn hosts() -> io::Result<()> {
    use highwater_host::image::ImagePart;
    use highwater_host::protocol::{HostRequest, HostResponse, SnapshotInfo, WhichMemory};
    let mut messages = Vec::new();
    for request in [
        HostRequest::Info,
        HostRequest::Call("open(100)".into()),
        HostRequest::Describe(Some(1)),
        HostRequest::Chunk { id: 1, offset: 4096, memory: WhichMemory::Main },
    ] {
        request.to_frame().write(&mut messages)?;
    }
    seed("image_protocol", "requests", &messages)?;
    messages.clear();
    let info = SnapshotInfo { id: 1, time_unix_ns: 2, bytes: 3, occupied_bytes: 4 };
    for response in
        [HostResponse::Snapshot(info), HostResponse::Chunk(1, 0, ImagePart { zeros: 9, bytes: vec![1, 2, 3] })]
    {
        response.to_frame().write(&mut messages)?;
    }
    seed("image_protocol", "responses", &messages)?;
    seed("image_protocol", "sidecar", br#"{"version":1,"module":{"name":"m","sha256":"0"},"snapshot":{"id":1,"time_unix_ns":2},
        "memory":{"kind":"memory64","bytes":3},"heap_start":null,"globals":{"a":1},"calls":["f()"],"system":{"time_ns":1}}"#)?;
    seed("candid_text", "values", br#"(1 : nat8, -5, 2.5e3, "a\u{e9}\n", vec { opt null; opt true }, record { 3; name = blob "\ff" }, variant { x = principal "aaaaa-aa" })"#)?;
    seed("candid_text", "interface", b"type L = opt record { h : nat8; t : L }; service s : (nat) -> { f : (x : L, vec text) -> () query; g : F }|(opt record { h = 1 }, vec { \"a\" })")?;
    seed(
        "candid_text",
        "reply",
        b"\x03\x6e\x01\x6c\x02\x00\x7d\x01\x02\x6d\x7b\x02\x00\x71\x01\x05\x02\xca\xfe\x02hi",
    )?;
    let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x05\x03\x01\0\x01\x06\x06\x01\x7f\x01\x41\x05\x0b\x07\x05\x01\x01f\0\0\x0a\x04\x01\x02\0\x0b";
    seed("wasm_module", "small", module)
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

/// Files of other tools, decompressed and cut. Their modules have paths where no file is: reading one takes memory that is in no proportion to the seed.
fn histories() -> io::Result<()> {
    const LONGEST: usize = 12_000;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/input/tests/fixtures");
    for name in ["churn.raw", "nodes-v2.raw", "nodes-v1", "words"] {
        let mut text = zstd::decode_all(&fs::read(folder.join(format!("heaptrack/{name}.zst")))?[..])?;
        text.truncate(LONGEST);
        hide_modules(&mut text);
        seed("heaptrack", name, &text)?;
    }
    for name in ["plain", "python3.10", "allocators", "native", "fork-child", "aggregated"] {
        let file = fs::read(folder.join(format!("memray/{name}.bin")))?;
        let mut records = Vec::new();
        io::Read::read_to_end(&mut lz4_flex::frame::FrameDecoder::new(&file[..]), &mut records)?;
        records.truncate(LONGEST);
        hide_modules(&mut records);
        seed("memray", name, &records)?;
    }
    Ok(())
}

fn hide_modules(bytes: &mut [u8]) {
    for folder in [b"/lib", b"/usr", b"/srv"] {
        while let Some(at) = bytes.windows(4).position(|window| window == folder) {
            bytes[at + 1] = b'-';
        }
    }
}

fn seed(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{name}")), bytes)
}

/// Every line of an object log, in both forms, and some that are none.
/// After the length of pieces: lines of node, Java and Python, and some that make no sense.
const PERF_MAP: &str = "\x07\
18c4000 300 Builtin:DeoptimizationEntry_Eager
3ef4c0a1b00 1c0 JS:~render file:///srv/my app.js:10:5
3ef4c0a1b40 20 JS:*get value node:internal/url:812:12
0x00007fcd04ecd7a0 0x0000000000000f40 java.nio.ByteBuffer Main.keepBuffer(int)
7f0000000000 b py::fib:/srv/fib.py
ffffffffffffffff 10 a
nonsense
1000 0 a
";

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
