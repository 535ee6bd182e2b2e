//! The names of files and functions. Each is written out once; later records name it by how recently it was used.

use std::sync::Arc;

/// Limit for the number of files, and for the names of each file.
pub const MOST_NAMES: usize = 31;
/// The index of a name that is written out.
pub const NEW: usize = MOST_NAMES;

/// A name; `None` if it is unknown because of damage.
pub type OptionalName = Option<Arc<str>>;

/// The names of one file.
#[derive(Clone, Debug, Default)]
struct File {
    name: OptionalName,
    functions: Vec<OptionalName>,
}

/// The tables of one domain, most recently used first. A copy is cheap: unchanged parts are shared.
#[derive(Clone, Debug, Default)]
pub struct NameTables {
    files: Vec<Arc<File>>,
}

impl NameTables {
    /// Uses the file with this index; false if there is none.
    pub fn use_file(&mut self, index: usize) -> bool {
        let is_there = index < self.files.len();
        if is_there {
            self.files[..=index].rotate_right(1);
        }
        is_there
    }

    /// Adds a file. If the table is full, the file inherits the functions of the one that it replaces. Writers of version 1 rely on that; for others
    /// it makes no difference.
    pub fn add_file(&mut self, name: OptionalName) {
        let functions = if self.files.len() == MOST_NAMES { self.files.pop() } else { None };
        let functions = functions.map(|file| file.functions.clone()).unwrap_or_default();
        self.files.insert(0, Arc::new(File { name, functions }));
    }

    /// Adds a file in the tables of a writer. A writer does not assume that the file inherits functions in a reader.
    pub fn add_own_file(&mut self, name: Arc<str>) {
        self.files.truncate(MOST_NAMES - 1);
        self.files.insert(0, Arc::new(File { name: Some(name), functions: Vec::new() }));
    }

    /// The index of the file of this name.
    pub fn find_file(&self, name: &str) -> Option<usize> {
        self.files.iter().position(|file| file.name.as_deref() == Some(name))
    }

    /// The index of the function of this name of the file used last.
    pub fn find_function(&self, name: &str) -> Option<usize> {
        self.files.first()?.functions.iter().position(|known| known.as_deref() == Some(name))
    }

    /// The file used last.
    pub fn file(&self) -> OptionalName {
        self.files.first().and_then(|file| file.name.clone())
    }

    /// True if a file of this name is known.
    pub fn has_file(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.name.as_deref() == Some(name))
    }

    /// The functions of the file used last, the one used last first.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.files.first().into_iter().flat_map(|file| &file.functions).filter_map(|name| name.as_deref())
    }

    /// Uses the function with this index of the file used last; false if there is none.
    pub fn use_function(&mut self, index: usize) -> bool {
        let Some(file) = self.files.first_mut() else { return false };
        let is_there = index < file.functions.len();
        if is_there && index > 0 {
            Arc::make_mut(file).functions[..=index].rotate_right(1);
        }
        is_there
    }

    /// Adds a function to the file used last.
    pub fn add_function(&mut self, name: OptionalName) {
        if let Some(file) = self.files.first_mut().map(Arc::make_mut) {
            file.functions.truncate(MOST_NAMES - 1);
            file.functions.insert(0, name);
        }
    }

    /// The function used last.
    pub fn function(&self) -> OptionalName {
        self.files.first()?.functions.first()?.clone()
    }

    /// Forgets all names, because unseen names may have been added. The meaning of existing indexes is then unknown, but names that are added from
    /// now on are known.
    pub fn forget(&mut self) {
        let file = Arc::new(File { name: None, functions: vec![None; MOST_NAMES] });
        self.files = vec![file; MOST_NAMES];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> OptionalName {
        Some(Arc::from(text))
    }

    #[test]
    fn what_was_used_last_comes_first() {
        let mut tables = NameTables::default();
        for file in ["a.ml", "b.ml", "c.ml"] {
            tables.add_file(name(file));
            tables.add_function(name(&file.replace(".ml", ".f")));
        }
        assert!(tables.use_file(2) && tables.use_function(0));
        assert_eq!((tables.file(), tables.function()), (name("a.ml"), name("a.f")));
        assert!(tables.use_file(1));
        assert_eq!(tables.file(), name("c.ml"));
        assert!(!tables.use_file(3) && !tables.use_function(1));
        assert!(tables.has_file("b.ml"));
        assert_eq!(tables.functions().collect::<Vec<_>>(), ["c.f"]);
    }

    #[test]
    fn a_full_table_hands_on_the_functions_of_what_falls_out() {
        let mut tables = NameTables::default();
        for number in 0..MOST_NAMES {
            tables.add_file(name(&number.to_string()));
            tables.add_function(name(&format!("f{number}")));
        }
        tables.add_file(name("one more"));
        assert_eq!(tables.function(), name("f0"));
        assert!(!tables.use_file(MOST_NAMES));
        for number in 0..40 {
            tables.add_function(name(&format!("g{number}")));
        }
        assert!(!tables.use_function(MOST_NAMES) && tables.use_function(MOST_NAMES - 1));
        assert_eq!(tables.function(), name("g9"));
    }

    #[test]
    fn what_is_forgotten_is_unknown_and_not_missing() {
        let mut tables = NameTables::default();
        tables.forget();
        assert!(tables.use_file(30) && tables.use_function(30));
        assert_eq!((tables.file(), tables.function()), (None, None));
        tables.add_file(name("new.ml"));
        assert_eq!(tables.file(), name("new.ml"));
    }
}
