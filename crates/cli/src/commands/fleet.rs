//! `highwater fleet`: questions about the memory of many processes. One file per question.

pub mod ask;
mod diff;
mod flamegraph;
mod growth;
mod install;
mod leaks;
mod processes;
mod rows;
mod sql;
mod timeline;
mod top;

use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Subcommand};

/// The arguments of `highwater fleet`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  highwater fleet install                       once: the engine
  highwater fleet top /lake                     who held the most, at the peak
  highwater fleet growth /lake --service api    what the new version holds more
  highwater fleet leaks /lake --since 12h       what grows, and on how many hosts
  highwater fleet diff /lake --a region=eu --b region=us
  highwater fleet processes /lake --sort limit  who reaches the limit first
  highwater fleet timeline /lake --by version   the total over time, stacked
  highwater fleet flamegraph /lake -o peak.svg  the whole fleet as one flame graph
  highwater fleet sql /lake 'SELECT count(*) FROM sites'

A lake is a folder of Parquet files that 'highwater ship' fills. DuckDB answers, in a program of its own, highwater-fleet: it \
reads nothing but the lake, and downloads nothing. With --engine spark a cluster answers, which has its own rules."
)]
pub struct FleetArgs {
    #[command(subcommand)]
    question: FleetCommand,
}

/// The questions.
#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Which call sites hold the most, in all processes together, at one instant
    Top(top::FleetTop),
    /// Which call sites hold more in one version of a service than in another, and on which hosts
    Growth(growth::FleetGrowth),
    /// Which call sites grow in a straight line, in how many processes and on how many hosts
    Leaks(leaks::FleetLeaks),
    /// Which call sites hold more in one part of the fleet than in another
    Diff(diff::FleetDiff),
    /// How fast each process grows, and when it reaches its limit
    Processes(processes::FleetProcesses),
    /// The sites of the fleet at one instant as a flame graph, or in another tool's format
    Flamegraph(flamegraph::FleetFlamegraph),
    /// What each service, version, region or host held over time
    Timeline(timeline::FleetTimelineArgs),
    /// Any SELECT over the lake's tables
    Sql(sql::FleetSql),
    /// Install the engine: its program, and DuckDB's library
    Install(install::FleetInstall),
}

impl FleetArgs {
    /// Answers a question.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        match &self.question {
            FleetCommand::Top(top) => top.run(output),
            FleetCommand::Growth(growth) => growth.run(output),
            FleetCommand::Leaks(leaks) => leaks.run(output),
            FleetCommand::Diff(diff) => diff.run(output),
            FleetCommand::Processes(processes) => processes.run(output),
            FleetCommand::Flamegraph(flamegraph) => flamegraph.run(output),
            FleetCommand::Timeline(timeline) => timeline.run(output),
            FleetCommand::Sql(sql) => sql.run(output),
            FleetCommand::Install(install) => install.run(output),
        }
    }
}
