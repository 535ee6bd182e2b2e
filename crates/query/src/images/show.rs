//! One object.

use super::heap::image_snapshot;
use data_encoding::HEXLOWER;
use highwater_formats::json as documents;
use highwater_image::{ObjectView, Referrer};
use highwater_input::image::{ExaminedHeap, ImageFile};
use serde_json::{Value, json};

/// The JSON document of one object.
pub fn show_document(file: &ImageFile, examined: &ExaminedHeap<'_>, place: &str, view: &ObjectView) -> Value {
    let mut members = documents::head("image show", &image_snapshot(file, examined));
    members.insert("place".to_owned(), place.into());
    members.insert("object".to_owned(), document(examined, view));
    members.into()
}

fn document(examined: &ExaminedHeap<'_>, view: &ObjectView) -> Value {
    let referrer = |referrer: &Referrer| {
        json!({
            "address": referrer.object.map(|object| examined.heap.object_name(object)), "what": referrer.what, "step": referrer.step,
        })
    };
    json!({
        "address": examined.heap.object_name(view.object), "kind": view.kind, "shape": view.shape, "bytes": view.bytes,
        "retained_bytes": view.retained_bytes, "path": view.path.as_ref().map(ToString::to_string),
        "dominator": view.dominator.map(|object| examined.heap.object_name(object)), "value": view.value, "guess": view.guess.as_ref().map(ToString::to_string),
        "contents": view.guess.as_ref().map(|_| HEXLOWER.encode(&view.contents)),
        "references": view.referrers.count, "referrers": view.referrers.first.iter().map(referrer).collect::<Value>(),
    })
}
