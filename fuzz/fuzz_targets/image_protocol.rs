//! Any bytes as what a host, or a client of it, receives; and as a sidecar.
#![no_main]

use highwater_host::frame::HostFrame;
use highwater_host::protocol::{HostRequest, HostResponse};
use highwater_image::Sidecar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(frame) = HostFrame::read(&mut rest) {
        let mut written = Vec::new();
        frame.write(&mut written).expect("what was read can be written");
        assert_eq!(HostFrame::read(&mut written.as_slice()).expect("what was written can be read"), frame);
        if let Ok(request) = HostRequest::from_frame(&frame) {
            assert_eq!(HostRequest::from_frame(&request.to_frame()), Ok(request));
        }
        if let Ok(response) = HostResponse::from_frame(frame) {
            assert_eq!(HostResponse::from_frame(response.to_frame()), Ok(response));
        }
    }
    if let Ok(document) = serde_json::from_slice(bytes)
        && let Ok(sidecar) = Sidecar::from_json(&document)
    {
        assert_eq!(Sidecar::from_json(&sidecar.to_json()), Ok(sidecar));
    }
});
