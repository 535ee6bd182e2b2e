//! The head of a request.

/// The most header fields.
const MOST_FIELDS: usize = 100;

/// The head of a request, as far as the server needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// `GET`, `POST` or something else.
    pub method: String,
    /// The path, without what follows `?`.
    pub path: String,
    /// The name that the client used for this server.
    pub host: Option<String>,
    /// The type of the body.
    pub content_type: Option<String>,
    /// Whether the connection stays open after the answer.
    pub keeps_alive: bool,
    /// Whether the body comes in chunks.
    pub is_chunked: bool,
    /// The length of a body that does not.
    pub body_bytes: u64,
    /// Whether the client waits for permission to send the body.
    pub expects_continue: bool,
    /// Whether a page in a browser sent it.
    pub has_origin: bool,
}

/// Why a head is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// It is not HTTP/1.
    #[error("this is not HTTP/1.1")]
    NotHttp,
    /// A field of it is malformed, or contradicts another one.
    #[error("the request is malformed")]
    Malformed,
    /// It has too many fields.
    #[error("the request has too many fields")]
    TooMany,
    /// The body has an encoding other than chunks.
    #[error("the body has an encoding that is not read here")]
    Encoding,
}

impl RequestHead {
    /// Parses a head.
    pub fn parse(head: &[u8]) -> Result<Self, BadHead> {
        let text = std::str::from_utf8(head).map_err(|_| BadHead::Malformed)?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(BadHead::NotHttp);
        };
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !is_word(method) {
            return Err(BadHead::NotHttp);
        }
        if !target.starts_with('/') || !is_word(target) {
            return Err(BadHead::Malformed);
        }
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let mut parsed =
            Self { method: method.into(), path: path.into(), keeps_alive: version == "HTTP/1.1", ..Self::default() };
        let mut length = None;
        for (count, line) in lines.take_while(|line| !line.is_empty()).enumerate() {
            if count == MOST_FIELDS {
                return Err(BadHead::TooMany);
            }
            parsed.read_field(line, &mut length)?;
        }
        if parsed.is_chunked && length.is_some() {
            return Err(BadHead::Malformed);
        }
        parsed.body_bytes = length.unwrap_or(0);
        Ok(parsed)
    }

    fn read_field(&mut self, line: &str, length: &mut Option<u64>) -> Result<(), BadHead> {
        let (name, value) = line.split_once(':').ok_or(BadHead::Malformed)?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name || value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(BadHead::Malformed);
        }
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" if self.host.replace(value.to_owned()).is_some() => return Err(BadHead::Malformed),
            "content-type" => self.content_type = Some(value.to_ascii_lowercase()),
            "content-length" => {
                let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let number = value.parse().ok().filter(|_| is_number).ok_or(BadHead::Malformed)?;
                if length.replace(number).is_some() {
                    return Err(BadHead::Malformed);
                }
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") && !self.is_chunked => self.is_chunked = true,
            "transfer-encoding" => return Err(BadHead::Encoding),
            "content-encoding" if !value.eq_ignore_ascii_case("identity") => return Err(BadHead::Encoding),
            "expect" => self.expects_continue = value.eq_ignore_ascii_case("100-continue"),
            "origin" => self.has_origin = true,
            "connection" => {
                let has = |wanted: &str| value.split(',').any(|word| word.trim().eq_ignore_ascii_case(wanted));
                self.keeps_alive = !has("close") && (self.keeps_alive || has("keep-alive"));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_how_its_body_comes() {
        let head = "POST /api/v2/canister/x/call?a=b HTTP/1.1\r\nHost: h\r\nContent-Type: Application/CBOR\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n";
        let parsed = RequestHead::parse(head.as_bytes()).unwrap();
        assert_eq!((parsed.path.as_str(), parsed.body_bytes), ("/api/v2/canister/x/call", 12));
        assert_eq!(parsed.content_type.as_deref(), Some("application/cbor"));
        assert!(parsed.keeps_alive && parsed.expects_continue && !parsed.is_chunked);
        let chunked =
            RequestHead::parse(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n").unwrap();
        assert!(chunked.is_chunked && !chunked.keeps_alive);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let cases = [
            ("", BadHead::NotHttp),
            ("GET /\r\n\r\n", BadHead::NotHttp),
            ("GET / HTTP/2.0\r\n\r\n", BadHead::NotHttp),
            ("GET http://other/ HTTP/1.1\r\n\r\n", BadHead::Malformed),
            ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", BadHead::Malformed),
            ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", BadHead::Malformed),
            ("GET / HTTP/1.1\r\nnothing\r\n\r\n", BadHead::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", BadHead::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", BadHead::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", BadHead::Malformed),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", BadHead::Encoding),
            ("GET / HTTP/1.1\r\nContent-Encoding: gzip\r\n\r\n", BadHead::Encoding),
        ];
        for (head, problem) in cases {
            assert_eq!(RequestHead::parse(head.as_bytes()), Err(problem), "{head:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert_eq!(RequestHead::parse(many.as_bytes()), Err(BadHead::TooMany));
    }
}
