//! The identity of rows, as a person sees it, in any snapshot of any file: names, never handles.

use crate::catalog::Catalog;
use crate::code_offset::CodeOffset;
use crate::groups::GroupKey;
use crate::ids::{FrameId, StringId};
use crate::stack_numbers::{StackNumbers, TooManyCalls, Trie};
use crate::stacks::Frame;
use rustc_hash::FxHashMap;

/// A row's identity. Meaningful only among identities from the same [`RowIdentities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowIdentity {
    /// A stack whose frames have these texts.
    Site(u32),
    /// A function, file, module, type or heap.
    Name(u32),
    /// Code without a name: build id or path of its module, and the offset.
    Code(u32, u64),
    /// A thread: its name and its number.
    Thread(u32, u64),
}

/// The identity of a frame for a person: function, file, line and module; for code without a name, its offset in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FrameIdentity {
    function: u32,
    file: u32,
    line: u32,
    module: u32,
    address: u64,
    is_code: bool,
}

/// Assigns identities to rows of several catalogs. Holds each name once and each call of the stacks once: the text of a whole stack is never built.
#[derive(Clone, Debug, Default)]
pub struct RowIdentities {
    strings: FxHashMap<Box<str>, u32>,
    frames: FxHashMap<FrameIdentity, u32>,
    stacks: Trie,
}

/// The known identities of the strings, frames and stacks of one catalog.
#[derive(Clone, Debug, Default)]
pub struct CatalogIdentities {
    strings: FxHashMap<StringId, u32>,
    frames: FxHashMap<FrameId, u32>,
    stacks: StackNumbers,
}

impl RowIdentities {
    /// The identity of a row. `known` belongs to the catalog: pass each catalog its own, initially empty.
    pub fn of(
        &mut self,
        catalog: &Catalog,
        known: &mut CatalogIdentities,
        key: &GroupKey,
    ) -> Result<RowIdentity, TooManyCalls> {
        Ok(match key {
            GroupKey::Name(name) => RowIdentity::Name(self.text(name)),
            GroupKey::Code { build_id, module, offset } => {
                let code = CodeOffset { build_id, module, offset: *offset };
                RowIdentity::Code(self.text(code.module_identity()), *offset)
            }
            GroupKey::Thread(thread) => RowIdentity::Thread(self.text(catalog.thread_name(*thread)), thread.0),
            GroupKey::Site(stack) => {
                let CatalogIdentities { strings, frames, stacks } = known;
                let number = stacks.number(&catalog.stacks, *stack, |parent, frame| {
                    let frame = *frames.entry(frame).or_insert_with(|| self.frame(catalog, strings, frame));
                    self.stacks.child(parent, frame)
                })?;
                RowIdentity::Site(number)
            }
        })
    }

    fn frame(&mut self, catalog: &Catalog, strings: &mut FxHashMap<StringId, u32>, frame: FrameId) -> u32 {
        let frame = catalog.stacks.frame(frame).copied().unwrap_or_default();
        let module = catalog.module_of(&frame).map(|module| (module.path, module.build_id)).unwrap_or_default();
        let code = catalog.frame_text(&frame).unnamed_code();
        let Frame { function, file, line, address, .. } = frame;
        let mut string = |id| *strings.entry(id).or_insert_with(|| self.text(catalog.strings.get(id)));
        let is_named = !catalog.strings.get(function).is_empty();
        let identity = FrameIdentity {
            function: string(function),
            file: string(file),
            line,
            module: match code {
                Some(code) if !code.build_id.is_empty() => string(module.1),
                _ => string(module.0),
            },
            address: code.map_or(if is_named { 0 } else { address }, |code| code.offset),
            is_code: code.is_some(),
        };
        let next = self.frames.len() as u32;
        *self.frames.entry(identity).or_insert(next)
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.strings.get(text) {
            return known;
        }
        let next = self.strings.len() as u32;
        self.strings.insert(text.into(), next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::FrameText;
    use crate::ids::ThreadId;

    fn function(name: &str, line: u32) -> FrameText<'_> {
        FrameText { function: name, line, ..FrameText::default() }
    }

    #[test]
    fn the_same_texts_are_the_same_row_whatever_their_numbers_are() {
        let (mut old, mut new) = (Catalog::default(), Catalog::default());
        let before = old.intern_stack(&[function("load", 3), function("main", 1)]);
        new.intern_stack(&[function("other", 9)]);
        let after = new.intern_stack(&[function("load", 3), function("main", 1)]);
        let another = new.intern_stack(&[function("load", 4), function("main", 1)]);
        let moved = new.intern_stack(&[FrameText { address: 7, ..function("load", 3) }, function("main", 1)]);
        let mut identities = RowIdentities::default();
        let (mut of_old, mut of_new) = Default::default();
        let first = identities.of(&old, &mut of_old, &GroupKey::Site(before)).unwrap();
        let mut then = |stack| identities.of(&new, &mut of_new, &GroupKey::Site(stack)).unwrap();
        assert_eq!((then(after), then(moved)), (first, first));
        assert_ne!(then(another), first);
        old.name_thread(ThreadId(4), "worker");
        let thread = GroupKey::Thread(ThreadId(4));
        let named = identities.of(&old, &mut of_old, &thread).unwrap();
        assert_ne!(named, identities.of(&new, &mut of_new, &thread).unwrap());
    }
}
