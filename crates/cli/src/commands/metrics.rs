//! `highwater metrics`: serves the metrics of a collector, which starts it with a listener as its standard input.

use crate::failure::{Failure, reason};
use crate::live::{CollectorMetrics, CollectorSocket, parse_limit};
use clap::Args;
use highwater_metrics::{MetricsEndpoint, MetricsOptions};
use highwater_session::be_ended_first;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::SIGINT;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The arguments of `highwater metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// The collector that starts it
    #[arg(long, value_name = "N")]
    collector_pid: i32,
    /// Blocks of this age are survivors
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    survivor_age: Duration,
    /// The shortest time between two scans
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    every: Duration,
    /// Sites of each process
    #[arg(long, value_name = "N")]
    sites: usize,
    /// The memory limit of processes that have none
    #[arg(long, value_name = "BYTES")]
    limit: Option<u64>,
    #[command(flatten)]
    socket: CollectorSocket,
}

impl MetricsArgs {
    /// Serves until the collector ends.
    pub fn run(&self) -> Result<(), Failure> {
        let fault = |error: std::io::Error| Failure::fault(format_args!("metrics: {}", reason(&error)));
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| fault(error.into()))?;
        if getppid() != Pid::from_raw(self.collector_pid) {
            // The collector ended before the line above.
            return Ok(());
        }
        be_ended_first();
        // Ctrl-C is for the collector, which then ends this process.
        signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false))).map_err(fault)?;
        let listener = TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(fault)?);
        let source = Box::new(CollectorMetrics::new(self.socket.path()?));
        let options = MetricsOptions {
            survivor_age: self.survivor_age,
            scan_every: self.every,
            sites: self.sites,
            limit: self.limit,
        };
        MetricsEndpoint::serve(listener, source, options).map_err(fault)
    }
}
