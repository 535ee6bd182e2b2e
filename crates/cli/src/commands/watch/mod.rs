//! `highwater watch`: repeated snapshots of a live process.
//!
//! * [`looks`] takes the snapshots, [`changes`] compares their rows. All output is made of these two.
//! * [`screen`] is the full-screen view of a terminal; [`plain`] prints lines, [`document`] prints JSON.

mod changes;
mod document;
mod looks;
mod plain;
mod screen;

use crate::args::Grouping;
use crate::failure::{Failure, reason};
use crate::live::{Asking, ProcessChoice};
use crate::name_sources::NameSources;
use crate::naming::NameArgs;
use crate::output::Output;
use changes::WatchOrder;
use clap::Args;
use highwater_model::parse_duration;
use looks::Looker;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The arguments of `highwater watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater watch --name server                    full screen, once a second
  highwater watch --pid 4711 --sort growth         what grew most comes first
  highwater watch --pid 4711 --by thread --interval 5
  highwater watch --pid 4711 --count 60 > log.txt  one table after the other

On a terminal it fills the screen, and '?' lists the keys: sort, filter, group, the
stack of a row, growth from now on, pause. Growth is shown since watching began, and
since the last look.")]
pub struct Watch {
    #[command(flatten)]
    choice: ProcessChoice,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,
    /// How many looks [default: until the process ends, or Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// How many rows; 0 for all [default: 10]. The full screen has all of them
    #[arg(long, value_name = "N", default_value_t = 10, hide_default_value = true)]
    top: usize,
    #[command(flatten)]
    grouping: Grouping,
    /// Which rows come first
    #[arg(long, value_enum, default_value_t, value_name = "FIGURE")]
    sort: WatchOrder,
    #[command(flatten)]
    names: NameArgs,
    /// Print one table after the other, on a terminal too
    #[arg(long)]
    plain: bool,
    /// Print one JSON document ("schema": 2) a line, one for each look, instead of text
    #[arg(long, conflicts_with = "plain")]
    json: bool,
    #[command(flatten)]
    sources: NameSources,
    #[command(flatten)]
    collector: Asking,
}

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const LONGEST_INTERVAL: Duration = Duration::from_secs(86_400);

/// Seconds, or a time with its unit.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let interval = seconds.or_else(|| parse_duration(text).map(|time| Duration::from_nanos(time.0)));
    let sensible = |interval: &Duration| (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(interval);
    interval.filter(sensible).ok_or_else(|| "not a time; such as 1, 0.5, 500ms, 2m".to_owned())
}

impl Watch {
    /// Takes snapshots until the count is reached, the process ends, or the user ends it.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut client = self.collector.connect()?;
        let processes = client.processes_among(&self.choice.which()).map_err(Failure::fault)?;
        let process = self.choice.of(&processes)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| Failure::fault(reason(&error)))?;
        }
        let looker = Looker::new(client, process.pid, self.names.clone(), self.sources.symbolizer());
        match !self.json && !self.plain && screen::is_possible() {
            true => self.fill_the_screen(process, looker, &stop, output),
            false => self.print(process, looker, &stop, output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_in_seconds_or_has_its_unit() {
        assert_eq!(parse_interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "soon", "nan", "1e9"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
