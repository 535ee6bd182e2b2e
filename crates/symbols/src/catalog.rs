//! Finds names for the addresses of a catalog.

use crate::module::SourceFrame;
use crate::symbolizer::{ModuleMapping, Symbolizer};
use highwater_model::{Catalog, FrameId, FrameText, Module, StringId};
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
            }
        }
    }
    done
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
