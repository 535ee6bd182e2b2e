//! Names that are kept, hashed or numbered.

use super::{LeftOut, TrimOptions};
use highwater_model::{
    Catalog, ColumnRange, Frame, MadeType, Module, RssBreakdown, SizeOfType, Source, StringId, Tag, ThreadName, gauge,
    is_plumbing,
};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

/// What becomes of names: of functions, source files, modules, types, variables, threads and marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// They stay.
    #[default]
    Keep,
    /// Each becomes a hash: equal names are equal in all files with one key, and the key is needed to try names out.
    Hash,
    /// Each becomes a number of this file. Lines and columns are left out.
    Strip,
}

/// A secret key.
#[derive(Clone, PartialEq, Eq)]
pub struct NameKey([u8; 32]);

impl std::fmt::Debug for NameKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameKey")
    }
}

impl NameKey {
    /// The key of a text.
    pub fn of_text(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// A keyed hash of a text (HMAC with SHA-256): without the key, a list of likely names is of no use.
    pub(super) fn hash(&self, kind: &str, text: &str) -> u64 {
        const BLOCK: usize = 64;
        let padded = |pad: u8| {
            let mut block = [pad; BLOCK];
            block.iter_mut().zip(self.0).for_each(|(byte, key)| *byte ^= key);
            block
        };
        let inner = Sha256::new().chain_update(padded(0x36)).chain_update(kind).chain_update([0]).chain_update(text);
        let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner.finalize()).finalize();
        outer.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
    }
}

/// Makes the catalog and the source of the trimmed recording. Frames, stacks and tags keep their numbers.
pub(super) struct Renamer<'a> {
    old: &'a Catalog,
    catalog: Catalog,
    names: Names,
    key: &'a NameKey,
    cuts_directories: bool,
    /// Numbers of stripped names, by kind and name.
    numbers: FxHashMap<(&'static str, String), u64>,
    next: FxHashMap<&'static str, u64>,
    renamed: FxHashMap<(&'static str, StringId), StringId>,
    count: u64,
}

/// A name without the folders before it.
fn without_directories(path: &str) -> &str {
    path.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or_default()
}

/// Functions that every program has: they say nothing of this one, and views hide them. A name with a type argument may contain the program's types.
fn is_public(function: &str) -> bool {
    is_plumbing(function) && !function.contains(['<', '[', '{'])
}

impl<'a> Renamer<'a> {
    pub(super) fn new(old: &'a Catalog, options: &'a TrimOptions) -> Self {
        let mut renamer = Self {
            old,
            catalog: Catalog::default(),
            names: options.names,
            key: &options.key,
            cuts_directories: options.without.directories,
            numbers: FxHashMap::default(),
            next: FxHashMap::default(),
            renamed: FxHashMap::default(),
            count: 0,
        };
        renamer.copy();
        renamer
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// How many names were replaced.
    pub(super) fn renamed(&self) -> u64 {
        self.count
    }

    fn copy(&mut self) {
        let old = self.old;
        for module in &old.modules {
            let module = self.module(module);
            self.catalog.add_module(module);
        }
        for frame in old.stacks.frames() {
            let frame = self.frame(frame);
            self.catalog.stacks.push_frame(frame);
        }
        for node in old.stacks.nodes().iter().skip(1) {
            self.catalog.stacks.push_node(*node);
        }
        for resolution in old.stacks.resolutions() {
            self.catalog.stacks.push_resolution(*resolution);
        }
        for tag in old.tags().iter().skip(1) {
            let variable = self.text("variable", tag.variable);
            let type_name = self.text("type", tag.type_name);
            let task = self.text("task", tag.task);
            self.catalog.push_tag(Tag { variable, type_name, heap: tag.heap, task });
        }
        if self.names == Names::Keep {
            self.copy_type_facts();
        }
        for entry in old.thread_names() {
            let name = self.text("thread", entry.name);
            self.catalog.push_thread_name(ThreadName { thread: entry.thread, name });
        }
    }

    /// Without the names of functions, nothing shows types, and facts about them would only give names away.
    fn copy_type_facts(&mut self) {
        let old = &self.old.types;
        for fact in old.sizes() {
            let name = self.catalog.strings.intern(self.old.strings.get(fact.name));
            self.catalog.types.add_size(SizeOfType { name, ..*fact });
        }
        for fact in old.made() {
            let name = self.catalog.strings.intern(self.old.strings.get(fact.name));
            self.catalog.types.add_made(MadeType { name, ..*fact });
        }
        old.doubtful().iter().for_each(|frame| self.catalog.types.add_doubtful(*frame));
        if old.is_checked() {
            self.catalog.types.set_checked();
        }
    }

    /// A module. Without names it has no addresses and no build id: with these, names can be found again.
    fn module(&mut self, module: &Module) -> Module {
        let path = self.path("module", module.path);
        if self.names == Names::Keep {
            let build_id = self.catalog.strings.intern(self.old.strings.get(module.build_id));
            return Module { path, build_id, ..module.clone() };
        }
        Module { path, loaded: module.loaded, unloaded: module.unloaded, ..Module::default() }
    }

    fn frame(&mut self, frame: &Frame) -> Frame {
        let file = self.path("file", frame.file);
        if self.names == Names::Keep {
            let function = self.catalog.strings.intern(self.old.strings.get(frame.function));
            return Frame { function, file, ..*frame };
        }
        let function = self.old.strings.get(frame.function);
        let function = match function {
            "" if frame.address != 0 => {
                // Code without a name is known by its place in its module.
                let module = self.old.module_of(frame);
                let path = module.map_or("", |module| self.old.strings.get(module.path));
                let place = module.and_then(|module| module.offset_of(frame.address)).unwrap_or(frame.address);
                let name = format!("{path}+{place:#x}");
                self.replaced("function", &name)
            }
            "" => StringId::EMPTY,
            public if is_public(public) => self.catalog.strings.intern(public),
            _ => self.text("function", frame.function),
        };
        let has_lines = self.names == Names::Hash;
        Frame {
            address: 0,
            function,
            file,
            line: if has_lines { frame.line } else { 0 },
            module: frame.module,
            inlined: frame.inlined,
            columns: if has_lines { frame.columns } else { ColumnRange::default() },
        }
    }

    pub(super) fn mark(&mut self, name: StringId) -> StringId {
        self.text("mark", name)
    }

    /// A gauge that Highwater itself records keeps its name: views look for it.
    pub(super) fn gauge(&mut self, name: StringId) -> StringId {
        let text = self.old.strings.get(name);
        match gauge::ALL.contains(&text) {
            true => self.catalog.strings.intern(text),
            false => self.text("gauge", name),
        }
    }

    /// A breakdown of resident memory. Its stacks and tags keep their numbers; its files are named as modules are.
    pub(super) fn breakdown(&mut self, breakdown: &RssBreakdown) -> RssBreakdown {
        let mut breakdown = breakdown.clone();
        for file in &mut breakdown.files {
            file.path = match self.names {
                Names::Keep if self.cuts_directories => without_directories(&file.path).to_owned(),
                Names::Keep => continue,
                _ => {
                    let name = self.replaced("module", &file.path);
                    self.catalog.strings.get(name).to_owned()
                }
            };
        }
        breakdown
    }

    fn path(&mut self, kind: &'static str, path: StringId) -> StringId {
        if self.names != Names::Keep || !self.cuts_directories {
            return self.text(kind, path);
        }
        let text = self.old.strings.get(path);
        let cut = without_directories(text);
        if cut.len() != text.len() && !self.renamed.contains_key(&(kind, path)) {
            self.renamed.insert((kind, path), StringId::EMPTY);
            self.count += 1;
        }
        self.catalog.strings.intern(cut)
    }

    /// The new name for an old one.
    fn text(&mut self, kind: &'static str, old: StringId) -> StringId {
        let text = self.old.strings.get(old);
        if text.is_empty() || self.names == Names::Keep {
            return self.catalog.strings.intern(text);
        }
        if let Some(&known) = self.renamed.get(&(kind, old)) {
            return known;
        }
        let new = self.replaced(kind, text);
        self.renamed.insert((kind, old), new);
        new
    }

    fn replaced(&mut self, kind: &'static str, text: &str) -> StringId {
        let name = match self.names {
            Names::Keep => text.to_owned(),
            Names::Hash => {
                let hash = self.key.hash(kind, text);
                format!("{kind}_{hash:016x}")
            }
            Names::Strip => {
                let next = self.next.entry(kind).or_insert(0);
                let number = *self.numbers.entry((kind, text.to_owned())).or_insert_with(|| {
                    *next += 1;
                    *next
                });
                format!("{kind} {number}")
            }
        };
        let new = self.catalog.strings.find(&name).is_none();
        self.count += u64::from(new);
        self.catalog.strings.intern(&name)
    }

    /// The description of the source, without what is to be left out.
    pub(super) fn source(&mut self, old: &Source, without: LeftOut) -> Source {
        let mut source = old.clone();
        if without.command {
            source.command = Vec::new();
            source.executable = String::new();
            let called = source.program.split_whitespace().next().unwrap_or_default();
            source.program = without_directories(called).to_owned();
        } else if without.directories {
            let executable = without_directories(&source.executable).to_owned();
            source.executable = executable;
            source.program = without_directories(&source.program).to_owned();
        }
        if self.names != Names::Keep {
            source.command = Vec::new();
            source.executable = String::new();
            let program = self.replaced("program", &source.program);
            source.program = self.catalog.strings.get(program).to_owned();
        }
        if without.host {
            source.host = String::new();
        }
        if without.pids {
            (source.pid, source.parent_pid) = (0, 0);
        }
        if without.start {
            source.start_unix_ns = 0;
        }
        if without.context {
            source.context = String::new();
            source.runtime_parameters = String::new();
            source.notes = Vec::new();
        }
        source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_needs_the_key_and_the_kind() {
        let (one, two) = (NameKey::of_text(b"one"), NameKey::of_text(b"two"));
        assert_eq!(one.hash("function", "main"), NameKey::of_text(b"one").hash("function", "main"));
        assert_ne!(one.hash("function", "main"), two.hash("function", "main"));
        assert_ne!(one.hash("function", "main"), one.hash("file", "main"));
        assert_eq!(format!("{one:?}"), "NameKey");
    }

    #[test]
    fn the_hash_is_the_beginning_of_an_hmac() {
        // printf 'file\0a.ml' | openssl dgst -sha256 -mac HMAC -macopt hexkey:$(printf k | sha256sum | cut -d' ' -f1)
        assert_eq!(NameKey::of_text(b"k").hash("file", "a.ml"), 0x2d47_028c_d311_315f);
    }

    #[test]
    fn directories_are_cut_off() {
        for (path, name) in
            [("/home/ann/src/a.rs", "a.rs"), ("a.rs", "a.rs"), ("C:\\x\\y.c", "y.c"), ("/a/b/", "b"), ("", "")]
        {
            assert_eq!(without_directories(path), name);
        }
    }

    #[test]
    fn only_names_without_types_are_public() {
        assert!(is_public("malloc") && is_public("alloc::raw_vec::finish_grow"));
        assert!(!is_public("alloc::raw_vec::RawVec<app::Secret>::grow_one") && !is_public("parse"));
    }
}
