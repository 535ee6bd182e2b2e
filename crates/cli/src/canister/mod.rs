//! Canisters on a network, through the ecosystem's own tool: it holds identities and networks, and shows its own progress and errors.

mod answers;
mod pull;
mod tools;

use crate::failure::{Failure, reason};
use crate::output::say;
pub use answers::{CanisterStatus, NetworkSnapshot};
use answers::{snapshots_in, status_in};
use clap::Args;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tools::{TOOLS, ToolCommands};

/// The variable that names the program of a tool.
const VARIABLE: &str = "HIGHWATER_ICP";

/// A canister, and where it is.
#[derive(Clone, Debug, Args)]
pub struct CanisterArgs {
    /// A canister on a network, by its name or principal: 'icp' or 'dfx' is called, whichever is installed
    #[arg(long, value_name = "NAME|PRINCIPAL")]
    pub canister: Option<String>,
    /// The network: ic, another one that the tool knows, or an address
    #[arg(long, value_name = "NAME|URL", requires = "canister")]
    network: Option<String>,
    /// The environment of the project [icp only]
    #[arg(long, value_name = "NAME", requires = "canister", conflicts_with = "network")]
    environment: Option<String>,
    /// The root key of a network given by its address: mainnet, fetch, or digits [default: fetch for this machine]
    #[arg(long, value_name = "KEY", requires = "network")]
    root_key: Option<String>,
    /// The identity that the tool uses [default: the tool's]
    #[arg(long, value_name = "NAME", requires = "canister")]
    identity: Option<String>,
}

/// A canister that a tool can reach.
pub struct Canister {
    /// Its name or principal, as the user gave it.
    pub name: String,
    program: PathBuf,
    tool: &'static ToolCommands,
    network: Vec<String>,
}

impl CanisterArgs {
    /// Finds the tool; none if no canister was named.
    pub fn find(&self) -> Result<Option<Canister>, Failure> {
        let Some(name) = &self.canister else { return Ok(None) };
        if name.starts_with('-') || name.is_empty() {
            return Err(Failure::Usage(format!("'{name}' is no name of a canister")));
        }
        let (program, tool) = find_tool()?;
        let mut network = Vec::new();
        if let Some(named) = &self.network {
            network.extend([tool.network.to_owned(), named.clone()]);
            let key = self.root_key.as_deref().or_else(|| is_this_machine(named).then_some("fetch"));
            if let (Some(option), Some(key), true) = (tool.root_key, key, named.contains("://")) {
                network.extend([option.to_owned(), key.to_owned()]);
            }
        }
        if let Some(environment) = &self.environment {
            let option = tool.environment.ok_or_else(|| {
                Failure::Usage(format!("{} has no environments; name a network with --network", tool.name))
            })?;
            network.extend([option.to_owned(), environment.clone()]);
        }
        if let Some(identity) = &self.identity {
            network.extend([tool.identity.to_owned(), identity.clone()]);
        }
        Ok(Some(Canister { name: name.clone(), program, tool, network }))
    }
}

/// Whether an address is one of this machine: then its key may be asked for.
fn is_this_machine(url: &str) -> bool {
    let host = url.split("://").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    ["localhost", "[::1]"].contains(&host) || host.parse::<std::net::Ipv4Addr>().is_ok_and(|host| host.is_loopback())
}

fn find_tool() -> Result<(PathBuf, &'static ToolCommands), Failure> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        let name = named.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let tool = TOOLS.into_iter().find(|tool| name.starts_with(tool.name)).unwrap_or(TOOLS[0]);
        return match named.is_file() {
            true => Ok((named, tool)),
            false => Err(Failure::in_file(&named, format_args!("is no program, and {VARIABLE} names it"))),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    let found = TOOLS.into_iter().find_map(|tool| {
        let path = std::env::split_paths(&search).map(|folder| folder.join(tool.name)).find(|path| path.is_file())?;
        Some((path, tool))
    });
    found.ok_or_else(|| {
        Failure::fault(format_args!("neither icp nor dfx is installed, which reach canisters; {}", TOOLS[0].advice))
    })
}

impl Canister {
    /// The name of the tool.
    pub fn tool(&self) -> &'static str {
        self.tool.name
    }

    /// Runs the tool, shows what it says while it says it, and returns the part that answers.
    fn run(&self, words: &[&str], snapshot: &str, folder: &Path) -> Result<String, Failure> {
        let arguments = self.arguments(words, snapshot, folder);
        let mut command = Command::new(&self.program);
        command.args(&arguments).stdout(Stdio::piped());
        if !self.tool.is_json {
            command.stderr(Stdio::piped());
        }
        let ended = command.spawn().and_then(|mut child| {
            let said = child.stderr.take().map(|errors| std::thread::spawn(|| shown(errors)));
            let mut ended = child.wait_with_output()?;
            ended.stderr = said.and_then(|said| said.join().ok()).unwrap_or_default();
            Ok(ended)
        });
        let ended = ended
            .map_err(|error| Failure::in_file(&self.program, format_args!("cannot be started: {}", reason(&error))))?;
        if !ended.status.success() {
            let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
            // Some tools report on standard output.
            let _ = std::io::stderr().write_all(&ended.stdout);
            return Err(Failure::fault(format_args!(
                "'{} {}' failed: {}",
                self.tool.name,
                words.join(" "),
                ended.status
            )));
        }
        let answer = if self.tool.is_json { ended.stdout } else { [ended.stdout, ended.stderr].concat() };
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn arguments(&self, words: &[&str], snapshot: &str, folder: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        for word in words {
            match *word {
                "{canister}" => arguments.push(self.name.clone().into()),
                "{snapshot}" => arguments.push(snapshot.into()),
                "{folder}" => arguments.push(folder.into()),
                "{network}" => arguments.extend(self.network.iter().map(OsString::from)),
                other => arguments.push(other.into()),
            }
        }
        arguments
    }

    fn ask(&self, words: &[&str]) -> Result<String, Failure> {
        self.run(words, "", Path::new(""))
    }

    fn confused(&self, what: &str) -> Failure {
        Failure::fault(format_args!("{} did not say {what} in a way that is known here", self.tool.name))
    }

    /// Whether it runs.
    pub fn status(&self) -> Result<CanisterStatus, Failure> {
        status_in(&self.ask(self.tool.status)?).ok_or_else(|| self.confused("whether the canister runs"))
    }

    /// Its snapshots, the oldest first.
    pub fn snapshots(&self) -> Result<Vec<NetworkSnapshot>, Failure> {
        let mut snapshots = snapshots_in(&self.ask(self.tool.list)?).ok_or_else(|| self.confused("its snapshots"))?;
        snapshots.sort_by(|one, other| (one.taken_at_ns, &one.id).cmp(&(other.taken_at_ns, &other.id)));
        Ok(snapshots)
    }

    /// Takes a snapshot, in place of another if that is named. Stops the canister for it and starts it again if `stops` is set.
    pub fn create(&self, replaced: Option<&str>, stops: bool) -> Result<NetworkSnapshot, Failure> {
        let is_running = self.status()? != CanisterStatus::Stopped;
        if is_running && !stops {
            return Err(Failure::fault(format_args!(
                "{} is running, and the network takes snapshots of stopped canisters only; --stop stops it, and starts it again",
                self.name
            )));
        }
        let stopped = if is_running { Some(StoppedCanister::stop(self)?) } else { None };
        let words = if replaced.is_some() { self.tool.replace } else { self.tool.create };
        let created = self.run(words, replaced.unwrap_or_default(), Path::new(""));
        if let Some(stopped) = stopped {
            stopped.start()?;
        }
        let created = snapshots_in(&created?).and_then(|snapshots| snapshots.into_iter().next());
        created.ok_or_else(|| self.confused("which snapshot it took"))
    }

    /// Downloads a snapshot into a folder that is there; completes an earlier download if there was one and the tool can.
    pub fn download(&self, snapshot: &str, folder: &Path) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| Failure::in_file(folder, reason(&error));
        let has_begun = std::fs::read_dir(folder).map_err(cannot)?.next().is_some();
        let words = match (has_begun, self.tool.resume) {
            (false, _) => self.tool.download,
            (true, Some(resume)) => resume,
            (true, None) => {
                say(&format!("{} cannot complete a download: it begins again", self.tool.name));
                std::fs::remove_dir_all(folder).and_then(|()| std::fs::create_dir(folder)).map_err(cannot)?;
                self.tool.download
            }
        };
        self.run(words, snapshot, folder).map(|_| ())
    }
}

/// Copies what a tool says to standard error, as it comes: progress, and questions for a password.
fn shown(mut said: impl Read) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = said.read(&mut buffer) {
        let _ = std::io::stderr().write_all(&buffer[..count]);
        all.extend(&buffer[..count]);
    }
    all
}

/// A canister that was stopped for a snapshot. It is started again, whatever happens: also after a failure or Ctrl-C.
struct StoppedCanister<'a> {
    canister: &'a Canister,
    is_started: bool,
    interrupted: Arc<AtomicBool>,
}

impl<'a> StoppedCanister<'a> {
    fn stop(canister: &'a Canister) -> Result<Self, Failure> {
        say(&format!("stopping {}: the network takes snapshots of stopped canisters only", canister.name));
        let interrupted = Arc::new(AtomicBool::new(false));
        // Ctrl-C ends the tool; this process goes on, and starts the canister.
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            let registered = signal_hook::flag::register(signal, Arc::clone(&interrupted));
            registered.map_err(|error| Failure::fault(reason(&error)))?;
        }
        let mut stopped = Self { canister, is_started: false, interrupted };
        canister.ask(canister.tool.stop).inspect_err(|_| {
            // A tool that was interrupted, or did not wait long enough, may have stopped it nevertheless.
            if canister.status().is_ok_and(|status| status == CanisterStatus::Running) {
                stopped.is_started = true;
            }
        })?;
        Ok(stopped)
    }

    fn start(mut self) -> Result<(), Failure> {
        self.start_again();
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(Failure::fault("interrupted")),
            false => Ok(()),
        }
    }

    fn start_again(&mut self) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let Canister { name, tool, .. } = self.canister;
        match self.canister.ask(tool.start) {
            Ok(_) => say(&format!("{name} was started again")),
            Err(_) => {
                say(&format!("warning: {name} is still stopped; '{} canister start {name}' starts it", tool.name))
            }
        }
    }
}

impl Drop for StoppedCanister<'_> {
    fn drop(&mut self) {
        self.start_again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_of_this_machine_is_asked_for() {
        for url in ["http://127.0.0.1:8000", "http://localhost:4943/", "http://[::1]:80", "http://127.0.0.1"] {
            assert!(is_this_machine(url), "{url}");
        }
        for url in ["https://icp-api.io", "http://127.0.0.1.example.org", "ic", "http://10.0.0.1:8000", ""] {
            assert!(!is_this_machine(url), "{url}");
        }
    }
}
