//! The identity of a process, apart from its shared memory.

use highwater_model::program_name;
use std::path::Path;

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its pid, as this process sees it.
    pub pid: u32,
    /// The pid of the process that started it, 0 if not known.
    pub parent: u32,
    /// The process it was forked from without an exec, 0 if it was not.
    pub forked_from: u32,
    /// The path of its executable.
    pub executable: String,
    /// Program and arguments.
    pub command: Vec<String>,
}

impl ProcessIdentity {
    /// From the text that the process sent: the path of the executable, a zero byte, and the arguments, each ended by a zero byte.
    pub fn from_hello(pid: u32, forked_from: u32, text: &[u8]) -> Self {
        let mut texts = text.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        let executable = texts.next().unwrap_or_default().trim_end_matches(" (deleted)").to_owned();
        let command = without_last_end(texts.map(|text| text.into_owned()).collect());
        let parent = if forked_from != 0 { forked_from } else { parent_of(pid) };
        Self { pid, parent, forked_from, executable, command }
    }

    /// From `/proc`.
    pub fn found(pid: u32) -> Self {
        let (executable, command) = executable_and_command(pid);
        Self { pid, parent: parent_of(pid), forked_from: 0, executable, command }
    }

    /// The same without its arguments. A name with a space is a process title, which may contain arguments.
    pub fn without_arguments(mut self) -> Self {
        self.command.truncate(1);
        self.command.retain(|name| !name.contains(' '));
        self
    }

    /// The program's name for people.
    pub fn name(&self) -> String {
        program_name(self.command.first().map(String::as_str), &self.executable)
    }
}

/// The display name of a process's program: the same as [`ProcessIdentity::name`] of [`ProcessIdentity::found`].
pub(crate) fn name_of(pid: u32) -> String {
    let (executable, command) = executable_and_command(pid);
    program_name(command.first().map(String::as_str), &executable)
}

fn executable_and_command(pid: u32) -> (String, Vec<String>) {
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let executable = executable.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = command.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    (executable, without_last_end(command))
}

/// Drops the empty text after the zero byte that ends the last argument.
fn without_last_end(mut command: Vec<String>) -> Vec<String> {
    if command.last().is_some_and(String::is_empty) {
        command.pop();
    }
    command
}

/// The parent's pid, 0 if it cannot be found out.
fn parent_of(pid: u32) -> u32 {
    status_field(pid, "PPid:").and_then(|parent| parent.trim().parse().ok()).unwrap_or(0)
}

/// A field of `/proc/PID/status`.
pub(crate) fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    String::from_utf8_lossy(&status).lines().find_map(|line| line.strip_prefix(name).map(str::to_owned))
}

/// Whether there is a process with this pid.
pub(crate) fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
