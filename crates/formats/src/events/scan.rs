//! A JSON scanner that splits a line into its members without copying it.
//!
//! Most of a line is its stack, and most stacks were seen before. So lists and objects inside a line are only delimited here, not parsed: a stack is
//! looked up by its text ([`stack_texts`](super::stack_texts)), and any other nested value belongs to a field that Highwater does not read.

use std::borrow::Cow;

/// A JSON value. Nested values are kept as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonValue<'a> {
    Null,
    Truth(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    /// From `[` to `]`. Only brackets and strings inside are checked.
    List(&'a str),
    /// From `{` to `}`. Only brackets and strings inside are checked.
    Object(&'a str),
}

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// The members of an object that takes up the whole `text`.
pub(crate) fn object(text: &str) -> Result<Vec<(Cow<'_, str>, JsonValue<'_>)>, NotJson> {
    let mut scan = JsonScanner { text, at: 0 };
    let mut members = Vec::with_capacity(8);
    scan.sequence(b'{', b'}', |scan| {
        let name = scan.string()?;
        scan.skip_space();
        scan.expect(b':')?;
        members.push((name, scan.value()?));
        Ok(())
    })?;
    scan.end()?;
    Ok(members)
}

/// The elements of a list that takes up the whole `text`.
pub(crate) fn list(text: &str) -> Result<Vec<JsonValue<'_>>, NotJson> {
    let mut scan = JsonScanner { text, at: 0 };
    let mut elements = Vec::new();
    scan.sequence(b'[', b']', |scan| {
        elements.push(scan.value()?);
        Ok(())
    })?;
    scan.end()?;
    Ok(elements)
}

/// Scans one text from front to back.
struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonScanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), NotJson> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(NotJson) }
    }

    /// Elements between brackets, separated by commas. Skips the white space before each.
    fn sequence(
        &mut self,
        open: u8,
        close: u8,
        mut element: impl FnMut(&mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.skip_space();
        self.expect(open)?;
        self.skip_space();
        if self.peek() == Some(close) {
            return self.expect(close);
        }
        loop {
            self.skip_space();
            element(self)?;
            self.skip_space();
            if self.peek() != Some(b',') {
                return self.expect(close);
            }
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<JsonValue<'a>, NotJson> {
        self.skip_space();
        match self.peek().ok_or(NotJson)? {
            b'"' => self.string().map(JsonValue::Text),
            b'[' => self.nested().map(JsonValue::List),
            b'{' => self.nested().map(JsonValue::Object),
            _ => self.word(),
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, NotJson> {
        self.expect(b'"')?;
        let start = self.at;
        let escaped = self.skip_rest_of_string()?;
        if escaped {
            let quoted = &self.text[start - 1..self.at];
            return serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| NotJson);
        }
        Ok(Cow::Borrowed(&self.text[start..self.at - 1]))
    }

    /// Skips from inside a string to the byte after its closing quote; true if the string has escapes.
    fn skip_rest_of_string(&mut self) -> Result<bool, NotJson> {
        let mut escaped = false;
        loop {
            match self.peek().ok_or(NotJson)? {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.at += 2;
                }
                0..0x20 => return Err(NotJson),
                _ => self.at += 1,
            }
        }
    }

    fn nested(&mut self) -> Result<&'a str, NotJson> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            let byte = self.peek().ok_or(NotJson)?;
            self.at += 1;
            match byte {
                b'"' => {
                    self.skip_rest_of_string()?;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(&self.text[start..self.at]);
                    }
                }
                _ => {}
            }
        }
    }

    fn word(&mut self) -> Result<JsonValue<'a>, NotJson> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        match word {
            "null" => Ok(JsonValue::Null),
            "true" => Ok(JsonValue::Truth(true)),
            "false" => Ok(JsonValue::Truth(false)),
            _ if is_number(word) => Ok(JsonValue::Number(word)),
            _ => Err(NotJson),
        }
    }
}

/// Decides the common case, whole numbers, here; passes the others to `serde_json`.
fn is_number(word: &str) -> bool {
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word == "0" || !word.starts_with('0');
    }
    serde_json::from_str::<serde_json::Number>(word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn to_value(json: &JsonValue<'_>) -> Value {
        match json {
            JsonValue::Null => Value::Null,
            JsonValue::Truth(truth) => (*truth).into(),
            JsonValue::Text(text) => Value::from(&**text),
            JsonValue::Number(text) | JsonValue::List(text) | JsonValue::Object(text) => {
                serde_json::from_str(text).unwrap()
            }
        }
    }

    #[test]
    fn takes_an_object_apart() {
        let text = r#" { "a" : 12 , "b\"c":"x\u00e9", "l":[1,{"]":"["}],"o":{},"n":null,"t":true , "f":-1.5e3 } "#;
        let members = object(text).unwrap();
        let expected = [
            ("a", JsonValue::Number("12")),
            ("b\"c", JsonValue::Text("xé".into())),
            ("l", JsonValue::List(r#"[1,{"]":"["}]"#)),
            ("o", JsonValue::Object("{}")),
            ("n", JsonValue::Null),
            ("t", JsonValue::Truth(true)),
            ("f", JsonValue::Number("-1.5e3")),
        ];
        assert_eq!(members, expected.map(|(name, value)| (Cow::from(name), value)));
        assert_eq!(list("[]"), Ok(vec![]));
        assert_eq!(list(r#"["a",[ ]]"#), Ok(vec![JsonValue::Text("a".into()), JsonValue::List("[ ]")]));
    }

    #[test]
    fn refuses_what_is_not_json() {
        for text in [
            "",
            "{",
            "}",
            "{}x",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1 "b":2}"#,
            r#"{a:1}"#,
            r#"{"a":01}"#,
            r#"{"a":+1}"#,
            r#"{"a":0x10}"#,
            r#"{"a":nul}"#,
            r#"{"a":"x}"#,
            r#"{"a":"\q"}"#,
            r#"{"a":"\ud800"}"#,
            "{\"a\":\"\t\"}",
            r#"{"a":"\"#,
            r#"{"a":[1}"#,
            r#"{"a":{"b":1}"#,
            r#"{"a":1e}"#,
        ] {
            assert_eq!(object(text), Err(NotJson), "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    const ALMOST_JSON: &str = r#"\{("[ab]{0,2}(\\[nq])?":[-0-9.e]{0,3}(true|"[a\t]?")?,?){0,3}\}?"#;

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_json(members in prop::collection::btree_map(any::<String>(), any_json(), 0..5)) {
            let value = Value::Object(members.into_iter().collect());
            let text = value.to_string();
            let read: serde_json::Map<String, Value> =
                object(&text).unwrap().iter().map(|(name, json)| (name.to_string(), to_value(json))).collect();
            prop_assert_eq!(Value::Object(read), value);
        }

        #[test]
        fn is_no_laxer_and_no_stricter_than_serde_json(text in ALMOST_JSON) {
            let by_serde = serde_json::from_str::<Value>(&text);
            prop_assert_eq!(object(&text).is_ok(), by_serde.is_ok(), "{} {:?}", text, by_serde);
        }
    }
}
