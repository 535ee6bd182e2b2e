//! A program whose recording is sent over a network while it runs: [`connect`] sends it to a receiver that listens, [`serve`] offers it to clients.
//!
//! The receiver gets a `.hw` recording that can be read while it grows. `highwater listen` and `highwater connect` receive it, and so can any other
//! program that writes the received bytes into a file. The program never waits for the network: data that is not received in time is left out and
//! counted, and the stream then continues with the current state.

use crate::recording::{about_ourselves, begin, start};
use highwater_agent::config::Config;
use highwater_clock::Counter;
use highwater_recorder::stream::{Address, Namer, StreamServer, StreamTo, StreamToken, Streaming};
use highwater_recorder::{ProcessRecording, RecordedProcess};
use highwater_symbols::DebuginfodServers;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use highwater_recorder::stream::Wire;

/// How long the program's exit waits for a client that receives nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Settings of a stream.
#[derive(Clone, Debug, Default)]
pub struct Options {
    sample_bytes: u64,
    token: Option<String>,
    clients: usize,
    file: Option<PathBuf>,
    wire: Wire,
}

impl Options {
    /// Every block, one client, no token.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records only samples, on average one per `mean_bytes` bytes: for production.
    pub fn sample(mut self, mean_bytes: u64) -> Self {
        self.sample_bytes = mean_bytes;
        self
    }

    /// A token that both ends must know.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Serves at most `most` clients at once.
    pub fn clients(mut self, most: usize) -> Self {
        self.clients = most;
        self
    }

    /// Also writes a file, if the program [connects](connect).
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Sends another format than a `.hw` recording.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    fn token_of_ours(&self) -> io::Result<Option<StreamToken>> {
        self.token.as_deref().map(|token| token.parse().map_err(io::Error::other)).transpose()
    }
}

/// Records every allocation from now on, and sends the recording to `address` (`host:port`), where `highwater listen` receives it. If the
/// connection breaks, the program continues and tries to connect again; the new stream begins with the blocks that are live then. Once per program,
/// and instead of [`record_to`](crate::record_to); [`stop_recording`](crate::stop_recording) ends it.
///
/// # Errors
/// If no receiver listens there, or if the program was or is being recorded.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// highwater::stream::connect("collector.example:1234", highwater::stream::Options::new().sample(512 << 10))
/// # }
/// ```
pub fn connect(address: &str, options: Options) -> io::Result<()> {
    let address: Address = address.parse().map_err(io::Error::other)?;
    let token = options.token_of_ours()?;
    let file = options.file.as_ref().map(std::path::absolute).transpose()?;
    start(move || {
        let first = highwater_recorder::stream::connect(&address, token.as_ref())?;
        let to = StreamTo::Connect { address, token, first: Some(first) };
        begin_streaming(to, &options, file)
    })
}

/// Offers the recording of this program at `address` (`port` or `host:port`; without a host, for this machine only). Nothing is recorded until a
/// client connects (`highwater connect`), and until then the allocator costs less than a nanosecond. Recording ends when the client disconnects.
/// Returns the address at which it listens. Once per program.
///
/// # Errors
/// If the port is taken, or the program was or is being recorded.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let address = highwater::stream::serve("1234", highwater::stream::Options::new())?;
/// println!("highwater connect {address}");
/// # Ok(())
/// # }
/// ```
pub fn serve(address: &str, options: Options) -> io::Result<SocketAddr> {
    let address: Address = address.parse().map_err(io::Error::other)?;
    let token = options.token_of_ours()?;
    let (to_us, local) = std::sync::mpsc::channel();
    start(move || {
        let server = StreamServer::bind(&address, token, options.clients.max(1))?;
        let _ = to_us.send(server.local());
        begin_streaming(StreamTo::Serve(Arc::new(server)), &options, None)
    })?;
    local.recv().map_err(io::Error::other)
}

fn begin_streaming(to: StreamTo, options: &Options, file: Option<PathBuf>) -> io::Result<ProcessRecording> {
    let counter = Counter::trusted();
    let config = Config::for_ourselves(counter.is_some(), options.sample_bytes);
    let config = if matches!(to, StreamTo::Serve(_)) { config.dormant() } else { config };
    let streaming =
        Streaming::new(to, options.wire, Namer::start(DebuginfodServers::Never)?, false).with_patience(PATIENCE);
    let sample_rate = Some(options.sample_bytes).filter(|&bytes| bytes > 0);
    let about = RecordedProcess { late: true, sample_rate, ..about_ourselves() };
    begin(&config, about, file, Some(streaming), counter)
}
