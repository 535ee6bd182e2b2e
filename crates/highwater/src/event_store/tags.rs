//! Interning names of recorded events.

use crate::event_name::Name;
use highwater_model::{Tag, TagId};
use highwater_store::EventLog;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The address and length of a literal: two literals with the same address and length have the same text.
type LiteralKey = (usize, usize);

thread_local! {
    /// Tags whose names are literals, by store and by the addresses of the literals: a lookup takes no lock and does not read the text.
    static KNOWN: RefCell<FxHashMap<(u64, LiteralKey, LiteralKey), TagId>> = RefCell::default();
}

/// More than any program has literals; a limit all the same.
const MOST_KNOWN: usize = 1 << 14;

fn literal_key(name: Option<&Name>) -> Option<LiteralKey> {
    match name {
        None => Some((0, 0)),
        Some(Name::Static(text)) => Some((text.as_ptr() as usize, text.len())),
        Some(Name::Shared(_)) => None,
    }
}

/// The tag of a variable and type name in the catalog of a log.
pub fn intern(log: &EventLog, variable: Option<&Name>, type_name: Option<&Name>) -> TagId {
    if variable.is_none() && type_name.is_none() {
        return TagId::NONE;
    }
    let key = match (literal_key(variable), literal_key(type_name)) {
        (Some(variable), Some(type_name)) => Some((log.id(), variable, type_name)),
        _ => None,
    };
    let known = |key| KNOWN.try_with(|known| known.try_borrow().ok()?.get(&key).copied()).ok().flatten();
    if let Some(tag) = key.and_then(known) {
        return tag;
    }
    let tag = intern_text(log, variable, type_name);
    if let Some(key) = key {
        // No cache if the thread is ending, or if this is a recording from inside its own allocation here.
        let _ = KNOWN.try_with(|known| {
            if let Ok(mut known) = known.try_borrow_mut() {
                if known.len() >= MOST_KNOWN {
                    known.clear();
                }
                known.insert(key, tag);
            }
        });
    }
    tag
}

fn intern_text(log: &EventLog, variable: Option<&Name>, type_name: Option<&Name>) -> TagId {
    log.change_catalog(|catalog| {
        let mut text = |name: Option<&Name>| catalog.strings.intern(name.map_or("", |name| name));
        let tag = Tag { variable: text(variable), type_name: text(type_name), ..Tag::default() };
        catalog.intern_tag(tag)
    })
}
