//! The names of source files.

/// Extensions of programming languages, in lower case. No list of what is secret is ever complete, so this is a list of what is not. Formats that also hold
/// settings and keys (JSON, TOML, YAML, XML, shell scripts, plain text) are left out on purpose.
const EXTENSIONS: &[&str] = &[
    "adb", "ads", "asm", "c", "c++", "cc", "cjs", "clj", "cpp", "cppm", "cr", "cs", "cts", "cu", "cuh", "cxx", "d",
    "dart", "def", "erl", "ex", "exs", "f", "f03", "f08", "f77", "f90", "f95", "for", "fs", "go", "h", "h++", "hh",
    "hpp", "hrl", "hs", "hxx", "inc", "inl", "ipp", "ixx", "java", "jl", "js", "jsx", "kt", "kts", "l", "lhs", "ll",
    "lua", "m", "mjs", "ml", "mli", "mll", "mly", "mm", "mo", "mts", "nim", "pas", "php", "pl", "pm", "pxd", "pxi",
    "py", "pyi", "pyx", "rb", "re", "rei", "rs", "s", "scala", "swift", "sx", "tcc", "tpp", "ts", "tsx", "v", "vala",
    "y", "yy", "zig",
];

/// Whether a path ends with the extension of a programming language.
pub fn is_source_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) => !stem.is_empty() && EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_source_files_pass() {
        for name in ["/src/a.rs", "a.C", "x/y.tar.cpp", "/usr/include/c++/12/bits/stl_vector.h", "start.S", "main.mo"] {
            assert!(is_source_name(name), "{name}");
        }
        for name in
            ["/etc/shadow", "/home/u/.ssh/id_rsa", "key.pem", ".rs", "/a.rs/", "/a.rs/passwd", "", "a.rs\0", "a.rs "]
        {
            assert!(!is_source_name(name), "{name}");
        }
        assert!(EXTENSIONS.is_sorted());
    }
}
