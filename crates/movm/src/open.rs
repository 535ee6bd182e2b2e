//! Opens what a script looks at.

use crate::image_value::ImageValue;
use crate::objects::HeapObjects;
use crate::options::ImagePaths;
use highwater_image::{Image, Sidecar, WasmModule};
use std::path::Path;

/// Opens an image, which lives as long as the process. Its module is read now, its objects are found when a script asks for them.
pub fn open(paths: &ImagePaths) -> Result<ImageValue, String> {
    let path = &paths.image;
    let image = Image::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let image: &'static Image = Box::leak(Box::new(image));
    let module = paths.module.as_deref().map(read_module).transpose()?;
    let objects = HeapObjects::new(image, Sidecar::read_lossy(path), module);
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(ImageValue::new(name, image, objects))
}

fn read_module(path: &Path) -> Result<WasmModule, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    WasmModule::parse(&bytes).map_err(|problem| format!("{}: {problem}", path.display()))
}
