//! Target programs, a small image, and an attacher in a process of its own.
#![allow(dead_code, reason = "each test binary uses a part")]

use highwater_attach::{AttachError, AttachOptions, Attached, DetachOptions, Refusal, Steps};
use highwater_shm::attach_v1::{AttachHeader, FUNCTION_COUNT, MODULES, SESSION, THREAD_SLOTS, THREADS};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

fn sources() -> PathBuf {
    // Tests of crate `inject` use this file, too.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../attach/tests/targets")
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attach");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Builds a file once for all test processes; again when its source is newer.
fn built(name: &str, source: &str, build: impl FnOnce(&Path, &Path)) -> PathBuf {
    let (target, source) = (folder().join(name), sources().join(source));
    let lock = File::create(folder().join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if time(&target).is_none_or(|built| built < time(&source).unwrap()) {
        let new = folder().join(format!("{name}.new"));
        build(&source, &new);
        fs::rename(&new, &target).unwrap();
    }
    target
}

pub fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A target program of C or C++.
pub fn program(name: &str) -> PathBuf {
    variant(name, name, &[])
}

pub fn variant(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let is_cxx = source == "cxx";
    let file = format!("{source}.{}", if is_cxx { "cc" } else { "c" });
    built(name, &file, |source, target| {
        let (source, target) = (source.to_str().unwrap(), target.to_str().unwrap());
        let mut words = vec!["-O1", "-g", "-fno-builtin", "-pthread", "-w", "-o", target, source];
        words.extend(flags);
        run(if is_cxx { "c++" } else { "cc" }, &words);
    })
}

/// The image of the tests.
pub fn image() -> Vec<u8> {
    let script = sources().join("image.ld");
    let path = built("image.bin", "image.c", |source, target| {
        let part = |end: &str| folder().join(format!("image.{end}")).to_str().unwrap().to_owned();
        let (object, linked) = (part("o"), part("elf"));
        let defines = [
            ("HEADER_BYTES", size_of::<AttachHeader>()),
            ("TID_OFFSET", offset_of!(AttachHeader, thread_id_offset)),
            ("SHARED_OFFSET", offset_of!(AttachHeader, shared)),
            ("THREADS_OFFSET", THREADS as usize),
            ("MODULES_OFFSET", MODULES as usize),
        ]
        .map(|(name, value)| format!("-D{name}={value}"));
        let mut words = vec![
            "-c",
            "-O2",
            "-ffreestanding",
            "-fPIC",
            "-fvisibility=hidden",
            "-fno-stack-protector",
            "-fcf-protection=none",
        ];
        words.extend(["-fno-asynchronous-unwind-tables", "-mno-avx", "-w", "-o", &object, source.to_str().unwrap()]);
        words.extend(defines.iter().map(String::as_str));
        run("cc", &words);
        run("ld", &["-static", "-z", "norelro", "-T", script.to_str().unwrap(), "-o", &linked, &object]);
        run("objcopy", &["-O", "binary", &linked, target.to_str().unwrap()]);
    });
    fs::read(path).unwrap()
}

pub const SHARED_BYTES: u64 = SESSION;

pub fn options() -> AttachOptions {
    AttachOptions { stop_budget: Duration::from_millis(500), replace: true, ..AttachOptions::new(SHARED_BYTES) }
}

/// What a busy machine may answer at first.
fn may_pass(error: &AttachError) -> bool {
    error.is_temporary() || matches!(error, AttachError::Refused(Refusal::SharedMemory { .. }))
}

pub fn until_it_works<T>(mut attempt: impl FnMut() -> Result<T, AttachError>) -> Result<T, AttachError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20))
            }
            other => return other,
        }
    }
}

pub fn attach_with(pid: i32, options: &AttachOptions) -> Result<Attached, AttachError> {
    let image = image();
    until_it_works(|| highwater_attach::plan(pid)?.attach(&image, options, |_, object| object.set_len(SHARED_BYTES)))
}

pub fn attach(pid: i32) -> Attached {
    attach_with(pid, &options()).unwrap_or_else(|error| panic!("attach: {error}"))
}

pub fn detach_options() -> DetachOptions {
    DetachOptions { stop_budget: Duration::from_millis(500), ..DetachOptions::default() }
}

pub fn detach(pid: i32) -> highwater_attach::Detached {
    until_it_works(|| highwater_attach::detach(pid, &detach_options()))
        .unwrap_or_else(|error| panic!("detach: {error}"))
}

/// Calls of each function that the image has counted.
pub fn calls(attached: &Attached) -> [u64; FUNCTION_COUNT] {
    let mut bytes = vec![0; FUNCTION_COUNT * 8];
    attached.object.read_exact_at(&mut bytes, MODULES).unwrap();
    std::array::from_fn(|index| u64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap()))
}

/// Births and deaths that the image has counted.
pub fn births_and_deaths(attached: &Attached) -> (u64, u64) {
    let mut bytes = vec![0; THREAD_SLOTS * 64];
    attached.object.read_exact_at(&mut bytes, THREADS).unwrap();
    let sum = |word: usize| {
        bytes.chunks_exact(64).map(|slot| u64::from_le_bytes(slot[word * 8..][..8].try_into().unwrap())).sum()
    };
    (sum(4), sum(5))
}

/// A target that runs.
pub struct Target {
    pub child: Child,
    lines: Receiver<String>,
    progress: Option<(File, usize, PathBuf)>,
}

impl Target {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Self { child, lines, progress: None }
    }

    /// A target that says "ready".
    pub fn ready(command: &mut Command) -> Self {
        let mut target = Self::start(command);
        target.wait_for("ready");
        target
    }

    /// A `churn` at work.
    pub fn churn(threads: usize, idle: usize) -> Self {
        Self::churn_of(&program("churn"), threads, idle)
    }

    pub fn churn_of(program: &Path, threads: usize, idle: usize) -> Self {
        Self::churn_by(Command::new(program), threads, idle)
    }

    pub fn churn_by(mut command: Command, threads: usize, idle: usize) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = folder().join(format!("progress.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        let mut target = Self::start(command.arg(&path).arg(threads.to_string()).arg(idle.to_string()));
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(
                Instant::now() < deadline && target.child.try_wait().unwrap().is_none(),
                "the target did not start"
            );
            if let Ok(file) = File::open(&path)
                && file.metadata().unwrap().len() >= 4096
            {
                target.progress = Some((file, threads, path.clone()));
                let (begun, counts) = target.counts();
                if begun && counts.iter().all(|&count| count > 200) {
                    return target;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn counts(&self) -> (bool, Vec<u64>) {
        let (file, threads, _) = self.progress.as_ref().unwrap();
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let word = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap());
        (word(0) == 1, (0..*threads).map(|thread| word(8 + thread)).collect())
    }

    /// Every thread of a `churn` makes progress, and the process lives.
    pub fn check(&mut self, when: &str) {
        let (_, before) = self.counts();
        let deadline = Instant::now() + PATIENCE;
        while !self.counts().1.iter().zip(&before).all(|(now, before)| now > before) {
            assert!(self.child.try_wait().unwrap().is_none(), "the target died {when}: {:?}", self.child.try_wait());
            assert!(Instant::now() < deadline, "the target is stuck {when}");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(self.child.try_wait().unwrap().is_none(), "the target died {when}");
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, name: &str) {
        run("kill", &[&format!("-{name}"), &self.pid().to_string()]);
    }

    /// Reads lines until one begins so.
    pub fn wait_for(&mut self, beginning: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .unwrap_or_else(|_| panic!("the target never said {beginning:?}"));
            if line.starts_with(beginning) {
                return line;
            }
            assert!(!line.contains("FAILED") && !line.contains("OUT OF ORDER"), "{line}");
        }
    }

    /// What it has said since.
    pub fn said(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some((_, _, path)) = &self.progress {
            let _ = fs::remove_file(path);
        }
    }
}

/// Executable bytes of a process that differ from the files they were mapped from.
pub fn changed_bytes(pid: i32) -> usize {
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut changed = 0;
    for line in fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 6 || !words[1].contains('x') || !words[5].starts_with('/') {
            continue;
        }
        let (start, end) = words[0].split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let mut now = vec![0; (number(end) - number(start)) as usize];
        memory.read_exact_at(&mut now, number(start)).unwrap();
        let mut original = Vec::new();
        // By the mapping itself: the file may have been replaced since. That needs root.
        let mapped = File::open(format!("/proc/{pid}/map_files/{start}-{end}"));
        let Ok(file) = mapped.or_else(|_| File::open(words[5])) else { continue };
        let mut part = vec![0; now.len()];
        let mut read = 0;
        while let Ok(count) = file.read_at(&mut part[read..], number(words[2]) + read as u64)
            && count > 0
        {
            read += count;
        }
        original.extend_from_slice(&part);
        changed += now.iter().zip(&original).filter(|(now, original)| now != original).count();
    }
    changed
}

/// The mappings of a process, without their sizes: what may not be more afterwards.
pub fn our_mappings(pid: i32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    text.lines()
        .filter(|line| line.contains("/memfd:highwater") || line.contains("xp 00000000 00:00 0") && !line.contains('['))
        .map(str::to_owned)
        .collect()
}

/// An attacher in a process group of its own. `die` says when it is killed.
pub fn attacher(what: &str, pid: i32, steps: &Path, die: Option<(usize, &str)>) -> Child {
    attacher_command(what, pid, steps, die).spawn().unwrap()
}

/// The same, not yet started.
pub fn attacher_command(what: &str, pid: i32, steps: &Path, die: Option<(usize, &str)>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["attacher_process", "--exact", "--nocapture"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    command.env("ATTACHER", format!("{what} {pid}")).env("ATTACHER_STEPS", steps);
    if let Some((step, whom)) = die {
        command.env("ATTACHER_DIES", format!("{step} {whom}"));
    }
    command
}

/// What an attacher's process says when it fails.
pub fn complaint(error: Option<ChildStderr>) -> String {
    let mut text = String::new();
    if let Some(mut error) = error {
        let _ = error.read_to_string(&mut text);
    }
    text
}

/// The body of the test that is an attacher when it is started by [`attacher`].
pub fn attacher_process() {
    attacher_process_by(|what, pid, steps| match what {
        "walk" => drop(highwater_attach::walk_attached_in_steps(pid, PATIENCE, Vec::new, &steps)),
        "attach" => drop(attach_with(pid, &AttachOptions { steps, ..options() }).unwrap()),
        _ => {
            until_it_works(|| highwater_attach::detach(pid, &DetachOptions { steps, ..detach_options() })).unwrap();
        }
    });
}

/// The same, with an attacher of the caller's.
pub fn attacher_process_by(work: impl FnOnce(&str, i32, Steps)) {
    let Ok(task) = std::env::var("ATTACHER") else { return };
    ATTACHER.store(std::process::id(), Ordering::Relaxed);
    let (what, pid) = task.split_once(' ').unwrap();
    let pid = pid.parse().unwrap();
    let steps = Steps::new(note_step);
    note_step("begun");
    work(what, pid, steps);
    note_step("finished");
}

/// The attacher's process, which is its group, in its workers too: these have sessions of their own.
static ATTACHER: AtomicU32 = AtomicU32::new(0);

/// Steps of parent and workers are lines of one file.
fn note_step(name: &'static str) {
    let attacher = ATTACHER.load(Ordering::Relaxed) as i32;
    let path = std::env::var_os("ATTACHER_STEPS").unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    file.write_all(format!("{name}\n").as_bytes()).unwrap();
    if let Ok(stops) = std::env::var("ATTACHER_STOPS")
        && let Some((whom, step)) = stops.split_once(' ')
        && step == name
        && fs::read_to_string(&path).unwrap().lines().filter(|line| *line == step).count() == 1
    {
        let whom = match whom {
            "worker" => std::process::id() as i32,
            "parent" => attacher,
            _ => -attacher,
        };
        send(whom, libc::SIGSTOP);
    }
    let Ok(dies) = std::env::var("ATTACHER_DIES") else { return };
    let (step, whom) = dies.split_once(' ').unwrap();
    let number = fs::read_to_string(&path).unwrap().lines().count();
    if number == step.parse::<usize>().unwrap() {
        if whom == "all" {
            send(-attacher, libc::SIGKILL);
        }
        send(std::process::id() as i32, libc::SIGKILL);
        std::thread::sleep(PATIENCE);
    }
}

/// Sends a signal to a process, or to a group if the number is negative. One that has ended is no error.
pub fn send(whom: i32, signal: i32) {
    // SAFETY: sends a signal.
    unsafe { libc::kill(whom, signal) };
}

/// A file for the steps of one attacher.
pub fn step_file() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let path = folder().join(format!("steps.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let _ = fs::remove_file(&path);
    path
}
