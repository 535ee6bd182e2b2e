//! How large a value is, heap included.

use std::mem::size_of_val;

/// How large a value is, with what it owns on the heap.
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
/// What is counted is what was asked of the allocator, not what it rounds that up to. Of what is shared (`Rc`, `Arc`) the last owner counts all,
/// and the others nothing. Of trees (`BTreeMap`) the number of nodes is not known, and estimated.
pub trait DeepSize {
    /// Bytes on the heap that the value owns, directly or through what it owns.
    fn heap_size(&self) -> usize;

    /// The same with the value itself.
    fn deep_size(&self) -> usize {
        size_of_val(self).saturating_add(self.heap_size())
    }
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

/// What all of them own.
pub(crate) fn sum<'a, T: DeepSize + 'a>(values: impl IntoIterator<Item = &'a T>) -> usize {
    // Most elements own nothing, and the compiler then leaves nothing of this.
    values.into_iter().fold(0, |sum, value| sum.saturating_add(value.heap_size()))
}
