//! `highwater image eval`: runs a Motoko script over images, in a separate process.

use super::latest;
use super::script_program::{PROGRAM, SCRIPTS};
use crate::failure::{Failure, reason};
use crate::output::{Output, say};
use crate::print::text::printable;
use crate::size::parse_bytes;
use clap::Args;
use highwater_formats::json;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The arguments of `highwater image eval`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater image eval --install                      once: builds its program
  highwater image eval 'image.size()' -f app.img
  highwater image eval 'image.count(\"Object\")'      of the image pulled last
  highwater image eval 'image.find(\"owner-17\")'
  highwater image eval 'images[1].size() - images[0].size()' -f a.img -f b.img
  highwater image eval -s largest.mo -f app.img
  highwater image eval -p '1 + 2'                     how it is parsed

'image' is the first image, 'images' is the array of all. An image has size(), [i], nat8(i), nat16(i), nat32(i), nat64(i), \
vals(), slice(i, n), text(i), find(text or blob), pages(), kinds(), objects(kind), count(kind), field(object, name), \
retained(object) and name(). The result is the value of the last expression.

A script is Motoko without actors: functions, classes, loops, 'switch', 'debug_show', and Array, Blob, Bool, Buffer, Char, \
Debug, Float, HashMap, Int, Iter, List, Map, Nat, Nat8 …, Option, Result, Set, Text, TrieMap of mo:base and mo:core. \
It runs in highwater-movm, under limits of its own. That program lies beside highwater or in the user's cache; HIGHWATER_MOVM \
names another one.")]
pub struct EvalArgs {
    /// The script itself
    #[arg(value_name = "SCRIPT", required_unless_present_any = ["script", "install"], conflicts_with = "script")]
    expression: Option<String>,
    /// A file with the script
    #[arg(short, long, value_name = "FILE.mo")]
    script: Option<PathBuf>,
    /// An image; several are images[0], images[1] … [default: the one that was pulled or captured last]
    #[arg(short, long = "file", value_name = "IMAGE")]
    files: Vec<PathBuf>,
    /// The module that an image is of, in the order of the images: names of fields [default: the one that lies with it]
    #[arg(long = "module", value_name = "MODULE.wasm")]
    modules: Vec<PathBuf>,
    /// Print how the script is parsed, and run nothing
    #[arg(short, long)]
    parse: bool,
    /// Steps that the script may take
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    steps: u64,
    /// Seconds that it may take
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Memory that it may take, besides the images [default: 1GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Print one JSON document ("schema": 2) instead of text
    #[arg(long, conflicts_with = "parse")]
    json: bool,
    /// Build highwater-movm, which runs scripts, with cargo, and install it in the user's cache
    #[arg(long, conflicts_with_all = ["expression", "script", "files", "modules", "parse", "json"])]
    install: bool,
    /// The checkout of Highwater to build it from [default: the one around the current directory, or the one that highwater was built from]
    #[arg(long, value_name = "DIR", requires = "install")]
    from: Option<PathBuf>,
}

/// The reason, from the interpreter's last output before a signal killed it. Empty if that shows none: any process may have sent the signal.
fn why_killed(said: &str) -> &'static str {
    if said.contains("overflowed its stack") {
        return ": the script nests too deeply";
    }
    if said.contains("memory allocation of") { ": it got no more memory" } else { "" }
}

impl EvalArgs {
    /// Runs the script, and prints its result.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if self.install {
            let program = SCRIPTS.install(self.from.as_deref())?;
            return output.text(&format!("{} runs scripts now\n", program.display()));
        }
        let program = SCRIPTS.find()?;
        let mut command = Command::new(&program);
        let images = if self.parse { Vec::new() } else { self.images()? };
        for (index, image) in images.iter().enumerate() {
            command.arg(image);
            if let Some(module) = self.modules.get(index) {
                command.arg("--module").arg(module);
            }
        }
        match (&self.expression, &self.script) {
            (Some(text), _) => command.arg("--expression").arg(text),
            (None, Some(path)) => command.arg("--script").arg(path),
            (None, None) => return Err(Failure::Usage("there is no script".into())),
        };
        command.args(self.parse.then_some("--parse")).args(self.json.then_some("--json"));
        command.arg("--steps").arg(self.steps.to_string()).arg("--seconds").arg(self.seconds.to_string());
        command.arg("--memory").arg(self.memory.unwrap_or(1 << 30).to_string());
        let ended = command.stdin(Stdio::null()).output();
        let ended =
            ended.map_err(|error| Failure::in_file(&program, format_args!("cannot be started: {}", reason(&error))))?;
        if ended.status.success() {
            return self.print(output, &images, &ended.stdout);
        }
        output.bytes(&ended.stdout)?;
        let said = String::from_utf8_lossy(&ended.stderr);
        let mut lines = said.lines().filter(|line| !line.trim().is_empty());
        match (lines.next(), ended.status.signal()) {
            (_, Some(signal)) => {
                let script =
                    self.script.as_deref().map_or_else(|| "expression".into(), |path| path.display().to_string());
                let why = why_killed(&said);
                Err(Failure::fault(format_args!("{script}: the interpreter was ended by signal {signal}{why}")))
            }
            (Some(line), None) => Err(Failure::fault(line)),
            (None, None) => Err(Failure::fault(format_args!("{} ended without a word", program.display()))),
        }
    }

    fn print(&self, output: &mut Output, images: &[PathBuf], printed: &[u8]) -> Result<(), Failure> {
        if !self.json {
            let text = String::from_utf8_lossy(printed);
            return text.lines().try_for_each(|line| output.text(&format!("{}\n", printable(line))));
        }
        let mut document: Value = serde_json::from_slice(printed)
            .map_err(|error| Failure::fault(format_args!("{PROGRAM} said something that is no JSON: {error}")))?;
        document["schema"] = json::SCHEMA.into();
        document["command"] = "image eval".into();
        document["file"] = json!(images.first());
        document["files"] = json!(images);
        output.json(document)
    }

    fn images(&self) -> Result<Vec<PathBuf>, Failure> {
        if self.modules.len() > self.files.len().max(1) {
            return Err(Failure::Usage("there are more modules than images".into()));
        }
        if !self.files.is_empty() {
            return Ok(self.files.clone());
        }
        let Some(latest) = latest::recall() else {
            return Err(Failure::fault("no image was pulled yet; name one with -f"));
        };
        if !latest.exists() {
            return Err(Failure::in_file(&latest, "is gone: it was pulled last; name another one with -f"));
        }
        say(&format!("the image that came last: {}", latest.display()));
        Ok(vec![latest])
    }
}

#[cfg(test)]
mod tests {
    use super::why_killed;

    #[test]
    fn the_reason_of_a_signal_is_what_the_interpreter_said() {
        assert_eq!(why_killed("thread 'main' has overflowed its stack\n"), ": the script nests too deeply");
        assert_eq!(why_killed("memory allocation of 99 bytes failed\n"), ": it got no more memory");
        assert_eq!(why_killed("Terminated"), "");
    }
}
