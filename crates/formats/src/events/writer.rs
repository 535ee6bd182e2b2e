//! Writing event lines.

use highwater_model::{
    Catalog, Event, EventKind, FrameText, Heap, Placement, Source, StackId, Tag, TagId, ThreadId, usable_of_size,
};
use std::io::{self, Write};

/// Writes an event as one line. A free does not have its block's heap: the free of a mapping names the address as it was recorded, see
/// [`mapped_address`](highwater_model::mapped_address).
pub fn write_line(event: &Event, catalog: &Catalog, out: impl Write) -> io::Result<()> {
    let mut object = JsonObjectWriter::open(out)?;
    let name = match event.kind {
        EventKind::Allocate(_) => "allocate",
        EventKind::Reallocate { .. } => "reallocate",
        EventKind::Deallocate { .. } => "deallocate",
        EventKind::Promote { .. } => "promote",
        EventKind::Mark { .. } => "mark",
        EventKind::Gauge { .. } => "gauge",
        EventKind::Dropped { .. } => "dropped",
    };
    object.text("event", name)?;
    object.number("time_ns", event.time.0)?;
    object.number("thread", event.thread.0)?;
    match event.kind {
        EventKind::Allocate(place) => object.placement(&place, catalog)?,
        EventKind::Reallocate { old_address, claimed_old_size, new } => {
            object.address("old_address", catalog.tag(new.tag).heap.true_address(old_address))?;
            object.known_number("old_size", claimed_old_size)?;
            object.placement(&new, catalog)?;
        }
        EventKind::Deallocate { address, claimed_size, stack } => {
            object.address("address", address)?;
            object.known_number("size", claimed_size)?;
            object.stack(stack, catalog)?;
        }
        EventKind::Promote { address, tag } => {
            object.address("address", address)?;
            let tag = catalog.tag(tag);
            object.text("heap", tag.heap.name())?;
            object.known_text("variable", catalog.strings.get(tag.variable))?;
            object.known_text("type", catalog.strings.get(tag.type_name))?;
        }
        EventKind::Mark { name } => object.text("name", catalog.strings.get(name))?,
        EventKind::Gauge { name, value } => {
            object.text("name", catalog.strings.get(name))?;
            object.number("value", value)?;
        }
        EventKind::Dropped { count } => object.number("count", count)?,
    }
    object.end_line()
}

/// Writes the line that names a thread.
pub fn write_thread_name(thread: ThreadId, name: &str, out: impl Write) -> io::Result<()> {
    let mut object = JsonObjectWriter::open(out)?;
    object.text("event", "thread")?;
    object.number("thread", thread.0)?;
    object.text("name", name)?;
    object.end_line()
}

/// Writes the line that describes the source. Its kind and duration are left out: the kind is always that of event lines, and the duration follows
/// from the times.
pub fn write_source(source: &Source, out: impl Write) -> io::Result<()> {
    let mut object = JsonObjectWriter::open(out)?;
    object.text("event", "source")?;
    object.source(source)?;
    object.end_line()
}

/// A number that is 0 where it is not known.
pub(super) fn known(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

/// A JSON object that is written piece by piece.
pub(super) struct JsonObjectWriter<W> {
    pub(super) out: W,
    separator: &'static [u8],
}

impl<W: Write> JsonObjectWriter<W> {
    pub(super) fn open(mut out: W) -> io::Result<Self> {
        out.write_all(b"{")?;
        Ok(Self { out, separator: b"" })
    }

    /// Names are constants of this module and need no quoting.
    pub(super) fn name(&mut self, name: &str) -> io::Result<()> {
        self.out.write_all(self.separator)?;
        self.separator = b",";
        write!(self.out, "\"{name}\":")
    }

    pub(super) fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.name(name)?;
        serde_json::to_writer(&mut self.out, text)?;
        Ok(())
    }

    pub(super) fn known_text(&mut self, name: &str, text: &str) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { self.text(name, text) }
    }

    pub(super) fn number(&mut self, name: &str, number: u64) -> io::Result<()> {
        self.name(name)?;
        write!(self.out, "{number}")
    }

    pub(super) fn known_number(&mut self, name: &str, number: Option<u64>) -> io::Result<()> {
        number.map_or(Ok(()), |number| self.number(name, number))
    }

    pub(super) fn truth(&mut self, name: &str, truth: bool) -> io::Result<()> {
        self.name(name)?;
        write!(self.out, "{truth}")
    }

    pub(super) fn fraction(&mut self, name: &str, number: f64) -> io::Result<()> {
        self.name(name)?;
        write!(self.out, "{number}")
    }

    pub(super) fn source(&mut self, source: &Source) -> io::Result<()> {
        self.known_text("program", &source.program)?;
        self.known_number("pid", known(source.pid))?;
        self.known_number("parent_pid", known(source.parent_pid))?;
        self.known_text("host", &source.host)?;
        self.known_number("start_unix_ns", known(source.start_unix_ns))?;
        self.known_number("sample_rate", source.sample_rate)?;
        self.known_text("context", &source.context)?;
        self.known_text("runtime_parameters", &source.runtime_parameters)?;
        if let Some(sampling) = source.word_sampling {
            self.fraction("samples_per_word", sampling.rate())?;
            self.number("word_bytes", sampling.word_bytes().into())?;
        }
        if source.forked {
            self.truth("forked", true)?;
        }
        if source.usable_sizes {
            self.truth("usable_sizes", true)?;
        }
        self.known_text("executable", &source.executable)?;
        self.texts("command", &source.command)?;
        self.texts("notes", &source.notes)?;
        if source.is_untimed() {
            self.text("clock", source.clock.unit().1)?;
        }
        Ok(())
    }

    /// A list of texts; nothing if it is empty.
    fn texts(&mut self, name: &str, texts: &[String]) -> io::Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        self.name(name)?;
        serde_json::to_writer(&mut self.out, texts)?;
        Ok(())
    }

    /// An address as a text in hex: many languages cannot represent 64 bits in a number.
    pub(super) fn address(&mut self, name: &str, address: u64) -> io::Result<()> {
        self.name(name)?;
        write!(self.out, "\"{address:#x}\"")
    }

    fn placement(&mut self, place: &Placement, catalog: &Catalog) -> io::Result<()> {
        let tag = catalog.tag(place.tag);
        self.address("address", tag.heap.true_address(place.address))?;
        self.number("size", place.size)?;
        self.extras(place, catalog)?;
        self.stack(place.stack, catalog)
    }

    /// A stack, if it is known.
    fn stack(&mut self, stack: StackId, catalog: &Catalog) -> io::Result<()> {
        if stack == StackId::UNKNOWN {
            return Ok(());
        }
        self.name("stack")?;
        let mut separator: &[u8] = b"[";
        for frame in catalog.frame_texts(stack) {
            self.out.write_all(separator)?;
            self.frame(&frame)?;
            separator = b",";
        }
        self.out.write_all(if separator == b"[" { b"[]" } else { b"]" })
    }

    /// What most blocks do not have: another usable size than expected, a weight, a tag.
    pub(super) fn extras(&mut self, place: &Placement, catalog: &Catalog) -> io::Result<()> {
        if place.surplus != 0 {
            let usable = usable_of_size(place.size).saturating_add_signed(place.surplus.into());
            self.number("usable", usable)?;
        }
        if !place.weight.is_one() {
            self.fraction("weight", place.weight.value())?;
        }
        if let Some((samples, spacing)) = place.weight.counted() {
            self.number("samples", samples.into())?;
            self.fraction("bytes_per_sample", spacing.bytes())?;
        }
        self.tag(place.tag, catalog)
    }

    pub(super) fn tag(&mut self, id: TagId, catalog: &Catalog) -> io::Result<()> {
        let tag = catalog.tag(id);
        if id != TagId::NONE && tag == Tag::default() {
            return self.text("task", "");
        }
        if tag.heap != Heap::Malloc {
            self.text("heap", tag.heap.name())?;
        }
        self.known_text("variable", catalog.strings.get(tag.variable))?;
        self.known_text("type", catalog.strings.get(tag.type_name))?;
        self.known_text("task", catalog.strings.get(tag.task))
    }

    pub(super) fn frame(&mut self, frame: &FrameText<'_>) -> io::Result<()> {
        if *frame == (FrameText { function: frame.function, ..FrameText::default() }) {
            serde_json::to_writer(&mut self.out, frame.function)?;
            return Ok(());
        }
        let mut object = JsonObjectWriter::open(&mut self.out)?;
        object.known_text("function", frame.function)?;
        object.known_text("file", frame.file)?;
        object.known_number("line", (frame.line != 0).then_some(u64::from(frame.line)))?;
        object.known_text("module", frame.module)?;
        if frame.address != 0 {
            object.address("address", frame.address)?;
        }
        if frame.inlined {
            object.name("inlined")?;
            object.out.write_all(b"true")?;
        }
        if frame.columns.are_known() {
            object.number("column", frame.columns.start.into())?;
            object.number("end_column", frame.columns.end.into())?;
        }
        object.out.write_all(b"}")
    }

    pub(super) fn end_line(mut self) -> io::Result<()> {
        self.out.write_all(b"}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EventLine, EventLinesReader, looks_like_events};
    use super::*;
    use highwater_model::{Clock, ColumnRange, Nanos, SampleSpacing, StringId, TagId, Weight, WordSampling};
    use proptest::prelude::*;

    #[test]
    fn an_event_is_one_compact_line() {
        let mut catalog = Catalog::default();
        let main = FrameText { function: "main", line: 3, address: 0x40, ..FrameText::default() };
        let stack = catalog.intern_stack(&[FrameText { function: "a\"b", ..FrameText::default() }, main]);
        let kind = EventKind::Allocate(Placement { address: 0x7f00, size: 64, stack, ..Placement::default() });
        let mut line = Vec::new();
        write_line(&Event { time: Nanos(5), thread: ThreadId(7), kind }, &catalog, &mut line).unwrap();
        let expected = concat!(
            r#"{"event":"allocate","time_ns":5,"thread":7,"address":"0x7f00","size":64,"#,
            r#""stack":["a\"b",{"function":"main","line":3,"address":"0x40"}]}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn what_is_written_about_a_source_is_read_again() {
        let source = Source {
            program: "a \"program\"".to_owned(),
            pid: 3,
            host: "h\u{e9}".to_owned(),
            start_unix_ns: u64::MAX,
            sample_rate: Some(7),
            parent_pid: 2,
            usable_sizes: true,
            context: "nightly".to_owned(),
            runtime_parameters: "s=4k".to_owned(),
            word_sampling: WordSampling::new(1e-4, 8),
            executable: "/bin/a \"b".to_owned(),
            command: vec!["a \n".to_owned(), String::new()],
            notes: vec!["A fact.".to_owned()],
            clock: Clock::Lines,
            ..Source::default()
        };
        let mut lines = Vec::new();
        write_source(&source, &mut lines).unwrap();
        write_thread_name(ThreadId(9), "wor\nker", &mut lines).unwrap();
        let (mut catalog, mut reader) = (Catalog::default(), EventLinesReader::new(&lines[..]));
        assert_eq!(reader.next(&mut catalog).unwrap().unwrap(), EventLine::Source);
        assert_eq!(reader.next(&mut catalog).unwrap().unwrap(), EventLine::ThreadName(ThreadId(9)));
        assert_eq!(reader.source(), &source);
        assert_eq!(catalog.thread_name(ThreadId(9)), "wor\nker");
    }

    #[derive(Clone, Debug)]
    struct AnyFrame(String, String, u32, String, u64, bool);

    fn any_frame() -> impl Strategy<Value = AnyFrame> {
        let line = prop_oneof![Just(0), any::<u32>()];
        let address = prop_oneof![Just(0), any::<u64>()];
        (any::<String>(), "[a-z/]{0,3}", line, "[a-c]?", address, any::<bool>()).prop_map(
            |(function, file, line, module, address, inlined)| AnyFrame(function, file, line, module, address, inlined),
        )
    }

    type AnyEvent = (u8, u64, u64, (u64, u64, Option<u64>, u64), Vec<AnyFrame>, (String, String));

    fn any_event() -> impl Strategy<Value = AnyEvent> {
        let numbers = (any::<u64>(), any::<u64>(), any::<Option<u64>>(), any::<u64>());
        let texts = ("[a-d]?", any::<String>());
        (0u8..7, any::<u64>(), any::<u64>(), numbers, prop::collection::vec(any_frame(), 0..4), texts)
    }

    fn event(catalog: &mut Catalog, (kind, time, thread, numbers, frames, texts): &AnyEvent) -> Event {
        let (address, old_address, claimed, size) = *numbers;
        // Every third is as native programs have them.
        let heap = if size % 3 == 0 { Heap::ALL[(size % 5) as usize] } else { Heap::Malloc };
        let surplus = if size % 3 == 0 && size < 1 << 60 { (size % 1000) as i32 } else { 0 };
        let weight = if size % 3 == 0 { Weight::from_bits(size % (1 << 22)).unwrap() } else { Weight::ONE };
        let weight = if size % 5 == 0 { weight.of_samples(size as u32, SampleSpacing::new(8.0 / 0.3)) } else { weight };
        let (address, old_address) = (heap.recorded_address(address), heap.recorded_address(old_address));
        let name = catalog.strings.intern(&texts.1);
        let frames: Vec<FrameText<'_>> = frames
            .iter()
            .map(|AnyFrame(function, file, line, module, address, inlined)| FrameText {
                function,
                file,
                line: *line,
                module,
                address: *address,
                inlined: *inlined,
                columns: ColumnRange { start: (*line % 7) as u16, end: (*line % 11) as u16 },
                ..FrameText::default()
            })
            .collect();
        let variable = catalog.strings.intern(&texts.0);
        let mut placement = || Placement {
            address,
            size,
            stack: catalog.intern_stack(&frames),
            tag: catalog.intern_tag(Tag { variable, type_name: name, heap, ..Tag::default() }),
            surplus,
            weight,
        };
        let kind = match kind {
            0 => EventKind::Allocate(placement()),
            1 => EventKind::Reallocate { old_address, claimed_old_size: claimed, new: placement() },
            2 => EventKind::Deallocate { address, claimed_size: claimed, stack: placement().stack },
            3 => EventKind::Mark { name },
            4 => EventKind::Gauge { name, value: size },
            5 => {
                let tag = catalog.intern_tag(Tag { variable, type_name: name, heap, ..Tag::default() });
                let is_nothing = variable == StringId::EMPTY && name == StringId::EMPTY && heap == Heap::Malloc;
                EventKind::Promote { address: old_address, tag: if is_nothing { TagId::NONE } else { tag } }
            }
            _ => EventKind::Dropped { count: size },
        };
        Event { time: Nanos(*time), thread: ThreadId(*thread), kind }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(events in prop::collection::vec(any_event(), 1..20)) {
            let mut catalog = Catalog::default();
            let events: Vec<Event> = events.iter().map(|each| event(&mut catalog, each)).collect();
            let mut lines = Vec::new();
            for event in &events {
                write_line(event, &catalog, &mut lines).unwrap();
            }
            prop_assert!(looks_like_events(&lines));
            prop_assert_eq!(lines.iter().filter(|&&byte| byte == b'\n').count(), events.len());

            // With the same catalog, equal texts get equal handles.
            let mut reader = EventLinesReader::new(&lines[..]);
            for event in events {
                let line = reader.next(&mut catalog).unwrap();
                prop_assert_eq!(line.map_err(|error| error.to_string()), Ok(EventLine::Event(event)));
            }
            prop_assert!(reader.next(&mut catalog).is_none());
        }

        #[test]
        fn no_input_makes_the_reader_panic(input in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut catalog, mut reader) = (Catalog::default(), EventLinesReader::new(&input[..]));
            while reader.next(&mut catalog).is_some() {}
        }

        #[test]
        fn damage_to_a_line_costs_that_line_only(at in 0usize..90, byte in any::<u8>()) {
            let line = br#"{"event":"alloc","address":"0x7f00","size":64,"time_ns":1,"stack":["a",{"function":"b"}]}"#;
            let mut input = line.to_vec();
            let at = at.min(line.len() - 1);
            input[at] = if byte == b'\n' { b' ' } else { byte };
            input.push(b'\n');
            input.extend_from_slice(line);
            let (mut catalog, mut reader) = (Catalog::default(), EventLinesReader::new(&input[..]));
            let mut last = None;
            while let Some(line) = reader.next(&mut catalog) {
                last = Some(line);
            }
            prop_assert!(matches!(last, Some(Ok(EventLine::Event(_)))));
            prop_assert_eq!(reader.line_number(), 2);
        }
    }
}
