//! Types of standard libraries as programmers write them.

use super::brackets::{Brackets, is_name_char};

/// Paths of which programmers write the last word only.
const PATHS: [(&str, &str); 30] = [
    ("std::__cxx11::", "std::"),
    ("std::__1::", "std::"),
    ("std::__ndk1::", "std::"),
    ("alloc::string::String", "String"),
    ("alloc::vec::Vec", "Vec"),
    ("alloc::boxed::Box", "Box"),
    ("alloc::rc::Rc", "Rc"),
    ("alloc::sync::Arc", "Arc"),
    ("alloc::borrow::Cow", "Cow"),
    ("alloc::collections::vec_deque::VecDeque", "VecDeque"),
    ("alloc::collections::binary_heap::BinaryHeap", "BinaryHeap"),
    ("alloc::collections::linked_list::LinkedList", "LinkedList"),
    ("alloc::collections::btree::map::BTreeMap", "BTreeMap"),
    ("alloc::collections::btree::set::BTreeSet", "BTreeSet"),
    ("std::collections::hash::map::HashMap", "HashMap"),
    ("std::collections::hash::set::HashSet", "HashSet"),
    ("core::option::Option", "Option"),
    ("core::result::Result", "Result"),
    ("core::cell::RefCell", "RefCell"),
    ("core::cell::Cell", "Cell"),
    ("core::pin::Pin", "Pin"),
    ("core::iter::traits::iterator::Iterator", "Iterator"),
    ("core::iter::traits::collect::FromIterator", "FromIterator"),
    ("core::iter::traits::collect::Extend", "Extend"),
    ("core::ops::function::FnOnce", "FnOnce"),
    ("core::ops::function::FnMut", "FnMut"),
    ("core::ops::function::Fn", "Fn"),
    ("core::convert::From", "From"),
    ("core::convert::Into", "Into"),
    ("core::clone::Clone", "Clone"),
];

/// C++ classes that have a name of their own for `char`, and the one for `wchar_t`.
const BASIC: [(&str, &str, &str); 8] = [
    ("std::basic_string", "std::string", "std::wstring"),
    ("std::basic_string_view", "std::string_view", "std::wstring_view"),
    ("std::basic_ostream", "std::ostream", "std::wostream"),
    ("std::basic_istream", "std::istream", "std::wistream"),
    ("std::basic_stringbuf", "std::stringbuf", "std::wstringbuf"),
    ("std::basic_ostringstream", "std::ostringstream", "std::wostringstream"),
    ("std::basic_stringstream", "std::stringstream", "std::wstringstream"),
    ("std::basic_filebuf", "std::filebuf", "std::wfilebuf"),
];

/// Templates whose instances are default arguments where they come last.
const DEFAULT_TEMPLATES: [&str; 6] =
    ["std::allocator<", "std::less<", "std::hash<", "std::equal_to<", "std::default_delete<", "std::char_traits<"];
/// Types that are default arguments where they come last.
const DEFAULT_TYPES: [&str; 3] =
    ["alloc::alloc::Global", "std::hash::random::RandomState", "std::collections::hash::map::RandomState"];

/// Names nest deeper than this only if they are made to.
const DEEPEST: u32 = 64;

/// The text with well-known types as programmers write them, and without default arguments.
pub(super) fn with_usual_spellings(text: &str) -> String {
    let text = PATHS.iter().fold(text.replace("> >", ">>"), |text, (path, short)| replaced(&text, path, short));
    match Brackets::of(&text) {
        Some(brackets) if brackets.deepest() <= DEEPEST => spelled(&text, &brackets, 0, text.len()),
        _ => text,
    }
}

/// Replaces a path where it begins a path, and ends with a whole word.
fn replaced(text: &str, path: &str, short: &str) -> String {
    let Some(mut at) = text.find(path) else { return text.to_owned() };
    let (mut done, mut rest) = (String::with_capacity(text.len()), text);
    loop {
        let (before, after) = (&rest[..at], &rest[at + path.len()..]);
        let previous = if before.is_empty() { done.as_str() } else { before };
        let begins = !previous.ends_with(|c| is_name_char(c) || c == ':');
        let ends = path.ends_with(':') || !after.starts_with(is_name_char);
        done.push_str(before);
        done.push_str(if begins && ends { short } else { path });
        rest = after;
        match rest.find(path) {
            Some(next) => at = next,
            None => break,
        }
    }
    done.push_str(rest);
    done
}

fn spelled(text: &str, brackets: &Brackets, from: usize, to: usize) -> String {
    let mut done = String::with_capacity(to - from);
    let mut at = from;
    while at < to {
        let open = (at..to).find(|at| text.as_bytes()[*at] == b'<' && brackets.end(*at).is_some_and(|end| end < to));
        let Some((open, end)) = open.and_then(|open| Some((open, brackets.end(open)?))) else { break };
        done.push_str(&text[at..open]);
        let mut arguments = arguments(text, brackets, open + 1, end);
        // An empty pack of arguments leaves an empty one.
        let is_default = |argument: &String| {
            argument.is_empty()
                || DEFAULT_TYPES.contains(&argument.as_str())
                || DEFAULT_TEMPLATES.iter().any(|template| argument.starts_with(template)) && argument.ends_with('>')
        };
        while arguments.len() > 1 && arguments.last().is_some_and(is_default) {
            arguments.pop();
        }
        let of = arguments.first().map(String::as_str);
        let class = BASIC.iter().find(|(class, ..)| {
            arguments.len() == 1 && done.strip_suffix(class).is_some_and(|path| !path.ends_with(is_name_char))
        });
        match (class, of) {
            (Some((class, name, _)), Some("char")) | (Some((class, _, name)), Some("wchar_t")) => {
                done.truncate(done.len() - class.len());
                done.push_str(name);
            }
            _ => {
                done.push('<');
                done.push_str(&arguments.join(", "));
                done.push('>');
            }
        }
        at = end + 1;
    }
    done.push_str(&text[at..to]);
    done
}

/// The arguments between two angle brackets, each with its usual spelling.
fn arguments(text: &str, brackets: &Brackets, from: usize, to: usize) -> Vec<String> {
    let depth = brackets.depth(from.min(to.saturating_sub(1)));
    let commas = (from..to).filter(|at| text.as_bytes()[*at] == b',' && brackets.depth(*at) == depth);
    let mut arguments = Vec::new();
    let mut start = from;
    for comma in commas.chain([to]) {
        arguments.push(spelled(text, brackets, start, comma).trim().to_owned());
        start = comma + 1;
    }
    arguments
}
