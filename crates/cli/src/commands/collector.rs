//! `highwater collector`: the daemon that live processes register with.

use super::attach::attach_to_children;
use crate::failure::{Failure, reason};
use crate::live::{CollectorSocket, MetricsProcess, parse_limit};
use crate::output::say;
use crate::size::parse_bytes;
use clap::Args;
use highwater_collector::{CollectorOptions, CollectorServer, default_snapshot_folder};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The arguments of `highwater collector`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater collector                   until Ctrl-C
  highwater collector --store kept      another directory for kept snapshots
  highwater collector --keep 100 --keep-bytes 1GiB
  highwater collector --metrics         for Prometheus, at 127.0.0.1:7464
  highwater collector --metrics 10.0.0.7:7464 --metrics-sites 5
  go tool pprof 'http://127.0.0.1:7464/debug/pprof/heap?pid=4711'

'highwater run' starts one by itself. A collector that is killed harms no program: all go on, and register with the next one.")]
pub struct CollectorArgs {
    /// The most snapshots that are kept; the oldest go first [default: 100]
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// The most bytes of them that are kept [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    keep_bytes: Option<u64>,
    /// The most processes that are kept after their end [default: 32]
    #[arg(long, value_name = "N")]
    keep_exited: Option<u64>,
    /// The most bytes of their tables that are kept [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    keep_exited_bytes: Option<u64>,
    /// The directory of kept snapshots [default: highwater/snapshots in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// End when no process was live for so long
    #[arg(long, value_name = "SECONDS")]
    exit_when_idle: Option<u64>,
    /// Serve metrics of all processes for Prometheus, and heap profiles for 'go tool pprof', at this address or port [default: 127.0.0.1:7464]. Every
    /// user who can reach it can read them
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = METRICS_ADDRESS, value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Blocks that are at least this old are survivors: what leaks accumulate [default: 30m]
    #[arg(long, value_name = "TIME", requires = "metrics", value_parser = parse_limit)]
    survivor_age: Option<Duration>,
    /// The shortest time between two scans that count survivors and sites [default: 5s]
    #[arg(long, value_name = "TIME", requires = "metrics", value_parser = parse_limit)]
    metrics_every: Option<Duration>,
    /// Also the live bytes of the N largest call sites of each process: N + 1 series a process, 500 a host [default: none]
    #[arg(long, value_name = "N", requires = "metrics", value_parser = clap::value_parser!(u64).range(1..=10))]
    metrics_sites: Option<u64>,
    /// The memory limit of processes whose control group has none [default: none]
    #[arg(long, value_name = "SIZE", requires = "metrics", value_parser = parse_bytes)]
    metrics_limit: Option<u64>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// Leave the terminal's session: nothing that happens there shall end us
    #[arg(long, hide = true)]
    new_session: bool,
    #[command(flatten)]
    socket: CollectorSocket,
}

/// Where metrics are served without another address.
const METRICS_ADDRESS: &str = "127.0.0.1:7464";
const SURVIVOR_AGE: Duration = Duration::from_secs(30 * 60);
const METRICS_EVERY: Duration = Duration::from_secs(5);

/// An address with a port, or a port of this machine.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let of_port = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let address = text.parse().ok().or_else(|| text.parse().ok().map(of_port));
    address.ok_or_else(|| "not an address with a port; such as 127.0.0.1:7464, [::1]:7464, 7464".to_owned())
}

impl CollectorArgs {
    /// Collects until a signal stops it.
    pub fn run(&self) -> Result<(), Failure> {
        if self.new_session {
            highwater_collector::detach();
        }
        // The collector starts no programs but the one that serves its metrics. If memory runs out, the kernel should kill it before the programs that it serves.
        highwater_session::be_ended_first();
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let server = CollectorServer::bind(self.options()?).map_err(Failure::fault)?;
        let metrics = self.metrics.map(|address| MetricsProcess::bind(address, self.metrics_arguments(&server)));
        let metrics = metrics.transpose()?;
        let log = |line: &str| {
            if !self.quiet {
                say(line);
            }
        };
        log(&format!("collector listens at {}; Ctrl-C ends it", server.socket().display()));
        std::thread::scope(|scope| {
            if let Some(metrics) = &metrics {
                log(&format!("metrics are served at http://{}/metrics", metrics.address()));
                scope.spawn(|| metrics.keep_running(&stop, &log));
            }
            scope.spawn(|| attach_to_children(&server, &stop, &log));
            server.serve(&stop, &log);
            // The collector may also have ended because it was idle.
            stop.store(true, Ordering::Relaxed);
        });
        Ok(())
    }

    /// The arguments of the process that serves metrics.
    fn metrics_arguments(&self, server: &CollectorServer) -> Vec<OsString> {
        let time = |time: Duration| OsString::from(format!("{}ns", time.as_nanos()));
        let mut arguments: Vec<OsString> = vec![
            "--survivor-age".into(),
            time(self.survivor_age.unwrap_or(SURVIVOR_AGE)),
            "--every".into(),
            time(self.metrics_every.unwrap_or(METRICS_EVERY)),
            "--sites".into(),
            self.metrics_sites.unwrap_or(0).to_string().into(),
            "--socket".into(),
            server.socket().into(),
        ];
        if let Some(limit) = self.metrics_limit {
            arguments.extend(["--limit".into(), limit.to_string().into()]);
        }
        arguments
    }

    fn options(&self) -> Result<CollectorOptions, Failure> {
        let socket = self.socket.path()?;
        let snapshot_folder = self.store.clone().map_or_else(default_snapshot_folder, Ok);
        // System services have no home directory; the directory of the socket is theirs too.
        let snapshot_folder = snapshot_folder.unwrap_or_else(|_| socket.with_added_extension("snapshots"));
        let mut options = CollectorOptions::new(socket, snapshot_folder);
        let replace = |place: &mut u64, wanted: Option<u64>| *place = wanted.unwrap_or(*place);
        replace(&mut options.kept_snapshots.count, self.keep);
        replace(&mut options.kept_snapshots.bytes, self.keep_bytes);
        replace(&mut options.kept_tables.count, self.keep_exited);
        replace(&mut options.kept_tables.bytes, self.keep_exited_bytes);
        options.exit_when_idle = self.exit_when_idle.map(Duration::from_secs);
        Ok(options)
    }
}
