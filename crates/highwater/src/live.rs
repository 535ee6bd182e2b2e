//! A live program: all its live blocks are in a table that `highwater snapshot` can read at any time, without the program's help and without
//! stopping it.
#![allow(unsafe_code, reason = "functions of the library that 'highwater run' loads")]

use crate::c_library::find_function;
use crate::recording::leaves_out_arguments;
use highwater_agent::config::Config;
use highwater_agent::{self as agent};
use highwater_clock::Counter;
use highwater_tracked::environment;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub use highwater_agent::Stats;

/// Keeps a live table of every block from now on. Call it at the start of `main`, in a program whose global allocator is [`Alloc`](crate::Alloc).
/// Blocks allocated before are not in the table.
///
/// The program registers with the collector of its user if one listens (`highwater collector`). A collector that starts later finds the program. If
/// `highwater run` started the program, this call has nothing left to do.
///
/// # Errors
/// If the program is being recorded, if there is no memory for the table, or if `Alloc` is not its global allocator.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);
///
/// fn main() -> std::io::Result<()> {
///     highwater::live()?;
///     let held = vec![0u8; 4096];
///     let stats = highwater::global_stats().expect("it is live");
///     assert!(stats.allocated_bytes >= stats.freed_bytes + 4096);
///     drop(held);
///     Ok(())
/// }
/// ```
pub fn live() -> io::Result<()> {
    Live::new().start()
}

/// Settings of a live program: see [`live`].
#[derive(Clone, Debug, Default)]
pub struct Live {
    sample_bytes: u64,
    most_blocks: u64,
    contents: bool,
    socket: Option<PathBuf>,
}

impl Live {
    /// Every block, no limit, contents not readable, and the collector of this user.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records only samples, on average one per `mean_bytes` bytes: for production. `highwater set` can change it later.
    pub fn sample(mut self, mean_bytes: u64) -> Self {
        self.sample_bytes = mean_bytes;
        self
    }

    /// Limits the table to about `blocks` blocks. Further ones are counted but not kept.
    pub fn most_blocks(mut self, blocks: u64) -> Self {
        self.most_blocks = blocks;
        self
    }

    /// Permits the collector to read the blocks' contents, for `highwater snapshot --contents`.
    pub fn allow_contents(mut self) -> Self {
        self.contents = true;
        self
    }

    /// Uses another collector than the user's own.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Starts the live table.
    ///
    /// # Errors
    /// See [`live`].
    pub fn start(&self) -> io::Result<()> {
        if agent::is_live() || run_by_command() {
            return Ok(());
        }
        if agent::has_begun() {
            return Err(io::Error::other("this program is being recorded, or was: it cannot be live as well"));
        }
        let socket = self.socket.clone().unwrap_or_else(|| highwater_session::socket_by(environment::variable));
        let counts_ticks = Counter::trusted().is_some();
        let socket = socket.as_os_str().as_bytes();
        let config = Config::for_live(counts_ticks, self.sample_bytes, self.most_blocks, self.contents, socket);
        let config = if leaves_out_arguments() { config.without_arguments() } else { config };
        if !agent::begin_live(&config) {
            return Err(io::Error::other("there is no memory for the table of live blocks"));
        }
        if self.sample_bytes == 0 {
            let before = agent::global_stats();
            drop(std::hint::black_box(Box::new(0u64)));
            if agent::global_stats() == before {
                return Err(io::Error::other("highwater::Alloc is not the global allocator of this program"));
            }
        }
        Ok(())
    }
}

/// Whether `highwater run` started this program, so that its library does the work.
fn run_by_command() -> bool {
    let mut stats = [0u64; 4];
    // SAFETY: the function with this name has this type.
    let function = unsafe { find_function::<unsafe extern "C" fn(*mut u64) -> c_int>(c"highwater_global_stats") };
    // SAFETY: the function writes four numbers, and there is room for them.
    function.is_some_and(|function| unsafe { function(stats.as_mut_ptr()) } == 0)
}

/// Takes a snapshot of this program now, which the collector keeps under this name: `highwater snapshots` shows it. Returns when the instant is
/// fixed; the collector reads the table afterwards, while the program continues.
///
/// # Errors
/// If the program is not [`live`], or no collector listens.
pub fn snapshot(name: &str) -> io::Result<()> {
    let taken = if agent::is_live() {
        agent::take_named_snapshot(name.as_bytes())
    } else {
        // SAFETY: the function with this name has this type.
        let function =
            unsafe { find_function::<unsafe extern "C" fn(*const c_char) -> c_int>(c"highwater_take_named_snapshot") };
        let function = function.ok_or_else(|| io::Error::other("this program is not live: call highwater::live()"))?;
        let name = CString::new(name)?;
        // SAFETY: the name is a C string.
        unsafe { function(name.as_ptr()) == 0 }
    };
    if taken { Ok(()) } else { Err(io::Error::other("no collector is there to take the snapshot")) }
}

/// Allocations and frees of the program since it became [`live`]; `None` if it is not. An estimate if only samples are kept.
pub fn global_stats() -> Option<Stats> {
    agent::global_stats().or_else(|| stats_of_command(c"highwater_global_stats"))
}

/// Allocations and frees of the calling thread since then.
pub fn thread_stats() -> Option<Stats> {
    agent::thread_stats().or_else(|| stats_of_command(c"highwater_thread_stats"))
}

fn stats_of_command(name: &std::ffi::CStr) -> Option<Stats> {
    let mut stats = [0u64; 4];
    // SAFETY: the functions with these names have this type.
    let function = unsafe { find_function::<unsafe extern "C" fn(*mut u64) -> c_int>(name) }?;
    // SAFETY: the function writes four numbers, and there is room for them.
    if unsafe { function(stats.as_mut_ptr()) } != 0 {
        return None;
    }
    let [allocations, allocated_bytes, frees, freed_bytes] = stats;
    Some(Stats { allocations, allocated_bytes, frees, freed_bytes })
}
