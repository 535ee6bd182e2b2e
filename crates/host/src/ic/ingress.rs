//! The calls that were made, and their results, for clients that ask for them later.

use super::hash_tree::{StateTree, leaf_number};
use super::reject::Reject;
use std::collections::BTreeMap;

/// The most calls that are remembered, and the most bytes of their replies. The oldest are forgotten first.
const MOST_CALLS: usize = 4096;
const MOST_BYTES: usize = 64 << 20;

/// A request's id.
pub type RequestId = [u8; 32];

/// How far a call is.
#[derive(Clone, Debug)]
pub enum CallStatus {
    /// It runs.
    Processing,
    /// It ended well.
    Replied(Vec<u8>),
    /// It was refused.
    Rejected(Reject),
}

struct RememberedCall {
    number: u64,
    sender: Vec<u8>,
    expiry_ns: u64,
    status: CallStatus,
}

/// The calls of the last minutes.
#[derive(Default)]
pub struct IngressHistory {
    calls: BTreeMap<RequestId, RememberedCall>,
    bytes: usize,
    next: u64,
}

impl IngressHistory {
    /// Begins a call; false if it was made before.
    pub fn begin(&mut self, id: RequestId, sender: &[u8], expiry_ns: u64, now_ns: u64) -> bool {
        if self.calls.contains_key(&id) {
            return false;
        }
        self.forget(now_ns);
        self.next += 1;
        let call =
            RememberedCall { number: self.next, sender: sender.to_vec(), expiry_ns, status: CallStatus::Processing };
        self.calls.insert(id, call);
        true
    }

    /// Notes the result of a call.
    pub fn end(&mut self, id: &RequestId, status: CallStatus) {
        if let Some(call) = self.calls.get_mut(id) {
            if let CallStatus::Replied(reply) = &status {
                self.bytes += reply.len();
            }
            call.status = status;
        }
    }

    /// Forgets a call that was refused before it began: it may be made again.
    pub fn cancel(&mut self, id: &RequestId) {
        self.calls.remove(id);
    }

    /// How far a call is.
    pub fn status(&self, id: &RequestId) -> Option<&CallStatus> {
        self.calls.get(id).map(|call| &call.status)
    }

    /// The sender of a call, who alone may ask for its result.
    pub fn sender(&self, id: &RequestId) -> Option<&[u8]> {
        self.calls.get(id).map(|call| call.sender.as_slice())
    }

    /// Forgets calls that cannot be repeated any more, if there are too many.
    fn forget(&mut self, now_ns: u64) {
        while self.calls.len() >= MOST_CALLS || self.bytes > MOST_BYTES {
            let is_done = |call: &RememberedCall| !matches!(call.status, CallStatus::Processing);
            let done = self.calls.iter().filter(|(_, call)| is_done(call));
            // Calls that have expired come first.
            let Some(id) = done.min_by_key(|(_, call)| (call.expiry_ns >= now_ns, call.number)).map(|(id, _)| *id)
            else {
                return;
            };
            if let Some(RememberedCall { status: CallStatus::Replied(reply), .. }) = self.calls.remove(&id) {
                self.bytes -= reply.len();
            }
        }
    }

    /// Puts what is known of a call into a tree.
    pub fn put(&self, id: &RequestId, tree: &mut StateTree) {
        let Some(status) = self.status(id) else { return };
        let mut put = |name: &str, value: Vec<u8>| tree.put(&[b"request_status", id, name.as_bytes()], value);
        match status {
            CallStatus::Processing => put("status", b"processing".to_vec()),
            CallStatus::Replied(reply) => {
                put("status", b"replied".to_vec());
                put("reply", reply.clone());
            }
            CallStatus::Rejected(reject) => {
                put("status", b"rejected".to_vec());
                put("reject_code", leaf_number(reject.reject_code));
                put("reject_message", reject.message.clone().into_bytes());
                put("error_code", reject.error_text().into_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> RequestId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        id
    }

    #[test]
    fn a_call_is_made_once_and_forgotten_when_there_are_too_many() {
        let mut history = IngressHistory::default();
        for number in 0..MOST_CALLS + 10 {
            assert!(history.begin(id(number), &[4], 100, 0));
            assert!(!history.begin(id(number), &[4], 100, 0));
            history.end(&id(number), CallStatus::Replied(vec![0; 100]));
        }
        assert_eq!(history.calls.len(), MOST_CALLS);
        assert_eq!(history.bytes, MOST_CALLS * 100);
        assert!(history.status(&id(0)).is_none() && history.status(&id(MOST_CALLS)).is_some());
        for number in 0..4 {
            history.begin(id(10_000_000 + number), &[4], 100, 0);
            history.end(&id(10_000_000 + number), CallStatus::Replied(vec![0; MOST_BYTES / 2]));
        }
        assert!(history.calls.len() <= 4, "{}", history.calls.len());
    }
}
