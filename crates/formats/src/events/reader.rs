//! Reading event lines.

use super::fault::{BadEventLine, EventLineFault, EventLinesError, ExpectedValue};
use super::fields::Fields;
use super::lines::{BoundedLine, BoundedLines};
use super::scan::NotJson;
use super::sniff::{BYTE_ORDER_MARK, is_skipped};
use super::stack_texts::{BadStack, StackTexts};
use highwater_model::{
    Catalog, Clock, Event, EventKind, Heap, Nanos, Placement, Source, SourceKind, StackId, Tag, TagId, ThreadId,
    WordSampling, usable_of_size,
};
use std::io::BufRead;

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLine {
    /// An event.
    Event(Event),
    /// The name of a thread, which is now in the catalog.
    ThreadName(ThreadId),
    /// A description of the source, which [`EventLinesReader::source`] returns.
    Source,
}

/// Reads lines one at a time. Holds one line and the texts of known stacks, never the whole input.
#[derive(Debug)]
pub struct EventLinesReader<R> {
    lines: BoundedLines<R>,
    state: ReaderState,
}

/// State that is kept from line to line.
#[derive(Debug)]
struct ReaderState {
    stacks: StackTexts,
    source: Source,
    time: Nanos,
}

/// Why a line was rejected. The fault in the JSON is determined only when it must be reported.
pub(super) enum Refusal {
    NotJson,
    Fault(EventLineFault),
}

impl From<EventLineFault> for Refusal {
    fn from(fault: EventLineFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<NotJson> for Refusal {
    fn from(NotJson: NotJson) -> Self {
        Self::NotJson
    }
}

impl From<BadStack> for Refusal {
    fn from(bad: BadStack) -> Self {
        match bad {
            BadStack::NotJson => Self::NotJson,
            BadStack::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl<R: BufRead> EventLinesReader<R> {
    /// Reads from the beginning of `input`.
    pub fn new(input: R) -> Self {
        let source = Source { kind: SourceKind::EVENTS, ..Source::default() };
        Self {
            lines: BoundedLines::new(input),
            state: ReaderState { stacks: StackTexts::default(), source, time: Nanos(0) },
        }
    }

    /// The source, as far as it is known. Its duration is the latest time read.
    pub fn source(&self) -> &Source {
        &self.state.source
    }

    /// The number of the last line read, counted from 1; 0 before the first.
    pub fn line_number(&self) -> u64 {
        self.lines.number()
    }

    /// The next line that is neither empty nor a comment; `None` at the end.
    ///
    /// After an [`EventLinesError::Bad`], reading continues with the next line. Every call must get the same catalog: the handles in the events refer to it.
    pub fn next(&mut self, catalog: &mut Catalog) -> Option<Result<EventLine, EventLinesError>> {
        loop {
            let is_first = self.lines.number() == 0;
            let bytes = match self.lines.next()? {
                Ok(BoundedLine::Bytes(bytes)) => bytes,
                Ok(BoundedLine::TooLong) => return Some(Err(bad(self.lines.number(), EventLineFault::TooLong))),
                Err(error) => return Some(Err(EventLinesError::Io(error))),
            };
            let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(bytes).trim_ascii();
            if !is_skipped(bytes) {
                let outcome = self.state.read(bytes, catalog);
                return Some(outcome.map_err(|why| bad(self.lines.number(), why)));
            }
        }
    }
}

#[cold]
fn bad(line: u64, why: EventLineFault) -> EventLinesError {
    EventLinesError::Bad(BadEventLine { line, why })
}

impl ReaderState {
    fn read(&mut self, bytes: &[u8], catalog: &mut Catalog) -> Result<EventLine, EventLineFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| EventLineFault::NotUtf8)?;
        if !text.starts_with('{') {
            return Err(EventLineFault::NotAnObject);
        }
        self.understand(text, catalog).map_err(|refusal| match refusal {
            Refusal::Fault(fault) => fault,
            Refusal::NotJson => explain_not_json(text),
        })
    }

    fn understand(&mut self, text: &str, catalog: &mut Catalog) -> Result<EventLine, Refusal> {
        let fields = Fields::parse(text)?;
        let time = fields.number("time_ns")?.map_or(self.time, Nanos);
        let thread = ThreadId(fields.number("thread")?.unwrap_or(0));
        let line = match fields.required_text("event")? {
            "allocate" | "alloc" => EventKind::Allocate(self.placement(&fields, catalog)?).into(),
            "deallocate" | "dealloc" | "free" => self.deallocation(&fields, catalog)?.into(),
            "reallocate" | "realloc" => {
                let old_address = fields.heap()?.recorded_address(fields.required_address("old_address")?);
                let claimed_old_size = fields.number("old_size")?;
                let new = self.placement(&fields, catalog)?;
                EventKind::Reallocate { old_address, claimed_old_size, new }.into()
            }
            "promote" => {
                fields.required_text("heap")?;
                let address = fields.required_address("address")?;
                EventKind::Promote { address, tag: tag(&fields, catalog)? }.into()
            }
            "mark" => EventKind::Mark { name: catalog.strings.intern(fields.required_text("name")?) }.into(),
            "gauge" => {
                let value = fields.required_number("value")?;
                EventKind::Gauge { name: catalog.strings.intern(fields.required_text("name")?), value }.into()
            }
            "dropped" => EventKind::Dropped { count: fields.required_number("count")? }.into(),
            "thread" => {
                fields.required_number("thread")?;
                catalog.name_thread(thread, fields.required_text("name")?);
                LineContent::ThreadName
            }
            "source" => {
                describe_source(&mut self.source, &fields)?;
                LineContent::Source
            }
            unknown => return Err(EventLineFault::UnknownEvent(unknown.to_owned()).into()),
        };
        self.time = time;
        self.source.duration = self.source.duration.max(time);
        Ok(match line {
            LineContent::Event(kind) => EventLine::Event(Event { time, thread, kind }),
            LineContent::ThreadName => EventLine::ThreadName(thread),
            LineContent::Source => EventLine::Source,
        })
    }

    fn placement(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<Placement, Refusal> {
        let (heap, weight) = (fields.heap()?, fields.weight()?);
        let address = heap.recorded_address(fields.required_address("address")?);
        let size = fields.required_number("size")?;
        let surplus = match fields.number("usable")? {
            Some(usable) => surplus(size, usable).ok_or(EventLineFault::TooLarge("usable"))?,
            None => 0,
        };
        let stack = self.stack(fields, catalog)?;
        let tag = tag(fields, catalog)?;
        self.source.usable_sizes |= fields.number("usable")?.is_some();
        Ok(Placement { address, size, stack, tag, surplus, weight })
    }

    fn deallocation(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<EventKind, Refusal> {
        let address = fields.heap()?.recorded_address(fields.required_address("address")?);
        let claimed_size = fields.number("size")?;
        Ok(EventKind::Deallocate { address, claimed_size, stack: self.stack(fields, catalog)? })
    }

    fn stack(&mut self, fields: &Fields<'_>, catalog: &mut Catalog) -> Result<StackId, Refusal> {
        match fields.stack_text()? {
            Some(text) => Ok(self.stacks.stack(text, catalog)?),
            None => Ok(StackId::UNKNOWN),
        }
    }
}

/// Updates the source with the fields of a line, and keeps those that the line does not mention. Nothing changes if a field has a fault.
pub(super) fn describe_source(source: &mut Source, fields: &Fields<'_>) -> Result<(), EventLineFault> {
    let mut new = source.clone();
    let text_or = |text: &str, before: String| if text.is_empty() { before } else { text.to_owned() };
    new.program = text_or(fields.text("program")?, new.program);
    new.executable = text_or(fields.text("executable")?, new.executable);
    new.host = text_or(fields.text("host")?, new.host);
    new.pid = fields.number("pid")?.unwrap_or(new.pid);
    new.parent_pid = fields.number("parent_pid")?.unwrap_or(new.parent_pid);
    new.forked |= fields.truth("forked")?;
    new.usable_sizes |= fields.truth("usable_sizes")?;
    new.start_unix_ns = fields.number("start_unix_ns")?.unwrap_or(new.start_unix_ns);
    new.sample_rate = match fields.number("sample_rate")? {
        Some(0) => return Err(EventLineFault::Not("sample_rate", ExpectedValue::PositiveNumber)),
        rate => rate.or(new.sample_rate),
    };
    new.context = text_or(fields.text("context")?, new.context);
    new.runtime_parameters = text_or(fields.text("runtime_parameters")?, new.runtime_parameters);
    if let Some(rate) = fields.fraction("samples_per_word") {
        let word_bytes = u8::try_from(fields.required_number("word_bytes")?).unwrap_or(0);
        let sampling = rate.and_then(|rate| WordSampling::new(rate, word_bytes));
        new.word_sampling = Some(sampling.ok_or(EventLineFault::Not("samples_per_word", ExpectedValue::Probability))?);
    }
    new.command = fields.texts("command")?.unwrap_or(new.command);
    new.notes = fields.texts("notes")?.unwrap_or(new.notes);
    new.clock = match fields.text("clock")? {
        "" => new.clock,
        unit => Clock::of_unit(unit).ok_or(EventLineFault::Not("clock", ExpectedValue::Clock))?,
    };
    *source = new;
    Ok(())
}

/// The content of a line, before its time and thread are added.
enum LineContent {
    Event(EventKind),
    ThreadName,
    Source,
}

impl From<EventKind> for LineContent {
    fn from(kind: EventKind) -> Self {
        Self::Event(kind)
    }
}

/// The variable, type, heap and task of a block. An empty task takes that of a resized block away.
pub(super) fn tag(fields: &Fields<'_>, catalog: &mut Catalog) -> Result<TagId, EventLineFault> {
    let (variable, type_name, heap) = (fields.text("variable")?, fields.text("type")?, fields.heap()?);
    let task = fields.text("task")?;
    if variable.is_empty() && type_name.is_empty() && task.is_empty() && heap == Heap::Malloc {
        return Ok(if fields.has("task") { catalog.no_task() } else { TagId::NONE });
    }
    let [variable, type_name, task] = [variable, type_name, task].map(|name| catalog.strings.intern(name));
    Ok(catalog.intern_tag(Tag { variable, type_name, heap, task }))
}

/// The usable bytes beyond those expected; `None` if the number does not fit.
pub(super) fn surplus(size: u64, usable: u64) -> Option<i32> {
    i32::try_from(i128::from(usable) - i128::from(usable_of_size(size))).ok()
}

/// Uses `serde_json` to describe the fault, because the scanner is made for speed.
#[cold]
pub(super) fn explain_not_json(text: &str) -> EventLineFault {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => EventLineFault::NotJson { column: 0, problem: "not understood".to_owned() },
        Err(error) => {
            let message = error.to_string();
            let problem = message.split(" at line ").next().unwrap_or_default().to_owned();
            EventLineFault::NotJson { column: error.column(), problem }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::MAX_LINE_BYTES;
    use super::super::recorded::{RecordedItem, RecordedLinesReader};
    use super::*;
    use highwater_model::{FrameText, NumberLedger};
    use std::io::{self, BufReader, Read};

    /// The lines, errors as texts, and the reader's final state.
    fn read(input: &[u8]) -> (Vec<Result<EventLine, String>>, Catalog, Source) {
        let (mut catalog, mut reader) = (Catalog::default(), EventLinesReader::new(input));
        let mut lines = Vec::new();
        while let Some(line) = reader.next(&mut catalog) {
            lines.push(line.map_err(|error| error.to_string()));
        }
        (lines, catalog, reader.source().clone())
    }

    fn only_event(line: &str) -> (Event, Catalog) {
        let (lines, catalog, _) = read(line.as_bytes());
        match lines.as_slice() {
            [Ok(EventLine::Event(event))] => (*event, catalog),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn only_error(line: &str) -> String {
        match read(line.as_bytes()).0.as_slice() {
            [Err(error)] => error.clone(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_lines_shown_in_the_documentation_are_good() {
        let documentation = include_str!("../../../../docs/events.md");
        let (plain, recorded) = documentation.split_once("## The lines of a recording").unwrap();
        let shown = |text: &'static str| {
            let lines = text.lines().filter(|line| line.starts_with("{\"event\""));
            lines.collect::<Vec<&str>>()
        };
        assert_eq!((shown(plain).len(), shown(recorded).len()), (6, 8));
        let (lines, ..) = read(shown(plain).join("\n").as_bytes());
        assert!(lines.iter().all(Result::is_ok), "{lines:?}");
        let text = shown(recorded).join("\n");
        let (mut catalog, mut ledger) = (Catalog::default(), NumberLedger::default());
        let mut reader = RecordedLinesReader::new(text.as_bytes());
        while let Some(item) = reader.next(&mut catalog, &ledger) {
            if let RecordedItem::Step(step) = item.unwrap() {
                ledger.replay(&step);
            }
        }
        assert_eq!(ledger.accounts().events(), 2);
    }

    #[test]
    fn what_native_programs_know_besides() {
        let (lines, catalog, source) = read(
            concat!(
                r#"{"event":"source","sample_rate":4096,"parent_pid":7,"usable_sizes":true}"#,
                "\n",
                r#"{"event":"alloc","address":"0x1000","size":8192,"heap":"mmap"}"#,
                "\n",
                r#"{"event":"alloc","address":"0x1000","size":100,"usable":120,"weight":2.5,"heap":"malloc"}"#,
                "\n",
                r#"{"event":"realloc","old_address":"0x1000","address":"0x2000","size":4096,"heap":"mmap"}"#,
                "\n",
                r#"{"event":"free","address":"0x2000","heap":"mmap"}"#,
            )
            .as_bytes(),
        );
        assert_eq!((source.parent_pid, source.usable_sizes, source.sample_rate), (7, true, Some(4096)));
        let kinds: Vec<EventKind> = lines
            .into_iter()
            .filter_map(|line| match line {
                Ok(EventLine::Event(event)) => Some(event.kind),
                _ => None,
            })
            .collect();
        let [
            EventKind::Allocate(mapped),
            EventKind::Allocate(block),
            EventKind::Reallocate { old_address, new, .. },
            freed,
        ] = kinds[..]
        else {
            panic!("{kinds:?}")
        };
        assert_eq!((mapped.address, old_address, new.address), (0x1001, 0x1001, 0x2001));
        assert_eq!((catalog.tag(mapped.tag).heap, new.tag), (Heap::Mapped, mapped.tag));
        assert_eq!((block.address, block.tag, block.surplus, block.weight.value()), (0x1000, TagId::NONE, 16, 2.5));
        assert_eq!(freed, EventKind::free(0x2001, None));
        for (field, what) in [
            (r#""heap":"stack""#, "\"heap\" must be malloc, mmap, minor, major or external"),
            (r#""weight":0.5"#, "\"weight\" must be a number of 1 or more"),
            (r#""weight":"2""#, "\"weight\" must be a number of 1 or more"),
            (r#""weight":1e300"#, "\"weight\" must be a number of 1 or more"),
            (r#""usable":99999999999"#, "\"usable\" is too large"),
        ] {
            let line = format!(r#"{{"event":"alloc","address":1,"size":8,{field}}}"#);
            assert_eq!(only_error(&line), format!("line 1: {what}"));
        }
    }

    #[test]
    fn an_allocation_with_everything() {
        let (event, catalog) = only_event(
            r#"{"event":"allocate","address":"0x7F00","size":64,"thread":7,"time_ns":123,"variable":"buf",
                "type":"Vec<u8>","stack":["push",{"function":"main","file":"a.rs","line":3,"module":"app",
                "address":"0x40","inlined":true}],"colour":{"extra":[]}}"#
                .replace('\n', " ")
                .as_str(),
        );
        assert_eq!((event.time, event.thread), (Nanos(123), ThreadId(7)));
        let EventKind::Allocate(place) = event.kind else { panic!("{event:?}") };
        assert_eq!((place.address, place.size), (0x7f00, 64));
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(place.stack).collect();
        let main = FrameText {
            function: "main",
            file: "a.rs",
            line: 3,
            module: "app",
            address: 0x40,
            inlined: true,
            ..FrameText::default()
        };
        assert_eq!(frames, [FrameText { function: "push", ..FrameText::default() }, main]);
        let tag = catalog.tag(place.tag);
        assert_eq!((catalog.strings.get(tag.variable), catalog.strings.get(tag.type_name)), ("buf", "Vec<u8>"));
    }

    #[test]
    fn every_kind_of_event_and_its_short_names() {
        for (names, rest, kind) in [
            (&["allocate", "alloc"][..], r#""address":5,"size":0"#, EventKind::Allocate(at_5(0))),
            (
                &["deallocate", "dealloc", "free"],
                r#""address":5,"size":9,"stack":["drop"]"#,
                EventKind::Deallocate { address: 5, claimed_size: Some(9), stack: StackId(1) },
            ),
            (&["free"], r#""address":5,"size":null"#, EventKind::free(5, None)),
            (
                &["reallocate", "realloc"],
                r#""old_address":4,"old_size":1,"address":5,"size":2"#,
                EventKind::Reallocate { old_address: 4, claimed_old_size: Some(1), new: at_5(2) },
            ),
            (&["dropped"], r#""count":3"#, EventKind::Dropped { count: 3 }),
        ] {
            for name in names {
                assert_eq!(only_event(&format!(r#"{{"event":"{name}",{rest}}}"#)).0.kind, kind);
            }
        }
        let (event, catalog) = only_event(r#"{"event":"gauge","name":"rss","value":18446744073709551615}"#);
        let EventKind::Gauge { name, value: u64::MAX } = event.kind else { panic!("{event:?}") };
        assert_eq!(catalog.strings.get(name), "rss");
        let (event, catalog) = only_event(r#"{"event":"mark","name":"after \"load\""}"#);
        let EventKind::Mark { name } = event.kind else { panic!("{event:?}") };
        assert_eq!(catalog.strings.get(name), "after \"load\"");
    }

    fn at_5(size: u64) -> Placement {
        Placement { address: 5, size, ..Placement::default() }
    }

    #[test]
    fn a_missing_time_is_the_previous_one_and_bad_lines_leave_no_trace() {
        let input = concat!(
            "\u{feff}{\"event\":\"free\",\"address\":1}\r\n",
            "# a comment\n\n   \n",
            "{\"event\":\"free\",\"address\":1,\"time_ns\":50}\n",
            "{\"event\":\"free\",\"address\":-1,\"time_ns\":99}\n",
            "{\"event\":\"free\",\"address\":1}\n",
            "{\"event\":\"free\",\"address\":1,\"time_ns\":20}",
        );
        let (lines, _, source) = read(input.as_bytes());
        let times: Vec<Result<u64, &str>> = lines
            .iter()
            .map(|line| match line {
                Ok(EventLine::Event(event)) => Ok(event.time.0),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.as_str()),
            })
            .collect();
        let negative = "line 6: \"address\" must not be negative";
        assert_eq!(times, [Ok(0), Ok(50), Err(negative), Ok(50), Ok(20)]);
        assert_eq!(source.duration, Nanos(50));
    }

    #[test]
    fn threads_and_the_source_are_described() {
        let (lines, catalog, source) = read(
            br#"{"event":"thread","thread":7,"name":"worker"}
                {"event":"source","program":"app","pid":3,"host":"h","start_unix_ns":9,"sample_rate":4096}
                {"event":"source","pid":4}"#,
        );
        assert_eq!(lines, [Ok(EventLine::ThreadName(ThreadId(7))), Ok(EventLine::Source), Ok(EventLine::Source)]);
        assert_eq!(catalog.thread_name(ThreadId(7)), "worker");
        let expected = Source {
            kind: SourceKind::EVENTS,
            program: "app".to_owned(),
            pid: 4,
            host: "h".to_owned(),
            start_unix_ns: 9,
            duration: Nanos(0),
            sample_rate: Some(4096),
            ..Source::default()
        };
        assert_eq!(source, expected);
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (line, why) in [
            (r#"{"event":"allocate","address":1}"#, "\"size\" is missing"),
            (r#"{"event":"allocate","size":1}"#, "\"address\" is missing"),
            (r#"{"size":1}"#, "\"event\" is missing"),
            (r#"{"event":"explode"}"#, "\"explode\" is not a known event"),
            (r#"{"event":3}"#, "\"event\" must be a text"),
            (r#"{"event":"free","address":-1}"#, "\"address\" must not be negative"),
            (
                r#"{"event":"alloc","address":1,"size":1.5}"#,
                "\"size\" must be a whole number, written without point or exponent",
            ),
            (
                r#"{"event":"alloc","address":1,"size":1e3}"#,
                "\"size\" must be a whole number, written without point or exponent",
            ),
            (r#"{"event":"alloc","address":1,"size":18446744073709551616}"#, "\"size\" is too large"),
            (r#"{"event":"alloc","address":1,"size":"64"}"#, "\"size\" must be a number"),
            (r#"{"event":"free","address":"7f00"}"#, "\"address\" must be a number or a text like \"0x7f00\""),
            (r#"{"event":"free","address":"0x"}"#, "\"address\" must be a number or a text like \"0x7f00\""),
            (r#"{"event":"free","address":"0x+1"}"#, "\"address\" must be a number or a text like \"0x7f00\""),
            (r#"{"event":"free","address":"0x10000000000000000"}"#, "\"address\" is too large"),
            (r#"{"event":"free","address":1,"thread":"main"}"#, "\"thread\" must be a number"),
            (r#"{"event":"thread","name":"main"}"#, "\"thread\" is missing"),
            (r#"{"event":"mark"}"#, "\"name\" is missing"),
            (r#"{"event":"source","sample_rate":0}"#, "\"sample_rate\" must be a number above zero"),
            (
                r#"{"event":"alloc","address":1,"size":1,"stack":"main"}"#,
                "\"stack\" must be a list of frames, innermost first",
            ),
            (
                r#"{"event":"alloc","address":1,"size":1,"stack":["main",7]}"#,
                "frame 1 of \"stack\": must be a function's name or an object",
            ),
            (
                r#"{"event":"alloc","address":1,"size":1,"stack":[{"line":4294967296}]}"#,
                "frame 0 of \"stack\": \"line\" is too large",
            ),
            (
                r#"{"event":"alloc","address":1,"size":1,"stack":[{"inlined":"yes"}]}"#,
                "frame 0 of \"stack\": \"inlined\" must be true or false",
            ),
            (
                r#"{"event":"alloc","address":1,"size":1,"stack":["a" "b"]}"#,
                "not JSON: expected `,` or `]` at column 52",
            ),
            (r#"{"event":"mark","name":"x","extra":[1,]}"#, "not JSON: trailing comma at column 39"),
            (r#"{"event":"mark","name":"x"#, "not JSON: EOF while parsing a string at column 25"),
            (r#"["event"]"#, "not a JSON object"),
            ("allocate 64", "not a JSON object"),
        ] {
            assert_eq!(only_error(line), format!("line 1: {why}"), "{line}");
        }
    }

    #[test]
    fn reading_goes_on_after_lines_that_are_not_text_or_far_too_long() {
        let mut input = b"{\"event\":\"mark\",\"name\":\"\xff\"}\n{\"event\":\"mark\",\"name\":\"".to_vec();
        input.resize(input.len() + 3 * MAX_LINE_BYTES, b'x');
        input.extend_from_slice(b"\"}\n{\"event\":\"free\",\"address\":1}\n");
        let (lines, ..) = read(&input);
        assert_eq!(lines[0], Err("line 1: not UTF-8".to_owned()));
        assert_eq!(lines[1], Err("line 2: longer than 1048576 bytes".to_owned()));
        assert!(matches!(lines[2], Ok(EventLine::Event(_))));
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn the_longest_line_is_still_read() {
        let mut line = b"{\"event\":\"free\",\"address\":1}".to_vec();
        line.resize(MAX_LINE_BYTES, b' ');
        line.push(b'\n');
        line.extend_from_within(..);
        let (lines, ..) = read(&line);
        assert!(matches!(lines[..], [Ok(_), Ok(_)]), "{lines:?}");
    }

    /// Returns one line, then an error.
    struct Failing(bool);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(io::Error::other("unplugged"));
            }
            let line = b"{\"event\":\"free\",\"address\":1}\n";
            buffer[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    #[test]
    fn a_failing_input_is_reported_once_and_ends_the_reading() {
        let (mut catalog, mut reader) = (Catalog::default(), EventLinesReader::new(BufReader::new(Failing(false))));
        assert!(matches!(reader.next(&mut catalog), Some(Ok(EventLine::Event(_)))));
        assert!(matches!(reader.next(&mut catalog), Some(Err(EventLinesError::Io(_)))));
        assert!(reader.next(&mut catalog).is_none());
    }
}
