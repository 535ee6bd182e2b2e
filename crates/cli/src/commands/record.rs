//! `highwater record`: runs a program and records its memory, or attaches to one that runs already.

mod attached;

pub(crate) use attached::parse_pause;

use crate::budgets::ci::FileVerdict;
use crate::budgets::incomplete::Incomplete;
use crate::budgets::{BudgetArgs, Limits, SMALL_CHILD, Verdict, text as budget_text};
use crate::commands::connect::{cannot_connect, wait_for as wait_for_listener};
use crate::failure::{Failure, reason};
use crate::live::ProcessChoice;
use crate::name_sources::NameSources;
use crate::naming::NameArgs;
use crate::output::{Output, say, warn};
use crate::print::bytes::{bytes, count, counted};
use crate::print::colour::Paint;
use crate::print::status::StatusLine;
use crate::print::summary;
use crate::program::Program;
use crate::recording_file::RecordingFile;
use crate::running::{Signals, end_like, wait_for};
use crate::size::{parse_bytes, parse_sample_rate};
use crate::target::Overwrite;
use crate::token::TokenArgs;
use crate::{preload_file, program};
use clap::{Args, ValueEnum};
use highwater_model::{Nanos, parse_duration};
use highwater_recorder::stream::{self, Address, StreamServer, StreamTo, Wire};
use highwater_recorder::{Finished, Recorder, RecorderOptions, RecordingOutcome, RecordingProgress, RssEvery};
use highwater_session::{Reason, be_ended_first, reason_in_words};
use highwater_store::is_special;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The arguments of `highwater record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater record ./server --port 80             everything, into server.hw
  highwater record -o run.hw -- python3 app.py    another file; '--' ends our own options
  highwater record --sample 512KiB ./server       a sample: estimates, for 0.3 to 13 % more processor time
  highwater record --duration 60s ./server        the first minute; the server goes on
  highwater record --stream host:1234 ./app       while it runs, to 'highwater listen 1234' there
  highwater record --stream host:1234 --or-run ./app   unrecorded if no receiver listens
  highwater record --serve 1234 ./server          only while 'highwater connect 1234' is there
  highwater record --pid 4711 --duration 60s      a process that runs already, for a minute
  highwater record --budget highwater.toml -- ./test-suite   and check limits on its memory
  highwater record --budget highwater.toml --verdict junit=budget.xml -- ./test-suite   for a CI service

The program behaves as without us: input, output, signals, exit code. Children that it starts get recordings of their own \
in a folder beside its own: app.children/ beside app.hw. Highwater's own words go to standard error.

With limits, the exit code is 1 if the program ended with 0 and a limit is broken or cannot be checked.

With --stream, the exit code is 125 if the program ended with 0 and its stream was not kept: the receiver refused it, had no room for it, or was \
gone before it confirmed the end. A program's own failure is passed on all the same. Why a stream was not kept is said in any case.")]
pub struct Record {
    /// The recording [default: the program's name with '.hw', in this directory; with a number where that exists: app-2.hw]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the recording if it exists, with those of its program's children
    #[arg(long)]
    force: bool,
    /// Record samples: one block for each BYTES allocated, on average (such as 512KiB)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    sample: Option<u64>,
    /// The same as a rate: the chance of each word of 8 bytes to be a sample, as OCaml's memtrace has it (1e-4: one for each 80 KB)
    #[arg(long, value_name = "RATE", conflicts_with = "sample", value_parser = parse_sample_rate)]
    sample_rate: Option<u64>,
    /// A text about the run, kept in the recording
    #[arg(long, value_name = "TEXT", value_parser = parse_context)]
    context: Option<String>,
    /// Record only the program itself, not the processes it starts, with --pid from now on
    #[arg(long)]
    no_children: bool,
    /// Keep the recordings of children that held at least this much at their peak; 0 keeps all [default: 1MiB; with limits 0, as children have them too]
    #[arg(long, value_name = "BYTES", value_parser = parse_least)]
    keep_children: Option<u64>,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    process: ProcessChoice,
    /// With --pid: the longest that threads may be stopped while blocks from before are read; 0 leaves these blocks unknown
    #[arg(long, value_name = "TIME", value_parser = parse_pause, default_value = "50ms", requires = "ProcessChoice")]
    pause: Nanos,
    /// When the recorder falls behind, drop events (and count them) instead of letting the program wait. Always so with --pid
    #[arg(long)]
    lossy: bool,
    /// How often the resident memory is read, from outside: RSS each time, and where it is as often as one percent of a processor allows. 0 or off: never
    #[arg(long, value_name = "TIME", value_parser = parse_rss_every, default_value = "100ms")]
    rss_every: RssEvery,
    /// Leave out memory that the program maps itself (mmap). Always so with --pid
    #[arg(long)]
    no_mmap: bool,
    /// Leave out the program's arguments, and its children's: only names are kept. By default they are in what is recorded, shown and sent
    #[arg(long)]
    no_args: bool,
    /// Record who frees each block too: the call stack of every free and of every unmapping. A program's frees then cost as much as its allocations
    #[arg(long)]
    free_stacks: bool,
    /// Record only so long; the program goes on unrecorded (such as 90s, 10m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Nanos>,
    /// Send the recording to HOST:PORT while it is made, where 'highwater listen' takes it; without -o nothing is written here
    #[arg(long, value_name = "ADDR")]
    stream: Option<Address>,
    /// Before the program is started, wait until a receiver listens there
    #[arg(long, requires = "stream", conflicts_with = "ProcessChoice")]
    wait: bool,
    /// If no receiver listens there, run the program all the same, unrecorded, or recorded only in the file that -o names
    #[arg(long, requires = "stream", conflicts_with_all = ["wait", "ProcessChoice"])]
    or_run: bool,
    /// Record only while a client is connected to this port, or HOST:PORT; until then nothing is recorded. For this
    /// machine only unless a host is named. Children are left out
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["stream", "output", "duration", "ProcessChoice"])]
    serve: Option<Address>,
    /// The most clients at once
    #[arg(long, value_name = "N", requires = "serve", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    #[command(flatten)]
    token: TokenArgs,
    /// What is sent
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    wire: WireName,
    #[command(flatten)]
    sources: NameSources,
    // Boxed: all commands are variants of one type.
    #[command(flatten)]
    budget: Box<BudgetArgs>,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "ProcessChoice",
        conflicts_with = "ProcessChoice",
        trailing_var_arg = true
    )]
    program: Vec<OsString>,
}

/// What is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum WireName {
    /// A Highwater recording
    #[default]
    Hw,
    /// A trace in the memtrace format of OCaml programs, for their tools and for netcat
    Memtrace,
}

/// Parses the lower limit for kept recordings: a size, or 0 for everything.
fn parse_least(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

/// A text that fits into every format that keeps it.
fn parse_context(text: &str) -> Result<String, String> {
    const LONGEST: usize = 8_000;
    match text.len() {
        0 => Err("the text is empty".to_owned()),
        1..=LONGEST => Ok(text.to_owned()),
        length => Err(format!("the text has {length} bytes; at most {LONGEST} are kept")),
    }
}

fn parse_time(text: &str) -> Result<Nanos, String> {
    parse_duration(text)
        .filter(|time| time.0 > 0)
        .ok_or_else(|| "not a time; such as 90s, 500ms, 10m, 1h30m".to_owned())
}

/// An interval of at least a millisecond; `0` and `off` stand for none.
fn parse_rss_every(text: &str) -> Result<RssEvery, String> {
    const LEAST: Nanos = Nanos(1_000_000);
    if matches!(text, "0" | "off") {
        return Ok(RssEvery::NEVER);
    }
    parse_duration(text)
        .filter(|time| *time >= LEAST)
        .map(|time| RssEvery::interval(Duration::from_nanos(time.0)))
        .ok_or_else(|| "not a time of at least 1ms; such as 100ms, 1s, or off".to_owned())
}

impl Record {
    /// Runs and records the program; exits as it does.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        if !self.process.is_any() {
            return self.run_attached(output);
        }
        let program = program::find(&self.program[0])?;
        // What is wrong with a project's file is said before the program runs.
        self.names.allocators()?;
        let limits = self.limits()?;
        let library = preload_file::path()?;
        let to = self.stream_to()?;
        let is_sent = to.is_some();
        if self.stream.is_some() && !is_sent && self.output.is_none() {
            return self.run_unrecorded(&program.path);
        }
        let mut file = self.file(&program.path)?;
        let options = self.options(&mut file, false);
        let begun = self.begin(options, to, &program, &library).inspect_err(|_| remove_if_empty(file.as_ref()));
        let (mut recorder, signals, mut child) = begun?;
        recorder.set_main(child.id());
        be_ended_first();
        let began = Instant::now();
        let status = self.watch(&mut recorder, &mut child, &signals, began)?;
        let lasted = began.elapsed();
        let mut line = StatusLine::new();
        let outcome = recorder.finish(|| line.show("finding the names of functions …"));
        line.clear();
        outcome.problems.iter().for_each(|problem| warn(problem));
        if let Some(reason) = outcome.main_unrecorded {
            say(&format!("the program itself is not recorded: {}", why_unrecorded(reason)));
        } else if outcome.finished.is_empty() && outcome.problems.is_empty() && outcome.small == 0 {
            say(
                "nothing was recorded: the program did not load the library. It may run with other rights, or have cleared its environment",
            );
        }
        // Whatever the result of the recording, the exit status is the program's.
        if let Err(failure) = self.conclude(file.as_ref(), &outcome, is_sent, lasted, output)
            && let Some(line) = failure.line()
        {
            say(line);
        }
        let status = match status {
            Some(status) => status,
            // Recording has ended, but the program goes on: we still wait for it, to exit as it does.
            None => wait_for(&mut child, &signals).map_err(|error| Failure::fault(reason(&error)))?,
        };
        let is_kept = self.is_budget_kept(limits.as_ref(), file.as_ref(), &outcome, output);
        end_like(status)?;
        if is_sent && !self.is_stream_kept(&outcome.finished) {
            return Err(Failure::StreamNotKept);
        }
        if is_kept { Ok(()) } else { Err(Failure::Found) }
    }

    fn sample_rate(&self) -> Option<u64> {
        self.sample.or(self.sample_rate).filter(|bytes| *bytes > 0)
    }

    /// The least peak of children whose recordings are kept.
    fn keep_children(&self) -> u64 {
        self.keep_children.unwrap_or(if self.budget.is_any() { 0 } else { SMALL_CHILD })
    }

    /// The limits; they need a recording on this machine.
    fn limits(&self) -> Result<Option<Limits>, Failure> {
        let verdict_files = self.budget.verdict_files();
        let limits = self.budget.read()?;
        if limits.is_none() && !verdict_files.is_empty() {
            return Err(Failure::Usage("--verdict is given, and no limit that is judged".to_owned()));
        }
        if limits.is_some() && self.output.is_none() && (self.stream.is_some() || self.serve.is_some()) {
            return Err(Failure::Usage("limits are checked in a recording on this machine: -o names it".to_owned()));
        }
        if let (Some(_), Some(path)) = (&limits, self.output.as_ref().filter(|path| is_special(path))) {
            return Err(Failure::in_file(path, "limits are checked in a file, and this cannot be read again"));
        }
        Ok(limits)
    }

    /// Judges the recording, prints the verdict on standard error, and writes it to files. True if every limit is kept.
    fn is_budget_kept(
        &self,
        limits: Option<&Limits>,
        file: Option<&RecordingFile>,
        outcome: &RecordingOutcome,
        output: &mut Output,
    ) -> bool {
        let Some(limits) = limits else { return true };
        let Some(file) = file.filter(|file| file.path.is_file()) else {
            warn("nothing was recorded, so no limit is checked");
            return false;
        };
        let judged = limits.judge(&file.path, &self.names, Some(&outcome.unrecorded)).and_then(|mut verdict| {
            self.add_losses(outcome, &mut verdict);
            let text = budget_text::render(&verdict, Paint::for_stderr(), output.width);
            let _ = write!(std::io::stderr(), "{text}");
            let about = FileVerdict { path: &file.path, source: &verdict.source, problems: None };
            for one in &self.budget.verdict {
                one.write(&about, Some(&verdict), Some(limits), output)?;
            }
            limits.write_ran(&verdict)?;
            Ok(verdict.is_kept())
        });
        judged.unwrap_or_else(|failure| {
            failure.line().into_iter().for_each(say);
            false
        })
    }

    /// Adds what only the recorder knows.
    fn add_losses(&self, outcome: &RecordingOutcome, verdict: &mut Verdict) {
        for problem in &outcome.problems {
            verdict.lacks(Incomplete { program: String::new(), path: None, why: problem.clone() });
        }
        for one in &outcome.finished {
            if let (Some(path), Err(error)) = (&one.path, &one.written) {
                let why = format!("recording stopped: {}", reason(error));
                verdict.lacks(Incomplete::recording(&one.about.name(), path, why));
            }
        }
        if outcome.small > 0 {
            let children = if outcome.small == 1 { "child" } else { "children" };
            let least = bytes(self.keep_children());
            let small = count(outcome.small);
            verdict
                .not_judged
                .insert(format!("{small} {children} held less than {least} at their peak and were not kept"));
        }
    }

    fn options(&self, file: &mut Option<RecordingFile>, late: bool) -> RecorderOptions {
        RecorderOptions {
            output: file.as_ref().map(|file| file.path.clone()),
            output_file: file.as_mut().and_then(|file| file.file.take()),
            sample_rate: self.sample_rate(),
            follow_children: !self.no_children,
            lossy: self.lossy,
            mappings: !self.no_mmap,
            no_args: self.no_args,
            free_stacks: self.free_stacks,
            keep_children: self.keep_children(),
            late,
            context: self.context.clone().unwrap_or_default(),
            rss_every: self.rss_every,
            debuginfod: self.sources.servers(),
        }
    }

    fn recorder(&self, options: RecorderOptions, to: Option<StreamTo>) -> Result<Recorder, Failure> {
        let recorder = match to {
            Some(to) => Recorder::with_streams(options, to, self.wire()),
            None => Recorder::new(options),
        };
        recorder.map_err(|error| Failure::fault(format_args!("cannot record: {}", reason(&error))))
    }

    /// Starts to listen for agents, and starts the program.
    fn begin(
        &self,
        options: RecorderOptions,
        to: Option<StreamTo>,
        program: &Program,
        library: &Path,
    ) -> Result<(Recorder, Signals, Child), Failure> {
        let recorder = self.recorder(options, to)?;
        let signals = Signals::catch().map_err(|error| Failure::fault(reason(&error)))?;
        let child = program::start(program, &self.program, library, recorder.variable())?;
        Ok((recorder, signals, child))
    }

    /// Runs the program as if there were no recorder.
    fn run_unrecorded(&self, path: &Path) -> Result<(), Failure> {
        let signals = Signals::catch().map_err(|error| Failure::fault(reason(&error)))?;
        let mut child = program::start_unrecorded(path, &self.program)?;
        let status = wait_for(&mut child, &signals).map_err(|error| Failure::fault(reason(&error)))?;
        end_like(status)
    }

    /// Whether every stream that the user asked for was kept, as far as that is known.
    fn is_stream_kept(&self, finished: &[Finished]) -> bool {
        self.stream.is_none() || !finished.is_empty() && finished.iter().all(|one| one.sent.not_kept.is_none())
    }

    fn wire(&self) -> Wire {
        match self.wire {
            WireName::Hw => Wire::Highwater,
            WireName::Memtrace => Wire::Memtrace,
        }
    }

    /// Creates the output file, if there is one. The user should learn before the program runs, not after, that the file cannot be written.
    fn file(&self, program: &Path) -> Result<Option<RecordingFile>, Failure> {
        let overwrite = Overwrite { force: self.force };
        match &self.output {
            Some(path) => RecordingFile::named(path, overwrite).map(Some),
            None if self.stream.is_some() || self.serve.is_some() => Ok(None),
            None => RecordingFile::usual(&default_output(program), overwrite).map(Some),
        }
    }

    /// The address to stream to. The receiver must be listening, or is waited for. `None` if there is no stream, or no receiver and `--or-run`.
    fn stream_to(&self) -> Result<Option<StreamTo>, Failure> {
        if self.serve.is_none() && self.stream.is_none() {
            return Ok(None);
        }
        let token = self.token.token()?;
        if let Some(address) = &self.serve {
            let server = StreamServer::bind(address, token, self.clients as usize).map_err(|error| {
                Failure::fault(format_args!("cannot listen at {address}: {}", reason(&error).to_lowercase()))
            })?;
            let local = server.local();
            say(&format!("recording begins when a client connects: highwater connect {local}"));
            return Ok(Some(StreamTo::Serve(Arc::new(server))));
        }
        let Some(address) = &self.stream else { return Ok(None) };
        let first = match self.wait {
            true => wait_for_listener(address, token.as_ref(), "; the program is started then", || false)?,
            false => match stream::connect(address, token.as_ref()) {
                Ok(connection) => connection,
                Err(error) if self.or_run => {
                    let what =
                        if self.output.is_some() { "the recording is not sent" } else { "the program is not recorded" };
                    warn(&format!("cannot connect to {address}: {}; {what}", reason(&error).to_lowercase()));
                    return Ok(None);
                }
                Err(error) => return Err(cannot_connect(address, &error)),
            },
        };
        Ok(Some(StreamTo::Connect { address: address.clone(), token, first: Some(first) }))
    }

    /// Records until the program and all its children have ended, or until the deadline. At the deadline there may be no exit status yet.
    fn watch(
        &self,
        recorder: &mut Recorder,
        child: &mut Child,
        signals: &Signals,
        began: Instant,
    ) -> Result<Option<ExitStatus>, Failure> {
        let mut line = StatusLine::new();
        let mut status = None;
        let deadline = self.duration.map(|duration| began + Duration::from_nanos(duration.0));
        let mut said = false;
        loop {
            recorder.step();
            signals.pass_on(child);
            if status.is_none() {
                status = child.try_wait().map_err(|error| Failure::fault(reason(&error)))?;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(status);
            }
            if status.is_some() {
                // One more step: a process that has just ended, or one that it started, may have registered since.
                recorder.step();
                let left = recorder.progress().processes;
                let interrupted = signals.interrupted();
                if left == 0 || interrupted {
                    return Ok(status);
                }
                if !said && recorder.is_waiting_for_others() {
                    said = true;
                    line.clear();
                    say(&format!(
                        "the program has ended; {} of its children still recorded, Ctrl-C ends that",
                        count(left as u64)
                    ));
                }
            }
            line.update(|elapsed| self.status(&recorder.progress(), elapsed));
        }
    }

    /// The status line.
    fn status(&self, progress: &RecordingProgress, elapsed: Duration) -> String {
        let rate = progress.events as f64 / elapsed.as_secs_f64().max(0.001);
        let clients = match (&self.serve, &self.stream, progress.clients) {
            (Some(_), _, clients) => format!(" for {}", counted(clients as u64, "client")),
            (None, Some(address), 1..) => format!(" to {address}"),
            _ => String::new(),
        };
        format!(
            "recording{clients}: {} ({}/s), live {}, peak {}",
            counted(progress.events, "event"),
            count(rate as u64),
            bytes(progress.live_bytes),
            bytes(progress.peak_bytes)
        )
    }

    /// Reports the result of the recording.
    fn conclude(
        &self,
        file: Option<&RecordingFile>,
        outcome: &RecordingOutcome,
        is_sent: bool,
        lasted: Duration,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let finished = &outcome.finished;
        for one in finished {
            let name = summary::name(one);
            if let Err(error) = &one.written {
                warn(&format!("{name}: recording stopped: {}; what was written until then can be read", reason(error)));
            }
            if one.nonsense > 0 {
                warn(&format!("{name}: {} from the program made no sense", counted(one.nonsense, "record")));
            }
        }
        if is_sent {
            self.tell_all_sent(finished);
        }
        let Some(file) = file else { return Ok(()) };
        let Some(main) = finished.iter().find(|one| one.path.as_ref() == Some(&file.path)) else {
            file.remove_if_empty();
            summary::list(outcome, None, self.keep_children());
            return Ok(());
        };
        summary::print(main, outcome, self.keep_children(), lasted, output.width, &self.names)
    }

    /// Reports the amounts sent, for each process that sent anything.
    fn tell_all_sent(&self, finished: &[Finished]) {
        const SHOWN: usize = 8;
        let is_told = |one: &&Finished| match (&self.stream, &self.serve) {
            (Some(_), _) => true,
            (None, Some(_)) => one.sent.connections > 0,
            (None, None) => false,
        };
        let told: Vec<&Finished> = finished.iter().filter(is_told).collect();
        told.iter().take(SHOWN).for_each(|one| self.tell_sent(&summary::name(one), one));
        if told.len() > SHOWN {
            say(&format!("… {} more streams", told.len() - SHOWN));
        }
        if told.is_empty() && self.serve.is_some() {
            say("no client came");
        }
    }

    /// Reports the amount sent for one process.
    fn tell_sent(&self, name: &str, one: &Finished) {
        let sent = &one.sent;
        let to = match (&self.stream, sent.connections) {
            (Some(address), 0 | 1) => format!("to {address}"),
            (Some(address), connections) => format!("to {address} over {connections} connections"),
            (None, clients) => format!("to {}", counted(clients, "client")),
        };
        let mut text = format!("{name}: sent {} {to}", bytes(sent.bytes));
        if sent.left_out > 0 {
            text.push_str(&format!("; {} left out, not taken in time", counted(sent.left_out, "event")));
        }
        say(&text);
        if let Some(reason) = &sent.not_kept {
            warn(&format!("{name}: the stream was not kept: {reason}"));
        } else if let Some(problem) = &sent.problem {
            let again = if sent.connections > 1 { "the stream broke, and began anew" } else { "the stream broke" };
            warn(&format!("{name}: {again}: {problem}"));
        }
    }
}

/// The reason that a program gave for not being recorded.
fn why_unrecorded(reason: Reason) -> &'static str {
    match reason {
        Reason::OwnAllocator => "it calls an allocator that is linked into it, whose blocks are not seen",
        reason => reason_in_words(reason),
    }
}

fn remove_if_empty(file: Option<&RecordingFile>) {
    if let Some(file) = file {
        file.remove_if_empty();
    }
}

fn default_output(program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("{name}.hw"))
}
