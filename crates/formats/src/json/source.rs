//! `source`: the process or file that a document is about.

use super::known_text;
use highwater_model::{Clock, Source, SourceKind, rfc3339};
use serde_json::{Value, json};

/// `source`. `start` is the instant as RFC 3339, `start_unix_ns` the same as a number.
pub fn source(source: &Source) -> Value {
    let known_number = |number: u64| (number != 0).then_some(number);
    let mut value = json!({
        "kind": source.kind.key(),
        "program": known_text(&source.program),
        "executable": known_text(&source.executable),
        "pid": known_number(source.pid),
        "parent_pid": known_number(source.parent_pid),
        "command": (!source.command.is_empty()).then_some(&source.command),
        "host": known_text(&source.host),
        "start": known_number(source.start_unix_ns).map(rfc3339),
        "start_unix_ns": known_number(source.start_unix_ns),
        "duration_ns": source.duration.0,
        "sample_rate": source.sample_rate,
        "snapshot": source.snapshot,
        "aggregated": source.aggregated,
    });
    if source.kind == SourceKind::OBJLOG || source.is_untimed() {
        value["timed"] = (!source.is_untimed()).into();
    }
    if matches!(source.clock, Clock::Instructions | Clock::Bytes) {
        value["clock"] = source.clock.unit().1.into();
    }
    if source.known.is_some() {
        value["notes"] = source.notes.as_slice().into();
    }
    // Members that only some sources have are left out for all others.
    if source.forked {
        value["forked"] = true.into();
    }
    if source.kind == SourceKind::NATIVE {
        value["reserved_bytes"] = source.address_space.reserved_bytes.into();
        value["mapped_file_bytes"] = source.address_space.mapped_file_bytes.into();
        value["returned_bytes"] = source.address_space.returned_bytes.into();
        value["notes"] = source.notes.as_slice().into();
    }
    if source.kind == SourceKind::MEMTRACE {
        // A program without a process id has a negative one.
        value["pid"] = (source.pid as i64).into();
        value["context"] = known_text(&source.context);
        value["runtime_parameters"] = known_text(&source.runtime_parameters);
        value["samples_per_word"] = source.word_sampling.map(|words| words.rate()).into();
        value["word_bytes"] = source.word_sampling.map(|words| words.word_bytes()).into();
        value["bytes_per_sample"] = source.word_sampling.map(|words| words.bytes_per_sample()).into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{AddressSpace, Nanos};

    #[test]
    fn what_is_not_known_is_null() {
        let nothing = source(&Source::default());
        let expected = json!({
            "kind": "events", "program": null, "executable": null, "pid": null, "parent_pid": null, "command": null, "host": null, "start": null, "start_unix_ns": null,
            "duration_ns": 0, "sample_rate": null, "snapshot": false, "aggregated": false,
        });
        assert_eq!(nothing, expected);
    }

    #[test]
    fn what_is_known_is_told() {
        let known = source(&Source {
            kind: SourceKind::NATIVE,
            program: "parser".to_owned(),
            executable: "/usr/bin/parser-2".to_owned(),
            address_space: AddressSpace { reserved_bytes: 8 << 30, mapped_file_bytes: 4096, returned_bytes: 8192 },
            pid: 42,
            host: "build-3".to_owned(),
            start_unix_ns: 1_700_000_000_000_000_001,
            duration: Nanos(5),
            sample_rate: Some(4096),
            parent_pid: 41,
            command: vec!["parser".to_owned(), "--fast".to_owned()],
            usable_sizes: true,
            snapshot: true,
            aggregated: true,
            notes: vec!["3 children not recorded: AddressSanitizer".to_owned()],
            ..Source::default()
        });
        let expected = json!({
            "kind": "native", "program": "parser", "executable": "/usr/bin/parser-2", "pid": 42, "parent_pid": 41, "command": ["parser", "--fast"], "host": "build-3",
            "start": "2023-11-14T22:13:20.000000001Z", "start_unix_ns": 1_700_000_000_000_000_001u64,
            "duration_ns": 5, "sample_rate": 4096, "snapshot": true, "aggregated": true,
            "reserved_bytes": 8u64 << 30, "mapped_file_bytes": 4096, "returned_bytes": 8192, "notes": ["3 children not recorded: AddressSanitizer"],
        });
        assert_eq!(known, expected);
    }
}
