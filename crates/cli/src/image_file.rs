//! Opens memory images for commands. Damage becomes warnings, or ends the command.

use crate::failure::Failure;
use crate::open::{OnDamage, warn_of_damage};
use highwater_input::image::{ExaminedHeap, ImageFile};

/// Finds the heap of an image and walks it; keeps the `top` largest objects.
pub fn examine(file: &ImageFile, top: usize, on_damage: OnDamage) -> Result<ExaminedHeap<'_>, Failure> {
    let examined = file.examine(top).map_err(|no_heap| Failure::in_file(file.path(), no_heap))?;
    let damage = examined.damage_list();
    match (damage.first(), on_damage) {
        (Some(first), OnDamage::Fail) => {
            return Err(Failure::in_file(file.path(), format_args!("damaged: {first}")));
        }
        (Some(_), OnDamage::Warn) => warn_of_damage(file.path(), &damage, 0),
        (None, _) | (_, OnDamage::Collect) => {}
    }
    Ok(examined)
}
