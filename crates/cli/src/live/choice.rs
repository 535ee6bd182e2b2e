//! Chooses one of the registered processes.

use crate::failure::Failure;
use clap::Args;
use highwater_collector::protocol::{ProcessInfo, ProcessState, Which};

/// The number of processes that a line names; further ones are only counted.
const NAMED: usize = 20;

/// A process, by its number or its name.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct ProcessChoice {
    /// The process, by its number
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The process, by its program's file name or a part of it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl ProcessChoice {
    /// The query for the processes among which the choice is made.
    pub fn which(&self) -> Which {
        match (self.pid, &self.name) {
            (Some(pid), _) => Which::Pid(pid),
            (None, Some(name)) => Which::Name(name.clone()),
            (None, None) => Which::All,
        }
    }

    /// Whether no process was named.
    pub fn is_any(&self) -> bool {
        self.pid.is_none() && self.name.is_none()
    }

    /// The pid of a process that no collector knows.
    pub fn outside(&self) -> Result<u32, Failure> {
        match (self.pid, &self.name) {
            (Some(pid), _) => Ok(pid),
            (None, Some(name)) => super::outside::by_name(name),
            (None, None) => the_only_one(&[]).map(|process| process.pid),
        }
    }

    /// The chosen process; if none was named, the only live one.
    pub fn of<'a>(&self, processes: &'a [ProcessInfo]) -> Result<&'a ProcessInfo, Failure> {
        let chosen = match (self.pid, &self.name) {
            (Some(pid), _) => by_pid(processes, pid),
            (None, Some(name)) => by_name(processes, name),
            (None, None) => the_only_one(processes),
        }?;
        if chosen.state == ProcessState::Refused {
            let (pid, name, problem) = (chosen.pid, &chosen.name, &chosen.problem);
            return Err(Failure::fault(format_args!("process {pid} ({name}) cannot be read: {problem}")));
        }
        Ok(chosen)
    }
}

fn by_pid(processes: &[ProcessInfo], pid: u32) -> Result<&ProcessInfo, Failure> {
    // An earlier process may have had the same number.
    let live_first = [ProcessState::Live, ProcessState::Exited, ProcessState::Refused];
    let of_state = |state| processes.iter().rev().find(|process| process.pid == pid && process.state == state);
    live_first.into_iter().find_map(of_state).ok_or_else(|| {
        let line = match std::fs::exists(format!("/proc/{pid}")) {
            Ok(false) => format!("there is no process {pid}"),
            _ => format!("process {pid} is not live; 'highwater attach --pid {pid}' attaches to it, 'highwater run' starts one that is"),
        };
        Failure::fault(line)
    })
}

/// Exact matches come before partial ones, live processes before exited ones.
fn by_name<'a>(processes: &'a [ProcessInfo], name: &str) -> Result<&'a ProcessInfo, Failure> {
    let exactly = |process: &ProcessInfo| process.name == name;
    let partly = |process: &ProcessInfo| process.name.contains(name);
    for fits in [&exactly as &dyn Fn(&ProcessInfo) -> bool, &partly] {
        for lives in [true, false] {
            let is_so = |process: &&ProcessInfo| (process.state == ProcessState::Live) == lives && fits(process);
            let found: Vec<&ProcessInfo> = processes.iter().filter(is_so).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(one),
                several => {
                    let listed = listed(several);
                    return Err(Failure::fault(format_args!(
                        "several processes are called '{name}': {listed}; choose one with --pid"
                    )));
                }
            }
        }
    }
    Err(Failure::fault(format_args!("no process is called '{name}'; 'highwater ps' lists those that are registered")))
}

fn the_only_one(processes: &[ProcessInfo]) -> Result<&ProcessInfo, Failure> {
    let live: Vec<&ProcessInfo> = processes.iter().filter(|process| process.state == ProcessState::Live).collect();
    match live.as_slice() {
        [one] => Ok(one),
        [] if processes.is_empty() => {
            Err(Failure::fault("no process is registered; 'highwater run PROGRAM' starts one that is"))
        }
        [] => {
            let all: Vec<&ProcessInfo> = processes.iter().collect();
            let listed = listed(&all);
            Err(Failure::fault(format_args!("no registered process lives any more: {listed}; choose one with --pid")))
        }
        several => {
            let listed = listed(several);
            Err(Failure::fault(format_args!(
                "several processes are registered: {listed}; choose one with --pid or --name"
            )))
        }
    }
}

/// Processes in a line: `12 server, 14 worker`.
fn listed(processes: &[&ProcessInfo]) -> String {
    let named: Vec<String> =
        processes.iter().take(NAMED).map(|process| format!("{} {}", process.pid, process.name)).collect();
    let more = processes.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str, state: ProcessState) -> ProcessInfo {
        ProcessInfo {
            pid,
            forked_from: 0,
            name: name.into(),
            command: Vec::new(),
            state,
            since_unix_ns: 0,
            exited_unix_ns: 0,
            live_bytes: 0,
            live_blocks: 0,
            sample_bytes: 0,
            is_estimate: false,
            table_bytes: 0,
            untracked: 0,
            unknown_frees: 0,
            allows_contents: false,
            version: 1,
            problem: "another version".into(),
            is_attached: false,
        }
    }

    fn chosen(pid: Option<u32>, name: Option<&str>, processes: &[ProcessInfo]) -> Result<u32, String> {
        let choice = ProcessChoice { pid, name: name.map(str::to_owned) };
        let chosen = choice.of(processes).map(|process| process.pid);
        chosen.map_err(|failure| failure.line().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_name_means_the_one_that_has_it_before_those_that_have_it_as_a_part() {
        let all = [
            process(1, "server", ProcessState::Live),
            process(2, "server-test", ProcessState::Live),
            process(3, "worker", ProcessState::Live),
            process(4, "worker", ProcessState::Exited),
            process(5, "gone", ProcessState::Exited),
        ];
        assert_eq!(chosen(None, Some("server"), &all), Ok(1));
        assert_eq!(chosen(None, Some("test"), &all), Ok(2));
        assert_eq!(chosen(None, Some("worker"), &all), Ok(3));
        assert_eq!(chosen(None, Some("gone"), &all), Ok(5));
        let several = chosen(None, Some("e"), &all).unwrap_err();
        assert!(several.contains("1 server, 2 server-test, 3 worker; choose"), "{several}");
        assert!(chosen(None, Some("nobody"), &all).unwrap_err().contains("no process is called 'nobody'"));
    }

    #[test]
    fn without_a_name_there_must_be_only_one() {
        let all = [process(1, "a", ProcessState::Live), process(2, "b", ProcessState::Exited)];
        assert_eq!(chosen(None, None, &all), Ok(1));
        assert!(chosen(None, None, &all[1..]).unwrap_err().contains("2 b"));
        assert!(chosen(None, None, &[]).unwrap_err().contains("highwater run"));
    }

    #[test]
    fn a_number_means_who_lives_and_who_was_refused_is_told_why() {
        let all = [
            process(1, "old", ProcessState::Exited),
            process(1, "new", ProcessState::Live),
            process(2, "odd", ProcessState::Refused),
        ];
        assert_eq!(ProcessChoice { pid: Some(1), name: None }.of(&all).unwrap().name, "new");
        assert_eq!(chosen(Some(2), None, &all).unwrap_err(), "process 2 (odd) cannot be read: another version");
        assert!(chosen(Some(u32::MAX), None, &all).unwrap_err().contains("there is no process"));
        assert!(chosen(Some(std::process::id()), None, &all).unwrap_err().contains("is not live"));
    }
}
