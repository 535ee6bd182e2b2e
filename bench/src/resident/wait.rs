//! How long `mmap` of a process waits while the process is read without pause.

use highwater_resident::parts::{PageReader, parse_maps};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BALLAST: usize = 1 << 30;
const SECONDS: u64 = 5;
const RIGHTS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

fn mapped(bytes: usize) -> *mut c_void {
    // SAFETY: a new mapping, at an address that the kernel chooses.
    unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, RIGHTS, MapFlags::PRIVATE) }.expect("memory")
}

/// Holds a gibibyte of small pages, then maps and unmaps memory for some seconds and prints the longest times of both, in microseconds.
pub fn map(seconds: u64) {
    let ballast = mapped(BALLAST);
    // SAFETY: the program's own new mapping.
    unsafe { madvise(ballast, BALLAST, Advice::LinuxNoHugepage) }.expect("advice");
    for offset in (0..BALLAST).step_by(4096) {
        // SAFETY: inside the mapping.
        unsafe { ballast.cast::<u8>().add(offset).write_volatile(1) };
    }
    println!("ready");
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let before = Instant::now();
        let memory = mapped(1 << 20);
        let between = Instant::now();
        // SAFETY: nothing refers to it.
        unsafe { munmap(memory, 1 << 20) }.expect("it was mapped");
        times.extend([between - before, between.elapsed()]);
        std::thread::sleep(Duration::from_micros(20));
    }
    times.sort_unstable();
    println!("{}", times[times.len() - 1].as_micros());
    println!("{}", times[times.len() - 1 - times.len() / 1000].as_micros());
}

/// The longest wait, and that of one call in a thousand, while `read` runs again and again.
fn longest(name: &str, read: impl Fn(&File, u32)) {
    let program = std::env::current_exe().expect("a path");
    let mut child = Command::new(program);
    let mut child = child.args(["map", &SECONDS.to_string()]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    lines.next();
    let pagemap = File::open(format!("/proc/{}/pagemap", child.id())).expect("pages");
    let end = Instant::now() + Duration::from_secs(SECONDS);
    while Instant::now() < end {
        read(&pagemap, child.id());
    }
    let mut number = || lines.next().and_then(|line| line.ok()?.parse::<f64>().ok()).unwrap_or(0.0);
    println!("mmap_wait_{name}_worst_ms {:.2}", number() / 1e3);
    println!("mmap_wait_{name}_p999_ms {:.2}", number() / 1e3);
    child.wait().expect("it ends");
}

/// Alone, read in one call, and read in slices.
pub fn measure() {
    let scan = |pagemap: &File, pid: u32, one_call: bool| {
        let mappings = parse_maps(&fs::read(format!("/proc/{pid}/maps")).unwrap_or_default());
        let mut reader = PageReader::new(pagemap);
        if one_call {
            (reader.slice_pages, reader.rest) = (u64::MAX >> 12, Duration::ZERO);
        }
        drop(reader.scan(&mappings));
    };
    longest("alone", |_, _| std::thread::sleep(Duration::from_millis(10)));
    longest("one_call", |pagemap, pid| scan(pagemap, pid, true));
    longest("sliced", |pagemap, pid| scan(pagemap, pid, false));
}
