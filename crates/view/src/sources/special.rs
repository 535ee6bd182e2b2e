//! Answers that only some kinds of files have, besides those that every recording has.

use super::fleet::ViewedFleet;
use serde_json::Value;
use std::path::Path;

/// Answers that only some kinds of files have, in the JSON that the command prints. Each method returns the answer, or a line with the reason why there is none.
pub trait Special: Send + Sync {
    /// Objects by type, and whether the figures can be trusted.
    fn types(&self) -> Result<Value, String> {
        Err("only object logs know their objects one by one".to_owned())
    }

    /// The objects on an image's heap.
    fn heap(&self) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }

    /// One object of an image, by its address or a path to it.
    fn object(&self, _place: &str) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }

    /// The objects of an image by retained size, down to a depth. Objects that retain less than the share `_least` of all are left out.
    fn treemap(&self, _depth: usize, _least: f64) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }

    /// The fleet of a lake.
    fn fleet(&self) -> Option<&ViewedFleet> {
        None
    }

    /// The changes from an image to a later one.
    fn compare(&self, _later: &Path) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }
}

const NO_IMAGE: &str = "this is no memory image";

/// A file of a kind that has no answers of its own.
pub struct Plain;

impl Special for Plain {}
