//! Frames as the locations of pprof and of OpenTelemetry: one address, with all the functions that were inlined there.
//!
//! Highwater's stacks have one frame per function, marked if it was inlined into the next outer one. So a location is a run of inlined frames with the
//! frame that ends it. A frame with an address but no function becomes a location named after its offset in the module, `app+0x1234`, or without lines if
//! that is not known.

use highwater_model::{Catalog, Frame, StackId};
use std::borrow::Cow;

/// Limit for the number of functions of one location. Compilers inline less deeply. Without the limit, a source that marks a whole recursion as
/// inlined would get one location, with a copy of its frames, for each depth.
const MOST_INLINED: usize = 64;

const UNKNOWN_FUNCTION: &str = "[unknown]";

/// A location.
pub(crate) struct CodeLocation<'a> {
    /// The code address; 0 if not known.
    pub(crate) address: u64,
    /// The index of its module in the catalog.
    pub(crate) module: Option<usize>,
    /// Its functions, innermost first.
    pub(crate) lines: Vec<CodeLine<'a>>,
}

/// A function at a location.
pub(crate) struct CodeLine<'a> {
    pub(crate) function: Cow<'a, str>,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
}

/// The frames of a stack, innermost first, in runs that are one location each. An unknown stack has one frame, of which nothing is known.
pub(crate) fn location_runs(catalog: &Catalog, stack: StackId) -> Vec<Vec<Frame>> {
    let mut frames: Vec<Frame> = catalog.stacks.frames_of(stack).copied().collect();
    if frames.is_empty() {
        frames.push(Frame::default());
    }
    let whole = frames.split_inclusive(|frame| !frame.inlined);
    // Splits from the outermost frame on, so that stacks with common callers also share their locations.
    whole.flat_map(|frames| frames.rchunks(MOST_INLINED).rev()).map(<[Frame]>::to_vec).collect()
}

impl<'a> CodeLocation<'a> {
    /// The location of a run of frames.
    pub(crate) fn of(catalog: &'a Catalog, frames: &[Frame]) -> Self {
        let outermost_known = |of: fn(&Frame) -> u64| frames.iter().rev().map(of).find(|&known| known != 0);
        let address = outermost_known(|frame| frame.address).unwrap_or(0);
        let module = outermost_known(|frame| u64::from(frame.module)).map(|module| module as usize - 1);
        let text = |id| catalog.strings.get(id);
        let line = |function: Cow<'a, str>, frame: &Frame| {
            let function = if function.is_empty() { UNKNOWN_FUNCTION.into() } else { function };
            CodeLine { function, file: text(frame.file), line: frame.line }
        };
        let has_name = frames.iter().any(|frame| !text(frame.function).is_empty());
        let lines = match frames.last() {
            _ if address == 0 || has_name => {
                frames.iter().map(|frame| line(text(frame.function).into(), frame)).collect()
            }
            Some(frame) => {
                let code = catalog.frame_text(frame).unnamed_code();
                code.map(|code| line(code.to_string().into(), frame)).into_iter().collect()
            }
            None => Vec::new(),
        };
        Self { address, module: module.filter(|module| *module < catalog.modules.len()), lines }
    }
}
