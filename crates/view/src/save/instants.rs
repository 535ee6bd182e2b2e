//! The instants of a saved page: its reader can move A among them.
//!
//! They are the chosen instant, the peak and the end of the window, the last instant before the program's tear-down, some of its marks, and then, again and again,
//! the middle of the largest gap: so no part of the window is far from a saved instant, and those that have a name are exact.

use highwater_model::{Nanos, Window};
use highwater_query::{Query, QueryError, judged_before_teardown};
use highwater_store::history::Work;
use serde::Serialize;

/// The most instants, with the chosen one. Each adds some hundred kilobytes.
const MOST: usize = 7;
/// The most of them that are marks.
const MOST_MARKS: usize = 2;

/// An instant that a saved page has answers of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SavedInstant {
    /// When it is.
    pub at_ns: u64,
    /// `peak`, `end`, or what a mark is called: for people, and for the page's address.
    pub name: Option<String>,
    /// The instant that the page was saved at: its answers have no instant in their keys.
    pub is_chosen: bool,
    /// How the server is asked for it.
    #[serde(skip)]
    pub asked: String,
}

/// The instants of a source, in time order; none if it has only one. `at_ns` and `asked` are those of the chosen instant.
pub fn of_source(query: &Query, (at_ns, asked): (u64, &str), work: &Work<'_>) -> Result<Vec<SavedInstant>, QueryError> {
    let (history, window) = (&query.history, query.window);
    let Some(recording) = history.recording() else { return Ok(Vec::new()) };
    let mut instants = vec![SavedInstant { at_ns, name: None, is_chosen: true, asked: asked.to_owned() }];
    let mut add = |at_ns: u64, name: Option<&str>, asked: String| {
        let name = name.map(str::to_owned);
        match instants.iter().position(|instant| instant.at_ns == at_ns) {
            Some(known) => instants[known].name = instants[known].name.take().or(name),
            None if instants.len() < MOST => instants.push(SavedInstant { at_ns, name, is_chosen: false, asked }),
            None => {}
        }
    };
    // A peak that was reached before the window is shown at its beginning.
    let peak = history.peak(recording, window)?.at.max(window.from);
    add(peak.0, Some("peak"), "peak".to_owned());
    add(window.to.0, Some("end"), window.to.0.to_string());
    let judged = judged_before_teardown(query, work)?.window.to;
    if judged != window.to {
        add(judged.0, Some("before the tear-down"), judged.0.to_string());
    }
    let marks: Vec<_> = history.marks()?.iter().filter(|mark| window.has(mark.time)).collect();
    let step = marks.len().div_ceil(MOST_MARKS).max(1);
    for mark in marks.iter().step_by(step) {
        add(mark.time.0, Some(&mark.name), mark.time.0.to_string());
    }
    while let Some(middle) = middle_of_largest_gap(instants.iter().map(|instant| instant.at_ns), window)
        && instants.len() < MOST
    {
        let asked = middle.to_string();
        instants.push(SavedInstant { at_ns: middle, name: None, is_chosen: false, asked });
    }
    instants.sort_by_key(|instant| instant.at_ns);
    Ok(instants)
}

/// The middle between the two neighbours that are farthest apart; the beginning of the window is one of them. `None` if there is nothing between them.
fn middle_of_largest_gap(instants: impl Iterator<Item = u64>, window: Window) -> Option<u64> {
    let Window { from: Nanos(from), to: Nanos(to) } = window;
    let mut edges: Vec<u64> = instants.filter(|at| (from..=to).contains(at)).chain([from]).collect();
    edges.sort_unstable();
    let largest = edges.windows(2).max_by_key(|pair| pair[1] - pair[0])?;
    let middle = largest[0] + (largest[1] - largest[0]) / 2;
    (middle > largest[0]).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_gap_is_divided_and_a_window_without_room_is_not() {
        let window = Window { from: Nanos(100), to: Nanos(200) };
        let middle = |instants: &[u64]| middle_of_largest_gap(instants.iter().copied(), window);
        assert_eq!(middle(&[200]), Some(150));
        assert_eq!(middle(&[150, 200, 120, 7]), Some(175));
        assert_eq!(middle_of_largest_gap([5].into_iter(), Window { from: Nanos(4), to: Nanos(5) }), None);
        assert_eq!(middle_of_largest_gap([].into_iter(), window), None);
    }
}
