//! Requests of clients of the network's interface: CBOR, the checks of a request, the head of HTTP, and Candid values.
#![no_main]

use highwater_host::candid::decode_values;
use highwater_host::ic::cbor::Cbor;
use highwater_host::ic::http::RequestHead;
use highwater_host::ic::request::IcRequest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(document) = Cbor::read(bytes) {
        assert_eq!(Cbor::read(&document.write()), Ok(document));
    }
    let _ = IcRequest::read(bytes, 1_790_000_000_000_000_000);
    let _ = RequestHead::parse(bytes);
    let _ = decode_values(bytes);
});
