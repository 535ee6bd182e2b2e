//! The management canister: a table of its methods, and what they do with the canisters of this host.

mod arguments;
mod canisters;
mod chunks;
mod install;
mod logs;
mod settings;
mod snapshots;
mod types;
mod uploads;

pub use chunks::ChunkStore;
pub use logs::CanisterLog;
pub use settings::CanisterSettings;
pub use uploads::UploadedSnapshot;

use super::reject::{Reject, code};
use crate::candid::{CandidValue, decode_values, principal_text};
use crate::hosted::{HostState, HostedCanister};
use crate::server::HostLog;
use arguments::Argument;

/// The bytes of an answer, or a refusal.
pub type MethodResult = Result<Vec<u8>, Reject>;

/// Who may call a method.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Anyone,
    Controllers,
}

/// A method of the management canister.
struct Method {
    name: &'static str,
    /// The field of its argument that names the canister; none if there is no such canister yet.
    target: Option<&'static str>,
    access: Access,
    /// Whether it changes nothing, so that it may be asked as a query.
    is_query: bool,
    work: fn(&mut Management<'_>, &CandidValue) -> MethodResult,
}

const ID: Option<&str> = Some("canister_id");

const fn change(name: &'static str, work: fn(&mut Management<'_>, &CandidValue) -> MethodResult) -> Method {
    Method { name, target: ID, access: Access::Controllers, is_query: false, work }
}

const fn question(name: &'static str, work: fn(&mut Management<'_>, &CandidValue) -> MethodResult) -> Method {
    Method { is_query: true, ..change(name, work) }
}

const fn open(
    name: &'static str,
    target: Option<&'static str>,
    work: fn(&mut Management<'_>, &CandidValue) -> MethodResult,
) -> Method {
    Method { target, access: Access::Anyone, ..change(name, work) }
}

const METHODS: &[Method] = &[
    open("create_canister", None, |host, argument| host.create(argument)),
    open("provisional_create_canister_with_cycles", None, |host, argument| host.create(argument)),
    open("provisional_top_up_canister", ID, |host, argument| host.top_up(argument)),
    open("raw_rand", None, |host, argument| host.random(argument)),
    question("canister_status", |host, argument| host.status(argument)),
    question("fetch_canister_logs", |host, argument| host.logs(argument)),
    change("update_settings", |host, argument| host.update_settings(argument)),
    change("start_canister", |host, argument| host.start(argument)),
    change("stop_canister", |host, argument| host.stop(argument)),
    change("uninstall_code", |host, argument| host.uninstall(argument)),
    change("delete_canister", |host, argument| host.delete(argument)),
    change("install_code", |host, argument| host.install_code(argument)),
    Method {
        target: Some("target_canister"),
        ..change("install_chunked_code", |host, argument| host.install_chunked_code(argument))
    },
    change("upload_chunk", |host, argument| host.upload_chunk(argument)),
    change("clear_chunk_store", |host, argument| host.clear_chunk_store(argument)),
    question("stored_chunks", |host, argument| host.stored_chunks(argument)),
    change("take_canister_snapshot", |host, argument| host.take_snapshot(argument)),
    change("load_canister_snapshot", |host, argument| host.load_snapshot(argument)),
    change("delete_canister_snapshot", |host, argument| host.delete_snapshot(argument)),
    question("list_canister_snapshots", |host, argument| host.list_snapshots(argument)),
    question("read_canister_snapshot_metadata", |host, argument| host.read_metadata(argument)),
    question("read_canister_snapshot_data", |host, argument| host.read_data(argument)),
    change("upload_canister_snapshot_metadata", |host, argument| host.upload_metadata(argument)),
    change("upload_canister_snapshot_data", |host, argument| host.upload_data(argument)),
];

/// The management canister for one call.
pub struct Management<'a> {
    /// The canisters.
    pub state: &'a mut HostState,
    /// The principal of the caller.
    pub caller: &'a [u8],
    /// The real time, in nanoseconds since 1970.
    pub now_ns: u64,
    /// Receives lines about what happens.
    pub log: &'a HostLog,
}

fn find(name: &str) -> Result<&'static Method, Reject> {
    let found = METHODS.iter().find(|method| method.name == name);
    let shown: String = name.chars().take(60).collect();
    found.ok_or_else(|| {
        Reject::new(code::UNKNOWN_METHOD, format!("Management canister has no method '{shown}' on this host"))
    })
}

/// The one value of an argument.
fn argument_of(bytes: &[u8]) -> Result<CandidValue, Reject> {
    let values = decode_values(bytes)
        .map_err(|error| Reject::new(code::INVALID_ARGUMENT, format!("Error decoding the argument: {error}")))?;
    // A method without arguments gets none.
    Ok(values.into_iter().next().unwrap_or(CandidValue::Null))
}

/// The canister that a call of the management canister is about, by which clients address it; none if there is none.
pub fn target_of(name: &str, argument: &[u8]) -> Result<Option<Vec<u8>>, Reject> {
    let Some(field) = find(name)?.target else { return Ok(None) };
    Ok(Some(argument_of(argument)?.principal_of(field)?))
}

impl Management<'_> {
    /// Calls a method.
    pub fn call(&mut self, name: &str, argument: &[u8], is_query: bool) -> MethodResult {
        let method = find(name)?;
        if is_query && !method.is_query {
            let line = format!("'{name}' of the management canister is no query");
            return Err(Reject::new(code::METHOD_NOT_FOUND, line));
        }
        let argument = argument_of(argument)?;
        if let (Some(field), Access::Controllers) = (method.target, method.access) {
            let (id, caller) = (argument.principal_of(field)?, self.caller);
            self.canister(&id)?.settings.check(&id, caller, name)?;
        }
        (method.work)(self, &argument)
    }

    /// A canister.
    fn canister(&mut self, id: &[u8]) -> Result<&mut HostedCanister, Reject> {
        self.state.canisters.get_mut(id).ok_or_else(|| canister_not_found(id))
    }

    /// The canister in the field `canister_id`.
    fn target(&mut self, argument: &CandidValue) -> Result<&mut HostedCanister, Reject> {
        let id = argument.principal_of("canister_id")?;
        self.canister(&id)
    }

    /// Keeps what a canister printed.
    fn note_printed(&mut self, id: &[u8], lines: &[String]) {
        lines.iter().for_each(|line| (self.log)(line));
        if let Some(canister) = self.state.canisters.get_mut(id) {
            canister.log.add(lines, self.now_ns);
        }
    }
}

/// The refusal of a call to a canister that is not there.
pub fn canister_not_found(id: &[u8]) -> Reject {
    Reject::new(code::CANISTER_NOT_FOUND, format!("Canister {} not found", principal_text(id)))
}
