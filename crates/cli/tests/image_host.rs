//! Real modules in real processes: `image host` and its clients, and `image run`.

mod support;

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{HIGHWATER, Place, Run, live::wait_for};

/// The fixtures' own hashes of their images.
const LEDGER_1: &str = "39648881322c6d2c";

fn put_module(place: &Place, name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = ["host/tests/fixtures", "image/tests/fixtures/motoko", "image/tests/fixtures/wasm"];
    let mut paths = folders.iter().map(|folder| crates.join(folder).join(format!("{name}.wasm.zst")));
    let packed = paths.find(|path| path.exists()).expect("the fixture is there");
    place.write(&format!("{name}.wasm"), zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap())
}

/// A host, killed when dropped.
struct Host {
    child: Child,
    socket: PathBuf,
}

impl Host {
    fn start(place: &Place, name: &str, options: &[&str]) -> Self {
        let module = put_module(place, name);
        // Socket paths must be short.
        let unique = place.path().file_name().unwrap().to_str().unwrap();
        let socket = std::env::temp_dir().join(format!("hw-image-{unique}.sock"));
        let mut command = place.command(["image", "host"]);
        command.arg(module).args(options).arg("--socket").arg(&socket).stdin(Stdio::null()).stderr(Stdio::null());
        let host = Self { child: command.spawn().unwrap(), socket };
        wait_for("the host", || host.run(place, &["info"]).code == 0);
        host
    }

    fn run(&self, place: &Place, arguments: &[&str]) -> Run {
        let mut command = place.command([&["image"], arguments].concat());
        command.arg("--socket").arg(&self.socket).env("XDG_STATE_HOME", place.path());
        Run::of(command.output().unwrap())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(self.socket.with_added_extension("lock"));
    }
}

#[test]
fn the_help_of_every_subcommand_has_examples_that_fit() {
    let place = Place::new();
    for command in ["host", "call", "info", "create", "update", "pull", "run", "eval"] {
        let run = place.highwater(&format!("image {command} --help"));
        run.stdout_has(&["Examples:\n", &format!("  highwater image {command}")]);
        for line in run.stdout.lines().filter(|line| line.starts_with("  highwater")) {
            assert!(line.chars().count() <= 83, "{line}");
        }
    }
}

#[test]
fn a_hosted_canister_is_called_captured_and_pulled() {
    let place = Place::new();
    let host = Host::start(&place, "ledger", &[]);
    let called = host.run(&place, &["call", "open", "(100)"]);
    assert_eq!(called.stdout, "(100 : nat)\n");
    assert!(called.stderr.contains("STAT open heap="), "{}", called.stderr);
    host.run(&place, &["info"]).stdout_has(&["ledger.wasm", "after 1 call", "none yet"]);
    assert!(host.run(&place, &["create"]).stdout.starts_with("snapshot 1: 5.2 MiB, 216.0 KiB in use"));
    let pulled = host.run(&place, &["pull", "-f", "one.img"]);
    pulled.stdout_has(&["one.img: snapshot 1, 5.2 MiB (216.0 KiB received)", LEDGER_1]);
    let about = std::fs::metadata(place.file("one.img")).unwrap();
    assert_eq!(about.len(), 5_439_488);
    assert!(about.blocks() * 512 < 1 << 20, "{} blocks: it is not sparse", about.blocks());
    host.run(&place, &["pull", "-f", "one.img"]).is_one_clear_line_about(&["one.img exists", "--force"]);
    host.run(&place, &["call", "open(400)"]);
    assert!(host.run(&place, &["update"]).stdout.starts_with("snapshot 2: "));
    host.run(&place, &["pull", "--id", "1"]).is_one_clear_line_about(&["no snapshot 1 any more", "the last one is 2"]);
    let document: serde_json::Value = serde_json::from_str(&host.run(&place, &["pull", "--json"]).stdout).unwrap();
    assert_eq!((&document["schema"], &document["snapshot"]["id"]), (&2.into(), &2.into()));
    let name = document["file"].as_str().unwrap();
    assert!(name.starts_with("ledger_2") && place.file(name).exists(), "{name}");
    assert_eq!(
        std::fs::read_to_string(place.file("highwater/latest-image")).unwrap(),
        place.file(name).display().to_string()
    );
}

#[test]
fn calls_that_go_wrong_are_one_clear_line() {
    let place = Place::new();
    let host = Host::start(&place, "busy", &["--instructions", "100000000"]);
    let wrong = |arguments: &[&str], words: &[&str]| {
        let run = host.run(&place, arguments);
        run.is_one_clear_line_about(words);
    };
    wrong(&["call", "trapNow", "(5)"], &["trapNow was refused (code 5)", "on purpose"]);
    wrong(&["call", "nothing"], &["no method is called 'nothing'", "addTwice"]);
    wrong(&["call", "add", "(\"x\")"], &["add: argument 1: a text where nat is taken"]);
    wrong(&["call", "add", "(1"], &["add: it ends where"]);
    wrong(&["call", "add"], &["0 arguments where 1 are taken"]);
    wrong(&["call", "forever"], &["did not end within 100000000 instructions"]);
    wrong(&["pull"], &["no snapshot yet"]);
    assert_eq!(host.run(&place, &["call", "addTwice(3)"]).stdout, "(9 : nat)\n");
    assert_eq!(host.run(&place, &["call", "startTimer(5)"]).stdout.lines().count(), 1);
    assert_eq!(host.run(&place, &["call", "--after", "6s"]).stdout, "");
    let looked = host.run(&place, &["call", "look", "--after", "1s"]);
    assert_eq!(looked.stdout, "(6 : nat, \"before;between;after;tick;\", 1 : nat)\n");
    let wrong_usage = host.run(&place, &["call", "look", "--after", "soon"]);
    assert_eq!(wrong_usage.code, 2);
}

#[test]
fn a_socket_has_one_host_and_a_killed_one_leaves_it_free() {
    let place = Place::new();
    let mut host = Host::start(&place, "ledger", &[]);
    let second = host.run(&place, &["host", "ledger.wasm"]);
    let pid = host.child.id().to_string();
    second.is_one_clear_line_about(&["a host already listens at", &pid, "--socket"]);
    host.run(&place, &["create"]);
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    host.run(&place, &["info"]).is_one_clear_line_about(&["no host listens at", "image host"]);
    assert!(host.socket.exists(), "what is left of the killed one");
    let again = Host::start(&place, "ledger", &[]);
    assert_eq!(again.run(&place, &["call", "open(1)"]).stdout, "(1 : nat)\n");
    place.write("busy.txt", "not a socket");
    place
        .highwater("image host ledger.wasm --socket busy.txt")
        .is_one_clear_line_about(&["busy.txt", "is not a socket"]);
    assert!(place.file("busy.txt").exists());
}

#[test]
fn a_host_that_is_killed_in_the_middle_of_a_call_is_gone() {
    let place = Place::new();
    let mut host = Host::start(&place, "busy", &[]);
    let mut call = place.command(["image", "call", "forever", "--socket"]);
    let call = call.arg(&host.socket).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The call holds the program until it ends, so no other client is answered. That shows that it has begun.
    wait_for("the call to have begun", || {
        let mut other = UnixStream::connect(&host.socket).unwrap();
        other.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        other.write_all(b"\x1e\0\0\0J{\"request\":\"info\",\"version\":1}").unwrap();
        other.read(&mut [0; 16]).is_err()
    });
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    Run::of(call.wait_with_output().unwrap()).is_one_clear_line_about(&["the host is gone"]);
}

#[test]
fn garbage_on_the_socket_disturbs_nobody() {
    let place = Place::new();
    let host = Host::start(&place, "ledger", &[]);
    for garbage in [&b"hello"[..], &[0xff; 64], b"\x10\0\0\0J", b"\0\0\0\0J"] {
        let mut connection = UnixStream::connect(&host.socket).unwrap();
        connection.write_all(garbage).unwrap();
    }
    host.run(&place, &["info"]).stdout_has(&["ledger.wasm"]);
    // The reverse case: another server listens there.
    let socket = place.path().file_name().unwrap().to_str().unwrap();
    let socket = std::env::temp_dir().join(format!("hw-other-{socket}.sock"));
    let other = UnixListener::bind(&socket).unwrap();
    let liar = std::thread::spawn(move || {
        let (mut connection, _) = other.accept().unwrap();
        let _ = connection.read(&mut [0; 64]);
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let run = place.run([Path::new("image"), Path::new("info"), Path::new("--socket"), &socket]);
    run.is_one_clear_line_about(&["not of this protocol"]);
    liar.join().unwrap();
    std::fs::remove_file(socket).unwrap();
}

#[test]
fn image_run_does_all_in_one_and_goes_on() {
    let place = Place::new();
    put_module(&place, "ledger");
    put_module(&place, "ropes");
    let run = |arguments: &[&str]| {
        let mut command = place.command([&["image", "run"], arguments].concat());
        Run::of(command.env("XDG_STATE_HOME", place.path()).output().unwrap())
    };
    let first = run(&["ledger.wasm", "--call", "open(100)", "--call", "open(400)", "--snapshot", "two.img"]);
    assert_eq!(first.stdout, "open(100) → (100 : nat)\nopen(400) → (500 : nat)\ntwo.img: 5.9 MiB, 992.0 KiB in use\n");
    let hash = |name: &str| {
        let sums = Command::new("sha256sum").arg(place.file(name)).output().unwrap();
        String::from_utf8(sums.stdout).unwrap()[..16].to_owned()
    };
    assert_eq!(hash("two.img"), "c5681c1ccfc1b583");
    let third = run(&["ledger.wasm", "--load", "two.img", "--call", "open(1500)", "--snapshot", "three.img"]);
    third.stdout_has(&["(2000 : nat)"]);
    assert_eq!(hash("three.img"), "8ca814426bb4dff2");
    let refused = |arguments: &[&str], words: &[&str]| run(arguments).is_one_clear_line_about(words);
    refused(&["ropes.wasm", "--load", "two.img"], &["an image of another module ('ledger.wasm')", "hashes differ"]);
    refused(&["ledger.wasm", "--snapshot", "two.img"], &["two.img", "exists; --force"]);
    refused(&["two.img"], &["two.img: not a WASM module"]);
    refused(&["nowhere.wasm"], &["nowhere.wasm: no such file"]);
    let sidecar = std::fs::read_to_string(place.file("two.img.json")).unwrap();
    place.write("two.img.json", sidecar.replace("\"global_1\"", "\"global_one\""));
    refused(&["ledger.wasm", "--load", "two.img"], &["lacks the global 'global_1'"]);
    std::fs::remove_file(place.file("two.img.json")).unwrap();
    refused(&["ledger.wasm", "--load", "two.img"], &["two.img.json is missing"]);
    let trapped = run(&["ledger.wasm", "--call", "nothing()", "--snapshot", "none.img"]);
    trapped.is_one_clear_line_about(&["no method is called 'nothing'"]);
    assert!(!place.file("none.img").exists());
}

#[test]
fn a_program_goes_on_with_the_value_that_was_edited() {
    let place = Place::new();
    put_module(&place, "ledger");
    let run = |line: &str| {
        let mut command = place.command(line.split_whitespace());
        let run = Run::of(command.env("XDG_STATE_HOME", place.path()).output().unwrap());
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
        run
    };
    let first = run("image run ledger.wasm --call open(100) --snapshot a.img");
    assert!(first.stderr.contains("balance=49_500"), "{}", first.stderr);
    run("image edit a.img totalBalance=7 -o b.img");
    let edited = run("image run ledger.wasm --load b.img --call stat() --call open(1)");
    assert!(edited.stderr.contains("accounts=100 gold=20 balance=7\n"), "{}", edited.stderr);
    assert!(edited.stderr.contains("accounts=101 gold=21 balance=1_007\n"), "{}", edited.stderr);
}

#[test]
fn a_plain_module_is_called_with_numbers() {
    let place = Place::new();
    put_module(&place, "leaky_c");
    let run = place.highwater("image run leaky_c.wasm --call step(400) --snapshot one.img --json");
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let printed = document["calls"][0]["printed"].as_array().unwrap();
    assert!(printed.iter().any(|line| line.as_str().unwrap().starts_with("@ ALLOCATE ")), "{}", printed.len());
    assert!(document["snapshot"]["bytes"].as_u64().unwrap() > 0);
    let refused = |call: &str, words: &[&str]| {
        place.run(["image", "run", "leaky_c.wasm", "--call", call]).is_one_clear_line_about(words);
    };
    refused("jump(1)", &["no function is called 'jump'", "step"]);
    refused("step(1, 2)", &["'step' takes 1 numbers, not 2"]);
    refused("step(1e9)", &["no whole numbers"]);
    refused("+5s", &["has no time"]);
}

#[test]
fn scripts_need_a_program_that_may_be_missing() {
    let place = Place::new();
    let mut command = place.command(["image", "eval", "image.size()", "-f", "x.img"]);
    let run = Run::of(command.env("HIGHWATER_MOVM", place.file("nothing")).output().unwrap());
    run.is_one_clear_line_about(&["is no program", "HIGHWATER_MOVM"]);
}

#[test]
fn without_the_program_for_scripts_a_line_says_how_to_build_it() {
    let place = Place::new();
    let alone = place.file("highwater");
    // Copied by another process. A file that this process has open for writing cannot be executed while any child has inherited the descriptor.
    assert!(Command::new("cp").arg(HIGHWATER).arg(&alone).status().unwrap().success());
    let mut run = Command::new(alone);
    run.args(["image", "eval", "1"]).env_remove("HIGHWATER_MOVM").env("XDG_CACHE_HOME", place.file("cache"));
    let words = ["highwater-movm, which runs scripts, is not installed", "highwater image eval --install"];
    Run::of(run.output().unwrap()).is_one_clear_line_about(&words);
}
