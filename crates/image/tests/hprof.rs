//! Java heap dumps, compared with what the JVM says of itself at the same instant, and with the simplest methods.

use highwater_image::dumps::hprof::{Hprof, HprofHeap, ObjectLayout};
use highwater_image::{Bitmap, ComparedImage, DumpKind, DumpSource, Examination, ImageHeap, Lens, compare};
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
