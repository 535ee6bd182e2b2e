//! The answers of the tools: JSON of `icp`, text of `dfx`.

use serde_json::Value;

/// Whether a canister runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanisterStatus {
    /// It runs.
    Running,
    /// It finishes its open calls.
    Stopping,
    /// It is stopped.
    Stopped,
}

impl CanisterStatus {
    /// It as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}

/// A snapshot that the network keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSnapshot {
    /// Its id, in hexadecimal digits.
    pub id: String,
    /// Its size in bytes, if the tool says it exactly.
    pub bytes: Option<u64>,
    /// When it was taken, in nanoseconds since 1970.
    pub taken_at_ns: Option<u64>,
}

/// The state of a canister in an answer.
pub fn status_in(answer: &str) -> Option<CanisterStatus> {
    let word = match serde_json::from_str::<Value>(answer) {
        Ok(document) => document["status"].as_str()?.to_ascii_lowercase(),
        Err(_) => {
            let line = answer.lines().find_map(|line| line.trim().strip_prefix("Status:"))?;
            line.trim().to_ascii_lowercase()
        }
    };
    [CanisterStatus::Running, CanisterStatus::Stopping, CanisterStatus::Stopped]
        .into_iter()
        .find(|status| status.text() == word)
}

/// The snapshots in an answer: a list, or the one that was taken.
pub fn snapshots_in(answer: &str) -> Option<Vec<NetworkSnapshot>> {
    match serde_json::from_str::<Value>(answer) {
        Ok(document) => match document["snapshots"].as_array() {
            Some(all) => all.iter().map(of_json).collect(),
            None => Some(vec![of_json(&document)?]),
        },
        Err(_) if answer.contains("No snapshots found") => Some(Vec::new()),
        Err(_) => {
            let found: Vec<NetworkSnapshot> = answer.lines().filter_map(of_line).collect();
            (!found.is_empty()).then_some(found)
        }
    }
}

fn of_json(snapshot: &Value) -> Option<NetworkSnapshot> {
    Some(NetworkSnapshot {
        id: snapshot["snapshot_id"].as_str().filter(|id| is_id(id))?.to_owned(),
        bytes: snapshot["total_size_bytes"].as_u64(),
        taken_at_ns: snapshot["taken_at_timestamp"].as_u64(),
    })
}

/// `0000…01: 2.10 MiB, taken at 2025-10-01 12:00:00 UTC`, or `Created a new snapshot of canister x. Snapshot ID: 0000…01`.
fn of_line(line: &str) -> Option<NetworkSnapshot> {
    if let Some((_, id)) = line.split_once("Snapshot ID:") {
        let id = id.trim();
        return is_id(id).then(|| NetworkSnapshot { id: id.to_owned(), bytes: None, taken_at_ns: None });
    }
    let (id, rest) = line.trim().split_once(": ")?;
    let (_, time) = rest.split_once("taken at ")?;
    is_id(id).then(|| NetworkSnapshot { id: id.to_owned(), bytes: None, taken_at_ns: unix_ns(time) })
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `2025-10-01 12:00:00 UTC` in nanoseconds since 1970.
fn unix_ns(text: &str) -> Option<u64> {
    let digits = text.strip_suffix(" UTC")?;
    let numbers: Vec<u64> = digits.split(['-', ' ', ':']).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let &[year, month, day, hour, minute, second] = numbers.as_slice() else { return None };
    if !(1970..3000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 by the calendar whose year begins in March, so that the leap day is the last.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60_000_000_000 + second * 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_both_tools_are_understood() {
        let listed = r#"{"snapshots":[{"snapshot_id":"00000001","taken_at_timestamp":5,"total_size_bytes":7}]}"#;
        let one = NetworkSnapshot { id: "00000001".into(), bytes: Some(7), taken_at_ns: Some(5) };
        assert_eq!(snapshots_in(listed), Some(vec![one]));
        assert_eq!(snapshots_in(r#"{"snapshots":[]}"#), Some(vec![]));
        let text = "0000000000000000ffffffffff9000050101: 2.13 MiB, taken at 2025-10-01 12:00:01 UTC\n";
        let found = snapshots_in(text).expect("a list");
        assert_eq!(
            (found[0].id.as_str(), found[0].taken_at_ns),
            ("0000000000000000ffffffffff9000050101", Some(1_759_320_001_000_000_000))
        );
        let made = snapshots_in("Created a new snapshot of canister app. Snapshot ID: 00ff\n").expect("one");
        assert_eq!(made[0].id, "00ff");
        assert_eq!(snapshots_in("No snapshots found in canister app\n"), Some(vec![]));
        assert_eq!(snapshots_in("something else\n"), None);
        assert_eq!(snapshots_in(r#"{"snapshots":[{"snapshot_id":"--output"}]}"#), None);
    }

    #[test]
    fn a_state_is_read_from_json_and_from_text() {
        assert_eq!(status_in(r#"{"status":"Running"}"#), Some(CanisterStatus::Running));
        assert_eq!(status_in("Canister status call result for app.\nStatus: Stopped\n"), Some(CanisterStatus::Stopped));
        assert_eq!(status_in("Status: odd\n"), None);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(unix_ns("1970-01-01 00:00:00 UTC"), Some(0));
        assert_eq!(unix_ns("2000-02-29 00:00:00 UTC"), Some(951_782_400_000_000_000));
        assert_eq!(unix_ns("2026-11-15 12:30:05 UTC"), Some(1_794_745_805_000_000_000));
        for wrong in ["2026-13-01 00:00:00 UTC", "yesterday", "2026-11-15 12:30:05"] {
            assert_eq!(unix_ns(wrong), None, "{wrong}");
        }
    }
}
