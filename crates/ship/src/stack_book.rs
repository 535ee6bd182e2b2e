//! The stacks of all processes, each named once.
//!
//! A catalog numbers frames and stacks anew for each snapshot. The book gives them numbers that stay: a frame is code (module and offset) or a name, a stack is a call and its
//! caller's stack. To recognize the thousand stacks of a process takes a look-up for each call, and no text is touched.

use highwater_lake::identity::{FrameIdentity, site_id, stack_id};
use highwater_lake::rows::{FrameRow, StackRow};
use highwater_lake::{bounded_name, stack_text};
use highwater_model::{Catalog, CodeOffset, Frame, FrameId, FrameText, Naming, SiteTypes, StackId, StringId};
use highwater_symbols::perf_map::{JIT_MODULE, JitName, PerfMap};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Of each kind of entry at most this many are kept; a book with more is emptied.
const MOST_ENTRIES: usize = 1 << 20;
/// The numbers of frames in all stacks together.
const MOST_FRAMES_IN_STACKS: usize = 16 << 20;
/// The bytes of all texts.
const MOST_TEXT_BYTES: usize = 128 << 20;

/// The name of a frame, or of a stack, of which nothing is known.
const UNKNOWN: &str = "[unknown]";

/// A stack with names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownStack {
    /// The identity of its code.
    pub stack_id: i64,
    /// The identity of its names.
    pub site_id: i64,
    /// Its frames in the book, innermost first.
    frames: Box<[u32]>,
    /// Which of them names the site.
    named_by: u32,
    type_name: Arc<str>,
}

/// What a frame is, wherever its module was loaded. Texts are numbers in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FrameKey {
    Code { module: u32, offset: u64 },
    Named { function: u32, file: u32, line: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NamedFrame {
    function: u32,
    file: u32,
    line: u32,
    module: u32,
    build_id: u32,
}

/// All stacks that were met. It is bounded: see [`make_room`](Self::make_room).
#[derive(Debug, Default)]
pub struct StackBook {
    texts: TextNumbers,
    keys: FxHashMap<FrameKey, u32>,
    /// The calls by caller's stack and frame. Stack 0 has no frames.
    calls: FxHashMap<(u32, u32), u32>,
    /// By stack, once it is named.
    known: FxHashMap<u32, Arc<KnownStack>>,
    named_frames: Vec<NamedFrame>,
    named_numbers: FxHashMap<NamedFrame, u32>,
    frames_in_stacks: usize,
}

#[derive(Debug, Default)]
struct TextNumbers {
    list: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
    bytes: usize,
}

impl TextNumbers {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        let (number, text) = (self.list.len() as u32, Arc::<str>::from(text));
        self.bytes += text.len();
        self.list.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    fn get(&self, number: u32) -> &Arc<str> {
        &self.list[number as usize]
    }
}

/// The stacks of one catalog as numbers of the book, by [`StackId`].
#[derive(Debug)]
pub struct CatalogNumbers(Vec<u32>);

impl CatalogNumbers {
    /// The number of a stack.
    pub fn of(&self, stack: StackId) -> u32 {
        self.0.get(stack.0 as usize).copied().unwrap_or(0)
    }
}

impl StackBook {
    /// Empties a full book. Numbers that it gave before mean nothing afterwards. Returns whether it was full.
    pub fn make_room(&mut self) -> bool {
        let is_full = self.keys.len() > MOST_ENTRIES
            || self.calls.len() > MOST_ENTRIES
            || self.frames_in_stacks > MOST_FRAMES_IN_STACKS
            || self.texts.bytes > MOST_TEXT_BYTES;
        if is_full {
            *self = Self::default();
        }
        is_full
    }

    /// The numbers of all stacks of a catalog. `map` names code that its program made.
    pub fn numbers(&mut self, catalog: &Catalog, map: Option<&PerfMap>) -> CatalogNumbers {
        let modules: Vec<ModuleKey> = catalog.modules.iter().map(|module| self.module_key(catalog, module)).collect();
        let frames: Vec<u32> = catalog
            .stacks
            .frames()
            .iter()
            .map(|frame| {
                let key = self.frame_key(catalog, &modules, frame, map);
                let next = self.keys.len() as u32;
                *self.keys.entry(key).or_insert(next)
            })
            .collect();
        let mut numbers = vec![0u32; catalog.stacks.nodes().len()];
        // Parents have smaller numbers.
        for (at, node) in catalog.stacks.nodes().iter().enumerate().skip(1) {
            let caller = numbers.get(node.parent.0 as usize).copied().unwrap_or(0);
            let Some(&frame) = frames.get(node.frame.0 as usize) else { continue };
            let next = self.calls.len() as u32 + 1;
            numbers[at] = *self.calls.entry((caller, frame)).or_insert(next);
        }
        CatalogNumbers(numbers)
    }

    /// A stack by its number, once it is named.
    pub fn known(&self, number: u32) -> Option<&Arc<KnownStack>> {
        self.known.get(&number)
    }

    /// Adds a stack by the names that its catalog has now.
    pub fn add(&mut self, number: u32, catalog: &Catalog, stack: StackId, types: &mut SiteTypes) -> Arc<KnownStack> {
        let texts: Vec<FrameText<'_>> = catalog.frame_texts(stack).collect();
        let mut names: Vec<String> = texts.iter().map(shown_name).collect();
        if names.is_empty() {
            names.push(UNKNOWN.to_owned());
        }
        let site_type = types.of(catalog, stack);
        let frames: Box<[u32]> = (0..names.len())
            .map(|at| {
                let text = texts.get(at).copied().unwrap_or_default();
                let module = text.module.rsplit('/').next().unwrap_or_default();
                let frame = NamedFrame {
                    function: self.texts.number(&names[at]),
                    file: self.texts.number(bounded_name(text.file)),
                    line: text.line,
                    module: self.texts.number(module),
                    build_id: self.texts.number(text.build_id),
                };
                let next = self.named_frames.len() as u32;
                let number = *self.named_numbers.entry(frame.clone()).or_insert(next);
                if number == next {
                    self.named_frames.push(frame);
                }
                number
            })
            .collect();
        // Without what a single snapshot teaches of wrappers: the name must be the same on all hosts.
        let named_by = Naming::default().site(&texts).passing.min(names.len() - 1);
        let stack = KnownStack {
            stack_id: code_id(catalog, stack),
            site_id: site_id(names.iter().map(String::as_str)),
            named_by: named_by as u32,
            type_name: Arc::clone(self.texts.get_or_add(if site_type.is_known {
                bounded_name(&site_type.name)
            } else {
                ""
            })),
            frames,
        };
        self.frames_in_stacks += stack.frames.len();
        let stack = Arc::new(stack);
        self.known.insert(number, Arc::clone(&stack));
        stack
    }

    /// The row of a stack, for a service.
    pub fn stack_row(&self, stack: &KnownStack, service: &str) -> StackRow {
        let name = |frame: u32| &**self.texts.get(self.named_frames[frame as usize].function);
        StackRow {
            stack_id: stack.stack_id,
            site_id: stack.site_id,
            service: service.to_owned(),
            function: name(stack.frames[stack.named_by as usize]).to_owned(),
            type_name: stack.type_name.to_string(),
            stack: stack_text(stack.frames.iter().map(|frame| name(*frame))),
        }
    }

    /// The rows of a stack's frames.
    pub fn frame_rows<'a>(&'a self, stack: &'a KnownStack) -> impl Iterator<Item = FrameRow> + 'a {
        let text = |number| self.texts.get(number).to_string();
        (0..).zip(&*stack.frames).map(move |(depth, frame)| {
            let frame = &self.named_frames[*frame as usize];
            FrameRow {
                stack_id: stack.stack_id,
                site_id: stack.site_id,
                depth,
                function: text(frame.function),
                file: text(frame.file),
                line: i32::try_from(frame.line).unwrap_or(0),
                module: text(frame.module),
                build_id: text(frame.build_id),
            }
        })
    }

    fn module_key(&mut self, catalog: &Catalog, module: &highwater_model::Module) -> ModuleKey {
        let (path, build_id) = (catalog.strings.get(module.path), catalog.strings.get(module.build_id));
        let identity = CodeOffset { build_id, module: path, offset: 0 }.module_identity();
        ModuleKey { identity: self.texts.number(identity), is_jit: path == JIT_MODULE }
    }

    fn frame_key(
        &mut self,
        catalog: &Catalog,
        modules: &[ModuleKey],
        frame: &Frame,
        map: Option<&PerfMap>,
    ) -> FrameKey {
        let module = frame.module.checked_sub(1).and_then(|at| modules.get(at as usize));
        if frame.function == StringId::EMPTY {
            let offset = catalog.module_of(frame).and_then(|module| module.offset_of(frame.address));
            if let (Some(module), Some(offset)) = (module.filter(|module| !module.is_jit), offset) {
                return FrameKey::Code { module: module.identity, offset };
            }
            if frame.address != 0
                && module.is_none_or(|module| module.is_jit)
                && let Some(name) = map.and_then(|map| map.lookup(frame.address.wrapping_sub(1)))
            {
                let name = JitName::read(name);
                return self.named(&name.function, &name.file, name.line);
            }
        }
        let text = catalog.frame_text(frame);
        self.named(&shown_name(&text), text.file, text.line)
    }

    fn named(&mut self, function: &str, file: &str, line: u32) -> FrameKey {
        FrameKey::Named { function: self.texts.number(function), file: self.texts.number(file), line }
    }
}

impl TextNumbers {
    fn get_or_add(&mut self, text: &str) -> &Arc<str> {
        let number = self.number(text);
        self.get(number)
    }
}

/// A module of a catalog.
struct ModuleKey {
    identity: u32,
    is_jit: bool,
}

/// Whether a frame is code that its program made while it ran.
pub fn is_jit(catalog: &Catalog, frame: &Frame) -> bool {
    let lies_in_no_file =
        || catalog.module_of(frame).is_none_or(|module| catalog.strings.get(module.path) == JIT_MODULE);
    frame.address != 0 && frame.function == StringId::EMPTY && lies_in_no_file()
}

/// The name of a frame: its function, or where its code lies. Never an address, which differs from process to process.
fn shown_name(frame: &FrameText<'_>) -> String {
    if !frame.function.is_empty() {
        return bounded_name(frame.function).to_owned();
    }
    match frame.unnamed_code() {
        Some(code) => code.to_string(),
        None if frame.module.is_empty() => UNKNOWN.to_owned(),
        None => frame.module.rsplit('/').next().unwrap_or(frame.module).to_owned(),
    }
}

/// The identity of a stack's code. Frames are those that were recorded: what was inlined into them depends on the debug information at hand.
fn code_id(catalog: &Catalog, stack: StackId) -> i64 {
    let stacks = &catalog.stacks;
    let resolved = |frame: FrameId| stacks.frame_ids(frame).next().map_or(frame, FrameId);
    let texts: Vec<(FrameText<'_>, FrameText<'_>)> = stacks
        .recorded_frames_of(stack)
        .filter_map(|frame| Some((stacks.frame(frame)?, stacks.frame(resolved(frame))?)))
        .map(|(recorded, named)| (catalog.frame_text(recorded), catalog.frame_text(named)))
        .collect();
    let names: Vec<String> = texts.iter().map(|(_, named)| shown_name(named)).collect();
    stack_id(texts.iter().zip(&names).map(|((recorded, named), name)| {
        match recorded.unnamed_code().filter(|_| recorded.module != JIT_MODULE) {
            Some(code) => FrameIdentity::Code { module: code.module_identity().as_bytes(), offset: code.offset },
            None => FrameIdentity::Named { function: name, file: named.file, line: named.line },
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::Module;

    /// A catalog with a stack of a module that is loaded at an address: two calls of it, and a named frame.
    fn catalog(start: u64, path: &str, jit: u64) -> (Catalog, StackId) {
        let mut catalog = Catalog::default();
        let [path, build_id, jit_path] = [path, "abcd", JIT_MODULE].map(|text| catalog.strings.intern(text));
        let module = catalog.add_module(Module { path, build_id, start, end: start + 0x1000, ..Module::default() }) + 1;
        let jit_module = catalog.add_module(Module { path: jit_path, ..Module::default() }) + 1;
        let mut stack = StackId::UNKNOWN;
        for (address, module) in [(start + 0x10, module), (jit, jit_module), (start + 0x20, module)] {
            let frame = catalog.stacks.intern_frame(Frame { address, module, ..Frame::default() });
            stack = catalog.stacks.intern_child(stack, frame);
        }
        (catalog, stack)
    }

    fn add(
        book: &mut StackBook,
        (catalog, stack): &(Catalog, StackId),
        map: Option<&PerfMap>,
    ) -> (u32, Arc<KnownStack>) {
        let number = book.numbers(catalog, map).of(*stack);
        let mut types = SiteTypes::new(catalog, &Naming::default());
        (number, book.add(number, catalog, *stack, &mut types))
    }

    #[test]
    fn a_stack_is_the_same_wherever_its_modules_were_loaded() {
        let mut book = StackBook::default();
        let (here, there) = (catalog(0x5000, "/usr/bin/app", 0x9000), catalog(0x77_0000, "/opt/app", 0xa000));
        let (number, stack) = add(&mut book, &here, None);
        assert_eq!(book.numbers(&there.0, None).of(there.1), number);
        assert_eq!(book.known(number), Some(&stack));
        let (_, again) = add(&mut StackBook::default(), &there, None);
        assert_eq!((again.stack_id, again.site_id), (stack.stack_id, stack.site_id));
        let row = book.stack_row(&stack, "shop");
        assert_eq!((row.stack.as_str(), row.function.as_str()), ("app+0x10;[JIT];app+0x20", "app+0x20"));
        let frames: Vec<FrameRow> = book.frame_rows(&stack).collect();
        assert_eq!(frames.iter().map(|frame| frame.depth).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((frames[0].module.as_str(), frames[0].build_id.as_str()), ("app", "abcd"));
    }

    #[test]
    fn code_that_a_program_made_is_known_by_its_name() {
        let map = |text: &[u8]| {
            let mut map = PerfMap::default();
            map.add(text);
            map
        };
        let mut book = StackBook::default();
        let numbered = |book: &mut StackBook, jit: u64, map: &PerfMap| {
            let (catalog, stack) = catalog(0x5000, "/usr/bin/app", jit);
            book.numbers(&catalog, Some(map)).of(stack)
        };
        let first = numbered(&mut book, 0x9008, &map(b"9000 10 JS:~f a.js:1:1\n"));
        assert_eq!(numbered(&mut book, 0xa008, &map(b"a000 10 JS:~f a.js:1:1\n")), first);
        assert_ne!(numbered(&mut book, 0xa008, &map(b"a000 10 JS:~g a.js:2:1\n")), first);
    }

    #[test]
    fn a_stack_without_frames_has_a_name() {
        let mut book = StackBook::default();
        let (_, stack) = add(&mut book, &(Catalog::default(), StackId::UNKNOWN), None);
        assert_eq!(book.stack_row(&stack, "s").stack, UNKNOWN);
        assert_eq!(book.frame_rows(&stack).count(), 1);
    }

    #[test]
    fn a_deep_recursion_has_a_row_that_a_lake_takes() {
        let mut catalog = Catalog::default();
        let frame = FrameText { function: "a_function_that_calls_itself", ..FrameText::default() };
        let stack = catalog.intern_stack(&vec![frame; 1 << 17]);
        let mut book = StackBook::default();
        let (_, stack) = add(&mut book, &(catalog, stack), None);
        let batch = highwater_lake::rows::Batch {
            stacks: vec![book.stack_row(&stack, "s")],
            frames: book.frame_rows(&stack).collect(),
            ..Default::default()
        };
        assert_eq!(highwater_lake::incoming_files("host", &batch).unwrap().len(), 2);
    }

    #[test]
    fn a_full_book_is_emptied() {
        let mut book = StackBook::default();
        let (number, _) = add(&mut book, &catalog(0x5000, "/usr/bin/app", 0x9000), None);
        assert!(!book.make_room() && book.known(number).is_some());
        book.frames_in_stacks = MOST_FRAMES_IN_STACKS + 1;
        assert!(book.make_room() && book.known(number).is_none());
    }
}
