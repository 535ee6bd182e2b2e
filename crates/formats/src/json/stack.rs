//! `stack[]`: call stacks, innermost frame first.

use super::{hex, known_text};
use highwater_model::{Catalog, FrameText, StackId};
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
    if frame.is_guessed() {
        value["guessed"] = true.into();
    }
    if frame.columns.are_known() {
        value["column"] = frame.columns.start.into();
        value["end_column"] = frame.columns.end.into();
    }
    value
}

/// The frames of a stack; empty where none is known.
pub fn stack(catalog: &Catalog, stack: StackId) -> Value {
    catalog.frame_texts(stack).map(|text| frame(&text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_innermost_first_and_unknown_parts_are_null() {
        let mut catalog = Catalog::default();
        let push = FrameText {
            function: "push",
            file: "vec.rs",
            line: 7,
            module: "/bin/app",
            address: 0xffff_ffff_ffff_fff0,
            inlined: true,
            ..FrameText::default()
        };
        let id = catalog.intern_stack(&[push, FrameText::default()]);
        let expected = json!([
            {"function": "push", "file": "vec.rs", "line": 7, "module": "/bin/app", "inlined": true,
             "address": "0xfffffffffffffff0"},
            {"function": null, "file": null, "line": null, "module": null, "inlined": false},
        ]);
        assert_eq!(stack(&catalog, id), expected);
        assert_eq!(stack(&catalog, StackId::UNKNOWN), json!([]));
    }
}
