//! Resolves the agent's numbers: modules, tasks, and stack nodes as stacks and tags of the recording's catalog.

use crate::file_code::FileCode;
use crate::jit_names::JitNames;
use crate::perf_map_file::PerfMapFile;
use crate::session_memory::SessionMemory;
use highwater_model::{Catalog, Frame, Heap, Module, Nanos, StackId, StringId, Tag, TagId};
use highwater_shm::modules_v1::{FIXED_WORDS, LOADED, LONGEST_BUILD_ID, LONGEST_PATH, LONGEST_TASK, TASK, UNLOADED};
use highwater_shm::stacks_v1::TASK_BIT;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Replaces an address where a stack was truncated.
const CUT: u64 = 1;

/// A module of the program, and the generations in which it was loaded.
struct ModuleGenerations {
    start: u64,
    end: u64,
    first_generation: u32,
    /// The first generation without it.
    gone: u32,
    /// Its index in the catalog.
    index: u32,
}

/// The maximum number of modules checked for an address, nearest first: in a sound log the first one or, after some were unloaded, one of the next.
const MOST_LOOKS: usize = 256;

/// Names of one process.
#[derive(Default)]
pub struct SessionNames {
    /// In load order.
    modules: Vec<ModuleGenerations>,
    /// The same by their start: indexes in `modules`.
    by_start: BTreeMap<u64, Vec<usize>>,
    module_bytes: usize,
    /// By node: its stack in the catalog; unknown for nodes not looked up yet.
    stacks: Vec<StackId>,
    /// By node of a task: its tags, of blocks and of mappings.
    tags: BTreeMap<u32, [TagId; 2]>,
    /// The names of tasks by their number.
    tasks: BTreeMap<u64, StringId>,
    /// Code outside of all modules that the loader knows: of files, and of none.
    file_code: FileCode,
    jit: JitNames,
    /// Nodes on the way to a known one.
    chain: Vec<(u32, u32, u64)>,
}

impl SessionNames {
    /// No names yet, for a process that runs.
    pub fn of_process(pid: u32) -> Self {
        Self { file_code: FileCode::of(pid), ..Self::default() }
    }

    /// Reads new entries of the log of modules. `executable` is the path of the program itself, which the loader does not give.
    pub fn read_modules(
        &mut self,
        shared: &SessionMemory,
        executable: &str,
        catalog: &mut Catalog,
        to_time: impl Fn(u64) -> Nanos,
    ) {
        let words = shared.modules(self.module_bytes);
        let mut rest = &words[..];
        while let Some((fixed, texts)) = rest.split_first_chunk::<FIXED_WORDS>() {
            let [head, stamp, start, end, lengths] = *fixed;
            let (id_length, path_length) = (lengths as u32 as usize, (lengths >> 32) as usize);
            if id_length > LONGEST_BUILD_ID || path_length > LONGEST_PATH {
                break;
            }
            let words = (id_length + path_length).div_ceil(8);
            let Some(texts) = texts.get(..words) else { break };
            let bytes: Vec<u8> = texts.iter().flat_map(|word| word.to_le_bytes()).collect();
            let generation = (head >> 8) as u32;
            match head as u8 {
                LOADED => {
                    let (id, path) = bytes[..id_length + path_length].split_at(id_length);
                    let path = String::from_utf8_lossy(path);
                    let path = if path.is_empty() { executable } else { &path };
                    let module = Module {
                        path: catalog.strings.intern(path),
                        build_id: catalog.strings.intern(&hex(id)),
                        start,
                        end,
                        file_offset: 0,
                        loaded: to_time(stamp),
                        unloaded: None,
                    };
                    let index = catalog.add_module(module);
                    self.by_start.entry(start).or_default().push(self.modules.len());
                    self.modules.push(ModuleGenerations {
                        start,
                        end,
                        first_generation: generation,
                        gone: u32::MAX,
                        index,
                    });
                }
                UNLOADED => {
                    let latest = self.by_start.get(&start).and_then(|indexes| indexes.last());
                    if let Some(loaded) = latest.map(|&index| &mut self.modules[index])
                        && loaded.gone == u32::MAX
                    {
                        loaded.gone = generation;
                        catalog.set_module_unloaded(loaded.index, to_time(stamp));
                    }
                }
                TASK if path_length <= LONGEST_TASK => {
                    let name = String::from_utf8_lossy(&bytes[..path_length]);
                    self.tasks.insert(start, catalog.strings.intern(&name));
                }
                // A later version of the agent may know more.
                _ => {}
            }
            self.module_bytes += (FIXED_WORDS + words) * 8;
            rest = &rest[FIXED_WORDS + words..];
        }
    }

    /// The stack of a node. Modules must have been read after the node's number was read.
    pub fn stack(&mut self, node: u32, shared: &SessionMemory, catalog: &mut Catalog) -> StackId {
        self.known(node).unwrap_or_else(|| self.find_stack(node, shared, catalog))
    }

    /// The stack of a node that was looked up before, so that modules need not be read again for it.
    #[inline(always)]
    pub fn known(&self, node: u32) -> Option<StackId> {
        self.stacks.get(node as usize).copied().filter(|stack| *stack != StackId::UNKNOWN)
    }

    /// The tag of a node that was looked up before: its task. [`TagId::NONE`] for a block without a task, and for `Heap::Mapped` without a task.
    #[inline(always)]
    pub fn tag(&self, node: u32, is_mapping: bool) -> TagId {
        if self.tags.is_empty() {
            return TagId::NONE;
        }
        self.tags.get(&node).map_or(TagId::NONE, |tags| tags[usize::from(is_mapping)])
    }

    /// Whether some node belongs to a task.
    pub fn has_tasks(&self) -> bool {
        !self.tags.is_empty()
    }

    /// Names code that the program made while it ran, by what its runtime has written since the last call. `file` is the runtime's map.
    /// Returns whether there are new names.
    pub fn read_perf_map(
        &mut self,
        file: &mut Option<PerfMapFile>,
        shared: &SessionMemory,
        catalog: &mut Catalog,
        has_ended: bool,
    ) -> bool {
        let Some(file) = file.as_mut().filter(|_| self.jit.is_needed()) else { return false };
        // What cannot be read has no names.
        let _ = file.read_on(self.jit.map());
        if has_ended {
            self.jit.map().finish();
        }
        let before = catalog.stacks.resolutions().len();
        let replaced = self.jit.compare(catalog);
        self.forget_stacks(&replaced, shared);
        catalog.stacks.resolutions().len() != before
    }

    /// Finds the stacks of these nodes, and of all calls from them, anew when they are next met.
    fn forget_stacks(&mut self, nodes: &[u32], shared: &SessionMemory) {
        let Some(&first) = nodes.iter().min() else { return };
        for &node in nodes {
            if let Some(stack) = self.stacks.get_mut(node as usize) {
                *stack = StackId::UNKNOWN;
            }
        }
        // Parents have smaller numbers.
        for node in first..self.stacks.len() as u32 {
            let parent = shared.node(node).map_or(0, |(parent, ..)| parent);
            if parent >= first && self.stacks.get(parent as usize) == Some(&StackId::UNKNOWN) {
                self.stacks[node as usize] = StackId::UNKNOWN;
            }
        }
    }

    /// Keeps the tags of a task's node.
    #[cold]
    fn set_task(&mut self, node: u32, number: u64, catalog: &mut Catalog) {
        let unnamed = || format!("[task {number}]");
        let task = self.tasks.get(&number).copied().unwrap_or_else(|| catalog.strings.intern(&unnamed()));
        let tag_of = |heap| catalog.intern_tag(Tag { heap, task, ..Tag::default() });
        self.tags.insert(node, [Heap::Malloc, Heap::Mapped].map(tag_of));
    }

    #[cold]
    fn find_stack(&mut self, node: u32, shared: &SessionMemory, catalog: &mut Catalog) -> StackId {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        let (mut at, mut stack) = (node, StackId::UNKNOWN);
        // Parents have smaller numbers, so this ends.
        while let Some((parent, generation, pc)) = shared.node(at) {
            if let Some(&known) = self.stacks.get(at as usize)
                && known != StackId::UNKNOWN
            {
                stack = known;
                break;
            }
            chain.push((at, generation, pc));
            at = parent;
        }
        for &(node, generation, pc) in chain.iter().rev() {
            if pc & TASK_BIT != 0 {
                self.set_task(node, pc & !TASK_BIT, catalog);
            } else {
                stack = self.child(stack, (node, pc), generation, catalog);
            }
            let index = node as usize;
            if index >= self.stacks.len() {
                self.stacks.resize(index + 1, StackId::UNKNOWN);
            }
            self.stacks[index] = stack;
        }
        self.chain = chain;
        stack
    }

    fn child(&mut self, parent: StackId, (node, pc): (u32, u64), generation: u32, catalog: &mut Catalog) -> StackId {
        let frame = if pc == CUT {
            let function = catalog.strings.intern("[callers unknown]");
            catalog.stacks.intern_frame(Frame { function, ..Frame::default() })
        } else if let Some(module) = self.module_at(pc, generation, catalog) {
            let module = module + 1;
            catalog.stacks.intern_frame(Frame { address: pc, module, ..Frame::default() })
        } else {
            self.jit.frame(pc, node, catalog)
        };
        catalog.stacks.intern_child(parent, frame)
    }

    /// The module that a return address lies in, as an index in the catalog.
    fn module_at(&mut self, pc: u64, generation: u32, catalog: &mut Catalog) -> Option<u32> {
        let call = pc.wrapping_sub(1);
        let here = |module: &&ModuleGenerations| {
            (module.start..module.end).contains(&call) && (module.first_generation..module.gone).contains(&generation)
        };
        let near = self.by_start.range(..=call).rev().flat_map(|(_, indexes)| indexes.iter().rev());
        let loaded = near.take(MOST_LOOKS).map(|&index| &self.modules[index]).find(here);
        loaded.map(|module| module.index).or_else(|| self.file_code.module_at(call, catalog))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
