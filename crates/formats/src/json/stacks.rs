//! `frames[]` and `stacks[]`: the call stacks of a document, each call written once.
//!
//! Stacks of a deep recursion share nearly all their frames. Written out in each row, 3,000 recursions of a 30 KB recording took 629 MB. So a row's
//! `stack` is a number, and `stacks[number]` is `[caller, frame]`: the number of the caller's stack, and the index of the frame in `frames`. The
//! caller of the outermost call is `null`; a row whose stack is unknown has `null` as its `stack`. A caller comes before all calls that it makes.

use super::frame::{FrameAnswer, frame};
use highwater_model::{Catalog, Frame, FrameText, StackId, StackNumbers, TooManyCalls, Trie, grouped};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::{error, fmt, io};

/// Limit for the bytes of all names of a document's frames together: a small file can give a long name to many frames.
const MOST_NAME_BYTES: usize = 512 << 20;

/// Why the stacks of a document cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StacksTooLarge {
    /// They have too many different calls.
    Calls(TooManyCalls),
    /// The names of their frames are too long.
    Names {
        /// The limit in bytes.
        most: usize,
    },
}

impl fmt::Display for StacksTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(calls) => calls.fmt(f),
            Self::Names { most } => {
                let most = grouped(*most as u64);
                write!(f, "the names of functions and files have more than {most} bytes, which is the limit")
            }
        }
    }
}

impl error::Error for StacksTooLarge {}

impl From<TooManyCalls> for StacksTooLarge {
    fn from(calls: TooManyCalls) -> Self {
        Self::Calls(calls)
    }
}

impl From<StacksTooLarge> for io::Error {
    fn from(large: StacksTooLarge) -> Self {
        Self::other(large)
    }
}

/// The stacks of an answer: each call once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "types", derive(ts_rs::TS), ts(rename = "StackTable"))]
pub struct StackTableAnswer {
    /// The frames.
    pub frames: Vec<FrameAnswer>,
    /// Each call: the number of the caller's stack, `None` for the outermost call, and the index of the frame in `frames`.
    pub stacks: Vec<(Option<u32>, u32)>,
}

/// The stacks of a document. The caller [adds](Self::add) all stacks first; then it asks for the numbers of rows.
#[derive(Debug)]
pub struct DocumentStacks<'a> {
    catalogs: Vec<OfCatalog<'a>>,
    /// The keys are indexes in `frames`.
    calls: Trie,
    /// The index of the catalog of each frame, and the frame.
    frames: Vec<(usize, Frame)>,
    name_bytes: usize,
    most_name_bytes: usize,
}

#[derive(Debug)]
struct OfCatalog<'a> {
    catalog: &'a Catalog,
    numbers: StackNumbers,
    frames: FxHashMap<Frame, u32>,
}

impl<'a> DocumentStacks<'a> {
    /// An empty set of stacks of these catalogs. A comparison has two catalogs.
    pub fn new(catalogs: impl IntoIterator<Item = &'a Catalog>) -> Self {
        Self::with_most(catalogs, Trie::MOST_CALLS)
    }

    /// The same with a lower limit for the number of different calls.
    pub fn with_most(catalogs: impl IntoIterator<Item = &'a Catalog>, most: usize) -> Self {
        let of = |catalog| OfCatalog { catalog, numbers: StackNumbers::default(), frames: FxHashMap::default() };
        let catalogs = catalogs.into_iter().map(of).collect();
        Self {
            catalogs,
            calls: Trie::with_most(most),
            frames: Vec::new(),
            name_bytes: 0,
            most_name_bytes: MOST_NAME_BYTES,
        }
    }

    /// The given stacks of one catalog.
    pub fn of(catalog: &'a Catalog, stacks: impl IntoIterator<Item = StackId>) -> Result<Self, StacksTooLarge> {
        let mut all = Self::new([catalog]);
        stacks.into_iter().try_for_each(|stack| all.add(0, stack))?;
        Ok(all)
    }

    /// Adds a stack of a catalog. `catalog` is the index among the catalogs given to [`new`](Self::new).
    pub fn add(&mut self, catalog: usize, stack: StackId) -> Result<(), StacksTooLarge> {
        let Self { catalogs, calls, frames, name_bytes, most_name_bytes } = self;
        let OfCatalog { catalog: names, numbers, frames: places } = &mut catalogs[catalog];
        let mut place_of = |frame: Frame| -> Result<u32, StacksTooLarge> {
            if let Some(place) = places.get(&frame) {
                return Ok(*place);
            }
            let FrameText { function, file, module, .. } = names.frame_text(&frame);
            *name_bytes += function.len() + file.len() + module.len();
            if name_bytes > most_name_bytes {
                return Err(StacksTooLarge::Names { most: *most_name_bytes });
            }
            frames.push((catalog, frame));
            let place = frames.len() as u32 - 1;
            places.insert(frame, place);
            Ok(place)
        };
        numbers.number(&names.stacks, stack, |caller, id| {
            let frame = names.stacks.frame(id).copied().unwrap_or_default();
            Ok::<u32, StacksTooLarge>(calls.child(caller, place_of(frame)?)?)
        })?;
        Ok(())
    }

    /// The `stack` of a row; `None` if no frame is known.
    pub fn number(&self, catalog: usize, stack: StackId) -> Option<u32> {
        numbered(self.catalogs[catalog].numbers.known(stack))
    }

    /// The elements of `frames[]`.
    pub fn frames(&self) -> impl Iterator<Item = FrameAnswer> + '_ {
        self.frames.iter().map(|(catalog, each)| frame(&self.catalogs[*catalog].catalog.frame_text(each)))
    }

    /// The elements of `stacks[]`.
    pub fn stacks(&self) -> impl Iterator<Item = (Option<u32>, u32)> + '_ {
        self.calls.nodes()[1..].iter().map(|(caller, frame)| (numbered(*caller), *frame))
    }

    /// `frames` and `stacks` as members of a document.
    pub fn table(&self) -> StackTableAnswer {
        StackTableAnswer { frames: self.frames().collect(), stacks: self.stacks().collect() }
    }
}

/// The root is the unknown stack.
fn numbered(node: u32) -> Option<u32> {
    node.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> FrameText<'_> {
        FrameText { function: name, ..FrameText::default() }
    }

    #[test]
    fn a_call_is_written_once_and_callers_come_first() {
        let (mut old, mut new) = (Catalog::default(), Catalog::default());
        let load = new.intern_stack(&[function("load"), function("main")]);
        let main = new.intern_stack(&[function("main")]);
        let gone = old.intern_stack(&[function("gone")]);
        let mut stacks = DocumentStacks::new([&old, &new]);
        for (catalog, stack) in [(1, load), (1, main), (0, gone), (1, StackId::UNKNOWN)] {
            stacks.add(catalog, stack).unwrap();
        }
        let numbers =
            [(1, load), (1, main), (0, gone), (1, StackId::UNKNOWN)].map(|(at, stack)| stacks.number(at, stack));
        assert_eq!(numbers, [Some(1), Some(0), Some(2), None]);
        let functions: Vec<Option<String>> = stacks.frames().map(|frame| frame.function).collect();
        assert_eq!(functions, ["main", "load", "gone"].map(|name| Some(name.to_owned())));
        assert_eq!(stacks.table().stacks, [(None, 0), (Some(0), 1), (None, 2)]);
    }

    #[test]
    fn what_is_over_a_limit_is_an_error_and_a_frame_counts_once() {
        let mut catalog = Catalog::default();
        let long = "x".repeat(500);
        let [once, twice, thrice] = [1, 2, 3].map(|count| {
            let frame = |line| FrameText { line, ..function(&long) };
            catalog.intern_stack(&(1..=count).rev().map(frame).collect::<Vec<_>>())
        });
        let mut stacks = DocumentStacks::with_most([&catalog], 1);
        assert_eq!((stacks.add(0, once), stacks.add(0, once)), (Ok(()), Ok(())));
        assert_eq!(stacks.add(0, twice), Err(StacksTooLarge::Calls(TooManyCalls { most: 1 })));
        let mut stacks = DocumentStacks { most_name_bytes: 1000, ..DocumentStacks::new([&catalog]) };
        assert_eq!((stacks.add(0, twice), stacks.add(0, once)), (Ok(()), Ok(())));
        let error = stacks.add(0, thrice).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the names of functions and files have more than 1,000 bytes, which is the limit"
        );
    }
}
