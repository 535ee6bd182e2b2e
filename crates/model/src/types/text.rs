//! The parts of a function's name: paths, type arguments, parameters.
//!
//! Names are untrusted text. Nothing here recurses without a limit, and an unbalanced name has no parts.

/// The deepest nesting of type arguments that is rewritten; deeper ones stay as they are.
pub const DEEPEST: usize = 32;

/// Splits at a separator that is in no brackets. `None` if the brackets do not match.
pub fn split<'a>(text: &'a str, separator: &str) -> Option<Vec<&'a str>> {
    let bytes = text.as_bytes();
    let (mut depth, mut start, mut at, mut parts) = (0i32, 0, 0, Vec::new());
    while at < bytes.len() {
        match bytes[at] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            // The arrow before a function's result closes nothing.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth -= 1,
            _ if depth == 0 && text.as_bytes()[at..].starts_with(separator.as_bytes()) => {
                parts.push(&text[start..at]);
                at += separator.len();
                start = at;
                continue;
            }
            _ => {}
        }
        if depth < 0 {
            return None;
        }
        at += 1;
    }
    parts.push(&text[start..]);
    (depth == 0).then_some(parts)
}

/// The name before the type arguments, and the arguments: `map` and `int`, `Point` of `map<int, Point>`.
pub fn generic(text: &str) -> Option<(&str, Vec<&str>)> {
    let text = text.trim();
    let Some(open) = text.find('<') else { return Some((text, Vec::new())) };
    let list = text[open + 1..].strip_suffix('>')?;
    let arguments = split(list, ",")?.into_iter().map(str::trim).filter(|argument| !argument.is_empty()).collect();
    Some((text[..open].trim_end_matches("::"), arguments))
}

/// The qualified part at the beginning, `X as Trait` of `<X as Trait>::method`, and the rest after `::`.
pub fn qualified(name: &str) -> Option<(&str, &str)> {
    let mut depth = 0u32;
    let mut before = b' ';
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if before != b'-' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((&name[1..at], name[at + 1..].strip_prefix("::").unwrap_or(&name[at + 1..])));
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
        before = byte;
    }
    None
}

/// The name of a C++ function without its result type and its parameters: `std::vector<int>::push_back`.
pub fn without_signature(function: &str) -> &str {
    let bytes = function.as_bytes();
    let (mut depth, mut start, mut end) = (0u32, 0, function.len());
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if at == 0 || bytes[at - 1] != b'-' => depth = depth.saturating_sub(1),
            b'(' if depth == 0 && at > start && !function[..at].ends_with("operator") => {
                end = at;
                break;
            }
            b' ' if depth == 0 && !function[..at].ends_with("operator") => start = at + 1,
            _ => {}
        }
    }
    &function[start.min(end)..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        assert_eq!(split("a::b<c::d>::e", "::").unwrap(), ["a", "b<c::d>", "e"]);
        assert_eq!(
            split("u8, fn(u8, u8) -> X<a, b>, [u8; 3]", ",").unwrap(),
            ["u8", " fn(u8, u8) -> X<a, b>", " [u8; 3]"]
        );
        assert_eq!(split("a>", "::"), None);
        assert_eq!(split("a<", "::"), None);
        assert_eq!(generic("map<int, pair<a, b> >").unwrap(), ("map", vec!["int", "pair<a, b>"]));
        assert_eq!(generic("String").unwrap(), ("String", vec![]));
        assert_eq!(generic("parse::<u8>").unwrap(), ("parse", vec!["u8"]));
        assert_eq!(qualified("<a::B<c> as d::E>::f::<g>").unwrap(), ("a::B<c> as d::E", "f::<g>"));
        assert_eq!(qualified("<fn() -> u8 as d::E>::f").unwrap().1, "f");
        assert_eq!(qualified("<a"), None);
    }

    #[test]
    fn signatures_are_left_out() {
        let cases = [
            (
                "void std::vector<int, A<int> >::f<int const&>(X<int>, int const&)",
                "std::vector<int, A<int> >::f<int const&>",
            ),
            ("std::unique_ptr<N, D<N> > std::make_unique<N, int>(int&&)", "std::make_unique<N, int>"),
            ("std::map<int, P>::operator[](int&&)", "std::map<int, P>::operator[]"),
            ("std::function<void ()>::operator()() const", "std::function<void ()>::operator()"),
            ("main", "main"),
            ("", ""),
        ];
        for (name, without) in cases {
            assert_eq!(without_signature(name), without);
        }
    }
}
