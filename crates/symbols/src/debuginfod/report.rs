//! Reports of what is downloaded: it takes time, and a user wants to know from where.

use std::path::Path;
use std::sync::OnceLock;

/// What a client of debuginfod does.
#[derive(Debug)]
pub enum DebuginfodEvent<'a> {
    /// A server has a file, which is now downloaded.
    Begins {
        /// The server's URL.
        server: &'a str,
        /// The path of the module that the file belongs to.
        module: &'a Path,
        /// The size of the file, if the server says it.
        total: Option<u64>,
    },
    /// The download takes long.
    Continues {
        /// The server's URL.
        server: &'a str,
        /// The path of the module that the file belongs to.
        module: &'a Path,
        /// The bytes so far.
        bytes: u64,
        /// The size of the file, if the server says it.
        total: Option<u64>,
    },
    /// The file is there.
    Ends {
        /// The server's URL.
        server: &'a str,
        /// The path of the module that the file belongs to.
        module: &'a Path,
        /// Its size.
        bytes: u64,
    },
    /// A server gives no usable answer.
    Failed {
        /// The server's URL.
        server: &'a str,
        /// The path of the module that was asked for.
        module: &'a Path,
        /// One line for the user.
        reason: &'a str,
    },
}

static REPORT: OnceLock<fn(&DebuginfodEvent<'_>)> = OnceLock::new();

/// Sets the function that is called with every event, from any thread; one for each process, as for panics. The first call decides.
pub fn report_debuginfod_events(report: fn(&DebuginfodEvent<'_>)) {
    // A later function is ignored.
    let _ = REPORT.set(report);
}

pub(super) fn report(event: &DebuginfodEvent<'_>) {
    if let Some(report) = REPORT.get() {
        report(event);
    }
}
