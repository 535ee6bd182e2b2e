//! What tells apart the rows of one table that would look alike.
//!
//! A row is a function and a line. Several sites may share both: one line fills four containers, one function is called from everywhere. Such rows show
//! what differs: the type, else the library call nearest to the line (`→ std::make_shared`), else the nearest caller (`← parse`), else where the code lies.

use crate::catalog::{Catalog, FrameText};
use crate::code_offset::CodeOffset;
use crate::ids::StackId;
use crate::naming::{Naming, SiteName};
use crate::types::SiteTypes;
use std::collections::BTreeMap;

/// The first rows of a table, which are compared with each other. No person compares more.
const MOST_ROWS: usize = 2000;
/// The most frames of a stack that are looked at.
const MOST_FRAMES: usize = 256;
/// The most callers, and the most library calls, that are compared. Many rows may be compared, and their frames are held at the same time.
const MOST_LEVELS: usize = 12;

/// The types of the sites of a table, whose rows may be of several catalogs.
#[derive(Default)]
struct TableTypes<'c>(Vec<(&'c Catalog, SiteTypes)>);

impl<'c> TableTypes<'c> {
    /// The type of the blocks of a site, if its stack shows it.
    fn of(&mut self, naming: &Naming, catalog: &'c Catalog, stack: StackId) -> Option<String> {
        let known = self.0.iter().position(|(other, _)| std::ptr::eq(*other, catalog));
        let at = known.unwrap_or_else(|| {
            self.0.push((catalog, SiteTypes::new(catalog, naming)));
            self.0.len() - 1
        });
        let found = self.0[at].1.of(catalog, stack);
        found.is_known.then(|| found.name.clone())
    }
}

/// A site of a table.
struct Site<'a> {
    /// The frame that names it.
    own: FrameText<'a>,
    /// What it calls on the way to the allocator, nearest first.
    callees: Vec<FrameText<'a>>,
    /// The nearest callers that belong to the program.
    callers: Vec<FrameText<'a>>,
    /// The nearest callers, whatever they belong to.
    all_callers: Vec<FrameText<'a>>,
    pool: Option<&'static str>,
    type_name: Option<String>,
}

/// Finds what tells sites apart.
pub struct RowDetails<'a> {
    naming: &'a Naming,
    /// The nearest callers that the table shows anyway.
    callers_shown: usize,
}

impl<'a> RowDetails<'a> {
    /// For a table that shows only the names of its sites.
    pub fn new(naming: &'a Naming) -> Self {
        Self { naming, callers_shown: 0 }
    }

    /// For a table that shows the nearest callers of each site, too.
    pub fn with_callers_shown(self, callers_shown: usize) -> Self {
        Self { callers_shown, ..self }
    }

    /// For each site what tells it from those that look the same; nothing where no other does, and nothing after the first two thousand.
    pub fn of(&self, sites: &[(&Catalog, StackId)]) -> Vec<String> {
        // Whole stacks show all that differs.
        let most = if self.callers_shown == usize::MAX { 0 } else { MOST_ROWS };
        let mut details = self.of_first(&sites[..sites.len().min(most)]);
        details.resize(sites.len(), String::new());
        details
    }

    fn of_first<'c>(&self, sites: &[(&'c Catalog, StackId)]) -> Vec<String> {
        let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, (catalog, stack)) in sites.iter().enumerate() {
            alike.entry(self.look(&self.site(catalog, *stack))).or_default().push(at);
        }
        let mut details: Vec<Vec<String>> = vec![Vec::new(); sites.len()];
        let mut types = TableTypes::default();
        // Only sites that look like others are held.
        let mut held: BTreeMap<usize, Site<'c>> = BTreeMap::new();
        for at in alike.values().filter(|group| group.len() > 1).flatten() {
            let (catalog, stack) = sites[*at];
            let type_name = types.of(self.naming, catalog, stack);
            held.insert(*at, Site { type_name, ..self.site(catalog, stack) });
        }
        let mut groups: Vec<Vec<usize>> = alike.into_values().collect();
        while let Some(group) = groups.pop() {
            if group.len() > 1
                && let Some(marks) = self.first_difference(&held, &group)
            {
                let mut parts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
                for (at, mark) in group.into_iter().zip(marks) {
                    details[at].push(mark.clone());
                    parts.entry(mark).or_default().push(at);
                }
                groups.extend(parts.into_values());
            }
        }
        details.iter().map(|marks| in_one_line(marks)).collect()
    }

    /// A site without its type.
    fn site<'c>(&self, catalog: &'c Catalog, stack: StackId) -> Site<'c> {
        let frames: Vec<FrameText<'c>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
        let SiteName { passing, pool } = self.naming.site(&frames);
        let (inner, outer) = frames.split_at(passing.min(frames.len()));
        let callers = outer.get(1..).unwrap_or_default();
        let nearest = |frames: &mut dyn Iterator<Item = &FrameText<'c>>| frames.take(MOST_LEVELS).copied().collect();
        Site {
            own: outer.first().copied().unwrap_or_default(),
            callees: nearest(&mut inner.iter().rev()),
            callers: nearest(&mut callers.iter().filter(|frame| !self.naming.is_background(frame))),
            all_callers: nearest(&mut callers.iter()),
            pool,
            type_name: None,
        }
    }

    /// What a person sees of a site without details.
    fn look(&self, site: &Site<'_>) -> String {
        let own = &site.own;
        let mut look = format!("{:?} {} {}:{}", site.pool, self.text(own), own.file, own.line);
        for caller in site.callers.iter().take(self.callers_shown) {
            look.push_str(&format!(" ← {}", self.text(caller)));
        }
        look
    }

    /// A frame's name as it is shown.
    fn text(&self, frame: &FrameText<'_>) -> String {
        match (frame.function, frame.unnamed_code()) {
            (_, Some(code)) => code.to_string(),
            ("", None) if frame.address != 0 => format!("{:#x}", frame.address),
            (function, None) => self.naming.shown(function).into_owned(),
        }
    }

    /// For each site of a group, a mark. Marks are of the first kind by which not all sites are equal.
    fn first_difference(&self, sites: &BTreeMap<usize, Site<'_>>, group: &[usize]) -> Option<Vec<String>> {
        let group: Vec<&Site<'_>> = group.iter().filter_map(|at| sites.get(at)).collect();
        let levels = || 0..MOST_LEVELS;
        differing(group.iter().map(|site| site.type_name.clone().unwrap_or_default()))
            .or_else(|| {
                levels().find_map(|level| self.frames_differ(&group, "→", &|site| site.callees.get(level), false))
            })
            .or_else(|| {
                levels().find_map(|level| self.frames_differ(&group, "←", &|site| site.callers.get(level), false))
            })
            .or_else(|| {
                levels().find_map(|level| self.frames_differ(&group, "←", &|site| site.callers.get(level), true))
            })
            .or_else(|| levels().find_map(|level| differing(group.iter().map(|site| site.code(level)))))
    }

    /// The marks of one frame of each site, if not all look alike. Frames are compared before texts are made of them: a table may have thousands of rows.
    fn frames_differ<'s, 'f: 's>(
        &self,
        group: &[&'s Site<'f>],
        arrow: &str,
        frame_of: &dyn Fn(&'s Site<'f>) -> Option<&'s FrameText<'f>>,
        with_line: bool,
    ) -> Option<Vec<String>> {
        let frames: Vec<Option<&FrameText<'_>>> = group.iter().map(|site| frame_of(site)).collect();
        let identity =
            |frame: &FrameText<'_>| (frame.function.as_ptr(), frame.function.len(), frame.address, frame.line);
        let first = frames.first()?.map(identity);
        if frames.iter().all(|frame| frame.map(identity) == first) {
            return None;
        }
        let mark = |frame: &Option<&FrameText<'_>>| match frame {
            Some(frame) if with_line && frame.line > 0 => {
                let file = frame.file.rsplit('/').next().unwrap_or_default();
                format!("{arrow} {} {file}:{}", self.text(frame), frame.line)
            }
            Some(frame) => format!("{arrow} {}", self.text(frame)),
            None => String::new(),
        };
        differing(frames.iter().map(mark))
    }
}

/// Marks one after the other. A recursion has the same many times, and shows their number.
fn in_one_line(marks: &[String]) -> String {
    let runs = marks.chunk_by(|one, other| one == other).filter(|run| !run[0].is_empty());
    let texts = runs.map(|run| if run.len() > 1 { format!("{} ×{}", run[0], run.len()) } else { run[0].clone() });
    let texts: Vec<String> = texts.collect();
    // The first mark says most; the last one tells the row from all others.
    match texts.as_slice() {
        [first, .., last] if texts.len() > 2 => format!("{first} … {last}"),
        texts => texts.join(" "),
    }
}

/// The texts, if not all are equal.
fn differing(texts: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let texts: Vec<String> = texts.collect();
    texts.iter().any(|text| *text != texts[0]).then_some(texts)
}

impl Site<'_> {
    /// Where the code of a call lies: level 0 is its own, the next one that of its caller.
    fn code(&self, level: usize) -> String {
        let frame = match level {
            0 => Some(&self.own),
            level => self.all_callers.get(level - 1),
        };
        match frame {
            Some(&FrameText { build_id, module, offset: Some(offset), .. }) => {
                format!("at {}", CodeOffset { build_id, module, offset })
            }
            Some(frame) if frame.address != 0 => format!("at {:#x}", frame.address),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32) -> FrameText<'_> {
        FrameText { function, file: if line > 0 { "/src/main.cpp" } else { "" }, line, ..FrameText::default() }
    }

    fn details(stacks: &[&[FrameText<'_>]], callers_shown: usize) -> Vec<String> {
        let mut catalog = Catalog::default();
        let stacks: Vec<StackId> = stacks.iter().map(|frames| catalog.intern_stack(frames)).collect();
        let sites: Vec<(&Catalog, StackId)> = stacks.iter().map(|stack| (&catalog, *stack)).collect();
        RowDetails::new(&Naming::default()).with_callers_shown(callers_shown).of(&sites)
    }

    #[test]
    fn rows_that_look_alike_show_the_library_call_and_others_show_nothing() {
        let new = frame("operator new(unsigned long)", 0);
        let found = details(
            &[
                &[new, frame("std::vector<int, std::allocator<int> >::push_back(int&&)", 0), frame("main", 21)],
                &[new, frame("std::make_shared<Node, int>(int&&)", 0), frame("main", 21)],
                &[new, frame("main", 21)],
                &[new, frame("std::make_shared<Node, int>(int&&)", 0), frame("main", 22)],
            ],
            0,
        );
        assert_eq!(found, ["→ std::vector<int>::push_back", "→ std::make_shared<Node, int>", "→ operator new", ""]);
    }

    #[test]
    fn where_nothing_inside_differs_the_nearest_caller_does() {
        let stacks: [&[FrameText<'_>]; 3] = [
            &[frame("malloc", 0), frame("grow", 5), frame("push", 7), frame("parse", 9)],
            &[frame("malloc", 0), frame("grow", 5), frame("push", 7), frame("read", 9)],
            &[frame("malloc", 0), frame("grow", 5), frame("push", 8), frame("read", 9)],
        ];
        assert_eq!(details(&stacks, 0), ["← parse", "← read ← push main.cpp:7", "← read ← push main.cpp:8"]);
        let recursion: [&[FrameText<'_>]; 3] = [
            &[frame("grow", 5), frame("map", 0), frame("map", 0), frame("map", 0), frame("main", 0)],
            &[frame("grow", 5), frame("map", 0), frame("map", 0), frame("main", 0)],
            &[frame("grow", 5), frame("main", 0)],
        ];
        assert_eq!(details(&recursion, 0), ["← map ×2", "← map ← main", "← main"]);
        // A table that shows callers shows no caller twice.
        assert_eq!(details(&stacks, 3), ["", "← push main.cpp:7", "← push main.cpp:8"]);
    }
}
