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

impl Naming {
    /// Names as they are.
    pub fn raw() -> Self {
        Self { is_raw: true, ..Self::default() }
    }

    /// The frame that names a site, among its frames, innermost first.
    pub fn site(&self, innermost_first: &[FrameText<'_>]) -> SiteName {
        if self.is_raw {
            return SiteName::default();
        }
        for (at, frame) in innermost_first.iter().enumerate() {
            match self.role(frame, innermost_first.get(at + 1)) {
                FrameRole::Allocator | FrameRole::Library => {}
                FrameRole::Pool(pool) => return SiteName { passing: at, pool: Some(pool) },
                FrameRole::Own => {
                    let passing = at + plumbing::useless_frames(&innermost_first[at..]);
                    return SiteName { passing, pool: None };
                }
            }
        }
        SiteName::default()
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
