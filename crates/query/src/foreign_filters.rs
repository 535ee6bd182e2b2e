//! Filters of one source, applied to another: two runs give the same site and the same thread different numbers.

use crate::error::QueryError;
use crate::filter::{BlockTest, Filter};
use highwater_model::groups::GroupKey;
use highwater_model::{Catalog, CatalogIdentities, RowIdentities, StackId, ThreadId};

/// The filters that select in `to` what `filters` select in `from`. A site is the same if its frames have the same texts, as in a comparison's
/// rows; several sites of a catalog may. A thread is the same if its name and its number are, or if it is the only one of its name in both.
///
/// Fails if the name of a thread does not tell which thread is meant.
pub fn foreign_filters(filters: &[Filter], from: &Catalog, to: &Catalog) -> Result<Vec<Filter>, QueryError> {
    let mut sites = SitesByText::default();
    let translated = |filter: &Filter| {
        Ok(match &filter.test {
            BlockTest::Site(site) => filter.testing(BlockTest::Sites(sites.of(*site, from, to)?)),
            BlockTest::Thread(thread) => filter.testing(match thread_in(ThreadId(*thread), from, to)? {
                Some(thread) => BlockTest::Thread(thread.0),
                // No block is of a thread that is not there, just as none is of a site that is not there.
                None => BlockTest::Sites(Vec::new()),
            }),
            _ => filter.clone(),
        })
    };
    filters.iter().map(translated).collect()
}

/// The identities of the sites of two catalogs; computed if a filter names a site.
#[derive(Default)]
struct SitesByText {
    identities: RowIdentities,
    of_from: CatalogIdentities,
    of_to: CatalogIdentities,
}

impl SitesByText {
    /// The sites of `to` that have the text of one of `from`.
    fn of(&mut self, site: u32, from: &Catalog, to: &Catalog) -> Result<Vec<u32>, QueryError> {
        if site as usize >= from.stacks.nodes().len() {
            return Ok(Vec::new());
        }
        let wanted = self.identities.of(from, &mut self.of_from, &GroupKey::Site(StackId(site)))?;
        let mut found = Vec::new();
        for stack in 0..to.stacks.nodes().len() as u32 {
            if self.identities.of(to, &mut self.of_to, &GroupKey::Site(StackId(stack)))? == wanted {
                found.push(stack);
            }
        }
        Ok(found)
    }
}

/// The thread of `to` that is called as one of `from`.
fn thread_in(thread: ThreadId, from: &Catalog, to: &Catalog) -> Result<Option<ThreadId>, QueryError> {
    let name = from.thread_name(thread);
    if to.thread_name(thread) == name {
        return Ok(Some(thread));
    }
    if name.is_empty() {
        return Ok(None);
    }
    let called = |catalog: &Catalog| -> Vec<ThreadId> {
        let threads = catalog.thread_names().iter().map(|entry| entry.thread);
        threads.filter(|thread| catalog.thread_name(*thread) == name).collect()
    };
    match (&called(from)[..], &called(to)[..]) {
        (_, []) => Ok(None),
        ([_], [only]) => Ok(Some(*only)),
        _ => Err(QueryError::Bad(format!(
            "filter 'thread:{}': several threads are called '{}', so it is not known which one it is in the other file",
            thread.0,
            name.replace(char::is_control, "?")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CompiledFilter;
    use highwater_model::{FrameText, Naming};

    fn catalog(stacks: &[&[&str]], threads: &[(u64, &str)]) -> Catalog {
        let mut catalog = Catalog::default();
        for stack in stacks {
            let frames: Vec<_> = stack.iter().map(|function| FrameText { function, ..FrameText::default() }).collect();
            catalog.intern_stack(&frames);
        }
        threads.iter().for_each(|(thread, name)| catalog.name_thread(ThreadId(*thread), name));
        catalog
    }

    fn site_of(catalog: &Catalog, innermost: &str) -> StackId {
        let is_it =
            |stack: &StackId| catalog.frame_texts(*stack).next().is_some_and(|frame| frame.function == innermost);
        (0..catalog.stacks.nodes().len() as u32).map(StackId).find(is_it).unwrap()
    }

    #[test]
    fn a_site_of_another_source_is_the_one_with_the_same_text() {
        let one = catalog(&[&["load", "main"], &["save", "main"]], &[]);
        let two = catalog(&[&["other", "main"], &["save", "main"], &["load", "main"]], &[]);
        let filters = |text: &str| vec![text.parse::<Filter>().unwrap()];
        let passes = |text: &str, function: &str| {
            let there = foreign_filters(&filters(text), &one, &two).unwrap();
            CompiledFilter::new(&there, &two, &Naming::default()).passes_stack(site_of(&two, function))
        };
        let load = site_of(&one, "load").0;
        assert_ne!(load, site_of(&two, "load").0, "the numbers differ");
        assert!(passes(&format!("site:{load}"), "load") && !passes(&format!("site:{load}"), "save"));
        assert!(!passes(&format!("!site:{load}"), "load") && passes(&format!("!site:{load}"), "save"));
        // A site that is not there has no blocks there.
        let only_here = catalog(&[&["gone", "main"]], &[]);
        let gone = filters(&format!("site:{}", site_of(&only_here, "gone").0));
        let there = foreign_filters(&gone, &only_here, &two).unwrap();
        let compiled = CompiledFilter::new(&there, &two, &Naming::default());
        assert!(!["load", "save", "other"].iter().any(|function| compiled.passes_stack(site_of(&two, function))));
        let unknown = foreign_filters(&filters("site:4000000000"), &one, &two).unwrap();
        assert!(matches!(&unknown[0].test, BlockTest::Sites(sites) if sites.is_empty()));
    }

    #[test]
    fn a_thread_of_another_source_is_the_one_of_its_name() {
        let one = catalog(&[], &[(1, "main"), (2, "writer"), (3, "pool"), (4, "pool"), (9, "only here")]);
        let two = catalog(&[], &[(1, "main"), (7, "writer"), (5, "pool"), (4, "pool")]);
        let there = |text: &str| {
            foreign_filters(&[text.parse().unwrap()], &one, &two).map(|mut filters| filters.remove(0).test)
        };
        assert!(matches!(there("thread:1"), Ok(BlockTest::Thread(1))));
        assert!(matches!(there("thread:2"), Ok(BlockTest::Thread(7))), "by its name");
        assert!(matches!(there("thread:4"), Ok(BlockTest::Thread(4))), "name and number");
        assert!(matches!(there("thread:9"), Ok(BlockTest::Sites(sites)) if sites.is_empty()));
        let Err(QueryError::Bad(line)) = there("thread:3") else { panic!("which of two?") };
        assert!(line.contains("several threads are called 'pool'"), "{line}");
    }
}
