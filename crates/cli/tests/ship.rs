//! Ships real programs into a lake, and reads the lake's files with DuckDB: figures against the programs' own counts, labels, kills at any moment, stores that are away.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::live::{Collector, Holder, wait_for};
use support::programs;

/// The Python in which `crates/fleet/tools` has installed DuckDB.
fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("tools/python/bin/python");
    assert!(python.is_file(), "DuckDB is missing: run 'crates/fleet/tools {}/tools'", target.display());
    python
}

/// Makes views of a lake's incoming files and runs a statement. `sys.argv`: the lake, the statement.
const QUERY: &str = "
import duckdb, glob, json, sys
lake, sql = sys.argv[1:]
for table in ['processes', 'sites', 'stacks', 'frames']:
    files = glob.glob(glob.escape(lake) + '/incoming/' + table + '/*/*.parquet')
    duckdb.sql('CREATE VIEW ' + table + ' AS SELECT * FROM read_parquet(' + repr(files) + ')')
print(json.dumps(duckdb.sql(sql).fetchall(), default=str))
";

/// How many rows have stacks that have no names.
const UNNAMED: &str = "SELECT count(*) FROM sites ANTI JOIN stacks USING (stack_id, site_id, service)";

/// The rows of a statement over all files of a lake.
#[track_caller]
fn query(lake: &Path, sql: &str) -> Vec<Vec<Value>> {
    let output = Command::new(python()).args(["-c", QUERY]).arg(lake).arg(sql).output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A program that follows orders, with variables in its environment.
fn holder(collector: &Collector, options: &[&str], environment: &[(&str, &str)]) -> Holder {
    let mut command = collector.command(["run", "-q"]);
    command.args(options).arg("--").arg(programs::c("holder")).envs(environment.iter().copied());
    Holder::start(command)
}

/// Ships one slot, now.
#[track_caller]
fn ship_once(collector: &Collector, options: &str) {
    collector.highwater(&format!("ship --to lake --spool spool --once --every 1s --jitter 0s {options}")).succeeded();
}

/// A shipper in the background, whose lines go to a file.
struct Shipping {
    child: Child,
    said: PathBuf,
}

impl Shipping {
    fn start(collector: &Collector, options: &str) -> Self {
        let said = collector.place.file("said.txt");
        let mut command = collector.command(["ship", "--every", "1s", "--jitter", "0s"]);
        command.args(options.split_whitespace()).stderr(fs::File::create(&said).unwrap());
        Self { child: command.stdout(Stdio::null()).spawn().unwrap(), said }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    fn wait_for_line(&self, line: &str) {
        wait_for(line, || self.said().contains(line));
    }

    /// Asks it to end, and returns whether it succeeded.
    fn end(mut self) -> bool {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        self.child.wait().unwrap().success()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The slots in a spool.
fn spooled(spool: &Path) -> BTreeSet<i64> {
    let parcels = fs::read_dir(spool.join("parcels")).into_iter().flatten().flatten();
    let parcels = parcels.map(|entry| entry.path()).filter(|path| path.extension().is_none());
    let folders = parcels.chain([spool.join("waiting")]);
    let files = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".slot")?.parse().ok()).collect()
}

/// The slots of a lake, and the slots with a process that is there twice.
fn slots_of(lake: &Path) -> (BTreeSet<i64>, Vec<Vec<Value>>) {
    let all = query(lake, "SELECT DISTINCT slot FROM processes");
    let twice = "SELECT slot FROM sites GROUP BY slot, process_id, stack_id, site_id HAVING count(*) > 1
        UNION ALL SELECT slot FROM processes GROUP BY slot, process_id HAVING count(*) > 1";
    (all.iter().map(|row| row[0].as_i64().unwrap()).collect(), query(lake, twice))
}

#[test]
fn rows_are_what_the_program_holds_under_its_own_labels() {
    let collector = Collector::new();
    let attributes = "service.name=ignored,service.version=1.42%2Bgit,cloud.region=eu-1,k8s.pod.name=shop-7f,broken=%z";
    let environment = [
        ("OTEL_SERVICE_NAME", "my \"shop\"; '\\"),
        ("OTEL_RESOURCE_ATTRIBUTES", attributes),
        ("POD_NAMESPACE", "prod"),
    ];
    let mut shop = holder(&collector, &[], &environment);
    let mut plain = holder(&collector, &[], &[]);
    assert_eq!(shop.holds("keep 1000 100"), (1000, 100_000));
    assert_eq!(plain.holds("keep 7 1000"), (7, 7000));
    plain.tell("map 100");
    ship_once(&collector, "--host web-1");
    let lake = collector.place.file("lake");
    let labels = "SELECT service, version, region, host, container FROM processes WHERE pid = ";
    let found = query(&lake, &format!("{labels}{}", shop.pid));
    assert_eq!(found, [["my \"shop\"; '\\", "1.42+git", "eu-1", "web-1", "prod/shop-7f"].map(Value::from).to_vec()]);
    assert_eq!(query(&lake, &format!("{labels}{}", plain.pid))[0][0], "holder");
    for (pid, blocks, bytes) in [(shop.pid, 1000, 100_000), (plain.pid, 7, 7000)] {
        let kept = format!(
            "SELECT sum(live_blocks)::BIGINT, sum(live_bytes)::BIGINT FROM sites JOIN stacks USING (stack_id, site_id, service)
            WHERE pid = {pid} AND function = 'keep_blocks'"
        );
        assert_eq!(query(&lake, &kept), [[blocks, bytes].map(Value::from).to_vec()]);
        let totals = &collector.json(&format!("snapshot --pid {pid}"))["totals"];
        let both = format!(
            "SELECT sum(live_blocks)::BIGINT, sum(live_bytes)::BIGINT FROM sites WHERE pid = {pid}
            UNION ALL SELECT live_blocks, live_bytes FROM processes WHERE pid = {pid}"
        );
        let expected = vec![totals["live_blocks"].clone(), totals["live_bytes"].clone()];
        assert_eq!(query(&lake, &both), [expected.clone(), expected]);
    }
    let resident = query(&lake, "SELECT pid, rss_bytes, sample_period FROM processes");
    assert_eq!(resident.len(), 2);
    for row in resident {
        let status = fs::read_to_string(format!("/proc/{}/status", row[0])).unwrap();
        let kilobytes =
            status.split("VmRSS:").nth(1).unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap();
        assert!(row[1].as_u64().unwrap().abs_diff(kilobytes << 10) <= 1 << 20, "{row:?} {kilobytes}");
        assert_eq!(row[2], 0);
    }
    // Names, lines and build ids.
    let frames = "SELECT DISTINCT file LIKE '%/holder.c' AND line > 0 AND module = 'holder' AND build_id <> '' FROM frames WHERE function = 'keep_blocks'";
    assert_eq!(query(&lake, frames), [[Value::from(true)].to_vec()]);
    let text = "SELECT count(*) FROM stacks WHERE stack LIKE '%main;%' AND stack LIKE '%;keep_blocks%'";
    assert_ne!(query(&lake, text)[0][0], 0);
    assert_eq!(query(&lake, UNNAMED)[0][0], 0, "a row without names");
    // The start is the kernel's, for every reader.
    let start =
        query(&lake, &format!("SELECT epoch(start)::BIGINT FROM processes WHERE pid = {}", shop.pid))[0][0].as_i64();
    let stat = Command::new("stat").args(["-c", "%Y", &format!("/proc/{}", shop.pid)]).output().unwrap();
    let proc: i64 = String::from_utf8_lossy(&stat.stdout).trim().parse().unwrap();
    assert!(start.unwrap().abs_diff(proc) <= 60, "{start:?} {proc}");
}

#[test]
fn a_stack_is_the_same_in_two_processes_at_other_addresses() {
    let collector = Collector::new();
    let (mut one, mut other) = (holder(&collector, &[], &[]), holder(&collector, &[], &[]));
    one.tell("keep 10 10");
    other.tell("keep 20 20");
    let start_of =
        |pid: u32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().split('-').next().unwrap().to_owned();
    assert_ne!(start_of(one.pid), start_of(other.pid), "this machine places programs at the same address");
    ship_once(&collector, "");
    let lake = collector.place.file("lake");
    let shared = "SELECT count(*), count(*) FILTER (processes = 2) FROM (SELECT count(DISTINCT process_id) AS processes FROM sites GROUP BY stack_id, site_id)";
    let found = &query(&lake, shared)[0];
    assert!(found[0] == found[1] && found[0] != 0, "{found:?}");
    // A later shipper, a later slot, and a collector that finds the processes anew: the same identities.
    let ids = "SELECT DISTINCT process_id, epoch_us(start), stack_id, site_id FROM sites ORDER BY ALL";
    let before = query(&lake, ids);
    let mut collector = collector;
    collector.restart();
    ship_once(&collector, "");
    assert_eq!(query(&lake, ids), before);
    assert_eq!(query(&lake, "SELECT count(DISTINCT slot) FROM sites")[0][0], 2);
}

#[test]
fn sampled_processes_say_so() {
    let collector = Collector::new();
    let mut sampled = holder(&collector, &["--sample", "64KiB"], &[]);
    sampled.tell("keep 100000 1000");
    ship_once(&collector, "--service s --label version=2 --region r");
    let lake = collector.place.file("lake");
    let sums =
        "SELECT sample_period, service, version, region, sum(live_bytes)::BIGINT, count(*) FROM sites GROUP BY ALL";
    let found = &query(&lake, sums)[0];
    assert_eq!(found[..4], [Value::from(65536), "s".into(), "2".into(), "r".into()]);
    let totals = &collector.json(&format!("snapshot --pid {}", sampled.pid))["totals"];
    // Each row is rounded.
    let difference = found[4].as_u64().unwrap().abs_diff(totals["live_bytes"].as_u64().unwrap());
    assert!(difference <= found[5].as_u64().unwrap(), "{found:?} {totals}");
    // Programs that are not named are not shipped.
    ship_once(&collector, "--name nobody");
    assert_eq!(query(&lake, "SELECT count(*) FROM processes")[0][0], 1);
}

/// Whether a spool and a lake are in some state.
type IsNow = fn(&Path, &Path) -> bool;

/// Files of a spool and a lake are written in an order that is looked for here: a shipper is killed while each of these is true.
const MOMENTS: [(&str, IsNow); 6] = [
    ("a slot is being written", |spool, _| has_name(&spool.join("waiting"), ".unfinished")),
    ("slots wait", |spool, _| !spooled(spool).is_empty()),
    ("a parcel is made", |spool, _| fs::read_dir(spool.join("parcels")).is_ok_and(|mut all| all.next().is_some())),
    ("a file is put", |_, lake| fs::read_dir(lake.join("unfinished")).is_ok_and(|mut all| all.next().is_some())),
    ("a parcel is deleted", |spool, _| has_name(&spool.join("parcels"), ".sent")),
    ("a slot was taken", |spool, _| spool.join("last").exists()),
];

fn has_name(folder: &Path, end: &str) -> bool {
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.any(|entry| entry.file_name().to_string_lossy().ends_with(end))
}

/// The slots that a spool says were taken: the runs in its file `last`.
fn taken(spool: &Path) -> BTreeSet<i64> {
    let text = fs::read_to_string(spool.join("last")).unwrap_or_default();
    let run = |line: &str| {
        let (first, last) = line.split_once(' ')?;
        Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?)
    };
    text.lines().skip(1).filter_map(run).flatten().collect()
}

#[test]
fn a_killed_shipper_loses_no_slot_that_was_spooled_and_sends_none_twice() {
    let collector = Collector::new();
    let mut program = holder(&collector, &[], &[]);
    program.tell("keep 100 100");
    let (lake, spool) = (collector.place.file("lake"), collector.place.file("spool"));
    // All slots that were seen in the spool at any time: none of them may be lost.
    let mut seen = BTreeSet::new();
    let mut last = None;
    let mut missed = Vec::new();
    for (name, is_now) in MOMENTS.into_iter().chain(MOMENTS) {
        let mut shipping = Shipping::start(&collector, "--to lake --spool spool --file-every 2s");
        // Some moments are short, and this test may not see them: then it is killed a little later.
        let deadline = std::time::Instant::now() + std::time::Duration::from_millis(2500);
        let is_met = loop {
            seen.extend(spooled(&spool));
            let is_past = std::time::Instant::now() > deadline;
            if is_past || is_now(&spool, &lake) {
                break !is_past;
            }
        };
        shipping.kill();
        if !is_met {
            missed.push(name);
        }
        program.tell("keep 1 100");
        seen.extend(spooled(&spool));
        // A slot that was taken is not forgotten, and none is taken again.
        let now = taken(&spool).last().copied();
        assert!(now >= last, "{name}: {last:?}, then {now:?}");
        last = now;
    }
    assert!(missed.len() < MOMENTS.len(), "no moment but these was met: {missed:?}");
    let shipping = Shipping::start(&collector, "--to lake --spool spool --file-every 2s");
    // Earlier, a signal would end it as it ends any program.
    shipping.wait_for_line("ships to lake");
    wait_for("a file", || lake.join("incoming/processes").exists());
    assert!(shipping.end());
    assert!(spooled(&spool).is_empty());
    let (slots, twice) = slots_of(&lake);
    assert_eq!(twice, Vec::<Vec<Value>>::new());
    assert!(!seen.is_empty() && seen.is_subset(&slots), "spooled {seen:?}, in the lake {slots:?}");
    // Each slot as a whole: what is stated of its processes is what its sites add up to, and every stack has its names.
    let torn = "SELECT p.slot FROM processes p LEFT JOIN (SELECT slot, process_id, sum(live_bytes) AS bytes, sum(live_blocks) AS blocks
        FROM sites GROUP BY slot, process_id) s ON s.slot = p.slot AND s.process_id = p.process_id
        WHERE s.bytes IS DISTINCT FROM p.live_bytes OR s.blocks IS DISTINCT FROM p.live_blocks";
    assert_eq!(query(&lake, torn), Vec::<Vec<Value>>::new());
    assert_eq!(query(&lake, "SELECT count(*) FROM sites ANTI JOIN processes USING (slot, process_id)")[0][0], 0);
    assert_eq!(query(&lake, UNNAMED)[0][0], 0, "a row without names");
    // And nothing is there that was not taken.
    seen.extend(taken(&spool));
    assert!(slots.is_subset(&seen), "in the lake {slots:?}, taken {seen:?}");
}

#[test]
fn a_parcel_that_was_sent_but_not_deleted_is_in_the_lake_once() {
    let collector = Collector::new();
    let _program = holder(&collector, &[], &[]);
    let (lake, spool) = (collector.place.file("lake"), collector.place.file("spool"));
    // A store that is away keeps the slots in the spool.
    fs::write(&lake, "in the way").unwrap();
    let shipping = Shipping::start(&collector, "--to lake --spool spool --file-every 1s");
    shipping.wait_for_line("cannot send to");
    wait_for("two slots", || spooled(&spool).len() >= 2);
    assert!(!shipping.end(), "what is not sent is an error");
    fs::remove_file(&lake).unwrap();
    // As if the shipper had been killed after the files were put, and before the parcels were deleted.
    let copy = collector.place.file("copy");
    assert!(Command::new("cp").arg("-r").args([&spool, &copy]).status().unwrap().success());
    ship_once(&collector, "");
    fs::remove_dir_all(&spool).unwrap();
    fs::rename(&copy, &spool).unwrap();
    let expected = spooled(&spool);
    ship_once(&collector, "");
    let (slots, twice) = slots_of(&lake);
    assert_eq!(twice, Vec::<Vec<Value>>::new());
    assert!(expected.is_subset(&slots), "{expected:?} {slots:?}");
}

#[test]
fn a_store_that_is_away_gets_everything_when_it_is_back() {
    let collector = Collector::new();
    let mut program = holder(&collector, &[], &[]);
    program.tell("keep 100 100");
    let (lake, spool) = (collector.place.file("store/lake"), collector.place.file("spool"));
    fs::write(collector.place.file("store"), "in the way").unwrap();
    let shipping = Shipping::start(&collector, "--to store/lake --spool spool --file-every 1s");
    shipping.wait_for_line("cannot send to store/lake");
    wait_for("three slots", || spooled(&spool).len() >= 3);
    let waiting = spooled(&spool);
    let refused = collector.highwater("ship --to elsewhere --spool spool --once");
    assert_eq!(refused.shell_status(), 1);
    assert!(refused.stderr_text().contains("another 'highwater ship' uses this spool"), "{}", refused.stderr_text());
    fs::remove_file(collector.place.file("store")).unwrap();
    shipping.wait_for_line("is there again");
    wait_for("the spool to be sent", || spooled(&spool).is_disjoint(&waiting));
    assert!(shipping.end());
    let (slots, twice) = slots_of(&lake);
    assert_eq!(twice, Vec::<Vec<Value>>::new());
    assert!(waiting.is_subset(&slots), "{waiting:?} {slots:?}");
}

#[test]
fn a_lake_that_is_not_mounted_is_away_and_not_made_anew() {
    let collector = Collector::new();
    let mut program = holder(&collector, &[], &[]);
    program.tell("keep 100 100");
    let (lake, spool) = (collector.place.file("lake"), collector.place.file("spool"));
    ship_once(&collector, "");
    let mounted = collector.place.file("mounted");
    fs::rename(&lake, &mounted).unwrap();
    fs::create_dir(&lake).unwrap();
    let away = collector.highwater("ship --to lake --spool spool --once --every 1s --jitter 0s");
    assert_eq!(away.shell_status(), 1);
    assert!(away.stderr_text().contains("its lake.json is gone: is it mounted?"), "{}", away.stderr_text());
    assert_eq!(fs::read_dir(&lake).unwrap().count(), 0, "nothing is written below the mount point");
    let waiting = spooled(&spool);
    assert_eq!(waiting.len(), 1);
    fs::remove_dir(&lake).unwrap();
    fs::rename(&mounted, &lake).unwrap();
    ship_once(&collector, "");
    let (slots, twice) = slots_of(&lake);
    assert!(twice.is_empty() && waiting.is_subset(&slots) && slots.len() == 3, "{waiting:?} {slots:?}");
    // The user means it.
    fs::remove_dir_all(&lake).unwrap();
    fs::remove_file(spool.join("target")).unwrap();
    ship_once(&collector, "");
    assert!(lake.join("lake.json").exists());
}

#[test]
fn a_clock_that_was_ahead_is_said_and_stops_nothing() {
    let collector = Collector::new();
    let mut program = holder(&collector, &[], &[]);
    program.tell("keep 100 100");
    let spool = collector.place.file("spool");
    fs::create_dir(&spool).unwrap();
    let year_2100 = 4_102_444_800i64;
    fs::write(spool.join("last"), format!("{year_2100}\n")).unwrap();
    let shipped = collector.highwater("ship --to lake --spool spool --once --every 1s --jitter 0s");
    assert_eq!(shipped.shell_status(), 0);
    assert!(
        shipped.stderr_text().contains("the clock was set back: slots up to 4102444800 were taken"),
        "{}",
        shipped.stderr_text()
    );
    let again = collector.highwater("ship --to lake --spool spool --once --every 1s --jitter 0s");
    assert!(!again.stderr_text().contains("clock"), "{}", again.stderr_text());
    let (slots, twice) = slots_of(&collector.place.file("lake"));
    assert!(twice.is_empty() && slots.len() == 2 && slots.iter().all(|slot| *slot < year_2100), "{slots:?}");
}

#[test]
fn a_spool_is_bounded_and_says_what_it_drops() {
    let collector = Collector::new();
    let mut program = holder(&collector, &[], &[]);
    program.tell("keep 100 100");
    let (lake, spool) = (collector.place.file("lake"), collector.place.file("spool"));
    fs::write(&lake, "in the way").unwrap();
    let shipping = Shipping::start(&collector, "--to lake --spool spool --file-every 1s --spool-bytes 8KiB");
    shipping.wait_for_line("the spool is full");
    let said = shipping.said();
    assert!(said.contains("slots dropped, the oldest first"), "{said}");
    let files = [spool.join("waiting"), spool.join("parcels")].map(|folder| bytes_in(&folder));
    // A slot that is being written is not counted yet.
    assert!(files.iter().sum::<u64>() <= 16 << 10, "{files:?}");
    fs::remove_file(&lake).unwrap();
    shipping.wait_for_line("is there again");
    let stacks = lake.join("incoming/stacks");
    // The slot with the names was dropped: they are sent again.
    wait_for("names", || stacks.exists());
    assert!(shipping.end());
    assert_eq!(slots_of(&lake).1, Vec::<Vec<Value>>::new());
    assert_eq!(query(&lake, UNNAMED)[0][0], 0, "a row without names");
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => bytes_in(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn it_waits_for_the_collector_and_goes_on_after_it_was_gone() {
    let mut collector = Collector::new();
    let mut program = holder(&collector, &[], &[]);
    program.tell("keep 10 10");
    collector.child.kill().unwrap();
    collector.child.wait().unwrap();
    let shipping = Shipping::start(&collector, "--to lake --spool spool --file-every 1s");
    shipping.wait_for_line("waiting: no collector listens at");
    collector.restart();
    shipping.wait_for_line("the collector is there");
    shipping.wait_for_line("sent 1 slot: 1 process row");
    assert!(shipping.end());
    assert_ne!(query(&collector.place.file("lake"), "SELECT count(*) FROM sites")[0][0], 0);
}

#[test]
fn wrong_arguments_are_one_line() {
    let collector = Collector::new();
    for (line, expected) in [
        ("ship --to lake --label colour=red", "there is no label 'colour'"),
        ("ship --to lake --every 0s", "not whole seconds"),
        ("ship --to lake --every 1500ms", "not whole seconds"),
        ("ship --to gopher://lake --once", "gopher"),
        ("ship", "--to"),
    ] {
        let failed = collector.highwater(line);
        assert_ne!(failed.shell_status(), 0, "{line}");
        assert!(failed.stderr_text().contains(expected), "{line}: {}", failed.stderr_text());
    }
}
