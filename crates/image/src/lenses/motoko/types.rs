//! Types of stable variables, as the module states them: text such as `?{#node : Tree; #leaf}`. Followed along a path only as far as needed.

use super::locate::PathSteps;
use super::value::FixedType;
use rustc_hash::FxHashMap;

/// The most names that stand for one another before a type is reached.
const MOST_ALIASES: u32 = 64;

/// The types of stable variables, and what the names in them stand for.
#[derive(Debug, Default)]
pub struct StableTypes {
    variables: FxHashMap<String, String>,
    aliases: FxHashMap<String, String>,
}

/// A type whose values can be written in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// True if `null` is one of its values.
    pub is_option: bool,
    /// The kind of array, if it is one: then the rest is the type of its elements.
    pub array: Option<ArrayType>,
    /// The plain type.
    pub plain: PlainType,
}

/// An array type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayType {
    /// True if its elements can change.
    pub is_mutable: bool,
    /// True if `null` may be an element.
    pub has_options: bool,
}

/// A type whose values have no parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PlainType {
    Bool,
    Nat,
    Int,
    /// `Nat` or `Int`: values of both look alike.
    Whole,
    Fixed(FixedType),
    Float,
    Char,
    Text,
    Blob,
    /// `()`, which looks like `false`.
    Unit,
}

impl PlainType {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "Bool",
            Self::Nat => "Nat",
            Self::Int => "Int",
            Self::Whole => "Nat or Int",
            Self::Fixed(fixed) => fixed.name(),
            Self::Float => "Float",
            Self::Char => "Char",
            Self::Text => "Text",
            Self::Blob => "Blob",
            Self::Unit => "()",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "Bool" => Self::Bool,
            "Nat" => Self::Nat,
            "Int" => Self::Int,
            "Float" => Self::Float,
            "Char" => Self::Char,
            "Text" => Self::Text,
            "Blob" => Self::Blob,
            "()" => Self::Unit,
            _ => Self::Fixed(FixedType::ALL.into_iter().find(|fixed| fixed.name() == name)?),
        })
    }

    /// True if a value that looks like the one type can be of the other.
    pub fn agrees_with(self, other: Self) -> bool {
        let is_whole = |plain| matches!(plain, Self::Nat | Self::Int | Self::Whole);
        self == other
            || is_whole(self) && is_whole(other) && (self == Self::Whole || other == Self::Whole)
            || matches!((self, other), (Self::Unit, Self::Bool) | (Self::Bool, Self::Unit))
    }
}

impl ValueType {
    /// The type of values without parts that are not options.
    pub fn plain(plain: PlainType) -> Self {
        Self { is_option: false, array: None, plain }
    }

    /// Reads a type without names of other types: `?[var Nat64]`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_with(text, |_| None)
    }

    fn parse_with<'t>(text: &'t str, resolve: impl Fn(&'t str) -> Option<&'t str>) -> Option<Self> {
        let (is_option, text) = without_options(text.trim(), &resolve);
        let Some(inside) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
            return Some(Self { is_option, array: None, plain: PlainType::of_name(text)? });
        };
        let inside = inside.trim_start();
        let element = inside.strip_prefix("var ");
        let (has_options, name) = without_options(element.unwrap_or(inside).trim(), &resolve);
        let array = Some(ArrayType { is_mutable: element.is_some(), has_options });
        Some(Self { is_option, array, plain: PlainType::of_name(name)? })
    }
}

/// A type without the question marks before it, and whether there were any. Names are replaced by what they stand for.
fn without_options<'t>(mut text: &'t str, resolve: &impl Fn(&'t str) -> Option<&'t str>) -> (bool, &'t str) {
    let mut is_option = false;
    for _ in 0..MOST_ALIASES {
        if let Some(inner) = text.strip_prefix('?') {
            (is_option, text) = (true, inner.trim_start());
        } else if let Some(meaning) = resolve(text) {
            text = meaning;
        } else {
            break;
        }
    }
    (is_option, text)
}

impl StableTypes {
    /// Reads the section that lists them: `type NAME = TYPE;` and `stable var NAME : TYPE;`.
    pub fn of(text: &str) -> Self {
        let mut types = Self::default();
        let (before, actor) = text.split_once("\nactor").unwrap_or(("", text));
        for line in parts(without_comments(before), ';') {
            if let Some((name, meaning)) = line.strip_prefix("type ").and_then(|line| line.split_once('=')) {
                types.aliases.insert(name.trim().to_owned(), meaning.trim().to_owned());
            }
        }
        let inside = actor.find('{').map_or("", |at| &actor[at + 1..]);
        let inside = inside.rfind('}').map_or(inside, |at| &inside[..at]);
        for line in parts(inside, ';') {
            let Some(line) = line.strip_prefix("stable ") else { continue };
            let line = line.trim_start();
            if let Some((name, declared)) = line.strip_prefix("var ").unwrap_or(line).split_once(':') {
                types.variables.insert(name.trim().to_owned(), declared.trim().to_owned());
            }
        }
        types
    }

    /// The type at the end of a path; none if it is not known, or its values have parts.
    pub fn at(&self, root: &str, steps: PathSteps<'_>) -> Option<ValueType> {
        let mut declared = self.variables.get(root)?.as_str();
        for step in steps {
            let (_, inner) = without_options(declared, &|name| self.resolve(name));
            declared = match step.as_bytes().first()? {
                b'?' => inner,
                b'.' => member(inner, &step[1..])?,
                b'#' => variant(inner, &step[1..])?,
                _ => {
                    let element = inner.strip_prefix('[')?.strip_suffix(']')?.trim_start();
                    element.strip_prefix("var ").unwrap_or(element)
                }
            };
        }
        ValueType::parse_with(declared, |name| self.resolve(name))
    }

    fn resolve<'t>(&'t self, name: &'t str) -> Option<&'t str> {
        self.aliases.get(name).map(String::as_str)
    }
}

/// The type of a record's field, or of a tuple's element.
fn member<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    if let (Some(inside), Ok(number)) = (inside(text, '(', ')'), name.parse()) {
        return parts(inside, ',').nth(number);
    }
    parts(inside(text, '{', '}')?, ';').find_map(|field| {
        let (label, declared) = field.strip_prefix("var ").unwrap_or(field).split_once(':')?;
        (label.trim() == name).then_some(declared.trim())
    })
}

/// The type of a variant's payload.
fn variant<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    parts(inside(text, '{', '}')?, ';').find_map(|case| {
        let case = case.strip_prefix('#')?;
        let (found, declared) = case.split_once(':').unwrap_or((case, "()"));
        (found.trim() == label).then_some(declared.trim())
    })
}

fn inside(text: &str, open: char, close: char) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

/// The parts of a text between separators that are not in brackets, without the space around them.
fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let mut previous = ' ';
    let at_separator = move |character: char| {
        match character {
            '{' | '(' | '[' | '<' => depth += 1,
            // The arrow of a function type is no bracket.
            '>' if previous == '-' => {}
            '}' | ')' | ']' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        previous = character;
        depth == 0 && character == separator
    };
    text.split(at_separator).map(str::trim)
}

/// A text from its first line that is no comment on.
fn without_comments(mut text: &str) -> &str {
    while let Some((_, rest)) = text.trim_start().strip_prefix("//").and_then(|text| text.split_once('\n')) {
        text = rest;
    }
    text.trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// Version: 1.0.0
type Item = {var amount : Nat; name : Text; f : Nat -> Int; next : ?Item};
type Tree = {#node : {left : Tree; item : Item}; #leaf};
actor {
  stable var cells : [var ?Nat64];
  stable tree : Tree;
  stable var items :
    [Item];
  stable var pair : (Nat, ?Blob);
  stable var odd : List<Nat>
};
";

    fn at(root: &str, path: &str) -> Option<ValueType> {
        StableTypes::of(TEXT).at(root, PathSteps::of(path))
    }

    #[test]
    fn types_are_followed_along_a_path() {
        let plain = |plain| Some(ValueType::plain(plain));
        assert_eq!(at("tree", "#node.item.amount"), plain(PlainType::Nat));
        assert_eq!(at("tree", "#node.left#node.item.next?.next.name"), plain(PlainType::Text));
        assert_eq!(at("items", "[3].name"), plain(PlainType::Text));
        assert_eq!(at("tree", "#leaf"), plain(PlainType::Unit));
        assert_eq!(at("pair", ".1"), ValueType::parse("?Blob"));
        assert_eq!(at("cells", ""), ValueType::parse("[var ?Nat64]"));
        assert_eq!(at("cells", "[0]"), ValueType::parse("?Nat64"));
        for (root, path) in
            [("tree", ""), ("tree", ".item"), ("odd", ""), ("no", ""), ("items", "[0].f"), ("pair", ".2")]
        {
            assert_eq!(at(root, path), None, "{root}{path}");
        }
    }

    #[test]
    fn types_are_read() {
        let bytes = ValueType {
            is_option: true,
            array: Some(ArrayType { is_mutable: true, has_options: false }),
            plain: PlainType::Fixed(FixedType::Nat8),
        };
        assert_eq!(ValueType::parse(" ?[var Nat8] "), Some(bytes));
        assert_eq!((ValueType::parse("Nat9"), ValueType::parse("[[Nat]]"), ValueType::parse("")), (None, None, None));
    }

    #[test]
    fn names_that_stand_for_themselves_end() {
        let types = StableTypes::of("\ntype A = ?B;\ntype B = A;\nactor {\n stable var a : A\n}");
        assert_eq!(types.at("a", PathSteps::of("?.x")), None);
    }
}
