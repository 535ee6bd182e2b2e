//! Paths to values, as a program would write them: `tree#node.account.balance`, `archive[0]`, `0x500800.owner`.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::names::label_hash;
use super::value::MotokoValue;
use crate::bitmap::Bitmap;
use crate::lens::Lens;

/// A value in a heap, and the word that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLocation {
    /// The value.
    pub value: MotokoValue,
    /// The object that holds it, and the address of the word; none if the path names an object itself.
    pub holder: Option<(u64, u64)>,
}

/// The words of objects that lead to a value, from the root on: each object, and the index of the word in it.
pub(super) type Trail = Vec<(u64, u64)>;

/// The characters with which a step of a path begins.
const STEPS: [char; 4] = ['.', '#', '?', '['];

/// The steps of a path after its root: `.field`, `[3]`, `#label`, `?`.
#[derive(Clone, Copy, Debug)]
pub struct PathSteps<'p> {
    rest: &'p str,
}

impl<'p> PathSteps<'p> {
    /// The steps in a text that is empty or begins with one.
    pub fn of(rest: &'p str) -> Self {
        Self { rest }
    }

    /// Those that are left, as text.
    pub fn text(&self) -> &'p str {
        self.rest
    }
}

impl<'p> Iterator for PathSteps<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let mut characters = self.rest.char_indices();
        characters.next()?;
        let end = characters.find(|(_, character)| STEPS.contains(character)).map_or(self.rest.len(), |(at, _)| at);
        let (step, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(step)
    }
}

/// The most boxes, options and variants that are passed in search of a field.
const MOST_WRAPPERS: u32 = 64;

/// The most captured values among which a name is searched.
const MOST_CAPTURED: u64 = 1 << 16;

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// Finds the value that a path names; the error says how far the path could be followed.
    pub fn find_value(&self, path: &str, found: &Bitmap) -> Result<ValueLocation, String> {
        let (value, trail) = self.find_trail(path, found)?;
        Ok(ValueLocation { value, holder: trail.last().map(|&(object, index)| (object, object + index * Self::WORD)) })
    }

    /// Finds the value that a path names, and the words that lead to it.
    pub(super) fn find_trail(&self, path: &str, found: &Bitmap) -> Result<(MotokoValue, Trail), String> {
        let (root, steps) = self.find_root(path, found)?;
        let mut trail = Trail::new();
        let mut value = self.unboxed(MotokoValue::Object(root), &mut trail);
        let mut before = path.len() - steps.rest.len();
        for step in steps {
            value = self
                .step_into(value, step, found, &mut trail)
                .map_err(|problem| format!("'{}' {problem}", &path[..before]))?;
            before += step.len();
        }
        Ok((value, trail))
    }

    /// The object with which a path begins, and the steps after it.
    pub(super) fn find_root<'p>(&self, path: &'p str, found: &Bitmap) -> Result<(u64, PathSteps<'p>), String> {
        if let Some(digits) = path.strip_prefix("0x") {
            let end = digits.find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(digits.len());
            let address = u64::from_str_radix(&digits[..end], 16).map_err(|_| format!("'{path}' is no address"))?;
            if !self.is_object(address, found) {
                return Err(format!("no object begins at {address:#x}; 'highwater image heap' lists the largest"));
            }
            let rest = &digits[end..];
            if !rest.is_empty() && !rest.starts_with(STEPS) {
                return Err(format!("'{path}' is no address"));
            }
            return Ok((self.current_address(address), PathSteps::of(rest)));
        }
        let named = self.roots.iter().filter_map(|root| {
            let rest = path.strip_prefix(&root.name.to_string())?;
            (rest.is_empty() || rest.starts_with(STEPS)).then_some((root, rest))
        });
        // The longest name that fits: 'static[1]' is not an element of 'static'.
        let Some((root, rest)) = named.min_by_key(|(_, rest)| rest.len()) else {
            let names: Vec<String> =
                self.roots.iter().filter(|root| root.is_variable).map(|root| root.name.to_string()).collect();
            return Err(format!("'{path}' begins with no root; there are: {}", names.join(", ")));
        };
        if !self.is_object(root.object, found) {
            return Err(format!("the root '{}' refers to no object", root.name));
        }
        Ok((root.object, PathSteps::of(rest)))
    }

    /// The value of a mutable variable or field, instead of its box.
    fn unboxed(&self, value: MotokoValue, trail: &mut Trail) -> MotokoValue {
        match value {
            MotokoValue::Object(object) if self.kind_of(object) == MotokoKind::MutBox => {
                trail.push((object, self.header));
                self.value(object, self.header)
            }
            _ => value,
        }
    }

    fn step_into(
        &self,
        value: MotokoValue,
        step: &str,
        found: &Bitmap,
        trail: &mut Trail,
    ) -> Result<MotokoValue, String> {
        let MotokoValue::Object(mut object) = value else { return Err("is no object with parts".to_owned()) };
        let first = step.chars().next().unwrap_or_default();
        if first == '.' {
            // Boxes, options and variants are passed in search of a field.
            for _ in 0..MOST_WRAPPERS {
                let index = match self.kind_of(object) {
                    MotokoKind::Variant => self.header + 1,
                    MotokoKind::Some | MotokoKind::MutBox => self.header,
                    _ => break,
                };
                let MotokoValue::Object(inner) = self.value(object, index) else { break };
                trail.push((object, index));
                object = inner;
            }
        }
        if !self.is_object(object, found) {
            return Err(format!("leads to {object:#x}, where no object is"));
        }
        let index = match first {
            '.' => self.field_index(object, &step[1..])?,
            '[' => {
                let number = step[1..].strip_suffix(']').and_then(|number| number.parse::<u64>().ok());
                self.element_index(object, number.ok_or_else(|| format!("has no element '{step}'"))?)?
            }
            '#' => self.variant_index(object, &step[1..])?,
            _ if self.kind_of(object) == MotokoKind::Some => self.header,
            // An option is stored as its value, unless that is an option itself.
            _ => return Ok(value),
        };
        trail.push((object, index));
        Ok(self.unboxed(self.value(object, index), trail))
    }

    fn field_index(&self, object: u64, name: &str) -> Result<u64, String> {
        let kind = self.kind_of(object);
        if let (MotokoKind::Tuple | MotokoKind::SharedFunction, Ok(number)) = (kind, name.parse::<u64>()) {
            return self.element_index(object, number);
        }
        if kind == MotokoKind::Closure {
            return self.captured_index(object, name);
        }
        if kind != MotokoKind::Object {
            return Err(format!("is no record, but: {}", kind.name()));
        }
        let unnamed = name.strip_prefix('_').and_then(|name| name.strip_suffix('_')).and_then(|hash| hash.parse().ok());
        let hash = unnamed.unwrap_or_else(|| label_hash(name));
        let field = (0..self.fields(object).unwrap_or(0)).find(|&field| self.field_hash(object, field) == hash);
        let field =
            field.ok_or_else(|| format!("has no field '{name}'; it has: {}", self.field_names(object).join(", ")))?;
        Ok(self.first_field() + field)
    }

    /// The index of the word of a captured value, which is named or written as `(captured 0)`.
    fn captured_index(&self, closure: u64, name: &str) -> Result<u64, String> {
        let count = self.captured_count(closure).min(MOST_CAPTURED);
        let number = name.strip_prefix("(captured ").and_then(|rest| rest.strip_suffix(')'));
        let number = number.and_then(|number| number.parse().ok()).filter(|number| *number < count);
        let index = number.or_else(|| (0..count).find(|index| self.captured_name(closure, *index) == name));
        let index = index.ok_or_else(|| {
            let names: Vec<String> = (0..count.min(64)).map(|index| self.captured_name(closure, index)).collect();
            let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            format!("captured no '{name}'; it captured: {names}")
        })?;
        Ok(self.header + 2 + index)
    }

    fn element_index(&self, object: u64, number: u64) -> Result<u64, String> {
        let kind = self.kind_of(object);
        if !matches!(
            kind,
            MotokoKind::ImmutableArray | MotokoKind::MutableArray | MotokoKind::Tuple | MotokoKind::SharedFunction
        ) {
            return Err(format!("is no array, but: {}", kind.name()));
        }
        let length = self.length(object);
        if number >= length {
            return Err(format!("has {length} elements, no number {number}"));
        }
        Ok(self.header + 1 + number)
    }

    fn variant_index(&self, object: u64, label: &str) -> Result<u64, String> {
        if self.kind_of(object) != MotokoKind::Variant {
            return Err(format!("is no variant, but: {}", self.kind_of(object).name()));
        }
        let hash = self.nth(object, self.header) as u32;
        if label_hash(label) != hash {
            return Err(format!("is #{}, not #{label}", self.names.label(hash)));
        }
        Ok(self.header + 1)
    }
}
