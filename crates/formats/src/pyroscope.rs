//! The request of Pyroscope's clients: `push.v1.PusherService/Push`, with one gzipped pprof profile for each series of labels.
//!
//! Schema: <https://github.com/grafana/pyroscope/blob/main/api/push/v1/push.proto>, and `types/v1/types.proto` beside it.

use crate::protobuf::ProtobufMessage;

mod push_field {
    pub(super) const SERIES: u64 = 1;
    pub(super) const LABELS: u64 = 1;
    pub(super) const SAMPLES: u64 = 2;
    pub(super) const LABEL_NAME: u64 = 1;
    pub(super) const LABEL_VALUE: u64 = 2;
    pub(super) const RAW_PROFILE: u64 = 1;
    pub(super) const ID: u64 = 2;
}

/// The request of one push.
#[derive(Clone, Debug, Default)]
pub struct PushRequest {
    message: ProtobufMessage,
}

impl PushRequest {
    /// Adds a profile. `labels` are the names and values of its series; `gzipped` is a pprof profile; `id` is a UUID by which the store knows a profile
    /// that is sent again.
    pub fn add(&mut self, labels: &[(&str, &str)], gzipped: &[u8], id: &str) {
        let mut series = ProtobufMessage::default();
        let mut inner = ProtobufMessage::default();
        for (name, value) in labels {
            inner.clear();
            inner.text(push_field::LABEL_NAME, name);
            inner.text(push_field::LABEL_VALUE, value);
            series.message(push_field::LABELS, &inner);
        }
        inner.clear();
        inner.binary(push_field::RAW_PROFILE, gzipped);
        inner.text(push_field::ID, id);
        series.message(push_field::SAMPLES, &inner);
        self.message.message(push_field::SERIES, &series);
    }

    /// The size of the request so far.
    pub fn size(&self) -> usize {
        self.message.bytes().len()
    }

    /// The request.
    pub fn into_bytes(self) -> Vec<u8> {
        self.message.into_bytes()
    }
}
