//! The network's own client, `icp`, against a host of ours: nothing here knows how the two talk.
//!
//! The client is an npm package (`@icp-sdk/icp-cli-linux-x64`), which `./test` installs. Without it these tests are skipped, and say so.

mod support;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{Place, Run, live::wait_for};

const CANISTER: &str = "rrkah-fqaaa-aaaaa-aaaaq-cai";

/// The client: `HIGHWATER_ICP`, the one that `./test` installs, or the one that is installed on this machine.
fn find_icp() -> Option<PathBuf> {
    let given = std::env::var_os("HIGHWATER_ICP").map(PathBuf::from);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let package = "tools/icp/node_modules/@icp-sdk/icp-cli-linux-x64/bin/icp";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("icp"));
    let found = given.into_iter().chain([target.join(package)]).chain(installed).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: no 'icp' in HIGHWATER_ICP, target/{package} or PATH");
    }
    found
}

/// A host that speaks the network's interface, ended with the test.
struct IcHost {
    child: Child,
    socket: PathBuf,
    address: SocketAddr,
    icp: PathBuf,
    place: Place,
}

impl IcHost {
    fn start(arguments: &[&str]) -> Option<Self> {
        let icp = find_icp()?;
        let place = Place::new();
        // Socket paths must be short.
        let unique = place.path().file_name().unwrap().to_str().unwrap();
        let socket = std::env::temp_dir().join(format!("hw-icp-{unique}.sock"));
        let said = place.file("host.txt");
        let mut command = place.command(["image", "host"]);
        command.args(arguments).args(["--ic", "127.0.0.1:0", "--socket"]).arg(&socket).stdin(Stdio::null());
        command.stderr(std::fs::File::create(&said).unwrap());
        let child = command.spawn().unwrap();
        let mut address = None;
        wait_for("the host's address", || {
            let text = std::fs::read_to_string(&said).unwrap();
            address = text.split_once("http://").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            address.is_some()
        });
        Some(Self { child, socket, address: address.unwrap(), icp, place })
    }

    /// Runs `icp` with an empty home, so that nothing of the user's is read or changed.
    fn try_icp(&self, arguments: &[&str]) -> (bool, String, String) {
        let home = self.place.file("home");
        std::fs::create_dir_all(&home).unwrap();
        let mut command = Command::new(&self.icp);
        command.args(arguments).current_dir(self.place.path());
        command
            .env("HOME", &home)
            .env("XDG_DATA_HOME", &home)
            .env("XDG_CONFIG_HOME", &home)
            .env("XDG_CACHE_HOME", &home);
        command.env("DO_NOT_TRACK", "1").env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    /// `icp canister …` at the host; what it printed.
    #[track_caller]
    fn canister(&self, arguments: &[&str]) -> String {
        let (is_ok, printed, errors) = self.try_canister(arguments);
        assert!(is_ok, "icp canister {arguments:?}: {printed}{errors}");
        printed
    }

    fn try_canister(&self, arguments: &[&str]) -> (bool, String, String) {
        let network = format!("http://{}", self.address);
        self.try_icp(&[&["canister"], arguments, &["-n", &network, "-k", "fetch"]].concat())
    }

    /// A command of ours about the canister, through `icp`.
    #[track_caller]
    fn highwater(&self, line: &str) -> Run {
        let home = self.place.file("home");
        let mut command = self.place.command(line.split(' '));
        command.args(["--canister", CANISTER, "--network", &format!("http://{}", self.address)]);
        command.env("HIGHWATER_ICP", &self.icp).env("HOME", &home).env("XDG_STATE_HOME", &home);
        command.env("XDG_DATA_HOME", &home).env("XDG_CONFIG_HOME", &home).env("XDG_CACHE_HOME", &home);
        Run::of(command.env("DO_NOT_TRACK", "1").env("RUST_BACKTRACE", "0").output().unwrap())
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let (is_ok, printed, errors) = self.try_canister(arguments);
        assert!(!is_ok, "icp canister {arguments:?}: {printed}");
        errors
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let text = self.canister(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for IcHost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// `(42 : nat)`, without spaces and line ends around it.
#[track_caller]
fn add(host: &IcHost, number: u32) -> String {
    host.canister(&["call", CANISTER, "add", &format!("({number})")]).trim().to_owned()
}

#[test]
fn a_snapshot_is_downloaded_uploaded_and_restored() {
    for name in ["busy", "busy32"] {
        let Some(host) = IcHost::start(&[]) else { return };
        let module = host.place.module(name).to_str().unwrap().to_owned();
        host.canister(&["install", CANISTER, "--wasm", &module, "--yes"]);
        assert_eq!(add(&host, 40), "(40 : nat)");
        let refused = host.refused(&["snapshot", "create", CANISTER]);
        assert!(refused.contains("stop"), "{refused}");
        host.canister(&["stop", CANISTER]);
        let refused = host.refused(&["call", CANISTER, "add", "(1)"]);
        assert!(refused.contains("IC0508"), "{refused}");
        let taken = host.json(&["snapshot", "create", CANISTER]);
        let id = taken["snapshot_id"].as_str().unwrap();
        let listed = host.json(&["snapshot", "list", CANISTER]);
        assert_eq!(listed["snapshots"][0], taken);
        host.canister(&["snapshot", "download", CANISTER, id, "-o", "D"]);
        // The host's own list has the snapshot, and its memory is what was downloaded.
        let socket = host.socket.to_str().unwrap();
        let pulled = host.place.run(["image", "pull", "--socket", socket, "-f", "own.img"]);
        assert_eq!(pulled.code, 0, "{pulled:?}");
        let read = |name: &str| std::fs::read(host.place.file(name)).unwrap();
        assert!(read("own.img") == read("D/wasm_memory.bin"), "the two memories differ");
        assert!(read("D/wasm_module.bin") == read(&format!("{name}.wasm")), "the two modules differ");
        // What happens after it is undone by it, after it was sent back as another snapshot.
        host.canister(&["start", CANISTER]);
        assert_eq!(add(&host, 60), "(100 : nat)");
        host.canister(&["stop", CANISTER]);
        let sent = host.json(&["snapshot", "upload", CANISTER, "-i", "D"]);
        let sent = sent["snapshot_id"].as_str().unwrap();
        assert_ne!(sent, id);
        host.canister(&["snapshot", "restore", CANISTER, sent]);
        host.canister(&["start", CANISTER]);
        assert_eq!(add(&host, 2), "(42 : nat)");
        // An upgrade keeps the state.
        host.canister(&["install", CANISTER, "--wasm", &module, "--mode", "upgrade", "--yes"]);
        assert_eq!(add(&host, 1), "(43 : nat)");
        host.canister(&["snapshot", "delete", CANISTER, id]);
        assert_eq!(host.json(&["snapshot", "list", CANISTER])["snapshots"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_hosted_module_is_a_canister_and_callers_have_identities() {
    let place = Place::new();
    let module = place.module("busy").to_str().unwrap().to_owned();
    let Some(host) = IcHost::start(&[&module]) else { return };
    assert_eq!(add(&host, 5), "(5 : nat)");
    let interface = host.canister(&["metadata", CANISTER, "candid:service"]);
    assert!(interface.contains("add:"), "{interface}");
    let status = host.canister(&["status", CANISTER]);
    assert!(status.contains("Status: Running") && status.contains("controller: 2vxsx-fae"), "{status}");
    let trapped = host.refused(&["call", CANISTER, "trapNow", "(1)"]);
    assert!(trapped.contains("IC0503") && trapped.contains("on purpose"), "{trapped}");
    // A request that a key signed.
    let (is_ok, _, errors) = host.try_icp(&["identity", "new", "someone", "--storage", "plaintext", "--quiet"]);
    assert!(is_ok, "{errors}");
    let signed = host.canister(&["call", CANISTER, "add", "(2)", "--identity", "someone"]);
    assert_eq!(signed.trim(), "(7 : nat)");
    let status = host.canister(&["status", CANISTER, "--identity", "someone"]);
    assert!(!status.contains("2vxsx-fae"), "{status}");
    // The other side of the same host.
    let called = host.place.run(["image", "call", "--socket", host.socket.to_str().unwrap(), "add(3)"]);
    assert!(called.stdout.contains("10"), "{called:?}");
}

/// The figures of a heap, without the names of its file, and without its holes: icp writes none.
fn heap(place: &Place, path: &str) -> serde_json::Value {
    let mut heap = place.json(&format!("image heap {path}"));
    for member in ["file", "source", "recording", "data_bytes"] {
        heap.as_object_mut().unwrap().remove(member);
    }
    heap
}

#[test]
fn a_canister_by_name_is_pulled_edited_uploaded_and_restored() {
    let Some(host) = IcHost::start(&[]) else { return };
    let module = host.place.module("regions");
    host.canister(&["install", CANISTER, "--wasm", module.to_str().unwrap(), "--yes"]);
    host.canister(&["call", CANISTER, "write", "(\"in stable memory\")"]);
    let running = host.highwater("image create");
    assert!(running.code == 1 && running.stderr.contains("is running"), "{running:?}");
    let created = host.highwater("image create --stop");
    assert!(created.stdout.starts_with("snapshot 0000"), "{created:?}");
    assert!(created.stderr.contains("was started again"), "{created:?}");
    host.highwater("image info").stdout_has(&["(running), by icp", "snapshots  1"]);
    let pulled = host.highwater("image pull -f D");
    assert_eq!(pulled.code, 0, "{pulled:?}");
    // The heap that the folder shows is the one that the host itself gives out.
    let socket = host.socket.to_str().unwrap();
    assert_eq!(host.place.run(["image", "pull", "--socket", socket, "-f", "own.img"]).code, 0);
    assert_eq!(heap(&host.place, "D"), heap(&host.place, "own.img --module regions.wasm"));
    host.place.highwater("image show D count").stdout_has(&["\n1\n"]);
    // The edited value comes back from the canister.
    assert_eq!(host.place.highwater("image edit D count=41 -o E").code, 0);
    host.canister(&["stop", CANISTER]);
    let sent = host.json(&["snapshot", "upload", CANISTER, "-i", "E"]);
    host.canister(&["snapshot", "restore", CANISTER, sent["snapshot_id"].as_str().unwrap()]);
    host.canister(&["start", CANISTER]);
    assert_eq!(host.canister(&["call", CANISTER, "write", "(\"in stable memory\")"]).trim(), "(42 : nat)");
    let read = host.canister(&["call", CANISTER, "read", "(16)"]);
    assert!(read.contains("in stable memory") && read.contains("4_711"), "{read}");
    // A series, in which the canister grows.
    let watched = host.highwater("image watch --every 1ms --count 2 --stop -o series");
    assert_eq!((watched.code, watched.stdout.lines().count()), (0, 2), "{watched:?}");
    host.highwater("image update --stop").stdout_has(&["snapshot 0000"]);
    let mut folders: Vec<_> =
        std::fs::read_dir(host.place.file("series")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let compared = host.place.run([Path::new("image"), Path::new("diff"), &folders[0], &folders[1]]);
    compared.stdout_has(&["before", "after"]);
}
