//! From a plan to a process whose calls are recorded.

use crate::borrow::{BorrowFailure, Errand, borrow_thread};
use crate::error::AttachError;
use crate::holes::hole_near;
use crate::hooks::{ISLAND_BYTES, plan_hooks};
use crate::leftover::Leftover;
use crate::look::{TaskStatus, living_folder, living_thread};
use crate::module_table::write_module_table;
use crate::patch::{Change, DEFAULT_STOP_BUDGET, StopReport, change_functions, wipe_left_scripts};
use crate::plain::{bytes_of, from_bytes};
use crate::plan::AttachPlan;
use crate::script::{MappingRequest, result};
use crate::steps::Steps;
use highwater_shm::attach_v1::{
    AttachHeader, AttachPage, EXACT_USABLE_SIZES, FUNCTION_COUNT, FUNCTION_ROOM, HEADER_MAGIC, IMAGE_MAGIC,
    ISLAND_MAGIC, ImageHead, Implementation, MODE_BEGIN, MODE_OFF, MOST_HOOKS, OBJECT_NAME, VERSION,
};
use rustix::fs::SealFlags;
use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the script may take until it waits for us, and until it has ended. Longer than the thread itself waits.
const SCRIPT_BUDGET: Duration = Duration::from_secs(2);

/// How to attach.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// The size of the shared object.
    pub shared_bytes: u64,
    /// What is stored in the switch once functions are hooked: [`MODE_BEGIN`], or another mode of a test's image.
    pub mode: u64,
    /// The longest that threads are stopped in one attempt.
    pub stop_budget: Duration,
    /// Whether an attach that still records is ended first.
    pub replace: bool,
    /// For tests that kill the attacher.
    pub steps: Steps,
}

impl AttachOptions {
    /// The defaults for an object of this size.
    pub fn new(shared_bytes: u64) -> Self {
        Self { shared_bytes, mode: MODE_BEGIN, stop_budget: DEFAULT_STOP_BUDGET, replace: false, steps: Steps::NONE }
    }
}

/// The agent's image, and where a script has mapped it.
#[derive(Clone, Copy)]
struct MappedImage<'a> {
    head: &'a ImageHead,
    bytes: &'a [u8],
    base: u64,
}

/// What a script has left when it had ended.
#[derive(Debug, Default)]
struct ScriptOutcome {
    has_ended: bool,
    /// Where the object is mapped.
    shared: u64,
    /// Everything that it has mapped.
    mapped: Vec<Range<u64>>,
    /// How long its thread was away, at most.
    away: Duration,
}

impl ScriptOutcome {
    fn note_end(&mut self, request: &MappingRequest, islands: &[i64], shared: i64, away: Duration) {
        let wanted = request.islands.iter().zip(islands);
        let made = wanted.filter(|&(&wanted, &got)| got.cast_unsigned() == wanted);
        let image = request.image..request.image + request.image_bytes;
        self.mapped = std::iter::once(image).chain(made.map(|(&at, _)| at..at + ISLAND_BYTES)).collect();
        if shared >= 0 || shared <= -4096 {
            self.shared = shared.cast_unsigned();
            self.mapped.push(self.shared..self.shared + request.shared_bytes);
        }
        (self.has_ended, self.away) = (true, away);
    }
}

/// A process with hooks. Dropping this changes nothing in it: [`detach`](crate::detach) does.
#[derive(Debug)]
pub struct Attached {
    /// The process.
    pub pid: i32,
    /// The shared object.
    pub object: File,
    /// What was written into the image.
    pub header: Box<AttachHeader>,
    /// The stop of all threads.
    pub stop: StopReport,
    /// How long one thread was away to map the agent, at most.
    pub borrowed: Duration,
}

impl AttachPlan {
    /// Maps the image, fills in its header, and hooks all functions.
    ///
    /// `fill` runs while the target does: it completes the header and writes what the agent expects in the object, which has its size but no memory. Memory that hooks
    /// will write should be allocated there, so that it is not charged to the target.
    pub fn attach(
        mut self,
        image: &[u8],
        options: &AttachOptions,
        fill: impl FnOnce(&mut AttachHeader, &File) -> io::Result<()>,
    ) -> Result<Attached, AttachError> {
        let head: ImageHead = from_bytes(image).filter(|head| is_sound(head, image)).ok_or(AttachError::BadImage)?;
        let mut unmapped = self.remove_leftovers(options)?;
        if !wipe_left_scripts(self.pid, &self.memory, &self.areas, options.stop_budget, &options.steps) {
            unmapped.clear();
        }
        self.leave_out_functions(&head, image);
        let mut taken: Vec<_> = self.islands.iter().map(|&island| island..island + ISLAND_BYTES).collect();
        taken.extend(unmapped.iter().cloned());
        let near = &self.modules[self.allocators[0].module].range;
        // As it is now: the process has gone on since it was examined.
        let base = hole_near(&self.space_now(), near, head.end, &taken)
            .ok_or_else(|| crate::Refusal::NoRoom(self.modules[self.allocators[0].module].file_name().to_owned()))?;
        let request = MappingRequest {
            image: base,
            text_bytes: head.data,
            image_bytes: head.end,
            switch_offset: head.switch,
            header_offset: head.header,
            islands: self.islands.clone(),
            shared_bytes: options.shared_bytes,
        };
        borrow_thread(self.pid, &self.memory, &self.areas, Errand::Map(&request), &unmapped, &options.steps)
            .map_err(|failure| self.borrow_error(failure, &request))?;
        let mut outcome = ScriptOutcome::default();
        let result = self.wait_for_script(&request, &options.steps, &mut outcome).and_then(|object| {
            self.complete(MappedImage { head: &head, bytes: image, base }, options, fill, &outcome, object)
        });
        match result {
            Ok(attached) => Ok(attached),
            Err(error) => {
                self.clean_up(&request, &outcome, options);
                Err(error)
            }
        }
    }

    /// Writes the image, and hooks all functions.
    fn complete(
        &self,
        image: MappedImage<'_>,
        options: &AttachOptions,
        fill: impl FnOnce(&mut AttachHeader, &File) -> io::Result<()>,
        outcome: &ScriptOutcome,
        object: File,
    ) -> Result<Attached, AttachError> {
        let (MappedImage { head, base, .. }, shared) = (image, outcome.shared);
        self.write(base, &image.bytes[..head.file_end as usize], "its new memory cannot be written")?;
        options.steps.at("the image is written");
        let mut header = self.header(base, shared, options.shared_bytes);
        let prepare = || {
            fill(&mut header, &object)?;
            if header.find_object == 0 {
                write_module_table(&object, shared, &self.modules)?;
            }
            object.write_all_at(&base.to_le_bytes(), offset_of!(AttachPage, image) as u64)?;
            object.write_all_at(&(base + head.header).to_le_bytes(), offset_of!(AttachPage, header) as u64)
        };
        prepare().map_err(|source| AttachError::Failed {
            pid: self.pid,
            what: "the shared memory cannot be prepared",
            source,
        })?;
        self.write_islands(image)?;
        header.magic = 0;
        self.write(base + head.header, bytes_of(&*header), "its header cannot be written")?;
        header.magic = HEADER_MAGIC;
        self.write(
            base + head.header + offset_of!(AttachHeader, magic) as u64,
            &HEADER_MAGIC.to_le_bytes(),
            "its header cannot be written",
        )?;
        options.steps.at("the header is written");

        let change = Change::Hook {
            hooks: &header.hooks[..header.hook_count as usize],
            switch: base + head.switch,
            mode: options.mode,
            is_filtered: self.is_filtered,
        };
        let stop = change_functions(self.pid, &self.memory, &self.areas, change, options.stop_budget, &options.steps)?;
        wipe_left_scripts(self.pid, &self.memory, &self.areas, options.stop_budget, &options.steps);
        Ok(Attached { pid: self.pid, object, header, stop, borrowed: outcome.away })
    }

    /// Makes the process as it was after an attempt that failed, as far as that is possible. Some functions may have been changed by a worker that was killed.
    fn clean_up(&self, request: &MappingRequest, outcome: &ScriptOutcome, options: &AttachOptions) {
        // A thread that is not through the script will map more. Its own end is all that can be waited for.
        if !outcome.has_ended {
            return;
        }
        let space = self.space_now();
        let leftovers = Leftover::find_all(&self.memory, &space);
        let mut unmapped = Vec::new();
        for leftover in &leftovers {
            let restore = Change::Restore { leftover };
            let is_ours = leftover.image == request.image;
            if is_ours || leftover.hooked_now(&self.memory) > 0 {
                let report =
                    change_functions(self.pid, &self.memory, &self.areas, restore, options.stop_budget, &Steps::NONE);
                if is_ours && report.is_ok_and(|report| report.is_clear) {
                    unmapped = leftover.mapped(&space);
                }
            }
        }
        if !leftovers.iter().any(|leftover| leftover.image == request.image) {
            // Its header was never completed, so no function leads there.
            unmapped = outcome.mapped.clone();
        }
        if !unmapped.is_empty()
            && wipe_left_scripts(self.pid, &self.memory, &self.areas, options.stop_budget, &Steps::NONE)
            && borrow_thread(self.pid, &self.memory, &self.areas, Errand::Clean, &unmapped, &Steps::NONE).is_ok()
        {
            wipe_left_scripts(self.pid, &self.memory, &self.areas, options.stop_budget, &Steps::NONE);
        }
    }

    /// Functions that this image does not hook stay as they are.
    fn leave_out_functions(&mut self, head: &ImageHead, image: &[u8]) {
        for planned in &mut self.hooks {
            planned.hooks.retain(|hook| entry_of(head, image, hook.function).is_some());
        }
    }

    fn space_now(&self) -> crate::mappings::AddressSpace {
        crate::mappings::AddressSpace::read(self.pid).unwrap_or_default()
    }

    fn write(&self, address: u64, bytes: &[u8], what: &'static str) -> Result<(), AttachError> {
        self.memory.write(address, bytes).map_err(|source| AttachError::Failed { pid: self.pid, what, source })
    }

    /// Restores what earlier attaches hooked, and says what of theirs can be unmapped.
    fn remove_leftovers(&mut self, options: &AttachOptions) -> Result<Vec<std::ops::Range<u64>>, AttachError> {
        if self.is_attached() && !options.replace {
            return Err(AttachError::AlreadyAttached(self.pid));
        }
        let mut unmapped = Vec::new();
        for leftover in &self.leftovers {
            self.write(leftover.switch(), &MODE_OFF.to_le_bytes(), "an earlier attach cannot be ended")?;
            let report = change_functions(
                self.pid,
                &self.memory,
                &self.areas,
                Change::Restore { leftover },
                options.stop_budget,
                &options.steps,
            )?;
            if report.is_clear && unmapped.len() < 9 {
                unmapped.extend(leftover.mapped(&self.space_now()));
            }
        }
        if !self.leftovers.is_empty() {
            self.hooks = plan_hooks(self.pid, &self.memory, &self.modules, &self.allocators, &self.islands)?;
        }
        // Longer scripts have no room.
        unmapped.truncate(12);
        Ok(unmapped)
    }

    fn borrow_error(&self, failure: BorrowFailure, request: &MappingRequest) -> AttachError {
        let pid = self.pid;
        match failure {
            BorrowFailure::Filter(verdict) => verdict.refusal(pid, request).into(),
            // There was an area when the process was examined: a script is in it that no thread could be stopped to wipe.
            BorrowFailure::NoArea | BorrowFailure::NotNow => AttachError::NoThread(pid),
            BorrowFailure::Failed(error) => match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => crate::look::explain(pid, &error).into(),
                Some(libc::ESRCH | libc::ENOENT) => AttachError::Ended(pid),
                _ => AttachError::WriteForbidden { pid, source: error },
            },
        }
    }

    /// Opens the object that the script has made, and waits until the script has ended. Returns the object.
    fn wait_for_script(
        &self,
        request: &MappingRequest,
        steps: &Steps,
        outcome: &mut ScriptOutcome,
    ) -> Result<File, AttachError> {
        let began = Instant::now();
        let header = request.image + request.header_offset;
        let done = header + offset_of!(AttachHeader, script_done) as u64;
        let results = header + offset_of!(AttachHeader, script_results) as u64;
        self.wait_until(done, 1).map_err(|error| match error {
            // The script ends at once if its first mapping does not succeed.
            AttachError::Script { .. } if self.is_taken(request) || !self.is_limited(request.image_bytes) => {
                AttachError::SpaceTaken(self.pid)
            }
            other => other,
        })?;
        steps.at("the script waits");
        let read = |index: usize| {
            self.memory
                .read_u64(results + 8 * index as u64)
                .map(u64::cast_signed)
                .map_err(|_| AttachError::Ended(self.pid))
        };
        let descriptor = read(result::DESCRIPTOR)?;
        let shared = read(result::SHARED)?;
        let islands: Vec<i64> =
            (0..request.islands.len()).map(|index| read(result::FIRST_ISLAND + index)).collect::<Result<_, _>>()?;
        let object = if descriptor >= 0 {
            self.open_object(descriptor, request.shared_bytes)
        } else {
            Err(io::Error::from_raw_os_error(-descriptor as i32))
        };
        self.write(
            header + offset_of!(AttachHeader, script_acknowledged) as u64,
            &1_u64.to_le_bytes(),
            "its new memory cannot be written",
        )?;
        steps.at("the object is open");
        self.wait_until(done, 2)?;
        outcome.note_end(request, &islands, shared, began.elapsed());
        steps.at("the script has ended");
        let failed = |call, value: i64| match value.unsigned_abs() as i32 {
            libc::EEXIST => AttachError::SpaceTaken(self.pid),
            error => AttachError::Script { pid: self.pid, call, source: io::Error::from_raw_os_error(error) },
        };
        if descriptor < 0 {
            return Err(failed("memfd_create", descriptor));
        }
        if shared < 0 && shared > -4096 {
            return Err(failed("mmap", shared));
        }
        for (&got, &wanted) in islands.iter().zip(&request.islands) {
            if got.cast_unsigned() != wanted {
                return Err(failed("mmap", if got < 0 && got > -4096 { got } else { -i64::from(libc::EEXIST) }));
            }
        }
        let object = object.map_err(|source| match source.kind() {
            // The thread did not wait any longer, and has closed it.
            io::ErrorKind::NotFound => AttachError::ScriptLate(self.pid),
            _ => AttachError::Failed { pid: self.pid, what: "the shared object cannot be opened", source },
        })?;
        Ok(object)
    }

    /// Whether the process has something else where the image was to lie.
    fn is_taken(&self, request: &MappingRequest) -> bool {
        let image = request.image..request.image + request.image_bytes;
        self.space_now().mappings.iter().any(|mapping| mapping.start < image.end && mapping.end > image.start)
    }

    /// Whether a limit on its address space keeps the process from mapping that many bytes more.
    fn is_limited(&self, bytes: u64) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/limits", self.pid)).unwrap_or_default();
        let limit = text.lines().find_map(|line| line.strip_prefix("Max address space"));
        // "unlimited" is no number.
        let limit = limit.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let used =
            TaskStatus::of_thread(self.pid, living_thread(self.pid)).map_or(0, |status| status.number("VmSize") << 10);
        limit.is_some_and(|limit| used.saturating_add(bytes) > limit)
    }

    /// Takes the object that the script has made. The number is what the process says, and may be anything of its own by now: nothing is opened before it is known to be a
    /// memory object, since opening a device or a pipe can have effects.
    fn open_object(&self, descriptor: i64, bytes: u64) -> io::Result<File> {
        let not_ours = || io::Error::from(io::ErrorKind::NotFound);
        let number = i32::try_from(descriptor).map_err(|_| not_ours())?;
        let object = match copied_descriptor(self.pid, number) {
            Some(copy) => copy,
            // Before Linux 5.6, or the first thread has ended.
            None => {
                let path = format!("{}/fd/{number}", living_folder(self.pid));
                if !is_object(&fs::read_link(&path)?) {
                    return Err(not_ours());
                }
                OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&path)?
            }
        };
        let name = fs::read_link(format!("/proc/self/fd/{}", object.as_raw_fd()))?;
        if !is_object(&name) || !object.metadata()?.is_file() || object.metadata()?.len() != 0 {
            return Err(not_ours());
        }
        object.set_len(bytes)?;
        rustix::fs::fcntl_add_seals(&object, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(object)
    }

    fn wait_until(&self, done: u64, value: u64) -> Result<(), AttachError> {
        let deadline = Instant::now() + SCRIPT_BUDGET;
        let mut pause = Duration::from_micros(10);
        let mut was_mapped = false;
        while Instant::now() < deadline {
            match self.memory.read_u64(done) {
                Ok(found) if found >= value && found <= 2 => return Ok(()),
                found => was_mapped |= found.is_ok(),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_micros(500));
        }
        if TaskStatus::of_process(self.pid).is_err() {
            return Err(AttachError::Ended(self.pid));
        }
        if was_mapped {
            return Err(AttachError::ScriptLate(self.pid));
        }
        Err(AttachError::Script { pid: self.pid, call: "mmap", source: io::Error::from_raw_os_error(libc::ENOMEM) })
    }

    fn header(&self, base: u64, shared: u64, shared_bytes: u64) -> Box<AttachHeader> {
        let zeros = vec![0; size_of::<AttachHeader>()];
        let mut header: Box<AttachHeader> = Box::new(from_bytes(&zeros).expect("as many bytes as the header has"));
        header.version = VERSION;
        header.script_done = 2;
        header.script_acknowledged = 1;
        header.image = base;
        header.shared = shared;
        header.shared_bytes = shared_bytes;
        self.write_facts(&mut header);
        header.implementation_count = self.allocators.len() as u64;
        header.island_count = self.islands.len() as u64;
        for (to, &island) in header.islands.iter_mut().zip(&self.islands) {
            *to = island;
        }
        for ((implementation, allocator), planned) in
            header.implementations.iter_mut().zip(&self.allocators).zip(&self.hooks)
        {
            for function in 0..FUNCTION_COUNT {
                implementation.real[function] = allocator.functions[function].map_or(0, |symbol| symbol.address);
            }
            for &(function, address) in &planned.real {
                implementation.real[function] = address;
            }
            for hook in &planned.hooks {
                implementation.real[hook.function] = hook.trampoline;
            }
            implementation.usable_size = allocator.usable_size.unwrap_or(0);
            implementation.flags = if allocator.is_glibc { EXACT_USABLE_SIZES } else { 0 };
        }
        let hooks = self.hooks.iter().flat_map(|planned| &planned.hooks).take(MOST_HOOKS);
        for (to, hook) in header.hooks.iter_mut().zip(hooks) {
            *to = hook.describe();
            header.hook_count += 1;
        }
        header
    }

    /// What the agent must know of its process.
    fn write_facts(&self, header: &mut AttachHeader) {
        let names = ["_thread_db_pthread_tid", "_dl_find_object", "__libc_stack_end", "__vdso_clock_gettime"];
        for module in &self.modules {
            let found = module.symbols.find(module.bias, &names);
            let address = |name: &str| found.get(name).map(|symbol| symbol.address);
            // A description for debuggers: bits, count, offset.
            if let Some(offset) = address(names[0]).and_then(|at| self.memory.read_u32(at.wrapping_add(8)).ok()) {
                header.thread_id_offset = offset.into();
            }
            if let Some(function) = address(names[1]) {
                header.find_object = function;
            }
            if let Some(end) = address(names[2]).and_then(|at| self.memory.read_u64(at).ok()) {
                header.stack_end = end;
            }
            if module.is_vdso
                && let Some(function) = address(names[3])
            {
                header.clock_gettime = function;
            }
        }
        if header.stack_end == 0 {
            header.stack_end =
                self.space.mappings.iter().find(|mapping| mapping.name == "[stack]").map_or(0, |mapping| mapping.end);
        }
        header.process = TaskStatus::of_process(self.pid).map_or(0, |status| status.innermost("NSpid"));
    }

    fn write_islands(&self, image: MappedImage<'_>) -> Result<(), AttachError> {
        let MappedImage { head, bytes, base } = image;
        let implementations = base + head.header + offset_of!(AttachHeader, implementations) as u64;
        for ((index, planned), &island) in self.hooks.iter().enumerate().zip(&self.islands) {
            let mut page = vec![0xcc; ISLAND_BYTES as usize];
            page[..8].copy_from_slice(&ISLAND_MAGIC.to_le_bytes());
            page[8..16].copy_from_slice(&(base + head.header).to_le_bytes());
            for hook in &planned.hooks {
                let entry = entry_of(head, bytes, hook.function).ok_or(AttachError::BadImage)?;
                let implementation = implementations + (index * size_of::<Implementation>()) as u64;
                hook.write_island(island, &mut page, implementation, base + entry);
            }
            self.write(island, &page, "its new memory cannot be written")?;
        }
        Ok(())
    }
}

/// Whether this is how `/proc` names the object.
fn is_object(name: &Path) -> bool {
    let expected = OBJECT_NAME.to_str().unwrap_or_default();
    name.to_str().and_then(|name| name.strip_prefix("/memfd:")).is_some_and(|name| name.starts_with(expected))
}

/// A copy of another process's descriptor: nothing is opened. `None` if the kernel cannot do that.
fn copied_descriptor(pid: i32, number: i32) -> Option<File> {
    let process = rustix::process::pidfd_open(rustix::process::Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let copy = rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()?;
    Some(File::from(copy))
}

/// The offset of an image's entry for a function; `None` if it has none.
fn entry_of(head: &ImageHead, image: &[u8], function: usize) -> Option<u64> {
    let entry = crate::elf::u64_at(image, head.entries as usize + function * 8)?;
    ((function as u64) < head.entry_count && entry > 0 && entry < head.data).then_some(entry)
}

/// Whether the offsets of an image lie in it, in the order that the contract names.
fn is_sound(head: &ImageHead, image: &[u8]) -> bool {
    const PAGE: u64 = 4096;
    head.magic == IMAGE_MAGIC
        && head.version == VERSION
        && head.entry_count <= FUNCTION_ROOM as u64
        && head.entries.is_multiple_of(8)
        && head.entries.checked_add(head.entry_count * 8).is_some_and(|end| end <= head.data)
        && head.data.is_multiple_of(PAGE)
        && head.switch == head.data
        && head.header >= head.switch + PAGE
        && head.header.checked_add(size_of::<AttachHeader>() as u64).is_some_and(|end| end <= head.end)
        && head.file_end <= head.end
        && head.end.is_multiple_of(PAGE)
        && head.end < 1 << 30
        && head.file_end <= image.len() as u64
        && head.data <= head.file_end
}
