//! Snapshots of tables, without any socket: figures are exact, cuts do not collide, what is hostile does no harm.
mod support;

use highwater_collector::contents::read_contents;
use highwater_collector::cut::Unread;
use highwater_collector::protocol::Detail;
use highwater_collector::take::{LiveSnapshot, NotTaken, SnapshotRequest, SnapshotSubject, take};
use highwater_collector::{LiveTable, ProcessIdentity};
use highwater_model::{Accounts, AllocId, Anomaly, Nanos, ThreadId, Weight, laws};
use highwater_shm::table_v1::{Count, FLAG_FORKED, FLAG_USABLE_SIZES, MAPPINGS, TableBlock, TableCapacity};
use highwater_store::{Recording, write_snapshot};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::fake::{Fake, SMALL};

const LEASE: Duration = Duration::from_secs(2);

fn about() -> ProcessIdentity {
    ProcessIdentity { pid: std::process::id(), executable: "/usr/bin/fake".into(), ..ProcessIdentity::default() }
}

fn taken(table: &LiveTable, detail: Detail, gone: Option<Nanos>) -> LiveSnapshot {
    let about = about();
    let snapshot = take(
        SnapshotSubject { table, about: &about, gone, attached: None },
        SnapshotRequest { detail, contents: None, pages: None },
        || (),
    )
    .unwrap();
    let accounts = Accounts::from_state(snapshot.accounts.clone());
    let violations = match detail {
        Detail::Sites => laws::violations_of_figures(&accounts),
        Detail::Blocks => laws::violations(&accounts),
    };
    assert_eq!(violations, Vec::<String>::new());
    let (bytes, _) = write_snapshot(Vec::new(), &snapshot.source, &snapshot.catalog, &snapshot.accounts).unwrap();
    let recording = Recording::from_bytes(bytes).unwrap();
    let read = recording.snapshot(&highwater_model::When::End).unwrap();
    assert_eq!(read.accounts.totals(), &snapshot.accounts.totals);
    snapshot
}

fn block(address: u64, size: u64, node: u32, thread: u32, stamp: u64) -> TableBlock {
    TableBlock { address, size, node, thread, stamp, ..TableBlock::default() }
}

#[test]
fn both_details_have_the_exact_figures() {
    let mut fake = Fake::new(std::process::id());
    fake.header().flags.store(FLAG_USABLE_SIZES, Ordering::Relaxed);
    let (outer, own) = (fake.add_node(0, 0x5000), std::process::id());
    let inner = fake.add_node(outer, 0x6000);
    let (main, other) = (fake.add_thread(own, "main"), fake.add_thread(7, "worker"));
    for number in 1..=1000u64 {
        let (node, thread) = if number % 2 == 0 { (outer, main) } else { (inner, other) };
        fake.allocate(block(number * 16, number, node, thread, 2000 - number));
    }
    for number in (1..=1000).filter(|number| number % 4 == 0) {
        fake.free(number * 16);
    }
    fake.allocate(block(0x7000_0000_0001, 8192, inner, main, 5));
    fake.count(Count::Reallocations, 3);
    fake.count(Count::UnknownFrees, 2);
    fake.session().missed.store(4, Ordering::Relaxed);
    let table = fake.open();
    let live_bytes: u64 = (1..=1000).filter(|number| number % 4 != 0).sum::<u64>() + 8192;
    let freed_bytes: u64 = (1..=1000).filter(|number| number % 4 == 0).sum();
    for detail in [Detail::Sites, Detail::Blocks] {
        let LiveSnapshot { source, catalog, accounts, cut, .. } = taken(&table, detail, None);
        assert!(cut.exact && cut.verified && !cut.exited && cut.attempts == 1, "{cut:?}");
        let totals = accounts.totals.figures;
        assert_eq!((totals.live_blocks(), totals.live_bytes()), (751, live_bytes));
        assert_eq!((totals.allocations, totals.frees, totals.reallocations), (1001, 250, 3));
        assert_eq!((totals.allocated_bytes, totals.freed_bytes), (live_bytes + freed_bytes, freed_bytes));
        // By site: innermost frames tell them apart.
        let by_address = |address| {
            let sites = accounts.sites.iter();
            let is_it = |stack| catalog.frame_texts(stack).next().is_some_and(|frame| frame.address == address);
            sites.filter(|(stack, _)| is_it(*stack)).map(|(_, figures)| *figures).next().unwrap()
        };
        let of_inner: u64 = (1..=1000).filter(|number| number % 2 == 1).sum();
        assert_eq!((by_address(0x6000).allocations, by_address(0x6000).live_bytes()), (501, of_inner + 8192));
        assert_eq!(by_address(0x5000).live_bytes(), live_bytes - of_inner - 8192);
        // By thread.
        let thread = |id| accounts.threads.iter().find(|thread| thread.id == ThreadId(id)).unwrap().figures;
        assert_eq!(thread(7).live_bytes(), of_inner);
        assert_eq!((thread(0).allocations, thread(0).live_bytes()), (250, 0));
        assert_eq!(catalog.thread_name(ThreadId(7)), "worker");
        assert_eq!(catalog.thread_name(ThreadId(0)), "(all threads)");
        // By tag: the mapping.
        assert_eq!((accounts.tags[1].allocations, accounts.tags[1].live_bytes()), (1, 8192));
        assert_eq!(accounts.anomalies.get(Anomaly::UnmatchedFree), 2);
        assert_eq!(accounts.anomalies.get(Anomaly::DroppedEvent), 4);
        assert_eq!((source.program.as_str(), source.sample_rate), ("fake", None));
        assert_eq!((source.aggregated, source.usable_sizes), (detail == Detail::Sites, detail == Detail::Blocks));
        if detail == Detail::Blocks {
            let first = accounts.blocks.iter().next().unwrap();
            assert_eq!((first.id, first.address, first.size), (AllocId(0), 0x7000_0000_0001, 8192));
            assert!(accounts.blocks.iter().is_sorted_by_key(|block| block.time));
            assert_eq!(accounts.blocks.len(), 751);
        }
    }
}

#[test]
fn the_thread_is_named_as_it_is_now_and_reused_numbers_are_told_apart() {
    let mut fake = Fake::new(std::process::id());
    let before = fake.add_thread(std::process::id(), "before");
    let after = fake.add_thread(std::process::id(), "after");
    fake.allocate(block(16, 1, 0, before, 1));
    fake.allocate(block(32, 2, 0, after, 2));
    fake.allocate(block(48, 4, 0, 0, 3));
    let table = fake.open();
    let snapshot = taken(&table, Detail::Sites, None);
    let own = u64::from(std::process::id());
    let now = std::fs::read_to_string(format!("/proc/self/task/{own}/comm")).unwrap();
    assert_eq!(snapshot.catalog.thread_name(ThreadId(own)), "before");
    assert_eq!(snapshot.catalog.thread_name(ThreadId(own | 1 << 32)), now.trim_end());
    assert_eq!(snapshot.catalog.thread_name(ThreadId(1 << 32)), "(other threads)");
    // Of one that is gone nobody is asked.
    let snapshot = taken(&table, Detail::Sites, Some(Nanos(5)));
    assert_eq!(snapshot.catalog.thread_name(ThreadId(own | 1 << 32)), "after");
    assert!(snapshot.cut.exited && snapshot.cut.verified);
    assert_eq!(snapshot.source.duration, Nanos(5));
}

#[test]
fn samples_stand_for_others() {
    let mut fake = Fake::new(std::process::id());
    let rate = fake.add_rate(1000);
    fake.header().rate.store(rate.into(), Ordering::Relaxed);
    for number in 1..=500 {
        fake.allocate(TableBlock { rate, ..block(number * 16, 100, 0, 0, number) });
    }
    fake.free(16);
    fake.count(Count::MoreFrees, 256 * 9);
    fake.count(Count::MoreFreedBytes, 950);
    let table = fake.open();
    let weight = Weight::of_sample(100, 1000);
    for detail in [Detail::Sites, Detail::Blocks] {
        let snapshot = taken(&table, detail, None);
        let totals = snapshot.accounts.totals.figures;
        assert!(snapshot.cut.verified);
        assert_eq!(
            totals.live_bytes(),
            std::iter::repeat_n(weight.amount(100), 499).sum::<highwater_model::ByteSum>().rounded()
        );
        assert_eq!((totals.live_samples(), totals.frees, totals.freed_bytes), (499, 10, 1050));
        assert!((totals.live_blocks() as f64 / 499.0 - weight.value()).abs() < 0.1);
        assert_eq!(snapshot.source.sample_rate, Some(1000));
    }
}

#[test]
fn a_cut_has_what_was_there_whatever_happens_later() {
    let mut fake = Fake::new(std::process::id());
    (1..=100).for_each(|number| fake.allocate(block(number * 16, 10, 0, 0, number)));
    let table = fake.open();
    let mut cut = table.cut(LEASE).unwrap();
    (1..=50).for_each(|number| fake.free(number * 16));
    (200..=300).for_each(|number| fake.allocate(block(number * 16, 10, 0, 0, number)));
    (200..=220).for_each(|number| fake.free(number * 16));
    cut.settle();
    let extent = table.extent().unwrap();
    let mut found = Vec::new();
    let scan = cut.scan(&extent, |_, block| found.push(block.address / 16)).unwrap();
    found.sort_unstable();
    assert!(found.into_iter().eq(1..=100));
    assert!(scan.is_verified() && cut.is_exact());
    assert!(cut.end());
    let snapshot = taken(&table, Detail::Blocks, None);
    assert_eq!(snapshot.accounts.blocks.len(), 50 + 101 - 21);
    assert!(snapshot.cut.verified);
}

#[test]
fn contents_are_those_of_blocks_that_live() {
    let mut fake = Fake::new(std::process::id());
    let memory: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let start = memory.as_ptr() as u64 & !15;
    // Every third is nowhere, every other third is freed right after the cut.
    let address = |number: u64| if number.is_multiple_of(3) { number * 16 + (1 << 46) } else { start + number * 32 };
    for number in 1..=3000 {
        fake.allocate(block(address(number), number % 40, 0, 0, number));
    }
    let table = fake.open();
    let about = about();
    let subject = SnapshotSubject { table: &table, about: &about, gone: None, attached: None };
    let wanted = SnapshotRequest { detail: Detail::Blocks, contents: Some(8), pages: None };
    let taken = take(subject, wanted, || {
        (1..=3000).filter(|number| number % 3 == 1).for_each(|number| fake.free(address(number)))
    });
    let taken = taken.unwrap();
    assert_eq!((taken.accounts.blocks.len(), taken.cut.verified), (3000, true));
    let mut file = taken.contents.unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let contents = read_contents(file).unwrap();
    // Where a block has no bytes, it does not matter where it is.
    let empty = (1..=3000).filter(|number| number % 3 == 0 && number % 40 == 0).count();
    assert_eq!((contents.len(), taken.cut.contents_missing), (1000 + empty, 2000 - empty as u64));
    for number in (1..=3000).filter(|number| number % 3 == 2) {
        let offset = (address(number) - memory.as_ptr() as u64) as usize;
        let length = (number % 40).min(8) as usize;
        assert_eq!(contents[&address(number)], memory[offset..offset + length], "{number}");
    }
}

#[test]
fn seventy_thousand_cuts_do_not_collide() {
    let capacity = TableCapacity { shard_records: 64, ..SMALL };
    let mut fake = Fake::with_capacity(std::process::id(), capacity);
    let table = fake.open();
    let mut expected = std::collections::BTreeSet::new();
    let mut next = 1;
    for round in 0..70_000u64 {
        let mut cut = table.cut(LEASE).unwrap();
        cut.settle();
        // Some are born in this epoch, and live for long: for more cuts than there are epochs.
        let before = expected.clone();
        if round % 1000 == 7 {
            fake.allocate(block(next * 16, 1, 0, 0, next));
            expected.insert(next);
            next += 1;
        }
        fake.allocate(block(1 << 40, 1, 0, 0, 1));
        if round % 5000 == 9 {
            let oldest = expected.pop_first().unwrap();
            fake.free(oldest * 16);
        }
        let extent = table.extent().unwrap();
        let mut found = Vec::new();
        let scan = cut.scan(&extent, |_, block| found.push(block.address / 16)).unwrap();
        assert!(scan.is_verified() && cut.is_exact(), "round {round}");
        found.sort_unstable();
        assert!(found.iter().eq(&before), "round {round}: {found:?} instead of {before:?}");
        assert!(cut.end());
        fake.free(1 << 40);
    }
}

#[test]
fn a_new_collector_takes_no_epoch_that_a_record_bears() {
    let mut fake = Fake::new(std::process::id());
    let first = fake.open();
    let mut born = None;
    for _ in 0..3 {
        let cut = first.cut(LEASE).unwrap();
        fake.allocate(block(16 + 16 * u64::from(fake.control().load().active_epoch()), 1, 0, 0, 1));
        born = Some(fake.control().load().active_epoch());
        assert!(cut.end());
    }
    // As if nobody had remembered.
    fake.control().last_epoch.store(0, Ordering::Relaxed);
    let second = fake.open();
    let cut = second.cut(LEASE).unwrap();
    assert!(fake.control().load().active_epoch() > born.unwrap());
    drop(cut);
    assert_eq!(fake.control().load().active_epoch(), 0);
}

#[test]
fn a_void_cut_is_begun_again() {
    let mut fake = Fake::new(std::process::id());
    (1..=100).for_each(|number| fake.allocate(block(number * 16, 10, 0, 0, number)));
    let table = fake.open();
    let about = about();
    let subject = SnapshotSubject { table: &table, about: &about, gone: None, attached: None };
    let wanted = SnapshotRequest { detail: Detail::Sites, contents: None, pages: None };
    // A writer that finds the lease over ends the snapshot.
    let snapshot = take(subject, wanted, || assert!(fake.control().end(fake.control().load()))).unwrap();
    assert_eq!(snapshot.cut.attempts, 2);
    assert_eq!(snapshot.accounts.totals.figures.live_blocks(), 100);
    let mut cut = table.cut(LEASE).unwrap();
    let extent = table.extent().unwrap();
    assert!(fake.control().end(fake.control().load()));
    assert_eq!(cut.scan(&extent, |_, _| ()), Err(Unread::Void));
    assert!(!cut.end());
}

#[test]
fn who_always_ends_the_snapshot_gets_none() {
    let fake = Fake::new(std::process::id());
    let table = fake.open();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let control = table.control();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                control.word.fetch_and(!(1 << 16), Ordering::SeqCst);
            }
        });
        let about = about();
        let subject = SnapshotSubject { table: &table, about: &about, gone: None, attached: None };
        // The other thread may not get a processor for a while.
        let begin = Instant::now();
        let mut last = Ok(());
        while last.is_ok() && begin.elapsed() < Duration::from_secs(20) {
            last = take(subject, SnapshotRequest { detail: Detail::Sites, contents: None, pages: None }, || ())
                .map(|_| ());
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(last, Err(NotTaken::Void));
    });
}

#[test]
fn a_lock_that_is_never_given_back_makes_it_inexact() {
    let mut fake = Fake::new(std::process::id());
    fake.allocate(block(16, 10, 0, 0, 1));
    assert!(fake.shard(200).try_lock());
    let table = fake.open();
    let snapshot = taken(&table, Detail::Sites, None);
    assert!(!snapshot.cut.exact && snapshot.cut.verified);
    assert!(snapshot.cut.settle_ns >= 100_000_000);
    assert!(!taken(&table, Detail::Sites, Some(Nanos(1))).cut.exact);
    fake.shard(200).abandoned.store(1, Ordering::Relaxed);
    let snapshot = taken(&table, Detail::Sites, None);
    assert!(!snapshot.cut.exact && snapshot.cut.settle_ns < 50_000_000);
}

#[test]
fn one_that_died_in_a_snapshot_has_only_what_lived() {
    let mut fake = Fake::new(std::process::id());
    (1..=10).for_each(|number| fake.allocate(block(number * 16, 10, 0, 0, number)));
    let table = fake.open();
    let cut = table.cut(LEASE).unwrap();
    (1..=3).for_each(|number| fake.free(number * 16));
    drop(cut);
    let snapshot = taken(&table, Detail::Blocks, Some(Nanos(1 << 40)));
    assert_eq!(snapshot.accounts.blocks.len(), 7);
    assert!(snapshot.cut.verified && snapshot.cut.exact);
}

#[test]
fn what_counts_cannot_say_is_not_verified() {
    let mut fake = Fake::new(std::process::id());
    fake.allocate(block(16, 10, 0, 0, 1));
    fake.header().flags.store(FLAG_FORKED, Ordering::Relaxed);
    fake.count(Count::Allocations, 1);
    fake.count(Count::UnknownFrees, 1);
    let snapshot = taken(&fake.open(), Detail::Blocks, None);
    assert!(snapshot.cut.exact && !snapshot.cut.verified);
    assert_eq!(snapshot.accounts.anomalies.get(Anomaly::UnmatchedFree), 0);
    assert_eq!(snapshot.cut.unknown_frees, 1);
}

#[test]
fn counts_and_sizes_beyond_reason_are_cut_to_what_fits() {
    let mut fake = Fake::new(std::process::id());
    let rate = fake.add_rate(u64::MAX);
    let huge = (1 << 48) - 1;
    (1..=70_000).for_each(|number| fake.allocate(block(number * 16, huge, u32::MAX, u32::MAX, u64::MAX)));
    fake.allocate(TableBlock { rate, ..block(0x7000_0000_0000, 1, 0, 0, 1) });
    for count in [Count::Frees, Count::Reallocations, Count::MoreFrees, Count::MoreFreedBytes, Count::FreedBytes] {
        fake.count(count, u64::MAX / 2);
        fake.shard(MAPPINGS).counts.add(count, u64::MAX / 2);
    }
    let table = fake.open();
    for detail in [Detail::Sites, Detail::Blocks] {
        let snapshot = taken(&table, detail, None);
        assert_eq!(snapshot.accounts.totals.figures.allocated_bytes, u64::MAX);
        assert!(snapshot.accounts.anomalies.get(Anomaly::ClampedSize) > 0);
        assert!(!snapshot.cut.verified);
    }
}

#[test]
fn who_claims_more_than_there_is_is_not_believed() {
    let capacity = TableCapacity { shard_records: 1 << 22, ..SMALL };
    let fake = Fake::with_capacity(std::process::id(), capacity);
    let table = fake.open();
    fake.shard(3).used.store(u32::MAX, Ordering::Relaxed);
    let about = about();
    let subject = SnapshotSubject { table: &table, about: &about, gone: None, attached: None };
    let wanted = SnapshotRequest { detail: Detail::Blocks, contents: None, pages: None };
    assert_eq!(take(subject, wanted, || ()).unwrap_err(), NotTaken::Overclaimed);
    fake.shard(3).used.store(0, Ordering::Relaxed);
    assert!(take(subject, wanted, || ()).is_ok());
    assert_eq!(fake.control().load().active_epoch(), 0);
}
