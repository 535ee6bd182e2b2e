//! A live program: everything that it holds lies in a table that `highwater snapshot` can read at any time, without its help and
//! without stopping it.
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

/// Keeps a live table from now on, of every block: call it at the start of `main`, in a program whose global allocator is
/// [`Alloc`](crate::Alloc). Blocks that were allocated before are not in it.
///
/// The program registers with the collector of its user if one listens (`highwater collector`); one that comes later finds it. Where
/// `highwater run` started the program there is nothing left to do.
///
/// # Errors
/// If the program is being recorded, or has no memory for the table, or if `Alloc` is not its global allocator.
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

/// How a program is live: see [`live`].
#[derive(Clone, Debug, Default)]
pub struct Live {
    sample_bytes: u64,
    most_blocks: u64,
    contents: bool,
    socket: Option<PathBuf>,
}

impl Live {
    /// Every block, no limit, nothing of their contents, and the collector of this user.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only samples, so many bytes apart on average: for production. `highwater set` can change it later.
    pub fn sample(mut self, mean_bytes: u64) -> Self {
        self.sample_bytes = mean_bytes;
        self
    }

    /// At most about so many blocks; further ones are counted but not kept.
    pub fn most_blocks(mut self, blocks: u64) -> Self {
        self.most_blocks = blocks;
        self
    }

    /// Lets the collector read what is in the blocks, for `highwater snapshot --contents`.
    pub fn allow_contents(mut self) -> Self {
        self.contents = true;
        self
    }

    /// Another collector than the user's own.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Begins.
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

/// Whether `highwater run` started this program, so that its library does everything.
fn run_by_command() -> bool {
    let mut stats = [0u64; 4];
    // SAFETY: the function of this name is of this type.
    let function = unsafe { find_function::<unsafe extern "C" fn(*mut u64) -> c_int>(c"highwater_global_stats") };
    // SAFETY: there is room for four numbers.
    function.is_some_and(|function| unsafe { function(stats.as_mut_ptr()) } == 0)
}

/// Has a snapshot of this program taken now, which the collector keeps under this name: `highwater snapshots` shows it. Returns when the
/// instant is fixed; reading goes on behind the program's back.
///
/// # Errors
/// If the program is not [`live`], or no collector is there.
pub fn snapshot(name: &str) -> io::Result<()> {
    let taken = if agent::is_live() {
        agent::take_named_snapshot(name.as_bytes())
    } else {
        // SAFETY: the function of this name is of this type.
        let function =
            unsafe { find_function::<unsafe extern "C" fn(*const c_char) -> c_int>(c"highwater_take_named_snapshot") };
        let function = function.ok_or_else(|| io::Error::other("this program is not live: call highwater::live()"))?;
        let name = CString::new(name)?;
        // SAFETY: a C string.
        unsafe { function(name.as_ptr()) == 0 }
    };
    if taken { Ok(()) } else { Err(io::Error::other("no collector is there to take the snapshot")) }
}

/// What the program has allocated and freed since it became [`live`]; `None` if it is not. An estimate where only samples are kept.
pub fn global_stats() -> Option<Stats> {
    agent::global_stats().or_else(|| stats_of_command(c"highwater_global_stats"))
}

/// What the calling thread has allocated and freed since then.
pub fn thread_stats() -> Option<Stats> {
    agent::thread_stats().or_else(|| stats_of_command(c"highwater_thread_stats"))
}

fn stats_of_command(name: &std::ffi::CStr) -> Option<Stats> {
    let mut stats = [0u64; 4];
    // SAFETY: the functions of these names are of this type.
    let function = unsafe { find_function::<unsafe extern "C" fn(*mut u64) -> c_int>(name) }?;
    // SAFETY: there is room for four numbers.
    if unsafe { function(stats.as_mut_ptr()) } != 0 {
        return None;
    }
    let [allocations, allocated_bytes, frees, freed_bytes] = stats;
    Some(Stats { allocations, allocated_bytes, frees, freed_bytes })
}
