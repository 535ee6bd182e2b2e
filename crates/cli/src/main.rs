//! The `highwater` command: where is the memory, who put it there, and why is it still there?
//!
//! * [`args`] is the command line; each file in [`commands`] is one command with its arguments and its help.
//! * [`open`] opens a file of any format as a recording, [`image_file`] examines memory images; [`target`] and [`recording_file`] write files.
//! * [`program`] finds and starts the program to record, with the library from [`preload_file`] and the [`inherited`] signals; [`running`] waits for it.
//! * [`attaching`] attaches to a process that runs already, and detaches from it.
//! * [`descendants`] finds the processes that such a process starts.
//! * [`new_children`] attaches to them.
//! * [`budgets`] reads limits, judges recordings by them, and prints the verdict for people and for CI services.
//! * [`companion`] finds and installs the programs that work for this one.
//! * [`receive`] receives streams: detects their format, writes their files, shows their progress.
//! * [`live`] talks to the collector of live processes.
//! * [`viewed`] answers the viewer's questions that only some kinds of files can answer.
//! * [`name_sources`] has the options for where names of functions come from.
//! * [`mod@print`] is the output for people. Everything else, all arithmetic included, lives in the crates that this one calls.
//! * [`version`] is what `--version` prints.
//! * [`failure`] lists the ways to end early, with their exit codes: 1 for bad input, 2 for wrong usage, 0 for a closed pipe.
#![deny(unsafe_code)]

mod args;
mod attaching;
mod budgets;
mod canister;
mod commands;
mod companion;
mod descendants;
mod failure;
mod image_file;
mod inherited;
mod live;
mod name_sources;
mod naming;
mod new_children;
mod open;
mod output;
mod permitted;
mod preload_file;
mod print;
mod process_files;
mod program;
mod project_file;
mod receive;
mod recording_file;
mod running;
mod size;
mod target;
mod token;
mod version;

use args::{Command, CommandLine};
use clap::FromArgMatches;
use clap::error::ErrorKind;
use failure::Failure;
use highwater_model::disturbs_text;
use output::Output;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    inherited::wait_for_children();
    highwater_symbols::debuginfod::report_debuginfod_events(name_sources::show_download);
    let definition = args::command();
    let words = commands::summary::with_command(std::env::args_os(), &definition);
    let parsed = definition.try_get_matches_from(words).and_then(|matches| CommandLine::from_arg_matches(&matches));
    let command = match parsed {
        Ok(line) => line.command,
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return show_help(&error),
        Err(error) => return refuse(&error),
    };
    // What a recording names may lie anywhere. 'record' looks for the names of the program that it ran.
    if permitted::is_limited() && !matches!(command, Command::Record(_)) {
        highwater_symbols::forbid_lookup();
        highwater_image::open_beside_with(permitted::open_regular);
    }
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(line) = failure.line() {
                output::say(line);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Shows the parser's error. The error quotes the arguments verbatim, so they are made printable.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if !text.lines().any(|line| line.contains(disturbs_text)) {
        error.exit();
    }
    for line in text.lines() {
        let _ = writeln!(std::io::stderr(), "{}", print::text::printable(line));
    }
    ExitCode::from(error.exit_code() as u8)
}

/// `highwater` without arguments is a question, not a mistake: the help goes to standard output.
fn show_help(help: &clap::Error) -> ExitCode {
    let mut output = Output::new();
    let _ = output.text(&help.render().to_string());
    let _ = output.finish();
    ExitCode::SUCCESS
}

fn run(command: &Command) -> Result<(), Failure> {
    let mut output = Output::new();
    let done = match command {
        Command::Record(record) => record.run(&mut output),
        Command::Symbolize(symbolize) => symbolize.run(&mut output),
        Command::Recorder(recorder) => recorder.run(),
        Command::Metrics(metrics) => metrics.run(),
        Command::CLibrary(library) => library.run(&mut output),
        Command::Run(run) => run.run(),
        Command::Attach(attach) => attach.run(&mut output),
        Command::Detach(detach) => detach.run(&mut output),
        Command::Ps(ps) => ps.run(&mut output),
        Command::Snapshot(snapshot) => snapshot.run(&mut output),
        Command::Watch(watch) => watch.run(&mut output),
        Command::Set(set) => set.run(&mut output),
        Command::Rss(rss) => rss.run(&mut output),
        Command::Snapshots(snapshots) => snapshots.run(&mut output),
        Command::Collector(collector) => collector.run(),
        Command::Ship(ship) => ship.run(),
        Command::Lake(lake) => lake.run(&mut output),
        Command::Listen(listen) => listen.run(),
        Command::Connect(connect) => connect.run(),
        Command::Report(report) => report.run(&mut output),
        Command::Block(block) => block.run(&mut output),
        Command::Leaks(leaks) => leaks.run(&mut output),
        Command::Growth(growth) => growth.run(&mut output),
        Command::Diff(diff) => diff.run(&mut output),
        Command::Objects(objects) => objects.run(&mut output),
        Command::Timeline(timeline) => timeline.run(&mut output),
        Command::Processes(processes) => processes.run(&mut output),
        Command::View(view) => view.run(&mut output),
        Command::Export(export) => export.run(&mut output),
        Command::Trim(trim) => trim.run(&mut output),
        Command::Fleet(fleet) => fleet.run(&mut output),
        Command::Image(image) => image.run(&mut output),
        Command::Import(import) => import.run(&mut output),
        Command::Info(info) => info.run(&mut output),
        Command::Check(check) => check.run(&mut output),
        Command::Completions(completions) => completions.run(&mut output),
        Command::Man(man) => man.run(&mut output),
        Command::Mcp(mcp) => mcp.run(&mut output),
        Command::Summary(summary) => summary.run(&mut output),
    };
    // A command that found a problem has still printed output.
    let written = output.finish();
    done.and(written)
}
