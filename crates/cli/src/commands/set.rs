//! `highwater set`: changes the sampling rate of a live process.

use super::ps::mode;
use crate::failure::Failure;
use crate::live::{Asking, ProcessChoice};
use crate::output::Output;
use crate::size::{parse_sample, parse_sample_rate};
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
    #[arg(long, value_name = "BYTES|off", value_parser = parse_sample, required_unless_present = "sample_rate")]
    sample: Option<u64>,
    /// The same as a rate: the chance of each word of 8 bytes to be a sample, as OCaml's memtrace has it (1e-4: one for each 80 KB)
    #[arg(long, value_name = "RATE", conflicts_with = "sample", value_parser = parse_sample_rate)]
    sample_rate: Option<u64>,
    #[command(flatten)]
    collector: Asking,
}

impl Set {
    /// Sets the rate, and prints the old and the new one.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut client = self.collector.connect()?;
        let processes = client.processes_among(&self.choice.which()).map_err(Failure::fault)?;
        let process = self.choice.of(&processes)?;
        let sample = self.sample.or(self.sample_rate).unwrap_or(0);
        let (before, applied) = client.set_sample(process.pid, sample).map_err(Failure::fault)?;
        let (name, pid) = (&process.name, process.pid);
        let (before, now) = (mode(before), mode(sample));
        output.text(&if applied {
            format!("{name} (pid {pid}): was {before}, now {now}\n")
        } else {
            format!("{name} (pid {pid}): was {before}, will be {now} as soon as the program allocates again\n")
        })
    }
}
