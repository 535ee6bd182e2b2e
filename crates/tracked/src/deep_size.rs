//! How large a value is, heap included.

use std::any::type_name;
use std::mem::size_of_val;
use std::rc::Rc;
use std::sync::Arc;

/// The size of a value, including the heap memory that it owns.
///
/// `#[derive(Tracked)]` implements it field by field. By hand, [`heap_size`](Self::heap_size) is the sum of what the fields own:
///
/// ```
/// use highwater_tracked::DeepSize;
///
/// struct Image {
///     pixels: Vec<u32>,
///     name: String,
/// }
///
/// impl DeepSize for Image {
///     fn heap_size(&self) -> usize {
///         self.pixels.heap_size() + self.name.heap_size()
///     }
/// }
///
/// let image = Image { pixels: Vec::with_capacity(100), name: "sky".to_owned() };
/// assert_eq!(image.deep_size(), size_of::<Image>() + 400 + 3);
/// ```
///
/// Sizes are those requested from the allocator, before it rounds them up. A shared value (`Rc`, `Arc`) counts in full for its last owner, and as
/// nothing for an owner among several; [`Shared`](crate::Shared) counts it once, and its owners. The number of nodes of a tree (`BTreeMap`) is not known; it is estimated.
pub trait DeepSize {
    /// Bytes on the heap that the value owns, directly or through what it owns.
    fn heap_size(&self) -> usize;

    /// [`heap_size`](Self::heap_size) plus the size of the value itself.
    fn deep_size(&self) -> usize {
        size_of_val(self).saturating_add(self.heap_size())
    }

    /// True if the value reports itself: what holds it need not.
    #[doc(hidden)]
    fn is_tracked(&self) -> bool {
        false
    }

    /// The type that an owner of a shared value of this type is reported with.
    #[doc(hidden)]
    fn owner_type(kind: PointerKind) -> &'static str
    where
        Self: Sized,
    {
        match kind {
            PointerKind::Arc => type_name::<Arc<Self>>(),
            PointerKind::Rc => type_name::<Rc<Self>>(),
        }
    }
}

/// The pointers whose owners are counted.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum PointerKind {
    Arc,
    Rc,
}

impl<T: DeepSize> DeepSize for [T] {
    fn heap_size(&self) -> usize {
        sum(self)
    }
}

impl<T: DeepSize, const N: usize> DeepSize for [T; N] {
    fn heap_size(&self) -> usize {
        sum(self)
    }
}

/// The sum of the heap sizes of all values.
pub(crate) fn sum<'a, T: DeepSize + 'a>(values: impl IntoIterator<Item = &'a T>) -> usize {
    // Most element types own nothing on the heap: the compiler then removes this loop.
    values.into_iter().fold(0, |sum, value| sum.saturating_add(value.heap_size()))
}
