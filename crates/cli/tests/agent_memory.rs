//! The agent's private memory: a reader can list all of it, and nothing else, from the outside.
#![allow(missing_docs)]

mod support;

use highwater_session::SessionMemory;
use highwater_shm::session_v1::Capacity;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use support::live::{Collector, Holder};
use support::{HIGHWATER, Place, programs};

struct Mapping {
    range: Range<u64>,
    access: String,
    name: String,
}

fn mappings(pid: u32) -> Vec<Mapping> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.lines()
        .map(|line| {
            let mut fields = line.split_whitespace();
            let (start, end) = fields.next().unwrap().split_once('-').unwrap();
            let number = |digits| u64::from_str_radix(digits, 16).unwrap();
            let access = fields.next().unwrap().to_owned();
            Mapping { range: number(start)..number(end), access, name: fields.skip(3).collect::<Vec<_>>().join(" ") }
        })
        .collect()
}

/// A copy of the page that the header has to itself.
#[repr(C, align(4096))]
struct HeaderPage([u8; 4096]);

/// What a reader of the shared memory finds, from a copy of its header.
fn agent_ranges(pid: u32, mappings: &[Mapping]) -> Vec<Range<u64>> {
    let is_shared = |name: &str| ["/memfd:highwater (deleted)", "/memfd:highwater-live-v1 (deleted)"].contains(&name);
    let shared = mappings.iter().find(|mapping| is_shared(&mapping.name)).expect("shared memory");
    let mut header = HeaderPage([0; 4096]);
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    memory.read_exact_at(&mut header.0, shared.range.start).unwrap();
    let capacity = |at: usize| u32::from_le_bytes(header.0[at..at + 4].try_into().unwrap());
    let bytes = Capacity { rings: capacity(32), nodes: capacity(36) }.bytes();
    // SAFETY: the copy outlives this, and only its header is read.
    let session = unsafe { SessionMemory::of_ourselves(header.0.as_mut_ptr(), bytes).unwrap() };
    session.agent_ranges()
}

/// Whether a mapping is of the program, its libraries or the loader: the data after a file, or what contains the thread's own storage.
fn is_of_the_program(mappings: &[Mapping], at: usize, thread: u64) -> bool {
    let mapping = &mappings[at];
    let follows_a_file =
        at > 0 && mappings[at - 1].range.end == mapping.range.start && mappings[at - 1].name.starts_with('/');
    follows_a_file || mapping.range.contains(&thread)
}

/// The parts of a range that no listed range covers.
fn not_listed(range: &Range<u64>, listed: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut rest, mut from) = (Vec::new(), range.start);
    for one in listed.iter().filter(|one| one.start < range.end && one.end > range.start) {
        if from < one.start {
            rest.push(from..one.start);
        }
        from = from.max(one.end);
    }
    if from < range.end {
        rest.push(from..range.end);
    }
    rest
}

#[track_caller]
fn lists_all_of_it_and_nothing_else(pid: u32, thread: u64) {
    let mappings = mappings(pid);
    let listed = agent_ranges(pid, &mappings);
    assert!(!listed.is_empty());
    let is_anonymous = |mapping: &Mapping| mapping.name.is_empty() && mapping.access.ends_with('p');
    for (at, mapping) in mappings.iter().enumerate() {
        if is_anonymous(mapping) && !is_of_the_program(&mappings, at, thread) {
            let rest = not_listed(&mapping.range, &listed);
            assert!(rest.is_empty(), "{:x?} of {pid} is not listed: {rest:x?}, but {listed:x?}", mapping.range);
        }
        if !is_anonymous(mapping) {
            assert_eq!(
                not_listed(&mapping.range, &listed),
                std::slice::from_ref(&mapping.range),
                "{} is listed",
                mapping.name
            );
        }
    }
    assert!(!listed.iter().any(|range| range.contains(&thread)), "the thread's own storage is listed");
    // No listed address is unmapped.
    let anonymous: Vec<_> =
        mappings.iter().filter(|mapping| is_anonymous(mapping)).map(|one| one.range.clone()).collect();
    assert!(listed.iter().all(|range| not_listed(range, &anonymous).is_empty()), "{listed:x?}");
}

/// Reads the introductions of parent and child, and checks both.
fn check(mut command: Command) {
    let mut child: Child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(2).map(Result::unwrap);
    let processes: Vec<(u32, u64)> = lines
        .map(|line| {
            let (pid, thread) = line.split_once(' ').unwrap();
            (pid.parse().unwrap(), u64::from_str_radix(thread, 16).unwrap())
        })
        .collect();
    assert_eq!(processes.len(), 2, "parent and child");
    processes.iter().for_each(|&(pid, thread)| lists_all_of_it_and_nothing_else(pid, thread));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn a_recorded_program_with_threads_and_a_child() {
    let place = Place::new();
    let mut command = Command::new(HIGHWATER);
    command.args(["record", "-o"]).arg(place.file("own.hw")).arg("--").arg(programs::c("own_memory"));
    check(command);
}

#[test]
fn a_live_program_with_threads_and_a_child() {
    let collector = Collector::new();
    let mut command = collector.command(["run", "-q", "--"]);
    command.arg(programs::c("own_memory"));
    check(command);
}

#[test]
fn a_program_that_limits_its_address_space() {
    // Less than the agent would reserve otherwise.
    let collector = Collector::new();
    let line = format!("ulimit -v 400000; exec '{}'", programs::c("own_memory").display());
    check(collector.command(["run", "-q", "--", "sh", "-c", &line]));
}

/// The resident bytes of the agent's mappings: of the live table, and private ones.
fn resident_of_agent(pid: u32) -> (u64, u64) {
    let mappings = mappings(pid);
    let listed = agent_ranges(pid, &mappings);
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut resident: HashMap<u64, u64> = HashMap::new();
    let mut start = 0;
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("Rss:") {
            resident.insert(start, kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10);
        } else if let Some(first) = line.split_once('-').and_then(|(first, _)| u64::from_str_radix(first, 16).ok()) {
            start = first;
        }
    }
    let sum = |is_ours: &dyn Fn(&&Mapping) -> bool| {
        mappings.iter().filter(is_ours).map(|one| resident[&one.range.start]).sum::<u64>()
    };
    let table = sum(&|one| one.name.starts_with("/memfd:highwater"));
    let private = sum(&|one| one.name.is_empty() && not_listed(&one.range, &listed).is_empty());
    (table, private)
}

#[test]
fn a_live_block_costs_the_agent_at_most_48_bytes() {
    const BLOCKS: u64 = 1_000_000;
    let collector = Collector::new();
    let mut command = collector.command(["run", "-q", "--"]);
    command.arg(programs::c("holder"));
    let mut holder = Holder::start(command);
    let (table_before, private_before) = resident_of_agent(holder.pid);
    assert_eq!(holder.holds(&format!("keep {BLOCKS} 100")).0, BLOCKS);
    let (table, private) = resident_of_agent(holder.pid);
    println!("{table_before} + {private_before} before, {table} + {private} of {BLOCKS} blocks");
    // A record has 32 bytes, its place in the index 4, of which at most 8/9 are used.
    assert!(table - table_before >= 32 * BLOCKS, "the blocks are in the table: {table_before} {table}");
    let more = table + private - table_before - private_before;
    assert!(more <= 48 * BLOCKS, "{more}");
    // What it takes without blocks of the program.
    assert!((1..=128 << 10).contains(&private_before), "{private_before}");
    holder.finish();
}
