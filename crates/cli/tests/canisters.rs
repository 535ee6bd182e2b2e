//! Canisters by name: the calls of the tools, with stand-ins that write down how they were called. `icp.rs` has the same with the real `icp`.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use support::{Place, Run, live::wait_for};

/// Answers as `icp` does. `fail` names the step that fails, `slow` the one that takes long.
const ICP: &str = r#"#!/bin/sh
here=$(dirname "$0"); echo "$*" >> "$here/calls"
step=$2; [ "$2" = snapshot ] && step=$3
if [ "$(cat "$here/fail" 2>/dev/null)" = "$step" ]; then echo "Error: no $step today" >&2; exit 1; fi
if [ "$(cat "$here/slow" 2>/dev/null)" = "$step" ]; then touch "$here/waits"; sleep 60; fi
case "$step" in
  status) echo "{\"status\":\"$(cat "$here/state")\"}" ;;
  stop) echo Stopped > "$here/state" ;;
  start) echo Running > "$here/state" ;;
  create) echo '{"snapshot_id":"00ab","taken_at_timestamp":1794745805000000000,"total_size_bytes":70000}' ;;
  list) echo '{"snapshots":[{"snapshot_id":"00ab","taken_at_timestamp":1794745805000000000,"total_size_bytes":70000},{"snapshot_id":"00aa","taken_at_timestamp":1794745804000000000,"total_size_bytes":1}]}' ;;
  download)
    case "$*" in
      *--resume*) cp "$here/d/"*.bin "$7/" ;;
      *) cp -r "$here/d/." "$7/"; if [ -e "$here/breaks" ]; then rm "$7/wasm_memory.bin"; exit 1; fi ;;
    esac ;;
esac
"#;

/// Answers as `dfx` does: text, on standard error.
const DFX: &str = r#"#!/bin/sh
here=$(dirname "$0"); echo "$*" >> "$here/calls"
case "$*" in
  *status*) echo "Canister status call result for app." >&2; echo "Status: $(cat "$here/state")" >&2 ;;
  *" stop "*) echo Stopped > "$here/state" ;;
  *" start "*) echo Running > "$here/state" ;;
  *create*) echo "Created a new snapshot of canister app. Snapshot ID: 00ab" >&2 ;;
  *list*) echo "00ab: 68.36 KiB, taken at 2026-11-15 12:30:05 UTC" >&2 ;;
  *download*) for folder; do :; done; cp -r "$here/d/." "$folder/"; [ -e "$here/breaks" ] && rm "$folder/wasm_memory.bin" && exit 1 ;;
esac
exit 0
"#;

/// A place with a stand-in for a tool, and a snapshot that it can download.
struct Network {
    place: Place,
}

impl Network {
    fn with(tool: &str, script: &str) -> Self {
        let place = Place::new();
        let path = place.write(tool, script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        place.write("state", "Running\n");
        place.module("regions");
        assert_eq!(place.highwater("image run regions.wasm --snapshot a.img").code, 0);
        assert_eq!(place.highwater("image export a.img -o d").code, 0);
        Self { place }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.place.command(line.split(' '));
        // The tool first, then the shell's own programs.
        let path = format!("{}:/usr/bin:/bin", self.place.path().display());
        command.env("PATH", path).env("XDG_STATE_HOME", self.place.path()).env_remove("HIGHWATER_ICP");
        command
    }

    fn run(&self, line: &str) -> Run {
        Run::of(self.command(line).output().unwrap())
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.place.file("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.place.file("calls"));
        text.lines().map(str::to_owned).collect()
    }

    fn state(&self) -> String {
        fs::read_to_string(self.place.file("state")).unwrap().trim().to_owned()
    }
}

#[test]
fn a_snapshot_stops_the_canister_only_when_told_to_and_starts_it_again() {
    let network = Network::with("icp", ICP);
    let refused = network.run("image create --canister app --network ic");
    refused.is_one_clear_line_about(&["app is running", "--stop"]);
    assert_eq!(network.calls(), ["canister status app --json --network ic"]);
    let made = network.run("image create --canister app --environment staging --identity me --stop");
    made.stdout_has(&["snapshot 00ab of app, 68.4 KiB\n"]);
    assert!(made.stderr.contains("stopping app") && made.stderr.contains("app was started again"), "{}", made.stderr);
    let choice = "--environment staging --identity me";
    let wanted = [
        format!("canister status app --json {choice}"),
        format!("canister stop app {choice}"),
        format!("canister snapshot create app --json {choice}"),
        format!("canister start app {choice}"),
    ];
    assert_eq!(network.calls(), wanted);
    // Stopped by its owner: it stays so.
    network.place.write("state", "Stopped\n");
    network.run("image update --canister app --stop").stdout_has(&["snapshot 00ab of app"]);
    assert_eq!(network.state(), "Stopped");
    assert!(network.calls().contains(&"canister snapshot create app --replace 00ab --json".to_owned()));
}

#[test]
fn a_canister_is_started_again_after_a_failure() {
    let network = Network::with("icp", ICP);
    network.place.write("fail", "create");
    let failed = network.run("image create --canister app --stop");
    assert_eq!(
        (failed.code, failed.stdout.as_str(), network.state().as_str()),
        (1, "", "Running"),
        "{}",
        failed.stderr
    );
    assert!(failed.stderr.contains("Error: no create today"), "the tool's own message: {}", failed.stderr);
    assert!(failed.stderr.ends_with("highwater: 'icp canister snapshot create app --json' failed: exit status: 1\n"));
    network.place.write("fail", "start");
    let stuck = network.run("image create --canister app --stop");
    assert!(stuck.stderr.contains("app is still stopped; 'icp canister start app' starts it"), "{}", stuck.stderr);
}

#[test]
fn a_canister_is_started_again_after_ctrl_c() {
    let network = Network::with("icp", ICP);
    network.place.write("slow", "create");
    let mut command = network.command("image create --canister app --stop");
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for("the tool", || network.place.file("waits").exists());
    assert_eq!(network.state(), "Stopped");
    let group = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), network.state().as_str()), (Some(1), "Running"), "{said}");
    assert!(said.contains("app was started again") && said.ends_with("highwater: interrupted\n"), "{said}");
}

#[test]
fn a_pull_is_complete_or_goes_on_where_it_was() {
    let network = Network::with("icp", ICP);
    network.place.write("breaks", "");
    let broken = network.run("image pull --canister app -f got");
    assert_eq!(broken.code, 1, "{}", broken.stderr);
    assert!(!network.place.file("got").exists() && network.place.file("got.00ab.part").exists());
    network.calls();
    let pulled = network.run("image pull --canister app -f got");
    pulled.stdout_has(&["got: snapshot 00ab, memory 5.1 MiB, stable memory 384.0 KiB\n"]);
    let calls = network.calls();
    assert!(calls[1].starts_with("canister snapshot download app 00ab -o got.00ab.part --resume"), "{calls:?}");
    assert!(!network.place.file("got.00ab.part").exists());
    network.run("image heap got").stdout_has(&["Motoko, 64 bits"]);
    network.run("image pull --canister app -f got").is_one_clear_line_about(&["got: exists", "nothing is overwritten"]);
    fs::remove_file(network.place.file("breaks")).unwrap();
    network.run("image pull --canister app --id 00aa").stdout_has(&["app_2026-11-15T12-30-04Z: snapshot 00aa"]);
    network.run("image pull --canister app --id 77").is_one_clear_line_about(&["has no snapshot 77"]);
}

#[test]
fn dfx_is_called_in_its_own_way() {
    let network = Network::with("dfx", DFX);
    let info = network.run("image info --canister app --network ic");
    info.stdout_has(&["app (running), by dfx", "00ab", "2026-11-15T12:30:05"]);
    assert_eq!(network.calls(), ["canister --network ic status app", "canister --network ic snapshot list app"]);
    network.run("image create --canister app --stop").stdout_has(&["snapshot 00ab of app\n"]);
    assert_eq!(network.state(), "Running");
    network.place.write("breaks", "");
    assert_eq!(network.run("image pull --canister app -f got").code, 1);
    fs::remove_file(network.place.file("breaks")).unwrap();
    let pulled = network.run("image pull --canister app -f got");
    pulled.stdout_has(&["got: snapshot 00ab, memory 5.1 MiB"]);
    assert!(pulled.stderr.contains("dfx cannot complete a download: it begins again"), "{}", pulled.stderr);
    let environment = network.run("image info --canister app --environment staging");
    assert_eq!(environment.code, 2);
    assert!(environment.stderr.contains("dfx has no environments"), "{}", environment.stderr);
}

#[test]
fn without_a_tool_one_line_says_how_to_get_it() {
    let place = Place::new();
    let mut command = place.command(["image", "info", "--canister", "app"]);
    let run = Run::of(command.env("PATH", place.path()).env_remove("HIGHWATER_ICP").output().unwrap());
    run.is_one_clear_line_about(&["neither icp nor dfx is installed", "npm install"]);
    let both = place.highwater("image info --canister app --socket x");
    assert_eq!(both.code, 2, "{}", both.stderr);
}

#[test]
fn a_watched_canister_leaves_the_newest_folders() {
    let network = Network::with("icp", ICP);
    let watched = network.run("image watch --canister app --every 10ms --count 3 --keep 2 --stop -o series");
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    let lines: Vec<&str> = watched.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", watched.stdout);
    assert!(lines[0].ends_with(" objects") && lines[1].ends_with("objects (0 B)"), "{}", watched.stdout);
    let mut left: Vec<_> =
        fs::read_dir(network.place.file("series")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left.len(), 2, "{left:?}");
    let created = network.calls().into_iter().filter(|call| call.contains("snapshot create")).collect::<Vec<_>>();
    assert_eq!(created[0], "canister snapshot create app --json");
    assert_eq!(created[1], "canister snapshot create app --replace 00ab --json");
    network.run("image watch --canister app --every 1h").is_one_clear_line_about(&["app is running", "--stop"]);
}
