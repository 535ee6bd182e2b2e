//! Collapsed stacks: one line per stack, `outermost;…;innermost value`, which every flame-graph tool reads.
//!
//! The format has no quoting, so what would be taken for structure is replaced: `;` in a name becomes `:`, control
//! characters become spaces, what turns or hides the text around it becomes U+FFFD, and a name that ends in a number loses the space before it, because tools take a second
//! number at the end of a line for the other side of a comparison.

use highwater_model::groups::{Keep, Metric, sites};
use highwater_model::{Catalog, FrameText, Snapshot, StackId, disturbs_text};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The lines, sorted. Stacks that read the same are one line; stacks whose value is 0 are left out.
pub fn lines(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>) -> Vec<String> {
    stacks(snapshot, metric, keep).into_iter().map(|(stack, value)| format!("{stack} {value}")).collect()
}

/// Writes the [`lines`].
pub fn write(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>, mut out: impl Write) -> io::Result<()> {
    for (stack, value) in stacks(snapshot, metric, keep) {
        writeln!(out, "{stack} {value}")?;
    }
    out.flush()
}

/// Each line's stack with its value.
pub(crate) fn stacks(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>) -> BTreeMap<String, u64> {
    let mut values: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, figures) in sites(snapshot, keep) {
        let value = metric.of(figures);
        if value != 0 {
            let sum = values.entry(folded_stack(&snapshot.catalog, stack)).or_default();
            *sum = sum.saturating_add(value);
        }
    }
    values
}

fn folded_stack(catalog: &Catalog, stack: StackId) -> String {
    let mut names: Vec<String> = catalog.frame_texts(stack).map(|frame| folded_name(&frame)).collect();
    if names.is_empty() {
        return UNKNOWN.to_owned();
    }
    names.reverse();
    let mut text = names.join(";");
    if let Some(space) = text.rfind(' ')
        && text[space + 1..].chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        text.replace_range(space..=space, "_");
    }
    // Tools take such a line for a comment.
    if text.starts_with("# ") {
        text.replace_range(1..2, "_");
    }
    text
}

const UNKNOWN: &str = "[unknown]";

fn folded_name(frame: &FrameText<'_>) -> String {
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
        // Separators of lines, to some tools, and what turns or hides the text around it.
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
        assert_eq!(lines(&snapshot, Metric::Live, None), ["[unknown] 8", "main;parse;grow 300"]);
        assert_eq!(lines(&snapshot, Metric::Allocated, None), ["[unknown] 8", "main;parse 150", "main;parse;grow 300"]);
        assert_eq!(lines(&snapshot, Metric::Allocations, None), ["[unknown] 1", "main;parse 2", "main;parse;grow 1"]);
    }

    #[test]
    fn keep_chooses_stacks() {
        let snapshot = parser().snapshot();
        let keep = |text: &str| text == "grow";
        assert_eq!(lines(&snapshot, Metric::Allocated, Some(&keep)), ["main;parse;grow 300"]);
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
            lines(&scene.snapshot(), Metric::Live, None),
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
        assert_eq!(lines(&scene.snapshot(), Metric::Live, None), ["main 20"]);
    }

    proptest! {
        #[test]
        fn the_values_sum_to_the_total(snapshot in any_snapshot()) {
            let total = &snapshot.accounts.totals().figures;
            for metric in [Metric::Live, Metric::Allocated, Metric::Allocations, Metric::Temporary] {
                let sum: u64 = stacks(&snapshot, metric, None).values().sum();
                prop_assert_eq!(sum, metric.of(total));
            }
        }
    }
}
