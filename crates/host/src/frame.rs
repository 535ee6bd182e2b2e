//! The frames of the protocol between host and clients: length, kind, content.
//!
//! ```text
//!  ┌──────────────────┬──────┬─────────────────┐
//!  │ length, 4 bytes  │ kind │ length bytes    │   numbers are little-endian; the kind is 'J' for JSON, 'B' for bytes
//!  └──────────────────┴──────┴─────────────────┘
//! ```
//!
//! The content of a frame is never longer than [`LONGEST`], and a reader allocates no more memory than what arrived.

use std::fmt;
use std::io::{self, Read, Write};

/// The longest content.
pub const LONGEST: usize = 8 << 20;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostFrame {
    /// A JSON document.
    Json(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Why no frame was read.
#[derive(Debug)]
pub enum FrameError {
    /// The other side closed the connection between two frames.
    Ended,
    /// The bytes received are not a frame.
    Garbage(&'static str),
    /// The connection is broken.
    Broken(io::Error),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the connection ended"),
            Self::Garbage(what) => write!(f, "what came is not of this protocol: {what}"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl HostFrame {
    /// Reads a frame.
    pub fn read(input: &mut impl Read) -> Result<Self, FrameError> {
        let mut head = [0; 5];
        let mut have = 0;
        while have < head.len() {
            match input.read(&mut head[have..]) {
                Ok(0) if have == 0 => return Err(FrameError::Ended),
                Ok(0) => return Err(FrameError::Garbage("a frame is cut off")),
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FrameError::Broken(error)),
            }
        }
        let [a, b, c, d, kind] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > LONGEST {
            return Err(FrameError::Garbage("a frame is too long"));
        }
        if kind != b'J' && kind != b'B' {
            return Err(FrameError::Garbage("a frame of no known kind"));
        }
        let mut content = Vec::new();
        input.by_ref().take(length as u64).read_to_end(&mut content).map_err(FrameError::Broken)?;
        if content.len() < length {
            return Err(FrameError::Garbage("a frame is cut off"));
        }
        Ok(if kind == b'J' { Self::Json(content) } else { Self::Bytes(content) })
    }

    /// Writes the frame.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let (kind, content) = match self {
            Self::Json(content) => (b'J', content),
            Self::Bytes(content) => (b'B', content),
        };
        if content.len() > LONGEST {
            return Err(io::Error::other(format!("a message of {} bytes is too long", content.len())));
        }
        let mut frame = Vec::with_capacity(content.len() + 5);
        frame.extend((content.len() as u32).to_le_bytes());
        frame.push(kind);
        frame.extend(content);
        output.write_all(&frame)?;
        output.flush()
    }
}
