//! What stores of profiles get, read by implementations that share no code with ours; and what happens when a store does not behave.
#![allow(missing_docs)]

mod server;

use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, SiteRow};
use highwater_ship::profile_store::{Authorization, ProfileStoreTarget};
use highwater_ship::{Parcel, SendError, ShipTarget};
use serde_json::Value;
use server::{Act, Received, Server};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const SLOT: i64 = 1_700_000_040;

fn target(server: &Server, kind: &str) -> ProfileStoreTarget {
    let url = format!("{kind}+http://{}", server.address).parse().unwrap();
    ProfileStoreTarget::new(url, None, Authorization::None).unwrap()
}

fn process(number: i32, service: &str) -> Arc<LakeProcess> {
    let labels = Labels {
        service: service.to_owned(),
        version: "1.42".to_owned(),
        region: "eu-1".to_owned(),
        host: "host-7".to_owned(),
        container: String::new(),
    };
    let start_us = (SLOT - 600) * 1_000_000;
    Arc::new(LakeProcess { labels, pid: number, start_us, process_id: -7 * i64::from(number) })
}

fn row(process: &Arc<LakeProcess>, slot: i64, stack: i64, bytes: i64, allocated: Option<i64>) -> SiteRow {
    SiteRow {
        slot,
        process: Arc::clone(process),
        stack_id: stack,
        site_id: -stack,
        sample_period: 0,
        live_bytes: bytes,
        live_blocks: bytes / 8,
        alloc_bytes: allocated,
        alloc_blocks: allocated.map(|bytes| bytes / 8),
    }
}

/// The frames of a stack: `site_N` in a library, then `main`.
fn frames(stack: i64, suffix: &str) -> Vec<FrameRow> {
    let frame = |depth, function: String, module: &str, build_id: &str| FrameRow {
        stack_id: stack,
        site_id: -stack,
        depth,
        function,
        file: "a.c".to_owned(),
        line: 7,
        module: module.to_owned(),
        build_id: build_id.to_owned(),
    };
    vec![
        frame(1, "main".to_owned(), "app", "abcdef"),
        frame(0, format!("site_{stack}{suffix}"), "libsite.so", "0123456789"),
    ]
}

fn parcel(slot: i64, sites: Vec<SiteRow>) -> Parcel {
    let mut stacks: Vec<i64> = sites.iter().map(|row| row.stack_id).collect();
    stacks.sort_unstable();
    stacks.dedup();
    let frames = stacks.into_iter().flat_map(|stack| frames(stack, "")).collect();
    let batch = Batch { sites, frames, ..Batch::default() };
    Parcel { id: format!("{slot:016x}"), host: "host-7".to_owned(), first_slot: slot, batch, is_target_known: true }
}

/// Two processes, one with a service whose name needs care in every text format.
fn two_processes(slot: i64, allocated: Option<i64>) -> Parcel {
    let (one, two) = (process(11, "shop"), process(12, "a\"b\\c{d=e}\n,f é"));
    let sites = vec![
        row(&one, slot, 1, 1000, allocated),
        row(&one, slot, 2, 64, allocated),
        row(&two, slot, 1, 4096, None),
        row(&two, slot, 99, 8, None),
    ];
    let mut parcel = parcel(slot, sites);
    // A stack of which nothing is known.
    parcel.batch.frames.retain(|frame| frame.stack_id != 99);
    parcel
}

/// A folder for files, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// What the independent decoders read from the bodies of requests, one document per process or profile.
    fn decode(&self, kind: &str, requests: &[Received]) -> Vec<Value> {
        let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools");
        let python = tools.join("python/bin/python");
        assert!(python.exists(), "the decoders are not installed: crates/fleet/tools {}", tools.display());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile_store/decode.py");
        let mut command = Command::new(python);
        command.arg(script).arg(kind);
        if kind == "pyroscope" {
            command.arg(&self.0);
        }
        for (number, request) in requests.iter().enumerate() {
            let path = self.0.join(format!("body-{number}"));
            std::fs::write(&path, &request.body).unwrap();
            command.arg(path);
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The total of a profile, as Go's own reader counts it.
fn go_total(path: &str, sample_type: &str) -> String {
    let mut go = Command::new("go");
    go.args(["tool", "pprof", "-top", "-unit=B", &format!("-sample_index={sample_type}"), path]);
    go.env("PPROF_TMPDIR", env!("CARGO_TARGET_TMPDIR"));
    let done = go.output().expect("go is installed: apt install golang-go");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("Showing nodes")).unwrap_or_else(|| panic!("{text}"));
    line.rsplit(" of ").next().unwrap().to_owned()
}

#[test]
fn opentelemetry_reads_every_figure() {
    let server = Server::start([]);
    let mut target = target(&server, "otlp");
    assert!(target.wants_whole_slots());
    assert_eq!(target.send(&two_processes(SLOT, Some(10_000))).unwrap(), "");
    assert_eq!(target.send(&two_processes(SLOT + 60, Some(10_800))).unwrap(), "");
    let requests = server.take();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.line, "POST /v1development/profiles HTTP/1.1");
        assert_eq!(request.fields["content-type"], "application/x-protobuf");
        assert_eq!(request.fields["content-encoding"], "gzip");
        assert!(!request.fields.contains_key("authorization") && !request.fields.contains_key("x-scope-orgid"));
    }
    let found = Folder::new("otlp").decode("otlp", &requests);
    assert_eq!(found.len(), 4);
    let of = |document: usize, name: &str| {
        let profiles = found[document]["profiles"].as_array().unwrap();
        profiles.iter().find(|profile| profile["type"] == name).cloned()
    };
    // Processes are in the order of their numbers, which are negative here.
    let (shop, odd) = (1, 0);
    assert_eq!(found[shop]["attributes"]["service.name"], "shop");
    assert_eq!(found[odd]["attributes"]["service.name"], "a\"b\\c{d=e}\n,f é");
    for (key, value) in [("service.version", "1.42"), ("cloud.region", "eu-1"), ("host.name", "host-7")] {
        assert_eq!(found[shop]["attributes"][key], value);
    }
    assert_eq!(found[shop]["attributes"]["process.pid"], 11);
    assert_eq!(found[shop]["attributes"]["process.creation.time"], "2023-11-14T22:04:00.000000000Z");
    let inuse = of(shop, "inuse_space").unwrap();
    assert_eq!((&inuse["sum"], &inuse["unit"], &inuse["period"]), (&1064.into(), &"bytes".into(), &1.into()));
    assert_eq!(inuse["stacks"], serde_json::json!({"site_1;main": 1000, "site_2;main": 64}));
    assert_eq!(inuse["build_ids"], serde_json::json!(["app abcdef", "libsite.so 0123456789"]));
    assert_eq!((&inuse["time"], &inuse["duration"]), (&(SLOT as u64 * 1_000_000_000).into(), &0.into()));
    assert_eq!(of(shop, "inuse_objects").unwrap()["sum"], 1000 / 8 + 64 / 8);
    assert_eq!(of(odd, "inuse_space").unwrap()["stacks"], serde_json::json!({"site_1;main": 4096, "[unknown]": 8}));
    // Allocated figures are differences, so the first slot has none.
    assert_eq!(of(shop, "alloc_space"), None);
    let allocated = of(shop + 2, "alloc_space").unwrap();
    assert_eq!((&allocated["sum"], &allocated["duration"]), (&1600.into(), &60_000_000_000u64.into()));
    assert_eq!(allocated["time"], SLOT as u64 * 1_000_000_000);
    assert_eq!(of(shop + 2, "alloc_objects").unwrap()["sum"], 200);
    assert_eq!(of(odd + 2, "alloc_space"), None, "its source does not count allocations");
    let ids: std::collections::BTreeSet<String> = found
        .iter()
        .flat_map(|document| document["profiles"].as_array().unwrap())
        .map(|profile| profile["id"].to_string())
        .collect();
    assert_eq!(ids.len(), 4 * 2 + 2, "each profile has an id of its own");
}

#[test]
fn pyroscope_reads_every_figure() {
    let server = Server::start([]);
    let mut target = target(&server, "pyroscope");
    target.send(&two_processes(SLOT, Some(10_000))).unwrap();
    target.send(&two_processes(SLOT + 60, Some(10_800))).unwrap();
    let requests = server.take();
    for request in &requests {
        assert_eq!(request.line, "POST /push.v1.PusherService/Push HTTP/1.1");
        assert_eq!(request.fields["content-type"], "application/proto");
    }
    let folder = Folder::new("pyroscope");
    let found = folder.decode("pyroscope", &requests);
    assert_eq!(found.len(), 4);
    let shop = &found[1];
    assert_eq!(
        shop["labels"],
        serde_json::json!({
            "__name__": "memory", "__delta__": "false", "service_name": "shop", "version": "1.42",
            "region": "eu-1", "host": "host-7", "pid": "11",
        })
    );
    assert_eq!(found[0]["labels"]["service_name"], "a\"b\\c{d=e}\n,f é");
    assert_eq!(shop["sums"], serde_json::json!({"inuse_objects/count": 133, "inuse_space/bytes": 1064}));
    assert_eq!(shop["stacks"], serde_json::json!({"site_1;main": 1000, "site_2;main": 64}));
    assert_eq!(shop["modules"], serde_json::json!(["app abcdef", "libsite.so 0123456789"]));
    assert_eq!(shop["period"], serde_json::json!(["space", "bytes", 1]));
    assert_eq!(shop["time"], SLOT as u64 * 1_000_000_000);
    let later = &found[3];
    assert_eq!(
        later["sums"],
        serde_json::json!({
            "alloc_objects/count": 200, "alloc_space/bytes": 1600, "inuse_objects/count": 133, "inuse_space/bytes": 1064,
        })
    );
    assert_eq!(later["duration"], 60_000_000_000u64);
    let path = later["path"].as_str().unwrap();
    assert_eq!(go_total(path, "inuse_space"), "1064B total");
    assert_eq!(go_total(path, "alloc_space"), "1600B total");
    assert_eq!(go_total(found[0]["path"].as_str().unwrap(), "inuse_space"), "4104B total");
}

#[test]
fn a_profile_above_the_limit_of_pyroscope_is_split() {
    let server = Server::start([]);
    let one = process(1, "large");
    let mut parcel = parcel(SLOT, (1..=24_000).map(|stack| row(&one, SLOT, stack, 8 * stack, None)).collect());
    parcel.batch.frames = (1..=24_000).flat_map(|stack| frames(stack, &"x".repeat(300))).collect();
    target(&server, "pyroscope").send(&parcel).unwrap();
    let found = Folder::new("split").decode("pyroscope", &server.take());
    assert!(found.len() > 1);
    let mut sum = 0;
    for (number, profile) in found.iter().enumerate() {
        assert!(profile["size"].as_u64().unwrap() <= 4 << 20);
        assert_eq!(profile["labels"]["part"], number.to_string());
        sum += profile["sums"]["inuse_space/bytes"].as_u64().unwrap();
    }
    assert_eq!(sum, (1..=24_000).map(|stack| 8 * stack).sum::<u64>());
}

/// What the shipper reports, without the port of the server.
fn outcome(server: &Server, result: Result<String, SendError>) -> String {
    let text = match result {
        Ok(line) => format!("ok {line}"),
        Err(SendError::Away { reason, retry_after }) => format!("away {retry_after:?} {reason}"),
        Err(SendError::Refused(reason)) => format!("refused {reason}"),
        Err(SendError::Unacceptable(reason)) => format!("unacceptable {reason}"),
    };
    text.replace(&server.address, "SERVER")
}

#[test]
fn a_store_that_is_away_is_asked_again_with_the_same_bytes() {
    let server = Server::start([
        Act::Answer("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nstarting\n"),
        Act::Answer(
            "HTTP/1.1 429 Too Many\r\nRetry-After: 17\r\n\r\n{\"code\":\"resource_exhausted\",\"message\":\"4 MB/s\"}",
        ),
        Act::Answer("HTTP/1.1 502 Bad Gateway\r\n\r\n<html>nginx</html>"),
        Act::Close,
        Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbroken off"),
        Act::Answer("SSH-2.0-OpenSSH_9.2\r\n"),
        Act::Answer("\0\u{1}\u{2}garbage without an end"),
        Act::Slowly("HTTP/1.1 504 Gateway Timeout\r\nRetry-After: never\r\n\r\n"),
    ]);
    let mut target = target(&server, "pyroscope");
    let parcel = two_processes(SLOT, Some(1));
    let mut send = || outcome(&server, target.send(&parcel));
    let name = "pyroscope+http://SERVER";
    assert_eq!(send(), format!("away None {name} is busy (503): starting"));
    assert_eq!(send(), format!("away Some(17s) {name} is busy (429): 4 MB/s"));
    assert_eq!(send(), format!("away None {name} is busy (502)"));
    assert_eq!(send(), format!("away None {name}: its response ended early"));
    assert_eq!(send(), format!("away None {name}: its response ended early"));
    assert_eq!(send(), format!("away None {name}: it does not speak HTTP"));
    assert_eq!(send(), format!("away None {name}: its response ended early"));
    assert_eq!(send(), format!("away None {name} is busy (504)"));
    assert_eq!(send(), "ok ");
    let requests = server.take();
    assert_eq!(requests.len(), 9);
    assert!(requests.iter().all(|request| request.body == requests[0].body));
}

#[test]
fn no_server_and_an_early_answer_are_no_hang() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("otlp+http://127.0.0.1:{port}").parse().unwrap();
    let mut unreachable = ProfileStoreTarget::new(url, None, Authorization::None).unwrap();
    let error = unreachable.send(&two_processes(SLOT, None)).unwrap_err();
    assert!(matches!(&error, SendError::Away { reason, .. } if reason.contains("Connection refused")), "{error:?}");

    let server = Server::start([Act::AnswerEarly("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")]);
    let one = process(1, "large");
    let sites = (1..=50_000).map(|stack| row(&one, SLOT, stack, 8 * stack, None)).collect();
    let error = target(&server, "otlp").send(&parcel(SLOT, sites)).unwrap_err();
    // The answer arrives, or the connection breaks: both are errors of one line.
    let text = outcome(&server, Err(error));
    assert!(
        text.starts_with("unacceptable otlp+http://SERVER refuses a request (413") || text.starts_with("away "),
        "{text}"
    );
}

#[test]
fn a_refusal_is_reported_once_for_each_kind_and_dropped() {
    let bad = "HTTP/1.1 400 Bad Request\r\n\r\nno such label";
    let server = Server::start([Act::Answer(bad), Act::Answer(bad)]);
    let mut target = target(&server, "pyroscope");
    let mut send = |slot: i64| outcome(&server, target.send(&two_processes(slot, None)));
    let name = "pyroscope+http://SERVER";
    assert_eq!(send(SLOT), format!("unacceptable {name} refuses a request (400): no such label"));
    assert_eq!(send(SLOT + 60), format!("unacceptable {name} refused it for a reason that was reported"));
    server.then(Act::Answer("HTTP/1.1 422 Unprocessable\r\n\r\n"));
    assert_eq!(send(SLOT + 120), format!("unacceptable {name} refuses a request (422)"));
    assert_eq!(send(SLOT + 180), "ok ");
    server.then(Act::Answer("HTTP/1.1 401 Unauthorized\r\n\r\n"));
    let hint = "see HIGHWATER_AUTHORIZATION, --authorization-file and --tenant";
    assert_eq!(send(SLOT + 240), format!("refused {name} refuses all requests (401; {hint})"));
    server.then(Act::Answer("HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:9/\r\n\r\n"));
    let hint = "redirects are not followed: give the address itself";
    assert_eq!(send(SLOT + 240), format!("refused {name} refuses all requests (307; {hint})"));
    assert_eq!(send(SLOT + 240), "ok ");
}

#[test]
fn a_partial_success_is_reported() {
    // ExportProfilesServiceResponse { partial_success { rejected_profiles: 2, error_message: "no room" } }
    let partial = b"\x0a\x0b\x08\x02\x12\x07no room";
    let server = Server::start([Act::Reply(partial), Act::Reply(partial), Act::Reply(b"\xff\xff\xff")]);
    let mut target = target(&server, "otlp");
    let mut send = |slot: i64| outcome(&server, target.send(&two_processes(slot, None)));
    assert_eq!(send(SLOT), "ok otlp+http://SERVER refused 2 of 4 profiles: no room");
    assert_eq!(send(SLOT + 60), "ok ", "once");
    assert_eq!(send(SLOT + 120), "ok ", "a reply that is none");
}

#[test]
fn bodies_that_were_taken_are_not_sent_again() {
    let server = Server::start([Act::Reply(b""), Act::Answer("HTTP/1.1 503 Busy\r\n\r\n")]);
    // Names that cannot be compressed, so that there are several requests.
    let one = process(1, "large");
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:016x}", state ^ state >> 29)
    };
    let sites = (1..=45_000).map(|stack| row(&one, SLOT, stack, 8, None)).collect();
    let mut parcel = parcel(SLOT, sites);
    for frame in parcel.batch.frames.iter_mut().filter(|frame| frame.depth == 0) {
        frame.function = (0..16).map(|_| noise()).collect();
    }
    let mut target = target(&server, "pyroscope");
    assert!(outcome(&server, target.send(&parcel)).starts_with("away None "));
    let first = server.take();
    assert_eq!(first.len(), 2);
    assert_eq!(outcome(&server, target.send(&parcel)), "ok ");
    let second = server.take();
    assert_eq!(second[0].body, first[1].body);
    assert!(second.iter().all(|request| request.body != first[0].body));
    let mut all = vec![first.into_iter().next().unwrap()];
    all.extend(second);
    let found = Folder::new("resumed").decode("pyroscope", &all);
    let sum: u64 = found.iter().map(|profile| profile["sums"]["inuse_space/bytes"].as_u64().unwrap()).sum();
    assert_eq!(sum, 45_000 * 8);
}

#[test]
fn tenant_and_authorization_are_fields_and_in_no_message() {
    let folder = Folder::new("authorization");
    let file = folder.0.join("token");
    std::fs::write(&file, "Bearer first-secret\n").unwrap();
    let server = Server::start([]);
    let url = format!("otlp+http://{}/base/", server.address).parse().unwrap();
    let mut target =
        ProfileStoreTarget::new(url, Some("team a".to_owned()), Authorization::File(file.clone())).unwrap();
    target.send(&two_processes(SLOT, None)).unwrap();
    // Tokens change while the shipper runs.
    std::fs::write(&file, "Bearer second-secret\n").unwrap();
    server.then(Act::Answer("HTTP/1.1 403 Forbidden\r\n\r\n"));
    let text = outcome(&server, target.send(&two_processes(SLOT + 60, None)));
    assert!(text.starts_with("refused ") && !text.contains("secret"), "{text}");
    let requests = server.take();
    assert_eq!(requests[0].line, "POST /base/v1development/profiles HTTP/1.1");
    assert_eq!(requests[0].fields["x-scope-orgid"], "team a");
    assert_eq!(requests[0].fields["authorization"], "Bearer first-secret");
    assert_eq!(requests[1].fields["authorization"], "Bearer second-secret");
    std::fs::remove_file(&file).unwrap();
    let text = outcome(&server, target.send(&two_processes(SLOT + 60, None)));
    assert!(text.starts_with("refused cannot read the authorization in "), "{text}");
    for tenant in ["", "a\nb", &"t".repeat(151)] {
        let url = "otlp+http://127.0.0.1:9".parse().unwrap();
        assert!(ProfileStoreTarget::new(url, Some(tenant.to_owned()), Authorization::None).is_err(), "{tenant:?}");
    }
}
