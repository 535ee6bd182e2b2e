//! [`DeepSize`] of the standard library's types.

use crate::deep_size::{DeepSize, sum};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::{ManuallyDrop, MaybeUninit, size_of, size_of_val};
use std::num::{NonZero, Saturating, Wrapping};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Types that own nothing on the heap.
macro_rules! nothing_on_the_heap {
    ($($type:ty),* $(,)?) => {
        $(impl DeepSize for $type {
            #[inline(always)]
            fn heap_size(&self) -> usize {
                0
            }
        })*
    };
}

nothing_on_the_heap! {
    (), bool, char, f32, f64, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, str,
    NonZero<i8>, NonZero<i16>, NonZero<i32>, NonZero<i64>, NonZero<i128>, NonZero<isize>,
    NonZero<u8>, NonZero<u16>, NonZero<u32>, NonZero<u64>, NonZero<u128>, NonZero<usize>,
    CStr, OsStr, Path, PhantomPinned,
    std::any::TypeId, std::cmp::Ordering, std::alloc::Layout,
    std::net::IpAddr, std::net::Ipv4Addr, std::net::Ipv6Addr,
    std::net::SocketAddr, std::net::SocketAddrV4, std::net::SocketAddrV6,
    std::ops::RangeFull, std::thread::ThreadId,
    std::time::Duration, std::time::Instant, std::time::SystemTime,
    std::sync::Condvar, std::sync::Once,
    std::sync::atomic::AtomicBool, std::sync::atomic::AtomicI8, std::sync::atomic::AtomicI16,
    std::sync::atomic::AtomicI32, std::sync::atomic::AtomicI64, std::sync::atomic::AtomicIsize,
    std::sync::atomic::AtomicU8, std::sync::atomic::AtomicU16, std::sync::atomic::AtomicU32,
    std::sync::atomic::AtomicU64, std::sync::atomic::AtomicUsize,
}

/// Types that own nothing on the heap, whatever their type parameter is.
macro_rules! nothing_whatever {
    ($($type:ty),* $(,)?) => {
        $(impl<T: ?Sized> DeepSize for $type {
            #[inline(always)]
            fn heap_size(&self) -> usize {
                0
            }
        })*
    };
}

nothing_whatever! {
    &T, &mut T, *const T, *mut T, PhantomData<T>, std::rc::Weak<T>, std::sync::Weak<T>, UnsafeCell<T>, std::ptr::NonNull<T>,
}

impl<T> DeepSize for std::sync::atomic::AtomicPtr<T> {
    fn heap_size(&self) -> usize {
        0
    }
}

impl<T> DeepSize for MaybeUninit<T> {
    fn heap_size(&self) -> usize {
        0
    }
}

/// Functions own nothing.
macro_rules! functions {
    ($($argument:ident)*) => {
        impl<Output, $($argument),*> DeepSize for fn($($argument),*) -> Output {
            fn heap_size(&self) -> usize {
                0
            }
        }
    };
}

functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C D);

/// Types that own exactly what their fields own.
macro_rules! what_they_hold {
    ($($type:ident { $($field:tt),* }),* $(,)?) => {
        $(impl<T: DeepSize> DeepSize for $type<T> {
            fn heap_size(&self) -> usize {
                0 $(+ self.$field.heap_size())*
            }
        })*
    };
}

use std::ops::{Bound, Range, RangeFrom, RangeTo, RangeToInclusive};
what_they_hold! {
    Reverse { 0 }, Saturating { 0 }, Wrapping { 0 }, Range { start, end }, RangeFrom { start }, RangeTo { end }, RangeToInclusive { end },
}

impl<T: DeepSize> DeepSize for Bound<T> {
    fn heap_size(&self) -> usize {
        match self {
            Self::Included(value) | Self::Excluded(value) => value.heap_size(),
            Self::Unbounded => 0,
        }
    }
}

impl<T: DeepSize> DeepSize for std::ops::RangeInclusive<T> {
    fn heap_size(&self) -> usize {
        self.start().heap_size() + self.end().heap_size()
    }
}

impl<T: DeepSize> DeepSize for Option<T> {
    fn heap_size(&self) -> usize {
        self.as_ref().map_or(0, DeepSize::heap_size)
    }
}

impl<T: DeepSize, E: DeepSize> DeepSize for Result<T, E> {
    fn heap_size(&self) -> usize {
        self.as_ref().map_or_else(DeepSize::heap_size, DeepSize::heap_size)
    }
}

impl<T: DeepSize> DeepSize for ManuallyDrop<T> {
    fn heap_size(&self) -> usize {
        (**self).heap_size()
    }
}

impl<T: DeepSize + ?Sized> DeepSize for Pin<Box<T>> {
    fn heap_size(&self) -> usize {
        (**self).deep_size()
    }
}

impl<T: DeepSize + ?Sized> DeepSize for Box<T> {
    fn heap_size(&self) -> usize {
        (**self).deep_size()
    }
}

/// The size of a shared allocation: the two reference counts, the value, and padding for alignment.
fn counted_size<T: ?Sized>(value: &T) -> usize {
    let (size, align) = (size_of_val(value), align_of_val(value).max(align_of::<usize>()));
    let header = (2 * size_of::<usize>()).next_multiple_of(align);
    (header + size).next_multiple_of(align)
}

impl<T: DeepSize + ?Sized> DeepSize for Rc<T> {
    fn heap_size(&self) -> usize {
        if Self::strong_count(self) == 1 { counted_size(&**self) + (**self).heap_size() } else { 0 }
    }
}

impl<T: DeepSize + ?Sized> DeepSize for Arc<T> {
    fn heap_size(&self) -> usize {
        if Self::strong_count(self) == 1 { counted_size(&**self) + (**self).heap_size() } else { 0 }
    }
}

impl<T: DeepSize> DeepSize for Vec<T> {
    fn heap_size(&self) -> usize {
        self.capacity().saturating_mul(size_of::<T>()).saturating_add(sum(self))
    }
}

impl<T: DeepSize> DeepSize for VecDeque<T> {
    fn heap_size(&self) -> usize {
        self.capacity().saturating_mul(size_of::<T>()).saturating_add(sum(self))
    }
}

impl<T: DeepSize> DeepSize for BinaryHeap<T> {
    fn heap_size(&self) -> usize {
        self.capacity().saturating_mul(size_of::<T>()).saturating_add(sum(self))
    }
}

impl<T: DeepSize> DeepSize for LinkedList<T> {
    fn heap_size(&self) -> usize {
        let node = (2 * size_of::<usize>() + size_of::<T>()).next_multiple_of(align_of::<T>().max(align_of::<usize>()));
        self.len().saturating_mul(node).saturating_add(sum(self))
    }
}

/// The size of a hash table with this capacity: a power of two of buckets, of which 7/8 may be used, one byte per bucket, and a group of bytes at
/// the end.
fn hash_table_size<T>(capacity: usize) -> usize {
    if capacity == 0 {
        return 0;
    }
    let buckets =
        if capacity < 8 { (capacity + 1).next_power_of_two() } else { (capacity * 8 / 7).next_power_of_two() };
    let group = if cfg!(target_feature = "sse2") { 16 } else { 8 };
    let entries = buckets.saturating_mul(size_of::<T>()).next_multiple_of(group.max(align_of::<T>()));
    entries.saturating_add(buckets + group)
}

impl<K: DeepSize, V: DeepSize, S> DeepSize for HashMap<K, V, S> {
    fn heap_size(&self) -> usize {
        hash_table_size::<(K, V)>(self.capacity()).saturating_add(sum(self.keys())).saturating_add(sum(self.values()))
    }
}

impl<T: DeepSize, S> DeepSize for HashSet<T, S> {
    fn heap_size(&self) -> usize {
        hash_table_size::<T>(self.capacity()).saturating_add(sum(self))
    }
}

/// The estimated size of a tree with `length` entries: nodes of eleven entries, two thirds full.
fn tree_size<K, V>(length: usize) -> usize {
    const SLOTS: usize = 11;
    if length == 0 {
        return 0;
    }
    let align = align_of::<K>().max(align_of::<V>()).max(align_of::<usize>());
    let leaf = (SLOTS * (size_of::<K>() + size_of::<V>()) + size_of::<usize>() + 4).next_multiple_of(align);
    let leaves = if length <= SLOTS { 1 } else { length.div_ceil(7) };
    let inner = if leaves == 1 { 0 } else { leaves.div_ceil(7) };
    let edges = (SLOTS + 1) * size_of::<usize>();
    leaves.saturating_mul(leaf).saturating_add(inner.saturating_mul(leaf + edges))
}

impl<K: DeepSize, V: DeepSize> DeepSize for BTreeMap<K, V> {
    fn heap_size(&self) -> usize {
        tree_size::<K, V>(self.len()).saturating_add(sum(self.keys())).saturating_add(sum(self.values()))
    }
}

impl<T: DeepSize> DeepSize for BTreeSet<T> {
    fn heap_size(&self) -> usize {
        tree_size::<T, ()>(self.len()).saturating_add(sum(self))
    }
}

impl DeepSize for String {
    fn heap_size(&self) -> usize {
        self.capacity()
    }
}

impl DeepSize for OsString {
    fn heap_size(&self) -> usize {
        self.capacity()
    }
}

impl DeepSize for PathBuf {
    fn heap_size(&self) -> usize {
        self.capacity()
    }
}

impl DeepSize for CString {
    fn heap_size(&self) -> usize {
        self.as_bytes_with_nul().len()
    }
}

impl<T: ToOwned + ?Sized> DeepSize for Cow<'_, T>
where
    T::Owned: DeepSize,
{
    fn heap_size(&self) -> usize {
        match self {
            Self::Borrowed(_) => 0,
            Self::Owned(owned) => owned.heap_size(),
        }
    }
}

impl<T: DeepSize + Copy> DeepSize for Cell<T> {
    fn heap_size(&self) -> usize {
        self.get().heap_size()
    }
}

impl<T: DeepSize> DeepSize for RefCell<T> {
    /// 0 while the value is mutably borrowed.
    fn heap_size(&self) -> usize {
        self.try_borrow().map_or(0, |value| value.heap_size())
    }
}

impl<T: DeepSize> DeepSize for Mutex<T> {
    /// 0 while the mutex is locked.
    fn heap_size(&self) -> usize {
        match self.try_lock() {
            Ok(value) => value.heap_size(),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned).heap_size(),
            Err(std::sync::TryLockError::WouldBlock) => 0,
        }
    }
}

impl<T: DeepSize> DeepSize for RwLock<T> {
    /// 0 while the lock is held for writing.
    fn heap_size(&self) -> usize {
        match self.try_read() {
            Ok(value) => value.heap_size(),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned).heap_size(),
            Err(std::sync::TryLockError::WouldBlock) => 0,
        }
    }
}

impl<T: DeepSize> DeepSize for OnceCell<T> {
    fn heap_size(&self) -> usize {
        self.get().map_or(0, DeepSize::heap_size)
    }
}

impl<T: DeepSize> DeepSize for OnceLock<T> {
    fn heap_size(&self) -> usize {
        self.get().map_or(0, DeepSize::heap_size)
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: DeepSize),*> DeepSize for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names of the types will do for their values")]
            fn heap_size(&self) -> usize {
                let ($($name,)*) = self;
                0 $(+ $name.heap_size())*
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
