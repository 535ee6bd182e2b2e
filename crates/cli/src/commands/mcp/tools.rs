//! The tools, and how their arguments become words of the command line.
//!
//! A tool is a command with some of its options. Names, descriptions and values of its arguments are those of the command's own definition, so that
//! tools and commands cannot differ.

use crate::args::CommandLine;
use crate::failure::Failure;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, CommandFactory};
use serde_json::{Map, Value, json};
use std::any::TypeId;
use std::ffi::OsString;

/// A tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it answers, and when to use it.
    about: &'static str,
    /// The command that answers.
    pub command: &'static str,
    /// Options that are always given.
    pub always: &'static [&'static str],
    /// What it is asked about.
    pub subject: Subject,
    /// The command's options that are arguments of the tool.
    options: &'static [&'static str],
    /// The calls that may come next.
    pub next: &'static [NextCall],
}

/// What a tool is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The permitted folders.
    Folders,
    /// What a file is.
    Overview,
    /// One file.
    File,
    /// One file, and limits on it.
    Budget,
    /// Two files, or two instants of one.
    TwoFiles,
    /// A program to run.
    Program,
}

/// A call that may come next, about the same file.
#[derive(Debug)]
pub struct NextCall {
    /// The tool.
    pub tool: &'static str,
    /// Its other arguments, as JSON members.
    pub arguments: &'static [(&'static str, &'static str)],
    /// What it answers.
    pub why: &'static str,
}

const fn next(tool: &'static str, arguments: &'static [(&'static str, &'static str)], why: &'static str) -> NextCall {
    NextCall { tool, arguments, why }
}

const GROWTH: NextCall = next("growth", &[], "what grows steadily: the sites of a leak come first");
const LEAKS: NextCall = next("leaks", &[], "what is still live at the end");
const STACKS: NextCall = next("leaks", &[("stacks", "full")], "the whole call stacks of what is live at the end");
const TIMELINE: NextCall = next("timeline", &[], "live memory over time");
const PEAK: NextCall = next("report", &[("at", "peak")], "who held the memory when there was most");
const TYPES: NextCall = next("types", &[], "which types hold the memory");

/// What comes after a look at a snapshot or an image, which has no history.
pub const AFTER_A_SNAPSHOT: &[NextCall] =
    &[next("report", &[("by", "function")], "functions, with all that they called"), TYPES];
/// What comes after a list of files.
pub const OPEN: NextCall = next("open", &[], "what the file is, and who held the memory at its peak");

/// All tools. The last one only with `--allow-record`.
pub static TOOLS: [Tool; 13] = [
    Tool {
        name: "list_files",
        about: "The recordings (.hw) below the permitted folders, latest first. Begin here.",
        command: "",
        always: &[],
        subject: Subject::Folders,
        options: &[],
        next: &[],
    },
    Tool {
        name: "open",
        about: "What a file is: program, length, marks; peak and live memory, and who held the most at the peak. A recording, a snapshot, or the \
                file of another tool (heaptrack, memray, massif, DHAT, pprof, V8, HPROF, memtrace and more). Ask this first of a file.",
        command: "report",
        always: &["--top=5"],
        subject: Subject::Overview,
        options: &[],
        next: &[GROWTH, LEAKS, PEAK, TIMELINE],
    },
    Tool {
        name: "report",
        about: "Who holds the memory at an instant, biggest first: by call site, function, type, thread and more. With 'from' and 'to', what happened \
                in that window.",
        command: "report",
        always: &[],
        subject: Subject::File,
        options: &["at", "from", "to", "by", "metric", "filter", "top", "stacks", "lifetimes", "json"],
        next: &[GROWTH, LEAKS],
    },
    Tool {
        name: "leaks",
        about: "What is still live at the end, by call site, biggest first, with its age. Not all of it is a leak: caches and globals live as long \
                as their program; 'growth' tells them apart.",
        command: "leaks",
        always: &[],
        subject: Subject::File,
        options: &["at", "by", "filter", "top", "stacks", "json"],
        next: &[GROWTH, STACKS],
    },
    Tool {
        name: "growth",
        about: "What grows steadily, by call site, fastest first: the curve of a leak is a line, and its steadiness is near 100 %. The best question \
                for a leak.",
        command: "growth",
        always: &[],
        subject: Subject::File,
        options: &["by", "from", "to", "filter", "top", "stacks", "json"],
        next: &[STACKS, TYPES],
    },
    Tool {
        name: "diff",
        about: "What grew, shrank, came and went between two instants of one file, or between two files.",
        command: "diff",
        always: &["--no-debuginfod"],
        subject: Subject::TwoFiles,
        options: &["by", "filter", "top", "stacks", "json"],
        next: &[GROWTH],
    },
    Tool {
        name: "timeline",
        about: "Live memory over time, as a chart with the program's marks; with 'by', who held it.",
        command: "timeline",
        always: &[],
        subject: Subject::File,
        options: &["by", "top", "filter", "width", "height"],
        next: &[PEAK, GROWTH],
    },
    Tool {
        name: "types",
        about: "Which types hold the memory: bytes, blocks, elements and slack by type.",
        command: "report",
        always: &["--by=type"],
        subject: Subject::File,
        options: &["at", "from", "to", "metric", "filter", "top", "json"],
        next: &[PEAK, GROWTH],
    },
    Tool {
        name: "blocks",
        about: "The largest single blocks, with their numbers; with 'id' or 'address', the life of one block: who allocated, resized and freed it.",
        command: "block",
        always: &[],
        subject: Subject::File,
        options: &["id", "address", "at", "ever", "top", "filter", "stacks", "json"],
        next: &[LEAKS],
    },
    Tool {
        name: "rss",
        about: "Why the process took as much resident memory as it did, in rows that add up to its RSS: live blocks, free memory in the allocator, \
                mappings, stacks, files; and what would reduce it.",
        command: "rss",
        always: &["--no-debuginfod"],
        subject: Subject::File,
        options: &["at", "pinned", "by", "top", "stacks", "json"],
        next: &[PEAK],
    },
    Tool {
        name: "check",
        about: "Whether a file is whole and obeys the laws of memory. Ask this if an answer warns of damage.",
        command: "check",
        always: &[],
        subject: Subject::File,
        options: &["json"],
        next: &[],
    },
    Tool {
        name: "budget",
        about: "Whether a recording keeps limits on its memory: what breaks them, by how much, and which call sites did it. Limits are arguments, or \
                those of a project's highwater.toml, or the figures of earlier runs.",
        command: "check",
        always: &[],
        subject: Subject::Budget,
        options: &[
            "max-peak",
            "max-leaked",
            "max-leaked-blocks",
            "max-allocated",
            "max-allocations",
            "max-temporary",
            "max-rss",
            "max-growth",
            "each",
            "in",
            "allow",
            "json",
        ],
        next: &[],
    },
    Tool {
        name: "record",
        about: "Runs a program and records its memory: every allocation with its call stack. Answers when the program has ended, or after 'seconds', \
                when it is asked to end.",
        command: "record",
        always: &["--no-debuginfod"],
        subject: Subject::Program,
        options: &["sample", "free-stacks", "no-children"],
        next: &[],
    },
];

/// The longest that a program may be recorded, and the default, in seconds.
pub const SECONDS: (u64, u64) = (600, 60);
/// The number of files in a list, unless another one is wanted.
pub const LISTED: u64 = 50;

impl Tool {
    /// True if it runs programs.
    pub fn is_record(&self) -> bool {
        self.subject == Subject::Program
    }

    /// The tool as `tools/list` has it.
    pub fn description(&self) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for argument in self.own_arguments() {
            if argument.is_required {
                required.push(argument.name);
            }
            properties.insert(argument.name.to_owned(), argument.schema);
        }
        for option in self.options() {
            properties.insert(option.name.to_owned(), option.schema());
        }
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "annotations": {
                "readOnlyHint": !self.is_record(),
                "destructiveHint": self.is_record(),
                "idempotentHint": !self.is_record(),
                "openWorldHint": self.is_record(),
            },
        })
    }

    /// The arguments that are not options of the command.
    fn own_arguments(&self) -> Vec<OwnArgument> {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let required = |name, schema| OwnArgument { name, schema, is_required: true };
        let optional = |name, schema| OwnArgument { name, schema, is_required: false };
        let texts = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
        let when = "The instant in that file: start, peak, rss-peak, end (the default), a time (12.5s), a part (80%) or mark:NAME";
        match self.subject {
            Subject::Folders => vec![
                optional("name", text("Only files with this text in their path")),
                optional(
                    "all",
                    json!({ "type": "boolean", "description": "All files, not only .hw: 'open' reads those of many other tools" }),
                ),
                optional(
                    "top",
                    json!({ "type": "integer", "minimum": 1, "description": format!("How many files [default: {LISTED}]") }),
                ),
            ],
            Subject::Overview | Subject::File => vec![required("file", text("The file, as list_files names it"))],
            Subject::Budget => vec![
                required("file", text("The file, as list_files names it")),
                optional("budget_file", text("A file with limits, usually highwater.toml, below a permitted folder")),
                optional("baseline", texts("Recordings of earlier runs to compare with, below a permitted folder")),
                optional("suppressions", texts("Files of leaks that are accepted, below a permitted folder")),
            ],
            Subject::TwoFiles => vec![
                required("before", text("The file with the earlier state")),
                optional("before_at", text(when)),
                required("after", text("The file with the later state; may be the same")),
                optional("after_at", text(when)),
            ],
            Subject::Program => vec![
                required(
                    "program",
                    text(
                        "The program: a path, or a name that is looked up in PATH. It runs in the permitted folder of 'output'",
                    ),
                ),
                optional("arguments", texts("The program's arguments")),
                required(
                    "output",
                    text(
                        "The new recording, below a permitted folder: a name that ends with .hw, of no file that exists",
                    ),
                ),
                optional(
                    "seconds",
                    json!({ "type": "integer", "minimum": 1, "maximum": SECONDS.0,
                        "description": format!("After how many seconds the program is asked to end [default: {}]", SECONDS.1) }),
                ),
            ],
        }
    }

    /// The options of the command that are arguments.
    fn options(&self) -> Vec<ToolOption> {
        let commands = CommandLine::command();
        let command = commands.find_subcommand(self.command);
        let find = |&name: &&'static str| {
            let arg = command.and_then(|command| command.get_arguments().find(|arg| arg.get_long() == Some(name)));
            arg.map(|arg| ToolOption { name, arg: arg.clone() })
        };
        self.options.iter().filter_map(find).collect()
    }

    /// The words of the options among the arguments. Fails if an argument is none of the tool's.
    pub fn words(&self, arguments: &Map<String, Value>) -> Result<Vec<OsString>, Failure> {
        let mut words = vec![self.command.into()];
        words.extend(self.always.iter().map(OsString::from));
        let (own, options) = (self.own_arguments(), self.options());
        for (name, value) in arguments {
            let name = name.as_str();
            if own.iter().any(|argument| argument.name == name) || value.is_null() {
                continue;
            }
            let Some(option) = options.iter().find(|option| option.name == name) else {
                let known = own.iter().map(|one| one.name).chain(options.iter().map(|one| one.name));
                let known: Vec<&str> = known.collect();
                return Err(Failure::fault(format_args!(
                    "{} has no argument '{name}'; it has {}",
                    self.name,
                    known.join(", ")
                )));
            };
            words.extend(option.words(value)?);
        }
        Ok(words)
    }
}

/// An argument that is no option of the command.
struct OwnArgument {
    name: &'static str,
    schema: Value,
    is_required: bool,
}

/// An option of a command.
struct ToolOption {
    name: &'static str,
    arg: Arg,
}

impl ToolOption {
    fn is_flag(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::SetTrue)
    }

    fn is_list(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::Append)
    }

    fn is_number(&self) -> bool {
        let is = |parser: &ValueParser, id: TypeId| parser.type_id() == id;
        let numbers = [TypeId::of::<usize>(), TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<u16>()];
        // The numbers that a parser of our own makes are written as texts, such as sizes and addresses.
        let is_own = matches!(self.name, "address" | "sample");
        !is_own && numbers.into_iter().any(|id| is(self.arg.get_value_parser(), id))
    }

    fn schema(&self) -> Value {
        let mut about = self.arg.get_help().map(ToString::to_string).unwrap_or_default();
        let values = self.arg.get_possible_values();
        let mut schema = match () {
            () if self.is_flag() => return json!({ "type": "boolean", "description": about }),
            () if self.is_list() => json!({ "type": "array", "items": { "type": "string" } }),
            () if self.is_number() => json!({ "type": "integer", "minimum": 0 }),
            () => json!({ "type": "string" }),
        };
        let explained: Vec<String> = values
            .iter()
            .map(|value| match value.get_help() {
                Some(help) => format!("{}: {help}", value.get_name()),
                None => value.get_name().to_owned(),
            })
            .collect();
        if !values.is_empty() {
            schema["enum"] = values.iter().map(clap::builder::PossibleValue::get_name).collect();
            about = format!("{about}. {}", explained.join("; "));
        }
        if let [default] = self.arg.get_default_values()
            && !self.is_number()
        {
            about = format!("{about} [default: {}]", default.to_string_lossy());
        }
        schema["description"] = about.into();
        schema
    }

    /// The option as words: `--name=value`, so that a value is never taken for an option.
    fn words(&self, value: &Value) -> Result<Vec<OsString>, Failure> {
        let wrong = |what: &str| Err(Failure::fault(format_args!("'{}' must be {what}", self.name)));
        let word = |text: &str| OsString::from(format!("--{}={text}", self.name));
        match value {
            Value::Bool(true) if self.is_flag() => Ok(vec![format!("--{}", self.name).into()]),
            Value::Bool(false) if self.is_flag() => Ok(Vec::new()),
            _ if self.is_flag() => wrong("true or false"),
            Value::Array(texts) if self.is_list() => texts
                .iter()
                .map(|text| match text.as_str() {
                    Some(text) => Ok(word(text)),
                    None => Err(Failure::fault(format_args!("'{}' must be a list of texts", self.name))),
                })
                .collect(),
            Value::String(text) => Ok(vec![word(text)]),
            Value::Number(number) if !self.is_list() && number.is_u64() => Ok(vec![word(&number.to_string())]),
            _ if self.is_list() => wrong("a list of texts"),
            _ if self.is_number() => wrong("a whole number"),
            _ => wrong("a text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(tool: &str, arguments: Value) -> Result<Vec<String>, String> {
        let tool = TOOLS.iter().find(|one| one.name == tool).unwrap();
        let words = tool.words(arguments.as_object().unwrap());
        words
            .map(|words| words.into_iter().map(|word| word.into_string().unwrap()).collect())
            .map_err(|failure| failure.line().unwrap().to_owned())
    }

    #[test]
    fn every_option_is_one_of_its_command_and_every_argument_is_described() {
        for tool in &TOOLS {
            assert_eq!(tool.options().len(), tool.options.len(), "{}: {:?}", tool.name, tool.options);
            let description = tool.description();
            for (name, schema) in description["inputSchema"]["properties"].as_object().unwrap() {
                assert!(schema["description"].as_str().is_some_and(|text| text.len() > 10), "{}: {name}", tool.name);
                assert!(schema["type"].is_string(), "{}: {name}", tool.name);
            }
            for next in tool.next.iter().chain(AFTER_A_SNAPSHOT) {
                let properties = &TOOLS.iter().find(|one| one.name == next.tool).unwrap().description()["inputSchema"];
                for (name, _) in next.arguments {
                    assert!(properties["properties"][name].is_object(), "{}: {name}", next.tool);
                }
            }
        }
    }

    #[test]
    fn schemas_have_the_types_of_the_options() {
        let report = TOOLS.iter().find(|one| one.name == "report").unwrap().description();
        let properties = &report["inputSchema"]["properties"];
        for (name, kind) in [("at", "string"), ("top", "integer"), ("filter", "array"), ("lifetimes", "boolean")] {
            assert_eq!(properties[name]["type"], kind, "{name}");
        }
        assert!(properties["by"]["enum"].as_array().unwrap().contains(&"function".into()));
    }

    #[test]
    fn arguments_become_words_that_cannot_be_other_options() {
        let given = json!({ "file": "a.hw", "at": "--strict", "top": 3, "filter": ["a", "!b"], "lifetimes": true });
        let expected = ["report", "--at=--strict", "--filter=a", "--filter=!b", "--lifetimes", "--top=3"];
        assert_eq!(words("report", given).unwrap(), expected);
        assert_eq!(words("types", json!({ "file": "a.hw", "top": null })).unwrap(), ["report", "--by=type"]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert!(words("leaks", json!({ "output": "a.hw" })).unwrap_err().contains("no argument 'output'"));
        assert!(words("leaks", json!({ "top": -1 })).unwrap_err().contains("a whole number"));
        assert!(words("leaks", json!({ "filter": 7 })).unwrap_err().contains("a list of texts"));
        assert!(words("leaks", json!({ "filter": [7] })).unwrap_err().contains("a list of texts"));
        assert!(words("blocks", json!({ "ever": "yes" })).unwrap_err().contains("true or false"));
        assert!(words("leaks", json!({ "at": {} })).unwrap_err().contains("a text"));
    }
}
