//! Names for a recording that is still being written, or whose recorder was killed.
//!
//! A recorder finds the names of functions when its program has ended, so that it takes nothing from the program while it runs. Until then the file has addresses.
//! Its reader finds the names itself, in the same way: the modules are on this machine, and their build ids are compared.

use highwater_model::{FrameId, StringId, When};
use highwater_store::Recording;
use highwater_symbols::{DebuginfodServers, Symbolizer, add_type_facts, is_lookup_forbidden, resolve_frames};
use std::sync::{Mutex, PoisonError};

/// A file that grows is read every few seconds. Modules stay open between two readings.
static SYMBOLIZER: Mutex<Option<Symbolizer>> = Mutex::new(None);

/// The recording with the names that its recorder would add at its end. No server is asked: a reader that waits for a download would show nothing.
///
/// A file may name any path. So names are looked for only if the recording was made on this machine, and only in modules with a build id.
pub fn with_names(recording: Recording) -> Recording {
    if is_lookup_forbidden()
        || recording.stats().complete
        || recording.is_snapshot()
        || recording.source().host != this_host()
    {
        return recording;
    }
    let stacks = &recording.catalog().stacks;
    let modules = &recording.catalog().modules;
    let has_build_id = |module: u32| {
        let module = module.checked_sub(1).and_then(|at| modules.get(at as usize));
        module.is_some_and(|module| module.build_id != StringId::EMPTY)
    };
    let is_wanted: Vec<bool> = (0..)
        .map(FrameId)
        .zip(stacks.frames())
        .map(|(id, frame)| {
            frame.address != 0
                && frame.function == StringId::EMPTY
                && has_build_id(frame.module)
                && !stacks.is_resolved(id)
        })
        .collect();
    if !is_wanted.contains(&true) {
        return recording;
    }
    let mut catalog = highwater_model::Catalog::clone(recording.catalog());
    let mut symbolizer = SYMBOLIZER.lock().unwrap_or_else(PoisonError::into_inner);
    let symbolizer = symbolizer.get_or_insert_with(|| Symbolizer::for_user(&DebuginfodServers::Never));
    resolve_frames(&mut catalog, symbolizer, |id| is_wanted.get(id.0 as usize).copied().unwrap_or(false));
    if let Ok(end) = recording.snapshot(&When::End) {
        add_type_facts(&mut catalog, symbolizer, &end.accounts);
    }
    symbolizer.keep();
    recording.with_catalog(catalog)
}

/// As recorders write it.
fn this_host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().to_owned()
}
