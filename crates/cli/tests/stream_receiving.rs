//! Receiving streams: `listen` and `connect`, from senders of all kinds.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::streams::{Beside, free_port, record, wait_until};
use support::{Place, in_the_kitchen, programs};

/// A real trace of an OCaml program.
fn trace(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../formats/tests/fixtures/memtrace/{name}.ctf.zst"));
    let unpacked = Command::new("zstd").arg("-dc").arg(path).output().unwrap();
    assert!(unpacked.status.success());
    unpacked.stdout
}

fn send(port: u16, bytes: &[u8]) {
    TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_real_trace_that_comes_byte_by_byte_is_kept_as_it_is() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --once");
    let port = listener.port();
    let bytes = trace("full");
    let mut sender = TcpStream::connect(("127.0.0.1", port)).unwrap();
    sender.set_nodelay(true).unwrap();
    for (number, byte) in bytes.iter().enumerate() {
        sender.write_all(&[*byte]).unwrap();
        if number % 64 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(sender);
    let ended = listener.ended();
    assert_eq!(ended.shell_status(), 0);
    assert!(ended.stderr_text().contains("1,676 events"), "{}", ended.stderr_text());
    let name = place.only_file(".ctf");
    assert!(name.starts_with("fixture_host-full.exe-2026"), "{name}");
    assert_eq!(std::fs::read(place.file(&name)).unwrap(), bytes);
}

#[test]
fn a_trace_that_breaks_off_keeps_its_whole_packets() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --max 2 -o cut.ctf");
    let port = listener.port();
    let bytes = trace("steady");
    send(port, &bytes[..bytes.len() - 1000]);
    wait_until("it is there", || listener.line().contains("broke off"));
    let kept = std::fs::read(place.file("cut.ctf")).unwrap();
    assert!(bytes.starts_with(&kept) && kept.len() > bytes.len() - 40_000, "{} of {}", kept.len(), bytes.len());
    // No damage is reported: it ends at the end of a packet.
    let check = place.highwater("check cut.ctf");
    assert_eq!((check.code, check.stderr.as_str()), (0, ""), "{}", check.stdout);
    send(port, &bytes);
    assert_eq!(listener.ended().shell_status(), 0);
    assert_eq!(std::fs::read(place.file("cut-2.ctf")).unwrap(), bytes);
}

#[test]
fn what_is_no_stream_is_kept_out_and_does_not_count() {
    let place = in_the_kitchen();
    let recording = std::fs::read(place.file("kitchen.hw")).unwrap();
    let mut listener = Beside::highwater(&place, "listen 0 --once -o arrived.hw");
    let port = listener.port();
    send(port, b"GET / HTTP/1.1\r\n\r\n");
    assert!(listener.line().contains("neither a recording nor a memtrace trace"));
    send(port, b"");
    assert!(listener.line().contains("nothing was sent"));
    send(port, b"\x89HW");
    assert!(listener.line().contains("not kept"));
    send(port, &recording[..40]);
    assert!(listener.line().contains("before it said whose memory it is"));
    send(port, &recording);
    assert!(listener.line().contains("arrived.hw: 9 events"));
    assert_eq!(listener.ended().shell_status(), 0);
    assert_eq!(std::fs::read(place.file("arrived.hw")).unwrap(), recording);
}

#[test]
fn a_recording_cut_anywhere_keeps_its_whole_blocks() {
    let place = in_the_kitchen();
    let recording = std::fs::read(place.file("kitchen.hw")).unwrap();
    let mut listener = Beside::highwater(&place, "listen 0");
    let port = listener.port();
    for cut in (200..recording.len()).step_by(97) {
        send(port, &recording[..cut]);
        let line = listener.line();
        let name = line.trim_start_matches("highwater: ").split(':').next().unwrap().to_owned();
        let check = place.highwater(&format!("check {name}"));
        assert_eq!((check.code, check.stderr.as_str()), (0, ""), "cut at {cut}: {}", check.stdout);
    }
    listener.interrupt();
    assert_eq!(listener.ended().shell_status(), 0);
}

#[test]
fn what_arrives_can_be_read_while_it_arrives() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --once -o growing.hw");
    let port = listener.port();
    let mut recorder = record(&place, &format!("--stream {port}"), &programs::c("busy"), &["4", "1000", "1000"]);
    let live = |report: &Value| report["totals"]["live_blocks"].as_u64().unwrap();
    let allocations = |report: &Value| report["totals"]["allocations"].as_u64().unwrap();
    let mut before = 0;
    let mut grew = 0;
    while recorder.is_running() {
        std::thread::sleep(Duration::from_millis(300));
        let run = place.highwater("report growing.hw --json");
        if run.code != 0 {
            assert!(before == 0 && run.stderr.contains("empty"), "{}", run.stderr);
            continue;
        }
        assert_eq!(run.stderr, "");
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(allocations(&report) >= before);
        grew += u32::from(allocations(&report) > before && live(&report) > 900);
        before = allocations(&report);
    }
    assert!(grew >= 3, "it was seen to grow {grew} times");
    assert_eq!(listener.ended().shell_status(), 0);
    place.sound_report("growing.hw", "");
}

#[test]
fn an_idle_program_is_seen_while_it_is_idle() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --once -o idle.hw");
    let port = listener.port();
    let mut recorder = record(&place, &format!("--stream {port}"), Path::new("/bin/sleep"), &["1000"]);
    // Its first allocations arrive long before it ends.
    wait_until("what it allocated is seen", || {
        let run = place.highwater("report idle.hw --json");
        let report: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
        report["totals"]["allocations"].as_u64().is_some_and(|allocations| allocations > 0)
    });
    assert!(recorder.is_running());
    // The signal is passed on.
    recorder.terminate();
    assert_eq!(recorder.ended().shell_status(), 143);
    assert_eq!(listener.ended().shell_status(), 0);
}

#[test]
fn a_service_is_asked_to_end_with_a_byte_and_read_to_its_end() {
    let place = Place::new();
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let connect = Beside::highwater(&place, &format!("connect {port} -o served.ctf --duration 300ms"));
    let bytes = trace("mirage-client");
    let (mut client, _) = service.accept().unwrap();
    let (now, later) = bytes.split_at(bytes.len() / 2);
    client.write_all(now).unwrap();
    // Nothing more is sent until it asks; then the data that was held back.
    let mut asked = [0];
    client.read_exact(&mut asked).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    client.write_all(later).unwrap();
    drop(client);
    let ended = connect.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    assert_eq!(std::fs::read(place.file("served.ctf")).unwrap(), bytes);
}

#[test]
fn connect_waits_for_a_service_that_comes_later() {
    let place = Place::new();
    let port = free_port();
    let connect = Beside::highwater(&place, &format!("connect {port} --wait -o later.hw"));
    std::thread::sleep(Duration::from_millis(400));
    let recorder = record(&place, &format!("--serve {port}"), &programs::c("busy"), &["7", "1000", "1000"]);
    assert_eq!(recorder.ended().shell_status(), 7);
    assert_eq!(connect.ended().shell_status(), 0);
    place.sound_report("later.hw", "");
}

#[test]
fn a_token_keeps_strangers_out() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --once --token sesame -o arrived.hw");
    let port = listener.port();
    let busy = programs::c("busy");
    let refused = record(&place, &format!("--stream {port} --token wrong"), &busy, &["1", "100", "1000"]).ended();
    assert_eq!(refused.shell_status(), 7, "the program does not mind");
    assert!(refused.stderr_text().contains("needs a token"), "{}", refused.stderr_text());
    let welcome = record(&place, &format!("--stream {port} --token sesame"), &busy, &["0.2", "100", "1000"]).ended();
    assert_eq!(welcome.shell_status(), 7);
    let ended = listener.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    place.sound_report("arrived.hw", "");
}
