//! DuckDB's library: where it is, and the functions of its C interface that are used here. The declarations are those of `duckdb.h` 1.5.

use libc::{c_char, c_void};
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The versions whose interface is the one below.
const WANTED: &str = "v1.5.";
const FILE: &str = "libduckdb.so";
const VARIABLE: &str = "HIGHWATER_DUCKDB";

/// `duckdb_state`: 0 is success.
pub type State = i32;
/// A handle of DuckDB's.
pub type Handle = *mut c_void;

/// `duckdb_result`; only the library reads its fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawResult {
    deprecated: [u64; 3],
    pointers: [*mut c_void; 3],
}

impl RawResult {
    /// A result that the library has not filled.
    pub const EMPTY: Self = Self { deprecated: [0; 3], pointers: [std::ptr::null_mut(); 3] };
}

/// `duckdb_string_t`: short texts lie inside.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawText {
    pub length: u32,
    pub inlined: [u8; 12],
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, as they are called in `duckdb.h`.
        pub struct Library { $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Library {
            fn bind(handle: *mut c_void) -> Result<Self, String> {
                Ok(Self { $($name: {
                    let symbol = concat!("duckdb_", stringify!($name), "\0");
                    // SAFETY: the handle is open, and the name ends with a zero.
                    let address = unsafe { libc::dlsym(handle, symbol.as_ptr().cast()) };
                    if address.is_null() {
                        return Err(format!("has no function {}", symbol.trim_end_matches('\0')));
                    }
                    // SAFETY: a function of this name has this signature in every 1.5, and the version is checked before any other one is called.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address) }
                },)* })
            }
        }
    };
}

functions! {
    library_version: fn() -> *const c_char;
    open: fn(*const c_char, *mut Handle) -> State;
    connect: fn(Handle, *mut Handle) -> State;
    interrupt: fn(Handle);
    extract_statements: fn(Handle, *const c_char, *mut Handle) -> u64;
    extract_statements_error: fn(Handle) -> *const c_char;
    destroy_extracted: fn(*mut Handle);
    prepare_extracted_statement: fn(Handle, Handle, u64, *mut Handle) -> State;
    prepare_error: fn(Handle) -> *const c_char;
    prepared_statement_type: fn(Handle) -> i32;
    destroy_prepare: fn(*mut Handle);
    execute_prepared_streaming: fn(Handle, *mut RawResult) -> State;
    result_error: fn(*mut RawResult) -> *const c_char;
    destroy_result: fn(*mut RawResult);
    column_count: fn(*mut RawResult) -> u64;
    column_name: fn(*mut RawResult, u64) -> *const c_char;
    column_logical_type: fn(*mut RawResult, u64) -> Handle;
    get_type_id: fn(Handle) -> i32;
    decimal_scale: fn(Handle) -> u8;
    decimal_internal_type: fn(Handle) -> i32;
    destroy_logical_type: fn(*mut Handle);
    fetch_chunk: fn(RawResult) -> Handle;
    data_chunk_get_size: fn(Handle) -> u64;
    data_chunk_get_vector: fn(Handle, u64) -> Handle;
    destroy_data_chunk: fn(*mut Handle);
    vector_get_data: fn(Handle) -> *const c_void;
    vector_get_validity: fn(Handle) -> *const u64;
}

/// The user's data folder that `highwater fleet install` puts the library into.
fn installed() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("highwater").join(FILE))
}

impl Library {
    /// Loads the library: the one that the variable names, else beside this program, in the user's data folder, or on the library path. Gives its version too.
    pub fn load() -> Result<(Self, String, PathBuf), String> {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            let path = PathBuf::from(named);
            return Self::load_file(&path)
                .map_err(|problem| format!("{}: {problem}, and {VARIABLE} names it", path.display()));
        }
        let beside = std::env::current_exe().ok().map(|program| program.with_file_name(FILE));
        if let Some(path) = beside.into_iter().chain(installed()).find(|path| path.is_file()) {
            return Self::load_file(&path).map_err(|problem| format!("{}: {problem}", path.display()));
        }
        Self::load_file(Path::new(FILE)).map_err(|problem| match problem.contains("is DuckDB") {
            true => format!("{FILE} on the library path {problem}"),
            false => "DuckDB's library is not installed; 'highwater fleet install' fetches it".into(),
        })
    }

    fn load_file(path: &Path) -> Result<(Self, String, PathBuf), String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "is no path".to_owned())?;
        // SAFETY: the name ends with a zero. The library is never unloaded. Its initialisers run, which is why only a file that the user chose is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("cannot be loaded: {}", load_error()));
        }
        let library = Self::bind(handle)?;
        // SAFETY: the function takes nothing and gives a static text.
        let version = unsafe { text_at((library.library_version)()) }.unwrap_or_default();
        if !version.starts_with(WANTED) {
            return Err(format!("is DuckDB {version}, and {WANTED}x is needed; 'highwater fleet install' fetches it"));
        }
        Ok((library, version, path.to_owned()))
    }
}

fn load_error() -> String {
    // SAFETY: gives null, or a text that is valid until the next call of this thread.
    let said = unsafe { text_at(libc::dlerror()) };
    said.unwrap_or_else(|| OsString::from("for no known reason").to_string_lossy().into_owned())
}

/// A copy of a text of the library's; `None` if there is none.
///
/// # Safety
/// The pointer is null, or a text that ends with a zero.
pub unsafe fn text_at(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}
