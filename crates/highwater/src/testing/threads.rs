//! Threads that belong to a measure.

use super::measure::{Handle, uncounted};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ScopedJoinHandle};

/// Starts a thread that is in the measure of the calling thread: what it allocates counts. As [`std::thread::spawn`] otherwise.
///
/// What it allocates after the measure has ended does not count. Join it for figures that are the same each time.
///
/// ```standalone_crate
/// # #[global_allocator]
/// # static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);
/// use highwater::testing;
///
/// let used = testing::measure(|| {
///     let worker = testing::spawn(|| vec![0u8; 1 << 20].len());
///     worker.join().unwrap()
/// });
/// assert_eq!((used.value, used.largest_block), (1 << 20, 1 << 20));
/// ```
pub fn spawn<F, T>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let measure = Handle::current();
    thread::spawn(move || {
        let _joined = measure.join();
        work()
    })
}

/// The threads of a scope, in the order of their starts; none in the place of one that was joined. A flag for each says whether it panicked.
type ScopedThreads<'scope> = Arc<Mutex<Vec<Option<ScopedJoinHandle<'scope, bool>>>>>;

/// Starts threads that are in the measure of the thread that began the scope: see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    inner: &'scope thread::Scope<'scope, 'env>,
    measure: Handle,
    threads: ScopedThreads<'scope>,
}

/// A thread of a [`scope`].
pub struct ScopedThread<'scope, T> {
    threads: ScopedThreads<'scope>,
    number: usize,
    result: Arc<Mutex<Option<thread::Result<T>>>>,
}

/// Starts threads that may borrow, all in the measure of the calling thread, and waits until they have ended. They may start further ones in the scope. As
/// [`std::thread::scope`] otherwise; that one returns while its threads may still free memory.
///
/// ```standalone_crate
/// # #[global_allocator]
/// # static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);
/// use highwater::testing;
///
/// let texts = ["one", "two", "three"];
/// testing::assert_no_leaks(|| {
///     testing::scope(|scope| {
///         for text in &texts {
///             scope.spawn(move || text.to_uppercase());
///         }
///     });
/// });
/// ```
///
/// # Panics
/// If one of its threads has panicked and was not joined.
pub fn scope<'env, F, T>(work: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    thread::scope(|inner| {
        let scope = Scope { inner, measure: Handle::current(), threads: uncounted(Arc::default) };
        // SAFETY: only `work` and the scope's threads have the reference, as its lifetime is any to them and so in nothing that outlives them. When the scope is
        // dropped, `work` has returned or panicked, which is caught, and `join_all` has waited for all threads, with those that they started.
        let borrowed = unsafe { &*std::ptr::from_ref(&scope) };
        let done = catch_unwind(AssertUnwindSafe(|| work(borrowed)));
        let panicked = scope.join_all();
        match done {
            Ok(_) if panicked => panic!("a scoped thread panicked"),
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    })
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    pub fn spawn<F, T>(&'scope self, work: F) -> ScopedThread<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let measure = self.measure.clone();
        let result = uncounted(|| Arc::new(Mutex::new(None)));
        let kept = Arc::clone(&result);
        let thread = self.inner.spawn(move || {
            let _joined = measure.join();
            let done = catch_unwind(AssertUnwindSafe(work));
            let panicked = done.is_err();
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            panicked
        });
        let number = uncounted(|| {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.push(Some(thread));
            threads.len() - 1
        });
        ScopedThread { threads: Arc::clone(&self.threads), number, result }
    }

    /// Waits for the threads that were not joined, and for those that they start meanwhile. True if one of them has panicked.
    fn join_all(&self) -> bool {
        let mut any_panicked = false;
        for number in 0.. {
            let thread = {
                let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
                // A thread is in the list before the one that started it ends.
                let Some(thread) = threads.get_mut(number) else { break };
                thread.take()
            };
            any_panicked |= thread.is_some_and(|thread| thread.join().unwrap_or(true));
        }
        any_panicked
    }
}

impl<T> ScopedThread<'_, T> {
    /// Waits for the thread to end.
    ///
    /// # Errors
    /// If it has panicked: what it panicked with.
    pub fn join(self) -> thread::Result<T> {
        let thread = self.threads.lock().unwrap_or_else(PoisonError::into_inner)[self.number].take();
        thread.map(ScopedJoinHandle::join).transpose()?;
        let done = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        done.unwrap_or_else(|| Err(Box::new("the scope has joined this thread")))
    }
}
