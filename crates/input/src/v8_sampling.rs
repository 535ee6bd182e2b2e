//! Profiles of V8's sampling heap profiler: `node --heap-prof`, and "Allocation sampling" of Chrome's developer tools (`.heapprofile`).
//!
//! The file is a tree of calls. Each node has the bytes of its own objects that were live at the end (`selfSize`). V8 keeps a sample of the objects that a
//! program allocates, forgets those that the garbage collector frees, and scales up the others. So all figures are estimates, and nothing is known of what
//! was freed. `samples` has an entry for each sampled object; its `size` is already scaled, so numbers of objects cannot be told from it.
//!
//! The interval of sampling is not in the file. An object of `s` bytes is found with a chance of `1 - exp(-s / interval)` and stands for
//! `s / (1 - exp(-s / interval))` bytes, rounded up to whole objects: never less than the interval, and hardly more if the object is small. So the smallest
//! sample is taken for the interval.
//!
//! The tree is read without recursion; it takes some 40 bytes for each node.

use crate::error::InputError;
use crate::format::{Format, Read};
use crate::json_events::{JsonError, JsonEvent, JsonEvents};
use crate::profile::{Profile, ProfileSite, ProfileState};
use crate::stream::InputStream;
use highwater_model::{
    Catalog, ColumnRange, FrameId, FrameText, KnownFigures, Nanos, Source, SourceKind, StackId, grouped,
};
use std::io::{BufRead, BufReader};

/// The name that Chrome's developer tools give to functions without one.
const ANONYMOUS: &str = "(anonymous)";
/// The number of bytes in which the keys of the first node stand.
const BEGINNING: usize = 512;

/// A profile of V8's sampling heap profiler.
pub struct V8SamplingFormat;

impl Format for V8SamplingFormat {
    fn key(&self) -> &'static str {
        "v8-sampling"
    }

    fn title(&self) -> &'static str {
        "V8 sampling heap profile"
    }

    fn source_title(&self) -> &'static str {
        "V8's sampling heap profiler"
    }

    fn advice(&self) -> &'static str {
        "'highwater report' shows it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        let beginning = start.iter().take(BEGINNING).filter(|byte| !byte.is_ascii_whitespace());
        let beginning: Vec<u8> = beginning.copied().collect();
        let node = beginning.strip_prefix(b"{\"head\":{").unwrap_or_default();
        ["\"callFrame\":", "\"selfSize\":", "\"id\":"].iter().any(|key| node.starts_with(key.as_bytes()))
    }

    fn read(&self) -> Read {
        Read::Profile(read)
    }
}

/// A node of the tree.
struct CallNode {
    /// The number of its parent, which is smaller; that of the root is its own.
    parent: usize,
    frame: Option<FrameId>,
    self_size: u64,
}

/// The state of reading.
struct V8Reader<R> {
    json: JsonEvents<R>,
    catalog: Catalog,
    nodes: Vec<CallNode>,
    samples: u64,
    /// The bytes of the smallest sample.
    smallest: Option<u64>,
}

fn read(input: &mut InputStream<'_>) -> Result<Profile, InputError> {
    input.doing = "reading the heap profile";
    let (path, name) = (input.path, input.name());
    let mut reader = V8Reader {
        json: JsonEvents::new(BufReader::with_capacity(1 << 16, input)),
        catalog: Catalog::default(),
        nodes: Vec::new(),
        samples: 0,
        smallest: None,
    };
    reader.read().map_err(|error| match error {
        JsonError::Io(error) => InputError::unreadable(path, error),
        fault => InputError::unusable(path, fault),
    })?;
    Ok(reader.into_profile(name))
}

impl<R: BufRead> V8Reader<R> {
    fn read(&mut self) -> Result<(), JsonError> {
        let first = self.json.next()?;
        self.expect(first, JsonEvent::Object)?;
        while self.json.next()? == JsonEvent::Key {
            let is_head = self.json.text == "head";
            let is_samples = self.json.text == "samples";
            let value = self.json.next()?;
            match (is_head, is_samples) {
                (true, _) if self.nodes.is_empty() => self.tree(value)?,
                (true, _) => return Err(self.json.fault("a second tree")),
                (_, true) => self.samples(value)?,
                _ => self.json.skip_rest(value)?,
            }
        }
        if self.nodes.is_empty() {
            return Err(self.json.fault("the profile has no tree"));
        }
        match self.json.next()? {
            JsonEvent::Finish => Ok(()),
            _ => Err(self.json.fault("the end is expected")),
        }
    }

    fn expect(&self, found: JsonEvent, expected: JsonEvent) -> Result<(), JsonError> {
        let what = if expected == JsonEvent::Object { "an object is expected" } else { "an array is expected" };
        if found == expected { Ok(()) } else { Err(self.json.fault(what)) }
    }

    /// Reads the tree, whose first event is `first`. Nodes and arrays of children are open alternately, so the numbers of the open nodes suffice.
    fn tree(&mut self, first: JsonEvent) -> Result<(), JsonError> {
        self.expect(first, JsonEvent::Object)?;
        let mut open = vec![self.begin_node(0)];
        let mut is_in_children = false;
        while let Some(&node) = open.last() {
            match self.json.next()? {
                JsonEvent::Object if is_in_children => {
                    open.push(self.begin_node(node));
                    is_in_children = false;
                }
                // Children end, and their parent goes on.
                JsonEvent::End if is_in_children => is_in_children = false,
                // A node ends, and its parent's children go on.
                JsonEvent::End => {
                    open.pop();
                    is_in_children = true;
                }
                JsonEvent::Key if self.json.text == "children" => {
                    let value = self.json.next()?;
                    self.expect(value, JsonEvent::Array)?;
                    is_in_children = true;
                }
                JsonEvent::Key if self.json.text == "callFrame" => {
                    let value = self.json.next()?;
                    self.expect(value, JsonEvent::Object)?;
                    self.nodes[node].frame = self.frame()?;
                }
                JsonEvent::Key if self.json.text == "selfSize" => self.nodes[node].self_size = self.bytes()?,
                JsonEvent::Key => {
                    let value = self.json.next()?;
                    self.json.skip_rest(value)?;
                }
                _ => return Err(self.json.fault("a node is expected")),
            }
        }
        Ok(())
    }

    fn begin_node(&mut self, parent: usize) -> usize {
        self.nodes.push(CallNode { parent, frame: None, self_size: 0 });
        self.nodes.len() - 1
    }

    /// Reads a number of bytes. V8 writes it as a floating-point number.
    fn bytes(&mut self) -> Result<u64, JsonError> {
        match self.json.next()? {
            // A number that is too large becomes the largest that fits, and is refused with the sums.
            JsonEvent::Number(number) if number >= 0.0 => Ok(number.round() as u64),
            _ => Err(self.json.fault("a number of bytes is expected")),
        }
    }

    /// Reads a call, of which the object has begun. `None` for the root, which is no function.
    fn frame(&mut self) -> Result<Option<FrameId>, JsonError> {
        let (mut function, mut url, mut script) = (String::new(), String::new(), String::new());
        let (mut line, mut column) = (0, 0);
        while self.json.next()? == JsonEvent::Key {
            let key = std::mem::take(&mut self.json.text);
            let value = self.json.next()?;
            match (key.as_str(), value) {
                ("functionName", JsonEvent::String) => function = std::mem::take(&mut self.json.text),
                ("url", JsonEvent::String) => url = std::mem::take(&mut self.json.text),
                ("scriptId", JsonEvent::String) => script = std::mem::take(&mut self.json.text),
                // Counted from 0; -1 if not known. A number that does not fit becomes the nearest that does.
                ("lineNumber", JsonEvent::Number(number)) => line = (number + 1.0) as u32,
                ("columnNumber", JsonEvent::Number(number)) => column = (number + 1.0) as u16,
                _ => self.json.skip_rest(value)?,
            }
        }
        if function == "(root)" {
            return Ok(None);
        }
        // The developer tools call a script without an address so.
        let is_script = !script.is_empty() && script != "0";
        let file = match url.strip_prefix("file://") {
            Some(path) => path.to_owned(),
            None if url.is_empty() && is_script => format!("VM{script}"),
            None => url,
        };
        let columns = match column {
            0 => ColumnRange::default(),
            start => ColumnRange { start, end: start.saturating_add(1) },
        };
        let function = if function.is_empty() { ANONYMOUS } else { &function };
        let frame =
            self.catalog.intern_frame(&FrameText { function, file: &file, line, columns, ..FrameText::default() });
        Ok(Some(self.catalog.stacks.intern_frame(frame)))
    }

    /// Counts the samples.
    fn samples(&mut self, first: JsonEvent) -> Result<(), JsonError> {
        self.expect(first, JsonEvent::Array)?;
        loop {
            match self.json.next()? {
                JsonEvent::End => return Ok(()),
                JsonEvent::Object => self.sample()?,
                _ => return Err(self.json.fault("a sample is expected")),
            }
        }
    }

    fn sample(&mut self) -> Result<(), JsonError> {
        self.samples += 1;
        while self.json.next()? == JsonEvent::Key {
            if self.json.text == "size" {
                let size = self.bytes()?;
                if size > 0 {
                    self.smallest = Some(self.smallest.map_or(size, |smallest| smallest.min(size)));
                }
            } else {
                let value = self.json.next()?;
                self.json.skip_rest(value)?;
            }
        }
        Ok(())
    }

    /// The file says nothing of the program, so the profile has the name of the file.
    fn into_profile(self, name: String) -> Profile {
        let Self { mut catalog, nodes, samples, smallest, .. } = self;
        let mut stacks: Vec<StackId> = Vec::with_capacity(nodes.len());
        let mut sites = Vec::new();
        for node in &nodes {
            let caller = stacks.get(node.parent).copied().unwrap_or(StackId::UNKNOWN);
            let stack = node.frame.map_or(caller, |frame| catalog.stacks.intern_child(caller, frame));
            stacks.push(stack);
            if node.self_size > 0 {
                sites.push(ProfileSite { stack, live_bytes: node.self_size, ..ProfileSite::default() });
            }
        }
        // A node has a sample or several, so it stands for no less than one.
        let smallest = smallest.or_else(|| sites.iter().map(|site| site.live_bytes).min());
        let source = Source {
            kind: SourceKind::new("v8-sampling"),
            program: name,
            sample_rate: smallest,
            notes: smallest.map(|smallest| note(samples, smallest)).into_iter().collect(),
            ..Source::default()
        };
        Profile {
            source,
            known: KnownFigures::default(),
            catalog,
            states: vec![ProfileState { at: Nanos(0), sites }],
            is_instant: true,
            ..Profile::default()
        }
    }
}

fn note(samples: u64, smallest: u64) -> String {
    let samples = if samples > 0 { format!("{} of the", grouped(samples)) } else { "the".to_owned() };
    let interval = format!("its interval is not in the file, and is at most {} bytes", grouped(smallest));
    format!("V8 sampled {samples} objects that were live at the end; {interval}.")
}
