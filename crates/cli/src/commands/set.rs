//! `highwater set`: changes the sampling rate of a live process.

use super::ps::mode;
use crate::failure::Failure;
use crate::live::{Asking, ProcessChoice};
use crate::output::Output;
use crate::size::parse_sample;
use clap::Args;

/// The arguments of `highwater set`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater set --pid 4711 --sample 512KiB   from now on only some blocks
  highwater set --name server --sample off   every block again

Blocks that are live already stay as they were taken down. Where some were left out, figures are estimates until those are freed.")]
pub struct Set {
    #[command(flatten)]
    choice: ProcessChoice,
    /// Follow samples: one block for each BYTES allocated, on average (such as 512KiB); 'off' follows all
    #[arg(long, value_name = "BYTES|off", value_parser = parse_sample)]
    sample: u64,
    #[command(flatten)]
    collector: Asking,
}

impl Set {
    /// Sets the rate, and prints the old and the new one.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut client = self.collector.connect()?;
        let processes = client.processes_among(&self.choice.which()).map_err(Failure::fault)?;
        let process = self.choice.of(&processes)?;
        let (before, applied) = client.set_sample(process.pid, self.sample).map_err(Failure::fault)?;
        let (name, pid) = (&process.name, process.pid);
        let (before, now) = (mode(before), mode(self.sample));
        output.text(&if applied {
            format!("{name} (pid {pid}): was {before}, now {now}\n")
        } else {
            format!("{name} (pid {pid}): was {before}, will be {now} as soon as the program allocates again\n")
        })
    }
}
