//! `highwater ship` to a store of profiles: the figures of a program that counts itself, as OpenTelemetry's own package reads them.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use support::Place;
use support::live::{Collector, wait_for};

/// Says how many bytes it holds, and then waits for the end of its input.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static size_t total, count;
static char ready[64];
__attribute__((noinline)) void *keep_pages(size_t size) { void *volatile p = malloc(size); total += size; count++; return p; }
__attribute__((noinline)) void *keep_names(size_t size) { void *volatile p = malloc(size); total += size; count++; return p; }
int main(void) {
    for (int i = 0; i < 100; i++) keep_pages(4000);
    for (int i = 1; i <= 50; i++) keep_names(i);
    int length = snprintf(ready, sizeof ready, "%zu %zu\n", total, count);
    if (write(1, ready, length) != length) return 1;
    return read(0, ready, 1) < 0;
}
"#;

/// Takes one request, and answers 200. Gives the first line and the body.
fn take_one(listener: TcpListener) -> std::thread::JoinHandle<(String, Vec<u8>)> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let mut stream = stream;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        (lines[0].clone(), body)
    })
}

fn decode(place: &Place, kind: &str, body: &[u8]) -> Vec<Value> {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
    let python = tools.join("python/bin/python");
    assert!(python.exists(), "the decoders are not installed: crates/fleet/tools {}", tools.display());
    let file = place.file(&format!("body.{kind}"));
    std::fs::write(&file, body).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ship/tests/profile_store/decode.py");
    let mut command = Command::new(python);
    command.arg(script).arg(kind);
    if kind == "pyroscope" {
        command.arg(place.path());
    }
    let done = command.arg(file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_program_that_counts_itself_is_shipped_to_the_byte() {
    let collector = Collector::new();
    let place = &collector.place;
    place.write("keeper.c", PROGRAM);
    let built = Command::new("cc").args(["-O1", "-g", "keeper.c", "-o", "keeper"]).current_dir(place.path()).status();
    assert!(built.unwrap().success());
    let command = |line: &str| {
        let mut command = collector.command(line.split_whitespace());
        command.env("XDG_STATE_HOME", place.file("state"));
        for variable in ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "HIGHWATER_AUTHORIZATION"] {
            command.env_remove(variable);
        }
        command
    };
    let mut program = command("run --quiet -- ./keeper")
        .env("OTEL_SERVICE_NAME", "shop")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut counted = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut counted).unwrap();
    let counted: Vec<u64> = counted.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [bytes, blocks] = counted[..] else { panic!("{counted:?}") };
    let mut live = Value::Null;
    wait_for("the program in the collector", || {
        let output = command("snapshot --name keeper --json --top 0").output().unwrap();
        live = serde_json::from_slice(&output.stdout).unwrap_or_default();
        output.status.success()
    });
    for (kind, path) in [("otlp", "/v1development/profiles"), ("pyroscope", "/push.v1.PusherService/Push")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let request = take_one(listener);
        // In two words, or in one.
        let to = if kind == "otlp" { "otlp http" } else { "pyroscope+http" };
        let line = format!("ship --to {to}://{address} --name keeper --once --version 1.42 --region eu-1");
        let done = command(&line).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let (first, body) = request.join().unwrap();
        assert_eq!(first, format!("POST {path} HTTP/1.1"));
        let found = decode(place, kind, &body);
        assert_eq!(found.len(), 1);
        let (sum, objects, stacks) = match kind {
            "otlp" => {
                assert_eq!(found[0]["attributes"]["service.name"], "shop");
                assert_eq!(found[0]["attributes"]["service.version"], "1.42");
                let profile = |name: &str| {
                    let profiles = found[0]["profiles"].as_array().unwrap();
                    profiles.iter().find(|profile| profile["type"] == name).unwrap().clone()
                };
                let (space, objects) = (profile("inuse_space"), profile("inuse_objects"));
                (space["sum"].clone(), objects["sum"].clone(), space["stacks"].clone())
            }
            _ => {
                assert_eq!(found[0]["labels"]["service_name"], "shop");
                let sums = &found[0]["sums"];
                (sums["inuse_space/bytes"].clone(), sums["inuse_objects/count"].clone(), found[0]["stacks"].clone())
            }
        };
        let of = |function: &str| -> u64 {
            let stacks = stacks.as_object().unwrap().iter();
            stacks.filter(|(stack, _)| stack.contains(function)).map(|(_, bytes)| bytes.as_u64().unwrap()).sum()
        };
        assert_eq!((of("keep_pages"), of("keep_names")), (400_000, 1275), "{stacks}");
        assert_eq!(of("keep_"), bytes, "as the program counts");
        let of_report = |key: &str| -> u64 {
            live["sites"].as_array().unwrap().iter().map(|site| site[key].as_u64().unwrap()).sum()
        };
        assert_eq!((&sum, &objects), (&of_report("live_bytes").into(), &of_report("live_blocks").into()), "{live}");
        assert!(objects.as_u64().unwrap() >= blocks);
    }
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}
