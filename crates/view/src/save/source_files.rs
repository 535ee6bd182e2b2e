//! The source files of a saved page: those of the largest sites, if the user asks for them.

use super::answers::{ChosenSource, SavedQuestion};
use crate::api::Api;
use crate::choice::RequestChoice;
use crate::http::request::Request;
use highwater_query::{QueryError, metrics_of, names_file, source_lines};
use highwater_store::history::Work;
use serde_json::{Map, Value};

/// The most files, and the most bytes of all of them.
const MOST_FILES: usize = 40;
const MOST_BYTES: usize = 2 << 20;
/// The metrics whose largest sites name the files.
const RANKED_BY: [&str; 3] = ["live", "peak", "allocated"];

/// Adds the texts of a source's files, and the memory of their lines for all metrics. Files that cannot be read are left out.
pub fn add(
    api: &Api,
    (id, chosen): (usize, &ChosenSource),
    (frames, stacks): (&Value, &Value),
    (answers, texts): (&mut Map<String, Value>, &mut Map<String, Value>),
    work: &Work<'_>,
) -> Result<(), QueryError> {
    // A source that cannot be read has no answers either.
    let Ok(loaded) = api.sources.get(id)?.loaded() else { return Ok(()) };
    let catalog = loaded.history.catalog();
    let mut files: Vec<String> = Vec::new();
    for file in files_of_sites(id, frames, stacks, answers) {
        let size: usize = texts.values().filter_map(Value::as_str).map(str::len).sum();
        if texts.contains_key(&file) {
            files.push(file);
        } else if texts.len() < MOST_FILES
            && names_file(catalog, &file)
            && let Ok(read) = api.source_code.read(&file)
            && size + read.text.len() <= MOST_BYTES
        {
            texts.insert(file.clone(), read.text.into());
            files.push(file);
        }
    }
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    for metric in metrics_of(&loaded.history).iter().map(|metric| metric.key()) {
        let question = |file: &str| SavedQuestion::new("source", id).keyed("metric", metric).keyed("file", file);
        let mut parameters = chosen.parameters_of(&question(""));
        parameters.extend(question("").key.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let lines = RequestChoice::of(&Request::question("source", parameters), &api.sources)
            .and_then(|choice| source_lines(&choice.query, &names, work));
        match lines {
            Ok(lines) => {
                for (file, lines) in files.iter().zip(lines) {
                    answers.insert(question(file).key(), serde_json::to_value(lines).map_err(QueryError::failed)?);
                }
            }
            Err(problem) if problem.is_of_source() => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

/// The files of the saved sites, the largest first: those of the frames that name sites, and after them those of all frames.
fn files_of_sites(id: usize, frames: &Value, stacks: &Value, answers: &Map<String, Value>) -> Vec<String> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    let file_of = |frame: &Value| frame["file"].as_str().map(str::to_owned);
    for metric in RANKED_BY {
        let Some(rows) = answers.get(&format!("rows?by=site&metric={metric}&source={id}")) else { continue };
        for row in rows["rows"].as_array().into_iter().flatten() {
            own.extend(file_of(&row["frame"]));
            let mut at = row["stack"].as_u64();
            while let Some(call) = at.and_then(|at| stacks.get(at as usize)) {
                let frame = call[1].as_u64().and_then(|frame| frames.get(frame as usize));
                others.extend(frame.and_then(file_of));
                at = call[0].as_u64();
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    own.into_iter().chain(others).filter(|file| seen.insert(file.clone())).collect()
}
