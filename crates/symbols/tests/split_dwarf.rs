//! Debug information in files that the linker never saw (`.dwo`), and in packages of them (`.dwp`).

mod workshop;

use std::fs;
use std::path::{Path, PathBuf};

use highwater_symbols::{SourceFrame, Symbolizer};
use workshop::{Workshop, at_base, frames, programs};

/// A program with split debug information, and the same program with all of it inside.
struct Split {
    workshop: Workshop,
    program: PathBuf,
    addresses: Vec<u64>,
    /// The frames at these addresses, from the other program.
    expected: Vec<Vec<SourceFrame>>,
}

impl Split {
    fn cpp(test: &str, version: u32) -> Self {
        let workshop = Workshop::new(test);
        for (dir, split) in [("whole", ""), ("build", "-gsplit-dwarf")] {
            workshop.create_dir(dir);
            let compiler = format!("c++ -c -g -gdwarf-{version} -O2 {split}");
            workshop.compile(&compiler, "templates.cpp", &format!("{dir}/templates.o"));
            workshop.run(&format!("c++ -o {dir}/templates {dir}/templates.o"));
        }
        Self::of(workshop, "templates", &["shop", "main"])
    }

    fn of(workshop: Workshop, program: &str, functions: &[&str]) -> Self {
        let whole = workshop.path("whole").join(program);
        let ours = workshop.functions(&whole);
        let ours = ours.iter().filter(|function| functions.iter().any(|text| function.name.contains(text)));
        let addresses: Vec<u64> = ours.flat_map(|function| function.start..function.start + function.size).collect();
        let program = workshop.path("build").join(program);
        let expected = all_frames(Symbolizer::new(), &whole, &addresses);
        assert!(expected.iter().any(|frames| frames.len() > 2 && frames.iter().all(|frame| frame.line > 0)));
        Self { workshop, program, addresses, expected }
    }

    fn found(&self, symbolizer: Symbolizer) -> Vec<Vec<SourceFrame>> {
        all_frames(symbolizer, &self.program, &self.addresses)
    }

    /// Without the other files there are no inlined frames: they are not in the skeleton.
    fn assert_not_found(&self, symbolizer: Symbolizer) {
        assert!(self.found(symbolizer).iter().all(|frames| frames.len() <= 1));
    }

    fn dwo(&self) -> PathBuf {
        let files = fs::read_dir(self.workshop.path("build")).unwrap().map(|entry| entry.unwrap().path());
        let dwo: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "dwo")).collect();
        assert_eq!(dwo.len(), 1, "{dwo:?}");
        dwo[0].clone()
    }
}

fn all_frames(mut symbolizer: Symbolizer, program: &Path, addresses: &[u64]) -> Vec<Vec<SourceFrame>> {
    addresses.iter().map(|address| frames(&mut symbolizer, &at_base(program, ""), *address)).collect()
}

fn with_dir(dir: &Path) -> Symbolizer {
    let mut symbolizer = Symbolizer::new();
    symbolizer.add_debug_dir(dir.to_owned());
    symbolizer
}

#[test]
fn units_in_files_of_their_own_are_found_where_the_compiler_wrote_them() {
    for version in [4, 5] {
        let split = Split::cpp(&format!("dwo_{version}"), version);
        assert_eq!(split.found(Symbolizer::new()), split.expected, "DWARF {version}");
        fs::remove_file(split.dwo()).unwrap();
        split.assert_not_found(Symbolizer::new());
    }
}

#[test]
fn units_in_files_of_their_own_are_found_beside_the_program_and_in_given_directories() {
    for version in [4, 5] {
        let mut split = Split::cpp(&format!("dwo_moved_{version}"), version);
        let symbols = split.workshop.create_dir("symbols");
        let dwo = split.dwo();
        fs::rename(&dwo, symbols.join(dwo.file_name().unwrap())).unwrap();
        split.assert_not_found(Symbolizer::new());
        assert_eq!(split.found(with_dir(&symbols)), split.expected);

        let elsewhere = split.workshop.create_dir("elsewhere");
        fs::rename(symbols.join(dwo.file_name().unwrap()), elsewhere.join(dwo.file_name().unwrap())).unwrap();
        fs::rename(&split.program, elsewhere.join("templates")).unwrap();
        split.program = elsewhere.join("templates");
        assert_eq!(split.found(Symbolizer::new()), split.expected);
    }
}

#[test]
fn a_unit_of_another_compilation_is_not_used() {
    for version in [4, 5] {
        let split = Split::cpp(&format!("dwo_other_{version}"), version);
        let dwo = split.dwo();
        let other = format!("c++ -c -g -gdwarf-{version} -O0 -DOTHER -gsplit-dwarf");
        split.workshop.compile(&other, "templates.cpp", "build/templates.o");
        assert_eq!(split.dwo(), dwo);
        split.assert_not_found(Symbolizer::new());
    }
}

#[test]
fn units_in_a_package_are_found_beside_the_program_and_in_given_directories() {
    for version in [4, 5] {
        let split = Split::cpp(&format!("dwp_{version}"), version);
        // The packager of binutils knows DWARF 4 only.
        let packager = if version == 4 { "dwp" } else { "llvm-dwp" };
        split.workshop.run(&format!("{packager} -e build/templates -o build/templates.dwp"));
        fs::remove_file(split.dwo()).unwrap();
        assert_eq!(split.found(Symbolizer::new()), split.expected, "DWARF {version}");
        let symbols = split.workshop.create_dir("symbols");
        fs::rename(split.workshop.path("build/templates.dwp"), symbols.join("templates.dwp")).unwrap();
        split.assert_not_found(Symbolizer::new());
        assert_eq!(split.found(with_dir(&symbols)), split.expected);
    }
}

#[test]
fn a_stripped_program_has_its_skeleton_in_a_debug_file_and_its_units_in_a_package() {
    let split = Split::cpp("dwp_of_debug_file", 4);
    let run = |command: &str| split.workshop.run(command);
    run("dwp -e build/templates -o build/templates.dwp");
    run("objcopy --only-keep-debug build/templates build/templates.debug");
    run("strip build/templates");
    run("objcopy --add-gnu-debuglink=build/templates.debug build/templates");
    fs::remove_file(split.dwo()).unwrap();
    assert_eq!(split.found(Symbolizer::new()), split.expected);
}

#[test]
fn split_units_of_rust_are_found() {
    for kind in ["unpacked", "packed"] {
        let workshop = Workshop::new(&format!("rust_{kind}"));
        for (dir, split) in [("whole", "off"), ("build", kind)] {
            let dir = workshop.create_dir(dir);
            let compiler = format!("rustc --edition 2024 -O -g -C split-debuginfo={split} -C codegen-units=4");
            workshop.run_on(&format!("{compiler} -o {}/generic", dir.display()), &[&programs().join("generic.rs")]);
        }
        let split = Split::of(workshop, "generic", &["cellar"]);
        assert_eq!(split.found(Symbolizer::new()), split.expected, "{kind}");
    }
}

#[test]
fn names_from_a_skeleton_alone_are_not_kept() {
    let split = Split::cpp("dwo_late", 5);
    let dwo = split.dwo();
    let hidden = split.workshop.path("hidden");
    fs::rename(&dwo, &hidden).unwrap();
    let with_cache = || Symbolizer::with_cache(split.workshop.path("names"));
    split.assert_not_found(with_cache());
    fs::rename(&hidden, &dwo).unwrap();
    assert_eq!(split.found(with_cache()), split.expected);
    // They are kept now.
    fs::rename(&dwo, &hidden).unwrap();
    assert_eq!(split.found(with_cache()), split.expected);
}

#[test]
fn a_damaged_unit_is_harmless() {
    let split = Split::cpp("dwo_damaged", 5);
    let whole = fs::read(split.dwo()).unwrap();
    for cut in (0..whole.len()).step_by(97) {
        fs::write(split.dwo(), &whole[..cut]).unwrap();
        assert!(!split.found(Symbolizer::new()).is_empty());
    }
    for at in (0..whole.len()).step_by(13) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        fs::write(split.dwo(), &damaged).unwrap();
        // The names of functions are in the program's symbol table as well.
        assert!(split.found(Symbolizer::new()).iter().all(|frames| !frames.is_empty()), "byte {at}");
    }
}
