//! Code that depends on the processor. Each further processor gets a folder with the same files.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
