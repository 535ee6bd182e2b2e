//! Changes of values. What fits is written over the old value; for all else there is a new object, to which only the word that the path names refers: then no
//! other path sees the change.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::literal::{array_of, blob_of, character, integer, text_of, with_type};
use super::locate::Trail;
use super::number::limbs_of;
use super::room::{NewObjects, Room};
use super::show::ShowLimits;
use super::types::{ArrayType, PlainType, ValueType};
use super::value::{FixedType, MotokoValue, WIDE_NULL, narrow_char, narrow_fixed, narrow_int, wide_char, wide_int};
use crate::edit::{ImageEdit, Patch};
use crate::heap::HeapError;
use crate::lens::Lens;
use crate::paths::{reference_counts, referrers};
use crate::survey::Survey;

/// The most elements of an array that are looked at to find their type.
const TYPED_ELEMENTS: u64 = 1 << 16;

/// The new value: its text, and its type.
#[derive(Clone, Copy)]
struct NewValue<'t> {
    text: &'t str,
    ty: ValueType,
}

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// The bytes to write to change the value at a path. No other path sees the change, unless it leads through the same mutable variable or array.
    pub(super) fn edit_value(&self, survey: &Survey, path: &str, text: &str) -> Result<ImageEdit, HeapError> {
        let (old, trail) = self.find_trail(path, &survey.found)?;
        if let MotokoValue::Object(object) = old
            && !self.is_object(object, &survey.found)
        {
            return Err(format!("it leads to {object:#x}, where no object is").into());
        }
        let mut new = NewObjects::in_heap(self);
        let patches = self.patches(survey, path, (old, &trail), text, &mut new)?;
        let before = self.show(old, ShowLimits::to_depth(1));
        let mut edit = ImageEdit { patches, before, ..ImageEdit::default() };
        new.finish(&mut edit);
        let length = edit.new_length.unwrap_or(self.image.len());
        match edit.patches.iter().all(|patch| patch.at.saturating_add(patch.bytes.len() as u64) <= length) {
            true => Ok(edit),
            false => Err("it lies beyond the end of the image".to_owned().into()),
        }
    }

    /// The bytes to write over others; new objects are added to `new`.
    fn patches(
        &self,
        survey: &Survey,
        path: &str,
        (old, trail): (MotokoValue, &Trail),
        text: &str,
        new: &mut NewObjects<'_, '_, WIDE>,
    ) -> Result<Vec<Patch>, String> {
        if let (MotokoValue::Untyped(_), Some(word)) = (old, self.untyped_word(survey, path, text)) {
            return Ok(vec![self.replace(survey, trail, old, word, new)?]);
        }
        let value = self.new_value(survey, path, old, text)?;
        if let MotokoValue::Object(object) = old
            && self.is_only_here(survey, trail, object)
            && let Some(patches) = self.patches_in_place(object, value, new)?
        {
            return Ok(patches);
        }
        let word = self.new_word(value, new)?;
        Ok(vec![self.replace(survey, trail, old, word, new)?])
    }

    /// The type of the new value: the declared one, that of the old value, or the one that the user states.
    fn new_value<'t>(
        &self,
        survey: &Survey,
        path: &str,
        old: MotokoValue,
        text: &'t str,
    ) -> Result<NewValue<'t>, String> {
        let seen = self.type_of(old);
        let agree = |one: ValueType, other: ValueType| {
            one.array.is_some() == other.array.is_some() && one.plain.agrees_with(other.plain)
        };
        // A type that the old value cannot have is that of another program.
        let declared =
            self.declared_type(survey, path).filter(|declared| seen.is_none_or(|seen| agree(*declared, seen)));
        let known = declared.or(seen);
        let (value, stated) = with_type(text);
        let is_text = known.is_some_and(|known| known.plain == PlainType::Text && known.array.is_none());
        let (value, stated) = match stated {
            Some(stated) if is_text && stated.plain != PlainType::Text => (text.trim(), None),
            stated => (value, stated),
        };
        let ty = match (known, stated) {
            (Some(known), Some(stated)) if !agree(known, stated) => {
                return Err(format!("it is a {}, no {}", known.plain.name(), stated.plain.name()));
            }
            (Some(known), Some(stated)) => {
                let plain = if known.plain == PlainType::Whole { stated.plain } else { known.plain };
                ValueType { is_option: known.is_option || stated.is_option, plain, ..known }
            }
            (Some(known), None) => known,
            (None, Some(stated)) if self.may_become(old, stated) => stated,
            (None, _) => return Err(self.no_type(old, value)),
        };
        // A question mark before a value is the syntax of options.
        let value = if ty.is_option { value.strip_prefix('?').unwrap_or(value).trim_start() } else { value };
        if value == "null" && !ty.is_option {
            let name = ty.plain.name();
            return Err(match declared {
                Some(_) => format!("it is a {name}, which is never null"),
                None => format!("only the program knows whether it may be null; write 'null : ?{name}' if it may"),
            });
        }
        Ok(NewValue { text: value, ty })
    }

    /// The type of a path that begins with a stable variable.
    fn declared_type(&self, survey: &Survey, path: &str) -> Option<ValueType> {
        let (_, steps) = self.find_root(path, &survey.found).ok()?;
        self.names.types().at(path.strip_suffix(steps.text())?, steps)
    }

    /// Whether a value of unknown type may be of the type that the user states.
    fn may_become(&self, old: MotokoValue, stated: ValueType) -> bool {
        match old {
            MotokoValue::Null | MotokoValue::Untyped(_) => true,
            MotokoValue::Object(object) => {
                let is_array = matches!(self.kind_of(object), MotokoKind::ImmutableArray | MotokoKind::MutableArray);
                is_array && self.length(object) == 0 && stated.array.is_some()
                    || self.kind_of(object) == MotokoKind::Null
            }
            _ => false,
        }
    }

    /// Why a value has no type that could be written.
    fn no_type(&self, old: MotokoValue, text: &str) -> String {
        let unknown = |what: &str, example: &str| {
            format!("{what}, and only the program knows its type; write it with one: '{example}'")
        };
        match old {
            MotokoValue::Null => unknown("it is null", &format!("{text} : Nat")),
            MotokoValue::Untyped(_) => unknown("it is a word of a 32-bit heap", &format!("{text} : Nat64")),
            MotokoValue::Object(object) => match self.kind_of(object) {
                MotokoKind::Null => unknown("it is null", &format!("{text} : Nat")),
                MotokoKind::ImmutableArray | MotokoKind::MutableArray if self.length(object) == 0 => {
                    unknown("it is an empty array", &format!("{text} : [Nat]"))
                }
                kind @ (MotokoKind::Object
                | MotokoKind::ImmutableArray
                | MotokoKind::MutableArray
                | MotokoKind::Tuple
                | MotokoKind::Variant
                | MotokoKind::Closure
                | MotokoKind::Some) => format!("it has parts ({}); name one of them", kind.name()),
                kind => format!("a {} cannot be changed", kind.name()),
            },
            _ => "it is no value".to_owned(),
        }
    }

    /// The type of a value, as far as the heap shows it.
    fn type_of(&self, value: MotokoValue) -> Option<ValueType> {
        if let Some(plain) = self.plain_type_of(value) {
            return Some(ValueType::plain(plain));
        }
        let MotokoValue::Object(array) = value else { return None };
        let is_mutable = match self.kind_of(array) {
            MotokoKind::ImmutableArray => false,
            MotokoKind::MutableArray => true,
            _ => return None,
        };
        let elements = (0..self.length(array).min(TYPED_ELEMENTS)).map(|at| self.value(array, self.header + 1 + at));
        let (mut plain, mut has_options) = (None, false);
        for element in elements {
            match self.plain_type_of(element) {
                None if self.is_null(element) => has_options = true,
                None => return None,
                Some(found) => plain = plain.or(Some(found)),
            }
        }
        Some(ValueType { is_option: false, array: Some(ArrayType { is_mutable, has_options }), plain: plain? })
    }

    fn plain_type_of(&self, value: MotokoValue) -> Option<PlainType> {
        Some(match value {
            MotokoValue::True | MotokoValue::False => PlainType::Bool,
            MotokoValue::Int(_) => PlainType::Whole,
            MotokoValue::Fixed(fixed, _) => PlainType::Fixed(fixed),
            MotokoValue::Char(_) => PlainType::Char,
            MotokoValue::Object(object) => match self.kind_of(object) {
                MotokoKind::Text | MotokoKind::Concat => PlainType::Text,
                MotokoKind::Blob => PlainType::Blob,
                MotokoKind::BigInt => PlainType::Whole,
                MotokoKind::Nat64 => PlainType::Fixed(FixedType::Nat64),
                MotokoKind::Int64 => PlainType::Fixed(FixedType::Int64),
                MotokoKind::Nat32 => PlainType::Fixed(FixedType::Nat32),
                MotokoKind::Int32 => PlainType::Fixed(FixedType::Int32),
                MotokoKind::Float => PlainType::Float,
                _ => return None,
            },
            MotokoValue::Null | MotokoValue::Untyped(_) | MotokoValue::Invalid(_) => return None,
        })
    }

    fn is_null(&self, value: MotokoValue) -> bool {
        match value {
            MotokoValue::Null => true,
            MotokoValue::Object(object) => self.kind_of(object) == MotokoKind::Null,
            _ => false,
        }
    }

    /// The word of a new value in a 32-bit heap whose old value shows no type, and whose type is not known otherwise: a number of 31 bits, or a truth value.
    fn untyped_word(&self, survey: &Survey, path: &str, text: &str) -> Option<u64> {
        if with_type(text).1.is_some() || self.declared_type(survey, path).is_some() {
            return None;
        }
        match text.trim() {
            "true" => Some(1),
            "false" => Some(0),
            text => narrow_int(integer(text).ok()?).map(u64::from),
        }
    }

    /// The word of a new value; what does not fit into a word becomes an object.
    fn new_word(&self, NewValue { text, ty }: NewValue<'_>, new: &mut NewObjects<'_, '_, WIDE>) -> Result<u64, String> {
        if text == "null" && ty.is_option {
            return self.null();
        }
        let Some(array) = ty.array else { return self.plain_word(ty.plain, text, new) };
        let mut body = Vec::new();
        let words = self.element_words(text, ty, array, new)?;
        for word in [words.len() as u64].into_iter().chain(words) {
            body.extend(&word.to_le_bytes()[..Self::WORD as usize]);
        }
        new.add(if array.is_mutable { 5 } else { 3 }, &body)
    }

    fn null(&self) -> Result<u64, String> {
        if WIDE {
            Ok(WIDE_NULL)
        } else {
            Err("null is an object of a 32-bit heap, whose address is not known".to_owned())
        }
    }

    fn element_words(
        &self,
        text: &str,
        ty: ValueType,
        array: ArrayType,
        new: &mut NewObjects<'_, '_, WIDE>,
    ) -> Result<Vec<u64>, String> {
        let (is_mutable, elements) = array_of(text).ok_or("it is an array; write it as [1, 2, 3]")?;
        if is_mutable && !array.is_mutable {
            return Err("it is an array that cannot change; write it without 'var'".to_owned());
        }
        let word = |(at, element): (usize, &&str)| {
            let (element, stated) = with_type(element);
            if let Some(stated) = stated.filter(|stated| !stated.plain.agrees_with(ty.plain)) {
                return Err(format!("element {at} is a {}, no {}", stated.plain.name(), ty.plain.name()));
            }
            let element = if array.has_options { element.strip_prefix('?').unwrap_or(element) } else { element };
            let word = match element {
                "null" if array.has_options => self.null(),
                _ if ty.plain == PlainType::Text && !element.starts_with('"') => Err("write it in quotes".to_owned()),
                _ => self.plain_word(ty.plain, element, new),
            };
            word.map_err(|why| format!("element {at}: {why}"))
        };
        elements.iter().enumerate().map(word).collect()
    }

    /// The word of a value without parts.
    fn plain_word(&self, plain: PlainType, text: &str, new: &mut NewObjects<'_, '_, WIDE>) -> Result<u64, String> {
        let is_none = || format!("it is a {}, and '{text}' is none", plain.name());
        match plain {
            PlainType::Bool => match text {
                "true" => Ok(1),
                "false" => Ok(0),
                _ => Err(is_none()),
            },
            PlainType::Nat if text.starts_with('-') => Err(is_none()),
            PlainType::Nat | PlainType::Int | PlainType::Whole => match self.compact(text) {
                Some(word) => Ok(word),
                None => new.add(35, &self.big_number_body(text)?),
            },
            PlainType::Fixed(fixed) => {
                let number = integer(text)?;
                if !fixed.contains(number) {
                    return Err(format!("{text} does not fit: it is a {}", fixed.name()));
                }
                let compact = if WIDE { fixed.word(number) } else { narrow_fixed(fixed, number).map(u64::from) };
                let bytes = &number.to_le_bytes()[..fixed.bits() as usize / 8];
                match (compact, fixed) {
                    (Some(word), _) => Ok(word),
                    (None, FixedType::Nat64) => new.add(11, bytes),
                    (None, FixedType::Int64) => new.add(13, bytes),
                    (None, FixedType::Nat32) => new.add(41, bytes),
                    (None, FixedType::Int32) => new.add(43, bytes),
                    (None, _) => Err(is_none()),
                }
            }
            PlainType::Float => new.add(15, &text.parse::<f64>().map_err(|_| is_none())?.to_le_bytes()),
            PlainType::Char => {
                let character = character(text).ok_or_else(is_none)?;
                Ok(if WIDE { wide_char(character) } else { narrow_char(character).into() })
            }
            PlainType::Unit => Err("it is (), which has no other value".to_owned()),
            PlainType::Text => self.add_bytes(27, &text_of(text)?, new),
            PlainType::Blob => self.add_bytes(25, &blob_of(text).ok_or("a blob is written as \\CA\\FE")?, new),
        }
    }

    /// The word of a `Nat` or `Int` that needs no box. Such a number must not have one: the program compares words.
    fn compact(&self, text: &str) -> Option<u64> {
        let number = integer(text).ok()?;
        if WIDE { wide_int(number) } else { narrow_int(number).map(u64::from) }
    }

    fn add_bytes(&self, tag: u64, bytes: &[u8], new: &mut NewObjects<'_, '_, WIDE>) -> Result<u64, String> {
        let length = (bytes.len() as u64).to_le_bytes();
        new.add(tag, &[&length[..Self::WORD as usize], bytes].concat())
    }

    /// The struct of a big number, and its limbs.
    fn big_number_body(&self, text: &str) -> Result<Vec<u8>, String> {
        let (is_negative, limbs) = limbs(text, Self::LIMB_BITS)?;
        let count = (limbs.len() as u32).to_le_bytes();
        // The runtime sets the pointer to the limbs when it uses the number.
        let mut body = [count, count, u32::from(is_negative).to_le_bytes()].concat();
        body.resize(if WIDE { 24 } else { 16 }, 0);
        body.extend(limbs.into_iter().flat_map(|limb| limb.to_le_bytes()[..Self::WORD as usize].to_vec()));
        Ok(body)
    }

    /// The bytes to write over an object, if the new value fits exactly in its place.
    fn patches_in_place(
        &self,
        object: u64,
        NewValue { text, ty }: NewValue<'_>,
        new: &mut NewObjects<'_, '_, WIDE>,
    ) -> Result<Option<Vec<Patch>>, String> {
        if text == "null" && ty.is_option {
            return Ok(None);
        }
        let number_at = |bytes: Vec<u8>| Ok(Some(vec![Patch { at: self.number_at(object), bytes }]));
        let contents_at = object + (self.header + 1) * Self::WORD;
        match (self.kind_of(object), ty.plain) {
            (MotokoKind::ImmutableArray | MotokoKind::MutableArray, _) => {
                let Some(array) = ty.array else { return Ok(None) };
                let same = array_of(text).is_some_and(|(_, elements)| elements.len() as u64 == self.length(object));
                if !same || self.collector_rests().is_err() {
                    return Ok(None);
                }
                let words = self.element_words(text, ty, array, new)?;
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()[..Self::WORD as usize].to_vec()).collect();
                Ok(Some(vec![Patch { at: contents_at, bytes }]))
            }
            (kind @ (MotokoKind::Text | MotokoKind::Blob), _) => {
                let bytes = if kind == MotokoKind::Text { Some(text_of(text)?) } else { blob_of(text) };
                let bytes = bytes.filter(|bytes| bytes.len() as u64 == self.length(object));
                Ok(bytes.map(|bytes| vec![Patch { at: contents_at, bytes }]))
            }
            (MotokoKind::BigInt, plain) => {
                let is_wrong = plain == PlainType::Nat && text.starts_with('-');
                let (is_negative, mut limbs) = limbs(text, Self::LIMB_BITS)?;
                let room = self.limb_room(object);
                if is_wrong || limbs.len() as u64 > room || self.compact(text).is_some() {
                    return Ok(None);
                }
                let used = (limbs.len() as u32).to_le_bytes().to_vec();
                let sign = u32::from(is_negative).to_le_bytes().to_vec();
                limbs.resize(room as usize, 0);
                let limbs = limbs.into_iter().flat_map(|limb| limb.to_le_bytes()[..Self::WORD as usize].to_vec());
                let at = self.number_at(object);
                Ok(Some(vec![
                    Patch { at, bytes: used },
                    Patch { at: at + 8, bytes: sign },
                    Patch { at: self.limbs_at(object), bytes: limbs.collect() },
                ]))
            }
            (MotokoKind::Float, _) => match text.parse::<f64>() {
                Ok(number) => number_at(number.to_le_bytes().to_vec()),
                Err(_) => Ok(None),
            },
            (_, PlainType::Fixed(fixed)) => {
                let number = integer(text)?;
                let compact = if WIDE { fixed.word(number) } else { narrow_fixed(fixed, number).map(u64::from) };
                if !fixed.contains(number) || compact.is_some() {
                    return Ok(None);
                }
                number_at(number.to_le_bytes()[..fixed.bits() as usize / 8].to_vec())
            }
            _ => Ok(None),
        }
    }

    /// Replaces the word at the end of a trail. Objects on the trail to which others refer as well are copied, so that those see no change.
    fn replace(
        &self,
        survey: &Survey,
        trail: &Trail,
        old: MotokoValue,
        mut word: u64,
        new: &mut NewObjects<'_, '_, WIDE>,
    ) -> Result<Patch, String> {
        if let MotokoValue::Object(object) = old {
            self.collector_rests()?;
            // Other references to a mutable array would go on with the old one.
            if self.kind_of(object) == MotokoKind::MutableArray && reference_counts(self, survey, &[object])[0] > 1 {
                return Err(self.is_shared(survey, object));
            }
        }
        let shared = self.first_shared(survey, trail).unwrap_or(trail.len());
        for &(object, index) in trail[shared..].iter().rev() {
            self.collector_rests()?;
            let kind = self.kind_of(object);
            let words = self.words(object, kind).ok_or("an object on the way to it is damaged")?;
            let mut copy = self.image.slice(object, words * Self::WORD).to_vec();
            let at = (index * Self::WORD) as usize;
            let Some(target) = copy.get_mut(at..at + Self::WORD as usize) else {
                return Err("an object on the way to it is damaged".to_owned());
            };
            target.copy_from_slice(&word.to_le_bytes()[..Self::WORD as usize]);
            let body = &copy[(self.header * Self::WORD) as usize..];
            word = new.add(self.word(object), body)?;
        }
        let Some(&(holder, index)) = shared.checked_sub(1).and_then(|last| trail.get(last)) else {
            return Err(match trail.first() {
                Some(&(object, _)) => self.is_shared(survey, object),
                None => {
                    "it needs another object, and only an address is known; name it by a way from a variable".into()
                }
            });
        };
        Ok(Patch { at: holder + index * Self::WORD, bytes: word.to_le_bytes()[..Self::WORD as usize].to_vec() })
    }

    /// Whether an object can be changed without that another path sees it.
    fn is_only_here(&self, survey: &Survey, trail: &Trail, object: u64) -> bool {
        // A mutable array is meant to be changed.
        if self.kind_of(object) == MotokoKind::MutableArray {
            return true;
        }
        let whole: Trail = trail.iter().copied().chain([(object, 0)]).collect();
        self.first_shared(survey, &whole).is_none()
    }

    /// The first object on a trail, after its last mutable variable or array, to which several references lead.
    fn first_shared(&self, survey: &Survey, trail: &Trail) -> Option<usize> {
        let is_mutable = |object| matches!(self.kind_of(object), MotokoKind::MutBox | MotokoKind::MutableArray);
        let start = trail.iter().rposition(|&(object, _)| is_mutable(object)).map_or(0, |at| at + 1);
        let objects: Vec<u64> = trail[start..].iter().map(|&(object, _)| object).collect();
        let counts = reference_counts(self, survey, &objects);
        // Code refers to constants of a 32-bit heap, too, and the collector does not look into them.
        let is_shared = |(&object, count): (&u64, u64)| count > 1 || !WIDE && object < self.base;
        objects.iter().zip(counts).position(is_shared).map(|at| start + at)
    }

    fn is_shared(&self, survey: &Survey, object: u64) -> String {
        let others = referrers(self, survey, object, 2);
        let names: Vec<String> =
            others.first.iter().map(|referrer| format!("{}{}", referrer.what, referrer.step)).collect();
        format!("it is shared: {} references lead to it ({})", others.count, names.join(", "))
    }

    /// An error if a collection is under way: it keeps account of references, which a change in an image would get around.
    fn collector_rests(&self) -> Result<(), String> {
        match self.room {
            Room::Unknown(why) if self.header == 2 => Err(format!("it replaces a reference, and {why}")),
            _ => Ok(()),
        }
    }
}

/// Sign and limbs of a whole number.
fn limbs(text: &str, bits: u32) -> Result<(bool, Vec<u64>), String> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let limbs = limbs_of(digits, bits).ok_or_else(|| format!("'{text}' is no whole number"))?;
    Ok((is_negative, limbs))
}
