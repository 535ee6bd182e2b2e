//! One database in memory, with access to nothing but the lake, and one question to it.

use crate::library::{Handle, Library, RawResult, text_at};
use crate::request::{Request, escaped_path, identifier, literal};
use crate::value::Kind;
use serde_json::{Value, json};
use std::ffi::CString;
use std::path::Path;
use std::ptr::null_mut;

/// `DUCKDB_STATEMENT_TYPE_SELECT`.
const SELECT: i32 = 1;

/// A connection to a database of its own.
pub struct Session {
    library: &'static Library,
    connection: Handle,
}

// SAFETY: other threads only call `duckdb_interrupt`, which DuckDB allows at any time.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

/// What may be executed.
#[derive(Clone, Copy, PartialEq)]
enum Allowed {
    OnlySelect,
    Any,
}

impl Session {
    /// Opens a database. It lives as long as this process.
    pub fn open(library: &'static Library) -> Result<Self, String> {
        let (mut database, mut connection) = (null_mut(), null_mut());
        // SAFETY: no path means a database in memory; both handles are filled on success.
        let is_open = unsafe {
            (library.open)(std::ptr::null(), &mut database) == 0 && (library.connect)(database, &mut connection) == 0
        };
        if is_open { Ok(Self { library, connection }) } else { Err("DuckDB cannot open a database in memory".into()) }
    }

    /// Stops what is running, from another thread.
    pub fn interrupt(&self) {
        // SAFETY: the connection is open.
        unsafe { (self.library.interrupt)(self.connection) }
    }

    /// Limits, views, and then the locks: nothing outside the lake is read or written, nothing is downloaded, and no statement can change that.
    pub fn prepare(&self, request: &Request, temporary: &Path) -> Result<(), String> {
        let base = request.base.trim_end_matches('/');
        let mut statements = vec![
            "SET autoinstall_known_extensions = false".to_owned(),
            "SET autoload_known_extensions = false".to_owned(),
            "SET allow_community_extensions = false".to_owned(),
            format!("SET memory_limit = '{} bytes'", request.memory_bytes),
            format!("SET threads = {}", request.threads),
            format!("SET temp_directory = {}", literal(&temporary.to_string_lossy())),
            "SET TimeZone = 'UTC'".to_owned(),
            // All questions have an order of their own; keeping that of the files costs memory.
            "SET preserve_insertion_order = false".to_owned(),
        ];
        statements.extend(request.views.iter().cloned());
        // Patterns are compared before they are expanded.
        let folders = [format!("{base}/"), format!("{}/", escaped_path(base))].map(|folder| literal(&folder));
        statements.push(format!("SET allowed_directories = [{}]", folders.join(", ")));
        statements.push("SET enable_external_access = false".to_owned());
        statements.push("SET lock_configuration = true".to_owned());
        statements.iter().try_for_each(|statement| self.run(statement, Allowed::Any, 0).map(drop))
    }

    /// The answer to the request's text.
    pub fn answer(&self, request: &Request) -> Result<Value, String> {
        self.run(&request.sql, Allowed::OnlySelect, request.max_rows)
    }

    fn run(&self, sql: &str, allowed: Allowed, max_rows: u64) -> Result<Value, String> {
        let text = CString::new(sql).map_err(|_| "the text has a zero byte".to_owned())?;
        let library = self.library;
        let mut extracted = null_mut();
        // SAFETY: the connection is open, the text ends with a zero. What is extracted and prepared is destroyed below, once.
        let count = unsafe { (library.extract_statements)(self.connection, text.as_ptr(), &mut extracted) };
        let done = match (count, allowed) {
            // SAFETY: the handle is filled also if the text cannot be parsed.
            (0, _) => match unsafe { text_at((library.extract_statements_error)(extracted)) } {
                Some(line) => Err(line),
                None => Err("the text is empty".into()),
            },
            (1, _) => self.run_extracted(extracted, allowed, max_rows),
            _ => Err("the text has several statements; only one SELECT can be asked".into()),
        };
        // SAFETY: see above.
        unsafe { (library.destroy_extracted)(&mut extracted) };
        done
    }

    fn run_extracted(&self, extracted: Handle, allowed: Allowed, max_rows: u64) -> Result<Value, String> {
        let library = self.library;
        let mut prepared = null_mut();
        // SAFETY: there is one statement. The handle is filled also if it cannot be prepared, and then has the reason.
        let state = unsafe { (library.prepare_extracted_statement)(self.connection, extracted, 0, &mut prepared) };
        let done = if state != 0 {
            // SAFETY: see above.
            Err(unsafe { text_at((library.prepare_error)(prepared)) }.unwrap_or_else(|| "it cannot be prepared".into()))
        // SAFETY: the statement is prepared.
        } else if allowed == Allowed::OnlySelect && unsafe { (library.prepared_statement_type)(prepared) } != SELECT {
            Err("only a SELECT can be asked".into())
        } else {
            let mut result = RawResult::EMPTY;
            // SAFETY: the statement is prepared and has no parameters; the result is destroyed below, also after an error.
            let state = unsafe { (library.execute_prepared_streaming)(prepared, &mut result) };
            let done = if state == 0 { self.rows(&mut result, max_rows) } else { Err(self.error(&mut result)) };
            // SAFETY: see above.
            unsafe { (library.destroy_result)(&mut result) };
            done
        };
        // SAFETY: destroyed once; null is allowed.
        unsafe { (library.destroy_prepare)(&mut prepared) };
        done
    }

    fn error(&self, result: &mut RawResult) -> String {
        // SAFETY: the result was filled by the library.
        unsafe { text_at((self.library.result_error)(result)) }.unwrap_or_else(|| "it ended for no known reason".into())
    }

    fn rows(&self, result: &mut RawResult, max_rows: u64) -> Result<Value, String> {
        let library = self.library;
        let (mut kinds, mut columns) = (Vec::new(), Vec::new());
        // SAFETY: the result is filled; columns are numbered below their count.
        for index in 0..unsafe { (library.column_count)(result) } {
            // SAFETY: as above. The logical type is destroyed once.
            let (name, kind) = unsafe {
                let name = text_at((library.column_name)(result, index)).unwrap_or_default();
                let mut logical = (library.column_logical_type)(result, index);
                let kind = Kind::new(library, logical);
                (library.destroy_logical_type)(&mut logical);
                (name, kind)
            };
            let kind = kind.map_err(|_| {
                format!(
                    "the column {0} has a type that is no number, text or time; write CAST({0} AS VARCHAR)",
                    identifier(&name)
                )
            })?;
            columns.push(json!({ "name": name, "type": kind.name() }));
            kinds.push(kind);
        }
        let mut rows: Vec<Value> = Vec::new();
        let mut is_truncated = false;
        while !is_truncated {
            // SAFETY: the result is filled and not yet destroyed.
            let mut chunk = unsafe { (library.fetch_chunk)(*result) };
            if chunk.is_null() {
                break;
            }
            // SAFETY: the chunk has this many rows and the result's columns, and is destroyed below.
            let size = unsafe { (library.data_chunk_get_size)(chunk) } as usize;
            let wanted = usize::try_from(max_rows).unwrap_or(usize::MAX).saturating_sub(rows.len()).min(size);
            is_truncated = wanted < size;
            let first = rows.len();
            rows.resize_with(first + wanted, || Value::Array(Vec::with_capacity(kinds.len())));
            for (index, kind) in kinds.iter().enumerate() {
                // SAFETY: as above. A vector without validity has no nulls; a bit that is set is a value.
                unsafe {
                    let vector = (library.data_chunk_get_vector)(chunk, index as u64);
                    let (data, validity) = ((library.vector_get_data)(vector), (library.vector_get_validity)(vector));
                    for row in 0..wanted {
                        let is_valid = validity.is_null() || *validity.add(row / 64) >> (row % 64) & 1 == 1;
                        let value = if is_valid { kind.read(data, row) } else { Value::Null };
                        if let Value::Array(cells) = &mut rows[first + row] {
                            cells.push(value);
                        }
                    }
                }
            }
            // SAFETY: destroyed once.
            unsafe { (library.destroy_data_chunk)(&mut chunk) };
        }
        // An error after the first rows shows only here.
        // SAFETY: the result is filled.
        if let Some(line) = unsafe { text_at((library.result_error)(result)) }.filter(|line| !line.is_empty()) {
            return Err(line);
        }
        let mut answer = json!({ "columns": columns, "rows": rows });
        if is_truncated {
            answer["truncated"] = true.into();
        }
        Ok(answer)
    }
}
