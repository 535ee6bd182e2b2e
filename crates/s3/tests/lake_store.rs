//! A lake in an object store, against moto's server on the loopback interface.

mod support;

use highwater_lake::store::protocol::StoreRequest;
use highwater_lake::store::{LakeStore, ProgramStore, StoreError, StoredFile};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use support::{Gate, Moto, TestFolder, away, keys, listed, wait_for};

const MIB: usize = 1 << 20;

#[test]
fn files_are_put_once_listed_read_and_deleted() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let store = folder.store("s3://lakes/a/lake/", moto.address);
    assert_eq!(keys(&store, ""), [""; 0]);
    let (first, second) = (folder.file("first", 3000), folder.file("second", 4000));
    // What a service's name becomes in a key, and what else may stand in names.
    let odd = ["a%2Fb", "%2E%2E", "caf%C3%A9", "käse", "a b+c&d=e?f#g", "it's\"", "<x>", "~!$()*,;:@[]"];
    for name in odd {
        store.put(&format!("sites/day=2026-11-18/service={name}/09-1.parquet"), &first).unwrap();
    }
    store.put("lake.json", &second).unwrap();
    let mut expected: Vec<String> =
        odd.iter().map(|name| format!("sites/day=2026-11-18/service={name}/09-1.parquet")).collect();
    expected.sort();
    assert_eq!(keys(&store, "sites/"), expected);
    let beginning = "sites/day=2026-11-18/service=a";
    expected.retain(|key| key.starts_with(beginning));
    assert_eq!(expected.len(), 2);
    assert_eq!(keys(&store, beginning), expected, "any beginning, not only folders");
    assert_eq!(keys(&store, "sit").len(), odd.len());
    assert_eq!(keys(&store, "unknown/"), [""; 0]);
    for file in store.list("sites/").unwrap() {
        assert_eq!(file.bytes, 3000);
        let mut content = Vec::new();
        store.open(&file).unwrap().read_to_end(&mut content).unwrap();
        assert!(content == fs::read(&first).unwrap(), "{}", file.key);
        let path = store.local_path(&file).unwrap();
        assert!(path.ends_with(&file.key) && path.starts_with(store.local_root()));
    }
    // The names at the server, without our program.
    let plain = moto.get("/lakes/a/lake/sites/day%3D2026-11-18/service%3Da%252Fb/09-1.parquet");
    assert!(plain == fs::read(&first).unwrap());

    assert!(matches!(store.put("lake.json", &first), Err(StoreError::Exists(key)) if key == "lake.json"));
    assert!(moto.get("/lakes/a/lake/lake.json") == fs::read(&second).unwrap(), "not replaced");
    assert_eq!(store.head("lake.json").unwrap(), listed(&store, "lake.json"));
    assert!(matches!(store.head("other"), Err(StoreError::NotFound(key)) if key == "other"));

    let deleted = listed(&store, "sites/day=2026-11-18/service=a%2Fb");
    store.delete(&deleted.key).unwrap();
    store.delete(&deleted.key).unwrap();
    assert_eq!(keys(&store, "sites/").len(), odd.len() - 1);
    fs::remove_dir_all(folder.path("cache/files")).unwrap();
    fs::create_dir(folder.path("cache/files")).unwrap();
    assert!(store.local_path(&deleted).unwrap().is_file(), "a path stays while the store does");
    assert!(matches!(store.open(&deleted), Err(StoreError::NotFound(key)) if key == deleted.key));
    for strange in ["", "/a", "a//b", "../a", "a/./b", "a/"] {
        assert!(matches!(store.put(strange, &first), Err(StoreError::Refused(_))), "{strange}");
    }
}

#[test]
fn many_keys_are_listed_page_by_page() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let store = folder.store("s3://lakes", moto.address);
    let file = folder.file("file", 10);
    let mut expected = Vec::new();
    for number in 0..1500 {
        let key = format!("incoming/sites/day=2026-11-18/h{number}-1-a.parquet");
        store.put(&key, &file).unwrap();
        expected.push(key);
    }
    expected.sort();
    assert_eq!(moto.requests().len(), 1500, "one request a file");
    assert_eq!(keys(&store, "incoming/"), expected);
    assert_eq!(moto.requests().len(), 1502, "two pages");
    let paths = store.local_paths(&store.list("incoming/").unwrap()).unwrap();
    assert!(paths.len() == 1500 && paths.iter().all(|path| fs::metadata(path).unwrap().len() == 10));
    assert_eq!(moto.requests().len(), 1500 + 4 + 1500);
    store.delete_all(&expected).unwrap();
    assert_eq!(moto.requests().len(), 1500 + 4 + 1500 + 2, "a thousand at once");
    assert_eq!(keys(&store, ""), [""; 0]);
}

#[test]
fn large_files_are_visible_only_when_they_are_complete() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let store = folder.store("s3://lakes/l", moto.address);
    let large = folder.file("large", 20 * MIB + 5);
    let other = folder.file("other", 17 * MIB);
    store.put("large", &large).unwrap();
    assert!(moto.get("/lakes/l/large") == fs::read(&large).unwrap());
    assert!(fs::read(store.local_path(&listed(&store, "large")).unwrap()).unwrap() == fs::read(&large).unwrap());
    assert!(matches!(store.put("large", &other), Err(StoreError::Exists(_))));

    // Two writers of one key: the first to finish has written it, the other learns that at its end.
    let gate = Gate::before(moto.address, MIB);
    let slow = folder.store("s3://lakes/l", gate.address);
    std::thread::scope(|scope| {
        let upload = scope.spawn(|| slow.put("both", &other));
        wait_for("an open upload", || moto.open_uploads() == 1);
        assert_eq!(keys(&store, ""), ["large"], "not visible yet");
        store.put("both", &large).unwrap();
        gate.open();
        assert!(matches!(upload.join().unwrap(), Err(StoreError::Exists(key)) if key == "both"));
    });
    assert!(moto.get("/lakes/l/both") == fs::read(&large).unwrap());
    assert_eq!(moto.open_uploads(), 0, "given up");
}

#[test]
fn a_killed_program_leaves_nothing_visible_and_is_started_again() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let gate = Gate::before(moto.address, MIB);
    let (store, slow) = (folder.store("s3://lakes", moto.address), folder.store("s3://lakes", gate.address));
    let large = folder.file("large", 40 * MIB);
    let first = slow.process_id().unwrap();
    std::thread::scope(|scope| {
        let upload = scope.spawn(|| slow.put("large", &large));
        wait_for("an upload", || moto.open_uploads() == 1);
        kill(first);
        wait_for("the second try", || moto.open_uploads() == 2);
        kill(successor(first, gate.address));
        assert!(away(upload.join().unwrap()).ends_with("s3://lakes: highwater-s3 ended unexpectedly, twice"));
    });
    assert_eq!(keys(&store, ""), [""; 0]);
    assert_eq!(moto.open_uploads(), 2, "the store keeps the parts until its lifecycle rule removes them");
    // The same store goes on with a new program.
    gate.open();
    slow.put("large", &large).unwrap();
    assert_eq!(keys(&store, ""), ["large"]);
    // Killed between two requests: no request fails.
    kill(slow.process_id().unwrap());
    assert_eq!(keys(&slow, ""), ["large"]);
}

#[test]
fn the_end_of_the_command_gives_an_upload_up() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let gate = Gate::before(moto.address, MIB);
    let program = folder.program_for(gate.address);
    let mut child =
        Command::new(program.path).arg("s3://lakes").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(answers.next().unwrap().unwrap().starts_with("{\"ready\":"));
    let request = StoreRequest::Put { key: "large".into(), file: folder.file("large", 40 * MIB) };
    let mut requests = child.stdin.take().unwrap();
    writeln!(requests, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    wait_for("an open upload", || moto.open_uploads() == 1);
    drop(requests);
    assert!(child.wait().unwrap().success());
    assert_eq!(moto.open_uploads(), 0);
    assert_eq!(keys(&folder.store("s3://lakes", moto.address), ""), [""; 0]);
}

#[test]
fn copies_are_kept_and_checked() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let file = folder.file("file", 5000);
    let store = folder.store("s3://lakes", moto.address);
    store.put("sites/one", &file).unwrap();
    let one = listed(&store, "sites/one");
    let count = moto.requests().len();
    let path = store.local_path(&one).unwrap();
    assert!(fs::read(&path).unwrap() == fs::read(&file).unwrap());
    store.local_path(&one).unwrap();
    drop(store);
    assert!(!path.exists(), "paths end with their store");
    let store = folder.store("s3://lakes", moto.address);
    store.local_path(&one).unwrap();
    assert_eq!(moto.requests().len(), count + 1, "read from the server once");
    drop(store);
    // A copy that was cut, by a full disk or a crash.
    let copy = fs::read_dir(folder.path("cache/files")).unwrap().next().unwrap().unwrap().path();
    fs::File::options().write(true).open(copy).unwrap().set_len(4999).unwrap();
    let store = folder.store("s3://lakes", moto.address);
    assert!(fs::read(store.local_path(&one).unwrap()).unwrap() == fs::read(&file).unwrap());
    assert_eq!(moto.requests().len(), count + 2);
    // Another content under the same key is not taken for the listed one, and not for the copy.
    drop(store);
    fs::remove_dir_all(folder.path("cache")).unwrap();
    let store = folder.store("s3://lakes", moto.address);
    store.delete("sites/one").unwrap();
    store.put("sites/one", &folder.file("file", 5001)).unwrap();
    assert!(away(store.local_path(&one)).ends_with("sites/one: changed since it was listed"));
    assert_eq!(fs::metadata(store.local_path(&listed(&store, "sites/one")).unwrap()).unwrap().len(), 5001);
    let folders: Vec<_> = fs::read_dir(folder.path("cache/files")).unwrap().collect();
    assert_eq!(folders.len(), 1, "nothing unfinished is left");
}

#[test]
fn two_stores_of_one_process_do_not_disturb_each_other() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let (one, two) = (folder.store("s3://lakes/1", moto.address), folder.store("s3://lakes/2", moto.address));
    let (small, other) = (folder.file("small", 100), folder.file("other", 200));
    one.put("a", &small).unwrap();
    two.put("a", &other).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(fs::metadata(one.local_path(&listed(&one, "a")).unwrap()).unwrap().len(), 100));
            scope.spawn(|| assert_eq!(fs::metadata(two.local_path(&listed(&two, "a")).unwrap()).unwrap().len(), 200));
        }
    });
    assert_eq!(keys(&ProgramStore::open("s3://lakes", folder.program_for(moto.address)).unwrap(), ""), ["1/a", "2/a"]);
}

fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process.try_into().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// The program that was started in place of another one, for the same server.
fn successor(of: u32, server: SocketAddr) -> u32 {
    let variable = format!("AWS_ENDPOINT_URL=http://{server}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_same = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&variable)
    };
    numbers.find(|process| *process != of && is_same(process)).unwrap()
}

#[test]
fn paths_are_fetched_once_however_small_the_cache_is() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let mut program = folder.program_for(moto.address);
    program.cache_bytes = 2500;
    let store = ProgramStore::open("s3://lakes/small", program).unwrap();
    let file = folder.file("file", 1000);
    for number in 0..10 {
        store.put(&format!("sites/day=2026-11-18/service=a/{number:02}-1.parquet"), &file).unwrap();
    }
    let files = store.list("sites/").unwrap();
    let before = moto.requests().len();
    for _ in 0..2 {
        let paths = store.local_paths(&files).unwrap();
        assert!(paths.len() == 10 && paths.iter().all(|path| fs::read(path).unwrap() == fs::read(&file).unwrap()));
        assert_eq!(moto.requests().len(), before + 10);
    }
    assert!(fs::read_dir(folder.path("cache/files")).unwrap().count() <= 2, "the cache is bounded");
}

#[test]
fn ends_of_files_come_without_the_rest() {
    let (moto, folder) = (Moto::start(), TestFolder::new());
    let store = folder.store("s3://lakes/ends", moto.address);
    let (large, small) = (folder.file("large", 300_000), folder.file("small", 3000));
    store.put("sites/a", &large).unwrap();
    store.put("sites/b", &small).unwrap();
    let files = store.list("sites/").unwrap();
    let ends = store.ends(&files, 4096).unwrap();
    for (mut end, original) in ends.into_iter().zip([&large, &small]) {
        let (mut content, original) = (Vec::new(), fs::read(original).unwrap());
        end.read_to_end(&mut content).unwrap();
        let hole = original.len().saturating_sub(4096);
        assert!(content.len() == original.len() && content[hole..] == original[hole..]);
        assert!(content[..hole].iter().all(|byte| *byte == 0), "more than the end came");
    }
    assert_eq!(fs::read_dir(folder.path("cache/files")).unwrap().count(), 0, "nothing is kept");
    let gone = StoredFile { key: "sites/c".into(), bytes: 10_000, tag: "\"0\"".into() };
    assert!(matches!(store.ends(&[gone], 4096), Err(StoreError::NotFound(key)) if key == "sites/c"));
}
