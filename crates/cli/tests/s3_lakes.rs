//! `highwater ship`, `lake` and `fleet` on an object store: moto's server on this machine.

#[path = "../../s3/tests/support/moto.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod moto;
mod support;

use moto::Moto;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::Run;
use support::live::{Collector, Holder};
use support::programs;
use support::small_lake::small_lake;

const LAKE: &str = "s3://lakes/fleet";

/// A program beside this command, or what `crates/fleet/tools` has installed.
fn beside(name: &str) -> PathBuf {
    let debug = Path::new(env!("CARGO_BIN_EXE_highwater")).parent().unwrap();
    let path = if name.contains('/') { debug.with_file_name(name) } else { debug.join(name) };
    assert!(path.is_file(), "{} is missing: build the workspace, and run crates/fleet/tools", path.display());
    path
}

/// A command that knows the store, its credentials, and the engine.
fn command(collector: &Collector, moto: &Moto, line: &str) -> Command {
    let mut command = collector.command(line.split_whitespace());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
    }
    command.env("HIGHWATER_S3", beside("highwater-s3")).env("HIGHWATER_FLEET", beside("highwater-fleet"));
    command.env("HIGHWATER_DUCKDB", beside("tools/duckdb/libduckdb.so"));
    command.env("HIGHWATER_LAKE_CACHE", collector.place.file("cache"));
    command.env("AWS_ENDPOINT_URL", format!("http://{}", moto.address)).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "secret");
    command
}

/// The output of a command that succeeds without a word of warning.
#[track_caller]
fn answer(collector: &Collector, moto: &Moto, line: &str) -> String {
    let run = Run::of(command(collector, moto, line).output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}");
    run.stdout
}

#[track_caller]
fn rows(collector: &Collector, moto: &Moto, line: &str) -> Value {
    serde_json::from_str::<Value>(&answer(collector, moto, &format!("{line} --json"))).unwrap()["rows"].clone()
}

fn requests(moto: &Moto, method: &str, part: &str) -> usize {
    moto.requests().iter().filter(|request| request.starts_with(method) && request.contains(part)).count()
}

/// Shipped, compacted, asked and checked, with nothing between but the store.
#[test]
fn a_lake_in_an_object_store_is_shipped_to_compacted_and_asked() {
    let (collector, moto) = (Collector::new(), Moto::start());
    // Of the day before: hours that are not over are not compacted.
    small_lake(&collector.place, "lake");
    moto.put_folder(&collector.place.file("lake"), "lakes/fleet");
    let mut run = collector.command(["run", "-q", "--"]);
    run.arg(programs::c("holder")).env("OTEL_SERVICE_NAME", "held");
    let mut program = Holder::start(run);
    assert_eq!(program.holds("keep 1000 100"), (1000, 100_000));

    let ship = format!("ship --to {LAKE} --spool spool --once --every 1s --jitter 0s --quiet");
    assert_eq!(answer(&collector, &moto, &ship), "");
    assert!(requests(&moto, "PUT ", "/incoming/sites/") > 0, "{:?}", moto.requests());
    let top = format!("fleet top {LAKE} --where service=held");
    let check = |when: &str| {
        let rows = rows(&collector, &moto, &top);
        let own = rows.as_array().unwrap().iter().find(|row| row["function"] == "keep_blocks");
        let own = own.unwrap_or_else(|| panic!("{when}: {rows}"));
        assert_eq!((&own["bytes"], &own["blocks"]), (&json!(100_000), &json!(1000)), "{when}");
        answer(&collector, &moto, &format!("lake check {LAKE}"))
    };
    let before = check("as it was sent");
    assert!(before.starts_with("sound: "), "{before}");
    let growth = format!("fleet growth {LAKE} --service shop");
    let grown = rows(&collector, &moto, &growth);
    assert_ne!(grown, json!([]));

    let compacted = answer(&collector, &moto, &format!("lake compact {LAKE} --until 0s"));
    assert!(compacted.contains(" became "), "{compacted}");
    assert!(
        requests(&moto, "POST ", "?delete") + requests(&moto, "DELETE ", "/incoming/") > 0,
        "{:?}",
        moto.requests()
    );
    assert_eq!(rows(&collector, &moto, &growth), grown, "after the compaction");
    let after = check("after the compaction, which leaves an hour that is not over");
    assert!(after.starts_with("sound: ") && after != before, "{after}");
    assert_eq!(moto.open_uploads(), 0);
}
