//! Debug information outside the program itself, and programs that differ from the recorded ones.

mod workshop;

use std::fs;
use std::path::{Path, PathBuf};

use highwater_symbols::{ModuleMapping, SymbolError, Symbolizer, build_id_of};
use workshop::{Workshop, at_base, frames, line_of, names};

/// A program without debug information, and the parts that were removed from it.
struct Stripped {
    workshop: Workshop,
    program: PathBuf,
    /// The program as it was.
    original: PathBuf,
    /// Only its debug information.
    debug_file: PathBuf,
    build_id: String,
    /// An instruction of `only_local`, a name that a stripped program does not have.
    address: u64,
}

impl Stripped {
    fn new(test: &str, flags: &str) -> Self {
        let workshop = Workshop::new(test);
        workshop.create_dir("original");
        workshop.create_dir("debug");
        let original = workshop.compile(&format!("cc -g -O2 {flags}"), "plain.c", "original/plain");
        workshop.run("objcopy --only-keep-debug original/plain debug/plain.debug");
        workshop.run("strip -o plain original/plain");
        let address = workshop.function(&original, "only_local").start;
        let build_id = build_id_of(&original).unwrap_or_default();
        let (program, debug_file) = (workshop.path("plain"), workshop.path("debug/plain.debug"));
        Stripped { workshop, program, original, debug_file, build_id, address }
    }

    fn mapping(&self) -> ModuleMapping<'_> {
        at_base(&self.program, &self.build_id)
    }

    fn move_debug_file(&self, to: &str) {
        fs::create_dir_all(self.workshop.path(to).parent().unwrap()).unwrap();
        fs::rename(&self.debug_file, self.workshop.path(to)).unwrap();
    }

    fn named_by_build_id(&self) -> String {
        format!(".build-id/{}/{}.debug", &self.build_id[..2], &self.build_id[2..])
    }

    fn assert_found(&self, symbolizer: &mut Symbolizer) {
        let frames = frames(symbolizer, &self.mapping(), self.address);
        assert_eq!(names(&frames).last(), Some(&"only_local"));
        let line = line_of("plain.c", "only_local(int value)");
        assert_eq!((frames.last().unwrap().line, frames.last().unwrap().inlined), (line, false));
        assert!(symbolizer.module(&self.mapping()).unwrap().has_debug_info());
    }

    fn assert_not_found(&self, symbolizer: &mut Symbolizer) {
        assert!(!symbolizer.module(&self.mapping()).unwrap().has_debug_info());
        assert!(frames(symbolizer, &self.mapping(), self.address).is_empty());
    }
}

fn with_dir(dir: &Path) -> Symbolizer {
    let mut symbolizer = Symbolizer::new();
    symbolizer.add_debug_dir(dir.to_owned());
    symbolizer
}

#[test]
fn the_build_id_is_what_readelf_shows() {
    let stripped = Stripped::new("build_id", "");
    let notes = stripped.workshop.run("readelf -n plain");
    assert!(notes.contains(&format!("Build ID: {}", stripped.build_id)), "{notes}");
    assert_eq!(build_id_of(&stripped.debug_file).unwrap(), stripped.build_id);
    assert_eq!(build_id_of(&stripped.workshop.path("missing")), None);
    assert_eq!(build_id_of(&workshop::programs().join("plain.c")), None);
    let without = stripped.workshop.compile("cc -Wl,--build-id=none", "plain.c", "without");
    assert_eq!(build_id_of(&without), None);
}

#[test]
fn a_debug_file_is_found_by_its_build_id() {
    let stripped = Stripped::new("by_build_id", "");
    stripped.move_debug_file(&format!("symbols/{}", stripped.named_by_build_id()));
    stripped.assert_not_found(&mut Symbolizer::new());
    stripped.assert_found(&mut with_dir(&stripped.workshop.path("symbols")));
}

#[test]
fn a_debug_directory_can_be_added_later() {
    let stripped = Stripped::new("added_later", "");
    let mut symbolizer = Symbolizer::new();
    stripped.assert_not_found(&mut symbolizer);
    symbolizer.add_debug_dir(stripped.workshop.path("original"));
    stripped.assert_found(&mut symbolizer);
}

#[test]
fn a_debug_link_is_followed_to_the_usual_directories() {
    for (test, to) in [("link_beside", "plain.debug"), ("link_in_debug", ".debug/plain.debug")] {
        let stripped = Stripped::new(test, "");
        stripped.workshop.run("objcopy --add-gnu-debuglink=debug/plain.debug plain");
        stripped.assert_not_found(&mut Symbolizer::new());
        stripped.move_debug_file(to);
        stripped.assert_found(&mut Symbolizer::new());
    }
    let stripped = Stripped::new("link_in_dir", "-Wl,--build-id=none");
    stripped.workshop.run("objcopy --add-gnu-debuglink=debug/plain.debug plain");
    let dir = stripped.workshop.path("");
    stripped.move_debug_file(&format!("symbols/{}/plain.debug", dir.strip_prefix("/").unwrap().display()));
    stripped.assert_found(&mut with_dir(&stripped.workshop.path("symbols")));
}

#[test]
fn a_debug_link_to_another_file_is_not_followed() {
    let with_build_id = Stripped::new("wrong_link", "");
    let without = Stripped::new("wrong_checksum", "-Wl,--build-id=none");
    for stripped in [&with_build_id, &without] {
        stripped.workshop.run("objcopy --add-gnu-debuglink=debug/plain.debug plain");
        let other = stripped.workshop.compile("cc -g -O1 -DOTHER", "aliases.c", "other");
        stripped.workshop.run("objcopy --only-keep-debug other plain.debug");
        assert_ne!(build_id_of(&other).unwrap(), stripped.build_id);
        stripped.assert_not_found(&mut Symbolizer::new());
    }
}

#[test]
fn an_unstripped_copy_of_any_name_will_do() {
    let stripped = Stripped::new("unstripped_copy", "");
    stripped.workshop.create_dir("builds/of/yesterday");
    fs::write(stripped.workshop.path("builds/notes.txt"), "not a program").unwrap();
    fs::copy(&stripped.original, stripped.workshop.path("builds/of/yesterday/some-name")).unwrap();
    stripped.workshop.compile("cc -g -O2", "aliases.c", "builds/another");
    stripped.assert_found(&mut with_dir(&stripped.workshop.path("builds")));
}

#[test]
fn the_program_may_be_gone_if_a_copy_or_its_debug_file_is_there() {
    for (test, dir) in [("gone_copy", "original"), ("gone_debug_file", "debug")] {
        let stripped = Stripped::new(test, "");
        fs::remove_file(&stripped.program).unwrap();
        let missing = SymbolError::Missing { path: stripped.program.clone() };
        assert_eq!(Symbolizer::new().module(&stripped.mapping()).err(), Some(missing.clone()));
        stripped.assert_found(&mut with_dir(&stripped.workshop.path(dir)));
        // Without a build id, nothing shows that the copy is one of this program.
        let unidentified = at_base(&stripped.program, "");
        assert_eq!(with_dir(&stripped.workshop.path(dir)).module(&unidentified).err(), Some(missing));
    }
}

#[test]
fn a_stripped_copy_and_a_debug_file_go_together() {
    let stripped = Stripped::new("copy_and_debug_file", "");
    fs::rename(&stripped.program, stripped.workshop.path("debug/aaa")).unwrap();
    stripped.assert_found(&mut with_dir(&stripped.workshop.path("debug")));
}

#[test]
fn another_build_at_the_same_path_is_refused() {
    let stripped = Stripped::new("other_build", "");
    let other = stripped.workshop.compile("cc -g -O1", "aliases.c", "plain");
    let found = build_id_of(&other).unwrap();
    let error = Symbolizer::new().module(&stripped.mapping()).err().unwrap();
    let expected = stripped.build_id.clone();
    let text = format!("{}: another build: expected build id {expected}, found {found}", other.display());
    assert_eq!(error, SymbolError::OtherBuild { path: other, expected, found });
    assert_eq!(error.to_string(), text);
    // Unless the right one is somewhere else.
    stripped.assert_found(&mut with_dir(&stripped.workshop.path("original")));

    stripped.workshop.compile("cc -g -O1 -Wl,--build-id=none", "aliases.c", "plain");
    let error = Symbolizer::new().module(&stripped.mapping()).err().unwrap();
    assert!(matches!(error, SymbolError::OtherBuild { found, .. } if found.is_empty()));
}

#[test]
fn a_deleted_file_that_was_put_back_is_recognised_by_its_build_id() {
    let stripped = Stripped::new("put_back", "");
    let path = PathBuf::from(format!("{} (deleted)", stripped.original.display()));
    let mapping = ModuleMapping { path: &path, ..stripped.mapping() };
    assert_eq!(names(&frames(&mut Symbolizer::new(), &mapping, stripped.address)).last(), Some(&"only_local"));
}

#[test]
fn a_recorded_build_id_is_never_a_path() {
    let stripped = Stripped::new("hostile_build_id", "");
    let missing = stripped.workshop.path("missing");
    for build_id in ["/", "..", "../../../../etc/passwd", "a", "ab", "äöü", "zz/../x"] {
        let mut symbolizer = with_dir(&stripped.workshop.path("debug"));
        assert!(symbolizer.module(&at_base(&missing, build_id)).is_err());
    }
}

#[test]
fn what_debug_files_share_is_found_in_a_file_of_its_own() {
    let workshop = Workshop::new("shared_by_dwz");
    if std::process::Command::new("dwz").arg("--version").output().is_err() {
        eprintln!("not tested, as there is no dwz");
        return;
    }
    for name in ["one", "two"] {
        workshop.compile("c++ -g -O2", "templates.cpp", name);
    }
    fs::copy(workshop.path("one"), workshop.path("whole")).unwrap();
    workshop.run("dwz -m shared.debug -r one two");
    let (one, whole) = (workshop.path("one"), workshop.path("whole"));
    let functions = workshop.functions(&whole);
    let ours = functions.iter().filter(|function| function.name.contains("shop") || function.name == "main");
    let addresses: Vec<u64> = ours.flat_map(|function| function.start..function.start + function.size).collect();
    let all_frames = |mut symbolizer: Symbolizer, file: &Path| -> Vec<_> {
        addresses.iter().map(|address| frames(&mut symbolizer, &at_base(file, ""), *address)).collect()
    };
    let expected = all_frames(Symbolizer::new(), &whole);
    assert!(expected.iter().any(|frames| frames.len() > 2));
    assert_eq!(all_frames(Symbolizer::new(), &one), expected);

    let elsewhere = workshop.create_dir("symbols/.dwz");
    fs::rename(workshop.path("shared.debug"), elsewhere.join("of-any-name")).unwrap();
    assert_ne!(all_frames(Symbolizer::new(), &one), expected);
    assert_eq!(all_frames(with_dir(&workshop.path("symbols")), &one), expected);
}
