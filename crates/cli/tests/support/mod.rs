//! Runs the real command on files made for the test.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]

pub mod attachable;
pub mod c_library;
pub mod fake_collector;
pub mod live;
pub mod programs;
pub mod recorded;
pub mod scrape;
pub mod screen;
pub mod small_lake;
pub mod streams;
pub mod viewed;
pub mod viewer;

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

pub const HIGHWATER: &str = env!("CARGO_BIN_EXE_highwater");

/// Copies a program that is run at once. `cp` does it: while this process had the copy open for writing, a test on another thread could start a process, and
/// that would hold the file open too ("Text file busy").
pub fn copy_program(file: &Path, copy: &Path) {
    assert!(Command::new("cp").arg(file).arg(copy).status().unwrap().success());
}

/// A temporary directory for the test, removed when the test ends.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Self {
        Self::in_folder(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// A directory that other users may enter and write to, unlike the one in which tests are built.
    pub fn public() -> Self {
        let place = Self::in_folder(&std::env::temp_dir());
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        place
    }

    fn in_folder(folder: &Path) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("highwater-cli-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Unpacks a module of the fixtures.
    pub fn module(&self, name: &str) -> PathBuf {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folders = ["host/tests/fixtures", "image/tests/fixtures/motoko", "image/tests/fixtures/wasm"];
        let mut paths = folders.iter().map(|folder| crates.join(folder).join(format!("{name}.wasm.zst")));
        let packed = paths.find(|path| path.exists()).expect("the fixture is there");
        self.write(&format!("{name}.wasm"), zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap())
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The command, run in this directory.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(HIGHWATER);
        command.args(arguments).current_dir(&self.0).env_remove("NO_COLOR");
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        Run::of(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a command line whose words are separated by spaces.
    pub fn highwater(&self, line: &str) -> Run {
        self.run(line.split_whitespace())
    }

    pub fn run_with_input(&self, line: &str, input: &[u8]) -> Run {
        let mut child = self
            .command(line.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Run::of(child.wait_with_output().unwrap())
    }

    /// Runs a reading command with `--json`.
    pub fn json(&self, line: &str) -> Value {
        let run = self.highwater(&format!("{line} --json"));
        assert_eq!(run.code, 0, "{line}: {}", run.stderr);
        let document = document(&run.stdout);
        assert_eq!(document["schema"], 2, "{line}");
        document
    }

    /// Imports event lines as `name`.
    pub fn import(&self, name: &str, lines: &[Value]) -> PathBuf {
        self.write("imported.jsonl", as_lines(lines));
        let run = self.highwater(&format!("import imported.jsonl -o {name}"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        self.file(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("not killed"),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// The input is at fault: exit code 1, nothing on standard output, one line that contains each of `words`.
    #[track_caller]
    pub fn is_one_clear_line_about(&self, words: &[&str]) {
        assert_eq!(self.code, 1, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("highwater: "), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "'{word}' is not in: {}", self.stderr);
        }
    }

    #[track_caller]
    pub fn stdout_has(&self, texts: &[&str]) {
        assert_eq!(self.code, 0, "{}", self.stderr);
        for text in texts {
            assert!(self.stdout.contains(text), "'{text}' is not in:\n{}", self.stdout);
        }
    }
}

/// A JSON document whose rows have the frames of their stacks, innermost first, in place of stack numbers.
#[track_caller]
pub fn document(text: &str) -> Value {
    let mut document: Value = serde_json::from_str(text).unwrap();
    let mut table = |name: &str| document.as_object_mut().and_then(|members| members.remove(name));
    if let (Some(Value::Array(frames)), Some(Value::Array(stacks))) = (table("frames"), table("stacks")) {
        put_lists(&mut document, &frames, &stacks);
    }
    document
}

fn put_lists(value: &mut Value, frames: &[Value], stacks: &[Value]) {
    match value {
        Value::Array(parts) => parts.iter_mut().for_each(|part| put_lists(part, frames, stacks)),
        Value::Object(members) => {
            for (name, member) in members {
                if name != "stack" {
                    put_lists(member, frames, stacks);
                    continue;
                }
                let mut list = Vec::new();
                while let Some(number) = member.as_u64() {
                    let call = &stacks[number as usize];
                    assert!(call[0].as_u64().is_none_or(|caller| caller < number), "a caller comes first: {call}");
                    list.push(frames[call[1].as_u64().unwrap() as usize].clone());
                    *member = call[0].clone();
                }
                *member = list.into();
            }
        }
        _ => {}
    }
}

pub fn as_lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn frames(functions: &[&str]) -> Value {
    let frame = |(line, function): (usize, &&str)| json!({"function": function, "file": format!("/src/{function}.rs"), "line": line + 1, "module": "/bin/kitchen"});
    functions.iter().enumerate().map(frame).collect()
}

const SECOND: u64 = 1_000_000_000;

/// A short story with figures that are easy to add up:
///
/// | second | what happens | live |
/// |---|---|---|
/// | 1 | main bakes a Bread of 1000 bytes | 1000 |
/// | 2 | worker chops a Salad of 500 | 1500 |
/// | 3 | mark `loaded` | |
/// | 4 | main bakes 4000 | 5500, the peak |
/// | 5 | worker frees those: temporary, across threads | 1500 |
/// | 6 | worker's Salad grows to 800 and moves | 1800 |
/// | 7 | main frees the Bread | 800 |
/// | 8 | mark `all done` | |
/// | 10 | gauge `rss` is 4096 | |
pub fn kitchen() -> Vec<Value> {
    let bake = frames(&["bake", "cook", "main"]);
    let chop = frames(&["chop", "cook", "main"]);
    vec![
        json!({"event": "source", "program": "kitchen", "pid": 7, "host": "home"}),
        json!({"event": "thread", "thread": 1, "name": "main"}),
        json!({"event": "thread", "thread": 2, "name": "worker"}),
        json!({"event": "allocate", "address": "0x1000", "size": 1000, "thread": 1, "time_ns": SECOND, "stack": bake,
               "type": "Bread"}),
        json!({"event": "allocate", "address": "0x2000", "size": 500, "thread": 2, "time_ns": 2 * SECOND,
               "stack": chop, "type": "Salad"}),
        json!({"event": "mark", "name": "loaded", "thread": 1, "time_ns": 3 * SECOND}),
        json!({"event": "allocate", "address": "0x3000", "size": 4000, "thread": 1, "time_ns": 4 * SECOND,
               "stack": bake}),
        json!({"event": "deallocate", "address": "0x3000", "thread": 2, "time_ns": 5 * SECOND}),
        json!({"event": "reallocate", "old_address": "0x2000", "address": "0x4000", "size": 800, "thread": 2,
               "time_ns": 6 * SECOND, "stack": chop}),
        json!({"event": "deallocate", "address": "0x1000", "thread": 1, "time_ns": 7 * SECOND}),
        json!({"event": "mark", "name": "all done", "thread": 1, "time_ns": 8 * SECOND}),
        json!({"event": "gauge", "name": "rss", "value": 4096, "time_ns": 10 * SECOND}),
    ]
}

/// A directory with the kitchen's recording, `kitchen.hw`.
pub fn in_the_kitchen() -> Place {
    let place = Place::new();
    place.import("kitchen.hw", &kitchen());
    place
}
