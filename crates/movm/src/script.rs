//! Parses a script and runs it over its images.

use crate::image_value::ImageValue;
use crate::limits::{enforce, note_position, position};
use crate::machine::Machine;
use crate::open::open;
use crate::options::MovmOptions;
use crate::show::{Style, show};
use crate::syntax::ast::Declaration;
use crate::syntax::parse;
use crate::value::{Stop, Value};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Runs a script, which may use `stack` bytes of the stack; returns the text to print, or an error of one line.
pub fn run(options: &MovmOptions, stack: usize) -> Result<String, String> {
    std::panic::set_hook(Box::new(|_| {}));
    let images = if options.parse { &[][..] } else { &options.images };
    let images = images.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    enforce(&options.name, options.memory, options.seconds, images.iter().map(ImageValue::mapped).sum());
    let program = parsed(options)?;
    if options.parse {
        return Ok(format!("{program:#?}"));
    }
    let images: Vec<Value> = images.into_iter().map(|image| Value::Host(Rc::new(image))).collect();
    let mut bound = vec![("images", Value::array(images.clone()))];
    bound.extend(images.into_iter().next().map(|image| ("image", image)));
    let mut machine = Machine::new(options.steps, stack);
    let ended = catch_unwind(AssertUnwindSafe(|| machine.run(bound, &program)));
    let printed = std::mem::take(&mut machine.printed);
    let value = match ended {
        Ok(Ok(value)) => value,
        Ok(Err(stop)) => return Err(failed(&printed, &in_words(stop))),
        Err(_) => return Err(failed(&printed, "the interpreter gave up")),
    };
    let result = show(&value, Style::Result);
    let is_unit = matches!(value, Value::Unit);
    // The process ends now: long chains of values need not be taken apart.
    std::mem::forget((value, machine, program));
    if options.json {
        return Ok(json!({"result": result, "printed": printed}).to_string());
    }
    // A script that ends with a print has no other result.
    let result = Some(result).filter(|_| !is_unit || printed.is_empty());
    Ok(printed.into_iter().chain(result).collect::<Vec<_>>().join("\n"))
}

/// An error line with the position in the script. Prints the script's output first.
fn failed(printed: &[String], why: &str) -> String {
    printed.iter().for_each(|line| println!("{line}"));
    format!("{}: {why}", position())
}

fn parsed(options: &MovmOptions) -> Result<Vec<Declaration>, String> {
    parse(&options.script).map_err(|problem| {
        note_position(problem.at.line as usize, problem.at.column as usize);
        format!("{}: syntax: {}", position(), problem.what)
    })
}

fn in_words(stop: Stop) -> String {
    match stop {
        Stop::Trap(line) => one_line(&line),
        Stop::Break(Some(label), _) | Stop::Continue(Some(label)) => format!("no loop has the label '{label}'"),
        Stop::Break(None, _) | Stop::Continue(None) => "'break' and 'continue' stand in a loop".into(),
        Stop::Return(_) => "'return' stands in a function; the last expression of a script is its result".into(),
        Stop::Absent => "'!' stands in do ? { … }".into(),
    }
}

fn one_line(text: &str) -> String {
    const LONGEST: usize = 400;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
