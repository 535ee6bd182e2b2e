//! `source` and `source/open`: the lines of a source file with their memory, and an editor for it.

use super::{Answered, json, number, sides};
use crate::api::Api;
use crate::choice::RequestChoice;
use crate::http::request::Request;
use crate::source_code::SourceText;
use highwater_query::{QueryError, names_file, source_changes, source_lines};
use highwater_store::history::Work;
use serde_json::{Value, json};

/// The file that a request names.
fn file_of(request: &Request) -> Result<&str, QueryError> {
    request.parameter("file").ok_or_else(|| QueryError::bad("file= is missing"))
}

fn not_named(file: &str) -> QueryError {
    QueryError::Unknown(format!("no frame of this source is in a file '{file}'"))
}

/// `source`: the text of a file, and the bytes and blocks of its lines; with `a=` and `b=`, how they changed.
pub fn lines(api: &Api, request: &Request, work: &Work<'_>) -> Answered {
    let file = file_of(request)?;
    let answer = if request.parameter("a").is_some() {
        let [before, after] = sides(request, &api.sources)?;
        if ![&before, &after].iter().any(|side| names_file(side.history.catalog(), file)) {
            return Err(not_named(file));
        }
        source_changes([&before, &after], file, work)?
    } else {
        let RequestChoice { query, .. } = RequestChoice::of(request, &api.sources)?;
        if !names_file(query.history.catalog(), file) {
            return Err(not_named(file));
        }
        source_lines(&query, &[file], work)?.pop().ok_or_else(|| not_named(file))?
    };
    let mut answer = json(answer)?;
    let (found, text, problem) = match api.source_code.read(file) {
        Ok(SourceText { path, text }) => (json!(path.to_string_lossy()), Value::String(text), Value::Null),
        Err(error) => (Value::Null, Value::Null, json!({ "kind": error.key(), "what": error.to_string() })),
    };
    if let Some(members) = answer.as_object_mut() {
        members.insert("found".to_owned(), found);
        members.insert("text".to_owned(), text);
        members.insert("problem".to_owned(), problem);
        members.insert("has_editor".to_owned(), api.source_code.editor.is_some().into());
    }
    Ok(answer)
}

/// `source/open`: opens the file at a line in the user's editor.
pub fn open(api: &Api, request: &Request) -> Answered {
    let file = file_of(request)?;
    let line = number(request, "line", 1, u32::MAX.into())? as u32;
    let source = number(request, "source", 0, u64::MAX)? as usize;
    if !names_file(api.sources.get(source)?.loaded()?.history.catalog(), file) {
        return Err(not_named(file));
    }
    let editor = api.source_code.editor.as_ref().ok_or_else(|| {
        QueryError::failed(
            "no editor is configured: start the viewer with --editor 'code -g {file}:{line}', or set HIGHWATER_EDITOR to such \
             a command; VISUAL and EDITOR count if they name a graphical editor",
        )
    })?;
    let path = api.source_code.path(file).map_err(QueryError::failed)?;
    editor.open(&path, line).map_err(|error| QueryError::Failed(format!("the editor cannot be started: {error}")))?;
    Ok(json!({ "opened": format!("{}:{line}", path.display()) }))
}
