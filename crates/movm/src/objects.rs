//! The objects of an image's heap, found when a script first asks for one.

use highwater_image::motoko::{Kind, Limits, Motoko, Value};
use highwater_image::{Bitmap, Damages, Examination, Heap, Image, Lens, Module, Sidecar};
use std::collections::HashMap;

/// The most bytes that are read of a text.
const LONGEST_TEXT: u64 = 16 << 20;

/// The value of a field.
pub enum Held {
    /// `null`
    Null,
    /// A boolean, or unit: they are the same word.
    Truth(bool),
    /// A number, in digits.
    Number(String),
    /// A floating point number.
    Float(f64),
    /// A character.
    Char(char),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// Another object, by its address.
    Object(u64),
}

/// The heap of an image.
pub struct Objects {
    heap: Heap<'static>,
    /// By kind, in order of addresses.
    by_kind: HashMap<&'static str, Vec<u64>>,
    retained: HashMap<u64, u64>,
    found: Bitmap,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Objects")
    }
}

impl Objects {
    /// Returns a function that finds the objects: the image is analysed once, and only if a script needs it.
    pub fn new(
        image: &'static Image,
        sidecar: Sidecar,
        module: Option<Module>,
    ) -> impl FnOnce() -> Result<Self, String> {
        move || {
            let heap = Heap::find(image, module.as_ref(), &sidecar, &mut Damages::default());
            let heap = heap.map_err(|problem| problem.to_string())?;
            let examination = Examination::of(&heap, 0);
            let retained = examination.graph.nodes().map(|node| (node.object, node.retained_bytes)).collect();
            let (by_kind, found) = match &heap {
                Heap::Wide(lens) => walk(lens),
                Heap::Narrow(lens) => walk(lens),
                Heap::Dlmalloc(lens) => walk(lens),
            };
            Ok(Self { heap, by_kind, retained, found })
        }
    }

    fn must_be_known(&self, kind: &str) -> Result<(), String> {
        if self.heap.kinds().contains(&kind) {
            return Ok(());
        }
        Err(format!("no kind is called '{kind}'; there are: {}", self.heap.kinds().join(", ")))
    }

    /// The objects of a kind.
    pub fn of_kind(&self, kind: &str) -> Result<&[u64], String> {
        self.must_be_known(kind)?;
        Ok(self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default())
    }

    /// The retained bytes of an object, itself included; 0 if it is garbage.
    pub fn retained(&self, object: u64) -> u64 {
        self.retained.get(&object).copied().unwrap_or(0)
    }

    /// The value of an object's field.
    pub fn field(&self, object: u64, name: &str) -> Result<Held, String> {
        match &self.heap {
            Heap::Wide(lens) => field(lens, &self.found, object, name),
            Heap::Narrow(lens) => field(lens, &self.found, object, name),
            Heap::Dlmalloc(_) => Err("chunks of this heap have no fields".into()),
        }
    }

    /// The content of the text object at an address, if there is one.
    pub fn text(&self, address: u64) -> Option<String> {
        let is_text = |kind| matches!(kind, Kind::Text | Kind::Concat);
        let bytes = match &self.heap {
            Heap::Wide(lens) if lens.is_object(address, &self.found) && is_text(lens.kind_of(address)) => {
                lens.text(address, LONGEST_TEXT)
            }
            Heap::Narrow(lens) if lens.is_object(address, &self.found) && is_text(lens.kind_of(address)) => {
                lens.text(address, LONGEST_TEXT)
            }
            _ => return None,
        };
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn walk<L: Lens>(lens: &L) -> (HashMap<&'static str, Vec<u64>>, Bitmap) {
    let span = lens.span();
    let mut found = Bitmap::new((span.end - span.start).div_ceil(L::UNIT));
    let mut by_kind: HashMap<&'static str, Vec<u64>> = HashMap::new();
    let visit = |stretch: highwater_image::Stretch| {
        by_kind.entry(L::KINDS[usize::from(stretch.kind)]).or_default().push(stretch.at);
        if stretch.is_object {
            found.set((stretch.at - span.start) / L::UNIT);
        }
    };
    lens.walk(visit, &mut Damages::default());
    (by_kind, found)
}

fn field<const WIDE: bool>(lens: &Motoko<'_, WIDE>, found: &Bitmap, object: u64, name: &str) -> Result<Held, String> {
    let value = lens.find_place(&format!("{object:#x}.{name}"), found)?.value;
    Ok(match value {
        Value::Null => Held::Null,
        Value::False => Held::Truth(false),
        Value::True => Held::Truth(true),
        Value::Int(number) => Held::Number(number.to_string()),
        Value::Fixed(_, number) => Held::Number(number.to_string()),
        Value::Char(code) => Held::Char(char::from_u32(code).unwrap_or('\u{fffd}')),
        // Compact numbers are shifted by one bit. Only the program knows whether the word is of another type.
        Value::Untyped(word) => Held::Number((word as i32 >> 1).to_string()),
        Value::Invalid(word) => return Err(format!("it holds {word:#x}, which is no value")),
        Value::Object(at) => match lens.kind_of(at) {
            Kind::Text | Kind::Concat => Held::Text(String::from_utf8_lossy(&lens.text(at, LONGEST_TEXT)).into_owned()),
            Kind::Blob | Kind::Principal => Held::Blob(lens.contents(at).to_vec()),
            Kind::BigInt => Held::Number(lens.big_number(at)),
            Kind::Nat64 | Kind::Int64 | Kind::Nat32 | Kind::Int32 => {
                Held::Number(lens.show(value, Limits::to_depth(1)).replace('_', ""))
            }
            Kind::Float => {
                let shown = lens.show(value, Limits::to_depth(1));
                Held::Float(shown.parse().map_err(|_| format!("'{shown}' is no number"))?)
            }
            _ => Held::Object(at),
        },
    })
}
