//! The classes of a dump: names, fields, and which of them are never unloaded.

use super::addresses::Addresses;
use super::bytes::DumpBytes;
use super::catalog::Catalog;
use super::records::{ClassRecord, FieldType, StaticField};
use rustc_hash::FxHashMap;

/// The index of a class that the dump does not describe. Arrays of primitive types have the indexes before it.
pub(super) const UNKNOWN_CLASS: u32 = FieldType::PRIMITIVES.len() as u32;
/// The same for arrays of objects.
pub(super) const UNKNOWN_ARRAY: u32 = UNKNOWN_CLASS + 1;
/// More superclasses than any program has: the chain is a cycle.
const DEEPEST: usize = 100;

/// A class.
#[derive(Debug, Default)]
pub(super) struct Class {
    /// As Java names it: `java.lang.String`, `byte[]`.
    pub name: String,
    pub record: ClassRecord,
    /// The index of its superclass.
    pub superclass: Option<u32>,
    /// The number of the class object.
    pub object: Option<u32>,
    /// The bytes of an instance's fields in the dump, those of all superclasses included.
    pub field_bytes: u64,
    /// The indexes of fields that the JVM surrounds with padding.
    pub contended: Vec<usize>,
    /// The number of static fields that lie in the class object. The JVM lists some of its own after them.
    pub own_statics: usize,
    /// True if it cannot be unloaded.
    pub is_permanent: bool,
}

impl Class {
    /// True if its instances are arrays.
    pub fn is_array(&self) -> bool {
        self.name.ends_with("[]")
    }

    /// Notes fields that are laid out in other ways. Static fields of the JVM have names such as `<resolved_references>`.
    fn note_names(&mut self, catalog: &Catalog, bytes: &DumpBytes) {
        let starts_with =
            |name: u64, start: &str| catalog.name(bytes, name).is_some_and(|name| name.starts_with(start));
        let statics = &self.record.statics;
        let is_own = |field: &StaticField| field.kind != FieldType::Object || !starts_with(field.name, "<");
        self.own_statics = statics.iter().rposition(is_own).map_or(0, |last| last + 1);
        if self.name == "java.lang.Thread" {
            let fields = self.record.fields.iter().enumerate();
            self.contended =
                fields.filter(|(_, (name, _))| starts_with(*name, "threadLocalRandom")).map(|(at, _)| at).collect();
        }
    }
}

/// All classes, by index.
pub(super) struct Classes {
    all: Vec<Class>,
    by_id: FxHashMap<u64, u32>,
    /// The index of `java.lang.Class`, whose instances are the class objects.
    pub class_class: u32,
    pub string_class: u32,
    pub object_class: u32,
}

impl Classes {
    pub fn of(catalog: &mut Catalog, addresses: &Addresses, bytes: &DumpBytes, id_size: u32) -> Self {
        let records = std::mem::take(&mut catalog.classes);
        let primitive = |kind: FieldType| Class { name: format!("{}[]", kind.name()), ..Class::default() };
        let mut all: Vec<Class> = FieldType::PRIMITIVES.into_iter().map(primitive).collect();
        all.push(Class { name: "(unknown class)".to_owned(), ..Class::default() });
        all.push(Class { name: "(unknown class)[]".to_owned(), ..Class::default() });
        let mut by_id = FxHashMap::default();
        for (record, _) in records {
            let name = catalog.class_names.get(&record.id).and_then(|name| catalog.name(bytes, *name));
            let name = name.map_or_else(|| format!("(class {:#x})", record.id), |name| java_name(&name));
            by_id.entry(record.id).or_insert(all.len() as u32);
            let mut class = Class { name, object: addresses.number(record.id), record, ..Class::default() };
            class.note_names(catalog, bytes);
            all.push(class);
        }
        let mut classes =
            Self { all, by_id, class_class: UNKNOWN_CLASS, string_class: UNKNOWN_CLASS, object_class: UNKNOWN_CLASS };
        classes.class_class = classes.find("java.lang.Class");
        classes.string_class = classes.find("java.lang.String");
        classes.object_class = classes.find("java.lang.Object");
        for index in 0..classes.all.len() {
            let class = &classes.all[index].record;
            classes.all[index].superclass =
                classes.by_id.get(&class.superclass).copied().filter(|_| class.superclass != 0);
        }
        let width = |class: &Class| class.record.fields.iter().map(|(_, kind)| u64::from(kind.width(id_size))).sum();
        let own: Vec<u64> = classes.all.iter().map(width).collect();
        for index in 0..classes.all.len() {
            classes.all[index].field_bytes = classes.indexes(index as u32).map(|index| own[index as usize]).sum();
        }
        classes
    }

    /// The number of classes.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub fn get(&self, index: u32) -> &Class {
        &self.all[index as usize]
    }

    pub fn get_mut(&mut self, index: u32) -> &mut Class {
        &mut self.all[index as usize]
    }

    /// The index of a class by its identifier.
    #[inline]
    pub fn index(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    fn find(&self, name: &str) -> u32 {
        self.all.iter().position(|class| class.name == name).map_or(UNKNOWN_CLASS, |index| index as u32)
    }

    /// A class and its superclasses, the class itself first: the order in which a dump lists fields.
    pub fn chain(&self, index: u32) -> impl Iterator<Item = &Class> {
        self.indexes(index).map(|index| self.get(index))
    }

    pub fn indexes(&self, index: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(index), |index| self.get(*index).superclass).take(DEEPEST)
    }

    /// The offsets of the references in the fields of an instance that keep their targets.
    pub fn references(&self, index: u32, catalog: &Catalog, bytes: &DumpBytes, id_size: u32) -> Vec<u32> {
        let is_weak = self.is_weak(index);
        let mut offset = 0u32;
        let mut references = Vec::new();
        for class in self.chain(index) {
            for (name, kind) in &class.record.fields {
                if *kind == FieldType::Object {
                    let is_referent = is_weak && class.name == "java.lang.ref.Reference";
                    if !is_referent || catalog.name(bytes, *name).as_deref() != Some("referent") {
                        references.push(offset);
                    }
                }
                offset = offset.saturating_add(kind.width(id_size));
            }
        }
        references
    }

    /// True if the referent of its instances may be collected although they refer to it: weak and phantom references. Soft references are cleared only when
    /// memory runs out, so they keep what they refer to.
    pub fn is_weak(&self, index: u32) -> bool {
        self.chain(index).any(|class| {
            matches!(class.name.as_str(), "java.lang.ref.WeakReference" | "java.lang.ref.PhantomReference")
        })
    }

    /// The indexes of all classes that the dump describes.
    pub fn described(&self) -> impl Iterator<Item = u32> + use<> {
        UNKNOWN_ARRAY + 1..self.all.len() as u32
    }
}

/// The name of a class as Java writes it, from that in a dump: `[Ljava/lang/String;` is `java.lang.String[]`.
fn java_name(name: &str) -> String {
    let element = name.trim_start_matches('[');
    let dimensions = name.len() - element.len();
    let element = match element {
        "Z" if dimensions > 0 => "boolean",
        "C" if dimensions > 0 => "char",
        "F" if dimensions > 0 => "float",
        "D" if dimensions > 0 => "double",
        "B" if dimensions > 0 => "byte",
        "S" if dimensions > 0 => "short",
        "I" if dimensions > 0 => "int",
        "J" if dimensions > 0 => "long",
        _ => element
            .strip_prefix('L')
            .and_then(|name| name.strip_suffix(';'))
            .filter(|_| dimensions > 0)
            .unwrap_or(element),
    };
    // A hidden class has its address in its name, after a plus sign; tools of the JDK show a slash.
    let mut name = element.replace('/', ".").replace("+0x", "/0x");
    name.push_str(&"[]".repeat(dimensions));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_java_writes_them() {
        let named = [
            ("java/lang/String", "java.lang.String"),
            ("[Ljava/lang/String;", "java.lang.String[]"),
            ("[[J", "long[][]"),
            ("J", "J"),
            ("Zoo$$Lambda$1+0x0000000800c03000", "Zoo$$Lambda$1/0x0000000800c03000"),
            ("[", "[]"),
        ];
        assert_eq!(named.map(|(name, _)| java_name(name)), named.map(|(_, java)| java.to_owned()));
    }
}
