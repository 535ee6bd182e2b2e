//! What a JVM's heap knows of itself.

use super::HprofHeap;
use crate::examine::Examination;
use crate::heap::HeapAbilities;
use crate::highlights::{Highlight, HighlightRow};
use crate::lens::Lens;
use crate::survey::Survey;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most characters of a text in a table.
const SHOWN_TEXT: u32 = 60;

impl HeapAbilities for HprofHeap {
    fn key(&self) -> &'static str {
        "hprof"
    }

    fn name(&self) -> &'static str {
        match (self.header.id_size, self.sizes.layout.reference) {
            (8, 4) => "Java, 64 bits, compressed references",
            (8, _) => "Java, 64 bits",
            _ => "Java, 32 bits",
        }
    }

    fn base(&self) -> u64 {
        self.addresses.address(0).unwrap_or(0)
    }

    fn shape_noun(&self) -> &'static str {
        "class"
    }

    fn unreferred(&self) -> &'static str {
        "to which no root of the dump leads"
    }

    fn highlights(&self, examination: &Examination, top: usize) -> Vec<Highlight> {
        let (strings, largest) = self.largest_strings(top);
        let loaders = self.loaders();
        let wanted = largest.iter().copied().chain(loaders.keys().copied().filter_map(|id| self.addresses.number(id)));
        let mut retained: FxHashMap<u64, u64> = wanted.map(|object| (u64::from(object), 0)).collect();
        for node in examination.graph.nodes() {
            if let Some(bytes) = retained.get_mut(&node.object) {
                *bytes = node.retained_bytes;
            }
        }
        let retained = |object: u32| retained.get(&u64::from(object)).copied().unwrap_or(0);
        let string = |object: u32| HighlightRow {
            what: self.text(object, SHOWN_TEXT).map_or(String::new(), |(text, _)| format!("{text:?}")),
            object: object.into(),
            count: 1,
            bytes: self.bytes(object.into()),
            retained_bytes: retained(object),
        };
        let strings = Highlight { rows: largest.into_iter().map(string).collect(), ..strings };
        let unlisted = Highlight {
            title: "references to objects that the dump does not list",
            count: self.objects.unlisted,
            ..Highlight::default()
        };
        let tables = [strings, self.loader_table(loaders, retained, top), unlisted];
        tables.into_iter().filter(|table| table.count > 0).collect()
    }

    fn text_at(&self, _: &Survey, address: u64, limit: u64) -> Option<Vec<u8>> {
        let (text, _) = self.text(u32::try_from(address).ok()?, u32::try_from(limit).unwrap_or(u32::MAX))?;
        Some(text.into_bytes())
    }
}

impl HprofHeap {
    /// Figures of all strings, and those with the longest texts.
    fn largest_strings(&self, top: usize) -> (Highlight, Vec<u32>) {
        let mut all = Highlight { title: "strings", ..Highlight::default() };
        let mut largest: BinaryHeap<Reverse<(u32, Reverse<u32>)>> = BinaryHeap::new();
        for object in
            (0..self.addresses.len()).filter(|object| self.objects.class(*object) == self.classes.string_class)
        {
            all.count += 1;
            all.bytes += self.bytes(object.into());
            // The only reference of a string is that to its characters.
            let length = self.objects.references(object, 0, false).map(|array| self.objects.length(array)).max();
            largest.push(Reverse((length.unwrap_or(0), Reverse(object))));
            if largest.len() > top {
                largest.pop();
            }
        }
        let largest = largest.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(object)))| object).collect();
        (all, largest)
    }

    /// Class loaders: the number of classes of each, and the bytes of their class objects.
    fn loaders(&self) -> FxHashMap<u64, (u64, u64)> {
        let mut loaders: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
        for index in self.classes.described() {
            let figures = loaders.entry(self.classes.get(index).record.loader).or_default();
            *figures = (figures.0 + 1, figures.1 + self.sizes.class_object(index));
        }
        loaders
    }

    fn loader_table(
        &self,
        loaders: FxHashMap<u64, (u64, u64)>,
        retained: impl Fn(u32) -> u64,
        top: usize,
    ) -> Highlight {
        let mut all =
            Highlight { title: "class loaders, with the number and bytes of their classes", ..Highlight::default() };
        for (loader, (count, bytes)) in loaders {
            (all.count, all.bytes) = (all.count + count, all.bytes + bytes);
            let object = self.addresses.number(loader);
            let what = match object {
                Some(object) => self.loader_name(object),
                None => "the boot loader".to_owned(),
            };
            let retained_bytes = object.map_or(0, &retained);
            // The boot loader is no object; the first class of a JVM stands for it.
            let object = object.or_else(|| self.classes.get(self.classes.object_class).object);
            all.rows.push(HighlightRow { what, object: object.unwrap_or(0).into(), count, bytes, retained_bytes });
        }
        all.rows.sort_by_key(|row| (Reverse(row.count), row.object));
        all.rows.truncate(top);
        all
    }

    /// The class of a loader, and its name if it has one.
    fn loader_name(&self, object: u32) -> String {
        let class = &self.classes.get(self.objects.class(object)).name;
        match self.text_field(object, "name") {
            Some(name) => format!("{class} {name:?}"),
            None => class.clone(),
        }
    }
}
