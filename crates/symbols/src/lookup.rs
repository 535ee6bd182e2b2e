//! Whether this process may look for names in files. A recording names modules anywhere on the machine: a process that answers questions about the recordings of
//! others must not open what they name.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// From now on this process opens no module and no debug file, and neither reads nor writes the cache of names.
pub fn forbid_lookup() {
    IS_FORBIDDEN.store(true, Ordering::Relaxed);
}

/// True after [`forbid_lookup`].
pub fn is_lookup_forbidden() -> bool {
    IS_FORBIDDEN.load(Ordering::Relaxed)
}
