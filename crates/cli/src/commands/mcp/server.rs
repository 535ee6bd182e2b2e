//! The conversation with a client.
//!
//! One thread reads lines, one answers calls one after the other, and this one writes: nothing waits for a call that takes long but other calls.

use super::answers::{Answerer, Call};
use super::folders::Folders;
use super::protocol::{
    INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message, ProtocolError, negotiated, parse, reply,
};
use super::tools::{TOOLS, Tool};
use crate::failure::Failure;
use crate::output::Output;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread;

/// The longest line that is read.
const LONGEST_LINE: u64 = 1 << 20;
/// Lines that are read ahead.
const LINES_AHEAD: usize = 16;
/// Calls that may wait.
const MOST_CALLS: usize = 32;

/// What a client reads about the tools.
const INSTRUCTIONS: &str = "Highwater records every allocation of a program with its call stack. The tools read such recordings. Begin with list_files, \
then open a file; answers end with calls that may come next. For a leak: growth, then leaks with stacks 'full'. For a high peak: report at 'peak'. For \
a process that takes more than its live memory: rss. Options that an answer names, such as '--top 0', are arguments of the same name. A long answer is \
cut: ask for fewer rows (top), a part (filter) or a window (from, to).";

/// An event for the thread that writes.
enum ServerEvent {
    /// A line came; `None` if it was too long.
    Line(Option<Vec<u8>>),
    /// The input has ended.
    End,
    /// A call was answered; without an answer it was cancelled.
    Answered(Value, Option<Value>),
}

/// The state of the conversation.
struct Server<'a> {
    tools: Vec<&'static Tool>,
    calls: Sender<Call>,
    /// The calls that are not answered yet, by id.
    waiting: BTreeMap<String, Arc<AtomicBool>>,
    output: &'a mut Output,
}

/// Answers messages from standard input until it ends.
pub fn serve(folders: Folders, allow_record: bool, output: &mut Output) -> Result<(), Failure> {
    let (sender, events) = mpsc::sync_channel(LINES_AHEAD);
    let (calls, waiting_calls) = mpsc::channel::<Call>();
    let answered = sender.clone();
    thread::spawn(move || read_lines(BufReader::new(io::stdin()), &sender));
    thread::spawn(move || {
        let answerer = Answerer::new(folders);
        for call in waiting_calls {
            let answer = answerer.answer(&call);
            if answered.send(ServerEvent::Answered(call.id, answer)).is_err() {
                return;
            }
        }
    });
    let tools = TOOLS.iter().filter(|tool| allow_record || !tool.is_record()).collect();
    let mut server = Server { tools, calls, waiting: BTreeMap::new(), output };
    let mut has_ended = false;
    while !(has_ended && server.waiting.is_empty()) {
        match events.recv() {
            Ok(ServerEvent::Line(line)) => server.take(line.as_deref())?,
            Ok(ServerEvent::Answered(id, answer)) => {
                server.waiting.remove(&id.to_string());
                if let Some(answer) = answer {
                    server.send(&reply(&id, &answer))?;
                }
            }
            Ok(ServerEvent::End) => has_ended = true,
            Err(_) => break,
        }
    }
    Ok(())
}

/// Reads lines of bounded length.
fn read_lines(mut input: impl BufRead, events: &SyncSender<ServerEvent>) {
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let event = match read {
            Ok(1..) if line.len() as u64 == LONGEST_LINE && line.last() != Some(&b'\n') => {
                if input.skip_until(b'\n').is_err() { ServerEvent::End } else { ServerEvent::Line(None) }
            }
            Ok(1..) => ServerEvent::Line(Some(line)),
            Ok(0) | Err(_) => ServerEvent::End,
        };
        let is_end = matches!(event, ServerEvent::End);
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

impl Server<'_> {
    /// Takes a line.
    fn take(&mut self, line: Option<&[u8]>) -> Result<(), Failure> {
        let answer = match line {
            None => {
                let why = format!("the line is longer than {LONGEST_LINE} bytes");
                Some(ProtocolError::new(Value::Null, INVALID_REQUEST, why).reply())
            }
            Some(line) if line.trim_ascii().is_empty() => None,
            Some(line) => match parse(line) {
                Ok(Message::Request { id, method, params }) => {
                    self.request(id, &method, params).unwrap_or_else(|error| Some(error.reply()))
                }
                Ok(Message::Notification { method, params }) => {
                    self.notified(&method, &params);
                    None
                }
                Ok(Message::Reply) => None,
                Err(error) => Some(error.reply()),
            },
        };
        answer.map_or(Ok(()), |answer| self.send(&answer))
    }

    fn request(
        &mut self,
        id: Value,
        method: &str,
        mut params: Map<String, Value>,
    ) -> Result<Option<Value>, ProtocolError> {
        let result = match method {
            "initialize" => {
                let Some(wanted) = params.get("protocolVersion").and_then(Value::as_str) else {
                    return Err(ProtocolError::new(id, INVALID_PARAMS, "\"protocolVersion\" must be a text"));
                };
                json!({
                    "protocolVersion": negotiated(wanted),
                    "capabilities": { "tools": { "listChanged": false } },
                    "serverInfo": { "name": "highwater", "title": "Highwater", "version": env!("CARGO_PKG_VERSION") },
                    "instructions": INSTRUCTIONS,
                })
            }
            "ping" => json!({}),
            "tools/list" => json!({ "tools": self.tools.iter().map(|tool| tool.description()).collect::<Vec<_>>() }),
            "tools/call" => {
                let arguments = match params.remove("arguments") {
                    None | Some(Value::Null) => Map::new(),
                    Some(Value::Object(arguments)) => arguments,
                    Some(_) => {
                        return Err(ProtocolError::new(id, INVALID_PARAMS, "\"arguments\" must be an object"));
                    }
                };
                let Some(name) = params.get("name").and_then(Value::as_str) else {
                    return Err(ProtocolError::new(id, INVALID_PARAMS, "\"name\" must be a text"));
                };
                return self.call(id, name, arguments).map(|()| None);
            }
            other => {
                return Err(ProtocolError::new(id, METHOD_NOT_FOUND, format!("there is no method '{other}'")));
            }
        };
        Ok(Some(reply(&id, &result)))
    }

    /// Queues a call.
    fn call(&mut self, id: Value, name: &str, arguments: Map<String, Value>) -> Result<(), ProtocolError> {
        let Some(tool) = self.tools.iter().copied().find(|tool| tool.name == name) else {
            let is_off = TOOLS.iter().any(|tool| tool.name == name);
            let why = if is_off { "needs 'highwater mcp --allow-record'" } else { "is no tool" };
            return Err(ProtocolError::new(id, INVALID_PARAMS, format!("'{name}' {why}")));
        };
        let key = id.to_string();
        if self.waiting.contains_key(&key) {
            return Err(ProtocolError::new(id, INVALID_REQUEST, "a call with this id is not answered yet"));
        }
        if self.waiting.len() >= MOST_CALLS {
            let why = format!("{MOST_CALLS} calls are not answered yet; wait for them");
            return Err(ProtocolError::new(id, INVALID_REQUEST, why));
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        self.waiting.insert(key, Arc::clone(&cancelled));
        // The receiver lives as long as the process.
        let _ = self.calls.send(Call { id, tool, arguments, cancelled });
        Ok(())
    }

    fn notified(&mut self, method: &str, params: &Map<String, Value>) {
        if method == "notifications/cancelled"
            && let Some(id) = params.get("requestId")
            && let Some(cancelled) = self.waiting.get(&id.to_string())
        {
            cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        // JSON texts have no line breaks: those in strings are escaped.
        self.output.bytes(format!("{message}\n").as_bytes())?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(input: &[u8]) -> Vec<Option<usize>> {
        let (sender, events) = mpsc::sync_channel(LINES_AHEAD);
        read_lines(input, &sender);
        let line = |event| match event {
            ServerEvent::Line(line) => Some(line.map(|line| line.len())),
            _ => None,
        };
        events.try_iter().filter_map(line).collect()
    }

    #[test]
    fn long_lines_are_skipped_and_the_next_one_is_read() {
        let most = LONGEST_LINE as usize;
        let mut input = vec![b'x'; most + 10];
        input.extend(b"\nab\nc");
        assert_eq!(lines_of(&input), [None, Some(3), Some(1)]);
        let mut fits = vec![b'x'; most - 1];
        fits.extend(b"\nab\n");
        assert_eq!(lines_of(&fits), [Some(most), Some(3)]);
        assert!(lines_of(b"").is_empty());
    }
}
