//! A program that counts itself, and that others attach to: `tests/programs/attachable.c`.

use super::recorded::plain;
use super::{Place, programs};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that counts itself, and runs by itself.
pub struct Target {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Target {
    pub fn start(place: &Place) -> Self {
        Self::of(plain(place, &programs::c("attachable")))
    }

    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self { input: child.stdin.take(), child, output };
        assert_eq!(target.line(), "ready\n");
        target
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the target has ended");
        line
    }

    pub fn order(&mut self, letter: &str) -> String {
        self.input.as_mut().unwrap().write_all(letter.as_bytes()).unwrap();
        self.line()
    }

    pub fn figures(&mut self, letter: &str) -> Value {
        serde_json::from_str(&self.order(letter)).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The code of its files, byte by byte: an attach changes it, and a detach restores it. Afterwards the agent's own mappings may stay, unused, but none of a file.
    pub fn code(&self) -> Vec<(String, Vec<u8>)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let memory = File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let read = |line: &str| {
            let (begin, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [begin, end] = [begin, end].map(|hex| u64::from_str_radix(hex, 16).unwrap());
            let mut bytes = vec![0; (end - begin) as usize];
            memory.read_exact_at(&mut bytes, begin).unwrap();
            (line.to_owned(), bytes)
        };
        maps.lines().filter(|line| line.contains("r-xp ") && line.contains('/')).map(read).collect()
    }

    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// It ends by itself, and well.
    pub fn ends(mut self) {
        drop(self.input.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Live blocks and bytes, as a program or a report says them.
pub fn own(figures: &Value) -> (u64, u64) {
    (figures["live_blocks"].as_u64().unwrap(), figures["live_bytes"].as_u64().unwrap())
}
