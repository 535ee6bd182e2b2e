//! Finds names for the addresses of a catalog.

use crate::module::{SourceFrame, TypeSize};
use crate::perf_map::JIT_MODULE;
use crate::symbolizer::{ModuleMapping, Symbolizer};
use highwater_model::{
    Accounts, Catalog, FrameId, FrameText, MadeType, Module, Naming, SiteTypes, SizeOfType, StringId, TypeClaim,
};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// How many names were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbolized {
    /// Addresses looked up.
    pub addresses: usize,
    /// Addresses that got a name.
    pub named: usize,
    /// Addresses that got a source line.
    pub with_lines: usize,
    /// Modules whose names could not be read, each with the reason, in one line.
    pub problems: Vec<String>,
}

/// Finds names for the frames of a catalog that have an address and a module, and for which `wanted` returns true. Frames that have names already
/// get those that are found now, unless less is known now than before.
pub fn resolve_frames(
    catalog: &mut Catalog,
    symbolizer: &mut Symbolizer,
    wanted: impl Fn(FrameId) -> bool,
) -> Symbolized {
    let mut by_module: BTreeMap<u32, Vec<(FrameId, u64)>> = BTreeMap::new();
    for (id, frame) in (0..).map(FrameId).zip(catalog.stacks.frames()) {
        let plain = frame.address != 0 && frame.module != 0 && frame.function == StringId::EMPTY;
        if plain && wanted(id) {
            by_module.entry(frame.module - 1).or_default().push((id, frame.address));
        }
    }
    let mut done = Symbolized::default();
    for (module, frames) in by_module {
        if catalog.modules.get(module as usize).is_some_and(|at| catalog.strings.get(at.path) == JIT_MODULE) {
            // Code that lies in no file: only a map of its runtime can name it.
            continue;
        }
        done.addresses += frames.len();
        let found = look_up(catalog, symbolizer, module, &frames, &mut done);
        for (id, sources) in found {
            let before = Known::of_catalog(catalog, id);
            let now = Known::of_frames(&sources);
            let best = before.max(now);
            done.named += usize::from(best.has_name);
            done.with_lines += usize::from(best.has_line);
            // What an earlier run found stays if less is found now: debug files come and go.
            if now >= before {
                let texts: Vec<FrameText<'_>> = sources.iter().map(frame_text).collect();
                catalog.resolve(id, &texts);
                for fact in sources.iter().flat_map(|frame| &frame.sizes) {
                    let name = catalog.strings.intern(&fact.name);
                    catalog.types.add_size(SizeOfType { name, size: fact.size });
                }
            }
        }
    }
    done
}

/// Adds what debug information says of the types of blocks, for frames that have names; `accounts` are those of the catalog's stacks.
pub fn add_type_facts(catalog: &mut Catalog, symbolizer: &mut Symbolizer, accounts: &Accounts) {
    add_made_types(catalog, symbolizer, accounts);
    add_doubts(catalog, symbolizer, accounts);
}

/// Finds the places where the program calls a library function for types that the program does not deal with there. Compilers merge functions with
/// equal code, and the names of such a function are those of one of them.
fn add_doubts(catalog: &mut Catalog, symbolizer: &mut Symbolizer, accounts: &Accounts) {
    let mut types = SiteTypes::new(catalog, &Naming::default());
    let claims = accounts.sites().iter().filter_map(|(stack, _)| types.claim(catalog, stack));
    let claims: BTreeMap<FrameId, TypeClaim> = claims.map(|claim| (claim.caller, claim)).collect();
    let mut doubtful = Vec::new();
    for (caller, claim) in claims {
        let Some(frame) = catalog.stacks.frame(claim.recorded).filter(|frame| frame.address != 0) else { continue };
        let Some(module) = catalog.module_of(frame) else { continue };
        let Ok(symbols) = symbolizer.module(&mapping_of(catalog, module)) else { continue };
        if symbols.refutes(frame.address.wrapping_sub(1), &claim) {
            doubtful.push(caller);
        }
    }
    doubtful.into_iter().for_each(|caller| catalog.types.add_doubtful(caller));
    catalog.types.set_checked();
}

/// Finds what calls of `operator new` make. A type is added only if all blocks have its size.
fn add_made_types(catalog: &mut Catalog, symbolizer: &mut Symbolizer, accounts: &Accounts) {
    let stacks = &catalog.stacks;
    let is_new = |frame: FrameId| {
        let outermost = stacks.frame_ids(frame).next_back().and_then(|id| stacks.frame(FrameId(id)));
        outermost.is_some_and(|frame| catalog.strings.get(frame.function).starts_with("operator new"))
    };
    let news: HashSet<FrameId> =
        (0..stacks.frames().len() as u32).map(FrameId).filter(|frame| is_new(*frame)).collect();
    // Bytes and blocks by the frame that calls `operator new`.
    let mut callers: BTreeMap<FrameId, (u64, u64)> = BTreeMap::new();
    for (stack, figures) in accounts.sites().iter() {
        let mut frames = stacks.recorded_frames_of(stack).skip_while(|frame| !news.contains(frame));
        if let Some(caller) = frames.by_ref().find(|frame| !news.contains(frame)) {
            let (bytes, blocks) = callers.entry(caller).or_default();
            *bytes = bytes.saturating_add(figures.allocated_bytes);
            *blocks = blocks.saturating_add(figures.allocations);
        }
    }
    let mut found = Vec::new();
    for (caller, (bytes, blocks)) in callers {
        let Some(frame) = stacks.frame(caller).filter(|frame| frame.address != 0) else { continue };
        let Some(module) = catalog.module_of(frame) else { continue };
        let Ok(symbols) = symbolizer.module(&mapping_of(catalog, module)) else { continue };
        let made = symbols.made_before(frame.address);
        // Figures of samples are rounded.
        let fits = |made: &TypeSize| made.size.saturating_mul(blocks).abs_diff(bytes) < blocks;
        if let Some(made) = made.filter(fits) {
            found.push((FrameId(stacks.frame_ids(caller).start), made));
        }
    }
    for (frame, TypeSize { name, size }) in found {
        let name = catalog.strings.intern(&name);
        catalog.types.add_size(SizeOfType { name, size });
        catalog.types.add_made(MadeType { frame, name });
    }
}

/// How much is known about an address. A line is worth more than a name: where there are lines, there are inlined frames too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    has_line: bool,
    has_name: bool,
}

impl Known {
    /// From an earlier run.
    fn of_catalog(catalog: &Catalog, id: FrameId) -> Self {
        let frames = || catalog.stacks.frame_ids(id).filter_map(|id| catalog.stacks.frames().get(id as usize));
        Self {
            has_line: frames().any(|frame| frame.line > 0),
            has_name: frames().any(|frame| frame.function != StringId::EMPTY),
        }
    }

    fn of_frames(frames: &[SourceFrame]) -> Self {
        Self {
            has_line: frames.iter().any(|frame| frame.line > 0),
            has_name: frames.iter().any(|frame| !frame.function.is_empty()),
        }
    }
}

/// Converts a frame that was found into the catalog's form.
pub fn frame_text(frame: &SourceFrame) -> FrameText<'_> {
    FrameText {
        function: &frame.function,
        file: &frame.file,
        line: frame.line,
        inlined: frame.inlined,
        ..FrameText::default()
    }
}

fn look_up(
    catalog: &Catalog,
    symbolizer: &mut Symbolizer,
    module: u32,
    frames: &[(FrameId, u64)],
    done: &mut Symbolized,
) -> Vec<(FrameId, Vec<SourceFrame>)> {
    let Some(module) = catalog.modules.get(module as usize) else { return Vec::new() };
    match symbolizer.module(&mapping_of(catalog, module)) {
        Ok(symbols) => frames
            .iter()
            // A return address lies after its call.
            .map(|&(id, address)| (id, symbols.lookup(address.wrapping_sub(1)).to_vec()))
            .filter(|(_, frames)| !frames.is_empty())
            .collect(),
        Err(error) => {
            done.problems.push(error.to_string());
            Vec::new()
        }
    }
}

/// Where a module of a catalog was mapped.
pub fn mapping_of<'a>(catalog: &'a Catalog, module: &Module) -> ModuleMapping<'a> {
    ModuleMapping {
        path: Path::new(catalog.strings.get(module.path)),
        build_id: catalog.strings.get(module.build_id),
        start: module.start,
        file_offset: module.file_offset,
    }
}
