//! Owners of shared values.

use crate::deep_size::{DeepSize, PointerKind};
use crate::life::ObjectLife;
use crate::switch;
use std::any::type_name;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// An `Arc` or `Rc` of a value whose size is known.
pub trait SharedPointer: Clone + Deref<Target = Self::Value> + sealed::Sealed {
    /// The shared value.
    type Value: DeepSize;
    #[doc(hidden)]
    const KIND: PointerKind;
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for std::sync::Arc<T> {}
    impl<T> Sealed for std::rc::Rc<T> {}
}

impl<T: DeepSize> SharedPointer for Arc<T> {
    type Value = T;
    const KIND: PointerKind = PointerKind::Arc;
}

impl<T: DeepSize> SharedPointer for Rc<T> {
    type Value = T;
    const KIND: PointerKind = PointerKind::Rc;
}

/// The two counters that precede a shared value on the heap.
const COUNTERS: usize = 2 * size_of::<usize>();

/// An owner of a shared value: an `Arc` or `Rc` that reports its creation and its drop. A clone is another owner, created where it is cloned. So
/// `highwater objects` shows how many owners a value has, and which lines hold it.
///
/// ```
/// use highwater_tracked::Shared;
/// use std::sync::Arc;
///
/// let config = Shared::new(Arc::new(vec![1u8; 1000]));
/// let worker = config.clone(); // an owner, created at this line
/// assert_eq!(worker.len(), 1000);
/// assert_eq!(Arc::strong_count(&config), 2);
/// ```
///
/// * The value is one object, and counts once. It is created with the first owner and dropped with the last. A value that is
///   [`Tracked`](crate::Tracked) itself (`Arc<Tracked<T>>`) reports its own creation and drop.
/// * An owner is an object without bytes, of the type `Arc<T>` or `Rc<T>`. Their number is `Arc::strong_count`, as long as all owners are `Shared`:
///   `Arc::clone(&shared)` and `Weak::upgrade` make plain ones, which are not counted.
/// * Weak pointers own nothing, and are not counted.
///
/// Without a sink a clone costs one load more than that of the pointer.
pub struct Shared<P: SharedPointer> {
    owner: ObjectLife,
    /// The life of the value, if it does not report itself.
    value: Option<Arc<ObjectLife>>,
    variable: Option<&'static str>,
    pointer: P,
}

impl<P: SharedPointer> Shared<P> {
    /// Reports an owner, and the value that it owns, with the caller's source location.
    #[track_caller]
    pub fn new(pointer: P) -> Self {
        Self::begin(pointer, None)
    }

    /// As [`new`](Self::new), with the name of the variable that holds it. Clones have the same name.
    #[track_caller]
    pub fn named(pointer: P, variable: &'static str) -> Self {
        Self::begin(pointer, Some(variable))
    }

    #[track_caller]
    pub(crate) fn begin(pointer: P, variable: Option<&'static str>) -> Self {
        if !switch::is_on() {
            return Self { owner: ObjectLife::UNREPORTED, value: None, variable, pointer };
        }
        let location = Location::caller();
        let value = (!P::Value::is_tracked(&pointer)).then(|| {
            let life = ObjectLife::begin(value_bytes(&pointer), type_name::<P::Value>(), location, variable);
            Arc::new(life)
        });
        Self { owner: Self::owner(location, variable), value, variable, pointer }
    }

    fn owner(location: &'static Location<'static>, variable: Option<&'static str>) -> ObjectLife {
        ObjectLife::begin(0, P::Value::owner_type(P::KIND), location, variable)
    }

    /// Returns the pointer, which is not counted as an owner any more.
    pub fn into_inner(this: Self) -> P {
        this.pointer.clone()
    }
}

fn value_bytes<P: SharedPointer>(pointer: &P) -> usize {
    // Named, since a reference has a size of its own.
    P::Value::deep_size(pointer).saturating_add(COUNTERS)
}

impl<P: SharedPointer> Clone for Shared<P> {
    /// Another owner, created at the caller's source location.
    #[track_caller]
    fn clone(&self) -> Self {
        // Of a value that was created without a sink, no owner is reported.
        let owner = match self.owner.is_reported() && switch::is_on() {
            true => Self::owner(Location::caller(), self.variable),
            false => ObjectLife::UNREPORTED,
        };
        Self { owner, value: self.value.clone(), variable: self.variable, pointer: self.pointer.clone() }
    }
}

impl<P: SharedPointer> Drop for Shared<P> {
    fn drop(&mut self) {
        if self.owner.is_reported() {
            self.owner.end(0, P::Value::owner_type(P::KIND));
        }
        // Of owners that are dropped at the same time on several threads, exactly one gets the life.
        if let Some(mut life) = self.value.take().and_then(Arc::into_inner)
            && life.is_reported()
        {
            life.end(value_bytes(&self.pointer), type_name::<P::Value>());
        }
    }
}

impl<P: SharedPointer> Deref for Shared<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.pointer
    }
}

impl<P: SharedPointer> From<P> for Shared<P> {
    #[track_caller]
    fn from(pointer: P) -> Self {
        Self::new(pointer)
    }
}

impl<P: SharedPointer> AsRef<P::Value> for Shared<P> {
    fn as_ref(&self) -> &P::Value {
        &self.pointer
    }
}

impl<P: SharedPointer + fmt::Debug> fmt::Debug for Shared<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pointer.fmt(f)
    }
}

impl<P: SharedPointer + PartialEq> PartialEq for Shared<P> {
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
    }
}

impl<P: SharedPointer + Eq> Eq for Shared<P> {}

/// The value counts for itself.
impl<P: SharedPointer> DeepSize for Shared<P> {
    fn heap_size(&self) -> usize {
        0
    }
}
