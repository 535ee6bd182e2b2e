//! Looks at a live process that the viewer takes by itself.

mod support;

use highwater_model::When;
use highwater_store::Recording;
use highwater_view::{LiveProcess, LiveProcesses, LiveSnapshot, LiveTimeline, OwnSnapshot, ProcessKey, TakenLook};
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::Running;
use support::history::{history, written};

const PROCESS: ProcessKey = ProcessKey { pid: 42, since_unix_ns: 7 };
/// The look that shows the end of the process.
const LAST: u64 = 3;

/// A collector of one process, which ends.
#[derive(Default)]
struct Ending(AtomicU64);

fn snapshot() -> LiveSnapshot {
    let (catalog, events) = history(3, 100);
    let recording = Recording::from_bytes(written(&catalog, &events, 100, 50)).unwrap();
    let mut snapshot = recording.snapshot(&When::End).unwrap();
    snapshot.source.snapshot = true;
    LiveSnapshot { snapshot, breakdown: None, name: String::new() }
}

impl LiveProcesses for Ending {
    fn place(&self) -> String {
        "/run/fake".to_owned()
    }

    fn processes(&self) -> Result<Vec<LiveProcess>, String> {
        Ok(Vec::new())
    }

    fn snapshot(&self, _: u32) -> Result<LiveSnapshot, String> {
        Ok(snapshot())
    }

    fn latest(&self, _: u32) -> Result<Option<ProcessKey>, String> {
        Ok(Some(PROCESS))
    }

    fn timelines(&self, _: Option<u32>, _: u64, _: Option<u64>) -> Result<Vec<LiveTimeline>, String> {
        Ok(Vec::new())
    }

    fn look(&self, _: ProcessKey) -> Result<TakenLook, String> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let has_exited = number >= LAST;
        let file = number.to_le_bytes().to_vec().into();
        Ok(TakenLook { file, snapshot: snapshot(), is_verified: true, has_exited, sample_bytes: 0 })
    }

    fn open_look(&self, _: ProcessKey, _: &[u8]) -> Result<LiveSnapshot, String> {
        Ok(snapshot())
    }

    fn own_snapshots(&self) -> Result<Vec<OwnSnapshot>, String> {
        Ok(Vec::new())
    }

    fn own_snapshot(&self, _: u64) -> Result<LiveSnapshot, String> {
        Ok(snapshot())
    }
}

#[test]
fn looks_are_taken_without_a_page_until_the_process_ends() {
    let server = Running::with(&[], Some(Box::new(Ending::default())));
    let watch = |question: &str| -> Value {
        let response = server.request("POST", &format!("/api/1/live/watch?process={PROCESS}{question}"), "");
        assert_eq!(response.status, 200, "{}", response.text());
        serde_json::from_slice(&response.body).unwrap()
    };
    assert_eq!(watch("&every=0")["looks"], serde_json::json!([]), "off takes no look");
    let begun = watch("&every=1");
    assert_eq!((begun["looks"].as_array().unwrap().len(), &begun["every_s"]), (1, &1.into()));
    // These questions take no look themselves.
    let looks = || server.plain(&format!("live/looks?process={PROCESS}"));
    let ended = loop {
        let now = looks();
        if now["looks"].as_array().unwrap().last().unwrap()["has_exited"] == true {
            break now;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended["looks"].as_array().unwrap().len() as u64, LAST + 1);
    // The thread leaves the process after its last look.
    while looks()["every_s"] != 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // What has ended is not watched again.
    assert_eq!(
        (&watch("&every=1")["every_s"], looks()["looks"].as_array().unwrap().len() as u64),
        (&0.into(), LAST + 1)
    );
}
