//! A flame graph: an SVG that can be clicked and searched, drawn by the `inferno` crate from the [`folded`](crate::folded) stacks.

use crate::folded::FoldedStacks;
use highwater_model::groups::{Keep, Metric};
use highwater_model::{Snapshot, disturbs_text, grouped};
use inferno::flamegraph::Options;
use std::io::{self, Write};
use std::{error, fmt};

/// Limit for the bytes of the names of all stacks together: inferno keeps them in memory, and about a hundred bytes for each call.
const MOST_TEXT_BYTES: u64 = 256 << 20;

/// Why no flame graph was drawn.
#[derive(Debug)]
pub enum FlameGraphError {
    /// No selected stack has a value of the metric: there is nothing to draw.
    Empty {
        /// The requested metric.
        metric: Metric,
    },
    /// The stacks are too long for inferno, which needs each of them as a whole text.
    TooLong {
        /// The length of their names together, in bytes.
        bytes: u64,
    },
    /// The graph could not be written.
    Io(io::Error),
}

impl fmt::Display for FlameGraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { metric } => {
                write!(f, "nothing to draw: no stack that was asked for has any {}", metric.in_words())
            }
            Self::TooLong { bytes } => {
                let (bytes, most) = (grouped(*bytes), grouped(MOST_TEXT_BYTES));
                write!(f, "the stacks to draw have {bytes} bytes of names, and the limit is {most}")
            }
            Self::Io(error) => write!(f, "the flame graph could not be written: {error}"),
        }
    }
}

impl error::Error for FlameGraphError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Empty { .. } | Self::TooLong { .. } => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<io::Error> for FlameGraphError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Draws the stacks of a snapshot, each as wide as its share of `metric`. Writes nothing when there is nothing to draw.
pub fn write(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>, out: impl Write) -> Result<(), FlameGraphError> {
    let lines = lines_in_drawing_order(snapshot, metric, keep)?;
    if lines.is_empty() {
        return Err(FlameGraphError::Empty { metric });
    }
    inferno::flamegraph::from_lines(&mut options(snapshot, metric), lines.iter().map(String::as_str), out)?;
    Ok(())
}

fn options(snapshot: &Snapshot, metric: Metric) -> Options<'static> {
    let program = match snapshot.source.program.as_str() {
        "" => "memory",
        program => program,
    };
    let mut options = Options::default();
    options.title = printable(program);
    let estimated = if snapshot.is_estimate() { ", estimated from samples" } else { "" };
    options.subtitle = Some(printable(&format!("{} at {}{estimated}", metric.in_words(), snapshot.at)));
    options.count_name = if metric.is_bytes() { "bytes" } else { "blocks" }.to_owned();
    // Random colours would make every run differ.
    options.deterministic = true;
    // The lines come sorted, in an order that inferno's own check would refuse; see `lines_in_drawing_order`.
    options.flame_chart = true;
    options
}

/// Replaces control characters, which XML cannot represent.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !disturbs_text(*c) && !matches!(c, '\u{fffe}' | '\u{ffff}')).collect()
}

/// The folded lines, sorted frame by frame in reverse order, as inferno requires for a flame chart.
fn lines_in_drawing_order(snapshot: &Snapshot, metric: Metric, keep: Keep<'_>) -> Result<Vec<String>, FlameGraphError> {
    let stacks = FoldedStacks::of(snapshot, metric, keep).map_err(io::Error::other)?;
    let bytes = stacks.text_bytes();
    if bytes > MOST_TEXT_BYTES {
        return Err(FlameGraphError::TooLong { bytes });
    }
    // The sum of all sites' peaks may exceed 64 bits, and inferno adds without a check.
    let mut room = u64::MAX;
    let mut lines = Vec::new();
    stacks.for_each(|stack, value| {
        let value = value.min(room);
        room -= value;
        lines.push(format!("{stack} {value}"));
        Ok(())
    })?;
    lines.reverse();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, parser};
    use highwater_model::StackId;

    fn svg(scene: &Scene, metric: Metric) -> String {
        let mut out = Vec::new();
        write(&scene.snapshot(), metric, None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn shows_frames_title_instant_and_unit() {
        let live = svg(&parser(), Metric::Live);
        assert!(live.contains("<title>grow (300 bytes, 97.40%)</title>"), "{live}");
        assert!(live.contains("<title>all (308 bytes, 100%)</title>"));
        assert!(live.contains("/usr/bin/parser --fast"));
        assert!(live.contains("live bytes at 50ns"));

        let allocations = svg(&parser(), Metric::Allocations);
        assert!(allocations.contains("<title>main (3 blocks, 75.00%)</title>"));
    }

    #[test]
    fn nothing_to_draw_is_an_error_and_writes_nothing() {
        let mut out = Vec::new();
        let error = write(&Scene::default().snapshot(), Metric::Live, None, &mut out).unwrap_err();
        assert!(matches!(error, FlameGraphError::Empty { metric: Metric::Live }));
        assert_eq!(error.to_string(), "nothing to draw: no stack that was asked for has any live bytes");
        assert!(out.is_empty());
    }

    #[test]
    fn a_function_is_one_frame_whatever_its_neighbours_are_called() {
        let mut scene = Scene::default();
        for (address, functions) in [(1, &["main"][..]), (2, &["main::{closure}"]), (3, &["parse", "main"])] {
            let stack = scene.stack(functions);
            scene.allocate(1, address, 10, stack);
        }
        let svg = svg(&scene, Metric::Live);
        assert_eq!(svg.matches("<title>main (").count(), 1);
        assert!(svg.contains("<title>main (20 bytes, 66.67%)</title>"));
    }

    #[test]
    fn peaks_that_do_not_add_up_in_64_bits_are_drawn() {
        let mut scene = Scene::default();
        let (a, b) = (scene.stack(&["a"]), scene.stack(&["b"]));
        scene.allocate(1, 1, u64::MAX / 2, a);
        scene.reallocate(1, 1, 1, u64::MAX / 2, b);
        scene.allocate(1, 2, 1, StackId::UNKNOWN);
        assert!(svg(&scene, Metric::OwnPeak).contains("<title>a ("));
    }
}
