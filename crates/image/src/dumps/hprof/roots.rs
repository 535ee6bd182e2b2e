//! The roots of a heap, with names.

use super::HprofHeap;
use super::addresses::Addresses;
use super::bytes::DumpBytes;
use super::catalog::Catalog;
use super::classes::Classes;
use super::locate::find_near;
use super::records::{DumpHeader, RootKind, RootRecord};
use crate::lens::{Root, RootName};
use rustc_hash::{FxHashMap, FxHashSet};

/// Class loaders that a JVM never unloads, by their classes, since JDK 9 and before.
const PERMANENT_LOADERS: [&str; 4] = [
    "jdk.internal.loader.ClassLoaders$AppClassLoader",
    "jdk.internal.loader.ClassLoaders$PlatformClassLoader",
    "sun.misc.Launcher$AppClassLoader",
    "sun.misc.Launcher$ExtClassLoader",
];

/// Notes which classes cannot be unloaded: those of the boot loader, and of the loaders that never go. Hidden classes, which have an address in their name,
/// can be unloaded before their loader.
pub(super) fn note_permanent(
    classes: &mut Classes,
    catalog: &Catalog,
    addresses: &Addresses,
    bytes: &DumpBytes,
    header: DumpHeader,
) {
    let loaders: FxHashSet<u64> = classes.described().map(|index| classes.get(index).record.loader).collect();
    let is_permanent = |loader: &u64| {
        *loader == 0
            || addresses.number(*loader).is_some()
                && find_near(bytes, header, &catalog.checkpoints, *loader)
                    .and_then(|(_, class)| classes.index(class))
                    .is_some_and(|class| PERMANENT_LOADERS.contains(&classes.get(class).name.as_str()))
    };
    let permanent: FxHashSet<u64> = loaders.into_iter().filter(is_permanent).collect();
    for index in classes.described() {
        let class = classes.get_mut(index);
        class.is_permanent = permanent.contains(&class.record.loader) && !class.name.contains("/0x");
    }
}

impl HprofHeap {
    /// The classes that cannot be unloaded, and the roots that the dump lists.
    pub(super) fn find_roots(&mut self) -> Vec<Root> {
        let mut roots = Vec::new();
        let mut known = FxHashSet::default();
        for index in self.classes.described() {
            let class = self.classes.get(index);
            if let Some(object) = class.object.filter(|_| class.is_permanent)
                && known.insert((object, class.name.clone()))
            {
                roots.push(Root {
                    object: object.into(),
                    name: RootName::Named(class.name.clone()),
                    is_variable: true,
                });
            }
        }
        let threads = self.threads();
        for record in &self.catalog.roots {
            let Some(object) = self.addresses.number(record.object) else {
                self.damage.note(0, 0, format!("the root {:#x} is no object, but", record.object));
                continue;
            };
            let name = self.root_name(record, object, &threads);
            if known.insert((object, name.clone())) {
                roots.push(Root { object: object.into(), name: RootName::Named(name), is_variable: true });
            }
        }
        roots
    }

    /// The names of threads and the serial numbers of their stack traces, by the serial numbers of the threads.
    fn threads(&self) -> FxHashMap<u32, (String, u32)> {
        let threads = self.catalog.roots.iter().filter(|root| root.kind == RootKind::Thread);
        let thread = |root: &RootRecord| {
            let object = self.addresses.number(root.object);
            let name = object.and_then(|object| self.text_field(object, "name"));
            (root.thread, (format!("thread {:?}", name.unwrap_or_default()), root.frame))
        };
        threads.map(thread).collect()
    }

    fn root_name(&self, root: &RootRecord, object: u32, threads: &FxHashMap<u32, (String, u32)>) -> String {
        let thread = threads.get(&root.thread);
        let name = || thread.map_or("a thread", |(name, _)| name.as_str()).to_owned();
        let method = || {
            thread
                .and_then(|(_, trace)| self.catalog.method(&self.bytes, *trace, root.frame))
                .map(|name| format!(" in {name}"))
        };
        match root.kind {
            RootKind::Thread => name(),
            RootKind::JavaFrame => format!("{}{}", name(), method().unwrap_or_default()),
            RootKind::JniLocal => format!("{}, JNI local{}", name(), method().unwrap_or_default()),
            RootKind::NativeStack => format!("{}, native stack", name()),
            RootKind::ThreadBlock => format!("{}, thread block", name()),
            RootKind::StickyClass => {
                let class = self.described_class(object);
                class.map_or("(system class)".to_owned(), |class| self.classes.get(class).name.clone())
            }
            RootKind::JniGlobal => "(JNI global)".to_owned(),
            RootKind::Monitor | RootKind::JniMonitor => "(monitor)".to_owned(),
            RootKind::InternedString => "(interned string)".to_owned(),
            RootKind::Finalizing => "(finalizing)".to_owned(),
            RootKind::Debugger => "(debugger)".to_owned(),
            RootKind::ReferenceCleanup => "(reference cleanup)".to_owned(),
            RootKind::VmInternal => "(runtime)".to_owned(),
            RootKind::Unknown => "(root)".to_owned(),
        }
    }
}
