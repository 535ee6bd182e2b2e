//! Objects in the syntax of Motoko values.

use super::heap::Motoko;
use super::kind::Kind;
use super::value::Value;

/// How much of a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most levels of objects within objects.
    pub depth: u32,
    /// The most elements of an array.
    pub elements: u64,
    /// The most bytes of a text or blob.
    pub bytes: u64,
    /// The most objects in total.
    pub objects: u32,
}

impl Limits {
    /// Limits that fit a screen, with `depth` levels.
    pub fn to_depth(depth: u32) -> Self {
        Self { depth: depth.min(64), elements: 20, bytes: 200, objects: 2000 }
    }
}

/// The most columns of a value on one line.
const COLUMNS: usize = 96;
/// The most halves of ropes that are visited.
const MOST_HALVES: usize = 1 << 20;

/// A value before it is laid out: the layout depends on the length of the whole.
enum Shown {
    Word(String),
    /// Several values in brackets.
    Group {
        open: String,
        items: Vec<(String, Shown)>,
        separator: &'static str,
        close: &'static str,
    },
}

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// A value as text, on one or several lines.
    pub fn show(&self, value: Value, limits: Limits) -> String {
        let mut left = limits.objects;
        let shown = self.shown(value, limits, limits.depth, &mut left);
        let mut text = String::new();
        shown.write(0, &mut text);
        text
    }

    fn shown(&self, value: Value, limits: Limits, depth: u32, left: &mut u32) -> Shown {
        Shown::Word(match value {
            Value::Null => "null".to_owned(),
            Value::False => "false".to_owned(),
            Value::True => "true".to_owned(),
            Value::Int(number) => number.to_string(),
            Value::Fixed(fixed, number) => format!("{number} : {}", fixed.name()),
            Value::Char(code) => char::from_u32(code)
                .map_or_else(|| format!("(no character: {code:#x})"), |character| format!("{character:?}")),
            // The word has no type; a whole number is the best guess.
            Value::Untyped(word) => (word as i32 >> 1).to_string(),
            Value::Invalid(word) => format!("(no value: {word:#x})"),
            Value::Object(object) => return self.shown_object(object, limits, depth, left),
        })
    }

    fn shown_object(&self, object: u64, limits: Limits, depth: u32, left: &mut u32) -> Shown {
        let kind = self.kind_of(object);
        if *left == 0 {
            return Shown::Word("…".to_owned());
        }
        *left -= 1;
        let word = |text: String| Shown::Word(text);
        match kind {
            Kind::Text | Kind::Concat => return word(self.quoted(object, limits.bytes)),
            Kind::Blob => return word(self.blob(object, limits.bytes)),
            Kind::Principal | Kind::ActorRef => {
                return word(format!("{} {}", kind.name(), self.blob(object, limits.bytes)));
            }
            Kind::BigInt => return word(self.big_number(object)),
            Kind::Nat64 => return word(format!("{} : Nat64", self.image.u64(self.number_at(object)))),
            Kind::Int64 => return word(format!("{} : Int64", self.image.u64(self.number_at(object)) as i64)),
            Kind::Float => return word(format!("{:?}", f64::from_bits(self.image.u64(self.number_at(object))))),
            Kind::Nat32 => return word(format!("{} : Nat32", self.image.u32(self.number_at(object)))),
            Kind::Int32 => return word(format!("{} : Int32", self.image.u32(self.number_at(object)) as i32)),
            Kind::Null => return word("null".to_owned()),
            Kind::Closure => {
                let place = self.nth(object, self.header);
                return word(format!(
                    "func {}",
                    self.names.function(place).map_or_else(|| place.to_string(), str::to_owned)
                ));
            }
            Kind::Region => return word(format!("region {}", self.nth(object, self.header))),
            _ => {}
        }
        // A box does not count as a level.
        if kind == Kind::MutBox {
            return self.shown(self.value(object, self.header), limits, depth, left);
        }
        if depth == 0 {
            return word(match kind {
                Kind::Variant if self.value(object, self.header + 1) == Value::False => {
                    format!("#{}", self.names.label(self.nth(object, self.header) as u32))
                }
                Kind::Variant => format!("#{} …", self.names.label(self.nth(object, self.header) as u32)),
                Kind::Object => "{…}".to_owned(),
                Kind::ImmutableArray | Kind::MutableArray => "[…]".to_owned(),
                _ => "…".to_owned(),
            });
        }
        self.shown_parts(object, kind, limits, depth - 1, left)
    }

    fn shown_parts(&self, object: u64, kind: Kind, limits: Limits, depth: u32, left: &mut u32) -> Shown {
        let mut part = |index: u64| self.shown(self.value(object, index), limits, depth, left);
        match kind {
            Kind::Object => {
                let count = self.fields(object).unwrap_or(0).min(256);
                let mut fields: Vec<(String, u64)> = (0..count)
                    .map(|field| (self.names.label(self.field_hash(object, field)), self.first_field() + field))
                    .collect();
                fields.sort();
                let is_box = |index: u64| matches!(self.value(object, index), Value::Object(inner) if self.kind_of(inner) == Kind::MutBox);
                let items = fields.into_iter().map(|(name, index)| {
                    let variable = if is_box(index) { "var " } else { "" };
                    (format!("{variable}{name} = "), part(index))
                });
                Shown::Group { open: "{".to_owned(), items: items.collect(), separator: ";", close: "}" }
            }
            Kind::ImmutableArray | Kind::MutableArray | Kind::Tuple | Kind::SharedFunction => {
                let length = self.length(object);
                let mut items: Vec<(String, Shown)> = (0..length.min(limits.elements))
                    .map(|index| (String::new(), part(self.header + 1 + index)))
                    .collect();
                if length > limits.elements {
                    items.push((String::new(), Shown::Word(format!("… {} more", length - limits.elements))));
                }
                let (open, close) = match kind {
                    Kind::ImmutableArray => ("[", "]"),
                    Kind::MutableArray => ("[var ", "]"),
                    Kind::Tuple => ("(", ")"),
                    _ => ("shared func (", ")"),
                };
                Shown::Group { open: open.to_owned(), items, separator: ",", close }
            }
            Kind::Some => Shown::Group {
                open: "?(".to_owned(),
                items: vec![(String::new(), part(self.header))],
                separator: "",
                close: ")",
            },
            Kind::Variant => {
                let label = format!("#{}", self.names.label(self.nth(object, self.header) as u32));
                match self.value(object, self.header + 1) {
                    // `()` is the same word as `false`; a variant without a payload holds it.
                    Value::False => Shown::Word(label),
                    _ => match part(self.header + 1) {
                        Shown::Word(text) => Shown::Word(format!("{label}({text})")),
                        Shown::Group { open, items, separator, close } => {
                            Shown::Group { open: format!("{label} {open}"), items, separator, close }
                        }
                    },
                }
            }
            other => Shown::Word(format!("({} at {object:#x})", other.name())),
        }
    }

    fn blob(&self, object: u64, limit: u64) -> String {
        let bytes = self.contents(object);
        let shown: String = bytes.iter().take(limit as usize / 4).map(|byte| format!("\\{byte:02X}")).collect();
        let more =
            if bytes.len() as u64 > limit / 4 { format!("…\" ({} bytes)", bytes.len()) } else { "\"".to_owned() };
        format!("\"{shown}{more}")
    }

    fn quoted(&self, object: u64, limit: u64) -> String {
        let whole = self.length(object);
        let text = self.text(object, limit);
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_end_matches('\u{fffd}');
        if whole > limit { format!("{:?}… ({whole} bytes)", text) } else { format!("{text:?}") }
    }

    /// The first bytes of a text, also if it is a rope of many pieces.
    pub fn text(&self, object: u64, limit: u64) -> Vec<u8> {
        let mut text = Vec::new();
        // Ropes are often thousands of levels deep on one side, so there is no recursion.
        let mut waiting = vec![object];
        for _ in 0..MOST_HALVES {
            let Some(object) = waiting.pop() else { break };
            if text.len() as u64 >= limit {
                break;
            }
            match self.kind_of(object) {
                Kind::Concat => {
                    for half in [self.header + 2, self.header + 1] {
                        if let Value::Object(half) = self.value(object, half) {
                            waiting.push(half);
                        }
                    }
                }
                _ => {
                    let room = (limit - text.len() as u64) as usize;
                    text.extend(self.contents(object).iter().take(room));
                }
            }
        }
        text
    }
}

impl Shown {
    /// Its length on one line.
    fn width(&self) -> usize {
        match self {
            Self::Word(text) => text.chars().count(),
            Self::Group { open, items, close, .. } => {
                let inside: usize = items.iter().map(|(label, item)| label.chars().count() + item.width() + 2).sum();
                open.len() + inside + close.len()
            }
        }
    }

    fn write(&self, indentation: usize, text: &mut String) {
        match self {
            Self::Word(word) => text.push_str(word),
            Self::Group { open, items, separator, close } => {
                let on_one_line = self.width() + indentation <= COLUMNS;
                text.push_str(open);
                let spaced = open.ends_with('{');
                for (at, (label, item)) in items.iter().enumerate() {
                    let inner = indentation + 2;
                    match on_one_line {
                        true if at > 0 => text.push_str(&format!("{separator} ")),
                        true if spaced => text.push(' '),
                        true => {}
                        false => {
                            text.push_str(if at > 0 { separator } else { "" });
                            text.push_str(&format!("\n{:inner$}", ""));
                        }
                    }
                    text.push_str(label);
                    item.write(inner, text);
                }
                match on_one_line {
                    true if spaced && !items.is_empty() => text.push(' '),
                    true => {}
                    false => text.push_str(&format!("\n{:indentation$}", "")),
                }
                text.push_str(close);
            }
        }
    }
}
