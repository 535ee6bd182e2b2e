//! Access control.
//!
//! Any program and any page on this machine can reach a port of it. So every request must meet three conditions. It must bring the token, which only the
//! opened address has. Its `Host` must be a name that always means this machine, against pages whose name was made to resolve to it (DNS rebinding).
//! And it must not come from a page of another server: cookies are not bound to ports, so such a page on this machine would send our cookie.

use super::request::Request;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

/// The token and the port of this server.
pub struct Access {
    token: String,
    /// A second secret that is accepted once in place of the token.
    ticket: Mutex<Option<String>>,
    port: u16,
}

/// How a request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer it.
    Welcome,
    /// Answer it, and set the token as a cookie.
    Introduced,
    /// It has no token, or a wrong one.
    Unknown,
    /// It is not addressed to us, or another page sent it.
    Forbidden,
}

impl Access {
    /// A new token for a port.
    pub fn new(port: u16) -> io::Result<Self> {
        Ok(Self { token: random()?, ticket: Mutex::default(), port })
    }

    /// A new ticket. It is accepted in place of the token, but only from the first client that brings it.
    pub fn ticket(&self) -> io::Result<String> {
        let ticket = random()?;
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket.clone());
        Ok(ticket)
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The address to open. It contains the token.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// The name of the cookie that holds the token. It contains the port, since cookies are not bound to ports.
    pub fn cookie(&self) -> String {
        format!("highwater-{}", self.port)
    }

    /// Decides how a request is handled.
    pub fn judge(&self, request: &Request) -> Verdict {
        if request.is_repeated("host") || !request.field("host").is_some_and(|host| self.is_our_name(host)) {
            return Verdict::Forbidden;
        }
        if !self.is_sent_by_us(request) {
            return Verdict::Forbidden;
        }
        let bearer = request.field("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if bearer.or_else(|| request.cookie(&self.cookie())).is_some_and(|given| self.is_token(given)) {
            return Verdict::Welcome;
        }
        let introduces = |given| self.is_token(given) || self.takes_ticket(given);
        if request.path == "/" && request.parameter("token").is_some_and(introduces) {
            Verdict::Introduced
        } else {
            Verdict::Unknown
        }
    }

    /// True for names that always mean this machine, whichever resolver is used. Clients omit the default port.
    fn is_our_name(&self, host: &str) -> bool {
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| {
            let rest =
                host.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(|_| &host[name.len()..]);
            rest.is_some_and(|rest| rest == format!(":{}", self.port) || (rest.is_empty() && self.port == 80))
        })
    }

    /// True if no page sends the request, or ours does. A link on another site may open the page, and nothing else.
    fn is_sent_by_us(&self, request: &Request) -> bool {
        if ["origin", "sec-fetch-site"].into_iter().any(|name| request.is_repeated(name)) {
            return false;
        }
        let is_our_page = |origin: &str| origin.strip_prefix("http://").is_some_and(|host| self.is_our_name(host));
        if request.field("origin").is_some_and(|origin| !is_our_page(origin)) {
            return false;
        }
        let goes_to_the_page = request.method == "GET"
            && request.path == "/"
            && request.field("sec-fetch-mode") == Some("navigate")
            && request.field("sec-fetch-dest") == Some("document");
        matches!(request.field("sec-fetch-site"), None | Some("same-origin" | "none")) || goes_to_the_page
    }

    fn is_token(&self, given: &str) -> bool {
        is_same(&self.token, given)
    }

    fn takes_ticket(&self, given: &str) -> bool {
        let mut ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = ticket.as_ref().is_some_and(|own| is_same(own, given));
        if is_it {
            *ticket = None;
        }
        is_it
    }
}

fn random() -> io::Result<String> {
    let mut random = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in constant time: the duration does not depend on where the texts differ.
fn is_same(own: &str, given: &str) -> bool {
    let pairs = own.bytes().zip(given.bytes());
    given.len() == own.len() && pairs.fold(0, |sum, (own, other)| sum | (own ^ other)) == 0
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
            ("GET / HTTP/1.1\r\nHost: [::1]:80\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Welcome),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Welcome),
            ("GET / HTTP/1.1\r\nHost: localhost.evil:80\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Forbidden),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:80.evil\r\nCookie: highwater-80=TOKEN\r\n\r\n", Verdict::Forbidden),
        ];
        for (head, expected) in cases {
            assert_eq!(judged(&access, head), expected, "{head}");
        }
        assert_ne!(access.token(), Access::new(80).unwrap().token());
        let other = Access::new(81).unwrap();
        let head = "GET / HTTP/1.1\r\nHost: localhost\r\nCookie: highwater-81=TOKEN\r\n\r\n";
        assert_eq!(judged(&other, head), Verdict::Forbidden);
    }

    #[test]
    fn another_page_may_link_to_ours_and_do_nothing_else() {
        let access = Access::new(80).unwrap();
        let judged = |path: &str, site: &str, mode: &str, dest: &str| {
            let fetch = format!("Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\nSec-Fetch-Dest: {dest}\r\n");
            judged(
                &access,
                &format!("GET {path} HTTP/1.1\r\nHost: localhost:80\r\n{fetch}Cookie: highwater-80=TOKEN\r\n\r\n"),
            )
        };
        assert_eq!(judged("/api/1/rows", "same-origin", "cors", "empty"), Verdict::Welcome);
        assert_eq!(judged("/api/1/save", "none", "navigate", "document"), Verdict::Welcome);
        for site in ["same-site", "cross-site", "else"] {
            assert_eq!(judged("/", site, "navigate", "document"), Verdict::Welcome);
            assert_eq!(judged("/", site, "navigate", "iframe"), Verdict::Forbidden);
            assert_eq!(judged("/", site, "no-cors", "script"), Verdict::Forbidden);
            assert_eq!(judged("/api/1/rows", site, "no-cors", "image"), Verdict::Forbidden);
            assert_eq!(judged("/api/1/save", site, "navigate", "document"), Verdict::Forbidden);
        }
    }

    #[test]
    fn a_ticket_introduces_once() {
        let access = Access::new(80).unwrap();
        let ticket = access.ticket().unwrap();
        let head = |path: &str| format!("GET {path}?token={ticket} HTTP/1.1\r\nHost: localhost:80\r\n\r\n");
        assert_eq!(judged(&access, &head("/api/1/rows")), Verdict::Unknown);
        assert_eq!(judged(&access, &head("/")), Verdict::Introduced);
        assert_eq!(judged(&access, &head("/")), Verdict::Unknown);
        let cookie = format!("GET / HTTP/1.1\r\nHost: localhost:80\r\nCookie: highwater-80={ticket}\r\n\r\n");
        assert_eq!(judged(&access, &cookie), Verdict::Unknown);
    }
}
