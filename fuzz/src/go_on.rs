//! Going on with a recording, as a log that is opened again does.

use highwater_model::{Event, EventKind, Nanos, Placement, Source, ThreadId, When, laws};
use highwater_store::{Recording, Writer};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Appends to a copy of a file, if it is a recording, and reads what was written.
pub fn go_on_with_recording(file: &[u8]) {
    let Ok(recording) = Recording::from_bytes(file.to_vec()) else { return };
    let Ok(end) = recording.snapshot(&When::End) else { return };
    // Without single blocks nobody knows what a free is of.
    if recording.source().aggregated {
        return;
    }
    let (Ok(catalog), Ok(mut copy)) = (recording.catalog_to_go_on(), unnamed_file()) else { return };
    if copy.write_all(file).is_err() {
        return;
    }
    let events = more_events(end.accounts.blocks().next().map_or(0, |block| block.address), &catalog.strings);
    let Ok(read_back) = copy.try_clone() else { return };
    let Ok(mut writer) = Writer::resume(copy, &recording, end.accounts) else { return };
    let written = writer
        .append(&events, &catalog)
        .and_then(|()| writer.flush(&catalog))
        .map(|()| writer.ledger().accounts().to_state())
        .and_then(|state| writer.finish(&catalog, &Source::default()).map(|_| state));
    let Ok(expected) = written else { return };

    let again = Recording::from_file(read_back).expect("what was written can be opened");
    let end = again.snapshot(&When::End).expect("what was written can be read");
    assert_eq!(laws::violations(&end.accounts), Vec::<String>::new());
    let read = end.accounts.to_state();
    assert_eq!((read.events, read.next_id, read.blocks), (expected.events, expected.next_id, expected.blocks));
    assert_eq!((read.totals, read.anomalies, read.threads), (expected.totals, expected.anomalies, expected.threads));
}

fn more_events(known_address: u64, strings: &highwater_model::StringTable) -> [Event; 5] {
    let place = |address| Placement { address, size: 100, ..Placement::default() };
    let name = strings.find("x").unwrap_or_default();
    let (old_address, claimed_old_size) = (known_address, Some(1));
    [
        EventKind::Reallocate { old_address, claimed_old_size, new: place(0x5000) },
        EventKind::Allocate(place(known_address)),
        EventKind::Mark { name },
        EventKind::Allocate(place(0x5000)),
        EventKind::free(0x5000, None),
    ]
    .map(|kind| Event { time: Nanos(7), thread: ThreadId(1), kind })
}

fn unnamed_file() -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("highwater-fuzz-{}-{number}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
