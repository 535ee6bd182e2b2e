//! A cache of names between runs.
//!
//! To name a hundred addresses, many megabytes of debug information are read, inflated and indexed: a tenth of a second for each short run. So the
//! names found are kept, in one file for each build of a module. The file's name has the build id, and a number made of the size and time of every
//! file that names came from. When debug files are installed, replaced or removed, that number changes.
//!
//! Nothing depends on these files. A file that is missing, damaged or of another version counts as empty, and the files can be deleted at any time.
//! If two processes write the same file, each replaces it as a whole, and the later one wins: the names that only the other had found are found
//! again when they are next needed.

use crate::elf::ElfImage;
use crate::module::{SourceFrame, TypeSize};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first bytes of a file. The number changes with the format of the content, or with how names are made.
const MAGIC: [u8; 8] = *b"HWnames2";
/// Longer files are neither read nor written.
const LONGEST_FILE: u64 = 8 << 20;
/// If all files together are larger than this, the oldest ones are removed.
const MOST_BYTES: u64 = 128 << 20;

/// The folder of the user's files: `$XDG_CACHE_HOME/highwater/names`; `None` if there is none, or no names may be looked for.
pub(crate) fn users_folder() -> Option<PathBuf> {
    if crate::is_lookup_forbidden() {
        return None;
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("highwater/names"))
}

/// What is known of a module, by link-time address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownNames {
    pub(crate) frames: HashMap<u64, Box<[SourceFrame]>>,
    /// What calls of `operator new` make, by the addresses to which they return; `None` if nothing shows it.
    pub(crate) made: HashMap<u64, Option<TypeSize>>,
    /// Whether functions do not deal with the types of a claim, which a text stands for.
    pub(crate) refuted: HashMap<(u64, String), bool>,
}

/// A folder of cache files.
#[derive(Clone, Debug)]
pub(crate) struct NameCache {
    folder: PathBuf,
}

impl NameCache {
    /// A cache in this folder, which is created when it is needed.
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The cache file for the names from these images; `None` if nothing identifies the module.
    pub(crate) fn file_for<'a>(&self, build_id: &str, images: impl Iterator<Item = &'a ElfImage>) -> Option<PathBuf> {
        // The build id becomes a part of a path.
        if build_id.len() < 4 || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        for image in images {
            let about = image.about();
            (image.build_id(), about.size(), about.mtime(), about.mtime_nsec()).hash(&mut hasher);
        }
        Some(self.folder.join(format!("{build_id}-{:016x}.names", hasher.finish())))
    }

    /// The contents of a file; empty if the file cannot be used.
    pub(crate) fn read(&self, file: &Path) -> KnownNames {
        let is_trusted = || {
            let (folder, file) = (fs::symlink_metadata(&self.folder).ok()?, fs::symlink_metadata(file).ok()?);
            Some(is_ours(&folder) && is_ours(&file) && file.is_file() && file.len() <= LONGEST_FILE)
        };
        if is_trusted() != Some(true) {
            return KnownNames::default();
        }
        fs::read(file).ok().and_then(|bytes| decode(&bytes)).unwrap_or_default()
    }

    /// Replaces a file. Errors are ignored: names are found without the cache, too.
    pub(crate) fn write(&self, file: &Path, known: &KnownNames) {
        let bytes = encode(known);
        if bytes.len() as u64 <= LONGEST_FILE {
            let _ = self.try_write(file, &bytes);
        }
    }

    fn try_write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        // With 'sudo' the folder may be in another user's home; that user could then not write to it.
        let there = self.folder.ancestors().find(|folder| folder.exists()).unwrap_or(&self.folder);
        if fs::metadata(there)?.uid() != own_user() {
            return Err(io::Error::other("the folder would be in one of another user"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        if !is_ours(&fs::symlink_metadata(&self.folder)?) {
            return Err(io::Error::other("others can write into this folder"));
        }
        let unfinished = file.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&unfinished);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options.open(&unfinished)?.write_all(bytes).and_then(|()| fs::rename(&unfinished, file));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        self.remove_oldest();
        written
    }

    fn remove_oldest(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let about = entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
        let mut files: Vec<(PathBuf, Metadata)> = about.filter(|(_, about)| about.is_file()).collect();
        let mut bytes: u64 = files.iter().map(|(_, about)| about.len()).sum();
        files.sort_by_key(|(_, about)| (about.mtime(), about.mtime_nsec()));
        for (path, about) in files {
            if bytes <= MOST_BYTES {
                return;
            }
            bytes -= about.len();
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether only this user can have written the file.
fn is_ours(about: &Metadata) -> bool {
    about.mode() & 0o022 == 0 && !about.is_symlink() && about.uid() == own_user()
}

/// The user who owns the files of this process.
fn own_user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |about| about.uid())
}

fn encode(known: &KnownNames) -> Vec<u8> {
    let mut texts = Texts::default();
    let mut entries = Vec::new();
    let mut addresses: Vec<(&u64, &Box<[SourceFrame]>)> = known.frames.iter().collect();
    addresses.sort_unstable_by_key(|(address, _)| **address);
    for (address, frames) in addresses {
        entries.extend_from_slice(&address.to_le_bytes());
        put(&mut entries, frames.len() as u32);
        for frame in frames {
            put(&mut entries, texts.number(&frame.function));
            put(&mut entries, texts.number(&frame.file));
            put(&mut entries, frame.line);
            put(&mut entries, frame.inlined.into());
            put(&mut entries, frame.sizes.len() as u32);
            for TypeSize { name, size } in &frame.sizes {
                put(&mut entries, texts.number(name));
                entries.extend_from_slice(&size.to_le_bytes());
            }
        }
    }
    put(&mut entries, known.made.len() as u32);
    let mut made: Vec<(&u64, &Option<TypeSize>)> = known.made.iter().collect();
    made.sort_unstable_by_key(|(address, _)| **address);
    for (address, made) in made {
        entries.extend_from_slice(&address.to_le_bytes());
        put(&mut entries, made.is_some().into());
        if let Some(TypeSize { name, size }) = made {
            put(&mut entries, texts.number(name));
            entries.extend_from_slice(&size.to_le_bytes());
        }
    }
    put(&mut entries, known.refuted.len() as u32);
    let mut refuted: Vec<(&(u64, String), &bool)> = known.refuted.iter().collect();
    refuted.sort_unstable();
    for ((address, claim), is_refuted) in refuted {
        entries.extend_from_slice(&address.to_le_bytes());
        put(&mut entries, texts.number(claim));
        put(&mut entries, (*is_refuted).into());
    }
    let mut content = Vec::new();
    put(&mut content, texts.list.len() as u32);
    for text in texts.list {
        put(&mut content, text.len() as u32);
        content.extend_from_slice(text.as_bytes());
    }
    put(&mut content, known.frames.len() as u32);
    content.append(&mut entries);
    [&MAGIC[..], &crc32fast::hash(&content).to_le_bytes(), &content].concat()
}

/// Texts by number, each once.
#[derive(Default)]
struct Texts<'a> {
    list: Vec<&'a str>,
    numbers: HashMap<&'a str, u32>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.list.push(text);
            self.list.len() as u32 - 1
        })
    }
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// `None` if the bytes are damaged, or not a cache file.
fn decode(bytes: &[u8]) -> Option<KnownNames> {
    let (checksum, content) = bytes.strip_prefix(&MAGIC)?.split_first_chunk::<4>()?;
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let mut rest = content;
    let count = take(&mut rest)?;
    let mut texts: Vec<Arc<str>> = Vec::new();
    for _ in 0..count {
        let length = take(&mut rest)? as usize;
        let (text, others) = rest.split_at_checked(length)?;
        texts.push(std::str::from_utf8(text).ok()?.into());
        rest = others;
    }
    let text = |number: u32| texts.get(number as usize).cloned();
    let mut known = KnownNames::default();
    for _ in 0..take(&mut rest)? {
        let address = take_long(&mut rest)?;
        let mut frames = Vec::new();
        for _ in 0..take(&mut rest)? {
            let mut frame = SourceFrame {
                function: text(take(&mut rest)?)?,
                file: text(take(&mut rest)?)?,
                line: take(&mut rest)?,
                inlined: take(&mut rest)? != 0,
                sizes: Box::default(),
            };
            let mut sizes = Vec::new();
            for _ in 0..take(&mut rest)? {
                sizes.push(TypeSize { name: text(take(&mut rest)?)?, size: take_long(&mut rest)? });
            }
            frame.sizes = sizes.into();
            frames.push(frame);
        }
        known.frames.insert(address, frames.into());
    }
    for _ in 0..take(&mut rest)? {
        let address = take_long(&mut rest)?;
        let made = match take(&mut rest)? {
            0 => None,
            _ => Some(TypeSize { name: text(take(&mut rest)?)?, size: take_long(&mut rest)? }),
        };
        known.made.insert(address, made);
    }
    for _ in 0..take(&mut rest)? {
        let key = (take_long(&mut rest)?, text(take(&mut rest)?)?.to_string());
        known.refuted.insert(key, take(&mut rest)? != 0);
    }
    rest.is_empty().then_some(known)
}

fn take(rest: &mut &[u8]) -> Option<u32> {
    let (number, others) = rest.split_first_chunk::<4>()?;
    *rest = others;
    Some(u32::from_le_bytes(*number))
}

fn take_long(rest: &mut &[u8]) -> Option<u64> {
    let (number, others) = rest.split_first_chunk::<8>()?;
    *rest = others;
    Some(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_names() -> KnownNames {
        let frame = |function: &str, line, inlined| SourceFrame {
            function: function.into(),
            file: "src/main.rs".into(),
            line,
            inlined,
            sizes: [TypeSize { name: "deep::T".into(), size: u64::MAX }].into(),
        };
        let frames = [frame("deep", 7, true), frame("naïve::main", 12, false)];
        KnownNames {
            frames: HashMap::from([
                (0x1000, frames.into()),
                (0x2000, Box::default()),
                (u64::MAX, [frame("", 0, false)].into()),
            ]),
            made: HashMap::from([(7, None), (9, Some(TypeSize { name: "Session".into(), size: 96 }))]),
            refuted: HashMap::from([((7, "Foo u8".to_owned()), true), ((7, String::new()), false)]),
        }
    }

    #[test]
    fn what_was_written_is_read_and_damage_is_noticed() {
        let bytes = encode(&some_names());
        assert_eq!(decode(&bytes), Some(some_names()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
        }
        // A correct checksum over invalid data.
        let nonsense = [&MAGIC[..], &crc32fast::hash(&[0xff; 40]).to_le_bytes(), &[0xff; 40]].concat();
        assert_eq!(decode(&nonsense), None);
    }

    #[test]
    fn the_oldest_files_go_when_there_are_too_many_bytes() {
        let folder = std::env::temp_dir().join(format!("highwater-names-{}", std::process::id()));
        let cache = NameCache::in_folder(folder.clone());
        cache.write(&folder.join("first.names"), &some_names());
        assert_eq!(cache.read(&folder.join("first.names")), some_names());
        let large = fs::File::create(folder.join("large.names")).unwrap();
        large.set_len(MOST_BYTES).unwrap();
        large.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        cache.write(&folder.join("second.names"), &some_names());
        let left: Vec<String> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!left.contains(&"large.names".to_owned()) && left.len() == 2, "{left:?}");
        // Another user could have written this one.
        fs::set_permissions(folder.join("first.names"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        assert_eq!(cache.read(&folder.join("first.names")), KnownNames::default());
        fs::remove_dir_all(&folder).unwrap();
    }
}
