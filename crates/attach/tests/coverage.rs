//! Every call is seen: programs that make known numbers of calls, with each allocator.

mod support;

use highwater_shm::attach_v1::{FUNCTION_COUNT, FUNCTIONS, FunctionIndex};
use std::path::Path;
use std::process::Command;
use support::{Target, attach, births_and_deaths, calls, detach, program, variant};

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

fn kinds(command: &mut Command, has_late: bool) {
    let mut target = Target::ready(command);
    for round in 0..2 {
        let attached = attach(target.pid());
        target.signal("USR1");
        target.wait_for("begin");
        let (before, blocks_before) = (calls(&attached), births_and_deaths(&attached));
        target.signal("USR1");
        target.wait_for("end");
        let (after, blocks) = (calls(&attached), births_and_deaths(&attached));
        use FunctionIndex::*;
        let late = u64::from(has_late);
        for (function, expected) in [
            (Malloc, 4 + late),
            (Free, 9 + late),
            (Calloc, 1),
            (Realloc, 1),
            (PosixMemalign, 1),
            (Valloc, 1),
            (Pvalloc, 0),
            (New, 0),
        ] {
            let index = function as usize;
            assert_eq!(after[index] - before[index], 1000 * expected, "{} in round {round}", FUNCTIONS[index].name);
        }
        // In some libraries these are one function.
        let aligned = |calls: &[u64; FUNCTION_COUNT]| calls[Memalign as usize] + calls[AlignedAlloc as usize];
        assert_eq!(aligned(&after) - aligned(&before), 2000, "memalign and aligned_alloc in round {round}");
        assert_eq!(blocks.0 - blocks_before.0, blocks.1 - blocks_before.1, "all that was born died");
        detach(target.pid());
        assert_eq!(support::changed_bytes(target.pid()), 0);
    }
}

#[test]
fn glibc_and_libraries_that_are_loaded_later() {
    let late = variant("late.so", "late", &["-shared", "-fPIC"]);
    kinds(Command::new(program("kinds")).arg(late), true);
}

#[test]
fn preloaded_allocators() {
    let late = variant("late.so", "late", &["-shared", "-fPIC"]);
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"] {
        let library = format!("{LIBRARIES}/{library}");
        if !Path::new(&library).exists() {
            println!("short: {library} is not installed");
            continue;
        }
        println!("{library}");
        kinds(Command::new(program("kinds")).arg(&late).env("LD_PRELOAD", &library), true);
    }
}

#[test]
fn linked_allocators() {
    let linked = format!("{LIBRARIES}/libjemalloc.so.2");
    if Path::new(&linked).exists() {
        kinds(&mut Command::new(variant("kinds_jemalloc", "kinds", &["-Wl,--no-as-needed", &linked])), false);
    }
    kinds(&mut Command::new(variant("kinds_static", "kinds", &["-static"])), false);
    kinds(&mut Command::new(variant("kinds_static_pie", "kinds", &["-static-pie"])), false);
}

#[test]
fn operator_new_throws_through_hooks() {
    let mut libraries = vec![None];
    // Debian's mimalloc ends the program where others throw.
    libraries.extend(["libjemalloc.so.2", "libtcmalloc_minimal.so.4"].map(|name| Some(format!("{LIBRARIES}/{name}"))));
    for library in libraries {
        let mut command = Command::new(program("cxx"));
        if let Some(library) = library.as_ref().filter(|library| Path::new(library).exists()) {
            command.env("LD_PRELOAD", library);
        }
        let mut target = Target::ready(&mut command);
        let attached = attach(target.pid());
        let before = births_and_deaths(&attached);
        target.signal("USR1");
        target.wait_for("end");
        let after = births_and_deaths(&attached);
        // Four blocks a round; the exceptions' own come from malloc too, in glibc's library.
        assert!(after.0 - before.0 >= 4000, "{library:?}: {before:?} {after:?}");
        assert_eq!(after.0 - before.0, after.1 - before.1, "{library:?}");
        detach(target.pid());
        target.signal("USR1");
        target.wait_for("end");
    }
}
