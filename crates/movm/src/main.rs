//! `highwater-movm`: runs a Motoko script over memory images. `highwater image eval` starts it.
//!
//! A script can run for ever and ask for any amount of memory. So it runs here, in its own process, under limits ([`limits`]). Whatever ends it is reported in
//! one line, with the position in the script.
//!
//! * [`script`] runs a script over the images that [`open`] opened: [`syntax`] parses it, [`machine`] evaluates it, [`base`] is its library, [`show`] prints
//!   its result.
//! * [`value`], [`number`] and [`compare`] are the values; [`image_value`] is `image`, and [`objects`] finds the objects of its heap.

mod base;
mod compare;
mod image_value;
mod limits;
mod machine;
mod number;
mod objects;
mod open;
mod options;
mod script;
mod show;
mod syntax;
mod value;

use options::MovmOptions;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: limits::LimitedAllocator = limits::LimitedAllocator;

/// The size of the interpreter's stack: it recurses with the nesting of a script.
const STACK: usize = 512 << 20;
/// The part of it that a script may use; the rest is for native functions.
const USABLE: usize = STACK - (16 << 20);

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == "--version") {
        println!("highwater-movm {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let options = match MovmOptions::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(line) => return fail(&line, 2),
    };
    let running = std::thread::Builder::new().stack_size(STACK).spawn(move || script::run(&options, USABLE));
    let done = running.map(|running| running.join().unwrap_or_else(|_| Err("the interpreter panicked".into())));
    match done {
        Ok(Ok(text)) => {
            use std::io::Write;
            let mut output = std::io::stdout().lock();
            let _ = writeln!(output, "{text}").and_then(|()| output.flush());
            ExitCode::SUCCESS
        }
        Ok(Err(line)) => fail(&line, 1),
        Err(error) => fail(&error.to_string(), 1),
    }
}

fn fail(line: &str, code: u8) -> ExitCode {
    eprintln!("{line}");
    ExitCode::from(code)
}
