//! A running program: a canister or a plain module, with the same interface for both.

use crate::call::ProgramCall;
use crate::candid::{Interface, decode, encode_arguments};
use crate::canister::{CallOutcome, Canister, World};
use crate::engine::{Machine, MachineLimits, RunError};
use crate::image::CapturedImage;
use crate::memory::{PAGE, PagedMemory, is_zero};
use crate::module::HostModule;
use crate::plain::PlainModule;
use crate::system::CanisterResponse;
use highwater_image::{Sidecar, SystemState};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Options for starting a program.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    /// Its limits.
    pub limits: MachineLimits,
    /// A canister's inputs besides its calls.
    pub world: World,
    /// The argument of a canister's `canister_init`, in Candid's text format.
    pub argument: String,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self { limits: MachineLimits::default(), world: World::default(), argument: "()".into() }
    }
}

/// The result of a call that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallReply {
    /// The reply as text; none if only time passed.
    pub reply: Option<String>,
    /// Lines that the program printed.
    pub printed: Vec<String>,
    /// Errors besides that of the call itself, one line each.
    pub troubles: Vec<String>,
}

/// Why a call failed, and the lines that the program printed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The reason, in one line.
    pub line: String,
    /// Lines printed before the failure.
    pub printed: Vec<String>,
}

/// A running program: a canister or a plain module, with its calls so far.
pub struct HostedProgram {
    kind: ProgramKind,
    calls: Vec<String>,
}

enum ProgramKind {
    Canister { canister: Box<Canister>, interface: Option<Interface> },
    Plain(Box<PlainModule>),
}

/// The interface of a module, if it has one that can be parsed.
fn interface_of(module: &HostModule) -> Option<Interface> {
    Interface::parse(module.facts.interface.as_deref()?).ok()
}

impl HostedProgram {
    /// Starts a module.
    pub fn start(module: HostModule, options: &ProgramOptions) -> Result<Self, RunError> {
        let kind = if module.facts.is_canister {
            let interface = interface_of(&module);
            let argument = encode_arguments(&options.argument, None);
            let argument = argument.map_err(|error| RunError::Failed(format!("the argument: {error}")))?;
            let canister = Canister::new(module, options.limits, options.world, &argument)?;
            ProgramKind::Canister { canister: Box::new(canister), interface }
        } else {
            ProgramKind::Plain(Box::new(PlainModule::new(module, options.limits)?))
        };
        Ok(Self { kind, calls: Vec::new() })
    }

    /// Continues from an image: none of the module's initialization runs again.
    pub fn load(module: HostModule, options: &ProgramOptions, image: &Path) -> Result<Self, RunError> {
        let failed = |line: String| RunError::Failed(line);
        let sidecar = Sidecar::read(image).map_err(|error| failed(error.to_string()))?;
        let shown = image.display();
        if sidecar.module_sha256.as_ref() != Some(&module.sha256) {
            let (wanted, given) = (sidecar.module_name.unwrap_or_default(), &module.name);
            return Err(failed(format!(
                "{shown} is an image of another module ('{wanted}') than '{given}': their hashes differ"
            )));
        }
        let cannot = |error: io::Error| RunError::Failed(format!("{shown}: {error}"));
        let file = File::open(image).map_err(cannot)?;
        let bytes = file.metadata().map_err(cannot)?.len();
        let (stated, kind) = (sidecar.memory_bytes.unwrap_or(0), sidecar.memory_kind.unwrap_or_default());
        if bytes != stated || kind != module.facts.memory.key() {
            return Err(failed(format!("{shown} has {bytes} bytes, and its sidecar speaks of {stated} ({kind})")));
        }
        let mut globals = Vec::with_capacity(module.facts.globals.len());
        for global in &module.facts.globals {
            let bits = sidecar.globals.get(&global.name).copied();
            if bits.is_none() && global.is_mutable {
                return Err(failed(format!("the sidecar of {shown} lacks the global '{}'", global.name)));
            }
            globals.push(bits);
        }
        let read = |memory: &mut PagedMemory| read_sparse(&file, bytes, memory);
        let kind = if module.facts.is_canister {
            let interface = interface_of(&module);
            let mut canister = Box::new(Canister::idle(module, options.limits, options.world)?);
            canister.machine_mut().load(bytes, &globals, read)?;
            if let Some(state) = sidecar.system {
                let system = canister.machine_mut().system();
                system.time_ns = state.time_ns;
                system.settings.timer_ns = state.timer_ns;
                system.performance = state.performance;
                if system.stable.grow(state.stable_pages).is_some() {
                    system.stable.commit();
                }
            }
            ProgramKind::Canister { canister, interface }
        } else {
            let mut plain = Box::new(PlainModule::idle(module, options.limits)?);
            plain.machine_mut().load(bytes, &globals, read)?;
            ProgramKind::Plain(plain)
        };
        Ok(Self { kind, calls: sidecar.calls })
    }

    /// The module.
    pub fn module(&self) -> &HostModule {
        match &self.kind {
            ProgramKind::Canister { canister, .. } => canister.machine().about(),
            ProgramKind::Plain(plain) => plain.machine().about(),
        }
    }

    /// The calls so far.
    pub fn calls(&self) -> &[String] {
        &self.calls
    }

    /// The size of its memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match &self.kind {
            ProgramKind::Canister { canister, .. } => canister.machine().memory_bytes(),
            ProgramKind::Plain(plain) => plain.machine().memory_bytes(),
        }
    }

    /// Lets time pass, then calls a method, as `call` says.
    pub fn call(&mut self, call: &ProgramCall) -> Result<CallReply, Failed> {
        let answer = match &mut self.kind {
            ProgramKind::Canister { canister, interface } => call_canister(canister, interface.as_ref(), call),
            ProgramKind::Plain(plain) => call_plain(plain, call),
        };
        self.calls.push(call.to_string());
        answer
    }

    /// Captures the memory as it is now; equal pages are shared with the image `before`.
    pub fn capture(&self, before: Option<&CapturedImage>) -> io::Result<CapturedImage> {
        match &self.kind {
            ProgramKind::Canister { canister, .. } => capture(canister.machine(), before),
            ProgramKind::Plain(plain) => capture(plain.machine(), before),
        }
    }

    /// The state that is not in the memory, for a snapshot with this number and time.
    pub fn sidecar(&self, id: u64, time_unix_ns: u64) -> Sidecar {
        let module = self.module();
        let (globals, system) = match &self.kind {
            ProgramKind::Canister { canister, .. } => {
                let system = canister.machine().system_ref();
                let state = SystemState {
                    time_ns: system.time_ns,
                    timer_ns: system.settings.timer_ns,
                    performance: system.performance,
                    stable_pages: system.stable.pages(),
                };
                (canister.machine().globals(), Some(state))
            }
            ProgramKind::Plain(plain) => (plain.machine().globals(), None),
        };
        let named =
            module.facts.globals.iter().zip(globals).filter_map(|(about, bits)| Some((about.name.clone(), (*bits)?)));
        Sidecar {
            module_name: Some(module.name.clone()),
            module_sha256: Some(module.sha256.clone()),
            snapshot_id: Some(id),
            time_unix_ns: Some(time_unix_ns),
            memory_kind: Some(module.facts.memory.key().to_owned()),
            memory_bytes: Some(self.memory_bytes()),
            heap_start: module.facts.heap_start,
            globals: named.collect(),
            calls: self.calls.clone(),
            system,
        }
    }
}

fn capture<S: Default>(machine: &Machine<S>, before: Option<&CapturedImage>) -> io::Result<CapturedImage> {
    CapturedImage::capture(machine.memory(), machine.memory_bytes(), before)
}

/// Copies a file into a memory of zeros, without its zero pages.
fn read_sparse(file: &File, bytes: u64, memory: &mut PagedMemory) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        // Skips holes if the file system reports them.
        match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(next) => at = next / PAGE as u64 * PAGE as u64,
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => {}
        }
        let part = &mut buffer[..bytes.saturating_sub(at).min(1 << 20) as usize];
        file.read_exact_at(part, at)?;
        for (index, page) in part.chunks(PAGE).enumerate() {
            if !is_zero(page) {
                memory.write(at + (index * PAGE) as u64, page)?;
            }
        }
        at += part.len() as u64;
    }
    Ok(())
}

fn call_canister(
    canister: &mut Canister,
    interface: Option<&Interface>,
    call: &ProgramCall,
) -> Result<CallReply, Failed> {
    let mut all = CallReply::default();
    let plain_failure = |line: String| Failed { line, printed: Vec::new() };
    // Arguments are checked before anything runs.
    let method = match &call.method {
        Some((name, text)) => {
            let known = interface.map(|interface| (interface, name.as_str()));
            let argument = encode_arguments(text, known).map_err(|error| plain_failure(format!("{name}: {error}")))?;
            Some((name, argument))
        }
        None => None,
    };
    if call.after_ns > 0 {
        let CallOutcome { printed, troubles, .. } =
            canister.pass(call.after_ns).map_err(|error| plain_failure(error.to_string()))?;
        all.printed = printed;
        all.troubles = troubles;
    }
    let Some((name, argument)) = method else { return Ok(all) };
    let answered = canister.call(name, &argument).map_err(|error| plain_failure(error.to_string()))?;
    all.printed.extend(answered.printed);
    all.troubles.extend(answered.troubles);
    match answered.response {
        Some(CanisterResponse::Reply(bytes)) => {
            let names = &canister.machine().about().facts.labels;
            let unreadable = |_| format!("{} bytes: {}", bytes.len(), crate::module::hexadecimal(&bytes));
            all.reply = Some(decode(&bytes, names).unwrap_or_else(unreadable));
            Ok(all)
        }
        Some(CanisterResponse::Reject { code, message }) => {
            let line = format!("{name} was refused (code {code}): {}", one_line(&message));
            Err(Failed { line, printed: all.printed })
        }
        None => Err(Failed { line: format!("{name} was not answered"), printed: all.printed }),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn call_plain(plain: &mut PlainModule, call: &ProgramCall) -> Result<CallReply, Failed> {
    let fail = |line: String, printed: Vec<String>| Failed { line, printed };
    let Some((name, text)) = &call.method else {
        return Err(fail("a plain module has no time that could pass".into(), Vec::new()));
    };
    let list = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let numbers = list.and_then(|list| {
        let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(|item| item.replace('_', "").parse::<i128>().ok()).collect::<Option<Vec<_>>>()
    });
    let Some(numbers) = numbers else {
        return Err(fail(format!("{name}: {text} are no whole numbers; a plain module takes no others"), Vec::new()));
    };
    let called = plain.call(name, &numbers);
    let printed = plain.take_printed();
    match called {
        Ok(results) => {
            Ok(CallReply { reply: Some(format!("({})", results.join(", "))), printed, troubles: Vec::new() })
        }
        Err(RunError::Failed(line)) => Err(fail(line, printed)),
        Err(stop) => Err(fail(format!("{name} {stop}"), printed)),
    }
}
