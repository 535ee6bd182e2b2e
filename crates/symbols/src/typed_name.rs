//! Names of functions with their type arguments.
//!
//! Rust's older mangling has the parameters, `alloc::vec::Vec<T,A>::push`, and DWARF has the arguments. Both together give what Rust's newer mangling and
//! C++'s have in the symbol: `alloc::vec::Vec<app::Point, alloc::alloc::Global>::push`.
//!
//! Where the linker or the compiler merged functions with equal code, one copy serves several types. Its name must not claim one of them: the type
//! arguments become `…`.

use crate::function_entry::TypeParameter;

/// The replacement for type arguments that are not known.
const ELIDED: &str = "…";

/// A demangled name with type arguments: `entry_name` is the name that DWARF has, `push<app::Point, alloc::alloc::Global>`.
///
/// Parameters that the demangled name shows are replaced. All other arguments follow the name, as in Rust's source: `app::parse::<u32>`.
pub(crate) fn with_arguments(demangled: &str, entry_name: &str, parameters: &[TypeParameter]) -> String {
    let arguments = arguments_of(entry_name);
    if arguments.is_empty() {
        return demangled.to_owned();
    }
    let mut is_shown = vec![false; arguments.len()];
    let mut text = String::with_capacity(demangled.len() + entry_name.len());
    if parameters.len() == arguments.len() {
        let find = |word: &str| parameters.iter().position(|parameter| parameter.name == word);
        for (position, word) in words(demangled) {
            match find(word).filter(|_| stands_alone(demangled, position, word)) {
                Some(index) => {
                    is_shown[index] = true;
                    text.push_str(arguments[index]);
                }
                None if word == "," => text.push_str(", "),
                None => text.push_str(word),
            }
        }
        text = text.replace(",  ", ", ");
    } else {
        text.push_str(demangled);
    }
    let rest: Vec<&str> = arguments.iter().zip(is_shown).filter(|(_, shown)| !shown).map(|(text, _)| *text).collect();
    if !rest.is_empty() {
        text += &format!("::<{}>", rest.join(", "));
    }
    text
}

/// The type arguments of a name as DWARF has it, at the outermost level.
pub(crate) fn arguments_of(entry_name: &str) -> Vec<&str> {
    let Some((_, list)) = entry_name.split_once('<') else { return Vec::new() };
    let Some(list) = list.strip_suffix('>') else { return Vec::new() };
    let (mut depth, mut start, mut arguments) = (0i32, 0, Vec::new());
    let mut before = b' ';
    for (position, byte) in list.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            // The arrow of a function's result closes nothing.
            b'>' if before == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                arguments.push(list[start..position].trim());
                start = position + 1;
            }
            _ => {}
        }
        before = byte;
    }
    if depth != 0 {
        return Vec::new();
    }
    arguments.push(list[start..].trim());
    arguments
}

/// The words of a name, and the characters between them, with their positions.
fn words(name: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = name.get(at..).filter(|rest| !rest.is_empty())?;
        let first = rest.chars().next()?;
        let length = match is_word(first) {
            true => rest.find(|character| !is_word(character)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let position = at;
        at += length;
        Some((position, &rest[..length]))
    })
}

/// Whether a word is a type parameter in a list or before ` as `, and no part of a path.
fn stands_alone(name: &str, position: usize, word: &str) -> bool {
    let (before, after) = (&name[..position], &name[position + word.len()..]);
    !before.ends_with(':') && !before.ends_with('.') && !before.is_empty() && !after.starts_with("::")
}

/// The name without its type arguments, which are not known: `std::vector<…>::push_back(…)`.
pub(crate) fn without_arguments(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let (mut skipped, mut before) = (0u32, ' ');
    for character in name.chars() {
        let opens_list = character == '<'
            && (before.is_alphanumeric() || matches!(before, '_' | ':'))
            && !text.ends_with("operator");
        match character {
            '<' if skipped > 0 || opens_list => {
                if skipped == 0 {
                    text.push('<');
                }
                skipped += 1;
            }
            '>' if skipped > 0 && before != '-' => {
                skipped -= 1;
                if skipped == 0 {
                    text.push_str(ELIDED);
                    text.push('>');
                }
            }
            _ if skipped > 0 => {}
            _ => text.push(character),
        }
        before = character;
    }
    without_parameter_types(text)
}

/// The parameters of a C++ function have types, too. Rust's `{closure(…)}` and tuples are not at the end of a name.
fn without_parameter_types(mut name: String) -> String {
    let end = name.trim_end_matches(" const").len();
    let (mut depth, mut start) = (0i32, None);
    for (position, byte) in name.bytes().enumerate().take(end).collect::<Vec<_>>().into_iter().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => {
                depth -= 1;
                if depth == 0 {
                    start = Some(position);
                    break;
                }
            }
            _ if depth == 0 => break,
            _ => {}
        }
    }
    if let Some(start) = start.filter(|start| end - start > 2) {
        name.replace_range(start + 1..end - 1, ELIDED);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(names: &[&str]) -> Vec<TypeParameter> {
        names.iter().map(|name| TypeParameter { name: (*name).to_owned(), size: None }).collect()
    }

    #[test]
    fn arguments_take_the_places_of_their_parameters() {
        let push = "push<app::Point, alloc::alloc::Global>";
        let typed = with_arguments("alloc::vec::Vec<T,A>::push", push, &parameters(&["T", "A"]));
        assert_eq!(typed, "alloc::vec::Vec<app::Point, alloc::alloc::Global>::push");
        let clone = "<alloc::vec::Vec<T,A> as core::clone::Clone>::clone";
        let typed = with_arguments(clone, "clone<u8, G>", &parameters(&["T", "A"]));
        assert_eq!(typed, "<alloc::vec::Vec<u8, G> as core::clone::Clone>::clone");
        let typed = with_arguments("alloc::slice::<impl [T]>::to_vec", "to_vec<(u8, [u32; 3])>", &parameters(&["T"]));
        assert_eq!(typed, "alloc::slice::<impl [(u8, [u32; 3])]>::to_vec");
    }

    #[test]
    fn arguments_without_a_place_follow_the_name() {
        assert_eq!(with_arguments("app::parse", "parse<u32>", &parameters(&["T"])), "app::parse::<u32>");
        let lines_only = with_arguments("alloc::vec::Vec<T,A>::push", "push<u8, alloc::alloc::Global>", &[]);
        assert_eq!(lines_only, "alloc::vec::Vec<T,A>::push::<u8, alloc::alloc::Global>");
        let with_closure = "map<u8, fn(u8) -> u16, app::main::{closure_env#0}<u8, u16>>";
        let typed = with_arguments("app::Iter<T>::map", with_closure, &parameters(&["T", "F", "G"]));
        assert_eq!(typed, "app::Iter<u8>::map::<fn(u8) -> u16, app::main::{closure_env#0}<u8, u16>>");
        for untyped in ["main", "main>", "f<", "f<u8", "f<<u8>"] {
            assert_eq!(with_arguments("app::f", untyped, &parameters(&["T"])), "app::f", "{untyped}");
        }
    }

    #[test]
    fn parts_of_paths_are_not_parameters() {
        let typed = with_arguments("T::f<T,app::T,T::Item>::T", "f<u8>", &parameters(&["T"]));
        assert_eq!(typed, "T::f<u8, app::T, T::Item>::T");
    }

    #[test]
    fn merged_functions_claim_no_type() {
        let cases = [
            ("std::vector<Foo*, std::allocator<Foo*> >::push_back(Foo* const&)", "std::vector<…>::push_back(…)"),
            ("void std::f<int>(int (*)(char)) const", "void std::f<…>(…) const"),
            ("<alloc::raw_vec::RawVec<app::Key>>::grow_one", "<alloc::raw_vec::RawVec<…>>::grow_one"),
            ("<alloc::vec::Vec<u8> as core::clone::Clone>::clone", "<alloc::vec::Vec<…> as core::clone::Clone>::clone"),
            ("app::parse::<fn(u8) -> u16>", "app::parse::<…>"),
            ("operator<<(std::ostream&, Node const&)", "operator<<(…)"),
            ("bool operator< <int>(int)", "bool operator< <int>(…)"),
            ("main", "main"),
            ("f()", "f()"),
            ("f<", "f<"),
            ("f)", "f)"),
        ];
        for (name, without) in cases {
            assert_eq!(without_arguments(name), without);
        }
    }
}
