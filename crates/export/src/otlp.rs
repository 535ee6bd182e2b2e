//! OpenTelemetry's profiles: the body of a request to a receiver, and a file of `ProfilesData`.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_formats::heap_profile::{HeapProfile, samples_of};
use highwater_formats::otlp::{AttributeValue, OtlpRequest};
use highwater_model::{Snapshot, program_name};
use std::io;

/// `highwater export --to otlp`.
pub struct OtlpExport;

impl ExportFormat for OtlpExport {
    fn key(&self) -> &'static str {
        "otlp"
    }

    fn about(&self) -> &'static str {
        "OpenTelemetry profiles: the body of a request to /v1development/profiles"
    }

    fn ending(&self) -> &'static str {
        ".otlp.pb"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(&self) -> Write {
        Write::Figures(write)
    }
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    let source = &snapshot.source;
    // The program may be a command line.
    let program = program_name(source.program.split_whitespace().next(), &source.executable);
    let texts = [("service.name", program.as_str()), ("host.name", &source.host)];
    let known = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let mut attributes: Vec<(&str, AttributeValue)> =
        known.map(|(key, text)| (key, AttributeValue::Text(text.to_owned()))).collect();
    // A unikernel has no process id, and reports −1.
    if let Some(pid) = i64::try_from(source.pid).ok().filter(|pid| *pid > 0) {
        attributes.push(("process.pid", AttributeValue::Int(pid)));
    }
    let samples = samples_of(snapshot, options.keep);
    let mut request = OtlpRequest::default();
    request.add(&attributes, &HeapProfile::of_snapshot(snapshot, &samples), |_| None);
    Ok(out.write_all(&request.into_bytes())?)
}
