//! Collapsed stacks: one line per stack, `outermost;…;innermost value`, which every flame-graph tool reads.
//!
//! The format has no quoting, so characters with a special meaning are replaced: `;` in a name becomes `:`, control characters become spaces, and
//! characters that turn or hide the surrounding text become U+FFFD. A name that ends in a number loses the space before it, because tools take a
//! second number at the end of a line for the other side of a comparison.

use highwater_model::groups::{Keep, Metric, sites};
use highwater_model::{FrameId, FrameText, Snapshot, StackNumbers, TooManyCalls, Trie, disturbs_text};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// The lines, sorted. Stacks with the same text become one line; stacks with value 0 are left out.
///
/// Holds all lines in memory: for deep stacks use [`write()`].
pub fn lines(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    let stacks = FoldedStacks::of(snapshot, metric, keep).map_err(io::Error::other)?;
    stacks.for_each(|stack, value| {
        lines.push(format!("{stack} {value}"));
        Ok(())
    })?;
    Ok(lines)
}

/// Writes the [`lines`], one at a time. The lines of a deep recursion can have many gigabytes in total; only one line is in memory.
pub fn write(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>, mut out: impl Write) -> io::Result<()> {
    let stacks = FoldedStacks::of(snapshot, metric, keep).map_err(io::Error::other)?;
    stacks.for_each(|stack, value| writeln!(out, "{stack} {value}"))?;
    out.flush()
}

/// Stacks as trees of names: each call is stored once.
pub(crate) struct FoldedStacks {
    names: Vec<String>,
    /// The keys are indexes in `names`.
    calls: Trie,
    /// By node: the value of the stack that ends there.
    values: Vec<u64>,
}

impl FoldedStacks {
    pub(crate) fn of(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>) -> Result<Self, TooManyCalls> {
        let catalog = &snapshot.catalog;
        let mut names = FoldedNames::default();
        let (mut calls, mut values) = (Trie::default(), vec![0u64]);
        let mut numbers = StackNumbers::default();
        let mut frames: FxHashMap<FrameId, u32> = FxHashMap::default();
        for (stack, figures) in sites(snapshot, keep) {
            let value = metric.of(figures);
            if value == 0 {
                continue;
            }
            let number = numbers.number(&catalog.stacks, stack, |caller, frame| {
                let name = *frames.entry(frame).or_insert_with(|| {
                    let frame = catalog.stacks.frame(frame).copied().unwrap_or_default();
                    names.place(frame_name(&catalog.frame_text(&frame)))
                });
                calls.child(caller, if caller == 0 { names.place_as_first(name) } else { name })
            })?;
            let end = match calls.nodes()[number as usize] {
                _ if number == 0 => calls.child(0, names.place(UNKNOWN.to_owned()))?,
                (caller, name) => calls.child(caller, names.place_as_last(name))?,
            };
            values.resize(calls.nodes().len(), 0);
            values[end as usize] = values[end as usize].saturating_add(value);
        }
        values.resize(calls.nodes().len(), 0);
        Ok(Self { names: names.texts, calls, values })
    }

    /// The length of all lines together, without their values.
    pub(crate) fn text_bytes(&self) -> u64 {
        let mut lengths: Vec<u64> = Vec::with_capacity(self.values.len());
        let mut sum = 0u64;
        for (at, (caller, name)) in self.calls.nodes().iter().enumerate() {
            let outer = if at == 0 { 0 } else { lengths[*caller as usize] };
            let length = if at == 0 { 0 } else { outer + self.names[*name as usize].len() as u64 + 1 };
            lengths.push(length);
            sum = sum.saturating_add(if self.values[at] == 0 { 0 } else { length });
        }
        sum
    }

    /// Calls `show` for every stack with its value, sorted frame by frame. One line is in memory at a time.
    pub(crate) fn for_each(&self, mut show: impl FnMut(&str, u64) -> io::Result<()>) -> io::Result<()> {
        let nodes = self.calls.nodes();
        let mut ranks: Vec<u32> = (0..self.names.len() as u32).collect();
        ranks.sort_unstable_by_key(|name| &self.names[*name as usize]);
        let mut rank_of = vec![0u32; ranks.len()];
        ranks.iter().zip(0..).for_each(|(name, rank)| rank_of[*name as usize] = rank);
        // Nodes by caller; those of one caller in reverse order of their names, because the top of `waiting` is shown next.
        let mut ordered: Vec<u32> = (1..nodes.len() as u32).collect();
        ordered.sort_unstable_by_key(|node| {
            let (caller, name) = nodes[*node as usize];
            (caller, u32::MAX - rank_of[name as usize])
        });
        let mut begins = vec![0u32; nodes.len() + 1];
        nodes[1..].iter().for_each(|(caller, _)| begins[*caller as usize + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let called_by = |node: u32| &ordered[begins[node as usize] as usize..begins[node as usize + 1] as usize];
        // Nodes, each with the length of the text of its caller's stack.
        let mut waiting: Vec<(u32, usize)> = called_by(0).iter().map(|node| (*node, 0)).collect();
        let mut text = String::new();
        while let Some((node, length)) = waiting.pop() {
            text.truncate(length);
            if length > 0 {
                text.push(';');
            }
            text.push_str(&self.names[nodes[node as usize].1 as usize]);
            if self.values[node as usize] != 0 {
                show(&text, self.values[node as usize])?;
            }
            waiting.extend(called_by(node).iter().map(|inner| (*inner, text.len())));
        }
        Ok(())
    }
}

/// Names of frames as they appear in lines, each stored once.
#[derive(Default)]
struct FoldedNames {
    texts: Vec<String>,
    places: FxHashMap<String, u32>,
}

impl FoldedNames {
    fn place(&mut self, text: String) -> u32 {
        if let Some(place) = self.places.get(&text) {
            return *place;
        }
        let place = self.texts.len() as u32;
        self.texts.push(text.clone());
        self.places.insert(text, place);
        place
    }

    /// The name at the beginning of a line. Tools take a line that begins with `# ` for a comment.
    fn place_as_first(&mut self, name: u32) -> u32 {
        match self.texts[name as usize].strip_prefix("# ") {
            Some(rest) => self.place(format!("#_{rest}")),
            None => name,
        }
    }

    /// The name at the end of a line. Tools take a number there for another value.
    fn place_as_last(&mut self, name: u32) -> u32 {
        match self.texts[name as usize].rsplit_once(' ') {
            Some((before, number)) if number.chars().all(|c| c.is_ascii_digit() || c == '.') => {
                self.place(format!("{before}_{number}"))
            }
            _ => name,
        }
    }
}

const UNKNOWN: &str = "[unknown]";

/// The name of a frame in folded stacks, without characters that have a special meaning.
pub fn frame_name(frame: &FrameText<'_>) -> String {
    let name: String = frame.function.chars().map(harmless).collect();
    let name = name.trim();
    if name.is_empty()
        && let Some(code) = frame.unnamed_code()
    {
        return code.to_string().chars().map(harmless).collect();
    }
    match (name, frame.address, frame.module) {
        ("", 0, _) => UNKNOWN.to_owned(),
        ("", address, "") => format!("{address:#x}"),
        ("", address, module) => {
            let file_name = module.rsplit('/').next().unwrap_or(module);
            format!("{}!{address:#x}", file_name.chars().map(harmless).collect::<String>().trim())
        }
        (name, ..) => name.to_owned(),
    }
}

fn harmless(c: char) -> char {
    match c {
        ';' => ':',
        // Not allowed in XML, and so in no flame graph.
        '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => ' ',
        // Line separators of some tools, and characters that turn or hide the surrounding text.
        c if disturbs_text(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, any_snapshot, function, parser};
    use proptest::prelude::*;

    #[test]
    fn one_line_per_stack_outermost_first_with_the_metric_as_value() {
        let snapshot = parser().snapshot();
        assert_eq!(lines(&snapshot, Metric::Live, None).unwrap(), ["[unknown] 8", "main;parse;grow 300"]);
        assert_eq!(
            lines(&snapshot, Metric::Allocated, None).unwrap(),
            ["[unknown] 8", "main;parse 150", "main;parse;grow 300"]
        );
        assert_eq!(
            lines(&snapshot, Metric::Allocations, None).unwrap(),
            ["[unknown] 1", "main;parse 2", "main;parse;grow 1"]
        );
    }

    #[test]
    fn keep_chooses_stacks() {
        let snapshot = parser().snapshot();
        let keep = |text: &str| text == "grow";
        assert_eq!(lines(&snapshot, Metric::Allocated, Some(&keep)).unwrap(), ["main;parse;grow 300"]);
        let mut text = Vec::new();
        write(&snapshot, Metric::Allocated, Some(&keep), &mut text).unwrap();
        assert_eq!(text, b"main;parse;grow 300\n");
    }

    #[test]
    fn names_cannot_break_the_format() {
        let mut scene = Scene::default();
        let array = scene.stack(&["<[u8; 8]>::len\n", "# main"]);
        let numbered = scene.stack(&["worker 5"]);
        let nameless = scene.catalog.intern_stack(&[
            FrameText { address: 0x1f, module: "/usr/lib/libc.so.6", ..FrameText::default() },
            FrameText { address: 0x2f, ..FrameText::default() },
            FrameText::default(),
        ]);
        for (address, stack) in [(1, array), (2, numbered), (3, nameless)] {
            scene.allocate(1, address, 10, stack);
        }
        assert_eq!(
            lines(&scene.snapshot(), Metric::Live, None).unwrap(),
            ["#_main;<[u8: 8]>::len 10", "[unknown];0x2f;libc.so.6!0x1f 10", "worker_5 10"]
        );
    }

    #[test]
    fn stacks_that_read_the_same_are_one_line() {
        let mut scene = Scene::default();
        for address in [1, 2] {
            let frame = highwater_model::FrameText { address, ..function("main") };
            let stack = scene.catalog.intern_stack(&[frame]);
            scene.allocate(1, address, 10, stack);
        }
        assert_eq!(lines(&scene.snapshot(), Metric::Live, None).unwrap(), ["main 20"]);
    }

    #[test]
    fn lines_are_sorted_frame_by_frame_and_their_length_is_known() {
        let mut scene = Scene::default();
        for (address, functions) in [(1, &["main"][..]), (2, &["main {closure}"]), (3, &["parse", "main"])] {
            let stack = scene.stack(functions);
            scene.allocate(1, address, 10, stack);
        }
        let snapshot = scene.snapshot();
        assert_eq!(lines(&snapshot, Metric::Live, None).unwrap(), ["main 10", "main;parse 10", "main {closure} 10"]);
        let bytes = FoldedStacks::of(&snapshot, Metric::Live, None).unwrap().text_bytes();
        assert_eq!(bytes, "main\nmain;parse\nmain {closure}\n".len() as u64);
    }

    proptest! {
        #[test]
        fn the_values_sum_to_the_total(snapshot in any_snapshot()) {
            let total = &snapshot.accounts.totals().figures;
            for metric in [Metric::Live, Metric::Allocated, Metric::Allocations, Metric::Temporary] {
                let sum: u64 = FoldedStacks::of(&snapshot, metric, None).unwrap().values.iter().sum();
                prop_assert_eq!(sum, metric.of(total));
            }
        }
    }
}
