//! Any bytes as what a program shares with its recorder: rings, stack nodes, the log of modules.
#![no_main]

use highwater_recorder::{Outputs, ProcessRecording, RecordedProcess};
use highwater_session::SessionMemory;
use highwater_shm::ring_v1::RingHeader;
use highwater_shm::session_v1::{Capacity, Header, MAGIC};
use libfuzzer_sys::fuzz_target;
use std::sync::atomic::Ordering;

const CAPACITY: Capacity = Capacity { rings: 2, nodes: 64 };

/// A piece of memory that begins where the system would put it.
#[derive(Clone)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "reached through its address")] [u64; 512]);

fuzz_target!(|bytes: &[u8]| {
    let mut memory = vec![Page([0; 512]); CAPACITY.bytes() as usize / 4096];
    let base = memory.as_mut_ptr().cast::<u8>();
    // The first bytes say how the rest is shared out.
    let Some((head, rest)) = bytes.split_first_chunk::<6>() else { return };
    let put = |at: u64, share: u8| {
        let length = usize::from(share) * 16;
        let part = &rest[..length.min(rest.len())];
        // SAFETY: the parts begin well within the memory, and are at most 4 KiB.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), base.add(at as usize), part.len()) };
        part.len() as u64
    };
    put(CAPACITY.stacks(), head[0] % 64);
    let modules = put(CAPACITY.modules(), head[1]);
    let tails = [put(CAPACITY.ring_data(0), head[2]), put(CAPACITY.ring_data(1), head[3])];
    // SAFETY: the memory is as long as the capacity says.
    let header = unsafe { &*base.cast::<Header>() };
    header.magic.store(MAGIC, Ordering::Relaxed);
    header.ring_capacity.store(CAPACITY.rings, Ordering::Relaxed);
    header.node_capacity.store(CAPACITY.nodes, Ordering::Relaxed);
    header.nodes.store(64, Ordering::Relaxed);
    header.rings.store(2, Ordering::Relaxed);
    header.module_bytes.store(modules as u32, Ordering::Relaxed);
    for (index, tail) in tails.into_iter().enumerate() {
        // SAFETY: within the ring headers.
        let ring = unsafe { &*base.add(CAPACITY.ring_headers() as usize).cast::<RingHeader>().add(index) };
        ring.tail.store(tail + u64::from(head[4] & 7), Ordering::Relaxed);
        ring.busy.store(u32::from(head[5] & 1), Ordering::Relaxed);
    }
    // SAFETY: the memory outlives the recording.
    let shared = unsafe { SessionMemory::of_ourselves(base, CAPACITY.bytes()) }.expect("the header is sound");
    let about = RecordedProcess {
        forked: head[5] & 2 != 0,
        sample_rate: (head[5] & 4 != 0).then_some(512),
        ..RecordedProcess::default()
    };
    let null = std::fs::File::options().write(true).open("/dev/null").expect("/dev/null can be opened");
    let mut recording = ProcessRecording::begin(
        shared,
        about,
        Outputs { file: Some(("/dev/null".into(), null)), ..Outputs::default() },
        None,
    )
    .expect("/dev/null can be written");
    recording.round(false);
    recording.round(true);
    drop(recording);
});
