//! Rows of answers as cells of tables.

use crate::print::bytes::{bytes, count};
use crate::print::colour::Style;
use crate::print::table::Cell;
use highwater_model::{Catalog, FrameText, Naming, RowDetails, StackId};
use serde_json::Value;

/// What stands before a figure.
pub fn mark(is_estimate: bool) -> &'static str {
    if is_estimate { "~" } else { "" }
}

/// A row, as an object.
pub struct AnswerRow(pub Value);

impl AnswerRow {
    /// A whole number; 0 if it is missing.
    pub fn whole(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or(0)
    }

    /// A number, if there is one.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0[name].as_f64()
    }

    /// A text; empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or("")
    }

    /// Whether its figures are estimates.
    pub fn is_estimate(&self) -> bool {
        self.whole("sample_period") > 0
    }

    /// Whether the figures of the whole fleet that it repeats are.
    pub fn is_fleet_estimate(&self) -> bool {
        self.whole("fleet_sample_period") > 0
    }

    fn mark(&self) -> &'static str {
        mark(self.is_estimate())
    }

    /// A number of bytes, with `~` if it is an estimate; a mean is rounded.
    pub fn bytes(&self, name: &str) -> Cell {
        let number = self.number(name).unwrap_or(0.0);
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{}{sign}{}", self.mark(), bytes(number.abs().round() as u64)).into()
    }

    /// The same with a sign in any case.
    pub fn signed_bytes(&self, name: &str) -> Cell {
        let number = self.number(name).unwrap_or(0.0);
        let sign = if number < 0.0 { "-" } else { "+" };
        format!("{}{sign}{}", self.mark(), bytes(number.abs().round() as u64)).into()
    }

    /// A count, with `~` if it is an estimate.
    pub fn estimated_count(&self, name: &str) -> Cell {
        let number = self.number(name).unwrap_or(0.0).max(0.0).round() as u64;
        format!("{}{}", self.mark(), count(number)).into()
    }

    /// A count of things that are not sampled: processes, hosts.
    pub fn count(&self, name: &str) -> Cell {
        count(self.whole(name).max(0) as u64).into()
    }

    /// `3/5`.
    pub fn part(&self, name: &str, of: &str) -> Cell {
        format!("{}/{}", self.whole(name), self.whole(of)).into()
    }

    /// The frames of the site, innermost first, from the function that names it.
    fn frames(&self) -> Vec<FrameText<'_>> {
        let function = self.text("function");
        let names: Vec<&str> = self.text("stack").split(';').collect();
        let Some(at) = names.iter().rposition(|name| *name == function) else {
            return vec![FrameText { function, ..FrameText::default() }];
        };
        names[..=at].iter().rev().map(|function| FrameText { function, ..FrameText::default() }).collect()
    }

    /// The site: its pool if it is one, its function, the type of its blocks, what tells it from rows that look the same, and its callers.
    fn site(&self, naming: &Naming, detail: &str) -> Cell {
        let function = self.text("function");
        if function.is_empty() {
            let id = self.0["site_id"].as_i64().unwrap_or(0);
            return Cell::new(Style::Dim, &format!("[site {id}: its stack is not in the lake]"));
        }
        let pool = naming.pool_of_function(function).map(|pool| format!("{pool} · ")).unwrap_or_default();
        let mut cell = Cell::new(Style::Plain, &format!("{pool}{}", naming.shown(function)));
        if !self.text("type_name").is_empty() {
            cell = cell.and(Style::Green, &format!(" {}", self.text("type_name")));
        }
        if !detail.is_empty() {
            cell = cell.and(Style::Plain, &format!("  {detail}"));
        }
        let frames = self.frames();
        for caller in frames.iter().skip(1).filter(|frame| !naming.is_background(frame)).take(CALLERS) {
            cell = cell.and(Style::Dim, &format!(" ← {}", naming.shown(caller.function)));
        }
        cell
    }
}

/// The callers that a row shows.
const CALLERS: usize = 3;

/// The sites of rows, as `report` shows those of a recording.
pub fn sites(rows: &[AnswerRow]) -> Vec<Cell> {
    let (naming, mut catalog) = (Naming::default(), Catalog::default());
    let stacks: Vec<StackId> = rows.iter().map(|row| catalog.intern_stack(&row.frames())).collect();
    let of_catalog: Vec<(&Catalog, StackId)> = stacks.iter().map(|stack| (&catalog, *stack)).collect();
    let details = RowDetails::new(&naming).with_callers_shown(CALLERS).of(&of_catalog);
    rows.iter().zip(details).map(|(row, detail)| row.site(&naming, &detail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::colour::Paint;
    use serde_json::json;

    fn shown(stacks: &[&str], function: &str) -> Vec<String> {
        let row = |stack: &&str| AnswerRow(json!({ "function": function, "stack": stack, "type_name": "" }));
        let rows: Vec<AnswerRow> = stacks.iter().map(row).collect();
        sites(&rows).into_iter().map(|cell| cell.render(Paint::plain(), 400)).collect()
    }

    #[test]
    fn rows_that_would_look_the_same_show_where_they_differ() {
        let stacks = [
            "main;PyList_New;gc_alloc;_PyObject_Malloc;pymalloc_alloc;allocate_from_new_pool;new_arena;_PyObject_ArenaMmap",
            "main;unicode_repeat;PyUnicode_New;_PyObject_Malloc;pymalloc_alloc;allocate_from_new_pool;new_arena;_PyObject_ArenaMmap",
        ];
        let rows = shown(&stacks, "_PyObject_ArenaMmap");
        assert!(rows.iter().all(|row| row.starts_with("Python arena · _PyObject_ArenaMmap  ")), "{rows:?}");
        assert!(
            rows[0].contains("  ← gc_alloc ← new_arena") && rows[1].contains("  ← PyUnicode_New ← new_arena"),
            "{rows:?}"
        );
    }

    #[test]
    fn a_row_that_no_other_looks_like_shows_its_callers_alone() {
        assert_eq!(
            shown(&["main;run;load", "main;run;save;load"], "load"),
            ["load ← run ← main", "load ← save ← run ← main"]
        );
        // The same site of two services.
        assert_eq!(shown(&["main;load", "main;load"], "load"), ["load ← main", "load ← main"]);
        assert_eq!(shown(&[""], "load"), ["load"]);
    }
}
