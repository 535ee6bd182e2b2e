//! Answers the viewer's questions about files that hold more than a recording: object logs and memory images.

mod image;
mod treemap;
mod walked;

pub use image::ViewedImage;
pub use walked::WalkedImages;

use crate::commands::objects::Objects;
use crate::failure::Failure;
use highwater_view::Special;
use serde_json::Value;
use std::path::PathBuf;

/// An object log.
pub struct ObjectLog(pub PathBuf);

fn line(failure: Failure) -> String {
    failure.line().unwrap_or("it cannot be read").to_owned()
}

impl Special for ObjectLog {
    fn types(&self) -> Result<Value, String> {
        Objects::document_of(&self.0).map_err(line)
    }
}
