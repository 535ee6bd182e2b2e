//! Code of modules that a program has mapped once more, at another address.
//!
//! V8 maps its builtins, which lie in the text of `node`, a second time near the code that it makes, so that calls are short. The loader does not know of
//! that mapping, but the kernel does. Its code has the names of the module.

use highwater_model::{Catalog, Module, StringId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The minimum time between two readings of the kernel's list.
const READ_EVERY: Duration = Duration::from_millis(100);

/// An executable mapping of a process.
struct CodeMapping {
    end: u64,
    file_offset: u64,
    /// The mapped file, empty if it is none.
    path: String,
    /// Its index in the catalog, once an address in it was met.
    module: Option<u32>,
}

/// The executable mappings of a process.
#[derive(Default)]
pub struct FileCode {
    /// 0 if the process is not known.
    pid: u32,
    by_start: BTreeMap<u64, CodeMapping>,
    last_reading: Option<Instant>,
}

impl FileCode {
    /// The mappings of a process, read when they are needed.
    pub fn of(pid: u32) -> Self {
        Self { pid, ..Self::default() }
    }

    /// The module that is mapped at an address without the loader's knowledge, as an index in the catalog.
    pub fn module_at(&mut self, address: u64, catalog: &mut Catalog) -> Option<u32> {
        if self.mapping_at(address).is_none() {
            self.read_again();
        }
        let (&start, _) = self.by_start.range(..=address).next_back()?;
        let mapping =
            self.by_start.get_mut(&start).filter(|mapping| address < mapping.end && !mapping.path.is_empty())?;
        if mapping.module.is_none() {
            let path = catalog.strings.intern(&mapping.path);
            // Only a module that the loader reported: it has a build id by which its names are found.
            let build_id = catalog.modules.iter().find(|module| module.path == path)?.build_id;
            mapping.module = Some(add(catalog, path, build_id, start, mapping));
        }
        mapping.module
    }

    fn mapping_at(&self, address: u64) -> Option<&CodeMapping> {
        let (_, mapping) = self.by_start.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    fn read_again(&mut self) {
        let is_due = self.last_reading.is_none_or(|last| last.elapsed() >= READ_EVERY);
        if self.pid == 0 || !is_due {
            return;
        }
        self.last_reading = Some(Instant::now());
        let list = std::fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        self.add_list(&String::from_utf8_lossy(&list));
    }

    /// Adds the executable mappings of the kernel's list. Those that are known stay: a stack from a moment ago may have them.
    fn add_list(&mut self, list: &str) {
        for (start, mapping) in list.lines().filter_map(executable) {
            let is_known =
                self.by_start.get(&start).is_some_and(|known| known.end == mapping.end && known.path == mapping.path);
            if !is_known {
                self.by_start.insert(start, mapping);
            }
        }
    }
}

fn add(catalog: &mut Catalog, path: StringId, build_id: StringId, start: u64, mapping: &CodeMapping) -> u32 {
    let (end, file_offset) = (mapping.end, mapping.file_offset);
    catalog.add_module(Module { path, build_id, start, end, file_offset, ..Module::default() })
}

/// The start of an executable mapping, and the mapping: `START-END r-xp OFFSET DEVICE INODE PATH`.
fn executable(line: &str) -> Option<(u64, CodeMapping)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    words.next().filter(|permissions| permissions.contains('x'))?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let file_offset = number(words.next()?)?;
    let path = words.nth(2).unwrap_or_default().trim_start();
    let path = if path.starts_with('/') { path.to_owned() } else { String::new() };
    Some((number(start)?, CodeMapping { end: number(end)?, file_offset, path, module: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
7f6004003000-7f600403f000 rwxp 00000000 00:00 0 \n\
7f6023e40000-7f6023fd2000 r-xp 014c4000 fe:00 247584                     /usr/bin/my node\n\
7f602a81e000-7f602a844000 r--p 00000000 fe:00 326279                     /usr/lib/libc.so.6\n\
7f6030000000-7f6030001000 r-xp 00000000 fe:00 326279                     /srv/unknown.so\n\
nonsense\n";

    #[test]
    fn code_of_a_known_module_that_is_mapped_again_is_in_that_module() {
        let (mut code, mut catalog) = (FileCode::default(), Catalog::default());
        code.add_list(LIST);
        assert_eq!(code.module_at(0x7f60_23e4_0010, &mut catalog), None);
        let [path, build_id] = ["/usr/bin/my node", "abcd"].map(|text| catalog.strings.intern(text));
        catalog.add_module(Module { path, build_id, start: 0x40_0000, end: 0x500_0000, ..Module::default() });
        let again = code.module_at(0x7f60_23e4_0010, &mut catalog).expect("a module");
        let Module { start, file_offset, .. } = catalog.modules[again as usize];
        assert_eq!((start, file_offset), (0x7f60_23e4_0000, 0x14c_4000));
        assert_eq!(code.module_at(0x7f60_23fd_1fff, &mut catalog), Some(again));
        for elsewhere in [0x7f60_23fd_2000, 0x7f60_0400_3000, 0x7f60_2a81_e000, 0x7f60_3000_0000, 0] {
            assert_eq!(code.module_at(elsewhere, &mut catalog), None, "{elsewhere:x}");
        }
    }
}
