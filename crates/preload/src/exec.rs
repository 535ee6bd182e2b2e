//! Programs that the program starts. They load this library as well, by two variables of their environment. If that would do harm, or print the
//! loader's errors on their standard error, they are started without those variables.
//!
//! All of this runs between fork and exec, perhaps in the memory of a parent that waits (vfork): nothing is allocated, nothing is kept.

use crate::real::{self, CText, CTextArray};
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use highwater_agent as agent;
use highwater_agent::children::{self, LeftOut};

unsafe extern "C" {
    static environ: CTextArray;
}

pub const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// The maximum number of entries of an environment that is changed; a larger one stays as it is.
const MOST_ENTRIES: usize = 1024;
/// The maximum length of a list of libraries that is changed.
const LONGEST_LIST: usize = 4096;
const LONGEST_PATH: usize = 4096;

/// The path of this library, as the loader reports it.
static LIBRARY: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the path of this library. It lives as long as the library.
pub fn set_library(path: &'static CStr) {
    LIBRARY.store(path.as_ptr().cast_mut(), Ordering::Relaxed);
}

fn library() -> Option<&'static CStr> {
    let path = LIBRARY.load(Ordering::Relaxed);
    // SAFETY: set once, to a text that stays.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// Whether `list`, paths separated by colons or blanks, contains `path`.
fn lists(list: &[u8], path: &[u8]) -> bool {
    list.split(|byte| matches!(byte, b':' | b' ')).any(|listed| listed == path)
}

/// A changed environment.
struct Changed {
    entries: [CText; MOST_ENTRIES],
    list: [u8; LONGEST_LIST],
}

impl Changed {
    const fn new() -> Self {
        Self { entries: [core::ptr::null(); MOST_ENTRIES], list: [0; LONGEST_LIST] }
    }

    /// The environment without the variables that load this library; `None` if there is not enough room. A program that contains the library keeps its
    /// configuration.
    ///
    /// # Safety
    /// `environment` is a list of C strings that ends with a null pointer.
    unsafe fn without_us(&mut self, environment: CTextArray, path: &[u8], why: LeftOut) -> Option<CTextArray> {
        let mut kept = 0;
        let mut next = environment;
        // SAFETY: the caller's; entries are written within the array, the last one stays null.
        unsafe {
            while !(*next).is_null() {
                let entry = *next;
                next = next.add(1);
                let text = CStr::from_ptr(entry).to_bytes();
                let is_variable =
                    text.strip_prefix(agent::VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
                if is_variable && why != LeftOut::Linked {
                    continue;
                }
                let entry = match text.strip_prefix(PRELOAD).filter(|list| lists(list, path)) {
                    Some(list) => match self.list_without_us(list, path)? {
                        true => self.list.as_ptr().cast(),
                        false => continue,
                    },
                    None => entry,
                };
                *self.entries[..MOST_ENTRIES - 1].get_mut(kept)? = entry;
                kept += 1;
            }
        }
        Some(self.entries.as_ptr())
    }

    /// Writes the variable with the other libraries of the list; false if there are none.
    fn list_without_us(&mut self, list: &[u8], path: &[u8]) -> Option<bool> {
        let mut end = PRELOAD.len();
        self.list.get_mut(..end)?.copy_from_slice(PRELOAD);
        for listed in
            list.split(|byte| matches!(byte, b':' | b' ')).filter(|listed| !listed.is_empty() && *listed != path)
        {
            if end > PRELOAD.len() {
                *self.list.get_mut(end)? = b':';
                end += 1;
            }
            self.list.get_mut(end..end + listed.len())?.copy_from_slice(listed);
            end += listed.len();
        }
        *self.list.get_mut(end)? = 0;
        Some(end > PRELOAD.len())
    }
}

/// Whether this environment loads this library.
///
/// # Safety
/// `environment` is null, or a list of C strings that ends with a null pointer.
unsafe fn brings_us(environment: CTextArray, path: &[u8]) -> bool {
    if environment.is_null() {
        return false;
    }
    let mut next = environment;
    // SAFETY: the caller's.
    unsafe {
        while !(*next).is_null() {
            if CStr::from_ptr(*next).to_bytes().strip_prefix(PRELOAD).is_some_and(|list| lists(list, path)) {
                return true;
            }
            next = next.add(1);
        }
    }
    false
}

/// Why the program at `path` must be started without this library, in this environment; `None` if it need not.
///
/// # Safety
/// As for [`brings_us`]; `path` is a C string, or null, which the kernel refuses.
#[inline(never)]
unsafe fn reason(path: CText, environment: CTextArray) -> Option<(LeftOut, &'static CStr)> {
    let library = library().filter(|_| !path.is_null())?;
    // SAFETY: the caller's.
    unsafe {
        if !brings_us(environment, library.to_bytes()) {
            return None;
        }
        let why = children::must_be_left_out(CStr::from_ptr(path), library)?;
        if let LeftOut::Unrecorded(reason) = why {
            children::note_left_out(reason, CStr::from_ptr(path));
        }
        Some((why, library))
    }
}

/// Starts a program by `start`, with the right environment for it.
///
/// # Safety
/// `path` is a C string, `environment` is null or a list of C strings that ends with a null pointer.
unsafe fn with_environment(path: CText, environment: CTextArray, start: impl FnOnce(CTextArray) -> c_int) -> c_int {
    // SAFETY: the caller's.
    match unsafe { reason(path, environment) } {
        // SAFETY: the caller's.
        Some((why, library)) => unsafe { without_us(library, environment, why, start) },
        None => start(environment),
    }
}

/// A function of its own, so that its space on the stack is taken only if it is needed.
#[inline(never)]
unsafe fn without_us(
    library: &CStr,
    environment: CTextArray,
    why: LeftOut,
    start: impl FnOnce(CTextArray) -> c_int,
) -> c_int {
    let mut changed = Changed::new();
    // SAFETY: the caller's.
    let found = unsafe { changed.without_us(environment, library.to_bytes(), why) };
    start(found.unwrap_or(environment))
}

/// The path of a program that is searched for as in a shell; the name itself if it has a slash, or nothing is found.
struct FoundProgram([u8; LONGEST_PATH]);

impl FoundProgram {
    const fn new() -> Self {
        Self([0; LONGEST_PATH])
    }

    /// SAFETY: `name` is a C string.
    unsafe fn look_for(&mut self, name: CText) -> CText {
        if name.is_null() {
            return name;
        }
        // SAFETY: the caller's; the environment is the program's own.
        let (wanted, search) = unsafe { (CStr::from_ptr(name).to_bytes(), path_variable()) };
        if wanted.contains(&b'/') || wanted.is_empty() || children::is_filtered() {
            return name;
        }
        for directory in search.split(|&byte| byte == b':') {
            let directory = if directory.is_empty() { b"." } else { directory };
            let end = directory.len() + 1 + wanted.len();
            let Some(path) = self.0.get_mut(..=end) else { continue };
            path[..directory.len()].copy_from_slice(directory);
            path[directory.len()] = b'/';
            path[directory.len() + 1..end].copy_from_slice(wanted);
            path[end] = 0;
            if CStr::from_bytes_until_nul(path).is_ok_and(children::is_executable) {
                return self.0.as_ptr().cast();
            }
        }
        name
    }
}

/// SAFETY: no thread changes the environment now.
unsafe fn path_variable() -> &'static [u8] {
    // SAFETY: the caller's.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            if let Some(path) = CStr::from_ptr(*next).to_bytes().strip_prefix(b"PATH=") {
                return path;
            }
            next = next.add(1);
        }
    }
    b"/bin:/usr/bin"
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: CText, arguments: CTextArray, environment: CTextArray) -> c_int {
    // SAFETY: the program's, in all of these.
    unsafe { with_environment(path, environment, |environment| real::execve(path, arguments, environment)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: CText, arguments: CTextArray) -> c_int {
    // SAFETY: as above.
    unsafe { execve(path, arguments, environ) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(name: CText, arguments: CTextArray, environment: CTextArray) -> c_int {
    // SAFETY: as above.
    unsafe { searched(name, environment, |environment| real::execvpe(name, arguments, environment)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(name: CText, arguments: CTextArray) -> c_int {
    // SAFETY: as above.
    unsafe { execvpe(name, arguments, environ) }
}

/// Starts a program that is searched for in `PATH`.
#[inline(never)]
unsafe fn searched(name: CText, environment: CTextArray, start: impl FnOnce(CTextArray) -> c_int) -> c_int {
    // SAFETY: as above.
    unsafe { with_environment(FoundProgram::new().look_for(name), environment, start) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(file: c_int, arguments: CTextArray, environment: CTextArray) -> c_int {
    let path = OpenFile::path(file);
    // SAFETY: as above.
    unsafe { with_environment(path.text(), environment, |environment| real::fexecve(file, arguments, environment)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    folder: c_int,
    path: CText,
    arguments: CTextArray,
    environment: CTextArray,
    flags: c_int,
) -> c_int {
    const EMPTY_PATH: c_int = 0x1000;
    let file = OpenFile::path(folder);
    // SAFETY: as above.
    unsafe {
        let is_file = flags & EMPTY_PATH != 0 && (path.is_null() || *path == 0);
        let seen = if is_file { file.text() } else { path };
        with_environment(seen, environment, |environment| real::execveat(folder, path, arguments, environment, flags))
    }
}

/// An open file, as a path.
struct OpenFile([u8; 32]);

impl OpenFile {
    fn path(file: c_int) -> Self {
        const FOLDER: &[u8] = b"/proc/self/fd/";
        let mut path = [0; 32];
        path[..FOLDER.len()].copy_from_slice(FOLDER);
        let digits = file.unsigned_abs().checked_ilog10().map_or(1, |last| last as usize + 1);
        let mut rest = file.unsigned_abs();
        for digit in path[FOLDER.len()..FOLDER.len() + digits].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self(path)
    }

    fn text(&self) -> CText {
        self.0.as_ptr().cast()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut c_int,
    path: CText,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: CTextArray,
    environment: CTextArray,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        with_environment(path, environment, |environment| {
            real::posix_spawn(pid, path, actions, attributes, arguments, environment)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut c_int,
    name: CText,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: CTextArray,
    environment: CTextArray,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        searched(name, environment, |environment| {
            real::posix_spawnp(pid, name, actions, attributes, arguments, environment)
        })
    }
}

/// A function whose arguments after the first are a list that ends with a null pointer: made into an array, as the target expects. The first
/// five are in registers, the others on the stack, with the return address between them.
macro_rules! listed {
    ($name:ident, $target:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pop r11",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push r11",
                "call {target}",
                "pop r11",
                "add rsp, 40",
                "push r11",
                "ret",
                target = sym $target
            )
        }
    };
}

listed!(execl, execv);
listed!(execlp, execvp);
listed!(execle, execv_with_environment);

/// The environment follows the end of the arguments.
unsafe extern "C" fn execv_with_environment(path: CText, arguments: CTextArray) -> c_int {
    // SAFETY: as above: the list ends with a null pointer, and one more pointer follows.
    unsafe {
        let mut end = arguments;
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(path, arguments, (*end.add(1)).cast())
    }
}
