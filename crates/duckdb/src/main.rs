//! `highwater-fleet`: answers one SQL question over a lake's files with DuckDB. `highwater fleet` starts it.
//!
//! It is a program of its own because the library is 70 MB that few users need, and because a question can take any memory, run for ever, or crash. One JSON request comes on
//! standard input, as one line, and one answer goes to standard output: see `protocol.rs` of the crate `highwater-fleet`.
//!
//! * [`library`] loads `libduckdb.so`; [`session`] sets limits and locks, and runs the text; [`value`] turns vectors into JSON.
//! * [`stop`] ends a question: after its time limit, on a signal, or when standard input is closed (`--watch`).

mod library;
mod request;
mod session;
mod stop;
mod value;

use library::Library;
use request::Request;
use serde_json::{Value, json};
use session::Session;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--version") => println!("highwater-fleet {}", env!("CARGO_PKG_VERSION")),
        Some("--library") => match Library::load() {
            Ok((_, version, path)) => println!("DuckDB {version} {}", path.display()),
            Err(line) => {
                eprintln!("{line}");
                return ExitCode::FAILURE;
            }
        },
        None | Some("--watch") => {
            let answer = answer(!arguments.is_empty()).unwrap_or_else(|line| json!({ "error": one_line(&line) }));
            return print(&answer);
        }
        Some(other) => {
            eprintln!("'{other}' is no option: --watch, --library and --version are");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Prints the answer; fails if it is an error or cannot be printed.
fn print(answer: &Value) -> ExitCode {
    let mut output = std::io::stdout().lock();
    let is_printed = writeln!(output, "{answer}").and_then(|()| output.flush()).is_ok();
    if is_printed && answer["error"].is_null() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn answer(is_watched: bool) -> Result<Value, String> {
    stop::block_signals();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| format!("the request cannot be read: {error}"))?;
    let request = Request::parse(&line)?;
    let (library, ..) = Library::load()?;
    // Both live as long as the process, as threads of DuckDB and of ours refer to them.
    let library: &'static Library = Box::leak(Box::new(library));
    let session: &'static Session = Box::leak(Box::new(Session::open(library)?));
    let temporary = Temporary::new();
    stop::watch(session, request.seconds, is_watched, temporary.0.clone());
    let done = session.prepare(&request, &temporary.0).and_then(|()| session.answer(&request));
    done.map_err(|line| stop::reason(request.seconds).unwrap_or(line))
}

/// The folder for what does not fit into memory. DuckDB makes it when it needs it.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("highwater-fleet-{}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// DuckDB explains errors over several lines: the first has the reason. An excerpt of the text with a mark below it is left out.
fn one_line(text: &str) -> String {
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("LINE ") && !line.starts_with("Possible solutions"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    let length = line.char_indices().nth(600).map_or(line.len(), |(at, _)| at);
    line[..length].to_owned()
}
