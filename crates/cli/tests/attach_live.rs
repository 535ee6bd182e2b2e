//! `highwater attach` and `detach`: the live table of processes that run already, against what those processes know themselves.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use support::live::{Collector, Holder, wait_for};
use support::recorded::Ended;
use support::{Place, programs};

/// A program of the tests that nothing was loaded into.
fn plain(name: &str) -> Holder {
    Holder::start(Command::new(programs::c(name)))
}

fn checked(threads: u32) -> Holder {
    let mut command = Command::new(programs::c("checked"));
    command.arg(threads.to_string());
    Holder::start(command)
}

/// The calls that a `checked` program has made. It answers only while it is right.
fn calls(program: &mut Holder) -> u64 {
    program.holds("calls").0
}

/// It goes on, and is right.
#[track_caller]
fn goes_on(program: &mut Holder) {
    let before = calls(program);
    wait_for("it to go on", || calls(program) > before + 10_000);
}

fn maps(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap()
}

/// The executable bytes of the C library as the process has them.
fn code_of_libc(pid: u32) -> Vec<u8> {
    let maps = maps(pid);
    let line = maps.lines().find(|line| line.contains("libc.so.6") && line.contains("r-xp")).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
    let mut bytes = vec![0; (end - start) as usize];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start).unwrap();
    bytes
}

/// Whether the agent is unmapped, if `detach` said so. Else old words on a stack looked like addresses of it: its memory stays, inert.
#[track_caller]
fn is_unmapped_if_it_said_so(said: &str, pid: u32) {
    assert!(said.contains("detached; threads were stopped for"), "{said}");
    let stays = said.contains("unused memory of the agent stays");
    assert!(stays || said.contains("nothing stays in it"), "{said}");
    assert_eq!(maps(pid).contains("highwater-attach"), stays, "{said}{}", maps(pid));
}

/// A command that must say no: one line, exit code 1.
#[track_caller]
fn refused(ended: &Ended, words: &str) {
    let text = ended.stderr_text();
    assert_eq!(ended.shell_status(), 1, "{text}");
    assert!(text.contains(words) && text.trim_end().lines().count() == 1, "{text}");
    assert!(ended.stdout.is_empty());
}

#[test]
fn what_a_process_allocates_since_is_what_the_snapshot_shows() {
    let collector = Collector::new();
    let mut holder = plain("holder");
    let pid = holder.pid;
    holder.tell("keep 500 300");
    let code = code_of_libc(pid);
    let said = collector.highwater(&format!("attach --pid {pid} --pause 10s")).succeeded().stdout_text();
    assert!(said.contains(&format!("attached to holder ({pid})")) && said.contains("stopped for"), "{said}");
    // It has made no call since. Its C library has some blocks of its own.
    let process = collector.process(pid);
    let figures = |process: &Value| ["live_blocks", "live_bytes"].map(|name| process[name].as_u64().unwrap());
    let before = figures(&process);
    assert_eq!((&process["state"], &process["is_attached"]), (&"live".into(), &true.into()));
    assert!((500..520).contains(&before[0]) && before[1] >= 500 * 312, "{process}");
    assert_eq!(holder.holds("keep 1000 100"), (1500, 250_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (1000, 100_000));
    assert_eq!(holder.holds("drop 400"), (1100, 210_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (600, 60_000));
    // These are from before: never a false leak, and never a negative figure.
    assert_eq!(holder.holds("drop 700"), (400, 120_000));
    assert_eq!(collector.function(pid, "keep_blocks"), (0, 0));
    let process = collector.process(pid);
    let left = [before[0] - 100, before[1] - 100 * 312];
    assert_eq!((figures(&process), &process["unknown_frees"]), (left, &100.into()), "{process}");
    assert_eq!(holder.holds("keep 5 1000"), (405, 125_000));
    let snapshot = collector.json(&format!("snapshot --pid {pid} --by function"));
    assert_eq!(snapshot["cut"]["verified"], true, "{snapshot}");
    let notes = snapshot["source"]["notes"].to_string();
    assert!(notes.contains("Highwater attached") && notes.contains("100 of them"), "{notes}");
    assert_eq!(snapshot["totals"]["live_bytes"], left[1] + 5000);
    // Threads that begin, in a process that has begun.
    holder.tell("threads 3 50");
    assert_eq!(collector.function(pid, "keep_in_thread"), (150, 15_000));
    for line in ["ps", "rss --pid PID", "watch --pid PID --count 1", "snapshot --pid PID"] {
        let said = collector.highwater(&line.replace("PID", &pid.to_string())).succeeded().stdout_text();
        assert!(said.contains("holder") || said.contains("keep_in_thread"), "{line}: {said}");
    }
    // A second attach changes nothing.
    let again = collector.highwater(&format!("attach --pid {pid}")).succeeded().stdout_text();
    assert!(again.contains("attached to already"), "{again}");
    assert_eq!(collector.function(pid, "keep_in_thread"), (150, 15_000));
    let said = collector.highwater(&format!("detach --pid {pid}")).succeeded().stdout_text();
    is_unmapped_if_it_said_so(&said, pid);
    assert_eq!(collector.process(pid), Value::Null);
    assert!(code_of_libc(pid) == code, "a function is not restored");
    assert_eq!(holder.holds("keep 10 10"), (415, 125_100));
    holder.finish();
    let never = plain("holder");
    refused(&collector.highwater(&format!("detach --pid {}", never.pid)), "nothing of Highwater's");
}

#[test]
fn sampling_can_be_chosen_and_changed() {
    let collector = Collector::new();
    let mut holder = plain("holder");
    let pid = holder.pid;
    collector.highwater(&format!("attach --pid {pid} --sample 64KiB")).succeeded();
    assert_eq!(collector.process(pid)["sample_bytes"], 65536);
    holder.tell("keep 100000 1000");
    let (blocks, bytes) = collector.function(pid, "keep_blocks");
    // About 1,500 samples: within five standard deviations.
    assert!((87_000_000..113_000_000).contains(&bytes) && (87_000..113_000).contains(&blocks), "{blocks} {bytes}");
    collector.highwater(&format!("set --pid {pid} --sample off")).succeeded();
    holder.tell("keep 1 70000");
    holder.tell("threads 1 77");
    assert_eq!(collector.function(pid, "keep_in_thread"), (77, 7700));
    assert_eq!(collector.process(pid)["sample_bytes"], 0);
}

#[test]
fn a_collector_that_is_killed_leaves_the_program_right() {
    let mut collector = Collector::new();
    let mut program = checked(2);
    let pid = program.pid;
    collector.highwater(&format!("attach --pid {pid}")).succeeded();
    goes_on(&mut program);
    collector.restart();
    goes_on(&mut program);
    assert_eq!(collector.process(pid), Value::Null);
    // Hooks of the one that was killed are still there; there is no reader any more.
    let said = collector.highwater(&format!("attach --pid {pid}")).succeeded().stdout_text();
    assert!(said.contains(&format!("attached to checked ({pid})")), "{said}");
    goes_on(&mut program);
    let process = collector.process(pid);
    assert!(process["live_blocks"].as_u64().unwrap() > 0 && process["state"] == "live", "{process}");
    // A thread may have been inside of the old agent.
    let objects = maps(pid).lines().filter(|line| line.contains("highwater-attach")).count();
    assert!((1..=2).contains(&objects), "{}", maps(pid));
    collector.highwater(&format!("detach --pid {pid}")).succeeded();
    goes_on(&mut program);
}

#[test]
fn attaching_and_detaching_again_and_again_harms_no_thread() {
    let collector = Collector::new();
    let mut program = checked(8);
    let pid = program.pid;
    let code = code_of_libc(pid);
    for _ in 0..20 {
        collector.highwater(&format!("attach --pid {pid}")).succeeded();
        let before = calls(&mut program);
        wait_for("calls", || calls(&mut program) > before + 2000);
        let snapshot = collector.json(&format!("snapshot --pid {pid}"));
        assert_eq!(snapshot["cut"]["verified"], true, "{snapshot}");
        collector.highwater(&format!("detach --pid {pid}")).succeeded();
    }
    goes_on(&mut program);
    assert!(code_of_libc(pid) == code, "a function is not restored");
    assert!(maps(pid).lines().filter(|line| line.contains("highwater-attach")).count() <= 1, "{}", maps(pid));
}

#[test]
fn a_process_that_ends_or_executes_another_program_is_gone() {
    let collector = Collector::new();
    let mut holder = plain("holder");
    let pid = holder.pid;
    collector.highwater(&format!("attach --pid {pid}")).succeeded();
    holder.tell("keep 100 100");
    // It says its number when it begins.
    assert_eq!(holder.tell(&format!("exec {}", programs::c("holder").display())), format!("pid {pid}"));
    wait_for("the other program", || collector.process(pid)["state"] == "exited");
    // What it held then.
    assert_eq!(collector.function(pid, "keep_blocks"), (100, 10_000));
    let mut holder = plain("holder");
    let pid = holder.pid;
    collector.highwater(&format!("attach --pid {pid}")).succeeded();
    holder.tell("keep 10 10");
    holder.kill();
    wait_for("its end", || collector.process(pid)["state"] == "exited");
    assert_eq!(collector.function(pid, "keep_blocks"), (10, 100));
}

#[test]
fn a_dry_run_touches_nothing() {
    let collector = Collector::new();
    let mut holder = plain("holder");
    let pid = holder.pid;
    let (code, maps_before) = (code_of_libc(pid), maps(pid));
    let text = collector.highwater(&format!("attach --pid {pid} --dry-run")).succeeded().stdout_text();
    for words in ["holder", "can be attached to; nothing was touched", "libc.so.6: malloc, free", "1 thread", "ms"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let document = collector.json(&format!("attach --pid {pid} --dry-run"));
    assert_eq!((&document["can_be_attached"], &document["threads"]), (&true.into(), &1.into()), "{document}");
    assert_eq!(document["older_blocks"]["can_be_read"], true, "{document}");
    assert!(document["pause_ns"].as_u64().unwrap() > 0);
    assert!(code_of_libc(pid) == code && maps(pid) == maps_before);
    assert_eq!(collector.process(pid), Value::Null);
    holder.tell("keep 1 1");
    let gone = i32::MAX;
    refused(&collector.highwater(&format!("attach --pid {gone} --dry-run")), "there is no process");
    let document = collector.highwater(&format!("attach --pid {gone} --dry-run --json"));
    assert_eq!((document.shell_status(), &document.json()["can_be_attached"]), (1, &false.into()));
}

#[test]
fn what_cannot_be_attached_to_is_refused_in_one_line() {
    let collector = Collector::new();
    // A zombie: its parent does not ask.
    let mut zombie = Command::new("true").spawn().unwrap();
    wait_for("the zombie", || std::fs::read_to_string(format!("/proc/{}/stat", zombie.id())).unwrap().contains(") Z "));
    refused(&collector.highwater(&format!("attach --pid {}", zombie.id())), "zombie");
    zombie.wait().unwrap();
    let holder = plain("holder");
    let signal = |which: &str| Command::new("kill").args([which, &holder.pid.to_string()]).status().unwrap();
    signal("-STOP");
    wait_for("the stop", || std::fs::read_to_string(format!("/proc/{}/stat", holder.pid)).unwrap().contains(") T "));
    refused(&collector.highwater(&format!("attach --pid {}", holder.pid)), "kill -CONT");
    signal("-CONT");
    let stripped = programs::c_as("checked", "checked-static", &["-static", "-s"]);
    let mut command = Command::new(stripped);
    command.arg("1");
    let stripped = Holder::start(command);
    refused(&collector.highwater(&format!("attach --pid {}", stripped.pid)), "no malloc was found");
    let preloaded = collector.holder(&[]);
    refused(&collector.highwater(&format!("attach --pid {}", preloaded.pid)), "highwater ps");
    let other = Collector::new();
    let program = plain("holder");
    collector.highwater(&format!("attach --pid {}", program.pid)).succeeded();
    refused(&other.highwater(&format!("attach --pid {}", program.pid)), "is attached to already");
    let traced = traced();
    refused(&collector.highwater(&format!("attach --pid {}", traced.id())), "is traced by process");
}

/// A process that this one traces.
fn traced() -> Traced {
    let mut command = Command::new("sleep");
    command.arg("1000").stdin(Stdio::null());
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    Traced(command.spawn().unwrap())
}

struct Traced(Child);

impl Traced {
    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets and gets values, and checks each answer, until the flag is set. Returns at the first wrong one.
fn ask_redis(socket: &Path, asked: &AtomicU64, stop: &AtomicBool) -> Result<(), String> {
    let connection = UnixStream::connect(socket).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (mut to, mut from) = (connection.try_clone().unwrap(), BufReader::new(connection));
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let value = number.to_string().repeat(1 + (number % 300) as usize);
        write!(to, "SET key{} {value}\r\nGET key{}\r\n", number % 500, number % 500).unwrap();
        let mut line = String::new();
        from.read_line(&mut line).map_err(|error| error.to_string())?;
        let mut answer = vec![0; format!("${}\r\n{value}\r\n", value.len()).len()];
        from.read_exact(&mut answer).map_err(|error| error.to_string())?;
        if line != "+OK\r\n" || answer != format!("${}\r\n{value}\r\n", value.len()).into_bytes() {
            return Err(format!("{line}{}", String::from_utf8_lossy(&answer)));
        }
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn redis_answers_rightly_before_while_and_after() {
    let (collector, place) = (Collector::new(), Place::public());
    let socket = place.file("redis.sock");
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--dir", "/tmp", "--unixsocket"]).arg(&socket);
    let server = Server(command.stdout(Stdio::null()).spawn().unwrap());
    let pid = server.0.id();
    wait_for("redis", || UnixStream::connect(&socket).is_ok());
    let (asked, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| ask_redis(&socket, &asked, &stop));
        let more = |least: u64| {
            let before = asked.load(Ordering::Relaxed);
            wait_for("answers", || client.is_finished() || asked.load(Ordering::Relaxed) >= before + least);
        };
        more(500);
        collector.highwater(&format!("attach --pid {pid}")).succeeded();
        more(500);
        let snapshot = collector.json(&format!("snapshot --pid {pid} --by function"));
        assert!(snapshot["totals"]["allocations"].as_u64().unwrap() > 400, "{snapshot}");
        assert_eq!(snapshot["cut"]["verified"], true, "{snapshot}");
        let said = collector.highwater(&format!("detach --pid {pid}")).succeeded().stdout_text();
        is_unmapped_if_it_said_so(&said, pid);
        more(500);
        stop.store(true, Ordering::Relaxed);
        client.join().unwrap().unwrap();
    });
}

/// A control group for memory with a limit, removed at the end. `None` if none can be made.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    fn new(limit: u64) -> Option<Self> {
        let name = format!("highwater-test-{}", std::process::id());
        let ways = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup/unified", "memory.max"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        ways.into_iter().find_map(|(hierarchy, file)| {
            let group = Self(Path::new(hierarchy).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            // Dropped, and so removed, if this is no hierarchy of memory.
            std::fs::write(group.0.join(file), limit.to_string()).ok()?;
            Some(group)
        })
    }

    fn add(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let begun = std::time::Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The table's records belong to the collector's group, also while no collector allocates them.
#[test]
fn a_container_near_its_limit_is_not_ended_by_the_table() {
    let Some(group) = MemoryGroup::new(24 << 20) else {
        println!("short: no control group with a limit on memory can be made here");
        return;
    };
    let mut collector = Collector::new();
    let mut holder = plain("holder");
    group.add(holder.pid);
    collector.highwater(&format!("attach --pid {} --pause 10s", holder.pid)).succeeded();
    // The blocks themselves take 32 bytes each, and the program's list of them 12: 18 MB in the end. The table would take 13 MB more.
    for count in 1..=4 {
        holder.tell("keep 20000 16");
        assert_eq!(collector.function(holder.pid, "keep_blocks").0, count * 20_000);
    }
    collector.child.kill().unwrap();
    collector.child.wait().unwrap();
    assert_eq!(holder.holds("keep 320000 16"), (400_000, 6_400_000));
    assert_eq!(holder.holds("drop 400000"), (0, 0));
    drop(holder);
}
