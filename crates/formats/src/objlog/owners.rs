//! Owners of shared values: objects without bytes, whose type is a pointer to the type of the value.

use super::matcher::Matcher;
use super::tally::ObjectTally;
use std::collections::BTreeMap;

/// The pointers whose owners a log reports, with their names in it.
const POINTERS: [(&str, &str); 2] = [("Arc", "alloc::sync::Arc<"), ("Rc", "alloc::rc::Rc<")];

/// The pointer and the type of the value that an owner of this type owns; `None` for a type of other objects.
pub fn owned_type(type_name: &str) -> Option<(&'static str, &str)> {
    POINTERS.iter().find_map(|(pointer, prefix)| {
        let inner = type_name.strip_prefix(prefix)?.strip_suffix('>')?;
        Some((*pointer, inner))
    })
}

/// The owners of the values of one type, in one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedOwners {
    /// `Arc` or `Rc`.
    pub pointer: &'static str,
    /// The type of the values.
    pub type_name: String,
    /// The variable, if the log names it.
    pub variable: Option<String>,
    /// Owners that were never dropped.
    pub owners: u64,
    /// Owners ever made.
    pub made: u64,
    /// Values that were never dropped: of this variable, or if none of it is known by name, of this type.
    pub values: u64,
}

/// The owners of all shared values of a log: most owners first.
pub fn shared_owners(matcher: &Matcher) -> Vec<SharedOwners> {
    let mut objects: BTreeMap<(String, Option<String>), ObjectTally> = BTreeMap::new();
    let mut of_types: BTreeMap<String, ObjectTally> = BTreeMap::new();
    for (site, tally) in matcher.sites() {
        let type_name = matcher.type_of(site).into_owned();
        let variable = matcher.variable_of(site).map(|name| name.into_owned());
        *of_types.entry(type_name.clone()).or_default() += *tally;
        *objects.entry((type_name, variable)).or_default() += *tally;
    }
    let owners_of = |((type_name, variable), tally): (&(String, Option<String>), &ObjectTally)| {
        let (pointer, inner) = owned_type(type_name).filter(|_| tally.allocated_bytes == 0)?;
        let named = objects.get(&(inner.to_owned(), variable.clone()));
        let values = named.or(of_types.get(inner)).map_or(0, ObjectTally::live);
        let (type_name, variable) = (inner.to_owned(), variable.clone());
        Some(SharedOwners { pointer, type_name, variable, owners: tally.live(), made: tally.allocated, values })
    };
    let mut owners: Vec<SharedOwners> = objects.iter().filter_map(owners_of).collect();
    owners.sort_by_key(|one| std::cmp::Reverse(one.owners));
    owners
}

#[cfg(test)]
mod tests {
    use super::super::{ObjectGrouping, ObjectLogReader, SurvivingObjects, rows};
    use super::*;

    #[test]
    fn owners_are_counted_by_type_and_variable() {
        let log = br#"@ {"event":"ALLOCATE","bytes":1040,"file":"a.rs","line":1,"type":"app::Config","id":0,"variable":"config"}
@ {"event":"ALLOCATE","bytes":0,"file":"a.rs","line":1,"type":"alloc::sync::Arc<app::Config>","id":1,"variable":"config"}
@ {"event":"ALLOCATE","bytes":0,"file":"b.rs","line":7,"type":"alloc::sync::Arc<app::Config>","id":2,"variable":"config"}
@ ALLOCATE 0 b.rs:9 alloc::rc::Rc<u8> 3
@ ALLOCATE 8 b.rs:9 alloc::rc::Rc<u16> 4
@ DROP 0 alloc::sync::Arc<app::Config> 1
"#;
        let mut reader = ObjectLogReader::default();
        reader.read_all(log.as_slice(), &mut ()).unwrap();
        assert_eq!(reader.counts().malformed, 0);
        let config = SharedOwners {
            pointer: "Arc",
            type_name: "app::Config".into(),
            variable: Some("config".into()),
            owners: 1,
            made: 2,
            values: 1,
        };
        let number =
            SharedOwners { pointer: "Rc", type_name: "u8".into(), variable: None, owners: 1, made: 1, values: 0 };
        let mut found = shared_owners(reader.matcher());
        found.sort_by_key(|one| one.pointer);
        assert_eq!(found, [config, number]);
        let survivors = SurvivingObjects::of(reader.matcher());
        let variables = rows(reader.matcher(), &survivors, ObjectGrouping::Variable);
        assert_eq!((variables.len(), variables[0].variable.as_deref()), (2, Some("config")));
        assert_eq!((variables[0].tally.live(), variables[0].tally.live_bytes()), (1, 1040));
        let sites = rows(reader.matcher(), &survivors, ObjectGrouping::Both);
        assert_eq!(sites[0].place.as_deref(), Some("a.rs:1"));
    }
}
