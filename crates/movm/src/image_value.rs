//! The value `image` of a script.
//!
//! | in a script | gives |
//! |---|---|
//! | `image.size()` | its length in bytes |
//! | `image[i]`, `image.nat8(i)`, `nat16`, `nat32`, `nat64` | the number at an offset, little-endian |
//! | `image.slice(i, n)` | `n` bytes as a Blob |
//! | `image.text(i)` | the text object at an address; if there is none, the bytes up to a zero |
//! | `image.find(x)` | all offsets at which a Text or Blob occurs, the first 100,000 |
//! | `image.pages()` | the numbers of the 64 KiB pages that are not all zero |
//! | `image.objects(kind)`, `image.count(kind)` | addresses of all objects of a kind, or their number |
//! | `image.field(object, name)` | the value of a field: a number, a text …, or an object's address |
//! | `image.retained(object)` | its retained bytes, itself included; 0 for garbage |
//!
//! Lists have `size()`, `[i]` and `vals()`. All of this is native code: the interpreter runs only some hundred thousand steps per second.

use crate::list::NumberList;
use crate::objects::HeapObjects;
use crate::show::text_of;
use highwater_image::{FieldValue, Image};
use motoko::Dynamic;
use motoko::ast::Inst;
use motoko::dynamic::Result;
use motoko::shared::Share;
use motoko::value::{Float, Text, Value, Value_};
use motoko::vm_types::{Interruption, Store};
use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive;
use std::cell::OnceCell;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::rc::Rc;

/// The most bytes that are read of a text that is not an object.
const LONGEST_TEXT: u64 = 64 << 10;
/// The most offsets that `find` returns.
const MOST_FOUND: usize = 100_000;
/// The size of a WASM page.
const PAGE: u64 = 64 << 10;
const METHODS: [&str; 13] = [
    "size", "nat8", "nat16", "nat32", "nat64", "slice", "text", "find", "pages", "objects", "count", "field",
    "retained",
];

/// Finds the objects of the image.
type ObjectSearch = Box<dyn FnOnce() -> std::result::Result<HeapObjects, String>>;

/// The value `image` of a script: the image, and its objects once a script has asked for them.
#[derive(Clone)]
pub struct ImageValue(Rc<Inner>);

struct Inner {
    image: &'static Image,
    whole: Range<u64>,
    search: std::cell::Cell<Option<ObjectSearch>>,
    objects: OnceCell<std::result::Result<HeapObjects, String>>,
}

/// A method of an image, bound to it.
#[derive(Clone, Debug, Hash)]
struct ImageMethod {
    image: ImageValue,
    name: &'static str,
}

impl std::fmt::Debug for ImageValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("image")
    }
}

impl Hash for ImageValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.image.len().hash(state);
    }
}

pub fn refuse<T>(line: impl Into<String>) -> std::result::Result<T, Interruption> {
    Err(Interruption::Other(line.into()))
}

pub fn nat(number: u64) -> Value_ {
    Value::Nat(BigUint::from(number)).share()
}

fn list(numbers: Vec<u64>) -> Value_ {
    NumberList(Rc::new(numbers)).into_value().share()
}

fn text(content: String) -> Value_ {
    Value::Text(Text::String(Box::new(content))).share()
}

pub fn offset(value: &Value) -> std::result::Result<u64, Interruption> {
    let number = match value {
        Value::Nat(number) => number.to_u64(),
        Value::Int(number) => number.to_u64(),
        _ => return refuse("an offset or an address is a Nat"),
    };
    number.map_or_else(|| refuse("an offset beyond the end of the image"), Ok)
}

fn word(value: &Value) -> std::result::Result<String, Interruption> {
    match value {
        Value::Text(content) => Ok(text_of(content)),
        _ => refuse("a name is a Text"),
    }
}

impl ImageValue {
    /// An image, and the function that finds its objects when a script asks for them.
    pub fn new(
        image: &'static Image,
        search: impl FnOnce() -> std::result::Result<HeapObjects, String> + 'static,
    ) -> Self {
        let search: ObjectSearch = Box::new(search);
        let whole = 0..image.len();
        Self(Rc::new(Inner { image, whole, search: std::cell::Cell::new(Some(search)), objects: OnceCell::new() }))
    }

    fn objects(&self) -> std::result::Result<&HeapObjects, Interruption> {
        let found = self
            .0
            .objects
            .get_or_init(|| self.0.search.take().map_or_else(|| Err("no heap".into()), |search| search()));
        found.as_ref().map_err(|line| Interruption::Other(line.clone()))
    }

    fn bytes(&self, at: u64, length: u64) -> std::result::Result<&'static [u8], Interruption> {
        let bytes = self.0.image.slice(at, length);
        if bytes.len() as u64 == length {
            return Ok(bytes);
        }
        refuse(format!(
            "{length} bytes at {at:#x} lie beyond the end of the image, which has {:#x}",
            self.0.image.len()
        ))
    }

    fn number(&self, at: u64, length: u64) -> Result {
        let mut wide = [0; 8];
        wide[..length as usize].copy_from_slice(self.bytes(at, length)?);
        Ok(nat(u64::from_le_bytes(wide)))
    }

    fn text_at(&self, at: u64) -> Result {
        if let Ok(objects) = self.objects()
            && let Some(content) = objects.text(at)
        {
            return Ok(text(content));
        }
        self.bytes(at, 1)?;
        let bytes = self.0.image.slice(at, LONGEST_TEXT);
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        Ok(text(String::from_utf8_lossy(&bytes[..end]).into_owned()))
    }

    fn find(&self, wanted: &Value) -> Result {
        let bytes = match wanted {
            Value::Blob(bytes) => bytes.clone(),
            Value::Text(content) => text_of(content).into_bytes(),
            _ => return refuse("what is looked for is a Text or a Blob"),
        };
        if bytes.is_empty() {
            return refuse("nothing can be found everywhere");
        }
        let finder = memchr::memmem::Finder::new(&bytes);
        let mut found = Vec::new();
        // Holes are zeros: only ranges around data are searched, unless the search is for zeros.
        let whole = std::slice::from_ref(&self.0.whole);
        let is_zero = bytes.iter().all(|&byte| byte == 0);
        let ranges = if is_zero { whole } else { self.0.image.data() };
        let mut after = 0;
        for range in ranges {
            let margin = bytes.len() as u64 - 1;
            let start = range.start.saturating_sub(margin).max(after);
            let end = (range.end + margin).min(self.0.image.len());
            for at in finder.find_iter(self.0.image.slice(start, end.saturating_sub(start))) {
                found.push(start + at as u64);
                after = start + at as u64 + 1;
                if found.len() == MOST_FOUND {
                    break;
                }
            }
        }
        Ok(list(found))
    }

    fn pages(&self) -> Value_ {
        let image = self.0.image;
        let mut pages: Vec<u64> = Vec::new();
        for range in image.data() {
            for page in range.start / PAGE..range.end.div_ceil(PAGE) {
                let is_new = pages.last() != Some(&page);
                if is_new && image.slice(page * PAGE, PAGE).iter().any(|&byte| byte != 0) {
                    pages.push(page);
                }
            }
        }
        list(pages)
    }

    fn call(&self, name: &str, arguments: &[Value_]) -> Result {
        match (name, arguments) {
            ("size", []) => Ok(nat(self.0.image.len())),
            ("pages", []) => Ok(self.pages()),
            ("nat8", [at]) => self.number(offset(at)?, 1),
            ("nat16", [at]) => self.number(offset(at)?, 2),
            ("nat32", [at]) => self.number(offset(at)?, 4),
            ("nat64", [at]) => self.number(offset(at)?, 8),
            ("slice", [at, length]) => Ok(Value::Blob(self.bytes(offset(at)?, offset(length)?)?.to_vec()).share()),
            ("text", [at]) => self.text_at(offset(at)?),
            ("find", [wanted]) => self.find(wanted),
            ("objects", [kind]) => {
                let objects = self.objects()?.of_kind(&word(kind)?).map_err(Interruption::Other)?;
                Ok(list(objects.to_vec()))
            }
            ("count", [kind]) => {
                let objects = self.objects()?.of_kind(&word(kind)?).map_err(Interruption::Other)?;
                Ok(nat(objects.len() as u64))
            }
            ("field", [object, name]) => {
                let value = self.objects()?.field(offset(object)?, &word(name)?);
                Ok(of_field(value.map_err(Interruption::Other)?))
            }
            ("retained", [object]) => Ok(nat(self.objects()?.retained(offset(object)?))),
            _ => refuse(format!("image.{name} does not take {} arguments", arguments.len())),
        }
    }
}

fn of_field(value: FieldValue) -> Value_ {
    match value {
        FieldValue::Null => Value::Null.share(),
        FieldValue::Bool(truth) => Value::Bool(truth).share(),
        FieldValue::Number(digits) => match (digits.parse::<BigUint>(), digits.parse::<BigInt>()) {
            (Ok(number), _) => Value::Nat(number).share(),
            (_, Ok(number)) => Value::Int(number).share(),
            _ => text(digits),
        },
        FieldValue::Float(number) => Value::Float(Float::from(number)).share(),
        FieldValue::Char(character) => Value::Char(character).share(),
        FieldValue::Text(content) => text(content),
        FieldValue::Blob(bytes) => Value::Blob(bytes).share(),
        FieldValue::Object(address) => nat(address),
    }
}

impl Dynamic for ImageValue {
    fn get_index(&self, _: &Store, index: Value_) -> Result {
        self.number(offset(&index)?, 1)
    }

    fn get_field(&self, _: &Store, name: &str) -> Result {
        match METHODS.into_iter().find(|method| *method == name) {
            Some(name) => Ok(ImageMethod { image: self.clone(), name }.into_value().share()),
            None => refuse(format!("image has no '{name}'; it has {}", METHODS.join(", "))),
        }
    }
}

impl Dynamic for ImageMethod {
    fn call(&mut self, _: &mut Store, _: &Option<Inst>, arguments: Value_) -> Result {
        match &*arguments {
            Value::Unit => self.image.call(self.name, &[]),
            Value::Tuple(items) => self.image.call(self.name, &items.iter().cloned().collect::<Vec<_>>()),
            _ => self.image.call(self.name, &[arguments]),
        }
    }
}
