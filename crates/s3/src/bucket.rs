//! The store of a lake, from what the user named and the environment.

use crate::listing_check::CheckingConnector;
use highwater_lake::store::protocol::StoreFailure;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, HeaderMap, HeaderValue, MultipartId, RetryConfig};
use std::cell::RefCell;
use std::ffi::OsString;
use std::time::Duration;

/// A part of an upload must arrive within this: 140 KB/s.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A store that is away is reported soon: the shipper keeps its files and tries again later.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);

/// The bucket and the lake's folder in it.
pub struct Bucket {
    /// Reads and writes.
    pub store: AmazonS3,
    /// The same with `If-None-Match: *` in every request: the library completes uploads without it, and they would replace a file.
    pub only_new: AmazonS3,
    /// The lake as the user named it.
    pub name: String,
    /// The bucket.
    pub bucket: String,
    /// The upload that is under way.
    pub upload: RefCell<Option<(Path, MultipartId)>>,
    /// The server, for messages.
    pub server: String,
    prefix: String,
}

impl Bucket {
    /// Opens `s3://BUCKET/PREFIX`. Contacts nothing.
    pub fn open(
        uri: &str,
        variable: impl Fn(&str) -> Option<String>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        instance_credentials: bool,
    ) -> Result<Self, StoreFailure> {
        let refused = |text: String| StoreFailure::Refused(format!("{uri}: {text}"));
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (bucket, prefix) = parse(uri).ok_or_else(|| refused("is not s3://BUCKET/PREFIX".into()))?;
        check_credentials(&variable, instance_credentials).map_err(refused)?;
        let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].into_iter().find_map(&variable);
        let is_http = endpoint.as_deref().is_some_and(|endpoint| endpoint.to_ascii_lowercase().starts_with("http://"));
        let allows_http = variable("AWS_ALLOW_HTTP").is_some_and(|value| is_yes(&value));
        if is_http && !allows_http {
            return Err(refused("the endpoint is http://; AWS_ALLOW_HTTP=true allows it".into()));
        }
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(&variable);
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let server = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));

        let settings: Vec<(AmazonS3ConfigKey, String)> = environment
            .filter_map(|(name, value)| {
                let name = name.into_string().ok().filter(|name| name.starts_with("AWS_"))?;
                let key = name.to_ascii_lowercase().parse().ok()?;
                Some((key, value.into_string().ok().filter(|value| !value.is_empty())?))
            })
            .collect();
        let open = |headers: HeaderMap| {
            let options = ClientOptions::new()
                .with_timeout_disabled()
                .with_connect_timeout(CONNECT_TIMEOUT)
                .with_read_timeout(READ_TIMEOUT)
                .with_user_agent(HeaderValue::from_static(concat!("highwater-s3/", env!("CARGO_PKG_VERSION"))))
                .with_default_headers(headers);
            let backoff = BackoffConfig { max_backoff: Duration::from_secs(4), ..BackoffConfig::default() };
            let retry = RetryConfig { backoff, max_retries: 4, retry_timeout: RETRY_TIMEOUT };
            let builder = AmazonS3Builder::new()
                .with_client_options(options)
                .with_retry(retry)
                .with_http_connector(CheckingConnector);
            let builder =
                settings.iter().fold(builder, |builder, (key, value)| builder.with_config(*key, value.as_str()));
            let builder = builder.with_region(&region).with_bucket_name(&bucket);
            builder.build().map_err(|error| refused(super::failure::one_line(&error)))
        };
        let mut condition = HeaderMap::new();
        condition.insert("if-none-match", HeaderValue::from_static("*"));
        let (store, only_new) = (open(HeaderMap::new())?, open(condition)?);
        let upload = RefCell::default();
        Ok(Self { store, only_new, name: uri.to_owned(), bucket, upload, server, prefix })
    }

    /// The store with its server.
    pub fn identity(&self) -> String {
        format!("{} {}/{}", self.server.trim_end_matches('/'), self.bucket, self.prefix)
    }

    /// The beginning of an object's name, for the beginning of a key.
    pub fn object_prefix(&self, key_prefix: &str) -> String {
        if self.prefix.is_empty() { key_prefix.to_owned() } else { format!("{}/{key_prefix}", self.prefix) }
    }

    /// The object of a key.
    pub fn object(&self, key: &str) -> Result<Path, StoreFailure> {
        let name = self.object_prefix(key);
        let parsed = Path::parse(&name).ok().filter(|path| path.as_ref() == name);
        parsed.ok_or_else(|| StoreFailure::Refused(format!("{}: {key}: not a path in a lake", self.name)))
    }

    /// The key of an object.
    pub fn key<'a>(&self, object: &'a Path) -> Option<&'a str> {
        let name = object.as_ref();
        if self.prefix.is_empty() { Some(name) } else { name.strip_prefix(&self.prefix)?.strip_prefix('/') }
    }
}

fn is_yes(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
}

/// Bucket and folder of `s3://BUCKET/PREFIX`.
fn parse(uri: &str) -> Option<(String, String)> {
    let rest = uri.strip_prefix("s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_bucket = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let prefix = prefix.trim_end_matches('/');
    let is_prefix = Path::parse(prefix).is_ok_and(|path| path.as_ref() == prefix);
    (!bucket.is_empty() && bucket.len() <= 255 && bucket.bytes().all(is_bucket) && is_prefix)
        .then(|| (bucket.to_owned(), prefix.to_owned()))
}

/// Without credentials the library would ask the cloud's metadata address, which answers nowhere else and can be anybody's. So that is for those who ask for it.
fn check_credentials(variable: &impl Fn(&str) -> Option<String>, instance: bool) -> Result<(), String> {
    let has = |name: &str| variable(name).is_some();
    match (has("AWS_ACCESS_KEY_ID"), has("AWS_SECRET_ACCESS_KEY")) {
        (true, true) => return Ok(()),
        (true, false) => return Err("AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not".into()),
        (false, true) => return Err("AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not".into()),
        (false, false) => {}
    }
    let is_public = variable("AWS_SKIP_SIGNATURE").is_some_and(|value| is_yes(&value));
    if instance || is_public || (has("AWS_WEB_IDENTITY_TOKEN_FILE") && has("AWS_ROLE_ARN")) {
        return Ok(());
    }
    let profile = if has("AWS_PROFILE") { " (AWS_PROFILE is not read)" } else { "" };
    Err(format!(
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY{profile}, or HIGHWATER_S3_INSTANCE_CREDENTIALS=1 for the machine's role"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lakes() {
        let parsed = |uri| parse(uri).map(|(bucket, prefix)| format!("{bucket} {prefix}"));
        assert_eq!(parsed("s3://b").as_deref(), Some("b "));
        assert_eq!(parsed("s3://b/").as_deref(), Some("b "));
        assert_eq!(parsed("s3://b/a/lake/").as_deref(), Some("b a/lake"));
        for wrong in ["s3://", "s3:///a", "s3://b//a", "s3://b/../a", "s3://b c/a", "gs://b/a", "b/a"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_counts_as_credentials() {
        let check = |set: &[(&str, &str)], instance| {
            let variable =
                |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
            check_credentials(&variable, instance)
        };
        let (id, secret) = (("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"));
        assert!(check(&[id, secret], false).is_ok());
        assert!(check(&[id], true).unwrap_err().contains("AWS_SECRET_ACCESS_KEY is not"));
        assert!(check(&[secret], false).unwrap_err().contains("AWS_ACCESS_KEY_ID is not"));
        assert!(check(&[], false).unwrap_err().starts_with("no credentials"));
        assert!(check(&[("AWS_PROFILE", "p")], false).unwrap_err().contains("AWS_PROFILE is not read"));
        assert!(check(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")], false).is_err());
        assert!(check(&[], true).is_ok());
        assert!(check(&[("AWS_SKIP_SIGNATURE", "true")], false).is_ok());
        assert!(check(&[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "r")], false).is_ok());
    }
}
