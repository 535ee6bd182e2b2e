//! A program whose recording goes over a network while it runs: to [`connect`] to somebody who [listens](connect), or to [`serve`] whoever asks.
//!
//! What comes at the other end is a `.hw` recording that can be read while it grows: `highwater listen` and `highwater connect` receive it, and any
//! other program that writes what arrives into a file. Nobody waits for the network: what is not taken in time is left out and counted, and the
//! stream then goes on with the state as it is.

use crate::recording::{about_ourselves, begin, start};
use highwater_agent::config::Config;
use highwater_clock::Counter;
use highwater_recorder::stream::{Address, Namer, Server, StreamTo, Streaming, Token};
use highwater_recorder::{About, Course};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use highwater_recorder::stream::Wire;

/// How long the program's end waits for a client that takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a program is streamed.
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

    /// Only samples, so many bytes apart on average: for production.
    pub fn sample(mut self, mean_bytes: u64) -> Self {
        self.sample_bytes = mean_bytes;
        self
    }

    /// A word that both ends must know.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Serves so many clients at once.
    pub fn clients(mut self, most: usize) -> Self {
        self.clients = most;
        self
    }

    /// Writes a file as well, where the program [connects](connect).
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Sends something else than a `.hw` recording.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    fn token_of_ours(&self) -> io::Result<Option<Token>> {
        self.token.as_deref().map(|token| token.parse().map_err(io::Error::other)).transpose()
    }
}

/// Records every allocation from now on, and sends it to `address` (`host:port`), where `highwater listen` takes it. If the connection breaks, the
/// program goes on, and a new one is tried for, which begins with what is live then. Once per program, and instead of [`record_to`](crate::record_to);
/// [`stop_recording`](crate::stop_recording) ends it.
///
/// # Errors
/// If nobody listens there, or the program was or is being recorded.
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

/// Offers the recording of this program at `address` (`port` or `host:port`; without a host, for this machine only). Nothing is recorded, and the
/// allocator costs less than a nanosecond, until a client connects (`highwater connect`); recording ends when it leaves. Gives back where it
/// listens. Once per program.
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
        let server = Server::bind(&address, token, options.clients.max(1))?;
        let _ = to_us.send(server.local());
        begin_streaming(StreamTo::Serve(Arc::new(server)), &options, None)
    })?;
    local.recv().map_err(io::Error::other)
}

fn begin_streaming(to: StreamTo, options: &Options, file: Option<PathBuf>) -> io::Result<Course> {
    let counter = Counter::trusted();
    let config = Config::for_ourselves(counter.is_some(), options.sample_bytes);
    let config = if matches!(to, StreamTo::Serve(_)) { config.dormant() } else { config };
    let streaming = Streaming::new(to, options.wire, Namer::start()?, false).with_patience(PATIENCE);
    let sample_rate = Some(options.sample_bytes).filter(|&bytes| bytes > 0);
    let about = About { late: true, sample_rate, ..about_ourselves() };
    begin(&config, about, file, Some(streaming), counter)
}
