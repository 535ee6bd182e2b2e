//! The command line that `highwater image eval` passes.

use std::ffi::OsString;
use std::path::PathBuf;

const USAGE: &str = "usage: highwater-movm (IMAGE [--module FILE])… (--expression TEXT | --script FILE) [--parse] [--json] \
[--steps N] [--seconds N] [--memory BYTES]; 'highwater image eval' starts it";

/// An image, and its module.
#[derive(Debug)]
pub struct ImagePaths {
    /// The image.
    pub image: PathBuf,
    /// The module, if names of fields are wanted.
    pub module: Option<PathBuf>,
}

/// The options of one run: image, script, output and limits.
#[derive(Debug, Default)]
pub struct MovmOptions {
    /// The images; none are needed only to parse.
    pub images: Vec<ImagePaths>,
    /// The script's name in messages.
    pub name: String,
    /// The script.
    pub script: String,
    /// Print the syntax tree, and run nothing.
    pub parse: bool,
    /// Print a JSON document.
    pub json: bool,
    /// The most steps of the interpreter.
    pub steps: u64,
    /// The time limit in seconds.
    pub seconds: u64,
    /// The memory limit in bytes.
    pub memory: usize,
}

impl MovmOptions {
    /// Parses the command line; the error is one line.
    pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self { steps: 1_000_000_000, seconds: 60, memory: 1 << 30, ..Self::default() };
        let mut has_script = false;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| USAGE.to_owned());
            let number = |value: OsString| {
                value.to_str().and_then(|text| text.parse::<u64>().ok()).ok_or_else(|| USAGE.to_owned())
            };
            match argument.to_str() {
                Some("--expression") => {
                    options.script = value()?.into_string().map_err(|_| "the expression is not UTF-8".to_owned())?;
                    options.name = "expression".into();
                    has_script = true;
                }
                Some("--script") => {
                    let path = PathBuf::from(value()?);
                    options.script =
                        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                    options.name = path.display().to_string();
                    has_script = true;
                }
                Some("--module") => match options.images.last_mut() {
                    Some(paths) => paths.module = Some(value()?.into()),
                    None => return Err(USAGE.to_owned()),
                },
                Some("--steps") => options.steps = number(value()?)?,
                Some("--seconds") => options.seconds = number(value()?)?,
                Some("--memory") => options.memory = number(value()?)? as usize,
                Some("--parse") => options.parse = true,
                Some("--json") => options.json = true,
                Some(other) if other.starts_with("--") => return Err(USAGE.to_owned()),
                _ => options.images.push(ImagePaths { image: argument.into(), module: None }),
            }
        }
        if has_script && (options.parse || !options.images.is_empty()) { Ok(options) } else { Err(USAGE.to_owned()) }
    }
}
