//! Tests that apply to every format of the registry.
#![allow(missing_docs)]

use highwater_input::{FORMATS, InputError, Read, import, open, open_while, recognize};
use highwater_model::{SourceKind, When};
use std::cell::Cell;
use std::fmt::Write;
use std::fs::File;
use std::path::PathBuf;

/// A file that is removed at the end of the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = std::env::temp_dir().join(format!("highwater-input-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn event_lines() -> String {
    let mut lines = String::new();
    for number in 1..20_000 {
        writeln!(lines, r#"{{"event":"allocate","address":{number},"size":1,"time_ns":{number}}}"#).unwrap();
    }
    lines
}

fn object_log() -> String {
    let mut lines = String::new();
    for number in 1..20_000 {
        writeln!(lines, "@ ALLOCATE 10 a.rs:1 Node {number}").unwrap();
    }
    lines
}

#[test]
fn keys_are_unique_and_fit_into_recordings() {
    for (index, format) in FORMATS.iter().enumerate() {
        assert!(SourceKind::from_key(format.key()).is_some(), "{}", format.key());
        assert!(FORMATS[..index].iter().all(|other| other.key() != format.key()), "{}", format.key());
        assert!(!format.title().is_empty() && !format.advice().is_empty(), "{}", format.key());
    }
}

#[test]
fn a_file_is_recognized_by_its_content_alone() {
    let key = |start: &[u8]| recognize(start).map(|format| format.key());
    assert_eq!(key(event_lines().as_bytes()), Some("events"));
    assert_eq!(key(object_log().as_bytes()), Some("objlog"));
    // A file without a signature may be an image. Searching for a heap decides that.
    assert_eq!(key(b"\0\0\0\0 anything"), Some("image"));
    let nothing = Temporary::new("nothing.hw", b"\x01\x02\x03 no heap in it");
    let error = open(&nothing.0).map(drop).unwrap_err();
    assert!(error.to_string().contains("of no known format"), "{error}");
}

#[test]
fn an_imported_file_is_what_the_file_itself_is() {
    for (name, content) in [("events", event_lines()), ("log", object_log())] {
        let file = Temporary::new(name, &content);
        let target = Temporary::new(&format!("{name}.hw"), "");
        let imported =
            import(&file.0, File::options().write(true).read(true).open(&target.0).unwrap(), &mut |_, _| true);
        assert_eq!(imported.unwrap().written.events, 19_999);
        let (opened, copy) = (open(&file.0).unwrap(), open(&target.0).unwrap());
        assert_eq!(copy.format().key(), "hw");
        assert_eq!(opened.source(), copy.source());
        let state = |file: &highwater_input::InputFile, when| {
            let recording = file.recording(&mut |_, _| true).unwrap();
            recording.snapshot(&when).unwrap().accounts.to_state()
        };
        for when in [When::End, When::Percent(50.0)] {
            assert_eq!(state(&opened, when.clone()), state(&copy, when));
        }
        if let Some(end) = opened.end() {
            assert_eq!(end.accounts.to_state(), state(&copy, When::End));
        }
        let again = import(&target.0, tempfile(), &mut |_, _| true).map(drop).unwrap_err();
        assert!(again.to_string().ends_with("is a recording already"), "{again}");
    }
}

fn tempfile() -> File {
    highwater_input::temporary_file().unwrap()
}

#[test]
fn reading_ends_when_no_client_waits() {
    for (name, content) in [("events-left", event_lines()), ("log-left", object_log())] {
        let file = Temporary::new(name, content);
        let looks = Cell::new(0);
        let count_to = |most: u32| {
            looks.set(looks.get() + 1);
            looks.get() < most
        };
        assert!(open_while(&file.0, &mut |_, _| count_to(u32::MAX)).is_ok());
        assert!(looks.get() > 3, "{}", looks.get());
        looks.set(0);
        let error = open_while(&file.0, &mut |_, _| count_to(3)).map(drop).unwrap_err();
        assert!(matches!(error, InputError::Unreadable { .. }), "{error}");
        assert_eq!(looks.get(), 3);
    }
}

#[test]
fn bad_lines_are_counted_and_the_rest_is_used() {
    let mut lines = event_lines();
    for _ in 0..100 {
        lines.push_str("{\"event\":\"explode\"}\n");
    }
    let file = Temporary::new("bad", lines);
    let opened = open(&file.0).unwrap();
    assert!(matches!(opened.format().read(), Read::Unordered(_)));
    assert_eq!((opened.problems().bad_lines, opened.stats().events), (100, 19_999));
    assert_eq!(opened.problems().first_bad_lines[0].number, 20_000);
}
