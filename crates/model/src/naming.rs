//! How sites and frames are named: which frame of a stack names it, and how names are shortened.
//!
//! A [`Naming`] is made once for a recording or snapshot and passed to everything that names rows, so that the terminal, the exports and the page agree.

use crate::allocator_names::AllocatorNames;
use crate::catalog::FrameText;
use crate::learned_wrappers::LearnedWrappers;
use crate::plumbing;
use crate::pools::pool_of;
use crate::short_name::short_name;
use crate::wrappers::is_wrapper;
use std::borrow::Cow;
use std::sync::Arc;

/// How sites and frames are named.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// Names are shown as they are: the innermost frame names a site, and nothing is shortened.
    pub is_raw: bool,
    /// Functions that the user calls allocators.
    pub allocators: Arc<AllocatorNames>,
    /// Wrappers that were recognised by what they do.
    pub learned: Arc<LearnedWrappers>,
}

/// The most frames without a name that are taken for parts of the wrapper that calls them.
const MOST_PARTS: usize = 3;

/// What names a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteName {
    /// How many inner frames pass memory on. The next one names the site.
    pub passing: usize,
    /// The pool that the memory was taken for.
    pub pool: Option<&'static str>,
}

/// What a frame is for the memory that passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameRole {
    /// An allocator, or a wrapper of one.
    Allocator,
    /// A part of a language's library that uses an allocator.
    Library,
    /// A pool, which owns the memory.
    Pool(&'static str),
    /// The program's own.
    Own,
}

/// The frames of one stack, innermost first, as far as the name of a site depends on them. A frame that is asked about must be there.
pub(crate) trait StackFrames {
    /// Whether there is a frame with this index.
    fn has(&mut self, at: usize) -> bool;
    /// Its role.
    fn role(&mut self, at: usize) -> FrameRole;
    /// Whether it is one of the functions through which Rust's allocator is called.
    fn is_rust_symbol(&mut self, at: usize) -> bool;
    /// Whether it is code without a function's name, in a known module.
    fn is_unnamed(&mut self, at: usize) -> bool;
    /// Whether nothing but its address is known.
    fn is_nameless(&mut self, at: usize) -> bool;
    /// Whether it is a part of a language's library.
    fn is_library(&mut self, at: usize) -> bool;
    /// Whether two of them lie in the same module.
    fn share_module(&mut self, one: usize, other: usize) -> bool;
}

/// How many frames without a name come before a wrapper or a pool of the same module: a stripped program names what it exports, and what an exported
/// wrapper calls on its way to the allocator is a part of it.
fn unnamed_parts(frames: &mut impl StackFrames, first: usize) -> usize {
    let mut unnamed = 0;
    while unnamed <= MOST_PARTS && frames.has(first + unnamed) && frames.is_unnamed(first + unnamed) {
        unnamed += 1;
    }
    let outer = first + unnamed;
    let is_part = (1..=MOST_PARTS).contains(&unnamed)
        && frames.has(outer)
        && frames.role(outer) != FrameRole::Own
        && !frames.is_library(outer)
        && (first..outer).all(|part| frames.share_module(part, outer));
    if is_part { unnamed } else { 0 }
}

/// How many unknown frames may be skipped for one that has a name.
const MOST_NAMELESS: usize = 2;

/// How many frames of which only the address is known come before a named one, up to two of them: the named one is more useful.
fn useless_frames(frames: &mut impl StackFrames, first: usize) -> usize {
    let mut nameless = 0;
    while nameless <= MOST_NAMELESS && frames.has(first + nameless) && frames.is_nameless(first + nameless) {
        nameless += 1;
    }
    if nameless <= MOST_NAMELESS && frames.has(first + nameless) { nameless } else { 0 }
}

/// The frames of a list.
struct ListedFrames<'a> {
    naming: &'a Naming,
    frames: &'a [FrameText<'a>],
}

impl StackFrames for ListedFrames<'_> {
    fn has(&mut self, at: usize) -> bool {
        at < self.frames.len()
    }

    fn role(&mut self, at: usize) -> FrameRole {
        self.naming.role(&self.frames[at], self.frames.get(at + 1))
    }

    fn is_rust_symbol(&mut self, at: usize) -> bool {
        plumbing::is_rust_symbol(self.frames[at].function)
    }

    fn is_unnamed(&mut self, at: usize) -> bool {
        self.frames[at].unnamed_code().is_some()
    }

    fn is_nameless(&mut self, at: usize) -> bool {
        plumbing::is_nameless(&self.frames[at])
    }

    fn is_library(&mut self, at: usize) -> bool {
        plumbing::is_library(&self.frames[at])
    }

    fn share_module(&mut self, one: usize, other: usize) -> bool {
        self.frames[one].module == self.frames[other].module
    }
}

impl Naming {
    /// Names as they are.
    pub fn raw() -> Self {
        Self { is_raw: true, ..Self::default() }
    }

    /// The frame that names a site, among its frames, innermost first.
    pub fn site(&self, innermost_first: &[FrameText<'_>]) -> SiteName {
        self.site_of(&mut ListedFrames { naming: self, frames: innermost_first })
    }

    /// The frame that names a site.
    pub(crate) fn site_of(&self, frames: &mut impl StackFrames) -> SiteName {
        if self.is_raw {
            return SiteName::default();
        }
        let own_allocator = plumbing::own_allocator(|at| frames.has(at).then(|| frames.is_rust_symbol(at)));
        let mut at = 0;
        while frames.has(at) {
            match frames.role(at) {
                FrameRole::Allocator | FrameRole::Library => at += 1,
                FrameRole::Pool(pool) => return SiteName { passing: at, pool: Some(pool) },
                FrameRole::Own if own_allocator > at => at = own_allocator,
                FrameRole::Own => match unnamed_parts(frames, at) {
                    0 => return SiteName { passing: at + useless_frames(frames, at), pool: None },
                    parts => at += parts,
                },
            }
        }
        SiteName::default()
    }

    /// The pool that a function takes memory for.
    pub fn pool_of_function(&self, function: &str) -> Option<&'static str> {
        let frame = FrameText { function, ..FrameText::default() };
        pool_of(&frame, None).filter(|_| !self.is_raw)
    }

    /// How many of the frames of a stack, innermost first, pass memory on. The next frame is the first of the program's own. 0 if all frames do.
    pub fn passing_frames(&self, innermost_first: &[FrameText<'_>]) -> usize {
        self.site(innermost_first).passing
    }

    pub(crate) fn role(&self, frame: &FrameText<'_>, caller: Option<&FrameText<'_>>) -> FrameRole {
        if plumbing::is_allocator(frame) {
            return FrameRole::Allocator;
        }
        if self.is_added(frame) {
            return FrameRole::Allocator;
        }
        if let Some(pool) = pool_of(frame, caller) {
            return FrameRole::Pool(pool);
        }
        if plumbing::is_library(frame) {
            return FrameRole::Library;
        }
        let is_passing = is_wrapper(frame.function) || self.learned.has(frame.function);
        if is_passing { FrameRole::Allocator } else { FrameRole::Own }
    }

    /// Whether the user calls a frame an allocator. Code without a name is `module+0x1234`.
    fn is_added(&self, frame: &FrameText<'_>) -> bool {
        match frame.unnamed_code() {
            Some(code) => !self.allocators.is_empty() && self.allocators.has(&code.to_string()),
            None => self.allocators.has(frame.function),
        }
    }

    /// Whether a frame need not be seen among the callers of a site: see [`is_background`](crate::is_background).
    pub fn is_background(&self, frame: &FrameText<'_>) -> bool {
        !self.is_raw && plumbing::is_background(frame)
    }

    /// A function's name as it is shown.
    pub fn shown<'a>(&self, function: &'a str) -> Cow<'a, str> {
        if self.is_raw { Cow::Borrowed(function) } else { short_name(function) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<'a>(function: &'a str, module: &'a str) -> FrameText<'a> {
        FrameText { function, module, offset: Some(7), ..FrameText::default() }
    }

    fn site(naming: &Naming, functions: &[&str]) -> SiteName {
        naming.site(&functions.iter().map(|function| frame(function, "/usr/bin/app")).collect::<Vec<_>>())
    }

    #[test]
    fn a_site_is_named_after_the_first_function_that_does_not_pass_memory_on() {
        let passing = |passing| SiteName { passing, pool: None };
        let naming = Naming::default();
        assert_eq!(site(&naming, &["ztrymalloc_usable_internal", "zmalloc", "dictCreate", "main"]), passing(2));
        assert_eq!(site(&naming, &["my_alloc", "load", "main"]), passing(0));
        let added = Naming { allocators: Arc::new(["my_alloc".parse().unwrap()].into_iter().collect()), ..naming };
        assert_eq!(site(&added, &["my_alloc", "load", "main"]), passing(1));
        assert_eq!(site(&Naming::raw(), &["malloc", "zmalloc", "load"]), passing(0));
    }

    #[test]
    fn code_without_a_name_belongs_to_the_wrapper_that_calls_it() {
        let naming = Naming::default();
        assert_eq!(site(&naming, &["", "", "sqlite3MallocZero", "openDatabase"]).passing, 3);
        assert_eq!(site(&naming, &["", "", "openDatabase"]).passing, 0);
        assert_eq!(site(&naming, &["", "ngx_create_pool", "main"]), SiteName { passing: 1, pool: Some("nginx pool") });
        // A library that a wrapper of the program calls is none of its parts.
        let other = [frame("", "/lib/libx.so"), frame("zmalloc", "/usr/bin/app"), frame("main", "/usr/bin/app")];
        assert_eq!(naming.site(&other).passing, 0);
    }

    #[test]
    fn code_without_a_name_can_be_called_an_allocator() {
        let allocators = Arc::new(["app+0x7".parse().unwrap()].into_iter().collect());
        let naming = Naming { allocators, ..Naming::default() };
        assert_eq!(site(&naming, &["", "load", "main"]).passing, 1);
    }
}
