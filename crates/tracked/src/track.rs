//! `track!`: a value is tracked with the name of its variable. An `Arc` or `Rc` becomes a [`Shared`], any other value a [`Tracked`].
//!
//! The choice between the two is made by method lookup, which prefers [`ViaShared`] where both apply: it needs one reference less.

use crate::{DeepSize, Shared, SharedPointer, Tracked};

/// Tracks a value with the name of its variable, its type, and the line of the call. The value can be used as before, and reports its drop.
///
/// ```
/// use highwater_tracked::track;
/// use std::sync::Arc;
///
/// let names = vec!["Ada".to_owned()];
/// let names = track!(names); // a Tracked<Vec<String>>, variable "names"
/// track!(let mut sizes = vec![1u64, 2]); // the variable and its name at once
/// sizes.push(names.len() as u64);
/// let unnamed = track!(String::from("of no variable"));
/// let config = track!("config", Arc::new(vec![0u8; 64])); // a Shared<Arc<Vec<u8>>>: clones are counted as owners
/// assert_eq!((sizes.len(), unnamed.len(), config.clone().len()), (3, 14, 64));
/// ```
#[macro_export]
macro_rules! track {
    (let mut $variable:ident = $value:expr) => {
        let mut $variable = $crate::track!(stringify!($variable), $value);
    };
    (let $variable:ident = $value:expr) => {
        let $variable = $crate::track!(stringify!($variable), $value);
    };
    ($($part:ident).+) => {
        $crate::track!(@named $($part).+)
    };
    (@named $value:expr) => {
        $crate::track!(stringify!($value), $value)
    };
    ($variable:expr, $value:expr) => {{
        #[allow(unused_imports)]
        use $crate::track::{ViaShared as _, ViaTracked as _};
        let value = $value;
        let kind = (&$crate::track::Probe(&value)).kind();
        kind.track(value, Some($variable))
    }};
    ($value:expr) => {{
        #[allow(unused_imports)]
        use $crate::track::{ViaShared as _, ViaTracked as _};
        let value = $value;
        let kind = (&$crate::track::Probe(&value)).kind();
        kind.track(value, None)
    }};
}

/// Asks for the kind of a value.
pub struct Probe<'a, T>(pub &'a T);

/// The kind of an `Arc` or `Rc`.
pub struct SharedKind;

/// The kind of any other value.
pub struct TrackedKind;

pub trait ViaShared {
    fn kind(&self) -> SharedKind {
        SharedKind
    }
}

impl<P: SharedPointer> ViaShared for Probe<'_, P> {}

pub trait ViaTracked {
    fn kind(&self) -> TrackedKind {
        TrackedKind
    }
}

impl<T: DeepSize> ViaTracked for &Probe<'_, T> {}

impl SharedKind {
    #[track_caller]
    pub fn track<P: SharedPointer>(self, pointer: P, variable: Option<&'static str>) -> Shared<P> {
        Shared::begin(pointer, variable)
    }
}

impl TrackedKind {
    #[track_caller]
    pub fn track<T: DeepSize>(self, value: T, variable: Option<&'static str>) -> Tracked<T> {
        Tracked::begin(value, variable)
    }
}
