//! All known processes: running ones, gone ones, and refused ones.

use crate::discover::has_other_collector;
use crate::process::{Process, unix_ns};
use crate::process_identity::ProcessIdentity;
use crate::protocol::{ProcessInfo, ProcessState, Retention, Which};
use rustix::process::{Pid, PidfdFlags};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How many refused processes are remembered.
const MOST_REFUSED: usize = 64;

/// The default limits for the tables of processes that are gone.
pub const KEPT_TABLES: Retention = Retention { count: 32, bytes: 1 << 30 };

/// A running process, and the descriptor that reports its end.
#[derive(Debug)]
struct RunningProcess {
    process: Arc<Process>,
    watch: Option<Arc<OwnedFd>>,
}

/// What is known about a pid.
#[derive(Clone, Debug)]
pub enum KnownProcess {
    /// A running process, or one that is gone but kept.
    Process(Arc<Process>),
    /// The process was refused: the reason.
    Refused(String),
    /// Nothing.
    Nothing,
}

/// All known processes: running ones, the kept tables of gone ones, and the latest refused ones.
#[derive(Debug)]
pub struct Registry {
    running: BTreeMap<u32, RunningProcess>,
    /// Oldest first.
    gone: VecDeque<Arc<Process>>,
    /// Oldest first.
    refused: VecDeque<ProcessInfo>,
    retention: Retention,
}

impl Registry {
    /// An empty registry, with these limits for the tables of processes that are gone.
    pub fn new(retention: Retention) -> Self {
        Self { running: BTreeMap::new(), gone: VecDeque::new(), refused: VecDeque::new(), retention }
    }

    /// Adds a process. A known process with the same pid is noted as gone, unless it is the same one.
    pub fn add(&mut self, process: Process) -> Arc<Process> {
        let pid = process.about().pid;
        if let Some(known) = self.running.get(&pid)
            && known.process.table().identity() == process.table().identity()
        {
            return Arc::clone(&known.process);
        }
        self.note_gone(pid);
        self.refused.retain(|refused| refused.pid != pid);
        let process = Arc::new(process);
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match number.map(|number| rustix::process::pidfd_open(number, PidfdFlags::empty())) {
            // The process has ended already; its table is kept.
            None | Some(Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL)) => self.keep(Arc::clone(&process)),
            Some(watch) => {
                let watch = watch.ok().map(Arc::new);
                self.running.insert(pid, RunningProcess { process: Arc::clone(&process), watch });
            }
        }
        process
    }

    /// Remembers a process that cannot be read, and why.
    pub fn refuse(&mut self, about: ProcessIdentity, version: u32, problem: String) {
        self.refused.retain(|refused| refused.pid != about.pid);
        if self.refused.len() >= MOST_REFUSED {
            self.refused.pop_front();
        }
        self.refused.push_back(ProcessInfo {
            pid: about.pid,
            forked_from: about.forked_from,
            name: about.name(),
            command: about.command,
            state: ProcessState::Refused,
            since_unix_ns: unix_ns(),
            exited_unix_ns: 0,
            live_bytes: 0,
            live_blocks: 0,
            sample_bytes: 0,
            is_estimate: false,
            table_bytes: 0,
            untracked: 0,
            unknown_frees: 0,
            allows_contents: false,
            version,
            problem,
            is_attached: false,
        });
    }

    /// Notes that a process is gone. Its table is kept for a while.
    pub fn note_gone(&mut self, pid: u32) {
        if let Some(running) = self.running.remove(&pid) {
            self.keep(running.process);
        }
    }

    /// Notes that the process of this descriptor has ended. Another process may have its pid by now.
    pub fn note_ended(&mut self, pid: u32, watch: &Arc<OwnedFd>) {
        let is_it = |running: &RunningProcess| running.watch.as_ref().is_some_and(|known| Arc::ptr_eq(known, watch));
        if self.running.get(&pid).is_some_and(is_it) {
            self.note_gone(pid);
        }
    }

    fn keep(&mut self, process: Arc<Process>) {
        process.note_gone();
        self.gone.push_back(process);
        let mut bytes: u64 = self.gone.iter().map(|gone| gone.table().record_bytes()).sum();
        let Retention { count, bytes: most_bytes } = self.retention;
        // The latest one is kept, however large it is.
        while self.gone.len() as u64 > count || bytes > most_bytes && self.gone.len() > 1 {
            let Some(oldest) = self.gone.pop_front() else { break };
            bytes = bytes.saturating_sub(oldest.table().record_bytes());
        }
    }

    /// Checks which running processes have started another program, have ended unnoticed, or have registered with another collector.
    pub fn look_after(&mut self, which: &Which) {
        let is_meant = |running: &RunningProcess| is_of(which, &running.process);
        self.running.retain(|_, running| !is_meant(running) || !has_other_collector(running.process.table()));
        let is_lost = |(pid, running): (&u32, &RunningProcess)| {
            (is_meant(running) && !running.process.still_shares()).then_some(*pid)
        };
        let lost: Vec<u32> = self.running.iter().filter_map(is_lost).collect();
        lost.into_iter().for_each(|pid| self.note_gone(pid));
    }

    /// Forgets a running process that was attached to. Returns whether there was one.
    pub fn forget_attached(&mut self, pid: u32) -> bool {
        let is_attached = self.running.get(&pid).is_some_and(|running| running.process.is_attached());
        is_attached && self.running.remove(&pid).is_some()
    }

    /// What is known about a pid: the latest process that had it.
    pub fn find(&self, pid: u32) -> KnownProcess {
        if let Some(running) = self.running.get(&pid) {
            return KnownProcess::Process(Arc::clone(&running.process));
        }
        if let Some(refused) = self.refused.iter().find(|refused| refused.pid == pid) {
            return KnownProcess::Refused(refused.problem.clone());
        }
        let gone = self.gone.iter().rfind(|gone| gone.about().pid == pid);
        gone.map_or(KnownProcess::Nothing, |gone| KnownProcess::Process(Arc::clone(gone)))
    }

    /// Whether a running process with this memory object is known.
    pub fn knows(&self, pid: u32, identity: (u64, u64)) -> bool {
        self.running.get(&pid).is_some_and(|running| running.process.table().identity() == identity)
    }

    /// The pid of each running process, with the descriptor that reports its end.
    pub fn watches(&self) -> Vec<(u32, Arc<OwnedFd>)> {
        let watch = |(pid, running): (&u32, &RunningProcess)| Some((*pid, Arc::clone(running.watch.as_ref()?)));
        self.running.iter().filter_map(watch).collect()
    }

    /// Releases all running processes: another collector may take them over.
    pub fn release(&mut self) {
        for running in self.running.values() {
            running.process.release();
        }
    }

    /// Whether no process is running.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The running processes.
    pub fn running(&self) -> Vec<Arc<Process>> {
        self.running.values().map(|running| Arc::clone(&running.process)).collect()
    }

    /// The number of processes, running and gone.
    pub fn count(&self) -> usize {
        self.running.len() + self.gone.len()
    }

    /// The selected processes, running ones first.
    pub fn processes(&self, which: &Which) -> Vec<Arc<Process>> {
        let known = self.running.values().map(|running| &running.process).chain(&self.gone);
        known.filter(|process| is_of(which, process)).cloned().collect()
    }

    /// The state of the selected processes, running ones first.
    pub fn infos(&self, which: &Which) -> Vec<ProcessInfo> {
        let infos = self.processes(which).into_iter().map(|process| process.info());
        let refused = self.refused.iter().filter(|refused| which.is(refused.pid, || refused.name.clone()));
        infos.chain(refused.cloned()).collect()
    }
}

fn is_of(which: &Which, process: &Process) -> bool {
    which.is(process.about().pid, || process.about().name())
}
