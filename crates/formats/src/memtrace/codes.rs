//! Location codes and their frames.

use super::locations::{Described, Location, module_of};
use super::names::OptionalName;
use highwater_model::{Catalog, ColumnRange, Frame, FrameId, FrameText, GUESSED, StackId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A known code.
#[derive(Clone, Copy, Debug)]
struct LocationCode {
    frame: FrameId,
    is_described: bool,
    is_guess: bool,
}

/// The location codes of all domains of a trace. A code is a frame with that address, and its description is the frame's resolution. So a code may be
/// described after it was used, and frames without a description can still be distinguished.
#[derive(Clone, Debug, Default)]
pub struct Codes {
    codes: FxHashMap<u64, LocationCode>,
    /// The file of each module, as first seen.
    files: FxHashMap<Arc<str>, Arc<str>>,
    /// Outermost frame of stacks that may be wrong.
    doubt: Option<StackId>,
    /// The number of codes with two different descriptions.
    contradictions: u64,
    /// The number of locations that are guesses.
    guesses: u64,
}

/// Outermost frame of stacks that may be wrong.
const DOUBT: &str = "[may be wrong: packets before this are missing]";
/// Name of a location whose code is unknown because the trace lost packets.
const NO_CODE: &str = "[lost]";

impl Codes {
    /// The frame of a code.
    pub fn frame(&mut self, code: u64, catalog: &mut Catalog) -> FrameId {
        self.code(code, catalog).frame
    }

    fn code(&mut self, code: u64, catalog: &mut Catalog) -> &mut LocationCode {
        self.codes.entry(code).or_insert_with(|| {
            let function = if code == 0 { catalog.strings.intern(NO_CODE) } else { Default::default() };
            let frame = catalog.stacks.push_frame(Frame { address: code, function, ..Frame::default() });
            LocationCode { frame, is_described: false, is_guess: false }
        })
    }

    /// The outermost frame of stacks that may be wrong, as a stack.
    pub fn doubt(&mut self, catalog: &mut Catalog) -> StackId {
        *self
            .doubt
            .get_or_insert_with(|| catalog.intern_stack(&[FrameText { function: DOUBT, ..FrameText::default() }]))
    }

    /// The number of codes with two different descriptions. The first description is used.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// The number of locations that are guesses. They are marked as such.
    pub fn guesses(&self) -> u64 {
        self.guesses
    }

    /// Stores the description of a code. A certain description replaces a guess.
    pub fn describe(&mut self, described: &Described, catalog: &mut Catalog) {
        let &mut LocationCode { frame, is_described, is_guess } = self.code(described.code, catalog);
        if is_described && is_complete(described) {
            let known = locations_of(frame, catalog);
            let replaces_guess = is_guess && !described.is_guess;
            self.contradictions +=
                u64::from(is_complete_list(&known) && known != described.locations && !replaces_guess);
            if is_complete_list(&known) && !replaces_guess {
                return;
            }
        } else if is_described {
            return;
        }
        if is_guess {
            self.guesses -= locations_of(frame, catalog).len() as u64;
        }
        if described.is_guess {
            self.guesses += described.locations.len() as u64;
        }
        for location in &described.locations {
            if let (Some(function), Some(file)) = (&location.function, &location.file)
                && !self.files.contains_key(module_of(function))
            {
                self.files.insert(Arc::from(module_of(function)), Arc::clone(file));
            }
        }
        let text = |name: &OptionalName| name.clone().unwrap_or_default();
        let function = |name: &OptionalName| match described.is_guess {
            true => Arc::from(format!("{}{GUESSED}", text(name))),
            false => text(name),
        };
        let texts: Vec<(Arc<str>, Arc<str>)> =
            described.locations.iter().map(|location| (function(&location.function), text(&location.file))).collect();
        let outermost = 0;
        let frames: Vec<FrameText<'_>> = described
            .locations
            .iter()
            .zip(&texts)
            .enumerate()
            .rev()
            .map(|(at, (location, (function, file)))| FrameText {
                function,
                file,
                line: location.line,
                columns: location.columns,
                inlined: at != outermost,
                ..FrameText::default()
            })
            .collect();
        if !frames.is_empty() {
            catalog.resolve(frame, &frames);
        }
        let is_guess = described.is_guess;
        self.codes.insert(described.code, LocationCode { frame, is_described: true, is_guess });
    }

    /// The file of a module, if a function of it was seen.
    pub fn file_of(&self, module: &str) -> Option<Arc<str>> {
        self.files.get(module).cloned()
    }

    /// The known locations of a code.
    pub fn known(&self, code: u64, catalog: &Catalog) -> Option<Vec<Location>> {
        let code = self.codes.get(&code).filter(|code| code.is_described)?;
        let known = locations_of(code.frame, catalog);
        is_complete_list(&known).then_some(known)
    }
}

fn is_complete(described: &Described) -> bool {
    is_complete_list(&described.locations)
}

fn is_complete_list(locations: &[Location]) -> bool {
    locations.iter().all(|location| location.file.is_some() && location.function.is_some())
}

/// The resolution of a frame, outermost first.
fn locations_of(frame: FrameId, catalog: &Catalog) -> Vec<Location> {
    if !catalog.stacks.is_resolved(frame) {
        return Vec::new();
    }
    let name = |id| catalog.strings.shared(id).filter(|text| !text.is_empty());
    let function = |id| {
        name(id).and_then(|text| match text.strip_suffix(GUESSED) {
            Some("") => None,
            Some(known) => Some(Arc::from(known)),
            None => Some(text),
        })
    };
    let frames = catalog.stacks.frame_ids(frame).rev().filter_map(|id| catalog.stacks.frame(FrameId(id)));
    let location = |frame: &Frame| {
        let ColumnRange { start, end } = frame.columns;
        let columns = ColumnRange { start, end };
        Location { file: name(frame.file), function: function(frame.function), line: frame.line, columns }
    };
    frames.map(location).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(code: u64, functions: &[&str]) -> Described {
        let location = |function: &&str| Location {
            file: Some(Arc::from("a.ml")),
            function: Some(Arc::from(*function)),
            line: 3,
            columns: ColumnRange { start: 1, end: 4 },
        };
        Described { code, locations: functions.iter().map(location).collect(), is_guess: false }
    }

    #[test]
    fn a_code_used_before_it_was_described_gets_its_names() {
        let (mut codes, mut catalog) = (Codes::default(), Catalog::default());
        let frame = codes.frame(0x40, &mut catalog);
        let stack = catalog.stacks.intern_child(StackId::UNKNOWN, frame);
        assert_eq!(catalog.frame_texts(stack).next().unwrap().address, 0x40);
        codes.describe(&described(0x40, &["outer", "inner"]), &mut catalog);
        let texts: Vec<(&str, bool)> = catalog.frame_texts(stack).map(|text| (text.function, text.inlined)).collect();
        assert_eq!(texts, [("inner", true), ("outer", false)]);
        assert_eq!(codes.known(0x40, &catalog), Some(described(0x40, &["outer", "inner"]).locations));
    }

    #[test]
    fn what_is_described_again_must_be_the_same() {
        let (mut codes, mut catalog) = (Codes::default(), Catalog::default());
        codes.describe(&described(0x40, &["f"]), &mut catalog);
        codes.describe(&described(0x40, &["f"]), &mut catalog);
        assert_eq!(codes.contradictions(), 0);
        codes.describe(&described(0x40, &["g"]), &mut catalog);
        assert_eq!(codes.contradictions(), 1);
        assert_eq!(codes.known(0x40, &catalog), Some(described(0x40, &["f"]).locations));
    }

    #[test]
    fn a_guess_is_marked_until_something_better_is_known() {
        let (mut codes, mut catalog) = (Codes::default(), Catalog::default());
        let frame = codes.frame(0x40, &mut catalog);
        let stack = catalog.stacks.intern_child(StackId::UNKNOWN, frame);
        codes.describe(&Described { is_guess: true, ..described(0x40, &["f", "g"]) }, &mut catalog);
        let texts = |catalog: &Catalog| -> Vec<String> {
            catalog.frame_texts(stack).map(|text| text.function.to_owned()).collect()
        };
        assert_eq!((texts(&catalog), codes.guesses()), (vec!["g [guessed]".to_owned(), "f [guessed]".to_owned()], 2));
        assert_eq!(codes.known(0x40, &catalog), Some(described(0x40, &["f", "g"]).locations));
        codes.describe(&described(0x40, &["h"]), &mut catalog);
        assert_eq!((texts(&catalog), codes.guesses(), codes.contradictions()), (vec!["h".to_owned()], 0, 0));
    }

    #[test]
    fn a_name_that_was_lost_is_taken_from_a_later_description() {
        let (mut codes, mut catalog) = (Codes::default(), Catalog::default());
        let locations = vec![Location { line: 3, ..Location::default() }];
        let lost = Described { code: 7, locations, is_guess: false };
        codes.describe(&lost, &mut catalog);
        assert_eq!(codes.known(7, &catalog), None);
        codes.describe(&described(7, &["f"]), &mut catalog);
        assert_eq!(codes.known(7, &catalog), Some(described(7, &["f"]).locations));
    }
}
