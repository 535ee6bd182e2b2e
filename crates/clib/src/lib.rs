//! The C library of Highwater, for programs that no library can be loaded into: `highwater.h`, `libhighwater.a`, `libhighwater.so` and a file for
//! pkg-config. They are embedded here, so that `highwater c-library` installs them without a compiler for Rust.
//!
//! The code is that of the preload library (`crates/preload`), whose documentation has the design. `docs/c-library.md` is the user's page.
#![deny(unsafe_code)]

use highwater_packed::Packed;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The header.
pub const HEADER: &str = include_str!("../include/highwater.h");
static ARCHIVE: Packed = Packed::new(include_bytes!(concat!(env!("HIGHWATER_C_LIBRARIES"), "/libhighwater.a.packed")));
static SHARED: Packed = Packed::new(include_bytes!(concat!(env!("HIGHWATER_C_LIBRARIES"), "/libhighwater.so.packed")));
const SONAME: &str = env!("HIGHWATER_SONAME");
const PKG_CONFIG: &str = include_str!("../highwater.pc.in");

/// Functions whose calls the linker leads to the library in a statically linked program.
const WRAPPED: [&str; 10] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
];

/// The linker's options for a statically linked program. The compiler leaves the index of the unwind tables out of such a program by default; without
/// it there are no call stacks.
fn static_flags() -> String {
    let wrapped: Vec<String> = WRAPPED.iter().map(|name| format!("-Wl,--wrap={name}")).collect();
    format!("-Wl,--eh-frame-hdr {}", wrapped.join(" "))
}

/// The file for pkg-config, of a library that is installed under `prefix`.
fn pkg_config(prefix: &str) -> String {
    PKG_CONFIG
        .replace("@PREFIX@", prefix)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@STATIC_FLAGS@", &static_flags())
}

/// A problem with a file that is installed.
#[derive(Debug)]
pub struct InstallError {
    /// The file or the folder.
    pub path: PathBuf,
    /// What the system says.
    pub error: io::Error,
}

/// Installs all files for a prefix. They are put below `root`, if there is one, as packagers want it (`DESTDIR`). Files of these names are replaced.
/// Returns their paths.
///
/// # Errors
/// If a file cannot be written, or the prefix is not text without blanks, which pkg-config could not pass on.
pub fn install(prefix: &Path, root: Option<&Path>) -> Result<Vec<PathBuf>, InstallError> {
    let refused = |why: &str| InstallError { path: prefix.to_owned(), error: io::Error::other(why) };
    let text = prefix
        .to_str()
        .filter(|text| !text.contains(char::is_whitespace) && !text.contains(['"', '\'', '\\', '$', '#']));
    let text = text.ok_or_else(|| refused("the path has characters that pkg-config cannot pass on"))?;
    if !prefix.is_absolute() {
        return Err(refused("the prefix must be an absolute path"));
    }
    let base = match root {
        Some(root) => root.join(prefix.strip_prefix("/").unwrap_or(prefix)),
        None => prefix.to_owned(),
    };
    let lib = base.join("lib");
    let description = pkg_config(text.trim_end_matches('/'));
    let files: [(PathBuf, &[u8], u32); 4] = [
        (base.join("include/highwater.h"), HEADER.as_bytes(), 0o644),
        (lib.join("libhighwater.a"), ARCHIVE.content(), 0o644),
        (lib.join(SONAME), SHARED.content(), 0o755),
        (lib.join("pkgconfig/highwater.pc"), description.as_bytes(), 0o644),
    ];
    for (path, content, mode) in &files {
        put(path, |unfinished| {
            fs::write(unfinished, content)?;
            fs::set_permissions(unfinished, fs::Permissions::from_mode(*mode))
        })?;
    }
    let link = lib.join("libhighwater.so");
    put(&link, |unfinished| symlink(SONAME, unfinished))?;
    let mut installed: Vec<PathBuf> = files.into_iter().map(|(path, _, _)| path).collect();
    installed.push(link);
    Ok(installed)
}

/// Makes a file beside the wanted one, and renames it: a program that uses the old one keeps it.
fn put(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), InstallError> {
    let failed = |path: &Path, error| InstallError { path: path.to_owned(), error };
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let unfinished = path.with_added_extension(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&unfinished);
    make(&unfinished).and_then(|()| fs::rename(&unfinished, path)).map_err(|error| {
        let _ = fs::remove_file(&unfinished);
        failed(path, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_pkg_config_cannot_pass_on_is_refused() {
        for prefix in ["relative", "/with a blank", "/with$dollar"] {
            let refused = install(Path::new(prefix), None).expect_err(prefix);
            assert_eq!(refused.path, Path::new(prefix));
        }
    }

    #[test]
    fn the_description_names_every_option() {
        let text = pkg_config("/opt/hw");
        assert!(text.starts_with("prefix=/opt/hw\n") && !text.contains('@'), "{text}");
        assert_eq!(text.matches("--wrap=").count(), WRAPPED.len());
    }
}
