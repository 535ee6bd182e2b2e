//! Names of frames and rows, for people.

use crate::error::QueryError;
use crate::filter::{Filter, pattern};
use crate::stacks::MOST_FRAMES;
use highwater_formats::json::{FrameAnswer, frame};
use highwater_model::groups::GroupKey;
use highwater_model::{Catalog, CodeOffset, FrameText, Naming, RowDetails, StackId};
use regex::Regex;

/// The name of something of which nothing is known.
pub const UNKNOWN: &str = "[unknown]";

/// A frame's name: its function, or its source line, or where its code lies.
pub fn label(frame: &FrameText<'_>) -> String {
    if let Some(code) = frame.unnamed_code() {
        return code.to_string();
    }
    match (frame.function, frame.address, frame.module) {
        ("", ..) if !frame.file.is_empty() => place(frame),
        ("", 0, _) => UNKNOWN.to_owned(),
        ("", address, "") => format!("{address:#x}"),
        ("", address, module) => format!("{}!{address:#x}", module.rsplit('/').next().unwrap_or(module)),
        (function, ..) => function.to_owned(),
    }
}

/// A frame's source line, or its file; nothing where neither is known.
pub fn place(frame: &FrameText<'_>) -> String {
    match (frame.file, frame.line) {
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    }
}

/// The frame that names a site: the innermost one that belongs to the program itself.
pub fn own_frame<'a>(naming: &Naming, frames: &[FrameText<'a>]) -> Option<FrameText<'a>> {
    frames.get(naming.passing_frames(frames)).copied()
}

/// The name of a row, for people.
pub fn key_text(naming: &Naming, catalog: &Catalog, key: &GroupKey) -> String {
    match key {
        GroupKey::Name(name) if name.is_empty() => UNKNOWN.to_owned(),
        GroupKey::Name(name) => name.clone(),
        GroupKey::Code { build_id, module, offset } => CodeOffset { build_id, module, offset: *offset }.to_string(),
        GroupKey::Thread(thread) => match catalog.thread_name(*thread) {
            "" => thread.0.to_string(),
            name => format!("{name} ({})", thread.0),
        },
        GroupKey::Site(stack) => {
            let frames: Vec<FrameText<'_>> = catalog.frame_texts(*stack).take(MOST_FRAMES).collect();
            own_frame(naming, &frames).map_or_else(|| UNKNOWN.to_owned(), |frame| label(&frame))
        }
    }
}

/// What rows are searched for, whatever the case: a text, or a regular expression between slashes.
#[derive(Debug)]
pub enum Search {
    /// Every row is found.
    All,
    /// This text in lower case.
    Text(String),
    /// A regular expression.
    Pattern(Regex),
}

impl Search {
    /// Reads what was typed. The page reads it in the same way.
    pub fn new(text: &str) -> Result<Self, QueryError> {
        match text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).filter(|inner| !inner.is_empty()) {
            _ if text.is_empty() => Ok(Self::All),
            None => Ok(Self::Text(text.to_lowercase())),
            Some(inner) => {
                let found = pattern(&format!("(?i){inner}"));
                found.map(Self::Pattern).map_err(|why| QueryError::Bad(format!("search={text}: {why}")))
            }
        }
    }

    /// The same as a filter on the functions, files and modules of stacks; `None` if every row is found.
    pub fn filter(&self) -> Result<Option<Filter>, QueryError> {
        Ok(match self {
            Self::All => None,
            Self::Text(wanted) => {
                let escaped = pattern(&format!("(?i){}", regex::escape(wanted))).map_err(QueryError::Bad)?;
                Some(Filter::of_text(escaped))
            }
            Self::Pattern(pattern) => Some(Filter::of_text(pattern.clone())),
        })
    }

    fn has(&self, text: &str) -> bool {
        match self {
            Self::All => true,
            Self::Text(wanted) => text.to_lowercase().contains(wanted),
            Self::Pattern(pattern) => pattern.is_match(text),
        }
    }
}

/// Whether a search finds the name of a row, or any frame of a site.
pub fn is_found(naming: &Naming, catalog: &Catalog, key: &GroupKey, search: &Search) -> bool {
    let has = |text: &str| search.has(text);
    match key {
        _ if matches!(search, Search::All) => true,
        GroupKey::Site(stack) => catalog
            .frame_texts(*stack)
            .take(MOST_FRAMES)
            .any(|frame| has(&label(&frame)) || has(frame.file) || has(frame.module)),
        GroupKey::Name(_) | GroupKey::Code { .. } | GroupKey::Thread(_) => has(&key_text(naming, catalog, key)),
    }
}

/// The frame that names a site, as part of an answer.
pub fn own_frame_of(naming: &Naming, catalog: &Catalog, stack: StackId) -> Option<FrameAnswer> {
    let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
    own_frame(naming, &frames).map(|own| frame(&own))
}

/// The pool that a site took its memory for, if it is one.
pub fn pool_of(naming: &Naming, catalog: &Catalog, stack: StackId) -> Option<&'static str> {
    let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
    naming.site(&frames).pool
}

/// For each row what tells it from others that look the same, if it is a site.
pub fn details_of<'k>(
    naming: &Naming,
    rows: impl Iterator<Item = Option<(&'k Catalog, StackId)>>,
) -> Vec<Option<String>> {
    let rows: Vec<Option<(&Catalog, StackId)>> = rows.collect();
    let sites: Vec<(&Catalog, StackId)> = rows.iter().copied().flatten().collect();
    let mut details = RowDetails::new(naming).of(&sites).into_iter();
    rows.iter().map(|row| row.and_then(|_| details.next()).filter(|detail| !detail.is_empty())).collect()
}
