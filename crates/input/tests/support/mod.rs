//! Opens profiles of other tools, and compares their frames with texts of those tools.
#![allow(dead_code, missing_docs)]

use highwater_input::{InputError, InputFile, Read, open};
use highwater_model::{FrameText, Snapshot, StackId};
use highwater_store::history::Moment;
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

pub fn fixture(folder: &str, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder).join(name)
}

pub fn text_of(folder: &str, name: &str) -> String {
    std::fs::read_to_string(fixture(folder, name)).unwrap()
}

/// Opens a file with this content.
pub fn opened(content: impl AsRef<[u8]>) -> Result<InputFile, InputError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("highwater-profile-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, content).unwrap();
    let opened = open(&path);
    std::fs::remove_file(&path).unwrap();
    opened
}

/// All states of a file, in order.
pub fn states(file: &InputFile) -> Vec<Snapshot> {
    let recording = file.recording(&mut |_, _| true).unwrap();
    let numbers = 1..=recording.states().len() as u64;
    numbers.map(|number| recording.snapshot_at(Moment::Event(number)).unwrap()).collect()
}

/// The frames of a stack, innermost first.
pub fn frames(snapshot: &Snapshot, stack: StackId) -> Vec<FrameText<'_>> {
    snapshot.catalog.frame_texts(stack).collect()
}

/// True if a frame is the one of a text of valgrind: `0x109196: buffer (demo.c:9)`.
pub fn is_frame(frame: &FrameText<'_>, text: &str) -> bool {
    if !text.starts_with("0x") {
        return frame.function == text;
    }
    let function = if frame.function.is_empty() { "???" } else { frame.function };
    let rebuilt = match (frame.file, frame.module) {
        ("", "") => format!("0x{:x}: {function}", frame.address),
        ("", module) => format!("0x{:x}: {function} (in {module})", frame.address),
        (file, _) => format!("0x{:x}: {function} ({file}:{}", frame.address, frame.line),
    };
    let (text, rebuilt) = (text.to_lowercase(), rebuilt.to_lowercase());
    // A column may follow the line.
    text.strip_prefix(&rebuilt).is_some_and(|rest| rest.is_empty() || rest == ")" || rest.starts_with(':'))
}

/// Sums of the live bytes and blocks, and of the allocated bytes and blocks, of all sites whose innermost frames are these.
pub fn sums_below(snapshot: &Snapshot, innermost_first: &[String]) -> [u64; 4] {
    let mut sums = [0; 4];
    for (stack, site) in snapshot.accounts.sites().iter() {
        let frames = frames(snapshot, stack);
        let is_below = frames.len() >= innermost_first.len()
            && frames.iter().zip(innermost_first).all(|(frame, text)| is_frame(frame, text));
        if is_below {
            let figures = [site.live_bytes(), site.live_blocks(), site.allocated_bytes, site.allocations];
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        }
    }
    sums
}

/// A number with commas.
pub fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text} is a number"))
}

/// Changes to a file: bytes that replace others, and where it is cut.
pub fn any_changes() -> impl Strategy<Value = (Vec<(usize, u8)>, usize)> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"0129-{}[]\",: n=".to_vec())];
    (prop::collection::vec((any::<usize>(), byte), 0..8), any::<usize>())
}

/// Opens a changed file. It is refused in one line, or every state keeps the laws.
pub fn is_refused_or_sound(content: &[u8], changes: &[(usize, u8)], cut: usize, is_cut: bool) {
    let mut content = content.to_vec();
    for (at, byte) in changes {
        let at = at % content.len();
        content[at] = *byte;
    }
    if is_cut {
        content.truncate(cut % content.len() + 1);
    }
    match opened(&content) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(file) if matches!(file.format().read(), Read::Profile(_)) => {
            for state in states(&file) {
                assert_eq!(state.violations(), Vec::<String>::new());
            }
        }
        Ok(_) => {}
    }
}
