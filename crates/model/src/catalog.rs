//! The catalog: the meaning of the handles in events and blocks.

use crate::heap::Heap;
use crate::ids::{FrameId, Nanos, StackId, StringId, TagId, ThreadId};
use crate::stacks::{ColumnRange, Frame, Module, StackTable};
use crate::strings::StringTable;
use crate::type_facts::TypeFacts;
use rustc_hash::FxHashMap;

/// A variable name, a type name and a task, each of which may be [`StringId::EMPTY`], and a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The variable the block is for.
    pub variable: StringId,
    /// The type the block holds.
    pub type_name: StringId,
    /// The heap the block lies in.
    pub heap: Heap,
    /// The task that allocated the block, or last resized it: a part of the program's work, whichever threads do it.
    pub task: StringId,
}

/// The name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadName {
    /// Which thread.
    pub thread: ThreadId,
    /// What it is called.
    pub name: StringId,
}

/// Strings, modules, stacks, tags and thread names of one recording. Every table is append-only, so a handle never changes its meaning and a file
/// stores each entry once. Facts that become known later (a thread's name, a frame's [resolution](StackTable::resolve), the time a module was
/// unloaded) are entries of separate tables.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Every name.
    pub strings: StringTable,
    /// Frames and stacks.
    pub stacks: StackTable,
    /// Executables and libraries.
    pub modules: Vec<Module>,
    /// What debug information says of types.
    pub types: TypeFacts,
    tags: Vec<Tag>,
    tag_ids: FxHashMap<Tag, TagId>,
    module_ids: FxHashMap<StringId, u32>,
    modules_known: usize,
    module_changes: Vec<u32>,
    thread_names: Vec<ThreadName>,
    latest_names: FxHashMap<ThreadId, StringId>,
    /// See [`Catalog::no_task`]; [`TagId::NONE`] until it is asked for.
    no_task: TagId,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            strings: StringTable::default(),
            stacks: StackTable::default(),
            modules: Vec::new(),
            types: TypeFacts::default(),
            tags: vec![Tag::default()],
            tag_ids: FxHashMap::from_iter([(Tag::default(), TagId::NONE)]),
            module_ids: FxHashMap::default(),
            modules_known: 0,
            module_changes: Vec::new(),
            thread_names: Vec::new(),
            latest_names: FxHashMap::default(),
            no_task: TagId::NONE,
        }
    }
}

/// The suffix of the function name of a frame whose location is a guess: the likeliest reading of damaged bytes. It is part of the name, so every
/// output and every file has it.
pub const GUESSED: &str = " [guessed]";

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
    /// The module's build id. Belongs to the module: interning a frame ignores it.
    pub build_id: &'a str,
    /// The code address, 0 where not known.
    pub address: u64,
    /// Where in the module's file the address lies, if the module's mapping is known. Follows from the address: interning a frame
    /// ignores it.
    pub offset: Option<u64>,
    /// True when inlined into the next outer frame.
    pub inlined: bool,
    /// The columns of the source line.
    pub columns: ColumnRange,
}

impl FrameText<'_> {
    /// True where the location is a guess.
    pub fn is_guessed(&self) -> bool {
        self.function.ends_with(GUESSED)
    }
}

impl Catalog {
    /// The id of a tag, made if it is new.
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

    /// Sets the heap of a tag. A file reader uses this, because a file stores the heap after the tag. Returns false, and changes nothing, if there is
    /// no such tag or it is the empty one.
    pub fn set_heap(&mut self, id: TagId, heap: Heap) -> bool {
        match self.tags.get_mut(id.0 as usize) {
            Some(tag) if id != TagId::NONE => {
                tag.heap = heap;
                true
            }
            _ => false,
        }
    }

    /// Sets the task of a tag, as [`Self::set_heap`] sets its heap.
    pub fn set_task(&mut self, id: TagId, task: StringId) -> bool {
        match self.tags.get_mut(id.0 as usize) {
            Some(tag) if id != TagId::NONE => {
                tag.task = task;
                true
            }
            _ => false,
        }
    }

    /// A tag that says that nothing is known of a block, and that it belongs to no task. A block that is resized keeps its tag if the new one is
    /// [`TagId::NONE`]; this one takes it away.
    pub fn no_task(&mut self) -> TagId {
        if self.tags.get(self.no_task.0 as usize) != Some(&Tag::default()) || self.no_task == TagId::NONE {
            let known = self.tags.iter().skip(1).position(|tag| *tag == Tag::default());
            self.no_task = known.map_or_else(|| self.push_tag(Tag::default()), |at| TagId(at as u32 + 1));
        }
        self.no_task
    }

    /// True if the source names the types of some blocks itself.
    pub fn has_named_types(&self) -> bool {
        self.tags.iter().any(|tag| tag.type_name != StringId::EMPTY)
    }

    /// True if some block may belong to a task.
    pub fn has_tasks(&self) -> bool {
        self.tags.iter().any(|tag| tag.task != StringId::EMPTY)
    }

    /// The stack of the given frames, innermost first.
    pub fn intern_stack(&mut self, innermost_first: &[FrameText<'_>]) -> StackId {
        innermost_first.iter().rev().fold(StackId::UNKNOWN, |parent, text| {
            let frame = self.intern_frame(text);
            let frame = self.stacks.intern_frame(frame);
            self.stacks.intern_child(parent, frame)
        })
    }

    /// Sets the frames that a recorded frame, of which only the address was known, stands for; innermost first. They keep its address and module; see
    /// [`StackTable::resolve`].
    pub fn resolve(&mut self, frame: FrameId, innermost_first: &[FrameText<'_>]) -> bool {
        let Some(&recorded) = self.stacks.frame(frame) else { return false };
        let Frame { address, module, .. } = recorded;
        let frames: Vec<Frame> = innermost_first
            .iter()
            .map(|text| Frame { address, module, ..self.intern_frame(&FrameText { module: "", ..*text }) })
            .collect();
        self.stacks.resolve(frame, &frames)
    }

    /// The frame of a text. Its names are interned.
    pub fn intern_frame(&mut self, text: &FrameText<'_>) -> Frame {
        Frame {
            address: text.address,
            function: self.strings.intern(text.function),
            file: self.strings.intern(text.file),
            line: text.line,
            module: if text.module.is_empty() { 0 } else { self.intern_module(text.module) + 1 },
            inlined: text.inlined,
            columns: text.columns,
        }
    }

    /// The index of the module with this path, made if it is new.
    pub fn intern_module(&mut self, path: &str) -> u32 {
        let path = self.strings.intern(path);
        // Modules that were added elsewhere. Of two with the same path, the first counts.
        for (id, module) in (0..).zip(&self.modules).skip(self.modules_known) {
            self.module_ids.entry(module.path).or_insert(id);
        }
        let id = *self.module_ids.entry(path).or_insert_with(|| {
            self.modules.push(Module { path, ..Module::default() });
            self.modules.len() as u32 - 1
        });
        self.modules_known = self.modules.len();
        id
    }

    /// Appends a module and returns its index. A module that is loaded again, perhaps at another address, is a new entry with the same path.
    pub fn add_module(&mut self, module: Module) -> u32 {
        self.modules.push(module);
        self.modules.len() as u32 - 1
    }

    /// Marks a module as unloaded. Returns false, and changes nothing, if there is no such module.
    pub fn set_module_unloaded(&mut self, index: u32, time: Nanos) -> bool {
        let Some(module) = self.modules.get(index as usize) else { return false };
        self.set_module_times(index, module.loaded, Some(time))
    }

    /// Sets the times at which a module was loaded and unloaded. Returns false, and changes nothing, if there is no such module.
    pub fn set_module_times(&mut self, index: u32, loaded: Nanos, unloaded: Option<Nanos>) -> bool {
        let Some(module) = self.modules.get_mut(index as usize) else { return false };
        if (module.loaded, module.unloaded) != (loaded, unloaded) {
            (module.loaded, module.unloaded) = (loaded, unloaded);
            self.module_changes.push(index);
        }
        true
    }

    /// The modules whose times were changed, in the order of the changes. A file writer uses this to update entries that it has already written.
    pub fn module_changes(&self) -> &[u32] {
        &self.module_changes
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
        let module = self.module_of(frame);
        FrameText {
            function: self.strings.get(frame.function),
            file: self.strings.get(frame.file),
            line: frame.line,
            module: module.map_or("", |module| self.strings.get(module.path)),
            build_id: module.map_or("", |module| self.strings.get(module.build_id)),
            address: frame.address,
            offset: module.and_then(|module| module.offset_of(frame.address)),
            inlined: frame.inlined,
            columns: frame.columns,
        }
    }
}
