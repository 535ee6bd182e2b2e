//! Names as runtimes write them into a map, as functions, files and lines.

/// A function that a runtime compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitName {
    /// Its name.
    pub function: String,
    /// Its source file, empty where the map does not say.
    pub file: String,
    /// Its line, 0 where the map does not say.
    pub line: u32,
}

/// Functions of a script, as V8 writes them: `JS:*render file:///srv/app.js:10:5`. Older versions say what they compiled.
const V8_FUNCTIONS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
/// Other code of V8, and what it is.
const V8_OTHERS: [(&str, &str); 5] = [
    ("Builtin:", "builtin"),
    ("BytecodeHandler:", "bytecode handler"),
    ("Stub:", "stub"),
    ("Handler:", "handler"),
    ("RegExp:", "regexp"),
];
/// V8's marks for the compiler that made the code.
const V8_TIERS: [char; 4] = ['~', '*', '^', '+'];

impl JitName {
    /// Reads a name. One of an unknown form is a function's name as it is.
    pub fn read(text: &str) -> Self {
        if let Some(rest) = V8_FUNCTIONS.iter().find_map(|kind| text.strip_prefix(kind)) {
            return Self::of_script(rest);
        }
        if let Some((name, what)) = V8_OTHERS.iter().find_map(|(kind, what)| Some((text.strip_prefix(kind)?, what))) {
            return Self { function: format!("{name} [{what}]"), ..Self::default() };
        }
        if let Some(rest) = text.strip_prefix("py::") {
            return Self::of_python(rest);
        }
        Self { function: without_return_type(text).to_owned(), ..Self::default() }
    }

    /// `*render file:///srv/app.js:10:5`: a name, which may be empty or have spaces, and a script with line and column.
    fn of_script(text: &str) -> Self {
        let text = text.trim_start_matches(V8_TIERS);
        let (name, script) = split_script(text);
        let (file, line) = split_position(script);
        let function = if name.is_empty() { "(anonymous)" } else { name };
        Self { function: function.to_owned(), file: file.strip_prefix("file://").unwrap_or(file).to_owned(), line }
    }

    /// `name:/srv/app.py` or `name:<string>`.
    fn of_python(text: &str) -> Self {
        let at = [":/", ":<"].iter().filter_map(|start| text.find(start)).min().or_else(|| text.rfind(':'));
        let (function, file) = at.map_or((text, ""), |at| (&text[..at], &text[at + 1..]));
        Self { function: function.to_owned(), file: file.to_owned(), line: 0 }
    }
}

/// The name of a function and its script. Both may have spaces: a script that is a path or an address begins at the first space before one.
fn split_script(text: &str) -> (&str, &str) {
    const STARTS: [&str; 5] = [" file://", " /", " node:", " wasm://", " http"];
    let at = STARTS.iter().filter_map(|start| text.find(start)).min().or_else(|| text.rfind(' '));
    at.map_or((text, ""), |at| (&text[..at], &text[at + 1..]))
}

/// A script and the line in `script:10:5`.
fn split_position(script: &str) -> (&str, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let with_column = script.rsplit_once(':').and_then(|(rest, column)| {
        number(column)?;
        let (file, line) = rest.rsplit_once(':')?;
        Some((file, number(line)?))
    });
    with_column
        .or_else(|| script.rsplit_once(':').and_then(|(file, line)| Some((file, number(line)?))))
        .unwrap_or((script, 0))
}

/// A method of Java, `void java.util.HashMap.put(int)`, without the type that it returns.
fn without_return_type(text: &str) -> &str {
    let Some(arguments) = text.find('(').filter(|_| text.ends_with(')')) else { return text };
    match text[..arguments].split_once(' ') {
        Some((_, method)) if method.contains('.') && !method.contains(' ') => &text[arguments - method.len()..],
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_each_runtime_are_read() {
        for (text, function, file, line) in [
            ("JS:*render file:///srv/app.js:10:5", "render", "/srv/app.js", 10),
            ("JS:~render /srv/my app.js:10:5", "render", "/srv/my app.js", 10),
            ("JS:^get value node:internal/url:812:12", "get value", "node:internal/url", 812),
            ("JS:+ node:vm:1:1", "(anonymous)", "node:vm", 1),
            ("JS:~ [eval]:3:9", "(anonymous)", "[eval]", 3),
            ("LazyCompile:*f app.js:7", "f", "app.js", 7),
            ("Script:~ /srv/app.js:1:1", "(anonymous)", "/srv/app.js", 1),
            ("JS:*alone", "alone", "", 0),
            ("Builtin:ArrayMap", "ArrayMap [builtin]", "", 0),
            ("RegExp:a b+", "a b+ [regexp]", "", 0),
            ("py::fib:/srv/fib.py", "fib", "/srv/fib.py", 0),
            ("py::A.<locals>.b:/srv/a:b.py", "A.<locals>.b", "/srv/a:b.py", 0),
            ("py::<module>:<string>", "<module>", "<string>", 0),
            ("py::f", "f", "", 0),
            ("void java.util.HashMap.put(int, char[])", "java.util.HashMap.put(int, char[])", "", 0),
            ("java.util.HashMap.put(int)", "java.util.HashMap.put(int)", "", 0),
            ("StubRoutines (1)", "StubRoutines (1)", "", 0),
            ("Interpreter", "Interpreter", "", 0),
        ] {
            assert_eq!(JitName::read(text), JitName { function: function.into(), file: file.into(), line }, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_read(text in "(JS:|py::|Builtin:|)[~*]?.{0,60}") {
            let name = JitName::read(&text);
            prop_assert!(name.function.len() <= text.len() + 20);
        }
    }
}
