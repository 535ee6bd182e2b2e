//! Any bytes as the head of a request.
#![no_main]

use highwater_view::http::request::{LONGEST_HEAD, Request, head_length, parameters_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let length = head_length(bytes).unwrap_or(bytes.len());
    assert!(length <= bytes.len());
    if let Ok(request) = Request::parse(&bytes[..length]) {
        assert!(length <= LONGEST_HEAD && request.path.starts_with('/'));
        // What was read means the same when it is read again.
        for (name, value) in &request.parameters {
            let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
            let again = parameters_of(&format!("{}={}", encoded(name), encoded(value)));
            assert_eq!(again, Ok(vec![(name.clone(), value.clone())]));
        }
        assert!(request.fields.iter().all(|(_, value)| !value.contains(['\r', '\n'])));
        let _ = (request.cookie("highwater-80"), request.field("host"), request.is_repeated("origin"));
    }
});
