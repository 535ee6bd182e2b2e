//! URLs of servers: `http` or `https`, a host, and the path under which the server's files are.

use std::fmt;
use std::str::FromStr;

const LONGEST_URL: usize = 2048;

/// The URL of a server, such as `https://debuginfod.debian.net`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    text: String,
    is_encrypted: bool,
    /// Host and port as in the text.
    authority: std::ops::Range<usize>,
}

/// Why a text is not the URL of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No scheme, or another one.
    #[error("a server's URL begins with http:// or https://")]
    Scheme,
    /// Characters that a URL cannot have, or a name and a password, or no host, or a port that is none.
    #[error("this is not a URL of a server, such as https://example.com")]
    Malformed,
    /// Longer than any real URL.
    #[error("the URL has more than 2,048 characters")]
    TooLong,
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > LONGEST_URL {
            return Err(UrlError::TooLong);
        }
        let starts = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        let (is_encrypted, start) = match () {
            () if starts("http://") => (false, "http://".len()),
            () if starts("https://") => (true, "https://".len()),
            () => return Err(UrlError::Scheme),
        };
        // Quotes and brackets would have a meaning for `curl`.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"'`<>{}\\^|@#".contains(&byte);
        let end = text[start..].find(['/', '?']).map_or(text.len(), |length| start + length);
        let url = Self { text: text.to_owned(), is_encrypted, authority: start..end };
        let is_valid = text.bytes().all(is_plain) && !text[end..].contains(['[', ']']) && url.host_and_port().is_some();
        is_valid.then_some(url).ok_or(UrlError::Malformed)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// The servers of a list that is separated by spaces. Others of the list are still used if one is not a URL.
pub fn listed(text: &str) -> Vec<ServerUrl> {
    text.split_whitespace().filter_map(|url| url.parse().ok()).collect()
}

impl ServerUrl {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True for `https`.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// `HOST:PORT`, as a request repeats it.
    pub fn authority(&self) -> &str {
        &self.text[self.authority.clone()]
    }

    /// The host without the brackets of an IPv6 address, and the port.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        let authority = self.authority();
        let default = if self.is_encrypted { 443 } else { 80 };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':').or(port.is_empty().then_some(""))?)
            }
            None => authority.split_once(':').unwrap_or((authority, "")),
        };
        let port = if port.is_empty() { default } else { port.parse().ok()? };
        let has_brackets = authority.starts_with('[');
        let is_host = !host.is_empty() && !host.contains(['[', ']', ',']) && host.contains(':') == has_brackets;
        is_host.then_some((host, port))
    }

    /// The path and the query.
    pub fn path(&self) -> &str {
        match &self.text[self.authority.end..] {
            "" => "/",
            path => path,
        }
    }

    /// A file of the server.
    pub fn below(&self, path: &str) -> Self {
        let text = format!("{}/{path}", self.text.trim_end_matches('/'));
        Self { text, ..self.clone() }
    }

    /// Where a redirect leads. Never from an encrypted connection to one that is not.
    pub fn redirected(&self, location: &str) -> Option<Self> {
        let url: Self = if location.starts_with('/') && !location.starts_with("//") {
            format!("{}{location}", &self.text[..self.authority.end]).parse().ok()?
        } else {
            location.parse().ok()?
        };
        (url.is_encrypted || !self.is_encrypted).then_some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let cases = [
            ("http://localhost:8002", "localhost", 8002, "/"),
            ("HTTPS://debuginfod.debian.net/", "debuginfod.debian.net", 443, "/"),
            ("http://[::1]:80/a/b?c=d", "::1", 80, "/a/b?c=d"),
            ("http://[::1]", "::1", 80, "/"),
            ("http://host", "host", 80, "/"),
        ];
        for (text, host, port, path) in cases {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!((url.host_and_port(), url.path()), (Some((host, port)), path), "{text}");
        }
        let server: ServerUrl = "http://host/files/".parse().unwrap();
        assert_eq!(server.below("buildid/ab/debuginfo").as_str(), "http://host/files/buildid/ab/debuginfo");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "host", "ftp://host", "file:///etc/passwd", "-o/etc/passwd", "é"] {
            assert_eq!(text.parse::<ServerUrl>(), Err(UrlError::Scheme), "{text}");
        }
        let malformed = [
            "http://",
            "http:///x",
            "http://a b",
            "http://a\r\nb",
            "http://user:word@host/",
            "http://host:99999/",
            "http://host:port",
            "http://[::1",
            "http://a/{b,c}",
            "http://a/[1-9]",
            "http://a:1:2/",
        ];
        for text in malformed {
            assert_eq!(text.parse::<ServerUrl>(), Err(UrlError::Malformed), "{text}");
        }
        assert_eq!(format!("http://{}", "a".repeat(3000)).parse::<ServerUrl>(), Err(UrlError::TooLong));
        assert_eq!(listed(" http://a  nonsense https://b\n").len(), 2);
    }

    #[test]
    fn redirects_stay_on_the_web_and_encrypted() {
        let plain: ServerUrl = "http://a:1/b/c".parse().unwrap();
        let redirected = |url: &ServerUrl, location: &str| url.redirected(location).map(|url| url.as_str().to_owned());
        assert_eq!(redirected(&plain, "/d"), Some("http://a:1/d".to_owned()));
        assert_eq!(redirected(&plain, "https://e/f"), Some("https://e/f".to_owned()));
        assert_eq!(redirected(&plain, "file:///etc/passwd"), None);
        assert_eq!(redirected(&plain, "//e/f"), None);
        let encrypted: ServerUrl = "https://a/b".parse().unwrap();
        assert_eq!(redirected(&encrypted, "http://a/b"), None);
    }
}
