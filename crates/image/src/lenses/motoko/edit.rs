//! Changes of values that need no more room than they have.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::locate::ValueLocation;
use super::number::limbs_of;
use super::show::ShowLimits;
use super::value::{FixedType, MotokoValue, narrow_int, wide_char, wide_int};
use crate::edit::{ImageEdit, Patch};
use crate::heap::HeapError;
use crate::paths::referrers;
use crate::survey::Survey;

const FIXED: [FixedType; 8] = [
    FixedType::Nat8,
    FixedType::Nat16,
    FixedType::Nat32,
    FixedType::Nat64,
    FixedType::Int8,
    FixedType::Int16,
    FixedType::Int32,
    FixedType::Int64,
];

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// The bytes to write to change the value at a path. Fails if other objects would see the change.
    pub(super) fn edit_value(&self, survey: &Survey, path: &str, value: &str) -> Result<ImageEdit, HeapError> {
        let location = self.find_value(path, &survey.found)?;
        let patches = self.patch(&location, value)?;
        if let Some(object) = self.changed_object(&location) {
            let others = referrers(self, survey, object, 2);
            if others.count > 1 {
                let names: Vec<String> =
                    others.first.iter().map(|referrer| format!("{}{}", referrer.what, referrer.step)).collect();
                let reason = format!("it is shared: {} references lead to it ({})", others.count, names.join(", "));
                return Err(reason.into());
            }
        }
        Ok(ImageEdit { patches, before: self.show(location.value, ShowLimits::to_depth(1)) })
    }

    /// The object in which a change at a location would be made, if other objects that refer to it would see the change. Mutable boxes and arrays do not
    /// count: they are meant to be changed.
    fn changed_object(&self, location: &ValueLocation) -> Option<u64> {
        let holder = |holder: Option<(u64, u64)>| {
            holder
                .map(|(object, _)| object)
                .filter(|object| !matches!(self.kind_of(*object), MotokoKind::MutBox | MotokoKind::MutableArray))
        };
        match location.value {
            MotokoValue::Object(object) => Some(object),
            _ => holder(location.holder),
        }
    }

    /// The bytes to write to change a value; the error says why it cannot be changed.
    fn patch(&self, location: &ValueLocation, text: &str) -> Result<Vec<Patch>, String> {
        match location.value {
            MotokoValue::Object(object) => self.patch_object(object, text),
            value => {
                let Some((_, at)) = location.holder else { return Err("nothing holds it".to_owned()) };
                let word = self.word_for(value, text)?;
                let bytes = word.to_le_bytes()[..Self::WORD as usize].to_vec();
                Ok(vec![Patch { at, bytes }])
            }
        }
    }

    /// The word of a new value that replaces a value of the same type.
    fn word_for(&self, old: MotokoValue, text: &str) -> Result<u64, String> {
        let (text, typed) = with_type(text);
        let no_room = |what: &str| format!("{text} does not fit: {what}");
        match old {
            MotokoValue::True | MotokoValue::False => match text {
                "true" => Ok(1),
                "false" => Ok(0),
                _ => Err(format!("it is a Bool, and '{text}' is none")),
            },
            MotokoValue::Int(_) => wide_int(integer(text)?).ok_or_else(|| no_room("the number needs a box of its own")),
            MotokoValue::Fixed(fixed, _) if typed.is_none_or(|typed| typed == fixed) => {
                fixed.word(integer(text)?).ok_or_else(|| no_room(&format!("it is a {} that has no box", fixed.name())))
            }
            MotokoValue::Fixed(fixed, _) => {
                Err(format!("it is a {}, no {}", fixed.name(), typed.map_or("", FixedType::name)))
            }
            MotokoValue::Char(_) => {
                character(text).map(wide_char).ok_or_else(|| format!("it is a Char, and {text} is none"))
            }
            MotokoValue::Untyped(_) => {
                untyped_word(text, typed).ok_or_else(|| no_room("words of 32-bit heaps hold numbers of 31 bits"))
            }
            MotokoValue::Null => Err("it is null, and has no room for a value".to_owned()),
            MotokoValue::Object(_) | MotokoValue::Invalid(_) => Err("it is no value".to_owned()),
        }
    }

    fn patch_object(&self, object: u64, text: &str) -> Result<Vec<Patch>, String> {
        let kind = self.kind_of(object);
        let whole = |bytes: Vec<u8>| Ok(vec![Patch { at: self.number_at(object), bytes }]);
        let (plain, _) = with_type(text);
        let out_of_range = || format!("{plain} does not fit: it is a {}", kind.name());
        match kind {
            MotokoKind::BigInt => self.patch_number(object, plain),
            MotokoKind::Nat64 => {
                whole(u64::try_from(integer(plain)?).map_err(|_| out_of_range())?.to_le_bytes().to_vec())
            }
            MotokoKind::Int64 => {
                whole(i64::try_from(integer(plain)?).map_err(|_| out_of_range())?.to_le_bytes().to_vec())
            }
            MotokoKind::Nat32 => {
                whole(u32::try_from(integer(plain)?).map_err(|_| out_of_range())?.to_le_bytes().to_vec())
            }
            MotokoKind::Int32 => {
                whole(i32::try_from(integer(plain)?).map_err(|_| out_of_range())?.to_le_bytes().to_vec())
            }
            MotokoKind::Float => whole(plain.parse::<f64>().map_err(|_| out_of_range())?.to_le_bytes().to_vec()),
            MotokoKind::Text | MotokoKind::Blob => self.patch_bytes(object, kind, text),
            MotokoKind::Concat => {
                Err("it is a rope, made of several texts; change one of those by its address".to_owned())
            }
            MotokoKind::Object
            | MotokoKind::ImmutableArray
            | MotokoKind::MutableArray
            | MotokoKind::Tuple
            | MotokoKind::Variant
            | MotokoKind::Some => Err(format!("it has parts ({}); name one of them", kind.name())),
            other => Err(format!("a {} cannot be changed", other.name())),
        }
    }

    fn patch_bytes(&self, object: u64, kind: MotokoKind, text: &str) -> Result<Vec<Patch>, String> {
        let bytes = match kind {
            MotokoKind::Text => unquoted(text).into_bytes(),
            _ => blob_of(text).ok_or("a blob is written as \\CA\\FE")?,
        };
        let room = self.length(object);
        if bytes.len() as u64 != room {
            return Err(format!("it does not fit: it has {room} bytes, the new one {}", bytes.len()));
        }
        Ok(vec![Patch { at: object + (self.header + 1) * Self::WORD, bytes }])
    }

    fn patch_number(&self, object: u64, text: &str) -> Result<Vec<Patch>, String> {
        let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let limbs = limbs_of(digits, Self::LIMB_BITS).ok_or_else(|| format!("'{text}' is no whole number"))?;
        let room = self.limb_room(object);
        if limbs.len() as u64 > room {
            return Err(format!("{text} does not fit: there is room for {room} limbs of {} bits", Self::LIMB_BITS));
        }
        // Numbers that need no box must not have one: the program compares words.
        let fits_word = text
            .parse()
            .is_ok_and(|number: i128| if WIDE { wide_int(number).is_some() } else { narrow_int(number).is_some() });
        if fits_word {
            return Err(format!("{text} does not fit: a number this small has no box, and this one has"));
        }
        let used = (limbs.len() as u32).to_le_bytes().to_vec();
        let sign = u32::from(is_negative).to_le_bytes().to_vec();
        let padded = limbs.into_iter().chain(std::iter::repeat(0)).take(room as usize);
        let limbs = padded.flat_map(|limb| limb.to_le_bytes()[..Self::WORD as usize].to_vec()).collect();
        let at = self.number_at(object);
        Ok(vec![
            Patch { at, bytes: used },
            Patch { at: at + 8, bytes: sign },
            Patch { at: self.limbs_at(object), bytes: limbs },
        ])
    }
}

/// Splits `200 : Nat8` into value and type.
fn with_type(text: &str) -> (&str, Option<FixedType>) {
    let split = text.rsplit_once(':').and_then(|(value, name)| {
        let fixed = FIXED.into_iter().find(|fixed| fixed.name() == name.trim())?;
        Some((value.trim(), Some(fixed)))
    });
    split.unwrap_or((text.trim(), None))
}

fn integer(text: &str) -> Result<i128, String> {
    text.replace('_', "").parse().map_err(|_| format!("'{text}' is no whole number"))
}

fn character(text: &str) -> Option<char> {
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
    let mut characters = inner.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// A word of a 32-bit heap, which does not contain its type.
fn untyped_word(text: &str, typed: Option<FixedType>) -> Option<u64> {
    if text == "true" || text == "false" {
        return Some(u64::from(text == "true"));
    }
    let number = integer(text).ok()?;
    let shift = match typed {
        None | Some(FixedType::Nat32 | FixedType::Int32 | FixedType::Nat64 | FixedType::Int64) => {
            return narrow_int(number).map(u64::from);
        }
        Some(FixedType::Nat16 | FixedType::Int16) => 16,
        Some(FixedType::Nat8 | FixedType::Int8) => 24,
    };
    let word = (number as u32) << shift;
    let back = i128::from(word >> shift);
    (back == number || i128::from(word as i32 >> shift) == number).then_some(word.into())
}

fn unquoted(text: &str) -> String {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).to_owned()
}

/// Bytes written as `\CA\FE`, quoted or not.
fn blob_of(text: &str) -> Option<Vec<u8>> {
    let text = unquoted(text);
    let digits = text.split('\\').skip(1);
    let bytes: Option<Vec<u8>> =
        digits.map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2)).collect();
    bytes.filter(|_| text.is_empty() || text.starts_with('\\'))
}
