//! Any bytes as the response of a debuginfod server.
#![no_main]

use highwater_http::client::ServerUrl;
use highwater_http::client::response::read_response;
use libfuzzer_sys::fuzz_target;
use std::io::{Read, copy, sink};

/// A compressed body may stand for a thousand times its size.
const MOST_BYTES: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(response) = read_response(bytes) {
        assert!((100..600).contains(&response.status));
        let _ = copy(&mut response.body.take(MOST_BYTES), &mut sink());
        if let Some(url) = response.location.and_then(|location| location.parse::<ServerUrl>().ok()) {
            // What was read means the same when it is read again.
            assert_eq!(url.to_string().parse(), Ok(url));
        }
    }
});
