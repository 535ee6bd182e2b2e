//! `cargo highwater`: a package that cargo builds, with a program, tests and a benchmark.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::recorded::{Ended, Recording, run};
use support::{Place, document};

const MANIFEST: &str = r#"
[package]
name = "small-package"
version = "0.1.0"
edition = "2021"
[lib]
name = "small"
[[bench]]
name = "speed"
harness = false
[profile.release]
strip = true
[workspace]
"#;
const LIB: &str = "
#[inline(never)]
pub fn keep(bytes: usize) -> Vec<u8> { std::hint::black_box(vec![1; bytes]) }
#[test]
fn a_unit() { std::mem::forget(keep(5000)); }
";
const MAIN: &str = r#"
fn main() {
    let bytes = std::env::args().nth(1).unwrap().parse().unwrap();
    std::mem::forget(small::keep(bytes));
    std::process::exit(if bytes == 13 { 3 } else { 0 });
}
"#;
const TEST: &str = "
#[test]
fn in_its_folder() { assert!(std::path::Path::new(\"Cargo.toml\").exists()); std::mem::forget(small::keep(70_000)); }
#[test]
fn another() { panic!(\"not this one\") }
";
const BENCH: &str = "fn main() { for _ in 0..100 { small::keep(3000); } }";

struct Package(Place);

impl Package {
    fn new() -> Self {
        let place = Place::new();
        for (name, text) in [
            ("Cargo.toml", MANIFEST),
            ("src/lib.rs", LIB),
            ("src/main.rs", MAIN),
            ("tests/whole.rs", TEST),
            ("benches/speed.rs", BENCH),
        ] {
            let file = place.file(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        Self(place)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-highwater"));
        command.arg("highwater").args(line.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("CARGO_TARGET_DIR", self.0.file("built")).env("CARGO_NET_OFFLINE", "true");
        command
    }

    fn cargo(&self, line: &str) -> Ended {
        run(&mut self.command(line))
    }

    fn recording(&self, name: &str) -> String {
        let file: PathBuf = self.0.file("built/highwater").join(name);
        assert!(file.exists(), "{name}: {:?}", std::fs::read_dir(file.parent().unwrap()).unwrap().collect::<Vec<_>>());
        format!("built/highwater/{name}")
    }
}

#[test]
fn a_program_is_built_and_recorded() {
    let package = Package::new();
    let ended = package.cargo("run --quiet -- 123456").succeeded();
    assert!(ended.stderr_text().contains("next: highwater view"), "{}", ended.stderr_text());
    let recording = Recording::read_file(&package.0, &package.recording("small-package.hw"));
    assert_eq!(recording.of_function("keep").live_bytes, 123_456);
    // Its exit code and a limit are failures, as cargo has them.
    assert_eq!(package.cargo("run --quiet -- 13").shell_status(), 3);
    let ended = package.cargo("run --quiet --max-peak 100KB -- 123456");
    assert_eq!(ended.shell_status(), 1, "{}", ended.stderr_text());
    assert!(ended.stderr_text().contains("1 of 1 limit is not kept"), "{}", ended.stderr_text());
    let ended = package.cargo("run --quiet -o own.hw --release -- 777").succeeded();
    assert!(ended.stderr_text().contains("small-package is stripped"), "{}", ended.stderr_text());
    assert!(package.0.file("own.hw").exists());
    let ended = package.cargo("run --quiet --config profile.dev.debug=false -- 5").succeeded();
    let hint = "small-package has no debug information: functions will have no lines, and inlined ones no names. \
                In Cargo.toml: [profile.dev] debug = \"line-tables-only\"\n";
    assert!(ended.stderr_text().contains(hint), "{}", ended.stderr_text());
    let ended = package.cargo("run --quiet -- 5").succeeded();
    assert!(!ended.stderr_text().contains("no debug information"), "{}", ended.stderr_text());
    // The folder of a target is in cargo's own.
    std::fs::remove_dir_all(package.0.file("built/highwater")).unwrap();
    package.cargo("run --quiet --target x86_64-unknown-linux-gnu -- 5").succeeded();
    package.recording("small-package.hw");
}

#[test]
fn a_look_at_the_recording_does_not_hide_the_verdict() {
    let package = Package::new();
    // The viewer's browser: it ends the viewer as Ctrl-C does.
    let programs = package.0.file("programs");
    std::fs::create_dir(&programs).unwrap();
    package.0.write("programs/xdg-open", "#!/bin/sh\ntouch \"$0.opened\"\nkill -INT 0\n");
    let browser = programs.join("xdg-open");
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    for (line, code) in [
        ("run --quiet --view --max-peak 1KB -- 123456", 1),
        ("run --quiet --view --max-peak 1MB -- 5", 0),
        ("run --quiet --view -- 13", 3),
    ] {
        let mut command = package.command(line);
        let ended = run(command.env("PATH", &path).process_group(0));
        assert_eq!(ended.shell_status(), code, "{line}: {}", ended.stderr_text());
        std::fs::remove_file(programs.join("xdg-open.opened")).unwrap();
    }
}

#[test]
fn tests_and_benchmarks_are_recorded_each_by_itself() {
    let package = Package::new();
    package.0.write("limits.toml", "[budget]\nmax-peak = \"60 MB\"\n");
    let ended =
        package.cargo("test --quiet --budget limits.toml --lib --test whole -- a_unit in_its_folder").succeeded();
    assert!(!ended.stderr_text().contains("not kept"), "{}", ended.stderr_text());
    let unit = Recording::read_file(&package.0, &package.recording("small-package-small.hw"));
    assert_eq!(unit.of_function("a_unit").live_bytes, 5000);
    let whole = Recording::read_file(&package.0, &package.recording("small-package-whole.hw"));
    assert_eq!(whole.of_function("in_its_folder").live_bytes, 70_000);
    // A test that fails is a failure of cargo's.
    assert_eq!(package.cargo("test --quiet --test whole").shell_status(), 101);

    package.cargo("bench --quiet --config profile.bench.strip=false --bench speed").succeeded();
    let name = package.recording("small-package-speed.hw");
    let report = package.0.run(["report", &name, "--json"]);
    let totals = &document(&report.stdout)["totals"];
    assert!(totals["allocated_bytes"].as_u64().unwrap() >= 300_000, "{totals}");
}

#[test]
fn limits_by_name_and_baselines_are_of_all_test_programs_together() {
    let package = Package::new();
    let test = |options: &str| {
        let ended = package.cargo(&format!("test --quiet {options} --lib --test whole -- a_unit in_its_folder"));
        (ended.shell_status(), ended.stderr_text())
    };
    // Each name is that of one program.
    package.0.write(
        "limits.toml",
        "[budget.programs.small]\nmax-peak = \"60 MB\"\n[budget.programs.whole]\nmax-peak = \"60 MB\"\n",
    );
    std::fs::create_dir(package.0.file("reports")).unwrap();
    let (code, said) = test("--budget limits.toml --verdict junit=reports");
    assert!(code == 0 && said.matches("The limit is kept.").count() == 2, "{said}");
    for name in ["small", "whole"] {
        let report = std::fs::read_to_string(package.0.file(&format!("reports/small-package-{name}.xml"))).unwrap();
        assert!(report.contains(&format!("<testsuite name=\"{name}\"")), "{report}");
    }
    package.0.write("limits.toml", "[budget]\nmax-peak = \"60 MB\"\n[budget.programs.smal]\nmax-peak = \"60 MB\"\n");
    let (code, said) = test("--budget limits.toml");
    assert!(
        code == 1 && said.contains("limits for 'smal', and no recorded process has this name; there are small, whole"),
        "{said}"
    );
    // The baselines: a folder with a recording of each.
    let built = package.0.file("built/highwater");
    std::fs::rename(&built, package.0.file("earlier")).unwrap();
    let (code, said) = test("--baseline earlier --allow +20%,256KiB,1000");
    assert!(code == 0 && said.matches("All 5 limits are kept.").count() == 2, "{said}");
    std::fs::remove_file(package.0.file("earlier/small-package-small.hw")).unwrap();
    // One is of one program; the others have none.
    let (code, said) = test("--baseline earlier/small-package-whole.hw --allow +20%,256KiB,1000");
    assert!(
        code == 0 && said.contains("not judged: 'small' is not compared: no baseline is a recording of it"),
        "{said}"
    );
    std::fs::copy(package.0.file("earlier/small-package-whole.hw"), package.0.file("other.hw")).unwrap();
    let only_lib = package.cargo("test --quiet --baseline other.hw --lib -- a_unit");
    assert_eq!(only_lib.shell_status(), 1);
    assert!(only_lib.stderr_text().contains("other.hw is a baseline of none of these programs: small"));
    let ended = package.cargo("test --quiet --max-peak 1GB --verdict junit=one.xml --lib");
    assert!(ended.shell_status() == 2 && ended.stderr_text().contains("is no folder"), "{}", ended.stderr_text());
}

#[test]
fn mistakes_are_named() {
    let package = Package::new();
    let ended = package.cargo("build");
    assert_eq!(ended.shell_status(), 2);
    assert_eq!(
        ended.stderr_text(),
        "cargo highwater: there is no 'build'; run, test and bench are known: see --help\n"
    );
    assert!(package.cargo("--help").succeeded().stdout_text().contains("Usage: cargo highwater run"));
    let version = package.cargo("--version").succeeded().stdout_text();
    let highwater = package.0.highwater("--version").stdout;
    assert_eq!(version.trim_end(), format!("cargo-{}", highwater.lines().next().unwrap()));
    assert_eq!(package.cargo("bench -o one.hw").shell_status(), 2);
    let ended = package.cargo("run --quiet --bin other");
    assert_eq!(ended.shell_status(), 101);
    assert!(ended.stderr_text().contains("no bin target"), "{}", ended.stderr_text());
}
