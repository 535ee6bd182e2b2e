//! Objects in the syntax of Motoko values.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::value::MotokoValue;

/// How much of a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShowLimits {
    /// The most levels of objects within objects.
    pub depth: u32,
    /// The most elements of an array.
    pub elements: u64,
    /// The most bytes of a text or blob.
    pub bytes: u64,
    /// The most objects in total.
    pub objects: u32,
}

impl ShowLimits {
    /// ShowLimits that fit a screen, with `depth` levels.
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
    pub fn show(&self, value: MotokoValue, limits: ShowLimits) -> String {
        let mut left = limits.objects;
        let shown = self.shown(value, limits, limits.depth, &mut left);
        let mut text = String::new();
        match value {
            // Each captured value has its own line.
            MotokoValue::Object(object) if self.kind_of(object) == MotokoKind::Closure => {
                shown.write_lines(0, false, &mut text);
            }
            _ => shown.write(0, &mut text),
        }
        text
    }

    fn shown(&self, value: MotokoValue, limits: ShowLimits, depth: u32, left: &mut u32) -> Shown {
        Shown::Word(match value {
            MotokoValue::Null => "null".to_owned(),
            MotokoValue::False => "false".to_owned(),
            MotokoValue::True => "true".to_owned(),
            MotokoValue::Int(number) => number.to_string(),
            MotokoValue::Fixed(fixed, number) => format!("{number} : {}", fixed.name()),
            MotokoValue::Char(code) => char::from_u32(code)
                .map_or_else(|| format!("(no character: {code:#x})"), |character| format!("{character:?}")),
            // The word has no type; a whole number is the best guess.
            MotokoValue::Untyped(word) => (word as i32 >> 1).to_string(),
            MotokoValue::Invalid(word) => format!("(no value: {word:#x})"),
            MotokoValue::Object(object) => return self.shown_object(object, limits, depth, left),
        })
    }

    fn shown_object(&self, object: u64, limits: ShowLimits, depth: u32, left: &mut u32) -> Shown {
        let kind = self.kind_of(object);
        if *left == 0 {
            return Shown::Word("…".to_owned());
        }
        *left -= 1;
        let word = |text: String| Shown::Word(text);
        match kind {
            MotokoKind::Text | MotokoKind::Concat => return word(self.quoted(object, limits.bytes)),
            MotokoKind::Blob => return word(self.blob(object, limits.bytes)),
            MotokoKind::Principal | MotokoKind::ActorRef => {
                return word(format!("{} {}", kind.name(), self.blob(object, limits.bytes)));
            }
            MotokoKind::BigInt => return word(self.big_number(object)),
            MotokoKind::Nat64 => return word(format!("{} : Nat64", self.image.u64(self.number_at(object)))),
            MotokoKind::Int64 => return word(format!("{} : Int64", self.image.u64(self.number_at(object)) as i64)),
            MotokoKind::Float => return word(format!("{:?}", f64::from_bits(self.image.u64(self.number_at(object))))),
            MotokoKind::Nat32 => return word(format!("{} : Nat32", self.image.u32(self.number_at(object)))),
            MotokoKind::Int32 => return word(format!("{} : Int32", self.image.u32(self.number_at(object)) as i32)),
            MotokoKind::Null => return word("null".to_owned()),
            MotokoKind::Closure if self.captured_count(object) == 0 => return word(self.function_name(object)),
            MotokoKind::Region => return word(format!("region {}", self.region_id(object))),
            _ => {}
        }
        // A box does not count as a level.
        if kind == MotokoKind::MutBox {
            return self.shown(self.value(object, self.header), limits, depth, left);
        }
        if depth == 0 {
            return word(match kind {
                MotokoKind::Variant if self.value(object, self.header + 1) == MotokoValue::False => {
                    format!("#{}", self.names.label(self.nth(object, self.header) as u32))
                }
                MotokoKind::Variant => format!("#{} …", self.names.label(self.nth(object, self.header) as u32)),
                MotokoKind::Object => "{…}".to_owned(),
                MotokoKind::Closure => format!("{} {{…}}", self.function_name(object)),
                MotokoKind::ImmutableArray | MotokoKind::MutableArray => "[…]".to_owned(),
                _ => "…".to_owned(),
            });
        }
        self.shown_parts(object, kind, limits, depth - 1, left)
    }

    fn shown_parts(&self, object: u64, kind: MotokoKind, limits: ShowLimits, depth: u32, left: &mut u32) -> Shown {
        let mut part = |index: u64| self.shown(self.value(object, index), limits, depth, left);
        match kind {
            MotokoKind::Object => {
                let count = self.fields(object).unwrap_or(0).min(256);
                let mut fields: Vec<(String, u64)> = (0..count)
                    .map(|field| (self.names.label(self.field_hash(object, field)), self.first_field() + field))
                    .collect();
                fields.sort();
                let items = fields.into_iter().map(|(name, index)| {
                    let variable = if self.is_box(self.value(object, index)) { "var " } else { "" };
                    (format!("{variable}{name} = "), part(index))
                });
                Shown::Group { open: "{".to_owned(), items: items.collect(), separator: ";", close: "}" }
            }
            MotokoKind::ImmutableArray | MotokoKind::MutableArray | MotokoKind::Tuple | MotokoKind::SharedFunction => {
                let length = self.length(object);
                let mut items: Vec<(String, Shown)> = (0..length.min(limits.elements))
                    .map(|index| (String::new(), part(self.header + 1 + index)))
                    .collect();
                if length > limits.elements {
                    items.push((String::new(), Shown::Word(format!("… {} more", length - limits.elements))));
                }
                let (open, close) = match kind {
                    MotokoKind::ImmutableArray => ("[", "]"),
                    MotokoKind::MutableArray => ("[var ", "]"),
                    MotokoKind::Tuple => ("(", ")"),
                    _ => ("shared func (", ")"),
                };
                Shown::Group { open: open.to_owned(), items, separator: ",", close }
            }
            MotokoKind::Closure => {
                let items = (0..self.captured_count(object).min(256)).map(|index| {
                    let slot = self.header + 2 + index;
                    let variable = if self.is_box(self.value(object, slot)) { "var " } else { "" };
                    (format!("{variable}{} = ", self.captured_name(object, index)), part(slot))
                });
                let open = format!("{} {{", self.function_name(object));
                Shown::Group { open, items: items.collect(), separator: ";", close: "}" }
            }
            MotokoKind::Some => Shown::Group {
                open: "?(".to_owned(),
                items: vec![(String::new(), part(self.header))],
                separator: "",
                close: ")",
            },
            MotokoKind::Variant => {
                let label = format!("#{}", self.names.label(self.nth(object, self.header) as u32));
                match self.value(object, self.header + 1) {
                    // `()` is the same word as `false`; a variant without a payload holds it.
                    MotokoValue::False => Shown::Word(label),
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

    fn is_box(&self, value: MotokoValue) -> bool {
        matches!(value, MotokoValue::Object(object) if self.kind_of(object) == MotokoKind::MutBox)
    }

    /// The function of a closure: `func add`, or its index in the table. The compiler names one without a name after its line and column.
    pub(super) fn function_name(&self, closure: u64) -> String {
        let index = self.nth(closure, self.header);
        self.names.function(index).map_or_else(|| format!("func {index}"), |name| format!("func {name}"))
    }

    /// The number of values that a closure captured.
    pub(super) fn captured_count(&self, closure: u64) -> u64 {
        self.nth(closure, self.header + 1)
    }

    /// The name of a value that a closure captured: that of the variable, or `(captured 0)`.
    pub(super) fn captured_name(&self, closure: u64, index: u64) -> String {
        let name = self.names.captured(self.nth(closure, self.header), index);
        name.map_or_else(|| format!("(captured {index})"), str::to_owned)
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
                MotokoKind::Concat => {
                    for half in [self.header + 2, self.header + 1] {
                        if let MotokoValue::Object(half) = self.value(object, half) {
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
        self.write_lines(indentation, self.width() + indentation <= COLUMNS, text);
    }

    fn write_lines(&self, indentation: usize, on_one_line: bool, text: &mut String) {
        match self {
            Self::Word(word) => text.push_str(word),
            Self::Group { open, items, separator, close } => {
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
