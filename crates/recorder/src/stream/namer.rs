//! Finds names while the recording continues: a stream may end at any time, and a reader on another machine cannot find them.

use super::threads::spawn;
use highwater_model::{Catalog, FrameId, FrameText, StringId};
use highwater_symbols::{DebuginfodServers, ModuleMapping, SourceFrame, Symbolizer, frame_text};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long to wait for names where nothing can be sent without them.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that finds names, for all recorded processes.
#[derive(Clone)]
pub struct Namer {
    queries: Sender<NameQuery>,
}

/// Some addresses of one module.
struct NameQuery {
    path: PathBuf,
    build_id: String,
    start: u64,
    file_offset: u64,
    addresses: Vec<(FrameId, u64)>,
    replies: Sender<NameReply>,
}

/// The frames that were found for addresses.
type NameReply = Vec<(FrameId, Vec<SourceFrame>)>;

impl Namer {
    /// Starts the thread, which may ask these servers for debug files.
    pub fn start(servers: DebuginfodServers) -> io::Result<Self> {
        let (queries, asked) = channel::<NameQuery>();
        spawn(c"namer", move || {
            let mut symbolizer = Symbolizer::for_user(&servers);
            for query in asked {
                // No receiver waits for the answer any more: ignored.
                let _ = query.replies.send(reply(&query, &mut symbolizer));
            }
        })?;
        Ok(Self { queries })
    }
}

fn reply(query: &NameQuery, symbolizer: &mut Symbolizer) -> NameReply {
    let mapping = ModuleMapping {
        path: &query.path,
        build_id: &query.build_id,
        start: query.start,
        file_offset: query.file_offset,
    };
    let Ok(symbols) = symbolizer.module(&mapping) else { return Vec::new() };
    let named = query.addresses.iter().map(|&(frame, address)| {
        // A return address lies after its call.
        (frame, symbols.lookup(address.wrapping_sub(1)).to_vec())
    });
    named.filter(|(_, frames)| !frames.is_empty()).collect()
}

/// The names of one process.
pub struct Naming {
    namer: Namer,
    /// Frames with an index below this were asked for.
    asked: usize,
    /// Questions without an answer yet.
    open: usize,
    to_us: Sender<NameReply>,
    replies: Receiver<NameReply>,
}

impl Naming {
    /// No frames asked for yet.
    pub fn new(namer: Namer) -> Self {
        let (to_us, replies) = channel();
        Self { namer, asked: 0, open: 0, to_us, replies }
    }

    /// Whether names for all frames of the catalog were asked for and answered.
    pub fn is_idle(&self, catalog: &Catalog) -> bool {
        self.open == 0 && self.asked == catalog.stacks.frames().len()
    }

    /// Asks for the names of new frames, and adds the answers so far to the catalog. Returns whether there were any.
    pub fn go_on(&mut self, catalog: &mut Catalog) -> bool {
        self.ask(catalog);
        let mut found = false;
        while let Ok(reply) = self.replies.try_recv() {
            found |= !reply.is_empty();
            self.take(reply, catalog);
        }
        found
    }

    /// The same, and waits until all names are known, up to a time limit.
    pub fn go_on_until_idle(&mut self, catalog: &mut Catalog) {
        let until = Instant::now() + PATIENCE;
        self.go_on(catalog);
        while self.open > 0 && Instant::now() < until {
            if let Ok(reply) = self.replies.recv_timeout(PATIENCE) {
                self.take(reply, catalog);
            }
        }
        // The frames just added have names already: nothing is asked for them.
        self.ask(catalog);
    }

    fn take(&mut self, reply: NameReply, catalog: &mut Catalog) {
        self.open -= 1;
        for (frame, sources) in reply {
            let texts: Vec<FrameText<'_>> = sources.iter().map(frame_text).collect();
            catalog.resolve(frame, &texts);
        }
    }

    fn ask(&mut self, catalog: &Catalog) {
        let mut new: Vec<(u32, FrameId, u64)> = Vec::new();
        for (number, frame) in catalog.stacks.frames().iter().enumerate().skip(self.asked) {
            if frame.address != 0 && frame.module != 0 && frame.function == StringId::EMPTY {
                new.push((frame.module - 1, FrameId(number as u32), frame.address));
            }
        }
        self.asked = catalog.stacks.frames().len();
        new.sort_unstable();
        for same in new.chunk_by(|a, b| a.0 == b.0) {
            let Some(module) = catalog.modules.get(same[0].0 as usize) else { continue };
            let query = NameQuery {
                path: PathBuf::from(catalog.strings.get(module.path)),
                build_id: catalog.strings.get(module.build_id).to_owned(),
                start: module.start,
                file_offset: module.file_offset,
                addresses: same.iter().map(|&(_, frame, address)| (frame, address)).collect(),
                replies: self.to_us.clone(),
            };
            self.open += usize::from(self.namer.queries.send(query).is_ok());
        }
    }
}
