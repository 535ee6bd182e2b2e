//! The walk over glibc's heap against a library that counts in the same process.

mod support;

use highwater_attach::{NotWalkable, walk_heap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::{Target, attach, births_and_deaths, detach, program, variant};

fn counted(path: &Path) -> (i64, i64) {
    let bytes = fs::read(path).unwrap();
    let word = |index: usize| i64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap());
    (word(0), word(1))
}

fn counting(program: &Path, words: &[&str], name: &str) -> (Target, PathBuf) {
    let library = variant("counting.so", "counting", &["-shared", "-fPIC"]);
    let counts = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("counts.{name}.{}", std::process::id()));
    let _ = fs::remove_file(&counts);
    (Target::ready(Command::new(program).args(words).env("LD_PRELOAD", library).env("COUNTS", &counts)), counts)
}

#[test]
fn blocks_of_all_arenas_are_found_exactly() {
    for threads in ["0", "1", "4"] {
        let (target, counts) = counting(&program("heap"), &[threads], threads);
        let found = walk_heap(target.pid(), Duration::from_secs(2)).unwrap();
        let (blocks, bytes) = counted(&counts);
        println!("{threads} threads: {} blocks in {:?}, {} cached", found.blocks.len(), found.pause, found.cached);
        assert_eq!(found.blocks.len() as i64, blocks, "{threads} threads");
        assert_eq!(found.blocks.iter().map(|block| block.size as i64).sum::<i64>(), bytes, "{threads} threads");
        assert!(found.blocks.windows(2).all(|pair| pair[0].address + pair[0].size <= pair[1].address));
        let _ = fs::remove_file(counts);
    }
}

#[test]
fn a_heap_that_is_too_large_or_of_another_allocator_is_refused() {
    let target = Target::ready(Command::new(program("heap")).arg("4"));
    assert!(matches!(walk_heap(target.pid(), Duration::ZERO), Err(NotWalkable::TooLarge { .. })));
    let found = walk_heap(target.pid(), Duration::from_secs(2)).unwrap();
    assert!(found.blocks.len() > 1000);
    let target = Target::ready(&mut Command::new(variant("kinds_static", "kinds", &["-static"])));
    assert!(
        matches!(walk_heap(target.pid(), Duration::from_secs(2)), Err(NotWalkable::UnknownLayout(_))),
        "nothing says which version it is"
    );
}

#[test]
fn calls_through_hooks_leave_older_blocks_as_they_are() {
    let mut target = Target::ready(&mut Command::new(program("kinds")));
    let attached = attach(target.pid());
    target.signal("USR1");
    target.wait_for("begin");
    let (births, deaths) = births_and_deaths(&attached);
    let before = walk_heap(target.pid(), Duration::from_secs(2)).unwrap();
    target.signal("USR1");
    target.wait_for("end");
    let after = walk_heap(target.pid(), Duration::from_secs(2)).unwrap();
    let (more_births, more_deaths) = births_and_deaths(&attached);
    assert_eq!((more_births - births, more_deaths - deaths), (10_000, 10_000));
    assert!(!before.blocks.is_empty());
    assert_eq!(before.blocks, after.blocks);
    detach(target.pid());
}
