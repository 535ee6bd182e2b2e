//! Compiles small programs, and asks binutils about them: an oracle that is independent of this crate.
#![allow(dead_code)] // Each test file uses a part of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use highwater_symbols::{ModuleMapping, SourceFrame, Symbolizer};

/// The address at which the tests pretend that modules are mapped.
pub const BASE: u64 = 0x7f00_1234_5000;

/// An empty directory for one test.
pub struct Workshop {
    dir: PathBuf,
}

/// A function, according to binutils.
#[derive(Debug, Clone)]
pub struct NamedRange {
    pub start: u64,
    pub size: u64,
    /// As in the file.
    pub name: String,
}

/// The part of a frame that can be compared with binutils: paths are written differently, so only the file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainFrame {
    pub function: String,
    pub file_name: String,
    pub line: u32,
}

impl Workshop {
    pub fn new(test: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Workshop { dir: fs::canonicalize(dir).unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn create_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Runs a command in the directory. It must succeed. Returns its output.
    pub fn run(&self, command: &str) -> String {
        self.run_on(command, &[])
    }

    /// The same, with paths as the last arguments; they may contain spaces.
    pub fn run_on(&self, command: &str, paths: &[&Path]) -> String {
        let mut words = command.split_whitespace();
        let program = words.next().unwrap();
        let output = Command::new(program).args(words).args(paths).current_dir(&self.dir).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Compiles a program of `tests/programs` to a file of the given name.
    pub fn compile(&self, compiler: &str, source: &str, name: &str) -> PathBuf {
        self.run_on(&format!("{compiler} -o {name}"), &[&programs().join(source)]);
        self.path(name)
    }

    /// The functions in a file's symbol table, by `nm`.
    pub fn functions(&self, file: &Path) -> Vec<NamedRange> {
        let listing = self.run_on("nm -S --defined-only", &[file]);
        let functions = listing.lines().filter_map(|line| {
            let [start, size, kind, name] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            ["t", "T", "w", "W", "i"].contains(&kind).then(|| NamedRange {
                start: number(start),
                size: number(size),
                name: name.to_owned(),
            })
        });
        functions.collect()
    }

    /// The function whose mangled name contains the text.
    pub fn function(&self, file: &Path, text: &str) -> NamedRange {
        let functions = self.functions(file);
        let found: Vec<_> = functions.iter().filter(|function| function.name.contains(text)).collect();
        assert_eq!(found.len(), 1, "functions named {text}: {found:?}");
        found[0].clone()
    }

    /// What `addr2line` says about link-time addresses: frames, innermost first.
    pub fn addr2line(&self, file: &Path, addresses: &[u64]) -> Vec<Vec<PlainFrame>> {
        let numbers: Vec<PathBuf> = addresses.iter().map(|address| format!("{address:#x}").into()).collect();
        let arguments: Vec<&Path> = [file].into_iter().chain(numbers.iter().map(PathBuf::as_path)).collect();
        let listing = self.run_on("addr2line -a -C -f -i -e", &arguments);
        let mut answers: Vec<Vec<PlainFrame>> = Vec::new();
        let mut lines = listing.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("0x") {
                answers.push(Vec::new());
                continue;
            }
            let location = lines.next().unwrap().split(" (discriminator").next().unwrap();
            let (path, number) = location.rsplit_once(':').unwrap();
            answers.last_mut().unwrap().push(PlainFrame {
                function: line.to_owned(),
                file_name: file_name(path),
                line: number.parse().unwrap_or(0),
            });
        }
        assert_eq!(answers.len(), addresses.len());
        answers
    }
}

impl PlainFrame {
    pub fn of(frame: &SourceFrame) -> Self {
        let function = if frame.function.is_empty() { "??" } else { &frame.function };
        PlainFrame { function: function.to_owned(), file_name: file_name(&frame.file), line: frame.line }
    }
}

fn file_name(path: &str) -> String {
    if path.is_empty() { "??".to_owned() } else { path.rsplit('/').next().unwrap().to_owned() }
}

/// The directory of the sources.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The line of a source that contains a text.
pub fn line_of(source: &str, text: &str) -> u32 {
    let lines = fs::read_to_string(programs().join(source)).unwrap();
    let found: Vec<_> = lines.lines().zip(1..).filter(|(line, _)| line.contains(text)).collect();
    assert_eq!(found.len(), 1, "{text} in {source}");
    found[0].1
}

/// A position-independent module that is mapped at [`BASE`].
pub fn at_base<'a>(path: &'a Path, build_id: &'a str) -> ModuleMapping<'a> {
    ModuleMapping { path, build_id, start: BASE, file_offset: 0 }
}

/// The frames at a link-time address of a module at [`BASE`]; panics if the module's symbols are not available.
pub fn frames(symbolizer: &mut Symbolizer, mapping: &ModuleMapping<'_>, link_address: u64) -> Vec<SourceFrame> {
    symbolizer.module(mapping).unwrap().lookup(BASE + link_address).to_vec()
}

/// The names of functions, innermost first.
pub fn names(frames: &[SourceFrame]) -> Vec<&str> {
    frames.iter().map(|frame| &*frame.function).collect()
}
