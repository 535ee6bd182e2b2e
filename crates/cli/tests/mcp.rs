//! `highwater mcp`: the protocol, the tools, what is refused, and a hunt for a leak by the official client.

mod support;

use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::streams::wait_until;
use support::{HIGHWATER, Place, in_the_kitchen, kitchen, programs, recorded};

/// More than an answer has: 16 KiB, the calls that come next, and JSON's own signs.
const MOST_OF_ANSWER: usize = 20 << 10;

/// Sends the lines, ends the input, and returns the messages that came. Standard output has nothing else.
fn talk(place: &Place, options: &[&str], lines: &[String]) -> Vec<Value> {
    let mut child = place
        .command([&["mcp", "."], options].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn call(id: u64, tool: &str, arguments: &Value) -> String {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

/// Calls one tool: whether it failed, and its text.
#[track_caller]
fn ask(place: &Place, tool: &str, arguments: &Value) -> (bool, String) {
    let replies = talk(place, &["--allow-record"], &[call(1, tool, arguments)]);
    assert_eq!(replies.len(), 1, "{replies:?}");
    let result = &replies[0]["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{replies:?}"));
    (result["isError"].as_bool().unwrap(), text.to_owned())
}

fn error_code(reply: &Value) -> i64 {
    reply["error"]["code"].as_i64().unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn a_conversation_begins_with_a_version_and_survives_what_is_no_message() {
    let place = in_the_kitchen();
    let lines = [
        request(1, "initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} })),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
        json!({ "jsonrpc": "2.0", "method": "notifications/of-tomorrow", "params": {} }).to_string(),
        String::new(),
        "{\"jsonrpc\":".to_owned(),
        "[]".to_owned(),
        "x".repeat(3 << 20),
        request(2, "no/such", &json!({})),
        request(3, "tools/call", &json!({ "name": "no_such", "arguments": {} })),
        request(4, "tools/call", &json!({ "arguments": {} })),
        request(5, "tools/call", &json!({ "name": "open", "arguments": [] })),
        request(6, "initialize", &json!({ "protocolVersion": "1999-01-01" })),
        request(7, "initialize", &json!({})),
        request(8, "ping", &json!({})),
    ];
    let replies = talk(&place, &[], &lines);
    assert_eq!(replies.len(), 11, "{replies:#?}");
    assert_eq!(replies[0]["id"], 1);
    assert_eq!(replies[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(replies[0]["result"]["serverInfo"]["name"], "highwater");
    assert!(replies[0]["result"]["capabilities"]["tools"].is_object());
    let codes: Vec<i64> = replies[1..8].iter().map(error_code).collect();
    assert_eq!(codes, [-32700, -32600, -32600, -32601, -32602, -32602, -32602]);
    assert_eq!((&replies[1]["id"], &replies[4]["id"]), (&Value::Null, &json!(2)));
    assert_eq!(replies[8]["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(error_code(&replies[9]), -32602);
    assert_eq!(replies[10], json!({ "jsonrpc": "2.0", "id": 8, "result": {} }));
}

#[test]
fn the_end_of_the_input_ends_the_server() {
    assert!(talk(&in_the_kitchen(), &[], &[]).is_empty());
}

#[test]
fn recording_is_a_tool_only_if_it_is_allowed() {
    let place = in_the_kitchen();
    let tools = |options: &[&str]| -> Vec<String> {
        let replies = talk(&place, options, &[request(1, "tools/list", &json!({}))]);
        let tools = replies[0]["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let usual = tools(&[]);
    for name in ["list_files", "open", "report", "leaks", "growth", "diff", "timeline", "types", "blocks", "rss"] {
        assert!(usual.iter().any(|one| one == name), "{name}: {usual:?}");
    }
    assert!(!usual.iter().any(|one| one == "record"));
    assert!(tools(&["--allow-record"]).iter().any(|one| one == "record"));
    let wanted = json!({ "program": "touch", "arguments": ["touched"], "output": "new.hw" });
    let replies = talk(&place, &[], &[call(1, "record", &wanted)]);
    assert_eq!(error_code(&replies[0]), -32602);
    assert!(replies[0]["error"]["message"].as_str().unwrap().contains("--allow-record"), "{replies:?}");
    assert!(!place.file("touched").exists());
}

#[test]
fn tools_answer_what_the_commands_print() {
    let place = in_the_kitchen();
    for (tool, arguments, line) in [
        ("report", json!({ "at": "peak", "by": "function" }), "report kitchen.hw --at peak --by function"),
        ("report", json!({ "from": "3s", "to": "mark:all done" }), "report kitchen.hw --from 3s --to 8s"),
        ("report", json!({ "filter": ["thread:2", "!bake"] }), "report kitchen.hw --filter thread:2 --filter !bake"),
        ("leaks", json!({ "stacks": "full" }), "leaks kitchen.hw --stacks full"),
        ("growth", json!({}), "growth kitchen.hw"),
        ("timeline", json!({ "height": 5 }), "timeline kitchen.hw --height 5"),
        ("types", json!({ "at": "mark:loaded" }), "report kitchen.hw --by type --at mark:loaded"),
        ("blocks", json!({ "id": 1 }), "block kitchen.hw --id 1"),
        ("blocks", json!({ "ever": true, "top": 2 }), "block kitchen.hw --ever --top 2"),
    ] {
        let mut arguments = arguments;
        arguments["file"] = "kitchen.hw".into();
        let printed = place.highwater(line);
        let (is_error, text) = ask(&place, tool, &arguments);
        assert_eq!((is_error, printed.code), (false, 0), "{tool} {arguments}: {text}");
        assert!(text.starts_with(&printed.stdout), "{tool} {arguments}: {text}\n{}", printed.stdout);
    }
    let arguments = json!({ "before": "kitchen.hw", "before_at": "mark:loaded", "after": "kitchen.hw" });
    let printed = place.highwater("diff kitchen.hw@mark:loaded kitchen.hw");
    assert!(ask(&place, "diff", &arguments).1.starts_with(&printed.stdout));
}

#[test]
fn a_limit_that_is_broken_is_an_answer() {
    let place = in_the_kitchen();
    let (is_error, text) = ask(&place, "budget", &json!({ "file": "kitchen.hw", "max-peak": "1" }));
    assert!(!is_error && text.contains("1 of 1 limit is not kept"), "{text}");
    let (is_error, text) = ask(&place, "budget", &json!({ "file": "kitchen.hw", "max-peak": "1GiB" }));
    assert!(!is_error && text.contains("kept"), "{text}");
    assert!(ask(&place, "budget", &json!({ "file": "kitchen.hw", "budget": "/etc/passwd" })).0);
    place.write("highwater.toml", "[budget]\nmax-leaked = 0\nsuppressions = [\"own.supp\"]\n");
    place.write("own.supp", "leak:^chop$\n");
    let wanted = json!({ "file": "kitchen.hw", "budget_file": "highwater.toml", "baseline": ["kitchen.hw"], "allow": "+1%",
        "suppressions": ["own.supp"], "json": true });
    let replies = talk(&place, &[], &[call(1, "budget", &wanted)]);
    let budget = &replies[0]["result"]["structuredContent"]["budget"];
    assert_eq!((&budget["kept"], &budget["limits"]), (&json!(true), &json!(6)), "{replies:?}");
    assert_eq!(budget["suppressed"][0]["blocks"], 1, "{budget}");
}

/// Files that a question needs and that its arguments do not name.
#[test]
fn files_that_other_files_name_are_below_the_folders_too() {
    let place = Place::new();
    let folder = place.file("in");
    std::fs::create_dir_all(folder.join("kitchen.children")).unwrap();
    place.import("in/kitchen.hw", &kitchen());
    // Above the folder: it would name all rows after another function.
    place.write("highwater.toml", "[names]\nallocators = [\"bake\"]\n");
    place.write("secret.supp", "a secret text\n");
    std::fs::copy(place.file("in/kitchen.hw"), place.file("secret.hw")).unwrap();
    std::os::unix::fs::symlink("../../secret.hw", folder.join("kitchen.children/9-secret.hw")).unwrap();
    let ask = |tool: &str, arguments: &Value| {
        let mut child = place.command(["mcp", "in"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{}", call(1, tool, arguments)).unwrap();
        let output = child.wait_with_output().unwrap();
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        let result = &reply["result"];
        (result["isError"].as_bool().unwrap(), result["content"][0]["text"].as_str().unwrap().to_owned())
    };
    let (is_error, text) = ask("report", &json!({ "file": "kitchen.hw", "at": "peak" }));
    assert!(!is_error && text.contains("bake  "), "{text}");
    let (is_error, text) = ask("budget", &json!({ "file": "kitchen.hw", "max-peak": "1GiB" }));
    assert!(!is_error && text.contains("The limit is kept.") && !text.contains("secret"), "{text}");
    for (key, value) in [
        ("budget_file", json!("../highwater.toml")),
        ("baseline", json!(["../secret.hw"])),
        ("baseline", json!([place.file("secret.hw")])),
        ("suppressions", json!(["/etc/passwd"])),
    ] {
        let (is_error, text) = ask("budget", &json!({ "file": "kitchen.hw", "max-leaked": "0", key: value }));
        assert!(is_error && text.contains("is refused"), "{key}: {text}");
    }
    for name in ["../secret.supp", place.file("secret.supp").to_str().unwrap()] {
        place.write("in/limits.toml", format!("[budget]\nmax-leaked = 0\nsuppressions = [\"{name}\"]\n"));
        let (is_error, text) = ask("budget", &json!({ "file": "kitchen.hw", "budget_file": "limits.toml" }));
        assert!(is_error && text.contains("outside of the permitted folders") && !text.contains("text"), "{text}");
    }
    // The project's own file, as a link to one outside and as a pipe.
    std::os::unix::fs::symlink("../highwater.toml", folder.join("highwater.toml")).unwrap();
    let (is_error, text) = ask("report", &json!({ "file": "kitchen.hw" }));
    assert!(is_error && text.contains("highwater.toml") && text.contains("outside of the permitted"), "{text}");
    std::fs::remove_file(folder.join("highwater.toml")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("highwater.toml")).status().unwrap().success());
    let (is_error, text) = ask("report", &json!({ "file": "kitchen.hw" }));
    assert!(is_error && text.contains("no regular file"), "{text}");
}

/// Asks a server for the folder `in`, with a cache of names in `cache`.
fn ask_below(place: &Place, tool: &str, arguments: &Value) -> (bool, String) {
    let mut command = place.command(["mcp", "in"]);
    command.env("XDG_CACHE_HOME", place.file("cache")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{}", call(1, tool, arguments)).unwrap();
    let output = child.wait_with_output().unwrap();
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &reply["result"];
    (result["isError"].as_bool().unwrap(), result["content"][0]["text"].as_str().unwrap().to_owned())
}

/// Ends a program that would never end, also if the test fails.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program outside of the folder, whose functions have names.
fn program_outside(place: &Place) -> PathBuf {
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
                  __attribute__((noinline)) void *outside_maker(int size) { void *volatile block = malloc(size); return block; }\n\
                  int main(void) { for (int i = 0; i < 100000; i++) outside_maker(100); pause(); return 0; }\n";
    place.write("outside.c", source);
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O0", "-no-pie", "-Wl,--build-id", "outside.c", "-o", "outside"]).current_dir(place.path());
    recorded::run(&mut compiler).succeeded();
    std::fs::create_dir_all(place.file("in")).unwrap();
    place.file("outside")
}

#[test]
fn modules_that_an_unfinished_recording_names_are_not_opened_and_nothing_is_cached() {
    let place = Place::new();
    let program = program_outside(&place);
    let mut recorder = place.command(["record", "--no-children", "-o", "in/growing.hw", "--"]);
    recorder.arg(&program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = Ended(recorder.spawn().unwrap());
    // Without a server, the names are looked for in the program's file.
    let report = || {
        let mut command = place.command(["report", "in/growing.hw"]);
        let output = command.env("XDG_CACHE_HOME", place.file("own-cache")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    wait_until("the recording has the program's blocks", || report().contains("outside_maker"));
    assert!(place.file("own-cache").exists());
    let (is_error, text) = ask_below(&place, "report", &json!({ "file": "growing.hw" }));
    assert!(!is_error && !text.contains("outside_maker"), "{text}");
    assert!(!place.file("cache").exists());
    let children = format!("/proc/{0}/task/{0}/children", recorder.0.id());
    let children = std::fs::read_to_string(children).unwrap();
    recorder.0.kill().unwrap();
    for child in children.split_whitespace() {
        let _ = Command::new("kill").args(["-9", child]).status();
    }
}

#[test]
fn modules_that_a_file_of_another_tool_lists_are_not_opened() {
    let place = Place::new();
    let program = program_outside(&place);
    let symbols = Command::new("nm").arg(&program).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let line = symbols.lines().find(|line| line.ends_with(" T outside_maker")).unwrap();
    let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let parts = highwater_symbols::ModuleIdentity::of(&program).unwrap().segments;
    let parts: String = parts.iter().map(|(at, size)| format!(" {at:x} {size:x}")).collect();
    let path = program.to_str().unwrap();
    place.write(
        "in/heaptrack.out",
        format!(
            "v 10400 3\nx {:x} {path}\nX ./outside\nI 1000 10\nm 1 -\nm 1 x 0{parts}\nt {:x} 0\n+ 20 1 7000\nc 3\n",
            path.len(),
            address + 5
        ),
    );
    let own = place.highwater("report in/heaptrack.out");
    assert!(own.stdout.contains("outside_maker"), "{own:?}");
    let (is_error, text) = ask_below(&place, "report", &json!({ "file": "heaptrack.out" }));
    assert!(!is_error && !text.contains("outside_maker"), "{text}");
    assert!(!place.file("cache").exists());
}

#[test]
fn files_beside_an_image_are_not_read_where_links_lead_outside() {
    let place = Place::new();
    std::fs::create_dir(place.file("in")).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../image/tests/fixtures/motoko");
    let image = std::fs::File::open(fixtures.join("ledger-1.img.zst")).unwrap();
    place.write("in/x.img", zstd::decode_all(image).unwrap());
    std::fs::rename(place.module("ledger"), place.file("in/secret.wasm")).unwrap();
    place.write("secret.json", r#"{"version":1,"module":{"name":"secret.wasm"},"calls":["open(100)"]}"#);
    let sidecar = place.file("in/x.img.json");
    std::os::unix::fs::symlink("../secret.json", &sidecar).unwrap();
    let (_, text) = ask_below(&place, "open", &json!({ "file": "x.img" }));
    assert!(!text.contains("secret"), "{text}");
    // The same file in the folder is read.
    std::fs::remove_file(&sidecar).unwrap();
    std::fs::rename(place.file("secret.json"), &sidecar).unwrap();
    let (_, text) = ask_below(&place, "open", &json!({ "file": "x.img" }));
    assert!(text.contains("secret"), "{text}");
}

#[test]
fn a_recorded_program_has_the_environment_of_the_server() {
    let place = Place::new();
    let script = "echo \"below=${HIGHWATER_ONLY_BELOW-none} servers=$DEBUGINFOD_URLS\"";
    let wanted = json!({ "program": "sh", "arguments": ["-c", script], "output": "sh.hw" });
    let mut command = place.command(["mcp", ".", "--allow-record"]);
    command.env("DEBUGINFOD_URLS", "http://127.0.0.1:1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{}", call(1, "record", &wanted)).unwrap();
    let output = child.wait_with_output().unwrap();
    let reply = String::from_utf8(output.stdout).unwrap();
    assert!(reply.contains("below=none servers=http://127.0.0.1:1"), "{reply}");
}

#[test]
fn an_overview_has_the_marks_the_peak_and_what_to_ask_next() {
    let place = in_the_kitchen();
    let (is_error, text) = ask(&place, "open", &json!({ "file": "kitchen.hw" }));
    assert!(!is_error, "{text}");
    for part in ["program  kitchen", "loaded", "5.4 KiB at", "growth {\"file\":\"kitchen.hw\"}"] {
        assert!(text.contains(part), "'{part}' is not in:\n{text}");
    }
    let (_, text) = ask(&place, "list_files", &json!({}));
    assert!(text.contains("kitchen.hw") && text.contains("open {\"file\":\"kitchen.hw\"}"), "{text}");
    assert!(!text.contains("imported.jsonl"), "{text}");
    assert!(ask(&place, "list_files", &json!({ "all": true })).1.contains("imported.jsonl"));
}

#[test]
fn documents_are_structured_content() {
    let place = in_the_kitchen();
    let replies = talk(&place, &[], &[call(1, "leaks", &json!({ "file": "kitchen.hw", "json": true }))]);
    let result = &replies[0]["result"];
    assert_eq!(result["structuredContent"]["command"], "leaks");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
}

#[test]
fn files_outside_are_refused() {
    let place = in_the_kitchen();
    let other = in_the_kitchen();
    let outside = other.file("kitchen.hw");
    std::os::unix::fs::symlink(&outside, place.file("link.hw")).unwrap();
    let up = format!("../{}/kitchen.hw", other.path().file_name().unwrap().to_str().unwrap());
    for path in [outside.to_str().unwrap(), "/etc/passwd", &up, "link.hw", "./../kitchen.hw"] {
        for tool in ["open", "report", "blocks"] {
            let (is_error, text) = ask(&place, tool, &json!({ "file": path }));
            assert!(is_error && text.contains("is refused"), "{tool} {path}: {text}");
            assert!(text.contains(place.path().canonicalize().unwrap().to_str().unwrap()), "{text}");
        }
        let (is_error, text) = ask(&place, "diff", &json!({ "before": "kitchen.hw", "after": path }));
        assert!(is_error && text.contains("is refused"), "{path}: {text}");
        let wanted = json!({ "program": "true", "output": format!("{path}.hw") });
        let (is_error, _) = ask(&place, "record", &wanted);
        assert!(is_error || path == "link.hw", "{path}");
    }
    // The instant cannot name another file.
    let crafted = json!({ "before": "kitchen.hw", "before_at": "mark:x@end", "after": "kitchen.hw" });
    assert!(ask(&place, "diff", &crafted).0);
}

#[test]
fn what_is_wrong_with_a_call_is_an_answer() {
    let place = in_the_kitchen();
    place.write("text.hw", "no recording\n");
    for (tool, arguments, part) in [
        ("report", json!({}), "'file' is missing"),
        ("report", json!({ "file": 7 }), "'file' must be a text"),
        ("report", json!({ "file": "absent.hw" }), "there is no file absent.hw"),
        ("report", json!({ "file": "kitchen.hw", "at": "soon" }), "soon"),
        ("report", json!({ "file": "kitchen.hw", "by": "colour" }), "colour"),
        ("report", json!({ "file": "kitchen.hw", "output": "x" }), "no argument 'output'"),
        ("report", json!({ "file": "kitchen.hw", "top": "--json" }), "--json"),
        ("open", json!({ "file": "text.hw" }), "text.hw"),
    ] {
        let (is_error, text) = ask(&place, tool, &arguments);
        assert!(is_error && text.contains(part), "{tool} {arguments}: {text}");
    }
}

#[test]
fn long_answers_are_cut_and_say_how_to_ask_for_less() {
    let place = Place::new();
    let allocation = |number: u64| {
        let function = format!("function_number_{number}");
        let address = format!("{:#x}", 0x10_000 + number * 4096);
        json!({ "event": "allocate", "address": address, "size": 100 + number, "thread": 1, "time_ns": 1_000 + number,
            "stack": [{ "function": function, "file": "/src/a.rs", "line": number + 1 }] })
    };
    let program = json!({ "event": "source", "program": "many", "pid": 7 });
    let lines: Vec<Value> = std::iter::once(program).chain((0..2_000).map(allocation)).collect();
    place.import("many.hw", &lines);
    let (is_error, text) = ask(&place, "report", &json!({ "file": "many.hw", "top": 0 }));
    assert!(!is_error);
    assert!(place.highwater("report many.hw --top 0").stdout.len() > 2 * MOST_OF_ANSWER);
    assert!(text.len() > 8 << 10 && text.len() < MOST_OF_ANSWER, "{}", text.len());
    assert!(text.contains("… cut:") && text.contains("(top)") && text.contains("\nnext\n"), "{text}");
    assert!(!ask(&place, "report", &json!({ "file": "many.hw", "top": 20 })).1.contains("… cut:"));
}

#[test]
fn a_program_is_recorded_below_the_folder_and_never_over_a_file() {
    let place = in_the_kitchen();
    let wanted = json!({ "program": "sh", "arguments": ["-c", "echo hello; exit 3"], "output": "sh.hw" });
    let (is_error, text) = ask(&place, "record", &wanted);
    assert!(!is_error && text.contains("hello") && text.contains("the exit code is 3"), "{text}");
    assert!(text.contains("open {\"file\":\"sh.hw\"}"), "{text}");
    assert!(!ask(&place, "open", &json!({ "file": "sh.hw" })).0);
    let kitchen = std::fs::read(place.file("kitchen.hw")).unwrap();
    for output in ["sh.hw", "kitchen.hw"] {
        let (is_error, text) = ask(&place, "record", &json!({ "program": "true", "output": output }));
        assert!(is_error && text.contains("exists"), "{text}");
    }
    assert_eq!(std::fs::read(place.file("kitchen.hw")).unwrap(), kitchen);
}

#[test]
fn a_program_that_does_not_end_is_asked_to() {
    let place = Place::new();
    let wanted = json!({ "program": "sleep", "arguments": ["1000"], "output": "sleep.hw", "seconds": 5 });
    let (is_error, text) = ask(&place, "record", &wanted);
    assert!(!is_error && text.contains("asked to end after 5 s"), "{text}");
    assert!(!ask(&place, "open", &json!({ "file": "sleep.hw" })).0);
}

#[test]
fn a_cancelled_call_is_not_answered_and_the_next_one_is() {
    let place = in_the_kitchen();
    let wanted = json!({ "program": "sleep", "arguments": ["1000"], "output": "sleep.hw", "seconds": 600 });
    let lines = [
        call(1, "record", &wanted),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }).to_string(),
        call(2, "leaks", &json!({ "file": "kitchen.hw" })),
        request(3, "ping", &json!({})),
    ];
    let replies = talk(&place, &["--allow-record"], &lines);
    let reply = |id: u64| replies.iter().find(|reply| reply["id"] == id);
    assert_eq!((replies.len(), reply(1)), (2, None), "{replies:?}");
    assert_eq!(reply(2).unwrap()["result"]["isError"], false);
    assert_eq!(reply(3).unwrap()["result"], json!({}));
}

#[test]
fn a_killed_server_takes_along_what_it_runs() {
    let place = Place::new();
    let script = "echo $$ > pid.new; mv pid.new pid; exec sleep 1000";
    let wanted = json!({ "program": "sh", "arguments": ["-c", script], "output": "sleep.hw", "seconds": 600 });
    let mut server =
        place.command(["mcp", ".", "--allow-record"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    writeln!(stdin, "{}", call(1, "record", &wanted)).unwrap();
    wait_until("the program runs", || place.file("pid").exists());
    let pid = std::fs::read_to_string(place.file("pid")).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    // It may stay as a zombie where no process waits for orphans.
    let status = format!("/proc/{}/stat", pid.trim());
    wait_until("the program has ended", || std::fs::read_to_string(&status).map_or(true, |text| text.contains(") Z ")));
}

#[test]
fn the_official_client_finds_the_leak_of_the_example_in_five_calls() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("tools/mcp/bin/python");
    assert!(python.exists(), "run 'crates/cli/tests/assistant/tools {}'", target.join("tools").display());
    let place = Place::new();
    recorded::run(&mut recorded::record(&place, &["-o", "service.hw"], programs::service())).succeeded();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/assistant/client.py");
    let output = Command::new(python).arg(client).arg(HIGHWATER).arg(place.path()).output().unwrap();
    let said = recorded::Ended::of(output).succeeded().json();
    let calls = said["calls"].as_array().unwrap();
    assert!((1..=5).contains(&calls.len()), "{said:#}");
    assert!(calls.iter().all(|call| call["isError"] == false), "{said:#}");
    assert!(said["found"].as_str().is_some_and(|site| site.contains("Session::open")), "{said:#}");
    // What the example leaks: the sessions of each eighth of 6,000 requests, of 600 bytes.
    let (_, types) = ask(&place, "leaks", &json!({ "file": "service.hw", "by": "function", "json": true, "top": 50 }));
    let types: Value = serde_json::from_str(&types).unwrap();
    let open = types["functions"].as_array().unwrap().iter().find(|row| {
        row["name"].as_str().or(row["function"].as_str()).is_some_and(|name| name.ends_with("Session::open"))
    });
    let open = open.unwrap_or_else(|| panic!("{types:#}"));
    assert!(open.to_string().contains("450000"), "{open:#}");
}
