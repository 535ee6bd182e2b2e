//! A program that sends its own recording is informed that it was not kept. One test: a program can be recorded once.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::stream::{self, Options};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpListener;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

#[test]
fn a_program_learns_that_its_stream_was_not_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let receiver = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.write_all(b"highwater: receiving\n").unwrap();
        connection.read_exact(&mut [0; 16]).unwrap();
        connection.write_all(b"highwater: the disk is full\n").unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = connection.read_to_end(&mut Vec::new());
    });
    stream::connect(&address, Options::new()).unwrap();
    drop(std::hint::black_box(vec![1u8; 10_000]));
    let problem = highwater::stop_recording().unwrap_err().to_string();
    assert_eq!(problem, "the stream was not kept: the receiver says: the disk is full");
    receiver.join().unwrap();
}
