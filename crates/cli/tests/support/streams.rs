//! Two processes connected by a socket.

use super::recorded::Ended;
use super::{HIGHWATER, Place};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// A command that runs beside the test; killed if the test ends first.
pub struct Beside {
    child: Child,
    lines: BufReader<ChildStderr>,
    said: String,
}

impl Beside {
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be run");
        let lines = BufReader::new(child.stderr.take().unwrap());
        Self { child, lines, said: String::new() }
    }

    /// `highwater …` in the test's directory.
    pub fn highwater(place: &Place, line: &str) -> Self {
        Self::start(&mut place.command(line.split_whitespace()))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        self.said.push_str(&line);
        line
    }

    /// The port in the next line that it prints.
    pub fn port(&mut self) -> u16 {
        let line = self.line();
        let port = line.split([' ', ';', '\n']).find_map(|word| word.rsplit_once(':')?.1.parse().ok());
        port.unwrap_or_else(|| panic!("no port in: {line}"))
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until it exits.
    pub fn ended(mut self) -> Ended {
        let mut stderr = std::mem::take(&mut self.said).into_bytes();
        self.lines.read_to_end(&mut stderr).unwrap();
        let mut stdout = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        Ended { status: self.child.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `highwater record OPTIONS -- PROGRAM ARGUMENTS`, beside the test.
pub fn record(place: &Place, options: &str, program: &Path, arguments: &[&str]) -> Beside {
    let mut command = Command::new(HIGHWATER);
    command.arg("record").args(options.split_whitespace()).arg("--").arg(program).args(arguments);
    Beside::start(command.current_dir(place.path()))
}

/// A port that was free a moment ago, for servers that cannot report which port they got.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until the condition is true.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "{what}: never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The private memory of a process, in bytes.
pub fn private_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

/// The number of entries in a directory of a process: `fd`, `task`.
pub fn entries_of(pid: u32, what: &str) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, |entries| entries.count())
}

impl Place {
    /// The report of a file that must be sound.
    #[track_caller]
    pub fn sound_report(&self, file: &str, options: &str) -> Value {
        let check = self.highwater(&format!("check {file}"));
        assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
        self.json(&format!("report {file} {options}"))
    }

    /// The only file with this ending.
    #[track_caller]
    pub fn only_file(&self, ending: &str) -> String {
        let names: Vec<String> = self.names().into_iter().filter(|name| name.ends_with(ending)).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        names[0].clone()
    }
}
