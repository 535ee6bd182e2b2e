//! Who may ask.
//!
//! Any program and any page on this machine can reach a port of it. So every request must bring the token that only the opened address
//! has; must be addressed to us by a name that no other can have, against pages whose name was made to lead here; and must not come
//! from a page that is not ours.

use super::request::Request;
use std::fs::File;
use std::io::{self, Read};

/// The token, and where we are.
#[derive(Clone, Debug)]
pub struct Access {
    token: String,
    port: u16,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer it.
    Welcome,
    /// Answer it, and leave the token as a cookie.
    Introduced,
    /// It has no token, or a wrong one.
    Unknown,
    /// It is not addressed to us, or another page sent it.
    Forbidden,
}

impl Access {
    /// A new token for a port.
    pub fn new(port: u16) -> io::Result<Self> {
        let mut random = [0; 24];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { token, port })
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The cookie that holds it: each port has its own, since cookies know no ports.
    pub fn cookie(&self) -> String {
        format!("highwater-{}", self.port)
    }

    /// Judges a request.
    pub fn judge(&self, request: &Request) -> Verdict {
        let ours = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let is_ours = |host: &str| ours.iter().any(|name| host.eq_ignore_ascii_case(name));
        if request.is_repeated("host") || !request.field("host").is_some_and(is_ours) {
            return Verdict::Forbidden;
        }
        let is_our_page = |origin: &str| origin.strip_prefix("http://").is_some_and(is_ours);
        if request.is_repeated("origin") || request.field("origin").is_some_and(|origin| !is_our_page(origin)) {
            return Verdict::Forbidden;
        }
        let bearer = request.field("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if bearer.or_else(|| request.cookie(&self.cookie())).is_some_and(|given| self.is_token(given)) {
            return Verdict::Welcome;
        }
        let introduces = request.path == "/" && request.parameter("token").is_some_and(|given| self.is_token(given));
        if introduces { Verdict::Introduced } else { Verdict::Unknown }
    }

    /// Compares in the same time wherever they differ.
    fn is_token(&self, given: &str) -> bool {
        let pairs = self.token.bytes().zip(given.bytes());
        given.len() == self.token.len() && pairs.fold(0, |sum, (own, other)| sum | (own ^ other)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(access: &Access, head: &str) -> Verdict {
        let head = head.replace("TOKEN", access.token());
        access.judge(&Request::parse(head.as_bytes()).unwrap())
    }

    #[test]
    fn only_who_has_the_token_and_asks_us_from_our_page_is_welcome() {
        let access = Access::new(80).unwrap();
        let cases = [
            ("GET / HTTP/1.1\r\nHost: localhost:80\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Welcome),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer TOKEN\r\n\r\n", Verdict::Welcome),
            ("GET /?token=TOKEN HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n", Verdict::Introduced),
            ("GET /api/1/sources?token=TOKEN HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n", Verdict::Unknown),
            ("GET / HTTP/1.1\r\nHost: localhost:80\r\n\r\n", Verdict::Unknown),
            ("GET / HTTP/1.1\r\nHost: localhost:80\r\nCookie: highwater-81=TOKEN\r\n\r\n", Verdict::Unknown),
            ("GET / HTTP/1.1\r\nHost: localhost:80\r\nCookie: highwater-80=TOKE\r\n\r\n", Verdict::Unknown),
            ("GET / HTTP/1.1\r\nHost: evil:80\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Forbidden),
            ("GET / HTTP/1.1\r\nHost: localhost:81\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Forbidden),
            ("GET / HTTP/1.1\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Forbidden),
            (
                "GET / HTTP/1.1\r\nHost: localhost:80\r\nHost: evil\r\nCookie: highwater-80=TOKEN\r\n\r\n",
                Verdict::Forbidden,
            ),
            (
                "GET / HTTP/1.1\r\nHost: localhost:80\r\nOrigin: http://evil\r\nCookie: highwater-80=TOKEN\r\n\r\n",
                Verdict::Forbidden,
            ),
            (
                "GET / HTTP/1.1\r\nHost: localhost:80\r\nOrigin: http://localhost:80\r\nCookie: highwater-80=TOKEN\r\n\r\n",
                Verdict::Welcome,
            ),
        ];
        for (head, expected) in cases {
            assert_eq!(judged(&access, head), expected, "{head}");
        }
        assert_ne!(access.token(), Access::new(80).unwrap().token());
    }
}
