//! A program that offers its own recording. One test: a program can be recorded once.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::stream::{self, Options};
use highwater_model::{Anomaly, Snapshot, When};
use highwater_store::Recording;
use std::alloc::System;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

const KEPT: usize = 300;

#[inline(never)]
#[expect(clippy::vec_box, reason = "each is a block of its own")]
fn keep(kept: &mut Vec<Box<[u8; 1234]>>) {
    kept.push(black_box(Box::new([1; 1234])));
}

/// The stream that a client receives while `work` runs. Everything the client needs is allocated before.
fn stream_of(address: SocketAddr, token: &str, work: impl FnOnce()) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 << 20);
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(format!("HWtoken {token}\n").as_bytes()).unwrap();
    let mut first = [0; 6];
    client.read_exact(&mut first).unwrap();
    bytes.extend_from_slice(&first);
    // It is told that somebody is there before it hears of it.
    std::thread::sleep(Duration::from_millis(200));
    work();
    client.write_all(b"\n").unwrap();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

fn kept_in(snapshot: &Snapshot) -> (usize, usize) {
    let of_ours = |block: &highwater_model::Block| block.size == 1234;
    let blocks: Vec<_> = snapshot.accounts.blocks().filter(of_ours).collect();
    let named = blocks
        .iter()
        .filter(|block| snapshot.catalog.frame_texts(block.stack).any(|frame| frame.function.contains("keep")));
    (blocks.len(), named.count())
}

#[test]
fn a_program_is_recorded_while_a_client_is_there() {
    let address = stream::serve("127.0.0.1:0", Options::new().token("sesame")).unwrap();
    assert!(stream::serve("0", Options::new()).is_err(), "once is all it can be");
    let mut kept = Vec::with_capacity(10_000);
    // No client is connected: not recorded.
    (0..KEPT).for_each(|_| keep(&mut kept));
    for round in 1..=2 {
        let bytes = stream_of(address, "sesame", || {
            (0..KEPT).for_each(|_| keep(&mut kept));
            // Some of the blocks from before.
            kept.drain(..10);
        });
        let recording = Recording::from_bytes(bytes).unwrap();
        assert!(recording.stats().complete && recording.damage().is_empty(), "round {round}");
        assert_eq!(recording.check(&mut |_| {}).unwrap().violations, Vec::<String>::new());
        let end = recording.snapshot(&When::End).unwrap();
        assert_eq!(kept_in(&end), (KEPT, KEPT), "round {round}");
        assert_eq!(end.accounts.anomalies().get(Anomaly::UnmatchedFree), 0);
        // The sending threads are not in the recording.
        assert!(end.accounts.threads().len() <= 2, "{:?}", end.accounts.threads());
        (0..KEPT).for_each(|_| keep(&mut kept));
    }
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"HWtoken guess\n").unwrap();
    let mut words = String::new();
    stranger.read_to_string(&mut words).unwrap();
    assert!(words.starts_with("highwater: this stream needs a token"), "{words}");
    highwater::stop_recording().unwrap();
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}
