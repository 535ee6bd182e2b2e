//! Processes of other versions: one built from the layouts of version 1 as they were published, and one from the future.

use highwater_collector::protocol::{Detail, ProcessInfo, ProcessState};
use highwater_collector::{CollectorClient, CollectorOptions, CollectorServer};
use highwater_model::{Heap, When};
use highwater_store::Recording;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Builds the program from the frozen layouts.
fn agent(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen_v1/agent.rs");
    let built = folder.join("frozen-agent");
    let compiled = Command::new("rustc").args(["--edition=2024", "-O", "-o"]).arg(&built).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    built
}

fn start(agent: &Path, socket: &Path, version: &str) -> Child {
    let mut child = Command::new(agent);
    let mut child = child.arg(socket).arg(version).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "registered\n");
    child
}

/// The process, once the collector has heard of it.
fn heard_of(socket: &Path, pid: u32) -> ProcessInfo {
    loop {
        let processes = CollectorClient::connect(socket).unwrap().processes().unwrap();
        if let Some(found) = processes.into_iter().find(|process| process.pid == pid) {
            return found;
        }
        std::thread::yield_now();
    }
}

/// Ends the server when the test is over, however it ends.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn version_1_is_read_and_the_future_is_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("frozen-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let agent = agent(&folder);
    let socket = std::env::temp_dir().join(format!("highwater-frozen-{}.sock", std::process::id()));
    let server = CollectorServer::bind(CollectorOptions::new(socket.clone(), folder.join("kept"))).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(&stop, &|_| ()));
        let _stops = Stops(&stop);

        let mut frozen = start(&agent, &socket, "1");
        let about = heard_of(&socket, frozen.id());
        assert_eq!((about.state, about.version), (ProcessState::Live, 1));
        assert_eq!((about.live_blocks, about.live_bytes), (181, 8192 + 18_000));
        let taken = CollectorClient::connect(&socket).unwrap().snapshot(frozen.id(), Detail::Blocks, None).unwrap();
        assert!(taken.cut.exact && taken.cut.verified, "{:?}", taken.cut);
        let snapshot = Recording::from_file(taken.file).unwrap().snapshot(&When::End).unwrap();
        let figures = snapshot.accounts.totals().figures;
        assert_eq!((figures.live_blocks(), figures.allocations, figures.frees), (181, 201, 20));
        assert_eq!(snapshot.live_bytes_of(Heap::Mapped), 8192);
        let mut blocks: Vec<_> = snapshot.accounts.blocks().collect();
        blocks.sort_by_key(|block| block.address);
        for (block, number) in blocks.iter().zip((0..200u64).filter(|number| number % 10 != 9)) {
            assert_eq!((block.address, block.size), (0x5000_0000 + number * 64, number + 1));
            let frames: Vec<u64> = snapshot.catalog.stacks.frames_of(block.stack).map(|frame| frame.address).collect();
            assert_eq!(frames, [0x2000, 0x1000]);
            let thread = &snapshot.accounts.threads()[block.thread as usize];
            assert_eq!((thread.id.0, snapshot.catalog.thread_name(thread.id)), (4711, "frozen"));
            assert_eq!(block.time.0, number * 1000 / 64 * 64);
        }

        let mut future = start(&agent, &socket, "2");
        let refused = heard_of(&socket, future.id());
        assert_eq!((refused.state, refused.version), (ProcessState::Refused, 2));
        assert!(
            refused.problem.contains("version 2") && refused.problem.contains("update the collector"),
            "{refused:?}"
        );
        let failed = CollectorClient::connect(&socket).unwrap().snapshot(future.id(), Detail::Sites, None);
        assert!(failed.err().unwrap().to_string().contains("update the collector"));

        for child in [&mut frozen, &mut future] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    });
    let _ = std::fs::remove_dir_all(&folder);
}
