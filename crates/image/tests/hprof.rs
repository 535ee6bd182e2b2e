//! Java heap dumps, compared with what the JVM says of itself at the same instant, and with the simplest methods.

use highwater_image::dumps::hprof::{HprofHeap, ObjectLayout};
use highwater_image::{Bitmap, ComparedImage, DumpSource, Examination, ImageHeap, Lens, compare};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hprof").join(name)
}

fn open(name: &str) -> HprofHeap {
    HprofHeap::open(&DumpSource::file(&fixture(&format!("{name}.hprof.zst")))).expect("a dump")
}

/// By class: the number of instances, and their bytes, as `jcmd PID GC.class_histogram` lists them. Classes of the same name are added up.
fn histogram(name: &str) -> BTreeMap<String, (u64, u64)> {
    let text = std::fs::read_to_string(fixture(&format!("{name}.histogram.txt"))).expect("a histogram");
    let mut classes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [rank, count, bytes, class] = words[..] else { continue };
        if rank.ends_with(':') && rank != "num:" {
            let figures = classes.entry(java_name(class)).or_default();
            *figures =
                (figures.0 + count.parse::<u64>().expect("a count"), figures.1 + bytes.parse::<u64>().expect("bytes"));
        }
    }
    classes
}

/// `[Ljava.lang.String;` is `java.lang.String[]`.
fn java_name(name: &str) -> String {
    let element = name.trim_start_matches('[');
    let dimensions = name.len() - element.len();
    let primitives = [
        ("B", "byte"),
        ("C", "char"),
        ("D", "double"),
        ("F", "float"),
        ("I", "int"),
        ("J", "long"),
        ("S", "short"),
        ("Z", "boolean"),
    ];
    let plain = primitives.iter().find(|(code, _)| dimensions > 0 && *code == element).map(|(_, name)| *name);
    let plain = plain.unwrap_or_else(|| element.trim_start_matches('L').trim_end_matches(';'));
    let plain = if dimensions == 0 { name } else { plain };
    format!("{plain}{}", "[]".repeat(dimensions))
}

fn figures(examination: &Examination) -> BTreeMap<String, (u64, u64)> {
    let shapes = &examination.graph.shapes;
    let figures = &examination.graph.figures;
    shapes
        .ids()
        .map(|id| (shapes.name(id).to_owned(), (figures[id.0 as usize].count, figures[id.0 as usize].bytes)))
        .collect()
}

/// The classes that differ from the histogram, as `class: ours, theirs`.
fn differences(name: &str) -> Vec<String> {
    let (ours, theirs) = (figures(&open(name).examine(0)), histogram(name));
    let classes: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    classes
        .into_iter()
        .filter(|class| ours.get(*class) != theirs.get(*class))
        .map(|class| format!("{class}: {:?}, {:?}", ours.get(class), theirs.get(class)))
        .collect()
}

#[test]
fn counts_and_bytes_of_every_class_are_those_of_the_jvm() {
    for name in ["zoo-1", "zoo-2", "zoo-wide-1", "zoo-widest-1", "zoo-mixed-1"] {
        let differences = differences(name);
        assert!(differences.is_empty(), "{name}: {:?}: {differences:#?}", open(name).layout());
    }
}

#[test]
fn headers_and_references_have_the_sizes_that_the_jvm_was_told() {
    let layout = |header, array_header, reference| ObjectLayout { header, array_header, reference, alignment: 8 };
    assert_eq!(open("zoo-1").layout(), layout(12, 16, 4));
    assert_eq!(open("zoo-wide-1").layout(), layout(12, 16, 8));
    assert_eq!(open("zoo-widest-1").layout(), layout(16, 24, 8));
    assert_eq!(open("zoo-mixed-1").layout(), layout(16, 24, 4));
}

/// The references of all objects.
fn references(heap: &HprofHeap) -> Vec<Vec<u64>> {
    let none = Bitmap::new(0);
    let of = |object: u64| {
        let mut targets = Vec::new();
        let mut slot = 0;
        while let Some((target, next)) = heap.next_reference(object, slot, &none) {
            targets.push(target);
            slot = next;
        }
        targets
    };
    heap.span().map(of).collect()
}

/// The objects that can be reached from some objects without passing through one.
fn reachable(references: &[Vec<u64>], from: &[u64], left_out: Option<u64>) -> Vec<bool> {
    let mut seen = vec![false; references.len()];
    let mut waiting = from.to_vec();
    while let Some(object) = waiting.pop() {
        if Some(object) != left_out && !std::mem::replace(&mut seen[object as usize], true) {
            waiting.extend(&references[object as usize]);
        }
    }
    seen
}

#[test]
fn retained_sizes_are_what_goes_with_an_object() {
    let heap = open("zoo-1");
    let examination = heap.examine(0);
    let references = references(&heap);
    let roots: Vec<u64> = Lens::roots(&heap).iter().map(|root| root.object).collect();
    let reached = reachable(&references, &roots, None);
    // Something that the dump does not list keeps the others.
    let kept: Vec<u64> = heap.span().filter(|object| !reached[*object as usize]).collect();
    assert_eq!(kept.len() as u64, examination.survey.leaked.0);
    assert!(kept.len() < references.len() / 5, "{} of {} objects", kept.len(), references.len());
    let all_roots = [roots, kept].concat();
    let mut checked = 0;
    for node in examination.graph.nodes().filter(|node| reached[node.object as usize]) {
        if node.object % 41 != 0 && node.retained_bytes < 5000 {
            continue;
        }
        let without = reachable(&references, &all_roots, Some(node.object));
        let gone: u64 = heap.span().filter(|object| !without[*object as usize]).map(|object| heap.bytes(object)).sum();
        assert_eq!(node.retained_bytes, gone, "{}", Lens::object_name(&heap, node.object));
        checked += 1;
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn the_sum_of_all_objects_is_that_of_the_histogram() {
    let total = |name: &str| histogram(name).values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    for name in ["zoo-1", "zoo-widest-1"] {
        assert_eq!(open(name).examine(0).live(), total(name));
    }
}

/// An object as `image show` shows it.
fn shown(heap: &HprofHeap, examination: &Examination, what: &str, depth: u32) -> String {
    heap.view(examination, what, depth).expect("an object").value.expect("a value")
}

#[test]
fn fields_elements_and_texts_are_shown() {
    for name in ["zoo-1", "zoo-widest-1"] {
        let heap = open(name);
        let examination = heap.examine(0);
        let show = |what: &str| shown(&heap, &examination, what, 1);
        let statics = show("Zoo");
        for line in [
            "staticBoolean = true",
            "staticChar = 'é'",
            "staticFloat = 1.5",
            "staticDouble = -2.25",
            "staticByte = -7",
            "staticShort = -300",
            "staticInt = 123456789",
            "staticLong = -1234567890123456789",
            "staticText = \"a static text\"",
        ] {
            assert!(statics.contains(&format!("    {line}\n")), "{line}: {statics}");
        }
        let animals = |index: u32| show(&format!("Zoo.ANIMALS.elementData[{index}]"));
        // HotSpot lists the last field first.
        let primitives = "aLong = 1099511627776\n    anInt = -3\n    aShort = -2\n    aByte = 127\n    aDouble = 1e100\n    aFloat = 0.5\n    aChar = '€'\n    aBoolean = true\n";
        assert!(animals(0).contains(primitives), "{}", animals(0));
        let derived = animals(1);
        assert!(
            derived.contains("more = 1\n") && derived.contains("nothing = null\n") && derived.contains(primitives),
            "{derived}"
        );
        assert_eq!(animals(4), "boolean[2] {true, false}");
        assert_eq!(animals(5), "char[3] {'x', 'ÿ', '€'}");
        assert_eq!(animals(6), "float[1] {1.25}");
        assert_eq!(animals(7), "double[2] {2.5, NaN}");
        assert_eq!(animals(8), "byte[2] {1, -1}");
        assert_eq!(animals(9), "short[3] {1, -1, 3}");
        assert_eq!(animals(10), "int[4] {1, -1, 3, 4}");
        assert_eq!(animals(11), "long[2] {1, -1}");
        assert_eq!((animals(12), animals(13)), ("\"latin é\"".to_owned(), "\"wide €\"".to_owned()));
        let array = shown(&heap, &examination, "Zoo.ANIMALS.elementData[3]", 2);
        assert!(array.starts_with("java.lang.Object[3][] {\n    [0] = java.lang.Object[2] @ 0x"), "{array}");
        assert!(array.contains("        [0] = \"a\"\n") && array.contains("        [0] = null\n"), "{array}");
    }
}

#[test]
fn objects_are_found_by_their_addresses_and_paths_lead_to_them() {
    let heap = open("zoo-1");
    let examination = heap.examine(0);
    let session = heap.view(&examination, "Zoo.SESSIONS.table[7].value", 1).expect("a session");
    assert_eq!(session.shape, "Zoo$Session");
    let address = ImageHeap::object_name(&heap, session.object);
    let again = heap.view(&examination, &address, 1).expect("the same session");
    assert_eq!((again.object, &again.value), (session.object, &session.value));
    let path = again.path.expect("a path").to_string();
    assert!(path.starts_with("Zoo.SESSIONS.table[7]"), "{path}");
    assert_eq!(heap.view(&examination, &path, 1).expect("what the path names").object, session.object);
    assert_eq!(again.referrers.count, 1);
    assert_eq!(
        (again.referrers.first[0].what.as_str(), again.referrers.first[0].step.as_str()),
        ("java.util.HashMap$Node", ".value")
    );
    // The session, its text with characters, and its history.
    assert_eq!(again.retained_bytes, Some(24 + 24 + 24 + 144));
    for wrong in ["0x8", "Zoo.NOTHING", "Nowhere", "Zoo.SESSIONS[0]", "Zoo.SESSIONS.table[70000]", ""] {
        assert!(heap.view(&examination, wrong, 1).is_err(), "{wrong}");
    }
}

#[test]
fn soft_references_keep_and_weak_ones_do_not() {
    let heap = open("zoo-1");
    let examination = heap.examine(0);
    let retained = |what: &str| heap.view(&examination, what, 0).expect("an object").retained_bytes;
    let payload = 16 + 1016;
    assert_eq!(retained("Zoo.ANIMALS.elementData[16]"), Some(32), "a weak reference");
    assert_eq!(retained("Zoo.ANIMALS.elementData[17]"), Some(40 + payload), "a soft reference");
    assert!(retained("Zoo.ANIMALS.elementData[18]").is_some_and(|bytes| bytes < 200), "a phantom reference");
    let weak = heap.view(&examination, "Zoo.ANIMALS.elementData[16].referent", 0).expect("it is not cleared");
    let path = weak.path.expect("a path").to_string();
    assert!(path.starts_with("thread \""), "{path}");
}

#[test]
fn what_a_program_leaks_is_first_in_a_comparison() {
    let heaps = ["zoo-1", "zoo-2"].map(open);
    let examinations = heaps.each_ref().map(|heap| heap.examine(0));
    let images = [0, 1].map(|at| ComparedImage { heap: &heaps[at], examination: &examinations[at] });
    let comparison = compare(&images, 10).expect("dumps of one kind");
    let first = &comparison.shapes[0];
    assert_eq!((first.name.as_str(), first.count(), first.bytes()), ("long[]", 100, 14400));
    let session = comparison.shapes.iter().find(|change| change.name == "Zoo$Session").expect("the leak");
    assert_eq!((session.count(), session.bytes()), (100, 2400));
    assert_eq!(comparison.roots[0].name, "Zoo");
    assert!(comparison.roots[0].bytes() >= 100 * (216 + 32), "{}", comparison.roots[0].bytes());
}

#[test]
fn class_loaders_and_the_longest_texts_are_listed() {
    let heap = open("zoo-1");
    let examination = heap.examine(0);
    let highlights = highwater_image::HeapAbilities::highlights(&heap, &examination, 5);
    let titles: Vec<&str> = highlights.iter().map(|table| table.title).collect();
    assert_eq!(titles, ["strings", "class loaders, with the number and bytes of their classes"]);
    assert_eq!(highlights[0].count, histogram("zoo-1")["java.lang.String"].0);
    let loader = highlights[1].rows.iter().find(|row| row.what == "java.net.URLClassLoader \"zoo-loader\"");
    let loader = loader.unwrap_or_else(|| panic!("{highlights:#?}"));
    assert_eq!(loader.count, 1);
}

#[test]
fn a_compressed_dump_is_the_same() {
    use std::io::{Read, Write};
    let mut plain = Vec::new();
    let file = std::fs::File::open(fixture("zoo-1.hprof.zst")).expect("a fixture");
    zstd::Decoder::new(file).expect("zstd").read_to_end(&mut plain).expect("decompressed");
    // `jcmd PID GC.heap_dump -gz=1` writes one member after the other.
    let mut packed = Vec::new();
    for part in plain.chunks(300_000) {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).expect("compressed");
        packed.extend(encoder.finish().expect("compressed"));
    }
    let path = std::env::temp_dir().join(format!("highwater-hprof-{}.gz", std::process::id()));
    std::fs::write(&path, packed).expect("written");
    let opened = [DumpSource::file(&path), DumpSource::Bytes(plain.into())]
        .map(|source| HprofHeap::open(&source).expect("a dump"));
    std::fs::remove_file(&path).expect("removed");
    let expected = figures(&open("zoo-1").examine(0));
    for heap in opened {
        let examination = heap.examine(0);
        assert_eq!(figures(&examination), expected);
        assert_eq!(shown(&heap, &examination, "Zoo.staticText", 1), "\"a static text\"");
    }
}

fn tiny(name: &str) -> Vec<u8> {
    std::fs::read(fixture(&format!("tiny-{name}.hprof"))).expect("a fixture")
}

fn open_bytes(bytes: Vec<u8>) -> HprofHeap {
    HprofHeap::open(&DumpSource::Bytes(bytes.into())).expect("a dump")
}

#[test]
fn all_forms_of_a_dump_are_read() {
    for (name, bytes_of_node) in
        [("plain", 32), ("short", 16), ("unfinished", 32), ("segments", 32), ("small-numbers", 24), ("android", 16)]
    {
        let heap = open_bytes(tiny(name));
        let examination = heap.examine(0);
        assert!(examination.damage().is_empty(), "{name}: {:?}", examination.damage());
        let figures = figures(&examination);
        // They lie 32 bytes apart. Small numbers are no addresses, and where the array ends before the next object, there are gaps: there the fields decide.
        assert_eq!(figures["Node"], (4, 4 * bytes_of_node), "{name}");
        assert_eq!((figures["Node[]"].0, figures["int[]"].0, figures["java.lang.Class"].0), (1, 1, 4), "{name}");
        assert_eq!(figures.contains_key("byte[]"), name == "android", "{name}");
        assert_eq!(shown(&heap, &examination, "Node", 1), "class Node {\n    count = 3\n}", "{name}");
        // The node that nothing refers to, and the array of numbers.
        let unreferred = if name == "android" { 3 } else { 2 };
        assert_eq!(examination.survey.leaked.0, unreferred, "{name}");
        let values = examination.graph.nodes().filter(|node| examination.graph.shapes.name(node.shape) == "Node");
        let values: BTreeSet<String> = values
            .map(|node| shown(&heap, &examination, &ImageHeap::object_name(&heap, node.object), 1))
            .map(|text| text.lines().find(|line| line.contains("value")).unwrap_or_default().trim().to_owned())
            .collect();
        assert_eq!(values, [20, 21, 22, 23].map(|value| format!("value = {value}")).into(), "{name}");
    }
}

#[test]
fn damage_is_located_and_the_rest_is_used() {
    let damage = |name: &str| {
        let heap = open_bytes(tiny(name));
        let examination = heap.examine(0);
        let texts: Vec<String> = examination.damage().entries.iter().map(|damage| damage.what.to_string()).collect();
        (figures(&examination), texts)
    };
    let (cut, texts) = damage("cut");
    assert_eq!((cut["Node"].0, cut.contains_key("int[]")), (4, false));
    assert_eq!(texts, ["the dump ends within a record; the rest is missing:"]);
    let (odd, texts) = damage("odd");
    assert_eq!((odd["Node"].0, odd["(unknown class)"].0, odd["(unknown class)[]"].0), (5, 2, 1));
    for text in [
        "no object has the tag 0x77; the rest is not read:",
        "1 objects are listed twice; the first counts",
        "the fields of an instance do not fit its class 0x1c60:",
    ] {
        assert!(texts.iter().any(|known| known == text), "{text}: {texts:#?}");
    }
    let (cycle, texts) = damage("cycle");
    assert_eq!(cycle["A"].0, 1);
    assert!(texts.is_empty() || texts[0].contains("do not fit"), "{texts:?}");
    for wrong in [&b"JAVA PROFILE 1.0.2"[..], b"JAVA PROFILE 1.0.2\0\0\0\0\x05\0\0\0\0\0\0\0\0", b"JAVA", b""] {
        assert!(HprofHeap::open(&DumpSource::Bytes(wrong.into())).is_err());
    }
}

/// Asks everything of any bytes.
fn ask(bytes: Vec<u8>) {
    let Ok(heap) = HprofHeap::open(&DumpSource::Bytes(bytes.into())) else { return };
    let examination = heap.examine(3);
    for node in examination.graph.nodes().take(12) {
        let view = heap.view(&examination, &ImageHeap::object_name(&heap, node.object), 4).expect("an object");
        assert_eq!(view.object, node.object);
    }
    let _ = highwater_image::HeapAbilities::highlights(&heap, &examination, 3);
    let side = || ComparedImage { heap: &heap, examination: &examination };
    assert_eq!(compare(&[side(), side()], 3).expect("one kind").came.0, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_change_of_a_dump_is_survived(
        form in 0usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = tiny(["plain", "short", "segments", "android", "cycle", "odd"][form]);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(end.index(bytes.len()));
        }
        ask(bytes);
    }
}

#[test]
fn a_real_dump_may_end_anywhere() {
    let file = std::fs::File::open(fixture("zoo-1.hprof.zst")).expect("a fixture");
    let plain = zstd::decode_all(file).expect("a dump");
    for nth in 1..12 {
        ask(plain[..plain.len() * nth / 12 + nth].to_vec());
    }
}

#[test]
fn counts_are_those_of_hprof_slurp() {
    let text = std::fs::read_to_string(fixture("zoo-1.hprof-slurp.txt")).expect("a fixture");
    let line = |line: &str| {
        line.split_once(' ').map(|(count, class)| (class.replace("+0x", "/0x"), count.parse().expect("a count")))
    };
    let theirs: BTreeMap<String, u64> = text.lines().filter_map(line).collect();
    let ours = figures(&open("zoo-1").examine(0)).into_iter().map(|(class, (count, _))| (class, count));
    // It does not count class objects, but for those of primitive types, which have records of their own.
    let ours: BTreeMap<String, u64> =
        ours.map(|(class, count)| if class == "java.lang.Class" { (class, 9) } else { (class, count) }).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn retained_sizes_are_those_of_hprof_analyzer() {
    let text = std::fs::read_to_string(fixture("zoo-1.hprof-analyzer.txt")).expect("a fixture");
    let heap = open("zoo-1");
    let examination = heap.examine(0);
    let graph = &examination.graph;
    // It knows neither the fields that the JVM adds to objects, nor the sizes of class objects: what is compared is what an object retains beside itself.
    let instances =
        graph.nodes().map(|node| (graph.shapes.name(node.shape), node.retained_bytes - heap.bytes(node.object)));
    let instances: BTreeSet<(&str, u64)> = instances.collect();
    let mut differ = Vec::new();
    let mut rows = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [own, retained, class] = words[..] else { panic!("{line}") };
        let below = retained.parse::<u64>().expect("bytes") - own.parse::<u64>().expect("bytes");
        let of_class = heap.view(&examination, class, 0).ok();
        let of_class = of_class.and_then(|view| Some(view.retained_bytes? - view.bytes));
        rows += 1;
        if !instances.contains(&(class, below)) && of_class != Some(below) {
            differ.push(class);
        }
    }
    assert_eq!(rows, 20);
    assert_eq!(differ, EXPLAINED);
}

/// Objects that retain class objects, class loaders or modules, whose sizes it does not know.
const EXPLAINED: [&str; 3] = ["Zoo", "jdk.internal.loader.ClassLoaders$AppClassLoader", "java.lang.ModuleLayer"];
