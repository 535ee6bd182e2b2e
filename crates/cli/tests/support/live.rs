//! Live programs under the real command: a collector for the test, and programs that follow its orders.

use super::recorded::{Ended, run};
use super::{HIGHWATER, Place, programs};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A collector, killed when the test ends.
pub struct Collector {
    pub place: Place,
    pub child: Child,
}

impl Collector {
    /// Starts to listen, with additional options.
    pub fn with(options: &[&str]) -> Self {
        let place = Place::new();
        let child = start(&place, options);
        Self { place, child }
    }

    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Its socket path. Socket paths must be short, and that of a test's directory may be long.
    pub fn socket(&self) -> PathBuf {
        socket_of(&self.place)
    }

    /// Kills it, and starts another one at the same path.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = start(&self.place, &[]);
    }

    /// A command that connects to it.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(HIGHWATER);
        command.args(arguments).env("HIGHWATER_SOCKET", self.socket()).current_dir(self.place.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command line whose words are separated by spaces.
    pub fn highwater(&self, line: &str) -> Ended {
        run(&mut self.command(line.split_whitespace()))
    }

    /// The JSON that a command prints.
    #[track_caller]
    pub fn json(&self, line: &str) -> Value {
        self.highwater(&format!("{line} --json")).succeeded().json()
    }

    /// The entry of a process in `ps`, the latest with that number; null if there is none.
    pub fn process(&self, pid: u32) -> Value {
        let processes = self.json("ps --all");
        let mut found = processes["processes"].as_array().unwrap().iter().filter(|process| process["pid"] == pid);
        let live = found.clone().find(|process| process["state"] == "live");
        live.or(found.next_back()).cloned().unwrap_or_default()
    }

    /// Live blocks and bytes of one function, from a snapshot of a process.
    #[track_caller]
    pub fn function(&self, pid: u32, name: &str) -> (u64, u64) {
        function_in(&self.json(&format!("snapshot --pid {pid} --by function --top 1000")), name)
    }

    /// A program that holds memory on command, run with these options.
    pub fn holder(&self, options: &[&str]) -> Holder {
        let mut command = self.command(["run", "-q"]);
        command.args(options).arg("--").arg(programs::c("holder"));
        Holder::start(command)
    }

    /// The number of entries in a directory of the collector's process in `/proc`.
    pub fn count_in_proc(&self, directory: &str) -> usize {
        std::fs::read_dir(format!("/proc/{}/{directory}", self.child.id())).unwrap().count()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let socket = self.socket();
        let _ = std::fs::remove_file(socket.with_extension("sock.lock"));
        let _ = std::fs::remove_file(socket);
    }
}

fn socket_of(place: &Place) -> PathBuf {
    let name = place.path().file_name().unwrap().to_str().unwrap();
    std::env::temp_dir().join(format!("highwater-{name}.sock"))
}

fn start(place: &Place, options: &[&str]) -> Child {
    let mut command = Command::new(HIGHWATER);
    command.arg("collector").args(options).arg("--socket").arg(socket_of(place)).arg("--store").arg(place.file("kept"));
    let log = std::fs::OpenOptions::new().create(true).append(true).open(place.file("collector.log")).unwrap();
    let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
    wait_for("the collector", || {
        let answered =
            Command::new(HIGHWATER).args(["ps", "--json", "--socket"]).arg(socket_of(place)).output().unwrap();
        answered.status.success()
    });
    child
}

/// Waits until the condition is true.
#[track_caller]
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(120), "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
pub fn function_in(report: &Value, name: &str) -> (u64, u64) {
    let rows = report["functions"].as_array().unwrap_or_else(|| panic!("no functions in {report}"));
    let row = rows.iter().find(|row| row["name"] == name);
    row.map_or((0, 0), |row| (row["live_blocks"].as_u64().unwrap(), row["live_bytes"].as_u64().unwrap()))
}

/// A program that follows orders: `tests/programs/holder.c`.
pub struct Holder {
    pub child: Child,
    pub pid: u32,
    /// `None` once it has ended.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Holder {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        // Until it has printed its process number, `pid` is that of the command: 'kill 0' would kill the test itself.
        let mut holder = Self { pid: child.id(), child, input: Some(input), output };
        holder.pid = holder.read_pid();
        holder
    }

    fn read_pid(&mut self) -> u32 {
        let answer = self.answer();
        answer.strip_prefix("pid ").unwrap_or_else(|| panic!("it did not start: {answer:?}")).parse().unwrap()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Sends an order; returns the answer.
    pub fn tell(&mut self, order: &str) -> String {
        let input = self.input.as_mut().expect("it takes orders");
        input.write_all(format!("{order}\n").as_bytes()).unwrap();
        self.answer()
    }

    /// Sends an order; returns the number of blocks and bytes that it then holds.
    pub fn holds(&mut self, order: &str) -> (u64, u64) {
        let answer = self.tell(order);
        let (blocks, bytes) = answer.split_once(' ').unwrap_or_else(|| panic!("{order}: {answer}"));
        (blocks.parse().unwrap(), bytes.parse().unwrap())
    }

    /// Makes it fork: from now on the child takes the orders. Returns the child's process number.
    pub fn fork(&mut self) -> u32 {
        self.tell("fork").strip_prefix("pid ").unwrap().parse().unwrap()
    }

    /// Ends its input, and waits until the program and the command that started it have ended.
    pub fn finish(mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }

    /// Kills processes that it has started.
    pub fn kill_all(&mut self, pids: &[u32]) {
        let pids = pids.iter().map(u32::to_string);
        Command::new("kill").arg("-9").args(pids).status().unwrap();
    }

    /// Kills the program, not the command that started it.
    pub fn kill(&mut self) {
        let killed = Command::new("kill").args(["-9", &self.pid.to_string()]).status().unwrap();
        assert!(killed.success());
        self.child.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-9", &self.pid.to_string()]).stderr(Stdio::null()).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
