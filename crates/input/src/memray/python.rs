//! Python's call stacks.

use super::line_table::line_of;
use highwater_model::{Catalog, FrameId, FrameText, StackId, ThreadId};
use std::collections::HashMap;

/// A Python function.
pub(super) struct PythonFunction {
    pub name: String,
    pub file: String,
    pub first_line: i64,
    pub line_table: Vec<u8>,
}

/// A call with its callers: a node of a trie, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PythonCallId(u32);

/// No call is known, in the main thread and in all others.
const ROOTS: [PythonCallId; 2] = [PythonCallId(0), PythonCallId(1)];

#[derive(Clone, Copy)]
pub(super) struct PythonCall {
    parent: PythonCallId,
    pub frame: FrameId,
    /// True if the interpreter's loop was entered for it; false if the loop that runs its caller also runs it.
    pub is_entry: bool,
    /// The number of calls on the stack.
    pub depth: u64,
    /// The stack without memray's own calls.
    pub stack: StackId,
}

/// The calls of all threads.
pub(super) struct PythonStacks {
    python: u32,
    main_thread: ThreadId,
    skipped_calls: u64,
    functions: HashMap<u64, PythonFunction>,
    frames: HashMap<(u64, i64), FrameId>,
    calls: Vec<PythonCall>,
    ids: HashMap<(PythonCallId, u64, i64, bool), PythonCallId>,
    /// By thread: the calls on its stack, outermost first.
    threads: HashMap<ThreadId, Vec<PythonCallId>>,
}

impl PythonStacks {
    pub fn new(python: u32, main_thread: ThreadId, skipped_calls: u64) -> Self {
        let root =
            |parent| PythonCall { parent, frame: FrameId::LOST, is_entry: true, depth: 0, stack: StackId::UNKNOWN };
        Self {
            python,
            main_thread,
            skipped_calls,
            functions: HashMap::new(),
            frames: HashMap::new(),
            calls: ROOTS.map(root).to_vec(),
            ids: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    pub fn define(&mut self, number: u64, function: PythonFunction) {
        self.functions.insert(number, function);
    }

    /// The innermost call of a thread.
    pub fn innermost(&self, thread: ThreadId) -> PythonCallId {
        let stack = self.threads.get(&thread);
        stack.and_then(|stack| stack.last().copied()).unwrap_or(ROOTS[usize::from(thread != self.main_thread)])
    }

    pub fn call(&self, id: PythonCallId) -> PythonCall {
        self.calls[id.0 as usize]
    }

    /// The calls of a stack, innermost first.
    pub fn calls_from(&self, innermost: PythonCallId) -> impl Iterator<Item = PythonCall> {
        let mut at = self.call(innermost);
        std::iter::from_fn(move || {
            let call = at;
            at = self.call(call.parent);
            (call.depth > 0).then_some(call)
        })
    }

    /// The number of outermost calls of a thread that belong to memray.
    pub fn skipped_in(&self, thread: ThreadId) -> u64 {
        if thread == self.main_thread { self.skipped_calls } else { 0 }
    }

    pub fn push(&mut self, catalog: &mut Catalog, thread: ThreadId, function: u64, offset: i64, is_entry: bool) {
        let parent = self.innermost(thread);
        let key = (parent, function, offset, is_entry);
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.add(catalog, thread, key);
                self.ids.insert(key, id);
                id
            }
        };
        self.threads.entry(thread).or_default().push(id);
    }

    fn add(
        &mut self,
        catalog: &mut Catalog,
        thread: ThreadId,
        (parent, function, offset, is_entry): (PythonCallId, u64, i64, bool),
    ) -> PythonCallId {
        let frame = self.frame(catalog, function, offset);
        let above = self.call(parent);
        let depth = above.depth + 1;
        let is_skipped = depth <= self.skipped_in(thread);
        let stack = if is_skipped { StackId::UNKNOWN } else { catalog.stacks.intern_child(above.stack, frame) };
        self.calls.push(PythonCall { parent, frame, is_entry, depth, stack });
        PythonCallId((self.calls.len() - 1) as u32)
    }

    fn frame(&mut self, catalog: &mut Catalog, function: u64, offset: i64) -> FrameId {
        let Self { python, functions, frames, .. } = self;
        *frames.entry((function, offset)).or_insert_with(|| {
            let known = functions.get(&function);
            let frame = catalog.intern_frame(&known.map_or_else(FrameText::default, |known| FrameText {
                function: &known.name,
                file: &known.file,
                line: line_of(*python, &known.line_table, known.first_line, offset),
                ..FrameText::default()
            }));
            catalog.stacks.intern_frame(frame)
        })
    }

    /// The innermost calls of a thread have returned. False if it had fewer.
    pub fn pop(&mut self, thread: ThreadId, count: usize) -> bool {
        let stack = self.threads.entry(thread).or_default();
        let left = stack.len().checked_sub(count);
        stack.truncate(left.unwrap_or(0));
        left.is_some()
    }
}
