//! One request and its answer.

use super::retry_after::retry_after;
use highwater_formats::otlp::reply::one_line;
use highwater_formats::protobuf::{ProtobufFields, ProtobufValue};
use highwater_http::client::response::{Response, read_response};
use highwater_http::client::{Connection, LateTexts, OutgoingRequest, Pace, ServerUrl};
use std::io::Read;
use std::time::{Duration, Instant, SystemTime};

/// A request that has not been answered by then is sent again later.
const REQUEST: Duration = Duration::from_secs(60);
/// A connection on which no byte moves for this time is given up.
const STALL: Duration = Duration::from_secs(20);
/// The part of an answer that is read.
const LARGEST_REPLY: u64 = 64 << 10;

/// What a store answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// It has the profiles.
    Taken {
        /// The body of its answer.
        reply: Vec<u8>,
    },
    /// It may take them later.
    Busy { status: u16, retry_after: Option<Duration>, message: String },
    /// It takes nothing until the user changes something.
    Forbidden { status: u16, message: String },
    /// It will never take this.
    Dropped { status: u16, message: String },
}

/// No answer, in one line.
#[derive(Debug)]
pub(super) struct PostError(pub(super) String);

/// Sends a body, and waits for the answer.
pub(super) fn post(url: &ServerUrl, fields: &[(&str, &str)], body: &[u8]) -> Result<Answer, PostError> {
    let texts = LateTexts { run: "it did not answer in 60 seconds", stall_setting: "" };
    let mut pace = Pace::new(STALL, 1, Instant::now() + REQUEST, texts);
    let request = OutgoingRequest { fields, body: Some(body) };
    let connection = Connection::open(url, &request, &mut pace).map_err(|error| PostError(error.to_string()))?;
    let response = read_response(connection).map_err(|error| PostError(error.to_string()))?;
    answer(response)
}

fn answer(mut response: Response<impl Read>) -> Result<Answer, PostError> {
    let status = response.status;
    let mut reply = Vec::new();
    let read = read_reply(&mut response.body, &mut reply);
    let message = message(&reply);
    Ok(match status {
        // A server that breaks off may not have stored it.
        200..300 => {
            read.map_err(|error| PostError(error.to_string()))?;
            Answer::Taken { reply }
        }
        408 | 429 | 502 | 503 | 504 => {
            let retry_after = response.retry_after.and_then(|value| retry_after(&value, SystemTime::now()));
            Answer::Busy { status, retry_after, message }
        }
        300..=399 | 401 | 403 | 404 | 405 | 407 => Answer::Forbidden { status, message },
        _ => Answer::Dropped { status, message },
    })
}

fn read_reply(body: &mut impl Read, reply: &mut Vec<u8>) -> std::io::Result<()> {
    let mut piece = [0; 8 << 10];
    while (reply.len() as u64) < LARGEST_REPLY {
        match body.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => reply.extend_from_slice(&piece[..count]),
            // The next read says what took too long.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The reason in the body of an error: the field `message` of a JSON object, as Pyroscope writes it, or of a `google.rpc.Status`, as OpenTelemetry's receivers do, or
/// the first line of a text. Nothing if it is none of these.
fn message(reply: &[u8]) -> String {
    let mut fields = ProtobufFields::new(reply, 0).map_while(Result::ok);
    if reply.first().is_some_and(|byte| [0x08, 0x12].contains(byte)) {
        let text = fields.find_map(|field| match field.value {
            ProtobufValue::Bytes(text) if field.number == 2 => Some(one_line(text)),
            _ => None,
        });
        return text.unwrap_or_default();
    }
    let Ok(text) = std::str::from_utf8(reply) else { return String::new() };
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(json) => one_line(json["message"].as_str().unwrap_or_default().as_bytes()),
        Err(_) if text.trim_start().starts_with('<') => String::new(),
        Err(_) => one_line(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_plain() {
        assert_eq!(message(b"{\"code\":\"invalid_argument\",\"message\":\"no service_name\"}"), "no service_name");
        assert_eq!(message(b"\n  too large\x1b[31m\nmore"), "too large[31m");
        assert_eq!(message(b"<html><body>Bad gateway</body></html>"), "");
        assert_eq!(message(b"\x08\x03\x12\x04nope"), "nope");
        assert_eq!(message(b"\xff\xfe\x00"), "");
        assert_eq!(message(&b"x".repeat(5000)).len(), 200);
    }
}
