//! Whether a stream was kept: the receiver reports it to the sender, and the exit code to the user.
#![allow(missing_docs)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use support::Place;
use support::recorded::Ended;
use support::streams::{Beside, record, wait_until};

/// The exit code of 'record --stream' if the program succeeded, but its stream was not kept.
const NOT_KEPT: i32 = 125;

#[track_caller]
fn is_not_kept_because(ended: &Ended, reasons: &[&str]) {
    let said = ended.stderr_text();
    assert_eq!(ended.shell_status(), NOT_KEPT, "{said}");
    assert!(said.contains("the stream was not kept: "), "{said}");
    reasons.iter().for_each(|reason| assert!(said.contains(reason), "no {reason} in: {said}"));
}

fn signal(process: &Beside, signal: Signal) {
    kill_process(Pid::from_raw(process.id() as i32).unwrap(), signal).unwrap();
}

/// `record --stream` to a receiver that the test provides.
fn stream_to(receive: impl FnOnce(TcpStream) + Send + 'static) -> Ended {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let receiver = std::thread::spawn(move || receive(listener.accept().unwrap().0));
    let ended = record(&place, &format!("--stream {port}"), Path::new("/bin/true"), &[]).ended();
    receiver.join().unwrap();
    ended
}

fn read_all(connection: &mut TcpStream) {
    connection.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_stream_that_is_kept_ends_as_the_program_does() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --max 2");
    let port = listener.port();
    let well = record(&place, &format!("--stream {port}"), Path::new("/bin/true"), &[]).ended();
    assert_eq!(well.shell_status(), 0, "{}", well.stderr_text());
    assert!(!well.stderr_text().contains("kept"), "{}", well.stderr_text());
    let badly = record(&place, &format!("--stream {port}"), Path::new("/bin/false"), &[]).ended();
    assert_eq!(badly.shell_status(), 1, "{}", badly.stderr_text());
    assert_eq!(listener.ended().shell_status(), 0);
}

#[test]
fn a_full_disk_at_the_receiver_is_the_senders_to_know() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 -o /dev/full");
    let port = listener.port();
    let options = format!("--stream {port}");
    let ended = record(&place, &options, Path::new("/bin/true"), &[]).ended();
    is_not_kept_because(&ended, &["/dev/full: cannot be written: No space left on device"]);
    assert!(listener.line().contains("No space left on device"));
}

#[test]
fn a_wrong_token_is_the_senders_to_know() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --token sesame");
    let port = listener.port();
    for token in ["", "--token wrong"] {
        let ended = record(&place, &format!("--stream {port} {token}"), Path::new("/bin/true"), &[]).ended();
        is_not_kept_because(&ended, &["the receiver says: this stream needs a token"]);
    }
    // The program's own failure takes precedence, and the reason is still printed.
    let ended = record(&place, &format!("--stream {port}"), Path::new("/bin/false"), &[]).ended();
    assert_eq!(ended.shell_status(), 1);
    assert!(ended.stderr_text().contains("the stream was not kept: "), "{}", ended.stderr_text());
}

#[test]
fn a_stream_too_many_is_refused_with_the_reason() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 --once -o first.hw");
    let port = listener.port();
    let first = record(&place, &format!("--stream {port}"), Path::new("/bin/sleep"), &["1000"]);
    wait_until("the first one arrives", || std::fs::metadata(place.file("first.hw")).is_ok_and(|file| file.len() > 0));
    let second = record(&place, &format!("--stream {port}"), Path::new("/bin/true"), &[]).ended();
    is_not_kept_because(&second, &["the receiver says: one stream was to be taken (--once)"]);
    first.terminate();
    let first = first.ended();
    assert_eq!(first.shell_status(), 143, "{}", first.stderr_text());
    assert!(!first.stderr_text().contains("not kept"), "{}", first.stderr_text());
    assert_eq!(listener.ended().shell_status(), 0);
    assert_eq!(place.names(), ["first.hw"]);
}

#[test]
fn a_receiver_that_is_killed_before_it_confirms_has_kept_nothing() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 -o arrived.hw");
    let port = listener.port();
    let recorder = record(&place, &format!("--stream {port}"), Path::new("/bin/sleep"), &["1"]);
    wait_until("something arrives", || std::fs::metadata(place.file("arrived.hw")).is_ok_and(|file| file.len() > 0));
    signal(&listener, Signal::STOP);
    // Data sent from now on is in the system's buffers: all of it, if the program has ended by then.
    std::thread::sleep(std::time::Duration::from_secs(3));
    listener.kill();
    is_not_kept_because(&recorder.ended(), &[]);
}

#[test]
fn a_receiver_that_goes_and_does_not_come_back_has_kept_no_end() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 -o arrived.hw");
    let port = listener.port();
    let recorder = record(&place, &format!("--stream {port}"), Path::new("/bin/sleep"), &["3"]);
    wait_until("something arrives", || std::fs::metadata(place.file("arrived.hw")).is_ok_and(|file| file.len() > 0));
    listener.kill();
    is_not_kept_because(&recorder.ended(), &["could not connect: connection refused"]);
}

#[test]
fn a_receiver_that_promised_a_word_must_keep_it() {
    // The receiver reads everything, and disconnects before it confirms that it kept the stream.
    let gone = stream_to(|mut connection| {
        connection.write_all(b"highwater: receiving\n").unwrap();
        read_all(&mut connection);
    });
    is_not_kept_because(&gone, &["ended before it confirmed"]);
    let kept = stream_to(|mut connection| {
        connection.write_all(b"highwater: receiving\n").unwrap();
        read_all(&mut connection);
        connection.write_all(b"highwater: kept\n").unwrap();
    });
    assert_eq!(kept.shell_status(), 0, "{}", kept.stderr_text());
    // Other receivers, such as netcat, send nothing: it is enough that they read to the end.
    let silent = stream_to(|mut connection| read_all(&mut connection));
    assert_eq!(silent.shell_status(), 0, "{}", silent.stderr_text());
    // The promise arrives in two pieces, cut within a word; the refusal arrives late.
    let refused = stream_to(|mut connection| {
        connection.write_all(b"highwater: recei").unwrap();
        read_all(&mut connection);
        connection.write_all(b"ving\nhighwater: the tape is torn\n").unwrap();
    });
    is_not_kept_because(&refused, &["the receiver says: the tape is torn"]);
}

#[test]
fn a_receiver_that_never_confirms_is_not_waited_for_for_ever() {
    let (held, hold) = std::sync::mpsc::channel();
    let ended = stream_to(move |mut connection| {
        read_all(&mut connection);
        held.send(connection).unwrap();
    });
    is_not_kept_because(&ended, &["has not confirmed in time"]);
    drop(hold);
}

#[test]
fn a_receiver_that_wants_no_more_has_kept_what_it_wanted() {
    let place = Place::new();
    let mut listener = Beside::highwater(&place, "listen 0 -o arrived.hw");
    let port = listener.port();
    let recorder = record(&place, &format!("--stream {port}"), Path::new("/bin/sleep"), &["4"]);
    wait_until("something arrives", || std::fs::metadata(place.file("arrived.hw")).is_ok_and(|file| file.len() > 0));
    listener.interrupt();
    assert_eq!(listener.ended().shell_status(), 0);
    let ended = recorder.ended();
    assert_eq!(ended.shell_status(), 0, "{}", ended.stderr_text());
    assert_eq!(place.json("info arrived.hw")["file"]["complete"], true);
}
