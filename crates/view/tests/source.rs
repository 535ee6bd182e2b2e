//! Source files: their lines with their memory, and the files that a recording may not make the viewer read.

mod support;

use highwater_model::{Catalog, Event, EventKind, FrameText, Nanos, Placement, Source, ThreadId};
use highwater_store::Writer;
use highwater_view::{Api, SourceCode, SourceDir, Sources};
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::{Place, Recordings, Running, encoded};

/// A recording with one live block for each stack of `(file, line)`, innermost first; the block of stack `n` has `100 + n` bytes.
fn recording(place: &Place, name: &str, stacks: &[&[(&str, u32)]]) -> PathBuf {
    let mut catalog = Catalog::default();
    let mut events = Vec::new();
    for (number, stack) in stacks.iter().enumerate() {
        let frame =
            |(file, line): &(&'static str, u32)| FrameText { function: "f", file, line: *line, ..FrameText::default() };
        let owned: Vec<(&'static str, u32)> =
            stack.iter().map(|(file, line)| (&*String::from(*file).leak(), *line)).collect();
        let frames: Vec<FrameText<'_>> = owned.iter().map(frame).collect();
        let placed = Placement {
            address: 0x1000 * (number as u64 + 1),
            size: 100 + number as u64,
            stack: catalog.intern_stack(&frames),
            ..Placement::default()
        };
        events.push(Event { time: Nanos(number as u64 + 1), thread: ThreadId(1), kind: EventKind::Allocate(placed) });
    }
    let source = Source { program: "demo".to_owned(), pid: 7, ..Source::default() };
    let mut writer = Writer::new(Vec::new(), &source).unwrap();
    writer.append(&events, &catalog).unwrap();
    let bytes = writer.finish(&catalog, &source).unwrap().1;
    place.write(name, &bytes)
}

/// A server with settings for source files.
fn running(files: &[PathBuf], source_code: SourceCode) -> Running {
    let api = Api::new(Sources::new(files, Box::new(Recordings)), None).with_source_code(source_code);
    Running::serving(Arc::new(api))
}

fn ask(running: &Running, file: &str) -> Value {
    running.ask(&format!("source?file={}", encoded(file)))
}

fn problem(running: &Running, file: &str) -> String {
    let answer = ask(running, file);
    assert_eq!((&answer["text"], &answer["found"]), (&Value::Null, &Value::Null), "{file}");
    answer["problem"]["kind"].as_str().unwrap().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn lines_have_the_bytes_of_the_table_by_line() {
    let place = Place::new();
    let main = place.write("main.c", b"one\ntwo\nthree\n");
    let main = text(&main);
    let stacks: [&[(&str, u32)]; 4] =
        [&[(main, 2), (main, 3)], &[("/gone/lib.c", 9), (main, 3)], &[(main, 3), (main, 3)], &[(main, 0)]];
    let server = running(&[recording(&place, "a.hw", &stacks)], SourceCode::default());
    let answer = ask(&server, main);
    assert_eq!(answer["text"], "one\ntwo\nthree\n");
    let line = |number: usize| {
        let line = &answer["lines"][number];
        let figure = |name: &str| line["figures"][name].as_u64().unwrap();
        (line["line"].as_u64().unwrap(), figure("self"), figure("blocks"), figure("total"), figure("total_blocks"))
    };
    assert_eq!([line(0), line(1), line(2)], [(0, 103, 1, 103, 1), (2, 100, 1, 100, 1), (3, 102, 1, 303, 3)]);
    assert_eq!((answer["figures"]["self"].as_u64(), answer["figures"]["total"].as_u64()), (Some(305), Some(406)));
    // The table by line has the same figures.
    let rows = server.ask("rows?by=line");
    for row in rows["rows"].as_array().unwrap() {
        let key = row["key"].as_str().unwrap();
        let Some(rest) = key.strip_prefix(main) else { continue };
        let number: u64 = rest.strip_prefix(':').map_or(0, |line| line.parse().unwrap());
        let lines = answer["lines"].as_array().unwrap();
        let figures = &lines.iter().find(|line| line["line"] == number).unwrap()["figures"];
        assert_eq!((&figures["self"], &figures["total"]), (&row["self"], &row["total"]), "{key}");
        assert_eq!((&figures["blocks"], &figures["total_blocks"]), (&row["blocks"], &row["total_blocks"]), "{key}");
    }
    // Of two instants: what came after the first block.
    let change = server.ask(&format!("source?file={}&a=0@1&b=0@end", encoded(main)));
    let third = &change["lines"][2];
    assert_eq!((&third["change"]["self"], &third["change"]["total"]), (&102.into(), &203.into()));
    assert_eq!((&third["change"]["before"]["total"], &third["figures"]["total"]), (&100.into(), &303.into()));
}

#[test]
fn nothing_but_source_files_that_a_frame_names_is_read() {
    let place = Place::new();
    let named = place.write("named.c", b"fn");
    let other = place.write("other.c", b"secret");
    let secret = place.write("id_rsa", b"secret");
    let folder = named.parent().unwrap().to_owned();
    let at = |name: &str| text(&folder.join(name)).to_owned();
    std::fs::create_dir(folder.join("folder.c")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe.c")).status().unwrap().success());
    std::fs::File::create(folder.join("huge.c")).unwrap().set_len((8 << 20) + 1).unwrap();
    place.write("binary.c", b"a\0b");
    place.write("latin.c", b"caf\xe9");
    symlink(&secret, folder.join("link.c")).unwrap();
    symlink(&named, folder.join("good.c")).unwrap();
    symlink("/dev/zero", folder.join("device.c")).unwrap();
    let files: Vec<String> = [
        "named.c", "id_rsa", "folder.c", "pipe.c", "huge.c", "binary.c", "latin.c", "link.c", "good.c", "device.c",
        "gone.c",
    ]
    .map(at)
    .into_iter()
    .chain(["/etc/passwd", "/dev/null", "named.c", "../named.c"].map(str::to_owned))
    .collect();
    let stacks: Vec<Vec<(&str, u32)>> = files.iter().map(|file| vec![(file.as_str(), 1)]).collect();
    let stacks: Vec<&[(&str, u32)]> = stacks.iter().map(Vec::as_slice).collect();
    let first = recording(&place, "a.hw", &stacks);
    let second = recording(&place, "b.hw", &[&[(text(&other), 1)]]);
    let server = running(&[first.clone(), second.clone()], SourceCode::default());

    assert_eq!(ask(&server, text(&named))["text"], "fn");
    assert_eq!(ask(&server, &at("good.c"))["text"], "fn", "a link to a source file");
    assert_eq!(ask(&server, &at("latin.c"))["text"], "caf\u{fffd}");
    for (file, expected) in [
        (at("id_rsa"), "not_source"),
        ("/etc/passwd".to_owned(), "not_source"),
        ("/dev/null".to_owned(), "not_source"),
        (at("link.c"), "not_source"),
        (at("folder.c"), "not_regular"),
        (at("pipe.c"), "not_regular"),
        (at("device.c"), "not_regular"),
        (at("huge.c"), "too_large"),
        (at("binary.c"), "binary"),
        (at("gone.c"), "not_here"),
        ("named.c".to_owned(), "not_here"),
        ("../named.c".to_owned(), "not_here"),
    ] {
        assert_eq!(problem(&server, &file), expected, "{file}");
    }
    // A file that no frame names, or one of another recording, or the same file by another text.
    let status = |question: &str| server.get(&format!("/api/1/{question}")).status;
    let spelled = format!("{}/./named.c", text(&folder));
    for file in [text(&other), "/etc/hostname", "", &spelled, &format!("{}\0", text(&named))] {
        assert_eq!(status(&format!("source?file={}", encoded(file))), 404, "{file}");
    }
    assert_eq!(server.ask(&format!("source?source=1&file={}", encoded(text(&other))))["text"], "secret");
    assert_eq!(status("source"), 400);
    // A request without the token.
    let port = server.port;
    for (method, name) in [("GET", "source"), ("POST", "source/open")] {
        let path = format!("/api/1/{name}?file={}", encoded(text(&named)));
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        assert_eq!(server.raw(&head).status, 401, "{method}");
    }

    // In a tree that was moved, no path leads out of it.
    std::fs::create_dir_all(folder.join("tree/src")).unwrap();
    place.write("tree/src/gone.c", b"moved");
    let dirs: Vec<SourceDir> = vec![format!("{}/tree/src", text(&folder)).parse().unwrap()];
    let server = running(&[first, second], SourceCode { dirs, editor: None });
    assert_eq!(ask(&server, &at("gone.c"))["text"], "moved");
    assert_eq!(problem(&server, "../named.c"), "outside");
    assert_eq!(problem(&server, "named.c"), "not_here");
}

#[test]
fn the_editor_gets_a_file_that_a_frame_names_and_nothing_else() {
    let place = Place::new();
    let strange = place.write("a b$(touch x);.c", b"text");
    let other = place.write("other.c", b"text");
    let file = recording(&place, "a.hw", &[&[(text(&strange), 1)]]);
    let post = |server: &Running, file: &Path| {
        server.request("POST", &format!("/api/1/source/open?line=3&file={}", encoded(text(file))), "")
    };
    let without = running(std::slice::from_ref(&file), SourceCode::default());
    assert_eq!(ask(&without, text(&strange))["has_editor"], false);
    assert_eq!(post(&without, &strange).status, 500);

    let noted = other.with_file_name("noted");
    let editor = format!("cp {{file}} '{}'", text(&noted));
    let with = running(&[file], SourceCode { dirs: Vec::new(), editor: Some(editor.parse().unwrap()) });
    assert_eq!(ask(&with, text(&strange))["has_editor"], true);
    assert_eq!(with.get(&format!("/api/1/source/open?file={}", encoded(text(&strange)))).status, 405);
    assert_eq!(post(&with, &other).status, 404);
    assert_eq!(post(&with, &strange).status, 200);
    while !noted.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn a_saved_page_has_sources_only_if_they_are_asked_for() {
    let place = Place::new();
    let main = place.write("main.c", b"int main; // </script> unmistakable_text");
    let secret = place.write("id_rsa", b"secret unmistakable_text");
    let file = recording(&place, "a.hw", &[&[(text(&main), 1)], &[(text(&secret), 1)]]);
    let server = running(&[file], SourceCode::default());
    let work = highwater_store::history::Work::quiet();
    assert!(!server.api.saved_page("", None, &work).unwrap().contains("unmistakable_text"));
    assert!(!server.get("/api/1/save?view=&with_source=1").text().contains("unmistakable_text"));
    let saved = server.api.saved_page_with_source("", &work).unwrap();
    assert_eq!(saved.source_files, [text(&main)]);
    assert!(saved.html.contains("unmistakable_text") && !saved.html.contains("secret unmistakable_text"));
}
