//! `highwater image eval`: a Motoko script over an image.

use crate::failure::Failure;
use crate::output::Output;
use clap::Args;

/// The arguments of `highwater image eval`.
#[derive(Debug, Args)]
pub struct Eval {}

impl Eval {
    /// Runs it.
    pub fn run(&self, _: &mut Output) -> Result<(), Failure> {
        Ok(())
    }
}
