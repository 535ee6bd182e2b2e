//! `highwater run`: runs a program whose memory can be inspected while it runs.

use crate::failure::{Failure, reason};
use crate::live::CollectorSocket;
use crate::output::{say, warn};
use crate::running::{Signals, end_like, wait_for};
use crate::size::{parse_sample, parse_sample_rate};
use crate::{preload_file, program};
use clap::Args;
use highwater_collector::{CollectorClient, CollectorError};
use highwater_session::AgentConfig;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The arguments of `highwater run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater run ./server --port 80          then: highwater snapshot --name server
  highwater run --sample 512KiB ./server    estimates, for some 4 % of time
  highwater run -- python3 app.py           '--' ends our own options

The program behaves as without us: input, output, signals, exit code. A collector is started if none listens; it holds what the program \
shares, answers 'highwater ps', 'snapshot' and 'watch', and ends after an hour without a client.")]
pub struct Run {
    /// Follow samples: one block for each BYTES allocated, on average (such as 512KiB); 'off' follows all
    #[arg(long, value_name = "BYTES|off", value_parser = parse_sample, default_value = "off")]
    sample: u64,
    /// The same as a rate: the chance of each word of 8 bytes to be a sample, as OCaml's memtrace has it (1e-4: one for each 80 KB)
    #[arg(long, value_name = "RATE", conflicts_with = "sample", value_parser = parse_sample_rate)]
    sample_rate: Option<u64>,
    /// The most blocks that are followed at a time; those beyond are counted [default: as many as there is room for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_blocks: Option<u64>,
    /// Only the program itself, not the processes it starts
    #[arg(long)]
    no_children: bool,
    /// Leave out memory that the program maps itself (mmap)
    #[arg(long)]
    no_mmap: bool,
    /// Leave out the program's arguments, and its children's: only names are kept. By default they are shown, and kept in snapshots
    #[arg(long)]
    no_args: bool,
    /// Let 'highwater snapshot --contents' read what is in the program's blocks
    #[arg(long)]
    allow_contents: bool,
    /// Say nothing but warnings
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    socket: CollectorSocket,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// How long an idle collector stays, in seconds.
const IDLE_SECONDS: &str = "3600";
/// How long a collector may take to start.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to check for it meanwhile.
const NAP: Duration = Duration::from_millis(5);

impl Run {
    /// Runs the program; exits as it does.
    pub fn run(&self) -> Result<(), Failure> {
        let program = program::find(&self.program[0])?;
        let library = preload_file::path()?;
        let socket = self.socket.path()?;
        if socket.to_str().is_none() {
            return Err(Failure::Usage(format!("{}: the socket's path must be text", socket.display())));
        }
        make_sure_of_a_collector(&socket)?;
        let orders = AgentConfig {
            socket: &socket,
            sample_bytes: self.sample_rate.unwrap_or(self.sample),
            most_blocks: self.max_blocks.unwrap_or(0),
            follow_children: !self.no_children,
            lossy: false,
            mappings: !self.no_mmap,
            live: true,
            contents: self.allow_contents,
            dormant: false,
            no_args: self.no_args,
            free_stacks: false,
        };
        let (name, value) = orders.variable();
        let signals = Signals::catch().map_err(|error| Failure::fault(reason(&error)))?;
        let mut child = program::start(&program, &self.program, &library, (name, &value))?;
        if !self.quiet {
            let (pid, socket) = (child.id(), self.socket.to_repeat());
            let name = program.path.file_name().unwrap_or_default().to_string_lossy();
            say(&format!("{name} is pid {pid}; 'highwater snapshot --pid {pid}{socket}' shows what it holds"));
        }
        let status = wait_for(&mut child, &signals).map_err(|error| Failure::fault(reason(&error)))?;
        end_like(status)
    }
}

/// Starts a collector if none listens. If a collector starts later, it finds the program.
pub(super) fn make_sure_of_a_collector(socket: &Path) -> Result<(), Failure> {
    match CollectorClient::connect(socket) {
        Ok(_) => return Ok(()),
        Err(CollectorError::Nobody(_)) => {}
        // The process that listens there is not a usable collector, and must not learn of the program.
        Err(other) => return Err(Failure::fault(other)),
    }
    if let Err(problem) = start_collector(socket) {
        warn(&format!("no collector could be started: {problem}; 'highwater collector' finds the program later"));
    }
    Ok(())
}

fn start_collector(socket: &Path) -> Result<(), String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| reason(&error))?);
    command
        .args(["collector", "--new-session", "--quiet", "--exit-when-idle", IDLE_SECONDS, "--socket"])
        .arg(socket)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // The collector must not be profiled itself, even if we are.
        .env_remove("LD_PRELOAD")
        .env_remove(highwater_session::AGENT_VARIABLE);
    let mut collector = command.spawn().map_err(|error| reason(&error))?;
    let began = Instant::now();
    loop {
        // Checked before connecting: another collector may have started first, and ours has exited for that reason.
        let ended = collector.try_wait().map_err(|error| reason(&error))?;
        match (CollectorClient::connect(socket), ended) {
            (Ok(_), _) => return Ok(()),
            (Err(error), Some(_)) => return Err(format!("it ended at once ({error})")),
            (Err(_), None) if began.elapsed() > PATIENCE => return Err("it does not answer".to_owned()),
            (Err(_), None) => std::thread::sleep(NAP),
        }
    }
}
