//! What DWARF says of a function beyond its linkage name: its own name with type arguments, its type parameters, and the sizes of the types.
//!
//! Rust's older mangling leaves type arguments out of the linkage name: `Vec<T,A>::push`. The entry of the function has them twice: in its name,
//! `push<app::Point, alloc::alloc::Global>`, and as children that name the parameters, `T` and `A`. With line tables only, the name is all there is.

use std::cell::OnceCell;

use addr2line::gimli::{
    self, AttributeValue, DebugInfoOffset, Dwarf, EndianSlice, LittleEndian, Unit, UnitHeader, UnitOffset,
};

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// The longest chain of references that is followed, from an inlined call to its origin to its declaration.
const DEEPEST_CHAIN: usize = 8;
/// The number of children of a function that are looked at: type parameters and parameters come first.
const MOST_CHILDREN: usize = 24;
/// Longer names are of no use, and hostile ones would fill the memory.
const LONGEST_NAME: usize = 16 * 1024;

/// What DWARF says of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FunctionEntry {
    /// The mangled name.
    pub(crate) linkage_name: Option<String>,
    /// The name in the source; of a Rust function with its type arguments.
    pub(crate) name: Option<String>,
    /// Its type parameters, in the order of the type arguments.
    pub(crate) parameters: Vec<TypeParameter>,
    /// The C++ class whose method it is, without its namespace, if the function has no linkage name: compilers leave it out of functions that only
    /// one file can call, such as those for types in an anonymous namespace.
    pub(crate) class: Option<String>,
}

/// A type parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeParameter {
    /// Its name, such as `T`.
    pub(crate) name: String,
    /// The size of a value of the type that takes its place.
    pub(crate) size: Option<u64>,
}

/// The text of a type, and the size of a value of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SizedName {
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// Where the units of a file begin; found when an entry refers to one of another unit.
#[derive(Default)]
pub(crate) struct UnitStarts<'a>(OnceCell<Vec<UnitHeader<Slice<'a>>>>);

impl<'a> UnitStarts<'a> {
    fn unit_at(&self, dwarf: &Dwarf<Slice<'a>>, offset: DebugInfoOffset) -> Option<(Unit<Slice<'a>>, UnitOffset)> {
        // The units of another file have other offsets, and do not refer to each other.
        if dwarf.file_type == gimli::DwarfFileType::Dwo {
            return None;
        }
        let headers = self.0.get_or_init(|| {
            let mut units = dwarf.units();
            std::iter::from_fn(|| units.next().ok().flatten()).collect()
        });
        let start = |header: &UnitHeader<Slice<'a>>| header.debug_info_offset().map_or(0, |start| start.0);
        let after = headers.partition_point(|header| start(header) <= offset.0);
        let header = headers.get(after.checked_sub(1)?)?;
        let inside = offset.to_unit_offset(header)?;
        Some((dwarf.unit(*header).ok()?, inside))
    }
}

/// Reads entries of one file.
pub(crate) struct EntryReader<'c, 'a> {
    pub(crate) dwarf: &'c Dwarf<Slice<'a>>,
    pub(crate) units: &'c UnitStarts<'a>,
}

impl<'a> EntryReader<'_, 'a> {
    /// The function whose entry, or whose inlined call, is at this offset.
    pub(crate) fn function(&self, unit: &Unit<Slice<'a>>, offset: UnitOffset) -> FunctionEntry {
        let mut found = FunctionEntry::default();
        self.add_function(unit, offset, DEEPEST_CHAIN, &mut found);
        if found.linkage_name.is_none() {
            found.class = self.class_of_method(unit, offset).map(|(name, _)| name);
        }
        found
    }

    fn add_function(
        &self,
        unit: &Unit<Slice<'a>>,
        offset: UnitOffset,
        depth: usize,
        found: &mut FunctionEntry,
    ) -> Option<()> {
        let entry = unit.entry(offset).ok()?;
        let linkage = [gimli::DW_AT_linkage_name, gimli::DW_AT_MIPS_linkage_name];
        let linkage = linkage.iter().find_map(|name| self.text(unit, &entry, *name));
        found.linkage_name = found.linkage_name.take().or(linkage);
        found.name = found.name.take().or_else(|| self.text(unit, &entry, gimli::DW_AT_name));
        if found.parameters.is_empty() && entry.has_children() && entry.tag() == gimli::DW_TAG_subprogram {
            found.parameters = self.parameters(unit, offset);
        }
        let origin = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
        let origin = origin.iter().find_map(|name| entry.attr_value(*name))?;
        let depth = depth.checked_sub(1)?;
        self.follow(unit, origin, |unit, offset| self.add_function(unit, offset, depth, found))
    }

    fn parameters(&self, unit: &Unit<Slice<'a>>, function: UnitOffset) -> Vec<TypeParameter> {
        let mut parameters = Vec::new();
        self.each_child(unit, function, |child| {
            if child.tag() == gimli::DW_TAG_template_type_parameter {
                let name = self.text(unit, child, gimli::DW_AT_name).unwrap_or_default();
                let size =
                    child.attr_value(gimli::DW_AT_type).and_then(|of| self.size_of_reference(unit, of, DEEPEST_CHAIN));
                parameters.push(TypeParameter { name, size });
            }
        });
        parameters
    }

    /// The element type of the allocator whose method this function is: `T` of `std::__new_allocator<T>`, with the size of a value.
    pub(crate) fn allocated_by_cpp(&self, unit: &Unit<Slice<'a>>, offset: UnitOffset) -> Option<SizedName> {
        self.with_class(unit, offset, |unit, class| {
            let entry = unit.entry(class).ok()?;
            let name = self.text(unit, &entry, gimli::DW_AT_name)?;
            let element = ["__new_allocator<", "new_allocator<", "allocator<"]
                .iter()
                .find_map(|class| name.strip_prefix(class))?;
            let size = self.parameters(unit, class).first()?.size?;
            Some(SizedName { name: element.strip_suffix('>')?.trim_end().to_owned(), size })
        })
    }

    /// The name of the class whose method this function is, without its namespace, and the size of an object.
    pub(crate) fn class_of_method(&self, unit: &Unit<Slice<'a>>, offset: UnitOffset) -> Option<(String, Option<u64>)> {
        self.with_class(unit, offset, |unit, class| {
            let entry = unit.entry(class).ok()?;
            Some((self.text(unit, &entry, gimli::DW_AT_name)?, self.size_of(unit, class, DEEPEST_CHAIN)))
        })
    }

    /// Calls `visit` with the class whose method this function is: the type that its parameter `this` leads to.
    fn with_class<T>(
        &self,
        unit: &Unit<Slice<'a>>,
        offset: UnitOffset,
        mut visit: impl FnMut(&Unit<Slice<'a>>, UnitOffset) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        self.with_origin(unit, offset, DEEPEST_CHAIN, &mut |unit, offset| {
            let mut this = None;
            self.each_child(unit, offset, |child| {
                let is_this = child.tag() == gimli::DW_TAG_formal_parameter
                    && child.attr_value(gimli::DW_AT_artificial).is_some();
                this = this.take().or_else(|| child.attr_value(gimli::DW_AT_type).filter(|_| is_this));
            });
            let Some(this) = this else { return false };
            found = self.follow(unit, this, |unit, offset| self.pointed(unit, offset, DEEPEST_CHAIN, &mut visit));
            true
        });
        found
    }

    /// Calls `visit` with a function's entry, its origin and its declaration, until it returns true.
    fn with_origin(
        &self,
        unit: &Unit<Slice<'a>>,
        offset: UnitOffset,
        depth: usize,
        visit: &mut dyn FnMut(&Unit<Slice<'a>>, UnitOffset) -> bool,
    ) -> Option<()> {
        if visit(unit, offset) {
            return Some(());
        }
        let entry = unit.entry(offset).ok()?;
        let origin = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
        let origin = origin.iter().find_map(|name| entry.attr_value(*name))?;
        let depth = depth.checked_sub(1)?;
        self.follow(unit, origin, |unit, offset| self.with_origin(unit, offset, depth, visit))
    }

    /// Calls `visit` with the class that a pointer leads to.
    fn pointed<T>(
        &self,
        unit: &Unit<Slice<'a>>,
        offset: UnitOffset,
        depth: usize,
        visit: &mut dyn FnMut(&Unit<Slice<'a>>, UnitOffset) -> Option<T>,
    ) -> Option<T> {
        let entry = unit.entry(offset).ok()?;
        if let gimli::DW_TAG_pointer_type | gimli::DW_TAG_const_type | gimli::DW_TAG_typedef = entry.tag() {
            let (inner, depth) = (entry.attr_value(gimli::DW_AT_type)?, depth.checked_sub(1)?);
            return self.follow(unit, inner, |unit, class| self.pointed(unit, class, depth, visit));
        }
        visit(unit, offset)
    }

    /// The address in an attribute.
    pub(crate) fn address(&self, unit: &Unit<Slice<'a>>, entry: &Entry<'a>, name: gimli::DwAt) -> Option<u64> {
        self.dwarf.attr_address(unit, entry.attr_value(name)?).ok()?
    }

    /// Calls `visit` with the first children of an entry.
    pub(crate) fn each_child(
        &self,
        unit: &Unit<Slice<'a>>,
        parent: UnitOffset,
        mut visit: impl FnMut(&Entry<'a>),
    ) -> Option<()> {
        let mut tree = unit.entries_tree(Some(parent)).ok()?;
        let mut children = tree.root().ok()?.children();
        for _ in 0..MOST_CHILDREN {
            visit(children.next().ok()??.entry());
        }
        Some(())
    }

    fn size_of_reference(
        &self,
        unit: &Unit<Slice<'a>>,
        reference: AttributeValue<Slice<'a>>,
        depth: usize,
    ) -> Option<u64> {
        self.follow(unit, reference, |unit, offset| self.size_of(unit, offset, depth))
    }

    /// The size of a value of a type.
    pub(crate) fn size_of(&self, unit: &Unit<Slice<'a>>, offset: UnitOffset, depth: usize) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        let entry = unit.entry(offset).ok()?;
        if let Some(size) = entry.attr_value(gimli::DW_AT_byte_size) {
            return size.udata_value();
        }
        match entry.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                Some(unit.encoding().address_size.into())
            }
            gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type | gimli::DW_TAG_typedef => {
                self.size_of_reference(unit, entry.attr_value(gimli::DW_AT_type)?, depth)
            }
            gimli::DW_TAG_array_type => {
                let element = self.size_of_reference(unit, entry.attr_value(gimli::DW_AT_type)?, depth)?;
                let mut size = Some(element);
                self.each_child(unit, offset, |child| {
                    let count = child.attr_value(gimli::DW_AT_count).and_then(|count| count.udata_value());
                    let last = child.attr_value(gimli::DW_AT_upper_bound).and_then(|last| last.udata_value());
                    let count = count.or_else(|| last?.checked_add(1));
                    size = size.zip(count).and_then(|(size, count)| size.checked_mul(count));
                });
                size
            }
            _ => None,
        }
    }

    /// The text of an attribute.
    pub(crate) fn text(&self, unit: &Unit<Slice<'a>>, entry: &Entry<'a>, name: gimli::DwAt) -> Option<String> {
        let text = self.dwarf.attr_string(unit, entry.attr_value(name)?).ok()?;
        let text = std::str::from_utf8(text.slice()).ok()?;
        (!text.is_empty() && text.len() <= LONGEST_NAME).then(|| text.to_owned())
    }

    /// Calls `visit` with the entry that an attribute refers to.
    pub(crate) fn follow<T>(
        &self,
        unit: &Unit<Slice<'a>>,
        reference: AttributeValue<Slice<'a>>,
        visit: impl FnOnce(&Unit<Slice<'a>>, UnitOffset) -> Option<T>,
    ) -> Option<T> {
        match reference {
            AttributeValue::UnitRef(offset) => visit(unit, offset),
            AttributeValue::DebugInfoRef(offset) => match offset.to_unit_offset(&unit.header) {
                Some(inside) => visit(unit, inside),
                None => {
                    let (other, inside) = self.units.unit_at(self.dwarf, offset)?;
                    visit(&other, inside)
                }
            },
            // Types that `dwz` moved to another file, and those in sections of their own, are not looked for.
            _ => None,
        }
    }
}
