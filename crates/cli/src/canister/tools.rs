//! The calls of the Internet Computer's tools, in one place: another version of a tool changes this file only.
//!
//! `icp` 1.5 was run for every line. Those of `dfx` (0.29) are from its source.

/// What a tool is asked to do, and the words that ask it. `{network}` stands for the words that choose network and identity, or for none.
pub struct ToolCommands {
    /// The name of the program.
    pub name: &'static str,
    /// How to get it, as half a sentence.
    pub advice: &'static str,
    /// The state of a canister.
    pub status: &'static [&'static str],
    /// Stop it.
    pub stop: &'static [&'static str],
    /// Start it.
    pub start: &'static [&'static str],
    /// Take a snapshot.
    pub create: &'static [&'static str],
    /// Take a snapshot in place of another.
    pub replace: &'static [&'static str],
    /// List the snapshots.
    pub list: &'static [&'static str],
    /// Download a snapshot into a folder that is there and empty.
    pub download: &'static [&'static str],
    /// Complete a download that was interrupted, if the tool can.
    pub resume: Option<&'static [&'static str]>,
    /// The option that names a network, and the one that names an environment.
    pub network: &'static str,
    /// The option that names an environment, if the tool has environments.
    pub environment: Option<&'static str>,
    /// The option that names the root key of a network that is given by its address.
    pub root_key: Option<&'static str>,
    /// The option that names an identity.
    pub identity: &'static str,
    /// True if answers are JSON on standard output; otherwise they are text on standard error.
    pub is_json: bool,
}

/// The tools, in the order in which they are looked for.
pub static TOOLS: [&ToolCommands; 2] = [&ICP, &DFX];

static ICP: ToolCommands = ToolCommands {
    name: "icp",
    advice: "'npm install -g @icp-sdk/icp-cli' installs it",
    status: &["canister", "status", "{canister}", "--json", "{network}"],
    stop: &["canister", "stop", "{canister}", "{network}"],
    start: &["canister", "start", "{canister}", "{network}"],
    create: &["canister", "snapshot", "create", "{canister}", "--json", "{network}"],
    replace: &["canister", "snapshot", "create", "{canister}", "--replace", "{snapshot}", "--json", "{network}"],
    list: &["canister", "snapshot", "list", "{canister}", "--json", "{network}"],
    download: &["canister", "snapshot", "download", "{canister}", "{snapshot}", "-o", "{folder}", "{network}"],
    resume: Some(&[
        "canister",
        "snapshot",
        "download",
        "{canister}",
        "{snapshot}",
        "-o",
        "{folder}",
        "--resume",
        "{network}",
    ]),
    network: "--network",
    environment: Some("--environment"),
    root_key: Some("--root-key"),
    identity: "--identity",
    is_json: true,
};

static DFX: ToolCommands = ToolCommands {
    name: "dfx",
    advice: "see the documentation of the Internet Computer's SDK",
    status: &["canister", "{network}", "status", "{canister}"],
    stop: &["canister", "{network}", "stop", "{canister}"],
    start: &["canister", "{network}", "start", "{canister}"],
    create: &["canister", "{network}", "snapshot", "create", "{canister}"],
    replace: &["canister", "{network}", "snapshot", "create", "{canister}", "--replace", "{snapshot}"],
    list: &["canister", "{network}", "snapshot", "list", "{canister}"],
    download: &["canister", "{network}", "snapshot", "download", "{canister}", "{snapshot}", "--dir", "{folder}"],
    resume: None,
    network: "--network",
    environment: None,
    root_key: None,
    identity: "--identity",
    is_json: false,
};
