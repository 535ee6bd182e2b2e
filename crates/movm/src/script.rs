//! Parses a script and steps through it.

use crate::image_value::ImageValue;
use crate::limits::{enforce, note_position, position};
use crate::objects::HeapObjects;
use crate::options::MovmOptions;
use crate::show::{show, text_of};
use highwater_image::{Image, Sidecar, WasmModule};
use motoko::Dynamic;
use motoko::ast::{Prog, Source};
use motoko::parser_types::SyntaxError;
use motoko::vm_types::{ActiveBorrow, Core, Interruption, Limit, Limits};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs a script; returns the text to print, or an error of one line.
pub fn run(options: &MovmOptions) -> Result<String, String> {
    std::panic::set_hook(Box::new(|_| {}));
    let image = match (&options.image, options.parse) {
        (Some(path), false) => Some(open(path)?),
        _ => None,
    };
    let mapped = image.map_or(0, Image::len);
    enforce(&options.name, options.memory, options.seconds, mapped);
    let program = parse(options)?;
    let Some(image) = image else { return Ok(format!("{program:#?}")) };
    let objects = HeapObjects::new(image, sidecar(options), module(options)?);
    let mut core = Core::new(program);
    if options.script.contains("import") {
        // Loaded only if needed: reading the library takes a while.
        let loaded = catch_unwind(AssertUnwindSafe(|| core.load_base()));
        if !matches!(loaded, Ok(Ok(()))) {
            return Err(format!("{}: the base library cannot be read", options.name));
        }
    }
    core.assign("image", ImageValue::new(image, objects).into_value());
    let lines = options.script.lines().count();
    let ended = catch_unwind(AssertUnwindSafe(|| step_through(&mut core, options.steps, lines)));
    let printed: Vec<String> = core.debug_print_out.iter().map(|line| text_of(&line.text)).collect();
    let value = match ended {
        Ok(Ok(value)) => value,
        Ok(Err(why)) => return Err(failed(&printed, &why)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            return Err(failed(&printed, &format!("the interpreter gave up: {}", one_line(text))));
        }
    };
    if options.json {
        return Ok(json!({"result": value, "printed": printed}).to_string());
    }
    Ok(printed.into_iter().chain([value]).collect::<Vec<_>>().join("\n"))
}

/// An error line with the position in the script. Prints the script's output first.
fn failed(printed: &[String], why: &str) -> String {
    printed.iter().for_each(|line| println!("{line}"));
    format!("{}: {why}", position())
}

/// Reads the image, which lives as long as the process.
fn open(path: &Path) -> Result<&'static Image, String> {
    let image = Image::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Box::leak(Box::new(image)))
}

fn sidecar(options: &MovmOptions) -> Sidecar {
    options.image.as_deref().map_or_else(Sidecar::default, Sidecar::read_lossy)
}

fn module(options: &MovmOptions) -> Result<Option<WasmModule>, String> {
    let Some(path) = &options.module else { return Ok(None) };
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    WasmModule::parse(&bytes).map(Some).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn parse(options: &MovmOptions) -> Result<Prog, String> {
    let parsed = catch_unwind(AssertUnwindSafe(|| motoko::parse(&options.script)));
    match parsed {
        Ok(Ok(program)) => Ok(program),
        Ok(Err(error)) => Err(syntax_line(options, &error)),
        Err(_) => Err(format!("{}: the parser gave up", options.name)),
    }
}

fn syntax_line(options: &MovmOptions, error: &SyntaxError) -> String {
    let (offset, what) = match error {
        SyntaxError::InvalidToken { location } => (Some(*location), "this cannot be read".to_owned()),
        SyntaxError::UnrecognizedEOF { location, .. } => (Some(*location), "it ends too early".to_owned()),
        SyntaxError::UnrecognizedToken { token, start, .. } | SyntaxError::ExtraToken { token, start, .. } => {
            (Some(*start), format!("'{token}' is not expected"))
        }
        SyntaxError::Custom { message } => (None, one_line(message)),
    };
    if let Some(before) = offset.and_then(|offset| options.script.get(..offset)) {
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(1, |last| last.chars().count() + 1);
        note_position(line, column);
    }
    format!("{}: syntax: {what}", position())
}

/// Steps to the end; returns the value, or the reason why there is none.
fn step_through(core: &mut Core, steps: usize, lines: usize) -> Result<String, String> {
    let limits = Limits::none().step(steps);
    loop {
        // Positions in the base library are not positions in the script.
        if let Source::Known(known) = ActiveBorrow::cont_source(core)
            && known.line <= lines
        {
            note_position(known.line, known.col);
        }
        match core.step(&limits) {
            Ok(_) => {}
            Err(Interruption::Done(value)) => return Ok(show(core, &value)),
            Err(interruption) => return Err(in_words(&interruption, steps)),
        }
    }
}

fn in_words(interruption: &Interruption, steps: usize) -> String {
    match interruption {
        Interruption::Limit(Limit::Step) => format!("did not end within {steps} steps"),
        Interruption::Other(line) => line.clone(),
        Interruption::UnboundIdentifer(name) => format!("nothing is called '{}'", name.string.as_str()),
        Interruption::TypeMismatch(_) => "a value of another type is needed here".into(),
        Interruption::DivideByZero => "a division by zero".into(),
        Interruption::IndexOutOfBounds => "an index beyond the end".into(),
        Interruption::AssertionFailure => "an assertion failed".into(),
        Interruption::NoMatchingCase => "no case matches".into(),
        Interruption::ModuleFileNotFound(_) => "there is nothing to import here".into(),
        Interruption::NotYetImplemented(..) => "the interpreter does not know how to do this yet".into(),
        other => one_line(&format!("{other:?}")),
    }
}

fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
