//! Registers the process with a collector, and asks it for snapshots.
//!
//! The two memory objects stay open, close-on-exec and under high numbers: a collector that starts later, or starts again, finds
//! them. A program that closes every descriptor closes these as well; it then stays with its current collector.

use crate::config::Config;
use crate::private_memory::{self, AreaUse};
use crate::sys;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use highwater_shm::hello_v1::LONGEST_HELLO_TEXT;
use highwater_shm::live_hello_v1::{DONE, LIVE_HELLO_BYTES, LONGEST_NAME, LiveHello, PATIENCE_NS, Purpose, VERSION};

/// How long a program waits at its start for a collector that is listening but busy.
const REGISTER_PATIENCE_NS: u64 = 200_000_000;

/// A memory object: its descriptor plus one (0 if it is closed), and its device and inode number.
struct MemoryObject {
    descriptor: AtomicUsize,
    device: AtomicU64,
    number: AtomicU64,
}

impl MemoryObject {
    const fn none() -> Self {
        Self { descriptor: AtomicUsize::new(0), device: AtomicU64::new(0), number: AtomicU64::new(0) }
    }

    fn hold(&self, descriptor: sys::Descriptor) -> sys::Descriptor {
        let descriptor = sys::move_up(descriptor);
        let (device, number) = sys::identity(descriptor).unwrap_or_default();
        self.device.store(device, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.descriptor.store(descriptor + 1, Ordering::Relaxed);
        descriptor
    }

    /// Closes it, unless the program has closed it and perhaps reused the number.
    fn close(&self) {
        let descriptor = self.descriptor.swap(0, Ordering::Relaxed);
        let which = (self.device.load(Ordering::Relaxed), self.number.load(Ordering::Relaxed));
        if descriptor != 0 && sys::identity(descriptor - 1) == Some(which) {
            sys::close(descriptor - 1);
        }
    }
}

static MEMORY: MemoryObject = MemoryObject::none();
static CONTROL: MemoryObject = MemoryObject::none();

/// Keeps the two objects, and registers if a collector is listening.
pub fn register(config: &Config, memory: sys::Descriptor, control: sys::Descriptor, forked_from: u32) {
    let objects = [MEMORY.hold(memory), CONTROL.hold(control)];
    const MOST: usize = LIVE_HELLO_BYTES + LONGEST_HELLO_TEXT;
    let Some(buffer) = private_memory::take_area(MOST, AreaUse::Various) else { return };
    // SAFETY: new memory of that size, given back below.
    let message = unsafe { core::slice::from_raw_parts_mut(buffer, MOST) };
    message[..LIVE_HELLO_BYTES].copy_from_slice(&hello(Purpose::Register, forked_from));
    let mut length = LIVE_HELLO_BYTES;
    length += sys::read_link(c"/proc/self/exe", &mut message[length..MOST / 2]);
    length += 1;
    length += config.read_command(&mut message[length..]);
    // A collector that does not accept connections now is not waited for: it finds the process later.
    if let Ok(socket) = sys::connect(config.socket(), REGISTER_PATIENCE_NS) {
        if config.allows_contents()
            && let Some((collector, _)) = sys::peer(socket)
        {
            sys::allow_reading_by(collector);
        }
        sys::send(socket, &message[..length], &objects);
        sys::close(socket);
    }
    // SAFETY: nothing refers to it any more.
    unsafe { private_memory::give_back_area(buffer, MOST) };
}

/// In a forked child: closes its parent's objects.
pub fn forget() {
    MEMORY.close();
    CONTROL.close();
}

/// Asks the collector for a snapshot of this process as it is now, to be kept under a name. False if there is no collector, or it failed.
pub fn ask_for_snapshot(config: &Config, name: &[u8]) -> bool {
    let mut message = [0; LIVE_HELLO_BYTES + LONGEST_NAME];
    let name = &name[..name.len().min(LONGEST_NAME)];
    message[..LIVE_HELLO_BYTES].copy_from_slice(&hello(Purpose::NamedSnapshot, 0));
    let length = LIVE_HELLO_BYTES + name.len();
    message[LIVE_HELLO_BYTES..length].copy_from_slice(name);
    let Ok(socket) = sys::connect(config.socket(), PATIENCE_NS) else { return false };
    let mut answer = [0];
    let done = sys::send(socket, &message[..length], &[])
        && sys::receive(socket, &mut answer, PATIENCE_NS) == Some(1)
        && answer[0] == DONE;
    sys::close(socket);
    done
}

fn hello(purpose: Purpose, forked_from: u32) -> [u8; LIVE_HELLO_BYTES] {
    LiveHello { version: VERSION, purpose: purpose as u32, pid: sys::process_id(), forked_from }.to_bytes()
}
