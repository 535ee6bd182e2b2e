//! A value that reports its creation and its drop.

use crate::deep_size::{DeepSize, PointerKind};
use crate::life::ObjectLife;
use crate::switch;
use std::any::type_name;
use std::borrow::{Borrow, BorrowMut};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

/// A value that reports its creation (size, type and source location) and its drop. It can be used like the value itself.
///
/// ```
/// use highwater_tracked::Tracked;
///
/// let mut names = Tracked::new(vec!["Ada".to_owned()]);
/// names.push("Grace".to_owned());
/// assert_eq!(names.len(), 2);
/// ```
///
/// * A move reports nothing: it is the same object.
/// * A clone is a new object, created where it is cloned.
/// * A forgotten object ([`std::mem::forget`], `Box::leak`) is never reported as dropped.
/// * The drop is reported before the value's own `drop` runs, with the size at that time. So it is reported even if that `drop` panics.
/// * An object created while [there is no sink](crate::off) is never reported, even if a sink is set later.
///
/// Without a sink it costs one load.
pub struct Tracked<T: DeepSize> {
    life: ObjectLife,
    value: T,
}

impl<T: DeepSize> Tracked<T> {
    /// Reports the creation of a value, with the caller's source location.
    #[inline]
    #[track_caller]
    pub fn new(value: T) -> Self {
        Self::begin(value, None)
    }

    /// As [`new`](Self::new), with the name of the variable that holds it; [`track!`](crate::track) finds it by itself.
    #[inline]
    #[track_caller]
    pub fn named(value: T, variable: &'static str) -> Self {
        Self::begin(value, Some(variable))
    }

    #[inline]
    #[track_caller]
    pub(crate) fn begin(value: T, variable: Option<&'static str>) -> Self {
        let life = if switch::is_on() {
            ObjectLife::begin(value.deep_size(), type_name::<T>(), Location::caller(), variable)
        } else {
            ObjectLife::UNREPORTED
        };
        Self { life, value }
    }

    /// Its id, if its creation was reported.
    pub fn id(this: &Self) -> Option<u64> {
        this.life.id()
    }

    /// Reports the size, if it has changed since it was reported last. So an object that is never dropped is counted with its actual size.
    pub fn update(this: &mut Self) {
        if this.life.is_reported() {
            this.life.update(this.value.deep_size(), type_name::<T>());
        }
    }

    /// Returns the value and reports its drop. Nothing more is reported for it.
    #[allow(unsafe_code, reason = "a value cannot be moved out of a type with its own drop otherwise")]
    pub fn into_inner(this: Self) -> T {
        let mut this = ManuallyDrop::new(this);
        this.report_drop();
        // SAFETY: `this` is never dropped nor looked at again, so the value is moved out once, and `life` needs no drop.
        unsafe { std::ptr::read(&raw const this.value) }
    }

    #[inline]
    fn report_drop(&mut self) {
        if self.life.is_reported() {
            self.life.end(self.value.deep_size(), type_name::<T>());
        }
    }
}

impl<T: DeepSize> Drop for Tracked<T> {
    // The value is dropped after this, even if this function panics.
    #[inline]
    fn drop(&mut self) {
        self.report_drop();
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
    /// A new object, created at the caller's source location.
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

    fn is_tracked(&self) -> bool {
        true
    }

    fn owner_type(kind: PointerKind) -> &'static str {
        T::owner_type(kind)
    }
}

/// `.tracked()` for every value whose size is known.
pub trait Track: DeepSize + Sized {
    /// Reports the creation of this value here, and its drop when it happens.
    #[track_caller]
    fn tracked(self) -> Tracked<Self> {
        Tracked::new(self)
    }
}

impl<T: DeepSize> Track for T {}
