//! A connection to a server that stops after some bytes, until it is opened.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// Passes connections on. Each passes only its first bytes to the server while the gate is closed.
pub struct Gate {
    pub address: SocketAddr,
    is_open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub fn before(server: SocketAddr, bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_open = Arc::new((Mutex::new(false), Condvar::new()));
        let gate = is_open.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, usize::MAX, None));
                let gate = gate.clone();
                std::thread::spawn(move || pass(client, server, bytes, Some(gate)));
            }
        });
        Self { address, is_open }
    }

    pub fn open(&self) {
        *self.is_open.0.lock().unwrap() = true;
        self.is_open.1.notify_all();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, bytes: usize, gate: Option<Arc<(Mutex<bool>, Condvar)>>) {
    let mut passed = 0;
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if let Some(gate) = gate.as_ref().filter(|_| passed + read > bytes) {
            let _unused = gate.1.wait_while(gate.0.lock().unwrap(), |is_open| !*is_open).unwrap();
        }
        passed += read;
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
