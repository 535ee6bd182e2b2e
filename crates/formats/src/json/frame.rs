//! One frame of a call stack.

use highwater_model::FrameText;
use serde::Serialize;

/// One frame of a call stack. Unknown parts are `null`, or left out if only some sources have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "types", derive(ts_rs::TS), ts(rename = "Frame"))]
pub struct FrameAnswer {
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// The executable or library.
    pub module: Option<String>,
    /// True if the function was inlined into its caller.
    pub inlined: bool,
    /// The address of the code, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "types", ts(optional))]
    pub address: Option<String>,
    /// Of code without a function's name: the offset in its module, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "types", ts(optional))]
    pub offset: Option<String>,
    /// True if the frame was guessed from the words on the stack.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "types", ts(optional, as = "Option<bool>"))]
    pub guessed: bool,
    /// The first column of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "types", ts(optional))]
    pub column: Option<u16>,
    /// The last column of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "types", ts(optional))]
    pub end_column: Option<u16>,
}

/// One frame.
pub fn frame(frame: &FrameText<'_>) -> FrameAnswer {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let column = |column: u16| frame.columns.are_known().then_some(column);
    FrameAnswer {
        function: known(frame.function),
        file: known(frame.file),
        line: (frame.line != 0).then_some(frame.line),
        module: known(frame.module),
        inlined: frame.inlined,
        address: (frame.address != 0).then(|| format!("{:#x}", frame.address)),
        offset: frame.unnamed_code().map(|code| format!("{:#x}", code.offset)),
        guessed: frame.is_guessed(),
        column: column(frame.columns.start),
        end_column: column(frame.columns.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        assert_eq!(json!(frame(&push)), expected);
        let unknown = json!({"function": null, "file": null, "line": null, "module": null, "inlined": false});
        assert_eq!(json!(frame(&FrameText::default())), unknown);
    }
}
