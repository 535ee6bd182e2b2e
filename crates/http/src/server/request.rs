//! Parses the head of a request.

use std::fmt;

/// The longest head. It is this long because cookies of other programs on the same host come with every request.
pub const LONGEST_HEAD: usize = 32 << 10;
/// The most header fields.
const MOST_FIELDS: usize = 100;
/// The most parameters.
const MOST_PARAMETERS: usize = 256;

/// A parsed request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST` or something else.
    pub method: String,
    /// The path, decoded.
    pub path: String,
    /// The parameters after `?`, decoded, in order.
    pub parameters: Vec<(String, String)>,
    /// Header fields; names in lower case.
    pub fields: Vec<(String, String)>,
    /// Whether the connection is kept for another request.
    pub keep_alive: bool,
    /// The length of the body in bytes.
    pub body_length: u64,
}

/// Why a head is not a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// It is not HTTP/1.
    NotHttp,
    /// A line of it is malformed.
    Malformed,
    /// A part of it is too long, or it has too many parts.
    TooMuch,
    /// The body has a transfer encoding, which is not supported.
    Encoding,
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHttp => "this is not HTTP/1.1",
            Self::Malformed => "the request is malformed",
            Self::TooMuch => "the request is too long",
            Self::Encoding => "bodies with a transfer encoding are not read here",
        })
    }
}

/// The length of the head that these bytes begin with, its empty line included; `None` if more must be read.
pub fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4)
}

impl Request {
    /// Parses a head.
    pub fn parse(head: &[u8]) -> Result<Self, BadRequest> {
        if head.len() > LONGEST_HEAD {
            return Err(BadRequest::TooMuch);
        }
        let text = std::str::from_utf8(head).map_err(|_| BadRequest::Malformed)?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(BadRequest::NotHttp);
        };
        let is_token = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !is_token(method) {
            return Err(BadRequest::NotHttp);
        }
        if !target.starts_with('/') || !is_token(target) {
            return Err(BadRequest::Malformed);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.to_owned(),
            path: decoded(path, false).ok_or(BadRequest::Malformed)?,
            keep_alive: version == "HTTP/1.1",
            ..Self::default()
        };
        request.parameters = parameters_of(query)?;
        for line in lines.take_while(|line| !line.is_empty()) {
            request.read_field(line)?;
        }
        request.understand_fields()?;
        Ok(request)
    }

    /// A request to the API that did not arrive on a connection.
    pub fn question(name: &str, parameters: Vec<(String, String)>) -> Self {
        Self { method: "GET".to_owned(), path: format!("/api/1/{name}"), parameters, ..Self::default() }
    }

    fn read_field(&mut self, line: &str) -> Result<(), BadRequest> {
        if self.fields.len() == MOST_FIELDS {
            return Err(BadRequest::TooMuch);
        }
        let (name, value) = line.split_once(':').ok_or(BadRequest::Malformed)?;
        // Names that are empty or contain a space are used for request smuggling.
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadRequest::Malformed);
        }
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(BadRequest::Malformed);
        }
        self.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        Ok(())
    }

    fn understand_fields(&mut self) -> Result<(), BadRequest> {
        if self.field("transfer-encoding").is_some() {
            return Err(BadRequest::Encoding);
        }
        let lengths: Vec<&str> = self.all("content-length").collect();
        self.body_length = match lengths[..] {
            [] => 0,
            [length] if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map_err(|_| BadRequest::Malformed)?
            }
            _ => return Err(BadRequest::Malformed),
        };
        let has = |wanted: &str| {
            self.all("connection")
                .flat_map(|value| value.split(','))
                .any(|word| word.trim().eq_ignore_ascii_case(wanted))
        };
        self.keep_alive = !has("close") && (self.keep_alive || has("keep-alive"));
        Ok(())
    }

    fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        values(&self.fields, name)
    }

    /// The value of a header field, by its name in lower case; the first, if there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        values(&self.fields, name).next()
    }

    /// True if a field occurs more than once.
    pub fn is_repeated(&self, name: &str) -> bool {
        values(&self.fields, name).nth(1).is_some()
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        values(&self.fields, "cookie")
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The first parameter of a name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        values(&self.parameters, name).next()
    }

    /// All values of a parameter that may occur several times.
    pub fn all_parameters<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        values(&self.parameters, name)
    }
}

fn values<'a>(pairs: &'a [(String, String)], name: &str) -> impl Iterator<Item = &'a str> {
    pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The parameters of a query, decoded, in order.
pub fn parameters_of(query: &str) -> Result<Vec<(String, String)>, BadRequest> {
    let mut parameters = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        if parameters.len() == MOST_PARAMETERS {
            return Err(BadRequest::TooMuch);
        }
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decode = |text| decoded(text, true).ok_or(BadRequest::Malformed);
        parameters.push((decode(name)?, decode(value)?));
    }
    Ok(parameters)
}

/// Decodes `%xx`, and `+` where it means a space.
fn decoded(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<Request, BadRequest> {
        Request::parse(head.as_bytes())
    }

    #[test]
    fn a_request_is_taken_apart() {
        let head = "GET /api/1/rows?by=site&filter=inside%3Aequal%3Aa+b%26c HTTP/1.1\r\nHost: localhost:80\r\nCookie: a=1; highwater-80=T\r\n\r\n";
        assert_eq!(head_length(head.as_bytes()), Some(head.len()));
        let request = parsed(head).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/api/1/rows"));
        assert_eq!(request.parameter("filter"), Some("inside:equal:a b&c"));
        assert_eq!((request.field("host"), request.cookie("highwater-80")), (Some("localhost:80"), Some("T")));
        assert!(request.keep_alive);
        assert!(!parsed("GET / HTTP/1.1\r\nConnection: foo, Close\r\n\r\n").unwrap().keep_alive);
        assert!(!parsed("GET / HTTP/1.0\r\n\r\n").unwrap().keep_alive);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let cases = [
            ("", BadRequest::NotHttp),
            ("GET /\r\n\r\n", BadRequest::NotHttp),
            ("GET  / HTTP/1.1\r\n\r\n", BadRequest::NotHttp),
            ("GET / HTTP/2.0\r\n\r\n", BadRequest::NotHttp),
            ("GET http://other/ HTTP/1.1\r\n\r\n", BadRequest::Malformed),
            ("GET /%zz HTTP/1.1\r\n\r\n", BadRequest::Malformed),
            ("GET /%ff HTTP/1.1\r\n\r\n", BadRequest::Malformed),
            ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", BadRequest::Malformed),
            ("GET / HTTP/1.1\r\nnothing\r\n\r\n", BadRequest::Malformed),
            ("GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", BadRequest::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", BadRequest::Malformed),
            ("GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", BadRequest::Malformed),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", BadRequest::Encoding),
        ];
        for (head, expected) in cases {
            assert_eq!(parsed(head), Err(expected), "{head:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert_eq!(parsed(&many), Err(BadRequest::TooMuch));
        assert_eq!(parsed(&"x".repeat(LONGEST_HEAD + 1)), Err(BadRequest::TooMuch));
    }
}
