//! Programs that know their own memory: compiled here, they print their blocks and obey commands.
#![allow(dead_code)] // Each test file uses a part of it.

use highwater_model::{RssBreakdown, RssKind, StackId, TagId};
use highwater_resident::{LiveBlock, LiveMapping, LiveMemory, PageScan, ScanOptions};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program of `tests/programs`, compiled.
pub fn compiled(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Tests run at the same time; each puts its own copy in place at once.
    let unique = format!("{name}-{}-{:?}", std::process::id(), std::thread::current().id());
    let copy = directory.join(unique.replace(['(', ')'], ""));
    let source = programs.join(format!("{name}.c"));
    let output = Command::new("cc")
        .args(["-O1", "-g", "-w", "-fno-builtin", "-pthread", "-o"])
        .arg(&copy)
        .arg(source)
        .arg("-ldl")
        .output();
    let output = output.expect("cc is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = directory.join(name);
    fs::rename(copy, &program).unwrap();
    program
}

/// A running program.
pub struct Scene {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Scene {
    /// Starts a program and waits until it is ready.
    pub fn start(name: &str, arguments: &[&str]) -> Self {
        Self::start_with(name, arguments, &[])
    }

    /// The same with variables of the environment.
    pub fn start_with(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(compiled(name));
        command.args(arguments).envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut scene = Self { child, input, output };
        scene.lines();
        scene
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Passes a command, and returns what the program prints until it is done.
    pub fn command(&mut self, command: char) -> Vec<String> {
        write!(self.input, "{command}").unwrap();
        self.lines()
    }

    fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the program ended");
            match line.trim_end() {
                "done" => return lines,
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// Its live memory, by its own account. Site N is the owner N.
    pub fn live(&mut self) -> LiveMemory {
        let owners = (0..64).map(|site| (StackId(site + 1), TagId(0))).collect();
        let mut live = LiveMemory { knows_every_block: true, owners, ..LiveMemory::default() };
        for line in self.command('l') {
            let words: Vec<&str> = line.split(' ').collect();
            let hex = |index: usize| u64::from_str_radix(words[index], 16).unwrap();
            let number = |index: usize| words[index].parse::<u64>().unwrap();
            match words[0] {
                "block" => live.blocks.push(LiveBlock {
                    address: hex(1),
                    size: number(2),
                    usable: number(3),
                    owner: number(4) as u32,
                }),
                "mapping" => live.mappings.push(LiveMapping { start: hex(1), end: hex(2), owner: number(3) as u32 }),
                "agent" => live.agent.push(hex(1)..hex(2)),
                _ => panic!("{line}"),
            }
        }
        live
    }

    /// VmRSS.
    pub fn rss(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Its breakdown, which must add up.
    pub fn breakdown(&mut self) -> RssBreakdown {
        let live = self.live();
        self.breakdown_of(live)
    }

    /// The same with given live memory.
    pub fn breakdown_of(&self, live: LiveMemory) -> RssBreakdown {
        let scan = PageScan::read(self.pid(), ScanOptions { proportional: true }).unwrap();
        let breakdown = scan.breakdown(live);
        assert_adds_up(&breakdown, self.rss());
        breakdown
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process at rest: the sum is RSS to the page, and nearly all of it is explained.
pub fn assert_adds_up(breakdown: &RssBreakdown, rss: u64) {
    assert_eq!(breakdown.sum(), rss, "{}", table(breakdown));
    assert!(breakdown.uncertain <= rss / 100, "uncertain by {}", breakdown.uncertain);
    let other = breakdown.resident(RssKind::Other);
    assert!(other <= (rss / 100).max(1 << 20), "{other} bytes are not explained\n{}", table(breakdown));
}

/// The rows, for messages.
pub fn table(breakdown: &RssBreakdown) -> String {
    let row = |row: &highwater_model::RssRow| format!("{:>14} of {:>16} {}\n", row.resident, row.size, row.kind.name());
    format!(
        "{}sum {} of RSS {} to {}, {:?}",
        breakdown.rows.iter().map(row).collect::<String>(),
        breakdown.sum(),
        breakdown.process.rss,
        breakdown.process.rss_after,
        breakdown.allocator
    )
}
