//! Answers the requests of the network's interface.

use super::cbor::Cbor;
use super::hash_tree::StateTree;
use super::http::{HttpRequest, HttpResponse};
use super::ingress::{CallStatus, IngressHistory, RequestId};
use super::keys::HostKeys;
use super::management::{Management, canister_not_found, target_of};
use super::principal::MANAGEMENT;
use super::reject::{Reject, code};
use super::request::{CanisterCall, IcRequest, RequestContent};
use super::state_tree::{BadPath, TreeSource};
use crate::call::ProgramCall;
use crate::candid::{decode, principal_bytes, principal_text};
use crate::canister::{CallError, CallOutcome};
use crate::hosted::{HostState, HostedCanister, SharedState, locked};
use crate::program::HostedProgram;
use crate::server::HostLog;
use crate::system::CanisterResponse;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest message, as on the network.
const LONGEST_MESSAGE: usize = 2 << 20;
/// What a request has around its message, at most.
const ENVELOPE: usize = 8 << 10;
/// The longest argument that the list of calls shows.
const LONGEST_SHOWN: usize = 4096;

/// A host as clients of the network see it: one subnet with one node.
pub struct IcHost {
    state: SharedState,
    keys: HostKeys,
    ingress: Mutex<IngressHistory>,
    log: HostLog,
}

/// What an address names.
enum Effective {
    Canister(Vec<u8>),
    Subnet,
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn refused(status: u16, line: impl ToString) -> HttpResponse {
    HttpResponse::line(status, &line.to_string())
}

impl IcHost {
    /// A host with new keys.
    pub fn new(state: SharedState, log: HostLog) -> io::Result<Self> {
        Ok(Self { state, keys: HostKeys::new()?, ingress: Mutex::default(), log })
    }

    /// Answers a request.
    pub fn answer(&self, request: &HttpRequest) -> HttpResponse {
        let head = &request.head;
        let parts: Vec<&str> = head.path.trim_start_matches('/').split('/').collect();
        let (version, kind, id, action) = match parts[..] {
            ["api", "v2", "status"] if head.method == "GET" || head.method == "HEAD" => return self.status(),
            ["api", "v2", "status"] => return refused(405, "the status can only be read"),
            ["api", version, kind, id, action] => (version, kind, id, action),
            _ => return refused(404, "there is nothing here; /api/v2/status says what there is"),
        };
        let is_known = match action {
            "call" => matches!(version, "v2" | "v3" | "v4"),
            "query" | "read_state" => matches!(version, "v2" | "v3"),
            _ => false,
        };
        if !is_known || !matches!(kind, "canister" | "subnet") || (kind == "subnet" && action == "query") {
            return refused(404, "there is nothing here; /api/v2/status says what there is");
        }
        if head.method != "POST" {
            return refused(405, "requests are sent with POST");
        }
        // A page in a browser needs permission to send this type to another server, and gets none.
        if head.content_type.as_deref() != Some("application/cbor") {
            return refused(415, "the Content-Type must be application/cbor");
        }
        let Some(id) = principal_bytes(id) else { return refused(400, format!("'{id}' is no principal")) };
        let effective = match kind {
            "canister" => Effective::Canister(id),
            _ if id == self.keys.subnet_id => Effective::Subnet,
            _ => return refused(400, format!("the subnet {} is not here", principal_text(&id))),
        };
        let now_ns = now_ns();
        let read = match IcRequest::read(&request.body, now_ns) {
            Ok(read) => read,
            Err(problem) => return refused(400, problem),
        };
        match (action, &read.content) {
            ("call", RequestContent::Call(call)) if request.body.len() > LONGEST_MESSAGE + ENVELOPE => {
                let bytes = call.argument.len();
                refused(
                    413,
                    format!("Request is too large: its argument of {bytes} bytes does not fit into {LONGEST_MESSAGE}"),
                )
            }
            ("call", RequestContent::Call(call)) => self.call(&effective, version, &read, call, now_ns),
            ("query", RequestContent::Query(call)) => self.query(&effective, &read, call, now_ns),
            ("read_state", RequestContent::ReadState(paths)) => self.read_state(&effective, &read, paths, now_ns),
            _ => refused(400, format!("the request_type is another one than '{action}', which the address names")),
        }
    }

    fn ingress(&self) -> MutexGuard<'_, IngressHistory> {
        self.ingress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> HttpResponse {
        let status = Cbor::map([
            ("root_key", Cbor::Bytes(self.keys.root_key.clone())),
            ("impl_version", Cbor::text(concat!("highwater ", env!("CARGO_PKG_VERSION")))),
            ("replica_health_status", Cbor::text("healthy")),
            ("certified_height", Cbor::Unsigned(1)),
        ]);
        HttpResponse::cbor(status.write())
    }

    /// Checks that a call goes to the canister that its address names.
    fn check_address(&self, effective: &Effective, call: &CanisterCall) -> Result<Result<(), Reject>, HttpResponse> {
        let wanted = if call.canister_id == MANAGEMENT {
            match target_of(&call.method, &call.argument) {
                Ok(wanted) => wanted,
                Err(reject) => return Ok(Err(reject)),
            }
        } else {
            Some(call.canister_id.clone())
        };
        match (wanted, effective) {
            (Some(wanted), Effective::Canister(given)) if wanted != *given => {
                let (wanted, given) = (principal_text(&wanted), principal_text(given));
                let line = format!("the effective canister id in the address is {given}, and the call is for {wanted}");
                Err(refused(400, line))
            }
            (Some(_), Effective::Subnet) => {
                Err(refused(400, "the call is for a canister, and the address is a subnet's"))
            }
            _ => Ok(Ok(())),
        }
    }

    fn call(
        &self,
        effective: &Effective,
        version: &str,
        request: &IcRequest,
        call: &CanisterCall,
        now_ns: u64,
    ) -> HttpResponse {
        match self.check_address(effective, call) {
            Ok(Ok(())) => {}
            Ok(Err(reject)) => return HttpResponse::cbor(reject.response().write()),
            Err(response) => return response,
        }
        // A request that comes again gets the result of the first time.
        if self.ingress().begin(request.id, &request.sender, request.expiry_ns, now_ns) {
            match self.run(&request.sender, call, now_ns) {
                Ok(status) => self.ingress().end(&request.id, status),
                Err(reject) => {
                    self.ingress().cancel(&request.id);
                    return HttpResponse::cbor(reject.response().write());
                }
            }
        }
        self.result_of(&request.id, version)
    }

    /// The answer to a call that was begun.
    fn result_of(&self, id: &RequestId, version: &str) -> HttpResponse {
        let ingress = self.ingress();
        let is_done = !matches!(ingress.status(id), None | Some(CallStatus::Processing));
        if version == "v2" || !is_done {
            return HttpResponse { status: 202, content_type: "application/cbor", body: Vec::new() };
        }
        let mut tree = StateTree::default();
        ingress.put(id, &mut tree);
        drop(ingress);
        let certificate = self.keys.certificate(tree, now_ns());
        let response = Cbor::map([("status", Cbor::text("replied")), ("certificate", Cbor::Bytes(certificate))]);
        HttpResponse::cbor(response.write())
    }

    /// Runs a call to its end; an error means that it was not begun.
    fn run(&self, sender: &[u8], call: &CanisterCall, now_ns: u64) -> Result<CallStatus, Reject> {
        let mut state = locked(&self.state);
        if call.canister_id == MANAGEMENT {
            let mut management = Management { state: &mut state, caller: sender, now_ns, log: &self.log };
            return Ok(match management.call(&call.method, &call.argument, false) {
                Ok(reply) => CallStatus::Replied(reply),
                Err(reject) => {
                    (self.log)(&format!("{} was refused: {}", call.method, reject.message));
                    CallStatus::Rejected(reject)
                }
            });
        }
        let name = principal_text(&call.canister_id);
        let canister = running(&mut state, &call.canister_id)?;
        let program =
            canister.program.as_mut().and_then(HostedProgram::canister_mut).ok_or_else(|| no_module(&name))?;
        let outcome = program.call_from(sender, &call.method, &call.argument);
        let shown = ProgramCall { after_ns: 0, method: Some((call.method.clone(), shown_argument(canister, call))) };
        if let Some(program) = &mut canister.program {
            program.note_call(&shown);
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(problem @ CallError::Refused(_)) => return Err(Reject::of_call(&name, &problem)),
            Err(problem) => {
                (self.log)(&problem.to_string());
                return Ok(CallStatus::Rejected(Reject::of_call(&name, &problem)));
            }
        };
        self.note(canister, &outcome, now_ns);
        let status = match outcome.response {
            Some(CanisterResponse::Reply(reply)) => CallStatus::Replied(reply),
            Some(CanisterResponse::Reject { code, message }) => {
                (self.log)(&format!("{shown} was refused: {message}"));
                CallStatus::Rejected(Reject::by_canister(&name, code, &message))
            }
            None => CallStatus::Rejected(Reject::new(code::DID_NOT_REPLY, format!("Canister {name} did not reply"))),
        };
        if matches!(status, CallStatus::Replied(_)) {
            (self.log)(&shown.to_string());
        }
        Ok(status)
    }

    /// Keeps and shows what a canister printed.
    fn note(&self, canister: &mut HostedCanister, outcome: &CallOutcome, now_ns: u64) {
        canister.log.add(&outcome.printed, now_ns);
        outcome.printed.iter().chain(&outcome.troubles).for_each(|line| (self.log)(line));
    }

    fn query(&self, effective: &Effective, request: &IcRequest, call: &CanisterCall, now_ns: u64) -> HttpResponse {
        let checked = match self.check_address(effective, call) {
            Ok(checked) => checked,
            Err(response) => return response,
        };
        let response = match checked.and_then(|()| self.run_query(&request.sender, call, now_ns)) {
            Ok(reply) => {
                Cbor::map([("status", Cbor::text("replied")), ("reply", Cbor::map([("arg", Cbor::Bytes(reply))]))])
            }
            Err(reject) => reject.query_response(),
        };
        let signature = self.keys.sign_response(&response, &request.id, now_ns);
        let response = match response {
            Cbor::Map(mut entries) => {
                entries.push(("signatures".into(), Cbor::Array(vec![signature])));
                Cbor::Map(entries)
            }
            other => other,
        };
        HttpResponse::cbor(response.write())
    }

    fn run_query(&self, sender: &[u8], call: &CanisterCall, now_ns: u64) -> Result<Vec<u8>, Reject> {
        let mut state = locked(&self.state);
        if call.canister_id == MANAGEMENT {
            let mut management = Management { state: &mut state, caller: sender, now_ns, log: &self.log };
            return management.call(&call.method, &call.argument, true);
        }
        let name = principal_text(&call.canister_id);
        let canister = running(&mut state, &call.canister_id)?;
        let program =
            canister.program.as_mut().and_then(HostedProgram::canister_mut).ok_or_else(|| no_module(&name))?;
        let outcome = program
            .query_from(sender, &call.method, &call.argument)
            .map_err(|problem| Reject::of_call(&name, &problem))?;
        self.note(canister, &outcome, now_ns);
        match outcome.response {
            Some(CanisterResponse::Reply(reply)) => Ok(reply),
            Some(CanisterResponse::Reject { code, message }) => Err(Reject::by_canister(&name, code, &message)),
            None => Err(Reject::new(code::DID_NOT_REPLY, format!("Canister {name} did not reply"))),
        }
    }

    fn read_state(
        &self,
        effective: &Effective,
        request: &IcRequest,
        paths: &[Vec<Vec<u8>>],
        now_ns: u64,
    ) -> HttpResponse {
        let effective = match effective {
            Effective::Canister(id) => Some(id.as_slice()),
            Effective::Subnet => None,
        };
        let (state, ingress) = (locked(&self.state), self.ingress());
        let source =
            TreeSource { keys: &self.keys, state: &state, ingress: &ingress, sender: &request.sender, effective };
        match source.tree(paths) {
            Ok(tree) => {
                let certificate = Cbor::Bytes(self.keys.certificate(tree, now_ns));
                HttpResponse::cbor(Cbor::map([("certificate", certificate)]).write())
            }
            Err(BadPath::Forbidden) => refused(403, BadPath::Forbidden),
            Err(problem) => refused(400, problem),
        }
    }
}

fn no_module(name: &str) -> Reject {
    Reject::new(code::NO_MODULE, format!("Canister {name} has no code"))
}

/// A canister that takes calls.
fn running<'a>(state: &'a mut HostState, id: &[u8]) -> Result<&'a mut HostedCanister, Reject> {
    let canister = state.canisters.get_mut(id).ok_or_else(|| canister_not_found(id))?;
    if canister.is_stopped {
        return Err(Reject::new(code::STOPPED, format!("Canister {} is stopped", principal_text(id))));
    }
    Ok(canister)
}

/// An argument as the list of calls shows it.
fn shown_argument(canister: &HostedCanister, call: &CanisterCall) -> String {
    let labels = canister.program.as_ref().map_or(&[][..], |program| &program.module().facts.labels);
    if call.argument.len() > LONGEST_SHOWN {
        return format!("(… {} bytes)", call.argument.len());
    }
    decode(&call.argument, labels).unwrap_or_else(|_| format!("(… {} bytes)", call.argument.len()))
}
