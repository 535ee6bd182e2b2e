//! The table of all functions, with their types and the modes in which they may be called; each group is implemented in its own file.

use super::MessageMode::{self, CompositeQuery, Init, Inspect, Query, Reject, Reply, Start, Timer, Update};
use super::{System, calls, canister, messages, storage};
use crate::engine::{FunctionImport, RunError, StoreData, Trap};
use wasmi::{Caller, FuncType, Linker, Val, ValType};

/// The type of an argument or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// An address or a length: 32 or 64 bits, like the addresses of the module's memory.
    Word,
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
}

/// The system and the memory, borrowed for one call.
pub struct Context<'a> {
    /// The system.
    pub system: &'a mut System,
    /// The memory.
    pub memory: &'a mut [u8],
}

/// The result of a function.
pub type SystemCallResult = Result<Option<u64>, Trap>;

/// The implementation of a function.
type SystemCall = fn(&mut Context<'_>, &[u64]) -> SystemCallResult;

pub struct SystemFunction {
    pub name: &'static str,
    pub takes: &'static [NumberType],
    pub gives: Option<NumberType>,
    /// The modes in which it may be called; empty for all modes.
    pub modes: &'static [MessageMode],
    pub work: SystemCall,
}

impl Context<'_> {
    /// Bytes of the memory.
    pub fn bytes(&self, address: u64, length: u64) -> Result<&[u8], Trap> {
        let end = address.checked_add(length).ok_or_else(beyond)?;
        self.memory.get(address as usize..end as usize).ok_or_else(beyond)
    }

    /// Writes a part of `source` into the memory.
    pub fn copy(&mut self, source: &[u8], address: u64, offset: u64, length: u64) -> SystemCallResult {
        let end = offset.checked_add(length).ok_or_else(|| Trap("copies beyond the end".into()))?;
        let part = source.get(offset as usize..end as usize).ok_or_else(|| Trap("copies beyond the end".into()))?;
        let end = address.checked_add(length).ok_or_else(beyond)?;
        self.memory.get_mut(address as usize..end as usize).ok_or_else(beyond)?.copy_from_slice(part);
        Ok(None)
    }

    /// Writes 128 bits into the memory.
    pub fn write_wide(&mut self, address: u64, value: u128) -> SystemCallResult {
        self.copy(&value.to_le_bytes(), address, 0, 16)
    }
}

fn beyond() -> Trap {
    Trap("an address beyond the end of memory".into())
}

use NumberType::{I32, I64, Word};

/// Modes of messages that are answered.
const ANSWERED: &[MessageMode] = &[Update, Query, CompositeQuery, Reply, Reject];
/// Modes of messages that may call other canisters.
const CALLING: &[MessageMode] = &[Update, CompositeQuery, Reply, Reject, Timer];

const fn function(
    name: &'static str,
    takes: &'static [NumberType],
    gives: Option<NumberType>,
    modes: &'static [MessageMode],
    work: SystemCall,
) -> SystemFunction {
    SystemFunction { name, takes, gives, modes, work }
}

const FUNCTIONS: &[SystemFunction] = &[
    function(
        "msg_arg_data_size",
        &[],
        Some(Word),
        &[Init, Update, Query, CompositeQuery, Reply, Inspect],
        messages::argument_size,
    ),
    function(
        "msg_arg_data_copy",
        &[Word, Word, Word],
        None,
        &[Init, Update, Query, CompositeQuery, Reply, Inspect],
        messages::argument_copy,
    ),
    function("msg_caller_size", &[], Some(Word), &[], messages::caller_size),
    function("msg_caller_copy", &[Word, Word, Word], None, &[], messages::caller_copy),
    function("msg_method_name_size", &[], Some(Word), &[Inspect], messages::method_size),
    function("msg_method_name_copy", &[Word, Word, Word], None, &[Inspect], messages::method_copy),
    function("accept_message", &[], None, &[Inspect], messages::accept),
    function("msg_reply_data_append", &[Word, Word], None, ANSWERED, messages::reply_append),
    function("msg_reply", &[], None, ANSWERED, messages::reply),
    function("msg_reject", &[Word, Word], None, ANSWERED, messages::reject),
    function("msg_reject_code", &[], Some(I32), &[Reply, Reject], messages::reject_code),
    function("msg_reject_msg_size", &[], Some(Word), &[Reject], messages::reject_size),
    function("msg_reject_msg_copy", &[Word, Word, Word], None, &[Reject], messages::reject_copy),
    function("msg_deadline", &[], Some(I64), &[], messages::deadline),
    function("msg_cycles_available", &[], Some(I64), &[Update, Reply, Reject], messages::cycles_available),
    function("msg_cycles_available128", &[Word], None, &[Update, Reply, Reject], messages::cycles_available_wide),
    function("msg_cycles_refunded", &[], Some(I64), &[Reply, Reject], messages::cycles_refunded),
    function("msg_cycles_refunded128", &[Word], None, &[Reply, Reject], messages::cycles_refunded_wide),
    function("msg_cycles_accept", &[I64], Some(I64), &[Update, Reply, Reject], messages::cycles_accept),
    function("msg_cycles_accept128", &[I64, I64, Word], None, &[Update, Reply, Reject], messages::cycles_accept_wide),
    function("call_new", &[Word; 8], None, CALLING, calls::begin),
    function("call_on_cleanup", &[Word, Word], None, CALLING, calls::on_cleanup),
    function("call_data_append", &[Word, Word], None, CALLING, calls::append),
    function("call_cycles_add", &[I64], None, CALLING, calls::add_cycles),
    function("call_cycles_add128", &[I64, I64], None, CALLING, calls::add_cycles_wide),
    function("call_with_best_effort_response", &[I32], None, CALLING, calls::best_effort),
    function("call_perform", &[], Some(I32), CALLING, calls::perform),
    function("canister_self_size", &[], Some(Word), &[], canister::id_size),
    function("canister_self_copy", &[Word, Word, Word], None, &[], canister::id_copy),
    function("canister_status", &[], Some(I32), &[], canister::status),
    function("canister_version", &[], Some(I64), &[], canister::version),
    function("canister_cycle_balance", &[], Some(I64), &[], canister::cycles),
    function("canister_cycle_balance128", &[Word], None, &[], canister::cycles_wide),
    function("canister_liquid_cycle_balance128", &[Word], None, &[], canister::cycles_wide),
    function("cycles_burn128", &[I64, I64, Word], None, &[Init, Update, Reply, Reject, Timer], canister::burn),
    function("subnet_self_size", &[], Some(Word), &[], canister::subnet_size),
    function("subnet_self_copy", &[Word, Word, Word], None, &[], canister::subnet_copy),
    function("is_controller", &[Word, Word], Some(I32), &[], canister::is_controller),
    function("in_replicated_execution", &[], Some(I32), &[], canister::is_replicated),
    function("time", &[], Some(I64), &[], canister::time),
    function("global_timer_set", &[I64], Some(I64), &[Init, Update, Reply, Reject, Timer], canister::set_timer),
    function("performance_counter", &[I32], Some(I64), &[], canister::performance),
    function("certified_data_set", &[Word, Word], None, &[Init, Update, Reply, Reject, Timer], canister::certify),
    function("data_certificate_present", &[], Some(I32), &[], canister::has_certificate),
    function("data_certificate_size", &[], Some(Word), &[Query, CompositeQuery], canister::certificate),
    function("data_certificate_copy", &[Word, Word, Word], None, &[Query, CompositeQuery], canister::certificate),
    function("debug_print", &[Word, Word], None, &[], canister::print),
    function("trap", &[Word, Word], None, &[], canister::trap),
    function("stable_size", &[], Some(I32), &[], storage::size),
    function("stable_grow", &[I32], Some(I32), &[], storage::grow),
    function("stable_read", &[I32, I32, I32], None, &[], storage::read),
    function("stable_write", &[I32, I32, I32], None, &[], storage::write),
    function("stable64_size", &[], Some(I64), &[], storage::size),
    function("stable64_grow", &[I64], Some(I64), &[], storage::grow_wide),
    function("stable64_read", &[I64, I64, I64], None, &[], storage::read),
    function("stable64_write", &[I64, I64, I64], None, &[], storage::write),
];

/// Defines a function that a canister imports. An unknown function traps when it is called: a module may import functions that it never uses.
pub fn provide(linker: &mut Linker<StoreData<System>>, import: FunctionImport, word: ValType) -> Result<(), RunError> {
    let FunctionImport { module, name, ty } = import;
    let full_name = format!("{module}.{name}");
    let Some(function) = FUNCTIONS.iter().find(|one| module == "ic0" && one.name == name) else {
        let defined = linker.func_new(&module, &name, ty, move |_, _, _| {
            Err(wasmi::Error::host(Trap(format!("calls {full_name}, which this host does not have"))))
        });
        return defined.map(|_| ()).map_err(|error| RunError::Failed(error.to_string()));
    };
    let width = |number: &NumberType| match number {
        NumberType::Word => word,
        NumberType::I32 => ValType::I32,
        NumberType::I64 => ValType::I64,
    };
    let expected = FuncType::new(function.takes.iter().map(width), function.gives.iter().map(width));
    if expected != ty {
        return Err(RunError::Failed(format!("imports {full_name} with another type than it has")));
    }
    let defined = linker.func_new(&module, &name, ty, move |caller, arguments, results| {
        match run(function, caller, arguments).map_err(wasmi::Error::host)? {
            Some(value) => {
                if let Some(result) = results.first_mut() {
                    *result = match result {
                        Val::I32(_) => Val::I32(value as i32),
                        _ => Val::I64(value as i64),
                    };
                }
                Ok(())
            }
            None => Ok(()),
        }
    });
    defined.map(|_| ()).map_err(|error| RunError::Failed(error.to_string()))
}

fn run(function: &SystemFunction, mut caller: Caller<'_, StoreData<System>>, arguments: &[Val]) -> SystemCallResult {
    let mode = caller.data().system.message.mode;
    let is_barred = !function.modes.is_empty() && !function.modes.contains(&mode);
    if is_barred || (mode == Start && !is_allowed_at_start(function.name)) {
        return Err(Trap(format!("ic0.{} cannot be called here ({})", function.name, in_words(mode))));
    }
    let mut numbers = [0; 8];
    for (number, argument) in numbers.iter_mut().zip(arguments) {
        *number = match argument {
            Val::I32(value) => u64::from(*value as u32),
            Val::I64(value) => *value as u64,
            _ => 0,
        };
    }
    let memory = caller.data().memory.ok_or_else(beyond)?;
    let (memory, data) = memory.data_and_store_mut(&mut caller);
    let mut context = Context { system: &mut data.system, memory };
    (function.work)(&mut context, &numbers[..arguments.len().min(8)])
}

fn is_allowed_at_start(name: &str) -> bool {
    name.starts_with("stable") || ["debug_print", "trap", "performance_counter", "is_controller"].contains(&name)
}

fn in_words(mode: MessageMode) -> &'static str {
    match mode {
        MessageMode::Start => "in the start function",
        MessageMode::Init => "in canister_init",
        MessageMode::Update => "in an update",
        MessageMode::Query => "in a query",
        MessageMode::CompositeQuery => "in a composite query",
        MessageMode::Reply => "in a reply callback",
        MessageMode::Reject => "in a reject callback",
        MessageMode::Cleanup => "in a cleanup callback",
        MessageMode::Timer => "in a timer",
        MessageMode::Inspect => "in canister_inspect_message",
    }
}
