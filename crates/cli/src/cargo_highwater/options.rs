//! The words of a command line: ours, and cargo's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What cargo is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Run,
    Test,
    Bench,
}

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub task: Task,
    /// Whether the viewer is opened.
    pub view: bool,
    /// The recording, if it was named.
    pub output: Option<PathBuf>,
    /// Options for `highwater record`.
    pub record: Vec<OsString>,
    /// Everything else, in its order.
    pub cargo: Vec<OsString>,
}

/// Our options with a value that is a file. Cargo runs tests in the folders of their packages, so these become absolute.
const FILES: [&str; 3] = ["--budget", "--baseline", "--suppressions"];
/// Options whose value names a file after a word: 'junit=budget.xml'.
const NAMED_FILES: [&str; 1] = ["--verdict"];
const VALUES: [&str; 5] = ["--allow", "--in", "--each", "--sample", "--rss-every"];
const FLAGS: [&str; 2] = ["--free-stacks", "--no-children"];

impl Options {
    /// True if programs are judged: by limits, or by earlier runs.
    pub fn has_limits(&self) -> bool {
        self.record
            .iter()
            .filter_map(|word| word.to_str())
            .any(|word| matches!(word, "--budget" | "--baseline") || word.starts_with("--max-"))
    }

    /// Reads the words after `cargo highwater`.
    pub fn read(words: &[OsString]) -> Result<Self, String> {
        let mut words = words.iter();
        let task = match words.next().map(|word| word.to_string_lossy().into_owned()).as_deref() {
            Some("run" | "r") => Task::Run,
            Some("test" | "t") => Task::Test,
            Some("bench") => Task::Bench,
            Some(other) => return Err(format!("there is no '{other}'; run, test and bench are known: see --help")),
            None => return Err("run, test or bench is missing".to_owned()),
        };
        let mut options = Self { task, view: false, output: None, record: Vec::new(), cargo: Vec::new() };
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            if text == "--" {
                options.cargo.push(word.clone());
                options.cargo.extend(words.by_ref().cloned());
                break;
            }
            let (name, value) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(OsString::from(value))),
                _ => (text.as_ref(), None),
            };
            let mut value_of =
                || value.clone().or_else(|| words.next().cloned()).ok_or_else(|| format!("{name} needs a value"));
            match name {
                "--view" => options.view = true,
                "-o" | "--output" => options.output = Some(absolute(value_of()?)?),
                _ if FILES.contains(&name) => {
                    let file = absolute(value_of()?)?;
                    options.record.extend([name.into(), file.into()]);
                }
                _ if NAMED_FILES.contains(&name) => {
                    let value = value_of()?;
                    let text = value.to_str().and_then(|text| text.split_once('='));
                    let value = match text.filter(|(_, file)| *file != "-") {
                        Some((format, file)) => {
                            let mut value = OsString::from(format!("{format}="));
                            value.push(absolute(file.into())?);
                            value
                        }
                        None => value,
                    };
                    options.record.extend([name.into(), value]);
                }
                _ if VALUES.contains(&name) || name.starts_with("--max-") => {
                    let value = value_of()?;
                    options.record.extend([name.into(), value]);
                }
                _ if FLAGS.contains(&name) => options.record.push(word.clone()),
                _ => options.cargo.push(word.clone()),
            }
        }
        if options.task == Task::Test && (options.view || options.output.is_some()) {
            return Err("tests are several programs: their recordings are in the folder 'highwater' of cargo's target directory, \
                        for 'highwater view'"
                .to_owned());
        }
        if options.has_limits() && options.task != Task::Run {
            let mut words = options.record.windows(2).filter(|words| words[0] == "--verdict");
            let file = words.find_map(|words| {
                let file = words[1].to_str()?.split_once('=')?.1;
                (file != "-" && !Path::new(file).is_dir()).then(|| file.to_owned())
            });
            if let Some(file) = file {
                return Err(format!(
                    "{file} is no folder: tests and benchmarks are several programs, and each has a verdict of its own there"
                ));
            }
        }
        if options.task == Task::Bench && options.output.is_some() {
            return Err("benchmarks may be several programs, and -o names one recording: each has its own in the folder 'highwater' of \
                        cargo's target directory"
                .to_owned());
        }
        Ok(options)
    }
}

fn absolute(file: OsString) -> Result<PathBuf, String> {
    std::path::absolute(&file).map_err(|error| format!("{}: {error}", file.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn each_word_goes_to_whom_it_is_for() {
        let options =
            read("run --release --max-peak 4MiB --bin app --sample=1KiB --view -- --max-peak 7 -o x").unwrap();
        assert_eq!(options.task, Task::Run);
        assert!(options.view && options.output.is_none());
        assert_eq!(options.record, ["--max-peak", "4MiB", "--sample", "1KiB"]);
        assert_eq!(options.cargo, ["--release", "--bin", "app", "--", "--max-peak", "7", "-o", "x"]);
    }

    #[test]
    fn files_do_not_depend_on_the_folder() {
        let options = read("test --budget b.toml -p x name").unwrap();
        let file = std::env::current_dir().unwrap().join("b.toml");
        assert_eq!(options.record, [OsString::from("--budget"), file.into()]);
        assert_eq!(options.cargo, ["-p", "x", "name"]);
        let options = read("test --verdict junit=out --verdict=github=-").unwrap();
        let folder = std::env::current_dir().unwrap().join("out");
        let junit = format!("junit={}", folder.display());
        assert_eq!(options.record, ["--verdict", &junit, "--verdict", "github=-"]);
        assert!(!options.has_limits() && read("test --max-peak 5").unwrap().has_limits());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert!(read("build").unwrap_err().contains("'build'"));
        assert!(read("run --budget").unwrap_err().contains("--budget needs a value"));
        assert!(read("test --view").unwrap_err().contains("several programs"));
        assert!(read("bench -o x.hw").unwrap_err().contains("several programs"));
        assert!(read("bench --view").unwrap().view);
        assert!(read("").unwrap_err().contains("missing"));
    }
}
