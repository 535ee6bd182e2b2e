//! The catalog: what the handles in events and blocks stand for.

use crate::ids::{StackId, StringId, TagId, ThreadId};
use crate::stacks::{Frame, Module, StackTable};
use crate::strings::StringTable;
use rustc_hash::FxHashMap;

/// A variable name and a type name, either of which may be [`StringId::EMPTY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The variable the block is for.
    pub variable: StringId,
    /// The type the block holds.
    pub type_name: StringId,
}

/// The name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadName {
    /// Which thread.
    pub thread: ThreadId,
    /// What it is called.
    pub name: StringId,
}

/// Strings, modules, stacks, tags and thread names of one recording. Every table is append-only, so a handle never
/// changes its meaning and a file writes each entry once.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Every name.
    pub strings: StringTable,
    /// Frames and stacks.
    pub stacks: StackTable,
    /// Executables and libraries.
    pub modules: Vec<Module>,
    tags: Vec<Tag>,
    tag_ids: FxHashMap<Tag, TagId>,
    module_ids: FxHashMap<StringId, u32>,
    thread_names: Vec<ThreadName>,
    latest_names: FxHashMap<ThreadId, StringId>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            strings: StringTable::default(),
            stacks: StackTable::default(),
            modules: Vec::new(),
            tags: vec![Tag::default()],
            tag_ids: FxHashMap::from_iter([(Tag::default(), TagId::NONE)]),
            module_ids: FxHashMap::default(),
            thread_names: Vec::new(),
            latest_names: FxHashMap::default(),
        }
    }
}

/// A frame as a source knows it, before interning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameText<'a> {
    /// The function's name.
    pub function: &'a str,
    /// The source file.
    pub file: &'a str,
    /// The source line, 0 where not known.
    pub line: u32,
    /// The module's path or name.
    pub module: &'a str,
    /// The code address, 0 where not known.
    pub address: u64,
    /// True when inlined into the next outer frame.
    pub inlined: bool,
}

impl Catalog {
    /// The id of a (variable, type) pair, made if it is new.
    pub fn intern_tag(&mut self, tag: Tag) -> TagId {
        if let Some(&id) = self.tag_ids.get(&tag) {
            return id;
        }
        let id = self.push_tag(tag);
        self.tag_ids.insert(tag, id);
        id
    }

    /// Appends a tag under the next id.
    pub fn push_tag(&mut self, tag: Tag) -> TagId {
        self.tags.push(tag);
        TagId((self.tags.len() - 1) as u32)
    }

    /// A tag by its id; the empty one for an id that is not known.
    pub fn tag(&self, id: TagId) -> Tag {
        self.tags.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// All tags, by id; the first is the empty one.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// The stack of the given frames, innermost first.
    pub fn intern_stack(&mut self, innermost_first: &[FrameText<'_>]) -> StackId {
        innermost_first.iter().rev().fold(StackId::UNKNOWN, |parent, text| {
            let frame = self.intern_frame(text);
            let frame = self.stacks.intern_frame(frame);
            self.stacks.intern_child(parent, frame)
        })
    }

    fn intern_frame(&mut self, text: &FrameText<'_>) -> Frame {
        Frame {
            address: text.address,
            function: self.strings.intern(text.function),
            file: self.strings.intern(text.file),
            line: text.line,
            module: if text.module.is_empty() { 0 } else { self.intern_module(text.module) + 1 },
            inlined: text.inlined,
        }
    }

    /// The index of the module with this path, made if it is new.
    pub fn intern_module(&mut self, path: &str) -> u32 {
        let path = self.strings.intern(path);
        if self.module_ids.len() < self.modules.len() {
            // Modules that came from elsewhere; of two with one path the first counts.
            for (id, module) in (0..).zip(&self.modules) {
                self.module_ids.entry(module.path).or_insert(id);
            }
        }
        *self.module_ids.entry(path).or_insert_with(|| {
            self.modules.push(Module { path, ..Module::default() });
            self.modules.len() as u32 - 1
        })
    }

    /// The module a frame lies in.
    pub fn module_of(&self, frame: &Frame) -> Option<&Module> {
        self.modules.get(frame.module.checked_sub(1)? as usize)
    }

    /// Names a thread; a later name replaces an earlier one.
    pub fn name_thread(&mut self, thread: ThreadId, name: &str) {
        let name = self.strings.intern(name);
        self.push_thread_name(ThreadName { thread, name });
    }

    /// Appends a thread's name unless it has that name already.
    pub fn push_thread_name(&mut self, entry: ThreadName) {
        if self.latest_names.insert(entry.thread, entry.name) != Some(entry.name) {
            self.thread_names.push(entry);
        }
    }

    /// Every name given to a thread, in the order given.
    pub fn thread_names(&self) -> &[ThreadName] {
        &self.thread_names
    }

    /// The latest name of a thread; empty where it has none.
    pub fn thread_name(&self, thread: ThreadId) -> &str {
        self.latest_names.get(&thread).map_or("", |name| self.strings.get(*name))
    }

    /// The frames of a stack with their texts, innermost first.
    pub fn frame_texts(&self, stack: StackId) -> impl Iterator<Item = FrameText<'_>> {
        self.stacks.frames_of(stack).map(|frame| self.frame_text(frame))
    }

    /// A frame with its texts.
    pub fn frame_text(&self, frame: &Frame) -> FrameText<'_> {
        FrameText {
            function: self.strings.get(frame.function),
            file: self.strings.get(frame.file),
            line: frame.line,
            module: self.module_of(frame).map_or("", |module| self.strings.get(module.path)),
            address: frame.address,
            inlined: frame.inlined,
        }
    }
}
