//! Questions to the viewer.

use crate::scene::Scene;
use highwater_query::QueryError;
use highwater_store::Recording;
use highwater_store::history::Work;
use highwater_view::http::request::{Request, parameters_of};
use highwater_view::{Api, FileKind, OpenedFile, Opener, Plain, Sources};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Opens what the numbers stand for: nothing of it is a file.
struct InMemory;

impl Opener for InMemory {
    fn open(&self, path: &Path, _: &Work<'_>) -> Result<OpenedFile, String> {
        let mut scene = Scene::new();
        scene.every_kind_of_event();
        scene.every_anomaly();
        let (kind, bytes) = match path.to_str() {
            Some("snapshot") => (FileKind::Snapshot, scene.snapshot(false)),
            Some("samples") => {
                scene.every_sample();
                (FileKind::Recording, scene.written(4, 9))
            }
            _ => (FileKind::Recording, scene.written(5, 12)),
        };
        let recording = Recording::from_bytes(bytes.map_err(|error| error.to_string())?);
        let recording = recording.map_err(|error| error.to_string())?;
        Ok(OpenedFile { kind, recording: Arc::new(recording), damage: Vec::new(), special: Box::new(Plain) })
    }
}

fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| {
        let paths = ["recording", "snapshot", "samples"].map(PathBuf::from);
        let api = Api::new(Sources::new(&paths, Box::new(InMemory)), None);
        assert_eq!(api.must_be_readable(), Ok(()));
        api
    })
}

/// Asks `NAME?PARAMETERS`; it must be answered, or refused with a line.
pub fn examine_question(question: &str) {
    let (name, query) = question.split_once('?').unwrap_or((question, ""));
    let Ok(parameters) = parameters_of(query) else { return };
    let work = Work::quiet();
    let answer = match name {
        "save" => api().saved_page(query, Some(0), &work).map(drop),
        _ => api().ask(&Request::question(name, parameters), &work).map(|answer| {
            assert!(answer.is_object(), "{question:?}: {answer}");
        }),
    };
    match answer {
        Ok(()) => {}
        Err(QueryError::Cancelled) => panic!("{question:?} was cancelled, but the client waits"),
        Err(problem) => assert!(!problem.to_string().is_empty(), "{question:?}"),
    }
}
