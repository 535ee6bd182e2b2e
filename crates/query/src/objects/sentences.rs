//! Conclusions in words.

use super::findings::Findings;
use super::room::{MemoryImage, rooms};
use crate::units::{bytes, count, counted};
use highwater_formats::objlog::{Explanation, HeapRoom, ImageInstant, ObjectAmount, Pattern, TrustVerdict};

/// Whether the log can be trusted, in one sentence.
pub fn verdict(findings: &Findings<'_>) -> String {
    let Findings { matcher, counts, trust, .. } = findings;
    let (odd, malformed) = (trust.contradictions.count(), counts.malformed);
    let ids = matcher.ids();
    let doubts = match (odd, malformed) {
        (0, 0) => "every id was made once and dropped at most once".to_owned(),
        (0, lines) => format!("{} could not be used", counted(lines, "line")),
        (odd, 0) => format!("{} among {}", contradictions(odd), counted(ids, "id")),
        (odd, lines) => format!(
            "{} among {}, and {} could not be used",
            contradictions(odd),
            counted(ids, "id"),
            counted(lines, "line")
        ),
    };
    let growth = growth_clause(findings);
    match trust.verdict {
        TrustVerdict::Nothing => {
            let lines = counted(counts.lines, "line");
            format!("Nothing to trust: not one object in {lines}; this is no object log.")
        }
        TrustVerdict::Yes => format!("Yes: {doubts}{growth}."),
        TrustVerdict::Mostly => format!("Mostly: {doubts}{growth}."),
        TrustVerdict::Unknown => format!("Not known: {doubts}{growth}."),
        TrustVerdict::No => format!("No: {doubts}{growth}."),
    }
}

fn growth_clause(findings: &Findings<'_>) -> String {
    let never_dropped = bytes(findings.trust.never_dropped_during_growth);
    match findings.trust.explanation {
        Explanation::NotMeasured => String::new(),
        Explanation::NoGrowth => ", and the memory did not grow".to_owned(),
        Explanation::Explained { percent, .. } => {
            format!(", and {percent}% of {} is explained", grown(findings))
        }
        Explanation::MostlyElsewhere { percent, unexplained } => {
            format!(
                ", but only {percent}% of {} is in these objects: {} lie elsewhere",
                grown(findings),
                bytes(unexplained)
            )
        }
        Explanation::Impossible { excess } => format!(
            "; but {} more were never dropped than the whole memory holds, which is impossible: the method is at fault",
            bytes(excess)
        ),
        Explanation::NeedsFreeRoom { room } => format!(
            "; but {never_dropped} were never dropped, {0} more than the memory grew by: possible only if the heap had at \
             least {0} of free room, {1}",
            bytes(room),
            match findings.images.iter().find(|image| image.instant == ImageInstant::Start) {
                Some(image) => format!(
                    "and it had {} at its start: the rest must have been freed since",
                    bytes(image.room.free_bytes)
                ),
                None => "which the log does not say".to_owned(),
            }
        ),
        Explanation::ReusedFreeRoom { room } => format!(
            ", and {never_dropped} were never dropped, {} more than the memory grew by, which the heap holds: they lie in room \
             that was free before",
            bytes(room)
        ),
        Explanation::MoreThanInUse { excess } => format!(
            "; but {} more were never dropped than the heap has in use, which is impossible: the method is at fault, or the \
             image is older than the log's end",
            bytes(excess)
        ),
    }
}

/// The heap in an image, and what the objects of the log are of it.
pub fn heap(image: &MemoryImage, findings: &Findings<'_>) -> String {
    let HeapRoom { memory_bytes, heap_bytes, used_chunks, used_bytes, free_pieces, free_bytes, largest_free } =
        image.room;
    let figures = format!(
        "{}: {} in {} in use, {} free in {}, the largest {}",
        bytes(heap_bytes),
        bytes(used_bytes),
        counted(used_chunks, "chunk"),
        bytes(free_bytes),
        counted(free_pieces, "piece"),
        bytes(largest_free)
    );
    match image.instant {
        ImageInstant::Start => format!("at the start {figures}"),
        ImageInstant::End => {
            let live = findings.total.live_bytes();
            let part = if used_bytes == 0 { 0 } else { (u128::from(live) * 100 / u128::from(used_bytes)).min(100) };
            let mut text = format!("at the end {figures}; live objects of the log are {part}% of what is in use");
            if let Some(in_use) = rooms(&findings.images).in_use_growth() {
                let (verb, amount) =
                    if in_use < 0 { ("shrank", in_use.unsigned_abs()) } else { ("grew", in_use as u128) };
                text += &format!(", which {verb} by {}", bytes(amount.min(u64::MAX.into()) as u64));
            }
            text
        }
        ImageInstant::Other => format!(
            "{figures}; the image is of another instant than the first and the last MEMORY line ({} of memory), and decides nothing",
            bytes(memory_bytes)
        ),
    }
}

/// What is compared: with images of both ends, the bytes in use instead of the whole memory.
fn grown(findings: &Findings<'_>) -> &'static str {
    if rooms(&findings.images).in_use_growth().is_some() {
        "the growth of what is in use"
    } else {
        "the memory's growth"
    }
}

fn contradictions(odd: u64) -> String {
    counted(odd, "contradiction")
}

/// The memory measures and their growth, in words.
pub fn memory(findings: &Findings<'_>) -> String {
    let readings = findings.matcher.memory.readings;
    let Some(growth) = findings.growth else {
        return match readings {
            0 => "not measured: no MEMORY lines to compare with".to_owned(),
            _ => "measured once: two MEMORY lines are needed to compare with".to_owned(),
        };
    };
    let (first, last) = (bytes(growth.first_bytes), bytes(growth.last_bytes));
    let grew = match growth.bytes() {
        1.. => format!("grew by {}, from {first} to {last}", bytes(growth.bytes() as u64)),
        0 => format!("did not grow: {first}"),
        _ => format!("shrank by {}, from {first} to {last}", bytes(growth.bytes().unsigned_abs() as u64)),
    };
    let grew = match rooms(&findings.images).in_use_growth() {
        Some(in_use @ 1..) => {
            format!("{grew}; what is in use grew by {}", bytes(in_use.min(u64::MAX.into()) as u64))
        }
        _ => grew,
    };
    let never_dropped = findings.trust.never_dropped_during_growth;
    let born = "of what was made meanwhile was never dropped";
    match findings.trust.explanation {
        Explanation::NotMeasured | Explanation::NoGrowth => format!("{grew}; {} {born}", bytes(never_dropped)),
        Explanation::Explained { percent, unexplained: 0 } => {
            format!("{grew}; {} {born}: {percent}%", bytes(never_dropped))
        }
        Explanation::Explained { percent, unexplained } => {
            format!("{grew}; {} {born}: {percent}%, {} are not explained", bytes(never_dropped), bytes(unexplained))
        }
        Explanation::MostlyElsewhere { percent, unexplained } => format!(
            "{grew}; {} {born}: {percent}%, {} are not explained; most of the growth is in types that are not tracked",
            bytes(never_dropped),
            bytes(unexplained)
        ),
        Explanation::Impossible { excess } => format!(
            "{grew}; {} {born}. With what was made before, that is {} more than the whole memory. Sizes count something \
             twice, or drops are missing",
            bytes(never_dropped),
            bytes(excess)
        ),
        Explanation::ReusedFreeRoom { room } => format!(
            "{grew}; {} {born}: {} more, in room of the heap that was free before",
            bytes(never_dropped),
            bytes(room)
        ),
        Explanation::MoreThanInUse { excess } => format!(
            "{grew}; {} {born}. With what was made before, that is {} more than the heap has in use. Sizes count something \
             twice, or drops are missing",
            bytes(never_dropped),
            bytes(excess)
        ),
        Explanation::NeedsFreeRoom { room } => format!(
            "{grew}; {} {born}: {} more. Either the objects lie in memory that was free at the first MEMORY line or was \
             freed since, or sizes count something twice, or drops are missing",
            bytes(never_dropped),
            bytes(room)
        ),
    }
}

/// The growth of a type, in a few words.
pub fn growth(pattern: Option<&Pattern>) -> String {
    let amount = |amount: &ObjectAmount| format!("{}, {}", counted(amount.objects, "object"), bytes(amount.bytes));
    match pattern {
        None => String::new(),
        Some(Pattern::Constant { each, exact: true }) => format!("grows by {} every iteration", amount(each)),
        Some(Pattern::Constant { each, exact: false }) => format!("grows by about {} every iteration", amount(each)),
        Some(Pattern::Uneven { least, most }) => {
            format!("grows every iteration, by {} to {}", count(least.objects), amount(most))
        }
        Some(Pattern::Sometimes { iterations, of }) => format!("grows in {iterations} of {of} iterations"),
        Some(Pattern::Once) => "made once".to_owned(),
        Some(Pattern::Latest) => "of the latest iteration: perhaps still in use".to_owned(),
    }
}
