//! `highwater rss` of real programs: rows add up to the kernel's RSS, and what is not explained is less than 1 % or 1 MiB.

mod support;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::live::{Collector, wait_for};
use support::{HIGHWATER, Place};

const MIB: u64 = 1 << 20;

/// A program under `highwater run`, ended with its children.
struct Running {
    collector: Collector,
    child: Child,
    pid: u32,
}

impl Running {
    /// Starts a program; waits until the process called `name` holds `least` bytes.
    fn start(collector: Collector, program: &[&str], input: &str, name: &str, least: u64) -> Self {
        let mut command = collector.command(["run", "-q", "--"]);
        command.args(program).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // The pipe stays open, and the program waits for more.
        child.stdin.as_mut().unwrap().write_all(input.as_bytes()).unwrap();
        let mut pid = 0;
        wait_for(name, || {
            assert!(child.try_wait().unwrap().is_none(), "{program:?} has ended");
            let found = process(&collector, name);
            pid = found.as_ref().map_or(0, |found| found["pid"].as_u64().unwrap() as u32);
            found.is_some_and(|found| found["live_bytes"].as_u64().unwrap() >= least)
        });
        Self { collector, child, pid }
    }

    /// The answer about a process that is stopped while it is read: a table and pages of one moment.
    fn rss(&self) -> Value {
        signal("-STOP", self.pid);
        let answer = self.collector.json(&format!("rss --pid {}", self.pid));
        signal("-CONT", self.pid);
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        signal("-KILL", self.pid);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn process(collector: &Collector, name: &str) -> Option<Value> {
    let processes = collector.json("ps");
    processes["processes"].as_array().unwrap().iter().find(|process| process["name"] == name).cloned()
}

fn signal(which: &str, pid: u32) {
    let _ = Command::new("kill").args([which, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Rows add up to the byte, and nothing much is left over.
#[track_caller]
fn is_explained(answer: &Value) {
    let number = |name: &str| answer[name].as_u64().unwrap();
    let (sum, before, after) = (number("sum_bytes"), number("rss_bytes"), number("rss_after_bytes"));
    assert!(sum.abs_diff(before).min(sum.abs_diff(after)) <= number("uncertain_bytes"), "{answer:#}");
    let rows = answer["rows"].as_array().unwrap();
    let row =
        |key: &str| rows.iter().find(|row| row["key"] == key).map_or(0, |row| row["resident_bytes"].as_u64().unwrap());
    assert_eq!(rows.iter().map(|row| row["resident_bytes"].as_u64().unwrap()).sum::<u64>(), sum);
    let other = row("other");
    assert!(other <= MIB || other * 100 <= sum, "{other} of {sum} bytes are not explained: {answer:#}");
    assert!(answer["findings"].as_array().unwrap().iter().all(|finding| finding["key"] != "unexplained"));
    assert!(row("live_blocks") > 0 && row("file_shared") > 0 && row("agent") > 0, "{answer:#}");
}

#[test]
fn python() {
    let script =
        "import time\nx = [str(i) * 9 for i in range(300000)]\ny = bytearray(64 << 20)\ndel x[::3]\ntime.sleep(1000)";
    is_explained(&Running::start(Collector::new(), &["/usr/bin/python3", "-c", script], "", "python3", 80 * MIB).rss());
}

#[test]
fn node() {
    let script = "const x = []; for (let i = 0; i < 1e6; i++) x.push({i}); setTimeout(() => x.length, 1e6)";
    is_explained(&Running::start(Collector::new(), &["node", "-e", script], "", "node", 30 * MIB).rss());
}

#[test]
fn java() {
    let place = Place::new();
    let source = "public class Held { static Object[] held = new Object[400000]; public static void main(String[] a) throws Exception { \
        for (int i = 0; i < held.length; i++) held[i] = new byte[100]; Thread.sleep(1000000); } }";
    std::fs::write(place.file("Held.java"), source).unwrap();
    let compiled = Command::new("javac").arg("-d").arg(place.path()).arg(place.file("Held.java")).status().unwrap();
    assert!(compiled.success());
    let path = place.path().display().to_string();
    let running = Running::start(Collector::new(), &["java", "-Xmx256m", "-cp", &path, "Held"], "", "java", 5 * MIB);
    wait_for("the heap", || running.rss()["rss_bytes"].as_u64().unwrap() > 60 * MIB);
    is_explained(&running.rss());
}

#[test]
fn sqlite() {
    let sql = "create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 from n limit 300000) \
        insert into t select x, hex(randomblob(50)) from n; delete from t where a % 3 = 0;\n";
    is_explained(&Running::start(Collector::new(), &["sqlite3", ":memory:"], sql, "sqlite3", 20 * MIB).rss());
}

#[test]
fn the_cpp_compiler() {
    let place = Place::new();
    let headers = ["algorithm", "functional", "iostream", "map", "regex", "unordered_map", "vector", "filesystem"];
    let mut source: String = headers.map(|header| format!("#include <{header}>\n")).concat();
    (0..200).for_each(|n| {
        source.push_str(&format!("template class std::map<int, std::vector<std::map<char[{}], int>*>>;\n", n + 1))
    });
    std::fs::write(place.file("large.cpp"), source).unwrap();
    let (input, output) = (place.file("large.cpp").display().to_string(), place.file("large.o").display().to_string());
    let program = ["g++", "-O2", "-std=c++17", "-c", &input, "-o", &output];
    is_explained(&Running::start(Collector::new(), &program, "", "cc1plus", 60 * MIB).rss());
}

#[test]
fn redis_with_another_allocator() {
    let place = Place::new();
    let socket = place.file("redis.sock").display().to_string();
    let program = [
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        &socket,
        "--save",
        "",
        "--dir",
        "/tmp",
        "--enable-debug-command",
        "yes",
    ];
    let running = Running::start(Collector::new(), &program, "", "redis-server", 0);
    let ask = |words: &[&str]| Command::new("redis-cli").args(["-s", &socket]).args(words).output().unwrap();
    wait_for("redis", || ask(&["ping"]).stdout.starts_with(b"PONG"));
    let filled = ask(&["debug", "populate", "100000", "key", "100"]);
    assert!(filled.stdout.starts_with(b"OK"), "{filled:?}");
    let answer = running.rss();
    is_explained(&answer);
    // Rows do not say what is free inside an allocator that is not glibc's.
    assert_eq!(answer["allocator"]["name"], "jemalloc");
    assert!(answer["allocator"]["trim_bytes"].is_null(), "{answer:#}");
}

#[test]
fn nginx() {
    let place = Place::new();
    let (folder, socket) = (place.path().display().to_string(), place.file("n.sock").display().to_string());
    let settings = format!(
        "pid {folder}/pid; error_log {folder}/log; events {{}} http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; \
         fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; server {{ listen unix:{socket}; }} }}"
    );
    std::fs::write(place.file("nginx.conf"), settings).unwrap();
    let path = place.file("nginx.conf").display().to_string();
    let program = ["nginx", "-p", &folder, "-c", &path, "-e", "stderr", "-g", "daemon off; master_process off;"];
    let running = Running::start(Collector::new(), &program, "", "nginx", 0);
    wait_for("nginx", || Path::new(&socket).exists());
    is_explained(&running.rss());
}

/// The newest PostgreSQL of Debian, which is not in the path.
fn postgres(tool: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let newest = versions.map(|version| version.unwrap().path()).max().unwrap();
    newest.join("bin").join(tool)
}

#[test]
fn a_postgres_backend_that_was_forked() {
    // It refuses to run as the superuser, and another user may not reach the folder in which tests are built.
    let place = Place::public();
    let data = place.file("data");
    let is_root = rustix::process::geteuid().is_root();
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let as_user = |program: PathBuf| {
        let mut command = Command::new(if is_root { other[0].as_ref() } else { program.as_os_str() });
        if is_root {
            command.args(&other[1..]).arg(&program);
        }
        command.current_dir(place.path()).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut initialize = as_user(postgres("initdb"));
    let initialized =
        initialize.args(["-U", "tester", "--no-sync", "-D"]).arg(&data).stderr(Stdio::piped()).output().unwrap();
    assert!(initialized.status.success(), "{}", String::from_utf8_lossy(&initialized.stderr));
    let folder = place.path().display().to_string();
    let mut server = as_user(postgres("postgres"));
    let mut server = server.arg("-D").arg(&data).args(["-k", &folder, "-c", "listen_addresses="]).spawn().unwrap();
    let sql = |text: &str| {
        let mut command = as_user(postgres("psql"));
        command.args(["-h", &folder, "-U", "tester", "-d", "postgres", "-c", text]);
        command
    };
    wait_for("the server", || sql("select 1").status().unwrap().success());
    let query = "select count(*) from (select x, md5(x::text) from generate_series(1, 200000) x order by 2 offset 0) t; select pg_sleep(1000)";
    let mut client = sql(query).spawn().unwrap();
    let backend = || {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).unwrap_or_default();
        let is_backend = |pid: &&str| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("tester"))
        };
        children.split_whitespace().find(is_backend).map(str::to_owned)
    };
    let read = |pid: String| {
        let mut command = Command::new(HIGHWATER);
        command.args(["rss", "--json", "--pid", &pid]).env("HIGHWATER_SOCKET", "/nonexistent/highwater.sock");
        serde_json::from_slice::<Value>(&command.output().unwrap().stdout).ok()
    };
    // The backend of an earlier query may still be there, and ends.
    let mut answer = Value::Null;
    wait_for("the backend", || {
        answer = backend().and_then(read).unwrap_or_default();
        !answer.is_null()
    });
    let _ = (client.kill(), client.wait(), server.kill(), server.wait());
    let number = |name: &str| answer[name].as_u64().unwrap();
    let (sum, before, after) = (number("sum_bytes"), number("rss_bytes"), number("rss_after_bytes"));
    assert!(
        sum + number("uncertain_bytes") >= before.min(after) && sum <= before.max(after) + number("uncertain_bytes"),
        "{answer:#}"
    );
    // The shared buffers are memory of all its processes.
    let shared = answer["rows"].as_array().unwrap().iter().find(|row| row["key"] == "shared_memory").unwrap();
    assert!(shared["resident_bytes"].as_u64().unwrap() > MIB, "{answer:#}");
}
