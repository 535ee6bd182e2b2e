//! Finds names for the addresses of a catalog.

use crate::module::SourceFrame;
use crate::perf_map::JIT_MODULE;
use crate::symbolizer::{ModuleMapping, Symbolizer};
use highwater_model::{Catalog, FrameId, FrameText, Module};
use std::collections::BTreeMap;
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

/// Finds names for the frames of a catalog that have an address and a module, and for which `wanted` returns true.
pub fn resolve_frames(
    catalog: &mut Catalog,
    symbolizer: &mut Symbolizer,
    wanted: impl Fn(FrameId) -> bool,
) -> Symbolized {
    let mut by_module: BTreeMap<u32, Vec<(FrameId, u64)>> = BTreeMap::new();
    for (id, frame) in (0..).map(FrameId).zip(catalog.stacks.frames()) {
        let plain = frame.address != 0 && frame.module != 0 && frame.function == highwater_model::StringId::EMPTY;
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
            done.named += usize::from(sources.iter().any(|frame| !frame.function.is_empty()));
            done.with_lines += usize::from(sources.iter().any(|frame| frame.line > 0));
            let texts: Vec<FrameText<'_>> = sources.iter().map(frame_text).collect();
            catalog.resolve(id, &texts);
        }
    }
    done
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
