//! Responses of HTTP/1.1, from a server that may send anything.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

/// The longest line of a head, in bytes.
const LONGEST_LINE: u64 = 8 << 10;
const MOST_FIELDS: usize = 128;
/// The largest number of interim responses (`100 Continue`) before the real one.
const MOST_INTERIM: usize = 4;

/// Why a response cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first line is not one of HTTP.
    #[error("it does not speak HTTP")]
    NotHttp,
    /// Lines too long, or too many.
    #[error("the head of its response is too long")]
    HeadTooLong,
    /// A field that says how the body is sent is malformed or unknown.
    #[error("the field {0} of its response is not understood")]
    Field(&'static str),
}

/// The parts of a response that matter here.
pub struct Response<R: Read> {
    /// The status code.
    pub status: u16,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// When the server wants to be asked again, as it wrote it: seconds, or a date.
    pub retry_after: Option<String>,
    /// The size of the file, if it is known in advance.
    pub length: Option<u64>,
    /// The body, decoded. Reading fails if the connection ends too early.
    pub body: Body<R>,
}

/// Reads the head of a response.
pub fn read_response<R: Read>(stream: R) -> Result<Response<R>, ResponseError> {
    let mut stream = BufReader::new(stream);
    let mut head = Head::read(&mut stream)?;
    for _ in 0..MOST_INTERIM {
        if !(100..200).contains(&head.status) {
            break;
        }
        head = Head::read(&mut stream)?;
    }
    let framing = match (head.is_chunked, head.length) {
        (true, _) => Framing::Chunked { left: 0, has_begun: false },
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    let framed = FramedBody { stream, framing };
    let body = if head.is_gzip { Body::Gzip(GzDecoder::new(BufReader::new(framed))) } else { Body::Plain(framed) };
    let length = head.length.filter(|_| !head.is_chunked && !head.is_gzip);
    let Head { status, location, retry_after, .. } = head;
    Ok(Response { status, location, retry_after, length, body })
}

#[derive(Default)]
struct Head {
    status: u16,
    location: Option<String>,
    retry_after: Option<String>,
    length: Option<u64>,
    is_chunked: bool,
    is_gzip: bool,
}

impl Head {
    fn read(stream: &mut impl BufRead) -> Result<Self, ResponseError> {
        let status = status(&line(stream)?).ok_or(ResponseError::NotHttp)?;
        let mut head = Self { status, ..Self::default() };
        for _ in 0..MOST_FIELDS {
            let line = line(stream)?;
            if line.is_empty() {
                return Ok(head);
            }
            // A line without a colon is of no use here.
            if let Some((name, value)) = line.split_once(':') {
                head.take(name.trim(), value.trim())?;
            }
        }
        Err(ResponseError::HeadTooLong)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), ResponseError> {
        let is = |field: &str| name.eq_ignore_ascii_case(field);
        if is("content-length") {
            let length = value.parse().map_err(|_| ResponseError::Field("Content-Length"))?;
            if self.length.is_some_and(|other| other != length) {
                return Err(ResponseError::Field("Content-Length"));
            }
            self.length = Some(length);
        } else if is("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") || self.is_chunked {
                return Err(ResponseError::Field("Transfer-Encoding"));
            }
            self.is_chunked = true;
        } else if is("content-encoding") {
            self.is_gzip = match value.to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" if !self.is_gzip => true,
                "identity" | "" => self.is_gzip,
                _ => return Err(ResponseError::Field("Content-Encoding")),
            };
        } else if is("location") {
            self.location = Some(value.to_owned());
        } else if is("retry-after") {
            self.retry_after = Some(value.to_owned());
        }
        Ok(())
    }
}

/// The code of `HTTP/1.1 200 OK`.
fn status(line: &str) -> Option<u16> {
    let mut words = line.split(' ');
    let version = words.next()?;
    let code = words.next()?;
    let is_valid = matches!(version, "HTTP/1.0" | "HTTP/1.1") && code.len() == 3;
    code.parse().ok().filter(|code| is_valid && (100..600).contains(code))
}

/// A line without its end.
fn line(stream: &mut impl BufRead) -> Result<String, ResponseError> {
    let mut bytes = Vec::new();
    stream.take(LONGEST_LINE).read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        let is_cut = bytes.len() as u64 + 1 < LONGEST_LINE;
        return Err(if is_cut { ended_early().into() } else { ResponseError::HeadTooLong });
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn ended_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "its response ended early")
}

/// The body of a response.
pub enum Body<R: Read> {
    /// As it was sent.
    Plain(FramedBody<R>),
    /// Compressed, though it was not asked to be.
    Gzip(GzDecoder<BufReader<FramedBody<R>>>),
}

impl<R: Read> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(body) => body.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
        }
    }
}

/// The body with the marks of where it ends.
pub struct FramedBody<R: Read> {
    stream: BufReader<R>,
    framing: Framing,
}

enum Framing {
    /// The bytes left.
    Length(u64),
    Chunked {
        /// The bytes left of this chunk.
        left: u64,
        has_begun: bool,
    },
    UntilClose,
    Ended,
}

impl<R: Read> Read for FramedBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if let Framing::Chunked { left: 0, has_begun } = self.framing {
            self.framing = next_chunk(&mut self.stream, has_begun)?;
        }
        let left = match &mut self.framing {
            Framing::Ended | Framing::Length(0) => return Ok(0),
            Framing::UntilClose => return self.stream.read(buffer),
            Framing::Length(left) | Framing::Chunked { left, .. } => left,
        };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.stream.read(&mut buffer[..most])?;
        *left -= count as u64;
        if count == 0 { Err(ended_early()) } else { Ok(count) }
    }
}

/// Reads the size of the next chunk. What may follow the last one is of no use here.
fn next_chunk(stream: &mut impl BufRead, has_begun: bool) -> io::Result<Framing> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "the chunks of its response are not understood");
    let mut next = || {
        line(stream).map_err(|error| match error {
            ResponseError::Io(error) => error,
            _ => malformed(),
        })
    };
    // A chunk ends with an empty line.
    if has_begun && !next()?.is_empty() {
        return Err(malformed());
    }
    let line = next()?;
    let size = line.split(';').next().unwrap_or_default().trim();
    let is_number = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit());
    match u64::from_str_radix(size, 16) {
        Ok(0) if is_number => Ok(Framing::Ended),
        Ok(left) if is_number => Ok(Framing::Chunked { left, has_begun: true }),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn body_of(response: &[u8]) -> Result<Vec<u8>, String> {
        let mut response = read_response(response).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        response.body.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    #[test]
    fn bodies_end_where_they_should() {
        let cases: [&[u8]; 5] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, more",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            b"HTTP/1.0 200 OK\nServer: old\n\nhello",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhello",
            b"HTTP/1.1 200\r\nContent-Encoding: identity\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        ];
        for response in cases {
            assert_eq!(body_of(response).unwrap(), b"hello", "{}", String::from_utf8_lossy(response));
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"hello").unwrap();
        let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
        assert_eq!(body_of(&[&head[..], &encoder.finish().unwrap()].concat()).unwrap(), b"hello");
    }

    #[test]
    fn a_response_that_ends_early_or_makes_no_sense_is_an_error() {
        let cases: [(&[u8], &str); 11] = [
            (b"", "its response ended early"),
            (b"SSH-2.0-OpenSSH\r\n", "it does not speak HTTP"),
            (b"HTTP/2 200\r\n\r\n", "it does not speak HTTP"),
            (b"HTTP/1.1 20\r\n\r\n", "it does not speak HTTP"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "its response ended early"),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
                "the field Content-Length of its response is not understood",
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                "the field Content-Length of its response is not understood",
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n",
                "the field Content-Encoding of its response is not understood",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
                "the chunks of its response are not understood",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
                "the chunks of its response are not understood",
            ),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "its response ended early"),
        ];
        for (response, reason) in cases {
            assert_eq!(body_of(response), Err(reason.to_owned()), "{}", String::from_utf8_lossy(response));
        }
        let endless = || io::repeat(b'a');
        assert!(matches!(read_response(endless()), Err(ResponseError::HeadTooLong)));
        let fields = b"HTTP/1.1 200 OK\r\n".chain(io::Cursor::new(b"a: b\r\n".repeat(1000)));
        assert!(matches!(read_response(fields), Err(ResponseError::HeadTooLong)));
    }
}
