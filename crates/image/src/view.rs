//! The view of one object.

use crate::examine::Examination;
use crate::find::Heap;
use crate::graph::Node;
use crate::guess::{Guess, guess};
use crate::lens::Lens;
use crate::motoko::{Limits, Motoko, Patch, Value};
use crate::path::Path;
use crate::ways::{Referrers, path_to, referrers};

/// The most referrers that are listed.
const NAMED_REFERRERS: usize = 10;

/// One object, or the value at a place.
#[derive(Clone, Debug)]
pub struct View {
    /// The object; for a value that is not an object, the one that holds it.
    pub object: u64,
    /// Its kind.
    pub kind: &'static str,
    /// Its shape.
    pub shape: String,
    /// Its own bytes.
    pub bytes: u64,
    /// Its retained bytes, itself included; none if it is not live.
    pub retained_bytes: Option<u64>,
    /// The shortest path to it; none if it is not live.
    pub path: Option<Path>,
    /// The references to it.
    pub referrers: Referrers,
    /// The value as the language writes it; none for a chunk.
    pub value: Option<String>,
    /// The probable content of a chunk.
    pub guess: Option<Guess>,
    /// The bytes of a chunk.
    pub contents: Vec<u8>,
}

/// Shows a place: an address, or a path from a root; `depth` levels deep.
pub fn view(heap: &Heap<'_>, examination: &Examination, place: &str, depth: u32) -> Result<View, String> {
    match heap {
        Heap::Wide(heap) => view_value(heap, examination, place, depth),
        Heap::Narrow(heap) => view_value(heap, examination, place, depth),
        Heap::Dlmalloc(heap) => {
            let address = place.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let address =
                address.ok_or_else(|| format!("'{place}' is no address, and the chunks of this heap have no names"))?;
            let chunk = heap.chunk_of(address, &examination.survey.found);
            let chunk = chunk.ok_or_else(|| format!("no chunk in use is at {address:#x}"))?;
            let mut view = view_object(heap, examination, chunk);
            view.contents = heap.contents(chunk).to_vec();
            view.guess = Some(guess(&view.contents, heap.base()..heap.end()));
            Ok(view)
        }
    }
}

fn view_value<const WIDE: bool>(
    heap: &Motoko<'_, WIDE>,
    examination: &Examination,
    place: &str,
    depth: u32,
) -> Result<View, String> {
    let found = heap.find_place(place, &examination.survey.found)?;
    let object = match (found.value, found.held) {
        (Value::Object(object), _) => object,
        (_, Some((holder, _))) => holder,
        _ => return Err(format!("nothing is at '{place}'")),
    };
    let value = heap.show(found.value, Limits::to_depth(depth));
    Ok(View { value: Some(value), ..view_object(heap, examination, object) })
}

fn view_object<L: Lens>(lens: &L, examination: &Examination, object: u64) -> View {
    let node: Option<Node> = examination.graph.find(object);
    View {
        object,
        kind: L::KINDS[usize::from(lens.kind(object))],
        shape: lens.shape_name(object),
        bytes: lens.bytes(object),
        retained_bytes: node.map(|node| node.retained_bytes),
        path: node.and_then(|_| path_to(lens, &examination.survey, object)),
        referrers: referrers(lens, &examination.survey, object, NAMED_REFERRERS),
        value: None,
        guess: None,
        contents: Vec::new(),
    }
}

/// A change: the bytes to write, and the old value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The bytes to write over those in the image.
    pub patches: Vec<Patch>,
    /// The old value.
    pub before: String,
}

/// The bytes to write to change the value at a place. Fails if the value does not fit, or if other objects would see the change.
pub fn change(heap: &Heap<'_>, examination: &Examination, place: &str, value: &str) -> Result<Change, String> {
    match heap {
        Heap::Wide(heap) => change_value(heap, examination, place, value),
        Heap::Narrow(heap) => change_value(heap, examination, place, value),
        Heap::Dlmalloc(_) => Err("only values of Motoko programs can be changed".to_owned()),
    }
}

fn change_value<const WIDE: bool>(
    heap: &Motoko<'_, WIDE>,
    examination: &Examination,
    path: &str,
    value: &str,
) -> Result<Change, String> {
    let place = heap.find_place(path, &examination.survey.found)?;
    let patches = heap.patch(&place, value)?;
    if let Some(object) = heap.changed_object(&place) {
        let others = referrers(heap, &examination.survey, object, 2);
        if others.count > 1 {
            let names: Vec<String> =
                others.first.iter().map(|referrer| format!("{}{}", referrer.what, referrer.step)).collect();
            return Err(format!("it is shared: {} references lead to it ({})", others.count, names.join(", ")));
        }
    }
    Ok(Change { patches, before: heap.show(place.value, Limits::to_depth(1)) })
}
