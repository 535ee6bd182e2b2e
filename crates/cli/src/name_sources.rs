//! Where names of functions come from: the options that several commands share, and the reports of downloads.

use crate::output::{erase_status_line, say, warn};
use crate::print::bytes::bytes;
use clap::Args;
use highwater_symbols::debuginfod::{DebuginfodEvent, ServerUrl};
use highwater_symbols::{DebuginfodServers, Symbolizer};

/// Which servers are asked for debug files.
#[derive(Debug, Args)]
pub struct NameSources {
    /// Ask this debuginfod server for debug files that are not on this machine; may be given several times [default: the servers in
    /// $DEBUGINFOD_URLS; without them, no server is asked]
    #[arg(long, value_name = "URL")]
    debuginfod: Vec<ServerUrl>,
    /// Ask no server, even if $DEBUGINFOD_URLS names some
    #[arg(long, conflicts_with = "debuginfod")]
    no_debuginfod: bool,
}

impl NameSources {
    /// The servers that may be asked.
    pub fn servers(&self) -> DebuginfodServers {
        match self.debuginfod.as_slice() {
            _ if self.no_debuginfod => DebuginfodServers::Never,
            [] => DebuginfodServers::FromEnvironment,
            servers => DebuginfodServers::These(servers.to_vec()),
        }
    }

    /// Finds names with the user's cache and these servers.
    pub fn symbolizer(&self) -> Symbolizer {
        Symbolizer::for_user(&self.servers())
    }
}

/// Shows what is downloaded, on standard error.
pub fn show_download(event: &DebuginfodEvent<'_>) {
    // There may be a status line.
    erase_status_line();
    match event {
        DebuginfodEvent::Begins { server, module, total } => {
            let size = total.map_or_else(|| "unknown size".to_owned(), bytes);
            say(&format!("downloading debug information of {} from {server}: {size}", module.display()));
        }
        DebuginfodEvent::Continues { server, module, bytes: so_far, total } => {
            let total = total.map(|total| format!(" of {}", bytes(total))).unwrap_or_default();
            say(&format!("{} from {server}: {}{total}", module.display(), bytes(*so_far)));
        }
        DebuginfodEvent::Ends { server, module, bytes: size } => {
            say(&format!("{} from {server}: {} downloaded", module.display(), bytes(*size)));
        }
        DebuginfodEvent::Failed { server, module, reason } => {
            warn(&format!("no debug information of {} from {server}: {reason}", module.display()));
        }
    }
}
