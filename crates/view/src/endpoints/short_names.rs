//! The forms in which the names of an answer are shown.
//!
//! An answer has whole names, by which the page filters and asks further. `short_names` has the form that is shown for each different name that has one, once.
//! Two names of an answer never have the same form: those that would have keep all their template arguments, or are shown whole.

use highwater_model::{short_name, short_name_with_arguments};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The member of an answer.
const MEMBER: &str = "short_names";

/// The answer with its short names; without any if names are left as they are.
pub fn added(mut answer: Value, is_raw: bool) -> Value {
    if is_raw {
        return answer;
    }
    let mut names = BTreeSet::new();
    visit(&answer, &mut |name| {
        names.insert(name);
    });
    let short = forms(names.into_iter());
    if let (Some(members), false) = (answer.as_object_mut(), short.is_empty()) {
        members.insert(MEMBER.to_owned(), short.into());
    }
    answer
}

/// The names of several answers that are shown together.
#[derive(Default)]
pub struct SharedNames(BTreeSet<String>);

impl SharedNames {
    /// Adds the names of an answer.
    pub fn add(&mut self, answer: &Value) {
        visit(answer, &mut |name| {
            if !self.0.contains(name) {
                self.0.insert(name.to_owned());
            }
        });
    }

    /// `short_names` of all these answers.
    pub fn into_value(self) -> Value {
        forms(self.0.iter().map(String::as_str)).into()
    }
}

/// Calls `add` with each name of a function in an answer.
fn visit<'a>(answer: &'a Value, add: &mut impl FnMut(&'a str)) {
    let list = |value: &'a Value, name: &str| value.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut add_text = |name: Option<&'a Value>| name.and_then(Value::as_str).into_iter().for_each(&mut *add);
    for frame in list(answer, "frames") {
        add_text(frame.get("function"));
    }
    for tree in [Some(answer), answer.get("tree"), answer.get("callers"), answer.get("callees")].into_iter().flatten() {
        list(tree, "names").for_each(|name| add_text(Some(name)));
    }
    for neighbour in list(answer, "callers").chain(list(answer, "callees")) {
        add_text(neighbour.get("function"));
    }
    for row in list(answer, "rows").chain(list(answer, "bands")) {
        add_text(row.get("key"));
    }
    visit_table(answer, add);
}

/// The names of a fleet's table, whose rows are lists.
fn visit_table<'a>(answer: &'a Value, add: &mut impl FnMut(&'a str)) {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let place = |name: &str| list("columns").iter().position(|column| column["name"] == name);
    let places = ["function", "stack"].into_iter().filter_map(place);
    for (place, row) in places.flat_map(|place| list("rows").iter().map(move |row| (place, row))) {
        let names = row.get(place).and_then(Value::as_str).unwrap_or_default();
        names.split(';').filter(|name| !name.is_empty()).for_each(&mut *add);
    }
}

/// Each of these different names with the form that is shown, where that is another one, or where its short form is also that of another name.
fn forms<'a>(names: impl Iterator<Item = &'a str>) -> Map<String, Value> {
    let mut known = Map::new();
    let mut add = |name: &str, form: Cow<'_, str>| {
        known.insert(name.to_owned(), form.into_owned().into());
    };
    for (short, alike) in by_form(names, short_name) {
        if let [name] = alike[..] {
            if name != short {
                add(name, short);
            }
            continue;
        }
        for (longer, alike) in by_form(alike.into_iter(), short_name_with_arguments) {
            match alike[..] {
                [name] => add(name, longer),
                _ => alike.iter().for_each(|name| add(name, Cow::Borrowed(name))),
            }
        }
    }
    known
}

/// The names that share a form, by that form.
fn by_form<'a>(
    names: impl Iterator<Item = &'a str>,
    form: fn(&str) -> Cow<'_, str>,
) -> BTreeMap<Cow<'a, str>, Vec<&'a str>> {
    let mut alike: BTreeMap<Cow<'a, str>, Vec<&'a str>> = BTreeMap::new();
    for name in names {
        alike.entry(form(name)).or_default().push(name);
    }
    alike
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_name_has_a_form_of_its_own() {
        let answer = json!({
            "frames": [{"function": "load(int)"}, {"function": "main"}, {"function": null}],
            "rows": [{"key": "get(int)"}, {"key": "get(char)"}, {"key": "put(int)", "frame": {}}],
            "tree": {"names": ["put(char)", "all"]},
        });
        let short = added(answer.clone(), false);
        let whole = ["get(char)", "get(int)", "put(char)", "put(int)"].map(|name| (name.to_owned(), json!(name)));
        let mut expected: Map<String, Value> = whole.into_iter().collect();
        expected.insert("load(int)".to_owned(), json!("load"));
        assert_eq!(short["short_names"], Value::Object(expected));
        assert_eq!(added(answer.clone(), true), answer);
    }

    #[test]
    fn names_that_lose_what_differs_keep_their_arguments() {
        let of = |kind: &str| {
            format!("void insert_all<std::vector<{kind}, std::allocator<{kind}> >, std::vector<Publication> >(int)")
        };
        let [first, second] = [of("FirstSubscription"), of("OtherSubscription")];
        let mut names = SharedNames::default();
        names.add(&json!({"names": [first, "main"]}));
        let alone = "insert_all<std::vector<…>, std::vector<…>>";
        assert_eq!(SharedNames(names.0.clone()).into_value(), json!({ &first: alone }));
        names.add(&json!({"rows": [{"key": second}]}));
        let expected = json!({
            &first: "insert_all<std::vector<FirstSubscription>, std::vector<Publication>>",
            &second: "insert_all<std::vector<OtherSubscription>, std::vector<Publication>>",
        });
        assert_eq!(names.into_value(), expected);
    }

    #[test]
    fn a_table_of_a_fleet_has_the_names_of_its_functions_and_stacks() {
        let answer = json!({
            "columns": [{"name": "host"}, {"name": "function"}, {"name": "stack"}],
            "rows": [["put(int)", "get(int)", "main;run(char);get(int)"], ["b", "set(char)", null]],
        });
        let short = added(answer, false);
        let expected = json!({"get(int)": "get", "run(char)": "run", "set(char)": "set"});
        assert_eq!(short["short_names"], expected);
    }
}
