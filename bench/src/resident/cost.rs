//! Processor time of a breakdown, for a gibibyte of blocks of one size.

use highwater_model::{RssKind, StackId, TagId};
use highwater_resident::{LiveBlock, LiveMemory, PageScan, ScanOptions};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

const BYTES: usize = 1 << 30;
const SITES: u32 = 1000;
const ROUNDS: usize = 5;

/// Allocates blocks, writes their addresses, and waits for the end of its input.
pub fn hold(size: usize) {
    let blocks: Vec<Vec<u8>> = (0..BYTES / (size + 16)).map(|_| vec![1; size]).collect();
    let addresses: Vec<u8> = blocks.iter().flat_map(|block| (block.as_ptr() as u64).to_ne_bytes()).collect();
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", blocks.len()).unwrap();
    output.write_all(&addresses).unwrap();
    drop(addresses);
    output.flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Blocks in the order of a hash table, as the live table has them.
fn shuffled(addresses: &[u64], size: usize) -> LiveMemory {
    let mut blocks: Vec<LiveBlock> = (0..)
        .zip(addresses)
        .map(|(index, &address)| {
            let usable = ((size as u64 + 8 + 15) & !15) - 8;
            LiveBlock { address, size: size as u64, usable, owner: index % SITES }
        })
        .collect();
    blocks.sort_unstable_by_key(|block| block.address.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let owners = (0..SITES).map(|site| (StackId(site + 1), TagId(0))).collect();
    LiveMemory { blocks, owners, knows_every_block: true, ..LiveMemory::default() }
}

/// Reads a process that holds blocks of this size.
pub fn measure(size: usize) {
    let program = std::env::current_exe().expect("a path");
    let mut child = Command::new(program);
    child.args(["hold", &size.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("it starts");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut count = String::new();
    output.read_line(&mut count).unwrap();
    let mut addresses = vec![0; count.trim().parse::<usize>().unwrap() * 8];
    output.read_exact(&mut addresses).unwrap();
    let addresses: Vec<u64> = addresses.as_chunks::<8>().0.iter().map(|address| u64::from_ne_bytes(*address)).collect();
    let (mut reading, mut comparing) = (f64::MAX, f64::MAX);
    let mut gibibytes = 1.0;
    for _ in 0..ROUNDS {
        let live = shuffled(&addresses, size);
        let start = cpu_ms();
        let scan = PageScan::read(child.id(), ScanOptions::default()).expect("it can be read");
        let read = cpu_ms();
        let breakdown = scan.breakdown(live);
        let end = cpu_ms();
        assert!(breakdown.resident(RssKind::LiveBlocks) >= (addresses.len() * size) as u64);
        (reading, comparing) = (reading.min(read - start), comparing.min(end - read));
        gibibytes = breakdown.sum() as f64 / BYTES as f64;
    }
    println!("blocks_{}_read_ms_per_gib {:.1}", addresses.len(), reading / gibibytes);
    println!("blocks_{}_compare_ms_per_gib {:.1}", addresses.len(), comparing / gibibytes);
    drop(child.stdin.take());
    child.wait().expect("it ends");
}
