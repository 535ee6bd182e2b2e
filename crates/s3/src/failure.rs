//! One line of what went wrong, and whether another try is worth it.
//!
//! The library wraps the server's answer in several layers of text, with the whole address and body. What people need is in the deepest one: the status and the
//! code of the server, or the reason why there was no answer.

use crate::bucket::Bucket;
use crate::listing_check::NotAListing;
use highwater_lake::store::protocol::StoreFailure;
use object_store::Error;
use object_store::client::HttpError;

/// The failure of a request about a key.
pub fn of(error: &Error, bucket: &Bucket, key: &str) -> StoreFailure {
    let name = &bucket.name;
    let mut texts = Vec::new();
    let mut layer: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let (mut is_connection, mut is_listing) = (false, true);
    while let Some(inner) = layer {
        is_connection |= inner.is::<HttpError>();
        is_listing &= !inner.is::<NotAListing>();
        texts.push(inner.to_string());
        layer = inner.source();
    }
    if let Some(answer) = texts.iter().find_map(|text| ServerAnswer::parse(text)) {
        return answer.failure(bucket, key);
    }
    let server = texts.iter().find_map(|text| asked_server(text)).unwrap_or(&bucket.server);
    if texts.iter().any(|text| text.contains("redirect without LOCATION")) {
        return other_region(name, None);
    }
    let reason = plain(texts.last().map_or("", String::as_str));
    if is_connection && is_listing {
        let server = server.split_once("://").map_or(server, |(_, rest)| rest).trim_end_matches('/');
        return StoreFailure::Away(format!("{name}: no answer from {server}: {reason}"));
    }
    match error {
        Error::NotFound { .. } => StoreFailure::NotFound(key.to_owned()),
        Error::AlreadyExists { .. } => StoreFailure::Exists(key.to_owned()),
        _ => StoreFailure::Refused(format!("{name}: {reason}")),
    }
}

/// The deepest reason of an error, as one line.
pub fn one_line(error: &Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(inner) = deepest.source() {
        deepest = inner;
    }
    plain(&deepest.to_string())
}

/// What a server said instead of doing what it was asked.
#[derive(Debug, PartialEq, Eq)]
struct ServerAnswer {
    status: u16,
    /// The code in its body: `NoSuchBucket`. Answers without a body have none.
    code: String,
    region: Option<String>,
}

impl ServerAnswer {
    fn parse(text: &str) -> Option<Self> {
        let (status, body) = if let Some(rest) = text.strip_prefix("Server returned non-2xx status code: ") {
            (rest.get(..3)?.parse().ok()?, rest)
        } else {
            // Some failures come with a status of success.
            (500, text.strip_prefix("Server returned error response: ")?)
        };
        let element = |name: &str| {
            let (_, rest) = body.split_once(&format!("<{name}>"))?;
            let value = rest.split_once('<')?.0;
            let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
            (is_word && value.len() <= 64).then(|| value.to_owned())
        };
        Some(Self { status, code: element("Code").unwrap_or_default(), region: element("Region") })
    }

    fn failure(&self, bucket: &Bucket, key: &str) -> StoreFailure {
        let name = &bucket.name;
        let refused = |text: &str| StoreFailure::Refused(format!("{name}: {text} ({self})"));
        let away = |text: &str| StoreFailure::Away(format!("{name}: {text} ({self})"));
        match (self.status, self.code.as_str()) {
            (_, "RequestTimeTooSkewed") => away("this machine's clock differs from the store's: set it"),
            (_, "ExpiredToken") => refused("the session token has expired"),
            (_, "NoSuchBucket") => refused(&format!("there is no bucket {}", bucket.bucket)),
            (_, "NoSuchUpload") => away("the upload was given up meanwhile"),
            (_, "AuthorizationHeaderMalformed") | (300..=399, _) => other_region(name, self.region.as_deref()),
            (404, _) => StoreFailure::NotFound(key.to_owned()),
            // Two writers at the same instant: which of them succeeds is not known yet.
            (409, "ConditionalRequestConflict" | "OperationAborted") => away("another writer is at the same file"),
            (409 | 412, _) => StoreFailure::Exists(key.to_owned()),
            (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken") | (401, _) => {
                refused("the store does not accept these credentials")
            }
            (403, _) => refused("these credentials may not do this"),
            (501, _) => refused("the store lacks something that lakes need, such as If-None-Match"),
            (408 | 429 | 500..=599, _) => away("the store is busy or out of order"),
            _ => refused("the store refuses the request"),
        }
    }
}

impl std::fmt::Display for ServerAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.status)?;
        if self.code.is_empty() { Ok(()) } else { write!(f, " {}", self.code) }
    }
}

fn other_region(name: &str, region: Option<&str>) -> StoreFailure {
    let region = region.unwrap_or("its region");
    StoreFailure::Refused(format!("{name}: the bucket is in another region; set AWS_REGION to {region}"))
}

/// The server that a request went to: `Error performing PUT http://server/bucket/key in 3ms`.
fn asked_server(text: &str) -> Option<&str> {
    let (_, rest) = text.strip_prefix("Error performing ")?.split_once(' ')?;
    let address = rest.split(' ').next()?;
    let path = address.find("://")? + 3;
    Some(address[path..].find('/').map_or(address, |end| &address[..path + end]))
}

/// A text without line ends and without the number of the system's error, and not longer than a line should be.
fn plain(text: &str) -> String {
    let text = text.split_once(" (os error").map_or(text, |(reason, _)| reason);
    let words: Vec<&str> = text.split(|letter: char| letter.is_control() || letter == ' ').collect();
    let text = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if text.chars().count() > 160 { text.chars().take(160).chain(['…']).collect() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_answer_is_found_in_the_text() {
        let text = "Server returned non-2xx status code: 403 Forbidden: <Error><Code>AccessDenied</Code></Error>";
        let answer = ServerAnswer::parse(text).unwrap();
        assert_eq!(answer.to_string(), "403 AccessDenied");
        let bare = ServerAnswer::parse("Server returned non-2xx status code: 404 Not Found: ").unwrap();
        assert_eq!(bare.to_string(), "404");
        assert_eq!(ServerAnswer::parse("Server returned non-2xx status code: ✗✗✗"), None);
        let hostile = "Server returned non-2xx status code: 400 x: <Code>a\u{1b}[2Jb</Code>";
        assert_eq!(ServerAnswer::parse(hostile).unwrap().to_string(), "400");
        let inside = ServerAnswer::parse("Server returned error response: <Code>SlowDown</Code>").unwrap();
        assert_eq!(inside.to_string(), "500 SlowDown");
    }

    #[test]
    fn the_server_of_a_request() {
        let text = "Error performing GET http://127.0.0.1:9/b?list-type=2 in 2ms - error";
        assert_eq!(asked_server(text), Some("http://127.0.0.1:9"));
        assert_eq!(asked_server("Error performing GET REDACTED in 2ms"), None);
        assert_eq!(plain("no\nsuch  thing (os error 2)"), "no such thing");
    }
}
