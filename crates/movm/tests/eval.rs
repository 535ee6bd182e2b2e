//! Real scripts over real images, in `highwater-movm` alone and through `highwater image eval`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

const MOVM: &str = env!("CARGO_BIN_EXE_highwater-movm");

/// A folder with an image and its module, gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn with(image: &str, module: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("eval-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../image/tests/fixtures/motoko");
        for (name, to) in [(format!("{image}.img"), "a.img"), (format!("{module}.wasm"), "a.wasm")] {
            let packed = std::fs::File::open(fixtures.join(format!("{name}.zst"))).unwrap();
            std::fs::write(folder.join(to), zstd::decode_all(packed).unwrap()).unwrap();
        }
        Self(folder)
    }

    fn ledger() -> Self {
        Self::with("ledger-2", "ledger")
    }

    fn movm(&self, arguments: &[&str]) -> Output {
        Command::new(MOVM).current_dir(&self.0).args(["a.img", "--module", "a.wasm"]).args(arguments).output().unwrap()
    }

    #[track_caller]
    fn gives(&self, script: &str, wanted: &str) {
        let output = self.movm(&["--expression", script]);
        let (printed, said) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned());
        assert_eq!((printed.trim_end(), said.as_str()), (wanted, ""), "{script}");
        assert!(output.status.success());
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str], place: &str, words: &str) {
        let output = self.movm(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{arguments:?}: {said}");
        assert!(said.starts_with(place) && said.contains(words), "{arguments:?}: {said}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn bytes_and_numbers_are_those_of_the_image() {
    let folder = Folder::ledger();
    folder.gives("image.size()", "6225920");
    folder.gives("image[0x480000]", "77");
    folder.gives("image.nat8(0x480004)", "79");
    folder.gives("image.nat16(0x481cb8 + 2)", "80");
    folder.gives("image.nat32(0x481cb8)", "5242880");
    folder.gives("image.nat64(0x481cb8)", "5242880");
    folder.gives("image.slice(0x480000, 8)", "\"M\\00\\00\\00O\\00\\00\\00\"");
    folder.gives("let at = image.find(\"owner-17\")[0]; image.slice(at, 8)", "\"owner-17\"");
    folder.gives("image.find(\"nowhere at all\").size()", "0");
    folder.gives("image.pages()[0]", "63");
    folder.gives("(image.size() / 65536, [1, 2], ?3, { x = \"é\" })", "(95, [1, 2], ?3, { x = \"é\" })");
}

#[test]
fn objects_are_those_of_the_heap() {
    let folder = Folder::ledger();
    // As the fixture's ground truth has them.
    folder.gives("image.count(\"Object\")", "5134");
    folder.gives("image.count(\"Variant\")", "4736");
    folder.gives("image.objects(\"Text\").size()", "2589");
    folder.gives("image.count(\"WeakRef\")", "0");
    folder.gives(
        "let o = image.objects(\"Object\")[4]; image.field(image.field(o, \"account\"), \"owner\")",
        "\"owner-1\"",
    );
    folder.gives("let o = image.objects(\"Object\")[4]; image.field(image.field(o, \"account\"), \"balance\")", "10");
    let live = "var n = 0; for (o in image.objects(\"Object\").vals()) { if (image.retained(o) > 0) { n += 1 } }; n";
    folder.gives(live, "1000");
    folder.gives("image.text(image.objects(\"Text\")[3])", "\"Async stabilization increment call failed\"");
}

#[test]
fn a_heap_of_32_bits_is_looked_at_likewise() {
    let folder = Folder::with("ledger32-1", "ledger32");
    folder.gives("image.size()", "2228224");
    let live = "var n = 0; for (o in image.objects(\"Object\").vals()) { if (image.retained(o) > 0) { n += 1 } }; n";
    folder.gives(live, "200");
}

#[test]
fn whatever_ends_a_script_is_one_line_with_its_place() {
    let folder = Folder::ledger();
    let fails = |script: &str, place: &str, words: &str| folder.fails(&["--expression", script], place, words);
    fails("10 / 0", "expression:1:", "divide by zero");
    fails("let x = 1;\n  x / (x - 1)", "expression:2:", "divide by zero");
    fails("let x = ", "expression:1:", "syntax: it ends too early");
    fails("1 +* 2", "expression:1:4: ", "syntax: '*' is not expected");
    fails("assert false", "expression:1:", "an assertion failed");
    fails("nothing", "expression:1:1: ", "nothing is called 'nothing'");
    fails("image.shrink()", "expression:1:", "image has no 'shrink'");
    fails("image.size(1)", "expression:1:", "does not take 1 arguments");
    fails("image[image.size()]", "expression:1:", "beyond the end of the image");
    fails("image.nat64(image.size() - 7)", "expression:1:", "beyond the end of the image");
    fails("image.slice(0, 99999999999999999999999)", "expression:1:", "beyond the end of the image");
    fails("image.objects(\"Thing\")", "expression:1:", "no kind is called 'Thing'");
    fails("image.objects(\"Text\")[1000000]", "expression:1:", "there is no element 1000000");
    fails("image.field(3, \"owner\")", "expression:1:", "no object begins at 0x3");
    fails("1 + \"a\"", "expression:1:", "the interpreter gave up");
}

#[test]
fn steps_time_and_memory_are_limited() {
    let folder = Folder::ledger();
    let endless = "var n = 0;\nwhile true { n += 1 }";
    folder.fails(&["--expression", endless, "--steps", "10000"], "expression:2:", "did not end within 10000 steps");
    folder.fails(&["--expression", endless, "--seconds", "1"], "expression:2:", "did not end within 1 s");
    let grows = "var x = 2;\nwhile true { x := x * x }";
    folder.fails(&["--expression", grows, "--memory", "50000000"], "expression:2:", "needs more memory");
    let deep = "func f(n : Nat) : Nat { f(n + 1) + 1 };\nf(0)";
    folder.fails(&["--expression", deep, "--memory", "50000000"], "expression:1:", "needs more memory");
}

#[test]
fn images_that_are_none_are_said_to_be_none() {
    let folder = Folder::ledger();
    std::fs::write(folder.0.join("a.img"), b"hello").unwrap();
    folder.gives("image.size()", "5");
    folder.gives("image.text(0)", "\"hello\"");
    folder.fails(&["--expression", "image.count(\"Text\")"], "expression:1:", "no heap is found");
    std::fs::write(folder.0.join("a.img"), b"").unwrap();
    folder.gives("image.size()", "0");
    std::fs::remove_file(folder.0.join("a.img")).unwrap();
    folder.fails(&["--expression", "1"], "a.img: ", "No such file");
}

/// The command, which `./test` has built before.
fn highwater() -> PathBuf {
    let named = std::env::var_os("HIGHWATER").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/highwater");
    let highwater = named.unwrap_or(usual);
    assert!(highwater.exists(), "{} is missing: 'cargo build -p highwater-cli' makes it", highwater.display());
    highwater
}

fn eval(folder: &Folder, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(highwater());
    command.current_dir(&folder.0).env("HIGHWATER_MOVM", MOVM).env("XDG_STATE_HOME", &folder.0);
    let output = command.args(["image", "eval"]).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_finds_image_module_and_program() {
    let folder = Folder::ledger();
    let one = |code, printed: &str, said: &str| (code, printed.to_owned(), said.to_owned());
    assert_eq!(eval(&folder, &["image.size()", "-f", "a.img"]), one(0, "6225920\n", ""));
    std::fs::write(folder.0.join("s.mo"), "// a script\nlet n = image.count(\"Object\");\nn * 2\n").unwrap();
    assert_eq!(eval(&folder, &["-s", "s.mo", "-f", "a.img"]), one(0, "10268\n", ""));
    std::fs::write(folder.0.join("bad.mo"), "let n = 0;\n\n10 / n\n").unwrap();
    let (code, printed, said) = eval(&folder, &["-s", "bad.mo", "-f", "a.img"]);
    assert_eq!((code, printed.as_str(), said.lines().count()), (1, "", 1));
    assert!(said.starts_with("highwater: bad.mo:3:"), "{said}");
    let (code, printed, _) = eval(&folder, &["-p", "1 + 2"]);
    assert!(code == 0 && printed.contains("Bin(") && printed.contains("Add"), "{printed}");
    let (code, _, said) = eval(&folder, &["image.size()"]);
    assert_eq!((code, said.as_str()), (1, "highwater: no image was pulled yet; name one with -f\n"));
    let (code, printed, _) = eval(&folder, &["image.size()", "-f", "a.img", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &document["schema"], &document["result"]), (0, &2.into(), &"6225920".into()));
}

#[test]
fn the_image_that_was_captured_last_is_the_usual_one() {
    let folder = Folder::ledger();
    let mut command = Command::new(highwater());
    command.current_dir(&folder.0).env("XDG_STATE_HOME", &folder.0);
    command.args(["image", "run", "a.wasm", "--call", "open(100)", "--snapshot", "new.img"]);
    assert!(command.output().unwrap().status.success());
    let (code, printed, said) = eval(&folder, &["image.count(\"Object\")"]);
    assert_eq!((code, said.contains("new.img")), (0, true), "{said}");
    assert!(printed.trim().parse::<u64>().unwrap() >= 200, "{printed}");
}
