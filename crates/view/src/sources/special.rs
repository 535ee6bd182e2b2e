//! What only some kinds of files can tell, besides what every recording does.

use serde_json::Value;
use std::path::Path;

/// Asks a file what only its kind knows, as the documents of the command have it. Each answer is one, or a line that says why there is none.
pub trait Special: Send + Sync {
    /// Objects by type, and whether to believe it.
    fn types(&self) -> Result<Value, String> {
        Err("only object logs know their objects one by one".to_owned())
    }

    /// What is on an image's heap.
    fn heap(&self) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }

    /// One object of an image, by its address or a way to it.
    fn object(&self, _place: &str) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }

    /// The objects of an image by what they keep, so deep, those left out that keep less than a share of all.
    fn treemap(&self, _depth: usize, _least: f64) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }

    /// What changed from an image to a later one.
    fn compare(&self, _later: &Path) -> Result<Value, String> {
        Err(NO_IMAGE.to_owned())
    }
}

const NO_IMAGE: &str = "this is no memory image";

/// A file of a kind that knows nothing else.
pub struct Plain;

impl Special for Plain {}
