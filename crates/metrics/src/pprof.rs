//! `/debug/pprof/`: the processes, and the heap profile of each.

use crate::monitor::Monitor;
use crate::source::SourceError;
use highwater_collector::ProcessGauges;
use highwater_http::server::Request;

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProfile {
    /// The request is wrong: which process is meant?
    #[error("{0}")]
    Bad(String),
    /// There is no such process.
    #[error("{0}")]
    Unknown(String),
    /// The collector cannot be asked.
    #[error("{0}")]
    Unavailable(String),
}

impl From<SourceError> for NoProfile {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::NoProcess(line) => Self::Unknown(line),
            SourceError::Unavailable(line) => Self::Unavailable(line),
        }
    }
}

/// The list of processes, as text.
pub fn index(monitor: &Monitor) -> Result<String, NoProfile> {
    let mut all = monitor.gauges()?;
    all.sort_by_key(|one| one.pid);
    let mut text =
        "Heap profiles of live processes: go tool pprof http://THIS-ADDRESS/debug/pprof/heap?pid=PID\n\n".to_owned();
    for ProcessGauges { pid, live_bytes, name, .. } in all {
        let name: String = name.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
        text.push_str(&format!("/debug/pprof/heap?pid={pid}\t{live_bytes}\t{name}\n"));
    }
    Ok(text)
}

/// The profile of the process that a request means.
pub fn heap(monitor: &Monitor, request: &Request) -> Result<Vec<u8>, NoProfile> {
    let pid = match (request.parameter("pid"), request.parameter("name")) {
        (Some(pid), None) => pid.parse().map_err(|_| NoProfile::Bad("pid= is not a process number".to_owned()))?,
        (None, Some(name)) => by_name(&monitor.gauges()?, name)?,
        (Some(_), Some(_)) => return Err(NoProfile::Bad("give pid= or name=, not both".to_owned())),
        (None, None) => {
            let line = "give pid= or name=; /debug/pprof/ lists the processes";
            return Err(NoProfile::Bad(line.to_owned()));
        }
    };
    Ok(monitor.profile(pid)?)
}

/// The process with this name, or whose name contains it.
fn by_name(all: &[ProcessGauges], name: &str) -> Result<u32, NoProfile> {
    let named = |fits: &dyn Fn(&str) -> bool| -> Vec<u32> {
        all.iter().filter(|one| fits(&one.name)).map(|one| one.pid).collect()
    };
    let exactly = named(&|own| own == name);
    let found = if exactly.is_empty() { named(&|own| own.contains(name)) } else { exactly };
    match found.as_slice() {
        [pid] => Ok(*pid),
        [] => Err(NoProfile::Unknown(format!("no live process is called '{name}'"))),
        several => Err(NoProfile::Bad(format!("{} processes are called '{name}'; give pid=", several.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_process() {
        let of = |pid, name: &str| ProcessGauges { pid, name: name.to_owned(), ..ProcessGauges::default() };
        let all = [of(1, "server"), of(2, "server-worker"), of(3, "shop"), of(4, "shop")];
        assert_eq!(by_name(&all, "server"), Ok(1));
        assert_eq!(by_name(&all, "work"), Ok(2));
        assert!(matches!(by_name(&all, "shop"), Err(NoProfile::Bad(_))));
        assert!(matches!(by_name(&all, "x\n"), Err(NoProfile::Unknown(_))));
    }
}
