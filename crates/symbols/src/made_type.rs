//! What a call of `operator new` makes, according to DWARF.
//!
//! A call of `operator new` is not connected with the type that it is for, except by recent versions of clang. What follows it is: the constructor of
//! the type, inlined or called, on the same source line. The size of the class goes with the answer, so that it can be compared with the
//! blocks: if they have another size, the answer is wrong and must not be used.

use addr2line::gimli::{self, AttributeValue, Unit, UnitOffset};

use crate::function_entry::{EntryReader, SizedName, Slice};

/// `DW_AT_LLVM_alloc_type`: the type that a call allocates.
const DW_AT_LLVM_ALLOC_TYPE: gimli::DwAt = gimli::DwAt(0x3e0e);
/// Functions with more entries are not searched to their end.
const MOST_ENTRIES: usize = 20_000;

/// The call of `operator new` in a function.
pub(crate) struct NewCall {
    /// The entry of the function that contains the call, or of the inlined call that contains it.
    pub(crate) scope: UnitOffset,
    /// The address to which the call returns.
    pub(crate) return_address: u64,
    /// The source line of the call.
    pub(crate) line: u32,
}

/// A constructor that runs after the call.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    address: u64,
    function: AttributeValue<Slice<'a>>,
}

impl<'a> EntryReader<'_, 'a> {
    /// The type that a call makes; `None` if nothing shows it.
    pub(crate) fn made_by(&self, unit: &Unit<Slice<'a>>, call: &NewCall) -> Option<SizedName> {
        let mut found = NewCallSearch::default();
        self.search(unit, call, &mut found);
        if let Some(reference) = found.alloc_type {
            return self.follow(unit, reference, |unit, offset| self.named_type(unit, offset));
        }
        let inlined =
            found.inlined.filter(|inlined| found.called.is_none_or(|called| inlined.address < called.address));
        let nearest = inlined.or(found.called)?;
        self.follow(unit, nearest.function, |unit, offset| self.constructed_class(unit, offset))
    }

    fn search(&self, unit: &Unit<Slice<'a>>, call: &NewCall, found: &mut NewCallSearch<'a>) -> Option<()> {
        let mut entries = unit.entries_raw(Some(call.scope)).ok()?;
        let mut entry = gimli::DebuggingInformationEntry::null();
        let top = entries.next_depth();
        // The depth of an inlined call, whose own calls are not those of this function.
        let mut inside: Option<isize> = None;
        for _ in 0..MOST_ENTRIES {
            let depth = entries.next_depth();
            if !entries.read_entry(&mut entry).ok()? {
                continue;
            }
            if depth <= top && entry.offset() != call.scope {
                break;
            }
            if inside.is_some_and(|inlined| depth > inlined) {
                continue;
            }
            inside = None;
            match entry.tag() {
                gimli::DW_TAG_inlined_subroutine if entry.offset() != call.scope => {
                    inside = Some(depth);
                    found.add_inlined(self, unit, &entry, call);
                }
                gimli::DW_TAG_call_site | gimli::DW_TAG_GNU_call_site => {
                    inside = Some(depth);
                    found.add_call(self, unit, &entry, call);
                }
                _ => {}
            }
        }
        Some(())
    }

    /// The class of a constructor, with its size.
    pub(crate) fn constructed_class(&self, unit: &Unit<Slice<'a>>, offset: UnitOffset) -> Option<SizedName> {
        let function = self.function(unit, offset);
        let (class, size) = self.class_of_method(unit, offset)?;
        let base = class.split('<').next()?;
        // A constructor has the name of its class.
        if function.name.as_deref()?.split('<').next() != Some(base) {
            return None;
        }
        // The linkage name has the namespaces.
        let qualified = function.linkage_name.as_deref().map(crate::demangle::demangle);
        let qualified = qualified.as_deref().and_then(|name| class_of_constructor(name, base));
        Some(SizedName { name: qualified.unwrap_or(class), size: size? })
    }

    fn named_type(&self, unit: &Unit<Slice<'a>>, offset: UnitOffset) -> Option<SizedName> {
        let entry = unit.entry(offset).ok()?;
        let name = self.text(unit, &entry, gimli::DW_AT_name)?;
        Some(SizedName { name, size: self.size_of(unit, offset, 8)? })
    }
}

/// The class in the demangled name of its constructor: `app::Session` of `app::Session::Session(long)`.
pub(crate) fn class_of_constructor(name: &str, base: &str) -> Option<String> {
    let mut depth = 0u32;
    let mut end = None;
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            // The anonymous namespace is in parentheses, too.
            b'(' if depth == 0 && !name[at..].starts_with("(anonymous") => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    let name = &name[..end?];
    let at = name.rfind(&format!("::{base}"))?;
    let class = &name[..at];
    let is_class = class == base || class.ends_with(&format!("::{base}")) || class.contains(&format!("{base}<"));
    is_class.then(|| class.to_owned())
}

/// What is known while the entries of a function are read.
#[derive(Default)]
struct NewCallSearch<'a> {
    alloc_type: Option<AttributeValue<Slice<'a>>>,
    inlined: Option<Candidate<'a>>,
    called: Option<Candidate<'a>>,
}

impl<'a> NewCallSearch<'a> {
    fn add_inlined(
        &mut self,
        reader: &EntryReader<'_, 'a>,
        unit: &Unit<Slice<'a>>,
        entry: &gimli::DebuggingInformationEntry<Slice<'a>>,
        call: &NewCall,
    ) {
        let line = entry.attr_value(gimli::DW_AT_call_line).and_then(|line| line.udata_value());
        let starts =
            [gimli::DW_AT_entry_pc, gimli::DW_AT_low_pc].iter().find_map(|name| reader.address(unit, entry, *name));
        let start = starts.or_else(|| reader.dwarf.die_ranges(unit, entry).ok()?.next().ok()?.map(|range| range.begin));
        let (Some(address), Some(function)) = (start, entry.attr_value(gimli::DW_AT_abstract_origin)) else { return };
        let is_after = address >= call.return_address && line == Some(call.line.into());
        let is_constructor =
            || reader.follow(unit, function, |unit, offset| reader.constructed_class(unit, offset)).is_some();
        if is_after && self.inlined.is_none_or(|known| address < known.address) && is_constructor() {
            self.inlined = Some(Candidate { address, function });
        }
    }

    fn add_call(
        &mut self,
        reader: &EntryReader<'_, 'a>,
        unit: &Unit<Slice<'a>>,
        entry: &gimli::DebuggingInformationEntry<Slice<'a>>,
        call: &NewCall,
    ) {
        let returns = [gimli::DW_AT_call_return_pc, gimli::DW_AT_low_pc];
        let Some(address) = returns.iter().find_map(|name| reader.address(unit, entry, *name)) else { return };
        if address == call.return_address {
            self.alloc_type = entry.attr_value(DW_AT_LLVM_ALLOC_TYPE);
            return;
        }
        let origin = [gimli::DW_AT_call_origin, gimli::DW_AT_abstract_origin];
        let Some(function) = origin.iter().find_map(|name| entry.attr_value(*name)) else { return };
        if address > call.return_address && self.called.is_none_or(|known| address < known.address) {
            self.called = Some(Candidate { address, function });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constructor_shows_its_class() {
        let cases = [
            ("app::Session::Session(long)", "Session", Some("app::Session")),
            ("Session::Session()", "Session", Some("Session")),
            ("ns::Store<int>::Store(int)", "Store", Some("ns::Store<int>")),
            ("ns::Store<int>::Store<char>(char)", "Store", Some("ns::Store<int>")),
            ("(anonymous namespace)::Node::Node(Node*)", "Node", Some("(anonymous namespace)::Node")),
            ("app::Session::open(long)", "Session", None),
            ("main", "main", None),
            ("f(", "f", None),
        ];
        for (name, base, class) in cases {
            assert_eq!(class_of_constructor(name, base).as_deref(), class, "{name}");
        }
    }
}
