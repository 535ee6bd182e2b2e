//! The process that serves a collector's metrics: started by the collector, started again if it ends, and ended with it.

use crate::failure::{Failure, reason};
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long to wait before the process is started again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it is checked whether the process still runs.
const LOOK: Duration = Duration::from_millis(250);

/// The process that serves metrics.
pub struct MetricsProcess {
    listener: OwnedFd,
    address: SocketAddr,
    arguments: Vec<OsString>,
}

impl MetricsProcess {
    /// Begins to listen. The arguments are those of `highwater metrics`.
    pub fn bind(address: SocketAddr, arguments: Vec<OsString>) -> Result<Self, Failure> {
        let cannot = |error| Failure::fault(format_args!("no metrics at {address}: {}", reason(&error)));
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        Ok(Self { listener: listener.into(), address, arguments })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs the process until `stop` is set.
    pub fn keep_running(&self, stop: &AtomicBool, log: &(dyn Fn(&str) + Sync)) {
        while !stop.load(Ordering::Relaxed) {
            match self.start() {
                Ok(child) => wait(child, stop, log),
                Err(error) => log(&format!("metrics cannot be served: {}", reason(&error))),
            }
            if !stop.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("metrics")
            .args(&self.arguments)
            .args(["--collector-pid", &std::process::id().to_string()])
            .stdin(Stdio::from(self.listener.try_clone()?))
            .stdout(Stdio::null())
            .env_remove("LD_PRELOAD")
            .env_remove(highwater_session::AGENT_VARIABLE);
        command.spawn()
    }
}

fn wait(mut child: Child, stop: &AtomicBool, log: &(dyn Fn(&str) + Sync)) {
    loop {
        match child.try_wait() {
            Ok(None) if stop.load(Ordering::Relaxed) => {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some(status)) => {
                if !stop.load(Ordering::Relaxed) {
                    log(&format!("the process that serves metrics has ended ({status}); starting it again"));
                }
                return;
            }
            Err(_) => return,
        }
    }
}
