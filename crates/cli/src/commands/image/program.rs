//! The module to run and its environment, shared by `image host` and `image run`.

use crate::failure::{Failure, reason};
use crate::output::say;
use crate::print::text::printable;
use crate::size::parse_bytes;
use clap::Args;
use highwater_host::canister::World;
use highwater_host::engine::MachineLimits;
use highwater_host::module::HostModule;
use highwater_host::program::{HostedProgram, ProgramOptions};
use highwater_image::ImageParts;
use std::io::Write;
use std::path::PathBuf;

/// The module, and what it begins with.
#[derive(Debug, Args)]
pub struct Start {
    /// The WASM module: a canister, or a plain one; may be gzipped
    #[arg(value_name = "MODULE.wasm")]
    module: Option<PathBuf>,
    /// Go on from this image, or this folder of a canister's snapshot, instead of beginning
    #[arg(long, value_name = "IMAGE", conflicts_with = "init")]
    load: Option<PathBuf>,
    /// What a canister's init is given, in Candid's text
    #[arg(long, value_name = "ARGS", default_value = "()")]
    init: String,
    /// The canister's time at the beginning, in nanoseconds since 1970 [default: 2021-05-06]
    #[arg(long, value_name = "NS")]
    time: Option<u64>,
    /// The seed of all randomness
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Instructions for one message
    #[arg(long, value_name = "N", default_value_t = MachineLimits::default().instructions)]
    instructions: u64,
    /// The most memory [default: 16GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
}

impl Start {
    /// The given module, or the one that lies with the image.
    fn module_path(&self) -> Result<PathBuf, Failure> {
        if let Some(module) = &self.module {
            return Ok(module.clone());
        }
        let image = self.load.as_deref().ok_or_else(|| Failure::Usage("there is no MODULE.wasm to run".into()))?;
        let parts = ImageParts::find(image, None).map_err(Failure::fault)?;
        parts.module_path.ok_or_else(|| {
            Failure::in_file(image, "its module does not lie beside it; name the module: MODULE.wasm --load IMAGE")
        })
    }

    /// True if neither a module nor an image is given.
    pub fn is_empty(&self) -> bool {
        self.module.is_none() && self.load.is_none()
    }

    /// The options for this program, and for those that are installed later.
    pub fn options(&self) -> ProgramOptions {
        let limits = MachineLimits {
            instructions: self.instructions,
            memory_bytes: self.memory.unwrap_or(MachineLimits::default().memory_bytes),
        };
        let time_ns = self.time.unwrap_or(World::default().time_ns);
        ProgramOptions { limits, world: World { time_ns, seed: self.seed }, argument: self.init.clone() }
    }

    /// Starts the program, or resumes it.
    pub fn program(&self) -> Result<HostedProgram, Failure> {
        let path = &self.module_path()?;
        let bytes = std::fs::read(path).map_err(|error| Failure::in_file(path, reason(&error).to_lowercase()))?;
        let name = path.file_name().map_or_else(|| "module".into(), |name| name.to_string_lossy());
        let module = HostModule::new(&name, &bytes).map_err(|problem| Failure::in_file(path, problem))?;
        let options = self.options();
        let started = match &self.load {
            Some(image) => return HostedProgram::load(module, &options, image).map_err(Failure::fault),
            None => HostedProgram::start(module, &options),
        };
        started.map_err(|problem| Failure::in_file(path, format_args!("cannot begin: {problem}")))
    }
}

/// Shows the program's output on standard error, so that it does not mix with results.
pub fn show_printed(printed: &[String]) {
    let mut errors = std::io::stderr().lock();
    for line in printed {
        let _ = writeln!(errors, "{}", printable(line));
    }
}

/// Shows problems that did not make a call fail.
pub fn show_troubles(troubles: &[String]) {
    for trouble in troubles {
        say(&format!("warning: {trouble}"));
    }
}
