//! The program that runs scripts. It is a program of its own because a script may need limits that only a process has.

use crate::companion::Companion;

/// The program's name.
pub const PROGRAM: &str = "highwater-movm";

/// The program.
pub const SCRIPTS: Companion = Companion {
    program: PROGRAM,
    variable: "HIGHWATER_MOVM",
    folder: "movm",
    purpose: "which runs scripts",
    install: "'highwater image eval --install' builds it",
};
