//! A field that reports the creation and the drop of the value that contains it.

use crate::deep_size::DeepSize;
use crate::life::ObjectLife;
use crate::switch;
use std::any::type_name;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::panic::Location;

/// A field that reports the creation and the drop of the value that contains it. For types whose name is used in too many places to make them
/// [`Tracked`](crate::Tracked).
///
/// ```
/// use highwater_tracked::Tag;
///
/// struct Session {
///     user: String,
///     tracked: Tag<Session>,
/// }
///
/// impl Session {
///     #[track_caller] // the location that opens the session, not this one
///     fn open(user: &str) -> Self {
///         Self { user: user.to_owned(), tracked: Tag::new() }
///     }
/// }
/// # assert_eq!(Session::open("Ada").user, "Ada");
/// ```
///
/// A field does not see the other fields. So the size is that of the type itself, unless [`owns`](Self::owns) reports the heap memory. All such fields are
/// equal, so that the containing type can still be compared. A clone of one is a new object, created where it is cloned: for a derived `Clone`,
/// that is the line of the derive.
pub struct Tag<T> {
    life: ObjectLife,
    of: PhantomData<fn() -> T>,
}

impl<T> Tag<T> {
    /// Reports the creation of a `T`, with the caller's source location.
    #[inline]
    #[track_caller]
    pub fn new() -> Self {
        let life = match switch::is_on() {
            true => ObjectLife::begin(size_of::<T>(), type_name::<T>(), Location::caller(), None),
            false => ObjectLife::UNREPORTED,
        };
        Self { life, of: PhantomData }
    }

    /// Its id, if its creation was reported.
    pub fn id(&self) -> Option<u64> {
        self.life.id()
    }

    /// Reports how much heap memory the value owns.
    pub fn owns(&mut self, heap_bytes: usize) {
        if self.life.is_reported() {
            self.life.update(size_of::<T>().saturating_add(heap_bytes), type_name::<T>());
        }
    }
}

impl<T> Drop for Tag<T> {
    #[inline]
    fn drop(&mut self) {
        if self.life.is_reported() {
            self.life.end(self.life.reported(), type_name::<T>());
        }
    }
}

impl<T> Default for Tag<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Tag<T> {
    /// A new object, created at the caller's source location.
    #[track_caller]
    fn clone(&self) -> Self {
        let mut clone = Self::new();
        if clone.life.is_reported() && self.life.is_reported() {
            clone.life.update(self.life.reported(), type_name::<T>());
        }
        clone
    }

    /// The same object as before, with another value.
    fn clone_from(&mut self, _: &Self) {}
}

impl<T> DeepSize for Tag<T> {
    fn heap_size(&self) -> usize {
        0
    }
}

impl<T> fmt::Debug for Tag<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id() {
            Some(id) => write!(f, "Tag({id})"),
            None => f.write_str("Tag"),
        }
    }
}

impl<T> PartialEq for Tag<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Tag<T> {}

impl<T> PartialOrd for Tag<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Tag<T> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

impl<T> Hash for Tag<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
