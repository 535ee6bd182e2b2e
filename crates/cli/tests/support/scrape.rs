//! Asks the metrics endpoint of a collector, as bytes over a connection: nothing here shares code with the server.

use super::live::{Collector, wait_for};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The accepted type of OpenMetrics.
pub const OPEN_METRICS: &str = "Accept: application/openmetrics-text; version=1.0.0\r\n";

/// A collector that serves metrics at a port of the system's choice, with further options.
pub fn collector(options: &[&str]) -> (Collector, SocketAddr) {
    let collector = Collector::with(&[&["--metrics", "127.0.0.1:0"], options].concat());
    let mut address = None;
    wait_for("the address of the metrics", || {
        let log = std::fs::read_to_string(collector.place.file("collector.log")).unwrap();
        address = log.split_once("http://").and_then(|(_, rest)| rest.split_once("/metrics")?.0.parse().ok());
        address.is_some()
    });
    (collector, address.unwrap())
}

/// Sends bytes, and returns all that is answered.
pub fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // A server that refuses may close the connection before it has read all.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The status, the head and the body of the answer to a request.
pub fn request(address: SocketAddr, method: &str, path: &str, fields: &str) -> (u16, String, Vec<u8>) {
    let text = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{fields}Connection: close\r\n\r\n");
    parts(&exchange(address, text.as_bytes()))
}

pub fn parts(answer: &[u8]) -> (u16, String, Vec<u8>) {
    let text = String::from_utf8_lossy(answer);
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, answer[end + 4..].to_vec())
}

/// The page of metrics.
pub fn page(address: SocketAddr) -> String {
    let (status, _, body) = request(address, "GET", "/metrics", OPEN_METRICS);
    let text = String::from_utf8(body).unwrap();
    assert_eq!(status, 200, "{text}");
    text
}

/// The series of a metric: the text of the labels, and the value.
pub fn series(page: &str, metric: &str) -> BTreeMap<String, u64> {
    let of_line = |line: &str| {
        let (labels, value) = line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} ")?;
        Some((labels.to_owned(), value.parse::<f64>().unwrap() as u64))
    };
    page.lines().filter_map(of_line).collect()
}

/// The value of a metric of a process, if it has one.
pub fn value(page: &str, metric: &str, pid: u32) -> Option<u64> {
    let wanted = format!("pid=\"{pid}\",");
    series(page, metric).into_iter().find(|(labels, _)| labels.starts_with(&wanted)).map(|(_, value)| value)
}

/// Python with the packages of `crates/fleet/tools`.
pub fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools/python/bin/python");
    assert!(python.exists(), "run 'crates/fleet/tools {}' first", python.ancestors().nth(3).unwrap().display());
    python
}
