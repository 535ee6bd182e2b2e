//! Programs that are linked with the C library, which the command installs.

use super::{HIGHWATER, programs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// How a program is linked with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// A dynamic program with `libhighwater.so`.
    Shared,
    /// A dynamic program with `libhighwater.a`.
    Archive,
    /// A statically linked program.
    Static,
}

impl Linked {
    pub const ALL: [Self; 3] = [Self::Shared, Self::Archive, Self::Static];

    /// The compiler's flags.
    pub fn flags(self) -> Vec<String> {
        let lib = prefix().join("lib");
        let mut flags = pkg_config(&["--cflags"]);
        match self {
            Self::Shared => {
                flags.extend(pkg_config(&["--libs"]));
                flags.push(format!("-Wl,-rpath,{}", lib.display()));
            }
            Self::Archive => flags.push(lib.join("libhighwater.a").display().to_string()),
            Self::Static => {
                flags.push("-static".to_owned());
                flags.extend(pkg_config(&["--static", "--libs"]));
            }
        }
        flags
    }

    /// A C program of `tests/programs`.
    pub fn c(self, name: &str) -> PathBuf {
        let flags = self.flags();
        programs::c_as(name, &format!("{name}-{self:?}"), &flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A C++ program of `tests/programs`.
    pub fn cpp(self, name: &str) -> PathBuf {
        let flags = self.flags();
        programs::cpp_as(name, &format!("{name}-cpp-{self:?}"), &flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// An example of the library, built as its first lines say.
    pub fn example(self, file: &str, folder: &Path) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clib/examples").join(file);
        let (name, ending) = file.split_once('.').unwrap();
        let output = folder.join(name);
        let compiler = if ending == "c" { "cc" } else { "c++" };
        let built = Command::new(compiler).arg("-g").arg(source).args(self.flags()).arg("-o").arg(&output).output();
        let built = built.unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(built.status.success(), "{file}: {}", String::from_utf8_lossy(&built.stderr));
        output
    }
}

/// The folder that the library is installed in: another one for each build of the command, so that programs are linked again.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let built = std::fs::metadata(HIGHWATER).unwrap().modified().unwrap();
        let built = built.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("c-library-{built}"));
        let installed = Command::new(HIGHWATER).args(["c-library", "--prefix"]).arg(&prefix).output().unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        prefix
    })
}

fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("highwater").env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    let output = command.output().unwrap_or_else(|error| panic!("pkg-config: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}
