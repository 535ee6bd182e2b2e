//! The environment of a process, as far as labels depend on it.

use crate::resource_attributes::resource_attributes;
use std::fs::File;
use std::io::Read;

/// A longer environment is read up to here: the system allows more than any program needs.
const MOST_BYTES: u64 = 1 << 20;

/// Variables and resource attributes that name a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(&'static str, String)>,
    attributes: Vec<(String, String)>,
}

/// The variables that are read. `OTEL_RESOURCE_ATTRIBUTES` is read besides.
const VARIABLES: [&str; 4] = ["OTEL_SERVICE_NAME", "POD_NAME", "POD_NAMESPACE", "NODE_NAME"];
const ATTRIBUTES: &[u8] = b"OTEL_RESOURCE_ATTRIBUTES";

impl Environment {
    /// That with which a process was started. Empty if the process is gone, or is another user's.
    pub fn of_process(pid: u32) -> Self {
        let mut text = Vec::new();
        if let Ok(file) = File::open(format!("/proc/{pid}/environ")) {
            let _ = file.take(MOST_BYTES).read_to_end(&mut text);
        }
        Self::parse(&text)
    }

    /// The same for a program that 'highwater run' started. Programs that change their title (redis, nginx) write it over their environment. If nothing is
    /// left, that of 'highwater run' counts, from which they have it.
    pub fn of_program(pid: u32) -> Self {
        const MOST_PARENTS: usize = 4;
        let own = Self::of_process(pid);
        if own != Self::default() {
            return own;
        }
        let parents = std::iter::successors(Some(pid), |pid| parent_of(*pid)).skip(1).take(MOST_PARENTS);
        let is_ours = |pid: &u32| {
            let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            executable.file_name().is_some_and(|name| name == "highwater")
        };
        parents.into_iter().find(is_ours).map(Self::of_process).unwrap_or_default()
    }

    /// That of this process.
    pub fn own() -> Self {
        Self::of_process(std::process::id())
    }

    /// From the text of `/proc/PID/environ`.
    pub fn parse(text: &[u8]) -> Self {
        let mut found = Self::default();
        for entry in text.split(|&byte| byte == 0) {
            let Some(at) = entry.iter().position(|&byte| byte == b'=') else { continue };
            let (name, value) = (&entry[..at], &entry[at + 1..]);
            if name == ATTRIBUTES {
                found.attributes = resource_attributes(value);
            } else if let Some(known) = VARIABLES.iter().find(|known| known.as_bytes() == name)
                && !value.is_empty()
            {
                found.variables.push((known, String::from_utf8_lossy(value).into_owned()));
            }
        }
        found
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a resource attribute.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    (parent > 0).then_some(parent)
}
