//! How rows are named: what the command line and the project's file add to the rules.

use crate::failure::Failure;
use crate::open::Opened;
use crate::project_file::ProjectFile;
use clap::Args;
use highwater_model::{AllocatorName, LearnedWrappers, Naming, Snapshot};
use highwater_query::learned_wrappers;
use std::sync::Arc;

/// How rows are named.
#[derive(Clone, Debug, Default, Args)]
pub struct NameArgs {
    /// A function that only passes memory on: rows are named after its callers. '*' at an end stands for any text: 'arena::*'. May be repeated;
    /// 'highwater.toml' names those of a project
    #[arg(long = "allocator", value_name = "NAME")]
    allocators: Vec<AllocatorName>,
    /// Show names as they are: whole, and each row named after the innermost function of its stack
    #[arg(long)]
    pub raw_names: bool,
}

impl NameArgs {
    /// How the rows of a file are named.
    pub fn of(&self, opened: &Opened) -> Result<Naming, Failure> {
        if self.raw_names {
            return Ok(Naming::raw());
        }
        let learned = opened.ask_history(|history, _| learned_wrappers(history))?;
        self.with(learned)
    }

    /// How the rows of a snapshot are named that is all that is known.
    pub fn of_snapshot(&self, snapshot: &Snapshot) -> Result<Naming, Failure> {
        if self.raw_names {
            return Ok(Naming::raw());
        }
        let learned = LearnedWrappers::among(&snapshot.catalog, snapshot.accounts.sites().iter());
        self.with(Arc::new(learned))
    }

    /// How rows are named, with these wrappers.
    fn with(&self, learned: Arc<LearnedWrappers>) -> Result<Naming, Failure> {
        let allocators = Arc::new(self.allocators()?.into_iter().collect());
        Ok(Naming { is_raw: self.raw_names, allocators, learned })
    }

    /// The allocators of the command line and of the project's file.
    pub fn allocators(&self) -> Result<Vec<AllocatorName>, Failure> {
        let of_project = ProjectFile::find()?.map(|file| file.allocators).unwrap_or_default();
        Ok(self.allocators.iter().cloned().chain(of_project).collect())
    }
}

/// How the rows of two snapshots are named that are compared: what is a wrapper in one is a wrapper in both.
pub fn of_both(before: Naming, after: Naming) -> Naming {
    let learned = Arc::new(before.learned.and(&after.learned));
    Naming { learned, ..after }
}
