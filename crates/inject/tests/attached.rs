//! The image, put into another process by the attacher, against what that process says it did.

mod support;

use highwater_attach::{AttachOptions, DetachOptions, detach, plan};
use highwater_clock::Counter;
use highwater_inject::IMAGE;
use highwater_session::{AttachedMemory, SessionMemory};
use highwater_shm::attach_v1::AttachLayout;
use highwater_shm::session_v1::Capacity;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use support::{Seen, drain};

/// Reads lines; for each `N`, threads do calls with sizes that nothing else has, and say what they did, a line for each: `a ADDRESS SIZE` or `f ADDRESS`.
const TARGET: &str = r#"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct did { char what; void *block; unsigned long size; };
enum { THREADS = 4, CALLS = 400 };
static struct did all[THREADS][CALLS * 2];
static void *work(void *of) {
    struct did *did = of; void *kept[CALLS]; unsigned n = 0, done = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned long size = 70001 + i; void *block = 0;
        errno = 77;
        switch (i % 5) {
            case 0: block = malloc(size); break;
            case 1: block = calloc(1, size); break;
            case 2: block = memalign(256, size); break;
            case 3: if (posix_memalign(&block, 64, size)) abort(); break;
            case 4: block = aligned_alloc(32, size); break;
        }
        if (!block || errno != 77) abort();
        memset(block, 7, size);
        kept[n++] = block; did[done++] = (struct did){'a', block, size};
        if (i % 3 == 2) { void *gone = kept[--n]; did[done++] = (struct did){'f', gone, 0}; free(gone); }
    }
    while (n) { void *gone = kept[--n]; did[done++] = (struct did){'f', gone, 0}; free(gone); }
    return 0;
}
int main(void) {
    char line[64];
    puts("ready"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        pthread_t threads[THREADS];
        memset(all, 0, sizeof all);
        for (int t = 0; t < THREADS; t++) if (pthread_create(&threads[t], 0, work, all[t])) abort();
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], 0);
        for (int t = 0; t < THREADS; t++)
            for (int i = 0; i < CALLS * 2; i++)
                if (all[t][i].what) printf("%c %lx %lu\n", all[t][i].what, (unsigned long)all[t][i].block, all[t][i].size);
        puts("done"); fflush(stdout);
    }
    return 0;
}
"#;

struct Target {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Target {
    fn start() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, program) = (folder.join("attached.c"), folder.join("attached"));
        std::fs::write(&source, TARGET).unwrap();
        let built = Command::new("cc")
            .args(["-O1", "-fno-builtin", "-w", "-pthread", "-include", "malloc.h", "-o"])
            .arg(&program)
            .arg(&source)
            .status();
        assert!(built.unwrap().success());
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut target = Self { child, to, from };
        assert_eq!(target.line(), "ready");
        target
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Has the target work once; returns what it did.
    fn work(&mut self) -> Vec<Seen> {
        self.to.write_all(b"work\n").unwrap();
        let mut did = Vec::new();
        loop {
            let line = self.line();
            let words: Vec<&str> = line.split(' ').collect();
            let address = |word: &str| usize::from_str_radix(word, 16).unwrap();
            match words[..] {
                ["a", block, size] => {
                    did.push(Seen::Allocated { address: address(block), size: size.parse().unwrap(), node: 0 });
                }
                ["f", block, _] => did.push(Seen::Freed { address: address(block) }),
                ["done"] => return did,
                _ => panic!("the target has failed: {line}"),
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was recorded of the calls with the target's sizes: other calls are the C library's own.
fn of_target(seen: &[Vec<Seen>]) -> Vec<Vec<Seen>> {
    let mut runs = Vec::new();
    for ring in seen {
        for run in ring.split(|seen| matches!(seen, Seen::Thread { .. })).skip(1) {
            let mut live = HashSet::new();
            let own: Vec<Seen> = run
                .iter()
                .filter_map(|&seen| match seen {
                    Seen::Allocated { address, size, .. } if (70_001..71_000).contains(&size) => {
                        live.insert(address);
                        Some(Seen::Allocated { address, size, node: 0 })
                    }
                    Seen::Freed { address } if live.remove(&address) => Some(seen),
                    _ => None,
                })
                .collect();
            if !own.is_empty() {
                runs.push(own);
            }
        }
    }
    runs
}

fn session_of(memory: &AttachedMemory) -> SessionMemory {
    memory.session().unwrap()
}

#[test]
fn what_a_running_program_does_is_recorded_until_it_is_detached() {
    let mut target = Target::start();
    target.work();
    let pid = i32::try_from(target.child.id()).unwrap();
    let layout = AttachLayout::for_recording(Capacity::CHOICES[1]);
    // More than once: the second attach finds the program as it was.
    for round in 0..3 {
        let mut memory = None;
        let counter = Counter::trusted();
        plan(pid)
            .unwrap()
            .attach(IMAGE, &AttachOptions::new(layout.bytes()), |header, object| {
                let opened = AttachedMemory::open(object, layout).map_err(std::io::Error::other)?;
                opened.prepare(header, pid as u32, counter).map_err(std::io::Error::other)?;
                memory = Some(opened);
                Ok(())
            })
            .unwrap();
        let memory = memory.unwrap();
        let session = session_of(&memory);
        // The first call begins the session, and calls of other threads are only passed on meanwhile.
        target.work();
        memory.keep_alive();
        drain(&session, &mut Vec::new());
        let did = target.work();
        let mut seen = Vec::new();
        drain(&session, &mut seen);
        let mut recorded = of_target(&seen);
        let mut expected: Vec<Vec<Seen>> = did.chunks(800).map(<[Seen]>::to_vec).collect();
        let order = |run: &Vec<Seen>| format!("{run:?}");
        recorded.sort_by_key(order);
        expected.sort_by_key(order);
        assert_eq!(expected.len(), 4);
        let header = session.header();
        let lost: u64 = (0..session.rings()).map(|ring| session.ring(ring).dropped.load(Ordering::Relaxed)).sum();
        assert_eq!((lost, header.missed.load(Ordering::Relaxed)), (0, 0), "dropped and missed");
        let different = recorded.iter().zip(&expected).find_map(|(one, other)| {
            let at = one.iter().zip(other).position(|(one, other)| one != other)?;
            Some((at, one.len(), other.len(), one[at], other[at]))
        });
        let lengths: Vec<usize> = recorded.iter().map(Vec::len).collect();
        assert!(recorded == expected, "round {round}: recorded {lengths:?}, first difference {different:?}");
        assert_eq!(header.missed.load(Ordering::Relaxed), 0);
        assert_eq!(memory.counts().unprovided, 0);
        detach(pid, &DetachOptions::default()).unwrap();
        target.work();
        let mut later = Vec::new();
        drain(&session, &mut later);
        assert!(later.iter().all(Vec::is_empty), "it is recorded after it was detached");
    }
}
