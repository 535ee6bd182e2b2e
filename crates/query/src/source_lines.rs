//! The memory of the lines of source files.
//!
//! A stack counts for lines as it does in a table by line: its bytes are the line's own where the frame that names its site is at that line, and they are in
//! the line's total, once, if any of its frames is.

use crate::compare::change_of;
use crate::error::QueryError;
use crate::grouping::sites;
use crate::measure::{Amount, measure};
use crate::query::Query;
use crate::stacks::MOST_FRAMES;
use highwater_model::groups::{FrameKey, GroupBy, StackKeys};
use highwater_model::{Catalog, FrameText, StringId};
use highwater_store::history::Work;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The memory of a line, or of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LineFigures {
    /// What it allocates itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// The blocks of `self`.
    pub blocks: u64,
    /// The same with everything that it calls.
    pub total: u64,
    /// The blocks of `total`.
    pub total_blocks: u64,
}

/// How much a line, or a file, changed: the differences are taken first and rounded last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LineChange {
    /// The figures of side A.
    pub before: LineFigures,
    /// How much `self` changed.
    #[serde(rename = "self")]
    pub own: i64,
    /// How much `total` changed.
    pub total: i64,
}

/// A line that has memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "SourceLine"))]
pub struct SourceLineAnswer {
    /// Its number; 0 for calls whose line is not known.
    pub line: u32,
    /// Its memory; of a comparison, that of side B.
    pub figures: LineFigures,
    /// Of a comparison: how it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub change: Option<LineChange>,
}

/// The lines of a file that have memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "SourceLines"))]
pub struct SourceLinesAnswer {
    /// The file, as the source names it.
    pub file: String,
    /// The instant of the measurement; of a comparison, that of side B.
    pub at_ns: u64,
    /// The memory of the file, each stack counted once.
    pub figures: LineFigures,
    /// Of a comparison: how the file changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub change: Option<LineChange>,
    /// The lines, in order.
    pub lines: Vec<SourceLineAnswer>,
}

/// Whether some frame lies in this file. The text must be equal to the one in the catalog.
pub fn names_file(catalog: &Catalog, file: &str) -> bool {
    let frames = catalog.stacks.frames().iter();
    let mut ids: BTreeSet<StringId> = frames.map(|frame| frame.file).collect();
    ids.remove(&StringId::EMPTY);
    !file.is_empty() && ids.into_iter().any(|id| catalog.strings.get(id) == file)
}

/// Own and total amounts.
#[derive(Clone, Copy, Debug, Default)]
struct LineAmounts {
    own: Amount,
    total: Amount,
}

impl LineAmounts {
    fn figures(&self) -> LineFigures {
        LineFigures {
            own: self.own.value,
            blocks: self.own.blocks,
            total: self.total.value,
            total_blocks: self.total.blocks,
        }
    }

    fn change_from(&self, before: &Self) -> LineChange {
        let (own, total) = (change_of(&before.own, &self.own), change_of(&before.total, &self.total));
        LineChange { before: before.figures(), own, total }
    }
}

/// The amounts of a file, and of its lines.
#[derive(Debug, Default)]
struct FileAmounts {
    whole: LineAmounts,
    lines: BTreeMap<u32, LineAmounts>,
}

/// The file and the line of a row by line.
fn place_of<'a>(key: &FrameKey<'a>) -> Option<(&'a str, u32)> {
    match *key {
        FrameKey::Line(file, line) => Some((file, line)),
        FrameKey::Name(file) => Some((file, 0)),
        FrameKey::Code(_) => None,
    }
}

/// The amounts of some files, and when they were measured.
fn amounts(query: &Query, files: &[&str], work: &Work<'_>) -> Result<(u64, Vec<FileAmounts>), QueryError> {
    let measured = measure(query, false, work)?;
    let catalog = query.history.catalog();
    let numbers: FxHashMap<&str, usize> = files.iter().enumerate().map(|(number, file)| (*file, number)).collect();
    let mut all: Vec<FileAmounts> = files.iter().map(|_| FileAmounts::default()).collect();
    for (stack, row) in sites(&measured) {
        work.go_on()?;
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
        if !frames.iter().any(|frame| numbers.contains_key(frame.file)) {
            continue;
        }
        let keys = StackKeys::of(&frames, &query.naming, GroupBy::Line);
        let wanted = |key: &FrameKey<'_>| place_of(key).and_then(|(file, line)| Some((*numbers.get(file)?, line)));
        if let Some((number, line)) = wanted(&keys.own) {
            all[number].whole.own.add(row.amount);
            all[number].lines.entry(line).or_default().own.add(row.amount);
        }
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        for (number, line) in keys.all.iter().filter_map(wanted) {
            all[number].lines.entry(line).or_default().total.add(row.amount);
            if seen.insert(number) {
                all[number].whole.total.add(row.amount);
            }
        }
    }
    Ok((measured.at.0, all))
}

/// The lines of some files with the memory that the metric gives them.
pub fn source_lines(query: &Query, files: &[&str], work: &Work<'_>) -> Result<Vec<SourceLinesAnswer>, QueryError> {
    let (at_ns, amounts) = amounts(query, files, work)?;
    let line = |(line, amounts): (&u32, &LineAmounts)| SourceLineAnswer {
        line: *line,
        figures: amounts.figures(),
        change: None,
    };
    let answer = |(file, amounts): (&&str, &FileAmounts)| SourceLinesAnswer {
        file: (*file).to_owned(),
        at_ns,
        figures: amounts.whole.figures(),
        change: None,
        lines: amounts.lines.iter().map(line).collect(),
    };
    Ok(files.iter().zip(&amounts).map(answer).collect())
}

/// The lines of a file whose live memory differs, and those whose memory is the same: `before` is side A, `after` side B.
pub fn source_changes(
    [before, after]: [&Query; 2],
    file: &str,
    work: &Work<'_>,
) -> Result<SourceLinesAnswer, QueryError> {
    let old = amounts(before, &[file], work)?.1.pop().unwrap_or_default();
    let (at_ns, mut new) = amounts(after, &[file], work)?;
    let new = new.pop().unwrap_or_default();
    let numbers: BTreeSet<u32> = old.lines.keys().chain(new.lines.keys()).copied().collect();
    let line = |line: u32| {
        let side = |side: &FileAmounts| side.lines.get(&line).copied().unwrap_or_default();
        let (old, new) = (side(&old), side(&new));
        SourceLineAnswer { line, figures: new.figures(), change: Some(new.change_from(&old)) }
    };
    Ok(SourceLinesAnswer {
        file: file.to_owned(),
        at_ns,
        figures: new.whole.figures(),
        change: Some(new.whole.change_from(&old.whole)),
        lines: numbers.into_iter().map(line).collect(),
    })
}
