//! Whatever a lake's file is: it has rows that can be, or is refused in one line, and memory stays within the reader's limits.

use crate::heap::within_bytes;
use bytes::Bytes;
use highwater_lake::parquet::{FileProblem, LakeRow, TableReader};
use highwater_lake::rows::{HourRow, ProcessRow, ServiceFrame, SiteRow, StackRow};

/// The dictionaries and one page of each of 20 columns, and the rows that are read at a time. A footer is a tree that takes up to a kilobyte for each byte.
const LIMITS: usize = 900 << 20;

/// A byte that names the table, and whether the service is in the path, then any bytes as its file.
pub fn examine_lake_file(input: &[u8]) {
    let Some((choice, file)) = input.split_first() else { return };
    let service = (choice & 1 == 1).then_some("s");
    within_bytes(LIMITS + file.len() * 1024, || {
        let file = Bytes::copy_from_slice(file);
        let read = match choice / 2 % 5 {
            0 => scan::<SiteRow>(file, service),
            1 => scan::<HourRow>(file, service),
            2 => scan::<ProcessRow>(file, service),
            3 => scan::<StackRow>(file, service),
            _ => scan::<ServiceFrame>(file, service),
        };
        if let Err(problem) = read {
            let line = problem.to_string();
            assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
        }
    });
}

fn scan<R: LakeRow>(file: Bytes, service: Option<&str>) -> Result<(), FileProblem> {
    let mut reader = TableReader::<R>::new(file, service)?;
    let stated = reader.rows();
    let mut read = 0;
    while let Some(rows) = reader.next_rows()? {
        for row in &rows {
            row.check()?;
            assert!(service.is_none_or(|service| service == row.service()));
        }
        read += rows.len() as u64;
        // A small file may have millions of equal rows.
        if read > 1 << 17 {
            return Ok(());
        }
    }
    assert_eq!(read, stated, "all rows, or a problem");
    Ok(())
}
