//! Wrappers that are recognised by what they do in a recording.
//!
//! A wrapper is called from many functions, for blocks of many sizes, and does nothing but call the allocator. Constructors are called from many functions
//! as well, but a constructor makes blocks of one size. The thresholds were measured on redis, git, Python and GCC (`docs/names.md`).

use crate::catalog::{Catalog, FrameText};
use crate::figures::Figures;
use crate::frame_roles::FrameRoles;
use crate::ids::{FrameId, StackId, StringId};
use crate::naming::{FrameRole, Naming};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::sync::Arc;

/// A wrapper has at least this many different callers.
const LEAST_CALLERS: usize = 8;
/// Its blocks have at least this many different sizes.
const LEAST_SIZES: usize = 6;
/// At least this share of its allocations, in percent, is made directly by it.
const LEAST_DIRECT: u64 = 98;
/// A wrapper may call another one, which was found in the round before.
const ROUNDS: usize = 2;
/// The sites that are looked at: those with most allocations. It bounds the time.
const MOST_SITES: usize = 50_000;
/// The innermost frames of a stack that are looked at. A recursion may have millions.
const MOST_FRAMES: usize = 256;

/// The names of functions that were recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedWrappers(FxHashSet<Box<str>>);

impl LearnedWrappers {
    /// Whether a function was recognised.
    pub fn has(&self, function: &str) -> bool {
        !self.0.is_empty() && self.0.contains(function)
    }

    /// Their names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// The wrappers of two recordings that are compared.
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    /// The wrappers among the functions of these sites.
    pub fn among<'a>(catalog: &Catalog, sites: impl Iterator<Item = (StackId, &'a Figures)>) -> Self {
        let mut calls: Vec<SiteCalls> = sites.filter_map(|(stack, figures)| SiteCalls::of(stack, figures)).collect();
        calls.sort_unstable_by_key(|site| (Reverse(site.allocations), site.stack));
        calls.truncate(MOST_SITES);
        let mut naming = Naming::default();
        for _ in 0..ROUNDS {
            let found = round(catalog, &calls, &naming);
            if found.is_empty() {
                break;
            }
            let known = naming.learned.0.iter().cloned();
            naming.learned = Arc::new(Self(known.chain(found).collect()));
        }
        Arc::unwrap_or_clone(naming.learned)
    }
}

/// The allocations of a site.
struct SiteCalls {
    stack: StackId,
    allocations: u64,
    mean_size: u64,
}

impl SiteCalls {
    fn of(stack: StackId, figures: &Figures) -> Option<Self> {
        let allocations = figures.allocations.saturating_add(figures.reallocations);
        // A snapshot of a live process knows only what is live.
        let (allocations, bytes) = match allocations {
            0 => (figures.live_blocks(), figures.live_bytes()),
            _ => (allocations, figures.allocated_bytes),
        };
        (allocations > 0).then(|| Self { stack, allocations, mean_size: bytes / allocations })
    }
}

/// What is known of a function that may be a wrapper.
#[derive(Default)]
struct Candidate {
    callers: FxHashSet<StringId>,
    sizes: FxHashSet<u64>,
    direct: u64,
}

/// The functions that have many callers and sizes, and nearly always call the allocator themselves.
fn round(catalog: &Catalog, calls: &[SiteCalls], naming: &Naming) -> Vec<Box<str>> {
    let mut candidates: FxHashMap<StringId, Candidate> = FxHashMap::default();
    let mut roles = FrameRoles::default();
    // By the frame and its caller: whether it can be a wrapper.
    let mut possible: FxHashMap<(FrameId, Option<FrameId>), bool> = FxHashMap::default();
    let text = |id: FrameId| catalog.stacks.frame(id).map(|frame| catalog.frame_text(frame)).unwrap_or_default();
    for site in calls {
        let mut frames = catalog.stacks.frame_ids_of(site.stack).take(MOST_FRAMES).peekable();
        let mut passing = 0;
        let own = loop {
            let Some(frame) = frames.next() else { break None };
            let caller = frames.peek().copied();
            if roles.role(catalog, naming, frame, caller) != FrameRole::Allocator {
                break Some((frame, caller));
            }
            passing += 1;
        };
        let Some((own, caller)) = own else { continue };
        let is_possible = *possible
            .entry((own, caller))
            .or_insert_with(|| is_possible(naming, &text(own), caller.map(text).as_ref()));
        if !is_possible {
            continue;
        }
        let own = text(own);
        let mut ids = catalog.stacks.frames_of(site.stack).skip(passing).map(|frame| frame.function);
        let Some(function) = ids.next() else { continue };
        let candidate = candidates.entry(function).or_default();
        // Recursion is no caller.
        if let Some(caller) = ids.find(|caller| *caller != function).filter(|_| !own.function.is_empty()) {
            candidate.callers.insert(caller);
        }
        candidate.sizes.insert(site.mean_size);
        candidate.direct = candidate.direct.saturating_add(site.allocations);
    }
    candidates.retain(|_, one| one.callers.len() >= LEAST_CALLERS && one.sizes.len() >= LEAST_SIZES);
    let mut totals: FxHashMap<StringId, u64> = FxHashMap::default();
    for site in calls.iter().filter(|_| !candidates.is_empty()) {
        let mut here: Vec<StringId> =
            catalog.stacks.frames_of(site.stack).take(MOST_FRAMES).map(|frame| frame.function).collect();
        here.retain(|function| candidates.contains_key(function));
        here.sort_unstable();
        here.dedup();
        here.into_iter().for_each(|function| *totals.entry(function).or_default() += site.allocations);
    }
    let is_direct = |function: &StringId, one: &Candidate| {
        let total = totals.get(function).copied().unwrap_or(0);
        one.direct.saturating_mul(100) >= total.saturating_mul(LEAST_DIRECT)
    };
    let found = candidates.iter().filter(|(function, one)| is_direct(function, one));
    found.map(|(function, _)| catalog.strings.get(*function).into()).collect()
}

/// Whether a function can be a wrapper: it has a name, and is not the C library's. Code without a name is known by the place of its call only.
fn is_possible(naming: &Naming, own: &FrameText<'_>, caller: Option<&FrameText<'_>>) -> bool {
    const SYSTEM: [&str; 6] = ["libc.so", "libc-2", "ld-linux", "ld-2", "libpthread", "libstdc++.so"];
    let module = own.module.rsplit('/').next().unwrap_or_default();
    let is_system = SYSTEM.iter().any(|library| module.starts_with(library));
    !own.function.is_empty() && !is_system && own.function != "main" && naming.role(own, caller) == FrameRole::Own
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording in which each caller asks a function for blocks of one size.
    #[derive(Default)]
    struct Scene {
        catalog: Catalog,
        sites: Vec<(StackId, Figures)>,
    }

    impl Scene {
        fn allocate(&mut self, functions: &[&str], count: u64, size: u64) {
            let frames: Vec<FrameText<'_>> =
                functions.iter().map(|function| FrameText { function, ..FrameText::default() }).collect();
            let figures = Figures { allocations: count, allocated_bytes: count * size, ..Figures::default() };
            self.sites.push((self.catalog.intern_stack(&frames), figures));
        }

        fn learned(&self) -> Vec<String> {
            let sites = self.sites.iter().map(|(stack, figures)| (*stack, figures));
            LearnedWrappers::among(&self.catalog, sites).names().into_iter().map(str::to_owned).collect()
        }
    }

    fn caller(number: u64) -> String {
        format!("caller {number}")
    }

    #[test]
    fn many_callers_and_sizes_make_a_wrapper_and_one_size_makes_a_constructor() {
        let mut scene = Scene::default();
        for number in 0..8 {
            scene.allocate(&["malloc", "grab", &caller(number), "main"], 10, 16 + number);
            scene.allocate(&["malloc", "create_node", &caller(number), "main"], 10, 48);
            scene.allocate(&["malloc", "of_few", &caller(number % 7), "main"], 10, 16 + number);
        }
        assert_eq!(scene.learned(), ["grab"]);
    }

    #[test]
    fn a_function_that_calls_other_functions_for_memory_is_no_wrapper() {
        let mut scene = Scene::default();
        for number in 0..8 {
            scene.allocate(&["malloc", "parse", &caller(number), "main"], 97, 16 + number);
            scene.allocate(&["malloc", "make_name", "parse", &caller(number), "main"], 3, 8);
            // Its part of a library is no allocator: what a container needs belongs to the function that fills it.
            scene.allocate(
                &["operator new(unsigned long)", "std::vector<int>::push_back(int&&)", "fill", &caller(number)],
                9,
                64 + number,
            );
        }
        assert_eq!(scene.learned(), [""; 0]);
    }

    #[test]
    fn a_wrapper_of_a_wrapper_is_found_in_the_second_round_and_main_never() {
        let mut scene = Scene::default();
        for number in 0..8 {
            scene.allocate(&["malloc", "grab", &caller(number), "main"], 10, 16 + number);
            scene.allocate(&["malloc", "grab", "grab_text", &caller(number), "main"], 10, 100 + number);
            scene.allocate(&["malloc", "main", &caller(number)], 10, 100 + number);
        }
        assert_eq!(scene.learned(), ["grab", "grab_text"]);
    }
}
