//! Native call stacks, and stacks of Python and native calls together.
//!
//! memray records a stack of native return addresses and one of Python calls. A loop of Python's interpreter appears in the native stack
//! wherever Python code was entered: the Python calls that it runs are put in its place, from the outermost inwards. If that does not work out, because
//! the interpreter's functions have no names, the stack has the Python calls only. memray's own reports do the same.

use super::python::{PythonCallId, PythonStacks};
use crate::modules::LoadedModules;
use highwater_model::{Catalog, Frame, FrameId, StackId, ThreadId};
use highwater_symbols::{Symbolizer, mapping_of};
use std::collections::HashMap;

/// Limit for the number of calls of a native stack. Outer ones are left out.
const DEEPEST: usize = 2048;

/// A native call, and the number of its caller, from 1; 0 if it has none.
struct NativeCall {
    address: u64,
    caller: u64,
}

/// A native return address, in the module that is loaded there.
#[derive(Clone, Copy)]
struct NativeFrame {
    frame: FrameId,
    /// True for the loop of Python's interpreter.
    is_interpreter: bool,
}

/// Native calls and modules.
pub(super) struct NativeStacks {
    calls: Vec<NativeCall>,
    pub modules: LoadedModules,
    symbolizer: Symbolizer,
    /// By address and number of the module.
    frames: HashMap<(u64, u32), NativeFrame>,
    /// By Python call and native call, since the modules last changed.
    joined: HashMap<(PythonCallId, u64), StackId>,
    /// Stacks whose native calls were left out, and all stacks.
    pub unjoined: u64,
    pub all: u64,
}

impl NativeStacks {
    pub fn new() -> Self {
        Self {
            calls: Vec::new(),
            modules: LoadedModules::default(),
            symbolizer: Symbolizer::with_users_cache(),
            frames: HashMap::new(),
            joined: HashMap::new(),
            unjoined: 0,
            all: 0,
        }
    }

    pub fn add_call(&mut self, address: u64, caller: u64) {
        self.calls.push(NativeCall { address, caller });
    }

    /// All modules are listed anew.
    pub fn clear_modules(&mut self) {
        self.modules.clear();
        self.joined.clear();
    }

    /// The stack of a Python call and a native call.
    pub fn join(
        &mut self,
        catalog: &mut Catalog,
        python: &PythonStacks,
        thread: ThreadId,
        call: PythonCallId,
        native: u64,
    ) -> StackId {
        let python_stack = python.call(call).stack;
        if native == 0 {
            return python_stack;
        }
        if let Some(stack) = self.joined.get(&(call, native)) {
            return *stack;
        }
        let stack = self.joined_stack(catalog, python, thread, call, native);
        self.all += 1;
        self.unjoined += u64::from(stack.is_none());
        let stack = stack.unwrap_or(python_stack);
        self.joined.insert((call, native), stack);
        stack
    }

    fn joined_stack(
        &mut self,
        catalog: &mut Catalog,
        python: &PythonStacks,
        thread: ThreadId,
        call: PythonCallId,
        native: u64,
    ) -> Option<StackId> {
        let frames = self.frames_from(catalog, native);
        if python.call(call).depth > DEEPEST as u64 {
            return None;
        }
        // From the outermost inwards.
        let mut calls: Vec<_> = python.calls_from(call).collect();
        calls.reverse();
        let skipped = usize::try_from(python.skipped_in(thread)).unwrap_or(usize::MAX);
        let (mut stack, mut at) = (StackId::UNKNOWN, 0);
        for NativeFrame { frame, is_interpreter } in frames.into_iter().rev() {
            if !is_interpreter || at == calls.len() {
                stack = catalog.stacks.intern_child(stack, frame);
                continue;
            }
            loop {
                if at == skipped {
                    // Everything above belongs to memray.
                    stack = StackId::UNKNOWN;
                }
                stack = catalog.stacks.intern_child(stack, calls[at].frame);
                at += 1;
                if at == calls.len() || calls[at].is_entry {
                    break;
                }
            }
        }
        (at == calls.len()).then_some(stack)
    }

    /// The frames of a native stack, innermost first.
    fn frames_from(&mut self, catalog: &mut Catalog, innermost: u64) -> Vec<NativeFrame> {
        let mut frames = Vec::new();
        let mut number = innermost;
        while frames.len() < DEEPEST {
            let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
            let Some(call) = index.and_then(|index| self.calls.get(index)) else { break };
            let (address, caller) = (call.address, call.caller);
            frames.push(self.frame(catalog, address));
            // A caller is written before the calls that it makes.
            if caller >= number {
                break;
            }
            number = caller;
        }
        frames
    }

    fn frame(&mut self, catalog: &mut Catalog, address: u64) -> NativeFrame {
        let module = self.modules.number_of(address);
        if let Some(frame) = self.frames.get(&(address, module)) {
            return *frame;
        }
        let is_interpreter = module.checked_sub(1).is_some_and(|module| self.is_interpreter(catalog, address, module));
        let frame = catalog.stacks.intern_frame(Frame { address, module, ..Frame::default() });
        let frame = NativeFrame { frame, is_interpreter };
        self.frames.insert((address, module), frame);
        frame
    }

    fn is_interpreter(&mut self, catalog: &Catalog, address: u64, module: u32) -> bool {
        let Some(module) = catalog.modules.get(module as usize).filter(|_| self.modules.is_on_disk(module)) else {
            return false;
        };
        let Ok(symbols) = self.symbolizer.module(&mapping_of(catalog, module)) else { return false };
        // A return address lies after its call.
        let frames = symbols.lookup(address.wrapping_sub(1));
        frames.iter().any(|frame| is_interpreter_loop(&frame.function))
    }

    /// Finds names for all native frames. Returns a sentence about missing ones.
    pub fn find_names(mut self, catalog: &mut Catalog) -> Option<String> {
        self.modules.find_names(catalog, &mut self.symbolizer)
    }
}

/// The function that runs Python code. Since Python 3.14 it may be compiled as many functions that call each other.
fn is_interpreter_loop(function: &str) -> bool {
    function.contains("_PyEval_EvalFrameDefault") || function.starts_with("_TAIL_CALL_")
}
