//! Processes that are not registered with a collector: what can be read of them from outside.

use crate::failure::Failure;
use crate::print::bytes::bytes;
use highwater_collector::{PageDetail, ProcessIdentity};
use highwater_model::{RssBreakdown, Source, SourceKind};
use highwater_resident::{LiveMemory, PageScan, ScanError};
use std::path::Path;

/// The number of processes that a line names; further ones are only counted.
const NAMED: usize = 20;

/// Where the resident memory of a process is, read from outside: its blocks are not known.
pub fn read(pid: u32, detail: PageDetail) -> Result<(Source, RssBreakdown), Failure> {
    let identity = ProcessIdentity::found(pid);
    let scan = PageScan::read(pid, detail.options(pid)).map_err(|error| cannot_read(pid, &identity, &error))?;
    let source = Source {
        kind: SourceKind::NATIVE,
        program: identity.name(),
        executable: identity.executable,
        pid: pid.into(),
        parent_pid: identity.parent.into(),
        command: identity.command,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        snapshot: true,
        aggregated: true,
        ..Source::default()
    };
    Ok((source, scan.breakdown(LiveMemory::default())))
}

/// Why a process was not read, in a line.
fn cannot_read(pid: u32, identity: &ProcessIdentity, error: &ScanError) -> Failure {
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return Failure::fault(match identity.executable.as_str() {
            "" => format!("there is no process {pid}"),
            _ => format!("process {pid} ended while it was read"),
        });
    }
    let name = comm(pid).map(|name| format!(" ({name})")).unwrap_or_default();
    match (error, resident(pid)) {
        // Kernel threads and zombies have no memory.
        (_, Some(0)) => {
            Failure::fault(format_args!("process {pid}{name} has no memory: it has ended, or is the kernel's"))
        }
        (ScanError::NotPermitted, Some(resident)) => {
            Failure::fault(format_args!("process {pid}{name} has an RSS of {}; {error}", bytes(resident)))
        }
        _ => Failure::fault(format_args!("process {pid}{name}: {error}")),
    }
}

/// The name that `ps -e` shows.
pub fn comm(pid: u32) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The RSS of a process, which any user may read.
fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(4096)
}

/// The process with this name, or with a name that contains this text. A name is that of its program, or the one that `ps -e` shows: servers put other texts in
/// place of their arguments.
pub fn by_name(name: &str) -> Result<u32, Failure> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != own);
    let mut all: Vec<(u32, [String; 2])> =
        pids.map(|pid| (pid, [ProcessIdentity::found(pid).name(), comm(pid).unwrap_or_default()])).collect();
    all.sort_unstable_by_key(|(pid, _)| *pid);
    let exactly = |found: &String| found == name;
    let partly = |found: &String| found.contains(name);
    for fits in [&exactly as &dyn Fn(&String) -> bool, &partly] {
        let named = all.iter().filter_map(|(pid, names)| Some((*pid, names.iter().find(|&one| fits(one))?.clone())));
        let found: Vec<(u32, String)> = named.collect();
        match found.as_slice() {
            [] => {}
            [(pid, _)] => return Ok(*pid),
            several => return Err(too_many(name, several)),
        }
    }
    Err(Failure::fault(format_args!("no process is called '{name}'")))
}

fn too_many(name: &str, several: &[(u32, String)]) -> Failure {
    let named: Vec<String> = several.iter().take(NAMED).map(|(pid, name)| format!("{pid} {name}")).collect();
    let more = several.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    Failure::fault(format_args!(
        "several processes are called '{name}': {}{rest}; choose one with --pid",
        named.join(", ")
    ))
}
