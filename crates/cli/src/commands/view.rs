//! `highwater view`: the viewer in the browser.

use crate::commands::fleet::ask::{embedded_engine, open_lake, scope_of, time};
use crate::failure::{Failure, reason};
use crate::live::{CollectorSocket, LiveCollector};
use crate::naming::NameArgs;
use crate::output::{Output, say, warn};
use crate::print::bytes::bytes;
use crate::print::progress::Progress;
use crate::process_files::{recordings_in, recordings_of_children};
use crate::target::{Overwrite, write_file};
use clap::Args;
use highwater_fleet::EngineLimits;
use highwater_fleet::label_filter::LabelFilter;
use highwater_model::When;
use highwater_query::QueryError;
use highwater_store::history::Work;
use highwater_view::{Api, Editor, Files, Server, SourceCode, SourceDir, Sources};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The arguments of `highwater view`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater view app.hw                  the page, in your browser
  highwater view app.children            a folder: all processes together
  highwater view before.hw after.hw      two of them, to compare
  highwater view /lake --since 6h        a fleet: the processes of many hosts
  highwater view s3://BUCKET/PREFIX      a fleet whose lake is in an object store
  highwater view --live                  the processes that 'highwater run' started
  highwater view app.hw --no-open        only the address, for another browser
  highwater view app.hw --save app.html  one file, to be sent to others
  highwater view app.hw --from 50% --filter size:4096.. --save big.html
  highwater view a.img --module a.wasm   an image, with the names of its module
  highwater view app.hw --source-dir ~/src/app --editor 'code -g {file}:{line}'

A file that cannot be read is named here and on the page; where none can be, nothing is served, and the exit code is 1. \
The page and what it shows stay on this machine: no other machine can connect, and the address has a token without which \
nothing is answered.")]
pub struct ViewArgs {
    /// Recordings and snapshots (.hw), folders of them, OCaml memtraces (.ctf), lakes of fleets (a folder, or s3://BUCKET/PREFIX), files of event lines, object logs, memory images
    #[arg(value_name = "FILE", required_unless_present = "live")]
    paths: Vec<PathBuf>,
    /// Write the page with what is chosen into one file, which opens without Highwater, instead of serving it
    #[arg(long, value_name = "PAGE.html", conflicts_with_all = ["live", "port", "no_open"])]
    save: Option<PathBuf>,
    /// Replace the saved page if it exists
    #[arg(long, requires = "save")]
    force: bool,
    /// Put the source files of the largest sites into the saved page: at most 40 files, 2 MiB in all
    #[arg(long, requires = "save")]
    with_source: bool,
    /// Look for source files here, if they were moved: a folder that has the ends of their paths, or a prefix and what
    /// replaces it; may be repeated
    #[arg(long, value_name = "DIR|OLD=NEW")]
    source_dir: Vec<SourceDir>,
    /// The command that opens a source file, as words, without a shell: 'code -g {file}:{line}' [default: $HIGHWATER_EDITOR, or a graphical $VISUAL or $EDITOR]
    #[arg(long, value_name = "COMMAND", conflicts_with = "save")]
    editor: Option<Editor>,
    /// The window begins at this instant: a time (12.5s, 300ms), a part (80%), peak, rss-peak or mark:NAME
    #[arg(long, value_name = "WHEN")]
    from: Option<When>,
    /// The window ends at this instant
    #[arg(long, value_name = "WHEN")]
    to: Option<When>,
    /// The instant that is shown [default: the peak of the window]
    #[arg(long, value_name = "WHEN")]
    at: Option<When>,
    /// Only such blocks, as the page's address has it: size:1024.., inside:contains:parse; may be repeated
    #[arg(long, value_name = "FILTER")]
    filter: Vec<String>,
    /// The WASM module that ran, for memory images: it has the names of types and functions [default: the one that lies with each image]
    #[arg(long, value_name = "M.wasm")]
    module: Option<PathBuf>,
    #[command(flatten)]
    names: NameArgs,
    /// Of a fleet's lake, from when on: 90m, 2h or 7d before now, 2026-11-18, or 2026-11-18T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    since: Option<i64>,
    /// Of a fleet's lake, until when, in the same forms
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    until: Option<i64>,
    /// Of a fleet's lake, only some processes: service=checkout, 'region!=eu-west-1', 'host=web-*'; may be repeated
    #[arg(long = "where", value_name = "FILTER")]
    labels: Vec<LabelFilter>,
    /// The port to listen on [default: any that is free]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Do not open the browser
    #[arg(long)]
    no_open: bool,
    /// Also the live processes of the collector
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    socket: CollectorSocket,
}

impl ViewArgs {
    /// Serves until interrupted.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let (paths, members) = self.paths_and_members();
        let sources = Sources::new(&paths, Box::new(self.files()?)).with_members(&members);
        if let Some(target) = &self.save {
            let source_code = SourceCode { dirs: self.source_dir.clone(), editor: None };
            return self.save(&Api::new(sources, None).with_source_code(source_code), target, output);
        }
        let collector = LiveCollector::new(self.socket.path()?);
        let source_code = SourceCode { dirs: self.source_dir.clone(), editor: self.editor()? };
        let api = Arc::new(Api::new(sources, Some(Box::new(collector))).with_source_code(source_code));
        self.tell_of_unreadable_files(&api, !members.is_empty())?;
        let server = Server::bind(self.port.unwrap_or(0)).map_err(|error| {
            let port = self.port.unwrap_or(0);
            Failure::fault(format_args!("cannot listen on port {port}: {}; --port names another", reason(&error)))
        })?;
        let signals = Signals::new([SIGINT, SIGTERM]);
        let mut signals = signals.map_err(|error| Failure::fault(format_args!("cannot wait for signals: {error}")))?;
        let choice = self.choice(&api)?;
        let fragment = if choice.is_empty() { String::new() } else { format!("#{choice}") };
        let address = format!("{}{fragment}", server.address());
        output.text(&format!("{address}\n"))?;
        output.flush()?;
        if !self.no_open {
            let once = server
                .address_for_once()
                .map_err(|error| Failure::fault(format_args!("no token can be made: {}", reason(&error))))?;
            open_browser(&format!("{once}{fragment}"));
        }
        server.run(api, |stop| {
            std::thread::spawn(move || {
                if signals.forever().next().is_some() {
                    stop.stop();
                }
            });
        });
        Ok(())
    }
}

impl ViewArgs {
    /// The editor that the user names. `$VISUAL` and `$EDITOR` count only if they name one that needs no terminal.
    fn editor(&self) -> Result<Option<Editor>, Failure> {
        match (&self.editor, std::env::var("HIGHWATER_EDITOR")) {
            (Some(editor), _) => Ok(Some(editor.clone())),
            (None, Ok(text)) if !text.trim().is_empty() => {
                text.parse().map(Some).map_err(|problem| Failure::Usage(format!("HIGHWATER_EDITOR: {problem}")))
            }
            (None, _) => Ok(["VISUAL", "EDITOR"]
                .iter()
                .find_map(|name| std::env::var(name).ok().and_then(|text| Editor::of_environment(&text)))),
        }
    }

    /// Opens files of every kind, and lakes.
    fn files(&self) -> Result<Files, Failure> {
        let scope = scope_of(self.since, self.until, &self.labels)?;
        let open = |path: &Path| {
            let engine = embedded_engine();
            let lake = engine.and_then(|engine| open_lake(&path.to_string_lossy(), engine, EngineLimits::default()));
            lake.map_err(|failure| match failure {
                Failure::Fault(line) | Failure::Usage(line) => line,
                _ => format!("{}: the lake cannot be opened", path.display()),
            })
        };
        Ok(Files::default().with_module(self.module.clone()).with_lakes(Box::new(open), scope))
    }

    fn overwrite(&self) -> Overwrite {
        Overwrite { force: self.force }
    }

    /// The files that are opened at once, and the recordings of processes that belong to them, which are opened when they are asked for: children, and all
    /// but the first of many files or of a folder.
    fn paths_and_members(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        const MOST_AT_ONCE: usize = 16;
        let mut paths = Vec::new();
        let mut members = Vec::new();
        for path in &self.paths {
            match recordings_in(path) {
                found if found.is_empty() => paths.push(path.clone()),
                found => members.extend(found),
            }
        }
        if paths.len() > MOST_AT_ONCE {
            members.extend(paths.drain(1..));
        }
        members.extend(paths.iter().flat_map(|path| recordings_of_children(path)));
        members.retain(|path| !paths.contains(path));
        members.sort();
        members.dedup();
        if paths.is_empty() && !members.is_empty() {
            paths.push(members.remove(0));
        }
        (paths, members)
    }

    /// Warns of every file that cannot be read. Fails if nothing is left to show: no live processes, and no other recordings.
    fn tell_of_unreadable_files(&self, api: &Api, has_members: bool) -> Result<(), Failure> {
        let (lines, files) = api.unreadable();
        if !self.live && !has_members && lines.len() == files {
            let (last, others) = lines.split_last().ok_or_else(|| Failure::Usage("no file given".to_owned()))?;
            others.iter().for_each(|line| say(line));
            return Err(Failure::fault(last));
        }
        lines.iter().for_each(|line| warn(&format!("{line}; the rest is shown")));
        Ok(())
    }

    /// The selection in the form of the page's address. Instants are those of the first file.
    fn choice(&self, api: &Api) -> Result<String, Failure> {
        let mut parts = Vec::new();
        for (name, when) in [("from", &self.from), ("to", &self.to), ("at", &self.at)] {
            let Some(when) = when else { continue };
            let time = api.time_of(0, when).map_err(|problem| Failure::Usage(format!("--{name}: {}", problem)))?;
            parts.push(format!("{name}={}", time.0));
        }
        for filter in &self.filter {
            Api::must_be_a_filter(filter).map_err(|problem| Failure::Usage(format!("--{}", problem)))?;
            parts.push(format!("filter={}", encoded(filter)));
        }
        for name in self.names.allocators()? {
            parts.push(format!("allocator={}", encoded(&name.to_string())));
        }
        if self.names.raw_names {
            parts.push("raw_names=1".to_owned());
        }
        Ok(parts.join("&"))
    }

    fn save(&self, api: &Api, target: &Path, output: &mut Output) -> Result<(), Failure> {
        api.must_be_readable().map_err(Failure::fault)?;
        let choice = self.choice(api)?;
        self.overwrite().check(target)?;
        let mut progress = Progress::new("saving");
        let mut tell = |told: Option<(f64, &str)>| {
            told.into_iter().for_each(|(part, _)| progress.update(part));
            true
        };
        let work = Work::asked_by(&mut tell);
        let page = match self.with_source {
            true => api.saved_page_with_source(&choice, &work).map(|page| (page.html, page.source_files)),
            false => api.saved_page(&choice, None, &work).map(|page| (page, Vec::new())),
        };
        let (page, source_files) = page.map_err(|problem| match problem {
            QueryError::Bad(line) => Failure::Usage(line),
            other => Failure::fault(other),
        })?;
        drop(progress);
        // A recording decides which files these are, so the user sees them before the page is sent to others.
        source_files.iter().for_each(|file| say(&format!("with the source of {file}")));
        if self.with_source && source_files.is_empty() {
            say(
                "no source file of the largest sites is on this machine; --source-dir names the folder of a moved tree",
            );
        }
        let cannot_write = |error: std::io::Error| Failure::writing_file(target, &error);
        write_file(target, self.overwrite(), |out| out.write_all(page.as_ref()).map_err(cannot_write))?;
        output.line(&format!("{}: {}", target.display(), bytes(page.len() as u64)))
    }
}

/// Percent-encodes a text for an address.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' => encoded.push(byte as char),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// Opens the browser, if there is one; the address was printed in any case.
fn open_browser(address: &str) {
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}
