//! A value that tells of its birth and its end.

use crate::deep_size::DeepSize;
use crate::life::Life;
use crate::switch;
use std::any::type_name;
use std::borrow::{Borrow, BorrowMut};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

/// A value that tells of its birth, with its size, its type and the place that made it, and of its end. It can be used like the value itself.
///
/// ```
/// use highwater_tracked::Tracked;
///
/// let mut names = Tracked::new(vec!["Ada".to_owned()]);
/// names.push("Grace".to_owned());
/// assert_eq!(names.len(), 2);
/// ```
///
/// * Moving it tells nothing: it is the same object.
/// * A clone is another object, born where it is cloned.
/// * One that is forgotten ([`std::mem::forget`], `Box::leak`) was never dropped.
/// * The end is told before the value's own `drop` runs, with the size that it has then; if that panics, it was told all the same.
/// * An object that is born while [nobody listens](crate::off) is not heard of later either.
///
/// Nobody listening, it costs one load.
pub struct Tracked<T: DeepSize> {
    life: Life,
    value: T,
}

impl<T: DeepSize> Tracked<T> {
    /// Tells of the birth of a value, here.
    #[inline]
    #[track_caller]
    pub fn new(value: T) -> Self {
        let life = if switch::is_on() {
            Life::begin(value.deep_size(), type_name::<T>(), Location::caller())
        } else {
            Life::UNHEARD
        };
        Self { life, value }
    }

    /// Its id, if somebody heard of its birth.
    pub fn id(this: &Self) -> Option<u64> {
        this.life.id()
    }

    /// Tells of its size, if it has grown or shrunk since that was told last: what is never dropped then counts for what it is.
    pub fn update(this: &mut Self) {
        if this.life.is_heard() {
            this.life.update(this.value.deep_size(), type_name::<T>());
        }
    }

    /// The value, of which nothing will be told any more: this counts as its drop.
    #[allow(unsafe_code, reason = "a value cannot be moved out of a type with its own drop otherwise")]
    pub fn into_inner(this: Self) -> T {
        let mut this = ManuallyDrop::new(this);
        this.tell_end();
        // SAFETY: `this` is never dropped nor looked at again, so the value is moved out once, and `life` needs no drop.
        unsafe { std::ptr::read(&raw const this.value) }
    }

    #[inline]
    fn tell_end(&mut self) {
        if self.life.is_heard() {
            self.life.end(self.value.deep_size(), type_name::<T>());
        }
    }
}

impl<T: DeepSize> Drop for Tracked<T> {
    // The value is dropped after this, whatever happens here.
    #[inline]
    fn drop(&mut self) {
        self.tell_end();
    }
}

impl<T: DeepSize> Deref for Tracked<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: DeepSize> DerefMut for Tracked<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: DeepSize + Clone> Clone for Tracked<T> {
    /// Another object, born here.
    #[track_caller]
    fn clone(&self) -> Self {
        Self::new(self.value.clone())
    }

    /// The same object, with another value.
    fn clone_from(&mut self, source: &Self) {
        self.value.clone_from(&source.value);
    }
}

impl<T: DeepSize + Default> Default for Tracked<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: DeepSize> From<T> for Tracked<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: DeepSize> AsRef<T> for Tracked<T> {
    fn as_ref(&self) -> &T {
        &self.value
    }
}

impl<T: DeepSize> AsMut<T> for Tracked<T> {
    fn as_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: DeepSize> Borrow<T> for Tracked<T> {
    fn borrow(&self) -> &T {
        &self.value
    }
}

impl<T: DeepSize> BorrowMut<T> for Tracked<T> {
    fn borrow_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: DeepSize + fmt::Debug> fmt::Debug for Tracked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: DeepSize + fmt::Display> fmt::Display for Tracked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: DeepSize + PartialEq> PartialEq for Tracked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: DeepSize + Eq> Eq for Tracked<T> {}

impl<T: DeepSize + PartialOrd> PartialOrd for Tracked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<T: DeepSize + Ord> Ord for Tracked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}

impl<T: DeepSize + Hash> Hash for Tracked<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

/// An object inside of another counts for itself: the outer one has only what lies in it.
impl<T: DeepSize> DeepSize for Tracked<T> {
    fn heap_size(&self) -> usize {
        self.value.heap_size()
    }
}

/// `.tracked()` for every value whose size is known.
pub trait Track: DeepSize + Sized {
    /// Tells of the birth of this value here, and of its end wherever that will be.
    #[track_caller]
    fn tracked(self) -> Tracked<Self> {
        Tracked::new(self)
    }
}

impl<T: DeepSize> Track for T {}
