//! A separate process with a fake table: this test program, started again.

use super::fake::{Fake, ask_for_snapshot};
use highwater_shm::table_v1::{FLAG_CONTENTS, TableBlock};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;

const SOCKET: &str = "HIGHWATER_TEST_SOCKET";
const BLOCKS: &str = "HIGHWATER_TEST_BLOCKS";
/// Set for a child that does not register.
const QUIET: &str = "HIGHWATER_TEST_QUIET";

/// A running child.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a child that allocates `blocks` blocks and registers. The test program needs an ignored test named `child` that calls [`be_child`].
    pub fn start(socket: &Path, blocks: u64) -> Self {
        Self::start_as(socket, blocks, "")
    }

    /// The same, but the child does not register: it has to be found.
    pub fn start_quiet(socket: &Path, blocks: u64) -> Self {
        Self::start_as(socket, blocks, "yes")
    }

    fn start_as(socket: &Path, blocks: u64, quiet: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads", "1"])
            .env(SOCKET, socket)
            .env(BLOCKS, blocks.to_string())
            .env(QUIET, quiet)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut running = Self { child, input, output };
        assert_eq!(running.hear(), "ready");
        running
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next answer. Answers begin with `> `; the test harness prints other lines.
    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the child ended");
            // The test harness may have written the beginning of the line.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim().to_owned();
            }
        }
    }

    /// Sends a command, and returns the answer.
    pub fn tell(&mut self, what: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{what}").unwrap();
        self.hear()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The main function of a child; does nothing in other processes.
pub fn be_child() {
    let (Ok(socket), Ok(blocks)) = (std::env::var(SOCKET), std::env::var(BLOCKS)) else { return };
    let socket = Path::new(&socket);
    let mut fake = Fake::new(std::process::id());
    fake.belong_to(socket);
    fake.header().flags.store(FLAG_CONTENTS, Ordering::Relaxed);
    let node = fake.add_node(0, 0x1000);
    let thread = fake.add_thread(std::process::id(), "main");
    // Real memory, so that its contents can be read.
    let memory: Vec<[u8; 16]> = (0..blocks.parse().unwrap()).map(|number: u64| [number as u8; 16]).collect();
    let memory = Box::leak(memory.into_boxed_slice());
    for block in memory.iter() {
        let (address, stamp) = (block.as_ptr() as u64, fake.stamp());
        fake.allocate(TableBlock { address, size: 16, node, thread, stamp, ..TableBlock::default() });
    }
    if std::env::var(QUIET).is_ok_and(|quiet| quiet.is_empty()) {
        fake.register(socket);
    }
    println!("> ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (what, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match what {
            "free" => fake.free(memory[rest.parse::<usize>().unwrap()].as_ptr() as u64),
            "snapshot" => {
                println!("> {}", char::from(ask_for_snapshot(socket, rest)));
                continue;
            }
            // A program that allocates looks at the settings.
            "follow" => {
                let word = fake.control().load();
                let rate = fake.add_rate(fake.control().sample_bytes.load(Ordering::Relaxed));
                fake.header().rate.store(rate.into(), Ordering::Relaxed);
                fake.header().settings.store(word.settings(), Ordering::Relaxed);
            }
            "again" => {
                fake = Fake::new(std::process::id());
                fake.belong_to(socket);
                fake.register(socket);
            }
            "exec" => {
                println!("> gone");
                let _ = std::os::unix::process::CommandExt::exec(Command::new("sleep").arg("1000"));
            }
            _ => panic!("cannot {what}"),
        }
        println!("> done");
    }
}
