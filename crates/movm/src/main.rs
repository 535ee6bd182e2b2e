//! `highwater-movm`: runs a Motoko script with `image` bound to a memory image. `highwater image eval` starts it.
//!
//! The interpreter (crate `motoko`) panics on some programs, never ends on others, and has no memory limit. So it runs here, in its own process, under
//! limits ([`limits`]). Whatever ends it is reported in one line, with the position in the script.
//!
//! * [`script`] parses and steps; [`image_value`] implements `image`; [`objects`] finds the objects of its heap; [`list`] holds results of many numbers;
//!   [`show`] prints values.

mod image_value;
mod limits;
mod list;
mod objects;
mod options;
mod script;
mod show;

use options::MovmOptions;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: limits::LimitedAllocator = limits::LimitedAllocator;

/// The size of the interpreter's stack: it recurses with the nesting of a script.
const STACK: usize = 256 << 20;

fn main() -> ExitCode {
    let options = match MovmOptions::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(line) => return fail(&line, 2),
    };
    let running = std::thread::Builder::new().stack_size(STACK).spawn(move || script::run(&options));
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
