//! Which store, and where: `pyroscope+http://HOST:4040`, `otlp+https://HOST:4318`.

use highwater_http::client::{ServerUrl, UrlError};
use std::str::FromStr;

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileStoreKind {
    /// Pyroscope, and what receives for it, such as Grafana Alloy.
    Pyroscope,
    /// A receiver of OpenTelemetry's profiles.
    Otlp,
}

impl ProfileStoreKind {
    /// The kinds by the beginning of their URLs.
    const SCHEMES: [(&'static str, Self); 2] = [("pyroscope+", Self::Pyroscope), ("otlp+", Self::Otlp)];

    /// The path of requests, below the store's URL.
    fn path(self) -> &'static str {
        match self {
            Self::Pyroscope => "push.v1.PusherService/Push",
            Self::Otlp => "v1development/profiles",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Pyroscope => "application/proto",
            Self::Otlp => "application/x-protobuf",
        }
    }

    /// True if a success may be a partial one.
    pub(super) fn reads_replies(self) -> bool {
        self == Self::Otlp
    }

    /// What a user should look at.
    pub(super) fn hint(self, status: u16) -> &'static str {
        match (self, status) {
            (_, 401 | 403) => "; see HIGHWATER_AUTHORIZATION, --authorization-file and --tenant",
            (Self::Otlp, 404) => "; does its receiver take profiles?",
            (Self::Pyroscope, 404) => "; is this the address of Pyroscope?",
            (_, 413) => "; its limit for the size of a request is lower than usual",
            (_, 300..=399) => "; redirects are not followed: give the address itself",
            _ => "",
        }
    }
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileStoreUrl {
    kind: ProfileStoreKind,
    name: String,
    endpoint: ServerUrl,
}

/// Why a text is not the URL of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileStoreUrlError {
    /// It begins with something else.
    #[error(
        "the URL of a profile store begins with pyroscope+http://, pyroscope+https://, otlp+http:// or otlp+https://"
    )]
    Kind,
    /// What follows is not a URL.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// It has a query.
    #[error("the URL of a profile store has no '?'")]
    Query,
}

impl ProfileStoreUrl {
    /// True if a text is meant as the URL of a store of profiles, whether it is valid or not.
    pub fn is_meant(text: &str) -> bool {
        ProfileStoreKind::SCHEMES.iter().any(|(scheme, _)| text.starts_with(scheme))
    }

    /// The kind of the store.
    pub fn kind(&self) -> ProfileStoreKind {
        self.kind
    }

    /// As the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of requests.
    pub fn endpoint(&self) -> &ServerUrl {
        &self.endpoint
    }
}

impl FromStr for ProfileStoreUrl {
    type Err = ProfileStoreUrlError;

    fn from_str(text: &str) -> Result<Self, ProfileStoreUrlError> {
        let of_kind = |(scheme, kind): (&str, ProfileStoreKind)| text.strip_prefix(scheme).map(|url| (kind, url));
        let (kind, url) = ProfileStoreKind::SCHEMES.into_iter().find_map(of_kind).ok_or(ProfileStoreUrlError::Kind)?;
        let server: ServerUrl = url.parse()?;
        if url.contains('?') {
            return Err(ProfileStoreUrlError::Query);
        }
        // Configurations of other clients have the whole path.
        let is_whole = url.trim_end_matches('/').ends_with(kind.path());
        let endpoint = if is_whole { server } else { server.below(kind.path()) };
        Ok(Self { kind, name: text.to_owned(), endpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_the_store_and_the_address() {
        let endpoint = |text: &str| text.parse::<ProfileStoreUrl>().map(|url| url.endpoint().to_string());
        let push = "http://127.0.0.1:4040/push.v1.PusherService/Push";
        assert_eq!(endpoint("pyroscope+http://127.0.0.1:4040").as_deref(), Ok(push));
        assert_eq!(endpoint("pyroscope+http://127.0.0.1:4040/").as_deref(), Ok(push));
        assert_eq!(endpoint(&format!("pyroscope+{push}")).as_deref(), Ok(push));
        assert_eq!(
            endpoint("otlp+https://collector/base").as_deref(),
            Ok("https://collector/base/v1development/profiles")
        );
        assert_eq!(endpoint("http://host"), Err(ProfileStoreUrlError::Kind));
        assert_eq!(endpoint("otlp+ftp://host"), Err(ProfileStoreUrlError::Url(UrlError::Scheme)));
        assert_eq!(endpoint("otlp+http://user:word@host"), Err(ProfileStoreUrlError::Url(UrlError::Malformed)));
        assert_eq!(endpoint("otlp+http://host/?a=b"), Err(ProfileStoreUrlError::Query));
        assert!(ProfileStoreUrl::is_meant("otlp+") && !ProfileStoreUrl::is_meant("/lake"));
    }
}
