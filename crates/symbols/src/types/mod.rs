//! The types of a program whose values own memory: from the debug information of a WASM module or an ELF file, or from the names of its functions alone.
//!
//! Two questions, two sources. *Which types?* Those that the program drops, or keeps in a box, a vector or another container: the names of functions show
//! both (`drop_in_place<T>`, `<T as Drop>::drop`, `Vec<T>`, `~T`). Types of the standard library and plain values on the stack are left out: they
//! are not what leaks. *How large?* Only DWARF has sizes.
//!
//! One generic type is one type, whatever its parameters: it is declared once.
//!
//! A module is hostile input: what cannot be read is a [`TypesError`] with its offset, names are bounded in length and number, and nothing recurses.

mod dwarf;
mod mentions;
mod module;

pub use mentions::types_in;

use mentions::{Mention, Mentions};
use rustc_hash::FxHashMap;

/// Paths longer than this are left out: a few bytes of DWARF could otherwise stand for gigabytes.
const LONGEST_NAME: usize = 1024;
/// The most types that are kept.
const MOST_TYPES: usize = 1 << 18;

/// Why the types of a file are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypesError {
    /// Neither a WASM module nor an ELF file.
    UnknownFile,
    /// The file cannot be read: what is wrong, and where.
    Malformed {
        /// What is wrong.
        problem: String,
        /// The offset in the file.
        offset: usize,
    },
    /// The debug information cannot be read: what is wrong, and where.
    Dwarf {
        /// What is wrong.
        problem: String,
        /// The offset in the section `.debug_info`.
        offset: usize,
    },
    /// An object file: its debug information is not complete before it is linked.
    Unlinked,
    /// The file has neither debug information nor names of functions.
    NoNames,
}

impl std::fmt::Display for TypesError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownFile => out.write_str("neither a WASM module nor an ELF file"),
            Self::Malformed { problem, offset } => write!(out, "not a sound module: {problem} at byte {offset}"),
            Self::Dwarf { problem, offset } => {
                write!(out, "its debug information is damaged: {problem} at byte {offset} of .debug_info")
            }
            Self::Unlinked => out.write_str("an object file, whose names are not complete before it is linked; take the program"),
            Self::NoNames => out.write_str(
                "it has no types: neither DWARF nor names of functions. Build it with 'debug = true', or without 'strip'",
            ),
        }
    }
}

impl std::error::Error for TypesError {}

/// A type of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramType {
    /// Its path, without type parameters.
    pub name: String,
    /// The size of a value, of the largest if the type is generic; `None` if DWARF does not have it. What a value owns on the heap is not part of it.
    pub size: Option<u64>,
    /// The number of different type parameters that it has in the program, 0 if it is not generic; `None` without DWARF.
    pub variants: Option<u64>,
    /// The number of functions whose names mention it.
    pub functions: u64,
    /// True if the program drops values of it: they own memory.
    pub is_dropped: bool,
    /// True if values of it are in a box, a vector or another container.
    pub is_held: bool,
}

/// The types of a program, largest first; those without sizes last, dropped ones first, then those with the most functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramTypes {
    /// The types.
    pub types: Vec<ProgramType>,
    /// True if the sizes are known.
    pub has_sizes: bool,
    /// The number of functions with a name.
    pub functions: u64,
    /// True if the program has more types than are kept.
    pub is_truncated: bool,
}

impl ProgramTypes {
    /// Finds the types in a WASM module or an ELF file.
    pub fn of(file: &[u8]) -> Result<Self, TypesError> {
        let mut mentions = Mentions::default();
        let contents = module::contents(file, &mut |name| mentions.add_function(name))?;
        let sizes = dwarf::read(&contents, &mut mentions)?;
        if sizes.is_none() && mentions.functions == 0 {
            return Err(TypesError::NoNames);
        }
        Ok(Self::joined(sizes, mentions))
    }

    fn joined(sizes: Option<FxHashMap<String, SizedType>>, mentions: Mentions) -> Self {
        let Mentions { functions, is_full, .. } = mentions;
        let has_sizes = sizes.is_some();
        let row = |name: String, size: Option<SizedType>, Mention { functions, is_dropped, is_held, .. }: Mention| {
            let variants = size.map(|size| size.variants);
            ProgramType { name, size: size.map(|size| size.bytes), variants, functions, is_dropped, is_held }
        };
        let mut found = mentions.types();
        let mut types: Vec<ProgramType> = Vec::new();
        for (name, size) in sizes.unwrap_or_default().into_iter().filter(|(_, size)| size.bytes > 0) {
            if let Some(mention) = found.remove(&name) {
                types.push(row(name, Some(size), mention));
            }
        }
        // Other parts of the program may be built without DWARF.
        let named = found.into_iter().filter(|(name, mention)| mention.is_named(name));
        types.extend(named.map(|(name, mention)| row(name, None, mention)));
        types.retain(|each| each.is_dropped || each.is_held);
        types.sort_by(|a, b| {
            let key = |each: &ProgramType| (each.size, each.is_dropped, each.functions);
            key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name))
        });
        Self { types, has_sizes, functions, is_truncated: is_full }
    }
}

/// What DWARF says of a type.
#[derive(Clone, Copy, Debug, Default)]
struct SizedType {
    bytes: u64,
    variants: u64,
}
