//! Work on a request ends when its client disconnects, whatever was asked.

mod support;

use highwater_store::history::Work;
use highwater_view::{OpenedFile, Opener};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use support::history::{history, written};
use support::{Place, Recordings, Running};

/// Opens the first file at once. Every later call takes until the client disconnects.
struct Slow {
    is_slow: AtomicBool,
    told: Sender<Told>,
}

/// What the opener reports to the test.
#[derive(Debug, PartialEq)]
enum Told {
    Begun,
    GivenUp,
    WaitedForTooLong,
}

impl Opener for Slow {
    fn open(&self, path: &Path, work: &Work<'_>) -> Result<OpenedFile, String> {
        if !self.is_slow.swap(true, Ordering::Relaxed) {
            return Recordings.open(path, work);
        }
        self.told.send(Told::Begun).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if work.go_on().is_err() {
                self.told.send(Told::GivenUp).unwrap();
                return Err("nobody waits".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.told.send(Told::WaitedForTooLong).unwrap();
        Err("too long".to_owned())
    }
}

fn slow() -> (Place, Running, Receiver<Told>) {
    let (catalog, events) = history(9, 300);
    let place = Place::new();
    let path = place.write("slow.hw", &written(&catalog, &events[..200], 100, 50));
    let (told, said) = channel();
    let server = Running::opening(&[path], Box::new(Slow { is_slow: AtomicBool::new(false), told }), None);
    place.write("slow.hw", &written(&catalog, &events, 100, 50));
    (place, server, said)
}

#[test]
fn whatever_is_asked_ends_when_the_client_goes() {
    for question in ["sources", "save?view=source%3D0", "saved_page?view=source%3D0"] {
        let (_place, server, said) = slow();
        let mut stream = server.connect();
        stream.write_all(server.asking("GET", &format!("/api/1/{question}")).as_bytes()).unwrap();
        assert_eq!(said.recv(), Ok(Told::Begun), "{question}");
        // The loaded content answers meanwhile.
        assert!(server.ask("rows?metric=allocated")["count"].as_u64().unwrap() > 0, "{question}");
        drop(stream);
        assert_eq!(said.recv_timeout(Duration::from_secs(20)), Ok(Told::GivenUp), "{question}");
        // No problem is stored for the file, since it was not read. The next request reads it.
        let mut next = server.connect();
        next.write_all(server.asking("GET", "/api/1/sources").as_bytes()).unwrap();
        assert_eq!(said.recv_timeout(Duration::from_secs(20)), Ok(Told::Begun), "{question}");
    }
}

#[test]
fn who_waits_for_another_to_look_need_not_wait_for_ever() {
    let (_place, server, said) = slow();
    let mut first = server.connect();
    first.write_all(server.asking("GET", "/api/1/sources").as_bytes()).unwrap();
    assert_eq!(said.recv(), Ok(Told::Begun));
    let mut second = server.connect();
    second.write_all(server.asking("GET", "/api/1/sources").as_bytes()).unwrap();
    drop(second);
    drop(first);
    assert_eq!(said.recv_timeout(Duration::from_secs(20)), Ok(Told::GivenUp));
    // The second request has ended as well, or begins and finds out at once.
    if let Ok(told) = said.recv_timeout(Duration::from_secs(2)) {
        assert_eq!((told, said.recv_timeout(Duration::from_secs(20))), (Told::Begun, Ok(Told::GivenUp)));
    }
}
