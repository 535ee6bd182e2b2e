//! The configuration of agents: a variable in a program's environment.

use highwater_clock::Counter;
use highwater_shm::hello_v1::{
    FLAG_CHILDREN, FLAG_CONTENTS, FLAG_COUNTER, FLAG_DORMANT, FLAG_FREE_STACKS, FLAG_LIVE, FLAG_LOSSY, FLAG_NO_ARGS,
    FLAG_NO_MMAP, VARIABLE,
};
use std::path::Path;

/// The environment variable with the configuration.
pub const AGENT_VARIABLE: &str = VARIABLE;

/// An agent's configuration.
#[derive(Clone, Copy, Debug)]
pub struct AgentConfig<'a> {
    /// The socket path of the recorder or the collector.
    pub socket: &'a Path,
    /// Mean bytes per sample, 0 for every block.
    pub sample_bytes: u64,
    /// The maximum number of blocks in a table, 0 for no configured limit.
    pub most_blocks: u64,
    /// Children are recorded too.
    pub follow_children: bool,
    /// Events are dropped, and counted, when the recorder cannot keep up.
    pub lossy: bool,
    /// Mappings are recorded too.
    pub mappings: bool,
    /// A table of live blocks is kept; otherwise events are written.
    pub live: bool,
    /// Blocks' contents may be read.
    pub contents: bool,
    /// Nothing is recorded until a client asks for it.
    pub dormant: bool,
    /// Recordings name programs without their arguments.
    pub no_args: bool,
    /// Stacks of frees and of unmapping are recorded too.
    pub free_stacks: bool,
}

impl AgentConfig<'_> {
    /// The variable that a program's environment needs, and its value.
    pub fn variable(&self) -> (&'static str, String) {
        let flags = [
            (FLAG_COUNTER, Counter::trusted().is_some()),
            (FLAG_CHILDREN, self.follow_children),
            (FLAG_LOSSY, self.lossy),
            (FLAG_NO_MMAP, !self.mappings),
            (FLAG_LIVE, self.live),
            (FLAG_CONTENTS, self.contents),
            (FLAG_DORMANT, self.dormant),
            (FLAG_NO_ARGS, self.no_args),
            (FLAG_FREE_STACKS, self.free_stacks),
        ];
        let flags: String = flags.iter().filter(|(_, set)| *set).map(|(flag, _)| char::from(*flag)).collect();
        (AGENT_VARIABLE, format!("v2;{flags};{};{};{}", self.sample_bytes, self.most_blocks, self.socket.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_comes_last_since_it_may_contain_anything() {
        let config = AgentConfig {
            socket: Path::new("/run/a;b"),
            sample_bytes: 512,
            most_blocks: 1000,
            follow_children: true,
            lossy: false,
            mappings: false,
            live: true,
            contents: true,
            dormant: true,
            no_args: true,
            free_stacks: true,
        };
        let (name, value) = config.variable();
        assert_eq!(name, "HIGHWATER_AGENT");
        assert_eq!(value.replace(";c", ";"), "v2;fmtrdas;512;1000;/run/a;b");
    }
}
