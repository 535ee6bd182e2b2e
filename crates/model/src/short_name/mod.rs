//! Short forms of names, for people.
//!
//! Compilers write a name with everything that tells it from all others: argument lists, result types, template arguments with their defaults, hashes. A
//! person recognises a function by less. Every table and every drawing shows the short form; filters, searches and `--json` have the whole name.
//!
//! A step never makes a name longer, and steps are repeated until none makes it shorter. So a short form is its own short form, whatever the text is.

mod brackets;
mod rust_forms;
mod spellings;

use crate::catalog::GUESSED;
use brackets::{Brackets, is_name_char};
use std::borrow::Cow;

/// Template arguments are left out, the innermost first, until a name is not longer than this.
const LONGEST: usize = 60;
/// What stands for arguments that are left out.
const ELLIPSIS: &str = "…";
/// Names of functions are shorter than this. Longer texts are not looked at: they are made to cost time.
const LONGEST_INPUT: usize = 64 * 1024;

/// The short form of a function's name.
///
/// ```
/// use highwater_model::short_name;
///
/// assert_eq!(short_name("int parse<int>(char const*, unsigned long)"), "parse<int>");
/// assert_eq!(short_name("std::map<int, Node, std::less<int>, std::allocator<int> >::at(int const&) const"), "std::map<int, Node>::at");
/// assert_eq!(short_name("<app::Parser as core::clone::Clone>::clone"), "app::Parser::clone");
/// assert_eq!(short_name("main"), "main");
/// ```
pub fn short_name(name: &str) -> Cow<'_, str> {
    shortened(name, true)
}

/// The short form of a function's name with all its template arguments, however long they are: what tells it from others with the same short form.
///
/// ```
/// use highwater_model::short_name_with_arguments;
///
/// let name = "void insert_all<std::vector<FirstSubscription, std::allocator<FirstSubscription> >, std::vector<Publication> >(int)";
/// assert_eq!(short_name_with_arguments(name), "insert_all<std::vector<FirstSubscription>, std::vector<Publication>>");
/// ```
pub fn short_name_with_arguments(name: &str) -> Cow<'_, str> {
    shortened(name, false)
}

fn shortened(name: &str, is_elided: bool) -> Cow<'_, str> {
    if name.len() > LONGEST_INPUT || is_short(name) {
        return Cow::Borrowed(name);
    }
    let (plain, guessed) = name.strip_suffix(GUESSED).map_or((name, ""), |plain| (plain, GUESSED));
    let mut short = plain.to_owned();
    loop {
        let next = shorter(&short, is_elided);
        if next.is_empty() || next.len() >= short.len() {
            break;
        }
        short = next;
    }
    short.push_str(guessed);
    Cow::Owned(short)
}

/// Whether a name has nothing that could be left out.
fn is_short(name: &str) -> bool {
    !name.contains(['(', '<', '{', '[', '.', ' ']) && !name.contains("::")
}

fn shorter(name: &str, is_elided: bool) -> String {
    let name = without_prefix(without_suffixes(name));
    let Some(text) = without_arguments(name) else { return name.to_owned() };
    let text = rust_forms::readable(&text);
    let text = spellings::with_usual_spellings(&text);
    if is_elided { elided(&text) } else { text }
}

/// Compilers make functions that adjust a pointer and go on to the one that is meant.
fn without_prefix(name: &str) -> &str {
    const THUNKS: [&str; 3] = ["non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to "];
    THUNKS.iter().find_map(|thunk| name.strip_prefix(thunk)).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// The name without the marks of copies and parts of a function, and without the hash of an older Rust name.
pub(crate) fn without_suffixes(name: &str) -> &str {
    const MARKS: [&str; 8] = ["cold", "part", "constprop", "isra", "lto_priv", "llvm", "localalias", "clone"];
    let mut name = name;
    loop {
        let mut shorter = name.strip_suffix(']').and_then(|_| name.rfind(" [clone ")).map_or(name, |at| &name[..at]);
        if let Some((rest, mark)) = shorter.rsplit_once('.') {
            let is_number = !mark.is_empty() && mark.bytes().all(|byte| byte.is_ascii_digit());
            let marked = if is_number { rest.rsplit_once('.') } else { Some((rest, mark)) };
            if let Some((rest, _)) = marked.filter(|(_, mark)| MARKS.contains(mark)) {
                shorter = rest;
            }
        }
        if let Some((rest, hash)) = shorter.rsplit_once("::h")
            && hash.len() == 16
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            shorter = rest;
        }
        if shorter.is_empty() || shorter.len() == name.len() {
            return name;
        }
        name = shorter;
    }
}

/// The name without argument lists, and without the result type before it. `None` if its brackets do not match.
fn without_arguments(name: &str) -> Option<String> {
    let brackets = Brackets::of(name)?;
    if let Some(inner) = returned_pointer(name, &brackets) {
        return Some(inner.to_owned());
    }
    let mut text = String::with_capacity(name.len());
    let (mut at, mut has_list) = (0, false);
    // The position in `text` after which no result type can be.
    let mut name_start = 0;
    while at < name.len() {
        let byte = name.as_bytes()[at];
        let end = brackets.end(at);
        match (byte, end) {
            (b'(', Some(end)) if is_argument_list(name, &brackets, at, end) => {
                let rest = &name[end + 1..];
                if brackets.depth(at) == 0 && is_qualifiers(rest) {
                    has_list = true;
                    break;
                }
                // A local function or class: `load(int)::Cache::get`.
                if !rest.starts_with("::") {
                    text.push('(');
                    at += 1;
                    continue;
                }
                has_list |= brackets.depth(at) == 0;
                at = end + 1;
                continue;
            }
            (b'[', Some(end)) if name[at..].starts_with("[abi:") => {
                at = end + 1;
                continue;
            }
            (b' ', _) if brackets.depth(at) == 0 && !is_of_operator(name, &brackets, at) => name_start = text.len() + 1,
            _ => {}
        }
        let length = name[at..].chars().next().map_or(1, char::len_utf8);
        text.push_str(&name[at..at + length]);
        at += length;
    }
    Some(if has_list && name_start < text.len() { text.split_off(name_start) } else { text })
}

/// The part of `void (*find(int))(char)` that declares the function: `find(int)`.
fn returned_pointer<'a>(name: &'a str, brackets: &Brackets) -> Option<&'a str> {
    let open = (0..name.len()).find(|at| {
        let is_open = name.as_bytes()[*at] == b'(' && brackets.depth(*at) == 0;
        is_open && (*at == 0 || name[..*at].ends_with(' ')) && name[*at + 1..].starts_with(['*', '&'])
    })?;
    let end = brackets.end(open)?;
    let inner = name[open + 1..end].trim_start_matches(['*', '&', ' ']);
    (name[end + 1..].starts_with('(') && inner.contains('(')).then_some(inner)
}

/// Whether the brackets from `open` to `end` hold the arguments of the function before them.
fn is_argument_list(name: &str, brackets: &Brackets, open: usize, end: usize) -> bool {
    const NO_FUNCTIONS: [&str; 5] = ["decltype", "noexcept", "sizeof...", "alignof", "typeof"];
    let before = &name[..open];
    if name[open..=end].starts_with("(anonymous ") || NO_FUNCTIONS.iter().any(|word| before.ends_with(word)) {
        return false;
    }
    brackets.follows_operator(open) || before.ends_with(|c| is_name_char(c) || matches!(c, '>' | ']' | '}' | '\''))
}

/// Whether only qualifiers of a member function are left.
fn is_qualifiers(rest: &str) -> bool {
    rest.split(' ').all(|word| matches!(word, "" | "const" | "volatile" | "&" | "&&" | "noexcept"))
}

/// Whether a space belongs to an operator's name: `operator new`, `operator std::string`, `operator<< <char>`.
fn is_of_operator(name: &str, brackets: &Brackets, space: usize) -> bool {
    let before = &name[..space];
    if brackets.follows_operator(space) {
        return name[space + 1..].starts_with('<') || before.ends_with('"');
    }
    let Some(at) = before.rfind("operator") else { return false };
    let begins = !before[..at].ends_with(is_name_char);
    // The type that a conversion leads to may consist of several words.
    let after = &before[at + "operator".len()..];
    begins && !after.starts_with(is_name_char) && after.chars().all(|c| is_name_char(c) || " :*&".contains(c))
}

/// The text with its arguments left out from the inside until it fits.
fn elided(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let Some(brackets) = Brackets::of(text) else { return text.to_owned() };
    let angles: Vec<(usize, usize, u32)> = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| *byte == b'<')
        .filter_map(|(at, _)| Some((at, brackets.end(at)?, brackets.depth(at))))
        .filter(|(open, end, _)| end - open > 1 + ELLIPSIS.len())
        .collect();
    let elided_at = |depth: u32| {
        let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
        for (open, end, _) in angles.iter().filter(|(.., each)| *each == depth) {
            shown.push_str(&text[at..=*open]);
            shown.push_str(ELLIPSIS);
            at = *end;
        }
        shown.push_str(&text[at..]);
        shown
    };
    let mut depths: Vec<u32> = angles.iter().map(|(.., depth)| *depth).collect();
    depths.sort_unstable();
    depths.dedup();
    // The deeper the brackets are that lose their arguments, the longer the name.
    let fitting = depths.partition_point(|depth| elided_at(*depth).chars().count() <= LONGEST);
    depths.get(fitting.saturating_sub(1)).map_or_else(|| text.to_owned(), |depth| elided_at(*depth))
}

#[cfg(test)]
mod tests;
