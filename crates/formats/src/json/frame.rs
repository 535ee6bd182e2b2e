//! One frame of a call stack.

use super::{hex, known_text};
use highwater_model::FrameText;
use serde_json::{Value, json};

/// One frame.
pub fn frame(frame: &FrameText<'_>) -> Value {
    let mut value = json!({
        "function": known_text(frame.function),
        "file": known_text(frame.file),
        "line": (frame.line != 0).then_some(frame.line),
        "module": known_text(frame.module),
        "inlined": frame.inlined,
    });
    if frame.address != 0 {
        value["address"] = hex(frame.address);
    }
    if let Some(code) = frame.unnamed_code() {
        value["offset"] = hex(code.offset);
    }
    if frame.is_guessed() {
        value["guessed"] = true.into();
    }
    if frame.columns.are_known() {
        value["column"] = frame.columns.start.into();
        value["end_column"] = frame.columns.end.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parts_are_null() {
        let push = FrameText {
            function: "push",
            file: "vec.rs",
            line: 7,
            module: "/bin/app",
            address: 0xffff_ffff_ffff_fff0,
            inlined: true,
            ..FrameText::default()
        };
        let expected = json!({
            "function": "push", "file": "vec.rs", "line": 7, "module": "/bin/app", "inlined": true, "address": "0xfffffffffffffff0",
        });
        assert_eq!(frame(&push), expected);
        let unknown = json!({"function": null, "file": null, "line": null, "module": null, "inlined": false});
        assert_eq!(frame(&FrameText::default()), unknown);
    }
}
