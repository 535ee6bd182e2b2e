//! The functions of a stack as one text, of bounded length.
//!
//! A recursion can be a hundred thousand calls deep, and a mangled name can have kilobytes. A file with such a text would be refused, and with it all rows that
//! are sent together. So the outer frames of a deep stack are left out of its text. Its identity, and its rows in `frames`, have all of them.

/// The most bytes of the functions of a stack.
const MOST_BYTES: usize = 1 << 20;
/// The most bytes of the name of a function, or of a file.
const LONGEST_NAME: usize = 16 << 10;

/// A name that a row can have: its beginning, if it is longer than 16 KiB.
pub fn bounded_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_NAME)]
}

/// The functions of a stack, outermost first, separated by semicolons. A semicolon in a name becomes a colon.
pub fn stack_text<'a>(innermost_first: impl Iterator<Item = &'a str>) -> String {
    let (mut kept, mut bytes, mut left_out) = (Vec::new(), 0, 0u64);
    for name in innermost_first {
        let name = bounded_name(name);
        bytes += name.len() + 1;
        match bytes <= MOST_BYTES {
            true => kept.push(name.replace(';', ":")),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        kept.push(format!("[{left_out} outer frames left out]"));
    }
    kept.reverse();
    kept.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_outermost_first() {
        assert_eq!(stack_text(["load", "operator;new", "main"].into_iter()), "main;operator:new;load");
        assert_eq!(stack_text(std::iter::empty()), "");
    }

    #[test]
    fn a_deep_stack_keeps_its_inner_frames() {
        let deep = std::iter::once("leaf").chain(std::iter::repeat_n("descend", 1 << 17));
        let text = stack_text(deep);
        assert!(text.len() <= MOST_BYTES + 100 && text.ends_with(";descend;leaf"), "{} bytes", text.len());
        let kept = text.matches("descend").count();
        assert!(text.starts_with(&format!("[{} outer frames left out];", (1 << 17) - kept)), "{}", &text[..60]);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let long = "é".repeat(LONGEST_NAME);
        assert_eq!(bounded_name(&format!("x{long}")).len(), LONGEST_NAME - 1);
        assert_eq!(stack_text([long.as_str()].into_iter()).len(), LONGEST_NAME);
    }
}
