//! Opens what a script looks at.

use crate::image_value::ImageValue;
use crate::objects::HeapObjects;
use crate::options::ImagePaths;
use highwater_image::{Image, ImageParts};

/// Opens an image, given by its file or its folder, which lives as long as the process. Its module is read now, its objects are found when a script asks for
/// them.
pub fn open(paths: &ImagePaths) -> Result<ImageValue, String> {
    let path = &paths.image;
    let parts = ImageParts::find(path, paths.module.as_deref()).map_err(|error| error.to_string())?;
    let image = Image::open(&parts.memory).map_err(|error| format!("{}: {error}", path.display()))?;
    let image: &'static Image = Box::leak(Box::new(image));
    let objects = HeapObjects::new(image, parts.sidecar, parts.module);
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(ImageValue::new(name, image, objects))
}
