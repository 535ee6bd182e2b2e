//! An installed `highwater` finds its script program, and builds it with one command. A shell script stands for cargo: a real build takes a minute.

mod folder;

use folder::{Folder, MOVM, highwater};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// An installed command in a folder of its own, with an own cache and an own cargo.
struct Installed(Folder);

impl Installed {
    fn new() -> Self {
        let folder = Folder::with_all(&[("ledger-1.img", "a.img")]);
        std::fs::create_dir(folder.0.join("bin")).unwrap();
        // Another process copies: a file that is open for writing here could not be executed.
        let to = folder.0.join("bin/highwater");
        assert!(Command::new("cp").arg(highwater()).arg(&to).status().unwrap().success());
        Self(folder)
    }

    /// A cargo that says what it was called with, copies the program, and ends with a code.
    fn with_cargo(self, code: i32) -> Self {
        let tools = self.0.0.join("tools");
        std::fs::create_dir(&tools).unwrap();
        let script = format!(
            "#!/bin/sh\necho \"   Compiling $*\" >&2\nmkdir -p cache/highwater/movm-{version}/bin\n\
             [ {code} = 0 ] && cp {MOVM} cache/highwater/movm-{version}/bin/highwater-movm\nexit {code}\n",
            version = env!("CARGO_PKG_VERSION")
        );
        self.program(&tools.join("cargo"), &script);
        self
    }

    fn program(&self, path: &Path, script: &str) {
        std::fs::write(path, script).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn eval(&self, arguments: &[&str]) -> (i32, String, String) {
        let folder = &self.0.0;
        let mut command = Command::new(folder.join("bin/highwater"));
        command.current_dir(folder).env_remove("HIGHWATER_MOVM").env("XDG_CACHE_HOME", folder.join("cache"));
        command.env("PATH", format!("{}:/usr/bin:/bin", folder.join("tools").display()));
        let output = command.args(["image", "eval"]).args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

const SIZE: [&str; 3] = ["image.size()", "-f", "a.img"];

fn checkout() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap().display().to_string()
}

#[test]
fn one_command_installs_the_program_in_the_cache() {
    let installed = Installed::new().with_cargo(0);
    let (code, _, said) = installed.eval(&SIZE);
    assert_eq!((code, said.lines().count()), (1, 1), "{said}");
    assert!(said.contains("is not installed") && said.contains("highwater image eval --install"), "{said}");
    let (code, printed, said) = installed.eval(&["--install", "--from", &checkout()]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("building highwater-movm") && said.contains("Compiling install --locked"), "{said}");
    assert!(said.contains(&format!("--path {}/crates/movm", checkout())), "{said}");
    assert!(printed.contains("runs scripts now"), "{printed}");
    assert_eq!(installed.eval(&SIZE), (0, "5439488\n".into(), String::new()));
}

#[test]
fn the_program_beside_the_command_is_found() {
    let installed = Installed::new();
    assert!(Command::new("cp").arg(MOVM).arg(installed.0.0.join("bin/")).status().unwrap().success());
    assert_eq!(installed.eval(&SIZE), (0, "5439488\n".into(), String::new()));
}

#[test]
fn a_program_of_another_version_is_named() {
    let installed = Installed::new().with_cargo(0);
    installed.program(&installed.0.0.join("bin/highwater-movm"), "#!/bin/sh\necho highwater-movm 0.0.7\n");
    let (code, _, said) = installed.eval(&SIZE);
    assert_eq!((code, said.lines().count()), (1, 1), "{said}");
    assert!(said.contains("is version 0.0.7, and highwater is") && said.contains("--install"), "{said}");
    // The one in the cache is of the right version, and is taken.
    assert_eq!(installed.eval(&["--install", "--from", &checkout()]).0, 0);
    assert_eq!(installed.eval(&SIZE), (0, "5439488\n".into(), String::new()));
    installed.program(&installed.0.0.join("bin/highwater-movm"), "#!/bin/sh\necho usage >&2; exit 2\n");
    assert_eq!(installed.eval(&SIZE).0, 0);
}

#[test]
fn what_cannot_be_built_is_one_line() {
    let installed = Installed::new().with_cargo(101);
    let (code, _, said) = installed.eval(&["--install", "--from", &checkout()]);
    assert!(code == 1 && said.ends_with("cargo could not build it; its messages are above\n"), "{said}");
    let (code, _, said) = installed.eval(&["--install", "--from", "bin"]);
    assert_eq!(
        (code, said.as_str()),
        (1, "highwater: bin: is no checkout of Highwater: it has no crates/movm/Cargo.toml\n")
    );
    std::fs::remove_dir_all(installed.0.0.join("tools")).unwrap();
    if !Path::new("/usr/bin/cargo").exists() && !Path::new("/bin/cargo").exists() {
        let (code, _, said) = installed.eval(&["--install", "--from", &checkout()]);
        assert!(code == 1 && said.contains("cargo is not installed") && said.contains("rustup"), "{said}");
    }
}

#[test]
fn both_programs_have_one_version() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml")).unwrap();
    assert!(text.contains(&format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))));
}
