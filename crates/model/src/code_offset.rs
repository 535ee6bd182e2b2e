//! Code without a name, identified by its offset in its module.
//!
//! The loader places a module at another address in every run. An offset in the module is the same in all runs, so such a frame is named, grouped and
//! compared by its offset. The build id says which build of the module the offset belongs to: a program and its copy at another path are the same
//! module, two builds at one path are different modules.

use crate::catalog::FrameText;
use std::fmt;

/// An offset in a module. Shown as `module+0x1234`, with the module's file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeOffset<'a> {
    /// The module's build id, empty where it has none.
    pub build_id: &'a str,
    /// The module's path.
    pub module: &'a str,
    /// The offset in the module's file.
    pub offset: u64,
}

impl<'a> CodeOffset<'a> {
    /// The identity of the module across runs: its build id, or else its path.
    pub fn module_identity(&self) -> &'a str {
        if self.build_id.is_empty() { self.module } else { self.build_id }
    }
}

impl fmt::Display for CodeOffset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.module.rsplit('/').next().unwrap_or(self.module);
        write!(f, "{name}+{:#x}", self.offset)
    }
}

impl<'a> FrameText<'a> {
    /// Where the code of a frame without a function's name lies, if its module and the module's address are known.
    pub fn unnamed_code(&self) -> Option<CodeOffset<'a>> {
        let offset = self.offset.filter(|_| self.function.is_empty() && !self.module.is_empty())?;
        Some(CodeOffset { build_id: self.build_id, module: self.module, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::stacks::{Frame, Module};

    fn loaded_at(start: u64, path: &str, build_id: &str, addresses: &[u64]) -> Vec<Option<(String, String)>> {
        let mut catalog = Catalog::default();
        let (path, build_id) = (catalog.strings.intern(path), catalog.strings.intern(build_id));
        let end = start + 0x1000;
        let module = catalog.add_module(Module { path, build_id, start, end, file_offset: 0x200, ..Module::default() });
        let code = |address: &u64| {
            let frame = Frame { address: *address, module: module + 1, ..Frame::default() };
            let code = catalog.frame_text(&frame).unnamed_code()?;
            Some((code.to_string(), code.module_identity().to_owned()))
        };
        addresses.iter().map(code).collect()
    }

    #[test]
    fn code_is_the_same_wherever_its_module_was_loaded() {
        let here = loaded_at(0x5000, "/usr/bin/app", "abcd", &[0x5010]);
        assert_eq!(here, [Some(("app+0x210".to_owned(), "abcd".to_owned()))]);
        assert_eq!(here, loaded_at(0x7000, "/usr/bin/app", "abcd", &[0x7010]));
        assert_eq!(
            here[0].as_ref().unwrap().1,
            loaded_at(0x5000, "/opt/other", "abcd", &[0x5010])[0].as_ref().unwrap().1
        );
        assert_ne!(
            here[0].as_ref().unwrap().1,
            loaded_at(0x5000, "/usr/bin/app", "ef01", &[0x5010])[0].as_ref().unwrap().1
        );
        let by_path = loaded_at(0x5000, "/usr/bin/app", "", &[0x5010]);
        assert_eq!(by_path, [Some(("app+0x210".to_owned(), "/usr/bin/app".to_owned()))]);
    }

    #[test]
    fn an_address_outside_of_its_module_has_no_offset() {
        // A call that never returns may be a module's last instruction.
        let found = loaded_at(0x5000, "/usr/bin/app", "", &[0x5000, 0x6000, 0x6001, 0x4fff, 0]);
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, false, false]);
        assert_eq!(FrameText { module: "app", address: 7, ..FrameText::default() }.unnamed_code(), None);
    }
}
