//! Images compared.

use super::heap::image_snapshot;
use highwater_formats::json as documents;
use highwater_image::Comparison;
use highwater_input::image::{ExaminedHeap, ImageFile};
use serde_json::{Value, json};

/// The JSON document of a comparison.
pub fn diff_document(files: &[&ImageFile], examined: &[ExaminedHeap<'_>], comparison: &Comparison) -> Value {
    let (Some(last_file), Some(last)) = (files.last(), examined.last()) else { return Value::Null };
    let mut members = documents::head("image diff", &image_snapshot(last_file, last));
    let images = files.iter().zip(examined).map(|(file, examined)| {
        let (objects, bytes) = examined.examination.live();
        json!({"file": file.path().display().to_string(), "live_objects": objects, "live_bytes": bytes})
    });
    members.insert("images".to_owned(), images.collect());
    let roots = comparison.roots.iter().map(|root| {
        json!({
            "name": root.name, "retained_bytes": root.retained_bytes, "change_bytes": root.bytes() as i64,
            "keeps_growing": root.keeps_growing,
        })
    });
    members.insert("roots".to_owned(), roots.collect());
    let shapes = comparison.shapes.iter().map(|shape| {
        let counts: Vec<u64> = shape.figures.iter().map(|figures| figures.count).collect();
        let sizes: Vec<u64> = shape.figures.iter().map(|figures| figures.bytes).collect();
        let kept: Vec<u64> = shape.figures.iter().map(|figures| figures.retained_bytes).collect();
        json!({
            "shape": shape.name, "count": counts, "bytes": sizes, "retained_bytes": kept,
            "change_count": shape.count() as i64, "change_bytes": shape.bytes() as i64,
            "keeps_growing": shape.keeps_growing,
            "came_count": shape.came.0, "came_bytes": shape.came.1, "went_count": shape.went.0, "went_bytes": shape.went.1,
        })
    });
    members.insert("shapes".to_owned(), shapes.collect());
    for (name, (count, bytes)) in [("came", comparison.came), ("went", comparison.went)] {
        members.insert(name.to_owned(), json!({"count": count, "bytes": bytes}));
    }
    let new = comparison.new.iter().map(|new| {
            json!({
                "shape": new.shape, "count": new.count, "bytes": new.bytes, "example": last.heap.object_name(new.example),
                "path": new.path.as_ref().map(ToString::to_string), "guess": last.heap.guess_contents(new.example).map(|(guess, _)| guess.to_string()),
            })
        });
    members.insert("new".to_owned(), new.collect::<Value>());
    let grown = comparison.grown.iter().map(|grown| {
        json!({
            "object": last.heap.object_name(grown.object), "shape": grown.shape, "growth_bytes": grown.growth,
            "retained_before": grown.before, "retained_after": grown.after,
            "path": grown.path.as_ref().map(ToString::to_string),
        })
    });
    members.insert("grown".to_owned(), grown.collect::<Value>());
    members.into()
}
