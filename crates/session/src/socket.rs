//! The socket path of a user's collector.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variable that names another path.
pub const SOCKET_VARIABLE: &str = "HIGHWATER_SOCKET";

/// The path of the collector's socket: the value of `HIGHWATER_SOCKET`, else in the user's runtime directory, else in a directory of
/// the user's own among the temporary files.
pub fn default_socket() -> PathBuf {
    socket_by(|name| std::env::var_os(name))
}

/// The same, with `variable` as the environment: a program that may not trust its own environment returns `None` for everything.
pub fn socket_by(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path(SOCKET_VARIABLE).unwrap_or_else(|| {
        let runtime = path("XDG_RUNTIME_DIR").filter(|path| path.is_dir());
        let directory =
            runtime.unwrap_or_else(|| PathBuf::from(format!("/tmp/highwater-{}", rustix::process::geteuid().as_raw())));
        directory.join("highwater.sock")
    })
}
