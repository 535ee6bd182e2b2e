//! Names for the frames of a catalog that lie in no file, from a map.

use super::{JIT_MODULE, JitName, PerfMap};
use highwater_model::{Catalog, Frame, FrameId, FrameText, StringId};

/// Names the frames in code that lies in no file, that have no name yet, and for which `wanted` returns true. Returns how many there are, and how many got a name.
pub fn resolve_jit_frames(catalog: &mut Catalog, map: &PerfMap, wanted: impl Fn(FrameId) -> bool) -> (usize, usize) {
    let is_jit = |frame: &Frame| {
        let is_in_no_file =
            frame.module == 0 || catalog.module_of(frame).is_some_and(|at| catalog.strings.get(at.path) == JIT_MODULE);
        frame.address != 0 && frame.function == StringId::EMPTY && is_in_no_file
    };
    let frames = (0..).map(FrameId).zip(catalog.stacks.frames());
    let unnamed = frames.filter(|(id, frame)| is_jit(frame) && !catalog.stacks.is_resolved(*id) && wanted(*id));
    let unnamed: Vec<(FrameId, u64)> = unnamed.map(|(id, frame)| (id, frame.address)).collect();
    let mut named = 0;
    for &(id, address) in &unnamed {
        // A return address lies after its call.
        if let Some(name) = map.lookup(address.wrapping_sub(1)) {
            let JitName { function, file, line } = &JitName::read(name);
            named +=
                usize::from(catalog.resolve(id, &[FrameText { function, file, line: *line, ..FrameText::default() }]));
        }
    }
    (unnamed.len(), named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::Module;

    #[test]
    fn only_unnamed_frames_outside_of_files_are_named() {
        let mut catalog = Catalog::default();
        let paths = [JIT_MODULE, "/usr/bin/node"].map(|path| catalog.strings.intern(path));
        let [jit, node] = paths.map(|path| catalog.add_module(Module { path, ..Module::default() }) + 1);
        let mut frame = |address, module| catalog.stacks.intern_frame(Frame { address, module, ..Frame::default() });
        let (first, second, outside, file) =
            (frame(0x1001, jit), frame(0x2010, 0), frame(0x9000, jit), frame(0x1002, node));
        let mut map = PerfMap::default();
        map.add(b"1000 10 JS:~f a.js:1:1\n2000 10 g\n");
        assert_eq!(resolve_jit_frames(&mut catalog, &map, |_| true), (3, 2));
        let is_resolved = [first, second, outside, file].map(|id| catalog.stacks.is_resolved(id));
        assert_eq!(is_resolved, [true, true, false, false]);
        map.add(b"1000 10 other\n");
        assert_eq!(resolve_jit_frames(&mut catalog, &map, |_| true), (1, 0));
    }
}
