//! Cached names: the same ones as without a cache, and none that are out of date.

mod workshop;

use highwater_symbols::{SourceFrame, Symbolizer, build_id_of};
use std::fs;
use std::path::{Path, PathBuf};
use workshop::{Workshop, at_base, frames};

fn files_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn all_frames(mut symbolizer: Symbolizer, program: &Path, addresses: &[u64]) -> Vec<Vec<SourceFrame>> {
    let build_id = build_id_of(program).unwrap();
    addresses.iter().map(|&address| frames(&mut symbolizer, &at_base(program, &build_id), address)).collect()
}

#[test]
fn names_that_were_found_are_kept_and_are_the_same() {
    let workshop = Workshop::new("cache_same");
    let program = workshop.compile("cc -g -O2 -fpie -pie", "plain.c", "plain");
    let function = workshop.function(&program, "outer");
    let addresses: Vec<u64> = (function.start..function.start + function.size).collect();
    let folder = workshop.path("names");
    let with_cache = || Symbolizer::with_cache(folder.clone());
    let plain = all_frames(Symbolizer::new(), &program, &addresses);
    assert!(plain.iter().flatten().any(|frame| frame.line > 0 && frame.inlined), "{plain:?}");
    assert_eq!(all_frames(with_cache(), &program, &addresses[1..]), plain[1..]);
    let [kept] = &files_in(&folder)[..] else { panic!("{:?}", files_in(&folder)) };
    let first = fs::read(kept).unwrap();
    // One more address is added; after that, none.
    assert_eq!(all_frames(with_cache(), &program, &addresses), plain);
    let second = fs::read(kept).unwrap();
    assert!(second.len() > first.len());
    let written = fs::metadata(kept).unwrap().modified().unwrap();
    assert_eq!(all_frames(with_cache(), &program, &addresses), plain);
    assert_eq!(fs::metadata(kept).unwrap().modified().unwrap(), written);
    // A damaged file is written again.
    fs::write(kept, &second[..second.len() - 1]).unwrap();
    assert_eq!(all_frames(with_cache(), &program, &addresses), plain);
    assert_eq!(fs::read(kept).unwrap(), second);
}

/// A file with unchanged size and time is not read again for known addresses.
#[test]
fn what_is_known_is_not_looked_for_again() {
    let workshop = Workshop::new("cache_used");
    let program = workshop.compile("cc -g -O2 -fpie -pie", "plain.c", "plain");
    let address = workshop.function(&program, "outer").start;
    let with_cache = || Symbolizer::with_cache(workshop.path("names"));
    let found = all_frames(with_cache(), &program, &[address]);
    let modified = fs::metadata(&program).unwrap().modified().unwrap();
    let mut bytes = fs::read(&program).unwrap();
    for at in 0..bytes.len() - 5 {
        if bytes[at..].starts_with(b"outer") {
            bytes[at..at + 5].copy_from_slice(b"upper");
        }
    }
    fs::write(&program, bytes).unwrap();
    fs::File::options().write(true).open(&program).unwrap().set_modified(modified).unwrap();
    assert_ne!(all_frames(Symbolizer::new(), &program, &[address]), found);
    assert_eq!(all_frames(with_cache(), &program, &[address]), found);
}

/// When a program's debug file comes or goes, names are looked for again.
#[test]
fn another_debug_file_means_another_file_of_names() {
    let workshop = Workshop::new("cache_debug_file");
    let program = workshop.compile("cc -g -O2 -fpie -pie", "plain.c", "plain");
    let address = workshop.function(&program, "outer").start;
    workshop.run("objcopy --only-keep-debug plain plain.debug");
    workshop.run("objcopy --strip-all --add-gnu-debuglink=plain.debug plain");
    let folder = workshop.path("names");
    let with_lines = || {
        all_frames(Symbolizer::with_cache(folder.clone()), &program, &[address])[0].iter().any(|frame| frame.line > 0)
    };
    assert!(with_lines());
    fs::rename(workshop.path("plain.debug"), workshop.path("elsewhere")).unwrap();
    assert!(!with_lines());
    fs::rename(workshop.path("elsewhere"), workshop.path("plain.debug")).unwrap();
    assert!(with_lines());
    assert_eq!(files_in(&folder).len(), 2);
}
