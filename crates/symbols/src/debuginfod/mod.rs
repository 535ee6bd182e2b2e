//! Debug files from servers: a client of `debuginfod`.
//!
//! Distributions run servers that have the debug files of all their packages, by build id. The variable `DEBUGINFOD_URLS` lists the servers that a
//! user trusts. No server is ever contacted unless that variable or the caller names it.
//!
//! ```text
//!   build id ──▶ folder of downloads ─┬─▶ file
//!                                     ├─▶ a server said "not found" less than 10 minutes ago
//!                                     └─▶ each server: GET /buildid/BUILDID/debuginfo ──▶ has it this build id? ──▶ folder of downloads
//! ```
//!
//! The folder of downloads is the one of elfutils, gdb and perf: each uses what another has downloaded.
//!
//! Responses are hostile: heads, redirects and bodies are bounded, a file is used only if it has the right build id, and all requests of a run
//! together have a time limit. A server that fails is not asked again in that run, so a dead server costs one timeout.

mod download_cache;
mod limits;
mod report;

pub use highwater_http::client::{ServerUrl, UrlError};
pub use report::{DebuginfodEvent, report_debuginfod_events};

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::elf::ElfImage;
use download_cache::{CacheEntry, DownloadCache};
use highwater_http::client::response::{Response, ResponseError, read_response};
use highwater_http::client::{Connection, OutgoingRequest, Pace, listed};
use limits::DownloadLimits;

/// Which servers are asked for debug files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DebuginfodServers {
    /// Those in the variable `DEBUGINFOD_URLS`; none without it.
    #[default]
    FromEnvironment,
    /// These.
    These(Vec<ServerUrl>),
    /// None.
    Never,
}

/// The kind of file that a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// A file with debug information.
    Debuginfo,
    /// The program itself.
    Executable,
}

impl Artifact {
    /// Its name in URLs, and in the folder of downloads.
    fn name(self) -> &'static str {
        match self {
            Self::Debuginfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

const MOST_REDIRECTS: usize = 4;
/// The time between two reports of a download.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// A client, with the state of its servers.
pub(crate) struct Debuginfod {
    servers: Vec<Server>,
    cache: DownloadCache,
    limits: DownloadLimits,
    /// When the time for all requests is over; known at the first one.
    run_ends: Option<Instant>,
}

struct Server {
    url: ServerUrl,
    /// It did not answer as a server should, and is not asked again.
    has_failed: bool,
}

/// Why a server's answer cannot be used.
#[derive(Debug, thiserror::Error)]
enum DownloadError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Response(#[from] ResponseError),
    #[error("it redirects more than {MOST_REDIRECTS} times")]
    Redirects,
    #[error("it redirects to {0:?}, which is not an address that can be used")]
    Redirect(String),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("the file has more than {0} bytes")]
    TooLarge(u64),
    #[error("it sends a file of another build")]
    OtherBuild,
    #[error("the file cannot be kept: {0}")]
    Unkept(io::Error),
}

impl DownloadError {
    /// Whether the server may still have other files.
    fn is_about_one_file(&self) -> bool {
        matches!(self, Self::Status(_) | Self::TooLarge(_))
    }
}

impl Debuginfod {
    /// `None` if no server is to be asked, or there is no folder for downloads.
    pub(crate) fn new(servers: &DebuginfodServers) -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let urls = match servers {
            DebuginfodServers::Never => return None,
            DebuginfodServers::These(urls) => urls.clone(),
            DebuginfodServers::FromEnvironment => listed(&variable("DEBUGINFOD_URLS")?),
        };
        if urls.is_empty() {
            return None;
        }
        let servers = urls.into_iter().map(|url| Server { url, has_failed: false }).collect();
        let limits = DownloadLimits::from_variables(variable);
        Some(Self { servers, cache: DownloadCache::of_user()?, limits, run_ends: None })
    }

    /// A file with this build id: from the folder of downloads, or from the first server that has it.
    pub(crate) fn find(&mut self, build_id: &str, artifact: Artifact, module: &Path) -> Option<ElfImage> {
        // The build id comes from a recording, and becomes a part of a path and of a URL.
        let is_plain = (8..=128).contains(&build_id.len()) && build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_plain {
            return None;
        }
        match self.cache.look_up(build_id, artifact) {
            CacheEntry::Absent => return None,
            CacheEntry::File(path) => {
                // A damaged file is replaced.
                if let Some(image) = of_build(&path, build_id) {
                    return Some(image);
                }
            }
            CacheEntry::Unknown => {}
        }
        let mut is_absent = true;
        for number in 0..self.servers.len() {
            match self.ask(number, build_id, artifact, module) {
                Ok(Some(image)) => return Some(image),
                Ok(None) => {}
                Err(NoAnswer) => is_absent = false,
            }
        }
        if is_absent {
            self.cache.keep_absence(build_id, artifact);
        }
        None
    }

    /// The file, or `None` if the server does not have it.
    fn ask(
        &mut self,
        number: usize,
        build_id: &str,
        artifact: Artifact,
        module: &Path,
    ) -> Result<Option<ElfImage>, NoAnswer> {
        let run_ends = *self.run_ends.get_or_insert_with(|| Instant::now() + self.limits.run);
        let server = &mut self.servers[number];
        if server.has_failed || Instant::now() >= run_ends {
            return Err(NoAnswer);
        }
        let about = Asked { server: &server.url, build_id, artifact, module };
        let pace = limits::pace(self.limits.stall, run_ends);
        download(&about, &self.cache, &self.limits, pace).map_err(|error| {
            let reason = error.to_string();
            report::report(&DebuginfodEvent::Failed { server: server.url.as_str(), module, reason: &reason });
            server.has_failed = !error.is_about_one_file();
            NoAnswer
        })
    }
}

/// A server gives no usable answer, now or earlier in this run.
struct NoAnswer;

/// A request to one server.
struct Asked<'a> {
    server: &'a ServerUrl,
    build_id: &'a str,
    artifact: Artifact,
    module: &'a Path,
}

fn download(
    asked: &Asked<'_>,
    cache: &DownloadCache,
    limits: &DownloadLimits,
    mut pace: Pace,
) -> Result<Option<ElfImage>, DownloadError> {
    let mut url = asked.server.below(&format!("buildid/{}/{}", asked.build_id, asked.artifact.name()));
    for _ in 0..=MOST_REDIRECTS {
        let response = read_response(Connection::open(&url, &OutgoingRequest::default(), &mut pace)?)?;
        match (response.status, &response.location) {
            (200, _) => return keep(asked, cache, limits, response),
            (404, _) => return Ok(None),
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                url = url.redirected(location).ok_or_else(|| DownloadError::Redirect(location.clone()))?;
            }
            (status, _) => return Err(DownloadError::Status(status)),
        }
    }
    Err(DownloadError::Redirects)
}

/// Writes the body of a response to the folder of downloads, if it is the file that was asked for.
fn keep(
    asked: &Asked<'_>,
    cache: &DownloadCache,
    limits: &DownloadLimits,
    mut response: Response<Connection<'_>>,
) -> Result<Option<ElfImage>, DownloadError> {
    if response.length.is_some_and(|length| length > limits.largest_file) {
        return Err(DownloadError::TooLarge(limits.largest_file));
    }
    let unfinished = cache.begin(asked.build_id, asked.artifact).map_err(DownloadError::Unkept)?;
    copy(asked, limits, &mut response, unfinished.file())?;
    of_build(unfinished.path(), asked.build_id).ok_or(DownloadError::OtherBuild)?;
    let path = unfinished.finish().map_err(DownloadError::Unkept)?;
    of_build(&path, asked.build_id).map(Some).ok_or(DownloadError::OtherBuild)
}

fn copy(
    asked: &Asked<'_>,
    limits: &DownloadLimits,
    response: &mut Response<Connection<'_>>,
    mut file: &File,
) -> Result<(), DownloadError> {
    let (server, module, total) = (asked.server.as_str(), asked.module, response.length);
    report::report(&DebuginfodEvent::Begins { server, module, total });
    let mut bytes = 0u64;
    let mut reported = Instant::now();
    let mut piece = vec![0; 1 << 16];
    loop {
        let count = match response.body.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        bytes += count as u64;
        if bytes > limits.largest_file {
            return Err(DownloadError::TooLarge(limits.largest_file));
        }
        file.write_all(&piece[..count]).map_err(DownloadError::Unkept)?;
        if reported.elapsed() >= REPORT_EVERY {
            report::report(&DebuginfodEvent::Continues { server, module, bytes, total });
            reported = Instant::now();
        }
    }
    report::report(&DebuginfodEvent::Ends { server, module, bytes });
    Ok(())
}

fn of_build(path: &Path, build_id: &str) -> Option<ElfImage> {
    ElfImage::open(path).ok().filter(|image| image.build_id() == Some(build_id))
}
