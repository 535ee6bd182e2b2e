//! Spans as tasks: a program that counts what it allocates in each of its spans, on several threads, compared with its recording.

use highwater_model::When;
use highwater_store::Recording;
use std::alloc::System;
use std::collections::BTreeMap;
use std::hint::black_box;
use tracing::Instrument;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

fn block(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}

/// A block of its own, one of a span inside it, and one of a span that is no task.
async fn serve(number: usize) -> Vec<Vec<u8>> {
    let first = block(100_000 + number);
    tokio::task::yield_now().await;
    let inner = async {
        tokio::task::yield_now().await;
        block(50_001)
    };
    let inner = inner.instrument(tracing::info_span!("query")).await;
    let ignored = {
        let _span = tracing::info_span!(target: "ignored", "detail").entered();
        block(70_001)
    };
    vec![first, inner, ignored]
}

#[test]
fn what_is_allocated_in_a_span_belongs_to_the_task_of_its_name() {
    let path = std::env::temp_dir().join(format!("highwater-test-{}-spans.hw", std::process::id()));
    let layer = highwater_tracing::TaskLayer::new().with_filter(filter_fn(|span| span.target() != "ignored"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    highwater::record_to(&path).unwrap();

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    let kept: Vec<_> = runtime.block_on(async {
        let spawn = |number| tokio::spawn(serve(number).instrument(tracing::info_span!("serve", number)));
        let tasks: Vec<_> = (0..100).map(spawn).collect();
        let mut kept = Vec::new();
        for task in tasks {
            kept.push(task.await.unwrap());
        }
        kept
    });
    // Spans that end in another order than they began, and a task of another kind between them.
    let outer = tracing::info_span!("outer").entered();
    let scope = highwater::task::enter("scope");
    let inner = tracing::info_span!("inner").entered();
    let of_inner = block(11_001);
    drop(inner);
    let of_scope = block(13_001);
    drop(scope);
    let late = tracing::info_span!("late").entered();
    drop(outer);
    let of_late = block(17_001);
    drop(late);
    let of_nobody = block(19_001);
    let with_targets = tracing_subscriber::registry().with(highwater_tracing::TaskLayer::new().with_targets());
    let of_target = tracing::subscriber::with_default(with_targets, || {
        let _span = tracing::info_span!(target: "shop::cart", "add").entered();
        block(23_001)
    });
    highwater::stop_recording().unwrap();

    let recording = Recording::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let end = recording.snapshot(&When::End).unwrap();
    // Spans have memory of their own, which belongs to the task that makes them; the program's blocks are known by their sizes.
    let mut tasks: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for block in end.accounts.blocks() {
        let task = end.catalog.strings.get(end.catalog.tag(block.tag).task);
        tasks.entry(block.size).or_default().push(task);
    }
    for number in 0..100 {
        assert_eq!(tasks[&(100_000 + number)], ["serve"]);
    }
    assert_eq!([&tasks[&50_001], &tasks[&70_001]], [&vec!["query"; 100], &vec!["serve"; 100]]);
    let of = |size: u64| &tasks[&size][..];
    assert_eq!(of(23_001), ["shop::cart::add"]);
    assert_eq!([of(11_001), of(13_001), of(17_001), of(19_001)], [["inner"], ["scope"], ["late"], [""]]);
    drop((kept, of_inner, of_scope, of_late, of_nobody, of_target));
}
