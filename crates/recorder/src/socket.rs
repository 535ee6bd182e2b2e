//! Where the collector of a user listens.

use std::path::PathBuf;

/// Names another place.
pub const SOCKET_VARIABLE: &str = "HIGHWATER_SOCKET";

/// The path of the collector's socket: what `HIGHWATER_SOCKET` says, else in the user's runtime directory, else in a directory of
/// the user's own among the temporary files.
pub fn default_socket() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable(SOCKET_VARIABLE).unwrap_or_else(|| {
        let runtime = variable("XDG_RUNTIME_DIR").filter(|path| path.is_dir());
        let directory =
            runtime.unwrap_or_else(|| PathBuf::from(format!("/tmp/highwater-{}", rustix::process::geteuid().as_raw())));
        directory.join("highwater.sock")
    })
}
