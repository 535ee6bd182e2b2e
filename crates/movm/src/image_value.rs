//! The value `image` of a script.
//!
//! | in a script | gives |
//! |---|---|
//! | `image.size()` | its length in bytes |
//! | `image[i]`, `image.nat8(i)`, `nat16`, `nat32`, `nat64` | the number at an offset, little-endian, as a Nat |
//! | `image.vals()` | an iterator over its bytes, as Nats |
//! | `image.slice(i, n)` | `n` bytes as a Blob |
//! | `image.text(i)` | the text object at an address; if there is none, the bytes up to a zero |
//! | `image.find(x)` | all offsets at which a Text or Blob occurs, the first 100,000 |
//! | `image.pages()` | the numbers of the 64 KiB pages that are not all zero |
//! | `image.kinds()` | the kinds of objects that its heap can have |
//! | `image.objects(kind)`, `image.count(kind)` | addresses of all objects of a kind, or their number |
//! | `image.field(object, name)` | the value of a field: a number, a text …, or an object's address |
//! | `image.retained(object)` | its retained bytes, itself included; 0 for garbage |
//! | `image.name()` | the name of its file |
//!
//! All of this is native code: a script that goes over all bytes takes a step for each.

use crate::machine::Machine;
use crate::number::{Number, NumberKind};
use crate::objects::HeapObjects;
use crate::value::{Evaluated, Host, Stop, Value, refuse};
use highwater_image::{FieldValue, Image};
use num_bigint::BigInt;
use std::any::Any;
use std::cell::{Cell, OnceCell};

/// The most bytes that are read of a text that is not an object.
const LONGEST_TEXT: u64 = 64 << 10;
/// The most offsets that `find` returns.
const MOST_FOUND: usize = 100_000;
/// The size of a WASM page.
const PAGE: u64 = 64 << 10;
const METHODS: [&str; 17] = [
    "size", "nat8", "nat16", "nat32", "nat64", "vals", "values", "slice", "text", "find", "pages", "kinds", "objects",
    "count", "field", "retained", "name",
];

/// Finds the objects of the image.
type ObjectSearch = Box<dyn FnOnce() -> Result<HeapObjects, String>>;

/// The value `image` of a script: the image, and its objects once a script has asked for them.
pub struct ImageValue {
    name: String,
    image: &'static Image,
    search: Cell<Option<ObjectSearch>>,
    objects: OnceCell<Result<HeapObjects, String>>,
}

fn list(numbers: Vec<u64>) -> Value {
    Value::Numbers(numbers.into())
}

fn offset(value: &Value) -> Evaluated<u64> {
    let Value::Number(number) = value else { return refuse("an offset or an address is a Nat") };
    number.to_u64().map_or_else(|| refuse("an offset beyond the end of the image"), Ok)
}

fn word(value: &Value) -> Evaluated<&str> {
    match value {
        Value::Text(content) => Ok(content),
        _ => refuse("a name is a Text"),
    }
}

impl ImageValue {
    /// An image, and the function that finds its objects when a script asks for them.
    pub fn new(
        name: String,
        image: &'static Image,
        search: impl FnOnce() -> Result<HeapObjects, String> + 'static,
    ) -> Self {
        let search: ObjectSearch = Box::new(search);
        Self { name, image, search: Cell::new(Some(search)), objects: OnceCell::new() }
    }

    /// The image's length: address space that it takes.
    pub fn mapped(&self) -> u64 {
        self.image.len()
    }

    fn objects(&self) -> Evaluated<&HeapObjects> {
        let found =
            self.objects.get_or_init(|| self.search.take().map_or_else(|| Err("no heap".into()), |search| search()));
        found.as_ref().map_err(|line| Stop::Trap(line.clone()))
    }

    fn bytes(&self, at: u64, length: u64) -> Evaluated<&'static [u8]> {
        let bytes = self.image.slice(at, length);
        if bytes.len() as u64 == length {
            return Ok(bytes);
        }
        refuse(format!("{length} bytes at {at:#x} lie beyond the end of the image, which has {:#x}", self.image.len()))
    }

    fn number(&self, at: &Value, length: u64) -> Evaluated {
        let mut wide = [0; 8];
        wide[..length as usize].copy_from_slice(self.bytes(offset(at)?, length)?);
        Ok(Value::nat(u64::from_le_bytes(wide)))
    }

    /// Reads page by page: an image can be larger than memory.
    fn values(&self) -> Value {
        let image = self.image;
        let (mut at, mut page): (u64, &[u8]) = (0, &[]);
        Value::iterator(std::iter::from_fn(move || {
            let inside = (at % PAGE) as usize;
            if inside == 0 {
                page = image.slice(at, PAGE);
            }
            let byte = *page.get(inside)?;
            at += 1;
            Some(Value::Number(Number::small(NumberKind::Nat, byte.into())))
        }))
    }

    fn text_at(&self, at: u64) -> Evaluated {
        if let Ok(objects) = self.objects()
            && let Some(content) = objects.text(at)
        {
            return Ok(Value::text(content));
        }
        self.bytes(at, 1)?;
        let bytes = self.image.slice(at, LONGEST_TEXT);
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        Ok(Value::text(String::from_utf8_lossy(&bytes[..end])))
    }

    fn find(&self, wanted: &Value) -> Evaluated {
        let bytes = match wanted {
            Value::Blob(bytes) => &bytes[..],
            Value::Text(content) => content.as_bytes(),
            _ => return refuse("what is looked for is a Text or a Blob"),
        };
        if bytes.is_empty() {
            return refuse("nothing can be found everywhere");
        }
        let finder = memchr::memmem::Finder::new(bytes);
        let mut found = Vec::new();
        // Holes are zeros: only ranges around data are searched, unless the search is for zeros.
        let whole = 0..self.image.len();
        let is_zero = bytes.iter().all(|&byte| byte == 0);
        let ranges = if is_zero { std::slice::from_ref(&whole) } else { self.image.data() };
        let mut after = 0;
        for range in ranges {
            let margin = bytes.len() as u64 - 1;
            let start = range.start.saturating_sub(margin).max(after);
            let end = range.end.saturating_add(margin).min(self.image.len());
            for at in finder.find_iter(self.image.slice(start, end.saturating_sub(start))) {
                found.push(start + at as u64);
                after = start + at as u64 + 1;
                if found.len() == MOST_FOUND {
                    return Ok(list(found));
                }
            }
        }
        Ok(list(found))
    }

    fn pages(&self) -> Value {
        let mut pages: Vec<u64> = Vec::new();
        for range in self.image.data() {
            for page in range.start / PAGE..range.end.div_ceil(PAGE) {
                let is_new = pages.last() != Some(&page);
                if is_new && self.image.slice(page * PAGE, PAGE).iter().any(|&byte| byte != 0) {
                    pages.push(page);
                }
            }
        }
        list(pages)
    }

    fn of_kind(&self, kind: &Value) -> Evaluated<&[u64]> {
        Ok(self.objects()?.of_kind(word(kind)?)?)
    }
}

impl Host for ImageValue {
    fn type_name(&self) -> &'static str {
        "image"
    }

    fn methods(&self) -> &'static [&'static str] {
        &METHODS
    }

    fn call(&self, _: &mut Machine, method: &str, arguments: &[Value]) -> Evaluated {
        match (method, arguments) {
            ("size", []) => Ok(Value::nat(self.image.len())),
            ("name", []) => Ok(Value::text(&*self.name)),
            ("pages", []) => Ok(self.pages()),
            ("vals" | "values", []) => Ok(self.values()),
            ("nat8", [at]) => self.number(at, 1),
            ("nat16", [at]) => self.number(at, 2),
            ("nat32", [at]) => self.number(at, 4),
            ("nat64", [at]) => self.number(at, 8),
            ("slice", [at, length]) => Ok(Value::Blob(self.bytes(offset(at)?, offset(length)?)?.into())),
            ("text", [at]) => self.text_at(offset(at)?),
            ("find", [wanted]) => self.find(wanted),
            ("kinds", []) => Ok(Value::array(self.objects()?.kinds().iter().map(|kind| Value::text(*kind)).collect())),
            ("objects", [kind]) => Ok(list(self.of_kind(kind)?.to_vec())),
            ("count", [kind]) => Ok(Value::nat(self.of_kind(kind)?.len() as u64)),
            ("field", [object, name]) => Ok(of_field(self.objects()?.field(offset(object)?, word(name)?)?)),
            ("retained", [object]) => Ok(Value::nat(self.objects()?.retained(offset(object)?))),
            _ => refuse(format!("image.{method} does not take {} arguments", arguments.len())),
        }
    }

    fn index(&self, index: &Value) -> Evaluated {
        self.number(index, 1)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn of_field(value: FieldValue) -> Value {
    match value {
        FieldValue::Null => Value::Null,
        FieldValue::Bool(truth) => Value::Bool(truth),
        FieldValue::Number(digits) => match digits.parse::<BigInt>() {
            Ok(number) => {
                let kind = if digits.starts_with('-') { NumberKind::Int } else { NumberKind::Nat };
                Value::Number(Number::unchecked(kind, number))
            }
            Err(_) => Value::text(digits),
        },
        FieldValue::Float(number) => Value::Float(number),
        FieldValue::Char(character) => Value::Char(character),
        FieldValue::Text(content) => Value::text(content),
        FieldValue::Blob(bytes) => Value::Blob(bytes.into()),
        FieldValue::Object(address) => Value::nat(address),
    }
}
