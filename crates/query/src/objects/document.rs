//! The findings as a JSON document.

use super::findings::Findings;
use super::room::MemoryImage;
use super::{At, sentences};
use highwater_formats::json::SCHEMA;
use highwater_formats::objlog::{
    Explanation, HeapRoom, ObjectAmount, ObjectGrouping, ObjectRow, Pattern, SharedOwners, pattern, shared_owners,
    span_name,
};
use highwater_model::SourceKind;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The document of all findings of a log, with at most `most_rows` rows.
pub fn document(path: &Path, at: &At, by: ObjectGrouping, most_rows: usize, findings: &Findings<'_>) -> Value {
    let Findings { matcher, counts, total, trust, .. } = findings;
    let rows = findings.rows(by);
    let (list, by) = match by {
        ObjectGrouping::Type => ("types", "type"),
        ObjectGrouping::Place => ("places", "place"),
        ObjectGrouping::Both => ("sites", "both"),
        ObjectGrouping::Variable => ("variables", "variable"),
    };
    let names = |row: &&ObjectRow| row.type_name.clone().or_else(|| row.place.clone());
    let perfect: Vec<_> = rows.iter().filter(|row| row.tally.is_perfect()).filter_map(|row| names(&row)).collect();
    let mut document = json!({
        "schema": SCHEMA,
        "command": "objects",
        "source": {"kind": SourceKind::OBJLOG.key(), "file": path.display().to_string()},
        "when": at.to_string(),
        "by": by,
        "totals": {
            "allocations": total.allocated,
            "frees": total.dropped,
            "reallocations": total.resizes,
            "allocated_bytes": total.allocated_bytes,
            "freed_bytes": total.dropped_bytes,
            "grown_bytes": total.grown_bytes,
            "shrunk_bytes": total.shrunk_bytes,
            "live_blocks": total.live(),
            "live_bytes": total.live_bytes(),
            "peak_blocks": matcher.peak_live,
            "peak_bytes": matcher.peak_bytes,
        },
        "lines": counts.lines,
        "object_lines": counts.object_lines,
        "noise_lines": counts.noise_lines,
        "ids": matcher.ids(),
        "leaked_bytes_total": total.live_bytes(),
        "drops_before_their_allocate": matcher.drops_before_their_allocate,
        "perfect": perfect,
        "iterations": iterations(findings),
        "trust": {
            "verdict": trust.verdict.key(),
            "sentence": sentences::verdict(findings),
        },
    });
    let owners: Vec<Value> = shared_owners(matcher).iter().map(owners_value).collect();
    if !owners.is_empty() {
        document["owners"] = owners.into();
    }
    document[list] = rows.iter().take(most_rows).map(row).collect();
    add_trust(&mut document["trust"], findings);
    document
}

fn owners_value(owners: &SharedOwners) -> Value {
    let SharedOwners { pointer, type_name, variable, owners, made, values } = owners;
    json!({"pointer": pointer, "type": type_name, "variable": variable, "owners": owners, "made": made, "values": values})
}

fn row(row: &ObjectRow) -> Value {
    let tally = &row.tally;
    let mut value = json!({
        "allocations": tally.allocated,
        "allocated_bytes": tally.allocated_bytes,
        "drops": tally.dropped,
        "dropped_bytes": tally.dropped_bytes,
        "resizes": tally.resizes,
        "grown_bytes": tally.grown_bytes,
        "shrunk_bytes": tally.shrunk_bytes,
        "live_objects": tally.live(),
        "live_bytes": tally.live_bytes(),
        "doubtful_objects": row.doubtful.objects,
        "doubtful_bytes": row.doubtful.bytes,
        "perfect": tally.is_perfect(),
    });
    if let Some(name) = &row.type_name {
        value["type"] = name.as_str().into();
    }
    if let Some(place) = &row.place {
        value["place"] = place.as_str().into();
    }
    if let Some(variable) = &row.variable {
        value["variable"] = variable.as_str().into();
    }
    value
}

fn amount(amount: &ObjectAmount) -> Value {
    json!({"objects": amount.objects, "bytes": amount.bytes})
}

/// The survivors of each iteration; `null` if nothing divides the log into iterations.
fn iterations(Findings { matcher, survivors, .. }: &Findings<'_>) -> Value {
    let boundaries = matcher.memory.boundaries();
    if boundaries.is_empty() {
        return Value::Null;
    }
    let boundary = |at: usize| {
        let known = boundaries.get(at);
        json!({
            "name": span_name(boundaries, at),
            "line": known.map(|boundary| boundary.line),
            "memory_bytes": known.and_then(|boundary| boundary.bytes),
        })
    };
    let types = survivors.by_type(matcher).into_iter().map(|(name, segments)| {
        let found = pattern(&segments);
        let growth = match &found {
            Some(Pattern::Constant { each, .. }) => amount(each),
            _ => Value::Null,
        };
        json!({
            "type": name,
            "survivors": segments.iter().map(amount).collect::<Vec<_>>(),
            "pattern": found.as_ref().map(key),
            "each": growth,
            "sentence": sentences::growth(found.as_ref()),
        })
    });
    json!({
        "iterations_each": matcher.memory.iterations_per_boundary(),
        "ends": (0..=boundaries.len()).map(boundary).collect::<Vec<_>>(),
        "types": types.collect::<Vec<_>>(),
    })
}

fn key(pattern: &Pattern) -> &'static str {
    match pattern {
        Pattern::Constant { .. } => "constant",
        Pattern::Uneven { .. } => "uneven",
        Pattern::Sometimes { .. } => "sometimes",
        Pattern::Once => "once",
        Pattern::Latest => "latest",
    }
}

fn add_trust(value: &mut Value, findings: &Findings<'_>) {
    let Findings { matcher, counts, trust, growth, .. } = findings;
    for (key, _, odd) in trust.contradictions.kinds() {
        value[key] = odd.ids().into();
        value[key.replace("_ids", "_count")] = odd.count.into();
    }
    value["malformed_at_lines"] = counts.malformed.into();
    value["malformed_by_kind"] =
        Map::from_iter(counts.by_fault().map(|(fault, count)| (fault.key().to_owned(), count.into()))).into();
    let bad = |line: &highwater_formats::objlog::BadObjectLine| json!({"line": line.number, "fault": line.fault.key(), "why": line.fault.to_string(), "text": line.text});
    value["malformed_lines"] = counts.bad().iter().map(bad).collect();
    value["last_line_truncated"] = counts.last_line_truncated.into();
    value["long_noise_lines"] = counts.long_noise.into();
    value["clamped_sizes"] = matcher.clamped_sizes.into();
    value["names_not_utf8"] = matcher.invalid_names().into();
    value["names_not_told_apart"] = matcher.refused_names().into();
    value["ids_forgotten"] = matcher.forgotten_ids().into();
    let undamaged = findings.rows(ObjectGrouping::Type).into_iter().filter_map(|row| {
        let objects = row.tally.live() - row.doubtful.objects;
        let bytes = row.tally.live_bytes() - row.doubtful.bytes;
        (objects > 0).then(|| (row.type_name.unwrap_or_default(), json!({"objects": objects, "bytes": bytes})))
    });
    value["leaked_among_undamaged_ids"] = Map::from_iter(undamaged).into();
    let (percent, unexplained, excess) = match trust.explanation {
        Explanation::Explained { percent, unexplained } | Explanation::MostlyElsewhere { percent, unexplained } => {
            (Some(percent), Some(unexplained), None)
        }
        Explanation::Impossible { excess }
        | Explanation::MoreThanInUse { excess }
        | Explanation::NeedsFreeRoom { room: excess }
        | Explanation::ReusedFreeRoom { room: excess } => (None, None, Some(excess)),
        Explanation::NotMeasured | Explanation::NoGrowth => (None, None, None),
    };
    value["memory"] = json!({
        "readings": matcher.memory.readings,
        "first_bytes": growth.map(|growth| growth.first_bytes),
        "last_bytes": growth.map(|growth| growth.last_bytes),
        "growth_bytes": growth.map(|growth| growth.bytes() as i64),
        "never_dropped_bytes": growth.map(|_| trust.never_dropped_during_growth),
        "explanation": trust.explanation.key(),
        "explained_percent": percent,
        "unexplained_bytes": unexplained,
        "excess_bytes": excess,
    });
    if !findings.images.is_empty() {
        value["images"] = findings.images.iter().map(image).collect();
    }
}

fn image(image: &MemoryImage) -> Value {
    let HeapRoom { memory_bytes, heap_bytes, used_chunks, used_bytes, free_pieces, free_bytes, largest_free } =
        image.room;
    json!({
        "file": image.path.display().to_string(),
        "at": image.instant.key(),
        "memory_bytes": memory_bytes,
        "heap_bytes": heap_bytes,
        "chunks_in_use": used_chunks,
        "in_use_bytes": used_bytes,
        "free_pieces": free_pieces,
        "free_bytes": free_bytes,
        "largest_free_bytes": largest_free,
    })
}
