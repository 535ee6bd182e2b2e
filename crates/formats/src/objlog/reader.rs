//! Reads a log: from bytes to events and their meanings.

use super::fault::ObjectLineFault;
use super::json_form::{self, JsonLine, LogThread, Verb};
use super::lines::{LineSplitter, SplitLine};
use super::matcher::{BirthOrDrop, Matcher, Meaning, SiteId};
use super::text_form::{self, TextLine};
use highwater_model::Nanos;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Limit for the number of bad lines that are remembered. Further ones are only counted.
const REMEMBERED: usize = 1000;
const SHOWN_BYTES: usize = 160;
/// The number of births and drops that are processed together if there is no observer.
const AT_ONCE: usize = 16;
const A_DAY: Nanos = Nanos(86_400_000_000_000);

/// The point up to which a log is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ReadUntil {
    /// The end of the log.
    #[default]
    End,
    /// This number of events.
    Events(u64),
    /// This number of births, drops and changes of size that counted.
    Steps(u64),
    /// This number of lines.
    Line(u64),
    /// This time. Includes all earlier events, wherever they are in the log.
    Time(Nanos),
    /// The first mark or `MEMORY` line with this name.
    Mark(String),
}

/// A line that begins with `@` and could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadObjectLine {
    /// Its number, from 1.
    pub number: u64,
    /// The fault of the line.
    pub fault: ObjectLineFault,
    /// The beginning of the line.
    pub text: String,
}

/// The numbers of lines, by kind.
#[derive(Clone, Debug, Default)]
pub struct LineCounts {
    /// All lines.
    pub lines: u64,
    /// Lines about an object or the memory.
    pub object_lines: u64,
    /// Lines that do not begin with `@`.
    pub noise_lines: u64,
    /// Lines that begin with `@` and could not be used.
    pub malformed: u64,
    /// Lines of noise that are longer than the limit.
    pub long_noise: u64,
    /// True if the last line was truncated.
    pub last_line_truncated: bool,
    by_fault: [u64; ObjectLineFault::ALL.len()],
    bad: Vec<BadObjectLine>,
}

impl LineCounts {
    /// The remembered lines that could not be used.
    pub fn bad(&self) -> &[BadObjectLine] {
        &self.bad
    }

    /// The number of bad lines of each kind; kinds that do not occur are left out.
    pub fn by_fault(&self) -> impl Iterator<Item = (ObjectLineFault, u64)> {
        ObjectLineFault::ALL.into_iter().zip(self.by_fault).filter(|(_, count)| *count > 0)
    }

    #[cold]
    fn add_bad(&mut self, number: u64, fault: ObjectLineFault, line: &[u8]) {
        self.malformed += 1;
        self.by_fault[fault as usize] += 1;
        if self.bad.len() < REMEMBERED {
            let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned();
            self.bad.push(BadObjectLine { number, fault, text });
        }
    }
}

/// An event of the log, with its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent<'a> {
    /// The number of its line, from 1.
    pub line: u64,
    /// Its time, if the log has one.
    pub time: Option<Nanos>,
    /// Its thread, if the log has one.
    pub thread: Option<LogThread<'a>>,
    /// The call stack as a JSON list, innermost frame first, if the log has one.
    pub stack: Option<&'a str>,
    /// The event itself.
    pub kind: LogEventKind<'a>,
}

/// The kinds of events, with their values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogEventKind<'a> {
    /// The birth of an object.
    Allocate {
        /// Its size.
        bytes: u64,
        /// Its type and place.
        site: SiteId,
        /// Its id.
        id: u64,
        /// The meaning of the line, given the lines before it.
        meaning: Meaning,
    },
    /// The drop of an object.
    Drop {
        /// Its size.
        bytes: u64,
        /// Its id.
        id: u64,
        /// The meaning of the line, given the lines before it.
        meaning: Meaning,
    },
    /// A change of the size of an object.
    Resize {
        /// Its new size.
        bytes: u64,
        /// Its id.
        id: u64,
        /// The meaning of the line, given the lines before it.
        meaning: Meaning,
    },
    /// The size of the whole memory.
    Memory {
        /// The size in bytes.
        bytes: u64,
        /// The label of this instant; often empty.
        label: &'a [u8],
    },
    /// A label that the program gave to this instant.
    Mark {
        /// The label.
        label: &'a [u8],
    },
}

/// Observes the events of a log while it is read.
pub trait Observer {
    /// False if events need not be passed on. Births and drops are then processed in batches.
    const WANTS_EVENTS: bool = true;

    /// Called for each event.
    fn event(&mut self, event: &LogEvent<'_>, matcher: &Matcher);
}

/// Ignores all events.
impl Observer for () {
    const WANTS_EVENTS: bool = false;

    #[inline(always)]
    fn event(&mut self, _: &LogEvent<'_>, _: &Matcher) {}
}

/// The state of reading after a call of [`ObjectLogReader::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogProgress {
    /// There may be more to read.
    More,
    /// No bytes came: the end, unless the log is still growing.
    Dry,
    /// The point given by [`ReadUntil`] was reached.
    Over,
}

/// Reads a log, piece by piece as it arrives.
#[derive(Debug, Default)]
pub struct ObjectLogReader {
    lines: LineSplitter,
    processor: LineProcessor,
}

/// The state of a reader, without the splitting into lines.
#[derive(Debug, Default)]
struct LineProcessor {
    matcher: Matcher,
    counts: LineCounts,
    until: ReadUntil,
    is_over: bool,
    /// Queued births and drops, and their number.
    waiting: [BirthOrDrop; AT_ONCE],
    waits: usize,
    /// The time of the log's clock at the start.
    origin: Option<Nanos>,
    /// The time of the last event with a time, and the earliest and latest times of all events.
    time: Option<Nanos>,
    span: Option<(Nanos, Nanos)>,
}

impl ObjectLogReader {
    /// A reader that stops at this point.
    pub fn until(until: ReadUntil) -> Self {
        Self { processor: LineProcessor { until, ..LineProcessor::default() }, ..Self::default() }
    }

    /// A reader in the state after a log with the content of `matcher`, which had `events` events and lost `lost` lines.
    pub fn of_matcher(matcher: Matcher, events: u64, lost: u64) -> Self {
        let counts = LineCounts { object_lines: events, malformed: lost, ..LineCounts::default() };
        Self { processor: LineProcessor { matcher, counts, ..LineProcessor::default() }, ..Self::default() }
    }

    /// Reads once from the input, and processes all complete lines.
    pub fn read(&mut self, input: &mut impl Read, observer: &mut impl Observer) -> io::Result<LogProgress> {
        if self.processor.is_over {
            return Ok(LogProgress::Over);
        }
        let processor = &mut self.processor;
        let read = self.lines.read(input, |number, line| processor.line(number, line, observer));
        // Callers may query the matcher after this, so no event may stay queued.
        self.processor.take_waiting();
        let count = read?;
        Ok(match (self.processor.is_over, count) {
            (true, _) => LogProgress::Over,
            (false, 0) => LogProgress::Dry,
            (false, _) => LogProgress::More,
        })
    }

    /// Processes the remaining bytes as the last line, which has no line end.
    pub fn finish(&mut self, observer: &mut impl Observer) {
        let processor = &mut self.processor;
        if !processor.is_over {
            self.lines.finish(|number, line| processor.line(number, line, observer));
            processor.take_waiting();
        }
    }

    /// Reads the input to its end.
    pub fn read_all(&mut self, mut input: impl Read, observer: &mut impl Observer) -> io::Result<()> {
        while self.read(&mut input, observer)? == LogProgress::More {}
        self.finish(observer);
        Ok(())
    }

    /// The matched objects.
    pub fn matcher(&self) -> &Matcher {
        &self.processor.matcher
    }

    /// The numbers of lines.
    pub fn counts(&self) -> &LineCounts {
        &self.processor.counts
    }

    /// The number of bytes read.
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// The earliest and the latest time in the log; `None` if it has no times.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        self.processor.span
    }

    /// True if the point given by [`ReadUntil`] was reached.
    pub fn is_over(&self) -> bool {
        self.processor.is_over
    }
}

impl LineProcessor {
    #[inline]
    fn line(&mut self, number: u64, line: SplitLine<'_>, observer: &mut impl Observer) -> ControlFlow<()> {
        if let ReadUntil::Line(last) = self.until
            && number > last
        {
            self.is_over = true;
            return ControlFlow::Break(());
        }
        self.counts.lines = number;
        match line {
            SplitLine::Whole(line) if line.first() == Some(&b'@') => {
                if let Err(fault) = self.object_line(number, line, observer) {
                    self.counts.add_bad(number, fault, line);
                }
            }
            SplitLine::Whole(_) => self.counts.noise_lines += 1,
            other => self.unusual_line(number, other, observer),
        }
        if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    #[cold]
    fn unusual_line(&mut self, number: u64, line: SplitLine<'_>, observer: &mut impl Observer) {
        match line {
            SplitLine::TooLong(b'@') => self.counts.add_bad(number, ObjectLineFault::TooLong, b"@"),
            SplitLine::TooLong(_) => {
                self.counts.noise_lines += 1;
                self.counts.long_noise += 1;
            }
            SplitLine::Unended(line) | SplitLine::Whole(line) if line.first() == Some(&b'@') => {
                let done = match self.fits(line) {
                    true => self.object_line(number, line, observer),
                    false => Err(ObjectLineFault::Cut),
                };
                if let Err(fault) = done {
                    self.counts.last_line_truncated = true;
                    self.counts.add_bad(number, fault, line);
                }
            }
            SplitLine::Unended(_) | SplitLine::Whole(_) => self.counts.noise_lines += 1,
        }
    }

    /// Whether a line without a line end is plausible: its id may lack digits.
    fn fits(&mut self, line: &[u8]) -> bool {
        match text_form::parse(line) {
            Ok(TextLine::Allocate { id, .. }) => self.matcher.can_be_born(id),
            Ok(TextLine::Drop { bytes, id, .. }) => self.matcher.can_be_dropped(bytes, id),
            _ => true,
        }
    }

    #[inline]
    fn object_line<O: Observer>(&mut self, number: u64, line: &[u8], observer: &mut O) -> Result<(), ObjectLineFault> {
        let parsed = text_form::parse(line)?;
        if !matches!(parsed, TextLine::Allocate { .. } | TextLine::Drop { .. }) {
            self.take_waiting();
        }
        let kind = match parsed {
            TextLine::Drop { bytes, type_name, id } if !O::WANTS_EVENTS && self.until == ReadUntil::End => {
                let owner = self.matcher.type_number(type_name);
                self.wait(BirthOrDrop { bytes, owner, id, is_drop: true });
                return Ok(());
            }
            TextLine::Allocate { bytes, site, id } => {
                let site = self.matcher.site(site)?;
                if !O::WANTS_EVENTS && self.until == ReadUntil::End {
                    self.wait(BirthOrDrop { bytes, owner: site.0, id, is_drop: false });
                    return Ok(());
                }
                if self.is_left_out() {
                    return Ok(());
                }
                LogEventKind::Allocate { bytes, site, id, meaning: self.matcher.allocate(bytes, site, id) }
            }
            TextLine::Json(text) => return self.json_line(number, text, observer),
            _ if self.is_left_out() => return Ok(()),
            TextLine::Drop { bytes, type_name, id } => {
                LogEventKind::Drop { bytes, id, meaning: self.matcher.drop_named(bytes, type_name, id) }
            }
            TextLine::Resize { bytes, id } => {
                LogEventKind::Resize { bytes, id, meaning: self.matcher.resize(bytes, id) }
            }
            TextLine::Memory { bytes, label } => {
                self.matcher.memory.add(number, Some(bytes), label);
                LogEventKind::Memory { bytes, label }
            }
            TextLine::Mark { label } => {
                self.matcher.memory.add(number, None, label);
                LogEventKind::Mark { label }
            }
        };
        self.end_event(&LogEvent { line: number, time: None, thread: None, stack: None, kind }, observer);
        Ok(())
    }

    /// Queues a birth or a drop. The queue is processed before any other kind of event.
    #[inline]
    fn wait(&mut self, step: BirthOrDrop) {
        self.counts.object_lines += 1;
        self.waiting[self.waits] = step;
        self.waits += 1;
        if self.waits == AT_ONCE {
            self.take_waiting();
        }
    }

    fn take_waiting(&mut self) {
        self.matcher.take(&self.waiting[..self.waits]);
        self.waits = 0;
    }

    #[cold]
    #[inline(never)]
    fn json_line(&mut self, number: u64, text: &[u8], observer: &mut impl Observer) -> Result<(), ObjectLineFault> {
        let text = String::from_utf8_lossy(text);
        let line = json_form::parse(&text)?;
        let (time, thread, stack) = (line.time()?, line.thread()?, line.stack()?);
        let time = time.map(|time| self.since_start(time));
        let checked = self.json_event_kind(number, &line, time);
        if let (Some(time), Ok(_)) = (time, &checked) {
            self.time = Some(time);
            let (first, last) = self.span.unwrap_or((time, time));
            self.span = Some((first.min(time), last.max(time)));
        }
        if let Some(kind) = checked? {
            self.end_event(&LogEvent { line: number, time, thread, stack, kind }, observer);
        }
        Ok(())
    }

    /// The time since the start. If the clock shows more than a day at the first event, times count from that event.
    fn since_start(&mut self, time: Nanos) -> Nanos {
        let origin = *self.origin.get_or_insert(if time > A_DAY { time } else { Nanos(0) });
        Nanos(time.0.saturating_sub(origin.0))
    }

    /// Processes a line; `None` if it is later than `ReadUntil::Time`.
    fn json_event_kind<'a>(
        &mut self,
        number: u64,
        line: &'a JsonLine<'_>,
        time: Option<Nanos>,
    ) -> Result<Option<LogEventKind<'a>>, ObjectLineFault> {
        let is_late =
            |processor: &Self| matches!(processor.until, ReadUntil::Time(last) if time.or(processor.time) > Some(last));
        Ok(Some(match line.verb {
            Verb::Allocate => {
                let (bytes, id, place) = (line.bytes()?, line.id()?, line.place()?);
                let (type_name, variable) = (line.type_name()?, line.variable()?);
                let site = self.matcher.site_of_variable(place.as_bytes(), type_name.as_bytes(), variable.as_bytes());
                if is_late(self) {
                    return Ok(None);
                }
                LogEventKind::Allocate { bytes, site, id, meaning: self.matcher.allocate(bytes, site, id) }
            }
            Verb::Drop => {
                let (bytes, id, type_name) = (line.bytes()?, line.id()?, line.type_name()?);
                if is_late(self) {
                    return Ok(None);
                }
                LogEventKind::Drop { bytes, id, meaning: self.matcher.drop_named(bytes, type_name.as_bytes(), id) }
            }
            Verb::Resize => {
                let (bytes, id) = (line.bytes()?, line.id()?);
                if is_late(self) {
                    return Ok(None);
                }
                LogEventKind::Resize { bytes, id, meaning: self.matcher.resize(bytes, id) }
            }
            Verb::Memory => {
                let (bytes, label) = (line.bytes()?, line.label()?.as_bytes());
                if is_late(self) {
                    return Ok(None);
                }
                self.matcher.memory.add(number, Some(bytes), label);
                LogEventKind::Memory { bytes, label }
            }
            Verb::Mark => {
                let label = line.label()?.as_bytes();
                if label.is_empty() {
                    return Err(ObjectLineFault::Label);
                }
                if is_late(self) {
                    return Ok(None);
                }
                self.matcher.memory.add(number, None, label);
                LogEventKind::Mark { label }
            }
        }))
    }

    /// True if a line without a time comes after a time later than `ReadUntil::Time`.
    #[inline]
    fn is_left_out(&self) -> bool {
        matches!(self.until, ReadUntil::Time(last) if self.time > Some(last))
    }

    #[inline]
    fn end_event(&mut self, event: &LogEvent<'_>, observer: &mut impl Observer) {
        self.counts.object_lines += 1;
        observer.event(event, &self.matcher);
        if self.until != ReadUntil::End {
            self.look_for_end(&event.kind);
        }
    }

    #[cold]
    fn look_for_end(&mut self, kind: &LogEventKind<'_>) {
        self.is_over = match (&self.until, kind) {
            (ReadUntil::Events(last), _) => self.counts.object_lines >= *last,
            (ReadUntil::Steps(last), _) => self.matcher.steps() >= *last,
            (ReadUntil::Mark(name), LogEventKind::Memory { label, .. } | LogEventKind::Mark { label }) => {
                *label == name.as_bytes()
            }
            _ => false,
        };
    }
}
