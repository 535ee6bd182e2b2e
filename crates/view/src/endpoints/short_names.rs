//! The short forms of the names in an answer.
//!
//! An answer has whole names, by which the page filters and asks further. `short_names` has the form that is shown for each different name that has one, once.

use highwater_model::short_name;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The member of an answer.
const MEMBER: &str = "short_names";

/// The answer with its short names; without any if names are left as they are.
pub fn added(mut answer: Value, is_raw: bool) -> Value {
    if is_raw {
        return answer;
    }
    let mut names = Names::default();
    names.collect(&answer);
    let short = names.short();
    if let (Some(members), false) = (answer.as_object_mut(), short.is_empty()) {
        members.insert(MEMBER.to_owned(), short.into());
    }
    answer
}

/// The names of functions in an answer.
#[derive(Default)]
struct Names<'a> {
    /// True for the names of rows, which must not look alike.
    all: BTreeMap<&'a str, bool>,
}

impl<'a> Names<'a> {
    fn collect(&mut self, answer: &'a Value) {
        let list = |value: &'a Value, name: &str| value.get(name).and_then(Value::as_array).into_iter().flatten();
        for frame in list(answer, "frames") {
            self.add(frame.get("function"), false);
        }
        for tree in
            [Some(answer), answer.get("tree"), answer.get("callers"), answer.get("callees")].into_iter().flatten()
        {
            list(tree, "names").for_each(|name| self.add(Some(name), false));
        }
        for neighbour in list(answer, "callers").chain(list(answer, "callees")) {
            self.add(neighbour.get("function"), true);
        }
        // Rows of sites differ by their details.
        let is_site = |row: &Value| row.get("frame").is_some();
        for row in list(answer, "rows").chain(list(answer, "bands")) {
            self.add(row.get("key"), !is_site(row));
        }
        self.collect_table(answer);
    }

    /// Of a fleet's table, whose rows are lists. Its sites differ by their callers.
    fn collect_table(&mut self, answer: &'a Value) {
        let list = |name: &str| answer.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let place = |name: &str| list("columns").iter().position(|column| column["name"] == name);
        let places = ["function", "stack"].into_iter().filter_map(place);
        for (place, row) in places.flat_map(|place| list("rows").iter().map(move |row| (place, row))) {
            let names = row.get(place).and_then(Value::as_str).unwrap_or_default();
            names.split(';').filter(|name| !name.is_empty()).for_each(|name| self.add_name(name, false));
        }
    }

    fn add(&mut self, name: Option<&'a Value>, is_row: bool) {
        if let Some(name) = name.and_then(Value::as_str) {
            self.add_name(name, is_row);
        }
    }

    fn add_name(&mut self, name: &'a str, is_row: bool) {
        *self.all.entry(name).or_default() |= is_row;
    }

    /// Each name with its short form, where it has one. Rows whose short forms are equal keep their names.
    fn short(&self) -> Map<String, Value> {
        let mut rows: BTreeMap<String, usize> = BTreeMap::new();
        for (name, _) in self.all.iter().filter(|(_, is_row)| **is_row) {
            *rows.entry(short_name(name).into_owned()).or_default() += 1;
        }
        let is_clear = |short: &str, is_row: bool| !is_row || rows.get(short).is_none_or(|count| *count < 2);
        let short = self.all.iter().map(|(name, is_row)| (*name, short_name(name), *is_row));
        let changed = short.filter(|(name, short, is_row)| name != short && is_clear(short, *is_row));
        changed.map(|(name, short, _)| (name.to_owned(), short.into_owned().into())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_name_has_its_short_form_once_and_rows_do_not_look_alike() {
        let answer = json!({
            "frames": [{"function": "load(int)"}, {"function": "main"}, {"function": null}],
            "rows": [{"key": "get(int)"}, {"key": "get(char)"}, {"key": "put(int)"}],
        });
        let short = added(answer.clone(), false);
        assert_eq!(short["short_names"], json!({"load(int)": "load", "put(int)": "put"}));
        assert_eq!(added(answer.clone(), true), answer);
    }

    #[test]
    fn a_table_of_a_fleet_has_the_names_of_its_functions_and_stacks() {
        let answer = json!({
            "columns": [{"name": "host"}, {"name": "function"}, {"name": "stack"}],
            "rows": [["put(int)", "get(int)", "main;run(char);get(int)"], ["b", "get(char)", null]],
        });
        let short = added(answer, false);
        let expected = json!({"get(char)": "get", "get(int)": "get", "run(char)": "run"});
        assert_eq!(short["short_names"], expected);
    }
}
