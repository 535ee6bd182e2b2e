//! Images with changed values: the program reads them back, goes on, and passes garbage collections, after which its heap is sound.

mod support;

use highwater_host::program::{HostedProgram, ProgramOptions};
use highwater_host::snapshots::HostSnapshot;
use highwater_image::{Damages, Examination, Image, ImageHeap, Sidecar, WasmModule, find_heap, write_changed};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use support::{module, module_bytes, reply, start};

/// A folder of images of one module, removed at the end.
struct Images {
    folder: PathBuf,
    name: &'static str,
    wasm: WasmModule,
}

static FOLDERS: AtomicU32 = AtomicU32::new(0);

impl Images {
    /// The image `0.img` of a program after some calls.
    fn after(name: &'static str, calls: &[&str]) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("highwater-edited-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let images = Self { folder, name, wasm: WasmModule::parse(&module_bytes(name)).unwrap() };
        let mut program = start(name);
        for call in calls {
            reply(&mut program, call);
        }
        images.write(&program, "0.img");
        images
    }

    fn path(&self, image: &str) -> PathBuf {
        self.folder.join(image)
    }

    fn write(&self, program: &HostedProgram, image: &str) {
        let snapshot = HostSnapshot::take(program, 1, None).unwrap();
        snapshot.image.write(&File::create(self.path(image)).unwrap()).unwrap();
        std::fs::write(Sidecar::path_of(&self.path(image)), snapshot.sidecar.to_text()).unwrap();
    }

    fn load(&self, image: &str) -> HostedProgram {
        HostedProgram::load(module(self.name), &ProgramOptions::default(), &self.path(image)).unwrap()
    }

    /// Looks at the heap of an image, which must be sound: no damage, and every byte accounted for.
    #[track_caller]
    fn look<T>(&self, image: &str, look: impl FnOnce(&dyn ImageHeap, &Examination) -> T) -> T {
        let path = self.path(image);
        let sidecar = Sidecar::read_lossy(&path);
        let bytes = Image::open(&path).unwrap();
        assert_eq!(sidecar.memory_bytes, Some(bytes.len()), "the sidecar of {image}");
        let mut damage = Damages::default();
        let heap = find_heap(&bytes, Some(&self.wasm), &sidecar, &mut damage).unwrap();
        let examination = heap.examine(0);
        damage.append(examination.damage().clone());
        assert!(damage.is_empty(), "{image}: {damage:?}");
        if self.name != "edits32-incremental" {
            assert_eq!(heap.stated_bytes(), Some(examination.survey.walked_bytes), "{image}");
        }
        look(&*heap, &examination)
    }

    #[track_caller]
    fn edit(&self, from: &str, path: &str, value: &str) -> Result<String, String> {
        let (old, new) = (self.path(from), self.path("new.img"));
        let edit = self
            .look(from, |heap, examination| heap.edit(&examination.survey, path, value))
            .map_err(|error| error.to_string())?;
        let image = Image::open(&old).unwrap();
        write_changed(&image, &edit.patches, &File::create(&new).unwrap()).unwrap();
        assert_eq!(std::fs::metadata(&new).unwrap().len(), edit.new_length.unwrap_or(image.len()));
        let mut sidecar = std::fs::read(Sidecar::path_of(&old)).unwrap();
        edit.change_sidecar(&mut sidecar);
        std::fs::write(Sidecar::path_of(&new), sidecar).unwrap();
        Ok(edit.before)
    }

    /// Makes several changes, one after the other, and writes the result as `edited.img`.
    #[track_caller]
    fn edit_all(&self, changes: &[(&str, &str)]) {
        let mut from = "0.img";
        for (path, value) in changes {
            self.edit(from, path, value).unwrap_or_else(|error| panic!("{path}={value}: {error}"));
            for (old, new) in [("new.img", "edited.img"), ("new.img.json", "edited.img.json")] {
                std::fs::rename(self.path(old), self.path(new)).unwrap();
            }
            from = "edited.img";
        }
    }

    /// The value at a path, as it is shown.
    #[track_caller]
    fn show(&self, image: &str, path: &str) -> String {
        self.look(image, |heap, examination| heap.view(examination, path, 3).unwrap().value.unwrap())
    }

    /// The address of the object at a path.
    #[track_caller]
    fn address(&self, image: &str, path: &str) -> u64 {
        self.look(image, |heap, examination| heap.view(examination, path, 1).unwrap().object)
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The transient variables `steps` and `greet`, which have no names, in heaps of 64 and of 32 bits.
const STEPS: [&str; 2] = ["static[41]", "static[3]"];
const GREET: [&str; 2] = ["static[42]", "static[2]"];

/// Changes that need new objects, in heaps of 64 and of 32 bits.
const CHANGES: [(&str, &str); 15] = [
    ("title", "\"a much longer title, \\\"quoted\\\"\""),
    ("rope", "\"flat\""),
    ("count", "1000000000000000000000000"),
    ("debt", "-1000000000000000000000000"),
    ("stamp", "18446744073709551615"),
    ("offset", "-9223372036854775808"),
    ("ratio", "2.25"),
    ("raw", "\\01\\02\\03\\04\\05\\06\\07\\08\\09\\0A"),
    ("primes", "[2, 3, 5, 7, 11, 13, 100000000000000000000]"),
    ("names", "[\"ada\", \"bob, the second\", \"\"]"),
    ("cells", "[var 1, 18446744073709551610, 3, 4]"),
    ("state#busy", "\"later than now\""),
    ("first", "\"once\""),
    ("items[1].name", "\"another name for it\""),
    ("items[2].amount", "77777777777777777777777"),
];

const EDITED: &str = "cells = [var 1, 18_446_744_073_709_551_610, 3, 4]; count = 1_000_000_000_000_000_000_000_000; \
debt = -1_000_000_000_000_000_000_000_000; first = \"once\"; LIMIT; names = [\"ada\", \"bob, the second\", \"\"]; NOTE; \
offset = -9_223_372_036_854_775_808; primes = [2, 3, 5, 7, 11, 13, 100_000_000_000_000_000_000]; ratio = 2.250000; \
raw = \"\\01\\02\\03\\04\\05\\06\\07\\08\\09\\0A\"; rope = \"flat\"; second = \"twice the same, 3\"; \
stamp = 18_446_744_073_709_551_615; state = #busy(\"later than now\"); title = \"a much longer title, \"quoted\"\"";

/// The same, after the program has worked with the values.
const GROWN: &str = "cells = [var 2, 18_446_744_073_709_551_610, 3, 4]; count = 1_000_000_000_000_000_000_000_001; \
debt = -1_000_000_000_000_000_000_000_001; first = \"once\"; LIMIT; names = [\"ada\", \"bob, the second\", \"\"]; NOTE; \
offset = +9_223_372_036_854_775_807; primes = [4, 6, 10, 14, 22, 26, 200_000_000_000_000_000_000]; ratio = 2.250000; \
raw = \"\\01\\02\\03\\04\\05\\06\\07\\08\\09\\0A\"; rope = \"flat+\"; second = \"twice the same, 3\"; \
stamp = 0; state = #busy(\"later than now\"); title = \"a much longer title, \"quoted\"+\"";

/// What the program shows of its state, without the quotes and escapes of Candid's syntax.
#[track_caller]
fn state(program: &mut HostedProgram, method: &str) -> String {
    let text = reply(program, method).replace("\\\"", "\"").replace("\\\\", "\\");
    text.trim_start_matches("(\"{").trim_end_matches("}\")").to_owned()
}

/// The bytes that the collector has freed so far.
#[track_caller]
fn reclaimed(program: &mut HostedProgram) -> u64 {
    let sizes = reply(program, "sizes()");
    let number = sizes.split("reclaimed = ").nth(1).unwrap().split(' ').next().unwrap();
    number.parse().unwrap()
}

/// Runs the program from the edited image: it has the values, works with them, and has them after collections, which move them.
#[track_caller]
fn check_run(images: &Images, edited: &str, grown: &str) {
    let mut program = images.load("edited.img");
    assert_eq!(state(&mut program, "show()"), edited);
    let before = reclaimed(&mut program);
    for _ in 0..8 {
        reply(&mut program, "waste(20, 100_000)");
    }
    assert!(reclaimed(&mut program) > before + 50_000_000, "collections have freed the garbage");
    assert_eq!(state(&mut program, "show()"), edited);
    images.write(&program, "collected.img");
    assert_ne!(images.address("edited.img", "title"), images.address("collected.img", "title"), "it was moved");
    assert_eq!(state(&mut program, "grow()"), grown);
    reply(&mut program, "waste(100, 100_000)");
    assert_eq!(state(&mut program, "show()"), grown);
    let amounts = reply(&mut program, "amounts()");
    assert!(
        amounts.contains("\"another name for it\"; 1 = 10") && amounts.contains("77777777777777777777777"),
        "{amounts}"
    );
    images.write(&program, "grown.img");
    assert_eq!(images.show("grown.img", "first"), "\"once\"");
}

#[test]
fn a_program_of_64_bits_goes_on_with_new_objects_and_collects_its_garbage() {
    let images = Images::after("edits", &["prepare(3)"]);
    let amount = format!("{}[0].amount", STEPS[0]);
    let more = [
        ("note", "\"a note\""),
        ("limit", "?340282366920938463463374607431768211456"),
        (&amount, "500000000000000000000"),
    ];
    images.edit_all(&[&CHANGES[..], &more].concat());
    let with_options = |text: &str| {
        let text = text.replace("LIMIT", "limit = ?340_282_366_920_938_463_463_374_607_431_768_211_456");
        text.replace("NOTE", "note = ?\"a note\"")
    };
    check_run(&images, &with_options(EDITED), &with_options(GROWN));
    let mut program = images.load("grown.img");
    assert_eq!(reply(&mut program, "step(0, 1)"), "(500000000000000000001 : nat)");
}

#[test]
fn programs_of_32_bits_go_on_with_new_objects_and_collect_their_garbage() {
    for name in ["edits32", "edits32-compacting"] {
        let images = Images::after(name, &["prepare(3)"]);
        images.edit_all(&CHANGES);
        let without = |text: &str| text.replace("LIMIT", "limit = null").replace("NOTE", "note = null");
        check_run(&images, &without(EDITED), &without(GROWN));
    }
}

#[test]
fn an_image_taken_after_collections_is_edited_as_well() {
    let images = Images::after("edits", &["prepare(3)", "waste(100, 100_000)", "show()", "show()"]);
    images.edit_all(&[
        ("title", "\"after many a summer\""),
        ("count", "123456789012345678901234567890"),
        ("note", "\"x\""),
    ]);
    let mut program = images.load("edited.img");
    reply(&mut program, "waste(120, 100_000)");
    let shown = state(&mut program, "show()");
    for part in
        ["title = \"after many a summer\"", "count = 123_456_789_012_345_678_901_234_567_890;", "note = ?\"x\";"]
    {
        assert!(shown.contains(part), "{shown}");
    }
    images.write(&program, "collected.img");
    assert_eq!(images.show("collected.img", "note"), "\"x\"");
}

#[test]
fn values_become_null_and_small_again() {
    let images = Images::after("edits", &["prepare(3)"]);
    images.edit_all(&[
        ("note", "\"a note\""),
        ("note", "null"),
        ("count", "1000000000000000000000000"),
        ("count", "8"),
        ("stamp", "18446744073709551615"),
        ("stamp", "9"),
        ("primes", "[]"),
        ("names", "[]"),
        ("names", "[\"typed by its declaration\"]"),
        ("title", "\"\""),
    ]);
    let mut program = images.load("edited.img");
    reply(&mut program, "waste(100, 100_000)");
    let shown = state(&mut program, "show()");
    for part in [
        "note = null;",
        "count = 8;",
        "stamp = 9;",
        "primes = [];",
        "names = [\"typed by its declaration\"];",
        "title = \"\"",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn an_image_grows_by_whole_pages_if_it_must() {
    for (name, calls) in [("ropes", ["append(40)", "append(3)"]), ("edits32", ["prepare(3)", "show()"])] {
        let images = Images::after(name, &calls);
        let long = "0123456789".repeat(30_000);
        let before = std::fs::metadata(images.path("0.img")).unwrap().len();
        images.edit_all(&[("title", &long)]);
        let after = std::fs::metadata(images.path("edited.img")).unwrap().len();
        assert!(after > before && after < before + 700_000 && after.is_multiple_of(64 << 10), "{before} → {after}");
        let mut program = images.load("edited.img");
        for _ in 0..3 {
            calls.iter().for_each(|call| drop(reply(&mut program, call)));
        }
        images.write(&program, "after.img");
        assert_eq!(images.show("after.img", "title"), images.show("edited.img", "title"), "{name}");
    }
}

#[test]
fn only_the_named_path_sees_a_change() {
    let images = Images::after("edits", &["prepare(3)"]);
    // Both variables refer to one text.
    assert_eq!(images.address("0.img", "first"), images.address("0.img", "second"));
    // The same length: there is room in place, but the other variable would see it.
    images.edit_all(&[("first", "\"TWICE the same, 3\"")]);
    assert_eq!(images.show("edited.img", "first"), "\"TWICE the same, 3\"");
    assert_eq!(images.show("edited.img", "second"), "\"twice the same, 3\"");
    assert_eq!(images.address("0.img", "second"), images.address("edited.img", "second"));
    // All other variables are as they were.
    let variables = [
        "title", "rope", "note", "limit", "count", "stamp", "ratio", "raw", "primes", "names", "cells", "state",
        "items",
    ];
    for variable in variables {
        assert_eq!(images.show("0.img", variable), images.show("edited.img", variable));
    }
}

#[test]
fn a_shared_record_is_copied_for_the_path_that_changes_it() {
    for name in ["edits", "edits32"] {
        let images = Images::after(name, &["prepare(3)"]);
        assert_eq!(images.address("0.img", "left"), images.address("0.img", "right"));
        images.edit_all(&[
            ("left.inner.number", "4"),
            ("right.inner.name", "\"the right one\""),
            ("left.mark", "\"LEFT or right\""),
            ("origin.name", "\"another origin\""),
            ("origin.amount", "2"),
            ("places[1]", "\"somewhere else\""),
        ]);
        let mut program = images.load("edited.img");
        let expected = "left = {inner = {name = \"inner 3\"; number = 4}; mark = \"LEFT or right\"}; \
            origin = \"another origin\"; places = [var \"here\", \"somewhere else\"]; \
            right = {inner = {name = \"the right one\"; number = 3}; mark = \"left or right\"}; visits = 2";
        assert_eq!(state(&mut program, "pairs()"), expected, "{name}");
        reply(&mut program, "waste(100, 100_000)");
        assert_eq!(state(&mut program, "pairs()"), expected, "{name}");
        images.write(&program, "collected.img");
        assert_eq!(images.show("collected.img", "right.inner.name"), "\"the right one\"");
    }
}

#[test]
fn closures_show_what_they_captured() {
    for (width, name) in ["edits", "edits32", "edits32-incremental"].into_iter().enumerate() {
        let (steps, greet) = (STEPS[width.min(1)], GREET[width.min(1)]);
        let images = Images::after(name, &["prepare(3)", "step(1, 4)"]);
        let show = |path: &str| images.show("0.img", path);
        assert_eq!(show(&format!("{steps}[1]")), "func count {\n  var calls = 7;\n  what = \"ticks\"\n}", "{name}");
        assert_eq!(show(steps), "[func add { amount = 3 }, func count { var calls = 7; what = \"ticks\" }]", "{name}");
        assert_eq!(show(greet), "func @anon-func-47.14 {\n  ending = { mark = \"!\"; times = 3 }\n}", "{name}");
        assert_eq!(show(&format!("{greet}.ending.mark")), "\"!\"");
        assert_eq!(show(&format!("{steps}[1].(captured 0)")), "7");
        let ways = images.look("0.img", |heap, examination| {
            let view = heap.view(examination, &format!("{greet}.ending"), 1).unwrap();
            let wrong = heap.view(examination, &format!("{greet}.start"), 1).unwrap_err().to_string();
            (view.referrers.first[0].step.clone(), view.path.unwrap().to_string(), wrong)
        });
        let wrong = format!("'{greet}' captured no 'start'; it captured: ending");
        assert_eq!(ways, (".ending".to_owned(), format!("{greet}.ending"), wrong));
    }
}

#[test]
fn what_cannot_be_done_safely_is_refused() {
    let images = Images::after("edits", &["prepare(3)"]);
    let refused = |images: &Images, path: &str, value: &str, why: &str| {
        let error = images.edit("0.img", path, value).unwrap_err();
        assert!(error.contains(why), "{path}: {error}");
    };
    refused(&images, "items", "7", "it has parts (Array_I); name one of them");
    refused(&images, "count", "-1", "it is a Nat, and '-1' is none");
    refused(&images, "title", "null", "it is a Text, which is never null");
    refused(&images, "primes", "[1, two]", "element 1: 'two' is no whole number");
    refused(&images, "primes", "[var 1]", "write it without 'var'");
    refused(&images, "names", "[ada]", "write it in quotes");
    refused(&images, "stamp", "18446744073709551616", "it is a Nat64");
    refused(&images, "stamp", "5 : Nat8", "it is a Nat64, no Nat8");
    refused(&images, "limit", "\"five\"", "is no whole number");
    let title = format!("{:#x}", images.address("0.img", "title"));
    refused(&images, &title, "\"longer than before\"", "name it by a way from a variable");
    refused(&images, "title", &"x".repeat(64 << 20), "and the heap has room for");
    let generational = Images::after("edits32-generational", &["prepare(3)"]);
    refused(
        &generational,
        "title",
        "\"longer than before\"",
        "the collector (generational, 32 bits) would not find it",
    );
    let incremental = Images::after("edits32-incremental", &["prepare(3)"]);
    refused(
        &incremental,
        "title",
        "\"longer than before\"",
        "the state of this collector (incremental, 32 bits) is not known",
    );
    let copying = Images::after("edits32", &["prepare(3)"]);
    refused(&copying, "note", "null", "whose address is not known");
    refused(&copying, "count", "5 : Nat64", "it is a Nat, no Nat64");
}

#[test]
fn nothing_is_added_while_a_collection_runs() {
    let images = Images::after("edits", &["prepare(3)"]);
    let path = images.path("0.img");
    let mut bytes = std::fs::read(&path).unwrap();
    for phase in [2, 3, 4] {
        bytes[0x48_00a0] = phase;
        std::fs::write(&path, &bytes).unwrap();
        for (variable, value) in [("title", "\"longer than before\""), ("note", "\"x\"")] {
            let error = images.edit("0.img", variable, value).unwrap_err();
            assert!(error.contains("a collection is running; call the program until it has ended"), "{error}");
        }
        assert_eq!(images.edit("0.img", "count", "8"), Ok("7".to_owned()), "a word is changed in its place");
    }
}
