//! Real scripts over real images, in `highwater-movm` alone and through `highwater image eval`.

mod folder;

use folder::{Folder, MOVM, highwater};
use std::process::Command;

fn ledger() -> Folder {
    Folder::with_all(&[("ledger-2.img", "a.img"), ("ledger.wasm", "a.wasm")])
}

impl Folder {
    #[track_caller]
    fn gives(&self, script: &str, wanted: &str) {
        let output = self.movm(&["a.img", "--module", "a.wasm", "--expression", script]);
        let (printed, said) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned());
        assert_eq!((printed.trim_end(), said.as_str()), (wanted, ""), "{script}");
        assert!(output.status.success());
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str], place: &str, words: &str) {
        let output = self.movm(&[&["a.img", "--module", "a.wasm"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{arguments:?}: {said}");
        assert!(said.starts_with(place) && said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn bytes_and_numbers_are_those_of_the_image() {
    let folder = ledger();
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
    folder.gives("(image.size() / 65536, [1, 2], ?3, { x = \"é\" })", "(95, [1, 2], ?3, {x = \"é\"})");
}

#[test]
fn objects_are_those_of_the_heap() {
    let folder = ledger();
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
    let folder = Folder::with_all(&[("ledger32-1.img", "a.img"), ("ledger32.wasm", "a.wasm")]);
    folder.gives("image.size()", "2228224");
    let live = "var n = 0; for (o in image.objects(\"Object\").vals()) { if (image.retained(o) > 0) { n += 1 } }; n";
    folder.gives(live, "200");
}

#[test]
fn whatever_ends_a_script_is_one_line_with_its_place() {
    let folder = ledger();
    let fails = |script: &str, place: &str, words: &str| folder.fails(&["--expression", script], place, words);
    fails("10 / 0", "expression:1:", "a division by zero");
    fails("let x = 1;\n  x / (x - 1)", "expression:2:", "a division by zero");
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
    fails("1 + \"a\"", "expression:1:3: ", "Nat and Text have no such operator");
    fails("image.field(image.objects(\"Object\")[4], 7)", "expression:1:7: ", "a name is a Text");
}

#[test]
fn steps_time_and_memory_are_limited() {
    let folder = ledger();
    let endless = "var n = 0;\nwhile true { n += 1 }";
    folder.fails(&["--expression", endless, "--steps", "10000"], "expression:2:", "did not end within 10000 steps");
    folder.fails(&["--expression", endless, "--seconds", "1"], "expression:2:", "did not end within 1 s");
    let grows = "var x = 2;\nwhile true { x := x * x }";
    folder.fails(&["--expression", grows, "--memory", "50000000"], "expression:2:", "needs more memory");
    let deep = "func f(n : Nat) : Nat { f(n + 1) + 1 };\nf(0)";
    folder.fails(&["--expression", deep, "--memory", "1000000000"], "expression:1:", "nests too deeply");
    let parentheses = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    folder.fails(&["--expression", &parentheses], "expression:1:", "nests too deeply");
    let native = "func f(x : Nat) : [Nat] { [1].map(f) };\nf(0)";
    folder.fails(&["--expression", native, "--memory", "1000000000"], "expression:1:", "nests too deeply");
}

#[test]
fn images_that_are_none_are_said_to_be_none() {
    let folder = ledger();
    std::fs::write(folder.0.join("a.img"), b"hello").unwrap();
    folder.gives("image.size()", "5");
    folder.gives("image.text(0)", "\"hello\"");
    folder.fails(&["--expression", "image.count(\"Text\")"], "expression:1:", "no heap is found");
    std::fs::write(folder.0.join("a.img"), b"").unwrap();
    folder.gives("image.size()", "0");
    std::fs::remove_file(folder.0.join("a.img")).unwrap();
    folder.fails(&["--expression", "1"], "a.img: ", "No such file");
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
    let folder = ledger();
    let one = |code, printed: &str, said: &str| (code, printed.to_owned(), said.to_owned());
    assert_eq!(eval(&folder, &["image.size()", "-f", "a.img"]), one(0, "6225920\n", ""));
    std::fs::write(folder.0.join("s.mo"), "// a script\nlet n = image.count(\"Object\");\nn * 2\n").unwrap();
    assert_eq!(eval(&folder, &["-s", "s.mo", "-f", "a.img"]), one(0, "10268\n", ""));
    std::fs::write(folder.0.join("bad.mo"), "let n = 0;\n\n10 / n\n").unwrap();
    let (code, printed, said) = eval(&folder, &["-s", "bad.mo", "-f", "a.img"]);
    assert_eq!((code, printed.as_str(), said.lines().count()), (1, "", 1));
    assert!(said.starts_with("highwater: bad.mo:3:"), "{said}");
    let (code, printed, _) = eval(&folder, &["-p", "1 + 2"]);
    assert!(code == 0 && printed.contains("Binary(") && printed.contains("Add"), "{printed}");
    let (code, _, said) = eval(&folder, &["image.size()"]);
    assert_eq!((code, said.as_str()), (1, "highwater: no image was pulled yet; name one with -f\n"));
    let (code, printed, _) = eval(&folder, &["image.size()", "-f", "a.img", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &document["schema"], &document["result"]), (0, &2.into(), &"6225920".into()));
    assert_eq!(document["files"], serde_json::json!(["a.img"]));
}

#[test]
fn the_image_that_was_captured_last_is_the_usual_one() {
    let folder = ledger();
    let mut command = Command::new(highwater());
    command.current_dir(&folder.0).env("XDG_STATE_HOME", &folder.0);
    command.args(["image", "run", "a.wasm", "--call", "open(100)", "--snapshot", "new.img"]);
    assert!(command.output().unwrap().status.success());
    let (code, printed, said) = eval(&folder, &["image.count(\"Object\")"]);
    assert_eq!((code, said.contains("new.img")), (0, true), "{said}");
    assert!(printed.trim().parse::<u64>().unwrap() >= 200, "{printed}");
}

#[test]
fn several_images_are_an_array() {
    let files = [("ledger-1.img", "one.img"), ("ledger-2.img", "two.img"), ("ledger.wasm", "a.wasm")];
    let folder = Folder::with_all(&files);
    let both = |script: &str| {
        let arguments = [script, "-f", "one.img", "-f", "two.img", "--module", "a.wasm", "--module", "a.wasm"];
        eval(&folder, &arguments)
    };
    let prints = |printed: &str| (0, format!("{printed}\n"), String::new());
    assert_eq!(both("images.size()"), prints("2"));
    assert_eq!(both("(image.size(), images[0].size(), images[1].size())"), prints("(5439488, 5439488, 6225920)"));
    assert_eq!(both("images[1].count(\"Object\") - images[0].count(\"Object\")"), prints("4347"));
    let names = "var names = \"\"; for (i in images.vals()) { names #= i.name() # \" \" }; names";
    assert_eq!(both(names), prints("\"one.img two.img \""));
    let (code, _, said) = both("images[2]");
    assert_eq!((code, said.contains("there is no element 2: the array has 2")), (1, true), "{said}");
    let (code, _, said) = eval(&folder, &["1", "-f", "one.img", "--module", "a.wasm", "--module", "a.wasm"]);
    assert_eq!((code, said.contains("more modules than images")), (2, true), "{said}");
    // Modules are taken in the order of the images.
    let order = ["1", "-f", "one.img", "-f", "two.img", "--module", "a.wasm", "--module", "gone.wasm"];
    let (code, _, said) = eval(&folder, &order);
    assert_eq!((code, said.contains("gone.wasm")), (1, true), "{said}");
    assert_eq!(eval(&folder, &order[..7]), prints("1"));
}

#[test]
fn bytes_are_iterated_without_a_copy() {
    let folder = ledger();
    let zeros = "var n = 0; for (b in image.vals()) { if (b == 0) { n += 1 } }; n";
    let bytes = std::fs::read(folder.0.join("a.img")).unwrap();
    let counted = bytes.iter().filter(|&&byte| byte == 0).count();
    folder.gives(zeros, &counted.to_string());
    let output = folder.movm(&["a.img", "--expression", zeros, "--memory", "1000000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.gives("import Iter \"mo:base/Iter\"; Iter.size(Iter.take(image.vals(), 10))", "10");
}

#[test]
fn what_scripts_do_not_have_is_said_with_the_alternative() {
    let folder = ledger();
    let fails = |script: &str, place: &str, words: &str| folder.fails(&["--expression", script], place, words);
    fails("actor { }", "expression:1:1: ", "write its functions at the top level");
    fails("let x = 1;\nlet y = async x;", "expression:2:9: ", "write the expression without it");
    fails("let y = await f();", "expression:1:9: ", "write the expression without it");
    fails("try { 1 } catch (e) { 2 }", "expression:1:1: ", "'switch' on it");
    fails("shared func f() {}", "expression:1:1: ", "write 'func' without 'shared'");
    fails("if (1 == 1 && 2 == 2) { 1 }", "expression:1:12: ", "write 'and' instead of &&");
    fails("var i = 0; i++", "expression:1:13: ", "write 'i += 1' instead of i++");
    fails("let x = 1; x = 2", "expression:1:14: ", "write ':=' to assign");
    fails("let x = 1; x := 2", "expression:1:12: ", "declare it with: var x");
    fails("let a = [1]; a[0] := 2", "expression:1:15: ", "write [var …]");
    fails("let x = 1\nlet y = 2", "expression:2:1: ", "';' is missing before 'let'");
    fails("Array.map([1], func x = x)", "expression:1:1: ", "import Array \"mo:base/Array\"");
    fails("import Time \"mo:base/Time\"; 1", "expression:1:1: ", "its result depends on the image only");
    fails("import R \"mo:base/RBTree\"; 1", "expression:1:1: ", "import Map \"mo:core/Map\"");
    fails("import M \"./module\"; 1", "expression:1:1: ", "not files");
    fails("\"a\" # 1", "expression:1:5: ", "write debug_show(x) or Nat.toText(x)");
    fails("\"a\" + \"b\"", "expression:1:5: ", "write a # b to join texts");
    fails("1.5 + 2", "expression:1:5: ", "2.0 instead of 2");
    fails("3 - 5", "expression:1:3: ", "write the type Int");
    fails("(255 : Nat8) + 1", "expression:1:14: ", "arithmetic overflow");
    fails("for (x in 5) {}", "expression:1:1: ", "write xs.vals()");
    fails("for x in [1].vals() {}", "expression:1:5: ", "for (x in xs.vals())");
    fails("switch (?1) { case null 0 }", "expression:1:1: ", "no case matches ?1");
    fails("let ?x = null : ?Nat; x", "expression:1:1: ", "else { … }");
    fails("[1, 2].length()", "expression:1:8: ", "it has all, any");
    fails("{ let x = 1; x }", "expression:1:3: ", "a block is written: do { … }");
    fails("return 5", "expression:1:1: ", "the last expression of a script is its result");
    fails("import Debug \"mo:base/Debug\"; Debug.trap(\"my own words\")", "expression:1:", "my own words");
}
