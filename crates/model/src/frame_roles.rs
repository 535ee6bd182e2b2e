//! The names of many sites of one catalog.
//!
//! Whether a frame passes memory on is decided by comparing its names with some hundred others. A recording has a hundred thousand stacks of fifty frames
//! each, made of some ten thousand different frames, so each frame is looked at once.

use crate::catalog::{Catalog, FrameText};
use crate::ids::{FrameId, StackId};
use crate::naming::{FrameRole, Naming, SiteName, StackFrames};
use crate::plumbing;
use rustc_hash::FxHashMap;

/// The roles of the frames of one catalog, for one naming, as far as they were asked for. Always pass the same two.
#[derive(Clone, Debug, Default)]
pub struct FrameRoles {
    /// By frame, and by its caller: that of the libstdc++ pool tells what it is.
    roles: FxHashMap<(u32, u32), FrameRole>,
    /// By frame: the bits below.
    facts: Vec<u8>,
    frames: Vec<FrameId>,
}

const IS_LOOKED_AT: u8 = 1;
const IS_RUST_SYMBOL: u8 = 2;
const IS_UNNAMED: u8 = 4;
const IS_NAMELESS: u8 = 8;
const IS_LIBRARY: u8 = 16;
const IS_BACKGROUND: u8 = 32;
const NO_CALLER: u32 = u32::MAX;

impl FrameRoles {
    /// What names a site, among the `most_frames` innermost frames of its stack. As [`Naming::site`].
    pub fn site(&mut self, catalog: &Catalog, naming: &Naming, stack: StackId, most_frames: usize) -> SiteName {
        if naming.is_raw {
            return SiteName::default();
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let mut more = catalog.stacks.frame_ids_of(stack).take(most_frames);
        let mut stack = CatalogFrames { known: self, catalog, naming, frames: &mut frames, more: &mut more };
        let site = naming.site_of(&mut stack);
        self.frames = frames;
        site
    }

    /// As [`Naming::is_background`].
    pub fn is_background(&mut self, catalog: &Catalog, naming: &Naming, frame: FrameId) -> bool {
        !naming.is_raw && self.has(catalog, frame, IS_BACKGROUND)
    }

    /// Whether a frame is one of the functions through which Rust's allocator is called.
    pub(crate) fn is_rust_symbol(&mut self, catalog: &Catalog, frame: FrameId) -> bool {
        self.has(catalog, frame, IS_RUST_SYMBOL)
    }

    /// The role of a frame below its caller.
    pub(crate) fn role(
        &mut self,
        catalog: &Catalog,
        naming: &Naming,
        frame: FrameId,
        caller: Option<FrameId>,
    ) -> FrameRole {
        *self.roles.entry((frame.0, caller.map_or(NO_CALLER, |caller| caller.0))).or_insert_with(|| {
            let caller = caller.map(|caller| text(catalog, caller));
            naming.role(&text(catalog, frame), caller.as_ref())
        })
    }

    fn has(&mut self, catalog: &Catalog, frame: FrameId, fact: u8) -> bool {
        let at = frame.0 as usize;
        if self.facts.len() <= at {
            self.facts.resize(catalog.stacks.frames().len().max(at + 1), 0);
        }
        if self.facts[at] == 0 {
            let frame = text(catalog, frame);
            self.facts[at] = [
                (IS_RUST_SYMBOL, plumbing::is_rust_symbol(frame.function)),
                (IS_UNNAMED, frame.unnamed_code().is_some()),
                (IS_NAMELESS, plumbing::is_nameless(&frame)),
                (IS_LIBRARY, plumbing::is_library(&frame)),
                (IS_BACKGROUND, plumbing::is_background(&frame)),
            ]
            .iter()
            .fold(IS_LOOKED_AT, |facts, (fact, is_so)| if *is_so { facts | fact } else { facts });
        }
        self.facts[at] & fact != 0
    }
}

fn text(catalog: &Catalog, frame: FrameId) -> FrameText<'_> {
    catalog.stacks.frame(frame).map(|frame| catalog.frame_text(frame)).unwrap_or_default()
}

/// A stack of a catalog. Most sites are named after one of the innermost frames, so the others are not even listed.
struct CatalogFrames<'a> {
    known: &'a mut FrameRoles,
    catalog: &'a Catalog,
    naming: &'a Naming,
    frames: &'a mut Vec<FrameId>,
    more: &'a mut dyn Iterator<Item = FrameId>,
}

impl CatalogFrames<'_> {
    fn is(&mut self, at: usize, fact: u8) -> bool {
        self.known.has(self.catalog, self.frames[at], fact)
    }
}

impl StackFrames for CatalogFrames<'_> {
    fn has(&mut self, at: usize) -> bool {
        while self.frames.len() <= at {
            match self.more.next() {
                Some(frame) => self.frames.push(frame),
                None => return false,
            }
        }
        true
    }

    fn role(&mut self, at: usize) -> FrameRole {
        let caller = if self.has(at + 1) { Some(self.frames[at + 1]) } else { None };
        self.known.role(self.catalog, self.naming, self.frames[at], caller)
    }

    fn is_rust_symbol(&mut self, at: usize) -> bool {
        self.is(at, IS_RUST_SYMBOL)
    }

    fn is_unnamed(&mut self, at: usize) -> bool {
        self.is(at, IS_UNNAMED)
    }

    fn is_nameless(&mut self, at: usize) -> bool {
        self.is(at, IS_NAMELESS)
    }

    fn is_library(&mut self, at: usize) -> bool {
        self.is(at, IS_LIBRARY)
    }

    fn share_module(&mut self, one: usize, other: usize) -> bool {
        text(self.catalog, self.frames[one]).module == text(self.catalog, self.frames[other]).module
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_have_the_names_that_their_lists_of_frames_give() {
        let mut catalog = Catalog::default();
        let frame = |function, module| FrameText { function, module, address: 7, ..FrameText::default() };
        let stacks = [
            vec![frame("malloc", "libc.so.6"), frame("xmalloc", "app"), frame("load", "app"), frame("main", "app")],
            vec![frame("malloc", ""), frame("ggc_internal_alloc", "cc1plus"), frame("make_node", "cc1plus")],
            vec![frame("", "libstdc++.so.6"), frame("call_init", "ld.so")],
            vec![frame("", "libstdc++.so.6"), frame("main", "app")],
            vec![frame("", ""), frame("", ""), frame("main", "app")],
            vec![frame("alloc", "app"), frame("__rust_alloc", "app"), frame("load", "app")],
            vec![frame("malloc", ""), frame("malloc", "")],
            vec![],
        ];
        let ids: Vec<StackId> = stacks.iter().map(|stack| catalog.intern_stack(stack)).collect();
        for naming in [Naming::default(), Naming::raw()] {
            let mut roles = FrameRoles::default();
            // The second time, everything is known.
            for id in ids.iter().chain(&ids) {
                let frames: Vec<FrameText<'_>> = catalog.frame_texts(*id).collect();
                assert_eq!(roles.site(&catalog, &naming, *id, 100), naming.site(&frames), "{frames:?}");
                for frame in catalog.stacks.frame_ids_of(*id) {
                    let expected = naming.is_background(&text(&catalog, frame));
                    assert_eq!(roles.is_background(&catalog, &naming, frame), expected);
                }
            }
        }
    }
}
