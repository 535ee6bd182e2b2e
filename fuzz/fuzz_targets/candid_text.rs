//! Any bytes as Candid: arguments and interfaces in text, replies in bytes. What was encoded is shown, and what is shown encodes to the same.
#![no_main]

use highwater_host::call::ProgramCall;
use highwater_host::candid::{Interface, decode, encode_arguments};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let reply = [b"DIDL".as_slice(), bytes].concat();
    let _ = decode(&reply, &[]);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(call) = text.parse::<ProgramCall>() {
        assert_eq!(call.to_string().parse(), Ok(call));
    }
    if let Some((interface, arguments)) = text.split_once('|')
        && let Ok(interface) = Interface::parse(interface)
    {
        let _ = encode_arguments(arguments, Some((&interface, "f")));
    }
    if let Ok(encoded) = encode_arguments(text, None)
        && let Ok(shown) = decode(&encoded, &[])
        && let Ok(again) = encode_arguments(&shown, None)
        && let Ok(shown_again) = decode(&again, &[])
    {
        assert_eq!(shown, shown_again);
    }
});
