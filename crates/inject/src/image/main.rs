//! The image: an agent without a loader. The library of this crate says what it is for.
#![no_std]
#![no_main]

mod bytes;
mod entry;
mod heap;
mod implementation;

/// Never called: nothing here panics, and after optimisation no code is left that could.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
