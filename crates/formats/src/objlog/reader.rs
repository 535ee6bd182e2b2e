//! Reads a log: from bytes to events and their meanings.

use super::fault::Fault;
use super::json_form::{self, JsonLine, Thread, Verb};
use super::lines::{Lines, RawLine};
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
pub enum Until {
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
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// The fault of the line.
    pub fault: Fault,
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
    by_fault: [u64; Fault::ALL.len()],
    bad: Vec<BadLine>,
}

impl LineCounts {
    /// The remembered lines that could not be used.
    pub fn bad(&self) -> &[BadLine] {
        &self.bad
    }

    /// The number of bad lines of each kind; kinds that do not occur are left out.
    pub fn by_fault(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.into_iter().zip(self.by_fault).filter(|(_, count)| *count > 0)
    }

    #[cold]
    fn add_bad(&mut self, number: u64, fault: Fault, line: &[u8]) {
        self.malformed += 1;
        self.by_fault[fault as usize] += 1;
        if self.bad.len() < REMEMBERED {
            let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned();
            self.bad.push(BadLine { number, fault, text });
        }
    }
}

/// An event of the log, with its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen<'a> {
    /// The number of its line, from 1.
    pub line: u64,
    /// Its time, if the log has one.
    pub time: Option<Nanos>,
    /// Its thread, if the log has one.
    pub thread: Option<Thread<'a>>,
    /// The call stack as a JSON list, innermost frame first, if the log has one.
    pub stack: Option<&'a str>,
    /// The event itself.
    pub what: What<'a>,
}

/// The kinds of events, with their values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What<'a> {
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
    const LOOKS: bool = true;

    /// Called for each event.
    fn see(&mut self, seen: &Seen<'_>, matcher: &Matcher);
}

/// Ignores all events.
impl Observer for () {
    const LOOKS: bool = false;

    #[inline(always)]
    fn see(&mut self, _: &Seen<'_>, _: &Matcher) {}
}

/// The state of reading after a call of [`Reader::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There may be more to read.
    More,
    /// No bytes came: the end, unless the log is still growing.
    Dry,
    /// The point given by [`Until`] was reached.
    Over,
}

/// Reads a log, piece by piece as it arrives.
#[derive(Debug, Default)]
pub struct Reader {
    lines: Lines,
    sense: Sense,
}

/// The state of a reader, without the splitting into lines.
#[derive(Debug, Default)]
struct Sense {
    matcher: Matcher,
    counts: LineCounts,
    until: Until,
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

impl Reader {
    /// A reader that stops at this point.
    pub fn until(until: Until) -> Self {
        Self { sense: Sense { until, ..Sense::default() }, ..Self::default() }
    }

    /// A reader in the state after a log with the content of `matcher`, which had `events` events and lost `lost` lines.
    pub fn of_matcher(matcher: Matcher, events: u64, lost: u64) -> Self {
        let counts = LineCounts { object_lines: events, malformed: lost, ..LineCounts::default() };
        Self { sense: Sense { matcher, counts, ..Sense::default() }, ..Self::default() }
    }

    /// Reads once from the input, and processes all complete lines.
    pub fn read(&mut self, input: &mut impl Read, observer: &mut impl Observer) -> io::Result<Progress> {
        if self.sense.is_over {
            return Ok(Progress::Over);
        }
        let sense = &mut self.sense;
        let read = self.lines.read(input, |number, line| sense.line(number, line, observer));
        // Callers may query the matcher after this, so no event may stay queued.
        self.sense.take_waiting();
        let count = read?;
        Ok(match (self.sense.is_over, count) {
            (true, _) => Progress::Over,
            (false, 0) => Progress::Dry,
            (false, _) => Progress::More,
        })
    }

    /// Processes the remaining bytes as the last line, which has no line end.
    pub fn finish(&mut self, observer: &mut impl Observer) {
        let sense = &mut self.sense;
        if !sense.is_over {
            self.lines.finish(|number, line| sense.line(number, line, observer));
            sense.take_waiting();
        }
    }

    /// Reads the input to its end.
    pub fn read_all(&mut self, mut input: impl Read, observer: &mut impl Observer) -> io::Result<()> {
        while self.read(&mut input, observer)? == Progress::More {}
        self.finish(observer);
        Ok(())
    }

    /// The matched objects.
    pub fn matcher(&self) -> &Matcher {
        &self.sense.matcher
    }

    /// The numbers of lines.
    pub fn counts(&self) -> &LineCounts {
        &self.sense.counts
    }

    /// The number of bytes read.
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// The earliest and the latest time in the log; `None` if it has no times.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        self.sense.span
    }

    /// True if the point given by [`Until`] was reached.
    pub fn is_over(&self) -> bool {
        self.sense.is_over
    }
}

impl Sense {
    #[inline]
    fn line(&mut self, number: u64, line: RawLine<'_>, observer: &mut impl Observer) -> ControlFlow<()> {
        if let Until::Line(last) = self.until
            && number > last
        {
            self.is_over = true;
            return ControlFlow::Break(());
        }
        self.counts.lines = number;
        match line {
            RawLine::Whole(line) if line.first() == Some(&b'@') => {
                if let Err(fault) = self.object_line(number, line, observer) {
                    self.counts.add_bad(number, fault, line);
                }
            }
            RawLine::Whole(_) => self.counts.noise_lines += 1,
            other => self.unusual_line(number, other, observer),
        }
        if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    #[cold]
    fn unusual_line(&mut self, number: u64, line: RawLine<'_>, observer: &mut impl Observer) {
        match line {
            RawLine::TooLong(b'@') => self.counts.add_bad(number, Fault::TooLong, b"@"),
            RawLine::TooLong(_) => {
                self.counts.noise_lines += 1;
                self.counts.long_noise += 1;
            }
            RawLine::Unended(line) | RawLine::Whole(line) if line.first() == Some(&b'@') => {
                let done = match self.fits(line) {
                    true => self.object_line(number, line, observer),
                    false => Err(Fault::Cut),
                };
                if let Err(fault) = done {
                    self.counts.last_line_truncated = true;
                    self.counts.add_bad(number, fault, line);
                }
            }
            RawLine::Unended(_) | RawLine::Whole(_) => self.counts.noise_lines += 1,
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
    fn object_line<O: Observer>(&mut self, number: u64, line: &[u8], observer: &mut O) -> Result<(), Fault> {
        let parsed = text_form::parse(line)?;
        if !matches!(parsed, TextLine::Allocate { .. } | TextLine::Drop { .. }) {
            self.take_waiting();
        }
        let what = match parsed {
            TextLine::Drop { bytes, type_name, id } if !O::LOOKS && self.until == Until::End => {
                let owner = self.matcher.type_number(type_name);
                self.wait(BirthOrDrop { bytes, owner, id, is_drop: true });
                return Ok(());
            }
            TextLine::Allocate { bytes, site, id } => {
                let site = self.matcher.site(site)?;
                if !O::LOOKS && self.until == Until::End {
                    self.wait(BirthOrDrop { bytes, owner: site.0, id, is_drop: false });
                    return Ok(());
                }
                if self.is_left_out() {
                    return Ok(());
                }
                What::Allocate { bytes, site, id, meaning: self.matcher.allocate(bytes, site, id) }
            }
            TextLine::Json(text) => return self.json_line(number, text, observer),
            _ if self.is_left_out() => return Ok(()),
            TextLine::Drop { bytes, type_name, id } => {
                What::Drop { bytes, id, meaning: self.matcher.drop_named(bytes, type_name, id) }
            }
            TextLine::Resize { bytes, id } => What::Resize { bytes, id, meaning: self.matcher.resize(bytes, id) },
            TextLine::Memory { bytes, label } => {
                self.matcher.memory.add(number, Some(bytes), label);
                What::Memory { bytes, label }
            }
            TextLine::Mark { label } => {
                self.matcher.memory.add(number, None, label);
                What::Mark { label }
            }
        };
        self.end_event(&Seen { line: number, time: None, thread: None, stack: None, what }, observer);
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
    fn json_line(&mut self, number: u64, text: &[u8], observer: &mut impl Observer) -> Result<(), Fault> {
        let text = String::from_utf8_lossy(text);
        let line = json_form::parse(&text)?;
        let (time, thread, stack) = (line.time()?, line.thread()?, line.stack()?);
        let time = time.map(|time| self.since_start(time));
        let checked = self.json_what(number, &line, time);
        if let (Some(time), Ok(_)) = (time, &checked) {
            self.time = Some(time);
            let (first, last) = self.span.unwrap_or((time, time));
            self.span = Some((first.min(time), last.max(time)));
        }
        if let Some(what) = checked? {
            self.end_event(&Seen { line: number, time, thread, stack, what }, observer);
        }
        Ok(())
    }

    /// The time since the start. If the clock shows more than a day at the first event, times count from that event.
    fn since_start(&mut self, time: Nanos) -> Nanos {
        let origin = *self.origin.get_or_insert(if time > A_DAY { time } else { Nanos(0) });
        Nanos(time.0.saturating_sub(origin.0))
    }

    /// Processes a line; `None` if it is later than `Until::Time`.
    fn json_what<'a>(
        &mut self,
        number: u64,
        line: &'a JsonLine<'_>,
        time: Option<Nanos>,
    ) -> Result<Option<What<'a>>, Fault> {
        let is_late = |sense: &Self| matches!(sense.until, Until::Time(last) if time.or(sense.time) > Some(last));
        Ok(Some(match line.verb {
            Verb::Allocate => {
                let (bytes, id, place) = (line.bytes()?, line.id()?, line.place()?);
                let site = self.matcher.site_of(place.as_bytes(), line.type_name()?.as_bytes());
                if is_late(self) {
                    return Ok(None);
                }
                What::Allocate { bytes, site, id, meaning: self.matcher.allocate(bytes, site, id) }
            }
            Verb::Drop => {
                let (bytes, id, type_name) = (line.bytes()?, line.id()?, line.type_name()?);
                if is_late(self) {
                    return Ok(None);
                }
                What::Drop { bytes, id, meaning: self.matcher.drop_named(bytes, type_name.as_bytes(), id) }
            }
            Verb::Resize => {
                let (bytes, id) = (line.bytes()?, line.id()?);
                if is_late(self) {
                    return Ok(None);
                }
                What::Resize { bytes, id, meaning: self.matcher.resize(bytes, id) }
            }
            Verb::Memory => {
                let (bytes, label) = (line.bytes()?, line.label()?.as_bytes());
                if is_late(self) {
                    return Ok(None);
                }
                self.matcher.memory.add(number, Some(bytes), label);
                What::Memory { bytes, label }
            }
            Verb::Mark => {
                let label = line.label()?.as_bytes();
                if label.is_empty() {
                    return Err(Fault::Label);
                }
                if is_late(self) {
                    return Ok(None);
                }
                self.matcher.memory.add(number, None, label);
                What::Mark { label }
            }
        }))
    }

    /// True if a line without a time comes after a time later than `Until::Time`.
    #[inline]
    fn is_left_out(&self) -> bool {
        matches!(self.until, Until::Time(last) if self.time > Some(last))
    }

    #[inline]
    fn end_event(&mut self, seen: &Seen<'_>, observer: &mut impl Observer) {
        self.counts.object_lines += 1;
        observer.see(seen, &self.matcher);
        if self.until != Until::End {
            self.look_for_end(&seen.what);
        }
    }

    #[cold]
    fn look_for_end(&mut self, what: &What<'_>) {
        self.is_over = match (&self.until, what) {
            (Until::Events(last), _) => self.counts.object_lines >= *last,
            (Until::Steps(last), _) => self.matcher.steps() >= *last,
            (Until::Mark(name), What::Memory { label, .. } | What::Mark { label }) => *label == name.as_bytes(),
            _ => false,
        };
    }
}
