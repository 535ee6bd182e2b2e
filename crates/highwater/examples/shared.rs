//! Variables and the owners of a shared value, for `highwater objects` and `highwater diff`:
//! `cargo run --example shared -- DIRECTORY` writes `objects.log`, or with `--store` `app.hw`, `before.hw` and `after.hw`.

use highwater::event_store::EventStore;
use highwater::snapshot::SnapshotEngine;
use highwater::{Shared, Tracked, objects, track};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Tracked)]
struct Config {
    text: Vec<u8>,
}

struct Worker {
    config: Shared<Arc<Config>>,
}

fn workers(config: &Shared<Arc<Config>>, count: usize) -> Vec<Worker> {
    (0..count).map(|_| Worker { config: config.clone() }).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a directory")?);
    let store = Arc::new(EventStore::new());
    let engine = SnapshotEngine::new(Arc::clone(&store));
    let with_store = arguments.next().is_some_and(|argument| argument == "--store");
    if with_store {
        objects::to_store(Arc::clone(&store));
    } else {
        objects::to_file(folder.join("objects.log"))?;
    }

    track!(let config = Arc::new(Config { text: vec![0; 4096] }));
    track!(let mut cache = Vec::<u64>::with_capacity(100));
    let before = engine.build_snapshot();
    let pool = workers(&config, 3);
    drop(workers(&config, 2));
    cache.push(pool.iter().map(|worker| worker.config.text.len() as u64).sum());
    let after = engine.build_snapshot();
    objects::off();
    if with_store {
        for owners in after.owners() {
            println!("{} owners of {}: {:?}", owners.owners, owners.type_name, owners.var_name);
        }
        before.save(folder.join("before.hw"))?;
        after.save(folder.join("after.hw"))?;
        store.save(folder.join("app.hw"))?;
    }
    Ok(())
}
