//! Stores of profiles as targets: Pyroscope, and whatever takes OpenTelemetry's profiles.
//!
//! ```text
//!  Parcel ─▶ ProcessProfile (one process, one slot) ─▶ bodies below the store's limits ─▶ POST ─▶ status
//! ```
//!
//! # Design
//!
//! **One slot is one profile of each process.** Live figures are of the slot's instant. Allocated figures are differences to the slot before
//! (`AllocatedBefore`): older stores subtract counters themselves, newer ones never do, and a difference is right for both.
//!
//! **Nothing is sent twice** as long as the target lives: bodies of a parcel that the store has taken are not sent again with the rest of it. After a restart they
//! are, with the same ids, by which a store can tell.
//!
//! **Answers** decide what happens to a body. 408, 429, 502, 503, 504 and broken connections: the shipper waits and sends it again. 401, 403, 404 and redirects:
//! the user has to change something. Everything else that is no success: the body is dropped, and each status is reported once.
//!
//! **Secrets** are in an environment variable or a file, which is read for each parcel, since tokens change. They are in no message.

mod allocated;
mod authorization;
mod bodies;
mod post;
mod process_profile;
mod retry_after;
mod store_kind;

pub use authorization::{Authorization, AuthorizationError};
pub use store_kind::{ProfileStoreKind, ProfileStoreUrl, ProfileStoreUrlError};

use crate::target::{Parcel, SendError, ShipTarget};
use allocated::AllocatedBefore;
use bodies::ProfileBody;
use highwater_formats::otlp::reply::partial_success;
use highwater_http::client::OutgoingRequest;
use post::{Answer, PostError, post};
use std::collections::{BTreeSet, VecDeque};

/// The variable that has the value of the field `Authorization`, such as `Bearer TOKEN`.
pub const AUTHORIZATION_VARIABLE: &str = "HIGHWATER_AUTHORIZATION";

/// Limit for the number of different reports that are remembered. A store that always says something new is reported no more.
const MOST_REPORTS: usize = 32;

/// A store of profiles.
pub struct ProfileStoreTarget {
    url: ProfileStoreUrl,
    tenant: Option<String>,
    authorization: Authorization,
    before: AllocatedBefore,
    pending: Option<PendingParcel>,
    reported: BTreeSet<String>,
}

/// A parcel of which some bodies are not sent yet.
struct PendingParcel {
    id: String,
    bodies: VecDeque<ProfileBody>,
    dropped: usize,
    sent: usize,
    /// Lines for the user.
    reports: Vec<String>,
}

/// A tenant that cannot be a field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tenant has 1 to 150 visible ASCII characters")]
pub struct TenantError;

impl ProfileStoreTarget {
    /// A target that has sent nothing. `tenant` is sent as `X-Scope-OrgID`.
    pub fn new(
        url: ProfileStoreUrl,
        tenant: Option<String>,
        authorization: Authorization,
    ) -> Result<Self, TenantError> {
        let is_valid = |tenant: &String| (1..=150).contains(&tenant.len()) && OutgoingRequest::is_field(tenant);
        if !tenant.iter().all(is_valid) {
            return Err(TenantError);
        }
        let (before, reported) = (AllocatedBefore::default(), BTreeSet::new());
        Ok(Self { url, tenant, authorization, before, pending: None, reported })
    }

    /// The bodies of a parcel that are not sent yet.
    fn pending(&mut self, parcel: &Parcel) -> PendingParcel {
        match self.pending.take() {
            Some(pending) if pending.id == parcel.id => pending,
            // The shipper has given up on another one.
            _ => {
                let profiles = process_profile::profiles(&parcel.batch, &mut self.before);
                let bodies = bodies::bodies(self.url.kind(), &profiles).into();
                PendingParcel { id: parcel.id.clone(), bodies, dropped: 0, sent: 0, reports: Vec::new() }
            }
        }
    }

    /// Adds a line, unless it was reported before.
    fn report(&mut self, pending: &mut PendingParcel, line: String) {
        if self.reported.len() < MOST_REPORTS && self.reported.insert(line.clone()) {
            pending.reports.push(line);
        }
    }

    /// Sends the bodies that are left, until one cannot be sent now.
    fn send_rest(&mut self, pending: &mut PendingParcel) -> Result<(), SendError> {
        let authorization = self.authorization.value().map_err(|error| SendError::Refused(error.to_string()))?;
        while let Some(body) = pending.bodies.front() {
            let mut fields = vec![("Content-Type", self.url.kind().content_type())];
            if body.is_gzipped {
                fields.push(("Content-Encoding", "gzip"));
            }
            fields.extend(self.tenant.as_deref().map(|tenant| ("X-Scope-OrgID", tenant)));
            fields.extend(authorization.as_deref().map(|value| ("Authorization", value)));
            let answer = post(self.url.endpoint(), &fields, &body.bytes);
            let profiles = body.profiles;
            let name = self.url.name();
            match answer {
                Ok(Answer::Taken { reply }) => {
                    pending.sent += 1;
                    if let Some(partial) = self.url.kind().reads_replies().then(|| partial_success(&reply)).flatten() {
                        let line = match partial.rejected_profiles {
                            0 => format!("{name} took all profiles, and says: {}", partial.message),
                            count => format!("{name} refused {count} of {profiles} profiles: {}", partial.message),
                        };
                        self.report(pending, line);
                    }
                }
                Ok(Answer::Dropped { status, message }) => {
                    pending.dropped += 1;
                    let hint = self.url.kind().hint(status);
                    self.report(pending, format!("{name} refuses a request ({status}{hint}){}", after_colon(&message)));
                }
                Ok(Answer::Busy { status, retry_after, message }) => {
                    let reason = format!("{name} is busy ({status}){}", after_colon(&message));
                    return Err(SendError::Away { reason, retry_after });
                }
                Ok(Answer::Forbidden { status, message }) => {
                    let hint = self.url.kind().hint(status);
                    return Err(SendError::Refused(format!(
                        "{name} refuses all requests ({status}{hint}){}",
                        after_colon(&message)
                    )));
                }
                Err(PostError(reason)) => {
                    return Err(SendError::Away { reason: format!("{name}: {reason}"), retry_after: None });
                }
            }
            pending.bodies.pop_front();
        }
        Ok(())
    }
}

fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl ShipTarget for ProfileStoreTarget {
    fn name(&self) -> &str {
        self.url.name()
    }

    fn send(&mut self, parcel: &Parcel) -> Result<String, SendError> {
        let mut pending = self.pending(parcel);
        if let Err(error) = self.send_rest(&mut pending) {
            self.pending = Some(pending);
            return Err(error);
        }
        let line = pending.reports.join("; ");
        match (pending.dropped, pending.sent) {
            (1.., 0) => Err(SendError::Unacceptable(match line.is_empty() {
                true => format!("{} refused it for a reason that was reported", self.url.name()),
                false => line,
            })),
            _ => Ok(line),
        }
    }

    fn wants_whole_slots(&self) -> bool {
        true
    }
}
