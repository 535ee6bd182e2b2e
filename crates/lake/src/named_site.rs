//! A row of `sites` with its names: a file for one snapshot, which needs no other table.

use crate::parquet::{Cell, RowCells};
use crate::rows::{FrameRow, SiteRow, StackRow};
use crate::table::{ColumnSpec, NAMES, Table};

/// A site of a snapshot, with its names.
#[derive(Clone, Debug)]
pub struct NamedSite {
    /// The row of `sites`.
    pub site: SiteRow,
    /// Its stack.
    pub stack: StackRow,
    /// The frame that names it.
    pub frame: FrameRow,
}

impl RowCells for NamedSite {
    fn table() -> Table {
        Table::Sites
    }

    fn more_columns() -> &'static [ColumnSpec] {
        NAMES
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        match column.checked_sub(Table::Sites.columns().len()) {
            Some(0) => Cell::Text(&self.stack.function),
            Some(1) => Cell::Text(&self.stack.type_name),
            Some(2) => Cell::Text(&self.stack.stack),
            Some(3) => Cell::Text(&self.frame.file),
            Some(4) => Cell::Int(self.frame.line),
            _ => self.site.cell(column),
        }
    }
}
