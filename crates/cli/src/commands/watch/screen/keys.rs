//! The keys, in one table: what they do, and what help and the last line of the screen say about them.

use super::super::changes::WatchOrder;
use crossterm::event::KeyCode;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAction {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Open,
    NextOrder,
    Order(WatchOrder),
    Filter,
    NextGrouping,
    PreviousGrouping,
    /// The grouping whose number was typed.
    Grouping,
    Threads,
    FromNow,
    Zoom,
    Pause,
    Faster,
    Slower,
    Help,
    Back,
    Quit,
}

/// Some keys that do the same.
pub struct KeyBinding {
    codes: &'static [KeyCode],
    /// The keys, as help shows them.
    pub keys: &'static str,
    /// What they do.
    pub about: &'static str,
    /// Keys and meaning for the last line of the screen; empty if help is enough.
    pub brief: &'static str,
    /// Lower numbers are shown first where room is short.
    pub rank: u8,
    action: KeyAction,
}

const fn key(
    codes: &'static [KeyCode],
    (keys, about): (&'static str, &'static str),
    (brief, rank): (&'static str, u8),
    action: KeyAction,
) -> KeyBinding {
    KeyBinding { codes, keys, about, brief, rank, action }
}

const NOT_BRIEF: (&str, u8) = ("", u8::MAX);

/// All keys. `Ctrl-C` quits, `Ctrl-Z` suspends and `Ctrl-L` draws anew, wherever one is.
pub const BINDINGS: [KeyBinding; 26] = {
    use KeyAction as A;
    use KeyCode::{Char, Down, End, Enter, Esc, Home, PageDown, PageUp, Tab, Up};
    [
        key(&[Up, Char('k')], ("↑ k", "one row up"), NOT_BRIEF, A::Up),
        key(&[Down, Char('j')], ("↓ j", "one row down"), NOT_BRIEF, A::Down),
        key(&[PageUp], ("PgUp", "one page up"), NOT_BRIEF, A::PageUp),
        key(&[PageDown], ("PgDn", "one page down"), NOT_BRIEF, A::PageDown),
        key(&[Home], ("Home", "first row; the top stays in view"), NOT_BRIEF, A::Home),
        key(&[End], ("End", "last row"), NOT_BRIEF, A::End),
        key(
            &[Enter],
            ("Enter", "the whole stack of a site; callers, callees and sites of a row"),
            ("⏎ stack", 3),
            A::Open,
        ),
        key(&[Char('s')], ("s", "next order"), ("s sort", 4), A::NextOrder),
        key(&[Char('l')], ("l", "sort by live bytes"), NOT_BRIEF, A::Order(WatchOrder::Live)),
        key(&[Char('g')], ("g", "sort by growth"), NOT_BRIEF, A::Order(WatchOrder::Growth)),
        key(&[Char('r')], ("r", "sort by recent growth (lately)"), NOT_BRIEF, A::Order(WatchOrder::Lately)),
        key(&[Char('b')], ("b", "sort by blocks"), NOT_BRIEF, A::Order(WatchOrder::Blocks)),
        key(&[Char('n')], ("n", "sort by name"), NOT_BRIEF, A::Order(WatchOrder::Name)),
        key(&[Char('/')], ("/", "filter: a part of a name, or /regular expression/"), ("/ filter", 5), A::Filter),
        key(&[Char('v'), Tab], ("v Tab", "next grouping"), ("v group", 6), A::NextGrouping),
        key(&[Char('V'), KeyCode::BackTab], ("V", "previous grouping"), NOT_BRIEF, A::PreviousGrouping),
        key(
            &[Char('1'), Char('2'), Char('3'), Char('4'), Char('5'), Char('6'), Char('7'), Char('8'), Char('9')],
            ("1…9", "site, function, file, module, line, thread, type, heap, task"),
            NOT_BRIEF,
            A::Grouping,
        ),
        key(&[Char('t')], ("t", "threads, and back"), ("t threads", 8), A::Threads),
        key(&[Char('0')], ("0", "growth from now on"), ("0 from now", 7), A::FromNow),
        key(&[Char('p'), Char(' ')], ("p Space", "pause, go on"), ("p pause", 2), A::Pause),
        key(&[Char('z')], ("z", "chart from the lowest value, or from 0"), NOT_BRIEF, A::Zoom),
        key(&[Char('+'), Char('=')], ("+", "look more often"), ("+ - pace", 9), A::Faster),
        key(&[Char('-')], ("-", "look less often"), NOT_BRIEF, A::Slower),
        key(&[Char('?'), Char('h')], ("? h", "this help"), ("? help", 0), A::Help),
        key(&[Esc], ("Esc", "back: closes, removes the filter, quits"), NOT_BRIEF, A::Back),
        key(&[Char('q')], ("q Ctrl-C", "quit"), ("q quit", 1), A::Quit),
    ]
};

/// What a key does; `None` if nothing.
pub fn action_of(code: KeyCode) -> Option<KeyAction> {
    BINDINGS.iter().find(|binding| binding.codes.contains(&code)).map(|binding| binding.action)
}

/// The last line of the screen: as many keys as fit, in the order of the table.
pub fn brief(width: usize) -> String {
    let mut by_rank: Vec<&KeyBinding> = BINDINGS.iter().filter(|binding| !binding.brief.is_empty()).collect();
    by_rank.sort_by_key(|binding| binding.rank);
    let length = |count: usize| by_rank[..count].iter().map(|binding| binding.brief.chars().count() + 2).sum::<usize>();
    let fitting = (0..=by_rank.len()).rev().find(|count| length(*count) <= width + 2).unwrap_or(0);
    let texts: Vec<&str> = by_rank[..fitting].iter().map(|binding| binding.brief).collect();
    texts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::groups::GroupBy;

    #[test]
    fn no_key_has_two_meanings() {
        let codes: Vec<&KeyCode> = BINDINGS.iter().flat_map(|binding| binding.codes).collect();
        assert!(codes.iter().enumerate().all(|(at, code)| !codes[..at].contains(code)));
        assert_eq!(action_of(KeyCode::Char('q')), Some(KeyAction::Quit));
        assert_eq!(action_of(KeyCode::Char('x')), None);
    }

    #[test]
    fn help_names_the_groupings_in_their_order() {
        let names = GroupBy::ALL.map(GroupBy::key).join(", ");
        assert!(BINDINGS.iter().any(|binding| binding.action == KeyAction::Grouping && binding.about == names));
    }

    #[test]
    fn the_last_line_fits_and_always_says_how_to_get_help_and_how_to_quit() {
        for width in 14..120 {
            let line = brief(width);
            assert!(line.chars().count() <= width && line.starts_with("? help  q quit"), "{width}: {line}");
        }
        assert_eq!(brief(200).split("  ").count(), 10);
    }
}
