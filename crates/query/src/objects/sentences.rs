//! Conclusions in words.

use super::findings::Findings;
use crate::units::{bytes, count, counted};
use highwater_formats::objlog::{Explanation, ObjectAmount, Pattern, TrustVerdict};

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
        Explanation::Explained { percent, .. } => format!(", and {percent}% of the memory's growth is explained"),
        Explanation::MostlyElsewhere { percent, unexplained } => {
            format!(
                ", but only {percent}% of the memory's growth is in these objects: {} lie elsewhere",
                bytes(unexplained)
            )
        }
        Explanation::Impossible { excess } => format!(
            "; but {} more were never dropped than the whole memory holds, which is impossible: the method is at fault",
            bytes(excess)
        ),
        Explanation::NeedsFreeRoom { room } => format!(
            "; but {never_dropped} were never dropped, {0} more than the memory grew by: possible only if the heap had at \
             least {0} of free room, which the log does not say",
            bytes(room)
        ),
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
