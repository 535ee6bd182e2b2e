//! Any bytes as what a host, or a client of it, receives; and as a sidecar.
#![no_main]

use highwater_host::frame::Frame;
use highwater_host::protocol::{Request, Response};
use highwater_host::sidecar::Sidecar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(frame) = Frame::read(&mut rest) {
        let mut written = Vec::new();
        frame.write(&mut written).expect("what was read can be written");
        assert_eq!(Frame::read(&mut written.as_slice()).expect("what was written can be read"), frame);
        if let Ok(request) = Request::from_frame(&frame) {
            assert_eq!(Request::from_frame(&request.to_frame()), Ok(request));
        }
        if let Ok(response) = Response::from_frame(frame) {
            assert_eq!(Response::from_frame(response.to_frame()), Ok(response));
        }
    }
    if let Ok(document) = serde_json::from_slice(bytes)
        && let Ok(sidecar) = Sidecar::from_json(&document)
    {
        assert_eq!(Sidecar::from_json(&sidecar.to_json()), Ok(sidecar));
    }
});
