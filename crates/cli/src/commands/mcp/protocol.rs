//! Messages of the Model Context Protocol: JSON-RPC 2.0, one message a line.

use serde_json::{Map, Value, json};

/// The versions of the protocol that are spoken, latest first. The version between them is left out: it has batches of messages.
pub const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2024-11-05"];

/// The line is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON, but no message.
pub const INVALID_REQUEST: i32 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The method does not take these parameters.
pub const INVALID_PARAMS: i32 = -32602;

/// A message from the client.
#[derive(Debug, PartialEq)]
pub enum Message {
    /// It wants a reply.
    Request {
        /// A number or a text, which the reply repeats.
        id: Value,
        /// What to do.
        method: String,
        /// With what.
        params: Map<String, Value>,
    },
    /// It wants none.
    Notification {
        /// What has happened.
        method: String,
        /// To what.
        params: Map<String, Value>,
    },
    /// A reply. We ask nothing, so it answers nothing.
    Reply,
}

/// Why a message is answered with an error.
#[derive(Debug, PartialEq)]
pub struct ProtocolError {
    id: Value,
    code: i32,
    message: String,
}

impl ProtocolError {
    /// The error of a request; `id` is null if it is not known.
    pub fn new(id: Value, code: i32, message: impl Into<String>) -> Self {
        Self { id, code, message: message.into() }
    }

    /// The error as a message.
    pub fn reply(&self) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id, "error": { "code": self.code, "message": self.message } })
    }
}

/// A successful reply.
pub fn reply(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// The version that the server answers with: the client's if it is known, else the latest one.
pub fn negotiated(wanted: &str) -> &'static str {
    VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(VERSIONS[0])
}

/// Reads a line.
pub fn parse(line: &[u8]) -> Result<Message, ProtocolError> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| ProtocolError::new(Value::Null, PARSE_ERROR, format!("not JSON: {error}")))?;
    let Value::Object(mut members) = value else {
        let why = "a message is one JSON object a line; there are no batches";
        return Err(ProtocolError::new(Value::Null, INVALID_REQUEST, why));
    };
    let id = members.remove("id");
    let known = id.clone().filter(is_id).unwrap_or_default();
    let invalid = |why: &str| Err(ProtocolError::new(known.clone(), INVALID_REQUEST, why));
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("\"jsonrpc\" must be \"2.0\"");
    }
    let method = match members.remove("method") {
        Some(Value::String(method)) => method,
        None if members.contains_key("result") || members.contains_key("error") => return Ok(Message::Reply),
        _ => return invalid("\"method\" must be a text"),
    };
    let params = match members.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            return Err(ProtocolError::new(known.clone(), INVALID_PARAMS, "\"params\" must be an object"));
        }
    };
    match id {
        None => Ok(Message::Notification { method, params }),
        Some(id) if is_id(&id) => Ok(Message::Request { id, method, params }),
        Some(_) => invalid("\"id\" must be a text or a whole number"),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> (Value, i32) {
        let error = parse(line.as_bytes()).expect_err(line);
        (error.id, error.code)
    }

    #[test]
    fn requests_notifications_and_replies_are_told_apart() {
        let request = parse(br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).unwrap();
        assert_eq!(request, Message::Request { id: "a".into(), method: "ping".into(), params: Map::new() });
        let note = parse(br#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#).unwrap();
        assert!(matches!(note, Message::Notification { method, .. } if method == "notifications/initialized"));
        assert_eq!(parse(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#).unwrap(), Message::Reply);
    }

    #[test]
    fn what_is_no_message_gets_the_error_of_the_protocol() {
        assert_eq!(error("{"), (Value::Null, PARSE_ERROR));
        assert_eq!(error("\u{1}"), (Value::Null, PARSE_ERROR));
        assert_eq!(error(&"[".repeat(100_000)), (Value::Null, PARSE_ERROR));
        assert_eq!(error("[]"), (Value::Null, INVALID_REQUEST));
        assert_eq!(error("7"), (Value::Null, INVALID_REQUEST));
        assert_eq!(error(r#"{"id":1,"method":"ping"}"#), (1.into(), INVALID_REQUEST));
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), (1.into(), INVALID_REQUEST));
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":1}"#), (1.into(), INVALID_REQUEST));
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), (Value::Null, INVALID_REQUEST));
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#), (Value::Null, INVALID_REQUEST));
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#), (1.into(), INVALID_PARAMS));
    }

    #[test]
    fn a_known_version_is_kept_and_another_one_is_answered_with_the_latest() {
        assert_eq!(negotiated("2024-11-05"), "2024-11-05");
        assert_eq!(negotiated("1999-01-01"), VERSIONS[0]);
    }
}
