//! Frames as the tools of valgrind write them, and the crate `dhat` after them.
//!
//! ```text
//! 0x109196: buffer (demo.c:9)
//! 0x4020CA3: mmap (in /usr/lib/x86_64-linux-gnu/libc.so.6)
//! 0x560bc4ba07de: <alloc::string::String>::push (alloc/src/string.rs:1419:14)
//! 0x48A7D09: (below main) (libc-start.c:308)
//! 0x10A0B0: ???
//! ```

use highwater_model::{Catalog, Frame, FrameId, FrameText, StackId};

/// A frame of a file, in the catalog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValgrindFrame {
    id: FrameId,
    /// 0 if not known.
    address: u64,
}

impl ValgrindFrame {
    /// Adds the frame of a text to the catalog.
    pub(crate) fn intern(catalog: &mut Catalog, text: &str) -> Self {
        let frame = catalog.intern_frame(&frame_text(text));
        Self { id: catalog.stacks.intern_frame(frame), address: frame.address }
    }

    /// The stack of these frames, innermost first. Inlined calls have the address of the call that they are inlined into; so do recursive calls, but those
    /// are of the same function and line as well.
    pub(crate) fn intern_stack(catalog: &mut Catalog, innermost_first: &[Self]) -> StackId {
        let mut caller: Option<Self> = None;
        innermost_first.iter().rev().fold(StackId::UNKNOWN, |parent, frame| {
            let is_inlined = caller
                .is_some_and(|caller| caller.address == frame.address && frame.address != 0 && caller.id != frame.id);
            caller = Some(*frame);
            let id = if is_inlined { inlined(catalog, frame.id) } else { frame.id };
            catalog.stacks.intern_child(parent, id)
        })
    }
}

fn inlined(catalog: &mut Catalog, id: FrameId) -> FrameId {
    match catalog.stacks.frame(id) {
        Some(&frame) => catalog.stacks.intern_frame(Frame { inlined: true, ..frame }),
        None => id,
    }
}

/// The parts of a frame. A text of another form is the name of a function.
fn frame_text(text: &str) -> FrameText<'_> {
    let with_address = text.strip_prefix("0x").and_then(|text| text.split_once(": "));
    let with_address = with_address.and_then(|(digits, rest)| Some((u64::from_str_radix(digits, 16).ok()?, rest)));
    let Some((address, rest)) = with_address else {
        return FrameText { function: text, ..FrameText::default() };
    };
    let function = |name| if name == "???" { "" } else { name };
    let place = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    if let Some((name, module)) = place.and_then(|(name, place)| Some((name, place.strip_prefix("in ")?))) {
        return FrameText { function: function(name), module, address, ..FrameText::default() };
    }
    match place.and_then(|(name, place)| Some((name, source_line(place)?))) {
        Some((name, (file, line))) => {
            FrameText { function: function(name), file, line, address, ..FrameText::default() }
        }
        None => FrameText { function: function(rest), address, ..FrameText::default() },
    }
}

/// File and line of `file:line` or `file:line:column`.
fn source_line(place: &str) -> Option<(&str, u32)> {
    let (before, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let with_column = before.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    Some(with_column.unwrap_or((before, last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_frames() {
        let parts = |text| {
            let FrameText { function, file, line, module, address, .. } = frame_text(text);
            (function, file, line, module, address)
        };
        assert_eq!(parts("0x109196: buffer (demo.c:9)"), ("buffer", "demo.c", 9, "", 0x109196));
        let new = parts("0x48: operator new(unsigned long) (in /usr/lib/vg.so)");
        assert_eq!(new, ("operator new(unsigned long)", "", 0, "/usr/lib/vg.so", 0x48));
        assert_eq!(parts("0x1: <A as B>::c (src/a b.rs:12:34)"), ("<A as B>::c", "src/a b.rs", 12, "", 1));
        assert_eq!(parts("0x2: (below main) (libc-start.c:308)"), ("(below main)", "libc-start.c", 308, "", 2));
        assert_eq!(parts("0x3: ??? (in /bin/a)"), ("", "", 0, "/bin/a", 3));
        assert_eq!(parts("0x4: ???"), ("", "", 0, "", 4));
        assert_eq!(parts("0x5: call (int)"), ("call (int)", "", 0, "", 5));
        assert_eq!(parts("in 2 places, all below"), ("in 2 places, all below", "", 0, "", 0));
        assert_eq!(parts("0xzz: a (b:1)").0, "0xzz: a (b:1)");
    }

    #[test]
    fn calls_at_one_address_are_inlined_unless_they_are_recursive() {
        let mut catalog = Catalog::default();
        let texts = ["0x10: inner (a.c:1)", "0x10: outer (a.c:2)", "0x20: again (a.c:3)", "0x20: again (a.c:3)"];
        let frames: Vec<_> = texts.iter().map(|text| ValgrindFrame::intern(&mut catalog, text)).collect();
        let stack = ValgrindFrame::intern_stack(&mut catalog, &frames);
        let inlined: Vec<_> = catalog.frame_texts(stack).map(|frame| (frame.function, frame.inlined)).collect();
        assert_eq!(inlined, [("inner", true), ("outer", false), ("again", false), ("again", false)]);
    }
}
