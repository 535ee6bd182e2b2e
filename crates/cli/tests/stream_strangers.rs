//! Connections at a stream's port that send nothing, or nothing valid: the answers they get, and the limits of their effect on others.
#![allow(missing_docs)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use support::streams::{Beside, free_port, private_memory, record, wait_until};
use support::{Place, in_the_kitchen, programs};

/// Connections that send nothing.
fn silent(port: u16, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect()
}

/// All data from the other end until it closes the connection.
fn words_of(mut connection: TcpStream) -> String {
    connection.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut words = Vec::new();
    let _ = connection.read_to_end(&mut words);
    String::from_utf8_lossy(&words).into_owned()
}

#[test]
fn silent_strangers_lock_out_no_client_with_the_token() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0 --token sesame", &programs::c("busy"), &["60", "1000", "1000"]);
    let port = recorder.port();
    let mut strangers = silent(port, 200);
    let run = place.highwater(&format!("connect {port} --token sesame -o arrived.hw --duration 300ms"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    place.sound_report("arrived.hw", "");
    // The oldest connection was closed, with a message.
    let words = words_of(strangers.remove(0));
    assert!(words.starts_with("highwater: too many connections here have not shown the token"), "{words}");
    assert!(recorder.is_running());
}

#[test]
fn silent_strangers_lock_out_no_sender() {
    for options in ["", "--token sesame"] {
        let place = Place::new();
        let mut listener = Beside::highwater(&place, &format!("listen 0 --once {options} -o arrived.hw"));
        let port = listener.port();
        let mut strangers = silent(port, 300);
        let options = format!("--stream {port} {options}");
        let ended = record(&place, &options, &programs::c("busy"), &["0.2", "100", "1000"]).ended();
        assert!(!ended.stderr_text().contains("not kept"), "{}", ended.stderr_text());
        let ended = listener.ended();
        assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
        place.sound_report("arrived.hw", "");
        let words = words_of(strangers.remove(0));
        assert!(words.starts_with("highwater: too many connections here"), "{options}: {words}");
    }
}

#[test]
fn a_silent_connection_does_not_use_up_once() {
    let place = in_the_kitchen();
    let recording = std::fs::read(place.file("kitchen.hw")).unwrap();
    let mut listener = Beside::highwater(&place, "listen 0 --once -o arrived.hw");
    let port = listener.port();
    let nothing = silent(port, 1).remove(0);
    // Others begin a stream, but do not get as far as its source.
    let mut begun = silent(port, 2);
    begun[0].write_all(&recording[..6]).unwrap();
    begun[1].write_all(&recording[..40]).unwrap();
    let recorder = record(&place, &format!("--stream {port}"), Path::new("/bin/true"), &[]);
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    let ended = listener.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    assert_eq!(place.json("info arrived.hw")["source"]["program"], "true");
    assert!(words_of(nothing).starts_with("highwater: the receiver has ended"));
}

#[test]
fn a_second_client_is_refused_at_once_and_told_why() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0", &programs::c("busy"), &["300", "1000", "1000"]);
    let port = recorder.port();
    let mut first = silent(port, 1).remove(0);
    first.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    first.read_exact(&mut [0; 6]).unwrap();
    // The number is chosen such that each may take at most 1.5 s.
    let until = Instant::now() + Duration::from_secs(120);
    for round in 0..80 {
        let words = words_of(silent(port, 1).remove(0));
        assert!(words.starts_with("highwater: another client is being served"), "{words}");
        assert!(Instant::now() < until, "refused {round} times so far: each waits");
    }
    place.highwater(&format!("connect {port}")).is_one_clear_line_about(&["refused: another client is being served"]);
    // The first client is still served, and its slot is free when it disconnects.
    first.read_exact(&mut [0; 6]).unwrap();
    drop(first);
    let run = place.highwater(&format!("connect {port} -o next.hw --duration 300ms"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(recorder.is_running());
}

#[test]
fn a_client_that_only_listens_keeps_its_place() {
    let place = Place::new();
    let mut recorder = record(&place, "--serve 0", &programs::c("busy"), &["60", "1000", "1000"]);
    let port = recorder.port();
    let mut first = silent(port, 1).remove(0);
    first.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    // Like netcat when its input has ended.
    first.shutdown(std::net::Shutdown::Write).unwrap();
    first.read_exact(&mut [0; 6]).unwrap();
    let words = words_of(silent(port, 1).remove(0));
    assert!(words.starts_with("highwater: another client is being served"), "{words}");
    first.read_exact(&mut [0; 60_000]).unwrap();
}

#[test]
fn tokens_come_from_a_file_or_a_variable() {
    let place = Place::new();
    std::fs::write(place.file("secret"), "open-sesame\n").unwrap();
    let mut listener = Beside::highwater(&place, "listen 0 --max 2 --token-file secret -o arrived.hw");
    let port = listener.port();
    let line = format!("record --stream {port} -- /bin/true");
    let without = place.highwater(&line);
    assert_eq!(without.code, 125, "{}", without.stderr);
    let with_variable = Beside::start(place.command(line.split_whitespace()).env("HIGHWATER_TOKEN", "open-sesame"));
    let ended = with_variable.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    let with_file = place.highwater(&format!("record --stream {port} --token-file secret -- /bin/true"));
    assert_eq!(with_file.code, 0, "{}", with_file.stderr);
    assert_eq!(listener.ended().shell_status(), 0);
    // The reverse direction.
    let line = "record --serve 0 -- /bin/sleep 60";
    let mut server = Beside::start(place.command(line.split_whitespace()).env("HIGHWATER_TOKEN", "open-sesame"));
    let port = server.port();
    let refused = place.highwater(&format!("connect {port} --token other"));
    refused.is_one_clear_line_about(&["needs a token", "--token-file"]);
    let connected = place.highwater(&format!("connect {port} --token-file secret -o asked.hw --duration 100ms"));
    assert_eq!(connected.code, 0, "{}", connected.stderr);
    // Errors are reported without the token.
    std::fs::write(place.file("empty"), "\n").unwrap();
    std::fs::write(place.file("long"), "x".repeat(300)).unwrap();
    for (file, what) in [("missing", "cannot be read"), ("empty", "has no token"), ("long", "has no token")] {
        place.highwater(&format!("listen 0 --token-file {file}")).is_one_clear_line_about(&[file, what]);
    }
    let wrong = Beside::start(place.command(["listen", "0"]).env("HIGHWATER_TOKEN", "two words")).ended();
    assert_eq!(wrong.shell_status(), 2);
    let said = wrong.stderr_text();
    assert!(said.contains("HIGHWATER_TOKEN: a token is a word") && !said.contains("two"), "{said}");
}

#[test]
fn a_block_that_claims_4_gib_is_refused_and_what_came_before_is_kept() {
    let place = in_the_kitchen();
    let recording = std::fs::read(place.file("kitchen.hw")).unwrap();
    let mut listener = Beside::highwater(&place, "listen 0 -o arrived.hw");
    let port = listener.port();
    // The header of an events block, with the right checksum.
    let mut forged = b"HWB1\x03\0\0\0".to_vec();
    forged.extend(u32::MAX.to_le_bytes());
    forged.extend([0; 8]);
    forged.extend(crc32(&forged).to_le_bytes());
    let mut sender = silent(port, 1).remove(0);
    sender.write_all(&recording).unwrap();
    sender.write_all(&forged).unwrap();
    let expected = format!("the block at offset {} claims 4294967295 bytes", recording.len());
    // The sender gets the refusal without sending any of the block.
    let words = words_of(sender);
    assert!(words.contains(&expected), "{words}");
    let line = listener.line();
    assert!(line.contains(&expected), "{line}");
    assert!(private_memory(listener.id()) < 64 << 20);
    assert_eq!(std::fs::read(place.file("arrived.hw")).unwrap(), recording);
    listener.interrupt();
    assert_eq!(listener.ended().shell_status(), 0);
}

/// CRC-32, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

#[test]
fn whoever_waits_says_why_and_the_last_reason_at_the_end() {
    let place = Place::new();
    let port = free_port();
    let mut connect = Beside::highwater(&place, &format!("connect {port} --wait"));
    let line = connect.line();
    assert!(line.contains(&format!("waiting for 127.0.0.1:{port}: connection refused")), "{line}");
    connect.interrupt();
    let ended = connect.ended();
    assert_eq!(ended.shell_status(), 1);
    let said = ended.stderr_text();
    assert!(said.lines().last().unwrap().contains("the last attempt failed: connection refused"), "{said}");
    // The program is started once the listener is there.
    let mut recorder = record(&place, &format!("--stream {port} --wait"), Path::new("/bin/true"), &[]);
    let line = recorder.line();
    assert!(line.contains("connection refused; the program is started then"), "{line}");
    let mut listener = Beside::highwater(&place, &format!("listen {port} --once -o later.hw"));
    wait_until("it listens", || listener.line().contains("listening"));
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    assert_eq!(listener.ended().shell_status(), 0);
}
