//! Profiles of other tools, through the registry of inputs.

use crate::heap::within_limit;
use highwater_input::{FORMATS, InputStream, Read, temporary_file};
use std::path::Path;

/// Reads any bytes as a profile of a format: it is refused in one line, or its states are in order, every stack is known, and it can be written, which
/// asserts the laws.
pub fn examine_profile(key: &str, bytes: &[u8]) {
    let format = FORMATS.iter().find(|format| format.key() == key).expect("a format with this key");
    let Read::Profile(read) = format.read() else { panic!("{key} is no profile") };
    format.recognizes(bytes);
    within_limit(bytes.len(), || {
        let mut content = bytes;
        let mut go_on = |_: &str, part: f64| {
            assert!(part.is_finite(), "{part} is no part");
            true
        };
        let profile = match read(&mut InputStream::new(&mut content, Path::new("-"), &mut go_on)) {
            Ok(profile) => profile,
            Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
        };
        assert!(profile.states.is_sorted_by_key(|state| state.at), "states are out of order");
        let nodes = profile.catalog.stacks.nodes().len();
        for site in profile.states.iter().flat_map(|state| &state.sites) {
            assert!((site.stack.0 as usize) < nodes, "a stack is not known");
        }
        let target = temporary_file().expect("a temporary file");
        if let Err(error) = profile.write(Path::new("-"), target) {
            drop(error.to_string());
        }
    });
}
