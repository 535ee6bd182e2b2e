//! Budgets and suppressions: files that users write.

use crate::scene::Scene;
use highwater_query::Query;
use highwater_query::budget::{BudgetFile, Outcome, Suppressions, judge, parse_suppressions};
use highwater_store::Recording;
use highwater_store::history::{History, Work};
use std::sync::{Arc, OnceLock};

fn query() -> &'static Query {
    static QUERY: OnceLock<Query> = OnceLock::new();
    QUERY.get_or_init(|| {
        let mut scene = Scene::new();
        scene.every_kind_of_event();
        let recording = Recording::from_bytes(scene.written(5, 12).expect("a file")).expect("a recording");
        Query::new(Arc::new(History::of_recording(Arc::new(recording)).expect("a history")))
    })
}

/// Reads the text as a budget and as suppressions, and judges a small recording by them.
pub fn examine_budget(text: &str) {
    let suppressions = match parse_suppressions(text) {
        Ok(suppressions) => suppressions,
        Err(bad) => {
            assert!(bad.line >= 1 && bad.line <= text.lines().count() && !bad.what.contains('\n'), "{text:?}: {bad}");
            Vec::new()
        }
    };
    let budget = match BudgetFile::parse(text) {
        Ok(budget) => budget,
        Err(bad) => return assert!(!bad.to_string().is_empty(), "{text:?}"),
    };
    let mut suppressions = Suppressions::new(suppressions.into_iter().chain(budget.suppressions.iter().cloned()));
    for parts in [&budget.parts].into_iter().chain(budget.programs.values()) {
        let checks = judge(query(), parts, &mut suppressions, &Work::quiet()).expect("the client waits");
        assert_eq!(checks.len(), parts.iter().map(|part| part.limits.len()).sum::<usize>(), "{text:?}");
        for check in checks {
            assert_eq!(check.figure.is_none(), check.outcome == Outcome::NotKnown, "{text:?}: {check:?}");
            assert!(check.outcome != Outcome::Kept || check.over == 0, "{text:?}: {check:?}");
        }
    }
}
