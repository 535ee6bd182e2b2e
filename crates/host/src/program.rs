//! A running program: a canister or a plain module, with the same interface for both.

use crate::call::ProgramCall;
use crate::candid::{Interface, decode, encode_arguments};
use crate::canister::{CallOutcome, Canister, World};
use crate::content::{MemoryContent, MemoryFile};
use crate::engine::{Machine, MachineLimits, RunError};
use crate::image::CapturedImage;
use crate::memory::PagedMemory;
use crate::module::HostModule;
use crate::plain::PlainModule;
use crate::system::CanisterResponse;
use highwater_image::canister::WASM_PAGE;
use highwater_image::{ImageParts, Sidecar, SystemState, hexadecimal};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
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

/// The state of a program at one instant, from which it can continue.
pub struct ProgramState<'a> {
    /// The facts that no memory contains. All of them must be there, except the module's.
    pub sidecar: Sidecar,
    /// Its memory.
    pub memory: &'a dyn MemoryContent,
    /// The stable memory of a canister.
    pub stable: Option<&'a dyn MemoryContent>,
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

    /// Continues from an image, given by its file or its folder: none of the module's initialization runs again.
    pub fn load(module: HostModule, options: &ProgramOptions, image: &Path) -> Result<Self, RunError> {
        let failed = |line: String| RunError::Failed(line);
        let parts = ImageParts::find(image, None).map_err(|error| failed(error.to_string()))?;
        let shown = image.display();
        let is_same = match &parts.folder {
            Some(folder) => {
                let content = folder.module_content().map_err(|error| failed(error.to_string()))?;
                hexadecimal(&Sha256::digest(content)) == module.unpacked_sha256
            }
            None => parts.sidecar.module_sha256.as_ref() == Some(&module.sha256),
        };
        // A sidecar that is missing or incomplete is a fault of its own.
        let sidecar = match &parts.folder {
            Some(_) => parts.sidecar,
            None => Sidecar::read(image).map_err(|error| failed(error.to_string()))?,
        };
        if !is_same {
            let wanted = sidecar.module_name.map_or_else(String::new, |name| format!(" ('{name}')"));
            return Err(failed(format!(
                "{shown} is an image of another module{wanted} than '{}': their hashes differ",
                module.name
            )));
        }
        let open = |path: &Path| {
            let opened = File::open(path).and_then(MemoryFile::new);
            opened.map_err(|error| failed(format!("{}: {error}", path.display())))
        };
        let memory = open(&parts.memory)?;
        let (bytes, stated) = (memory.bytes(), sidecar.memory_bytes.unwrap_or(0));
        if bytes != stated {
            return Err(failed(format!("{shown} has {bytes} bytes, and its sidecar speaks of {stated}")));
        }
        let stable = parts.stable.as_deref().map(open).transpose()?;
        let pages = sidecar.system.as_ref().map_or(0, |system| system.stable_pages);
        let there = stable.as_ref().map_or(0, MemoryContent::bytes) / WASM_PAGE;
        if pages != there {
            let path = Sidecar::stable_path_of(image);
            return Err(failed(format!(
                "{} has {there} pages of stable memory, and the sidecar of {shown} speaks of {pages}",
                path.display()
            )));
        }
        let stable = stable.as_ref().map(|stable| stable as &dyn MemoryContent);
        let state = ProgramState { sidecar, memory: &memory, stable };
        Self::resume(module, options, state).map_err(|error| failed(format!("{shown}: {error}")))
    }

    /// Continues from the parts of a state: none of the module's initialization runs again.
    pub fn resume(module: HostModule, options: &ProgramOptions, state: ProgramState<'_>) -> Result<Self, RunError> {
        let ProgramState { sidecar, memory, stable } = state;
        let kind = sidecar.memory_kind.unwrap_or_default();
        if kind != module.facts.memory.key() {
            return Err(RunError::Failed(format!("its memory is of another kind ({kind}) than that of the module")));
        }
        let mut globals = Vec::with_capacity(module.facts.globals.len());
        for global in &module.facts.globals {
            let bits = sidecar.globals.get(&global.name).copied();
            if bits.is_none() && global.is_mutable {
                return Err(RunError::Failed(format!("its sidecar lacks the global '{}'", global.name)));
            }
            globals.push(bits);
        }
        let read = |paged: &mut PagedMemory| memory.pages(&mut |at, page| paged.write(at, page));
        let kind = if module.facts.is_canister {
            let interface = interface_of(&module);
            let mut canister = Box::new(Canister::idle(module, options.limits, options.world)?);
            canister.machine_mut().load(memory.bytes(), &globals, read)?;
            let system = canister.machine_mut().system();
            if let Some(state) = sidecar.system {
                system.time_ns = state.time_ns;
                system.settings.timer_ns = state.timer_ns;
                system.settings.certified = state.certified_data;
                system.performance = state.performance;
                system.version = state.version;
            }
            if let Some(stable) = stable {
                system.stable.load(stable)?;
            }
            ProgramKind::Canister { canister, interface }
        } else {
            let mut plain = Box::new(PlainModule::idle(module, options.limits)?);
            plain.machine_mut().load(memory.bytes(), &globals, read)?;
            ProgramKind::Plain(plain)
        };
        Ok(Self { kind, calls: sidecar.calls })
    }

    /// A canister that runs already, with its calls so far.
    pub(crate) fn of_canister(canister: Canister, calls: Vec<String>) -> Self {
        let interface = interface_of(canister.machine().about());
        Self { kind: ProgramKind::Canister { canister: Box::new(canister), interface }, calls }
    }

    /// The canister; none for a plain module.
    pub fn canister(&self) -> Option<&Canister> {
        match &self.kind {
            ProgramKind::Canister { canister, .. } => Some(canister),
            ProgramKind::Plain(_) => None,
        }
    }

    /// The same, mutable.
    pub(crate) fn canister_mut(&mut self) -> Option<&mut Canister> {
        match &mut self.kind {
            ProgramKind::Canister { canister, .. } => Some(canister),
            ProgramKind::Plain(_) => None,
        }
    }

    /// Notes a call that was made of the canister itself.
    pub(crate) fn note_call(&mut self, call: &ProgramCall) {
        self.calls.push(call.to_string());
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

    /// The stable memory as it is now; empty for a plain module.
    pub fn capture_stable(&self) -> CapturedImage {
        match &self.kind {
            ProgramKind::Canister { canister, .. } => canister.machine().system_ref().stable.capture(),
            ProgramKind::Plain(_) => CapturedImage::default(),
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
                    certified_data: system.settings.certified.clone(),
                    version: system.version,
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
            let unreadable = |_| format!("{} bytes: {}", bytes.len(), hexadecimal(&bytes));
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
