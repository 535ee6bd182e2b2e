//! Names of code that a program made while it ran.
//!
//! A runtime's map (`highwater_symbols::perf_map`) grows while the program runs, and a line for an address is valid until the next one for it. So code gets
//! the name that the map has when its address is first met, or else the first one that the map gives later. If that name changes, the code was replaced:
//! stacks from then on get another frame, and earlier ones keep theirs.

use highwater_model::{Catalog, Frame, FrameId, FrameText, Module};
use highwater_symbols::perf_map::{JIT_MODULE, JitName, PerfMap};
use std::collections::{BTreeMap, BTreeSet};

/// An address in such code that was met.
struct MetCode {
    frame: FrameId,
    name: Option<JitName>,
    /// The nodes of the stacks in which it was met with this frame.
    nodes: BTreeSet<u32>,
}

/// The code that a process made, as far as it was met in stacks.
#[derive(Default)]
pub struct JitNames {
    map: PerfMap,
    met: BTreeMap<u64, MetCode>,
    /// Lines of the map when all code was last compared with it.
    compared: u64,
    /// The index of the module that stands for such code in the catalog, plus one.
    module: Option<u32>,
}

impl JitNames {
    /// Whether such code was met.
    pub fn is_needed(&self) -> bool {
        !self.met.is_empty()
    }

    /// The map, to which its reader adds.
    pub fn map(&mut self) -> &mut PerfMap {
        &mut self.map
    }

    /// The frame of a return address that lies in no module.
    pub fn frame(&mut self, pc: u64, node: u32, catalog: &mut Catalog) -> FrameId {
        if let Some(met) = self.met.get_mut(&pc) {
            met.nodes.insert(node);
            return met.frame;
        }
        let module = *self.module.get_or_insert_with(|| {
            let path = catalog.strings.intern(JIT_MODULE);
            catalog.add_module(Module { path, ..Module::default() }) + 1
        });
        let frame = catalog.stacks.intern_frame(Frame { address: pc, module, ..Frame::default() });
        let name = name_at(&self.map, pc);
        if let Some(name) = &name {
            catalog.resolve(frame, &[text_of(name)]);
        }
        self.met.insert(pc, MetCode { frame, name, nodes: BTreeSet::from([node]) });
        frame
    }

    /// Names the code that was met by what was added to the map. Returns the nodes of code that was replaced: their stacks must be found anew.
    pub fn compare(&mut self, catalog: &mut Catalog) -> Vec<u32> {
        let mut replaced = Vec::new();
        if std::mem::replace(&mut self.compared, self.map.used()) == self.map.used() {
            return replaced;
        }
        for (&pc, met) in &mut self.met {
            let Some(name) = name_at(&self.map, pc).filter(|name| met.name.as_ref() != Some(name)) else { continue };
            if met.name.is_none() {
                catalog.resolve(met.frame, &[text_of(&name)]);
            } else {
                let text = catalog.intern_frame(&text_of(&name));
                let frame = Frame { address: pc, module: self.module.unwrap_or(0), ..text };
                met.frame = catalog.stacks.intern_frame(frame);
                replaced.extend(std::mem::take(&mut met.nodes));
            }
            met.name = Some(name);
        }
        replaced
    }
}

fn name_at(map: &PerfMap, pc: u64) -> Option<JitName> {
    // A return address lies after its call.
    map.lookup(pc.wrapping_sub(1)).map(JitName::read)
}

fn text_of(name: &JitName) -> FrameText<'_> {
    FrameText { function: &name.function, file: &name.file, line: name.line, ..FrameText::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::StackId;

    fn function(catalog: &mut Catalog, frame: FrameId) -> String {
        let stack = catalog.stacks.intern_child(StackId::UNKNOWN, frame);
        let frame = *catalog.stacks.frames_of(stack).next().expect("a frame");
        catalog.strings.get(frame.function).to_owned()
    }

    #[test]
    fn code_keeps_the_name_that_it_had_when_it_was_met() {
        let (mut names, mut catalog) = (JitNames::default(), Catalog::default());
        names.map().add(b"1000 10 first\n");
        let known = names.frame(0x1005, 1, &mut catalog);
        let later = names.frame(0x2005, 2, &mut catalog);
        assert_eq!(function(&mut catalog, known), "first");
        assert_eq!(function(&mut catalog, later), "");
        names.map().add(b"2000 10 second\n");
        assert!(names.compare(&mut catalog).is_empty());
        assert_eq!(function(&mut catalog, later), "second");
        names.map().add(b"1000 10 third\n");
        assert_eq!(names.compare(&mut catalog), [1]);
        let replaced = names.frame(0x1005, 1, &mut catalog);
        assert_ne!(replaced, known);
        assert_eq!([known, later, replaced].map(|frame| function(&mut catalog, frame)), ["first", "second", "third"]);
        assert!(names.compare(&mut catalog).is_empty());
    }
}
